//! The number of documents that contain a term, by rank: flat at first, then a power law that
//! becomes steeper. A single exponent cannot give both the many lists of medium length and the
//! long tail of real text.

use super::config::{DENSEST, PostingsConfig};

/// The number of ranks at the head that are nearly equally frequent.
const SHIFT: f64 = 25.0;
/// The exponent of the head.
const EXPONENT: f64 = 0.7;
/// The rank from which on the exponent is larger by about one.
const BEND: f64 = 800.0;

fn weight(rank: f64) -> f64 {
    libm::pow(rank + SHIFT, -EXPONENT) / (1.0 + libm::pow(rank / BEND, 1.15))
}

/// Computes the share of documents that contain each term, most frequent first. The shares add up
/// to the number of postings divided by the number of documents.
pub(super) fn densities(config: &PostingsConfig) -> Vec<f64> {
    let weights: Vec<f64> = (0..config.terms).map(|rank| weight(rank as f64)).collect();
    let wanted = config.postings as f64 / config.documents as f64;
    let density = |weight: f64, factor: f64| (weight * factor).min(DENSEST);
    let (mut low, mut high) = (0.0, DENSEST / weights[weights.len() - 1]);
    for _ in 0..100 {
        let factor = (low + high) / 2.0;
        let sum: f64 = weights.iter().map(|&w| density(w, factor)).sum();
        *(if sum < wanted { &mut low } else { &mut high }) = factor;
    }
    weights.into_iter().map(|w| density(w, high)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_descend_and_add_up_to_the_postings() {
        for (documents, postings, terms) in
            [(1_000, 1, 16), (1_000, 6_000, 16), (1 << 20, 1 << 26, 300_000)]
        {
            let config = PostingsConfig { documents, postings, terms, ..PostingsConfig::default() };
            config.validate().unwrap();
            let densities = densities(&config);
            assert!(densities.is_sorted_by(|a, b| a >= b));
            let sum = densities.iter().sum::<f64>() * documents as f64;
            assert!((sum / postings as f64 - 1.0).abs() < 1e-6, "{sum}, not {postings}");
        }
    }
}

//! How many documents a term is in, by rank: flat at first, then a power law that steepens.
//! One exponent cannot give both the many middling lists of real text and its long tail.

use super::config::{DENSEST, PostingsConfig};

/// Ranks that are nearly alike at the head.
const SHIFT: f64 = 25.0;
/// Exponent of the head.
const EXPONENT: f64 = 0.7;
/// Rank from which on the law is steeper by one.
const BEND: f64 = 800.0;

fn weight(rank: f64) -> f64 {
    libm::pow(rank + SHIFT, -EXPONENT) / (1.0 + libm::pow(rank / BEND, 1.15))
}

/// The share of documents that each term is in, most frequent first; they add up to the postings over the documents.
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
    fn densities_fall_and_add_up() {
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

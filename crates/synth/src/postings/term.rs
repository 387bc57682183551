//! What a term's density comes to: in how many sites it is active, and how intense it is there.

use super::axis::Axis;
use super::config::PostingsConfig;
use crate::random::{Purpose, Random};

/// Points of the table of intensities, evenly spaced in the logarithm.
const POINTS: usize = 256;
const LEAST: f64 = 1e-6;
const MOST: f64 = 1e6;

/// How one term's postings are drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    /// How many documents it is meant to be in.
    pub(super) documents: u64,
    /// Its home.
    pub(super) topic: u32,
    /// Share of home sites it is active in.
    pub(super) at_home: f64,
    /// Share of other sites.
    pub(super) abroad: f64,
    /// Mean occurrences in a document of size 1, anywhere.
    pub(super) scattered: f64,
    /// What comes on top in active sites, on average.
    pub(super) gathered: f64,
}

/// From densities to terms.
#[derive(Debug)]
pub(super) struct Terms {
    scattered: Intensities,
    gathered: Intensities,
}

impl Terms {
    pub(super) fn new(config: &PostingsConfig) -> Self {
        // Size and unevenness multiply: the product is log-normal, too.
        let sigma = config.size_sigma();
        let both = sigma * sigma + config.unevenness * config.unevenness;
        Terms { scattered: Intensities::new(sigma), gathered: Intensities::new(libm::sqrt(both)) }
    }

    /// The term of a rank that is in this share of the documents.
    pub(super) fn term(
        &self,
        config: &PostingsConfig,
        axis: &Axis,
        rank: u32,
        density: f64,
    ) -> Term {
        let mut random = Random::stream(config.seed, Purpose::Term, u64::from(rank));
        let topic = random.below(config.topics) as u32;
        let scattered = density * config.scatter;
        // The rest falls on documents that are not hit yet.
        let rest = (density - scattered) / (1.0 - scattered);
        let inside = libm::pow(rest, config.gather).max(config.run).max(rest);
        let active = if inside > 0.0 { rest / inside } else { 0.0 };
        let home = axis.members(topic).len() as f64 / axis.sites() as f64;
        let at_home =
            if home > 0.0 { (config.loyalty * active / home).clamp(active, 1.0) } else { 0.0 };
        let abroad = if home < 1.0 { (active - at_home * home) / (1.0 - home) } else { 0.0 };
        Term {
            documents: (density * config.documents as f64) as u64,
            topic,
            at_home,
            abroad: abroad.max(0.0),
            scattered: self.scattered.of(scattered),
            gathered: self.gathered.of(inside),
        }
    }
}

/// Intensities by the share of documents that they give an occurrence.
#[derive(Debug)]
struct Intensities {
    /// The share at each point of the table.
    shares: Vec<f64>,
}

impl Intensities {
    /// For a log-normal factor of mean 1 and this deviation.
    fn new(sigma: f64) -> Self {
        Intensities { shares: (0..POINTS).map(|i| share(intensity(i as f64), sigma)).collect() }
    }

    fn of(&self, share: f64) -> f64 {
        if share < self.shares[0] {
            // So few that hardly any document is hit twice.
            return share;
        }
        let above = self.shares.partition_point(|&s| s < share).clamp(1, POINTS - 1);
        let (low, high) = (self.shares[above - 1], self.shares[above]);
        let part = if high > low { ((share - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
        intensity((above - 1) as f64 + part)
    }
}

fn intensity(point: f64) -> f64 {
    LEAST * libm::pow(MOST / LEAST, point / (POINTS - 1) as f64)
}

/// Mean of 1 - exp(-intensity * x) over a log-normal x of mean 1, by the trapezoid rule over eight standard deviations each way.
fn share(intensity: f64, sigma: f64) -> f64 {
    const STEPS: i32 = 200;
    let (mut sum, mut weights) = (0.0, 0.0);
    for step in -STEPS..=STEPS {
        let z = f64::from(step) * (8.0 / f64::from(STEPS));
        let weight = libm::exp(-z * z / 2.0);
        let x = libm::exp(sigma * z - sigma * sigma / 2.0);
        sum -= weight * libm::expm1(-intensity * x);
        weights += weight;
    }
    sum / weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intensities_give_their_share() {
        for sigma in [0.0, 1.1, 2.0] {
            let table = Intensities::new(sigma);
            for wanted in [1e-9, 1e-4, 0.01, 0.3, 0.75] {
                let got = share(table.of(wanted), sigma);
                assert!((got / wanted - 1.0).abs() < 0.01, "{got}, not {wanted}");
            }
        }
    }
}

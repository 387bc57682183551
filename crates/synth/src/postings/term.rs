//! The properties that follow from a term's density: the number of sites in which it is active,
//! and its intensity there.

use super::axis::Axis;
use super::config::PostingsConfig;
use crate::random::{Purpose, Random};

/// The number of points in the table of intensities, evenly spaced on a logarithmic scale.
const POINTS: usize = 256;
const LEAST: f64 = 1e-6;
const MOST: f64 = 1e6;

/// The parameters for drawing the postings of a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    /// Expected number of documents that contain the term.
    pub(super) documents: u64,
    /// Home topic of the term.
    pub(super) topic: u32,
    /// Share of home sites in which the term is active.
    pub(super) at_home: f64,
    /// Share of other sites in which the term is active.
    pub(super) abroad: f64,
    /// Mean number of occurrences in a document of size 1, at any site.
    pub(super) scattered: f64,
    /// Mean number of additional occurrences in active sites.
    pub(super) gathered: f64,
}

/// Computes terms from densities.
#[derive(Debug)]
pub(super) struct Terms {
    scattered: Intensities,
    gathered: Intensities,
}

impl Terms {
    pub(super) fn new(config: &PostingsConfig) -> Self {
        // Size and unevenness multiply, and the product is log-normal as well.
        let sigma = config.size_sigma();
        let both = sigma * sigma + config.unevenness * config.unevenness;
        Terms { scattered: Intensities::new(sigma), gathered: Intensities::new(libm::sqrt(both)) }
    }

    /// Returns the term with the given rank, contained in this share of the documents.
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
        // The rest falls on documents that do not contain the term yet.
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

/// Maps the share of documents with at least one occurrence to the intensity that produces it.
#[derive(Debug)]
struct Intensities {
    /// The share at each point of the table.
    shares: Vec<f64>,
}

impl Intensities {
    /// Computes the table for a log-normal factor with mean 1 and this deviation.
    fn new(sigma: f64) -> Self {
        Intensities { shares: (0..POINTS).map(|i| share(intensity(i as f64), sigma)).collect() }
    }

    fn of(&self, share: f64) -> f64 {
        if share < self.shares[0] {
            // The share is so small that hardly any document has two occurrences.
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

/// Computes the mean of 1 - exp(-intensity * x) over a log-normal x with mean 1, by the
/// trapezoidal rule over eight standard deviations on each side.
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
    fn intensities_produce_their_share() {
        for sigma in [0.0, 1.1, 2.0] {
            let table = Intensities::new(sigma);
            for wanted in [1e-9, 1e-4, 0.01, 0.3, 0.75] {
                let got = share(table.of(wanted), sigma);
                assert!((got / wanted - 1.0).abs() < 0.01, "{got}, not {wanted}");
            }
        }
    }
}

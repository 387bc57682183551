//! The axis of documents: their sizes, the sites they belong to, and the topics of the sites.

use super::config::PostingsConfig;
use crate::length::standard_normal;
use crate::random::{Purpose, Random};

/// Standard deviation of the logarithm of the number of documents in a site.
const SITE_SIGMA: f64 = 1.0;

/// Documents, sites and topics.
#[derive(Debug)]
pub(super) struct Axis {
    /// The sums of document sizes: for each document, its size plus the sizes of the documents
    /// before it in its site. The mean size is 1.
    ends: Vec<f32>,
    /// The first document of each site, followed by the number of documents.
    sites: Vec<u32>,
    /// The sum of the sizes of all documents before each site, followed by the sum of all sizes.
    starts: Vec<f64>,
    /// The topic of each site.
    topics: Vec<u32>,
    /// The sites of each topic.
    members: Vec<Vec<u32>>,
}

impl Axis {
    pub(super) fn new(config: &PostingsConfig, threads: usize) -> Self {
        let (mut sites, mut topics) = (Vec::new(), Vec::new());
        let mut members = vec![Vec::new(); config.topics as usize];
        let mut first = 0;
        while first < config.documents {
            let site = sites.len() as u32;
            let mut random = Random::stream(config.seed, Purpose::Site, u64::from(site));
            let spread = SITE_SIGMA * standard_normal(&mut random) - SITE_SIGMA * SITE_SIGMA / 2.0;
            let topic = random.below(config.topics) as u32;
            sites.push(first as u32);
            topics.push(topic);
            members[topic as usize].push(site);
            first += (libm::round(config.site * libm::exp(spread)) as u64).max(1);
        }
        sites.push(config.documents as u32);
        let ends = sizes(config, &sites, threads);
        let mut starts = vec![0.0];
        for (site, &next) in sites[1..].iter().enumerate() {
            starts.push(starts[site] + f64::from(ends[next as usize - 1]));
        }
        Axis { ends, sites, starts, topics, members }
    }

    pub(super) fn sites(&self) -> usize {
        self.topics.len()
    }

    pub(super) fn topic(&self, site: usize) -> u32 {
        self.topics[site]
    }

    /// Returns the sites of a topic, in ascending order.
    pub(super) fn members(&self, topic: u32) -> &[u32] {
        &self.members[topic as usize]
    }

    /// Returns the sum of the sizes of all documents before a site, or of all documents for the
    /// site after the last.
    pub(super) fn start(&self, site: usize) -> f64 {
        self.starts[site]
    }

    /// Returns the site that contains a point, searching from site `from`, or the number of sites
    /// if the point is past the end.
    pub(super) fn find(&self, from: usize, point: f64) -> usize {
        // The search gallops, because the site is usually close.
        let (starts, mut step) = (&self.starts[from + 1..], 1);
        while starts.get(step - 1).is_some_and(|&start| start <= point) {
            step *= 2;
        }
        let (low, high) = (step / 2, step.min(starts.len()));
        from + low + starts[low..high].partition_point(|&start| start <= point)
    }

    /// Returns the first document of a site, and the ends of its documents.
    pub(super) fn site(&self, site: usize) -> (u32, &[f32]) {
        let (first, next) = (self.sites[site], self.sites[site + 1]);
        (first, &self.ends[first as usize..next as usize])
    }
}

/// Computes the sizes of all documents, summed up within each site. Each site has its own random
/// stream, so the sizes do not depend on the number of threads.
fn sizes(config: &PostingsConfig, sites: &[u32], threads: usize) -> Vec<f32> {
    let mut ends = vec![0f32; config.documents as usize];
    let share = (sites.len() - 1).div_ceil(threads.max(1));
    std::thread::scope(|scope| {
        let mut rest = &mut ends[..];
        for (i, bounds) in sites[..sites.len() - 1].chunks(share).enumerate() {
            let start = i * share;
            let last = sites[start + bounds.len()];
            let (part, after) = rest.split_at_mut((last - bounds[0]) as usize);
            rest = after;
            scope.spawn(move || fill(config, &sites[start..=start + bounds.len()], start, part));
        }
    });
    ends
}

fn fill(config: &PostingsConfig, sites: &[u32], number: usize, mut ends: &mut [f32]) {
    let sigma = config.size_sigma();
    for (i, site) in sites.windows(2).enumerate() {
        let mut random = Random::stream(config.seed, Purpose::Size, (number + i) as u64);
        let (own, after) = ends.split_at_mut((site[1] - site[0]) as usize);
        let mut sum = 0.0;
        for end in own {
            sum += libm::exp(sigma * standard_normal(&mut random) - sigma * sigma / 2.0);
            *end = sum as f32;
        }
        ends = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_found_from_any_earlier_site() {
        let config = PostingsConfig { documents: 3_000, ..PostingsConfig::default() };
        let axis = Axis::new(&config, 3);
        for site in 0..axis.sites() {
            for (point, wanted) in [(axis.start(site), site), (axis.start(site + 1), site + 1)] {
                for from in [0, site / 2, site] {
                    assert_eq!(axis.find(from, point), wanted, "from {from}");
                }
            }
            assert_eq!(axis.find(site, f64::INFINITY), axis.sites());
            assert!(axis.members(axis.topic(site)).contains(&(site as u32)));
        }
    }
}

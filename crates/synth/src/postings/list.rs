//! Drawing of lists.

use std::ops::Range;

use super::axis::Axis;
use super::config::PostingsConfig;
use super::law::densities;
use super::term::{Term, Terms};
use crate::error::SynthError;
use crate::length::standard_normal;
use crate::random::{Purpose, Random};

/// The scale of frequencies where a term is not active, the amount that an active site adds per
/// unit of intensity, and the intensity at which this is capped. All three were fitted, as were the
/// default settings.
const CALM: f64 = 0.8;
const EAGER: f64 = 0.75;
const MOST_EAGER: f64 = 3.0;

/// A generator of lists, in any order.
#[derive(Debug)]
pub struct PostingsGenerator {
    config: PostingsConfig,
    axis: Axis,
    terms: Vec<Term>,
    /// The highest frequency in a document of size 1, so that no document repeats a word more often
    /// than its length allows.
    most: f64,
}

impl PostingsGenerator {
    /// Lays out documents and terms.
    ///
    /// # Errors
    /// Fails if a setting is outside its range.
    pub fn new(config: PostingsConfig, threads: usize) -> Result<Self, SynthError> {
        config.validate()?;
        let axis = Axis::new(&config, threads);
        let table = Terms::new(&config);
        let term = |(density, rank)| table.term(&config, &axis, rank, density);
        let terms = densities(&config).into_iter().zip(0..).map(term).collect();
        let most = config.postings as f64 / config.documents as f64;
        Ok(PostingsGenerator { config, axis, terms, most })
    }

    /// Returns the settings.
    pub fn config(&self) -> &PostingsConfig {
        &self.config
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u32 {
        // The settings were validated.
        self.config.documents as u32
    }

    /// Returns the number of terms, which is one more than the largest rank.
    pub fn terms(&self) -> u32 {
        self.terms.len() as u32
    }

    /// Returns the approximate number of postings in the list of a rank.
    pub fn expected(&self, rank: u32) -> u64 {
        self.terms[rank as usize].documents
    }

    /// Returns the home topic of a term.
    pub(super) fn topic(&self, rank: u32) -> u32 {
        self.terms[rank as usize].topic
    }

    /// Appends the postings of the term with the given rank: documents, in ascending order, and
    /// frequencies. It may append none.
    pub fn list(&self, rank: u32, out: &mut Vec<(u32, u32)>) {
        let mut random = Random::stream(self.config.seed, Purpose::List, u64::from(rank));
        let term = &self.terms[rank as usize];
        let members = self.axis.members(term.topic);
        let mut home = Walk::new(term.at_home, members.len());
        let mut abroad = Walk::new(term.abroad, self.axis.sites());
        let mut next_home = home.next(&mut random);
        let mut next_abroad = abroad.next(&mut random);
        let mut done = 0;
        loop {
            let at_home = next_home.map_or(self.axis.sites(), |i| members[i] as usize);
            let site = next_abroad.unwrap_or(self.axis.sites()).min(at_home);
            if site == self.axis.sites() {
                break;
            }
            // Home sites are covered by the other walk.
            let active = site == at_home || self.axis.topic(site) != term.topic;
            if site == at_home {
                next_home = home.next(&mut random);
            }
            if next_abroad == Some(site) {
                next_abroad = abroad.next(&mut random);
            }
            if active {
                self.scatter(done..site, term.scattered, &mut random, out);
                self.gather(site, term, &mut random, out);
                done = site + 1;
            }
        }
        self.scatter(done..self.axis.sites(), term.scattered, &mut random, out);
    }

    /// Draws the postings in sites where the term is not active. Occurrences are a Poisson process
    /// along the documents laid end to end. The process is memoryless, so after a document that
    /// contains the term it restarts at the next document.
    fn scatter(
        &self,
        sites: Range<usize>,
        intensity: f64,
        random: &mut Random,
        out: &mut Vec<(u32, u32)>,
    ) {
        if sites.is_empty() || intensity <= 0.0 {
            return;
        }
        let (mut site, mut point) = (sites.start, self.axis.start(sites.start));
        // The first document of the site that may come next, because the distance drawn may be too
        // short to change the rounded sum.
        let mut least = 0;
        loop {
            point += wait(intensity, random);
            let found = self.axis.find(site, point);
            if found != site {
                (site, least) = (found, 0);
            }
            if site >= sites.end {
                return;
            }
            let ((first, ends), start) = (self.axis.site(site), self.axis.start(site));
            // Sums are rounded, so a point at the very end of a site still belongs to its last
            // document.
            let document = least + skip_to(&ends[least..], point - start);
            let document = document.min(ends.len() - 1);
            out.push((first + document as u32, self.frequency(CALM, size(ends, document), random)));
            point = start + f64::from(ends[document]);
            least = document + 1;
            if least == ends.len() {
                (site, least) = (site + 1, 0);
                if site == sites.end {
                    return;
                }
                point = self.axis.start(site);
            }
        }
    }

    /// Draws the postings in an active site, in the same way.
    fn gather(&self, site: usize, term: &Term, random: &mut Random, out: &mut Vec<(u32, u32)>) {
        let (first, ends) = self.axis.site(site);
        let unevenness = self.config.unevenness;
        let spread =
            libm::exp(unevenness * standard_normal(random) - unevenness * unevenness / 2.0);
        let intensity = term.scattered + term.gathered * spread;
        let eagerness = CALM + EAGER * intensity.min(MOST_EAGER);
        let (mut point, mut document) = (0.0, 0);
        while document < ends.len() {
            point += wait(intensity, random);
            document += skip_to(&ends[document..], point);
            let Some(&end) = ends.get(document) else { return };
            let size = size(ends, document);
            out.push((first + document as u32, self.frequency(eagerness, size, random)));
            point = f64::from(end);
            document += 1;
        }
    }

    /// Draws a frequency: 1 plus a burst, which follows a power law (Lomax) whose scale grows with
    /// the size of the document and with the intensity of the term in its site.
    fn frequency(&self, eagerness: f64, size: f64, random: &mut Random) -> u32 {
        // The exponent is 6. The sixth root is computed from roots that are exact on every machine.
        let tail = 1.0 / libm::sqrt(libm::cbrt(1.0 - random.unit())) - 1.0;
        let more = self.config.burst * eagerness * libm::sqrt(size) * tail;
        1 + more.min(self.most * size) as u32
    }
}

/// Draws the distance to the next occurrence.
fn wait(intensity: f64, random: &mut Random) -> f64 {
    -libm::log(1.0 - random.unit()) / intensity
}

/// Returns the size of a document of a site.
fn size(ends: &[f32], document: usize) -> f64 {
    let start = if document == 0 { 0.0 } else { ends[document - 1] };
    f64::from(ends[document]) - f64::from(start)
}

/// Returns the number of documents that end at or before a point.
fn skip_to(ends: &[f32], at: f64) -> usize {
    ends.partition_point(|&end| f64::from(end) <= at)
}

/// Selects each of `len` items with the same probability, by drawing how many to skip.
struct Walk {
    next: usize,
    len: usize,
    /// The logarithm of the probability of skipping an item.
    log_skip: f64,
}

impl Walk {
    fn new(probability: f64, len: usize) -> Self {
        Walk { next: 0, len, log_skip: libm::log1p(-probability.min(1.0)) }
    }

    fn next(&mut self, random: &mut Random) -> Option<usize> {
        if self.log_skip < 0.0 {
            // The cast saturates, so the end is never passed.
            let skip = libm::log(1.0 - random.unit()) / self.log_skip;
            let at = self.next.saturating_add(skip as usize);
            self.next = at.saturating_add(1);
            (at < self.len).then_some(at)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances that vanish when added still advance to the next document.
    #[test]
    fn no_document_is_drawn_twice_however_dense_the_list() {
        let config =
            PostingsConfig { documents: 20_000, postings: 100, ..PostingsConfig::default() };
        let generator = PostingsGenerator::new(config, 1).unwrap();
        let mut random = Random::stream(0, Purpose::List, 0);
        let (mut list, sites) = (Vec::new(), generator.axis.sites());
        generator.scatter(0..sites, 1e15, &mut random, &mut list);
        assert!(list.iter().map(|posting| posting.0).eq(0..20_000));
    }
}

//! The draw of a list.

use std::ops::Range;

use super::axis::Axis;
use super::config::PostingsConfig;
use super::law::densities;
use super::term::{Term, Terms};
use crate::error::SynthError;
use crate::length::standard_normal;
use crate::random::{Purpose, Random};

/// What frequencies scale with where a term is not active, what an active site adds for its intensity, and up to which intensity: fitted, as
/// are the defaults of the settings.
const CALM: f64 = 0.8;
const EAGER: f64 = 0.75;
const MOST_EAGER: f64 = 3.0;

/// Makes lists, any of them at any time.
#[derive(Debug)]
pub struct PostingsGenerator {
    config: PostingsConfig,
    axis: Axis,
    terms: Vec<Term>,
    /// Highest frequency in a document of size 1: no document repeats a word more than it has room for.
    most: f64,
}

impl PostingsGenerator {
    /// Lays out documents and terms.
    ///
    /// # Errors
    /// A setting outside its range.
    pub fn new(config: PostingsConfig, threads: usize) -> Result<Self, SynthError> {
        config.validate()?;
        let axis = Axis::new(&config, threads);
        let table = Terms::new(&config);
        let term = |(density, rank)| table.term(&config, &axis, rank, density);
        let terms = densities(&config).into_iter().zip(0..).map(term).collect();
        let most = config.postings as f64 / config.documents as f64;
        Ok(PostingsGenerator { config, axis, terms, most })
    }

    /// The settings.
    pub fn config(&self) -> &PostingsConfig {
        &self.config
    }

    /// Number of documents.
    pub fn documents(&self) -> u32 {
        // The settings were checked.
        self.config.documents as u32
    }

    /// Number of terms; ranks are below.
    pub fn terms(&self) -> u32 {
        self.terms.len() as u32
    }

    /// Roughly how many postings the list of a rank has.
    pub fn expected(&self, rank: u32) -> u64 {
        self.terms[rank as usize].documents
    }

    /// The home of a term.
    pub(super) fn topic(&self, rank: u32) -> u32 {
        self.terms[rank as usize].topic
    }

    /// Appends the postings of the term of a rank: documents, ascending, and frequencies. May append none.
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
            // Home sites have a walk of their own.
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

    /// Draws the postings in sites where the term is not active. Occurrences are a Poisson process along the documents laid end to
    /// end. It has no memory, so after a document that has the term it starts anew at the next.
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
        // The first document of the site that may come next: a wait can be too short to show in the sum.
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
            // Sums are rounded: a point at the very end of a site still belongs to its last document.
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

    /// A frequency: 1 and what a burst adds, by a power law (Lomax) whose scale grows with the document and with what its site
    /// makes of the term.
    fn frequency(&self, eagerness: f64, size: f64, random: &mut Random) -> u32 {
        // An exponent of 6: the sixth root by roots that are exact on every machine.
        let tail = 1.0 / libm::sqrt(libm::cbrt(1.0 - random.unit())) - 1.0;
        let more = self.config.burst * eagerness * libm::sqrt(size) * tail;
        1 + more.min(self.most * size) as u32
    }
}

/// How far it is to the next occurrence.
fn wait(intensity: f64, random: &mut Random) -> f64 {
    -libm::log(1.0 - random.unit()) / intensity
}

/// Size of a document of a site.
fn size(ends: &[f32], document: usize) -> f64 {
    let start = if document == 0 { 0.0 } else { ends[document - 1] };
    f64::from(ends[document]) - f64::from(start)
}

/// How many documents end before a point.
fn skip_to(ends: &[f32], at: f64) -> usize {
    ends.partition_point(|&end| f64::from(end) <= at)
}

/// Picks each of some things with the same probability, by drawing how many to leave out.
struct Walk {
    next: usize,
    len: usize,
    /// Logarithm of the probability to leave one out.
    log_skip: f64,
}

impl Walk {
    fn new(probability: f64, len: usize) -> Self {
        Walk { next: 0, len, log_skip: libm::log1p(-probability.min(1.0)) }
    }

    fn next(&mut self, random: &mut Random) -> Option<usize> {
        if self.log_skip < 0.0 {
            // The cast saturates, and nothing is beyond the end.
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

    /// Waits that vanish in the sums still lead on to the next document.
    #[test]
    fn no_document_comes_twice_however_dense() {
        let config =
            PostingsConfig { documents: 20_000, postings: 100, ..PostingsConfig::default() };
        let generator = PostingsGenerator::new(config, 1).unwrap();
        let mut random = Random::stream(0, Purpose::List, 0);
        let (mut list, sites) = (Vec::new(), generator.axis.sites());
        generator.scatter(0..sites, 1e15, &mut random, &mut list);
        assert!(list.iter().map(|posting| posting.0).eq(0..20_000));
    }
}

//! Settings of synthetic posting lists.

use std::fmt;
use std::str::FromStr;

use crate::error::{SynthError, check_count, check_real};

/// Most terms: what their spelling and the tables of queries can hold at ease.
const MAX_TERMS: u64 = 10_000_000;

/// Fewest terms: the longest query must find different ones.
const MIN_TERMS: u64 = 16;

/// Most documents an index holds.
const MAX_DOCUMENTS: u64 = u32::MAX as u64 - 1;

/// Most documents a list is in, as a share: what analyzers leave of stop words.
pub(super) const DENSEST: f64 = 0.75;

/// Queries with 2, 3, 4, 5 and 6 different words in the log of the TREC Terabyte track 2005, of 1,000 with one word or more.
const TERABYTE: [f64; 5] = [306.0, 213.0, 138.0, 60.0, 43.0];

/// The same in the log of the TREC Million Query track 2007, of 2,000.
const MILLION: [f64; 5] = [304.0, 480.0, 472.0, 356.0, 188.0];

/// Collections to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// TREC GOV2: 25.2 million web pages of uneven length, in the order of their addresses.
    Gov2,
    /// ClueWeb09 B: 50.2 million web pages.
    Clueweb,
    /// MS MARCO: 8.8 million passages of nearly the same length.
    Passages,
}

impl Preset {
    /// Names that `FromStr` takes.
    pub const NAMES: [&'static str; 3] = ["gov2", "clueweb", "passages"];

    /// Its settings.
    #[must_use]
    pub fn config(self) -> PostingsConfig {
        match self {
            Preset::Gov2 => PostingsConfig::default(),
            Preset::Clueweb => PostingsConfig {
                documents: 50_200_000,
                postings: 2_000_000_000,
                query_shares: MILLION,
                ..PostingsConfig::default()
            },
            Preset::Passages => PostingsConfig {
                documents: 8_800_000,
                postings: 260_000_000,
                sigma: 0.2,
                query_shares: MILLION,
                ..PostingsConfig::default()
            },
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize])
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "gov2" => Ok(Preset::Gov2),
            "clueweb" => Ok(Preset::Clueweb),
            "passages" => Ok(Preset::Passages),
            _ => Err(format!("no preset `{name}`; there are: {}", Self::NAMES.join(", "))),
        }
    }
}

/// Settings of lists and their queries. What says how postings gather was fitted to a real index (docs/synth.md).
#[derive(Debug, Clone, PartialEq)]
pub struct PostingsConfig {
    /// Names the lists: the same settings and seed give the same postings. Default 0.
    pub seed: u64,
    /// Documents. Default 25,200,000.
    pub documents: u64,
    /// Postings to aim for; what comes out lies within a few percent. Default 1,000,000,000.
    pub postings: u64,
    /// Terms, 16 to 10,000,000; those whose list comes out empty are left out. More give more short lists. Default 300,000.
    pub terms: u64,
    /// Standard deviation of the logarithm of documents' lengths, 0 (all alike, but for chance) to 3. Default 1.1 (document W).
    pub sigma: f64,
    /// Mean documents of a site, 1 (nothing gathers) to 1,000,000. Default 16.
    pub site: f64,
    /// Topics, 1 to 65,536. More make terms of one topic meet in fewer documents. Default 256.
    pub topics: u64,
    /// Share of a term's sites that lie in its home topic, where that has enough, 0 to 1. More makes terms of a topic meet more often. Default 0.4.
    pub loyalty: f64,
    /// Share of a term's postings that lie anywhere, 0 to 1; the others gather in its active sites. Default 0.3.
    pub scatter: f64,
    /// How a density d splits: active sites have d^gather of their documents with the term, 0 (full sites, few) to 1 (no sites). Default 0.4.
    pub gather: f64,
    /// Least density inside active sites, 0 to 1: rare terms still come in runs. Default 0.2.
    pub run: f64,
    /// Standard deviation of the logarithm of a site's intensity, 0 to 3. More makes gaps more uneven. Default 1.3.
    pub unevenness: f64,
    /// Scale of frequencies beyond the first, 0 (all are 1) to 100. Default 3.
    pub burst: f64,
    /// Queries in the log. Default 10,000.
    pub queries: u64,
    /// Weights of queries with 2, 3, 4, 5 and 6 terms. Default: the TREC Terabyte log of 2005.
    pub query_shares: [f64; 5],
    /// Mean postings of a query over the documents: terms are drawn by a power of their length that gives this mean. Default 0.1484, which
    /// is 3.74 of 25.2 million.
    pub query_postings: f64,
}

impl Default for PostingsConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            documents: 25_200_000,
            postings: 1_000_000_000,
            terms: 300_000,
            sigma: 1.1,
            site: 16.0,
            topics: 256,
            loyalty: 0.4,
            scatter: 0.3,
            gather: 0.4,
            run: 0.2,
            unevenness: 1.3,
            burst: 3.0,
            queries: 10_000,
            query_shares: TERABYTE,
            query_postings: 3.74 / 25.2,
        }
    }
}

impl PostingsConfig {
    /// Standard deviation of the logarithm of documents' sizes. Size is what draws terms to a document; it varies less than length,
    /// because frequencies grow with it, too.
    pub(super) fn size_sigma(&self) -> f64 {
        self.sigma * 0.85
    }

    /// The same collection with so many documents: postings change in proportion.
    #[must_use]
    pub fn with_documents(mut self, documents: u64) -> Self {
        let per_document = self.postings as f64 / self.documents as f64;
        self.postings = (per_document * documents as f64) as u64;
        self.documents = documents;
        self
    }

    /// Checks every field.
    ///
    /// # Errors
    /// The first field found outside its range.
    pub fn validate(&self) -> Result<(), SynthError> {
        check_count("documents", self.documents, 1, MAX_DOCUMENTS)?;
        check_count("terms", self.terms, MIN_TERMS, MAX_TERMS)?;
        // Half of what fits: beyond that the law of lengths would be flat.
        let room = DENSEST / 2.0 * self.documents as f64 * self.terms as f64;
        check_count("postings", self.postings, 1, room as u64)?;
        check_real("sigma", self.sigma, 0.0, 3.0)?;
        check_real("site", self.site, 1.0, 1e6)?;
        check_count("topics", self.topics, 1, 65_536)?;
        check_real("loyalty", self.loyalty, 0.0, 1.0)?;
        check_real("scatter", self.scatter, 0.0, 1.0)?;
        check_real("gather", self.gather, 0.0, 1.0)?;
        check_real("run", self.run, 0.0, 1.0)?;
        check_real("unevenness", self.unevenness, 0.0, 3.0)?;
        check_real("burst", self.burst, 0.0, 100.0)?;
        for share in self.query_shares {
            check_real("query_shares", share, 0.0, 1e9)?;
        }
        check_real("query_shares", self.query_shares.iter().sum(), 1e-9, 1e10)?;
        check_real("query_postings", self.query_postings, 0.0, 6.0)
    }
}

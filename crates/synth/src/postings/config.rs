//! Settings of synthetic posting lists.

use std::fmt;
use std::str::FromStr;

use crate::error::{SynthError, check_count, check_real};

/// The largest number of terms, limited by their spelling and the tables for queries.
const MAX_TERMS: u64 = 10_000_000;

/// The smallest number of terms: the longest query needs distinct ones.
const MIN_TERMS: u64 = 16;

/// The largest number of documents in an index.
const MAX_DOCUMENTS: u64 = u32::MAX as u64 - 1;

/// The largest share of documents that a list contains; terms above it would be removed as stop
/// words by an analyzer.
pub(super) const DENSEST: f64 = 0.75;

/// The numbers of queries with 2, 3, 4, 5 and 6 distinct words in the log of the TREC Terabyte
/// track 2005, out of 1,000 queries with at least one word.
const TERABYTE: [f64; 5] = [306.0, 213.0, 138.0, 60.0, 43.0];

/// The corresponding numbers for the log of the TREC Million Query track 2007, out of 2,000
/// queries.
const MILLION: [f64; 5] = [304.0, 480.0, 472.0, 356.0, 188.0];

/// Collections that can be imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// TREC GOV2: 25.2 million web pages of uneven length, ordered by URL.
    Gov2,
    /// ClueWeb09 B: 50.2 million web pages.
    Clueweb,
    /// MS MARCO: 8.8 million passages of almost equal length.
    Passages,
}

impl Preset {
    /// The names that `FromStr` accepts.
    pub const NAMES: [&'static str; 3] = ["gov2", "clueweb", "passages"];

    /// Returns the settings of the preset.
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
            _ => Err(format!("no preset `{name}`; the presets are: {}", Self::NAMES.join(", "))),
        }
    }
}

/// Settings of lists and their queries. The settings that control clustering were fitted to a real
/// index (docs/measurements/synth.md).
#[derive(Debug, Clone, PartialEq)]
pub struct PostingsConfig {
    /// Seed of the lists: the same settings and seed give the same postings. Default 0.
    pub seed: u64,
    /// The number of documents. Default 25,200,000.
    pub documents: u64,
    /// The desired number of postings; the actual number is within a few percent of it. Default
    /// 1,000,000,000.
    pub postings: u64,
    /// The number of terms, 16 to 10,000,000; terms whose list turns out empty are left out. More
    /// terms give more short lists. Default 300,000.
    pub terms: u64,
    /// Standard deviation of the logarithm of document lengths, 0 (all equally long, except for
    /// chance) to 3. Default 1.1 (Wakatsuki 2016).
    pub sigma: f64,
    /// The mean number of documents in a site, 1 (no clustering) to 1,000,000. Default 16.
    pub site: f64,
    /// The number of topics, 1 to 65,536. With more topics, terms of the same topic occur together
    /// in fewer documents. Default 256.
    pub topics: u64,
    /// The share of a term's sites that belong to its home topic, if that has enough sites, 0 to 1.
    /// A larger share makes terms of the same topic occur together more often. Default 0.4.
    pub loyalty: f64,
    /// The share of a term's postings that are spread over all sites, 0 to 1; the others are in its
    /// active sites. Default 0.3.
    pub scatter: f64,
    /// Exponent of the density d of a term in active sites, where a share of d^gather of the
    /// documents contain the term: 0 means few, full sites and 1 means no clustering. Default
    /// 0.4.
    pub gather: f64,
    /// The smallest density inside active sites, 0 to 1, so that rare terms still occur in runs.
    /// Default 0.2.
    pub run: f64,
    /// Standard deviation of the logarithm of a site's intensity, 0 to 3. A larger value makes gaps
    /// more uneven. Default 1.3.
    pub unevenness: f64,
    /// Scale of the part of frequencies above 1, 0 (all frequencies are 1) to 100. Default 3.
    pub burst: f64,
    /// The number of queries in the log. Default 10,000.
    pub queries: u64,
    /// Weights of queries with 2, 3, 4, 5 and 6 terms. Default: the log of the TREC Terabyte track
    /// 2005.
    pub query_shares: [f64; 5],
    /// The mean number of postings of a query, divided by the number of documents. Terms are drawn
    /// with probabilities proportional to a power of their list lengths, chosen to give this mean.
    /// Default 0.1484, which is 3.74 of 25.2 million.
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
    /// Returns the standard deviation of the logarithm of document sizes. The size determines how
    /// many terms a document attracts. It varies less than the length, because frequencies grow
    /// with it as well.
    pub(super) fn size_sigma(&self) -> f64 {
        self.sigma * 0.85
    }

    /// Returns the settings for a different number of documents; the number of postings changes
    /// in proportion.
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
    /// Returns the first field that is outside its range.
    pub fn validate(&self) -> Result<(), SynthError> {
        check_count("documents", self.documents, 1, MAX_DOCUMENTS)?;
        check_count("terms", self.terms, MIN_TERMS, MAX_TERMS)?;
        // The limit is half of the number that fits; with more postings, the law of list lengths
        // would be flat.
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

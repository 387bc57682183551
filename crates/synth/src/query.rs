//! A query log for a collection.
//!
//! The terms of a query come from one random document, so that they occur together somewhere, and
//! from a band of ranks, so that a query contains neither function words nor words of a single
//! document. Within the band, the probability of a term is that among the distinct words of
//! documents, so frequent words occur in more queries, as in real logs.

use crate::config::TextConfig;
use crate::document::TextGenerator;
use crate::error::{SynthError, check_count};
use crate::format::write_sentence;
use crate::random::{Purpose, Random};

/// The largest number of terms in a query. Longer queries would be documents, and filling them
/// takes quadratic time.
const MAX_TERMS: u64 = 1_024;

/// The number of documents that are searched for one with enough words in the band. After that,
/// arbitrary words of the band are added.
const TRIES: u32 = 32;

/// Settings of a query log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// Seed of the log; a collection can have many logs. Default 0.
    pub seed: u64,
    /// The number of queries in the log. Query `i` does not depend on it. Default 1,000.
    pub count: u64,
    /// The smallest number of terms in a query, 1 to 1,024. Default 2.
    pub min_terms: u32,
    /// The largest number of terms in a query, at most 1,024; all numbers of terms are equally
    /// likely. The work for a query grows faster than its number of terms, which a benchmark may
    /// want to show. Default 5.
    pub max_terms: u32,
    /// The first rank that queries use. Lower ranks admit words that nearly every document
    /// contains. Default 50.
    pub first_rank: u32,
    /// The first rank that queries do not use; the band also ends with the vocabulary. Higher ranks
    /// admit words that hardly any document contains. Default 50,000.
    pub end_rank: u32,
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self { seed: 0, count: 1_000, min_terms: 2, max_terms: 5, first_rank: 50, end_rank: 50_000 }
    }
}

impl QueryConfig {
    /// Checks every field, and that the band has enough words of the collection's vocabulary.
    ///
    /// # Errors Returns the first problem in the collection's settings or in these settings.
    pub fn validate(&self, text: &TextConfig) -> Result<(), SynthError> {
        text.validate()?;
        check_count("documents", text.documents, 1, u64::MAX)?;
        let (min_terms, max_terms) = (u64::from(self.min_terms), u64::from(self.max_terms));
        check_count("min_terms", min_terms, 1, MAX_TERMS)?;
        check_count("max_terms", max_terms, min_terms, MAX_TERMS)?;
        let band = self.band(text);
        if band.words < self.max_terms {
            return Err(SynthError::QueryBand {
                first_rank: self.first_rank,
                end_rank: self.end_rank,
                words: band.words,
                max_terms: self.max_terms,
            });
        }
        Ok(())
    }

    fn band(&self, text: &TextConfig) -> Band {
        let end = u64::from(self.end_rank).min(text.vocabulary) as u32;
        Band { first: self.first_rank, words: end.saturating_sub(self.first_rank) }
    }
}

/// The ranks from which queries are drawn.
#[derive(Debug, Clone, Copy)]
struct Band {
    first: u32,
    words: u32,
}

impl Band {
    fn contains(self, rank: u32) -> bool {
        rank >= self.first && rank - self.first < self.words
    }
}

/// Generates the queries of a log, each consisting of distinct terms separated by single spaces.
///
/// If the documents of the collection have too few words in the band, arbitrary words of the band
/// are added. Such a query may match no document with all its terms.
///
/// # Errors
/// Fails if a setting is outside its range; see [`QueryConfig::validate`].
pub fn queries(text: &TextConfig, config: &QueryConfig) -> Result<Vec<String>, SynthError> {
    config.validate(text)?;
    let generator = TextGenerator::new(text.clone())?;
    let mut ranks = Vec::new();
    let query = |ordinal| {
        // Combine both seeds, so that each of them matters.
        let seed = text.seed ^ config.seed.rotate_left(32);
        let mut random = Random::stream(seed, Purpose::Query, ordinal);
        draw_terms(&generator, config, &mut random, &mut ranks);
        let mut out = Vec::new();
        write_sentence(&ranks, &mut out);
        out.into_iter().map(char::from).collect()
    };
    Ok((0..config.count).map(query).collect())
}

/// Replaces the contents of `ranks` with the terms of one query.
fn draw_terms(
    generator: &TextGenerator,
    config: &QueryConfig,
    random: &mut Random,
    ranks: &mut Vec<u32>,
) {
    let band = config.band(generator.config());
    let choices = u64::from(config.max_terms - config.min_terms) + 1;
    let terms = config.min_terms as usize + random.below(choices) as usize;
    for _ in 0..TRIES {
        generator.document(random.below(generator.config().documents), ranks);
        ranks.retain(|&rank| band.contains(rank));
        ranks.sort_unstable();
        ranks.dedup();
        if ranks.len() >= terms {
            break;
        }
    }
    // Fisher-Yates: the first terms of a shuffle are a sample without repetition.
    for position in 0..terms.min(ranks.len()) {
        let left = (ranks.len() - position) as u64;
        ranks.swap(position, position + random.below(left) as usize);
    }
    ranks.truncate(terms);
    fill(band, terms, random, ranks);
}

/// Adds words of the band until there are `terms`, which must not exceed the number of words in the
/// band.
fn fill(band: Band, terms: usize, random: &mut Random, ranks: &mut Vec<u32>) {
    while ranks.len() < terms {
        let mut offset = random.below(u64::from(band.words)) as u32;
        // Skip words that are already taken; the band has enough words, so the loop ends.
        while ranks.contains(&(band.first + offset)) {
            offset = if offset + 1 == band.words { 0 } else { offset + 1 };
        }
        ranks.push(band.first + offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_can_take_every_word_of_the_band_once() {
        let band = Band { first: 7, words: 5 };
        let mut ranks = vec![9];
        fill(band, 5, &mut Random::stream(0, Purpose::Query, 0), &mut ranks);
        ranks.sort_unstable();
        assert_eq!(ranks, [7, 8, 9, 10, 11]);
    }
}

//! Documents as sequences of word ranks.

use crate::config::TextConfig;
use crate::error::SynthError;
use crate::length;
use crate::random::{Purpose, Random};
use crate::zipf::Zipf;

/// The number of words after which a document repeats itself half as often as a very long one does:
/// there is little to repeat at the beginning.
const BURST_ONSET: f64 = 20.0;

/// A generator of the documents of a collection, in any order and from any number of threads.
#[derive(Debug, Clone)]
pub struct TextGenerator {
    config: TextConfig,
    zipf: Zipf,
}

impl TextGenerator {
    /// Creates a generator for a collection.
    ///
    /// # Errors
    /// Fails if a setting is outside its range; see [`TextConfig::validate`].
    pub fn new(config: TextConfig) -> Result<Self, SynthError> {
        config.validate()?;
        let zipf = Zipf::new(&config);
        Ok(Self { config, zipf })
    }

    /// Returns the settings of the collection.
    #[must_use]
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// Replaces the contents of `out` with the word ranks of a document, at least one, where 0 is
    /// the most frequent word. The result depends only on the settings and the ordinal. Ordinals
    /// from `documents` on give the documents that a larger collection would contain.
    ///
    /// Repetition follows a cache model similar to a Pólya urn: with probability `burst * n / (n +
    /// 20)`, word `n` (counted from 0) is a copy of an earlier word, chosen uniformly. Each copy
    /// makes the next one more likely, and the distribution of each single word still follows the
    /// frequency law.
    pub fn document(&self, ordinal: u64, out: &mut Vec<u32>) {
        let mut random = Random::stream(self.config.seed, Purpose::Document, ordinal);
        let length = length::draw(&self.config, &mut random);
        out.clear();
        for position in 0..length {
            let rank = match self.repeated(position, &mut random) {
                Some(earlier) => out[earlier],
                None => self.zipf.draw(&mut random),
            };
            out.push(rank);
        }
    }

    /// Returns the earlier position whose word is repeated at `position`, if any.
    fn repeated(&self, position: u32, random: &mut Random) -> Option<usize> {
        if self.config.burst == 0.0 {
            return None;
        }
        let words = f64::from(position);
        let repeats = random.unit() < self.config.burst * words / (words + BURST_ONSET);
        repeats.then(|| random.below(u64::from(position)) as usize)
    }
}

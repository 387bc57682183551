//! Documents as sequences of word ranks.

use crate::config::TextConfig;
use crate::error::SynthError;
use crate::length;
use crate::random::{Purpose, Random};
use crate::zipf::Zipf;

/// Words after which a document repeats itself half as much as it finally will: the first words
/// have little to repeat.
const BURST_ONSET: f64 = 20.0;

/// Makes the documents of one collection, in any order and from any number of threads.
#[derive(Debug, Clone)]
pub struct TextGenerator {
    config: TextConfig,
    zipf: Zipf,
}

impl TextGenerator {
    /// A generator for a collection.
    ///
    /// # Errors
    /// A setting outside its range, see [`TextConfig::validate`].
    pub fn new(config: TextConfig) -> Result<Self, SynthError> {
        config.validate()?;
        let zipf = Zipf::new(&config);
        Ok(Self { config, zipf })
    }

    /// The settings of the collection.
    #[must_use]
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// Replaces `out` by the word ranks of a document, at least one, 0 for the most frequent word.
    /// Depends on the settings and the ordinal alone. Ordinals from `documents` on are what a
    /// larger collection would hold.
    ///
    /// Repetition is a cache model in the manner of a Pólya urn: word `n` (from 0) is with
    /// probability `burst * n / (n + 20)` a copy of a uniformly chosen earlier word. Each copy
    /// makes the next likelier, and every word alone still follows the frequency law.
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

    /// The earlier position whose word comes again here, if one does.
    fn repeated(&self, position: u32, random: &mut Random) -> Option<usize> {
        if self.config.burst == 0.0 {
            return None;
        }
        let words = f64::from(position);
        let repeats = random.unit() < self.config.burst * words / (words + BURST_ONSET);
        repeats.then(|| random.below(u64::from(position)) as usize)
    }
}

//! The n-grams of a text, each with a hash that costs one step a word or character: most n-grams of a corpus are in no test item, and the hash is enough to know that.

use warpseek_text::{GramConfig, Unit, normalize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// The longest n-gram, in words.
const MOST: usize = 32;

/// What the hash is multiplied by for each word: odd, so that nothing is lost.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Reads texts.
pub(super) struct Grams {
    config: GramConfig,
    /// What the hash of the first word of an n-gram was multiplied by when the last came.
    top: u64,
    /// The text in normal form, with a blank before and after it.
    text: String,
}

impl Grams {
    pub(super) fn new(config: GramConfig) -> Self {
        let top = (1..config.n).fold(1, |power: u64, _| power.wrapping_mul(BASE));
        Grams { config, top, text: String::new() }
    }

    /// Calls `f` with each n-gram of a document, its hash first. An n-gram comes as often as it occurs.
    pub(super) fn for_each(&mut self, title: &str, text: &str, f: impl FnMut(u64, &str)) {
        self.text.clear();
        self.text.push(' ');
        normalize(title, &mut self.text);
        if self.text.len() > 1 {
            self.text.push(' ');
        }
        normalize(text, &mut self.text);
        if !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        if self.text.len() > 1 {
            match self.config.unit {
                Unit::Char => self.chars(f),
                Unit::Word => self.words(f),
            }
        }
    }

    fn words(&self, f: impl FnMut(u64, &str)) {
        let bytes = self.text.as_bytes();
        let mut start = 1;
        let words = (1..bytes.len()).filter(|&at| bytes[at] == b' ').map(|end| {
            let word = start..end;
            start = end + 1;
            (xxh3_64(&bytes[word.clone()]), word.start, word.end)
        });
        self.roll(words, f);
    }

    fn chars(&self, f: impl FnMut(u64, &str)) {
        let chars = self.text.char_indices();
        self.roll(chars.map(|(at, c)| (mix(u64::from(c)), at, at + c.len_utf8())), f);
    }

    /// Goes over hash, start and end of words or characters.
    #[inline]
    fn roll(
        &self,
        tokens: impl Iterator<Item = (u64, usize, usize)>,
        mut f: impl FnMut(u64, &str),
    ) {
        let n = self.config.n as usize;
        let (mut ring, mut hash, mut slot, mut filled) = ([(0u64, 0); MOST], 0u64, 0, 1);
        for (token, start, end) in tokens {
            hash = hash.wrapping_sub(ring[slot].0.wrapping_mul(self.top));
            hash = hash.wrapping_mul(BASE).wrapping_add(token);
            ring[slot] = (token, start);
            slot = if slot + 1 == n { 0 } else { slot + 1 };
            if filled == n {
                f(mix(hash), &self.text[ring[slot].1..end]);
            } else {
                filled += 1;
            }
        }
    }
}

/// Spreads what tells numbers apart over all bits.
#[inline]
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(BASE);
    hash ^ hash >> 29
}

/// What an n-gram is known by in memory.
pub(super) fn key(gram: &str) -> u128 {
    xxh3_128(gram.as_bytes())
}

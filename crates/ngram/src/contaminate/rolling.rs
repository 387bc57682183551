//! The n-grams of a text, each with a hash that costs one step per word or character: most
//! n-grams of a corpus are in no test item, and the hash is enough to detect that.
//!
//! Words are hashed first, then n-grams from the hashes of their words, in two separate loops
//! that a core can run ahead in.

use warpseek_text::{GramConfig, Unit, normalize};
use xxhash_rust::xxh3::xxh3_128;

/// The factor by which the hash is multiplied for each word: odd, so that nothing is lost.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A reader of texts.
pub(super) struct Grams {
    config: GramConfig,
    /// The factor of the hash of an n-gram's first word after the last word was added, times the
    /// base once more.
    top: u64,
    /// The text in normal form, with a blank before and after it.
    text: String,
    /// The start of each word or character, and the position at which one behind the last would
    /// start.
    starts: Vec<u32>,
    /// The hashes of words or characters.
    tokens: Vec<u64>,
    /// The hashes of n-grams.
    hashes: Vec<u64>,
}

impl Grams {
    pub(super) fn new(config: GramConfig) -> Self {
        let top = (0..config.n).fold(1, |power: u64, _| power.wrapping_mul(BASE));
        let (text, starts, tokens, hashes) = Default::default();
        Grams { config, top, text, starts, tokens, hashes }
    }

    /// Reads a document, and returns the hashes of its n-grams. An n-gram is returned as often as
    /// it occurs.
    pub(super) fn read(&mut self, title: &str, text: &str) -> &[u64] {
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
        self.starts.clear();
        self.tokens.clear();
        self.hashes.clear();
        if self.text.len() > 1 {
            match self.config.unit {
                Unit::Char => self.chars(),
                Unit::Word => self.words(),
            }
            self.roll();
        }
        &self.hashes
    }

    /// Returns the hash of an n-gram of the text that was read, by number.
    pub(super) fn hash(&self, number: usize) -> u64 {
        self.hashes[number]
    }

    /// Returns an n-gram of the text that was read, by the number of its hash.
    pub(super) fn gram(&self, number: usize) -> &str {
        let end = self.starts[number + self.config.n as usize] as usize;
        // The blank behind a word does not belong to it.
        let behind = if self.config.unit == Unit::Word { 1 } else { 0 };
        &self.text[self.starts[number] as usize..end - behind]
    }

    fn words(&mut self) {
        const ONES: u64 = u64::MAX / 255;
        let bytes = self.text.as_bytes();
        let mut start = 1;
        self.starts.push(1);
        let mut word = |end: usize| {
            self.tokens.push(hash(bytes, start, end));
            start = end + 1;
            self.starts.push(start as u32);
        };
        let (chunks, rest) = bytes[1..].as_chunks::<8>();
        for (i, &chunk) in chunks.iter().enumerate() {
            // The highest bit of each byte that is a blank.
            let differs = u64::from_le_bytes(chunk) ^ (ONES * u64::from(b' '));
            let low = (differs & !(ONES << 7)) + (ONES * 0x7f);
            let mut blanks = !(low | differs) & (ONES << 7);
            while blanks != 0 {
                word(1 + 8 * i + blanks.trailing_zeros() as usize / 8);
                blanks &= blanks - 1;
            }
        }
        let first = bytes.len() - rest.len();
        (first..bytes.len()).filter(|&at| bytes[at] == b' ').for_each(word);
    }

    fn chars(&mut self) {
        for (at, c) in self.text.char_indices() {
            self.starts.push(at as u32);
            self.tokens.push(mix(u64::from(c)));
        }
        self.starts.push(self.text.len() as u32);
    }

    /// Computes the hashes of n-grams from those of words or characters: the one that leaves is
    /// subtracted, the one that comes is added.
    fn roll(&mut self) {
        let n = self.config.n as usize;
        let Some((first, rest)) = self.tokens.split_at_checked(n) else { return };
        let add = |hash: u64, token: u64| hash.wrapping_mul(BASE).wrapping_add(token);
        let mut rolling = first.iter().fold(0, |hash, &token| add(hash, token));
        self.hashes.push(mix(rolling));
        self.hashes.extend(rest.iter().zip(&self.tokens).map(|(&last, &gone)| {
            rolling = add(rolling, last).wrapping_sub(gone.wrapping_mul(self.top));
            mix(rolling)
        }));
    }
}

/// Spreads the differences between numbers over all bits.
#[inline]
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 32).wrapping_mul(BASE);
    hash ^ hash >> 29
}

/// Hashes some bytes, which are mostly few.
#[inline]
fn hash(bytes: &[u8], start: usize, end: usize) -> u64 {
    let (mut hash, mut at) = ((end - start) as u64, start);
    loop {
        let rest = &bytes[at..];
        let next = match rest.first_chunk() {
            Some(next) => u64::from_le_bytes(*next),
            None => {
                let mut next = [0; 8];
                next[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(next)
            }
        };
        match end - at {
            left @ 0..8 => return mix(hash ^ next & ((1 << (8 * left)) - 1)),
            _ => hash = mix(hash ^ next),
        }
        at += 8;
    }
}

/// Returns the key of an n-gram in memory.
pub(super) fn key(gram: &str) -> u128 {
    xxh3_128(gram.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn hashes_depend_on_the_n_gram_alone(
            text in "([abé東]{1,3}|[a-c]{5,20})( ([abé東]{1,3}|[a-c]{5,20})){0,60}",
            n in 1u32..=32,
            unit in prop_oneof![Just(Unit::Char), Just(Unit::Word)],
        ) {
            let mut grams = Grams::new(GramConfig { unit, n, ..GramConfig::default() });
            let hashes = grams.read("", &text).to_vec();
            let expected: Vec<String> = match unit {
                Unit::Word => {
                    let words: Vec<&str> = text.split(' ').collect();
                    words.windows(n as usize).map(|gram| gram.join(" ")).collect()
                }
                Unit::Char => {
                    let chars: Vec<char> = format!(" {text} ").chars().collect();
                    chars.windows(n as usize).map(|gram| gram.iter().collect()).collect()
                }
            };
            prop_assert_eq!(hashes.len(), expected.len());
            let mut known = HashMap::new();
            for (i, (&hash, gram)) in hashes.iter().zip(&expected).enumerate() {
                prop_assert_eq!(grams.gram(i), gram);
                prop_assert_eq!(*known.entry(gram).or_insert(hash), hash);
            }
            let mut distinct: Vec<u64> = known.into_values().collect();
            let count = distinct.len();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), count);
        }
    }
}

//! N-grams of a text with the segments in which they occur (docs/ngram.md).
//!
//! The text is in normal form ([`normalize`](crate::normalize)), with a blank before and after
//! it. It has as many segments of at least `segment_words` words as fit, 1 to 32. An n-gram
//! belongs to the segment in which it starts, and a blank belongs to the word before it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::normal::normalize;

/// Maximum number of segments of a document, or of a part of one: the bits of a map.
pub const SEGMENTS: u32 = 32;

/// Number of words of a part that the next part repeats, so that a phrase of at most this many
/// words lies within one part.
const OVERLAP_WORDS: u32 = 128;

/// Maximum length of the segments of a part, as a multiple of the minimum length.
const PART_STRETCH: u32 = 4;

/// The unit of n-grams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Characters, including blanks between words.
    #[default]
    Char,
    /// Whole words. An index stores their hashes, since the words are long.
    Word,
}

impl Unit {
    /// Returns the name in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Char => "char",
            Unit::Word => "word",
        }
    }

    /// Returns the lengths that n-grams may have.
    pub fn lengths(self) -> std::ops::RangeInclusive<u32> {
        match self {
            Unit::Char => 2..=8,
            Unit::Word => 1..=32,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Unit {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "char" => Ok(Unit::Char),
            "word" => Ok(Unit::Word),
            _ => Err(format!("unknown unit `{name}`; the units are: char, word")),
        }
    }
}

/// The parameters of a text's n-grams and segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GramConfig {
    /// Unit of the n-grams. Default: characters.
    pub unit: Unit,
    /// Number of units per n-gram. Default: 3.
    pub n: u32,
    /// Minimum number of words per segment, unless the text has fewer. Default: 9.
    pub segment_words: u32,
    /// True if long documents are cut into overlapping parts, each of which has separate
    /// segments. A document is long if its segments would have more than four times the minimum
    /// number of words. Default: false.
    pub parts: bool,
}

impl Default for GramConfig {
    fn default() -> Self {
        GramConfig { unit: Unit::Char, n: 3, segment_words: 9, parts: false }
    }
}

/// The distinct n-grams of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryGrams {
    /// Query in normal form.
    pub text: String,
    /// N-grams in the form of an index, in byte order.
    pub grams: Vec<Vec<u8>>,
    /// Number of adjacent segments that may contribute to a hit.
    pub window: u32,
}

/// Buffers that are reused for many documents.
#[derive(Clone, Debug, Default)]
pub struct GramScratch {
    text: String,
    words: Vec<u32>,
    chars: Vec<u32>,
}

impl GramConfig {
    /// Checks that the numbers are in range.
    pub fn check(&self) -> Result<(), String> {
        let lengths = self.unit.lengths();
        if !lengths.contains(&self.n) {
            let (least, most) = (lengths.start(), lengths.end());
            return Err(format!(
                "n-grams of {} {}s are not possible; n must be {least} to {most}",
                self.n, self.unit
            ));
        }
        if !(1..=1000).contains(&self.segment_words) {
            return Err(format!("a segment must have 1 to 1000 words, not {}", self.segment_words));
        }
        Ok(())
    }

    /// Returns the number of parts of a document with this many words.
    pub fn parts(&self, words: u32) -> u32 {
        let (most, stride) = self.part_words();
        if !self.parts || words <= most { 1 } else { 1 + (words - most).div_ceil(stride) }
    }

    /// Returns the maximum number of words of a part, and the distance between the starts of two
    /// parts.
    fn part_words(&self) -> (u32, u32) {
        let most = SEGMENTS * PART_STRETCH * self.segment_words;
        // Very short segments give short parts, which overlap by half.
        (most, most - OVERLAP_WORDS.min(most / 2))
    }

    /// Returns the words of a part of a document.
    fn part(&self, part: u32, words: u32) -> Range<u32> {
        if self.parts(words) == 1 {
            return 0..words;
        }
        let (most, stride) = self.part_words();
        part * stride..words.min(part * stride + most)
    }

    /// Returns the number of parts of a document with this title and text.
    pub fn count_parts(&self, scratch: &mut GramScratch, title: &str, text: &str) -> u32 {
        // In ASCII, a word and its separator take at least two bytes. Some other characters
        // become several words, but none becomes more than two per byte.
        let bytes = (title.len() + text.len()) as u64;
        let most_words =
            if title.is_ascii() && text.is_ascii() { bytes / 2 + 1 } else { bytes * 2 };
        if !self.parts || most_words <= u64::from(self.part_words().0) {
            return 1;
        }
        scratch.read(title, text);
        self.parts(scratch.words.len() as u32)
    }

    /// Calls `f` with each n-gram of a document: the number of its part, the n-gram in the form
    /// of an index, and the bit of its segment. Returns the number of words. An n-gram that
    /// occurs several times is passed several times.
    pub fn for_each(
        &self,
        scratch: &mut GramScratch,
        title: &str,
        text: &str,
        mut f: impl FnMut(u32, &[u8], u32),
    ) -> u32 {
        scratch.read(title, text);
        let words = scratch.words.len() as u32;
        for part in 0..if words == 0 { 0 } else { self.parts(words) } {
            let range = self.part(part, words);
            match self.unit {
                Unit::Char => self.chars(scratch, range, |gram, bit| f(part, gram, bit)),
                Unit::Word => self.words(scratch, range, |gram, bit| f(part, gram, bit)),
            }
        }
        words
    }

    /// Returns the number of segments of a part of a document with this many words, 1 to 32.
    pub fn segments(&self, part: u32, words: u32) -> u8 {
        self.segments_of(self.part(part, words).len() as u32) as u8
    }

    fn segments_of(&self, words: u32) -> u32 {
        SEGMENTS.min((words / self.segment_words).max(1))
    }

    /// Returns the bit of the segment of a word, by its number in a part with `words` words.
    fn bit(&self, word: u32, words: u32) -> u32 {
        let segments = self.segments_of(words);
        1 << (u64::from(word) * u64::from(segments) / u64::from(words))
    }

    fn chars(&self, scratch: &mut GramScratch, part: Range<u32>, mut f: impl FnMut(&[u8], u32)) {
        let bytes = scratch.part(&part);
        let text = &scratch.text.as_bytes()[bytes.clone()];
        let (words, n) = (part.len() as u32, self.n as usize);
        let (mut word, mut bit) = (0, self.bit(0, words));
        let mut step = |start: usize, gram: &[u8]| {
            f(gram, bit);
            if start > 0 && gram[0] == b' ' {
                word += 1;
                bit = self.bit(word.min(words - 1), words);
            }
        };
        if text.is_ascii() {
            text.windows(n).enumerate().for_each(|(start, gram)| step(start, gram));
            return;
        }
        scratch.chars.clear();
        let starts = scratch.text[bytes].char_indices().map(|(at, _)| at as u32);
        scratch.chars.extend(starts.chain([text.len() as u32]));
        for range in scratch.chars.windows(n + 1) {
            let (start, end) = (range[0] as usize, range[n] as usize);
            step(start, &text[start..end]);
        }
    }

    fn words(&self, scratch: &GramScratch, part: Range<u32>, mut f: impl FnMut(&[u8], u32)) {
        let words = part.len() as u32;
        for first in 0..(words + 1).saturating_sub(self.n) {
            let gram = scratch.part(&(part.start + first..part.start + first + self.n));
            // Remove the blanks around the n-gram.
            f(&hash(&scratch.text[gram.start + 1..gram.end - 1]), self.bit(first, words));
        }
    }

    /// Returns the distinct n-grams of a query. Unlike a document, the query has no blanks around
    /// it.
    pub fn query(&self, query: &str) -> QueryGrams {
        let mut text = String::new();
        normalize(query, &mut text);
        let blanks = text.bytes().filter(|&byte| byte == b' ').count() as u32;
        let n = self.n as usize;
        let mut grams: Vec<Vec<u8>> = match self.unit {
            Unit::Char => {
                let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                let starts: Vec<usize> = ends.collect();
                let cut = |range: &[usize]| text.as_bytes()[range[0]..range[n]].to_vec();
                starts.windows(n + 1).map(cut).collect()
            }
            Unit::Word => {
                let words: Vec<&str> = text.split(' ').collect();
                let windows = words.windows(n).filter(|_| !text.is_empty());
                windows.map(|gram| hash(&gram.join(" ")).to_vec()).collect()
            }
        };
        grams.sort_unstable();
        grams.dedup();
        let window = (1 + blanks.div_ceil(self.segment_words)).clamp(2, SEGMENTS);
        QueryGrams { text, grams, window }
    }
}

/// Returns the hash of an n-gram of words, which an index stores in its place.
fn hash(gram: &str) -> [u8; 16] {
    xxh3_128(gram.as_bytes()).to_be_bytes()
}

impl GramScratch {
    /// Normalizes title and text with blanks around them, and finds where words begin.
    fn read(&mut self, title: &str, text: &str) {
        self.text.clear();
        self.text.push(' ');
        normalize(title, &mut self.text);
        if self.text.len() > 1 {
            self.text.push(' ');
        }
        let title = self.text.len();
        normalize(text, &mut self.text);
        if self.text.len() == title && title > 1 {
            self.text.pop();
        }
        self.words.clear();
        if self.text.len() == 1 {
            return;
        }
        self.text.push(' ');
        let blanks = self.text.bytes().enumerate().filter(|&(_, byte)| byte == b' ');
        self.words.extend(blanks.map(|(at, _)| at as u32 + 1));
        // The last blank has no word after it.
        self.words.pop();
    }

    /// Returns the range of bytes of some words, with a blank on either side.
    fn part(&self, words: &Range<u32>) -> Range<usize> {
        let start = self.words[words.start as usize] as usize - 1;
        let end = self.words.get(words.end as usize).map_or(self.text.len(), |&next| next as usize);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use proptest::prelude::*;

    type Maps = BTreeMap<(u32, Vec<u8>), u32>;

    fn maps(config: &GramConfig, title: &str, text: &str) -> (Maps, u32) {
        let mut maps = Maps::new();
        let words = config.for_each(&mut GramScratch::default(), title, text, |part, gram, bit| {
            assert_eq!(bit.count_ones(), 1);
            *maps.entry((part, gram.to_vec())).or_default() |= bit;
        });
        (maps, words)
    }

    fn normal(text: &str) -> String {
        let mut out = String::new();
        normalize(text, &mut out);
        out
    }

    /// Computes the maps by definition: part by part and word by word, with the segment of each.
    fn by_definition(config: &GramConfig, text: &str) -> Maps {
        let (text, mut maps) = (normal(text), Maps::new());
        let all: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
        let most = 128 * config.segment_words as usize;
        let overlap = if most < 256 { most / 2 } else { 128 };
        let mut start = 0;
        for part in 0.. {
            let end = if config.parts { all.len().min(start + most) } else { all.len() };
            let words = &all[start..end];
            let segments = (words.len() / config.segment_words as usize).clamp(1, 32);
            let segment = |word: usize| 1 << (word * segments / words.len());
            let mut add =
                |gram: Vec<u8>, word| *maps.entry((part, gram)).or_default() |= segment(word);
            if config.unit == Unit::Word {
                let grams = words.windows(config.n as usize).enumerate();
                grams.for_each(|(word, gram)| add(hash(&gram.join(" ")).to_vec(), word));
            } else if !words.is_empty() {
                // Each character with its word. The blank before the first word belongs to that
                // word, any other blank to the word before it.
                let mut chars = vec![(' ', 0)];
                for (number, word) in words.iter().enumerate() {
                    chars.extend(word.chars().chain([' ']).map(|c| (c, number)));
                }
                for gram in chars.windows(config.n as usize) {
                    add(gram.iter().map(|c| c.0).collect::<String>().into_bytes(), gram[0].1);
                }
            }
            if end == all.len() {
                return maps;
            }
            start += most - overlap;
        }
        maps
    }

    fn config() -> impl Strategy<Value = GramConfig> {
        let unit = prop_oneof![
            (2u32..=8).prop_map(|n| (Unit::Char, n)),
            (1u32..=6).prop_map(|n| (Unit::Word, n)),
        ];
        let words = prop_oneof![1u32..=4, 1u32..=20];
        (unit, words, any::<bool>()).prop_map(|((unit, n), segment_words, parts)| GramConfig {
            unit,
            n,
            segment_words,
            parts,
        })
    }

    /// Generates texts of up to 700 words of few letters; some become several words, or none.
    fn text() -> impl Strategy<Value = String> {
        let ascii = prop::sample::select(vec!["a", "b", "Ab", "abc", "c-d", "_", "x1"]);
        let any =
            prop::sample::select(vec!["a", "é", "東京", "ﬁn", "\u{fdfa}", "\u{301}", "ẞ", "--"]);
        let words = |word: prop::sample::Select<&'static str>| {
            let len = prop_oneof![0usize..10, 0usize..700];
            len.prop_flat_map(move |len| proptest::collection::vec(word.clone(), len))
                .prop_map(|words| words.join(" "))
        };
        prop_oneof![words(ascii), words(any), "\\PC{0,60}"]
    }

    proptest! {
        #[test]
        fn maps_are_those_of_the_definition(config in config(), title in "[ a-c.]{0,8}", text in text()) {
            let whole = format!("{title} {text}");
            let (found, words) = maps(&config, &title, &text);
            prop_assert_eq!(&found, &by_definition(&config, &whole));
            prop_assert_eq!(words as usize, normal(&whole).split_whitespace().count());
            for ((part, _), map) in &found {
                let segments = config.segments(*part, words);
                prop_assert!((1..=32).contains(&segments) && map.leading_zeros() >= 32 - u32::from(segments));
            }
        }

        #[test]
        fn parts_are_counted_without_reading_n_grams(config in config(), title in "[ a-c.]{0,8}", text in text()) {
            let (found, words) = maps(&config, &title, &text);
            let parts = config.count_parts(&mut GramScratch::default(), &title, &text);
            prop_assert_eq!(parts, config.parts(words));
            prop_assert!(found.keys().all(|&(part, _)| part < parts));
        }

        #[test]
        fn parts_overlap_and_cover_all_words(config in config(), words in 0u32..100_000) {
            let parts: Vec<Range<u32>> = (0..config.parts(words)).map(|part| config.part(part, words)).collect();
            prop_assert_eq!((parts[0].start, parts[parts.len() - 1].end), (0, words));
            let most = SEGMENTS * PART_STRETCH * config.segment_words;
            prop_assert!(!config.parts || parts.iter().all(|part| part.len() as u32 <= most));
            prop_assert!(config.parts || parts.len() == 1);
            for pair in parts.windows(2) {
                prop_assert_eq!(pair[0].end - pair[1].start, OVERLAP_WORDS.min(most / 2));
                // Each part has a word that no earlier part has.
                prop_assert!(pair[1].end > pair[0].end);
            }
        }

        #[test]
        fn a_query_has_the_n_grams_between_its_own_words(config in config(), text in text()) {
            let config = GramConfig { parts: false, ..config };
            let query = config.query(&text);
            prop_assert_eq!(&query.text, &normal(&text));
            prop_assert!(query.grams.is_sorted_by(|a, b| a < b));
            let own: BTreeSet<Vec<u8>> = maps(&config, "", &text).0.into_keys().map(|key| key.1).collect();
            prop_assert!(query.grams.iter().all(|gram| own.contains(gram)));
            // A document also has n-grams with the blanks around it: one before the first
            // character and one after the last.
            let less = if config.unit == Unit::Char { 2 } else { 0 };
            prop_assert!(query.grams.len() + less >= own.len());
            let blanks = query.text.matches(' ').count() as u32;
            let window = 2.max(1 + blanks.div_ceil(config.segment_words)).min(32);
            prop_assert_eq!(query.window, window);
        }
    }

    /// Tests the character that becomes four words of 18 letters, more than any other of its
    /// length.
    #[test]
    fn one_character_may_be_several_words() {
        let config = GramConfig { parts: true, segment_words: 1, ..GramConfig::default() };
        let (most, stride) = config.part_words();
        for characters in [1, 10, 31, 32, 33, 64, 200] {
            let text = "\u{fdfa} ".repeat(characters);
            for text in [text.trim_end().to_owned(), text.replace(' ', "")] {
                let words = normal(&text).split(' ').count() as u32;
                let parts = config.count_parts(&mut GramScratch::default(), "", &text);
                assert_eq!(
                    parts,
                    if words <= most { 1 } else { 1 + (words - most).div_ceil(stride) }
                );
                assert_eq!(maps(&config, "", &text).1, words);
            }
        }
    }

    /// Checks an assumption of [`GramConfig::count_parts`].
    #[test]
    fn no_character_becomes_more_than_two_words_a_byte() {
        for c in '\u{80}'..=char::MAX {
            let words = normal(c.encode_utf8(&mut [0; 4])).split(' ').count();
            assert!(words <= 2 * c.len_utf8(), "{c:?} becomes {words} words");
        }
    }

    /// Checks that the numbers are exact at the limits of a part.
    #[test]
    fn a_part_begins_when_the_one_before_is_full() {
        let config = GramConfig { parts: true, ..GramConfig::default() };
        let (most, stride) = config.part_words();
        assert_eq!((most, stride), (1152, 1024));
        for (words, parts) in [(0, 1), (1, 1), (1152, 1), (1153, 2), (2176, 2), (2177, 3)] {
            let text = "ab ".repeat(words);
            assert_eq!(config.parts(words as u32), parts);
            assert_eq!(config.count_parts(&mut GramScratch::default(), "", &text), parts);
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let good = GramConfig::default();
        assert_eq!(good.check(), Ok(()));
        for bad in [
            GramConfig { n: 1, ..good },
            GramConfig { n: 9, ..good },
            GramConfig { unit: Unit::Word, n: 0, ..good },
            GramConfig { unit: Unit::Word, n: 33, ..good },
            GramConfig { segment_words: 0, ..good },
            GramConfig { segment_words: 1001, ..good },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}

//! n-grams of a text with the segments they occur in (docs/ngram.md).
//!
//! The text is in normal form ([`normalize`](crate::normalize)), with a blank before and after it. It has as many segments of
//! at least `segment_words` words as fit, 1 to 32. An n-gram lies in the segment in which it starts, and a blank belongs to the word before it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::normal::normalize;

/// The most segments of a document, or of a part of one: the bits of a map.
pub const SEGMENTS: u32 = 32;

/// Words of a part that the next part repeats, so that a phrase of at most this many words lies within one part.
const OVERLAP_WORDS: u32 = 128;

/// Segments of parts are at most this many times as long as they must be.
const PART_STRETCH: u32 = 4;

/// What n-grams are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Characters, blanks between words included.
    #[default]
    Char,
    /// Whole words. An index has their hashes, since they are long.
    Word,
}

impl Unit {
    /// The name in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Char => "char",
            Unit::Word => "word",
        }
    }

    /// The lengths that n-grams may have.
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
            _ => Err(format!("no unit `{name}`; the units are: char, word")),
        }
    }
}

/// Which n-grams a text has, and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GramConfig {
    /// What they are made of. Default: characters.
    pub unit: Unit,
    /// How many of them make one. Default: 3.
    pub n: u32,
    /// The fewest words of a segment, unless the text has fewer. Default: 9.
    pub segment_words: u32,
    /// Whether documents whose segments would have more than four times that many words are cut into overlapping parts, each of which has segments of its own. Default: no.
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
    /// The query in normal form.
    pub text: String,
    /// Its n-grams as an index has them, in byte order.
    pub grams: Vec<Vec<u8>>,
    /// How many adjacent segments may contribute to a hit.
    pub window: u32,
}

/// Buffers that documents share.
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
                "n-grams of {} {}s are not possible; n is {least} to {most}",
                self.n, self.unit
            ));
        }
        if !(1..=1000).contains(&self.segment_words) {
            return Err(format!("a segment has 1 to 1000 words, not {}", self.segment_words));
        }
        Ok(())
    }

    /// The number of parts of a document of this many words.
    pub fn parts(&self, words: u32) -> u32 {
        let (most, stride) = self.part_words();
        if !self.parts || words <= most { 1 } else { 1 + (words - most).div_ceil(stride) }
    }

    /// The words of a part, and how many words later the next one begins.
    fn part_words(&self) -> (u32, u32) {
        let most = SEGMENTS * PART_STRETCH * self.segment_words;
        // Very short segments make short parts, which overlap by half.
        (most, most - OVERLAP_WORDS.min(most / 2))
    }

    /// The words of a part of a document.
    fn part(&self, part: u32, words: u32) -> Range<u32> {
        if self.parts(words) == 1 {
            return 0..words;
        }
        let (most, stride) = self.part_words();
        part * stride..words.min(part * stride + most)
    }

    /// The number of parts of a document with this title and text.
    pub fn count_parts(&self, scratch: &mut GramScratch, title: &str, text: &str) -> u32 {
        // A word and what divides it from the next take two bytes of ASCII; some characters become several words, but none of them more than two a byte.
        let bytes = (title.len() + text.len()) as u64;
        let most_words =
            if title.is_ascii() && text.is_ascii() { bytes / 2 + 1 } else { bytes * 2 };
        if !self.parts || most_words <= u64::from(self.part_words().0) {
            return 1;
        }
        scratch.read(title, text);
        self.parts(scratch.words.len() as u32)
    }

    /// Calls `f` with each n-gram of a document: the part it lies in, the n-gram as an index has it, and the bit of its segment. Returns the number of words.
    /// An n-gram comes as often as it occurs.
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

    /// The number of segments of a part of a document of this many words, 1 to 32.
    pub fn segments(&self, part: u32, words: u32) -> u8 {
        self.segments_of(self.part(part, words).len() as u32) as u8
    }

    fn segments_of(&self, words: u32) -> u32 {
        SEGMENTS.min((words / self.segment_words).max(1))
    }

    /// The bit of the segment of each word of a part, by number.
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
            // Without the blanks around it.
            f(&hash(&scratch.text[gram.start + 1..gram.end - 1]), self.bit(first, words));
        }
    }

    /// The n-grams of a query. They count once each, and the query has no blanks around it.
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

/// What an index has for an n-gram of words.
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
        // The last blank has no word behind it.
        self.words.pop();
    }

    /// The bytes of some words with a blank on either side.
    fn part(&self, words: &Range<u32>) -> Range<usize> {
        let start = self.words[words.start as usize] as usize - 1;
        let end = self.words.get(words.end as usize).map_or(self.text.len(), |&next| next as usize);
        start..end
    }
}

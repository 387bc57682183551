//! Flat text: documents in a form whose words can be found by looking only at single bytes and
//! their neighbours, as a GPU does.
//!
//! ASCII words are copied. Words that require Unicode rules are found on the CPU and written as
//! *literals*: each byte of the lower-cased word becomes two bytes from 0x80 on. So every byte
//! below 0x80 belongs to a word that the classes of bytes define, and a run of other bytes is a
//! literal. [`END_OF_DOCUMENT`] ends a document and occurs nowhere else.

use std::ops::Range;

use warpseek_core::limits::MAX_TERM_BYTES;

use super::ascii::{self, CORE, DIGIT, LETTER};
use super::chain::Tokens;
use super::field_analyzer::FieldAnalyzer;
use super::segment::{self, Stretch};
use super::{Analyzer, Scratch};

/// Byte that ends a document.
pub const END_OF_DOCUMENT: u8 = 0x1e;

/// Class of a byte that is part of a literal.
const LITERAL: u8 = 32;

/// Marks of the first and second byte of a literal's byte, which hold its upper and its lower
/// half.
const UPPER: u8 = 0x80;
const LOWER: u8 = 0x90;

/// The rules for finding words in flat text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordRules {
    /// Class of each byte, a set of bits. A byte with 1 (letter), 2 (digit), 4 (underscore) or 32
    /// (part of a literal) is part of a word. A byte with 8 is part of a word between two
    /// letters, and one with 16 between two digits. A word without letters, digits and literals
    /// does not count.
    pub classes: [u8; 256],
    /// True if words are converted to lower case.
    pub lower: bool,
}

impl WordRules {
    /// Returns the rules of an analyzer.
    pub fn of(analyzer: Analyzer) -> Self {
        let (mut classes, lower) = match analyzer {
            Analyzer::English | Analyzer::Plain => (ascii::CLASS, true),
            Analyzer::Raw => {
                let mut classes = [LETTER; 256];
                for byte in (0..=u8::MAX).filter(|byte| segment::is_blank(*byte)) {
                    classes[usize::from(byte)] = 0;
                }
                (classes, false)
            }
        };
        classes[0x80..].fill(LITERAL);
        classes[usize::from(END_OF_DOCUMENT)] = 0;
        WordRules { classes, lower }
    }

    /// Returns the rules for the fields of a schema: those of [`FieldAnalyzer::flatten`].
    pub fn of_fields() -> Self {
        Self::of(Analyzer::Plain)
    }

    /// Returns the rules for text that has been divided into words: words between white space,
    /// unchanged, and without literals.
    pub fn of_words() -> Self {
        let raw = Self::of(Analyzer::Raw);
        let classes = raw.classes.map(|class| if class == LITERAL { LETTER } else { class });
        WordRules { classes, lower: false }
    }

    #[inline]
    fn class(&self, text: &[u8], at: Option<usize>) -> u8 {
        at.and_then(|at| text.get(at)).map_or(0, |&byte| self.classes[usize::from(byte)])
    }

    /// Returns true if a byte is part of a word.
    #[inline]
    fn in_word(&self, text: &[u8], at: usize) -> bool {
        let class = self.class(text, Some(at));
        let joined = || {
            let around = self.class(text, at.checked_sub(1)) & self.class(text, Some(at + 1));
            (class >> 3) & around & (LETTER | DIGIT) != 0
        };
        class & (CORE | LITERAL) != 0 || joined()
    }

    /// Calls `f` with each word of flat text, as [`Analyzer::for_each_word`] does for the
    /// original text. Words that are too long for a term are skipped.
    pub fn for_each_word(&self, text: &[u8], mut f: impl FnMut(&[u8])) {
        let mut word = Vec::new();
        let mut at = 0;
        while at < text.len() {
            if !self.in_word(text, at) {
                at += 1;
                continue;
            }
            let start = at;
            let mut seen = 0;
            while at < text.len() && self.in_word(text, at) {
                seen |= self.class(text, Some(at));
                at += 1;
            }
            if seen & (LETTER | DIGIT | LITERAL) != 0 && self.read_word(&text[start..at], &mut word)
            {
                f(&word);
            }
        }
    }

    /// Decodes the bytes of a word in flat text. Returns false if the word is too long for a
    /// term.
    pub fn read_word(&self, bytes: &[u8], word: &mut Vec<u8>) -> bool {
        word.clear();
        if bytes.first().is_some_and(|&byte| byte >= 0x80) {
            word.extend(bytes.as_chunks().0.iter().map(|[upper, lower]| upper << 4 | lower & 15));
        } else {
            word.extend_from_slice(bytes);
            if self.lower {
                word.make_ascii_lowercase();
            }
        }
        word.len() <= MAX_TERM_BYTES
    }
}

impl Analyzer {
    /// Appends the flat text of `text`, without [`END_OF_DOCUMENT`]. Text that is appended before
    /// or after it does not become part of its words.
    pub fn flatten(self, scratch: &mut Scratch, text: &str, out: &mut Vec<u8>) {
        out.push(b' ');
        match self {
            Self::English | Self::Plain => {
                segment::for_each_stretch(text, |stretch| match stretch {
                    Stretch::Ascii(range) => push_without_end(out, &text.as_bytes()[range]),
                    Stretch::Mixed(Range { start, end }) => {
                        let mut push = |word: &str, _| push_literal(out, word);
                        segment::mixed(&mut scratch.lower, &text[start..end], start, &mut push);
                    }
                });
            }
            Self::Raw if text.is_ascii() && !text.as_bytes().contains(&END_OF_DOCUMENT) => {
                out.extend_from_slice(text.as_bytes());
            }
            Self::Raw => self.for_each_word(scratch, text, |word, _| push_literal(out, word)),
        }
        out.push(b' ');
    }
}

impl FieldAnalyzer {
    /// Appends the flat text of `text` by [`WordRules::of_fields`], without [`END_OF_DOCUMENT`].
    /// Words that these rules do not find, because the analyzer has others, become literals. Words
    /// that are too long for a term are left out.
    pub fn flatten(&self, scratch: &mut Scratch, text: &str, out: &mut Vec<u8>) {
        let chain = self.chain();
        if chain.tokens == Tokens::Unicode && chain.lower && !chain.fold {
            return Analyzer::Plain.flatten(scratch, text, out);
        }
        self.for_each_word(scratch, text, |word, _, _| {
            if (1..=MAX_TERM_BYTES).contains(&word.len()) {
                push_literal(out, word);
            }
        });
    }
}

/// Appends text that may contain [`END_OF_DOCUMENT`], replacing it by a blank, since it separates
/// words, too.
fn push_without_end(out: &mut Vec<u8>, text: &[u8]) {
    let start = out.len();
    out.extend_from_slice(text);
    for byte in &mut out[start..] {
        *byte = if *byte == END_OF_DOCUMENT { b' ' } else { *byte };
    }
}

fn push_literal(out: &mut Vec<u8>, word: &str) {
    push_token(word.as_bytes(), out);
    out.push(b' ');
}

/// Appends a token of any bytes as a literal, with a blank before it. In a text that consists of
/// tokens alone, there are therefore as many tokens as blanks. The token must not be empty.
pub fn push_token(token: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    out.extend(token.iter().flat_map(|byte| [UPPER | byte >> 4, LOWER | byte & 15]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(analyzer: Analyzer, text: &str) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        analyzer.for_each_word(&mut Scratch::default(), text, |word, _| {
            if word.len() <= MAX_TERM_BYTES {
                words.push(word.as_bytes().to_vec());
            }
        });
        words
    }

    fn flat_words(analyzer: Analyzer, texts: &[&str]) -> Vec<Vec<u8>> {
        let (mut flat, mut words) = (Vec::new(), Vec::new());
        for text in texts {
            analyzer.flatten(&mut Scratch::default(), text, &mut flat);
        }
        assert!(!flat.contains(&END_OF_DOCUMENT));
        WordRules::of(analyzer).for_each_word(&flat, |word| words.push(word.to_vec()));
        words
    }

    #[test]
    fn long_words_and_the_end_of_documents() {
        for analyzer in [Analyzer::English, Analyzer::Raw] {
            for text in [
                "a".repeat(255) + " " + &"b".repeat(256),
                "é".repeat(127) + "x " + &"é".repeat(128),
                "a\x1eb \x1e é\x1e".to_owned(),
                "\u{80}\u{ff} \0 \x7f".to_owned(),
            ] {
                assert_eq!(flat_words(analyzer, &[&text]), words(analyzer, &text), "{text:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn flat_text_has_the_same_words(
            a in "([a-cA-C0-2.':,;_\" \t\n\u{b}\u{1e}-]{0,6}|[éÉßİΣאבカ東ะः’'\u{a0}\u{300}\u{200d}\u{3000}\u{85}Ⓜ😀🇩\u{ad}\u{2028}]|\\PC){0,40}",
            b in "[a-cA-C0-2.':,;_é \u{1e}-]{0,20}",
        ) {
            for analyzer in [Analyzer::English, Analyzer::Plain, Analyzer::Raw] {
                let expected = [words(analyzer, &a), words(analyzer, &b)].concat();
                prop_assert_eq!(flat_words(analyzer, &[&a, &b]), expected);
            }
        }
    }
}

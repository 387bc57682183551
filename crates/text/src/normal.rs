//! The normal form of text for approximate search: NFKC, case-folded, with a single blank for
//! every run of characters that are neither letters nor numbers.

use caseless::Caseless;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Appends the normal form of `text`, without blanks at either end.
pub fn normalize(text: &str, out: &mut String) {
    // Most text is ASCII, which needs no Unicode tables.
    if text.is_ascii() {
        return normalize_ascii(text, out);
    }
    let mut folder = Folder { start: out.len(), blank: false };
    for c in text.nfkc().default_case_fold() {
        folder.push(c, is_word(c), out);
    }
}

/// Table of what ASCII characters become: lower-case letters and digits, and blanks.
const ASCII: [u8; 128] = {
    let mut table = [b' '; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// Appends the normal form of ASCII text, in blocks and without branches: a blank after another
/// one is overwritten.
fn normalize_ascii(text: &str, out: &mut String) {
    let start = out.len();
    out.reserve(text.len());
    let (mut piece, mut after_blank) = ([0; 256], true);
    for bytes in text.as_bytes().chunks(piece.len()) {
        let mut len = 0;
        for &byte in bytes {
            let byte = ASCII[usize::from(byte & 127)];
            piece[len] = byte;
            let blank = byte == b' ';
            len += usize::from(!(blank && after_blank));
            after_blank = blank;
        }
        out.push_str(str::from_utf8(&piece[..len]).unwrap_or_default());
    }
    if after_blank && out.len() > start {
        out.pop();
    }
}

/// Returns true if a character is part of a word. The underscore is not.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let group = c.general_category_group();
    matches!(group, GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// A folder of text, which appends characters and replaces each run of characters that are not part
/// of a word by a single blank.
struct Folder {
    /// Position at which the output begins.
    start: usize,
    /// True if a blank is due before the next character.
    blank: bool,
}

impl Folder {
    #[inline]
    fn push(&mut self, c: char, word: bool, out: &mut String) {
        if !word {
            self.blank = true;
            return;
        }
        if self.blank && out.len() > self.start {
            out.push(' ');
        }
        self.blank = false;
        out.push(c);
    }
}

/// A normal form that remembers where each of its characters came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normal {
    /// Normal form, equal to the output of [`normalize`].
    pub text: String,
    /// Range of bytes in the original from which each character came.
    pub sources: Vec<(usize, usize)>,
}

impl Normal {
    /// Normalizes `text`.
    pub fn of(text: &str) -> Self {
        let mut normal = Normal::default();
        let mut folder = Folder { start: 0, blank: false };
        let mut start = 0;
        while start < text.len() {
            let end = start + piece(&text[start..]);
            for c in text[start..end].nfkc().default_case_fold() {
                let before = normal.text.len();
                folder.push(c, is_word(c), &mut normal.text);
                for _ in normal.text[before..].chars() {
                    normal.sources.push((start, end));
                }
            }
            start = end;
        }
        normal
    }

    /// Returns the bytes of the original from which characters `from..to` came.
    pub fn original(&self, from: usize, to: usize) -> (usize, usize) {
        match self.sources.get(from..to) {
            Some([first, .., last]) => (first.0, last.1),
            Some([only]) => *only,
            _ => (0, 0),
        }
    }
}

/// Returns the length of the first piece of a text that normalizes independently of what follows:
/// one character, and those that may combine with it.
pub(crate) fn piece(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let next = chars.find(|&(_, c)| {
        // A character that may combine is not certain to be normal without the one before it.
        c.is_ascii() || (!unicode_normalization::char::is_combining_mark(c) && !may_combine(c))
    });
    next.map_or(text.len(), |(at, _)| at)
}

fn may_combine(c: char) -> bool {
    unicode_normalization::char::canonical_combining_class(c) != 0
        || is_nfkc_quick(std::iter::once(c)) == IsNormalized::Maybe
        // Half-width voiced sound marks become combining ones.
        || matches!(c, '\u{ff9e}' | '\u{ff9f}')
        // Compatibility forms of Hangul vowels and finals may join the letter before them.
        || matches!(c, '\u{3131}'..='\u{318e}' | '\u{ffa0}'..='\u{ffdc}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normal(text: &str) -> String {
        let mut out = String::new();
        normalize(text, &mut out);
        out
    }

    #[test]
    fn runs_are_blanks_and_case_is_folded() {
        for (text, want) in [
            ("", ""),
            (" ._- ", ""),
            ("Acetyl-salicylic  ACID (2%)", "acetyl salicylic acid 2"),
            ("snake_case", "snake case"),
            ("Straße ﬁn ①", "strasse fin 1"),
            ("Ａ東京タワー", "a東京タワー"),
            ("e\u{301}t\u{e9}", "été"),
            ("ſ K", "s k"),
        ] {
            assert_eq!(normal(text), want, "{text:?}");
        }
    }

    #[test]
    fn appends_to_what_is_there() {
        let mut out = String::from("x ");
        normalize(" A b", &mut out);
        assert_eq!(out, "x a b");
    }

    #[test]
    fn characters_know_their_source() {
        let text = "«Cafe\u{301}» ﬁn";
        let normal = Normal::of(text);
        assert_eq!(normal.text, "café fin");
        let (start, end) = normal.original(0, 4);
        assert_eq!(&text[start..end], "Cafe\u{301}");
        let (start, end) = normal.original(5, 6);
        assert_eq!(&text[start..end], "ﬁ");
        assert_eq!(normal.original(3, 3), (0, 0));
    }

    /// No piece may begin with a character whose compatibility form joins the text before it.
    #[test]
    fn no_piece_begins_with_what_may_combine() {
        for c in '\u{80}'..=char::MAX {
            let begins_a_piece = piece(&format!("a{c}")) == 1;
            let first = c.nfkd().next().unwrap_or(c);
            assert!(!begins_a_piece || !may_combine(first), "{c:?} ({:x})", u32::from(c));
        }
    }

    proptest! {
        #[test]
        fn piece_by_piece_is_the_same(text in "\\PC{0,40}") {
            let whole = Normal::of(&text);
            prop_assert_eq!(&whole.text, &normal(&text));
            prop_assert_eq!(whole.sources.len(), whole.text.chars().count());
            prop_assert!(whole.sources.iter().all(|&(a, b)| text.get(a..b).is_some()));
        }

        #[test]
        fn ascii_takes_the_same_way(text in "([ -~]{0,40}|[a .]{200,600})") {
            let slow: String = {
                let mut out = String::new();
                let mut folder = Folder { start: 0, blank: false };
                text.nfkc().default_case_fold().for_each(|c| folder.push(c, is_word(c), &mut out));
                out
            };
            prop_assert_eq!(normal(&text), slow);
        }
    }
}

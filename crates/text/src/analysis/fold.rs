//! ASCII folding: Latin letters become the ASCII letters that a user without a suitable keyboard
//! would type.
//!
//! Decomposition (NFKD) removes marks from letters and splits ligatures; a table covers the
//! letters that Unicode does not decompose. A character changes only if its whole decomposition
//! becomes ASCII. Other scripts stay unchanged, because their marks are essential: without them
//! `が` would be `か`, and Indic words would lose their vowels.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Appends the folded form of `c` to `out`, which contains the word so far. A mark after an ASCII
/// letter or digit is dropped, so that composed and decomposed text give the same word.
pub(super) fn push(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c);
    } else if is_combining_mark(c) {
        if !out.ends_with(|last: char| last.is_ascii_alphanumeric()) {
            out.push(c);
        }
    } else {
        let start = out.len();
        for part in c.nfkd().filter(|part| !is_combining_mark(*part)) {
            match undecomposed(part) {
                Some(ascii) => out.push_str(ascii),
                None => out.push(part),
            }
        }
        // Accents without a letter decompose into a blank and a mark, so test for visible
        // characters.
        if out[start..].is_empty() || !out[start..].bytes().all(|byte| byte.is_ascii_graphic()) {
            out.truncate(start);
            out.push(c);
        }
    }
}

/// Returns the ASCII form of a character that has one but does not decompose into it.
fn undecomposed(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'ẞ' => "SS",
        'æ' => "ae",
        'Æ' => "AE",
        'œ' => "oe",
        'Œ' => "OE",
        'þ' => "th",
        'Þ' => "TH",
        'ø' => "o",
        'Ø' => "O",
        'ł' => "l",
        'Ł' => "L",
        'đ' | 'ð' | 'ɗ' => "d",
        'Đ' | 'Ð' | 'Ɗ' => "D",
        'ħ' => "h",
        'Ħ' => "H",
        'ı' => "i",
        'ŋ' | 'ɲ' => "n",
        'Ŋ' | 'Ɲ' => "N",
        'ŧ' => "t",
        'Ŧ' => "T",
        'ɓ' => "b",
        'Ɓ' => "B",
        'ƙ' => "k",
        'Ƙ' => "K",
        'ɛ' => "e",
        'Ɛ' => "E",
        'ɔ' => "o",
        'Ɔ' => "O",
        // Apostrophes and hyphens can be parts of words.
        '\u{2018}' | '\u{2019}' => "'",
        '\u{2010}'..='\u{2014}' => "-",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fold(text: &str) -> String {
        let mut out = String::new();
        text.chars().for_each(|c| push(c, &mut out));
        out
    }

    #[test]
    fn latin_letters_become_ascii() {
        for (text, want) in [
            ("café CAFÉ cafe\u{301}", "cafe CAFE cafe"),
            ("Straße GROẞ", "Strasse GROSS"),
            ("søster Łódź encyclopædia Œuvre", "soster Lodz encyclopaedia OEuvre"),
            ("ǽ ǿ þing Ðorð đak", "ae o thing Dord dak"),
            ("naïve Ångström çığ Việt", "naive Angstrom cig Viet"),
            ("ﬁn Ｗｉｄｅ ² ⑽ ſ", "fin Wide 2 (10) s"),
            ("don’t co‑op", "don't co-op"),
            ("e\u{323}\u{302} 1\u{fe0f}\u{20e3}", "e 1"),
        ] {
            assert_eq!(fold(text), want, "{text:?}");
        }
    }

    #[test]
    fn other_scripts_and_signs_stay() {
        for text in
            ["が か\u{3099} 한국", "й ё Ёж", "ά λόγος", "தமிழ் हिन्दी", "´ ½ € ŉ \u{301}x \u{a0} ﷺ"]
        {
            assert_eq!(fold(text), text);
        }
    }

    proptest! {
        #[test]
        fn folding_again_changes_nothing(text in "([a-z]|[À-ʯ]|[Ḁ-ỿ]|[ﬀ-ﬆ]|[\u{300}-\u{36f}]|\\PC){0,20}") {
            let once = fold(&text);
            prop_assert_eq!(fold(&once), once);
        }

        #[test]
        fn composed_and_decomposed_are_the_same(text in "([a-z]|[À-ſ]|[Ḁ-ỿ]){0,20}") {
            let decomposed: String = text.nfd().collect();
            prop_assert_eq!(fold(&decomposed), fold(&text));
        }
    }
}

//! Tests of the analyzers against their definitions.

use std::borrow::Cow;

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use warpseek_core::limits::MAX_TERM_BYTES;

use super::{Analyzer, Scratch};

fn words(analyzer: Analyzer, text: &str) -> Vec<(String, &str)> {
    let mut words = Vec::new();
    analyzer.for_each_word(&mut Scratch::default(), text, |word, range| {
        words.push((word.to_owned(), &text[range]));
    });
    words
}

/// Returns words by definition. UAX #29 attaches a mark right after white space to it; the mark
/// is not a word here.
fn reference(text: &str) -> Vec<(String, &str)> {
    let words = text.unicode_words().map(str::trim_start);
    words.map(|word| (word.chars().flat_map(char::to_lowercase).collect(), word)).collect()
}

#[test]
fn ascii_rules() {
    for text in [
        "The U.S.A.'s can't 3.14, 1,000;5 a:b a;b a,b 1:2 x_1 _ __ _a_ a._b a.1 1.a 1'2 'q' a''b e.g.",
        "http://www.example.com:80/x?y=z&w foo@bar.org -1.5e-3 A.B.C. a.b.1.2 ...x... ",
        "",
        ".",
        "a",
        "_",
        " \t\r\n\x0b\x0c",
        "a\x0bb\x0cc",
        "\tः \u{3000} ः\u{3000}ः",
        "\0a\x7fb",
    ] {
        assert_eq!(words(Analyzer::Plain, text), reference(text), "{text:?}");
    }
}

#[test]
fn long_texts_cross_windows() {
    let text = "It's 3.14 naïve CAFÉ x_y, 東京タワー don’t ".repeat(1000);
    assert_eq!(words(Analyzer::Plain, &text), reference(&text));
    let text = "a.".repeat(20_000) + " é " + &"B'".repeat(20_000);
    assert_eq!(words(Analyzer::Plain, &text), reference(&text));
}

#[test]
fn raw_is_white_space() {
    let text = " A-b\u{3000}ü.\tC\n\u{a0}";
    let expected = ["A-b", "ü.", "C"].map(|word| (word.to_owned(), word));
    assert_eq!(words(Analyzer::Raw, text), expected);
    assert_eq!(Analyzer::Raw.terms("The THE"), ["The", "THE"]);
}

#[test]
fn english_terms() {
    let terms = |text| Analyzer::English.terms(text).join(" ");
    assert_eq!(terms("The cats' dog's running; IT'S fruitlessly"), "cat dog run fruitless");
    assert_eq!(terms("Don’t don't dog’s It’s"), "don't don't dog");
    assert_eq!(terms("into the such they"), "");
    assert_eq!(terms("Éclairs naïvely 3.14 x_1"), "éclair naïv 3.14 x_1");
    assert_eq!(Analyzer::Plain.terms("The cats' IT'S"), ["the", "cats", "it's"]);
    for nothing in ["'s", "'", "’s", ""] {
        assert_eq!(Analyzer::English.term(nothing), None, "{nothing:?}");
    }
}

#[test]
fn long_words_are_no_terms() {
    for analyzer in Analyzer::ALL {
        let longest = "x".repeat(MAX_TERM_BYTES);
        assert_eq!(analyzer.term(&longest), Some(Cow::Borrowed(longest.as_str())));
        assert_eq!(analyzer.term(&(longest.clone() + "x")), None);
    }
}

#[test]
fn names_round_trip() {
    for analyzer in Analyzer::ALL {
        assert_eq!(analyzer.to_string().parse::<Analyzer>().unwrap(), analyzer);
    }
    let error = "german".parse::<Analyzer>().unwrap_err().to_string();
    assert_eq!(error, "no analyzer named \"german\"; the analyzers are english, plain, raw");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn ascii_equals_the_definition(text in "[a-cA-C0-2.':,;_\\- \n]{0,60}") {
        prop_assert_eq!(words(Analyzer::Plain, &text), reference(&text));
    }

    #[test]
    fn mixed_equals_the_definition(
        text in "([a-cA-C0-2.':,;_\" \t\n\u{b}-]{0,6}|[éÉßİΣאבカ東ะः’\u{a0}\u{300}\u{200d}\u{3000}\u{85}Ⓜ😀🇩\u{ad}\u{2028}]|\\PC){0,40}"
    ) {
        prop_assert_eq!(words(Analyzer::Plain, &text), reference(&text));
    }

    #[test]
    fn terms_are_bounded_and_not_empty(text in "([a-z's’.éß]{1,12}|\\PC{1,8})( [a-zéß's’]{1,12}){0,5}") {
        for analyzer in Analyzer::ALL {
            for word in text.split(' ') {
                if let Some(term) = analyzer.term(word) {
                    prop_assert!(!term.is_empty() && term.len() <= MAX_TERM_BYTES);
                }
            }
            // Snippets rely on this: a term begins like its word, except for an apostrophe.
            for (word, _) in words(analyzer, &text) {
                if let Some(term) = analyzer.term(&word) {
                    let apostrophe = word.starts_with(['\'', '’']);
                    prop_assert!(apostrophe || term.as_bytes()[0] == word.as_bytes()[0]);
                }
            }
        }
    }
}

//! Tests of chains and of the analyzers compiled from them.

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use warpseek_core::limits::MAX_TERM_BYTES;

use super::*;

const TEXTS: &str = "([a-cA-C0-2.':,;_\" \t\n\u{b}-]{0,6}|(the|It's|cats’|Running) |[éÉßİΣאבカ東ะः’\u{a0}\u{300}\u{200d}\u{3000}\u{85}Ⓜ😀🇩\u{ad}\u{2028}]|\\PC){0,40}";

type Words = Vec<(String, Range<usize>, u32)>;

fn words(analyzer: &FieldAnalyzer, text: &str) -> Words {
    let mut words = Vec::new();
    let scratch = &mut Scratch::default();
    let positions = analyzer.for_each_word(scratch, text, |word, range, position| {
        words.push((word.to_owned(), range, position));
    });
    assert_eq!(positions, words.last().map_or(0, |(_, _, last)| last + 1));
    words
}

fn old_words(analyzer: Analyzer, text: &str) -> Words {
    let mut words = Vec::new();
    analyzer.for_each_word(&mut Scratch::default(), text, |word, range| {
        words.push((word.to_owned(), range, words.len() as u32));
    });
    words
}

fn compile(json: &str) -> FieldAnalyzer {
    serde_json::from_str::<Chain>(json).unwrap().compile().unwrap()
}

/// Returns the terms, each with its position unless that is the next one.
fn terms(json: &str, text: &str) -> String {
    let (mut next, mut out) = (0, Vec::new());
    for (term, position) in compile(json).terms(text) {
        out.push(if position == next { term } else { format!("{position}:{term}") });
        next = position + 1;
    }
    out.join(" ")
}

#[test]
fn parts_do_what_they_say() {
    for (json, text, want) in [
        ("{}", "The Café's x_1, 東京", "the café's x_1 東 京"),
        (r#"{"lower":false}"#, "The CAFÉ", "The CAFÉ"),
        (r#"{"fold":true}"#, "Café CAFE\u{301} cafe Straße", "cafe cafe cafe strasse"),
        (r#"{"fold":true,"lower":false}"#, "CAFÉ Æsir", "CAFE AEsir"),
        (r#"{"fold":true}"#, "ᴬʙ İstanbul", "aʙ istanbul"),
        (r#"{"tokens":"whitespace"}"#, " Foo-Bar\u{3000}Ünder. ", "foo-bar ünder."),
        (r#"{"tokens":"whitespace","lower":false}"#, "Foo-Bar é", "Foo-Bar é"),
        (r#"{"tokens":"keyword"}"#, " New York ", " new york "),
        (r#"{"tokens":"keyword"}"#, "", ""),
        (r#"{"stop":"english"}"#, "To be the best", "3:best"),
        (r#"{"stop":["UND","für"]}"#, "und Für fur x", "2:fur x"),
        (r#"{"stop":["für"],"fold":true}"#, "fur Für FUR x", "3:x"),
        (r#"{"stem":"german"}"#, "Häuser der häusern", "haus der haus"),
        (r#"{"stem":"french","fold":true}"#, "cafés cafes", "caf caf"),
        (r#"{"stem":"english","stop":["it"]}"#, "It's dogs’ IT’S", "1:dog"),
        (r#"{"stem":"english","stop":["it"],"fold":true}"#, "It's dogs’ IT’S", "1:dog"),
        (r#"{"tokens":{"grams":{"least":2,"most":3}}}"#, "Abcd é", "ab 0:abc bc 1:bcd cd é"),
        (r#"{"tokens":{"grams":{"least":2,"most":3,"edge":true}}}"#, "Abcd é xy", "ab 0:abc é xy"),
        (r#"{"tokens":{"grams":{"least":3,"most":3}},"fold":true}"#, "Maße", "mas ass sse"),
    ] {
        assert_eq!(terms(json, text), want, "{json} {text:?}");
    }
}

#[test]
fn pairs_of_cjk_characters() {
    let cjk = r#"{"tokens":"cjk_bigrams"}"#;
    for (text, want) in [
        ("東京タワー", "東京 京タ タワ ワー"),
        ("京", "京"),
        ("東京 京都、大阪", "東京 京都 大阪"),
        ("한국어 단어", "한국 국어 단어"),
        ("Tシャツ3枚 Café", "t シャ ャツ 3 枚 café"),
        ("ｶﾞｲﾄﾞ", "ガイ イド"),
        ("か\u{3099}く", "がく"),
        ("葛\u{e0100}城", "葛城"),
        ("ジョン・スミス", "ジョ ョン スミ ミス"),
        ("It's 3.14", "it's 3.14"),
        ("", ""),
    ] {
        assert_eq!(terms(cjk, text), want, "{text:?}");
    }
    // Ranges are those of the original characters.
    let text = "x ｶﾞｲﾄﾞ";
    let pairs = words(&compile(cjk), text);
    let originals: Vec<_> = pairs.iter().map(|(_, range, _)| &text[range.clone()]).collect();
    assert_eq!(originals, ["x", "ｶﾞｲ", "ｲﾄﾞ"]);
}

/// A dropped mark, and one character that became two, belong to the n-grams that contain them.
#[test]
fn n_grams_know_where_they_came_from() {
    let grams = compile(r#"{"tokens":{"grams":{"least":3,"most":3}},"fold":true}"#);
    let text = "x cafe\u{301} Maß";
    let originals: Vec<_> = words(&grams, text)
        .into_iter()
        .map(|(gram, range, position)| (gram, &text[range], position))
        .collect();
    let expected = [
        ("x", "x", 0),
        ("caf", "caf", 1),
        ("afe", "afe\u{301}", 2),
        ("mas", "Maß", 3),
        ("ass", "aß", 4),
    ];
    assert_eq!(originals, expected.map(|(gram, text, at)| (gram.to_owned(), text, at)));
}

#[test]
fn every_predefined_chain_works() {
    for name in Chain::predefined_names() {
        let analyzer = Chain::predefined(name).unwrap().compile().unwrap();
        assert!(!analyzer.terms("Häuser").is_empty(), "{name}");
    }
    assert_eq!(Chain::predefined_names().count(), 3 + 2 + 17);
    assert_eq!(Chain::predefined("klingon"), None);
    let swedish = Chain::predefined("swedish").unwrap().compile().unwrap();
    assert_eq!(swedish.terms("Flickorna"), [("flick".to_owned(), 0)]);
}

#[test]
fn the_longest_term_of_a_field_leaves_room_for_its_number() {
    // No stemmer has rules for digits.
    let longest = "10".repeat(MAX_FIELD_TERM_BYTES / 2);
    let longer = longest.clone() + "1";
    for name in Chain::predefined_names() {
        let analyzer = Chain::predefined(name).unwrap().compile().unwrap();
        assert_eq!(analyzer.term(&longest).as_deref(), Some(&*longest), "{name}");
        assert_eq!(analyzer.term(&longer), None, "{name}");
    }
    for analyzer in Analyzer::ALL {
        assert_eq!(FieldAnalyzer::from(analyzer).term(&longer).as_deref(), Some(&*longer));
        assert_eq!(FieldAnalyzer::from(analyzer).term(&(longer.clone() + "0")), None);
    }
    assert_eq!(longer.len(), MAX_TERM_BYTES);
}

/// Characters have at most four bytes.
#[test]
fn the_largest_n_grams_are_terms() {
    let json = format!(r#"{{"tokens":{{"grams":{{"least":1,"most":{MAX_GRAM_CHARS}}}}}}}"#);
    let text = "𐐨".repeat(usize::from(MAX_GRAM_CHARS));
    let terms = compile(&json).terms(&text);
    let n = usize::from(MAX_GRAM_CHARS);
    assert_eq!(terms.len(), n * (n + 1) / 2);
    assert!(terms.contains(&(text, 0)));
}

#[test]
fn chains_that_cannot_work() {
    let grams = |least, most| Chain {
        tokens: Tokens::Grams { least, most, edge: false },
        ..Chain::default()
    };
    let list = |words: Vec<String>| Chain { stop: StopWords::List(words), ..Chain::default() };
    let most = MAX_GRAM_CHARS;
    for good in [
        grams(1, 1),
        grams(1, most),
        list(Vec::new()),
        list(vec!["x".repeat(MAX_FIELD_TERM_BYTES); MAX_STOP_WORDS]),
    ] {
        good.check().unwrap();
    }
    for (bad, message) in [
        (grams(0, 2), "tokens: n-grams of 0 to 2 characters; they must be 1 to 32, the smaller"),
        (grams(3, 2), "tokens: n-grams of 3 to 2 characters"),
        (grams(2, most + 1), "tokens: n-grams of 2 to 33 characters"),
        (Chain { stem: Some(Language::Dutch), ..grams(2, 2) }, "tokens: n-grams are not words"),
        (Chain { stop: StopWords::English, ..grams(2, 2) }, "tokens: n-grams are not words"),
        (Chain { lower: false, stem: Some(Language::Greek), ..Chain::default() }, "stem: greek"),
        (list(vec!["x".to_owned(); MAX_STOP_WORDS + 1]), "stop: 10001 words, the limit is 10000"),
        (list(vec!["x".repeat(MAX_FIELD_TERM_BYTES + 1)]), "stop: a word of 255 bytes, allowed"),
        (list(vec![String::new()]), "stop: a word of 0 bytes"),
    ] {
        let error = bad.compile().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn json_that_is_no_chain() {
    for (json, message) in [
        (r#"{"steam":"german"}"#, "unknown field `steam`, expected one of `tokens`, `lower`"),
        (r#"{"stem":"klingon"}"#, "unknown variant `klingon`, expected one of `arabic`"),
        (r#"{"tokens":"words"}"#, "unknown variant `words`, expected one of `unicode`"),
        (r#"{"tokens":{"grams":{"least":2}}}"#, "missing field `most`"),
        (r#"{"tokens":{"grams":{"least":2,"most":3,"x":1}}}"#, "unknown field `x`"),
        (r#"{"stop":"german"}"#, "invalid value: string \"german\", expected stop words: \"none\""),
        (r#"{"stop":["a",1]}"#, "invalid type: integer `1`, expected a string"),
        (r#"{"lower":1}"#, "invalid type: integer `1`, expected a boolean"),
    ] {
        let error = serde_json::from_str::<Chain>(json).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

fn chains() -> impl Strategy<Value = Chain> {
    let tokens = prop_oneof![
        Just(Tokens::Unicode),
        Just(Tokens::Whitespace),
        Just(Tokens::Keyword),
        Just(Tokens::CjkBigrams),
        (1u8..5, 0u8..4, any::<bool>()).prop_map(|(least, more, edge)| Tokens::Grams {
            least,
            most: least + more,
            edge
        }),
    ];
    let stop = prop_oneof![
        Just(StopWords::None),
        Just(StopWords::English),
        prop::collection::vec("[a-cé]{1,2}|the", 0..3).prop_map(StopWords::List),
    ];
    let stem = prop::option::of(prop::sample::select(&Language::ALL[..]));
    (tokens, any::<bool>(), any::<bool>(), stop, stem).prop_map(
        |(tokens, lower, fold, stop, stem)| {
            let words = !matches!(tokens, Tokens::Grams { .. });
            let stop = if words { stop } else { StopWords::None };
            Chain { tokens, lower, fold, stop, stem: stem.filter(|_| words && lower) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn predefined_chains_are_the_analyzers(text in TEXTS) {
        for old in Analyzer::ALL {
            let compiled = Chain::predefined(&old.to_string()).unwrap().compile().unwrap();
            for new in [FieldAnalyzer::from(old), compiled] {
                let words = words(&new, &text);
                prop_assert_eq!(&words, &old_words(old, &text));
                for (word, _, _) in words {
                    prop_assert_eq!(new.term(&word), old.term(&word));
                }
                let terms: Vec<_> = new.terms(&text).into_iter().map(|(term, _)| term).collect();
                prop_assert_eq!(terms, old.terms(&text));
            }
        }
    }

    #[test]
    fn any_chain_gives_words_in_order_and_terms_that_fit(chain in chains(), text in TEXTS) {
        let analyzer = chain.compile().unwrap();
        let words = words(&analyzer, &text);
        prop_assert!(words.is_sorted_by_key(|(_, range, position)| (*position, range.start)));
        for (word, range, _) in words {
            prop_assert!(!word.is_empty() && text.get(range).is_some_and(|part| !part.is_empty()));
            if let Some(term) = analyzer.term(&word) {
                prop_assert!((1..=MAX_FIELD_TERM_BYTES).contains(&term.len()));
            }
        }
    }

    /// Earlier use of the scratch for other texts and chains has no effect.
    #[test]
    fn words_depend_on_nothing_before(chain in chains(), other in chains(), a in TEXTS, b in TEXTS) {
        let mut scratch = Scratch::default();
        other.compile().unwrap().for_each_word(&mut scratch, &a, |_, _, _| {});
        let (analyzer, mut again) = (chain.compile().unwrap(), Vec::new());
        analyzer.for_each_word(&mut scratch, &b, |word, range, at| again.push((word.to_owned(), range, at)));
        prop_assert_eq!(again, words(&analyzer, &b));
    }

    /// Text typed without accents has the same terms, which is why folding comes first.
    #[test]
    fn folded_text_has_the_same_terms(chain in chains(), text in "([a-zA-ZÀ-ſ]{1,6} ){0,8}") {
        let analyzer = Chain { fold: true, ..chain }.compile().unwrap();
        let mut folded = String::new();
        text.chars().for_each(|c| fold::push(c, &mut folded));
        let decomposed: String = text.nfd().collect();
        prop_assert_eq!(analyzer.terms(&folded), analyzer.terms(&text));
        prop_assert_eq!(analyzer.terms(&decomposed), analyzer.terms(&text));
    }

    #[test]
    fn n_grams_are_the_substrings(least in 1usize..5, more in 0usize..4, edge: bool, text in "([a-cé東]{1,7} ){0,5}") {
        let most = least + more;
        let tokens = Tokens::Grams { least: least as u8, most: most as u8, edge };
        let analyzer = Chain { tokens, ..Chain::default() }.compile().unwrap();
        let mut expected = Vec::new();
        for (word, _, _) in old_words(Analyzer::Plain, &text) {
            let chars: Vec<char> = word.chars().collect();
            for start in 0..chars.len() {
                for end in start + 1..=chars.len() {
                    let sized = (least..=most).contains(&(end - start));
                    let whole = chars.len() < least && end - start == chars.len();
                    if (sized || whole) && (start == 0 || !edge) {
                        expected.push(chars[start..end].iter().collect::<String>());
                    }
                }
            }
        }
        let words = words(&analyzer, &text);
        for (gram, range, _) in &words {
            prop_assert_eq!(gram, &text[range.clone()]);
        }
        prop_assert_eq!(words.into_iter().map(|(gram, _, _)| gram).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn text_without_cjk_has_no_pairs(text in "([a-cA-C0-2.':,;_ é’αβЖ\u{300}]){0,40}") {
        let pairs = Chain { tokens: Tokens::CjkBigrams, ..Chain::default() }.compile().unwrap();
        prop_assert_eq!(words(&pairs, &text), old_words(Analyzer::Plain, &text));
    }

    #[test]
    fn chains_are_read_as_they_were_written(chain in chains()) {
        let json = serde_json::to_string(&chain).unwrap();
        prop_assert_eq!(serde_json::from_str::<Chain>(&json).unwrap(), chain);
    }
}

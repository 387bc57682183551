//! Targets for analysis, snippets, n-grams and queries, with any text.

use warpseek_core::limits::MAX_TERM_BYTES;
use warpseek_exec::Query;
use warpseek_exec::query::{Operator, display, parse};
use warpseek_index::Content;
use warpseek_text::{
    Analyzer, Chain, GramConfig, GramScratch, MAX_FIELD_TERM_BYTES, Normal, Schema, Scratch, Unit,
    snippet,
};

use crate::split;

const ANALYZERS: [Analyzer; 3] = [Analyzer::English, Analyzer::Plain, Analyzer::Raw];

/// Checks that words are ranges of the text in ascending order, that terms have 1 to 255 bytes,
/// and that a snippet respects its limit.
pub fn analysis(data: &[u8]) {
    let Some(([max_chars], data)) = split::<1>(data) else { return };
    let text = String::from_utf8_lossy(data);
    for analyzer in ANALYZERS {
        let (mut end, mut terms) = (0, Vec::new());
        analyzer.for_each_word(&mut Scratch::default(), &text, |word, range| {
            assert!(end <= range.start && range.start < range.end);
            end = range.end;
            let original = &text[range];
            match analyzer {
                Analyzer::Raw => assert_eq!(word, original),
                _ => assert!(original.chars().flat_map(char::to_lowercase).eq(word.chars())),
            }
            assert!(!word.is_empty() && !word.contains([' ', '\t', '\n', '\r']));
            terms.extend(analyzer.term(word).map(|term| term.into_owned()));
        });
        assert!(terms.iter().all(|term| (1..=MAX_TERM_BYTES).contains(&term.len())));
        assert_eq!(analyzer.terms(&text), terms);
        let wanted: Vec<_> = terms.iter().rev().step_by(3).take(4).map(String::as_str).collect();
        check_snippet(&text, analyzer, &wanted, usize::from(max_chars));
    }
}

/// Checks a chain: the first line is the chain in JSON, the rest is text. A chain must be
/// refused, or give words in ascending order and terms of 1 to 254 bytes.
pub fn chain(data: &[u8]) {
    let data = String::from_utf8_lossy(data);
    let (json, text) = data.split_once('\n').unwrap_or((&data, ""));
    let Ok(chain) = serde_json::from_str::<Chain>(json) else { return };
    let Ok(analyzer) = chain.compile() else { return };
    let json = serde_json::to_string(&chain).expect("a chain has a JSON form");
    assert_eq!(serde_json::from_str::<Chain>(&json).expect("which is read again"), chain);
    let (mut last, mut terms) = ((0, 0), Vec::new());
    let positions =
        analyzer.for_each_word(&mut Scratch::default(), text, |word, range, position| {
            assert!(
                !word.is_empty() && text.get(range.clone()).is_some_and(|part| !part.is_empty())
            );
            assert!(last <= (position, range.start));
            last = (position, range.start);
            terms.extend(analyzer.term(word).map(|term| (term.into_owned(), position)));
        });
    assert!(terms.iter().all(|(term, _)| (1..=MAX_FIELD_TERM_BYTES).contains(&term.len())));
    assert!(terms.last().is_none_or(|(_, position)| *position < positions));
    assert_eq!(analyzer.terms(text), terms);
}

/// Checks that a schema is refused, or is unchanged after writing and reading it.
pub fn schema(data: &[u8]) {
    let Ok(schema) = Schema::parse(&String::from_utf8_lossy(data)) else { return };
    let json = serde_json::to_string(&schema).expect("a schema has a JSON form");
    assert_eq!(Schema::parse(&json).expect("which is read again"), schema);
    assert!(schema.extends(&schema).is_ok());
    let names = schema.text().iter().map(|field| &field.name);
    let names = names.chain(schema.attributes().iter().map(|attribute| &attribute.name));
    assert!(names.into_iter().all(|name| schema.find(name).is_some()));
}

fn check_snippet(text: &str, analyzer: Analyzer, terms: &[&str], max_chars: usize) {
    let snippet = snippet(text, &analyzer.into(), terms, max_chars);
    assert!(snippet.text.chars().count() <= max_chars);
    let mut end = 0;
    for range in &snippet.highlights {
        assert!(end <= range.start && range.start < range.end);
        assert!(snippet.text.get(range.clone()).is_some());
        end = range.end;
    }
}

/// Checks that queries are parsed or refused, and that terms of text queries are valid index
/// terms.
pub fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for content in [Content::Text, Content::Vector] {
        for analyzer in ANALYZERS {
            let Ok(query) = Query::parse(&text, analyzer, content) else { continue };
            let limit = if content == Content::Text { MAX_TERM_BYTES } else { usize::MAX };
            assert!(query.terms.iter().all(|term| term.term.len() <= limit));
            if !text.trim_start().starts_with('{') {
                assert!(query.terms.iter().all(|term| !term.term.is_empty()));
            }
        }
    }
}

/// A schema with every kind of field.
const SCHEMA: &str = r#"{"text": [{"name": "t"}, {"name": "u"}], "attributes": [
    {"name": "k", "type": "keyword", "many": true}, {"name": "i", "type": "integer"}, {"name": "f", "type": "float"},
    {"name": "b", "type": "boolean"}, {"name": "d", "type": "date"}]}"#;

/// Checks that a text is a query or has an error at one of its characters, and that a parsed
/// query can be written and parsed again.
pub fn query_syntax(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let schema = Schema::parse(SCHEMA).expect("a schema");
    for schema in [Some(&schema), None] {
        match parse(&text, schema, Operator::Or) {
            Ok(node) => {
                let shown = display(&node).expect("what was read has a text");
                assert_eq!(parse(&shown, schema, Operator::Or), Ok(node));
            }
            Err(error) => {
                assert!(text.is_char_boundary(error.at));
                assert!(error.caret(40).lines().count() <= 2);
            }
        }
        // This gives another tree, but accepts the same texts.
        let or = parse(&text, schema, Operator::Or).is_ok();
        assert_eq!(parse(&text, schema, Operator::And).is_ok(), or);
    }
}

/// Checks normal forms and n-grams; the bytes are the length and unit of n-grams, the words of a
/// segment, and text. The normal form must be the same with and without the source of each
/// character. The n-grams of the text must be in its parts and segments, and include those of the
/// query.
pub fn normalize(data: &[u8]) {
    let Some(([kind, words], data)) = split::<2>(data) else { return };
    let text = String::from_utf8_lossy(data);
    let mut normal = String::new();
    warpseek_text::normalize(&text, &mut normal);
    let with_sources = Normal::of(&text);
    assert_eq!(with_sources.text, normal);
    assert_eq!(with_sources.sources.len(), normal.chars().count());
    assert!(with_sources.sources.iter().all(|&(start, end)| text.get(start..end).is_some()));
    assert!(with_sources.sources.is_sorted());
    assert!(!normal.starts_with(' ') && !normal.ends_with(' ') && !normal.contains("  "));

    let unit = if kind < 128 { Unit::Char } else { Unit::Word };
    let (n, segment_words) = (2 + u32::from(kind % 7), 1 + u32::from(words % 20));
    let whole = GramConfig { unit, n, segment_words, parts: false };
    let config = GramConfig { parts: words >= 128, ..whole };
    let (title, body) = text.split_at(text.find('\n').unwrap_or(0));
    let mut scratch = GramScratch::default();
    let parts = config.count_parts(&mut scratch, title, body);
    let mut highest = Vec::new();
    let words = config.for_each(&mut scratch, title, body, |part, gram, bit| {
        assert!(part < parts && !gram.is_empty() && bit.is_power_of_two());
        assert!(gram.len() <= MAX_TERM_BYTES);
        highest.resize(highest.len().max(part as usize + 1), 0);
        highest[part as usize] = bit.max(highest[part as usize]);
    });
    assert_eq!(parts, config.parts(words));
    for (part, highest) in (0..).zip(highest) {
        assert!(u64::from(highest) < 1 << config.segments(part, words));
    }

    let query = whole.query(&text);
    assert_eq!(query.text, normal);
    assert!((2..=32).contains(&query.window));
    let mut missing: std::collections::BTreeSet<&[u8]> =
        query.grams.iter().map(Vec::as_slice).collect();
    whole.for_each(&mut scratch, "", &text, |_, gram, _| {
        missing.remove(gram);
    });
    assert!(missing.is_empty(), "{missing:?}");
}

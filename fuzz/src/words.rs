//! Targets for analysis, snippets and queries, with any text.

use warpseek_core::limits::MAX_TERM_BYTES;
use warpseek_exec::Query;
use warpseek_index::Content;
use warpseek_text::{Analyzer, Scratch, snippet};

use crate::split;

const ANALYZERS: [Analyzer; 3] = [Analyzer::English, Analyzer::Plain, Analyzer::Raw];

/// Words are ranges of the text in ascending order, terms have 1 to 255 bytes, and a snippet
/// respects its limit.
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

fn check_snippet(text: &str, analyzer: Analyzer, terms: &[&str], max_chars: usize) {
    let snippet = snippet(text, analyzer, terms, max_chars);
    assert!(snippet.text.chars().count() <= max_chars);
    let mut end = 0;
    for range in &snippet.highlights {
        assert!(end <= range.start && range.start < range.end);
        assert!(snippet.text.get(range.clone()).is_some());
        end = range.end;
    }
}

/// Queries are parsed or refused, and terms of text queries are valid index terms.
pub fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for content in [Content::Text, Content::Vector] {
        for analyzer in ANALYZERS {
            let Ok(query) = Query::parse(&text, analyzer, content) else { continue };
            let limit = if content == Content::Text { MAX_TERM_BYTES } else { usize::MAX };
            assert!(query.terms.iter().all(|(term, _)| term.len() <= limit));
            if !text.trim_start().starts_with('{') {
                assert!(query.terms.iter().all(|(term, _)| !term.is_empty()));
            }
        }
    }
}

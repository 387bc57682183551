//! Snippets: the part of a text that best shows why it matched.
//!
//! The text is cut into units, each a word with the punctuation around it. A window of units
//! slides over the text. The best window has the most distinct query terms, then the most
//! occurrences, then the first position. It is shrunk to its matches and grown again on both
//! sides, so that the matches are in the middle. Every step is linear in the text.

use std::collections::HashMap;
use std::ops::Range;

use crate::{FieldAnalyzer, Language, Scratch};

/// A part of a text, ready to be displayed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// Text of the part, with runs of white space replaced by single blanks, and `…` where the
    /// text was cut.
    pub text: String,
    /// Ranges of bytes in `text` of the words that match a query term, from left to right.
    pub highlights: Vec<Range<usize>>,
}

const ELLIPSIS: char = '…';

/// Returns the best part of `text` for a query of the analyzed `terms`, with at most `max_chars`
/// characters including ellipses. Without a match it is the beginning of the text.
pub fn snippet(text: &str, analyzer: &FieldAnalyzer, terms: &[&str], max_chars: usize) -> Snippet {
    let words = apart(words(text, analyzer, terms));
    let units = Units::new(text, &words);
    if units.len(0..units.count()) <= max_chars {
        return render(text, &words, 0..units.count(), &units, usize::MAX);
    }
    // Both ends may need an ellipsis.
    let Some(budget) = max_chars.checked_sub(2).filter(|&budget| budget > 0) else {
        return Snippet::default();
    };
    let window = grow(&units, best_matches(&units, &words, terms.len(), budget), budget);
    render(text, &words, window, &units, budget)
}

/// Returns for each of the analyzed `terms` the first word of `text` that matches it, as written in
/// the text.
pub fn first_words<'a>(
    text: &'a str,
    analyzer: &FieldAnalyzer,
    terms: &[&str],
) -> Vec<Option<&'a str>> {
    let mut first = vec![None; terms.len()];
    for word in words(text, analyzer, terms) {
        if let Some(term) = word.term {
            first[term] = first[term].or_else(|| text.get(word.range));
        }
    }
    first
}

/// A word of the text.
struct Word {
    range: Range<usize>,
    /// Index of the query term that the word matches, if any.
    term: Option<usize>,
}

fn words(text: &str, analyzer: &FieldAnalyzer, terms: &[&str]) -> Vec<Word> {
    let terms: HashMap<&str, usize> =
        terms.iter().enumerate().map(|(i, term)| (*term, i)).collect();
    // English stems begin like their words, except for a leading apostrophe (`'` or U+2019), so
    // the first byte distinguishes most words from all terms. Other languages change first
    // letters, too.
    let keeps_start = matches!(analyzer.chain().stem, None | Some(Language::English));
    let mut starts = [!keeps_start; 256];
    let term_starts = terms.keys().filter_map(|term| term.bytes().next());
    for byte in term_starts.chain([b'\'', 0xe2]) {
        starts[usize::from(byte)] = true;
    }
    // Stemming costs more than a look-up, and texts repeat their words.
    let mut known: HashMap<String, Option<usize>> = HashMap::new();
    let mut words = Vec::new();
    analyzer.for_each_word(&mut Scratch::default(), text, |word, range, _| {
        if !word.bytes().next().is_some_and(|byte| starts[usize::from(byte)]) {
            words.push(Word { range, term: None });
            return;
        }
        let term = known.get(word).copied().unwrap_or_else(|| {
            let term = analyzer.term(word).and_then(|term| terms.get(term.as_ref()).copied());
            known.insert(word.to_owned(), term);
            term
        });
        words.push(Word { range, term });
    });
    words
}

/// Cuts overlapping words so that each ends where the next one starts; pairs of characters and
/// n-grams overlap. A part that a match covers is a match.
fn apart(words: Vec<Word>) -> Vec<Word> {
    if words.is_sorted_by(|a, b| a.range.end <= b.range.start) {
        return words;
    }
    let mut parts: Vec<Word> = Vec::with_capacity(words.len());
    // End and term of the match that reaches furthest so far.
    let (mut reach, mut covering) = (0, None);
    for Word { range, term } in words {
        if let Some(last) = parts.last_mut() {
            if last.range.start == range.start {
                last.range.end = last.range.end.max(range.end);
                last.term = last.term.or(term);
            } else {
                last.range.end = last.range.end.min(range.start);
            }
        }
        if term.is_some() && range.end > reach {
            (reach, covering) = (range.end, term);
        }
        if parts.last().is_none_or(|last| last.range.start < range.start) {
            let term = term.or(covering.filter(|_| range.start < reach));
            parts.push(Word { range, term });
        }
    }
    parts
}

/// The units of a text. Unit `i` is `cuts[i]..cuts[i + 1]`, and the units cover the whole text.
/// There is one unit per word, and at least one.
struct Units {
    cuts: Vec<usize>,
    /// Number of characters before each cut, with white space folded.
    chars: Vec<usize>,
    /// True if there is white space before the cut.
    blank: Vec<bool>,
}

impl Units {
    fn new(text: &str, words: &[Word]) -> Self {
        let mut cuts = vec![0];
        for pair in words.windows(2) {
            let (end, start) = (pair[0].range.end, pair[1].range.start);
            // Closing punctuation belongs to the word before, opening punctuation to the word
            // after.
            let blank = text[end..start].char_indices().find(|(_, c)| c.is_whitespace());
            cuts.push(blank.map_or(start, |(at, c)| end + at + c.len_utf8()));
        }
        cuts.push(text.len());

        let (mut chars, mut blanks) = (Vec::new(), Vec::new());
        // White space at the start is dropped, as if a blank had been counted already.
        let (mut count, mut blank) = (0, true);
        let mut ahead = text.char_indices().peekable();
        for &cut in &cuts {
            while let Some((_, c)) = ahead.next_if(|&(at, _)| at < cut) {
                let white = c.is_whitespace();
                count += usize::from(!(white && blank));
                blank = white;
            }
            chars.push(count);
            blanks.push(blank);
        }
        Self { cuts, chars, blank: blanks }
    }

    fn count(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Returns the length of some units in displayed characters.
    fn len(&self, units: Range<usize>) -> usize {
        let chars = self.chars[units.end] - self.chars[units.start];
        chars.saturating_sub(usize::from(self.blank[units.end]))
    }
}

/// Returns the units from the first to the last match of the best window; without a match, the
/// first unit.
fn best_matches(units: &Units, words: &[Word], terms: usize, budget: usize) -> Range<usize> {
    let mut occurrences = vec![0u32; terms];
    let (mut distinct, mut total) = (0, 0);
    let (mut best, mut best_window) = ((0, 0), 0..1);
    let mut start = 0;
    for (i, word) in words.iter().enumerate() {
        if let Some(term) = word.term {
            distinct += usize::from(occurrences[term] == 0);
            occurrences[term] += 1;
            total += 1;
        }
        while start < i && units.len(start..i + 1) > budget {
            if let Some(term) = words[start].term {
                occurrences[term] -= 1;
                distinct -= usize::from(occurrences[term] == 0);
                total -= 1;
            }
            start += 1;
        }
        if (distinct, total) > best {
            best = (distinct, total);
            best_window = start..i + 1;
        }
    }
    let matched = |i: &usize| words.get(*i).is_some_and(|word| word.term.is_some());
    match (best_window.clone().find(matched), best_window.clone().rfind(matched)) {
        (Some(first), Some(last)) => first..last + 1,
        _ => best_window,
    }
}

/// Adds units on both sides in turn as long as they fit.
fn grow(units: &Units, mut window: Range<usize>, budget: usize) -> Range<usize> {
    loop {
        let before = window.clone();
        if window.end < units.count() && units.len(window.start..window.end + 1) <= budget {
            window.end += 1;
        }
        if window.start > 0 && units.len(window.start - 1..window.end) <= budget {
            window.start -= 1;
        }
        if window == before {
            return window;
        }
    }
}

/// Returns the text of a window, at most `budget` characters of it, since a single unit can be
/// longer.
fn render(
    text: &str,
    words: &[Word],
    window: Range<usize>,
    units: &Units,
    budget: usize,
) -> Snippet {
    let (start, end) = (units.cuts[window.start], units.cuts[window.end]);
    let mut out = String::new();
    if start > 0 {
        out.push(ELLIPSIS);
    }
    let mut highlights = Vec::new();
    let window = window.start..window.end.min(words.len());
    let mut matches = words[window].iter().filter(|word| word.term.is_some()).peekable();
    let mut open = None;
    let (mut chars, mut pending, mut reached) = (0, false, end);
    for (at, c) in text[start..end].char_indices().map(|(at, c)| (start + at, c)) {
        if let Some(from) = open
            && let Some(word) = matches.next_if(|word| word.range.end <= at)
        {
            debug_assert!(word.range.start < at);
            highlights.push(from..out.len());
            open = None;
        }
        if c.is_whitespace() {
            pending = chars > 0;
            continue;
        }
        if chars + usize::from(pending) >= budget {
            reached = at;
            break;
        }
        if std::mem::take(&mut pending) {
            out.push(' ');
            chars += 1;
        }
        if open.is_none() && matches.peek().is_some_and(|word| word.range.start <= at) {
            open = Some(out.len());
        }
        out.push(c);
        chars += 1;
    }
    // Mark a word that ends with the window, but not one that was cut.
    if let Some(from) = open
        && matches.next_if(|word| word.range.end <= reached).is_some()
    {
        highlights.push(from..out.len());
    }
    if reached < text.trim_end().len() {
        out.push(ELLIPSIS);
    }
    Snippet { text: out, highlights }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Analyzer, Chain, Tokens};

    fn marked(text: &str, query: &str, max_chars: usize) -> String {
        let terms = Analyzer::English.terms(query);
        let terms: Vec<_> = terms.iter().map(String::as_str).collect();
        let snippet = snippet(text, &Analyzer::English.into(), &terms, max_chars);
        let mut out = snippet.text.clone();
        for range in snippet.highlights.iter().rev() {
            out.insert(range.end, ']');
            out.insert(range.start, '[');
        }
        out
    }

    #[test]
    fn short_texts_are_whole() {
        assert_eq!(
            marked("  The cats,\n\tand  (dogs). ", "dog cat", 40),
            "The [cats], and ([dogs])."
        );
        assert_eq!(marked("", "dog", 10), "");
        assert_eq!(marked(" ... ", "dog", 10), "...");
    }

    #[test]
    fn the_window_with_the_most_distinct_terms() {
        let text = "cat cat cat one two three four five six seven a cat (and a dog) eight nine ten";
        assert_eq!(marked(text, "cat dog", 34), "…a [cat] (and a [dog]) eight nine ten");
        assert_eq!(marked(text, "cat", 18), "…[cat] [cat] [cat] one…".replacen('…', "", 1));
        assert_eq!(marked(text, "ten", 20), "…eight nine [ten]");
        let apart = "cat 345678 dog aa bb cc dd dog cat ee ff gg";
        assert_eq!(marked(apart, "cat dog", 12), "…[dog] [cat] ee…");
        assert_eq!(marked(text, "none", 20), "cat cat cat one…");
    }

    #[test]
    fn words_longer_than_the_window_are_cut() {
        assert_eq!(marked("abcdefghij", "abcdefghij", 6), "abcd…");
        assert_eq!(marked("x abcdefghij y", "abcdefghij", 6), "…abcd…");
        assert_eq!(marked("abc def", "abc", 2), "");
        assert_eq!(marked("東京は大きい都市です", "京", 5), "東[京]は…");
    }

    fn analyzer(tokens: Tokens, stem: Option<Language>) -> FieldAnalyzer {
        Chain { tokens, stem, ..Chain::from(Analyzer::Plain) }.compile().unwrap()
    }

    #[test]
    fn first_words_are_as_they_are_written() {
        let english = FieldAnalyzer::from(Analyzer::English);
        let text = "The Libraries, libraries of MIT: automated";
        let terms = ["librari", "mit", "nosuch", "autom"];
        assert_eq!(
            first_words(text, &english, &terms),
            [Some("Libraries"), Some("MIT"), None, Some("automated")]
        );
    }

    #[test]
    fn words_that_overlap_are_marked_together() {
        let pairs = analyzer(Tokens::CjkBigrams, None);
        let found = snippet("東京都庁", &pairs, &["京都"], 10);
        assert_eq!((&found.text[..], &found.highlights[..]), ("東京都庁", &[3..6, 6..12][..]));
        let grams = analyzer(Tokens::Grams { least: 2, most: 3, edge: false }, None);
        let found = snippet("abcd xy", &grams, &["bc"], 10);
        assert_eq!((&found.text[..], &found.highlights[..]), ("abcd xy", &[1..2, 2..4][..]));
    }

    /// The stem of `äpfel` begins with another letter than the word.
    #[test]
    fn stems_that_begin_otherwise_are_found() {
        let german = analyzer(Tokens::Unicode, Some(Language::German));
        let stem = german.term("äpfel").unwrap().into_owned();
        assert!(!stem.starts_with('ä'), "{stem}");
        let found = snippet("viele Äpfel", &german, &[&stem], 20);
        assert_eq!((found.highlights.len(), found.highlights.first()), (1, Some(&(6..12))));
    }

    proptest! {
        #[test]
        fn words_that_overlap_are_cut_in_bounds(
            text in "([abAB.,() \n]|[éß東京都は😀]){0,60}",
            max_chars in 0usize..40,
        ) {
            for tokens in [Tokens::CjkBigrams, Tokens::Grams { least: 1, most: 3, edge: false }, Tokens::Grams { least: 1, most: 9, edge: true }] {
                let found = snippet(&text, &analyzer(tokens, None), &["b", "ab", "東京", "京都", "é"], max_chars);
                prop_assert!(found.text.chars().count() <= max_chars);
                let mut last = 0;
                for range in &found.highlights {
                    prop_assert!(last <= range.start && range.start < range.end);
                    prop_assert!(found.text.get(range.clone()).is_some());
                    last = range.end;
                }
            }
        }

        #[test]
        fn any_text_is_cut_in_bounds(
            text in "([abAB.,() \n\u{3000}]|[éß東京ः\u{300}\u{200d}😀’]|\\PC){0,60}",
            max_chars in 0usize..40,
        ) {
            for analyzer in [Analyzer::English, Analyzer::Plain, Analyzer::Raw] {
                let snippet = snippet(&text, &analyzer.into(), &["b", "ab", "é", "東", "b"], max_chars);
                prop_assert!(snippet.text.chars().count() <= max_chars);
                let mut last = 0;
                for range in &snippet.highlights {
                    prop_assert!(last <= range.start && range.start < range.end);
                    let word = snippet.text[range.clone()].to_lowercase();
                    let word = word.trim();
                    prop_assert!(analyzer.terms(word).iter().all(|term| ["b", "ab", "é", "東"].contains(&term.as_str())), "{word}");
                    last = range.end;
                }
            }
        }
    }
}

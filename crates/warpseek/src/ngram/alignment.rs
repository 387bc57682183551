//! The alignment of a query with a document: the part that matches best, in the original
//! characters of the document.

use std::ops::Range;

use warpseek_core::DocId;
use warpseek_index::Snapshot;
use warpseek_ngram::distance::{Match, best_match};
use warpseek_text::{Document, Normal, Snippet, normalize};

use crate::error::{Error, Result};

const ELLIPSIS: char = '…';

/// Maximum distance by which a cut is moved to avoid splitting a word. Text without blanks is cut
/// anywhere.
const LONG_WORD: usize = 16;

/// The text of a document, and the part of it that matches a query best.
///
/// ```
/// use warpseek::ngram::NgramAlignment;
///
/// let text = "TCP begins with Slow-Start, which is not slow.";
/// let found = NgramAlignment::of("slov start", "", text);
/// assert_eq!((found.matched().as_str(), found.distance), ("Slow-Start", 1));
/// assert_eq!(found.in_text, 16..26);
/// let snippet = found.snippet(24);
/// assert_eq!(snippet.text, "…with Slow-Start,…");
/// assert_eq!(&snippet.text[snippet.highlights[0].clone()], "Slow-Start");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NgramAlignment {
    /// The title of the document.
    pub title: String,
    /// The text of the document.
    pub text: String,
    /// The range of matching bytes in the title; empty if there are none.
    pub in_title: Range<usize>,
    /// The range of matching bytes in the text; empty if there are none. A match may begin in the
    /// title and end in the text.
    pub in_text: Range<usize>,
    /// The edit distance: the number of characters to insert, delete or replace to turn the match
    /// into the query. Case and punctuation are ignored.
    pub distance: u32,
}

impl NgramAlignment {
    /// Aligns a query with a document.
    pub fn of(query: &str, title: &str, text: &str) -> Self {
        let mut normal = String::new();
        normalize(query, &mut normal);
        Self::new(&normal, None, title, text)
    }

    /// Aligns a query in normal form with a document. `known` is its best match in the normal
    /// form of the document, if that has been determined already.
    pub(super) fn new(query: &str, known: Option<Match>, title: &str, text: &str) -> Self {
        let (of_title, of_text) = (Normal::of(title), Normal::of(text));
        let normal = join(&of_title.text, &of_text.text);
        let found = known.unwrap_or_else(|| best_match(query, &normal));
        // A blank represents characters that match no letter of the query.
        let matched = normal.chars().enumerate().take(found.end).skip(found.start);
        let mut letters = matched.filter(|(_, c)| *c != ' ').map(|(at, _)| at);
        let (start, end) = match letters.next() {
            Some(first) => (first, letters.last().unwrap_or(first) + 1),
            None => (0, 0),
        };
        let titled = of_title.sources.len();
        let before_text = if titled == 0 { 0 } else { titled + 1 };
        NgramAlignment {
            in_title: original(&of_title, start.min(titled)..end.min(titled)),
            in_text: original(
                &of_text,
                start.saturating_sub(before_text)..end.saturating_sub(before_text),
            ),
            title: title.to_owned(),
            text: text.to_owned(),
            distance: found.distance,
        }
    }

    /// Returns the matching part of the document, in its original form.
    pub fn matched(&self) -> String {
        let (title, text) = (&self.title[self.in_title.clone()], &self.text[self.in_text.clone()]);
        join(title, text)
    }

    /// Returns the marked match with its context, in at most `max_chars` characters. White space
    /// is collapsed to single blanks, and `…` replaces what was cut off. Without a match, the
    /// snippet is the beginning of the text.
    pub fn snippet(&self, max_chars: usize) -> Snippet {
        match (self.in_title.is_empty(), self.in_text.is_empty()) {
            (true, true) if self.text.is_empty() => around(&self.title, 0..0, max_chars),
            (true, _) => around(&self.text, self.in_text.clone(), max_chars),
            (false, true) => around(&self.title, self.in_title.clone(), max_chars),
            (false, false) => {
                let both = join(&self.title, &self.text);
                let text = self.title.len() + 1;
                around(&both, self.in_title.start..text + self.in_text.end, max_chars)
            }
        }
    }
}

/// Joins two texts with a blank, unless one of them is empty.
fn join(title: &str, text: &str) -> String {
    let blank = if title.is_empty() || text.is_empty() { "" } else { " " };
    format!("{title}{blank}{text}")
}

/// Appends the normal form of a document as it is indexed: the normal forms of title and text,
/// separated by a blank.
pub(super) fn write_normal(title: &str, text: &str, out: &mut String) {
    normalize(title, out);
    let titled = out.len();
    if titled > 0 {
        out.push(' ');
    }
    let before_text = out.len();
    normalize(text, out);
    if out.len() == before_text {
        out.truncate(titled);
    }
}

/// Returns the range of original bytes from which some characters of a normal form originate.
fn original(normal: &Normal, chars: Range<usize>) -> Range<usize> {
    let (start, end) = normal.original(chars.start, chars.end);
    start..end
}

/// Calls `f` with the title and the text of a stored document.
pub(super) fn read_document<T>(
    snapshot: &Snapshot,
    doc: DocId,
    f: impl FnOnce(&str, &str) -> T,
) -> Result<T> {
    let json = snapshot.document(doc)?.ok_or(Error::NoText)?;
    let scale = snapshot.manifest().vector_scale;
    with_document(&json, scale, f).map_err(|problem| Error::Document { doc, problem })
}

/// Returns the normal form of a stored document, or a description of the problem.
pub(super) fn normal_of_json(json: &[u8], scale: u32) -> std::result::Result<String, String> {
    let mut normal = String::new();
    with_document(json, scale, |title, text| write_normal(title, text, &mut normal))?;
    Ok(normal)
}

fn with_document<T>(
    json: &[u8],
    scale: u32,
    f: impl FnOnce(&str, &str) -> T,
) -> std::result::Result<T, String> {
    let line = str::from_utf8(json).map_err(|error| error.to_string())?;
    let document = Document::from_json(line, scale).map_err(|error| error.to_string())?;
    Ok(f(&document.title, &document.text))
}

/// Returns a part of a text of at most `max_chars` characters around the range `mark` of its
/// bytes, which is marked.
fn around(text: &str, mark: Range<usize>, max_chars: usize) -> Snippet {
    // Text farther away cannot be part of the snippet, unless there is much white space.
    let reach = max_chars.saturating_mul(8);
    let from = text.floor_char_boundary(mark.start.saturating_sub(reach));
    let to = text.floor_char_boundary(mark.end.saturating_add(reach).min(text.len()));
    let (mut chars, mut marked) = (Vec::new(), 0..0);
    for (at, c) in text[from..to].char_indices().map(|(at, c)| (from + at, c)) {
        if at == mark.start {
            marked.start = chars.len();
        }
        if !c.is_whitespace() {
            chars.push(c);
        } else if chars.last().is_some_and(|&last| last != ' ') {
            chars.push(' ');
        }
        if at < mark.end {
            marked.end = chars.len();
        }
    }
    chars.truncate(chars.len() - usize::from(chars.last() == Some(&' ')));
    let (mut cut_left, mut cut_right) = (from > 0, to < text.len());
    if cut_left || cut_right || chars.len() > max_chars {
        // Reserve space for an ellipsis at either end.
        let Some(budget) = max_chars.checked_sub(2).filter(|&budget| budget > 0) else {
            return Snippet::default();
        };
        let window = window(&chars, &marked, budget);
        cut_left |= window.start > 0;
        cut_right |= window.end < chars.len();
        chars = chars[window.clone()].to_vec();
        let within = |at: usize| at.clamp(window.start, window.end) - window.start;
        marked = within(marked.start)..within(marked.end);
    }
    let mut snippet = Snippet::default();
    let mut highlight = 0..0;
    snippet.text.extend(cut_left.then_some(ELLIPSIS));
    for (at, &c) in chars.iter().enumerate() {
        if at == marked.start {
            highlight.start = snippet.text.len();
        }
        snippet.text.push(c);
        if at < marked.end {
            highlight.end = snippet.text.len();
        }
    }
    snippet.text.extend(cut_right.then_some(ELLIPSIS));
    if !marked.is_empty() {
        snippet.highlights.push(highlight);
    }
    snippet
}

/// Returns a window of at most `budget` characters, centred on the marked ones and cut between
/// words if possible.
fn window(chars: &[char], marked: &Range<usize>, budget: usize) -> Range<usize> {
    let shown = marked.len().min(budget);
    let (spare, after) = (budget - shown, chars.len() - marked.start - shown);
    let right = after.min(spare - marked.start.min(spare / 2));
    let left = marked.start.min(spare - right);
    let (mut start, mut end) = (marked.start - left, marked.start + shown + right);
    let is_blank = |at: usize| chars[at] == ' ';
    if start > 0 && !is_blank(start - 1) {
        let blank = (start..marked.start).take(LONG_WORD).find(|&at| is_blank(at));
        start = blank.unwrap_or(start);
    }
    if end < chars.len() && !is_blank(end) {
        let shown = marked.start + shown;
        let blank = (shown..end).rev().take(LONG_WORD).find(|&at| is_blank(at));
        end = blank.unwrap_or(end);
    }
    while start < marked.start && is_blank(start) {
        start += 1;
    }
    while end > start && is_blank(end - 1) {
        end -= 1;
    }
    start..end
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn show(snippet: &Snippet) -> String {
        let mut out = snippet.text.clone();
        for range in snippet.highlights.iter().rev() {
            out.insert(range.end, ']');
            out.insert(range.start, '[');
        }
        out
    }

    #[test]
    fn the_match_is_marked_with_what_stands_around_it() {
        let text = "one two  three\n\tfour five six seven eight nine ten";
        let shown =
            |query: &str, width: usize| show(&NgramAlignment::of(query, "", text).snippet(width));
        assert_eq!(shown("four fiwe", 80), "one two three [four five] six seven eight nine ten");
        assert_eq!(shown("four fiwe", 24), "…three [four five] six…");
        assert_eq!(shown("one", 12), "[one] two…");
        assert_eq!(shown("nine tem", 16), "…eight [nine te]n");
        assert_eq!(shown("four five six seven", 12), "…[four five]…");
        assert_eq!(shown("zzz", 12), "one two…");
        assert_eq!(shown("four", 2), "");
    }

    #[test]
    fn a_match_may_span_title_and_text() {
        let found = NgramAlignment::of("delta epsilon", "Gamma: Delta!", "(Epsilon) zeta");
        assert_eq!((found.in_title.clone(), found.in_text.clone()), (7..12, 1..8));
        assert_eq!(found.distance, 0);
        assert_eq!(found.matched(), "Delta Epsilon");
        assert_eq!(show(&found.snippet(80)), "Gamma: [Delta! (Epsilon]) zeta");
        let title = NgramAlignment::of("gxmma", "Gamma: Delta!", "(Epsilon) zeta");
        assert_eq!((title.in_title.clone(), title.in_text.clone()), (0..5, 0..0));
        assert_eq!(show(&title.snippet(80)), "[Gamma]: Delta!");
        let text = NgramAlignment::of("zeta", "", "(Epsilon) zeta");
        assert_eq!((text.in_title.clone(), text.in_text.clone()), (0..0, 10..14));
        let none = NgramAlignment::of("xyz", "Gamma", "");
        assert_eq!((none.matched().as_str(), none.snippet(9).text.as_str()), ("", "Gamma"));
    }

    #[test]
    fn letters_that_have_another_normal_form_are_marked_whole() {
        let found = NgramAlignment::of("strasse fin", "", "Die Straße (ﬁn) heißt so");
        assert_eq!((found.matched().as_str(), found.distance), ("Straße (ﬁn", 0));
        let found = NgramAlignment::of("東京都庁", "", "これは東京の都庁です。");
        assert_eq!((found.matched().as_str(), found.distance), ("東京の都庁", 1));
        assert_eq!(show(&found.snippet(9)), "…は[東京の都庁]で…");
    }

    proptest! {
        #[test]
        fn any_text_is_cut_in_bounds(
            query in "[ab é東]{0,8}",
            title in "([abAB.,\n ]|[éß東ﬁ\u{300}\u{200d}😀]|\\PC){0,12}",
            text in "([abAB.,\n ]|[éß東ﬁ\u{300}\u{200d}😀]|\\PC){0,60}",
            max_chars in 0usize..40,
        ) {
            let found = NgramAlignment::of(&query, &title, &text);
            prop_assert!(title.get(found.in_title.clone()).is_some());
            prop_assert!(text.get(found.in_text.clone()).is_some());
            let snippet = found.snippet(max_chars);
            prop_assert!(snippet.text.chars().count() <= max_chars, "{:?}", snippet.text);
            for range in &snippet.highlights {
                prop_assert!(!snippet.text.get(range.clone()).unwrap().is_empty());
            }
            // The distance of the alignment equals that of the best match in the normal form.
            let (mut normal, mut whole) = (String::new(), String::new());
            normalize(&query, &mut normal);
            write_normal(&title, &text, &mut whole);
            prop_assert_eq!(best_match(&normal, &whole).distance, found.distance);
        }
    }
}

//! Where a query matches a document, in the document's own characters.

use std::ops::Range;

use warpseek_core::DocId;
use warpseek_index::Snapshot;
use warpseek_ngram::distance::{Match, best_match};
use warpseek_text::{Document, Normal, Snippet, normalize};

use crate::error::{Error, Result};

const ELLIPSIS: char = '…';

/// How far a cut is moved so that it does not go through a word; text without blanks is cut anywhere.
const LONG_WORD: usize = 16;

/// A document's text, and where a query matches it best.
///
/// ```
/// use warpseek::NgramAlignment;
///
/// let found = NgramAlignment::of("slov start", "", "TCP begins with Slow-Start, which is not slow.");
/// assert_eq!((found.matched().as_str(), found.distance), ("Slow-Start", 1));
/// assert_eq!(found.in_text, 16..26);
/// let snippet = found.snippet(24);
/// assert_eq!(snippet.text, "…with Slow-Start,…");
/// assert_eq!(&snippet.text[snippet.highlights[0].clone()], "Slow-Start");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NgramAlignment {
    /// The title.
    pub title: String,
    /// The text.
    pub text: String,
    /// The bytes of the title that match; empty if none do.
    pub in_title: Range<usize>,
    /// The bytes of the text that match; empty if none do. A match may begin in the title and end in the text.
    pub in_text: Range<usize>,
    /// How many characters have to be inserted, deleted or replaced to make the query of it. Case and punctuation do not count.
    pub distance: u32,
}

impl NgramAlignment {
    /// Aligns a query with a document.
    pub fn of(query: &str, title: &str, text: &str) -> Self {
        let mut normal = String::new();
        normalize(query, &mut normal);
        Self::new(&normal, None, title, text)
    }

    /// The same for a query in normal form. `known` is its best match in the normal form of the document, if it was found before.
    pub(super) fn new(query: &str, known: Option<Match>, title: &str, text: &str) -> Self {
        let (of_title, of_text) = (Normal::of(title), Normal::of(text));
        let normal = join(&of_title.text, &of_text.text);
        let found = known.unwrap_or_else(|| best_match(query, &normal));
        // A blank stands for characters that no letter of the query matches.
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

    /// What the query matches, as it stands in the document.
    pub fn matched(&self) -> String {
        let (title, text) = (&self.title[self.in_title.clone()], &self.text[self.in_text.clone()]);
        join(title, text)
    }

    /// The match, marked, with what stands around it: at most this many characters, with white space folded to single blanks and `…` where the text was cut.
    /// Without a match it is the beginning of the text.
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

/// Two texts with a blank between them, unless one is empty.
fn join(title: &str, text: &str) -> String {
    let blank = if title.is_empty() || text.is_empty() { "" } else { " " };
    format!("{title}{blank}{text}")
}

/// Appends the normal form of a document as it is indexed: title and text, each for itself, with a blank between them.
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

/// The bytes that some characters of a normal form came from.
fn original(normal: &Normal, chars: Range<usize>) -> Range<usize> {
    let (start, end) = normal.original(chars.start, chars.end);
    start..end
}

/// Calls `f` with title and text of a stored document.
pub(super) fn read_document<T>(
    snapshot: &Snapshot,
    doc: DocId,
    f: impl FnOnce(&str, &str) -> T,
) -> Result<T> {
    let json = snapshot.document(doc)?.ok_or(Error::NoText)?;
    let scale = snapshot.manifest().vector_scale;
    with_document(&json, scale, f).map_err(|problem| Error::Document { doc, problem })
}

/// The normal form of a stored document; an error says what is wrong with it.
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

/// A part of a text of at most `max_chars` characters around some of its bytes, which are marked.
fn around(text: &str, mark: Range<usize>, max_chars: usize) -> Snippet {
    // Farther away is too far, unless there is much white space.
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
        // Both ends may need an ellipsis.
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

/// At most `budget` characters with the marked ones in the middle, cut between words if that is possible.
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
            // What the alignment says is found again in the text that it marks.
            let (mut normal, mut whole) = (String::new(), String::new());
            normalize(&query, &mut normal);
            write_normal(&title, &text, &mut whole);
            prop_assert_eq!(best_match(&normal, &whole).distance, found.distance);
        }
    }
}

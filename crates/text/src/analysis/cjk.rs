//! Pairs of characters for Chinese, Japanese and Korean, which are written with few blanks or
//! none.
//!
//! A run of such characters becomes overlapping pairs; a single character is a token itself. Runs
//! are normalized (NFKC) first, because half-width katakana and compatibility ideographs are
//! merely alternative spellings. All other text is segmented as usual.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::traced::Traced;
use crate::normal;

/// A part of a text.
pub(super) enum Part {
    /// Characters of these scripts only, with their marks.
    Cjk(Range<usize>),
    Other(Range<usize>),
}

/// Calls `f` with the parts that make up `text`; none is empty.
pub(super) fn for_each_part(text: &str, mut f: impl FnMut(Part)) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let other = rest.find(is_cjk).unwrap_or(rest.len());
        let run = &rest[other..];
        let len = run.find(|c| !is_cjk(c) && !joins(c)).unwrap_or(run.len());
        if other > 0 {
            f(Part::Other(at..at + other));
        }
        if len > 0 {
            f(Part::Cjk(at + other..at + other + len));
        }
        at += other + len;
    }
}

/// Calls `f` with the pairs of a run that begins at `base` in its text.
pub(super) fn for_each_pair(
    traced: &mut Traced,
    run: &str,
    base: usize,
    mut f: impl FnMut(&str, Range<usize>),
) {
    traced.clear();
    let mut at = 0;
    while at < run.len() {
        let end = at + normal::piece(&run[at..]);
        // A character that is still a mark after composition is a variant of the character before
        // it.
        let composed = run[at..end].nfkc().filter(|c| !is_combining_mark(*c));
        traced.extend(base + at..base + end, |out| out.extend(composed));
        at = end;
    }
    let chars = traced.len();
    let pairs = if chars > 1 { chars - 1 } else { chars };
    for start in 0..pairs {
        let (pair, range) = traced.slice(start..chars.min(start + 2));
        f(pair, range);
    }
}

/// Returns true for Han, kana and Hangul. Punctuation between them, such as the middle dot, ends
/// a run.
fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3005}' | '\u{3007}'
        | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}'
        | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{ff66}'..='\u{ff9d}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}'
        | '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' | '\u{a960}'..='\u{a97c}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{d7b0}'..='\u{d7fb}' | '\u{ffa1}'..='\u{ffdc}')
}

/// Returns true if a character changes the one before it: marks, including the voiced sound
/// marks.
fn joins(c: char) -> bool {
    is_combining_mark(c) || matches!(c, '\u{ff9e}' | '\u{ff9f}')
}

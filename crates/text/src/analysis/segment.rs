//! Segmentation into Unicode words (UAX #29), with a fast path for ASCII.
//!
//! No word spans ASCII white space, so the text is cut there. Stretches of ASCII go to the
//! table-driven scanner of `ascii`; a chunk with any other character goes to
//! `unicode_segmentation`. Cutting first makes a difference in one case, a combining mark right
//! after white space: UAX #29 attaches it to the white space; here it is separate, so that no
//! word contains white space.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::ascii;

/// Number of bytes processed at a time, so that their lower-cased copy stays in the first-level
/// cache.
const WINDOW: usize = 8 << 10;

/// A part of a text, cut at ASCII white space.
pub(super) enum Stretch {
    /// ASCII characters only.
    Ascii(Range<usize>),
    /// Text with characters beyond ASCII.
    Mixed(Range<usize>),
}

/// Calls `f` with each lower-cased word of `text` and its range.
pub(super) fn for_each_word(lower: &mut String, text: &str, mut f: impl FnMut(&str, Range<usize>)) {
    for_each_stretch(text, |stretch| match stretch {
        Stretch::Ascii(Range { start, end }) => {
            ascii::for_each_word(lower, &text[start..end], start, &mut f);
        }
        Stretch::Mixed(Range { start, end }) => mixed(lower, &text[start..end], start, &mut f),
    });
}

/// Calls `f` with the stretches that make up `text`.
#[inline]
pub(super) fn for_each_stretch(text: &str, mut f: impl FnMut(Stretch)) {
    let bytes = text.as_bytes();
    let (mut at, mut window) = (0, 0);
    while at < text.len() {
        if at >= window {
            window = next_blank(bytes, at.saturating_add(WINDOW));
        }
        let Some(offset) = first_non_ascii(&bytes[at..window]) else {
            f(Stretch::Ascii(at..window));
            at = window;
            continue;
        };
        let other = at + offset;
        let blank = bytes[at..other].iter().rposition(|&byte| is_blank(byte));
        let chunk = blank.map_or(at, |blank| at + blank + 1);
        f(Stretch::Ascii(at..chunk));
        at = next_blank(bytes, other);
        f(Stretch::Mixed(chunk..at));
    }
}

/// Calls `f` with the words of a chunk with characters beyond ASCII, which begins at `base`.
pub(super) fn mixed(
    lower: &mut String,
    chunk: &str,
    base: usize,
    f: &mut impl FnMut(&str, Range<usize>),
) {
    for (at, segment) in chunk.unicode_word_indices() {
        let word = segment.trim_start();
        let at = at + segment.len() - word.len();
        lower.clear();
        lower.extend(word.chars().flat_map(char::to_lowercase));
        f(lower, base + at..base + at + word.len());
    }
}

/// Returns the position of the first ASCII white space from `from` on, or the end.
fn next_blank(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().position(|&byte| is_blank(byte)).map_or(bytes.len(), |offset| from + offset)
}

/// Returns the position of the first byte of a character beyond ASCII. It works in blocks,
/// because the check of a whole block compiles to vector instructions.
fn first_non_ascii(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 64;
    let block = bytes.chunks(BLOCK).position(|block| !block.is_ascii())?;
    let start = block * BLOCK;
    bytes[start..].iter().position(|byte| !byte.is_ascii()).map(|offset| start + offset)
}

/// Returns true for tab, line feed, vertical tab, form feed, carriage return and blank, all of
/// which separate words.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' ')
}

//! Segmentation into the words between white space, unchanged.

use std::ops::Range;

/// Calls `f` with each word of `text` and its range.
pub(super) fn for_each_word<'a>(text: &'a str, mut f: impl FnMut(&'a str, Range<usize>)) {
    let mut at = 0;
    // The pieces and the white space between them make up the text.
    for piece in text.split(char::is_whitespace) {
        if !piece.is_empty() {
            f(piece, at..at + piece.len());
        }
        at += piece.len();
        at += text[at..].chars().next().map_or(0, char::len_utf8);
    }
}

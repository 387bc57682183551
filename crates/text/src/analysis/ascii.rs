//! Finds the UAX #29 words of ASCII text with a table of byte classes.
//!
//! For ASCII, the word break rules reduce to the following. Letters, digits and `_` join one
//! another (WB5, WB8 to WB10, WB13a, WB13b). `.`, `'` and `:` join two letters (WB6, WB7); `.`,
//! `'`, `,` and `;` join two digits (WB11, WB12). All other characters break. A word counts if it
//! has a letter or digit.

use std::ops::Range;

/// Class of each byte, a set of the bits below.
pub(super) const CLASS: [u8; 256] = classes();

pub(super) const LETTER: u8 = 1;
pub(super) const DIGIT: u8 = 2;
const UNDERSCORE: u8 = 4;
/// Classes that words consist of.
pub(super) const CORE: u8 = LETTER | DIGIT | UNDERSCORE;
/// Class of bytes that may be between two letters: `LETTER << 3`.
const MID_LETTER: u8 = 8;
/// Class of bytes that may be between two digits: `DIGIT << 3`.
const MID_DIGIT: u8 = 16;

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => LETTER,
            b'0'..=b'9' => DIGIT,
            b'_' => UNDERSCORE,
            b'.' | b'\'' => MID_LETTER | MID_DIGIT,
            b':' => MID_LETTER,
            b',' | b';' => MID_DIGIT,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// Calls `f` with each lower-cased word of `text`, which must be ASCII, and its range shifted by
/// `base`.
pub(super) fn for_each_word(
    lower: &mut String,
    text: &str,
    base: usize,
    f: &mut impl FnMut(&str, Range<usize>),
) {
    debug_assert!(text.is_ascii());
    // Convert the whole stretch in one vectorised pass; words are slices of it.
    lower.clear();
    lower.push_str(text);
    lower.make_ascii_lowercase();
    let bytes = lower.as_bytes();
    let class = |at: usize| bytes.get(at).map_or(0, |&byte| CLASS[usize::from(byte)]);

    let mut at = 0;
    while let Some(skipped) = bytes[at..].iter().position(|&byte| is_core(byte)) {
        let start = at + skipped;
        let mut seen = 0;
        at = start;
        loop {
            let mut last = 0;
            for &byte in bytes[at..].iter().take_while(|&&byte| is_core(byte)) {
                last = CLASS[usize::from(byte)];
                seen |= last;
                at += 1;
            }
            // A mark joins the bytes around it if it may be between two of that class.
            if (class(at) >> 3) & last & class(at + 1) == 0 {
                break;
            }
            at += 1;
        }
        if seen & (LETTER | DIGIT) != 0 {
            f(&lower[start..at], base + start..base + at);
        }
    }
}

fn is_core(byte: u8) -> bool {
    CLASS[usize::from(byte)] & CORE != 0
}

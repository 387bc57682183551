//! N-grams of the characters of a word.

use std::ops::Range;

use super::characters::Characters;
use super::traced::Traced;

/// The lengths and positions of a word's n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CharGrams {
    pub(super) least: usize,
    pub(super) most: usize,
    /// True to produce only n-grams at the start of the word.
    pub(super) edge: bool,
}

impl CharGrams {
    /// Calls `f` with each n-gram of a word that begins at `base` in its text, its range, and the
    /// number of the character at which it starts. Returns the number of starts. N-grams are cut
    /// from the word after `characters` has changed it, because a change can turn one character
    /// into two. A word that is too short is an n-gram itself, so that it can be found.
    pub(super) fn for_each(
        self,
        characters: Characters,
        traced: &mut Traced,
        word: &str,
        base: usize,
        mut f: impl FnMut(&str, Range<usize>, u32),
    ) -> u32 {
        traced.clear();
        for (at, c) in word.char_indices() {
            let origin = base + at..base + at + c.len_utf8();
            traced.extend(origin, |out| characters.push(c, out));
        }
        let chars = traced.len();
        let least = self.least.min(chars);
        let starts = if self.edge { 1 } else { chars + 1 - least };
        for start in 0..starts {
            for len in least..=self.most.min(chars - start) {
                let (gram, range) = traced.slice(start..start + len);
                f(gram, range, start as u32);
            }
        }
        starts as u32
    }
}

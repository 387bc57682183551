//! Changes of single characters: lower case and folding.

use super::fold;

/// The changes that a chain makes to characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Characters {
    pub(super) lower: bool,
    pub(super) fold: bool,
}

impl Characters {
    /// Returns the changed `word`, which is in `out` unless nothing had to change.
    pub(super) fn apply<'a>(self, word: &'a str, out: &'a mut String) -> &'a str {
        if !self.lower && (!self.fold || word.is_ascii()) {
            return word;
        }
        out.clear();
        if word.is_ascii() {
            out.push_str(word);
            out.make_ascii_lowercase();
        } else {
            word.chars().for_each(|c| self.push(c, out));
        }
        out
    }

    /// Appends the changed form of `c` to `out`, which contains the word so far.
    pub(super) fn push(self, c: char, out: &mut String) {
        match (self.lower, self.fold) {
            (false, false) => out.push(c),
            (false, true) => fold::push(c, out),
            (true, false) => out.extend(c.to_lowercase()),
            (true, true) => {
                let start = out.len();
                c.to_lowercase().for_each(|c| fold::push(c, out));
                // Folding can give capitals for characters that have no lower case, such as a
                // raised A.
                out[start..].make_ascii_lowercase();
            }
        }
    }
}

//! Text that records the origin of each character, for terms that are cut from changed words.

use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Traced {
    pub(super) text: String,
    /// Position of each character in `text`, and the range that it came from.
    origins: Vec<(usize, Range<usize>)>,
}

impl Traced {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.origins.clear();
    }

    /// Returns the number of characters.
    pub(super) fn len(&self) -> usize {
        self.origins.len()
    }

    /// Calls `write` to append to the text, and records that everything it appends came from
    /// `origin`. If it appends nothing, as for a dropped mark, `origin` is added to the previous
    /// character.
    pub(super) fn extend(&mut self, origin: Range<usize>, write: impl FnOnce(&mut String)) {
        let start = self.text.len();
        write(&mut self.text);
        let added = self.text[start..].char_indices();
        self.origins.extend(added.map(|(at, _)| (start + at, origin.clone())));
        if self.text.len() == start
            && let Some((_, last)) = self.origins.last_mut()
        {
            last.end = origin.end;
        }
    }

    /// Returns characters `chars` and the range that they came from. The range must not be empty.
    pub(super) fn slice(&self, chars: Range<usize>) -> (&str, Range<usize>) {
        let (start, first) = &self.origins[chars.start];
        let (_, last) = &self.origins[chars.end - 1];
        let end = self.origins.get(chars.end).map_or(self.text.len(), |(at, _)| *at);
        (&self.text[*start..end], first.start..last.end)
    }
}

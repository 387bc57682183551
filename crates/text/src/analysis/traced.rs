//! Text of which every character knows where it came from, for terms that are cut out of changed words.

use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct Traced {
    pub(super) text: String,
    /// For each character of `text` its first byte there, and the range it came from.
    origins: Vec<(usize, Range<usize>)>,
}

impl Traced {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.origins.clear();
    }

    /// The number of characters.
    pub(super) fn len(&self) -> usize {
        self.origins.len()
    }

    /// Lets `write` append to the text and notes that all it appended came from `origin`. If it appends nothing, as for a mark that is dropped, `origin` goes with
    /// the character before.
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

    /// Characters `chars` and where they came from; there must be at least one.
    pub(super) fn slice(&self, chars: Range<usize>) -> (&str, Range<usize>) {
        let (start, first) = &self.origins[chars.start];
        let (_, last) = &self.origins[chars.end - 1];
        let end = self.origins.get(chars.end).map_or(self.text.len(), |(at, _)| *at);
        (&self.text[*start..end], first.start..last.end)
    }
}

//! The terms of a build, numbered in the order of their first occurrence.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// A number that means a word without a term. A test of the kernel `word_table` compares it.
pub(crate) const NO_TERM: u32 = u32::MAX;

/// A set of distinct terms.
#[derive(Default)]
pub(crate) struct Terms {
    bytes: Vec<u8>,
    /// The end of each term.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
}

impl Terms {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        get(&self.bytes, &self.ends, number)
    }

    /// Returns the number of a term, adding the term if it is new.
    pub(crate) fn number(&mut self, term: &[u8]) -> u32 {
        let hash = xxh3_64(term);
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(&known) = self.numbers.find(hash, |&n| get(bytes, ends, n) == term) {
            return known;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(term);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.numbers.insert_unique(hash, number, |&n| xxh3_64(get(bytes, ends, n)));
        number
    }
}

fn get<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

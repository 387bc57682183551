//! The deleted documents of a segment, and by how much they reduce document frequencies
//! (docs/reference/formats/deletes.md).

use warpseek_codec::varint::Cursor;

use crate::error::Result;
use crate::files::container::{Sealed, SealedFile, SealedWriter};

/// A set of documents of a segment, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocSet {
    words: Vec<u64>,
    len: u64,
}

impl DocSet {
    /// Creates an empty set for positions below `docs`.
    pub fn new(docs: u32) -> Self {
        DocSet { words: vec![0; (docs as usize).div_ceil(64)], len: 0 }
    }

    /// Creates the set of all positions below `docs`.
    pub fn full(docs: u32) -> Self {
        Self::from_words(docs, vec![u64::MAX; (docs as usize).div_ceil(64)])
    }

    /// Creates a set from its words, as returned by [`words`](Self::words). They must have one
    /// bit for each position below `docs`; bits after these are cleared.
    pub fn from_words(docs: u32, mut words: Vec<u64>) -> Self {
        assert_eq!(words.len(), (docs as usize).div_ceil(64), "words of {docs} documents");
        if let (Some(last), 1..) = (words.last_mut(), docs % 64) {
            *last &= (1 << (docs % 64)) - 1;
        }
        let len = words.iter().map(|word| u64::from(word.count_ones())).sum();
        DocSet { words, len }
    }

    /// Inserts `doc`; returns false if it was already in the set.
    pub fn insert(&mut self, doc: u32) -> bool {
        let (word, bit) = (&mut self.words[doc as usize / 64], 1 << (doc % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(new);
        new
    }

    /// Returns true if the set contains `doc`.
    #[inline]
    pub fn contains(&self, doc: u32) -> bool {
        self.words[doc as usize / 64] >> (doc % 64) & 1 == 1
    }

    /// Iterates over the documents from `from` up to, but not including, `to`, in ascending
    /// order.
    pub fn within(&self, from: u32, to: u32) -> impl Iterator<Item = u32> + '_ {
        let words = from as usize / 64..(to as usize).div_ceil(64);
        let docs = words.flat_map(|i| bits(i, self.words[i]));
        docs.skip_while(move |&doc| doc < from).take_while(move |&doc| doc < to)
    }

    /// Counts the documents from `from` up to, but not including, `to`.
    pub fn count_within(&self, from: u32, to: u32) -> u64 {
        let words = (from..to).step_by(64).map(|at| match to - at {
            left @ ..64 => self.word_at(at) & ((1 << left) - 1),
            _ => self.word_at(at),
        });
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns the set as a bitmap: bit i of word j is set if the set contains 64 j + i.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the 64 positions from `from` on, which need not be a multiple of 64. Bit i is set
    /// if the set contains `from` + i. Positions past the end are not in the set.
    #[inline]
    pub fn word_at(&self, from: u32) -> u64 {
        let (i, shift) = (from as usize / 64, from % 64);
        let word = |i: usize| self.words.get(i).copied().unwrap_or(0);
        match shift {
            0 => word(i),
            _ => word(i) >> shift | word(i + 1) << (64 - shift),
        }
    }

    /// Inserts the positions of one word, all of whose bits must be documents.
    #[inline]
    pub(crate) fn insert_word(&mut self, i: usize, word: u64) {
        let new = word & !self.words[i];
        self.words[i] |= new;
        self.len += u64::from(new.count_ones());
    }

    /// Keeps only the documents that `other` also contains. Like the methods below, it requires a
    /// set of the same segment.
    pub fn and_assign(&mut self, other: &DocSet) {
        self.combine(other, |a, b| a & b);
    }

    /// Adds the documents of `other`.
    pub fn or_assign(&mut self, other: &DocSet) {
        self.combine(other, |a, b| a | b);
    }

    /// Removes the documents of `other`.
    pub fn and_not_assign(&mut self, other: &DocSet) {
        self.combine(other, |a, b| a & !b);
    }

    fn combine(&mut self, other: &DocSet, op: impl Fn(u64, u64) -> u64) {
        assert_eq!(self.words.len(), other.words.len(), "sets of different segments");
        self.len = 0;
        for (word, &with) in self.words.iter_mut().zip(&other.words) {
            *word = op(*word, with);
            self.len += u64::from(word.count_ones());
        }
    }

    /// Returns the number of documents in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the documents in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| bits(i, word))
    }
}

/// Iterates over the documents of word `i`.
fn bits(i: usize, word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(i as u32 * 64 + bit)
    })
}

/// The deletions of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletes {
    /// The deleted documents.
    pub docs: DocSet,
    /// Number of tokens of the deleted documents.
    pub tokens: u64,
    /// Number of deleted documents that contain each term, by ascending ordinal.
    pub terms: Vec<(u32, u32)>,
}

impl Deletes {
    /// Returns the number of deleted documents that contain the term.
    pub fn of_term(&self, ordinal: u32) -> u32 {
        self.terms.binary_search_by_key(&ordinal, |t| t.0).map_or(0, |i| self.terms[i].1)
    }

    /// Writes the file.
    pub(crate) fn write(&self, docs: u32, mut file: SealedWriter) -> Result<Sealed> {
        for number in [u64::from(docs), self.docs.len, self.tokens, self.terms.len() as u64] {
            file.write(&number.to_le_bytes())?;
        }
        for word in &self.docs.words {
            file.write(&word.to_le_bytes())?;
        }
        for &(ordinal, count) in &self.terms {
            file.write(&ordinal.to_le_bytes())?;
            file.write(&count.to_le_bytes())?;
        }
        file.finish()
    }

    /// Reads and checks the deletions of a segment of `docs` documents and `terms` terms.
    pub fn read(file: &SealedFile, docs: u32, terms: u32) -> Result<Self> {
        let body = file.all()?;
        Self::parse(body, docs, terms).ok_or_else(|| file.corrupt("its tables are malformed"))
    }

    fn parse(body: &[u8], docs: u32, all_terms: u32) -> Option<Self> {
        let mut cursor = Cursor::new(body);
        let (n, len, tokens, terms) = (cursor.u64()?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let words = u64::from(docs).div_ceil(64);
        let expected = terms.checked_mul(8)?.checked_add(8 * words + 32)?;
        if n != u64::from(docs) || expected != body.len() as u64 || terms > u64::from(all_terms) {
            return None;
        }
        let words: Option<Vec<u64>> = (0..words).map(|_| cursor.u64()).collect();
        let set = DocSet { words: words?, len };
        let count: u64 = set.words.iter().map(|w| u64::from(w.count_ones())).sum();
        if count != len || set.iter().last().is_some_and(|last| last >= docs) {
            return None;
        }
        let mut table = Vec::new();
        for _ in 0..terms {
            let (ordinal, count) = (cursor.u32()?, cursor.u32()?);
            let ascends = table.last().is_none_or(|&(last, _)| ordinal > last);
            if !ascends || ordinal >= all_terms || count == 0 || u64::from(count) > len {
                return None;
            }
            table.push((ordinal, count));
        }
        Some(Deletes { docs: set, tokens, terms: table })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::Kind;
    use proptest::prelude::*;

    fn set_of(bits: &[bool]) -> DocSet {
        let mut set = DocSet::new(bits.len() as u32);
        (0..).zip(bits).filter(|(_, bit)| **bit).for_each(|(doc, _)| assert!(set.insert(doc)));
        set
    }

    proptest! {
        #[test]
        fn sets_are_as_bits(pairs in proptest::collection::vec(any::<(bool, bool)>(), 0..300), from in 0u32..400, to in 0u32..300) {
            let (a, b): (Vec<bool>, Vec<bool>) = pairs.iter().copied().unzip();
            let with = |op: fn(bool, bool) -> bool| {
                let bits: Vec<bool> = pairs.iter().map(|&(a, b)| op(a, b)).collect();
                set_of(&bits)
            };
            let combined = |op: fn(&mut DocSet, &DocSet)| {
                let mut set = set_of(&a);
                op(&mut set, &set_of(&b));
                set
            };
            prop_assert_eq!(combined(DocSet::and_assign), with(|a, b| a && b));
            prop_assert_eq!(combined(DocSet::or_assign), with(|a, b| a || b));
            prop_assert_eq!(combined(DocSet::and_not_assign), with(|a, b| a && !b));
            let mut inserted = set_of(&a);
            (0..).zip(set_of(&b).words()).for_each(|(i, &word)| inserted.insert_word(i, word));
            prop_assert_eq!(inserted, with(|a, b| a || b));

            let (set, docs) = (set_of(&a), a.len() as u32);
            prop_assert_eq!(set.len(), a.iter().filter(|&&bit| bit).count() as u64);
            prop_assert_eq!(&DocSet::from_words(docs, set.words().to_vec()), &set);
            let at = |doc: u32| a.get(doc as usize).copied().unwrap_or(false);
            let word = (0..64).map(|i| u64::from(at(from + i)) << i).sum::<u64>();
            prop_assert_eq!(set.word_at(from), word);
            let count = (from..to).filter(|&doc| at(doc)).count() as u64;
            prop_assert_eq!(set.count_within(from, to), count);

            let mut rest = DocSet::full(docs);
            prop_assert_eq!(rest.len(), u64::from(docs));
            rest.and_not_assign(&set);
            prop_assert_eq!(rest.iter().collect::<Vec<_>>(), (0..docs).filter(|&doc| !at(doc)).collect::<Vec<_>>());
        }

        #[test]
        fn round_trip(docs in 1u32..500, picks in proptest::collection::btree_set(0u32..500, 0..60)) {
            let picks: Vec<u32> = picks.into_iter().filter(|&d| d < docs).collect();
            let mut set = DocSet::new(docs);
            picks.iter().for_each(|&d| assert!(set.insert(d) && !set.insert(d)));
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), picks.clone());
            let terms = if picks.is_empty() { vec![] } else { vec![(3, 1), (9, picks.len() as u32)] };
            let deletes = Deletes { docs: set, tokens: 77, terms };
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            deletes.write(docs, SealedWriter::create(&path, Kind::Deletes).unwrap()).unwrap();
            let file = SealedFile::open(&path, Kind::Deletes).unwrap();
            prop_assert_eq!(&Deletes::read(&file, docs, 10).unwrap(), &deletes);
            prop_assert!(Deletes::read(&file, docs + 64, 10).is_err());
            prop_assert_eq!(deletes.of_term(9), picks.len() as u32);
            prop_assert_eq!(deletes.of_term(4), 0);
        }
    }
}

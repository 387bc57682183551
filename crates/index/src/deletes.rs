//! The deleted documents of a segment, and by how much they reduce document frequencies (docs/format/deletes.md).

use warpseek_codec::varint::Cursor;

use crate::container::{Sealed, SealedFile, SealedWriter};
use crate::error::Result;

/// A set of documents of a segment, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocSet {
    words: Vec<u64>,
    len: u64,
}

impl DocSet {
    /// An empty set for positions below `docs`.
    pub fn new(docs: u32) -> Self {
        DocSet { words: vec![0; (docs as usize).div_ceil(64)], len: 0 }
    }

    /// Inserts `doc`; returns false if it was already in the set.
    pub fn insert(&mut self, doc: u32) -> bool {
        let (word, bit) = (&mut self.words[doc as usize / 64], 1 << (doc % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u64::from(new);
        new
    }

    /// Whether the set contains `doc`.
    #[inline]
    pub fn contains(&self, doc: u32) -> bool {
        self.words[doc as usize / 64] >> (doc % 64) & 1 == 1
    }

    /// Its documents from `from` up to, but not including, `to`, ascending.
    pub fn within(&self, from: u32, to: u32) -> impl Iterator<Item = u32> + '_ {
        let words = from as usize / 64..(to as usize).div_ceil(64);
        let docs = words.flat_map(|i| bits(i, self.words[i]));
        docs.skip_while(move |&doc| doc < from).take_while(move |&doc| doc < to)
    }

    /// Number of documents in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its documents, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| bits(i, word))
    }
}

/// The documents of a word.
fn bits(i: usize, word: u64) -> impl Iterator<Item = u32> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| left.trailing_zeros())?;
        left &= left - 1;
        Some(i as u32 * 64 + bit)
    })
}

/// Deletions of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletes {
    /// The documents.
    pub docs: DocSet,
    /// Their tokens.
    pub tokens: u64,
    /// For each term, by ascending ordinal: how many of them contain it.
    pub terms: Vec<(u32, u32)>,
}

impl Deletes {
    /// How many deleted documents contain the term.
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
    use crate::container::Kind;
    use proptest::prelude::*;

    proptest! {
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

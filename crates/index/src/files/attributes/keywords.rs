//! Columns of keywords (docs/reference/formats/attributes.md).

use std::ops::{Bound, Range};

use warpseek_codec::varint::Cursor;

use super::dictionary::{self, Dictionary};
use super::lists;
use crate::error::Result;
use crate::files::bits::{self, Bits, Present, Section};
use crate::files::container::SealedFile;
use crate::files::deletes::DocSet;

const HEADER: u64 = 40;

/// Encodes a column from pairs of a document and an ordinal, sorted and distinct, and from the
/// values in order, each of which must occur.
pub(super) fn encode(pairs: &[(u32, u32)], values: &[&str], documents: u32) -> Vec<u8> {
    let mut first_of = vec![0u64; documents as usize + 1];
    pairs.iter().for_each(|&(doc, _)| first_of[doc as usize + 1] += 1);
    let missing = first_of[1..].contains(&0);
    let many = first_of.iter().any(|&count| count > 1);
    (0..documents as usize).for_each(|doc| first_of[doc + 1] += first_of[doc]);
    let (dictionary, block_starts) = dictionary::encode(values);
    let (lists, list_starts) = encode_lists(pairs, values.len(), documents);

    let mut out = Vec::new();
    let counts = [values.len(), pairs.len(), dictionary.len(), lists.len()];
    counts.iter().for_each(|&count| out.extend((count as u64).to_le_bytes()));
    out.extend([u8::from(missing), u8::from(many), 0, 0, 0, 0, 0, 0]);
    if missing {
        bits::write_set(&mut out, documents, pairs.iter().map(|pair| pair.0));
    }
    let width = bits::width_of(values.len().saturating_sub(1) as u64);
    if many {
        bits::write(&mut out, width, pairs.iter().map(|pair| u64::from(pair.1)));
        bits::write(&mut out, bits::width_of(pairs.len() as u64), first_of);
    } else {
        let mut left = pairs.iter().peekable();
        let ordinal = |doc| left.next_if(|pair| pair.0 == doc).map_or(0, |pair| u64::from(pair.1));
        bits::write(&mut out, width, (0..documents).map(ordinal));
    }
    bits::write(&mut out, bits::width_of(dictionary.len() as u64), block_starts);
    bits::write(&mut out, bits::width_of(lists.len() as u64), list_starts);
    out.extend(dictionary);
    out.extend(lists);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Encodes the lists of all values, and returns them with the start of each, followed by the end
/// of the last one.
fn encode_lists(pairs: &[(u32, u32)], values: usize, documents: u32) -> (Vec<u8>, Vec<u64>) {
    // Counting sort of the documents by ordinal.
    let mut ends = vec![0usize; values];
    pairs.iter().for_each(|pair| ends[pair.1 as usize] += 1);
    let mut sum = 0;
    for end in &mut ends {
        (sum, *end) = (sum + *end, sum);
    }
    let mut docs = vec![0; pairs.len()];
    for &(doc, ordinal) in pairs {
        docs[ends[ordinal as usize]] = doc;
        ends[ordinal as usize] += 1;
    }
    let (mut out, mut starts, mut from) = (Vec::new(), Vec::new(), 0);
    for end in ends {
        starts.push(out.len() as u64);
        lists::encode(&mut out, &docs[from..end], documents);
        from = end;
    }
    starts.push(out.len() as u64);
    (out, starts)
}

/// A column of keywords.
#[derive(Clone, Copy)]
pub struct Keywords<'a> {
    file: &'a SealedFile,
    documents: u32,
    pairs: u64,
    present: Present<'a>,
    ordinals: Section<'a>,
    /// Start of each document's ordinals, present only if documents may have several values.
    first_of: Option<Section<'a>>,
    dictionary: Dictionary<'a>,
    list_starts: Section<'a>,
    lists: Section<'a>,
}

impl<'a> Keywords<'a> {
    pub(super) fn new(file: &'a SealedFile, mut rest: Section<'a>, documents: u32) -> Result<Self> {
        let mut header = Cursor::new(rest.split(Some(HEADER))?.all()?);
        let mut next = || header.u64().ok_or_else(|| file.corrupt("a column has no header"));
        let (values, pairs, dictionary_len, lists_len) = (next()?, next()?, next()?, next()?);
        let [missing, many, zero @ ..] = next()?.to_le_bytes();
        // No document has a value twice, and values take space in the dictionary. These checks
        // bound the counts by the size of the column.
        let most = values.saturating_mul(u64::from(documents));
        let counted = (1..u64::from(u32::MAX)).contains(&values)
            && 2 * values <= dictionary_len
            && (values..=most).contains(&pairs);
        if !counted || many > 1 || zero != [0; 6] {
            return Err(file.corrupt("the header of a column of keywords is malformed"));
        }
        let (values, width) = (values as u32, bits::width_of(values - 1));
        let present = rest.present(missing, documents)?;
        let stored = if many == 1 { pairs } else { u64::from(documents) };
        let ordinals = rest.split_bits(stored, width)?;
        let first_of = match many {
            0 => None,
            _ => Some(rest.split_bits(u64::from(documents) + 1, bits::width_of(pairs))?),
        };
        let blocks = dictionary::blocks(values);
        let starts = rest.split_bits(blocks + 1, bits::width_of(dictionary_len))?;
        let list_starts = rest.split_bits(u64::from(values) + 1, bits::width_of(lists_len))?;
        let data = rest.split(Some(dictionary_len))?;
        let lists = rest.split(Some(lists_len))?;
        let dictionary = Dictionary { file, values, starts, data };
        if rest.len() >= 8 {
            return Err(file.corrupt("a column of keywords is longer than its tables"));
        }
        Ok(Keywords {
            file,
            documents,
            pairs,
            present,
            ordinals,
            first_of,
            dictionary,
            list_starts,
            lists,
        })
    }

    /// Returns the number of distinct values; ordinals are below it.
    pub fn values(&self) -> u32 {
        self.dictionary.values
    }

    /// Returns true if a document has a value.
    #[inline]
    pub fn has(&self, doc: u32) -> bool {
        self.present.has(doc)
    }

    /// Adds the documents with a value to `out`.
    pub fn exists_into(&self, out: &mut DocSet) {
        self.present.all_into(out);
    }

    /// Returns the value with an ordinal.
    pub fn value(&self, ordinal: u32) -> Result<String> {
        self.dictionary.get(ordinal)
    }

    /// Returns the ordinal of a value, if a document has it.
    pub fn find(&self, value: &str) -> Result<Option<u32>> {
        let ordinal = self.dictionary.partition(|other| other < value.as_bytes())?;
        Ok((ordinal < self.values() && self.value(ordinal)? == value).then_some(ordinal))
    }

    /// Returns the ordinals of the values that begin with `prefix`.
    pub fn prefix(&self, prefix: &str) -> Result<Range<u32>> {
        let prefix = prefix.as_bytes();
        let start = self.dictionary.partition(|value| value < prefix)?;
        let end = self.dictionary.partition(|value| value < prefix || value.starts_with(prefix))?;
        Ok(start..end.max(start))
    }

    /// Returns the ordinals of the values between two bounds, in the order of bytes.
    pub fn range(&self, from: Bound<&str>, to: Bound<&str>) -> Result<Range<u32>> {
        let below = |value: &str| self.dictionary.partition(|other| other < value.as_bytes());
        let up_to = |value: &str| self.dictionary.partition(|other| other <= value.as_bytes());
        let start = match from {
            Bound::Included(value) => below(value)?,
            Bound::Excluded(value) => up_to(value)?,
            Bound::Unbounded => 0,
        };
        let end = match to {
            Bound::Included(value) => up_to(value)?,
            Bound::Excluded(value) => below(value)?,
            Bound::Unbounded => self.values(),
        };
        Ok(start..end.max(start))
    }

    /// Returns the number of documents that have the value with an ordinal.
    pub fn df(&self, ordinal: u32) -> Result<u32> {
        let list = self.list(ordinal)?;
        lists::df(list, self.documents).ok_or_else(|| self.bad_list(ordinal))
    }

    /// Adds the documents that have the value with an ordinal to `out`.
    pub fn list_into(&self, ordinal: u32, out: &mut DocSet) -> Result<()> {
        let list = self.list(ordinal)?;
        lists::decode_into(list, self.documents, out).ok_or_else(|| self.bad_list(ordinal))
    }

    /// Returns the ordinals of documents, for sorting, counting and display.
    pub fn ordinals(&self) -> Result<KeywordOrdinals<'a>> {
        Ok(KeywordOrdinals {
            values: self.values(),
            pairs: self.pairs,
            present: self.present,
            ordinals: self.ordinals.bits(bits::width_of(u64::from(self.values()) - 1))?,
            first_of: self.first_of.map(|s| s.bits(bits::width_of(self.pairs))).transpose()?,
        })
    }

    /// Counts the documents of the set that have each value, by ordinal.
    pub fn counts(&self, docs: &DocSet) -> Result<Vec<u64>> {
        let (ordinals, mut counts) = (self.ordinals()?, vec![0; self.values() as usize]);
        for doc in docs.iter() {
            ordinals.of(doc).for_each(|ordinal| counts[ordinal as usize] += 1);
        }
        Ok(counts)
    }

    /// Calls `take` with every value, in order of the ordinals.
    pub(super) fn for_each_value(&self, take: impl FnMut(u32, String) -> Result<()>) -> Result<()> {
        self.dictionary.for_each(take)
    }

    /// Encodes the column again. The bytes of an intact column do not change.
    pub(super) fn encode_again(&self) -> Result<Vec<u8>> {
        let mut values = Vec::new();
        self.for_each_value(|_, value| {
            values.push(value);
            Ok(())
        })?;
        let ordinals = self.ordinals()?;
        let mut pairs = Vec::new();
        for doc in 0..self.documents {
            pairs.extend(ordinals.of(doc).map(|ordinal| (doc, ordinal)));
            // Otherwise, forged tables could assign the same ordinals to all documents.
            if pairs.len() as u64 > self.pairs {
                return Err(self
                    .file
                    .corrupt("documents have more keywords than their column declares"));
            }
        }
        let mut used = vec![false; values.len()];
        pairs.iter().for_each(|pair| used[pair.1 as usize] = true);
        if !values.is_sorted_by(|a, b| a < b)
            || !pairs.is_sorted_by(|a, b| a < b)
            || used.contains(&false)
        {
            return Err(self.file.corrupt("keywords are out of order, or belong to no document"));
        }
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        Ok(encode(&pairs, &values, self.documents))
    }

    fn list(&self, ordinal: u32) -> Result<&'a [u8]> {
        if ordinal >= self.values() {
            return Err(self.file.corrupt(format!("a column has no keyword {ordinal}")));
        }
        let starts = self.list_starts.bits(bits::width_of(self.lists.len()))?;
        self.lists.part(starts.get(u64::from(ordinal))..starts.get(u64::from(ordinal) + 1))
    }

    #[cold]
    fn bad_list(&self, ordinal: u32) -> crate::error::IndexError {
        self.file.corrupt(format!("the list of keyword {ordinal} is malformed"))
    }
}

/// The ordinals of documents in a column of keywords.
#[derive(Clone, Copy, Debug)]
pub struct KeywordOrdinals<'a> {
    values: u32,
    pairs: u64,
    present: Present<'a>,
    ordinals: Bits<'a>,
    first_of: Option<Bits<'a>>,
}

impl KeywordOrdinals<'_> {
    /// Returns the ordinals of a document's values, ascending and below [`Keywords::values`].
    #[inline]
    pub fn of(&self, doc: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let doc = u64::from(doc);
        let range = match self.first_of {
            None if self.present.has(doc as u32) => doc..doc + 1,
            None => 0..0,
            Some(first_of) => {
                // Forged tables must neither lead beyond the ordinals nor give a document more
                // ordinals than there are values.
                let start = first_of.get(doc).min(self.pairs);
                let most = (start + u64::from(self.values)).min(self.pairs);
                start..first_of.get(doc + 1).min(most)
            }
        };
        let ordinals = range.map(|i| self.ordinals.get(i) as u32);
        ordinals.filter(|&ordinal| ordinal < self.values)
    }
}

//! The term dictionary: sorted terms, front-coded in blocks of 32
//! (docs/reference/formats/dictionary.md).

use std::cmp::Ordering;
use std::sync::atomic::{self, AtomicBool};

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::MAX_TERM_BYTES;

use crate::error::Result;
use crate::files::bits::{self, Table};
use crate::files::container::{COMPACT, Sealed, SealedFile, SealedWriter};

const BLOCK_TERMS: usize = 32;

/// Value of half of an entry's first byte that announces a separate byte for the number.
const ESCAPE: usize = 15;

/// Lengths of lists with one posting. Such a list has two numbers of up to five bytes each, so 2
/// to 10 bytes; the entry encodes this length in place of the df.
const SINGLE: std::ops::RangeInclusive<u64> = 2..=10;

/// Smallest number that encodes a df, namely a df of 2.
const FIRST_DF: u64 = 9;

/// A dictionary entry for a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermInfo {
    /// Ordinal of the term: its rank in the order of terms.
    pub ordinal: u32,
    /// Number of postings in the list.
    pub df: u32,
    /// Offset of the list in `post`.
    pub offset: u64,
    /// Length of the list in bytes.
    pub len: u64,
}

fn key(term: &[u8]) -> u64 {
    let mut key = [0; 8];
    let len = term.len().min(8);
    key[..len].copy_from_slice(&term[..len]);
    u64::from_be_bytes(key)
}

/// A writer of dictionaries, to which terms are added in order.
pub(crate) struct DictionaryWriter {
    file: SealedWriter,
    keys: Vec<u8>,
    starts: Vec<u64>,
    lists: Vec<u64>,
    last: Vec<u8>,
    entry: Vec<u8>,
    terms: u64,
    postings: u64,
    list_end: u64,
}

impl DictionaryWriter {
    pub(crate) fn new(file: SealedWriter) -> Self {
        DictionaryWriter {
            file,
            keys: Vec::new(),
            starts: Vec::new(),
            lists: Vec::new(),
            last: Vec::new(),
            entry: Vec::new(),
            terms: 0,
            postings: 0,
            list_end: 0,
        }
    }

    pub(crate) fn terms(&self) -> u64 {
        self.terms
    }

    pub(crate) fn postings(&self) -> u64 {
        self.postings
    }

    /// Adds a term, which must sort after all terms before it. The term's list of `len` bytes
    /// follows the lists of those terms.
    pub(crate) fn add(&mut self, term: &[u8], df: u32, len: u64) -> Result<()> {
        debug_assert!(self.terms == 0 || term > &self.last[..]);
        let mut shared = 0;
        if self.terms.is_multiple_of(BLOCK_TERMS as u64) {
            self.keys.extend(key(term).to_le_bytes());
            self.starts.push(self.file.body_len());
            self.lists.push(self.list_end);
        } else {
            shared = term.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        }
        let rest = term.len() - shared;
        let halves = [shared, rest].map(|number| number.min(ESCAPE) as u8);
        self.entry.clear();
        self.entry.push(halves[0] | halves[1] << 4);
        self.entry.extend([shared, rest].iter().filter(|&&n| n >= ESCAPE).map(|&n| n as u8));
        self.entry.extend_from_slice(&term[shared..]);
        match df {
            1 => {
                debug_assert!(SINGLE.contains(&len));
                varint::write(&mut self.entry, len - SINGLE.start());
            }
            _ => {
                varint::write(&mut self.entry, u64::from(df) - 2 + FIRST_DF);
                varint::write(&mut self.entry, len);
            }
        }
        self.file.write(&self.entry)?;
        self.last.clear();
        self.last.extend_from_slice(term);
        self.terms += 1;
        self.postings += u64::from(df);
        self.list_end += len;
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<Sealed> {
        let data_len = self.file.body_len();
        let mut tables = self.keys;
        for (starts, end) in [(&mut self.starts, data_len), (&mut self.lists, self.list_end)] {
            starts.push(end);
            bits::write(&mut tables, bits::width_of(end), starts.iter().copied());
        }
        for number in [data_len, self.list_end, self.postings, self.terms] {
            tables.extend(number.to_le_bytes());
        }
        self.file.write(&tables)?;
        self.file.finish()
    }
}

/// A dictionary on disk.
pub struct Dictionary {
    file: SealedFile,
    terms: u32,
    postings: u64,
    blocks: u64,
    data_len: u64,
    lists_len: u64,
    /// The start of each block, followed by the end of the last one.
    starts: Table,
    /// The start of the lists of each block, followed by the end of the last ones.
    lists: Table,
    /// Set once the pages of the keys have been verified.
    keys_verified: AtomicBool,
}

impl Dictionary {
    /// Opens a dictionary and checks the sizes of its tables. Blocks are checked as they are
    /// read.
    pub fn new(file: SealedFile) -> Result<Self> {
        let (len, compact) = (file.body_len(), file.version() >= COMPACT);
        let footer = if compact { 32 } else { 16 };
        let tail = file.bytes(len.saturating_sub(footer), footer.min(len))?;
        let mut tail = Cursor::new(tail);
        let lens = if compact { tail.u64().zip(tail.u64()) } else { Some((0, 0)) };
        let (Some((data_len, lists_len)), Some(postings), Some(terms)) =
            (lens, tail.u64(), tail.u64())
        else {
            return Err(file.corrupt("it is too short for its counts"));
        };
        let Ok(terms) = u32::try_from(terms) else {
            return Err(file.corrupt(format!("{terms} terms are too many")));
        };
        let blocks = u64::from(terms).div_ceil(BLOCK_TERMS as u64);
        let none = Table { at: 0, width: 64 };
        let mut dictionary = Dictionary {
            file,
            terms,
            postings,
            blocks,
            data_len,
            lists_len,
            starts: none,
            lists: none,
            keys_verified: AtomicBool::new(false),
        };
        let placed = if compact { dictionary.place() } else { dictionary.place_words() };
        if placed.is_none() {
            return Err(dictionary.file.corrupt("its size does not match its tables"));
        }
        if !compact {
            dictionary.lists_len = dictionary.list_start(blocks)?;
        }
        if dictionary.block_start(blocks)? != dictionary.data_len
            || dictionary.list_start(blocks)? != dictionary.lists_len
        {
            return Err(dictionary.file.corrupt("its blocks do not fill its data"));
        }
        Ok(dictionary)
    }

    /// Locates the tables, which must fill the file; returns `None` if they do not.
    fn place(&mut self) -> Option<()> {
        let numbers = self.blocks + 1;
        let at = self.data_len.checked_add(8 * self.blocks)?;
        self.starts = Table { at, width: bits::width_of(self.data_len) };
        let at = self.starts.end(numbers)?;
        self.lists = Table { at, width: bits::width_of(self.lists_len) };
        let end = self.lists.end(numbers)?.checked_add(32)?;
        (end == self.file.body_len()).then_some(())
    }

    /// Locates the tables of versions 1 and 2, whose numbers have 8 bytes. The data occupies the
    /// rest.
    fn place_words(&mut self) -> Option<()> {
        self.data_len = self.file.body_len().checked_sub(16 + 16 + 24 * self.blocks)?;
        self.starts.at = self.data_len + 8 * self.blocks;
        self.lists.at = self.starts.at + 8 * (self.blocks + 1);
        Some(())
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the number of terms.
    pub fn terms(&self) -> u32 {
        self.terms
    }

    /// Returns the number of postings in all lists.
    pub fn postings(&self) -> u64 {
        self.postings
    }

    /// Returns the length that the body of the `post` file must have.
    pub fn lists_len(&self) -> u64 {
        self.lists_len
    }

    /// Returns true if entries have the layout of the current version.
    #[inline]
    fn compact(&self) -> bool {
        self.file.version() >= COMPACT
    }

    fn word(&self, at: u64) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.file.bytes(at, 8)?);
        Ok(u64::from_le_bytes(word))
    }

    fn block_key(&self, block: u64) -> Result<u64> {
        self.word(self.data_len + 8 * block)
    }

    fn block_start(&self, block: u64) -> Result<u64> {
        self.starts.get(&self.file, block)
    }

    fn list_start(&self, block: u64) -> Result<u64> {
        self.lists.get(&self.file, block)
    }

    /// Returns the size in bytes of the lists of all blocks before this one.
    /// [`Dictionary::blocks`] as the argument gives the size of all lists.
    pub fn lists_before(&self, block: u64) -> Result<u64> {
        let before = self.list_start(block.min(self.blocks))?;
        if before > self.lists_len {
            return Err(self.file.corrupt("its lists are out of order"));
        }
        Ok(before)
    }

    /// Finds the entry of a term.
    ///
    /// The search does not reconstruct the terms of the block. The number of bytes that an entry
    /// shares with its predecessor, compared with the number that the predecessor shares with
    /// `term`, nearly always decides the order. Only a full iteration ([`Dictionary::iter`])
    /// checks that terms are in order.
    pub fn find(&self, term: &[u8]) -> Result<Option<TermInfo>> {
        let Some(number) = self.last_block_from(term)? else { return Ok(None) };
        let (bytes, first, count) = self.block_bytes(number)?;
        let (mut cursor, mut offset) = (Cursor::new(bytes), self.list_start(number)?);
        let compact = self.compact();
        // All entries so far sort before `term`. The last of them has `len` bytes and shares its
        // first `matched` bytes with `term`.
        let (mut matched, mut len) = (0, 0);
        for ordinal in first..first + count {
            let malformed = || self.file.corrupt(format!("term {ordinal} is malformed"));
            let entry = Entry::parse(&mut cursor, len, compact).ok_or_else(malformed)?;
            let start = offset;
            offset = entry.list_end(start, self.lists_len).ok_or_else(malformed)?;
            len = entry.shared + entry.rest.len();
            // An entry first differs from its predecessor right after the shared bytes, where it
            // has the larger byte.
            match entry.shared.cmp(&matched) {
                // This lies behind the first byte at which the predecessor was smaller than
                // `term`.
                Ordering::Greater => continue,
                Ordering::Less => return Ok(None),
                Ordering::Equal => {}
            }
            let wanted = &term[matched..];
            let same = entry.rest.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            match (entry.rest.get(same), wanted.get(same)) {
                (None, None) => {
                    return Ok(Some(TermInfo {
                        ordinal,
                        df: entry.df,
                        offset: start,
                        len: entry.len,
                    }));
                }
                (Some(own), Some(wanted)) if own > wanted => return Ok(None),
                (Some(_), None) => return Ok(None),
                (None | Some(_), Some(_)) => matched += same,
            }
        }
        self.check_end(&cursor)?;
        Ok(None)
    }

    /// Returns the number of terms that sort before `bytes`, which is the ordinal of the first
    /// term that does not.
    pub(crate) fn rank(&self, bytes: &[u8]) -> Result<u32> {
        let Some(number) = self.last_block_from(bytes)? else { return Ok(0) };
        let (mut block, mut rank) = (self.block(number)?, number * BLOCK_TERMS as u64);
        while block.next_entry()?.is_some() && block.term() < bytes {
            rank += 1;
        }
        Ok(rank as u32)
    }

    /// Returns the last block whose first term is not above `term`.
    #[inline]
    fn last_block_from(&self, term: &[u8]) -> Result<Option<u64>> {
        let (wanted, keys) = (key(term), self.keys()?);
        let number = |key: &[u8; 8]| u64::from_le_bytes(*key);
        let mut low = keys.partition_point(|key| number(key) < wanted);
        // Several blocks may begin with the same eight bytes.
        if keys.get(low).is_some_and(|key| number(key) == wanted) {
            let mut high = low + keys[low..].partition_point(|key| number(key) == wanted);
            while low < high {
                let middle = low + (high - low) / 2;
                match self.first_is_not_above(middle as u64, term)? {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
        }
        Ok(low.checked_sub(1).map(|block| block as u64))
    }

    /// Returns the keys of all blocks. Their pages are verified together at first use, since
    /// every lookup needs some of them.
    #[inline]
    fn keys(&self) -> Result<&[[u8; 8]]> {
        let len = 8 * self.blocks;
        let bytes = if self.keys_verified.load(atomic::Ordering::Relaxed) {
            self.file.unchecked(self.data_len, len)?
        } else {
            let bytes = self.file.bytes(self.data_len, len)?;
            self.keys_verified.store(true, atomic::Ordering::Relaxed);
            bytes
        };
        Ok(bytes.as_chunks().0)
    }

    fn first_is_not_above(&self, number: u64, term: &[u8]) -> Result<bool> {
        let (bytes, ordinal, _) = self.block_bytes(number)?;
        match Entry::parse(&mut Cursor::new(bytes), 0, self.compact()) {
            Some(first) => Ok(first.rest <= term),
            None => Err(self.file.corrupt(format!("term {ordinal} is malformed"))),
        }
    }

    /// Iterates over all terms in order.
    pub fn iter(&self) -> Terms<'_> {
        self.iter_blocks(0, self.blocks)
    }

    /// Returns the number of blocks, for splitting the dictionary into parts.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Iterates over the terms of blocks `from` to `to` (excluded), in order.
    pub fn iter_blocks(&self, from: u64, to: u64) -> Terms<'_> {
        Terms { dictionary: self, next_block: from, end: to.min(self.blocks), block: None }
    }

    /// Returns the bytes of a block, the ordinal of its first term, and the number of its terms.
    #[inline]
    fn block_bytes(&self, block: u64) -> Result<(&[u8], u32, u32)> {
        let (start, end) = (self.block_start(block)?, self.block_start(block + 1)?);
        if end < start || end > self.data_len {
            return Err(self.file.corrupt(format!("block {block} lies outside of its data")));
        }
        let first = (block * BLOCK_TERMS as u64) as u32;
        let count = (self.terms - first).min(BLOCK_TERMS as u32);
        Ok((self.file.bytes(start, end - start)?, first, count))
    }

    fn block(&self, block: u64) -> Result<Block<'_>> {
        let (bytes, ordinal, left) = self.block_bytes(block)?;
        Ok(Block {
            dictionary: self,
            cursor: Cursor::new(bytes),
            term: [0; MAX_TERM_BYTES],
            term_len: 0,
            ordinal,
            left,
            offset: self.list_start(block)?,
        })
    }

    /// Checks that nothing follows the last entry of a block.
    fn check_end(&self, cursor: &Cursor<'_>) -> Result<()> {
        match cursor.rest() {
            [] => Ok(()),
            _ => Err(self.file.corrupt("a block is longer than its terms")),
        }
    }
}

/// An entry of a block.
struct Entry<'a> {
    /// Number of leading bytes that the term shares with its predecessor.
    shared: usize,
    /// The remaining bytes of the term.
    rest: &'a [u8],
    df: u32,
    len: u64,
}

impl<'a> Entry<'a> {
    /// Parses an entry that follows a term of `before` bytes (0 for the first entry of a block);
    /// returns `None` if it is malformed.
    #[inline]
    fn parse(cursor: &mut Cursor<'a>, before: usize, compact: bool) -> Option<Self> {
        let (shared, rest) = Self::parse_lengths(cursor, compact)?;
        if shared > before || rest == 0 || shared + rest > MAX_TERM_BYTES {
            return None;
        }
        let rest = cursor.take(rest)?;
        let (df, len) = Self::parse_list(cursor, compact)?;
        Some(Entry { shared, rest, df, len })
    }

    /// Parses the number of bytes shared with the predecessor and the number of bytes that
    /// follow.
    #[inline]
    fn parse_lengths(cursor: &mut Cursor<'a>, compact: bool) -> Option<(usize, usize)> {
        let first = usize::from(cursor.byte()?);
        if !compact {
            return Some((first, usize::from(cursor.byte()?)));
        }
        let (mut shared, mut rest) = (first & 15, first >> 4);
        if shared == ESCAPE {
            shared = usize::from(cursor.byte()?);
        }
        if rest == ESCAPE {
            rest = usize::from(cursor.byte()?);
        }
        Some((shared, rest))
    }

    /// Parses the df of a term and the length of its list in bytes.
    #[inline]
    fn parse_list(cursor: &mut Cursor<'a>, compact: bool) -> Option<(u32, u64)> {
        if !compact {
            return Some((cursor.varint32().filter(|&df| df > 0)?, cursor.varint()?));
        }
        let number = cursor.varint()?;
        match number.checked_sub(FIRST_DF) {
            None => Some((1, number + SINGLE.start())),
            Some(above) => {
                let df = above.checked_add(2)?.try_into().ok()?;
                Some((df, cursor.varint()?))
            }
        }
    }

    /// Returns the end of a list that begins at `start`, or `None` if it lies beyond all lists.
    #[inline]
    fn list_end(&self, start: u64, lists_len: u64) -> Option<u64> {
        start.checked_add(self.len).filter(|&end| end <= lists_len)
    }
}

/// A cursor over the entries of one block.
struct Block<'a> {
    dictionary: &'a Dictionary,
    cursor: Cursor<'a>,
    term: [u8; MAX_TERM_BYTES],
    term_len: usize,
    ordinal: u32,
    left: u32,
    offset: u64,
}

impl Block<'_> {
    fn term(&self) -> &[u8] {
        &self.term[..self.term_len]
    }

    fn next_entry(&mut self) -> Result<Option<TermInfo>> {
        if self.left == 0 {
            self.dictionary.check_end(&self.cursor)?;
            return Ok(None);
        }
        match self.parse_entry() {
            Some(info) => Ok(Some(info)),
            None => {
                let what = format!("term {} is malformed", self.ordinal);
                Err(self.dictionary.file.corrupt(what))
            }
        }
    }

    fn parse_entry(&mut self) -> Option<TermInfo> {
        let entry = Entry::parse(&mut self.cursor, self.term_len, self.dictionary.compact())?;
        let shared = entry.shared;
        // At the first difference, the byte must be larger than the predecessor's, or the terms
        // are out of order.
        if shared < self.term_len && entry.rest[0] <= self.term[shared] {
            return None;
        }
        self.term_len = shared + entry.rest.len();
        self.term[shared..self.term_len].copy_from_slice(entry.rest);
        let (ordinal, offset) = (self.ordinal, self.offset);
        self.offset = entry.list_end(offset, self.dictionary.lists_len)?;
        self.left -= 1;
        self.ordinal += 1;
        Some(TermInfo { ordinal, df: entry.df, offset, len: entry.len })
    }
}

/// An iterator over terms in order; see [`Dictionary::iter`].
pub struct Terms<'a> {
    dictionary: &'a Dictionary,
    next_block: u64,
    end: u64,
    block: Option<Block<'a>>,
}

impl Terms<'_> {
    /// Advances to the next term; returns `None` at the end.
    pub fn next_term(&mut self) -> Result<Option<TermInfo>> {
        loop {
            if let Some(block) = &mut self.block
                && let Some(info) = block.next_entry()?
            {
                return Ok(Some(info));
            }
            if self.next_block == self.end {
                self.block = None;
                return Ok(None);
            }
            let mut block = self.dictionary.block(self.next_block)?;
            let info = block.next_entry()?;
            if self.dictionary.block_key(self.next_block)? != key(block.term()) {
                let what =
                    format!("key of block {} is not that of its first term", self.next_block);
                return Err(self.dictionary.file.corrupt(what));
            }
            self.next_block += 1;
            let before = self.block.replace(block);
            if let (Some(before), Some(info)) = (&before, &info)
                && before.term() >= self.term()
            {
                let what = format!("term {} is out of order", info.ordinal);
                return Err(self.dictionary.file.corrupt(what));
            }
            if info.is_some() {
                return Ok(info);
            }
        }
    }

    /// Returns the term that [`Terms::next_term`] advanced to: empty before the first and after
    /// the last.
    pub fn term(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.term())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::{Kind, seal_bytes};
    use proptest::collection::btree_map;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn build(terms: &BTreeMap<Vec<u8>, (u32, u64)>) -> Dictionary {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d");
        let mut writer = DictionaryWriter::new(SealedWriter::create(&path, Kind::Dict).unwrap());
        for (term, &(df, len)) in terms {
            writer.add(term, df, len).unwrap();
        }
        writer.finish().unwrap();
        Dictionary::new(SealedFile::open(&path, Kind::Dict).unwrap()).unwrap()
    }

    #[test]
    fn a_key_that_would_hide_a_block_is_noticed() {
        let terms = (0..40).map(|i| (format!("t{i:02}").into_bytes(), (1, 2))).collect();
        let dictionary = build(&terms);
        let mut body = dictionary.file.all().unwrap().to_vec();
        body[dictionary.data_len as usize + 8] ^= 1;
        let file = SealedFile::from_bytes("d", Kind::Dict, seal_bytes(Kind::Dict, &body)).unwrap();
        let forged = Dictionary::new(file).unwrap();
        let mut walk = forged.iter();
        let walked = std::iter::from_fn(|| walk.next_term().transpose());
        assert_eq!(walked.take_while(Result::is_ok).count(), 32);
    }

    proptest! {
        #[test]
        fn finds_what_is_there_and_nothing_else(
            terms in btree_map(
                "[ab]{1,12}|a{13,18}[ab]{0,17}|.{1,60}",
                (prop_oneof![Just(1u32), 1u32..300, 1u32..], 0u64..1000),
                0..200,
            ),
            others in proptest::collection::vec("[ab]{0,12}|.{0,5}", 0..50),
        ) {
            // A list of one posting has 2 to 10 bytes.
            let len = |df: u32, len: u64| if df == 1 { 2 + len % 9 } else { len };
            let terms: BTreeMap<Vec<u8>, _> = terms
                .into_iter()
                .map(|(t, (df, l))| (t.into_bytes(), (df, len(df, l))))
                .filter(|(t, _)| t.len() <= 255)
                .collect();
            let dictionary = build(&terms);
            let (mut offset, mut iter) = (0, dictionary.iter());
            for (i, (term, &(df, len))) in terms.iter().enumerate() {
                let info = TermInfo { ordinal: i as u32, df, offset, len };
                prop_assert_eq!(dictionary.find(term).unwrap(), Some(info));
                prop_assert_eq!(iter.next_term().unwrap(), Some(info));
                prop_assert_eq!(iter.term(), &term[..]);
                offset += len;
            }
            prop_assert_eq!(iter.next_term().unwrap(), None);
            prop_assert_eq!(dictionary.lists_len(), offset);
            for other in others {
                let found = dictionary.find(other.as_bytes()).unwrap().is_some();
                prop_assert_eq!(found, terms.contains_key(other.as_bytes()));
                let before = terms.keys().filter(|term| &term[..] < other.as_bytes()).count();
                prop_assert_eq!(dictionary.rank(other.as_bytes()).unwrap() as usize, before);
            }
        }
    }
}

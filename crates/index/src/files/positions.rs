//! Positions of words in documents (docs/reference/formats/positions.md).

use warpseek_codec::values;
use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::BLOCK;

use crate::error::Result;
use crate::files::container::{Sealed, SealedFile, SealedWriter};

/// Number of terms whose positions share a start in the table.
const GROUP: usize = 32;

/// Appends the positions of a term. Each posting has as many positions as its frequency: the
/// first one, followed by the distance of each from its predecessor.
pub(crate) fn encode_positions(gaps: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
    let blocks = freqs.len().div_ceil(BLOCK);
    let table = out.len();
    if blocks > 1 {
        out.resize(table + 8 * blocks, 0);
    }
    let (start, mut rest) = (out.len(), gaps);
    for (i, freqs) in freqs.chunks(BLOCK).enumerate() {
        let n: usize = freqs.iter().map(|&freq| freq as usize).sum();
        let (own, later) = rest.split_at(n);
        own.chunks(BLOCK).for_each(|chunk| values::write(chunk, out));
        rest = later;
        if blocks > 1 {
            let end = (out.len() - start) as u64;
            out[table + 8 * i..][..8].copy_from_slice(&end.to_le_bytes());
        }
    }
}

/// A writer of the file, to which terms are added in the order of the dictionary.
pub(crate) struct PositionsWriter {
    file: SealedWriter,
    starts: Vec<u8>,
    /// Lengths of the lists in the incomplete group.
    lens: Vec<u8>,
    /// Lists of the incomplete group.
    lists: Vec<u8>,
    terms: usize,
}

impl PositionsWriter {
    pub(crate) fn new(file: SealedWriter) -> Self {
        let (starts, lens, lists) = (vec![0; 8], Vec::new(), Vec::new());
        PositionsWriter { file, starts, lens, lists, terms: 0 }
    }

    /// Adds the positions of the next term, which are empty if its field has no positions.
    pub(crate) fn add(&mut self, list: &[u8]) -> Result<()> {
        varint::write(&mut self.lens, list.len() as u64);
        self.lists.extend_from_slice(list);
        self.terms += 1;
        if self.terms.is_multiple_of(GROUP) { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> Result<()> {
        self.file.write(&self.lens)?;
        self.file.write(&self.lists)?;
        self.starts.extend(self.file.body_len().to_le_bytes());
        self.lens.clear();
        self.lists.clear();
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<Sealed> {
        if !self.lens.is_empty() {
            self.end_group()?;
        }
        self.file.write(&self.starts)?;
        self.file.finish()
    }
}

/// The file of positions.
pub struct Positions {
    file: SealedFile,
    terms: u32,
    /// Offset of the table.
    data_len: u64,
}

impl Positions {
    /// Opens the file and checks the size of its table. `terms` is the number of terms in the
    /// dictionary.
    pub fn new(file: SealedFile, terms: u32) -> Result<Self> {
        let groups = u64::from(terms).div_ceil(GROUP as u64);
        let Some(data_len) = file.body_len().checked_sub(8 * (groups + 1)) else {
            return Err(file.corrupt("it is too short for its table"));
        };
        let positions = Positions { file, terms, data_len };
        if positions.group_start(0)? != 0 || positions.group_start(groups)? != data_len {
            return Err(positions.file.corrupt("its groups do not fill its data"));
        }
        Ok(positions)
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    fn group_start(&self, group: u64) -> Result<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(self.file.bytes(self.data_len + 8 * group, 8)?);
        Ok(u64::from_le_bytes(word))
    }

    /// Returns the positions of a term, given its ordinal and the number of its postings.
    pub fn list(&self, ordinal: u32, df: u32) -> Result<PositionList<'_>> {
        let (file, group) = (&self.file, u64::from(ordinal) / GROUP as u64);
        let bad = || file.corrupt(format!("the positions of term {ordinal} lie outside of it"));
        if ordinal >= self.terms || df == 0 {
            return Err(bad());
        }
        let (start, end) = (self.group_start(group)?, self.group_start(group + 1)?);
        if start > end || end > self.data_len {
            return Err(bad());
        }
        let terms = (self.terms as usize - group as usize * GROUP).min(GROUP);
        // A length has at most ten bytes.
        let head = file.bytes(start, (end - start).min(10 * GROUP as u64))?;
        let (mut cursor, mut before, mut own) = (Cursor::new(head), 0u64, 0);
        for i in 0..terms {
            let len = cursor.varint().ok_or_else(bad)?;
            if i < ordinal as usize % GROUP {
                before = before.checked_add(len).ok_or_else(bad)?;
            } else if i == ordinal as usize % GROUP {
                own = len;
            }
        }
        let lists = start + (head.len() - cursor.rest().len()) as u64;
        let first = lists.checked_add(before).ok_or_else(bad)?;
        if first.checked_add(own).is_none_or(|last| last > end) {
            return Err(bad());
        }
        let blocks = (df as usize).div_ceil(BLOCK);
        let table = if blocks > 1 { 8 * blocks as u64 } else { 0 };
        let Some(len) = own.checked_sub(table) else { return Err(bad()) };
        let ends = file.bytes(first, table)?.as_chunks().0;
        Ok(PositionList { file, ordinal, ends, start: first + table, len })
    }

    /// Checks that the lists of a group fill it exactly.
    pub(crate) fn verify_group(&self, group: u64) -> Result<()> {
        let (start, end) = (self.group_start(group)?, self.group_start(group + 1)?);
        let bad = || self.file.corrupt(format!("group {group} is malformed"));
        if start > end || end > self.data_len {
            return Err(bad());
        }
        let terms = (u64::from(self.terms) - group * GROUP as u64).min(GROUP as u64);
        let mut cursor = Cursor::new(self.file.bytes(start, end - start)?);
        let lens = (0..terms).map(|_| cursor.varint()).collect::<Option<Vec<u64>>>();
        let sum = lens.and_then(|lens| lens.into_iter().try_fold(0, u64::checked_add));
        if sum == Some(cursor.rest().len() as u64) { Ok(()) } else { Err(bad()) }
    }

    /// Returns the number of groups.
    pub(crate) fn groups(&self) -> u64 {
        u64::from(self.terms).div_ceil(GROUP as u64)
    }
}

/// The positions of a term, whose blocks can be read independently.
#[derive(Clone, Copy)]
pub struct PositionList<'a> {
    file: &'a SealedFile,
    ordinal: u32,
    /// Offset at which the positions of each block end; empty if there is only one block.
    ends: &'a [[u8; 8]],
    start: u64,
    len: u64,
}

impl<'a> PositionList<'a> {
    fn block(&self, block: usize) -> Result<&'a [u8]> {
        if self.ends.is_empty() {
            return self.file.bytes(self.start, self.len);
        }
        let end = |i: usize| self.ends.get(i).map(|&end| u64::from_le_bytes(end));
        let from = if block == 0 { Some(0) } else { end(block - 1) };
        match (from, end(block)) {
            (Some(from), Some(to)) if from <= to && to <= self.len => {
                self.file.bytes(self.start + from, to - from)
            }
            _ => Err(self.bad(block)),
        }
    }

    fn bad(&self, block: usize) -> crate::IndexError {
        let ordinal = self.ordinal;
        self.file.corrupt(format!("block {block} of the positions of term {ordinal} is malformed"))
    }
}

/// A reader of the positions of single postings.
pub struct PositionReader<'a> {
    list: PositionList<'a>,
    /// Block of postings that the other fields refer to; `usize::MAX` before the first.
    block: usize,
    bytes: &'a [u8],
    /// Cumulative number of positions at the end of each posting of the block.
    ends: [u64; BLOCK],
    total: u64,
    /// Number of the chunk after the decoded one.
    next: u64,
    /// Bytes of the next chunk and the chunks after it.
    rest: &'a [u8],
    values: [u32; BLOCK],
}

impl<'a> PositionReader<'a> {
    /// Creates a reader before the first block.
    pub fn new(list: PositionList<'a>) -> Self {
        PositionReader {
            list,
            block: usize::MAX,
            bytes: &[],
            ends: [0; BLOCK],
            total: 0,
            next: 0,
            rest: &[],
            values: [0; BLOCK],
        }
    }

    /// Moves to a block of postings with these frequencies.
    fn enter(&mut self, block: usize, freqs: &[u32]) -> Result<()> {
        self.bytes = self.list.block(block)?;
        let mut total = 0;
        for (end, &freq) in self.ends.iter_mut().zip(freqs) {
            total += u64::from(freq);
            *end = total;
        }
        (self.block, self.total, self.next, self.rest) = (block, total, 0, self.bytes);
        Ok(())
    }

    /// Decodes a chunk of the block.
    fn load(&mut self, chunk: u64) -> Option<()> {
        if self.next == chunk + 1 {
            return Some(());
        }
        if self.next > chunk {
            (self.next, self.rest) = (0, self.bytes);
        }
        let mut cursor = Cursor::new(self.rest);
        while self.next < chunk {
            values::skip(&mut cursor)?;
            self.next += 1;
        }
        let n = (self.total - chunk * BLOCK as u64).min(BLOCK as u64);
        values::read(&mut cursor, n as usize, &mut self.values)?;
        (self.next, self.rest) = (chunk + 1, cursor.rest());
        Some(())
    }

    /// Sets `out` to the positions of posting `i` of a block of postings with these frequencies.
    /// Positions ascend, but may be equal.
    ///
    /// # Panics
    /// Panics if the block has no such posting.
    pub fn read(
        &mut self,
        block: usize,
        freqs: &[u32],
        i: usize,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        out.clear();
        if self.block != block {
            self.enter(block, freqs)?;
        }
        let (start, end) = (if i == 0 { 0 } else { self.ends[i - 1] }, self.ends[i]);
        self.read_range(start, end, out).ok_or_else(|| {
            // The decoded values no longer belong to the block.
            self.block = usize::MAX;
            self.list.bad(block)
        })
    }

    fn read_range(&mut self, start: u64, end: u64, out: &mut Vec<u32>) -> Option<()> {
        let (mut at, mut position) = (start, 0u32);
        while at < end {
            let chunk = at / BLOCK as u64;
            self.load(chunk)?;
            let first = (at % BLOCK as u64) as usize;
            let last = (end - chunk * BLOCK as u64).min(BLOCK as u64) as usize;
            for &gap in &self.values[first..last] {
                position = position.checked_add(gap)?;
                out.push(position);
            }
            at += (last - first) as u64;
        }
        Some(())
    }

    /// Appends the stored values of all postings of a block, which are differences within
    /// postings. Nothing may follow them in the block.
    pub(crate) fn read_block(
        &mut self,
        block: usize,
        freqs: &[u32],
        out: &mut Vec<u32>,
    ) -> Result<()> {
        self.enter(block, freqs)?;
        let read = |reader: &mut Self, out: &mut Vec<u32>| -> Option<()> {
            for chunk in 0..reader.total.div_ceil(BLOCK as u64) {
                reader.load(chunk)?;
                let n = (reader.total - chunk * BLOCK as u64).min(BLOCK as u64);
                out.extend_from_slice(&reader.values[..n as usize]);
            }
            reader.rest.is_empty().then_some(())
        };
        let done = read(self, out);
        self.block = usize::MAX;
        done.ok_or_else(|| self.list.bad(block))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::container::{Kind, seal_bytes};

    /// Terms with the positions of their postings.
    type Terms = Vec<Vec<Vec<u32>>>;

    fn encode(postings: &[Vec<u32>], out: &mut Vec<u8>) {
        let mut gaps = Vec::new();
        for positions in postings {
            let mut before = 0;
            for &position in positions {
                gaps.push(position - before);
                before = position;
            }
        }
        let freqs: Vec<u32> = postings.iter().map(|p| p.len() as u32).collect();
        encode_positions(&gaps, &freqs, out);
    }

    fn body(terms: &Terms) -> Vec<u8> {
        let file = SealedWriter::in_memory("p", Kind::Positions).unwrap();
        let mut writer = PositionsWriter::new(file);
        for postings in terms {
            let mut list = Vec::new();
            encode(postings, &mut list);
            writer.add(&list).unwrap();
        }
        let bytes = writer.finish().unwrap().bytes.unwrap();
        let file = SealedFile::from_bytes("p", Kind::Positions, bytes).unwrap();
        file.all().unwrap().to_vec()
    }

    fn open(body: &[u8], terms: usize) -> Result<Positions> {
        let bytes = seal_bytes(Kind::Positions, body);
        Positions::new(SealedFile::from_bytes("p", Kind::Positions, bytes)?, terms as u32)
    }

    fn some_terms() -> impl Strategy<Value = Terms> {
        let position = prop_oneof![0u32..9, 0u32..3000, any::<u32>()];
        let some = proptest::collection::vec(position.clone(), 1..4);
        let many = proptest::collection::vec(position, 1..300);
        let positions = prop_oneof![20 => some, 1 => many].prop_map(|mut p| {
            p.sort_unstable();
            p
        });
        let df = prop_oneof![4 => 0usize..4, 1 => 120usize..140, 1 => 1usize..400];
        let postings = df.prop_flat_map(move |n| proptest::collection::vec(positions.clone(), n));
        proptest::collection::vec(postings, 0..70)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read(terms in some_terms(), step in 1usize..90) {
            let positions = open(&body(&terms), terms.len()).unwrap();
            let mut out = Vec::new();
            for (ordinal, postings) in terms.iter().enumerate().filter(|(_, p)| !p.is_empty()) {
                let list = positions.list(ordinal as u32, postings.len() as u32).unwrap();
                let mut reader = PositionReader::new(list);
                for i in (0..postings.len()).step_by(step).chain((0..postings.len()).rev().step_by(step)) {
                    let (block, at) = (i / BLOCK, i % BLOCK);
                    let of_block = postings.chunks(BLOCK).nth(block).unwrap();
                    let freqs: Vec<u32> = of_block.iter().map(|p| p.len() as u32).collect();
                    reader.read(block, &freqs, at, &mut out).unwrap();
                    prop_assert_eq!(&out, &postings[i]);
                }
            }
            prop_assert!(positions.list(terms.len() as u32, 1).is_err());
            prop_assert!((0..positions.groups()).all(|group| positions.verify_group(group).is_ok()));
        }

        #[test]
        fn forged_bytes_are_refused_or_read(
            terms in some_terms(),
            at in any::<prop::sample::Index>(),
            change in 1u8..,
            df in 1u32..500,
        ) {
            let mut bytes = body(&terms);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            let Ok(positions) = open(&bytes, terms.len()) else { return Ok(()) };
            let mut out = Vec::new();
            for ordinal in 0..terms.len() as u32 {
                let Ok(list) = positions.list(ordinal, df) else { continue };
                let mut reader = PositionReader::new(list);
                for block in 0..(df as usize).div_ceil(BLOCK) {
                    let _ = reader.read(block, &[u32::MAX, 3, 200, 0], 2, &mut out);
                    let _ = reader.read_block(block, &[1, 2, 3], &mut out);
                }
            }
        }
    }
}

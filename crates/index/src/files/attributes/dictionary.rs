//! The dictionary of a column of keywords: its distinct values in order, front-coded in blocks of
//! 16 (docs/reference/formats/attributes.md).

use warpseek_codec::varint::{self, Cursor};

use super::MAX_KEYWORD_BYTES;
use crate::error::Result;
use crate::files::bits::{self, Section};
use crate::files::container::SealedFile;

const BLOCK_VALUES: usize = 16;

/// Encodes sorted values and returns the data and the start of each block, followed by the end of
/// the last one.
pub(super) fn encode(values: &[&str]) -> (Vec<u8>, Vec<u64>) {
    let (mut data, mut starts) = (Vec::new(), Vec::new());
    for block in values.chunks(BLOCK_VALUES) {
        starts.push(data.len() as u64);
        let mut last: &[u8] = &[];
        for value in block {
            let value = value.as_bytes();
            let shared = value.iter().zip(last).take_while(|(a, b)| a == b).count();
            varint::write(&mut data, shared as u64);
            varint::write(&mut data, (value.len() - shared) as u64);
            data.extend_from_slice(&value[shared..]);
            last = value;
        }
    }
    starts.push(data.len() as u64);
    (data, starts)
}

/// Returns the number of blocks of `values` values.
pub(super) fn blocks(values: u32) -> u64 {
    u64::from(values).div_ceil(BLOCK_VALUES as u64)
}

/// A dictionary on disk, whose blocks are checked as they are read.
#[derive(Clone, Copy)]
pub(super) struct Dictionary<'a> {
    pub(super) file: &'a SealedFile,
    /// Number of values.
    pub(super) values: u32,
    /// Starts of the blocks, followed by the end of the last one.
    pub(super) starts: Section<'a>,
    pub(super) data: Section<'a>,
}

impl Dictionary<'_> {
    /// Returns the value with an ordinal.
    pub(super) fn get(&self, ordinal: u32) -> Result<String> {
        if ordinal >= self.values {
            return Err(self.file.corrupt(format!("a column has no keyword {ordinal}")));
        }
        let (block, wanted) = (ordinal as usize / BLOCK_VALUES, ordinal as usize % BLOCK_VALUES);
        let (mut at, mut found) = (0, Vec::new());
        self.scan(block as u64, |value| {
            let here = at == wanted;
            if here {
                found.extend_from_slice(value);
            }
            at += 1;
            !here
        })?;
        self.text(found)
    }

    /// Calls `take` with all values in order of their ordinals.
    pub(super) fn for_each(&self, mut take: impl FnMut(u32, String) -> Result<()>) -> Result<()> {
        let mut ordinal = 0;
        for block in 0..blocks(self.values) {
            let mut values = Vec::new();
            self.scan(block, |value| {
                values.push(value.to_vec());
                true
            })?;
            for value in values {
                take(ordinal, self.text(value)?)?;
                ordinal += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of values for which `before` holds. These must come before all others.
    pub(super) fn partition(&self, before: impl Fn(&[u8]) -> bool) -> Result<u32> {
        // Find the first block whose first value is not before. The boundary lies in the
        // preceding block or between the two.
        let (mut low, mut high) = (0, blocks(self.values));
        while low < high {
            let middle = low + (high - low) / 2;
            let mut first = false;
            self.scan(middle, |value| {
                first = before(value);
                false
            })?;
            if first { low = middle + 1 } else { high = middle }
        }
        let Some(block) = low.checked_sub(1) else { return Ok(0) };
        let mut count = block as u32 * BLOCK_VALUES as u32;
        self.scan(block, |value| {
            let counts = before(value);
            count += u32::from(counts);
            counts
        })?;
        Ok(count)
    }

    /// Decodes the values of a block in order for as long as `take` returns true.
    fn scan(&self, block: u64, mut take: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let starts = self.starts.bits(bits::width_of(self.data.len()))?;
        let mut cursor = Cursor::new(self.data.part(starts.get(block)..starts.get(block + 1))?);
        let left = u64::from(self.values) - block * BLOCK_VALUES as u64;
        let mut value = Vec::new();
        for _ in 0..left.min(BLOCK_VALUES as u64) {
            step(&mut cursor, &mut value).ok_or_else(|| {
                self.file.corrupt(format!("block {block} of keywords is malformed"))
            })?;
            if !take(&value) {
                break;
            }
        }
        Ok(())
    }

    fn text(&self, value: Vec<u8>) -> Result<String> {
        String::from_utf8(value).map_err(|_| self.file.corrupt("a keyword is not UTF-8"))
    }
}

fn step(cursor: &mut Cursor<'_>, value: &mut Vec<u8>) -> Option<()> {
    let shared = usize::try_from(cursor.varint()?).ok().filter(|&shared| shared <= value.len())?;
    let rest = usize::try_from(cursor.varint()?).ok()?;
    value.truncate(shared);
    value.extend_from_slice(cursor.take(rest)?);
    (value.len() <= MAX_KEYWORD_BYTES).then_some(())
}

//! Compressed lists in the layout of `kernels/common/packed.cuh`, whole or in part.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use warpseek_codec::{CodecId, ListState};
use warpseek_core::limits::BLOCK;
use warpseek_index::{IndexError, ListParts, Segment, TermInfo};

use crate::kernels::common::ALL;

/// Number of bytes behind a list that kernels may read.
pub(crate) const BEHIND: usize = 16;

/// Number of blocks that share one 64-bit start in the payload.
const GROUP: u32 = ALL.constant("GROUP");

const _: () = assert!(ALL.constant("BLOCK") == BLOCK as u32, "postings in a block");

/// A list on the device, with the layout of `packed.cuh`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct PackedList {
    /// Address of the starts of groups.
    pub(crate) bases: u64,
    /// Address of the skip array.
    pub(crate) lasts: u64,
    /// Address of the blocks' ends.
    pub(crate) ends: u64,
    /// Address of the payload.
    pub(crate) payload: u64,
    /// Start of the part of the payload that is on the device.
    pub(crate) from: u64,
    /// End of that part.
    pub(crate) to: u64,
    /// Number of postings.
    pub(crate) df: u32,
    /// The first document of a list of one block.
    pub(crate) first: u32,
    /// The frequency of a list of one posting.
    pub(crate) freq: u32,
    /// Padding.
    pub(crate) unused: u32,
}

impl PackedList {
    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.df.div_ceil(BLOCK as u32)
    }
}

/// The bytes of a list that go to the device: in the codec `bitpack`, as on disk.
pub(crate) struct Pieces<'a> {
    df: u32,
    first: u32,
    freq: u32,
    lasts: Cow<'a, [u8]>,
    ends: Cow<'a, [u8]>,
    bases: Cow<'a, [u8]>,
    payload: Cow<'a, [u8]>,
}

impl<'a> Pieces<'a> {
    /// Returns the pieces of a list. A list in another codec is encoded again with `bitpack`.
    pub(crate) fn of(segment: &'a Segment, info: &TermInfo) -> Result<Self, IndexError> {
        let list = segment.list(info)?;
        let empty = || Cow::Borrowed(&[][..]);
        let none = || Pieces {
            df: info.df,
            first: 0,
            freq: 0,
            lasts: empty(),
            ends: empty(),
            bases: empty(),
            payload: empty(),
        };
        if let ListParts::One { doc, freq } = list.parts() {
            return Ok(Pieces { first: doc, freq, ..none() });
        }
        if segment.codec() != CodecId::BitPack {
            return Self::coded_anew(segment, info);
        }
        Ok(match list.parts() {
            ListParts::One { doc, freq } => Pieces { first: doc, freq, ..none() },
            ListParts::Short { first, block } => Pieces { first, payload: block.into(), ..none() },
            ListParts::Long { bases, lasts, ends, payload } => Pieces {
                lasts: lasts.as_flattened().into(),
                ends: ends.as_flattened().into(),
                bases: bases.as_flattened().into(),
                payload: payload.into(),
                ..none()
            },
        })
    }

    /// Decodes a list and encodes it with `bitpack`.
    fn coded_anew(segment: &Segment, info: &TermInfo) -> Result<Self, IndexError> {
        let (list, codec) = (segment.list(info)?, CodecId::BitPack.codec());
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        let (mut lasts, mut ends, mut bases) = (Vec::new(), Vec::new(), Vec::new());
        let (mut payload, mut base, mut before, mut first) = (Vec::new(), 0, u32::MAX, 0);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            let state = ListState::default();
            if list.blocks() == 1 {
                first = docs[0];
                codec.encode(&state, first, &docs[1..n], &freqs[..n], &mut payload);
                break;
            }
            if (block as u32).is_multiple_of(GROUP) {
                base = payload.len();
                bases.extend((base as u64).to_le_bytes());
            }
            codec.encode(&state, before, &docs[..n], &freqs[..n], &mut payload);
            before = docs[n - 1];
            lasts.extend(before.to_le_bytes());
            ends.extend(((payload.len() - base) as u16).to_le_bytes());
        }
        Ok(Pieces {
            df: info.df,
            first,
            freq: 0,
            lasts: lasts.into(),
            ends: ends.into(),
            bases: bases.into(),
            payload: payload.into(),
        })
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.slices().iter().map(|slice| slice.len()).sum()
    }

    /// Returns the bytes, in the order in which they go to the device.
    pub(crate) fn slices(&self) -> [&[u8]; 4] {
        [&self.lasts, &self.ends, &self.bases, &self.payload]
    }

    /// Returns a copy that does not borrow from the segment.
    pub(crate) fn into_owned(self) -> Pieces<'static> {
        let Pieces { df, first, freq, lasts, ends, bases, payload } = self;
        Pieces {
            df,
            first,
            freq,
            lasts: lasts.into_owned().into(),
            ends: ends.into_owned().into(),
            bases: bases.into_owned().into(),
            payload: payload.into_owned().into(),
        }
    }

    /// Returns the list for bytes that begin at this address.
    pub(crate) fn at(&self, address: u64) -> PackedList {
        let lasts = address;
        let ends = lasts + self.lasts.len() as u64;
        let bases = ends + self.ends.len() as u64;
        let payload = bases + self.bases.len() as u64;
        let Pieces { df, first, freq, .. } = *self;
        let to = self.payload.len() as u64;
        PackedList { bases, lasts, ends, payload, from: 0, to, df, first, freq, unused: 0 }
    }

    /// Returns the number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.df.div_ceil(BLOCK as u32)
    }

    /// Returns the first block that can contain this document or a later one, or the number of
    /// blocks if none can. The result is 0 for a list of one block.
    pub(crate) fn block_for(&self, doc: u32) -> u32 {
        let lasts = self.lasts.as_chunks().0;
        lasts.partition_point(|&last| u32::from_le_bytes(last) < doc) as u32
    }

    /// Returns the bytes of some blocks, at least one, or `None` if the list is malformed.
    pub(crate) fn some(&self, blocks: Range<u32>) -> Option<SomeBlocks<'_>> {
        let Range { start, end } = blocks;
        let PackedList { df, first, freq, .. } = self.at(0);
        if self.lasts.is_empty() {
            let whole = Range { start: 0, end: self.payload.len() };
            let slices = [&[][..], &[], &[], &self.payload];
            return Some(SomeBlocks { df, first, freq, slices, before: 0, group: 0, span: whole });
        }
        let group_end = (end - 1) / GROUP + 1;
        let (before, group) = (start.saturating_sub(1), start / GROUP);
        let span = self.span(start)?.start..self.span(end - 1)?.end;
        let slices = [
            self.lasts.get(4 * before as usize..4 * end as usize)?,
            self.ends.get(2 * before as usize..2 * end as usize)?,
            self.bases.get(8 * group as usize..8 * group_end as usize)?,
            self.payload.get(span.clone())?,
        ];
        Some(SomeBlocks { df, first, freq, slices, before, group, span })
    }

    /// Returns the maximum number of bytes that the skip array takes for some blocks.
    pub(crate) fn skip_bytes(blocks: &Range<u32>) -> u64 {
        let count = u64::from(blocks.end - blocks.start);
        (count + 1) * (4 + 2) + (count / u64::from(GROUP) + 2) * 8
    }

    /// Returns the position of a block in the payload.
    pub(crate) fn span(&self, block: u32) -> Option<Range<usize>> {
        let end = |block: u32| {
            let ends = self.ends.as_chunks().0;
            ends.get(block as usize).map(|&end| usize::from(u16::from_le_bytes(end)))
        };
        let base = self.bases.as_chunks().0.get((block / GROUP) as usize)?;
        let base = usize::try_from(u64::from_le_bytes(*base)).ok()?;
        let start = if block.is_multiple_of(GROUP) { 0 } else { end(block - 1)? };
        let (start, end) = (base.checked_add(start)?, base.checked_add(end(block)?)?);
        (start <= end && end <= self.payload.len()).then_some(start..end)
    }
}

/// The bytes of some blocks of a list.
pub(crate) struct SomeBlocks<'a> {
    df: u32,
    first: u32,
    freq: u32,
    slices: [&'a [u8]; 4],
    /// The first block in this part of the skip array.
    before: u32,
    /// The first group.
    group: u32,
    /// The range of the payload.
    span: Range<usize>,
}

impl<'a> SomeBlocks<'a> {
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }

    /// Returns the bytes, in the order in which they go to the device.
    pub(crate) fn slices(&self) -> [&'a [u8]; 4] {
        self.slices
    }

    /// Returns the list for bytes that begin at this address. Blocks count from the start of the
    /// list, but only some of them are on the device.
    pub(crate) fn at(&self, address: u64) -> PackedList {
        let [lasts, ends, bases, _] = self.slices.map(|slice| slice.len() as u64);
        let (before, group) = (u64::from(self.before), u64::from(self.group));
        let (ends_at, bases_at) = (address + lasts, address + lasts + ends);
        let SomeBlocks { df, first, freq, .. } = *self;
        PackedList {
            lasts: address.wrapping_sub(4 * before),
            ends: ends_at.wrapping_sub(2 * before),
            bases: bases_at.wrapping_sub(8 * group),
            payload: (bases_at + bases).wrapping_sub(self.span.start as u64),
            from: self.span.start as u64,
            to: self.span.end as u64,
            df,
            first,
            freq,
            unused: 0,
        }
    }
}

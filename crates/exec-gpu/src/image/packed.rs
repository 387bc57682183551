//! Compressed lists in the form of `kernels/common/packed.cuh`.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};
use warpseek_codec::{CodecId, ListState};
use warpseek_core::limits::BLOCK;
use warpseek_index::{IndexError, ListParts, Segment, TermInfo};

/// Bytes that kernels may read behind a list.
pub(crate) const BEHIND: usize = 16;

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
    /// The part of the payload that is there.
    pub(crate) from: u64,
    /// See `from`.
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
    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u32 {
        self.df.div_ceil(BLOCK as u32)
    }

    /// The same list with its bytes at another address.
    pub(crate) fn moved(self, by: u64) -> Self {
        PackedList {
            bases: self.bases.wrapping_add(by),
            lasts: self.lasts.wrapping_add(by),
            ends: self.ends.wrapping_add(by),
            payload: self.payload.wrapping_add(by),
            ..self
        }
    }
}

/// What of a list goes to the device: in the codec `bitpack`, as it is on disk.
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
    /// The pieces of a list. A list of another codec is coded anew.
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

    /// Decodes a list and codes it with `bitpack`.
    fn coded_anew(segment: &Segment, info: &TermInfo) -> Result<Self, IndexError> {
        const GROUP: usize = 16;
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
            if block % GROUP == 0 {
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

    /// Number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.slices().iter().map(|slice| slice.len()).sum()
    }

    /// The bytes, in the order in which they go to the device.
    pub(crate) fn slices(&self) -> [&[u8]; 4] {
        [&self.lasts, &self.ends, &self.bases, &self.payload]
    }

    /// The list if its bytes begin at an address.
    pub(crate) fn at(&self, address: u64) -> PackedList {
        let lasts = address;
        let ends = lasts + self.lasts.len() as u64;
        let bases = ends + self.ends.len() as u64;
        let payload = bases + self.bases.len() as u64;
        let Pieces { df, first, freq, .. } = *self;
        let to = self.payload.len() as u64;
        PackedList { bases, lasts, ends, payload, from: 0, to, df, first, freq, unused: 0 }
    }
}

//! Lists of an n-gram index (docs/reference/formats/ngrams.md): documents, or parts of documents,
//! each with a map of the segments that contain the n-gram.
//!
//! A list with at least one document in eight is dense. It consists of bins of 256 documents,
//! each a bitmap with the maps of its documents. Other lists are sparse: they have blocks of up
//! to 128 documents in the index's codec, preceded by their maps. In both cases the map of a
//! document can be read without decoding those before it.

mod bins;
mod encode;
mod look_up;

use warpseek_codec::varint::{self, Cursor};
use warpseek_codec::{Block, Codec, CodecError, CodecId, ListState};
use warpseek_core::limits::BLOCK;

use super::list::{GROUP, ListError};
use super::map_code::Maps;
use crate::files::parts::Parts;
use bins::{BITMAP, words};

pub use bins::BIN;
pub(crate) use bins::HeadWidths;
pub(crate) use encode::MapListEncoder;
pub use look_up::{Glimpse, LookUp};

/// Divisor of the number of documents that gives the minimum df of a dense list.
const DENSE: u64 = 8;

/// Returns true if a list of `df` of `docs` documents consists of bins.
fn is_dense(df: u32, docs: u32) -> bool {
    df > 1 && u64::from(df) * DENSE >= u64::from(docs)
}

/// A list of documents with maps.
#[derive(Clone)]
pub struct MapList<'a> {
    df: u32,
    parts: &'a Parts,
    codec: &'static dyn Codec,
    state: ListState,
    layout: Layout<'a>,
}

#[derive(Clone)]
enum Layout<'a> {
    One { doc: u32, map: u32 },
    Short(&'a [u8]),
    Sparse { lasts: &'a [[u8; 4]], blocks: Pieces<'a> },
    Dense { bitmaps: &'a [[u8; BITMAP]], maps: Pieces<'a> },
}

/// The encoded parts of a list that hold its entries.
#[derive(Clone, Copy, Debug)]
pub enum MapListParts<'a> {
    /// A single entry.
    One {
        /// The document of the entry.
        doc: u32,
        /// The map of the entry.
        map: u32,
    },
    /// A single block.
    Short(&'a [u8]),
    /// Several blocks.
    Sparse {
        /// Start of each 16th block in the payload.
        bases: &'a [[u8; 8]],
        /// The last document of each block.
        lasts: &'a [[u8; 4]],
        /// End of each block, counted from the start of its group of 16.
        ends: &'a [[u8; 2]],
        /// The blocks.
        payload: &'a [u8],
    },
    /// Bins.
    Dense {
        /// The documents of each bin.
        bitmaps: &'a [[u8; BIN / 8]],
        /// Start of each 16th bin in the payload.
        bases: &'a [[u8; 8]],
        /// End of each bin, counted from the start of its group of 16.
        ends: &'a [[u8; 2]],
        /// The maps of each bin.
        payload: &'a [u8],
    },
}

/// Consecutive blocks or bins.
#[derive(Clone)]
struct Pieces<'a> {
    bases: &'a [[u8; 8]],
    ends: &'a [[u8; 2]],
    payload: &'a [u8],
}

impl<'a> Pieces<'a> {
    #[inline]
    fn get(&self, piece: usize) -> Option<&'a [u8]> {
        let end = |piece: usize| usize::from(u16::from_le_bytes(self.ends[piece]));
        let start = if piece.is_multiple_of(GROUP) { 0 } else { end(piece - 1) };
        let base = usize::try_from(u64::from_le_bytes(self.bases[piece / GROUP])).ok()?;
        self.payload.get(base.checked_add(start)?..base.checked_add(end(piece))?)
    }
}

/// A block of a sparse list.
struct SparseBlock<'a> {
    /// The document before the block.
    prev: u32,
    /// Number of documents in the block.
    n: usize,
    maps: &'a [u8],
    docs: &'a [u8],
}

impl<'a> MapList<'a> {
    /// Opens a list of a segment with these parts and reads its layout.
    pub fn new(
        bytes: &'a [u8],
        df: u32,
        parts: &'a Parts,
        codec: CodecId,
    ) -> Result<Self, ListError> {
        let (codec, mut cursor) = (codec.codec(), Cursor::new(bytes));
        let docs = parts.count();
        let mut state = ListState::default();
        if df == 0 || df > docs {
            return Err(ListError::Layout);
        }
        let layout = if df == 1 {
            let (Some(doc), Some(map)) = (cursor.varint32(), cursor.varint32()) else {
                return Err(ListError::Layout);
            };
            if doc >= docs || map == 0 {
                return Err(ListError::Order(0));
            }
            if !cursor.rest().is_empty() {
                return Err(ListError::Layout);
            }
            Layout::One { doc, map }
        } else if is_dense(df, docs) {
            let bins = docs.div_ceil(BIN as u32) as usize;
            let bitmaps = cursor.take(BITMAP * bins).ok_or(ListError::Layout)?.as_chunks().0;
            let (_, maps) = Pieces::new(&mut cursor, bins, 0).ok_or(ListError::Layout)?;
            Layout::Dense { bitmaps, maps }
        } else {
            let header = cursor.varint().and_then(|len| cursor.take(usize::try_from(len).ok()?));
            let mut header = Cursor::new(header.ok_or(ListError::Layout)?);
            let n = df as usize;
            state = codec.open(&mut header, n, 0).map_err(ListError::Codec)?;
            if n <= BLOCK {
                Layout::Short(cursor.rest())
            } else {
                let blocks = n.div_ceil(BLOCK);
                let (lasts, blocks) =
                    Pieces::new(&mut cursor, blocks, 4).ok_or(ListError::Layout)?;
                Layout::Sparse { lasts, blocks }
            }
        };
        Ok(MapList { df, parts, codec, state, layout })
    }

    /// Returns the encoded parts of the list, for engines that decode lists directly.
    pub fn list_parts(&self) -> MapListParts<'a> {
        match &self.layout {
            Layout::One { doc, map } => MapListParts::One { doc: *doc, map: *map },
            Layout::Short(block) => MapListParts::Short(block),
            Layout::Sparse { lasts, blocks: Pieces { bases, ends, payload } } => {
                MapListParts::Sparse { bases, lasts, ends, payload }
            }
            Layout::Dense { bitmaps, maps: Pieces { bases, ends, payload } } => {
                MapListParts::Dense { bitmaps, bases, ends, payload }
            }
        }
    }

    /// Returns the number of entries.
    pub fn df(&self) -> u32 {
        self.df
    }

    /// Returns true if the list consists of bins.
    pub fn is_dense(&self) -> bool {
        matches!(self.layout, Layout::Dense { .. })
    }

    /// Returns the number of blocks, or of bins of a dense list.
    pub fn blocks(&self) -> usize {
        match &self.layout {
            Layout::Dense { bitmaps, .. } => bitmaps.len(),
            _ => (self.df as usize).div_ceil(BLOCK),
        }
    }

    /// Returns the first block that may contain a document at or after `doc`.
    #[inline]
    pub fn block_for(&self, doc: u32) -> usize {
        match &self.layout {
            Layout::One { .. } | Layout::Short(_) => 0,
            Layout::Sparse { lasts, .. } => {
                lasts.partition_point(|&last| u32::from_le_bytes(last) < doc)
            }
            Layout::Dense { .. } => doc as usize / BIN,
        }
    }

    /// Returns an upper bound of the documents of a block.
    #[inline]
    pub fn block_max_doc(&self, block: usize) -> u32 {
        match &self.layout {
            Layout::One { doc, .. } => *doc,
            Layout::Short(_) => self.parts.count() - 1,
            Layout::Sparse { lasts, .. } => u32::from_le_bytes(lasts[block]),
            Layout::Dense { .. } => {
                (block * BIN + BIN - 1).min(self.parts.count() as usize - 1) as u32
            }
        }
    }

    /// Returns the bitmaps of a dense list, one for each bin of 256 documents, from the lowest
    /// bit of the first byte on. A sparse list has none.
    #[inline]
    pub fn bitmaps(&self) -> &'a [[u8; BIN / 8]] {
        match &self.layout {
            Layout::Dense { bitmaps, .. } => bitmaps,
            _ => &[],
        }
    }

    /// Writes the documents of a block to `out`, ascending, and returns their number.
    #[inline]
    pub fn decode_docs(&self, block: usize, out: &mut [u32; BIN]) -> Result<usize, ListError> {
        let n = match &self.layout {
            Layout::One { doc, .. } => {
                out[0] = *doc;
                return Ok(1);
            }
            Layout::Dense { bitmaps, .. } => {
                let (mut n, first) = (0, (block * BIN) as u32);
                for (i, mut word) in words(&bitmaps[block]).into_iter().enumerate() {
                    while word != 0 {
                        out[n] = first + i as u32 * 64 + word.trailing_zeros();
                        word &= word - 1;
                        n += 1;
                    }
                }
                n
            }
            Layout::Short(_) | Layout::Sparse { .. } => {
                let SparseBlock { prev, n, docs, .. } = self.sparse(block)?;
                let error = |source| ListError::Block { block, source };
                let coded =
                    Block { bytes: docs, list: &self.state, index: block, docs: n, freqs: 0 };
                let front = out.first_chunk_mut::<BLOCK>().ok_or(ListError::Layout)?;
                self.codec.decode_docs(coded, prev, front).map_err(error)?;
                n
            }
        };
        let last = out[..n].last().copied().unwrap_or(0);
        let expected = match &self.layout {
            Layout::Sparse { lasts, .. } => last == u32::from_le_bytes(lasts[block]),
            _ => true,
        };
        if last >= self.parts.count() || !expected { Err(ListError::Order(block)) } else { Ok(n) }
    }

    /// Returns a block of a sparse list.
    #[inline]
    fn sparse(&self, block: usize) -> Result<SparseBlock<'a>, ListError> {
        let n = (self.df as usize - block * BLOCK).min(BLOCK);
        let (prev, bytes) = match &self.layout {
            Layout::Sparse { lasts, blocks } => {
                let bytes = blocks.get(block).ok_or(ListError::Layout)?;
                let prev = block.checked_sub(1).map_or(u32::MAX, |b| u32::from_le_bytes(lasts[b]));
                (prev, bytes)
            }
            Layout::Short(bytes) => (u32::MAX, *bytes),
            _ => return Err(ListError::Layout),
        };
        if !self.parts.have_maps() {
            return Ok(SparseBlock { prev, n, maps: &[], docs: bytes });
        }
        let (maps, docs) = bytes
            .split_first_chunk()
            .and_then(|(len, rest)| rest.split_at_checked(usize::from(u16::from_le_bytes(*len))))
            .ok_or(ListError::Block { block, source: CodecError::Short })?;
        Ok(SparseBlock { prev, n, maps, docs })
    }

    /// Writes documents and maps of a block to `docs` and `maps`, and returns their number.
    pub fn decode(
        &self,
        block: usize,
        docs: &mut [u32; BIN],
        maps: &mut [u32; BIN],
    ) -> Result<usize, ListError> {
        let n = self.decode_docs(block, docs)?;
        let error = |source| ListError::Block { block, source };
        let coded = match &self.layout {
            Layout::One { map, .. } => {
                maps[0] = *map;
                return Ok(1);
            }
            _ if n == 0 => return Ok(0),
            _ if !self.parts.have_maps() => {
                maps[..n].fill(1);
                return Ok(n);
            }
            Layout::Dense { maps, .. } => maps.get(block).ok_or(ListError::Layout)?,
            _ => self.sparse(block)?.maps,
        };
        let segments = docs[..n].iter().map(|&doc| self.parts.segments(doc));
        let coded = Maps::new(coded, n).map_err(error)?;
        coded.decode(segments, &mut maps[..n]).map_err(error)?;
        Ok(n)
    }

    /// Returns the number of bytes for the documents and for the maps of a block.
    pub(crate) fn block_bytes(&self, block: usize) -> Result<(usize, usize), ListError> {
        match &self.layout {
            Layout::One { doc, map } => Ok((varint::len(*doc), varint::len(*map))),
            Layout::Dense { maps, .. } => {
                Ok((BITMAP, maps.get(block).ok_or(ListError::Layout)?.len()))
            }
            _ => {
                let SparseBlock { maps, docs, .. } = self.sparse(block)?;
                let len = if self.parts.have_maps() { 2 } else { 0 };
                Ok((docs.len(), len + maps.len()))
            }
        }
    }
}

impl<'a> Pieces<'a> {
    /// Reads the tables of `n` pieces, of which the second has `width` bytes per piece (4 or 0).
    /// The remaining bytes are the payload.
    fn new(cursor: &mut Cursor<'a>, n: usize, width: usize) -> Option<(&'a [[u8; 4]], Self)> {
        let bases = cursor.take(8 * n.div_ceil(GROUP))?.as_chunks().0;
        let lasts = cursor.take(width * n)?.as_chunks().0;
        let ends = cursor.take(2 * n)?.as_chunks().0;
        Some((lasts, Pieces { bases, ends, payload: cursor.rest() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(docs: &[u32], maps: &[u32], parts: &Parts, codec: CodecId) -> Vec<u8> {
        let mut out = Vec::new();
        MapListEncoder::new(codec, parts).encode(docs, maps, &mut out);
        out
    }

    fn decoded(list: &MapList<'_>) -> Result<Vec<(u32, u32)>, ListError> {
        let (mut docs, mut maps, mut all) = ([0; BIN], [0; BIN], Vec::new());
        for block in 0..list.blocks() {
            let n = list.decode(block, &mut docs, &mut maps)?;
            all.extend(docs[..n].iter().copied().zip(maps[..n].iter().copied()));
        }
        Ok(all)
    }

    /// Generates a map of few or many segments for each of 2000 documents, with the number of the
    /// document's segments.
    fn maps() -> impl Strategy<Value = Vec<(u32, u8)>> {
        let map = prop_oneof![
            8 => (0u32..32).prop_map(|bit| 1 << bit),
            3 => (0u32..32, 0u32..32).prop_map(|(a, b)| 1 << a | 1 << b),
            1 => 1u32..,
        ];
        let shift = prop_oneof![Just(0u32), Just(31), 0u32..32];
        let shifts = (shift, proptest::collection::vec(0u32..32, 2000), any::<bool>());
        (proptest::collection::vec(map, 2000), shifts).prop_map(|(maps, (shift, shifts, same))| {
            let shifts = shifts.into_iter().map(|own| if same { shift } else { own });
            let pairs = maps.into_iter().zip(shifts);
            pairs.map(|(map, shift)| ((map >> shift).max(1), 32 - shift as u8)).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_is_written_is_read(
            picks in proptest::collection::btree_set(0u32..2000, 1..600),
            maps in maps(),
            stretch in prop_oneof![Just(1u32), Just(3), Just(50)],
            codec in prop::sample::select(CodecId::ALL.to_vec()),
        ) {
            let docs: Vec<u32> = picks.iter().map(|doc| doc * stretch).collect();
            let all = docs[docs.len() - 1] + 1;
            let segments = (0..all).map(|doc| maps[(doc / stretch) as usize].1).collect();
            let parts = Parts::of_segments(segments);
            let maps: Vec<u32> = picks.iter().map(|&doc| maps[doc as usize].0).collect();
            let bytes = encoded(&docs, &maps, &parts, codec);
            let list = MapList::new(&bytes, docs.len() as u32, &parts, codec).unwrap();
            let want: Vec<_> = docs.iter().copied().zip(maps).collect();
            prop_assert_eq!(decoded(&list).unwrap(), want.clone());
            let mut look_up = LookUp::default();
            for (i, &(doc, map)) in want.iter().enumerate() {
                prop_assert!(list.has(doc, &mut look_up).unwrap());
                prop_assert_eq!(list.map_of(doc, &mut look_up).unwrap(), map);
                match list.glimpse(doc, &mut look_up).unwrap() {
                    Glimpse::Absent => prop_assert!(false, "{} is there", doc),
                    Glimpse::Map(seen) => prop_assert_eq!(seen, map),
                    Glimpse::Several => prop_assert!(map.count_ones() > 1),
                }
                let next = want.get(i + 1).map_or(all, |next| next.0);
                if doc + 1 < next {
                    prop_assert!(!list.has(doc + 1, &mut look_up).unwrap());
                    prop_assert_eq!(list.map_of(doc + 1, &mut look_up).unwrap(), 0);
                    let glimpse = list.glimpse(doc + 1, &mut look_up).unwrap();
                    prop_assert_eq!(glimpse, Glimpse::Absent);
                }
                prop_assert!(list.block_max_doc(list.block_for(doc)) >= doc);
            }
        }

        #[test]
        fn forged_bytes_are_errors_at_worst(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            df in 0u32..600,
            segments in proptest::collection::vec(1u8..=32, 0..3000),
            codec in prop::sample::select(CodecId::ALL.to_vec()),
        ) {
            let parts = Parts::of_segments(segments);
            if let Ok(list) = MapList::new(&bytes, df, &parts, codec) {
                let _ = decoded(&list);
                let mut look_up = LookUp::default();
                for doc in 0..parts.count() {
                    let _ = list.has(doc, &mut look_up);
                    let _ = list.glimpse(doc, &mut look_up);
                    let _ = list.map_of(doc, &mut look_up);
                }
            }
        }
    }
}

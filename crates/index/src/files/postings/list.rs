//! A reader of lists, which decodes block by block from bytes that may be forged.

use warpseek_codec::varint::{self, Cursor};
use warpseek_codec::{Block, Codec, CodecError, CodecId, ListState};
use warpseek_core::limits::BLOCK;

use super::bounds::{Bounds, FEWEST_BOUNDED};
use crate::files::container::COMPACT;

/// Number of blocks that share a 64-bit start in the payload.
pub(crate) const GROUP: usize = 16;

/// An error in the bytes of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The parts do not fit the list's bytes.
    #[error("its parts do not fit its length")]
    Layout,
    /// Bounds are malformed.
    #[error("its bounds are malformed")]
    Bounds,
    /// The codec's data for the whole list is malformed.
    #[error("its codec's part: {0}")]
    Codec(CodecError),
    /// A block does not decode.
    #[error("block {block}: {source}")]
    Block {
        /// Number of the block.
        block: usize,
        /// The error of the codec.
        source: CodecError,
    },
    /// Documents of a block do not match the skip array, or do not exist in the segment.
    #[error("block {0}: documents are out of order or out of range")]
    Order(usize),
}

/// The encoded parts of a list that hold its postings.
#[derive(Clone, Copy, Debug)]
pub enum ListParts<'a> {
    /// A single posting.
    One {
        /// The document of the posting.
        doc: u32,
        /// The frequency of the posting.
        freq: u32,
    },
    /// A single block, without its first document.
    Short {
        /// The first document.
        first: u32,
        /// The block.
        block: &'a [u8],
    },
    /// Several blocks.
    Long {
        /// Start of each 16th block in the payload.
        bases: &'a [[u8; 8]],
        /// The last document of each block.
        lasts: &'a [[u8; 4]],
        /// End of each block, counted from the start of its group of 16.
        ends: &'a [[u8; 2]],
        /// The blocks.
        payload: &'a [u8],
    },
}

/// A posting list whose blocks decode independently of each other.
#[derive(Clone)]
pub struct List<'a> {
    df: u32,
    /// Number of documents of the segment; every position must be below it.
    docs: u32,
    codec: &'static dyn Codec,
    /// The codec's data for the whole list.
    state: ListState,
    layout: Layout<'a>,
}

#[derive(Clone)]
enum Layout<'a> {
    One { doc: u32, freq: u32 },
    Short { bounds: Option<Bounds>, first: u32, block: &'a [u8] },
    Long(Long<'a>),
}

#[derive(Clone)]
struct Long<'a> {
    bounds: Bounds,
    /// True if bounds have the layout of the current version.
    compact: bool,
    bases: &'a [[u8; 8]],
    lasts: &'a [[u8; 4]],
    /// End of each block, counted from its group's base.
    ends: &'a [[u8; 2]],
    block_bounds: &'a [u8],
    payload: &'a [u8],
}

impl<'a> List<'a> {
    /// Opens a list and reads its layout. `docs` is the number of documents of the segment, and
    /// `version` the format version of its files.
    pub fn new(
        bytes: &'a [u8],
        df: u32,
        docs: u32,
        codec: CodecId,
        version: u32,
    ) -> Result<Self, ListError> {
        let (codec, mut cursor) = (codec.codec(), Cursor::new(bytes));
        let mut state = ListState::default();
        if df == 0 || df > docs {
            return Err(ListError::Layout);
        }
        let layout = match df as usize {
            1 => {
                let (Some(doc), Some(freq)) = (cursor.varint32(), cursor.varint32()) else {
                    return Err(ListError::Layout);
                };
                if doc >= docs || freq == 0 {
                    return Err(ListError::Order(0));
                }
                if !cursor.rest().is_empty() {
                    return Err(ListError::Layout);
                }
                Layout::One { doc, freq }
            }
            2..=BLOCK => {
                let bounds = match version >= COMPACT {
                    true if df < FEWEST_BOUNDED => None,
                    compact => Some(read_bounds(&mut cursor, compact)?),
                };
                let first = cursor.varint32().ok_or(ListError::Layout)?;
                if first >= docs {
                    return Err(ListError::Order(0));
                }
                let n = df as usize;
                state = codec.open(&mut cursor, n - 1, n).map_err(ListError::Codec)?;
                Layout::Short { bounds, first, block: cursor.rest() }
            }
            n => {
                let (long, mut header) = Long::new(cursor, n, version >= COMPACT)?;
                state = codec.open(&mut header, n, n).map_err(ListError::Codec)?;
                if !header.rest().is_empty() {
                    return Err(ListError::Layout);
                }
                Layout::Long(long)
            }
        };
        Ok(List { df, docs, codec, state, layout })
    }

    /// Returns the number of postings.
    pub fn df(&self) -> u32 {
        self.df
    }

    /// Returns the number of blocks, at least one.
    pub fn blocks(&self) -> usize {
        (self.df as usize).div_ceil(BLOCK)
    }

    /// Returns the number of postings in a block.
    pub fn block_len(&self, block: usize) -> usize {
        (self.df as usize - block * BLOCK).min(BLOCK)
    }

    /// Returns an upper bound of the documents of a block, which is itself a document of the
    /// segment. If the list has several blocks, it is the block's last document, from the skip
    /// array; otherwise it may be larger.
    pub fn block_max_doc(&self, block: usize) -> u32 {
        match &self.layout {
            Layout::One { doc, .. } => *doc,
            Layout::Short { .. } => self.docs - 1,
            // A forged skip array must not lead out of the segment either.
            Layout::Long(long) => long.last(block).min(self.docs - 1),
        }
    }

    /// Returns the first block that can contain a document, or [`List::blocks`] if none can.
    pub fn block_for(&self, doc: u32) -> usize {
        match &self.layout {
            Layout::One { doc: only, .. } => usize::from(*only < doc),
            Layout::Short { .. } => 0,
            Layout::Long(long) => {
                long.lasts.partition_point(|&last| u32::from_le_bytes(last) < doc)
            }
        }
    }

    /// Prefetches the bytes of a block that will be decoded soon.
    pub fn prefetch(&self, block: usize) {
        if let Layout::Long(long) = &self.layout
            && let Some(bytes) = long.block(block)
        {
            warpseek_codec::prefetch(bytes);
        }
    }

    /// Writes the block's documents to the front of `out` and returns their number. They ascend,
    /// lie above those of the preceding block, and exist in the segment.
    pub fn decode_docs(&self, block: usize, out: &mut [u32; BLOCK]) -> Result<usize, ListError> {
        let n = self.block_len(block);
        let wrap = |source| ListError::Block { block, source };
        match &self.layout {
            Layout::One { doc, .. } => out[0] = *doc,
            Layout::Short { first, block: bytes, .. } => {
                let mut rest = [0; BLOCK];
                self.codec.decode_docs(self.short(bytes), *first, &mut rest).map_err(wrap)?;
                out[0] = *first;
                out[1..n].copy_from_slice(&rest[..n - 1]);
                if out[n - 1] >= self.docs {
                    return Err(ListError::Order(block));
                }
            }
            Layout::Long(long) => {
                let prev = if block == 0 { u32::MAX } else { long.last(block - 1) };
                if block > 0 && prev >= self.docs {
                    return Err(ListError::Order(block));
                }
                self.codec.decode_docs(self.long(long, block)?, prev, out).map_err(wrap)?;
                if out[n - 1] != long.last(block) || out[n - 1] >= self.docs {
                    return Err(ListError::Order(block));
                }
            }
        }
        Ok(n)
    }

    /// Writes the block's frequencies to the front of `out` and returns their number.
    pub fn decode_freqs(&self, block: usize, out: &mut [u32; BLOCK]) -> Result<usize, ListError> {
        let coded = match &self.layout {
            Layout::One { freq, .. } => {
                out[0] = *freq;
                return Ok(1);
            }
            Layout::Short { block: bytes, .. } => self.short(bytes),
            Layout::Long(long) => self.long(long, block)?,
        };
        let wrap = |source| ListError::Block { block, source };
        self.codec.decode_freqs(coded, out).map_err(wrap)?;
        Ok(coded.freqs)
    }

    /// Returns the frequency of posting `i` of the block, which must be below
    /// [`block_len`](List::block_len), without decoding the others if the codec permits. Damage
    /// that affects only other parts of the block is not noticed.
    pub fn freq_at(&self, block: usize, i: usize) -> Result<u32, ListError> {
        let coded = match &self.layout {
            Layout::One { freq, .. } => return Ok(*freq),
            Layout::Short { block: bytes, .. } => self.short(bytes),
            Layout::Long(long) => self.long(long, block)?,
        };
        self.codec.freq_at(coded, i).map_err(|source| ListError::Block { block, source })
    }

    /// Returns the block of a list of one block, whose first document is stored separately.
    fn short<'b>(&'b self, bytes: &'b [u8]) -> Block<'b> {
        let freqs = self.df as usize;
        Block { bytes, list: &self.state, index: 0, docs: freqs - 1, freqs }
    }

    fn long<'b>(&'b self, long: &Long<'b>, block: usize) -> Result<Block<'b>, ListError> {
        let (n, bytes) = (self.block_len(block), long.block(block).ok_or(ListError::Layout)?);
        Ok(Block { bytes, list: &self.state, index: block, docs: n, freqs: n })
    }

    /// Returns the number of bytes at the start of the list that [`List::new`] and
    /// [`List::block_for`] read, which excludes the blocks and their bounds. Returns `None` for a
    /// list of one block, all of which they may read.
    pub(crate) fn head_len(&self, list_len: usize) -> Option<usize> {
        match &self.layout {
            Layout::Long(long) => {
                list_len.checked_sub(long.block_bounds.len() + long.payload.len())
            }
            Layout::One { .. } | Layout::Short { .. } => None,
        }
    }

    /// Returns offset and length of a block in the bytes of the list.
    pub(crate) fn block_range(
        &self,
        list_len: usize,
        block: usize,
    ) -> Result<(usize, usize), ListError> {
        match &self.layout {
            Layout::Long(long) => {
                let (start, len) = long.span(block).ok_or(ListError::Layout)?;
                Ok((list_len.saturating_sub(long.payload.len()) + start, len))
            }
            Layout::One { .. } | Layout::Short { .. } => Ok((0, list_len)),
        }
    }

    /// Returns the encoded parts that hold the postings. Blocks may be malformed.
    pub fn parts(&self) -> ListParts<'a> {
        match self.layout {
            Layout::One { doc, freq } => ListParts::One { doc, freq },
            Layout::Short { first, block, .. } => ListParts::Short { first, block },
            Layout::Long(Long { bases, lasts, ends, payload, .. }) => {
                ListParts::Long { bases, lasts, ends, payload }
            }
        }
    }

    /// Returns the bounds of the whole list. A list of one posting has none, and a list of few
    /// postings may have none.
    pub fn bounds(&self) -> Option<&Bounds> {
        match &self.layout {
            Layout::One { .. } => None,
            Layout::Short { bounds, .. } => bounds.as_ref(),
            Layout::Long(long) => Some(&long.bounds),
        }
    }

    /// Iterates over the bounds of all blocks in order. A list of one block yields none.
    pub fn block_bounds(&self) -> BlockBounds<'a> {
        let (left, bytes, compact) = match &self.layout {
            Layout::Long(long) => (long.lasts.len(), long.block_bounds, long.compact),
            _ => (0, &[][..], false),
        };
        BlockBounds { left, cursor: Cursor::new(bytes), compact }
    }

    /// Returns the number of bytes that the documents and the frequencies of a block take.
    pub fn block_bytes(&self, block: usize) -> Result<(usize, usize), ListError> {
        let coded = match &self.layout {
            Layout::One { doc, freq } => return Ok((varint::len(*doc), varint::len(*freq))),
            Layout::Short { block: bytes, .. } => self.short(bytes),
            Layout::Long(long) => self.long(long, block)?,
        };
        let wrap = |source| ListError::Block { block, source };
        let docs = self.codec.docs_len(coded).map_err(wrap)?;
        Ok((docs, coded.bytes.len().saturating_sub(docs)))
    }

    /// Returns the number of bytes that documents and frequencies take outside of blocks, in the
    /// codec's data for the whole list.
    pub fn shared_bytes(&self) -> (usize, usize) {
        self.state.bytes()
    }

    /// Returns the number of bytes of documents and frequencies, without skip array and bounds.
    pub fn payload_len(&self) -> usize {
        let (docs, freqs) = self.shared_bytes();
        let blocks = match &self.layout {
            Layout::One { .. } => 0,
            Layout::Short { block, .. } => block.len(),
            Layout::Long(long) => long.payload.len(),
        };
        docs + freqs + blocks
    }
}

impl<'a> Long<'a> {
    /// Reads the layout of a list of several blocks. Also returns the codec's data for the whole
    /// list.
    fn new(
        mut cursor: Cursor<'a>,
        df: usize,
        compact: bool,
    ) -> Result<(Self, Cursor<'a>), ListError> {
        let bounds = read_bounds(&mut cursor, compact)?;
        Self::tables(&mut cursor, df, bounds, compact).ok_or(ListError::Layout)
    }

    fn tables(
        cursor: &mut Cursor<'a>,
        df: usize,
        bounds: Bounds,
        compact: bool,
    ) -> Option<(Self, Cursor<'a>)> {
        let blocks = df.div_ceil(BLOCK);
        let header_len = usize::try_from(cursor.varint()?).ok()?;
        let header = Cursor::new(cursor.take(header_len)?);
        let bounds_len = usize::try_from(cursor.varint()?).ok()?;
        let long = Long {
            bounds,
            compact,
            bases: cursor.take(8 * blocks.div_ceil(GROUP))?.as_chunks().0,
            lasts: cursor.take(4 * blocks)?.as_chunks().0,
            ends: cursor.take(2 * blocks)?.as_chunks().0,
            block_bounds: cursor.take(bounds_len)?,
            payload: cursor.rest(),
        };
        let (start, size) = long.span(blocks - 1)?;
        (start + size == long.payload.len()).then_some((long, header))
    }

    fn last(&self, block: usize) -> u32 {
        u32::from_le_bytes(self.lasts[block])
    }

    fn span(&self, block: usize) -> Option<(usize, usize)> {
        let end = |i: usize| usize::from(u16::from_le_bytes(self.ends[i]));
        let within = if block.is_multiple_of(GROUP) { 0 } else { end(block - 1) };
        let base = usize::try_from(u64::from_le_bytes(self.bases[block / GROUP])).ok()?;
        let start = base.checked_add(within).filter(|&start| start <= self.payload.len())?;
        Some((start, end(block).checked_sub(within)?))
    }

    fn block(&self, block: usize) -> Option<&'a [u8]> {
        let (start, size) = self.span(block)?;
        self.payload.get(start..start + size)
    }
}

fn read_bounds(cursor: &mut Cursor<'_>, compact: bool) -> Result<Bounds, ListError> {
    let bounds = if compact { Bounds::read(cursor) } else { Bounds::read_bytes(cursor) };
    bounds.ok_or(ListError::Bounds)
}

/// An iterator over the bounds of blocks; see [`List::block_bounds`].
pub struct BlockBounds<'a> {
    left: usize,
    cursor: Cursor<'a>,
    compact: bool,
}

impl Iterator for BlockBounds<'_> {
    type Item = Result<Bounds, ListError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let bounds = read_bounds(&mut self.cursor, self.compact);
        if bounds.is_err() || (self.left == 0 && !self.cursor.rest().is_empty()) {
            self.left = 0;
            return Some(Err(ListError::Bounds));
        }
        Some(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::ListEncoder;
    use super::*;
    use crate::files::container::{VERSION, VERSIONS};
    use proptest::prelude::*;

    /// Generates lists around the block limits, with the documents' lengths.
    fn lists() -> impl Strategy<Value = (Vec<u32>, Vec<u32>, Vec<u32>)> {
        let len = prop_oneof![1usize..4, 14usize..18, 126usize..131, 254usize..259, 1usize..3000];
        (len, 1u32..40, any::<u64>()).prop_map(|(n, spread, seed)| {
            let mut state = seed | 1;
            let mut next = move |limit: u32| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % limit
            };
            let (mut docs, mut doc) = (Vec::new(), next(50));
            for _ in 0..n {
                docs.push(doc);
                // One gap in 30 is large, so that codecs with exceptions have some.
                doc += 1 + if next(30) == 0 { next(20 * spread) } else { next(spread) };
            }
            let freqs = docs.iter().map(|_| 1 + if next(30) == 0 { next(900) } else { next(9) });
            let freqs = freqs.collect();
            let lengths = (0..doc + next(10)).map(|_| 10 + next(500)).collect();
            (docs, freqs, lengths)
        })
    }

    fn decode(list: &List<'_>) -> Result<(Vec<u32>, Vec<u32>), ListError> {
        let (mut docs, mut freqs, mut out) = (Vec::new(), Vec::new(), [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list.decode_docs(block, &mut out)?;
            docs.extend(&out[..n]);
            let n = list.decode_freqs(block, &mut out)?;
            freqs.extend(&out[..n]);
        }
        Ok((docs, freqs))
    }

    #[test]
    fn a_forged_skip_array_does_not_let_a_block_begin_anew() {
        let (docs, freqs) = ((0..200).collect::<Vec<u32>>(), vec![1; 200]);
        let (mut bytes, lengths, norms) = (Vec::new(), [9; 200], [3.0; 200]);
        ListEncoder::new(CodecId::BitPack, &lengths, &norms).encode(&docs, &freqs, &mut bytes);
        let at = bytes.windows(4).position(|word| word == 127u32.to_le_bytes()).unwrap();
        // For the codec, this means "before document 0": block 1 would decode to documents from 0
        // on.
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&71u32.to_le_bytes());
        let list = List::new(&bytes, 200, 200, CodecId::BitPack, VERSION).unwrap();
        let mut out = [0; BLOCK];
        assert_eq!(list.decode_docs(0, &mut out), Err(ListError::Order(0)));
        assert_eq!(list.decode_docs(1, &mut out), Err(ListError::Order(1)));
        assert_eq!(list.block_max_doc(0), 199);
    }

    proptest! {
        #[test]
        fn round_trip_and_bounds((docs, freqs, lengths) in lists()) {
            let norms: Vec<f32> = lengths.iter().map(|&l| (l as f32).sqrt() * 4.0).collect();
            for codec in CodecId::ALL {
                let mut bytes = Vec::new();
                ListEncoder::new(codec, &lengths, &norms).encode(&docs, &freqs, &mut bytes);
                let (df, all) = (docs.len() as u32, lengths.len() as u32);
                let list = List::new(&bytes, df, all, codec, VERSION).unwrap();
                prop_assert_eq!(list.bounds().is_some(), df >= FEWEST_BOUNDED);
                prop_assert_eq!(decode(&list).unwrap(), (docs.clone(), freqs.clone()), "{}", codec);
                prop_assert!(list.payload_len() <= bytes.len());
                let bounds: Vec<_> = list.block_bounds().collect::<Result<_, _>>().unwrap();
                prop_assert_eq!(bounds.len(), if docs.len() > BLOCK { list.blocks() } else { 0 });
                for (i, (&doc, &freq)) in docs.iter().zip(&freqs).enumerate() {
                    let (length, norm) = (lengths[doc as usize], norms[doc as usize]);
                    prop_assert_eq!(list.freq_at(i / BLOCK, i % BLOCK), Ok(freq));
                    prop_assert!(doc <= list.block_max_doc(i / BLOCK));
                    prop_assert!(list.bounds().is_none_or(|b| b.covers(freq, length, norm)));
                    prop_assert!(bounds.get(i / BLOCK).is_none_or(|b| b.covers(freq, length, norm)));
                }
                // Every byte of the payload belongs to a document or to a frequency.
                let (mut total, shared) = (0, list.shared_bytes());
                for block in 0..list.blocks() {
                    let (docs, freqs) = list.block_bytes(block).unwrap();
                    total += docs + freqs;
                }
                prop_assert!(docs.len() == 1 || total + shared.0 + shared.1 == list.payload_len());
            }
        }

        #[test]
        fn damage_never_panics(
            (docs, freqs, lengths) in lists(),
            version in VERSIONS,
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
            df in 0u32..4000,
        ) {
            let norms = vec![30.0; lengths.len()];
            for codec in CodecId::ALL {
                let mut bytes = Vec::new();
                ListEncoder::new(codec, &lengths, &norms).encode(&docs, &freqs, &mut bytes);
                for (at, with) in &flips {
                    let at = at.index(bytes.len());
                    bytes[at] ^= with;
                }
                for (bytes, df) in [(&bytes[..], docs.len() as u32), (&bytes[..cut.index(bytes.len())], df)] {
                    let all = lengths.len() as u32;
                    let Ok(list) = List::new(bytes, df, all, codec, version) else { continue };
                    if let Ok((docs, freqs)) = decode(&list) {
                        prop_assert!(docs.is_sorted_by(|a, b| a < b), "{}", codec);
                        prop_assert!(docs.iter().all(|&d| (d as usize) < lengths.len()));
                        prop_assert!(freqs.iter().all(|&f| f > 0));
                    }
                    for block in 0..list.blocks() {
                        let last = list.block_len(block) - 1;
                        prop_assert!(list.freq_at(block, last).is_ok_and(|f| f > 0) || list.freq_at(block, last).is_err());
                        let _ = list.block_bytes(block);
                    }
                    let _ = list.block_bounds().collect::<Vec<_>>();
                }
            }
        }
    }
}

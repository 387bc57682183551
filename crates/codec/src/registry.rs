use std::fmt;
use std::str::FromStr;

use warpseek_core::limits::BLOCK;

use crate::bitpack::BitPack;
use crate::ef::EliasFano;
use crate::list_state::ListState;
use crate::pfd::Pfd;
use crate::pfor::PFor;
use crate::rice::Rice;
use crate::svb::StreamVByte;
use crate::varint::Cursor;

/// What is wrong with a coded block or with what a list keeps for all of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The block ends before its values do.
    #[error("block is cut short")]
    Short,
    /// A bit width over 32.
    #[error("bit width {0} is over 32")]
    Width(u8),
    /// Documents leave the range of ids.
    #[error("document ids overflow")]
    Overflow,
    /// Documents do not ascend.
    #[error("documents do not ascend")]
    Order,
    /// The first byte names no way of coding.
    #[error("no way of coding has the number {0}")]
    Kind(u8),
    /// An exception is outside of the values or does not fit 32 bits.
    #[error("an exception is out of range")]
    Exception,
    /// What the codec keeps for the list is cut short, or is another codec's.
    #[error("the part for the whole list is malformed")]
    List,
}

/// A coded block and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// What [`Codec::open`] read for its list.
    pub list: &'a ListState,
    /// Its number in the list, from 0.
    pub index: usize,
    /// Documents it has, 0 to 128.
    pub docs: usize,
    /// Frequencies it has: as many as documents or, where the first document is kept elsewhere, one more.
    pub freqs: usize,
}

/// A way to code a list's postings, block by block. Given the document before a block and what the codec keeps for the
/// list as a whole, the block's documents and frequencies can be decoded without any other block, and either
/// without the other.
///
/// To write: [`encode_list`](Codec::encode_list), then [`encode`](Codec::encode) for each block with what that
/// returned. To read: [`open`](Codec::open), then any block in any order.
///
/// `prev` is the document before the block's first, `u32::MAX` for "before document 0". All blocks but the last are
/// full; only a list of one block may have its first document elsewhere.
///
/// Bytes are not trusted: whatever they are, nothing panics, no memory is taken beyond a small multiple of the
/// number of postings, documents ascend and frequencies are at least 1, or there is an error.
pub trait Codec: Sync {
    /// Appends what the codec keeps for the list as a whole, for most codecs nothing, and returns what
    /// [`encode`](Codec::encode) needs of it (not fit for decoding). Its end must be known from its bytes.
    fn encode_list(&self, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) -> ListState {
        let _ = (prev, docs, freqs, out);
        ListState::default()
    }

    /// Reads it back off the cursor, for a list of so many coded documents and frequencies.
    fn open(
        &self,
        header: &mut Cursor<'_>,
        docs: usize,
        freqs: usize,
    ) -> Result<ListState, CodecError> {
        let _ = (header, docs, freqs);
        Ok(ListState::default())
    }

    /// Appends the block, at most 4095 bytes. Documents ascend and come after `prev`; frequencies are at least 1.
    fn encode(&self, list: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>);

    /// Writes the block's documents to the front of `out`. They ascend, start after `prev`, and stay below `u32::MAX`,
    /// whatever the bytes. What lies behind them in `out` is unspecified.
    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError>;

    /// Writes the block's frequencies to the front of `out`. What lies behind them in `out` is unspecified.
    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError>;

    /// Frequency `i`, which must be below `block.freqs`, as [`decode_freqs`](Codec::decode_freqs) gives it; without decoding
    /// the others where the codec can. It may succeed on a damaged block that does not decode as a whole.
    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let mut out = [0; BLOCK];
        self.decode_freqs(block, &mut out)?;
        Ok(out[i])
    }

    /// How many of the block's bytes are its documents, the rest being its frequencies.
    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError>;
}

/// The codecs there are. Names and numbers are part of the index format and never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodecId {
    /// Gaps and frequencies bit-packed at the width of the block's largest.
    #[default]
    BitPack = 1,
    /// Rice codes, unary and binary parts apart.
    Rice = 2,
    /// PForDelta with one width for the list, its exceptions compressed once more.
    PFor = 3,
    /// PForDelta with a width for each block.
    Pfd = 4,
    /// Partitioned Elias-Fano.
    EliasFano = 5,
    /// StreamVByte.
    StreamVByte = 6,
    /// [`PFor`](CodecId::PFor) with exceptions as they are.
    PFor0 = 16,
    /// [`PFor`](CodecId::PFor) with two levels of exceptions compressed.
    PFor2 = 17,
    /// [`PFor`](CodecId::PFor) with three levels of exceptions compressed.
    PFor3 = 18,
    /// [`PFor`](CodecId::PFor) with four levels of exceptions compressed.
    PFor4 = 19,
}

impl CodecId {
    /// All of them.
    pub const ALL: [CodecId; 10] = [
        CodecId::BitPack,
        CodecId::Rice,
        CodecId::PFor,
        CodecId::Pfd,
        CodecId::EliasFano,
        CodecId::StreamVByte,
        CodecId::PFor0,
        CodecId::PFor2,
        CodecId::PFor3,
        CodecId::PFor4,
    ];

    /// All names, in the order of [`CodecId::ALL`].
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|id| id.name()).collect()
    }

    /// The code behind the id.
    pub fn codec(self) -> &'static dyn Codec {
        match self {
            CodecId::BitPack => &BitPack,
            CodecId::Rice => &Rice,
            CodecId::PFor => &PFor { levels: 1 },
            CodecId::Pfd => &Pfd,
            CodecId::EliasFano => &EliasFano,
            CodecId::StreamVByte => &StreamVByte,
            CodecId::PFor0 => &PFor { levels: 0 },
            CodecId::PFor2 => &PFor { levels: 2 },
            CodecId::PFor3 => &PFor { levels: 3 },
            CodecId::PFor4 => &PFor { levels: 4 },
        }
    }

    /// The name used in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            CodecId::BitPack => "bitpack",
            CodecId::Rice => "rice",
            CodecId::PFor => "pfor",
            CodecId::Pfd => "pfd",
            CodecId::EliasFano => "ef",
            CodecId::StreamVByte => "svb",
            CodecId::PFor0 => "pfor0",
            CodecId::PFor2 => "pfor2",
            CodecId::PFor3 => "pfor3",
            CodecId::PFor4 => "pfor4",
        }
    }
}

impl fmt::Display for CodecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CodecId {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|id| id.name() == name)
            .ok_or_else(|| format!("no codec `{name}`; there are: {}", Self::names().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ascending documents after `prev`, and their frequencies.
    #[derive(Clone, Debug)]
    struct Postings {
        prev: u32,
        docs: Vec<u32>,
        freqs: Vec<u32>,
    }

    /// Widths of all sizes; in part of the lists a few outliers, which make exceptions, or stretches without gaps.
    fn postings(len: impl Strategy<Value = usize>) -> impl Strategy<Value = Postings> {
        let outliers = prop_oneof![Just(0u32), Just(2), Just(8), Just(64)];
        (len, 0u32..=31, 0u32..=32, outliers, any::<u64>(), any::<bool>()).prop_map(
            |(n, gap_bits, freq_bits, outliers, seed, from_start)| {
                let mut state = seed | 1;
                let mut next = move || {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u32
                };
                let prev = if from_start { u32::MAX } else { next() >> 4 };
                // Gaps as wide as asked for, as long as there is room for the rest of the list.
                let mut last = prev;
                let docs = (0..n as u32).map(|i| {
                    let room = u32::MAX - 1 - last.wrapping_add(1) - (n as u32 - 1 - i);
                    let wide = outliers == 0 || next() % outliers == 0;
                    let gap = mask(next(), if wide { gap_bits } else { gap_bits / 4 });
                    last = last.wrapping_add(1 + gap.min(room));
                    last
                });
                let docs = docs.collect();
                let freqs = (0..n).map(|_| {
                    let wide = outliers == 0 || next() % outliers == 0;
                    1 + mask(next(), if wide { freq_bits } else { freq_bits / 4 }).min(u32::MAX - 1)
                });
                Postings { prev, docs, freqs: freqs.collect() }
            },
        )
    }

    fn mask(value: u32, bits: u32) -> u32 {
        (u64::from(value) & ((1 << bits) - 1)) as u32
    }

    /// Lists around the block limits.
    fn lists() -> impl Strategy<Value = Postings> {
        const LENS: [usize; 9] = [1, 127, 128, 129, 255, 256, 257, 1000, 1300];
        postings(prop_oneof![proptest::sample::select(&LENS[..]), 1usize..=BLOCK])
    }

    /// Writes a list whose first `kept` documents (0 or 1) are kept elsewhere: the part for the list, and the blocks.
    fn write(codec: &dyn Codec, list: &Postings, kept: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let (docs, mut prev) = (&list.docs[kept..], list.prev);
        if kept > 0 {
            prev = list.docs[0];
        }
        let mut header = Vec::new();
        let state = codec.encode_list(prev, docs, &list.freqs, &mut header);
        let mut docs = docs.chunks(BLOCK);
        let blocks = list.freqs.chunks(BLOCK).map(|freqs| {
            let (docs, mut bytes) = (docs.next().unwrap_or(&[]), Vec::new());
            codec.encode(&state, prev, docs, freqs, &mut bytes);
            prev = docs.last().copied().unwrap_or(prev);
            assert!(bytes.len() <= 4095);
            bytes
        });
        let blocks = blocks.collect();
        (header, blocks)
    }

    fn check(id: CodecId, list: &Postings, kept: usize) -> Result<(), TestCaseError> {
        let (codec, n) = (id.codec(), list.freqs.len());
        let (header, blocks) = write(codec, list, kept);
        let mut cursor = Cursor::new(&header);
        let state = codec.open(&mut cursor, n - kept, n).unwrap();
        prop_assert!(cursor.rest().is_empty());
        prop_assert_eq!(state.bytes().0 + state.bytes().1, header.len());
        let mut prev = if kept > 0 { list.docs[0] } else { list.prev };
        let (mut docs, mut freqs, mut out) =
            (list.docs[..kept].to_vec(), Vec::<u32>::new(), [0; BLOCK]);
        for (index, bytes) in blocks.iter().enumerate() {
            let n = list.freqs[index * BLOCK..].len().min(BLOCK);
            let block = Block { bytes, list: &state, index, docs: n - kept, freqs: n };
            codec.decode_docs(block, prev, &mut out).unwrap();
            docs.extend(&out[..n - kept]);
            prev = docs[docs.len() - 1];
            codec.decode_freqs(block, &mut out).unwrap();
            freqs.extend(&out[..n]);
            for (i, &freq) in out[..n].iter().enumerate() {
                prop_assert_eq!(codec.freq_at(block, i).unwrap(), freq, "{} at {}", id, i);
            }
            prop_assert!(codec.docs_len(block).unwrap() <= bytes.len());
        }
        prop_assert_eq!(&docs, &list.docs, "{}", id);
        prop_assert_eq!(&freqs, &list.freqs, "{}", id);
        Ok(())
    }

    /// Decodes what may be forged: no panic, and the promise about documents and frequencies.
    fn check_promise(codec: &dyn Codec, block: Block<'_>, prev: u32) -> Result<(), TestCaseError> {
        let (mut out, n) = ([0; BLOCK], block.docs);
        if codec.decode_docs(block, prev, &mut out).is_ok() {
            prop_assert!(out[..n].is_sorted_by(|a, b| a < b));
            prop_assert!(n == 0 || prev == u32::MAX || out[0] > prev);
            prop_assert!(out[..n].iter().all(|&d| d < u32::MAX));
        }
        let decoded = codec.decode_freqs(block, &mut out);
        prop_assert!(decoded.is_err() || out[..block.freqs].iter().all(|&f| f > 0));
        for (i, &freq) in out[..block.freqs].iter().enumerate() {
            let alone = codec.freq_at(block, i);
            prop_assert!(
                alone.is_ok_and(|f| f > 0 && (decoded.is_err() || f == freq)) || decoded.is_err()
            );
        }
        let _ = codec.docs_len(block);
        Ok(())
    }

    proptest! {
        #[test]
        fn round_trip(list in lists()) {
            for id in CodecId::ALL {
                check(id, &list, 0)?;
            }
        }

        #[test]
        fn first_document_may_be_kept_elsewhere(list in postings(1..=BLOCK)) {
            for id in CodecId::ALL {
                check(id, &list, 1)?;
            }
        }

        #[test]
        fn forged_blocks_keep_the_promise(
            header: Vec<u8>,
            bytes in proptest::collection::vec(any::<u8>(), 0..1200),
            head in 0u8..40,
            prev: u32,
            n in 0usize..=BLOCK,
            more in 0usize..4,
        ) {
            // Small first bytes are the ones that mean something to most codecs.
            let mut bytes = bytes;
            bytes.insert(0, head);
            for id in CodecId::ALL {
                let total = more * BLOCK + n;
                let state = id.codec().open(&mut Cursor::new(&header), total, total).unwrap_or_default();
                let block = Block { bytes: &bytes, list: &state, index: more, docs: n, freqs: n };
                check_promise(id.codec(), block, prev)?;
            }
        }

        #[test]
        fn damaged_lists_keep_the_promise(
            list in lists(),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            in_header: bool,
            elsewhere in prop_oneof![any::<u32>(), u32::MAX - 9000..u32::MAX],
        ) {
            for id in CodecId::ALL {
                let (mut header, mut blocks) = write(id.codec(), &list, 0);
                for (at, with) in &flips {
                    let block = at.index(blocks.len());
                    let bytes = if in_header { &mut header } else { &mut blocks[block] };
                    if !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] ^= with;
                    }
                }
                let n = list.docs.len();
                let Ok(state) = id.codec().open(&mut Cursor::new(&header), n, n) else { continue };
                for (index, bytes) in blocks.iter().enumerate() {
                    let n = list.docs[index * BLOCK..].len().min(BLOCK);
                    let block = Block { bytes, list: &state, index, docs: n, freqs: n };
                    let prev = index.checked_sub(1).map_or(list.prev, |i| list.docs[i * BLOCK + BLOCK - 1]);
                    check_promise(id.codec(), block, prev)?;
                    // The last ids there are must not be passed either.
                    check_promise(id.codec(), block, elsewhere)?;
                    let cut = Block { bytes: &bytes[..flips[0].0.index(bytes.len() + 1)], ..block };
                    check_promise(id.codec(), cut, prev)?;
                }
            }
        }
    }

    #[test]
    fn extremes_round_trip() {
        let last = u32::MAX - 1;
        for n in [1, 2, 5, 127, 128, 129, 300] {
            let first: Vec<u32> = (0..n).collect();
            let end: Vec<u32> = (u32::MAX - n..u32::MAX).collect();
            let jump = [&first[1..], &[last]].concat();
            let every_third: Vec<u32> = first.iter().map(|i| 3 * i).collect();
            let (ones, largest) = (vec![1; n as usize], vec![u32::MAX; n as usize]);
            let one_large = [&ones[1..], &[u32::MAX]].concat();
            for docs in [first, end, jump, every_third] {
                for freqs in [&ones, &largest, &one_large] {
                    let list =
                        Postings { prev: u32::MAX, docs: docs.clone(), freqs: freqs.clone() };
                    for id in CodecId::ALL {
                        check(id, &list, 0).unwrap();
                        if n as usize <= BLOCK {
                            check(id, &list, 1).unwrap();
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_block_of_another_codecs_list_is_refused() {
        let block =
            Block { bytes: &[0; 99], list: &ListState::default(), index: 0, docs: 1, freqs: 1 };
        let mut out = [0; BLOCK];
        assert_eq!(CodecId::PFor.codec().decode_docs(block, 0, &mut out), Err(CodecError::List));
    }

    #[test]
    fn names_round_trip() {
        for id in CodecId::ALL {
            assert_eq!(id.name().parse(), Ok(id));
        }
        assert!("nosuch".parse::<CodecId>().unwrap_err().contains("bitpack"));
    }

    #[test]
    fn numbers_are_stable() {
        let numbers = CodecId::ALL.map(|id| (id.name(), id as u8));
        let expected = [
            ("bitpack", 1),
            ("rice", 2),
            ("pfor", 3),
            ("pfd", 4),
            ("ef", 5),
            ("svb", 6),
            ("pfor0", 16),
            ("pfor2", 17),
            ("pfor3", 18),
            ("pfor4", 19),
        ];
        assert_eq!(numbers, expected);
    }
}

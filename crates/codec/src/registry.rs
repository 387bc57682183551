//! The codecs, with their names and numbers.

use std::fmt;
use std::str::FromStr;

use crate::bitpack::BitPack;
use crate::codec::Codec;
use crate::ef::EliasFano;
use crate::pfd::Pfd;
use crate::pfor::PFor;
use crate::rice::Rice;
use crate::svb::StreamVByte;

/// The available codecs. Their names and numbers are part of the index format and never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodecId {
    /// Gaps and frequencies, bit-packed at one width per block.
    #[default]
    BitPack = 1,
    /// Rice codes with separate unary and binary parts.
    Rice = 2,
    /// PForDelta with one width for the whole list, whose exceptions are compressed once more.
    PFor = 3,
    /// PForDelta with a separate width for each block.
    Pfd = 4,
    /// Partitioned Elias-Fano.
    EliasFano = 5,
    /// StreamVByte.
    StreamVByte = 6,
    /// [`PFor`](CodecId::PFor) with uncompressed exceptions.
    PFor0 = 16,
    /// [`PFor`](CodecId::PFor) with two levels of exceptions compressed.
    PFor2 = 17,
    /// [`PFor`](CodecId::PFor) with three levels of exceptions compressed.
    PFor3 = 18,
    /// [`PFor`](CodecId::PFor) with four levels of exceptions compressed.
    PFor4 = 19,
}

impl CodecId {
    /// All codecs.
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

    /// Returns all names, in the order of [`CodecId::ALL`].
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|id| id.name()).collect()
    }

    /// Returns the implementation of the codec.
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

    /// Returns the name that command-line flags and manifests use.
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
        Self::ALL.into_iter().find(|id| id.name() == name).ok_or_else(|| {
            format!("unknown codec `{name}`; the codecs are: {}", Self::names().join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpseek_core::limits::BLOCK;

    use super::*;
    use crate::codec::Block;
    use crate::error::CodecError;
    use crate::list_state::ListState;
    use crate::varint::Cursor;

    /// Ascending documents after `prev`, and their frequencies.
    #[derive(Clone, Debug)]
    struct Postings {
        prev: u32,
        docs: Vec<u32>,
        freqs: Vec<u32>,
    }

    /// Generates gaps and frequencies of all widths. Some lists have a few outliers, which become
    /// exceptions, or stretches of consecutive documents.
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
                // Gaps are as wide as requested as long as enough ids remain for the rest of the
                // list.
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

    /// Generates lists with lengths around multiples of the block size.
    fn lists() -> impl Strategy<Value = Postings> {
        const LENS: [usize; 9] = [1, 127, 128, 129, 255, 256, 257, 1000, 1300];
        postings(prop_oneof![proptest::sample::select(&LENS[..]), 1usize..=BLOCK])
    }

    /// Writes a list whose first `kept` documents (0 or 1) are stored elsewhere. Returns the header
    /// and the blocks.
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

    /// Decodes possibly forged bytes and checks that the guarantees about documents and frequencies
    /// hold.
    fn check_guarantees(
        codec: &dyn Codec,
        block: Block<'_>,
        prev: u32,
    ) -> Result<(), TestCaseError> {
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
        fn first_document_may_be_stored_elsewhere(list in postings(1..=BLOCK)) {
            for id in CodecId::ALL {
                check(id, &list, 1)?;
            }
        }

        #[test]
        fn forged_blocks_keep_the_guarantees(
            header: Vec<u8>,
            bytes in proptest::collection::vec(any::<u8>(), 0..1200),
            head in 0u8..40,
            prev: u32,
            n in 0usize..=BLOCK,
            more in 0usize..4,
        ) {
            // Most codecs accept only small first bytes.
            let mut bytes = bytes;
            bytes.insert(0, head);
            for id in CodecId::ALL {
                let total = more * BLOCK + n;
                let state = id.codec().open(&mut Cursor::new(&header), total, total).unwrap_or_default();
                let block = Block { bytes: &bytes, list: &state, index: more, docs: n, freqs: n };
                check_guarantees(id.codec(), block, prev)?;
            }
        }

        #[test]
        fn damaged_lists_keep_the_guarantees(
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
                    check_guarantees(id.codec(), block, prev)?;
                    // Documents must not overflow near the end of the range of ids either.
                    check_guarantees(id.codec(), block, elsewhere)?;
                    let cut = Block { bytes: &bytes[..flips[0].0.index(bytes.len() + 1)], ..block };
                    check_guarantees(id.codec(), cut, prev)?;
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

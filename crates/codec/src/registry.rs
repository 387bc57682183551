use std::fmt;
use std::str::FromStr;

use warpseek_core::limits::BLOCK;

use crate::bitpack::BitPack;

/// What is wrong with a coded block.
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
}

/// A way to code one block of postings. A block stands alone: given the document before it, its
/// documents and frequencies can be decoded without any other block, and either without the other.
///
/// `prev` is the document before the block's first, `u32::MAX` for "before document 0".
/// A block has `docs` documents (0 to 128) and `freqs` frequencies (the same number or, where the first
/// document is kept elsewhere, one more).
pub trait Codec: Sync {
    /// Appends the block. Documents ascend and come after `prev`; frequencies are at least 1.
    fn encode(&self, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>);

    /// Writes the block's documents to `out[..docs]`. They ascend, start after `prev`, and stay below `u32::MAX`,
    /// whatever the bytes. What lies behind them in `out` is unspecified.
    fn decode_docs(
        &self,
        bytes: &[u8],
        prev: u32,
        docs: usize,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError>;

    /// Writes the block's frequencies to `out[..freqs]`. What lies behind them in `out` is unspecified.
    fn decode_freqs(
        &self,
        bytes: &[u8],
        docs: usize,
        freqs: usize,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError>;

    /// How many of the block's bytes are its documents, the rest being its frequencies.
    fn docs_len(&self, bytes: &[u8], docs: usize) -> Result<usize, CodecError>;
}

/// The codecs there are. Names and numbers are part of the index format and never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodecId {
    /// Gaps and frequencies bit-packed at the width of the block's largest.
    #[default]
    BitPack = 1,
}

impl CodecId {
    /// All of them.
    pub const ALL: [CodecId; 1] = [CodecId::BitPack];

    /// The code behind the id.
    pub fn codec(self) -> &'static dyn Codec {
        match self {
            CodecId::BitPack => &BitPack,
        }
    }

    /// The name used in flags and manifests.
    pub fn name(self) -> &'static str {
        match self {
            CodecId::BitPack => "bitpack",
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
            let known: Vec<_> = Self::ALL.iter().map(|id| id.name()).collect();
            format!("no codec `{name}`; there are: {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sorted documents and frequencies with widths of all sizes.
    fn blocks() -> impl Strategy<Value = (u32, Vec<u32>, Vec<u32>)> {
        (1usize..=BLOCK, 0u32..25, 0u32..32, any::<u64>(), any::<bool>()).prop_map(
            |(n, gap_bits, freq_bits, seed, from_start)| {
                let mut state = seed | 1;
                let mut next = move || {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 32) as u32
                };
                let prev = if from_start { u32::MAX } else { next() >> 4 };
                let mut last = prev;
                let docs = (0..n)
                    .map(|_| {
                        last = last.wrapping_add(1 + (next() & ((1 << gap_bits) - 1)));
                        last
                    })
                    .collect();
                let freqs = (0..n).map(|_| 1 + (next() & ((1u32 << freq_bits) - 1))).collect();
                (prev, docs, freqs)
            },
        )
    }

    proptest! {
        #[test]
        fn round_trip((prev, docs, freqs) in blocks()) {
            for id in CodecId::ALL {
                let (mut bytes, mut out) = (Vec::new(), [0; BLOCK]);
                id.codec().encode(prev, &docs, &freqs, &mut bytes);
                id.codec().decode_docs(&bytes, prev, docs.len(), &mut out).unwrap();
                prop_assert_eq!(&out[..docs.len()], &docs[..]);
                id.codec().decode_freqs(&bytes, docs.len(), freqs.len(), &mut out).unwrap();
                prop_assert_eq!(&out[..freqs.len()], &freqs[..]);
            }
        }

        #[test]
        fn first_document_may_be_kept_elsewhere((prev, docs, freqs) in blocks()) {
            for id in CodecId::ALL {
                let (mut bytes, mut out) = (Vec::new(), [0; BLOCK]);
                let _ = prev;
                id.codec().encode(docs[0], &docs[1..], &freqs, &mut bytes);
                id.codec().decode_docs(&bytes, docs[0], docs.len() - 1, &mut out).unwrap();
                prop_assert_eq!(&out[..docs.len() - 1], &docs[1..]);
                id.codec().decode_freqs(&bytes, docs.len() - 1, freqs.len(), &mut out).unwrap();
                prop_assert_eq!(&out[..freqs.len()], &freqs[..]);
            }
        }

        #[test]
        fn forged_blocks_keep_the_promise(bytes: Vec<u8>, prev: u32, n in 0usize..=BLOCK) {
            for id in CodecId::ALL {
                let mut out = [0; BLOCK];
                if id.codec().decode_docs(&bytes, prev, n, &mut out).is_ok() {
                    prop_assert!(out[..n].is_sorted_by(|a, b| a < b));
                    prop_assert!(n == 0 || prev == u32::MAX || out[0] > prev);
                    prop_assert!(out[..n].iter().all(|&d| d < u32::MAX));
                }
                let _ = id.codec().decode_freqs(&bytes, n, n, &mut out);
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for id in CodecId::ALL {
            assert_eq!(id.name().parse(), Ok(id));
        }
        assert!("nosuch".parse::<CodecId>().unwrap_err().contains("bitpack"));
    }
}

//! The contract of a codec, and the encoded block that it decodes.

use warpseek_core::limits::BLOCK;

use crate::error::CodecError;
use crate::list_state::ListState;
use crate::varint::Cursor;

/// An encoded block and what the reader knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// Encoded bytes of the block.
    pub bytes: &'a [u8],
    /// State that [`Codec::open`] returned for the list.
    pub list: &'a ListState,
    /// Number of the block in its list, counted from 0.
    pub index: usize,
    /// Number of documents in the block, 0 to 128.
    pub docs: usize,
    /// Number of frequencies in the block: the number of documents, or one more if the first
    /// document is stored elsewhere.
    pub freqs: usize,
}

/// A way to encode a list of postings, block by block. Given the document before a block and the
/// list-wide state of the codec, the documents and the frequencies of a block can each be decoded
/// on their own, without any other block.
///
/// To write a list, call [`encode_list`](Codec::encode_list), then [`encode`](Codec::encode) for
/// each block with the state that `encode_list` returned. To read it, call [`open`](Codec::open),
/// then decode any block in any order.
///
/// `prev` is the document before the first one of the block, where `u32::MAX` means "before
/// document 0". All blocks but the last are full. Only a list of a single block may have its first
/// document stored elsewhere.
///
/// Decoders do not trust the bytes. Whatever the bytes are, decoding never panics and never takes
/// more memory than a small multiple of the number of postings. It returns either an error, or
/// documents that ascend and frequencies that are at least 1.
pub trait Codec: Sync {
    /// Appends the header of the list, which is empty for most codecs, and returns the state that
    /// [`encode`](Codec::encode) needs (which is not suitable for decoding). The header must be
    /// self-delimiting.
    fn encode_list(&self, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) -> ListState {
        let _ = (prev, docs, freqs, out);
        ListState::default()
    }

    /// Reads the header back from the cursor, for a list with `docs` encoded documents and
    /// `freqs` encoded frequencies.
    fn open(
        &self,
        header: &mut Cursor<'_>,
        docs: usize,
        freqs: usize,
    ) -> Result<ListState, CodecError> {
        let _ = (header, docs, freqs);
        Ok(ListState::default())
    }

    /// Appends the block, which takes at most 4095 bytes. Documents must ascend and come after
    /// `prev`; frequencies must be at least 1.
    fn encode(&self, list: &ListState, prev: u32, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>);

    /// Writes the documents of the block to the front of `out`. Whatever the bytes, they ascend,
    /// start after `prev`, and stay below `u32::MAX`. The rest of `out` is unspecified.
    fn decode_docs(
        &self,
        block: Block<'_>,
        prev: u32,
        out: &mut [u32; BLOCK],
    ) -> Result<(), CodecError>;

    /// Writes the frequencies of the block to the front of `out`. The rest of `out` is unspecified.
    fn decode_freqs(&self, block: Block<'_>, out: &mut [u32; BLOCK]) -> Result<(), CodecError>;

    /// Returns frequency `i`, which must be below `block.freqs`, with the same value as
    /// [`decode_freqs`](Codec::decode_freqs), but without decoding the others if the codec allows
    /// it. It may succeed on a damaged block that cannot be decoded as a whole.
    fn freq_at(&self, block: Block<'_>, i: usize) -> Result<u32, CodecError> {
        let mut out = [0; BLOCK];
        self.decode_freqs(block, &mut out)?;
        Ok(out[i])
    }

    /// Returns how many bytes of the block belong to its documents; the rest belong to its
    /// frequencies.
    fn docs_len(&self, block: Block<'_>) -> Result<usize, CodecError>;
}

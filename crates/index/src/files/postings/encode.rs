//! The encoder of lists, from documents and frequencies to bytes.

use warpseek_codec::{Codec, CodecId, varint};
use warpseek_core::cosine;
use warpseek_core::limits::BLOCK;

use super::blocks::ListBlocks;
use super::bounds::{Bounds, FEWEST_BOUNDED, MAX_PAIRS};
use super::list::GROUP;

/// Maximum number of pairs in the bounds of a block. Blocks are many, and further pairs hardly
/// tighten their bounds.
const BLOCK_PAIRS: usize = 4;

/// An encoder of the lists of one segment. Each thread has one.
pub(crate) struct ListEncoder<'a> {
    codec: &'static dyn Codec,
    lengths: &'a [u32],
    norms: &'a [f32],
    header: Vec<u8>,
    payload: Vec<u8>,
    block_bounds: Vec<u8>,
    bases: Vec<u8>,
    lasts: Vec<u8>,
    ends: Vec<u8>,
}

impl<'a> ListEncoder<'a> {
    /// Creates an encoder from the lengths and norms of all documents of the segment. Without
    /// norms, bounds permit every cosine weight.
    pub(crate) fn new(codec: CodecId, lengths: &'a [u32], norms: &'a [f32]) -> Self {
        ListEncoder {
            codec: codec.codec(),
            lengths,
            norms,
            header: Vec::new(),
            payload: Vec::new(),
            block_bounds: Vec::new(),
            bases: Vec::new(),
            lasts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends a list none of whose blocks is encoded yet.
    #[cfg(test)]
    pub(crate) fn encode(&mut self, docs: &[u32], freqs: &[u32], out: &mut Vec<u8>) {
        self.encode_with(docs, freqs, None, out);
    }

    /// Appends the list of `docs` (ascending, at least one) and their `freqs`. `blocks` may hold
    /// full blocks that have been encoded already, in the codec of the list.
    pub(crate) fn encode_with(
        &mut self,
        docs: &[u32],
        freqs: &[u32],
        blocks: Option<ListBlocks<'_>>,
        out: &mut Vec<u8>,
    ) {
        match docs.len() {
            1 => {
                varint::write(out, u64::from(docs[0]));
                varint::write(out, u64::from(freqs[0]));
            }
            2..=BLOCK => {
                if docs.len() >= FEWEST_BOUNDED as usize {
                    let mut bounds = self.bounds(docs, freqs);
                    bounds.shrink(MAX_PAIRS);
                    bounds.write(out);
                }
                varint::write(out, u64::from(docs[0]));
                let list = self.codec.encode_list(docs[0], &docs[1..], freqs, out);
                self.codec.encode(&list, docs[0], &docs[1..], freqs, out);
            }
            _ => self.encode_blocks(docs, freqs, blocks, out),
        }
    }

    fn encode_blocks(
        &mut self,
        docs: &[u32],
        freqs: &[u32],
        blocks: Option<ListBlocks<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.header.clear();
        self.payload.clear();
        self.block_bounds.clear();
        self.bases.clear();
        self.lasts.clear();
        self.ends.clear();
        let (mut prev, mut base, mut list_bounds) = (u32::MAX, 0, Bounds::default());
        let list = self.codec.encode_list(prev, docs, freqs, &mut self.header);
        for (i, (docs, freqs)) in docs.chunks(BLOCK).zip(freqs.chunks(BLOCK)).enumerate() {
            if i % GROUP == 0 {
                base = self.payload.len();
                self.bases.extend((base as u64).to_le_bytes());
            }
            let known = blocks.and_then(|blocks| blocks.get(i));
            match known {
                Some((bytes, _)) => self.payload.extend_from_slice(bytes),
                None => self.codec.encode(&list, prev, docs, freqs, &mut self.payload),
            }
            prev = docs[docs.len() - 1];
            self.lasts.extend(prev.to_le_bytes());
            self.ends.extend(((self.payload.len() - base) as u16).to_le_bytes());
            let known = known.and_then(|(_, front)| front.bounds());
            let mut bounds = known.unwrap_or_else(|| self.bounds(docs, freqs));
            if self.norms.is_empty() {
                bounds.add_cosine(f32::INFINITY);
            }
            list_bounds.merge(&bounds);
            bounds.shrink(BLOCK_PAIRS);
            bounds.write(&mut self.block_bounds);
        }
        list_bounds.shrink(MAX_PAIRS);
        list_bounds.write(out);
        varint::write(out, self.header.len() as u64);
        out.extend_from_slice(&self.header);
        varint::write(out, self.block_bounds.len() as u64);
        for part in [&self.bases, &self.lasts, &self.ends, &self.block_bounds, &self.payload] {
            out.extend_from_slice(part);
        }
    }

    fn bounds(&self, docs: &[u32], freqs: &[u32]) -> Bounds {
        let (mut bounds, mut cosine_max) = (Bounds::default(), 0f32);
        if self.norms.is_empty() {
            let lengths = docs.iter().map(|&doc| self.lengths[doc as usize]);
            freqs.iter().zip(lengths).for_each(|(&freq, length)| bounds.add(freq, length));
            bounds.add_cosine(f32::INFINITY);
            return bounds;
        }
        for (&doc, &freq) in docs.iter().zip(freqs) {
            bounds.add(freq, self.lengths[doc as usize]);
            let weight = cosine::weight(cosine::log_tf(freq), self.norms[doc as usize]);
            cosine_max = cosine_max.max(weight);
        }
        bounds.add_cosine(cosine_max);
        bounds
    }
}

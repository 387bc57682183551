//! The encoder of lists with maps.

use warpseek_codec::varint;
use warpseek_codec::{Codec, CodecId};
use warpseek_core::limits::BLOCK;

use super::bins::{BIN, BITMAP};
use super::is_dense;
use crate::files::parts::Parts;
use crate::files::postings::list::GROUP;
use crate::files::postings::map_code::encode_maps;

/// An encoder of the lists of one segment. Each thread has one.
pub(crate) struct MapListEncoder<'a> {
    codec: &'static dyn Codec,
    parts: &'a Parts,
    header: Vec<u8>,
    payload: Vec<u8>,
    bitmaps: Vec<u8>,
    bases: Vec<u8>,
    lasts: Vec<u8>,
    ends: Vec<u8>,
}

impl<'a> MapListEncoder<'a> {
    /// Creates an encoder for a segment with these parts.
    pub(crate) fn new(codec: CodecId, parts: &'a Parts) -> Self {
        MapListEncoder {
            codec: codec.codec(),
            parts,
            header: Vec::new(),
            payload: Vec::new(),
            bitmaps: Vec::new(),
            bases: Vec::new(),
            lasts: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends the list of `docs` (ascending, at least one) and their `maps`.
    pub(crate) fn encode(&mut self, docs: &[u32], maps: &[u32], out: &mut Vec<u8>) {
        if docs.len() == 1 {
            varint::write(out, u64::from(docs[0]));
            varint::write(out, u64::from(maps[0]));
            return;
        }
        for part in [
            &mut self.header,
            &mut self.payload,
            &mut self.bitmaps,
            &mut self.bases,
            &mut self.lasts,
            &mut self.ends,
        ] {
            part.clear();
        }
        if is_dense(docs.len() as u32, self.parts.count()) {
            self.encode_bins(docs, maps);
        } else {
            self.encode_blocks(docs, maps);
            varint::write(out, self.header.len() as u64);
            out.extend_from_slice(&self.header);
        }
        for part in [&self.bitmaps, &self.bases, &self.lasts, &self.ends, &self.payload] {
            out.extend_from_slice(part);
        }
    }

    fn encode_bins(&mut self, docs: &[u32], maps: &[u32]) {
        let (mut from, mut base) = (0, 0);
        for bin in 0..self.parts.count().div_ceil(BIN as u32) {
            if (bin as usize).is_multiple_of(GROUP) {
                base = self.payload.len();
                self.bases.extend((base as u64).to_le_bytes());
            }
            let to = from + docs[from..].partition_point(|&doc| doc / (BIN as u32) <= bin);
            let mut bitmap = [0u8; BITMAP];
            for &doc in &docs[from..to] {
                bitmap[doc as usize % BIN / 8] |= 1 << (doc % 8);
            }
            self.bitmaps.extend(bitmap);
            if from < to && self.parts.have_maps() {
                let segments = docs[from..to].iter().map(|&doc| self.parts.segments(doc));
                encode_maps(&maps[from..to], segments, &mut self.payload);
            }
            from = to;
            self.ends.extend(((self.payload.len() - base) as u16).to_le_bytes());
        }
    }

    fn encode_blocks(&mut self, docs: &[u32], maps: &[u32]) {
        let (mut prev, mut base) = (u32::MAX, 0);
        let list = self.codec.encode_list(prev, docs, &[], &mut self.header);
        for (i, (docs, maps)) in docs.chunks(BLOCK).zip(maps.chunks(BLOCK)).enumerate() {
            if i % GROUP == 0 {
                base = self.payload.len();
                self.bases.extend((base as u64).to_le_bytes());
            }
            if self.parts.have_maps() {
                let segments = docs.iter().map(|&doc| self.parts.segments(doc));
                let at = self.payload.len();
                self.payload.extend([0; 2]);
                encode_maps(maps, segments, &mut self.payload);
                let len = (self.payload.len() - at - 2) as u16;
                self.payload[at..at + 2].copy_from_slice(&len.to_le_bytes());
            }
            self.codec.encode(&list, prev, docs, &[], &mut self.payload);
            prev = docs[docs.len() - 1];
            self.lasts.extend(prev.to_le_bytes());
            self.ends.extend(((self.payload.len() - base) as u16).to_le_bytes());
        }
        if docs.len() <= BLOCK {
            // A single block needs no skip array.
            self.bases.clear();
            self.lasts.clear();
            self.ends.clear();
        }
    }
}

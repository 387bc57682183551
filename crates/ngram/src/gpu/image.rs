//! A segment of an n-gram index on a device: its lists with the layout that they have on disk,
//! and the data that are computed there so that lists are found and counted quickly.
#![allow(unsafe_code)]

use std::sync::Arc;

use rustc_hash::FxHashMap;
use warpseek_codec::CodecId;
use warpseek_core::limits::BLOCK;
use warpseek_cuda::{Buffer, Device, Stream, Uploader};
use warpseek_index::{BIN, MapList, MapListParts, Segment, TermInfo, map_codes};

use crate::error::NgramError;
use crate::kernels::map_lists::{
    DENSE, ImageView, ListView, MOST_GRAMS, ONE, SHORT, SPARSE, Samples,
};
use crate::kernels::ngram_directory::NgramDirectory;

/// Bytes that kernels may read behind the last list if its maps are damaged.
const PADDING: usize = 1 << 14;

/// Number of parts per entry up to which lists have bitmaps on the device. There they are counted
/// faster than decoded from about 90 on.
const PARTS_PER_ENTRY: u32 = 64;

/// Bytes of device memory per byte for bitmaps of sparse lists.
const MEMORY_PER_BITMAP: u64 = 8;

/// Alignment that is kept: lists that are copied alone are as far from a multiple of this as they
/// are in the file.
const ALIGNMENT: u64 = 64;

/// The host's data on a list.
#[derive(Clone, Copy)]
pub(super) struct HostList {
    pub(super) ordinal: u32,
    pub(super) df: u32,
    pub(super) dense: bool,
}

/// The device's data on the parts of a segment, which do not depend on the lists that are there,
/// and the kernels that complete lists.
pub(super) struct Tables {
    segments: Buffer<u8>,
    /// A bit for each part of a deleted document, if there are any.
    deleted: Option<Buffer<u8>>,
    /// The coding of maps, by number of segments.
    codes: Buffer<u64>,
    /// Widths of the heads of all parts' maps, if there are maps.
    widths: Option<Buffer<u64>>,
    directory: NgramDirectory,
}

impl Tables {
    pub(super) fn load(
        segment: &Segment,
        device: &Device,
        uploader: &mut Uploader,
    ) -> Result<Self, NgramError> {
        let segments = uploader.send(segment.parts().all_segments(0))?;
        uploader.finish()?;
        let deleted = match segment.deletes() {
            None => None,
            Some(_) => Some(device.upload(uploader.stream(), &deleted_parts(segment))?),
        };
        let widths = match segment.parts().all_head_widths() {
            [] => None,
            widths => {
                let widths = widths.as_flattened().as_flattened();
                Some(device.upload(uploader.stream(), widths)?)
            }
        };
        let codes = device.upload(uploader.stream(), &map_codes())?;
        let directory = NgramDirectory::new(device)?;
        Ok(Tables { segments, deleted, codes, widths, directory })
    }

    pub(super) fn bytes(&self) -> usize {
        let deleted = self.deleted.as_ref().map_or(0, Buffer::bytes);
        let widths = self.widths.as_ref().map_or(0, Buffer::bytes);
        self.segments.bytes() + deleted + self.codes.bytes() + widths
    }
}

/// A list and the position of its bytes, as if the whole file had been copied to an address.
struct Placed {
    gram: Box<[u8]>,
    info: TermInfo,
    file_at: u64,
}

/// Lists of a segment on the device, all or some.
pub(super) struct Image {
    tables: Arc<Tables>,
    bytes: Buffer<u8>,
    /// The lists, by number of the n-gram among those on the device.
    lists: Buffer<ListView>,
    /// The directory: the positions of blocks, and the last part of the block before each.
    heads: Buffer<u64>,
    befores: Buffer<u32>,
    /// The positions of some maps of every block and bin, if there are maps.
    samples: Option<Buffer<Samples>>,
    /// Bitmaps of sparse lists.
    bitmaps: Buffer<u32>,
    /// Minimum number of parts of a list with bitmaps.
    pub(super) bitmaps_from: u32,
    pub(super) parts: u32,
    codec: CodecId,
    /// The lists by n-gram: a look-up here is faster than in the dictionary.
    pub(super) by_gram: FxHashMap<Box<[u8]>, HostList>,
}

impl Image {
    /// Copies a segment that has this share of the parts of all segments.
    pub(super) fn new(
        segment: &Segment,
        share: f64,
        device: &Device,
        uploader: &mut Uploader,
    ) -> Result<Self, NgramError> {
        let terms = u64::from(segment.dictionary().terms());
        if terms > MOST_GRAMS {
            return Err(NgramError::ManyGrams(terms));
        }
        let file = segment.postings_file().all()?;
        let bytes: Buffer<u8> = device.buffer(file.len() + PADDING)?;
        uploader.scatter(&bytes, 1, [(0, file), (file.len(), &[0; PADDING][..])])?;
        let (mut placed, mut terms) = (Vec::new(), segment.dictionary().iter());
        while let Some(info) = terms.next_term()? {
            placed.push(Placed { gram: terms.term().into(), info, file_at: bytes.address() });
        }
        let tables = Arc::new(Tables::load(segment, device, uploader)?);
        Self::of(segment, tables, &placed, bytes, share, device, uploader)
    }

    /// Copies the lists of some n-grams, which are in order and differ.
    pub(super) fn of_grams<'a>(
        segment: &Segment,
        tables: &Arc<Tables>,
        grams: impl Iterator<Item = &'a [u8]>,
        share: f64,
        device: &Device,
        uploader: &mut Uploader,
    ) -> Result<Self, NgramError> {
        let (mut infos, mut len) = (Vec::new(), 0);
        for gram in grams {
            let Some(info) = segment.dictionary().find(gram)? else { continue };
            // Lists keep the alignment that kernels may rely on.
            let at = len + (info.offset + ALIGNMENT - len % ALIGNMENT) % ALIGNMENT;
            len = at + info.len;
            infos.push((gram, info, at));
        }
        let bytes: Buffer<u8> = device.buffer(len as usize + PADDING)?;
        let file = segment.postings_file();
        let mut pieces = Vec::with_capacity(infos.len() + 1);
        for (_, info, at) in &infos {
            pieces.push((*at as usize, file.bytes(info.offset, info.len)?));
        }
        pieces.push((len as usize, &[0; PADDING][..]));
        uploader.scatter(&bytes, 1, pieces)?;
        let placed = infos.into_iter().map(|(gram, info, at)| Placed {
            gram: gram.into(),
            info,
            file_at: (bytes.address() + at).wrapping_sub(info.offset),
        });
        let placed: Vec<Placed> = placed.collect();
        Self::of(segment, tables.clone(), &placed, bytes, share, device, uploader)
    }

    /// Creates an image of lists whose bytes are on the device.
    fn of(
        segment: &Segment,
        tables: Arc<Tables>,
        placed: &[Placed],
        bytes: Buffer<u8>,
        share: f64,
        device: &Device,
        uploader: &mut Uploader,
    ) -> Result<Self, NgramError> {
        let (mut lists, mut by_gram, mut blocks) = (Vec::new(), FxHashMap::default(), 0);
        for (Placed { gram, info, file_at }, ordinal) in placed.iter().zip(0..) {
            let list = segment.map_list(info)?;
            let (df, dense) = (info.df, list.is_dense());
            by_gram.insert(gram.clone(), HostList { ordinal, df, dense });
            let own = segment.postings_file().bytes(info.offset, info.len)?;
            let mut view = list_view(&list, own, file_at.wrapping_add(info.offset));
            view.first = blocks as u32;
            blocks += list.blocks() as u64;
            u32::try_from(blocks).map_err(|_| NgramError::ManyBlocks)?;
            lists.push(view);
        }
        let parts = segment.parts().count();
        let bytes_each = parts.div_ceil(BIN as u32) as usize * (BIN / 8);
        let memory = (device.memory_limit() as f64 * share) as u64;
        let bitmaps_from = bitmaps_from(&lists, parts, memory, bytes_each);
        let sparse = |list: &ListView| list.form == SPARSE && list.df >= bitmaps_from;
        let of_sparse: Vec<u32> =
            (0..).zip(&lists).filter(|(_, l)| sparse(l)).map(|(i, _)| i).collect();
        let bitmaps: Buffer<u32> = device.buffer((of_sparse.len() * bytes_each / 4).max(1))?;
        for (&ordinal, number) in of_sparse.iter().zip(0..) {
            lists[ordinal as usize].bitmaps = bitmaps.address() + number * bytes_each as u64;
        }
        let table = device.buffer(lists.len().max(1))?;
        uploader.finish()?;
        uploader.stream().upload(&lists, &table.slice(..lists.len()))?;
        let blocks = (blocks as usize).max(1);
        let (heads, befores) = (device.buffer(blocks)?, device.buffer(blocks)?);
        let samples = match &tables.widths {
            None => None,
            Some(_) => Some(device.buffer(blocks)?),
        };
        let image = Image {
            tables,
            bytes,
            lists: table,
            heads,
            befores,
            samples,
            bitmaps,
            bitmaps_from,
            parts,
            codec: segment.codec(),
            by_gram,
        };
        image.make_directory(lists.len(), device, uploader.stream())?;
        image.make_bitmaps(&of_sparse, device, uploader.stream())?;
        Ok(image)
    }

    fn make_directory(
        &self,
        lists: usize,
        device: &Device,
        stream: &Stream,
    ) -> Result<(), NgramError> {
        let failed: Buffer<u32> = device.buffer(1)?;
        stream.zero(&failed)?;
        let kernels = &self.tables.directory;
        // SAFETY: the kernel writes one entry per block, for which the buffers are large enough;
        // they live until the work is complete, at the end of this function.
        unsafe { kernels.directory(stream, self.view(), lists, &failed) }?;
        if stream.download(&failed)?[0] != 0 {
            return Err(NgramError::Malformed);
        }
        if self.samples.is_some() {
            // SAFETY: as above; the buffer holds the samples of each block and bin of the
            // directory.
            unsafe { kernels.samples(stream, self.view(), lists) }?;
        }
        // Searches use other streams, so the work must be complete.
        Ok(stream.synchronize()?)
    }

    /// Creates the bitmaps of the sparse lists with these ordinals. The directory must exist.
    fn make_bitmaps(
        &self,
        ordinals: &[u32],
        device: &Device,
        stream: &Stream,
    ) -> Result<(), NgramError> {
        if ordinals.is_empty() {
            return Ok(());
        }
        stream.zero(&self.bitmaps)?;
        let ordinals = device.upload(stream, ordinals)?;
        // SAFETY: the lists have bitmaps for all parts, and other parts are ignored.
        unsafe { self.tables.directory.bitmaps(stream, self.view(), &ordinals) }?;
        Ok(stream.synchronize()?)
    }

    pub(super) fn view(&self) -> ImageView {
        ImageView {
            lists: self.lists.address(),
            file: self.bytes.address(),
            heads: self.heads.address(),
            befores: self.befores.address(),
            samples: self.samples.as_ref().map_or(0, Buffer::address),
            segments: self.tables.segments.address(),
            deleted: self.tables.deleted.as_ref().map_or(0, Buffer::address),
            codes: self.tables.codes.address(),
            widths: self.tables.widths.as_ref().map_or(0, Buffer::address),
            parts: self.parts,
            rice: u32::from(self.codec == CodecId::Rice),
        }
    }

    pub(super) fn resident(&self) -> usize {
        let samples = self.samples.as_ref().map_or(0, Buffer::bytes);
        let directory = self.heads.bytes() + self.befores.bytes() + samples;
        let lists = self.bytes.bytes() + self.lists.bytes() + self.bitmaps.bytes();
        self.tables.bytes() + lists + directory
    }
}

/// Returns a bit for each part, set for those of deleted documents.
fn deleted_parts(segment: &Segment) -> Vec<u8> {
    let mut bits = vec![0; segment.parts().count().div_ceil(8) as usize];
    let is_deleted = |&part: &u32| segment.is_deleted(segment.parts().document(part));
    for part in (0..segment.parts().count()).filter(is_deleted) {
        bits[part as usize / 8] |= 1 << (part % 8);
    }
    bits
}

/// Returns how many parts a list must have for bitmaps. All dense lists have them, and so do
/// other lists above a size at which bitmaps are faster to count, as long as there is memory.
fn bitmaps_from(lists: &[ListView], parts: u32, memory: u64, bytes_each: usize) -> u32 {
    // Lists of one block do not need them.
    let least = parts.div_ceil(PARTS_PER_ENTRY).max(BLOCK as u32 + 1);
    // All dense lists have them, and lists of one entry are never dense.
    let least = least.min(parts.div_ceil(8)).max(2);
    let long = |list: &&ListView| list.form == SPARSE && list.df >= least;
    let mut sizes: Vec<u32> = lists.iter().filter(long).map(|list| list.df).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    // All lists of the same size have bitmaps or none.
    sizes.get((memory / MEMORY_PER_BITMAP) as usize / bytes_each.max(1)).map_or(least, |df| df + 1)
}

/// Returns the device's form of a list whose bytes were copied to `base`.
fn list_view(list: &MapList<'_>, bytes: &[u8], base: u64) -> ListView {
    // Every part of a list lies in its bytes.
    let address = |part: &[u8]| base + (part.as_ptr().addr() - bytes.as_ptr().addr()) as u64;
    let mut found = ListView { df: list.df(), blocks: list.blocks() as u32, ..ListView::default() };
    let payload = match list.list_parts() {
        MapListParts::One { doc, map } => {
            (found.form, found.part, found.map) = (ONE, doc, map);
            return found;
        }
        MapListParts::Short(block) => {
            found.form = SHORT;
            block
        }
        MapListParts::Sparse { bases, lasts, ends, payload } => {
            found.form = SPARSE;
            found.bases = address(bases.as_flattened());
            found.lasts = address(lasts.as_flattened());
            found.ends = address(ends.as_flattened());
            payload
        }
        MapListParts::Dense { bitmaps, bases, ends, payload } => {
            found.form = DENSE;
            found.bitmaps = address(bitmaps.as_flattened());
            found.bases = address(bases.as_flattened());
            found.ends = address(ends.as_flattened());
            payload
        }
    };
    found.payload = address(payload);
    found.end = found.payload + payload.len() as u64;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_are_for_the_longest_lists_that_memory_allows() {
        let list = |df: u32| ListView { form: SPARSE, df, ..ListView::default() };
        let lists: Vec<ListView> = [200, 900, 900, 1000, 150].map(list).to_vec();
        let from = |parts: u32, bitmaps: usize| {
            let bytes_each = parts.div_ceil(256) as usize * 32;
            bitmaps_from(
                &lists,
                parts,
                (bitmaps * bytes_each) as u64 * MEMORY_PER_BITMAP,
                bytes_each,
            )
        };
        // One entry for 64 parts.
        assert_eq!(from(12_800, 5), 200);
        assert_eq!(from(12_801, 5), 201);
        // Lists of the same size have bitmaps or none.
        assert_eq!(from(12_800, 3), 201);
        assert_eq!(from(12_800, 2), 901);
        assert_eq!(from(12_800, 1), 901);
        assert_eq!(from(12_800, 0), 1001);
        // Lists of one block have none, unless they are dense.
        assert_eq!(from(4_000, 5), 129);
        assert_eq!(from(800, 5), 100);
        for parts in 1..=16 {
            assert_eq!(from(parts, 5), 2);
        }
    }
}

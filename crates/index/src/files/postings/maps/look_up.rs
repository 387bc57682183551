//! Look-ups of single documents in a list with maps.

use super::bins::{BIN, is_set, map_in_bin, single_in_bin};
use super::{Layout, MapList, SparseBlock};
use crate::files::postings::list::ListError;
use crate::files::postings::map_code::Maps;

/// The state of lookups in a sparse list: the block that was decoded last. Each list needs a
/// separate one.
#[derive(Clone, Debug)]
pub struct LookUp {
    block: Option<usize>,
    n: usize,
    docs: [u32; BIN],
}

impl Default for LookUp {
    fn default() -> Self {
        LookUp { block: None, n: 0, docs: [0; BIN] }
    }
}

/// The result of a cheap lookup. Most maps have one segment, which their head names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glimpse {
    /// The list does not contain the document.
    Absent,
    /// The map of the document.
    Map(u32),
    /// The list contains the document, most likely in several segments, which [`MapList::map_of`]
    /// returns.
    Several,
}

impl From<Option<u32>> for Glimpse {
    fn from(map: Option<u32>) -> Self {
        map.map_or(Glimpse::Several, Glimpse::Map)
    }
}

impl MapList<'_> {
    /// Finds a document in a sparse list and returns its block and its number there. `look_up`
    /// caches the block that was decoded last.
    #[inline]
    fn find(&self, doc: u32, look_up: &mut LookUp) -> Result<Option<(usize, usize)>, ListError> {
        let block = self.block_for(doc);
        if block >= self.blocks() {
            return Ok(None);
        }
        if look_up.block != Some(block) {
            look_up.block = None;
            look_up.n = self.decode_docs(block, &mut look_up.docs)?;
            look_up.block = Some(block);
        }
        Ok(look_up.docs[..look_up.n].binary_search(&doc).ok().map(|i| (block, i)))
    }

    /// Returns true if the list contains a document, which must exist in the segment.
    #[inline]
    pub fn has(&self, doc: u32, look_up: &mut LookUp) -> Result<bool, ListError> {
        match &self.layout {
            Layout::One { doc: only, .. } => Ok(*only == doc),
            Layout::Dense { bitmaps, .. } => {
                Ok(is_set(&bitmaps[doc as usize / BIN], doc as usize % BIN))
            }
            _ => self.find(doc, look_up).map(|found| found.is_some()),
        }
    }

    /// Looks up a document of the segment, and returns its map if that costs little.
    #[inline]
    pub fn glimpse(&self, doc: u32, look_up: &mut LookUp) -> Result<Glimpse, ListError> {
        match &self.layout {
            Layout::One { doc: only, .. } if *only != doc => Ok(Glimpse::Absent),
            Layout::One { map, .. } => Ok(Glimpse::Map(*map)),
            Layout::Dense { bitmaps, maps } => {
                let (block, within) = (doc as usize / BIN, doc as usize % BIN);
                if !is_set(&bitmaps[block], within) {
                    return Ok(Glimpse::Absent);
                }
                if !self.parts.have_maps() {
                    return Ok(Glimpse::Map(1));
                }
                let maps = maps.get(block).ok_or(ListError::Layout)?;
                let (widths, own) = (self.parts.head_widths(block), self.parts.segments(doc));
                single_in_bin(&bitmaps[block], maps, within, widths, own)
                    .map(Glimpse::from)
                    .map_err(|source| ListError::Block { block, source })
            }
            _ => {
                let Some((block, i)) = self.find(doc, look_up)? else { return Ok(Glimpse::Absent) };
                if !self.parts.have_maps() {
                    return Ok(Glimpse::Map(1));
                }
                let SparseBlock { n, maps, .. } = self.sparse(block)?;
                let maps = Maps::new(maps, n);
                let maps = maps.map_err(|source| ListError::Block { block, source })?;
                let before = self.parts.bits_of_heads(&look_up.docs[..i]);
                Ok(maps.single(before, self.parts.segments(doc)).into())
            }
        }
    }

    /// Returns the map of a document of the segment, or 0 if the list does not contain it.
    #[inline]
    pub fn map_of(&self, doc: u32, look_up: &mut LookUp) -> Result<u32, ListError> {
        match &self.layout {
            Layout::One { doc: only, map } => Ok(if *only == doc { *map } else { 0 }),
            Layout::Dense { bitmaps, maps } => {
                let (block, within) = (doc as usize / BIN, doc as usize % BIN);
                if !is_set(&bitmaps[block], within) {
                    return Ok(0);
                }
                if !self.parts.have_maps() {
                    return Ok(1);
                }
                let maps = maps.get(block).ok_or(ListError::Layout)?;
                let widths = self.parts.head_widths(block);
                let segments = self.parts.all_segments(block * BIN);
                map_in_bin(&bitmaps[block], maps, within, widths, segments)
                    .map_err(|source| ListError::Block { block, source })
            }
            _ => {
                let Some((block, i)) = self.find(doc, look_up)? else { return Ok(0) };
                if !self.parts.have_maps() {
                    return Ok(1);
                }
                let SparseBlock { n, maps, .. } = self.sparse(block)?;
                let maps = Maps::new(maps, n);
                let maps = maps.map_err(|source| ListError::Block { block, source })?;
                let docs = &look_up.docs[..n];
                let bits = |docs: &[u32]| self.parts.bits_of_heads(docs);
                let segments = docs[..=i].iter().rev().map(|&doc| self.parts.segments(doc));
                Ok(maps.get(i, bits(&docs[..i]), || bits(docs), segments))
            }
        }
    }
}

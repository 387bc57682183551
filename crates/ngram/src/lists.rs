//! The lists of a query's n-grams in one segment.

use std::ops::Range;

use warpseek_index::{BIN, ListError, MapList, Result, Segment, TermInfo};

use crate::query::Query;

/// The lists of a segment that a query needs, shortest first.
pub(crate) struct Lists<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) lists: Vec<MapList<'a>>,
    infos: Vec<TermInfo>,
    /// Number of adjacent segments of a document that may contribute.
    pub(crate) window: u32,
}

impl<'a> Lists<'a> {
    pub(crate) fn open(segment: &'a Segment, query: &Query) -> Result<Self> {
        let mut found = Vec::with_capacity(query.grams.grams.len());
        for gram in &query.grams.grams {
            found.extend(segment.dictionary().find(gram)?);
        }
        found.sort_unstable_by_key(|info| (info.df, info.ordinal));
        let lists = found.iter().map(|info| segment.map_list(info)).collect::<Result<_>>()?;
        Ok(Lists { segment, lists, infos: found, window: query.grams.window })
    }

    /// Returns the number of n-grams of the query that the segment has.
    pub(crate) fn len(&self) -> u32 {
        self.lists.len() as u32
    }

    /// Returns the number of parts of the segment.
    pub(crate) fn parts(&self) -> u32 {
        self.segment.parts().count()
    }

    /// Turns an error of list `i` into one of the index.
    #[inline]
    pub(crate) fn check<T>(&self, i: usize, result: Result<T, ListError>) -> Result<T> {
        result.map_err(|what| self.segment.bad_list(&self.infos[i], what))
    }
}

/// A cursor that reads a list forward, a range of parts at a time.
pub(crate) struct Cursor {
    /// The block that `docs` and `maps` hold.
    block: Option<usize>,
    n: usize,
    /// Number of entries of that block that were read.
    read: usize,
    next: usize,
    pub(crate) docs: [u32; BIN],
    pub(crate) maps: [u32; BIN],
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor { block: None, n: 0, read: 0, next: 0, docs: [0; BIN], maps: [0; BIN] }
    }
}

impl Cursor {
    /// Moves on to the first part at or after `part`, which must not lie before parts already
    /// read.
    pub(crate) fn seek(&mut self, list: &MapList<'_>, part: u32) {
        if self.block.is_some() && self.read < self.n && self.docs[self.n - 1] >= part {
            self.read += self.docs[self.read..self.n].partition_point(|&doc| doc < part);
            return;
        }
        self.next = list.block_for(part).max(self.next);
        self.block = None;
    }

    /// Returns the next entries with parts below `end`, as a range of `docs` (and of `maps` with
    /// `MAPS`), which is empty if there are none.
    #[inline]
    pub(crate) fn entries<const MAPS: bool>(
        &mut self,
        list: &MapList<'_>,
        from: u32,
        end: u32,
    ) -> Result<Range<usize>, ListError> {
        loop {
            if self.block.is_none() || self.read == self.n {
                if self.next >= list.blocks() {
                    return Ok(0..0);
                }
                if list.is_dense() && (self.next * BIN) as u64 >= u64::from(end) {
                    return Ok(0..0);
                }
                self.n = match MAPS {
                    true => list.decode(self.next, &mut self.docs, &mut self.maps)?,
                    false => list.decode_docs(self.next, &mut self.docs)?,
                };
                self.block = Some(self.next);
                self.next += 1;
                self.read = self.docs[..self.n].partition_point(|&doc| doc < from);
                continue;
            }
            let to = match self.docs[self.n - 1] < end {
                true => self.n,
                false => self.read + self.docs[self.read..self.n].partition_point(|&doc| doc < end),
            };
            let range = self.read..to;
            self.read = to;
            return Ok(range);
        }
    }
}

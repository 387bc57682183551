//! Parts of documents, to which the lists of an n-gram index refer
//! (docs/reference/formats/ngrams.md).

use std::ops::Range;

use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{GramConfig, SEGMENTS};

use crate::files::postings::{BIN, HeadWidths, head_bits};

/// The parts of a segment's documents, numbered in the order of the documents.
///
/// Unless documents are divided, each document is one part.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    count: u32,
    /// First part of each document; empty if each document is one part.
    starts: Vec<u32>,
    /// Number of segments of each part, 1 to 32; empty without n-grams.
    segments: Vec<u8>,
    /// Widths of heads in each bin; empty if no part has more than one segment.
    head_widths: Vec<HeadWidths>,
    /// Width of each part's head, for adding up parts that are far apart.
    heads: Vec<u8>,
}

impl Parts {
    /// Creates one part per document, without n-grams.
    pub(crate) fn of_documents(count: u32) -> Self {
        Parts { count, ..Parts::default() }
    }

    /// Divides documents according to their numbers of words. Returns `None` if there are too
    /// many parts.
    pub(crate) fn of_words(
        grams: &GramConfig,
        words: impl ExactSizeIterator<Item = u32>,
    ) -> Option<Self> {
        let documents = words.len();
        let (mut starts, mut segments) = (Vec::new(), Vec::with_capacity(documents));
        for words in words {
            if grams.parts {
                starts.push(segments.len() as u32);
            }
            segments.extend((0..grams.parts(words)).map(|part| grams.segments(part, words)));
            if segments.len() as u64 > MAX_DOCS {
                return None;
            }
        }
        if segments.len() == documents {
            starts.clear();
        }
        Some(Parts::new(starts, segments))
    }

    /// Creates documents of one part each with these numbers of segments, limited to 1 to 32. For
    /// tests and fuzz targets, which have lists without an index.
    #[doc(hidden)]
    pub fn of_segments(mut segments: Vec<u8>) -> Self {
        segments.iter_mut().for_each(|n| *n = (*n).clamp(1, SEGMENTS as u8));
        Parts::new(Vec::new(), segments)
    }

    fn new(starts: Vec<u32>, segments: Vec<u8>) -> Self {
        let (mut head_widths, mut heads) = (Vec::new(), Vec::new());
        if segments.iter().any(|&n| n > 1) {
            heads.extend(segments.iter().map(|&n| head_bits(n)));
            head_widths.resize(segments.len().div_ceil(BIN), HeadWidths::default());
            for (part, &bits) in heads.iter().enumerate() {
                for (i, plane) in head_widths[part / BIN][part % BIN / 64].iter_mut().enumerate() {
                    *plane |= u64::from(bits >> i & 1) << (part % 64);
                }
            }
        }
        Parts { count: segments.len() as u32, starts, segments, head_widths, heads }
    }

    /// Returns the number of parts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns true if each document is one part.
    pub fn are_documents(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns the number of segments of a part.
    #[inline]
    pub fn segments(&self, part: u32) -> u8 {
        self.segments[part as usize]
    }

    /// Returns the numbers of segments of all parts from `first` on.
    #[inline]
    pub fn all_segments(&self, first: usize) -> &[u8] {
        &self.segments[first..]
    }

    /// Returns true if lists have maps. They have none if all parts have one segment.
    #[inline]
    pub fn have_maps(&self) -> bool {
        !self.head_widths.is_empty()
    }

    /// Returns the widths of the heads in a bin. There must be maps.
    #[inline]
    pub(crate) fn head_widths(&self, bin: usize) -> &HeadWidths {
        &self.head_widths[bin]
    }

    /// Returns the sum of the widths of some parts' heads. Parts that do not exist have none.
    #[inline]
    pub(crate) fn bits_of_heads(&self, parts: &[u32]) -> usize {
        let bits = |&part: &u32| usize::from(self.heads.get(part as usize).copied().unwrap_or(0));
        parts.iter().map(bits).sum()
    }

    /// Returns the widths of the heads in all bins.
    pub fn all_head_widths(&self) -> &[[[u64; 3]; BIN / 64]] {
        &self.head_widths
    }

    /// Returns the document that a part belongs to.
    #[inline]
    pub fn document(&self, part: u32) -> u32 {
        match self.starts.is_empty() {
            true => part,
            false => self.starts.partition_point(|&start| start <= part) as u32 - 1,
        }
    }

    /// Returns the parts of a document.
    #[inline]
    pub fn of(&self, document: u32) -> Range<u32> {
        match self.starts.get(document as usize) {
            None => document..document + 1,
            Some(&start) => {
                start..self.starts.get(document as usize + 1).copied().unwrap_or(self.count)
            }
        }
    }
}

//! Parts of documents, which the lists of an n-gram index refer to.

use std::ops::Range;

use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{GramConfig, SEGMENTS};

use crate::files::postings::{BIN, head_bits};

/// Bits of the heads of maps (docs/format/ngrams.md) in a bin of 256 parts: for each 64 parts, the lowest bits of all these numbers, then the next ones, then the highest, so that the numbers of some parts are added up by counting bits.
pub(crate) type HeadWidths = [[u64; 3]; BIN / 64];

/// The parts of a segment's documents, numbered through in the order of the documents. Unless documents are cut, each is one part.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    count: u32,
    /// The first part of each document; empty if each document is one part.
    starts: Vec<u32>,
    /// How many segments each part has, 1 to 32; empty if there are no n-grams.
    segments: Vec<u8>,
    /// For each bin; empty if no part has more than one segment.
    head_widths: Vec<HeadWidths>,
    /// The same numbers, one for each part, to add up those of parts that are far apart.
    heads: Vec<u8>,
}

impl Parts {
    /// Documents as they are, without n-grams.
    pub(crate) fn of_documents(count: u32) -> Self {
        Parts { count, ..Parts::default() }
    }

    /// How a document is cut follows from its number of words. `None` if there are too many parts.
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

    /// Documents of one part each with these numbers of segments, brought to 1 to 32. For tests and fuzz targets, which have lists without an index.
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

    /// The number of parts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether each document is one part.
    pub fn are_documents(&self) -> bool {
        self.starts.is_empty()
    }

    /// The number of segments of a part.
    #[inline]
    pub fn segments(&self, part: u32) -> u8 {
        self.segments[part as usize]
    }

    /// The numbers of segments of all parts from `first` on.
    #[inline]
    pub fn all_segments(&self, first: usize) -> &[u8] {
        &self.segments[first..]
    }

    /// Whether lists have maps: they do not if all parts have one segment.
    #[inline]
    pub fn have_maps(&self) -> bool {
        !self.head_widths.is_empty()
    }

    /// The bits of heads of the parts of a bin, if there are maps.
    #[inline]
    pub(crate) fn head_widths(&self, bin: usize) -> &HeadWidths {
        &self.head_widths[bin]
    }

    /// The bits of the heads of some parts together; parts that do not exist have none.
    #[inline]
    pub(crate) fn bits_of_heads(&self, parts: &[u32]) -> usize {
        let bits = |&part: &u32| usize::from(self.heads.get(part as usize).copied().unwrap_or(0));
        parts.iter().map(bits).sum()
    }

    /// The same of all bins.
    pub fn all_head_widths(&self) -> &[[[u64; 3]; BIN / 64]] {
        &self.head_widths
    }

    /// The document that a part belongs to.
    #[inline]
    pub fn document(&self, part: u32) -> u32 {
        match self.starts.is_empty() {
            true => part,
            false => self.starts.partition_point(|&start| start <= part) as u32 - 1,
        }
    }

    /// The parts of a document.
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

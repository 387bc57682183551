//! A part of a reader's records.

use std::ops::Range;

use super::batch::RawBatch;

/// Which records of the inputs are read. Records are counted from 0 through all inputs, good and bad ones alike, as [`Reader`](super::Reader) cuts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The records that are read.
    pub records: Range<u64>,
    /// Records among them that are left out, in ascending order.
    pub except: Vec<u64>,
    /// How many records each file has, as far as it is known: files whose records all come before the selection are not opened. Empty if nothing is known.
    pub files: Vec<u64>,
}

/// A selection while it is applied to records as they are cut.
#[derive(Debug)]
pub(super) struct Selecting {
    selection: Selection,
    /// The number of the next record to be cut.
    next: u64,
}

impl Selecting {
    /// Also returns how many of the files need not be opened.
    pub(super) fn new(selection: Selection) -> (Self, usize) {
        let mut next = 0u64;
        let mut skipped = 0;
        for &records in &selection.files {
            match next.checked_add(records) {
                Some(end) if end <= selection.records.start => next = end,
                _ => break,
            }
            skipped += 1;
        }
        (Selecting { selection, next }, skipped)
    }

    /// Removes what was not asked for from the records of `batch` from `first` on, which were just cut. What came before the selection takes its bytes with it, so that the batch has room for more.
    pub(super) fn apply(&mut self, batch: &mut RawBatch, first: usize) {
        let Range { start, end } = self.selection.records;
        let number = self.next;
        self.next += (batch.len() - first) as u64;
        if number < start && first == 0 {
            batch.remove_front((start - number).min(batch.len() as u64) as usize);
        }
        let number = number.max(start);
        let except = &self.selection.except;
        batch.retain_from(first, |i| {
            let record = number + i as u64;
            record < end && except.binary_search(&record).is_err()
        });
    }

    /// Whether no further record can be part of it.
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.selection.records.end
    }
}

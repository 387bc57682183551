//! Selects a part of a reader's records.

use std::ops::Range;

use super::batch::RawBatch;

/// A selection of records to read. Records are counted from 0 through all inputs, good and bad
/// ones alike, in the order in which [`Reader`](super::Reader) cuts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Range of the records to read.
    pub records: Range<u64>,
    /// Records in the range that are skipped, in ascending order.
    pub except: Vec<u64>,
    /// Number of records of each file, as far as it is known. Files whose records all come before
    /// the selection are not opened. Empty if nothing is known.
    pub files: Vec<u64>,
}

/// A selection, and the progress of applying it to records as they are cut.
#[derive(Debug)]
pub(super) struct SelectionProgress {
    selection: Selection,
    /// Number of the next record to be cut.
    next: u64,
}

impl SelectionProgress {
    /// Starts to apply a selection. Also returns the number of files that need not be opened.
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
        (SelectionProgress { selection, next }, skipped)
    }

    /// Removes records that are not selected from the records of `batch` from `first` on, which
    /// were just cut. The bytes of records before the selection are removed as well, so that more
    /// records fit into the batch.
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

    /// Returns true if no further record is selected.
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.selection.records.end
    }
}

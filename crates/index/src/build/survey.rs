//! A survey of all documents before they are divided into parts, each of which becomes a separate
//! index.
//!
//! It admits documents as a build does. Records that one index of all documents would refuse or
//! leave out, such as those with an id that two parts would share, are thus found before anything
//! is built.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use warpseek_text::{RawBatch, Reader, Selection};

use super::admission::{Admission, Parsed};
use super::config::{BuildConfig, Phase, Progress};
use super::sequencer::Sequencer;
use crate::error::Result;

/// The result of a survey, which keeps 4 bytes per record and no documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of documents that one index of all inputs would have.
    pub documents: u64,
    /// Number of records that it would leave out.
    pub skipped: u64,
    /// Reasons why the first of these records would be left out.
    pub reasons: Vec<String>,
    /// Size of the inputs on disk in bytes; `None` if one of them is a pipe.
    pub input_bytes: Option<u64>,
    /// Size of each record in bytes.
    sizes: Vec<u32>,
    /// Numbers of the records that are left out, in ascending order.
    except: Vec<u64>,
    /// Number of records of each file.
    files: Vec<u64>,
}

/// The state that is updated in the order of the records.
struct Counting {
    admission: Admission,
    survey: Survey,
}

/// Reads all records of the inputs and decides which of them become documents, as
/// [`create`](crate::create) does. Fails with the error with which `create` would fail.
pub fn survey(inputs: &[PathBuf], config: &BuildConfig, progress: &Progress) -> Result<Survey> {
    let reader = Reader::open(inputs, config.reader.clone())?;
    let input_bytes = reader.progress().bytes_total;
    let mut admission = Admission::new(config.on_error);
    admission.quantized = config.impacts.is_some();
    admission.positions = config.positions && config.reader.schema.is_none();
    let sequencer = Sequencer::new(Counting { admission, survey: Survey::default() });
    let (reader, failure) = (Mutex::new((reader, 0)), Mutex::new(None));
    progress.enter(Phase::Reading);
    std::thread::scope(|scope| {
        for _ in 0..config.threads.max(1) {
            scope.spawn(|| {
                // The other workers must not wait for this one, even if it panics.
                let closing = CloseOnDrop(&sequencer);
                match look_at_batches(&reader, &sequencer, progress) {
                    Ok(()) => std::mem::forget(closing),
                    Err(error) => {
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        failure.get_or_insert(error);
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let Counting { admission, mut survey } = sequencer.into_inner();
    let (reader, _) = reader.into_inner().unwrap_or_else(PoisonError::into_inner);
    survey.input_bytes = input_bytes;
    survey.files = reader.file_records().to_vec();
    (survey.skipped, survey.reasons) = (admission.skipped, admission.reasons);
    Ok(survey)
}

struct CloseOnDrop<'a>(&'a Sequencer<Counting>);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn look_at_batches(
    reader: &Mutex<(Reader, u64)>,
    sequencer: &Sequencer<Counting>,
    progress: &Progress,
) -> Result<()> {
    while let Some((number, batch)) = next_batch(reader, progress)? {
        let all = 0..batch.len();
        let mut records: Vec<Parsed<'_>> =
            all.map(|number| Parsed::new(&batch, number, |_| 1)).collect();
        let entered = sequencer.enter(number, |counting| counting.add(&batch, &mut records));
        if entered.transpose()?.is_none() {
            return Ok(());
        }
        progress.add_documents(records.len() as u64);
    }
    Ok(())
}

fn next_batch(
    reader: &Mutex<(Reader, u64)>,
    progress: &Progress,
) -> Result<Option<(u64, RawBatch)>> {
    progress.check()?;
    let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
    let (reader, next) = &mut *reader;
    let batch = reader.next_batch()?;
    let read = reader.progress();
    progress.set_bytes(read.bytes_read, read.bytes_total);
    Ok(batch.map(|batch| {
        *next += 1;
        (*next - 1, batch)
    }))
}

impl Counting {
    /// Adds a batch and keeps only admitted records in `records`.
    fn add(&mut self, batch: &RawBatch, records: &mut Vec<Parsed<'_>>) -> Result<()> {
        self.admission.admit(batch, records)?;
        let first = self.survey.sizes.len() as u64;
        let mut admitted = records.iter().map(|record| record.number).peekable();
        for number in 0..batch.len() {
            if admitted.next_if_eq(&number).is_none() {
                self.survey.except.push(first + number as u64);
            }
            let bytes = u32::try_from(batch.record_bytes(number)).unwrap_or(u32::MAX);
            self.survey.sizes.push(bytes);
        }
        self.survey.documents += records.len() as u64;
        Ok(())
    }
}

impl Survey {
    /// Divides the documents into consecutive parts with at least one document each and about the
    /// same number of bytes.
    ///
    /// Together, the parts have the documents of one index of all inputs, in the same order.
    /// Returns each part with its number of documents, or `None` if `parts` is 0 or larger than
    /// the number of documents.
    pub fn cut(&self, parts: usize) -> Option<Vec<(Selection, u64)>> {
        if parts == 0 || self.documents < parts as u64 {
            return None;
        }
        let mut except = self.except.iter().copied().peekable();
        // Each document counts one byte more, so that documents without text are spread as well.
        let documents = (0u64..)
            .zip(&self.sizes)
            .filter(|(record, _)| except.next_if_eq(record).is_none())
            .map(|(record, &bytes)| (record, u64::from(bytes) + 1));
        let documents: Vec<(u64, u64)> = documents.collect();
        let total: u128 = documents.iter().map(|&(_, bytes)| u128::from(bytes)).sum();
        let mut cut = Vec::with_capacity(parts);
        let (mut at, mut bytes, mut start) = (0, 0u128, 0);
        for part in 0..parts {
            let (first, left) = (at, parts - part - 1);
            let goal = total * (part as u128 + 1);
            // A part gets at least one document and leaves one for each part after it. A document
            // belongs to this part if its middle lies within the goal.
            while at < documents.len() - left
                && (at == first
                    || left == 0
                    || (bytes * 2 + u128::from(documents[at].1)) * parts as u128 <= goal * 2)
            {
                bytes += u128::from(documents[at].1);
                at += 1;
            }
            let end = match left {
                0 => self.sizes.len() as u64,
                _ => documents[at - 1].0 + 1,
            };
            cut.push((self.selection(start..end), (at - first) as u64));
            start = end;
        }
        Some(cut)
    }

    fn selection(&self, records: std::ops::Range<u64>) -> Selection {
        let from = self.except.partition_point(|&record| record < records.start);
        let to = self.except.partition_point(|&record| record < records.end);
        Selection { records, except: self.except[from..to].to_vec(), files: self.files.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surveyed(sizes: &[u32], except: &[u64]) -> Survey {
        let documents = (sizes.len() - except.len()) as u64;
        let (sizes, except) = (sizes.to_vec(), except.to_vec());
        Survey { documents, sizes, except, files: vec![documents], ..Survey::default() }
    }

    /// Returns the records of each part, without those left out.
    fn parts(survey: &Survey, n: usize) -> Vec<Vec<u64>> {
        let cut = survey.cut(n).unwrap();
        let mut next = 0;
        let parts = cut.iter().map(|(part, documents)| {
            assert_eq!(part.records.start, next, "parts are consecutive");
            next = part.records.end;
            let except = |record: &u64| !part.except.contains(record);
            let records: Vec<u64> = part.records.clone().filter(except).collect();
            assert_eq!(records.len() as u64, *documents);
            records
        });
        let parts = parts.collect();
        assert_eq!(next, survey.sizes.len() as u64, "parts have all records");
        parts
    }

    #[test]
    fn parts_have_about_the_same_bytes() {
        let even = surveyed(&[9; 12], &[]);
        assert_eq!(parts(&even, 3).iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(parts(&even, 5).iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 2, 3, 2]);
        // With one byte more each, these are 10 records of 110 and 100 of 11.
        let mut sizes = vec![109; 10];
        sizes.extend([10; 100]);
        let found: Vec<usize> = parts(&surveyed(&sizes, &[]), 2).iter().map(Vec::len).collect();
        assert_eq!(found, [10, 100]);
    }

    #[test]
    fn every_part_has_a_document() {
        for sizes in [vec![1000, 0, 0, 0], vec![0, 0, 0, 1000], vec![0, 1000, 0, 0]] {
            let survey = surveyed(&sizes, &[]);
            for n in 1..=4 {
                assert!(parts(&survey, n).iter().all(|part| !part.is_empty()), "{sizes:?} {n}");
            }
            assert!(survey.cut(5).is_none() && survey.cut(0).is_none());
        }
    }

    #[test]
    fn records_that_are_left_out_are_in_no_part() {
        let survey = surveyed(&[5, 500, 5, 5, 500, 5], &[1, 4]);
        assert_eq!(parts(&survey, 2), [vec![0, 2], vec![3, 5]]);
        assert_eq!(parts(&survey, 4), [vec![0], vec![2], vec![3], vec![5]]);
        assert!(survey.cut(5).is_none());
    }
}

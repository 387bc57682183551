//! The words of documents or of an index, with the number of occurrences of each. A
//! [`Dictionary`] is built from them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use warpseek_index::{IndexError, OnError, Progress};
use warpseek_text::{Analyzer, RawBatch, Reader, Scratch};

use crate::error::Result;
use crate::index::Index;
use crate::options::IndexOptions;

pub use warpseek_dictionary::{Dictionary, DictionaryError, Statistics as DictionaryStatistics};

/// Maximum number of reasons for skipped records that are reported.
const REASONS: usize = 10;

/// Words with the number of occurrences of each.
///
/// ```
/// use warpseek::vocabulary::Vocabulary;
/// use warpseek::{Analyzer, IndexOptions, Progress};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("docs.tsv");
/// std::fs::write(&file, "1\tto be or not to be\n2\tto do\n").unwrap();
/// let options = IndexOptions::new().analyzer(Analyzer::Plain);
/// let vocabulary = Vocabulary::of_files(&[file], &options, &Progress::default())?;
/// assert_eq!((vocabulary.len(), vocabulary.tokens), (5, 8));
/// let dictionary = vocabulary.dictionary(Some(2))?;
/// assert_eq!((dictionary.look_up(b"be"), dictionary.look_up(b"to")), (Some(0), Some(1)));
/// assert_eq!(dictionary.look_up(b"or"), None);
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Vocabulary {
    counts: Counts,
    /// Number of occurrences of all words; for an index, the number of postings.
    pub tokens: u64,
    /// Number of records that could not be read and were skipped.
    pub skipped: u64,
    /// The reasons for the first skipped records.
    pub reasons: Vec<String>,
}

type Counts = HashMap<Box<[u8]>, u64>;

impl Vocabulary {
    /// Counts the words of files and directories; `-` is standard input. The options set the
    /// analyzer, the format, the number of threads, and the treatment of malformed records.
    pub fn of_files(
        inputs: &[PathBuf],
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<Self> {
        let config = options.config();
        let reading = Reading {
            reader: Mutex::new(Some((Reader::open(inputs, config.reader.clone())?, 0))),
            analyzer: config.analyzer,
            on_error: config.on_error,
            progress,
            outcome: Mutex::default(),
        };
        std::thread::scope(|scope| {
            for _ in 0..config.threads.max(1) {
                scope.spawn(|| reading.work());
            }
        });
        let outcome = reading.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        match outcome.error {
            Some((_, error)) => Err(error.into()),
            None => Ok(outcome.vocabulary),
        }
    }

    /// Counts the terms of an index by the number of documents that contain them. Deleted
    /// documents count until a merge drops them.
    pub fn of_index(index: &Index, progress: &Progress) -> Result<Self> {
        let mut vocabulary = Vocabulary::default();
        for segment in index.snapshot()?.segments() {
            progress.check()?;
            let mut terms = segment.dictionary().iter();
            while let Some(info) = terms.next_term()? {
                add(&mut vocabulary.counts, terms.term(), info.df.into());
                vocabulary.tokens += u64::from(info.df);
            }
        }
        Ok(vocabulary)
    }

    /// Returns the number of distinct words.
    pub fn len(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Builds a dictionary of the `most` most frequent words, or of all words. Among equally
    /// frequent words, those that come first in byte order are preferred.
    pub fn dictionary(self, most: Option<u64>) -> Result<Dictionary> {
        let most = most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let mut words: Vec<(Box<[u8]>, u64)> = self.counts.into_iter().collect();
        if most < words.len() {
            let better = |a: &(Box<[u8]>, u64), b: &(Box<[u8]>, u64)| (b.1, &a.0).cmp(&(a.1, &b.0));
            if most > 0 {
                words.select_nth_unstable_by(most - 1, better);
            }
            words.truncate(most);
        }
        Ok(Dictionary::build(words.into_iter().map(|(word, _)| word))?)
    }
}

/// Counts a word, copying it only if it is new.
fn add(counts: &mut Counts, word: &[u8], n: u64) {
    match counts.get_mut(word) {
        Some(count) => *count += n,
        None => {
            counts.insert(word.into(), n);
        }
    }
}

/// Documents that several threads read.
struct Reading<'a> {
    /// The reader and the number of its next batch; `None` at the end of the input or after an
    /// error.
    reader: Mutex<Option<(Reader, u64)>>,
    analyzer: Analyzer,
    on_error: OnError,
    progress: &'a Progress,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    vocabulary: Vocabulary,
    /// The error of the earliest batch that has one, and the number of that batch.
    error: Option<(u64, IndexError)>,
}

impl Reading<'_> {
    fn work(&self) {
        let (mut words, mut own, mut scratch) =
            (Counts::new(), Vocabulary::default(), Scratch::default());
        while let Some((number, batch)) = self.next() {
            if let Err(error) =
                batch.and_then(|batch| self.count(&batch, &mut words, &mut own, &mut scratch))
            {
                // Other threads have taken all earlier batches and read them to the end, so the
                // first bad record is reported.
                *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
                let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if outcome.error.as_ref().is_none_or(|(before, _)| number < *before) {
                    outcome.error = Some((number, error));
                }
                return;
            }
        }
        // The analyzer maps a word to the same term everywhere, so each distinct word is stemmed
        // once, after counting.
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &mut outcome.vocabulary;
        for (word, n) in words {
            let term = std::str::from_utf8(&word).ok().and_then(|word| self.analyzer.term(word));
            if let Some(term) = term {
                add(&mut all.counts, term.as_bytes(), n);
                all.tokens += n;
            }
        }
        all.skipped += own.skipped;
        all.reasons.append(&mut own.reasons);
        all.reasons.truncate(REASONS);
    }

    fn next(&self) -> Option<(u64, Result<RawBatch, IndexError>)> {
        let mut open = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, next) = open.as_mut()?;
        let number = *next;
        *next += 1;
        if let Err(error) = self.progress.check() {
            return Some((number, Err(error)));
        }
        let batch = reader.next_batch();
        let read = reader.progress();
        self.progress.set_bytes(read.bytes_read, read.bytes_total);
        match batch {
            Ok(Some(batch)) => Some((number, Ok(batch))),
            Ok(None) => {
                *open = None;
                None
            }
            Err(error) => Some((number, Err(error.into()))),
        }
    }

    fn count(
        &self,
        batch: &RawBatch,
        words: &mut Counts,
        own: &mut Vocabulary,
        scratch: &mut Scratch,
    ) -> Result<(), IndexError> {
        for i in 0..batch.len() {
            let document = match batch.record(i) {
                Ok(document) => document,
                Err(error) if self.on_error == OnError::Stop => return Err(error.into()),
                Err(error) => {
                    own.skipped += 1;
                    if own.reasons.len() < REASONS {
                        own.reasons.push(error.to_string());
                    }
                    continue;
                }
            };
            for (token, _) in document.vector.iter().flatten() {
                add(words, token.as_bytes(), 1);
            }
            for text in [&document.title, &document.text] {
                self.analyzer
                    .for_each_word(scratch, text, |word, _| add(words, word.as_bytes(), 1));
            }
        }
        self.progress.add_documents(batch.len() as u64);
        Ok(())
    }
}

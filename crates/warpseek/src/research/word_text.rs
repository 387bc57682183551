//! The words of documents, concatenated into a text whose words can be weighed.

use std::path::PathBuf;

use rayon::prelude::*;
use warpseek_build_gpu::weights::WordText;
use warpseek_index::{IndexError, OnError, Progress};
use warpseek_text::{Analyzer, RawBatch, Reader, Scratch};

use crate::error::{Error, Result};
use crate::options::IndexOptions;

/// Maximum length of a text that can be weighed. Positions in it have 32 bits.
pub const MAX_WORD_TEXT: usize = u32::MAX as usize;

/// Maximum number of reasons for skipped records that are reported.
const REASONS: usize = 10;

/// The words of documents.
///
/// ```
/// use warpseek::research::DocumentWords;
/// use warpseek::research::weights::{Method, weigh_on_cpu};
/// use warpseek::{IndexOptions, Progress, RankingFunction};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("docs.tsv");
/// std::fs::write(&file, "1\tan apple\n2\tapples and pears\n").unwrap();
/// let words = DocumentWords::of_files(&[file], &IndexOptions::new(), &Progress::default())?;
/// let bm25 = RankingFunction::Bm25 { k1: 0.9, b: 0.4 };
/// let (weights, _) = weigh_on_cpu(words.text.bytes(), Method::Strings, bm25).unwrap();
/// assert_eq!((weights.documents, weights.terms.len(), weights.docs.len()), (2, 2, 3));
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct DocumentWords {
    /// The words of all documents, in the order of the input.
    pub text: WordText,
    /// Number of documents.
    pub documents: u64,
    /// Number of records that could not be read and were skipped.
    pub skipped: u64,
    /// The reasons for the first skipped records.
    pub reasons: Vec<String>,
}

impl DocumentWords {
    /// Reads files and directories; `-` is standard input. The options set the analyzer, the
    /// format, the number of threads, and the treatment of malformed records. Stop words, and
    /// words of more than 255 bytes, are omitted.
    pub fn of_files(
        inputs: &[PathBuf],
        options: &IndexOptions,
        progress: &Progress,
    ) -> Result<Self> {
        let config = options.config();
        let mut reader = Reader::open(inputs, config.reader.clone())?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(config.threads.max(1)).build();
        let pool = pool.map_err(|error| Error::Threads(std::io::Error::other(error)))?;
        let mut all = DocumentWords::default();
        loop {
            progress.check()?;
            let mut batches = Vec::new();
            while batches.len() < 4 * config.threads.max(1) {
                let Some(batch) = reader.next_batch()? else { break };
                batches.push(batch);
            }
            if batches.is_empty() {
                return Ok(all);
            }
            let read = reader.progress();
            progress.set_bytes(read.bytes_read, read.bytes_total);
            let words = |batch: &RawBatch| read_batch(batch, config.analyzer, config.on_error);
            let read: Vec<Result<DocumentWords>> =
                pool.install(|| batches.par_iter().map(words).collect());
            for words in read {
                let words = words?;
                progress.add_documents(words.documents);
                all.append(words)?;
            }
        }
    }

    fn append(&mut self, more: DocumentWords) -> Result<()> {
        let bytes = self.text.bytes().len() + more.text.bytes().len();
        if bytes > MAX_WORD_TEXT {
            return Err(Error::TooManyWords { most: MAX_WORD_TEXT });
        }
        self.text.append(more.text);
        self.documents += more.documents;
        self.skipped += more.skipped;
        self.reasons.extend(more.reasons);
        self.reasons.truncate(REASONS);
        Ok(())
    }
}

fn read_batch(batch: &RawBatch, analyzer: Analyzer, on_error: OnError) -> Result<DocumentWords> {
    let (mut words, mut scratch) = (DocumentWords::default(), Scratch::default());
    for number in 0..batch.len() {
        let document = match batch.record(number) {
            Ok(document) => document,
            Err(error) if on_error == OnError::Stop => return Err(IndexError::Record(error).into()),
            Err(error) => {
                words.skipped += 1;
                words.reasons.push(error.to_string());
                continue;
            }
        };
        let mut bad = None;
        for text in [&document.title, &document.text] {
            analyzer.for_each_word(&mut scratch, text, |word, _| {
                if let Some(term) = analyzer.term(word)
                    && let Err(error) = words.text.push(term.as_bytes())
                {
                    bad = Some(error);
                }
            });
        }
        if let Some(error) = bad {
            let location = batch.location(number).to_string();
            return Err(Error::Word { location, problem: error.to_string() });
        }
        words.text.end_document();
        words.documents += 1;
    }
    Ok(words)
}

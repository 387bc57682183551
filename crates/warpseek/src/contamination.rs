//! Detection of test items that share n-grams with a training corpus.
//!
//! The corpus is an index of n-grams, or a set of files that are read once without building an
//! index. Both give the same report.
//!
//! ```
//! use warpseek::Progress;
//! use warpseek::contamination::{self, Settings, TestSet};
//! use warpseek::text::{GramConfig, Unit};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let train = folder.path().join("train.jsonl");
//! let line = "{\"id\": \"t1\", \"text\": \"The quick brown fox jumps over the dog.\"}\n";
//! std::fs::write(&train, line).unwrap();
//! let mut set = TestSet::new(GramConfig { unit: Unit::Word, n: 3, ..GramConfig::default() })?;
//! set.push("q1", "", "a quick brown fox, and a slow one");
//!
//! let (settings, progress) = (Settings::default(), Progress::default());
//! let report = contamination::in_files(&set, &[train], None, &settings, &progress)?;
//! let item = &report.items[0];
//! assert_eq!((item.ngrams, item.found), (6, 1));
//! assert_eq!((item.documents[0].id.as_str(), item.documents[0].shared), ("t1", 1));
//! assert_eq!(report.summary().any, 1);
//! # Ok::<(), warpseek::Error>(())
//! ```

use std::path::PathBuf;

use warpseek_index::{OnError, Progress};
use warpseek_ngram::contaminate;
use warpseek_text::{Format, GramConfig, Reader, ReaderConfig};

pub use warpseek_ngram::contaminate::{
    Contamination, ItemReport, Settings, SharedDocument, Summary, TestSet,
};

use crate::error::Result;
use crate::index::Index;

/// Reads a test set from files and directories, either all in the given format or each in the
/// format that its name implies. Also returns the number of malformed records that were skipped.
///
/// ```
/// use warpseek::contamination;
/// use warpseek::options::OnError;
/// use warpseek::text::GramConfig;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("test.tsv");
/// std::fs::write(&file, "1\tWho wrote Emma?\n2\tWho wrote Ulysses?\n").unwrap();
/// let (set, skipped) =
///     contamination::read_test_set(GramConfig::default(), &[file], None, OnError::Stop)?;
/// assert_eq!((set.len(), skipped), (2, 0));
/// # Ok::<(), warpseek::Error>(())
/// ```
pub fn read_test_set(
    config: GramConfig,
    inputs: &[PathBuf],
    format: Option<Format>,
    on_error: OnError,
) -> Result<(TestSet, u64)> {
    let mut set = TestSet::new(config)?;
    let skipped = set.read(open(inputs, format)?, on_error)?;
    Ok((set, skipped))
}

/// Compares a test set with the documents of files and directories, which are read once.
pub fn in_files(
    set: &TestSet,
    corpus: &[PathBuf],
    format: Option<Format>,
    settings: &Settings,
    progress: &Progress,
) -> Result<Contamination> {
    Ok(contaminate::against_reader(set, open(corpus, format)?, settings, progress)?)
}

/// Compares a test set with the documents of an index, whose n-grams must have the same unit and
/// length as those of the test set.
///
/// ```
/// use warpseek::contamination::{self, Settings, TestSet};
/// use warpseek::text::{GramConfig, Unit};
/// use warpseek::{Document, Index, IndexOptions, Progress};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let dir = folder.path().join("index");
/// let grams = GramConfig { unit: Unit::Word, n: 2, ..GramConfig::default() };
/// let index = Index::create_with(&dir, IndexOptions::new().grams(grams))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("t1", "", "an apple a day"))?;
/// writer.commit()?;
/// let mut set = TestSet::new(grams)?;
/// set.push("q1", "", "An apple.");
/// let report = contamination::in_index(&set, &index, &Settings::default(), &Progress::default())?;
/// assert_eq!(report.items[0].share, 1.0);
/// # Ok::<(), warpseek::Error>(())
/// ```
pub fn in_index(
    set: &TestSet,
    corpus: &Index,
    settings: &Settings,
    progress: &Progress,
) -> Result<Contamination> {
    Ok(contaminate::against_snapshot(set, &corpus.snapshot()?, settings, progress)?)
}

fn open(inputs: &[PathBuf], format: Option<Format>) -> Result<Reader> {
    Ok(Reader::open(inputs, ReaderConfig { format, ..ReaderConfig::default() })?)
}

//! Inversion outside of the workers of a build, for example on a GPU: text goes out in batches, and sorted lists come back.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_text::Analyzer;

use super::invert::write_postings;
use super::run::{Run, RunWriter};
use super::sorted::SortedLists;
use crate::error::Result;

/// Starts inverters, one for each segment that is built.
pub trait InverterFactory: Debug + Send + Sync {
    /// An inverter for a segment, which gives its lists to `runs`.
    fn start(&self, wanted: Wanted, runs: RunSink) -> Result<Box<dyn BatchInverter>>;
}

/// What is wanted of an inverter.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Makes terms of words.
    pub analyzer: Analyzer,
    /// Threads that it may use.
    pub threads: usize,
    /// Whether blocks in the codec `bitpack` are of use: documents keep their order, and frequencies are stored as they are.
    pub blocks: bool,
}

/// Inverts the documents of a segment.
pub trait BatchInverter: Send {
    /// Takes the flat text (`Analyzer::flatten`) of the next documents, each of which ends with `END_OF_DOCUMENT`, and how many they are. It may wait until there is room.
    fn add(&mut self, text: Vec<u8>, documents: usize) -> Result<()>;
    /// Inverts the rest. All lists have been given to the sink when it returns.
    fn finish(self: Box<Self>) -> Result<DocumentFacts>;
}

/// What an inverter knows of all documents.
#[derive(Clone, Debug, Default)]
pub struct DocumentFacts {
    /// How many terms each has.
    pub lengths: Vec<u32>,
    /// The norm of each (`warpseek_core::cosine`).
    pub norms: Vec<f32>,
    /// What the user should know, for example that a GPU failed.
    pub notices: Vec<String>,
}

/// Where an inverter puts its lists.
pub struct RunSink {
    scratch: PathBuf,
    memory: usize,
    runs: Arc<Runs>,
}

/// Lists in memory and on disk, to be merged.
#[derive(Default)]
pub(super) struct Runs(Mutex<Vec<Run>>);

impl Runs {
    pub(super) fn sink(self: &Arc<Self>, scratch: &Path, memory: usize) -> RunSink {
        RunSink { scratch: scratch.to_owned(), memory, runs: self.clone() }
    }

    /// All of them, which may be taken once.
    pub(super) fn take(&self) -> Vec<Run> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunSink {
    /// Bytes of lists that an inverter may hold before it spills them.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Takes lists that stay in memory.
    pub fn keep(&self, lists: SortedLists) {
        self.runs.0.lock().unwrap_or_else(PoisonError::into_inner).push(Run::in_memory(lists));
    }

    /// Writes lists to disk.
    pub fn spill(&self, lists: &SortedLists) -> Result<()> {
        let mut runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.scratch.join(format!("batches-{}", runs.len()));
        let mut writer = RunWriter::create(&path)?;
        let mut postings = Vec::new();
        for rank in 0..lists.terms() {
            postings.clear();
            let count = write_postings(lists.postings(rank), &mut postings);
            if count > 0 {
                writer.add(lists.term(rank), count, &postings, &[])?;
            }
        }
        writer.finish()?;
        runs.push(Run::open(&path)?);
        Ok(())
    }
}

//! Inversion outside of the workers of a build, for example on a GPU. Text is passed on in
//! batches, and sorted lists are returned.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_codec::varint;
use warpseek_text::{Analyzer, Schema};

use super::flat::TextBatch;
use super::invert::write_postings;
use super::run::{Run, RunWriter};
use super::sorted::SortedLists;
use crate::error::Result;

/// A factory of inverters, one for each segment that is built.
pub trait InverterFactory: Debug + Send + Sync {
    /// Starts an inverter for a segment, which passes its lists to `runs`.
    fn start(&self, options: InverterOptions, runs: RunSink) -> Result<Box<dyn BatchInverter>>;
}

/// Options for an inverter.
#[derive(Clone, Debug)]
pub struct InverterOptions {
    /// Analyzer that turns words into terms, without a schema.
    pub analyzer: Analyzer,
    /// The schema, whose fields have analyzers of their own. The number of its field precedes
    /// each term.
    pub schema: Option<Arc<Schema>>,
    /// Number of sections of a document: one for each text field of the segment, at least one.
    pub fields: usize,
    /// Maximum number of threads.
    pub threads: usize,
    /// True if blocks in the codec `bitpack` are useful, because documents keep their order and
    /// frequencies are stored unchanged.
    pub blocks: bool,
}

/// An inverter of the documents of a segment.
pub trait BatchInverter: Send {
    /// Adds the next documents. It may block until there is space.
    fn add(&mut self, documents: TextBatch) -> Result<()>;
    /// Inverts the remaining documents. When this returns, the sink has all lists.
    fn finish(self: Box<Self>) -> Result<DocumentFacts>;
}

/// Facts about all documents that an inverter has determined.
#[derive(Clone, Debug, Default)]
pub struct DocumentFacts {
    /// Number of terms of each section: of each field of the first document, then of the second
    /// one. Empty for n-grams.
    pub lengths: Vec<u32>,
    /// Norm of each document (`warpseek_core::cosine`). Empty for n-grams and with a schema.
    pub norms: Vec<f32>,
    /// Notices for the user, for example that a GPU failed.
    pub notices: Vec<String>,
}

/// The destination of an inverter's lists.
pub struct RunSink {
    scratch: PathBuf,
    memory: usize,
    runs: Arc<Runs>,
}

/// Lists in memory and on disk that are still to be merged.
#[derive(Default)]
pub(super) struct Runs(Mutex<Vec<Run>>);

impl Runs {
    pub(super) fn sink(self: &Arc<Self>, scratch: &Path, memory: usize) -> RunSink {
        RunSink { scratch: scratch.to_owned(), memory, runs: self.clone() }
    }

    /// Takes all runs.
    pub(super) fn take(&self) -> Vec<Run> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RunSink {
    /// Returns the memory in bytes that lists may take before the inverter must spill them.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Adds lists that stay in memory.
    pub fn keep(&self, lists: SortedLists) {
        self.runs.0.lock().unwrap_or_else(PoisonError::into_inner).push(Run::in_memory(lists));
    }

    /// Writes lists to disk.
    pub fn spill(&self, lists: &SortedLists) -> Result<()> {
        let mut runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.scratch.join(format!("batches-{}", runs.len()));
        let mut writer = RunWriter::create(&path)?;
        let (mut postings, mut positions, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for rank in 0..lists.terms() {
            postings.clear();
            let count = write_postings(lists.postings(rank), &mut postings);
            if count > 0 {
                positions.clear();
                lists.load_positions(rank, &mut positions);
                bytes.clear();
                positions.iter().for_each(|&gap| varint::write(&mut bytes, u64::from(gap)));
                writer.add(lists.term(rank), count, &postings, &bytes)?;
            }
        }
        writer.finish()?;
        runs.push(Run::open(&path)?);
        Ok(())
    }
}

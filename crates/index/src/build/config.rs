//! Configuration, progress and result of a build.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use warpseek_codec::CodecId;
use warpseek_text::{Analyzer, GramConfig, ReaderConfig};

use super::batches::InverterFactory;
use crate::build::memory::default_memory;
use crate::error::{IndexError, Result};
use crate::files::impacts::Impacts;
use crate::files::manifest::StoreMode;

/// Treatment of a record that is malformed or whose id was seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The build stops and changes nothing.
    #[default]
    Stop,
    /// The record is left out, counted and reported.
    Skip,
}

/// Configuration of a build. Analyzer, codec, store mode, impacts, positions and norms apply only
/// to new indexes.
#[derive(Clone, Debug)]
pub struct BuildConfig {
    /// Analyzer that turns text into terms. Default: english.
    pub analyzer: Analyzer,
    /// Codec of blocks. Default: bitpack for words; rice, which is smaller, for n-grams.
    pub codec: Option<CodecId>,
    /// Extent of the stored documents. Default: all. `Ids` makes the index smaller, but results
    /// cannot show text.
    pub store: StoreMode,
    /// Parameters of quantized impacts. If set, lists hold 8-bit impacts instead of frequencies,
    /// computed by BM25 with these parameters: scores become approximate, and no other ranking
    /// function can be used. Default: frequencies.
    pub impacts: Option<Impacts>,
    /// Configuration of n-grams. If set, the index is one of n-grams for approximate search:
    /// lists hold maps of segments instead of frequencies, and the analyzer is not used. Default:
    /// none.
    pub grams: Option<GramConfig>,
    /// True to keep the positions of words, so that phrases can be found; with a schema, in all
    /// text fields. Default: false, or the settings of the schema.
    pub positions: bool,
    /// True to keep the norms of documents, and bounds of their weights. Ranking by cosine then
    /// takes less time, and the index more space. Without them, norms are computed at first use.
    /// Default: false.
    pub norms: bool,
    /// Number of worker threads. Default: one per core.
    pub threads: usize,
    /// Memory for postings before they are written, in bytes; more memory means fewer runs to
    /// merge. It includes about 45 bytes per document for the tables of documents. Default: a
    /// quarter of the machine's memory, or of a container's limit if that is smaller.
    pub memory: usize,
    /// Treatment of bad records. Default: stop.
    pub on_error: OnError,
    /// True to order documents by recursive graph bisection. The index becomes smaller and
    /// searches faster, but the build takes longer and needs up to `memory` again. Bisection
    /// starts from the order of the reader's `order_field`, or of the input. Default: false.
    pub reorder: bool,
    /// Inverter that replaces the workers' inversion of text, for example on a GPU; the index is
    /// the same. Workers always invert vectors, n-grams, documents with a schema, and the
    /// documents of indexes with positions. Default: none.
    pub inverter: Option<Arc<dyn InverterFactory>>,
    /// Settings for reading inputs. With an `order_field`, documents are sorted by it. With a
    /// `schema`, a new index has its text fields and attributes, and `analyzer` is not used.
    pub reader: ReaderConfig,
}

impl Default for BuildConfig {
    fn default() -> Self {
        BuildConfig {
            analyzer: Analyzer::English,
            codec: None,
            store: StoreMode::default(),
            impacts: None,
            grams: None,
            positions: false,
            norms: false,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory: default_memory(),
            on_error: OnError::default(),
            reorder: false,
            inverter: None,
            reader: ReaderConfig::default(),
        }
    }
}

impl BuildConfig {
    /// Returns the codec of a new index.
    pub(crate) fn codec(&self) -> CodecId {
        let usual = if self.grams.is_some() { CodecId::Rice } else { CodecId::default() };
        self.codec.unwrap_or(usual)
    }
}

/// The result of a build.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Number of documents added.
    pub documents: u64,
    /// Number of documents of the index that were replaced.
    pub replaced: u64,
    /// Number of tokens of the added documents.
    pub tokens: u64,
    /// Number of postings of the new segment.
    pub postings: u64,
    /// Number of terms of the new segment.
    pub terms: u64,
    /// Number of records left out.
    pub skipped: u64,
    /// Reasons why the first of these records were left out.
    pub reasons: Vec<String>,
    /// Number of documents with a static score.
    pub statics: u64,
    /// Number of documents with a value in the field that they are sorted by.
    pub sorted: u64,
    /// Number of runs that were merged.
    pub runs: u64,
    /// Notices for the user, for example that a GPU failed and the CPU took over.
    pub notices: Vec<String>,
}

/// The current activity of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading and inverting.
    Reading,
    /// Reading posting lists that the caller supplies.
    Generating,
    /// Finding an order of documents.
    Ordering,
    /// Merging runs or segments into lists.
    Merging,
    /// Syncing files and committing.
    Committing,
}

/// Counters of a running build, and the means to cancel it.
#[derive(Debug, Default)]
pub struct Progress {
    documents: AtomicU64,
    bytes_read: AtomicU64,
    bytes_total: AtomicU64,
    terms_written: AtomicU64,
    terms_total: AtomicU64,
    ordered: AtomicU64,
    to_order: AtomicU64,
    phase: AtomicU8,
    cancelled: AtomicBool,
}

impl Progress {
    /// Returns the number of documents read so far.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Returns the number of input bytes read so far, and their total, which is 0 if unknown.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_read.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }

    /// Returns the number of lists written so far, and an upper bound of their total.
    pub fn terms(&self) -> (u64, u64) {
        (self.terms_written.load(Ordering::Relaxed), self.terms_total.load(Ordering::Relaxed))
    }

    /// Returns the number of steps completed in finding an order, and their total, which is 0 if
    /// not known yet.
    pub fn ordering(&self) -> (u64, u64) {
        (self.ordered.load(Ordering::Relaxed), self.to_order.load(Ordering::Relaxed))
    }

    /// Returns the current activity.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Reading,
            1 => Phase::Generating,
            2 => Phase::Ordering,
            3 => Phase::Merging,
            _ => Phase::Committing,
        }
    }

    /// Cancels the operation; it ends with [`IndexError::Cancelled`] and changes nothing.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns an error if the operation was cancelled. Code that performs a part of the
    /// operation should call it regularly.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) { Err(IndexError::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Sets the input bytes read so far, and their total if it is known.
    pub fn set_bytes(&self, read: u64, total: Option<u64>) {
        self.bytes_read.store(read, Ordering::Relaxed);
        self.bytes_total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    /// Adds documents that were read.
    pub fn add_documents(&self, n: u64) {
        self.documents.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_terms_total(&self, n: u64) {
        self.terms_total.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_to_order(&self, n: u64) {
        self.to_order.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_ordered(&self, n: u64) {
        self.ordered.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn add_terms_written(&self, n: u64) {
        self.terms_written.fetch_add(n, Ordering::Relaxed);
    }
}

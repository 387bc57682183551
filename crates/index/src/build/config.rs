use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use warpseek_codec::CodecId;
use warpseek_text::{Analyzer, GramConfig, ReaderConfig};

use super::batches::InverterFactory;
use crate::build::memory::default_memory;
use crate::error::{IndexError, Result};
use crate::files::impacts::Impacts;
use crate::files::manifest::StoreMode;

/// What to do with a record that is malformed or whose id was seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Stop the build and change nothing.
    #[default]
    Stop,
    /// Leave the record out, count it and report it.
    Skip,
}

/// How to build. Analyzer, codec, store mode, impacts, positions and norms apply to new indexes only.
#[derive(Clone, Debug)]
pub struct BuildConfig {
    /// How text becomes terms. Default: english.
    pub analyzer: Analyzer,
    /// How blocks are coded. Default: bitpack for words; rice, which is smaller, for n-grams.
    pub codec: Option<CodecId>,
    /// What the store keeps. Default: all. `Ids` makes the index smaller, but results cannot show text.
    pub store: StoreMode,
    /// If set, lists hold 8-bit impacts instead of frequencies, computed by BM25 with these parameters: scores become approximate, and no other ranking function
    /// can be used. Default: frequencies.
    pub impacts: Option<Impacts>,
    /// If set, the index is one of n-grams for approximate search: lists hold maps of segments instead of frequencies, and the analyzer is not used. Default: none.
    pub grams: Option<GramConfig>,
    /// Whether the positions of words are kept, so that phrases can be found; with a schema, in all text fields. Default: no, or as the schema says.
    pub positions: bool,
    /// Whether the norms of documents are kept, and bounds of their weights: ranking by cosine then takes less time, and the index more space. Without them, norms are computed when they are first needed. Default: no.
    pub norms: bool,
    /// Worker threads. Default: one per core.
    pub threads: usize,
    /// Memory for postings before they are written, in bytes; more means fewer runs to merge. Default: a
    /// quarter of the machine's memory, or of the limit that a container sets if that is smaller. It includes about 45 bytes per document for the tables of documents.
    pub memory: usize,
    /// What to do with bad records. Default: stop.
    pub on_error: OnError,
    /// Whether documents are put in the order of recursive graph bisection: the index becomes smaller and searches faster, but the build takes longer and needs up to `memory`
    /// again. Bisection starts from the order of the reader's `order_field`, or of the input. Default: no.
    pub reorder: bool,
    /// Inverts text instead of the workers, for example on a GPU; the index is the same. Vectors, n-grams, documents with a schema and indexes with positions are always left to the workers. Default: none.
    pub inverter: Option<Arc<dyn InverterFactory>>,
    /// How inputs are read. With an `order_field`, documents are sorted by it. With a `schema`, a new index has its text fields and attributes, and the analyzer is not used.
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
    /// The codec of a new index.
    pub(crate) fn codec(&self) -> CodecId {
        let usual = if self.grams.is_some() { CodecId::Rice } else { CodecId::default() };
        self.codec.unwrap_or(usual)
    }
}

/// What a build did.
#[derive(Clone, Debug, Default)]
pub struct BuildReport {
    /// Documents added.
    pub documents: u64,
    /// Documents of the index that were replaced.
    pub replaced: u64,
    /// Tokens of the documents added.
    pub tokens: u64,
    /// Postings of the new segment.
    pub postings: u64,
    /// Terms of the new segment.
    pub terms: u64,
    /// Records left out.
    pub skipped: u64,
    /// Why the first of them were left out.
    pub reasons: Vec<String>,
    /// Documents with a static score.
    pub statics: u64,
    /// Documents with a value in the field they are sorted by.
    pub sorted: u64,
    /// Runs that were merged.
    pub runs: u64,
    /// What the user should know, for example that a GPU failed and the CPU went on.
    pub notices: Vec<String>,
}

/// What a build is doing.
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
    /// Documents read so far.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Input bytes read so far, and their total, which is 0 if unknown.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_read.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }

    /// Lists written so far, and an upper bound of their number.
    pub fn terms(&self) -> (u64, u64) {
        (self.terms_written.load(Ordering::Relaxed), self.terms_total.load(Ordering::Relaxed))
    }

    /// Steps done of finding an order, and their total, which is 0 if not known yet.
    pub fn ordering(&self) -> (u64, u64) {
        (self.ordered.load(Ordering::Relaxed), self.to_order.load(Ordering::Relaxed))
    }

    /// What the build is doing.
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

    /// An error once the operation is cancelled, for those who do a part of it.
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

    /// Counts documents that were read.
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

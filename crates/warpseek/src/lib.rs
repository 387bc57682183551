//! warpseek as a library: exact text search that runs on the CPU and on the GPU, with the same hits on both.
//!
//! Four types do most of the work. An [`Index`] is a directory on disk. An [`IndexWriter`] changes it, with documents made in memory. A [`Searcher`] answers
//! [`Request`]s, one or many at a time and from many threads, and each gets a [`Response`].
//!
//! ```
//! use warpseek::{Document, Index, Request};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let dir = folder.path().join("books");
//! let index = Index::create(&dir)?;
//! let mut writer = index.writer()?;
//! writer.add(Document::new("moby", "Moby-Dick", "Call me Ishmael."))?;
//! writer.add(Document::new("emma", "Emma", "Emma Woodhouse, handsome, clever, and rich"))?;
//! writer.commit()?;
//!
//! let searcher = index.searcher()?;
//! let response = searcher.search(&Request::new("clever emma").k(3))?;
//! assert_eq!(response.id(0)?, "emma");
//! # Ok::<(), warpseek::Error>(())
//! ```
//!
//! # How to do things
//!
//! | to | use |
//! |---|---|
//! | make an index of files (JSONL, TSV, TREC, text) | [`Index::build`] with [`IndexOptions`] |
//! | cut a large collection into several indexes | [`Index::survey`], [`Index::build_part`] |
//! | add documents to a collection that is cut into several indexes | [`Index::survey_added`], [`Index::add_part`] |
//! | search fields on their own, and give documents attributes | [`IndexOptions::schema`], [`infer_schema`] |
//! | add and delete documents from memory, in one commit | [`IndexWriter`] |
//! | write single documents from many threads, durably, and search them at once | [`Index::live`] with [`LiveOptions`] |
//! | merge, verify, inspect | [`Index::merge`], [`Index::verify`], [`Index::inspect`] |
//! | find damage of files that are open | [`Scrubber`], [`Snapshot::verify_again`] |
//! | search once | [`Searcher::search`] |
//! | search thousands of queries | [`Searcher::search_batch`], [`Searcher::search_arrays`] |
//! | answer requests that come one by one, under deadlines, with CPU and GPU at once | [`Searcher::service`] |
//! | find phrases that are misspelt, in the query or in the text | [`IndexOptions::grams`], then [`NgramSearcher`] |
//! | know which items of a test set stand in a training corpus | [`contamination`] |
//! | make a dictionary of the words of documents, and look words up in it | [`Vocabulary`], [`Dictionary`] |
//! | see later commits | [`Searcher::refresh`] |
//! | choose ranking, device, algorithm, threads | [`SearcherOptions`] |
//! | search fields, and require or exclude words and values | [`QueryInput::Expression`], [`query::Node`] |
//! | search among some documents only | [`Request::filter`], [`Request::among`] |
//! | sort hits by attributes, and continue after the last one | [`Request::sort`], [`Request::after`] |
//! | count matches by attributes | [`Request::facets`] |
//! | limit the time of a search, or stop it | [`Request::deadline`], [`Request::cancelled_by`] |
//! | know why a document scored as it did | [`Response::explain`] |
//! | know what answers such a query, and why | [`Searcher::decide`] |
//! | search, and know what answered and how long each step took | [`Searcher::search_traced`] |
//! | judge results against judgements | [`eval`] |
//!
//! # What is exact
//!
//! Inside a query a score is an integer, and engines only add. So every device, algorithm, codec, number of threads, size of a batch and layout of segments returns the same hits in the same
//! order (score down, then document id up) with the same score bits. What is approximate by design says so ([`Searcher::is_approximate`]).
//!
//! A search under a deadline that runs out returns what it has. Its [`Response::coverage`] says which documents it searched, and it is exact over these.
//!
//! # Devices
//!
//! By default the CPU answers. With [`DeviceChoice::Cuda`] it is a GPU, and an error if that cannot be. With [`DeviceChoice::Auto`] the library chooses for every batch, by what the engines say
//! it costs; if the GPU fails, the CPU answers, and the GPU is tried again later. [`SearcherOptions::on_notice`] hears of it. Nothing of CUDA is needed to build or to run
//! without a GPU.
//!
//! # Threads
//!
//! A [`Searcher`] can be shared between threads and cloned at no cost; clones are the same searcher. Threads that it uses itself last as long as the process. Writers exclude each other, also
//! between processes, and never disturb searchers: each has the snapshot of the index that it opened.

mod build_device;
mod calibration;
pub mod contamination;
mod decision;
mod engines;
mod error;
mod gpu;
mod incoming;
mod index;
mod live;
mod ngram;
mod notice;
mod opened;
mod options;
mod repeats;
mod request;
mod response;
mod schema;
mod scrubber;
mod searcher;
mod service;
mod settings;
mod stations;
mod traced;
mod vocabulary;
mod word_text;
mod writer;

pub use build_device::BuildDevice;
pub use calibration::CalibrationReport;
pub use decision::Decision;
pub use error::{Error, OptionsError, Result};
pub use incoming::Incoming;
pub use index::Index;
pub use live::{LiveIndex, LiveOptions, WriteTicket};
pub use ngram::{
    NgramAlignment, NgramHit, NgramOptions, NgramRequest, NgramResponse, NgramSearcher,
};
pub use notice::Notice;
pub use options::{Algorithm, DeviceChoice, IndexOptions, SearcherOptions, Split, Tuning};
pub use request::{QueryInput, Request};
pub use response::{Arrays, FieldSnippet, Response};
pub use schema::{Sample, SeenField, infer_schema};
pub use scrubber::{ScrubOptions, ScrubStatus, Scrubber};
pub use searcher::{GpuStatus, Searcher};
pub use service::{Cohorts, Service, ServiceError, ServiceOptions, ServiceResponse, ServiceTicket};
pub use settings::{read_settings, settings};
pub use traced::Traced;
pub use vocabulary::Vocabulary;
pub use word_text::{DocumentWords, MAX_WORD_TEXT};
pub use writer::{Commit, IndexWriter};

pub use warpseek_build_gpu::weights;
pub use warpseek_codec::CodecId;
pub use warpseek_core::{DocId, Hit, Score, limits, near};
pub use warpseek_cuda::DeviceError;
pub use warpseek_dictionary::{Dictionary, DictionaryError, Statistics as DictionaryStatistics};
pub use warpseek_exec::gather::{
    Facet, FacetCounts, MAX_FACET_NUMBERS, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS,
    MAX_SORT_KEYS, Missing, SortBy, SortKey, SortValue, SortValues, value_as_json,
};
/// Query trees, and the syntax that says them in one line.
pub use warpseek_exec::query;
pub use warpseek_exec::{
    Answer, Answers, Cancel, Choice, CollectionStatistics, Context, Coverage, Estimate, ExecError,
    Explanation, Fault, FieldExplanation, Limit, Mode, Offer, Plan, PlanTerm, Pool, Query,
    QueryTerm, Ranking, RankingFunction, Rule, ScorePart, ShapeClass, TermExplanation, Work,
    frequencies,
};
pub use warpseek_exec_cpu::Algorithm as CpuAlgorithm;
pub use warpseek_exec_gpu::{CacheCounts, Form as GpuLists, Loading, Residency};
pub use warpseek_exec_gpu_papers::MAX_COHORT;
pub use warpseek_exec_gpu_papers::compressed::CODECS as GPU_CODECS;
pub use warpseek_exec_gpu_papers::partitioned::{
    Batch as PartitionBatch, PartitionSettings, Partitioning, Threshold,
};
pub use warpseek_index::log::Durability;
pub use warpseek_index::{
    AttributeInspection, BuildReport, Content, Damage, DeleteReport, FieldInspection,
    FilterCacheUsage, Impacts, IndexError, Inspection, Lists, ListsConfig, MANIFEST, Manifest,
    MergeConfig, MergeReport, OnError, PartSizes, Phase, Problem, Progress, SegmentEntry, Snapshot,
    SnapshotId, Statistics, StoreMode, Survey, Verification,
};
pub use warpseek_ngram::{Algorithm as NgramAlgorithm, Misses, NgramError, VerifyCounts};
pub use warpseek_sched::service::{Counts as ServiceCounts, ServiceStatus, largest_cohort};
pub use warpseek_sched::{
    CacheCounts as ResultCacheCounts, HeapBytes, Key as ResultKey, Lookup, ResultCache,
    calibrate::Calibration,
};
pub use warpseek_text::{
    Analyzer, Attribute, AttributeKind, AttributeValue, Chain, FieldAnalyzer, FieldId, FieldNames,
    FileQuery, Format, GramConfig, Language, MAX_ATTRIBUTES, MAX_FIELD_NAME_BYTES,
    MAX_KEYWORD_BYTES, MAX_SOURCE_PARTS, MAX_TEXT_FIELDS, OwnedDocument as Document, QueryReader,
    STATIC_FIELD, Schema, SchemaConfig, Scratch, Selection, Snippet, StopWords, TextError,
    TextField, Tokens, TopicPart, Unit, Unknown, format_date, parse_date, snippet,
};

/// The CPU and the GPUs of this machine, and how fast they copy.
pub mod devices {
    pub use crate::calibration::cpu_model;
    pub use warpseek_cuda::kernels::copy::bandwidth;
    pub use warpseek_cuda::{Device, DeviceError, DeviceInfo, list_devices};
}

/// Evaluation of runs against judgements, as trec_eval does it.
pub mod eval {
    pub use warpseek_eval::*;
}

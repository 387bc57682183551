//! warpseek is a library for exact text search on CPUs and NVIDIA GPUs. It ranks documents with
//! BM25 and its relatives, or by learned sparse vectors, and returns the same hits with the same
//! scores on every device.
//!
//! Four types do most of the work. An [`Index`] is a directory on disk. An [`IndexWriter`] adds
//! and deletes documents and commits the changes. A [`Searcher`] answers [`Request`]s over a
//! snapshot of the index, one or many at a time and from any number of threads, and returns a
//! [`Response`] to each.
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
//! # Finding your way
//!
//! **Building and changing an index**
//!
//! | to | use |
//! |---|---|
//! | build an index from files: JSONL, CSV, Parquet, TREC... | [`Index::build`], [`IndexOptions`] |
//! | build an index from documents that the program generates | [`Index::build_from_documents`] |
//! | define text fields and attributes | [`IndexOptions::schema`], [`infer_schema`] |
//! | add and delete documents in one commit | [`IndexWriter`] |
//! | write single documents durably from many threads | [`Index::live`], [`LiveOptions`] |
//! | merge, verify or inspect an index | [`Index::merge`], [`Index::verify`], [`Index::inspect`] |
//! | find files that are damaged while they are open | [`Scrubber`], [`Snapshot::verify_again`] |
//! | split a large collection into several indexes | [`Index::survey`], [`Index::build_part`] |
//! | add documents to such a collection | [`Index::survey_added`], [`Index::add_part`] |
//!
//! **Searching**
//!
//! | to | use |
//! |---|---|
//! | answer one request | [`Searcher::search`] |
//! | answer thousands of requests | [`Searcher::search_batch`], [`Searcher::search_arrays`] |
//! | serve requests with deadlines, on the CPU and a GPU together | [`Searcher::service`] |
//! | choose ranking, device, algorithm and threads | [`SearcherOptions`] |
//! | search in fields, require or exclude words | [`QueryInput::Expression`], [`query::Node`] |
//! | restrict a search to some documents | [`Request::filter`], [`Request::among`] |
//! | sort hits by attributes, and fetch the next page | [`Request::sort`], [`Request::after`] |
//! | count matches by attribute | [`Request::facets`] |
//! | limit the time of a search, or cancel it | [`Request::deadline`], [`Request::cancelled_by`] |
//! | see commits that were made since | [`Searcher::refresh`] |
//!
//! **Understanding and evaluating results**
//!
//! | to | use |
//! |---|---|
//! | explain the score of a document | [`Response::explain`] |
//! | learn which device and algorithm would answer, and why | [`Searcher::decide`] |
//! | measure the steps of a search | [`Searcher::search_traced`] |
//! | evaluate runs against judgements | [`eval`] |
//!
//! **Other kinds of search**
//!
//! | to | use |
//! |---|---|
//! | find misspelt phrases, in query or text | [`IndexOptions::grams`], [`NgramSearcher`] |
//! | find test items that occur in a training corpus | [`contamination`] |
//! | build a dictionary of the words of documents | [`Vocabulary`], [`Dictionary`] |
//!
//! # Exact results
//!
//! Within a query, scores are integers, and engines only add them. Every device, algorithm,
//! codec, number of threads, batch size and segment layout therefore returns the same hits in the
//! same order (descending score, then ascending document id) with the same score bits. Quantized
//! indexes and some algorithms are approximate by design; [`Searcher::is_approximate`] tells.
//!
//! A search that reaches its deadline returns what it has found. [`Response::coverage`] tells
//! which documents were searched, and the response is exact for these.
//!
//! # Devices
//!
//! By default the CPU answers queries. With [`DeviceChoice::Cuda`] a GPU does, and opening a
//! searcher fails if there is none. With [`DeviceChoice::Auto`] the library chooses a device for
//! each batch by estimated cost; if the GPU fails, the CPU answers, and the library tries the GPU
//! again later. [`SearcherOptions::on_notice`] reports such events. CUDA is not required to build
//! the library, nor to run it without a GPU.
//!
//! # Threads
//!
//! A [`Searcher`] can be shared between threads. Cloning it is cheap, and clones share their
//! state. The worker threads of searchers live as long as the process.
//!
//! Only one writer at a time can change an index, also across processes. Writers never disturb
//! searchers: each searcher keeps the snapshot that it opened until it is refreshed.

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
/// Query trees, and the parser for query strings.
pub use warpseek_exec::query;
pub use warpseek_exec::{
    Answer, Answers, Cancel, Choice, CollectionStatistics, Context, Coverage, Estimate, ExecError,
    Explanation, Fault, FieldExplanation, Limit, Mode, Offer, Plan, PlanTerm, Pool, Query,
    QueryTerm, Ranking, RankingFunction, Rule, ScorePart, ShapeClass, TermExplanation, Work,
    frequencies,
};
pub use warpseek_exec_cpu::Algorithm as CpuAlgorithm;
pub use warpseek_exec_gpu::{CacheCounts, GpuLists, Loading, Residency};
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

/// Information about the CPU and the GPUs of this machine, and their copying speed.
pub mod devices {
    pub use crate::calibration::cpu_model;
    pub use warpseek_cuda::kernels::copy::bandwidth;
    pub use warpseek_cuda::{Device, DeviceError, DeviceInfo, list_devices};
}

/// Evaluation of runs against judgements, with the measures of trec_eval.
pub mod eval {
    pub use warpseek_eval::*;
}

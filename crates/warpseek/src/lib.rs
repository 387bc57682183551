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
//! The root has the types that most programs need. Everything else is in a module: what concerns
//! indexes in [`mod@index`] and [`inspect`], what a request consists of in [`query`], what becomes
//! of it in [`plan`] and [`response`], documents in [`text`] and [`schema`], choices in
//! [`options`], and the rest under the name of its subject.
//!
//! **Building and changing an index**
//!
//! | to | use |
//! |---|---|
//! | build an index from files: JSONL, CSV, Parquet, TREC... | [`Index::build`], [`IndexOptions`] |
//! | build an index from documents that the program generates | [`Index::build_from_documents`] |
//! | define text fields and attributes | [`IndexOptions::schema`], [`schema::infer_schema`] |
//! | add and delete documents in one commit | [`IndexWriter`] |
//! | write single documents durably from many threads | [`Index::live`], [`LiveOptions`] |
//! | merge, verify or inspect an index | [`Index::merge`], [`Index::verify`], [`Index::inspect`] |
//! | find damage in files that are open | [`index::Scrubber`], [`Snapshot::verify_again`] |
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
//! | build a dictionary of the words of documents | [`vocabulary`] |
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

mod calibration;
pub mod contamination;
mod costs;
pub mod devices;
mod engines;
mod error;
pub mod gpu;
pub mod index;
pub mod inspect;
pub mod ngram;
mod opened;
pub mod options;
pub mod plan;
pub mod query;
mod repeats;
pub mod research;
pub mod response;
pub mod schema;
mod searcher;
pub mod service;
pub mod text;
pub mod vocabulary;

pub use error::{Error, Result};
pub use index::{Index, IndexWriter, LiveIndex, LiveOptions, Progress, Snapshot};
pub use ngram::NgramSearcher;
pub use options::{DeviceChoice, IndexOptions, SearcherOptions};
pub use query::{Mode, QueryInput, Ranking, RankingFunction, Request};
pub use response::{Hit, Response};
pub use schema::Schema;
pub use searcher::Searcher;
pub use service::{Service, ServiceError, ServiceOptions};
pub use text::{Analyzer, Document};
pub use warpseek_core::limits;

/// Evaluation of runs against judgements, with the measures of trec_eval.
pub mod eval {
    pub use warpseek_eval::*;
}

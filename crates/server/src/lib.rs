//! `warpseek serve`: the library over HTTP, for clients that exist.
//!
//! A request passes `http` (keys, limits, how answers are written) and comes to a handler of the `facade` (Elasticsearch's routes), of `retrieve` or of `native` (`/v1`). Handlers do no work on threads of the
//! asynchronous runtime: `app` has gates that admit work to blocking threads. An index that is open is a `collection`; all of them are the `catalogue`. `mapping` says what its fields are, `dsl` translates queries, `search`
//! asks the library and shows hits. `page` is for people, and asks `native`. `remote` answers for a collection on other machines, whoever asks those. Errors become status codes in `error` alone.
#![forbid(unsafe_code)]

mod app;
mod elasticsearch;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod indexes;
mod json;
mod mcp;
mod native;
mod operations;
mod page;
mod remote;
mod retrieve;
mod server;

pub use operations::check::check;
pub use operations::config::{
    ClusterSettings, Config, Cors, Device, Limits, LogFormat, Scrub, Snapshots, Timeouts, TlsFiles,
};
pub use operations::log::{flush as flush_log, start as start_log};
pub use remote::{Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch};
pub use server::{ServeError, Server};

//! `warpseek serve`: the library over HTTP, compatible with existing clients.
//!
//! A request passes `http` (keys, limits, serialization) and reaches a handler of `facade`
//! (Elasticsearch's routes), `retrieve` or `native` (`/v1`). Handlers do no work on threads of
//! the asynchronous runtime: the gates of `app` admit work to blocking threads. A `collection` is
//! an open index; the `catalogue` holds all of them. `mapping` defines the fields, `dsl`
//! translates queries, and `search` calls the library and shows hits. `page` is the web page for
//! people and uses `native`. `remote` answers for a collection on other machines through an
//! implementation that the caller supplies. Only `error` turns errors into status codes.
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
pub use server::{ClusterFront, ServeError, Server};
pub use warpseek_front::{
    Limits as ConnectionLimits, Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits,
    RemoteSearch,
};

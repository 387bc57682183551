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

mod aliases;
mod app;
mod arrow;
mod caller;
mod catalogue;
mod check;
mod collection;
mod config;
mod connections;
mod contexts;
mod dates;
mod direct;
mod dsl;
mod error;
mod facade;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod http;
mod json;
mod keys;
mod load;
mod log;
mod mapping;
mod mcp;
mod names;
mod native;
mod ngrams;
mod openapi;
mod origin;
mod page;
mod remote;
mod retrieve;
mod search;
mod server;
mod snapshots;
mod tasks;
mod telemetry;

pub use check::check;
pub use config::{
    ClusterSettings, Config, Cors, Device, Limits, LogFormat, Scrub, Snapshots, Timeouts, TlsFiles,
};
pub use log::{flush as flush_log, start as start_log};
pub use remote::{Remote, RemoteAnswer, RemoteFailure, RemoteFuture, RemoteLimits, RemoteSearch};
pub use server::{ServeError, Server};

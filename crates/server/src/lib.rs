//! `warpseek serve`: the library over HTTP, compatible with existing clients.
//!
//! The modules, in the order in which a request passes them:
//!
//! - `server` starts a server, opens the indexes, assembles all routes, and shuts down.
//! - `http` has everything that is independent of an interface. `connections` receives requests
//!   from the crate `front`, `direct` lets searches of one index bypass the router, `exchange`
//!   frames every request (`origin`, `keys`, options before it; metrics and the log after it),
//!   `call` reads bodies, `admission` limits the work at a time, and `answer` serializes answers.
//! - `elasticsearch`, `native` (`/v1`), `retrieve`, `mcp` and `page` are the interfaces, each with
//!   its routes. `elasticsearch` also has what the others share: `mapping` defines fields, `dsl`
//!   translates queries to query trees, and `search` plans and runs searches.
//! - `indexes` has the `catalogue` of open indexes, their aliases, contexts, tasks and snapshots.
//! - `operations` has settings, the log, metrics, and the description of the API.
//!
//! `app` is the state that requests share; handlers use it to run their work on blocking threads.
//! `warpseek_front::Remote` is the trait through which a server answers for a collection on other
//! machines. `error` alone decides which error has which status code, and `json` checks bodies.
//! Files do not use each other in cycles: interfaces use `app`, and no file that `app` uses depends
//! on `app`.
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

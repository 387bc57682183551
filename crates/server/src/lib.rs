//! `warpseek serve`: the library over HTTP, for clients that exist.
//!
//! A request passes `http` (keys, limits, how answers are written) and comes to a handler of the `facade` (Elasticsearch's routes), of `retrieve` or of `native` (`/v1`). Handlers do no work on threads of the
//! asynchronous runtime: `app` has gates that admit work to blocking threads. An index that is open is a `collection`; all of them are the `catalogue`. `mapping` says what its fields are, `dsl` translates queries, `search`
//! asks the library and shows hits. Errors become status codes in `error` alone.
#![forbid(unsafe_code)]

mod app;
mod catalogue;
mod collection;
mod config;
mod dsl;
mod error;
mod facade;
mod http;
mod keys;
mod mapping;
mod names;
mod native;
mod retrieve;
mod scrolls;
mod search;
mod server;
mod telemetry;

pub use config::{Config, Device, Limits, LogFormat};
pub use server::{ServeError, Server};

//! Every verb, end to end, as a user runs it: a file a topic.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod collections;
mod errors;
mod gpu;
mod index;
mod interrupt;
mod looks;
mod machines;
mod order;
mod quantize;
mod run_eval;
mod search;
mod tools;
mod update;

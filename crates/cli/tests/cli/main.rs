//! Every command, end to end, as a user runs it; one file per topic.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod cluster;
mod collections;
mod devices;
mod dictionary;
mod errors;
mod gpu;
mod index;
mod input;
mod interrupt;
mod looks;
mod ngram;
mod order;
mod phrases;
mod plan;
mod quantize;
mod queries;
mod reproduce;
mod run_eval;
mod schema;
mod search;
mod static_scores;
mod tools;
mod update;
mod weights;
mod write;

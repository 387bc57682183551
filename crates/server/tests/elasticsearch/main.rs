//! Tests of the routes of Elasticsearch beyond `http.rs`, and of `/mcp`, in one program that is
//! linked once.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod aggregations;
mod aliases;
mod clauses;
mod compatible;
mod mcp;
mod numbers;
mod objects;
mod options;
mod phrases;
mod points_in_time;
mod scores;
mod strict;
mod updates;
mod values;

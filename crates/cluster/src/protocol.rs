//! The messages between aggregator and nodes, and the service that exchanges them.
//!
//! `proto/cluster.proto` is the contract and documents every message and field. The types are
//! written by hand, so that a build needs no compiler of protocols; a test compares them with the
//! contract.
#![allow(missing_docs)]

mod service;
#[cfg(test)]
mod tests;

pub(crate) use service::{Shards, ShardsClient, ShardsServer};

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct DescribeRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DescribeResponse {
    #[prost(string, tag = "1")]
    pub(crate) program: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) shards: Vec<ShardDescription>,
    #[prost(uint32, tag = "3")]
    pub(crate) busy: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) capacity: u32,
    #[prost(bool, tag = "5")]
    pub(crate) draining: bool,
    #[prost(message, repeated, tag = "6")]
    pub(crate) damaged: Vec<DamagedShard>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DamagedShard {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) version: u64,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ShardDescription {
    #[prost(message, optional, tag = "1")]
    pub(crate) shard: Option<Shard>,
    #[prost(uint64, tag = "2")]
    pub(crate) documents: u64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) fields: Vec<FieldStatistics>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) settings: Vec<u8>,
    #[prost(uint64, tag = "5")]
    pub(crate) live: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Shard {
    #[prost(uint32, tag = "1")]
    pub(crate) number: u32,
    #[prost(uint64, tag = "2")]
    pub(crate) version: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) snapshot: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct FieldStatistics {
    #[prost(uint64, tag = "1")]
    pub(crate) documents: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) tokens: u64,
    #[prost(fixed32, tag = "3")]
    pub(crate) max_static: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Term {
    #[prost(uint32, tag = "1")]
    pub(crate) field: u32,
    #[prost(string, tag = "2")]
    pub(crate) term: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FrequenciesRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) shard: Option<Shard>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) terms: Vec<Term>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FrequenciesResponse {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) documents: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) shard: Option<Shard>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) fields: Vec<FieldStatistics>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) terms: Vec<Term>,
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) documents: Vec<u64>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) queries: Vec<Query>,
    #[prost(uint64, tag = "6")]
    pub(crate) deadline: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Mode {
    Or = 0,
    And = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Query {
    #[prost(oneof = "Input", tags = "1, 2, 3")]
    pub(crate) input: Option<Input>,
    #[prost(enumeration = "Mode", tag = "4")]
    pub(crate) mode: i32,
    #[prost(uint32, tag = "5")]
    pub(crate) k: u32,
    #[prost(bool, tag = "6")]
    pub(crate) count: bool,
    #[prost(uint64, tag = "7")]
    pub(crate) count_to: u64,
    #[prost(message, optional, tag = "8")]
    pub(crate) ranking: Option<Ranking>,
    #[prost(message, optional, tag = "9")]
    pub(crate) among: Option<Ids>,
    #[prost(string, tag = "10")]
    pub(crate) filter: String,
    #[prost(sint32, tag = "11")]
    pub(crate) scale: i32,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Input {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(string, tag = "2")]
    Expression(String),
    #[prost(message, tag = "3")]
    Terms(Terms),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Terms {
    #[prost(message, repeated, tag = "1")]
    pub(crate) terms: Vec<Term>,
    #[prost(double, repeated, tag = "2")]
    pub(crate) weights: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ids {
    #[prost(string, repeated, tag = "1")]
    pub(crate) ids: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ranking {
    #[prost(string, tag = "1")]
    pub(crate) function: String,
    #[prost(double, tag = "2")]
    pub(crate) k1: f64,
    #[prost(double, tag = "3")]
    pub(crate) b: f64,
    #[prost(double, tag = "4")]
    pub(crate) static_weight: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SearchResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) answers: Vec<Answer>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(uint32, repeated, tag = "1")]
    pub(crate) documents: Vec<u32>,
    #[prost(fixed32, repeated, tag = "2")]
    pub(crate) scores: Vec<u32>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) ids: Vec<String>,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) matches: Option<u64>,
    #[prost(uint64, tag = "5")]
    pub(crate) searched: u64,
    #[prost(bool, tag = "6")]
    pub(crate) complete: bool,
    #[prost(uint32, tag = "7")]
    pub(crate) failure: u32,
    #[prost(string, tag = "8")]
    pub(crate) reason: String,
}

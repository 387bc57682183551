//! Tests of a server in operation: slow clients, certificates, snapshots, folders that other
//! programs change, and hostile requests.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod answer_cache;
mod arrow;
mod cluster_front;
mod cors;
mod damage;
mod ending;
mod hostile;
mod hosts;
mod limits;
mod native;
mod openapi;
mod raw;
mod reload;
mod slow_clients;
mod snapshots;
mod static_scores;
mod tls;

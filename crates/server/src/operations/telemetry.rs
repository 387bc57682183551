//! Metrics for Prometheus and the log of slow queries.

pub(crate) mod counters;
pub(crate) mod exposition;
pub(crate) mod search_log;

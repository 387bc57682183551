//! Content types of requests and answers.

pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_LINES: &str = "application/x-ndjson";
pub(crate) const TEXT: &str = "text/plain";
pub(crate) const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

//! Requests to the server.

use warpseek_server::fuzzing;

/// The body of a search, in the query language of Elasticsearch; the same JSON is also a query alone, a mapping, and a document, whose source must come back as it was.
pub fn request_body(data: &[u8]) {
    fuzzing::body(data);
}

/// Lines of a bulk request, and of a multi-search.
pub fn request_lines(data: &[u8]) {
    fuzzing::lines(data);
}

/// The query string of a search.
pub fn request_options(data: &[u8]) {
    fuzzing::options(data);
}

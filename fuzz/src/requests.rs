//! Requests to the server.

use warpseek_front::Host;
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

/// A name or address with a port, as `Host` has it, or an origin. A host has no other characters than names and addresses have, is the same in capitals, and is the host of its own origin.
pub fn host(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let read = Host::parse(&text);
    let origin = Host::of_origin(&format!("http://{text}"));
    assert_eq!(read.is_some(), origin.is_some());
    if let (Some(host), Some(origin)) = (&read, &origin) {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
        assert!(text.bytes().all(is_plain));
        assert_eq!(Host::parse(&text.to_ascii_uppercase()).as_ref(), Some(host));
        assert!(host.is_origin(origin));
        assert_eq!(host.is_loopback(), origin.is_loopback());
    }
    if let Some((_, rest)) = text.split_once("://") {
        assert!(Host::of_origin(&text).is_none() || Host::parse(rest).is_some());
    }
}

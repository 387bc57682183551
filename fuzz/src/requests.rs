//! Targets for requests to the server.

use warpseek_front::Host;
use warpseek_server::fuzzing;

/// Checks JSON as the body of a search in the query language of Elasticsearch, and also as a
/// single query, a mapping, and a document, whose source must be returned unchanged.
pub fn request_body(data: &[u8]) {
    fuzzing::body(data);
}

/// Checks the lines of a bulk request and of a multi-search.
pub fn request_lines(data: &[u8]) {
    fuzzing::lines(data);
}

/// Checks the query string of a search.
pub fn request_options(data: &[u8]) {
    fuzzing::options(data);
}

/// Checks a name or address with a port, as in a `Host` header, or an origin. A host must have
/// only the characters of names and addresses, be the same in capitals, and be the host of its
/// own origin.
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

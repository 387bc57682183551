//! API keys: an admin key allows everything, a read-only key searching and reading.

use std::path::Path;

use axum::http::{HeaderMap, Method};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Failure, Kind};

/// Minimum length of a key in bytes.
const MIN_KEY_BYTES: usize = 16;

/// The keys of a server. Without keys, every request is allowed.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    granted: Vec<(Access, String)>,
    /// A key that clients may have but that is not valid for this server, and the reason to report.
    foreign: Option<(String, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Access {
    Read,
    Admin,
}

impl Keys {
    /// Reads a file with lines `admin KEY` and `read KEY`, ignoring blank lines and lines that
    /// begin with #.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|what| format!("{}: {what}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what: &str| format!("line {}: {what}", i + 1);
            let (access, key) = match line.split_once(char::is_whitespace) {
                Some(("admin", key)) => (Access::Admin, key.trim()),
                Some(("read", key)) => (Access::Read, key.trim()),
                _ => return Err(wrong("write `admin KEY` or `read KEY`")),
            };
            if key.len() < MIN_KEY_BYTES || key.contains(char::is_whitespace) {
                let what =
                    format!("a key must have at least {MIN_KEY_BYTES} characters and no blanks");
                return Err(wrong(&what));
            }
            keys.push((access, key.to_owned()));
        }
        match keys.is_empty() {
            true => Err("the file has no keys; add a line `admin KEY`".into()),
            false => Ok(Keys { granted: keys, foreign: None }),
        }
    }

    /// Creates the keys of a server whose clients only search and read. `foreign` is a key that
    /// clients may have but that is not valid for this server, with the reason to report.
    pub(crate) fn of_readers(key: Option<String>, foreign: Option<(String, &'static str)>) -> Self {
        Keys { granted: key.into_iter().map(|key| (Access::Read, key)).collect(), foreign }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_empty()
    }

    /// Refuses a request whose key does not allow it.
    pub(crate) fn check(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let given = candidates(headers);
        let granted =
            self.granted.iter().filter(|(_, key)| given.iter().any(|given| same(given, key)));
        match granted.map(|(access, _)| *access).max() {
            Some(access) if access >= needed(method, path) => Ok(()),
            Some(_) => {
                let reason = "this key is read-only; use an admin key to write";
                Err(Failure::new(Kind::Forbidden, reason))
            }
            None if given.is_empty() => {
                let reason = "missing authentication credentials; send `Authorization: Bearer KEY`, `ApiKey KEY`, Basic with the key as password, or the header `api-key`";
                Err(Failure::new(Kind::Unauthenticated, reason))
            }
            None => {
                let foreign = self.foreign.as_ref();
                let foreign = foreign.filter(|(key, _)| given.iter().any(|given| same(given, key)));
                let reason = foreign.map_or("the key is not valid for this server", |(_, why)| why);
                Err(Failure::new(Kind::Unauthenticated, reason))
            }
        }
    }
}

/// Returns the access that a request needs. Requests not known to read count as writes.
pub(crate) fn needed(method: &Method, path: &str) -> Access {
    // Listing them needs an admin key, too: readers have no business with snapshots.
    if path.starts_with("/v1/snapshots") {
        return Access::Admin;
    }
    if method == Method::GET || method == Method::HEAD {
        return Access::Read;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_post = method == Method::POST;
    // Index names and document ids are arbitrary, so a word has a meaning only in its position.
    let reads = match parts.as_slice() {
        ["retrieve" | "mcp"] => is_post,
        ["v1", "indexes", _, "search" | "batch" | "count" | "ngram" | "analyze" | "refresh"] => {
            is_post
        }
        ["v1", "indexes", _, "explain", _] => is_post,
        // The second paths are those of a server without indexes.
        ["v1", "cluster", "search" | "batch"] | ["v1", "search" | "batch"] => is_post,
        // These close contexts of other clients, which needs an admin key.
        ["_search", "scroll" | "point_in_time", "_all"] => false,
        ["_search", "scroll", ..] | ["_search", "point_in_time"] | ["_pit"] => {
            is_post || method == Method::DELETE
        }
        [_, "_search", "point_in_time"] | [_, "_pit"] => is_post,
        ["_validate", "query"] | [_, "_validate", "query"] => is_post,
        [_, "_explain", _] => is_post,
        [call] | [_, call] => is_post && READS.contains(call),
        _ => false,
    };
    match reads {
        true => Access::Read,
        false => Access::Admin,
    }
}

/// Names of calls of the root or of an index that only read although they use POST.
const READS: [&str; 7] =
    ["_search", "_msearch", "_count", "_mget", "_analyze", "_refresh", "_field_caps"];

/// Returns the keys that the headers of a request may contain.
fn candidates(headers: &HeaderMap) -> Vec<String> {
    let mut given = Vec::new();
    if let Some(key) = headers.get("api-key").and_then(|value| value.to_str().ok()) {
        given.push(key.trim().to_owned());
    }
    let header = headers.get("authorization").and_then(|value| value.to_str().ok());
    let Some((scheme, value)) = header.and_then(|value| value.split_once(' ')) else {
        return given;
    };
    let value = value.trim();
    let decoded = || {
        let bytes = STANDARD.decode(value).ok()?;
        String::from_utf8(bytes).ok()
    };
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => given.push(value.to_owned()),
        "apikey" => {
            given.push(value.to_owned());
            // Elasticsearch's clients send base64 of `id:key`.
            given.extend(decoded().and_then(|pair| Some(pair.split_once(':')?.1.to_owned())));
        }
        "basic" => {
            given.extend(decoded().and_then(|pair| Some(pair.split_once(':')?.1.to_owned())));
        }
        _ => {}
    }
    given
}

/// Compares keys in a time that does not depend on where they differ.
fn same(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |sum, (x, y)| sum | (x ^ y));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIN: &str = "0123456789abcdef-admin";
    const READ: &str = "0123456789abcdef-read";

    fn keys() -> Keys {
        Keys::parse(&format!("# keys\nadmin {ADMIN}\n\nread {READ}\n")).unwrap()
    }

    fn ask(method: &str, path: &str, authorization: &str) -> u16 {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert("authorization", authorization.parse().unwrap());
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        keys().check(&method, path, &headers).map_or_else(|failure| failure.status(), |()| 200)
    }

    #[test]
    fn admin_may_write_and_readers_may_not() {
        let bearer = |key: &str| format!("Bearer {key}");
        assert_eq!(ask("PUT", "/books", &bearer(ADMIN)), 200);
        assert_eq!(ask("PUT", "/books", &bearer(READ)), 403);
        assert_eq!(ask("PUT", "/books", ""), 401);
        assert_eq!(ask("PUT", "/books", &bearer("0123456789abcdef")), 401);
        for path in [
            "/books/_search",
            "/_msearch",
            "/retrieve",
            "/_search/scroll",
            "/v1/indexes/a/search",
            "/v1/indexes/a/count",
            "/v1/indexes/a/refresh",
            "/v1/indexes/a/ngram",
            "/v1/indexes/a/explain/1",
            "/v1/cluster/search",
            "/v1/cluster/batch",
            "/v1/search",
            "/v1/batch",
            "/mcp",
            "/a/_pit",
            "/a/_search/point_in_time",
            "/a/_validate/query",
        ] {
            assert_eq!(ask("POST", path, &bearer(READ)), 200, "{path}");
        }
        for path in [
            "/_bulk",
            "/books/_doc",
            "/books/_delete_by_query",
            "/books/_doc/_search",
            "/v1/indexes/a/documents/search",
            "/v1/indexes/a/documents",
            "/books/_update/_search",
            "/books/_alias/_search",
            "/_aliases",
            "/books/_forcemerge",
            "/search",
        ] {
            assert_eq!(ask("POST", path, &bearer(READ)), 403, "{path}");
        }
        // Indexes that have the names of calls.
        for path in ["/search", "/batch", "/retrieve", "/scroll"] {
            assert_eq!(ask("PUT", path, &bearer(READ)), 403, "{path}");
            assert_eq!(ask("DELETE", path, &bearer(READ)), 403, "{path}");
        }
        for path in ["/_pit", "/_search/scroll", "/_search/point_in_time"] {
            assert_eq!(ask("DELETE", path, &bearer(READ)), 200, "{path}");
        }
        assert_eq!(ask("DELETE", "/_search/point_in_time/_all", &bearer(READ)), 403);
        assert_eq!(ask("DELETE", "/_search/scroll/_all", &bearer(READ)), 403);
        assert_eq!(ask("GET", "/metrics", ""), 401);
        for (method, path) in [("GET", "/v1/snapshots"), ("POST", "/v1/snapshots/a/restore")] {
            assert_eq!(ask(method, path, &bearer(READ)), 403, "{path}");
            assert_eq!(ask(method, path, &bearer(ADMIN)), 200, "{path}");
        }
    }

    #[test]
    fn keys_come_in_several_forms() {
        let pair = STANDARD.encode(format!("elastic:{ADMIN}"));
        for header in [
            format!("ApiKey {ADMIN}"),
            format!("ApiKey {pair}"),
            format!("Basic {pair}"),
            format!("bearer {ADMIN}"),
        ] {
            assert_eq!(ask("DELETE", "/books", &header), 200, "{header}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("api-key", ADMIN.parse().unwrap());
        assert!(keys().check(&Method::DELETE, "/books", &headers).is_ok());
        assert_eq!(ask("DELETE", "/books", "Basic !!!"), 401);
    }

    #[test]
    fn bad_files_are_refused() {
        for text in [
            "",
            "# nothing\n",
            "admin short\n",
            "root 0123456789abcdef\n",
            "admin 0123456789abcdef more\n",
        ] {
            assert!(Keys::parse(text).is_err(), "{text:?}");
        }
    }
}

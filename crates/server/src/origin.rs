//! Pages that others serve must not reach the server through a visitor's browser: without keys they could write, as the browser is on the right machine.

use axum::http::{HeaderMap, Method, header};

use crate::error::{Failure, Kind};

/// Refuses what pages of other sites ask for. Pages of this machine, of the server itself, and of listed origins may; programs send no `Origin`. What only reads needs no refusal, since browsers do not show its answer to such a page.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    listed: &[String],
) -> Result<(), Failure> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let origin = origin.to_str().unwrap_or("null");
    let address = origin.strip_prefix("http://").or(origin.strip_prefix("https://"));
    let host = address.and_then(|address| match address.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => address.split(':').next(),
    });
    let is_own = address.is_some()
        && headers.get(header::HOST).and_then(|host| host.to_str().ok()) == address;
    let is_listed = listed.iter().any(|listed| listed == "*" || listed == origin);
    match host {
        Some("localhost" | "127.0.0.1" | "::1") => Ok(()),
        _ if is_own || is_listed => Ok(()),
        _ => Err(Failure::new(
            Kind::Forbidden,
            "pages of this Origin may not use the server; cors.origins lists those that may",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_are_refused() {
        let asked = |method: Method, origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            headers.insert(header::HOST, "search.example:9200".parse().unwrap());
            check(&method, &headers, &["https://listed.example".to_owned()]).is_ok()
        };
        assert!(check(&Method::POST, &HeaderMap::new(), &[]).is_ok());
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1",
            "https://[::1]:8000",
            "http://search.example:9200",
            "https://listed.example",
        ] {
            assert!(asked(Method::POST, origin), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "null",
            "http://search.example",
            "ftp://localhost",
            "https://listed.example.org",
        ] {
            assert!(!asked(Method::POST, origin) && !asked(Method::DELETE, origin), "{origin}");
            assert!(asked(Method::GET, origin), "{origin}");
        }
    }
}

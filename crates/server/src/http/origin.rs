//! Pages that others serve must not reach the server through a visitor's browser: without keys they could write, as the browser is on the right machine.

use axum::http::{HeaderMap, Method, header};
use warpseek_front::Host;

use crate::error::{Failure, Kind};

/// Refuses what pages of other sites ask for. Pages of this machine, of the server itself, and of listed origins may; programs send no `Origin`. What only reads needs no refusal, since browsers do not show its answer to such a page. (A page whose name points here is no
/// other site to the browser; it is refused for its name, before this, by `warpseek_front::Hosts`.)
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    listed: &[String],
) -> Result<(), Failure> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let own = headers.get(header::HOST).and_then(|host| Host::parse(host.to_str().ok()?));
    let may = |origin: &str| {
        let is_listed = listed.iter().any(|listed| listed == "*" || listed == origin);
        let host = Host::of_origin(origin);
        let is_own = host.as_ref().zip(own.as_ref()).is_some_and(|(of, own)| own.is_origin(of));
        is_listed || is_own || host.is_some_and(|host| Host::is_loopback(&host))
    };
    // Each, should there be more than one.
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match origins.all(|origin| may(origin.to_str().unwrap_or("null"))) {
        true => Ok(()),
        false => Err(Failure::new(
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
            "http://Search.example.:9200",
            "https://listed.example",
        ] {
            assert!(asked(Method::POST, origin), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "http://localhost:80@evil.example",
            "http://127.0.0.1:80@evil.example",
            "http://[::1]@evil.example",
            "http://[::1].evil.example",
            "http://search.example:9200@evil.example",
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

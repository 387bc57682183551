//! Protection from web pages of other origins. Without it, a page could write to a server without
//! keys through the browser of a visitor who can reach the server.

use axum::http::{HeaderMap, Method, header};
use warpseek_front::Host;

use crate::error::{Failure, Kind};

/// Refuses writing requests from pages of other origins. Allowed are pages of this machine, of
/// the server itself and of listed origins, and programs, which send no `Origin`. Requests that
/// only read need no refusal, since browsers do not show the answer to such a page. (To a
/// browser, a page whose host name resolves to this server is not of another origin;
/// `warpseek_front::Hosts` refuses its name before this check.)
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
        let is_own = host.as_ref().zip(own.as_ref()).is_some_and(|(host, own)| own.is_origin(host));
        is_listed || is_own || host.is_some_and(|host| Host::is_loopback(&host))
    };
    // Checks every header, should there be more than one.
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match origins.all(|origin| may(origin.to_str().unwrap_or("null"))) {
        true => Ok(()),
        false => Err(Failure::new(
            Kind::Forbidden,
            "pages of this Origin may not use the server; add it to cors.origins to allow them",
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

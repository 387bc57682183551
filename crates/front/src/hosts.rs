//! The host names that a server answers to, and parsing of `Host` and `Origin`.
//!
//! A web page can let its own name resolve to 127.0.0.1 (DNS rebinding). The browser then sends
//! the page's requests to a server on this machine and treats them as same-origin: the page can
//! read the answers, and `Origin` equals `Host`. Only the name in `Host` gives such a page away,
//! so the server compares it with a list before it looks at anything else in the request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};

/// The maximum number of characters of a name that an error repeats.
const SHOWN: usize = 60;

/// A domain name or IP address, with the port that follows it, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: Name,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// A domain name in lower case, without a trailing dot.
    Domain(String),
    Address(IpAddr),
}

impl Host {
    /// Parses `example.org`, `127.0.0.1:9200` or `[::1]:9200`. Case and a trailing dot do not
    /// matter. Returns `None` if the text contains a character that host names cannot have.
    ///
    /// ```
    /// use warpseek_front::Host;
    ///
    /// assert_eq!(Host::parse("LOCALHOST.:80"), Host::parse("localhost:80"));
    /// assert!(Host::parse("localhost:80@evil.example").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (Name::Address(IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)), port)
            }
            None => {
                let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                (Name::parse(name)?, port)
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            // An empty port after the colon is allowed.
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Host { name, port })
    }

    /// Parses an origin such as `https://example.org:8000`: the scheme `http` or `https` and a
    /// host, nothing else. The scheme's default port is dropped.
    pub fn of_origin(origin: &str) -> Option<Self> {
        let (scheme, host) = origin.split_once("://")?;
        let usual = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let Host { name, port } = Host::parse(host)?;
        Some(Host { name, port: port.filter(|port| *port != usual) })
    }

    /// Returns true if the host is this machine itself: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        match &self.name {
            Name::Domain(name) => name == "localhost",
            Name::Address(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Returns true if this `Host` of a request matches `origin`. If the origin has no port,
    /// ports 80 and 443 are ignored.
    pub fn is_origin(&self, origin: &Host) -> bool {
        let port = self.port.filter(|port| origin.port.is_some() || !matches!(port, 80 | 443));
        self.name == origin.name && port == origin.port
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Name::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_part = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !part.is_empty() && part.bytes().all(plain)
        };
        (name.len() <= 253 && name.split('.').all(is_part)).then_some(Name::Domain(name))
    }
}

/// The host names that a server answers to.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The address that the server listens on; `None` if it answers to every name.
    listen: Option<IpAddr>,
    /// Additional names and addresses.
    allowed: Vec<Name>,
}

impl Hosts {
    /// Collects the names for a server that listens on the address `listen`. They are the
    /// loopback names, the address itself (or every address, if the server listens on all of
    /// them), and `allowed_hosts`. A single `*` allows every name.
    ///
    /// A server that is `protected`, by keys or a certificate, answers to every name if
    /// `allowed_hosts` is empty: a page with another name has neither the key nor a certificate
    /// for that name.
    pub fn new(listen: IpAddr, allowed_hosts: &[String], protected: bool) -> Result<Self, String> {
        let is_open = match allowed_hosts {
            [] => protected,
            hosts => hosts.iter().any(|host| host == "*"),
        };
        if is_open {
            return match allowed_hosts.len() {
                0 | 1 => Ok(Hosts { listen: None, allowed: Vec::new() }),
                _ => Err("allowed_hosts: \"*\" allows every host; remove the others".to_owned()),
            };
        }
        let read = |host: &String| {
            let bare = host.parse::<Ipv6Addr>().ok().map(|address| Name::Address(address.into()));
            let name = bare.or_else(|| {
                Host::parse(host)
                    .filter(|parsed| parsed.port.is_none() && !host.ends_with(':'))
                    .map(|parsed| parsed.name)
            });
            let wrong = || {
                format!(
                    "allowed_hosts: {} is not a host; write it as search.example or 10.0.0.7, without scheme and port, or use \"*\" alone",
                    shown(host)
                )
            };
            name.ok_or_else(wrong)
        };
        let allowed = allowed_hosts.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Hosts { listen: Some(listen.to_canonical()), allowed })
    }

    /// Returns an error if a request is for a host other than the server's. Requests that name no
    /// host are admitted, because they do not come from a browser.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
        let Some(listen) = self.listen else { return Ok(()) };
        let of_uri = uri.authority().map(axum::http::uri::Authority::as_str);
        if let Some(host) = of_uri.filter(|host| !self.admits(listen, host)) {
            return Err(refusal(host));
        }
        // There should be one `Host` header. If there are more, all of them must be admitted.
        for host in headers.get_all(header::HOST) {
            let text = String::from_utf8_lossy(host.as_bytes());
            if !self.admits(listen, &text) {
                return Err(refusal(&text));
            }
        }
        Ok(())
    }

    fn admits(&self, listen: IpAddr, host: &str) -> bool {
        let Some(host) = Host::parse(host) else { return false };
        // A page loaded from an address has no name that could resolve to another machine.
        let is_listened = match &host.name {
            Name::Address(address) => listen.is_unspecified() || address.to_canonical() == listen,
            Name::Domain(_) => false,
        };
        host.is_loopback() || is_listened || self.allowed.contains(&host.name)
    }
}

fn refusal(host: &str) -> String {
    format!(
        "the request is for the host {}, which is not one of this server's; name it in allowed_hosts if it is",
        shown(host)
    )
}

/// Returns a name for use in a message, shortened if it is long.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}... ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admits(listen: &str, allowed: &[&str], host: &str) -> bool {
        let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
        let hosts = Hosts::new(listen.parse().unwrap(), &allowed, false).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        hosts.check(&Uri::from_static("/x"), &headers).is_ok()
    }

    #[test]
    fn only_names_of_this_machine_reach_a_server_on_loopback() {
        for host in [
            "localhost",
            "LocalHost:9200",
            "localhost.",
            "localhost.:9200",
            "localhost:",
            "127.0.0.1",
            "127.0.0.1:1",
            "127.8.9.1:65535",
            "[::1]",
            "[::1]:9200",
            "[0:0:0:0:0:0:0:1]:9200",
            "[::ffff:127.0.0.1]:9200",
        ] {
            assert!(admits("127.0.0.1", &[], host), "{host}");
            assert!(admits("::1", &[], host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:9200",
            "localhost.evil.example",
            "localhostevil",
            "evil-localhost",
            "evil.localhost",
            "localhost@evil.example",
            "localhost:80@evil.example",
            "localhost:9200:9200",
            "localhost:x",
            "localhost:65536",
            "localhost:+80",
            "localhost..",
            ".localhost",
            "localhost/",
            "local host",
            "localhost,evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1.nip.io",
            "[::1",
            "::1",
            "[::1]x",
            "[::1].evil.example",
            "[localhost]",
            "10.0.0.1",
            "0.0.0.0",
            "[fe80::1%25lo]",
        ] {
            assert!(!admits("127.0.0.1", &[], host), "{host}");
        }
    }

    #[test]
    fn addresses_and_listed_names_reach_a_server_that_others_reach() {
        assert!(admits("10.0.0.7", &[], "10.0.0.7:9200"));
        assert!(!admits("10.0.0.7", &[], "10.0.0.8:9200"));
        assert!(admits("0.0.0.0", &[], "10.0.0.8:9200") && admits("::", &[], "[2001:db8::1]"));
        assert!(!admits("0.0.0.0", &[], "search.example"));
        assert!(admits("0.0.0.0", &["Search.Example."], "search.example:9200"));
        assert!(!admits("0.0.0.0", &["search.example"], "search.example.evil.example"));
        assert!(!admits("0.0.0.0", &["search.example"], "a.search.example"));
        assert!(admits("127.0.0.1", &["2001:db8::1", "[2001:db8::2]"], "[2001:db8::2]:1"));
        assert!(admits("127.0.0.1", &["*"], "evil.example"));
    }

    #[test]
    fn a_request_is_refused_for_each_host_that_it_names() {
        let hosts = Hosts::new(Ipv4Addr::LOCALHOST.into(), &[], false).unwrap();
        let mut headers = HeaderMap::new();
        // Only clients other than browsers omit the header.
        assert!(hosts.check(&Uri::from_static("/"), &headers).is_ok());
        headers.append(header::HOST, "localhost".parse().unwrap());
        let absolute = Uri::from_static("http://evil.example/x");
        assert!(hosts.check(&absolute, &headers).is_err());
        headers.append(header::HOST, "evil.example".parse().unwrap());
        let reason = hosts.check(&Uri::from_static("/"), &headers).unwrap_err();
        assert!(
            reason.contains("allowed_hosts") && reason.contains("\"evil.example\""),
            "{reason}"
        );
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "a".repeat(5000).parse().unwrap());
        let reason = hosts.check(&Uri::from_static("/"), &headers).unwrap_err();
        assert!(reason.len() < 250 && reason.contains("5000 bytes"), "{reason}");
    }

    #[test]
    fn keys_and_certificates_stand_for_names_until_some_are_listed() {
        let evil = Uri::from_static("http://evil.example/");
        let refused = |allowed: &[&str], protected| {
            let allowed: Vec<String> = allowed.iter().map(|host| (*host).to_owned()).collect();
            let hosts = Hosts::new(Ipv4Addr::LOCALHOST.into(), &allowed, protected).unwrap();
            hosts.check(&evil, &HeaderMap::new()).is_err()
        };
        assert!(refused(&[], false) && !refused(&[], true));
        assert!(refused(&["a.example"], true) && !refused(&["*"], true) && !refused(&["*"], false));
    }

    #[test]
    fn what_is_no_host_cannot_be_listed() {
        for host in ["", "http://a", "a/b", "a:80", "a:", "[::1]:80", "a b", "a,b", "*.a", "a@b"] {
            let error =
                Hosts::new(Ipv4Addr::LOCALHOST.into(), &[host.to_owned()], false).unwrap_err();
            assert!(error.contains("allowed_hosts") && error.contains("search.example"), "{error}");
        }
        let both = ["*".to_owned(), "a".to_owned()];
        assert!(Hosts::new(Ipv4Addr::LOCALHOST.into(), &both, false).is_err());
    }

    #[test]
    fn origins_are_a_scheme_and_a_host() {
        let is_loopback = |origin| Host::of_origin(origin).is_some_and(|host| host.is_loopback());
        for origin in
            ["http://localhost:3000", "HTTP://LOCALHOST", "https://[::1]:8000", "http://127.0.0.1"]
        {
            assert!(is_loopback(origin), "{origin}");
        }
        for origin in [
            "http://localhost:80@evil.example",
            "http://localhost@evil.example",
            "http://localhost.evil.example",
            "http://localhost/",
            "http://localhost/@evil.example",
            "http://localhost?x",
            "http://localhost#x",
            "http://[::1].evil.example",
            "http://[::1]@evil.example",
            "http:// localhost",
            "http://localhost http://evil.example",
            "ftp://localhost",
            "file://localhost",
            "http:localhost",
            "localhost",
            "null",
            "",
        ] {
            assert!(!is_loopback(origin), "{origin}");
        }
        let same =
            |origin, host| Host::parse(host).unwrap().is_origin(&Host::of_origin(origin).unwrap());
        assert!(same("http://a.example:9200", "A.example:9200"));
        assert!(
            same("http://a.example", "a.example") && same("https://a.example", "a.example:443")
        );
        assert!(
            !same("http://a.example", "a.example:9200") && !same("http://a.example:1", "a.example")
        );
    }
}

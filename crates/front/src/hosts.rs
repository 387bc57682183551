//! Which names a server answers to, and what the addresses in `Host` and `Origin` say.
//!
//! A page can let its own name point to 127.0.0.1 (DNS rebinding). The browser then sends the page's requests to a server on this machine and takes them for requests of the page to itself: it shows answers to the page, and
//! `Origin` equals `Host`. Only the name in `Host` gives such a page away, so it is compared with a list before anything else of the request is looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, header};

/// The most characters of a name that an error repeats.
const SHOWN: usize = 60;

/// A name or address with the port that stands behind it, if one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    name: Name,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// In lower case, without a dot at the end.
    Domain(String),
    Address(IpAddr),
}

impl Host {
    /// Reads `example.org`, `127.0.0.1:9200` or `[::1]:9200`. Names compare in lower case and without a dot at the end; whatever has another character than those of names is none.
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
            // A colon without a port is allowed there.
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Host { name, port })
    }

    /// Reads an origin such as `https://example.org:8000`: a scheme of the web and a host, and nothing else. A port that is the scheme's is left out.
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

    /// Whether it is this machine, whoever asks.
    pub fn is_loopback(&self) -> bool {
        match &self.name {
            Name::Domain(name) => name == "localhost",
            Name::Address(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Whether the `Host` of a request is the one of its origin. One with the port of a scheme and one without are the same.
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

/// The names that a server answers to.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The address that is listened on; `None` if any name will do.
    listen: Option<IpAddr>,
    /// Further names and addresses.
    allowed: Vec<Name>,
}

impl Hosts {
    /// The names of a server that listens on an address: those of this machine, the address itself (each address, if it listens on all of them), and those that `allowed_hosts` lists. `*` alone allows every name. A server that is `protected`, by keys or a certificate, answers to
    /// every name as long as none is listed: a page with a name of its own has neither the key nor a certificate for that name.
    pub fn new(listen: IpAddr, allowed_hosts: &[String], protected: bool) -> Result<Self, String> {
        let is_open = match allowed_hosts {
            [] => protected,
            hosts => hosts.iter().any(|host| host == "*"),
        };
        if is_open {
            return match allowed_hosts.len() {
                0 | 1 => Ok(Hosts { listen: None, allowed: Vec::new() }),
                _ => Err("allowed_hosts: \"*\" allows every host, so it stands alone".to_owned()),
            };
        }
        let read = |host: &String| {
            let bare = host.parse::<Ipv6Addr>().ok().map(|address| Name::Address(address.into()));
            let name = bare.or_else(|| {
                Host::parse(host)
                    .filter(|of| of.port.is_none() && !host.ends_with(':'))
                    .map(|of| of.name)
            });
            let wrong = || {
                format!(
                    "allowed_hosts: {} is no host; write it as search.example or 10.0.0.7, without scheme and port, or use \"*\" alone",
                    shown(host)
                )
            };
            name.ok_or_else(wrong)
        };
        let allowed = allowed_hosts.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Hosts { listen: Some(listen.to_canonical()), allowed })
    }

    /// Refuses a request for a host that is not one of the server's. A request that names none is no browser's.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
        let Some(listen) = self.listen else { return Ok(()) };
        let of_uri = uri.authority().map(axum::http::uri::Authority::as_str);
        if let Some(host) = of_uri.filter(|host| !self.admits(listen, host)) {
            return Err(refusal(host));
        }
        // There may be one, and where there are more, no one is to be the one that is not looked at.
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
        // A page that was loaded from an address has no name that could point elsewhere.
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

/// A name as messages show it, however long it is.
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
        // No browser sends a request without it.
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

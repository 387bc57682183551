//! Encrypted connections, with certificates created by the tests.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use warpseek_server::{Config, Server};

use crate::common::start;

/// Writes a new certificate and its key, and returns the certificate.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// Sends a request to a server, trusting only this certificate.
fn get(url: &str, path: &str, trusted: &CertificateDer<'static>) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(url.trim_start_matches("https://"))?;
    let mut stream = StreamOwned::new(client, socket);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn settings(folder: &Path) -> [(&'static str, toml::Value); 2] {
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned().into();
    [("tls.certificate", file("cert.pem")), ("tls.key", file("key.pem"))]
}

#[test]
fn certificates_are_used_and_renewed_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let first = renew(folder.path());
    let server = start(&folder.path().join("data"), &settings(folder.path()));
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let ready = || get(&server.url, "/health", &first).unwrap().starts_with("HTTP/1.1 200 ");
    assert!((0..12_000).any(|_| ready() || {
        std::thread::sleep(Duration::from_millis(10));
        false
    }));
    // A client without TLS gets no answer, and one that trusts another certificate gets no
    // connection.
    let mut plain = TcpStream::connect(server.url.trim_start_matches("https://")).unwrap();
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let second = renew(folder.path());
    let renewed = || {
        (0..12_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            get(&server.url, "/health", &second).is_ok()
        })
    };
    assert!(renewed());
    assert!(get(&server.url, "/health", &first).is_err());

    // Invalid files change nothing.
    std::fs::write(folder.path().join("cert.pem"), "no certificate").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(get(&server.url, "/health", &second).is_ok());
    let third = renew(folder.path());
    assert!((0..12_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        get(&server.url, "/health", &third).is_ok()
    }));
}

#[test]
fn bad_files_are_named_at_start() {
    let folder = tempfile::tempdir().unwrap();
    renew(folder.path());
    let fails = || {
        let mut flags: BTreeMap<String, toml::Value> = BTreeMap::from([
            ("data".to_owned(), folder.path().join("data").to_string_lossy().into_owned().into()),
            ("listen".to_owned(), "127.0.0.1:0".into()),
        ]);
        flags.extend(settings(folder.path()).map(|(key, value)| (key.to_owned(), value)));
        match Server::start(Config::load(None, [], flags).unwrap()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it started"),
        }
    };
    let key = std::fs::read(folder.path().join("key.pem")).unwrap();
    std::fs::write(folder.path().join("key.pem"), "").unwrap();
    let error = fails();
    assert!(error.contains("key.pem") && error.contains("tls.key must be"), "{error}");
    // A key that belongs to another certificate.
    renew(folder.path());
    std::fs::write(folder.path().join("key.pem"), key).unwrap();
    let error = fails();
    assert!(error.contains("key.pem") && error.contains("tls.key must be"), "{error}");
    std::fs::write(folder.path().join("cert.pem"), "nothing").unwrap();
    let error = fails();
    assert!(error.contains("cert.pem") && error.contains("tls.certificate must be"), "{error}");
    std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
    assert!(fails().contains("cert.pem"));
}

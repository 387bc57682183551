//! Connections to an aggregator over HTTP: which are admitted, and for how long.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use common::{Collection, Running, documents};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::sync::oneshot;
use warpseek::IndexOptions;
use warpseek_cluster::{
    AggregatorOptions, Cluster, ClusterError, ConnectionLimits, HttpOptions, HttpServer, Security,
    Timeouts, Token,
};

const OF_NODES: &str = "the-token-of-all-nodes";
const OF_CLIENTS: &str = "the-token-of-clients";

/// An aggregator of one node that runs until it is dropped.
struct Aggregating {
    url: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ClusterError>>>,
}

impl Aggregating {
    fn start(nodes: &[Running], token: Option<Token>, options: HttpOptions) -> Self {
        let server = HttpServer::start(connect(nodes, token), "127.0.0.1:0", options).unwrap();
        let (url, (end, ended)) = (server.url(), oneshot::channel());
        let thread = std::thread::spawn(move || {
            server.run_until(async {
                let _ = ended.await;
            })
        });
        Aggregating { url, end: Some(end), thread: Some(thread) }
    }

    fn address(&self) -> &str {
        self.url.rsplit('/').next().unwrap()
    }

    fn get(&self, path: &str, token: Option<&str>) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(request(path, token).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Aggregating {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

fn request(path: &str, token: Option<&str>) -> String {
    let token = token.map_or(String::new(), |it| format!("authorization: Bearer {it}\r\n"));
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{token}connection: close\r\n\r\n")
}

fn token(text: &str) -> Option<Token> {
    Some(Token::new(text).unwrap())
}

fn connect(nodes: &[Running], token: Option<Token>) -> Cluster {
    let nodes = nodes.iter().map(|node| node.address.clone()).collect();
    let security = Security { token, ..Security::default() };
    Cluster::connect(AggregatorOptions { security, ..AggregatorOptions::new(nodes, 1) }).unwrap()
}

/// Starts a node with one shard.
fn node(token: Option<Token>) -> (Collection, Vec<Running>) {
    let collection = Collection::new(&documents(20), &[], &[], &IndexOptions::new());
    let security = Security { token, ..Security::default() };
    let node = Running::start_with(&[(0, &collection.shards[0])], security);
    (collection, vec![node])
}

/// Creates a certificate, with the files of it and of its key.
fn certificate(folder: &std::path::Path) -> (CertificateDer<'static>, (PathBuf, PathBuf)) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (made.cert.der().clone(), (certificate, key))
}

/// At most one connection may be open: another client is answered only after it is closed.
#[test]
fn a_head_that_never_ends_does_not_keep_others_from_being_answered() {
    let (_collection, nodes) = node(None);
    let timeouts = Timeouts { head_s: 1, idle_s: 1, ..Timeouts::default() };
    let connections = ConnectionLimits { connections: 1, timeouts };
    let options = HttpOptions { connections, ..HttpOptions::default() };
    let server = Aggregating::start(&nodes, None, options);
    let silent = TcpStream::connect(server.address()).unwrap();
    assert!(server.get("/livez", None).starts_with("HTTP/1.1 200 "));
    drop(silent);
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ").unwrap();
    let mut dripping = slow.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        while dripping.write_all(b"a").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert!(server.get("/livez", None).starts_with("HTTP/1.1 200 "));
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(rest.is_empty(), "{rest:?}");
    drip.join().unwrap();
    // A connection that is kept open without being used.
    let mut kept = TcpStream::connect(server.address()).unwrap();
    kept.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(server.get("/livez", None).starts_with("HTTP/1.1 200 "));
    kept.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200 "));
}

#[test]
fn a_page_whose_name_points_here_is_not_answered() {
    let (_collection, nodes) = node(None);
    let ask = |server: &Aggregating, path: &str, host: &str| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = request(path, None).replace("host: localhost", &format!("host: {host}"));
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let server = Aggregating::start(&nodes, None, HttpOptions::default());
    for path in ["/v1/cluster", "/metrics", "/livez", "/nothing"] {
        let answer = ask(&server, path, "evil.example:9200");
        assert!(
            answer.starts_with("HTTP/1.1 403 ") && answer.contains("allowed_hosts"),
            "{answer}"
        );
    }
    assert!(ask(&server, "/livez", "127.0.0.1:1").starts_with("HTTP/1.1 200 "));
    let options = ask(&server, "/v1/cluster?k=5", "localhost");
    assert!(options.starts_with("HTTP/1.1 400 ") && options.contains("body"), "{options}");
    drop(server);
    let allowed_hosts = vec!["search.example".to_owned()];
    let options = HttpOptions { allowed_hosts, ..HttpOptions::default() };
    let server = Aggregating::start(&nodes, None, options);
    assert!(ask(&server, "/livez", "search.example:80").starts_with("HTTP/1.1 200 "));
    assert!(ask(&server, "/livez", "evil.example").starts_with("HTTP/1.1 403 "));
    drop(server);
    let allowed_hosts = vec!["http://search.example".to_owned()];
    let options = HttpOptions { allowed_hosts, ..HttpOptions::default() };
    let error = HttpServer::start(connect(&nodes, None), "127.0.0.1:0", options).err().unwrap();
    assert!(error.to_string().contains("allowed_hosts"), "{error}");
}

#[test]
fn clients_bring_their_own_token_and_not_that_of_nodes() {
    let (_collection, nodes) = node(token(OF_NODES));
    let options = || HttpOptions { token: token(OF_CLIENTS), ..HttpOptions::default() };
    let server = Aggregating::start(&nodes, token(OF_NODES), options());
    assert!(server.get("/v1/cluster", Some(OF_CLIENTS)).starts_with("HTTP/1.1 200 "));
    assert!(server.get("/metrics", Some(OF_CLIENTS)).starts_with("HTTP/1.1 200 "));
    for path in ["/v1/cluster", "/metrics"] {
        let answer = server.get(path, None);
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("missing"), "{answer}");
        let answer = server.get(path, Some(OF_NODES));
        assert!(
            answer.starts_with("HTTP/1.1 401 ") && answer.contains("token of the nodes"),
            "{answer}"
        );
    }
    let refused = |options: HttpOptions| {
        let cluster = connect(&nodes, token(OF_NODES));
        HttpServer::start(cluster, "127.0.0.1:0", options).err().map(|error| error.to_string())
    };
    // Earlier versions had one token for both.
    let error = refused(HttpOptions::default()).unwrap();
    assert!(error.contains("--client-token-file") && error.contains("--insecure"), "{error}");
    let same = HttpOptions { token: token(OF_NODES), ..HttpOptions::default() };
    assert!(refused(same).unwrap().contains("the same token"));
    assert_eq!(refused(HttpOptions { insecure: true, ..HttpOptions::default() }), None);
}

#[test]
fn an_address_that_others_reach_needs_a_token_and_a_certificate() {
    let (_collection, nodes) = node(None);
    let folder = tempfile::tempdir().unwrap();
    let (_, files) = certificate(folder.path());
    let error = |token: Option<Token>, certificate: bool, insecure: bool| {
        let certificate = certificate.then(|| files.clone());
        let options = HttpOptions { token, certificate, insecure, ..HttpOptions::default() };
        let started = HttpServer::start(connect(&nodes, None), "0.0.0.0:0", options);
        started.err().map(|error| error.to_string())
    };
    let all = error(None, false, false).unwrap();
    assert!(all.contains("--client-token-file") && all.contains("--http-certificate"), "{all}");
    let clear = error(token(OF_CLIENTS), false, false).unwrap();
    assert!(
        clear.contains("can read the token") && !clear.contains("--client-token-file"),
        "{clear}"
    );
    let open = error(None, true, false).unwrap();
    assert!(open.contains("--client-token-file") && !open.contains("--http-key"), "{open}");
    assert_eq!(error(token(OF_CLIENTS), true, false), None);
    assert_eq!(error(token(OF_CLIENTS), false, true), None);
    assert_eq!(error(None, false, true), None);
}

#[test]
fn connections_of_clients_are_encrypted() {
    let (_collection, nodes) = node(None);
    let folder = tempfile::tempdir().unwrap();
    let (trusted, files) = certificate(folder.path());
    let options = HttpOptions {
        token: token(OF_CLIENTS),
        certificate: Some(files),
        ..HttpOptions::default()
    };
    let server = Aggregating::start(&nodes, None, options);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, TcpStream::connect(server.address()).unwrap());
    stream.write_all(request("/v1/cluster", Some(OF_CLIENTS)).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // A connection without encryption gets no answer.
    let mut plain = TcpStream::connect(server.address()).unwrap();
    plain.write_all(request("/livez", None).as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // The error names a file that is not a certificate.
    let bad = folder.path().join("bad.pem");
    std::fs::write(&bad, "nothing").unwrap();
    let options = HttpOptions { certificate: Some((bad.clone(), bad)), ..HttpOptions::default() };
    let error = HttpServer::start(connect(&nodes, None), "127.0.0.1:0", options).err().unwrap();
    assert!(error.to_string().contains("bad.pem"), "{error}");
}

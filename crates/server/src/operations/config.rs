//! The settings of a server. Environment variables override the file, and flags override both.

#[cfg(test)]
mod tests;
mod unset;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use warpseek::index::ScrubOptions;

use warpseek_front::Hosts;
pub use warpseek_front::Timeouts;

use crate::error::{Failure, plain};

/// Prefix of environment variables that are settings; `WARPSEEK__LIMITS__BODY` sets
/// `limits.body`.
const PREFIX: &str = "WARPSEEK__";

/// Maximum of a time limit: a day, in seconds.
const MAX_TIMEOUT: u64 = 86_400;

/// The settings of a server. In TOML, every setting may be omitted and then has its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The folder of indexes, created if missing.
    pub data: PathBuf,
    /// Address to listen on. Default: 127.0.0.1:9200.
    pub listen: String,
    /// A file with lines `admin KEY` and `read KEY`. Default: none, which allows every request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_file: Option<PathBuf>,
    /// True to listen on an address that other machines can reach without requiring keys.
    /// Default: false.
    pub insecure: bool,
    /// Further host names that the server answers to, as they appear in the `Host` header, or `*`
    /// alone for every name. Default: none, which allows `localhost`, loopback addresses and the
    /// listening address, or every name if there are keys or a certificate.
    pub allowed_hosts: Vec<String>,
    /// Device that answers queries: `cpu`, `cuda` or `auto`. Default: `cpu`.
    pub device: Device,
    /// A file with the times of queries on this machine, which `warpseek calibrate --output`
    /// writes. Default: the calibration of each index in the user's cache; without one, queries
    /// are timed when the index is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<PathBuf>,
    /// The index that `/retrieve` searches. Default: the only index, if there is exactly one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieve_index: Option<String>,
    /// Number of documents that `/retrieve` returns if the request does not specify it. Default:
    /// 3.
    pub retrieve_k: usize,
    /// Milliseconds until writes become visible to searches without a refresh. Default: 1000.
    pub refresh_ms: u64,
    /// Time limit in milliseconds for searches whose request sets none; 0 means no limit.
    /// Default: 0.
    pub deadline_ms: u64,
    /// Bytes for answers of searches that may be repeated; 0 disables this cache. Default: 64 MiB.
    pub cache: u64,
    /// Minimum duration in milliseconds of a search that is logged as slow; 0 disables the log.
    /// Default: 1000.
    pub slow_query_ms: u64,
    /// Format of logs: `pretty` or `json`. Default: `pretty`.
    pub log: LogFormat,
    /// Seconds at the start of a shutdown during which requests are still answered although
    /// `/readyz` reports that the server is not ready. Give load balancers enough time to notice.
    /// Default: 0.
    pub drain_notice_s: u64,
    /// Maximum number of seconds after that for requests in progress. Default: 30.
    pub drain_s: u64,
    /// The snapshot from which the server restores missing indexes when it starts. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<String>,
    /// Limits on what requests may ask for.
    pub limits: Limits,
    /// Timeouts for slow clients.
    pub timeouts: Timeouts,
    /// Background verification of the files of open indexes.
    pub scrub: Scrub,
    /// The certificate and key for TLS.
    pub tls: TlsFiles,
    /// Access by web pages of other origins.
    pub cors: Cors,
    /// The store of snapshots.
    pub snapshots: Snapshots,
    /// A collection on other machines that the server answers for.
    pub cluster: ClusterSettings,
}

/// Files for TLS, either both or none. They are reloaded when they change, and on SIGHUP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsFiles {
    /// The certificate and its chain, in PEM. Default: none, which leaves connections
    /// unencrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// The origins whose pages may query the server from a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cors {
    /// Origins such as `https://example.org`, or `*` alone for all. Default: none.
    pub origins: Vec<String>,
}

/// The store of snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// `file:///folder`, or `s3://bucket/prefix` if the program was built with S3 support.
    /// Default: none, which disables snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A collection on other machines that the server answers for under `/v1/cluster`. The program
/// that starts the server connects to these machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSettings {
    /// Addresses of nodes, separated by commas, or a file with one per line. Default: none, which
    /// disables the remote collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Number of shards of the collection. Required if there are nodes.
    pub shards: u32,
    /// Bytes for the cache of answers. Default: 64 MiB.
    pub cache: u64,
    /// Maximum number of queries of all clients that are sent to a node together, from 1 to 4,096.
    /// Default: 64.
    pub cohort_size: u32,
    /// Milliseconds for which a query waits for others even if no cohort is being answered, at most
    /// 1,000. Default: 0.
    pub cohort_wait_ms: u64,
    /// A file with the token that nodes require. Default: the variable WARPSEEK_CLUSTER_TOKEN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// The certificate, with its chain, that nodes require, in PEM. Default: none, which leaves
    /// connections to nodes unencrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The certificate of the authority that signed the certificates of nodes, in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<PathBuf>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        let (nodes, token_file, certificate, key, authority) = Default::default();
        ClusterSettings {
            nodes,
            shards: 0,
            cache: 64 << 20,
            cohort_size: 64,
            cohort_wait_ms: 0,
            token_file,
            certificate,
            key,
            authority,
        }
    }
}

/// Background verification of the files of open indexes, which finds damage in files while they
/// are in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scrub {
    /// Seconds for which a page counts as verified after it was read; the next search that reads
    /// it later verifies it again. Default: 300.
    pub period_s: u64,
    /// Bytes per second that the server reads to find damage in pages that no search reads; 0
    /// disables this. Default: 32 MiB.
    pub bytes_per_second: u64,
}

/// Limits on what requests may ask for. Each limit has a separate error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a body after decompression, or of a line of a body that is processed line by
    /// line. Default: 128 MiB, as client helpers send up to 100 MiB.
    pub body: usize,
    /// Total bytes of all bodies that are being read or processed. Default: 1 GiB.
    pub bodies: usize,
    /// Hits of a search: the sum of `from` and `size`. Default: 10,000.
    pub window: usize,
    /// Bytes of the text of a query. Default: 64 KiB.
    pub query_text: usize,
    /// Searches in one `_msearch`, `/retrieve` or batch. Default: 10,000.
    pub batch: usize,
    /// Total hits of all searches of one request. Default: 1,000,000.
    pub hits: usize,
    /// Number of requests that may wait for a thread; searches and writes are counted separately.
    /// Default: 1,024.
    pub queue: usize,
    /// Number of open connections; further clients wait to be accepted. Default: 4,096.
    pub connections: usize,
    /// Number of open scrolls, that is, searches whose results are kept for further pages.
    /// Default: 100.
    pub scrolls: usize,
    /// Number of open points in time. Default: 100.
    pub points_in_time: usize,
}

impl Limits {
    /// Fails if the searches of a request ask for too many hits in total.
    pub(crate) fn check_hits(&self, of_each: impl Iterator<Item = usize>) -> Result<(), Failure> {
        let hits = of_each.fold(0, usize::saturating_add);
        match hits > self.hits {
            true => Err(Failure::illegal(format!(
                "the request asks for {hits} hits, the limit is {} (limits.hits)",
                self.hits
            ))),
            false => Ok(()),
        }
    }
}

/// The device that answers queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU; without one, the server does not start.
    Cuda,
    /// The GPU if there is one and it is estimated to be faster.
    Auto,
}

/// The format of logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Pretty,
    /// A JSON object per line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data: PathBuf::from("."),
            listen: "127.0.0.1:9200".into(),
            api_key_file: None,
            insecure: false,
            allowed_hosts: Vec::new(),
            device: Device::Cpu,
            calibration: None,
            retrieve_index: None,
            retrieve_k: 3,
            refresh_ms: 1000,
            deadline_ms: 0,
            cache: 64 << 20,
            slow_query_ms: 1000,
            log: LogFormat::Pretty,
            drain_notice_s: 0,
            drain_s: 30,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            scrub: Scrub::default(),
            tls: TlsFiles::default(),
            cors: Cors::default(),
            snapshots: Snapshots::default(),
            cluster: ClusterSettings::default(),
            restore: None,
        }
    }
}

impl Default for Scrub {
    fn default() -> Self {
        let ScrubOptions { period, bytes_per_second } = ScrubOptions::default();
        Scrub { period_s: period.as_secs(), bytes_per_second }
    }
}

impl Scrub {
    pub(crate) fn options(&self) -> ScrubOptions {
        let period = Duration::from_secs(self.period_s);
        ScrubOptions { period, bytes_per_second: self.bytes_per_second }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 128 << 20,
            bodies: 1 << 30,
            window: 10_000,
            query_text: 64 << 10,
            batch: 10_000,
            hits: 1_000_000,
            queue: 1024,
            connections: 4096,
            scrolls: 100,
            points_in_time: 100,
        }
    }
}

impl Config {
    /// Loads the settings: those of the file, overridden by the environment, overridden by
    /// `flags`. The flags are TOML values by key, such as `limits.body`.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use warpseek_server::Config;
    ///
    /// let environment = [("WARPSEEK__LIMITS__BODY".to_owned(), "1000".to_owned())];
    /// let flags = BTreeMap::from([("listen".to_owned(), "127.0.0.1:8000".into())]);
    /// let config = Config::load(None, environment, flags).unwrap();
    /// assert_eq!((config.limits.body, config.listen.as_str()), (1000, "127.0.0.1:8000"));
    /// ```
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: BTreeMap<String, Value>,
    ) -> Result<Self, String> {
        let mut table = Table::new();
        if let Some(path) = file {
            let named = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
            let text = std::fs::read_to_string(path).map_err(|e| named(&e))?;
            table = text.parse().map_err(|e: toml::de::Error| named(&e))?;
            // This parse reports mistakes with their file and line.
            toml::from_str::<Config>(&text).map_err(|e| named(&plain(&e)))?;
        }
        for (name, value) in environment {
            if let Some(key) = name.strip_prefix(PREFIX) {
                let key = key.to_ascii_lowercase().replace("__", ".");
                set(&mut table, &key, scalar(&key, value)).map_err(|e| format!("{name}: {e}"))?;
            }
        }
        for (key, value) in flags {
            set(&mut table, &key, value)?;
        }
        let config: Config =
            table.try_into().map_err(|e: toml::de::Error| format!("settings: {}", plain(&e)))?;
        config.check()?;
        Ok(config)
    }

    /// Returns the address to listen on.
    pub fn address(&self) -> Result<SocketAddr, String> {
        let wrong =
            |_| format!("listen = {:?} is not an address; write it as 127.0.0.1:9200", self.listen);
        self.listen.parse().map_err(wrong)
    }

    /// Returns the host names that the server answers to when it listens on an address.
    pub(crate) fn hosts(&self, address: SocketAddr) -> Result<Hosts, String> {
        let protected = self.api_key_file.is_some() || self.tls.certificate.is_some();
        Hosts::new(address.ip(), &self.allowed_hosts, protected)
    }

    fn check(&self) -> Result<(), String> {
        let address = self.address()?;
        if !is_loopback(address.ip()) && self.api_key_file.is_none() && !self.insecure {
            return Err(format!(
                "{address} can be reached from other machines, but there are no keys; use --api-key-file, or --insecure if the network is trusted"
            ));
        }
        self.hosts(address)?;
        let limits = &self.limits;
        for (name, value) in [
            ("body", limits.body),
            ("window", limits.window),
            ("query_text", limits.query_text),
            ("batch", limits.batch),
            ("connections", limits.connections),
        ] {
            if value == 0 {
                return Err(format!(
                    "limits.{name} is 0, which would refuse every request; make it larger"
                ));
            }
        }
        if limits.bodies < limits.body {
            return Err(format!(
                "limits.bodies is {}, less than limits.body, {}; make it at least as large",
                limits.bodies, limits.body
            ));
        }
        if self.drain_notice_s > MAX_TIMEOUT || self.drain_s > MAX_TIMEOUT {
            return Err(format!(
                "drain_notice_s and drain_s must be at most {MAX_TIMEOUT}, which is a day"
            ));
        }
        let timeouts = &self.timeouts;
        for (name, value) in [
            ("head_s", timeouts.head_s),
            ("idle_s", timeouts.idle_s),
            ("stall_s", timeouts.stall_s),
            ("bytes_per_second", timeouts.bytes_per_second),
        ] {
            if !(1..=MAX_TIMEOUT).contains(&value) {
                return Err(format!(
                    "timeouts.{name} is {value}; it must be from 1 to {MAX_TIMEOUT}"
                ));
            }
        }
        if !(1..=MAX_TIMEOUT).contains(&self.scrub.period_s) {
            return Err(format!(
                "scrub.period_s is {}; it must be from 1 to {MAX_TIMEOUT}",
                self.scrub.period_s
            ));
        }
        for origin in &self.cors.origins {
            let is_origin = origin.split_once("://").is_some_and(|(scheme, host)| {
                matches!(scheme, "http" | "https")
                    && !host.is_empty()
                    && host.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '/' | '*' | ','))
            });
            let is_all = origin == "*" && self.cors.origins.len() == 1;
            if !is_origin && !is_all {
                return Err(format!(
                    "cors.origins: {origin:?} is not an origin; write it as https://example.org, or use \"*\" alone"
                ));
            }
        }
        if self.calibration.is_some() && self.device == Device::Cpu {
            return Err(
                "calibration has no effect with the device cpu; set device to auto or cuda".into(),
            );
        }
        if self.restore.is_some() && self.snapshots.url.is_none() {
            return Err("restore needs snapshots.url, where the snapshot is".into());
        }
        if self.cluster.nodes.is_some() && self.cluster.shards == 0 {
            return Err("cluster.nodes needs cluster.shards, the number of shards: a missing shard must not look like a smaller collection".into());
        }
        if !(1..=4096).contains(&self.cluster.cohort_size) {
            let size = self.cluster.cohort_size;
            return Err(format!("cluster.cohort_size must be 1 to 4096, but is {size}"));
        }
        if self.cluster.cohort_size == 1 && self.cluster.cohort_wait_ms > 0 {
            let what = "cluster.cohort_wait_ms must be 0 with cluster.cohort_size = 1: such a \
                        cohort waits for no other query";
            return Err(what.to_owned());
        }
        if self.cluster.cohort_wait_ms > 1000 {
            let wait = self.cluster.cohort_wait_ms;
            return Err(format!("cluster.cohort_wait_ms must be 0 to 1000, but is {wait}"));
        }
        match (&self.tls.certificate, &self.tls.key) {
            (Some(_), None) => {
                Err("tls.certificate is set and tls.key is not; set both, or neither".into())
            }
            (None, Some(_)) => {
                Err("tls.key is set and tls.certificate is not; set both, or neither".into())
            }
            _ => Ok(()),
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.is_loopback()
}

/// Converts the text of an environment variable to a value.
fn scalar(key: &str, text: String) -> Value {
    // Text that looks like a number stays a string where a string is expected.
    if matches!(
        key,
        "data"
            | "listen"
            | "api_key_file"
            | "calibration"
            | "retrieve_index"
            | "restore"
            | "tls.certificate"
            | "tls.key"
            | "snapshots.url"
            | "cluster.nodes"
            | "cluster.token_file"
            | "cluster.certificate"
            | "cluster.key"
            | "cluster.authority"
    ) {
        return Value::String(text);
    }
    if matches!(key, "cors.origins" | "allowed_hosts") {
        let values = text.split(',').map(str::trim).filter(|value| !value.is_empty());
        return Value::Array(values.map(Value::from).collect());
    }
    match (text.parse::<i64>(), text.parse::<bool>()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(flag)) => Value::Boolean(flag),
        _ => Value::String(text),
    }
}

fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
        Some((part, rest)) => {
            let inner = table.entry(part.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            match inner {
                Value::Table(inner) => set(inner, rest, value),
                _ => Err(format!("`{part}` is not a table of settings")),
            }
        }
    }
}

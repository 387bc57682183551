//! `warpseek serve`: runs the HTTP server over a folder of indexes.

mod cluster;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use warpseek_console::Failure;
use warpseek_console::terminal::note;
use warpseek_server::{Config, ServeError, Server};

use crate::arguments::LogChoice;

/// Serve a folder of indexes over HTTP
///
/// Clients of Elasticsearch and OpenSearch work unchanged with the calls listed in
/// docs/reference/elasticsearch.md. `/retrieve` serves the training of models, and `/v1` is
/// warpseek's native API.
///
/// Environment variables such as WARPSEEK__LIMITS__BODY override the settings file, and flags
/// override both.
///
/// Ctrl-C or SIGTERM stops the server after it has finished open requests and written its indexes.
/// A second signal stops it immediately, also without losing acknowledged writes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek serve data
  warpseek serve data --listen 0.0.0.0:9200 --api-key-file keys.txt
  warpseek serve data --print-config > warpseek.toml
  warpseek serve data --cluster host1:9300,host2:9300 --cluster-shards 2
  curl -X PUT localhost:9200/books/_doc/1 -H 'content-type: application/json' -d '{\"title\": \"Emma\"}'")]
pub(crate) struct Options {
    /// Folder of indexes, created if it does not exist [default: the `data` of the settings, or the
    /// current directory]
    #[arg(value_name = "DIR")]
    data: Option<PathBuf>,
    /// File of settings in TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on [default: 127.0.0.1:9200]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// File of API keys: lines of `admin KEY` and `read KEY`. Required to listen on addresses other
    /// than loopback
    #[arg(long, value_name = "FILE", help_heading = "Protection")]
    api_key_file: Option<PathBuf>,
    /// Listen on any address without keys
    #[arg(long, help_heading = "Protection")]
    insecure: bool,
    /// Host names and addresses, separated by commas, that requests may send in `Host` besides
    /// localhost, loopback addresses and that of --listen; `*` allows all [default: all if there
    /// are keys or a certificate, otherwise none]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', help_heading = "Protection")]
    allowed_hosts: Vec<String>,
    /// Device that answers queries [default: cpu]
    #[arg(long, value_enum)]
    device: Option<Device>,
    /// File with the times of queries on this machine, which `warpseek calibrate --output` writes
    /// [default: the calibration of each index in the user's cache; without one, queries are timed
    /// at the start]
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Index that /retrieve searches [default: the only one]
    #[arg(long, value_name = "NAME")]
    retrieve_index: Option<String>,
    /// Format of the log [default: pretty]
    #[arg(long, value_enum)]
    log: Option<LogChoice>,
    /// Certificate and its chain in PEM, to encrypt connections. Reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Protection")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = "Protection")]
    tls_key: Option<PathBuf>,
    /// Storage of snapshots: file:///folder or s3://bucket/prefix
    #[arg(long, value_name = "URL", help_heading = "Snapshots")]
    snapshots: Option<String>,
    /// Restore the indexes of this snapshot that are missing in the folder
    #[arg(long, value_name = "NAME", help_heading = "Snapshots")]
    restore: Option<String>,
    /// Nodes of a collection to search as well, at /v1/cluster, as `warpseek aggregate` does:
    /// addresses separated by commas, or a file with one per line, which is reloaded
    #[arg(long, value_name = "NODES", help_heading = "Cluster")]
    cluster: Option<String>,
    /// Number of shards of the collection
    #[arg(long, value_name = "N", help_heading = "Cluster")]
    cluster_shards: Option<u32>,
    /// File with the token of the nodes [default: the variable WARPSEEK_CLUSTER_TOKEN]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    cluster_token_file: Option<PathBuf>,
    /// Certificate and its chain in PEM, for connections to nodes. Encrypts them and authenticates
    /// both sides
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Cluster",
        requires = "cluster_tls_key",
        requires = "cluster_tls_authority"
    )]
    cluster_tls_certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Cluster",
        requires = "cluster_tls_certificate"
    )]
    cluster_tls_key: Option<PathBuf>,
    /// Certificate of the authority that signed the certificates of the nodes, in PEM
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Cluster",
        requires = "cluster_tls_certificate"
    )]
    cluster_tls_authority: Option<PathBuf>,
    /// Check whether the server at this URL is ready, and exit with code 0 if it is
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    check: Option<String>,
    /// Print all settings as TOML and exit
    #[arg(long)]
    print_config: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Device {
    Cpu,
    Cuda,
    Auto,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let Some(url) = &options.check {
        warpseek_server::check(url).map_err(Failure::broken)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = Config::load(options.config.as_deref(), std::env::vars(), options.flags())
        .map_err(Failure::user)?;
    if options.print_config {
        print!("{}", config.to_toml());
        return Ok(ExitCode::SUCCESS);
    }
    let failed = |error: ServeError| match error {
        ServeError::Setup(_) => Failure::user(error),
        error => Failure::broken(error),
    };
    let cluster = cluster::connect(&config.cluster)?;
    let mut server = Server::start(config).map_err(failed)?;
    if let Some(cluster) = &cluster {
        server = cluster::mount(server, cluster);
    }
    note(format!("listening on {}", server.url()));
    note(format!("the page is at {}/ui", server.url()));
    server.run().map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// Returns the given flags as settings.
    fn flags<T: From<String> + From<bool> + From<u32> + From<Vec<String>>>(
        &self,
    ) -> BTreeMap<String, T> {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let device = self.device.map(|device| match device {
            Device::Cpu => "cpu".to_owned(),
            Device::Cuda => "cuda".to_owned(),
            Device::Auto => "auto".to_owned(),
        });
        let log = self.log.map(|log| log.name().to_owned());
        let given = [
            ("data", self.data.as_ref().map(path)),
            ("listen", self.listen.clone()),
            ("api_key_file", self.api_key_file.as_ref().map(path)),
            ("device", device),
            ("calibration", self.calibration.as_ref().map(path)),
            ("retrieve_index", self.retrieve_index.clone()),
            ("log", log),
            ("tls.certificate", self.tls_certificate.as_ref().map(path)),
            ("tls.key", self.tls_key.as_ref().map(path)),
            ("snapshots.url", self.snapshots.clone()),
            ("restore", self.restore.clone()),
            ("cluster.nodes", self.cluster.clone()),
            ("cluster.token_file", self.cluster_token_file.as_ref().map(path)),
            ("cluster.certificate", self.cluster_tls_certificate.as_ref().map(path)),
            ("cluster.key", self.cluster_tls_key.as_ref().map(path)),
            ("cluster.authority", self.cluster_tls_authority.as_ref().map(path)),
        ];
        let mut flags: BTreeMap<String, T> = given
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), T::from(value?))))
            .collect();
        if let Some(shards) = self.cluster_shards {
            flags.insert("cluster.shards".to_owned(), shards.into());
        }
        if !self.allowed_hosts.is_empty() {
            flags.insert("allowed_hosts".to_owned(), self.allowed_hosts.clone().into());
        }
        if self.insecure {
            flags.insert("insecure".to_owned(), true.into());
        }
        flags
    }
}

//! `warpseek aggregate`: answers queries over a collection whose shards are on nodes, over HTTP or
//! from a file.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Arg, Args};
use warpseek::Ranking;
use warpseek::eval::RunWriter;
use warpseek::options::OnError;
use warpseek_cluster::{
    AggregatorOptions, Cluster, ClusterError, ClusterRequest, ClusterResponse, CohortOptions,
    Token, nodes,
};
use warpseek_console::options::{RankingChoice, parse_bytes_or_none};
use warpseek_console::terminal::{count, counted, note, summary};
use warpseek_console::{Failure, Interrupt};
use warpseek_server::{
    ClusterFront, ConnectionLimits, RemoteLimits, ServeError, Server, Timeouts, TlsFiles,
};

use crate::arguments::{BadQuery, Deadline, LogChoice, Protection, QueryChoice, Topics};
use crate::failures::cluster_failure;
use crate::queries::{Line, Queries, note_skipped};
use crate::run_output::{RunOutput, check_tag};

/// Maximum number of queries in a batch of a run.
const BATCH: usize = 1024;

/// Answer queries over a collection whose shards are on nodes
///
/// The nodes run `warpseek node`. If a node fails or is slow, the aggregator asks another one with
/// the same shard. Answers that do not cover all shards say so.
///
/// With --listen, the command serves HTTP: POST /v1/search and /v1/batch, GET /v1/cluster, and
/// /metrics for Prometheus. Requests carry the options of their queries; --deadline applies to
/// requests without a deadline.
///
/// With --queries, the command answers a file of queries and writes the same TREC run, byte for
/// byte, as `warpseek run` over one index of all documents. A run stops at the first partial answer
/// unless --allow-partial is given.
#[derive(Args)]
#[command(mut_args(of_runs))]
#[command(after_help = "\
Examples:
  warpseek aggregate --nodes host1:9300,host2:9300 --shards 2 --listen 127.0.0.1:9200
  warpseek aggregate --nodes nodes.txt --shards 4 --queries q.tsv -o r.trec
  curl localhost:9200/v1/search -d '{\"query\": \"route flap damping\", \"k\": 3}'")]
pub(crate) struct Options {
    /// Addresses of nodes, separated by commas, or a file with one per line, which is reloaded
    /// while the aggregator serves
    #[arg(long, value_name = "NODES")]
    nodes: String,
    /// Number of shards of the collection
    #[arg(long, value_name = "N")]
    shards: u32,
    /// Address and port to serve HTTP on
    #[arg(
        long,
        value_name = "ADDRESS",
        required_unless_present = "queries",
        conflicts_with = "queries"
    )]
    listen: Option<String>,
    /// File of queries; `-` is standard input
    #[arg(long, value_name = "FILE")]
    queries: Option<PathBuf>,
    #[command(flatten)]
    topics: Topics,
    /// Number of hits per query
    #[arg(
        short,
        long,
        default_value_t = 1000,
        value_name = "K",
        conflicts_with = "listen",
        help_heading = "Query"
    )]
    k: usize,
    /// File for the run; `-` is standard output [default: standard output]
    #[arg(long, short, value_name = "FILE", conflicts_with = "listen", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Name of the run, in its last column
    #[arg(long, default_value = "warpseek", conflicts_with = "listen", help_heading = "Output")]
    tag: String,
    #[command(flatten)]
    query: QueryChoice,
    #[command(flatten)]
    ranking: RankingChoice,
    #[command(flatten)]
    deadline: Deadline,
    /// Stop at queries that cannot be answered, or skip them
    #[arg(
        long,
        value_enum,
        default_value = "stop",
        conflicts_with = "listen",
        help_heading = "Query"
    )]
    on_error: BadQuery,
    /// Accept answers that do not cover all documents, and report them
    #[arg(long, conflicts_with = "listen", help_heading = "Query")]
    allow_partial: bool,
    /// Memory for cached answers, e.g. 64M; with 0, only simultaneous equal queries share an answer
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_bytes_or_none)]
    cache: usize,
    /// Time limit of a node for a query without a deadline, before another node gets it; each
    /// further query in the same message adds a tenth
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    node_time: u32,
    /// Maximum number of queries that are sent to a node together. While queries are being
    /// answered, those of all clients that arrive wait and form the next cohort; with 1, none
    /// waits
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cohort_size: u32,
    /// Time for which a query waits for others even if no cohort is being answered, and at most
    /// half of its time limit
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000), conflicts_with = "queries")]
    cohort_wait: u64,
    /// Format of the log of nodes that join and fail
    #[arg(
        long,
        value_enum,
        default_value = "pretty",
        conflicts_with = "queries",
        help_heading = "Output"
    )]
    log: LogChoice,
    /// Do not show a summary
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
    #[command(flatten)]
    http: Http,
    #[command(flatten)]
    protection: Protection,
}

/// Protection and limits of connections over HTTP.
#[derive(Args)]
#[command(next_help_heading = "HTTP")]
struct Http {
    /// File with the token that clients send as `Authorization: Bearer`; it must differ from that
    /// of the nodes [default: the variable WARPSEEK_CLUSTER_CLIENT_TOKEN]
    #[arg(long, value_name = "FILE", conflicts_with = "queries")]
    client_token_file: Option<PathBuf>,
    /// Certificate and its chain in PEM, to encrypt connections of clients. Reloaded when it
    /// changes
    #[arg(long, value_name = "FILE", conflicts_with = "queries", requires = "http_key")]
    http_certificate: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "queries", requires = "http_certificate")]
    http_key: Option<PathBuf>,
    /// Host names and addresses, separated by commas, that requests may send in `Host` besides
    /// localhost, loopback addresses and that of --listen; `*` allows all [default: all if there is
    /// a client token or a certificate, otherwise none]
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', conflicts_with = "queries")]
    allowed_hosts: Vec<String>,
    /// Maximum number of open connections of clients; further ones wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000), conflicts_with = "queries")]
    connections: u32,
    /// Time limit for receiving the head of a request
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400), conflicts_with = "queries")]
    head_time: u64,
}

impl Http {
    /// Returns the settings of the server. `nodes` is the token of the nodes.
    fn front(&self, options: &Options, nodes: Option<&Token>) -> Result<ClusterFront, Failure> {
        let token =
            Token::find_of_clients(self.client_token_file.as_deref()).map_err(cluster_failure)?;
        let secret = |token: &Token| token.secret().to_owned();
        let timeouts = Timeouts { head_s: self.head_time, ..Timeouts::default() };
        Ok(ClusterFront {
            token: token.as_ref().map(secret),
            nodes_token: nodes.map(secret),
            tls: TlsFiles {
                certificate: self.http_certificate.clone(),
                key: self.http_key.clone(),
            },
            insecure: options.protection.insecure,
            allowed_hosts: self.allowed_hosts.clone(),
            connections: ConnectionLimits { connections: self.connections as usize, timeouts },
            limits: RemoteLimits { deadline: options.deadline.deadline, ..RemoteLimits::default() },
            ..ClusterFront::new(options.listen.as_deref().unwrap_or("127.0.0.1:9200"))
        })
    }
}

/// Makes options of queries conflict with `--listen`, since requests over HTTP carry their own. The
/// options are shared with other commands, so their conflicts are added here. (Requiring
/// `--queries` would reject nothing: clap ignores the requirement, because `--listen` excludes it.)
fn of_runs(argument: Arg) -> Arg {
    match argument.get_id().as_str() {
        "mode" | "count" | "among" | "filter" | "syntax" | "words" | "rank" | "k1" | "b"
        | "static_weight" | "topic_field" => argument.conflicts_with("listen"),
        _ => argument,
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let security = options.protection.security()?;
    let (nodes, nodes_file) = nodes(&options.nodes);
    let settings = AggregatorOptions {
        security,
        nodes_file,
        cache: options.cache as u64,
        call: Duration::from_secs(options.node_time.into()),
        cohorts: CohortOptions {
            size: options.cohort_size as usize,
            wait: Duration::from_millis(options.cohort_wait),
            ..CohortOptions::default()
        },
        ..AggregatorOptions::new(nodes, options.shards)
    };
    if let Some(queries) = &options.queries {
        return answer(options, queries, settings);
    }
    let token = settings.security.token.clone();
    let cluster = Cluster::connect(settings).map_err(cluster_failure)?;
    let not_served = |error: ServeError| match error {
        ServeError::Setup(_) => Failure::user(error),
        error => Failure::broken(error),
    };
    let front = options.http.front(options, token.as_ref())?;
    let server = Server::of_cluster(front, Arc::new(cluster.front())).map_err(not_served)?;
    note(format!("listening on {}", server.url()));
    let served = options.log.during(|| {
        cluster.log_status();
        server.run()
    });
    served.map_err(not_served)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers a file of queries.
fn answer(
    options: &Options,
    queries: &std::path::Path,
    settings: AggregatorOptions,
) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::listen(None)?;
    check_tag(&options.tag)?;
    let among = options.query.ids()?;
    let mut out = RunOutput::new(options.output.as_deref(), queries)?;
    let cluster = Cluster::connect(settings).map_err(cluster_failure)?;
    cluster.check_shards().map_err(cluster_failure)?;
    let searcher = cluster.settings().map_err(cluster_failure)?;
    let ranking: Ranking = options.ranking.get(searcher.snapshot().manifest())?;
    let request = |line: &Line| ClusterRequest {
        k: options.k,
        mode: options.query.mode,
        count: options.query.count,
        among: among.clone(),
        filter: options.query.filter_text(),
        ranking: Some(ranking),
        deadline: options.deadline.deadline,
        allow_partial: options.allow_partial,
        ..ClusterRequest::new(options.query.input(&searcher, &line.text))
    };
    let queries = Queries::open(queries, BATCH, options.on_error.get(), &options.topics)?;
    let (start, mut done) = (Instant::now(), Done::default());
    let ended = loop {
        let lines = match queries.next_batch(|| interrupt.is_set()) {
            Ok(lines) => lines,
            Err(error) => break Err(error),
        };
        if lines.is_empty() {
            break Ok(());
        }
        let answers = cluster.search_batch(lines.iter().map(request).collect());
        let written = lines.iter().zip(answers).try_for_each(|(line, answer)| {
            done.add(options, &queries.name, line, answer.as_deref(), &mut out)
        });
        if written.is_err() {
            break written;
        }
    };
    out.close(ended)?;
    if interrupt.is_set() {
        let message =
            format!("interrupted; the run holds the first {}", counted(done.queries, "query"));
        return Err(Failure::interrupted(message));
    }
    note_skipped(done.skipped + queries.skipped.load(Ordering::Relaxed));
    if done.partial > 0 {
        note(format!("{} do not cover all documents", counted(done.partial, "answer")));
    }
    if !options.quiet {
        let seconds = start.elapsed().max(Duration::from_micros(1)).as_secs_f64();
        let rate = count((done.queries as f64 / seconds) as u64);
        let matches = match options.query.count {
            true => format!(", {} matches", count(done.matches)),
            false => String::new(),
        };
        summary(format!(
            "{} in {seconds:.2} s ({rate}/s){matches}",
            counted(done.queries, "query")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Totals of the written results.
#[derive(Default)]
struct Done {
    queries: u64,
    skipped: u64,
    partial: u64,
    matches: u64,
}

impl Done {
    /// Writes an answer, or skips a query with an error if the user allows it. All other errors end
    /// the run.
    fn add(
        &mut self,
        options: &Options,
        name: &str,
        line: &Line,
        answer: Result<&ClusterResponse, &ClusterError>,
        out: &mut RunOutput,
    ) -> Result<(), Failure> {
        let at = format!("{name}:{}", line.line);
        let response = match answer {
            Ok(response) => response,
            Err(
                error @ (ClusterError::Query(_)
                | ClusterError::Unsupported(_)
                | ClusterError::TooLarge { .. }),
            ) => {
                if matches!(options.on_error.get(), OnError::Stop) {
                    return Err(Failure::user(format!("{at}: {error}")));
                }
                note(format!("{at}: skipped: {error}"));
                self.skipped += 1;
                return Ok(());
            }
            Err(error) => return Err(Failure::broken(format!("{at}: {error}"))),
        };
        if !response.coverage.is_complete() {
            self.partial += 1;
            note(format!("{at}: {}", response.coverage));
        }
        let mut writer = RunWriter::new(Vec::with_capacity(response.hits.len() * 64));
        for (rank, hit) in (1..).zip(&response.hits) {
            writer.write(&line.id, &hit.id, rank, hit.score, &options.tag)?;
        }
        out.open()?.write_all(&writer.finish()?)?;
        self.queries += 1;
        self.matches += response.matches.unwrap_or(0);
        Ok(())
    }
}

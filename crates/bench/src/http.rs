//! The `bench http` command: the server over HTTP, next to the engine alone.

mod arrow;
mod client;
mod server;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use warpseek::{DeviceChoice, Index, Request, Searcher, SearcherOptions};
use warpseek_console::options::{Threads, check_seconds};
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};

use self::client::{Connection, Deaf, Sent, load};
use self::server::Server;
use crate::statistics::percentile;
use crate::{hardware, program, read_queries};

/// Maximum duration of the measurements of top speed. --seconds sets the duration of those at a
/// given rate.
const SHORT: Duration = Duration::from_secs(5);

/// Number of queries whose hits are compared between the kinds of requests.
const COMPARED: usize = 200;

/// Measure the server over HTTP
///
/// Starts a server for the index on a free port of this machine and sends requests over
/// connections that stay open. First the engine alone answers the queries, on all threads and
/// without a server. Then, for each kind of request, every connection sends its next request as
/// soon as the previous one is answered; the report shows the rate and its share of the engine's.
/// Then requests arrive at random times (Poisson) at half of this rate, or at --rates, whether or
/// not earlier ones have been answered; the time of a request starts when it was due to arrive.
/// The client and the server share the cores of this machine. The hits of all kinds of requests
/// are compared.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench http --index idx --queries log.txt
  warpseek bench http --index idx --queries log.txt --requests search,msearch --seconds 10
  warpseek bench http --index idx --queries log.txt --device cuda --connections 256 --requests search --rates 20000")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Kinds of requests
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "KINDS",
        default_value = "search,hits,documents,native,msearch,batch,arrow"
    )]
    requests: Vec<Kind>,
    /// Number of connections that send at the same time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4000))]
    connections: u16,
    /// Number of additional connections that keep sending requests and never read answers
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4000))]
    deaf: u16,
    /// Requests per second [default: half of the measured maximum]
    #[arg(long, value_delimiter = ',', value_name = "RATES")]
    rates: Vec<f64>,
    /// Seconds of each measurement at a rate; the maximum rate is measured for at most 5 seconds
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Device of the server
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = ["cpu", "cuda", "auto"])]
    device: String,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    #[command(flatten)]
    threads: Threads,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// `_search` as clients send it, with matches counted up to 10,000
    Search,
    /// `_search` without a count
    Hits,
    /// `_search` with default options, which return a count and the documents
    Documents,
    /// `/v1/indexes/{i}/search`
    Native,
    /// `_msearch` with 100 searches
    Msearch,
    /// `/v1/indexes/{i}/batch` with 1,000 queries
    Batch,
    /// `/v1/indexes/{i}/batch` with 10,000 queries, as Arrow streams
    Arrow,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Search => "_search",
            Kind::Hits => "_search, no count",
            Kind::Documents => "_search with documents",
            Kind::Native => "/v1 search",
            Kind::Msearch => "_msearch of 100",
            Kind::Batch => "/v1 batch of 1,000",
            Kind::Arrow => "Arrow batch of 10,000",
        }
    }

    /// Returns the number of queries in one request.
    fn size(self) -> usize {
        match self {
            Kind::Search | Kind::Hits | Kind::Documents | Kind::Native => 1,
            Kind::Msearch => 100,
            Kind::Batch => 1000,
            Kind::Arrow => 10_000,
        }
    }

    /// Returns a whole request with these queries.
    fn request(self, queries: &[&str], k: usize) -> Result<Vec<u8>, Failure> {
        let search = |text: &str, total: Value| json!({"query": {"multi_match": {"query": text, "type": "most_fields"}}, "size": k, "_source": false, "track_total_hits": total});
        let usual = |text: &str| json!({"query": {"multi_match": {"query": text, "type": "most_fields"}}, "size": k});
        let native = |text: &str| json!({"query": text, "k": k, "documents": false});
        let lines = |line: &dyn Fn(&str) -> String| -> Vec<u8> {
            queries.iter().map(|text| line(text)).collect::<String>().into_bytes()
        };
        let (path, body) = match self {
            Kind::Search => {
                ("index/_search", lines(&|text| search(text, json!(10_000)).to_string()))
            }
            Kind::Hits => ("index/_search", lines(&|text| search(text, json!(false)).to_string())),
            Kind::Documents => ("index/_search", lines(&|text| usual(text).to_string())),
            Kind::Native => ("v1/indexes/index/search", lines(&|text| native(text).to_string())),
            Kind::Msearch => {
                ("index/_msearch", lines(&|text| format!("{{}}\n{}\n", search(text, json!(false)))))
            }
            Kind::Batch => ("v1/indexes/index/batch", lines(&|text| format!("{}\n", native(text)))),
            Kind::Arrow => ("v1/indexes/index/batch", arrow::body(queries, k)?),
        };
        let content = if self == Kind::Arrow { arrow::CONTENT_TYPE } else { "application/json" };
        let head = format!(
            "POST /{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Ok([head.into_bytes(), body].concat())
    }

    /// Returns the ids of the hits for each of so many queries in an answer.
    fn ids(self, body: &[u8], queries: usize) -> Result<Vec<Vec<String>>, Failure> {
        if self == Kind::Arrow {
            return arrow::ids(body, queries);
        }
        let answer: Value = serde_json::from_slice(body)?;
        let one = |answer: &Value| -> Vec<String> {
            let (hits, id) = match self {
                Kind::Native | Kind::Batch => (&answer["hits"], "id"),
                _ => (&answer["hits"]["hits"], "_id"),
            };
            let ids = hits.as_array().into_iter().flatten();
            ids.map(|hit| hit[id].as_str().unwrap_or_default().to_owned()).collect()
        };
        let all = |answers: &Value| answers.as_array().into_iter().flatten().map(one).collect();
        Ok(match self {
            Kind::Msearch => all(&answer["responses"]),
            Kind::Batch => all(&answer["results"]),
            _ => vec![one(&answer)],
        })
    }
}

/// The result of one measurement.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    /// Number of queries in one request. It is smaller than the name says if the log has fewer
    /// distinct queries.
    size: usize,
    /// Requests per second that were due to arrive; `None` if each connection sends as soon as it
    /// has an answer.
    arriving: Option<f64>,
    queries_per_second: f64,
    of_engine: f64,
    refused: u64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
    /// Memory of the server after the measurement.
    server_mb: u64,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    check_seconds(options.seconds)?;
    if let Some(rate) = options.rates.iter().find(|rate| !rate.is_finite() || **rate <= 0.0) {
        return Err(Failure::user(format!("--rates must be numbers above 0, but one is {rate}")));
    }
    let queries = read_queries(&options.queries)?;
    if queries.is_empty() {
        return Err(Failure::user("the file of --queries is empty"));
    }
    let interrupt = Interrupt::listen(None)?;
    // Only distinct queries are sent, because the engine answers repeated queries of a batch only
    // once.
    let mut known = HashSet::new();
    let texts: Vec<&str> =
        queries.iter().map(String::as_str).filter(|text| known.insert(*text)).collect();
    let device = match options.device.as_str() {
        "cuda" => DeviceChoice::Cuda,
        "auto" => DeviceChoice::Auto,
        _ => DeviceChoice::Cpu,
    };
    let time = Duration::from_secs_f64(options.seconds);
    let bar = progress::items("measuring", 1 + 2 * options.requests.len() as u64, options.quiet);
    let engine = {
        let settings = SearcherOptions::new().device(device);
        let searcher = Index::open(&options.index)?.searcher_with(settings)?;
        engine_rate(&searcher, &texts, options, time.min(SHORT))?
    };
    bar.inc(1);
    let server = Server::start(&options.index, &options.device)?;
    compare(&server, &texts, options)?;
    let mut rows = Vec::new();
    let deaf = options.requests.first().map(|kind| kind.request(&texts[..1], options.k));
    let _deaf = Deaf::start(server.address, options.deaf, deaf.transpose()?.unwrap_or_default());
    for &kind in &options.requests {
        let size = kind.size().min(texts.len());
        let requests: Vec<Vec<u8>> = (0..texts.len().div_ceil(size))
            .map(|first| {
                let batch = (0..size).map(|i| texts[(first * size + i) % texts.len()]);
                kind.request(&batch.collect::<Vec<_>>(), options.k)
            })
            .collect::<Result<_, _>>()?;
        let mut measure = |rate: Option<f64>| -> Result<f64, Failure> {
            let connections = usize::from(options.connections);
            let time = if rate.is_none() { time.min(SHORT) } else { time };
            let sent = load(server.address, &requests, connections, rate, time, &interrupt)?;
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            let row =
                Row { server_mb: server.memory() >> 20, ..row(kind, size, rate, sent, engine) };
            let reached = row.queries_per_second / size as f64;
            rows.push(row);
            bar.inc(1);
            Ok(reached)
        };
        let reached = measure(None)?;
        match options.rates.as_slice() {
            [] => drop(measure(Some(reached / 2.0))?),
            rates => rates.iter().try_for_each(|&rate| measure(Some(rate)).map(drop))?,
        }
    }
    bar.finish_and_clear();
    server.end()?;
    show(options, engine, &rows)
}

/// Returns the queries per second that the engine answers: on all threads, each one query at a
/// time, or in batches on a GPU.
fn engine_rate(
    searcher: &Searcher,
    texts: &[&str],
    options: &Options,
    time: Duration,
) -> Result<f64, Failure> {
    searcher.prepare()?;
    let requests: Vec<Request> =
        texts.iter().map(|text| Request::new(*text).k(options.k)).collect();
    for request in &requests {
        searcher.search(request)?;
    }
    let (start, done) = (Instant::now(), AtomicUsize::new(0));
    if searcher.gpu_status().name.is_some() {
        while start.elapsed() < time {
            for batch in requests.chunks(searcher.batch_size(options.k)) {
                searcher.search_batch(batch).into_iter().collect::<Result<Vec<_>, _>>()?;
                done.fetch_add(batch.len(), Ordering::Relaxed);
            }
        }
        return Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64());
    }
    std::thread::scope(|scope| {
        let work = || -> Result<(), warpseek::Error> {
            while start.elapsed() < time {
                let next = done.fetch_add(1, Ordering::Relaxed);
                searcher.search(&requests[next % requests.len()])?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..options.threads.get()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => Ok(done?),
            Err(_) => Err(Failure::broken("a search thread panicked")),
        })
    })?;
    Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// Checks that every kind of request finds the same hits.
fn compare(server: &Server, texts: &[&str], options: &Options) -> Result<(), Failure> {
    let texts = &texts[..texts.len().min(COMPARED)];
    let mut connection = Connection::open(server.address)?;
    let mut known: Option<Vec<Vec<String>>> = None;
    for &kind in &options.requests {
        let mut found = Vec::with_capacity(texts.len());
        for queries in texts.chunks(kind.size()) {
            let request = kind.request(queries, options.k)?;
            let (status, body) = connection.exchange(&request)?;
            if status != 200 {
                let body = String::from_utf8_lossy(body).into_owned();
                return Err(Failure::broken(format!("{}: status {status}: {body}", kind.name())));
            }
            found.extend(kind.ids(body, queries.len())?);
        }
        match &known {
            Some(known) if *known != found => {
                let message = format!(
                    "{} returns different hits than {}",
                    kind.name(),
                    options.requests[0].name()
                );
                return Err(Failure::broken(message));
            }
            Some(_) => {}
            None => known = Some(found),
        }
    }
    Ok(())
}

fn row(kind: Kind, size: usize, arriving: Option<f64>, sent: Sent, engine: f64) -> Row {
    let Sent { mut times_ms, refused, seconds } = sent;
    times_ms.sort_by(f64::total_cmp);
    let queries_per_second = (times_ms.len() * size) as f64 / seconds;
    Row {
        name: kind.name(),
        size,
        arriving,
        queries_per_second,
        of_engine: queries_per_second / engine,
        refused,
        p50_ms: percentile(&times_ms, 0.5),
        p99_ms: percentile(&times_ms, 0.99),
        p999_ms: percentile(&times_ms, 0.999),
        server_mb: 0,
    }
}

fn show(options: &Options, engine: f64, rows: &[Row]) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "program": program(), "hardware": hardware(), "index": options.index, "device": options.device, "connections": options.connections,
            "seconds": options.seconds, "k": options.k, "threads": options.threads.get(), "engine_queries_per_second": engine, "rows": rows,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{}; {}; device {}; the engine alone answers {} queries/s",
        hardware(),
        counted(u64::from(options.connections), "connection"),
        options.device,
        count(engine as u64),
    )?;
    let head = [
        "",
        "queries",
        "arriving/s",
        "queries/s",
        "of engine",
        "refused",
        "p50 ms",
        "p99",
        "p99.9",
        "server MB",
    ];
    let mut shown = vec![head.map(String::from).to_vec()];
    for row in rows {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        shown.push(vec![
            row.name.to_owned(),
            count(row.size as u64),
            row.arriving.map_or("-".to_owned(), |rate| count(rate as u64)),
            count(row.queries_per_second as u64),
            format!("{:.0}%", 100.0 * row.of_engine),
            count(row.refused),
            ms(row.p50_ms),
            ms(row.p99_ms),
            ms(row.p999_ms),
            count(row.server_mb),
        ]);
    }
    table(&shown, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

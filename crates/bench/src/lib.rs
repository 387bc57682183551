//! The measurements of `warpseek bench`, on the user's own index and machine. Each subject has a
//! separate file; `report` renders the results as HTML pages.

mod answers;
mod build;
mod cluster;
mod codecs;
mod cohorts;
mod deadlines;
mod ding;
mod energy;
mod filters;
mod gpu;
mod http;
mod load;
mod ngram;
mod planning;
mod queries;
mod random;
pub mod report;
mod statistics;
mod times;
mod writes;

pub use gpu::thesis;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use warpseek_index::Snapshot;

use warpseek_console::Failure;
use warpseek_console::terminal::counted;

/// Measures engines and codecs on an index.
#[derive(Args)]
#[command(
    about = "Measure engines and codecs on an index",
    after_help = "\
Examples:
  warpseek bench queries --index idx --queries log.txt
  warpseek bench queries --index idx --queries log.txt --html queries.html
  warpseek bench codecs --index idx
  warpseek bench cohorts --index idx --queries log.txt --spmm
  warpseek bench deadlines --index idx --queries log.txt
  warpseek bench filters --index idx --queries log.txt
  warpseek bench planning --index idx --queries log.txt
  warpseek bench gpu --index idx --queries log.txt
  warpseek bench gpu --codecs
  warpseek bench load --index idx --queries log.txt
  warpseek bench http --index idx --queries log.txt
  warpseek bench cluster --nodes nodes.txt --shards 4 --queries log.txt --rates 20,50
  warpseek bench writes --input docs.jsonl --queries log.txt
  warpseek bench ngram --index grams
  warpseek bench build --cuda"
)]
pub struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Queries(queries::Options),
    Build(build::Options),
    Cluster(cluster::Options),
    Codecs(codecs::Options),
    Cohorts(cohorts::Options),
    Deadlines(deadlines::Options),
    Filters(filters::Options),
    Gpu(gpu::Options),
    Http(http::Options),
    Load(load::Options),
    Ngram(ngram::Options),
    Planning(planning::Options),
    Writes(writes::Options),
}

/// Runs the measurement that the options select.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.what {
        What::Queries(options) => queries::run(options),
        What::Build(options) => build::run(options),
        What::Cluster(options) => cluster::run(options),
        What::Codecs(options) => codecs::run(options),
        What::Cohorts(options) => cohorts::run(options),
        What::Deadlines(options) => deadlines::run(options),
        What::Filters(options) => filters::run(options),
        What::Gpu(options) => gpu::run(options),
        What::Http(options) => http::run(options),
        What::Load(options) => load::run(options),
        What::Ngram(options) => ngram::run(options),
        What::Planning(options) => planning::run(options),
        What::Writes(options) => writes::run(options),
    }
}

/// Reads the texts of a file of queries. Each line has the form `id<TAB>text` or contains only
/// the text.
pub fn read_queries(path: &Path) -> Result<Vec<String>, Failure> {
    Ok(read_log(path)?.into_iter().map(|(_, text)| text).collect())
}

/// Reads the ids of the queries that [`read_queries`] returns. The id of a query without one is
/// its line number.
fn read_ids(path: &Path) -> Result<Vec<String>, Failure> {
    Ok(read_log(path)?.into_iter().map(|(id, _)| id).collect())
}

fn read_log(path: &Path) -> Result<Vec<(String, String)>, Failure> {
    let query = |(i, line): (usize, &str)| match line.split_once('\t') {
        Some((id, text)) => (id.to_owned(), text.to_owned()),
        None => ((i + 1).to_string(), line.to_owned()),
    };
    let all = read(path)?.lines().enumerate().map(query).collect::<Vec<_>>();
    Ok(all.into_iter().filter(|(_, text)| !text.trim().is_empty()).collect())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| Failure::user(format!("{}: {e}", path.display())))
}

/// Returns the name of the CPU and the number of available cores.
fn hardware() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {}", warpseek::devices::cpu_model(), counted(cores as u64, "core"))
}

/// Describes an index in one line.
fn index_line(dir: &Path, snapshot: &Snapshot) -> String {
    let manifest = snapshot.manifest();
    let postings = manifest.segments.iter().map(|s| s.postings).sum();
    format!(
        "{}: {}, {}, {}, codec {}, analyzer {}",
        dir.display(),
        counted(snapshot.statistics().documents, "document"),
        counted(postings, "posting"),
        counted(manifest.segments.len() as u64, "segment"),
        manifest.codec,
        manifest.analyzer,
    )
}

/// Returns the name and version of the program.
fn program() -> String {
    format!("warpseek {}", env!("CARGO_PKG_VERSION"))
}

//! `warpseek eval`: evaluates a run against relevance judgements.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::eval::{Measure, Options as EvalOptions, Qrels, Report, Run, evaluate};

use warpseek_console::Failure;
use warpseek_console::terminal::{note, table};

/// Evaluate a run against relevance judgements, as trec_eval does
///
/// Measures are means over the queries in both files. Judged queries without hits in the run do not
/// count, as in trec_eval without -c; --complete counts them as 0, which is the fair way to compare
/// systems. A note reports their number.
#[derive(Args)]
#[command(after_help = "\
Measures: ndcg, ndcg@K, map, map@K, mrr, mrr@K, recall@K, p@K, rprec, success@K,
num_ret, num_rel, num_rel_ret.

Examples:
  warpseek eval --qrels qrels.tsv --run run.trec
  warpseek eval --qrels qrels.txt --run run.trec -m ndcg@10 -m recall@100 --json")]
pub(crate) struct Options {
    /// Judgements: TREC (query, 0, document, grade) or TSV (query, document, grade); gzip and zstd
    /// are decompressed
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// The run, in TREC format; gzip and zstd are decompressed
    #[arg(long, value_name = "FILE")]
    run: PathBuf,
    /// Measure to compute (see below); may be repeated
    #[arg(short, value_name = "MEASURE", default_values = ["ndcg@10", "map", "mrr@10", "recall@100", "p@10"])]
    measures: Vec<Measure>,
    /// Count judged queries that are missing from the run as 0, as `trec_eval -c` does
    #[arg(long)]
    complete: bool,
    /// Show the measures of every query
    #[arg(long)]
    per_query: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let qrels = Qrels::read(&options.qrels)?;
    let run = Run::read(&options.run)?;
    let complete = options.complete;
    let report = evaluate(&qrels, &run, &options.measures, EvalOptions { complete });
    if report.queries == 0 {
        return Err(Failure::user(format!(
            "{} and {} have no query in common; are they of the same collection?",
            options.qrels.display(),
            options.run.display()
        )));
    }
    note_missing(&report, complete);
    let mut out = std::io::stdout().lock();
    if options.json {
        let mut value = serde_json::to_value(&report)?;
        if !options.per_query
            && let Some(map) = value.as_object_mut()
        {
            map.remove("per_query");
        }
        writeln!(out, "{value:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let format = |measure: &Measure, value: f64| {
        if measure.is_summed() { format!("{value:.0}") } else { format!("{value:.4}") }
    };
    let row = |name: &str, values: &[f64]| {
        let cells = options.measures.iter().zip(values).map(|(m, &v)| format(m, v));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let head = std::iter::once("query".to_owned());
    let mut rows = vec![head.chain(options.measures.iter().map(ToString::to_string)).collect()];
    if options.per_query {
        rows.extend(report.per_query.iter().map(|(query, values)| row(query, values)));
    }
    rows.push(row(&format!("all {}", report.queries), &report.mean));
    table(&rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Notes how many queries are in only one of the files.
fn note_missing(report: &Report, complete: bool) {
    let said = |n: usize, one: &str, many: &str| match n {
        0 => {}
        1 => note(one),
        n => note(format!("{n} {many}")),
    };
    match complete {
        true => said(
            report.missing_in_run,
            "1 judged query has no hits in the run and counts as 0",
            "judged queries have no hits in the run and count as 0",
        ),
        false => said(
            report.missing_in_run,
            "1 judged query has no hits in the run and does not count; --complete counts it as 0",
            "judged queries have no hits in the run and do not count; --complete counts them as 0",
        ),
    }
    said(
        report.unjudged,
        "1 query of the run has no judgements and does not count",
        "queries of the run have no judgements and do not count",
    );
}

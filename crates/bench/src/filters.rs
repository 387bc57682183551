//! The `bench filters` command: the cost of filters that admit a share of the documents, compared
//! with the same queries without a filter.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::options::Algorithm;
use warpseek::{Index, Mode, Request, Searcher, SearcherOptions};
use warpseek_console::options::{RankingChoice, algorithms, named};
use warpseek_console::terminal::{counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_exec::{Context, Engine, Mask, Reference};
use warpseek_index::{DocSet, Segment, Snapshot};

use crate::random::Random;
use crate::statistics::mean;
use crate::{hardware, index_line, read_queries};

/// Measure filtered queries
///
/// A filter admits a share of the documents, chosen at random. All shares and the unfiltered
/// search take turns at every query. The time of a query, on one thread, is the best of the
/// rounds, without the time to find the documents that match the filter. Some answers are
/// compared with the reference.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench filters --index idx --queries log.txt
  warpseek bench filters --index idx --queries log.txt --shares 0.1,5 --algorithms auto,windowed-maxscore")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Percentages of the documents that filters admit
    #[arg(long, value_delimiter = ',', value_name = "PERCENT", default_value = "0.1,1,10,50")]
    shares: Vec<f64>,
    /// Algorithms to measure
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "auto",
        value_parser = algorithms(Algorithm::cpu_names()))]
    algorithms: Vec<Algorithm>,
    /// Modes to measure
    #[arg(long, value_delimiter = ',', value_name = "MODES", default_value = "or,and",
        value_parser = named::<Mode>(Mode::NAMES))]
    modes: Vec<Mode>,
    /// Number of hits per query
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Number of answers in each cell to compare with the reference, which is slow
    #[arg(long, default_value_t = 3, value_name = "N")]
    compare: usize,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    ranking: RankingChoice,
}

/// Measurements of one algorithm, mode and share.
#[derive(Serialize)]
struct Cell {
    algorithm: &'static str,
    mode: String,
    /// Percentage of the documents that the filter admits, or `None` without a filter.
    share: Option<f64>,
    mean_us: f64,
    /// Mean time relative to the mean without a filter.
    of_unfiltered: f64,
    postings_scored: f64,
    /// Number of queries that each algorithm answered.
    chosen: BTreeMap<String, usize>,
}

/// Measurements of all queries with one filter.
#[derive(Clone)]
struct Sum {
    best_us: Vec<f64>,
    postings_scored: u64,
    chosen: BTreeMap<String, usize>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let queries = read_queries(&options.queries)?;
    if queries.is_empty() || options.rounds == 0 {
        return Err(Failure::user(
            "nothing to measure: --queries must name a file with at least one query, and --rounds must be at least 1",
        ));
    }
    if let Some(share) = options.shares.iter().find(|share| !(0.0..=100.0).contains(*share)) {
        return Err(Failure::user(format!(
            "--shares must be percentages from 0 to 100, but one is {share}"
        )));
    }
    let interrupt = Interrupt::listen(None)?;
    let index = Index::open(&options.index)?;
    let ranking = options.ranking.get(index.snapshot()?.manifest())?;
    let steps = options.algorithms.len() * options.modes.len() * (options.rounds + 1);
    let bar = progress::items("measuring", steps as u64, options.quiet);
    let mut cells = Vec::new();
    for &algorithm in &options.algorithms {
        let settings = SearcherOptions::new().ranking(ranking).algorithm(algorithm).threads(1);
        let searcher = index.searcher_with(settings)?;
        let snapshot = searcher.snapshot();
        let filter = |&share: &f64| (Some(share), Some(admitting(&snapshot, share)));
        let filters: Vec<_> =
            options.shares.iter().map(filter).chain(std::iter::once((None, None))).collect();
        for &mode in &options.modes {
            let requests: Vec<Request> =
                queries.iter().map(|q| Request::new(q.as_str()).k(options.k).mode(mode)).collect();
            let empty = Sum {
                best_us: vec![f64::MAX; queries.len()],
                postings_scored: 0,
                chosen: BTreeMap::new(),
            };
            let mut sums = vec![empty; filters.len()];
            for round in 0..=options.rounds {
                for (number, request) in requests.iter().enumerate() {
                    if interrupt.is_set() {
                        return Err(Failure::interrupted("interrupted"));
                    }
                    for ((_, mask), sum) in filters.iter().zip(&mut sums) {
                        let compare = round == 0 && number < options.compare;
                        let took = sum.search(&searcher, request, mask, round == 0, compare)?;
                        if round > 0 {
                            sum.best_us[number] = sum.best_us[number].min(took);
                        }
                    }
                }
                bar.inc(1);
            }
            let unfiltered = sums.last().map_or(1.0, |sum| mean(&sum.best_us));
            for ((share, _), sum) in filters.iter().zip(sums) {
                cells.push(Cell {
                    algorithm: algorithm.name(),
                    mode: mode.to_string(),
                    share: *share,
                    mean_us: mean(&sum.best_us),
                    of_unfiltered: mean(&sum.best_us) / unfiltered,
                    postings_scored: sum.postings_scored as f64 / queries.len() as f64,
                    chosen: sum.chosen,
                });
            }
        }
    }
    bar.finish_and_clear();
    let about = index_line(&options.index, &*index.snapshot()?);
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": about, "queries": queries.len(), "k": options.k,
            "rounds": options.rounds, "cells": cells,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let queries = counted(queries.len() as u64, "query");
    let rounds = counted(options.rounds as u64, "round");
    writeln!(out, "{}; {about}; {queries}, k {}, best of {rounds}", hardware(), options.k)?;
    table(&rows(&cells), &mut out)?;
    Ok(ExitCode::SUCCESS)
}

impl Sum {
    /// Answers a request restricted to the documents of a mask; returns the microseconds from its
    /// text to its hits.
    fn search(
        &mut self,
        searcher: &Searcher,
        request: &Request,
        mask: &Option<Arc<Mask>>,
        first: bool,
        compare: bool,
    ) -> Result<f64, Failure> {
        let start = Instant::now();
        let mut plan = searcher.plan(request)?;
        plan.mask.clone_from(mask);
        let answer = searcher.answer(&[&plan]).remove(0)?;
        let took = start.elapsed().as_secs_f64() * 1e6;
        if first {
            self.postings_scored += answer.work.unwrap_or_default().postings_scored;
            for choice in searcher.decide(&[&plan]).choices {
                *self.chosen.entry(choice.algorithm).or_default() += 1;
            }
        }
        if compare {
            let reference = Reference::new(searcher.snapshot());
            let expected = reference.search(&[&plan], &Context::new(1)).remove(0)?;
            if expected.hits != answer.hits {
                let what = "the hits of a filtered query differ from the reference's";
                return Err(Failure::broken(format!("{}: {what}", plan.mode)));
            }
        }
        Ok(took)
    }
}

/// Returns a mask of about this percentage of the documents. Each mask is a subset of all larger
/// ones.
fn admitting(snapshot: &Snapshot, percent: f64) -> Arc<Mask> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut set = |segment: &Arc<Segment>| {
        let mut set = DocSet::new(segment.documents().count());
        for doc in 0..segment.documents().count() {
            if random.unit() * 100.0 <= percent {
                set.insert(doc);
            }
        }
        set
    };
    let sets = snapshot.segments().iter().map(&mut set).collect();
    Arc::new(Mask::new(snapshot, sets))
}

fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head =
        ["requested", "mode", "admitted", "mean us", "of unfiltered", "scored", "algorithms"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        let chosen: Vec<String> =
            cell.chosen.iter().map(|(name, n)| format!("{name} {n}")).collect();
        rows.push(vec![
            cell.algorithm.to_owned(),
            cell.mode.clone(),
            cell.share.map_or("no filter".to_owned(), |share| format!("{share}%")),
            format!("{:.1}", cell.mean_us),
            format!("{:.2}", cell.of_unfiltered),
            format!("{:.0}", cell.postings_scored),
            chosen.join(", "),
        ]);
    }
    rows
}

//! The `bench planning` command: the work before any list is read, which is analysis, dictionary
//! lookup and planning.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::{Index, Mode, Request, Searcher, SearcherOptions};
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_exec::Query;

use crate::random::Random;
use crate::{hardware, index_line, read_queries};

/// Measure analysis, dictionary lookup and planning, for words that the index has and words that
/// it lacks
///
/// Present words are those of the queries that the index has, each once and in random order;
/// absent words are derived from them. A query consists of several such words. Times are
/// nanoseconds per word on one thread: the best of several passes over all queries. The plan
/// includes the analysis, and the search includes the plan. An AND of absent words reads no list,
/// so its search time is the minimum cost of any query.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench planning --index idx --queries log.txt
  warpseek bench planning --index idx --queries log.txt --words 3 --json")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File of queries, one per line: `id<TAB>text` or only the text
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Words per query
    #[arg(long, default_value_t = 10, value_name = "N")]
    words: usize,
    /// Number of rounds
    #[arg(long, default_value_t = 50, value_name = "N")]
    rounds: usize,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Measurements of one kind of words.
#[derive(Serialize)]
struct Cell {
    words: &'static str,
    queries: usize,
    /// Nanoseconds of analysis per word.
    analysis_ns: f64,
    /// Nanoseconds of planning per word, including the analysis.
    plan_ns: f64,
    /// Nanoseconds of a whole AND per word, including the plan; `None` if the search reads lists.
    search_ns: Option<f64>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let texts = read_queries(&options.queries)?;
    let interrupt = Interrupt::listen(None)?;
    let index = Index::open(&options.index)?;
    let searcher = index.searcher_with(SearcherOptions::new().threads(1))?;
    let (known, unknown) = words(&searcher, &texts)?;
    if options.rounds == 0 || options.words == 0 || known.is_empty() {
        return Err(Failure::user(
            "nothing to measure: --rounds and --words must be at least 1, and the index must contain a word of the queries",
        ));
    }
    let bar = progress::items("measuring", 2 * options.rounds as u64, options.quiet);
    let mut cells = Vec::new();
    for (name, words) in [("present", known), ("absent", unknown)] {
        let texts: Vec<String> = words.chunks(options.words).map(|some| some.join(" ")).collect();
        let request = |text: &String| Request::new(text.as_str()).mode(Mode::And);
        let requests: Vec<Request> = texts.iter().map(request).collect();
        let (mut analysis, mut plan, mut search) = (f64::MAX, f64::MAX, f64::MAX);
        let snapshot = searcher.snapshot();
        for _ in 0..options.rounds {
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            analysis = analysis.min(pass(&texts, |text| {
                black_box(Query::for_index(text, snapshot.manifest())?);
                Ok(())
            })?);
            plan = plan.min(pass(&requests, |request| {
                black_box(searcher.plan(request)?);
                Ok(())
            })?);
            if name == "absent" {
                search = search.min(pass(&requests, |request| {
                    black_box(searcher.search(request)?);
                    Ok(())
                })?);
            }
            bar.inc(1);
        }
        let per_word = |ns: f64| ns / words.len() as f64;
        cells.push(Cell {
            words: name,
            queries: texts.len(),
            analysis_ns: per_word(analysis),
            plan_ns: per_word(plan),
            search_ns: (name == "absent").then(|| per_word(search)),
        });
    }
    bar.finish_and_clear();
    let about = index_line(&options.index, &searcher.snapshot());
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware(), "index": about, "words": options.words, "rounds": options.rounds, "cells": cells,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let (words, rounds) =
        (counted(options.words as u64, "word"), counted(options.rounds as u64, "round"));
    writeln!(out, "{}; {about}; queries of {words}, best of {rounds}", hardware())?;
    table(&rows(&cells), &mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the nanoseconds of work on all items.
fn pass<T>(items: &[T], work: impl Fn(&T) -> Result<(), Failure>) -> Result<f64, Failure> {
    let start = Instant::now();
    items.iter().try_for_each(work)?;
    Ok(start.elapsed().as_nanos() as f64)
}

/// Returns the words of the queries that the index has, and derived words that it lacks.
fn words(searcher: &Searcher, texts: &[String]) -> Result<(Vec<String>, Vec<String>), Failure> {
    let all: BTreeSet<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for word in all {
        let plan = searcher.plan(&Request::new(word))?;
        if plan.terms.is_empty() || !plan.missing.is_empty() {
            continue;
        }
        known.push(word.to_owned());
        // Hardly any word ends like this, but an index may contain anything.
        let other = format!("{word}qxq");
        let plan = searcher.plan(&Request::new(other.as_str()))?;
        if plan.terms.is_empty() && !plan.missing.is_empty() {
            unknown.push(other);
        }
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for words in [&mut known, &mut unknown] {
        for i in (1..words.len()).rev() {
            words.swap(i, random.below(i + 1));
        }
    }
    Ok((known, unknown))
}

fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head = ["words", "queries", "analysis ns", "plan ns", "search ns"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        rows.push(vec![
            cell.words.to_owned(),
            count(cell.queries as u64),
            format!("{:.0}", cell.analysis_ns),
            format!("{:.0}", cell.plan_ns),
            cell.search_ns.map_or(String::new(), |ns| format!("{ns:.0}")),
        ]);
    }
    rows
}

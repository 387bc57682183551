//! `warpseek ngram search`: answers one query from an index of n-grams.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use warpseek::ngram::NgramResponse;
use warpseek::options::StoreMode;
use warpseek::text::GramConfig;
use warpseek::{Error, Index, NgramSearcher};
use warpseek_console::Failure;
use warpseek_console::options::Threads;
use warpseek_console::terminal::{Theme, count, counted, note};

use super::snippet::{SNIPPET, add_snippet};
use super::{Searching, check};
use crate::arguments::Deadline;
use crate::report::text::{painted, printable, wrap};

/// Search an index of n-grams
///
/// A hit has nearly all n-grams of the query close together; its score is their number. `--verify`
/// ranks the best hits by their edit distance to the query.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek ngram search grams \"acetylsalicilic acid\"
  warpseek ngram search grams \"route flap dampning\" --misses 6
  warpseek ngram search grams \"route flap dampning\" --errors 2 --verify   at most 2 wrong characters
  warpseek ngram search grams \"route flap dampning\" --misses 40% --verify --candidates 1000
  warpseek ngram search grams 東京都庁 --json --snippet")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// The query; several words need no quotes
    #[arg(required = true)]
    query: Vec<String>,
    /// Number of hits to return
    #[arg(short, long, default_value_t = 10, value_name = "K", help_heading = "Query")]
    k: usize,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    deadline: Deadline,
    #[command(flatten)]
    threads: Threads,
    /// Show the text around the match, with the match highlighted [default: shown if the index
    /// stores documents and --json is not given]
    #[arg(long, help_heading = "Output")]
    snippet: bool,
    /// Print JSON instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    options.searching.check()?;
    let index = Index::at(&options.index);
    check(&index)?;
    let settings = options.searching.options(options.threads.get());
    let searcher = index.ngram_searcher_with(settings)?;
    let query = options.query.join(" ");
    let mut request = options.searching.request(&query, options.k);
    if let Some(time) = options.deadline.deadline {
        request = request.deadline(time);
    }
    let stored = searcher.snapshot().manifest().store == StoreMode::All;
    if options.snippet && !stored {
        return Err(Error::NoText.into());
    }
    let response = searcher.search(&request)?;
    if response.ngrams() == 0 {
        note(too_short(&searcher.config()));
    }
    let snippets = options.snippet || (stored && !options.json);
    let found = Found { query: &query, snippets, searcher: &searcher, response: &response };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{:#}", found.json()?)?;
    } else {
        found.print(&mut out, &Theme::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the reason why a query has no n-gram.
fn too_short(config: &GramConfig) -> String {
    let unit = match config.unit {
        warpseek::text::Unit::Char => "letters and digits",
        warpseek::text::Unit::Word => "words",
    };
    format!("the query has no n-gram to search for: it has fewer than {} {unit}", config.n)
}

struct Found<'a> {
    query: &'a str,
    snippets: bool,
    searcher: &'a NgramSearcher,
    response: &'a NgramResponse,
}

impl Found<'_> {
    fn json(&self) -> Result<Value, Failure> {
        let (response, config) = (self.response, self.searcher.config());
        let mut hits = Vec::new();
        for (rank, hit) in response.hits().iter().enumerate() {
            let mut entry = json!({
                "rank": rank + 1,
                "id": response.id(rank)?,
                "doc": hit.doc,
                "score": hit.score,
                "document": response.document(rank)?,
            });
            if let Some(distance) = hit.distance {
                entry["distance"] = json!(distance);
            }
            if self.snippets {
                add_snippet(&mut entry, response, rank)?;
            }
            hits.push(entry);
        }
        let (searched, documents) = response.documents_searched();
        Ok(json!({
            "query": self.query,
            "normal_query": response.normal_query(),
            "unit": config.unit,
            "n": config.n,
            "ngrams": response.ngrams(),
            "least": response.least(),
            "engine": self.searcher.engine(),
            "generation": response.generation(),
            "coverage": {
                "complete": response.is_complete(),
                "searched": searched,
                "documents": documents,
                "unverified": response.unverified(),
            },
            "too_distant": response.too_distant(),
            "microseconds": response.took().as_micros() as u64,
            "hits": hits,
        }))
    }

    fn print(&self, out: &mut impl Write, theme: &Theme) -> Result<(), Failure> {
        let response = self.response;
        let ngrams = response.ngrams();
        for (rank, hit) in response.hits().iter().enumerate() {
            let number = theme.paint(theme.dim, format!("{:>3}.", rank + 1));
            let id = theme.paint(theme.strong, printable(&response.id(rank)?));
            let distance = hit.distance.map_or(String::new(), |d| format!(", distance {d}"));
            let score = format!("{} of {}{distance}", hit.score, counted(ngrams.into(), "n-gram"));
            writeln!(out, "{number} {id}  {}", theme.paint(theme.dim, score))?;
            if self.snippets {
                let text = painted(&response.snippet(rank, SNIPPET)?, theme);
                wrap(&text, 75).iter().try_for_each(|line| writeln!(out, "     {line}"))?;
            }
        }
        let mut dim = |line: String| writeln!(out, "{}", theme.paint(theme.dim, line));
        if !response.coverage().is_complete() {
            let (searched, documents) = response.documents_searched();
            let all = counted(documents, "document");
            dim(format!("the deadline passed: {} of {all} were searched", count(searched)))?;
        }
        if response.unverified() > 0 {
            let left = counted(response.unverified() as u64, "candidate");
            dim(format!("the deadline passed: {left} could not be verified and were dropped"))?;
        }
        if response.hits().is_empty() && response.too_distant() > 0 {
            let dropped = counted(response.too_distant() as u64, "candidate");
            dim(format!("{dropped} dropped: more errors than `--errors` allows"))?;
        }
        let least = match ngrams {
            0 => String::new(),
            _ => format!(
                " with at least {} of {}",
                response.least(),
                counted(ngrams.into(), "n-gram")
            ),
        };
        dim(format!(
            "{}{least} in {:.2} ms by {}",
            counted(response.hits().len() as u64, "hit"),
            response.took().as_secs_f64() * 1e3,
            self.searcher.engine(),
        ))?;
        Ok(())
    }
}

//! `warpseek search`: answers one query and prints the hits as text or JSON.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::plan::ExecError;
use warpseek::{Error, Index, Request};
use warpseek_console::options::Threads;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, note};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::{Deadline, Searching};
use crate::report::hits::HitReport;
use crate::sorting::Sorting;

/// Search an index
///
/// Words may have weights (`apple^2.5 pie`). An index with a schema or positions also supports
/// fields, operators, phrases and conditions (docs/reference/query-syntax.md). For an index of
/// vectors, the query is a list of tokens with weights or a JSON object.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek search idx \"route flap damping\"
  warpseek search idx \"ospf^2 area\" --mode and -k 5 --explain
  warpseek search idx \"+title:ospf area\" --filter \"year:>=2010\" --sort year:desc --facet tag

For misspelt words, see `warpseek ngram`. `--help` shows all options.")]
#[command(after_long_help = "\
Examples:
  warpseek search idx \"route flap damping\"
  warpseek search idx \"ospf^2 area\" --mode and -k 5 --explain
  warpseek search idx \"ospf area\" --count
  warpseek search idx \"slow start\" --rank cosine --json
  warpseek search idx \"slow start\" --deadline 5ms                  best hits within 5 ms
  warpseek search idx \"flap damping\" --among ids.txt              only these documents
  warpseek search idx \"+title:ospf area year:>=2010\"              fields and conditions
  warpseek search idx \"flap damping\" --filter \"year:>=2010\"      only documents that match
  warpseek search idx ospf --sort year:desc,_score                 by year, then by score
  warpseek search idx ospf --sort year:desc --after '[2019, 17]'   the next page
  warpseek search idx ospf --facet tag --facet year:..2000,2000..  counts of all matches
  warpseek search idx \"flap damping\" --device auto --explain-plan  which device answered, and why
  warpseek search vectors '{\"slow\": 1.3, \"start\": 0.8}'

For misspelt words, see `warpseek ngram`.
Settings for studies (--tile, --partition and others) are in docs/reference/study-settings.md.")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Query; several words need no quotes
    #[arg(required = true)]
    query: Vec<String>,
    /// Number of hits to return
    #[arg(short, long, default_value_t = 10, value_name = "K", help_heading = "Query")]
    k: usize,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    deadline: Deadline,
    #[command(flatten)]
    threads: Threads,
    /// Unsupported; the error names the command for approximate search
    #[arg(long, hide = true)]
    fuzzy: bool,
    /// Show how each score is computed
    #[arg(long, help_heading = "Output")]
    explain: bool,
    /// Show the algorithm and device that answered, the reason, and the estimates behind the choice
    #[arg(long, help_heading = "Output")]
    explain_plan: bool,
    /// Print JSON instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.fuzzy {
        return Err(Failure::user(
            "an index of words does not find misspelt words; build an index of n-grams \
             with `warpseek ngram index INPUT -o DIR` and search it with `warpseek ngram search DIR QUERY`",
        ));
    }
    let (index, searching) = (Index::at(&options.index), options.searching.for_one());
    let among = searching.query.ids()?;
    let settings = searching.options(&index, options.threads.get())?;
    let searcher = index.searcher_with(settings)?;
    let query = options.query.join(" ");
    let mut request = Request::new(searching.query.input(&searcher, &query))
        .k(options.k)
        .mode(searching.query.mode)
        .count(searching.query.count);
    request.among = among;
    request.filter = searching.query.filter(&searcher)?;
    if let Some(time) = options.deadline.deadline {
        request = request.deadline(time);
    }
    let request = options.sorting.apply(&searcher, request)?;
    // If the deadline leaves no time for a plan, the search reports that.
    let plan = match searcher.plan(&request) {
        Err(Error::Query(ExecError::Stopped)) => None,
        plan => Some(plan?),
    };
    let needs_gpu = |plan| {
        let decision = searcher.decide(&[plan]);
        decision.choices.iter().any(|choice| choice.device != "CPU")
    };
    if plan.as_ref().is_some_and(needs_gpu) {
        // This flag is never set: Ctrl-C ends the program, which has written nothing.
        let display = Display::loading(&searcher.loadings(), &Interrupt::default(), options.json);
        let prepared = searcher.prepare();
        drop(display);
        prepared?;
    }
    let response = searcher.search(&request)?;
    if plan.is_some_and(|plan| {
        plan.terms.is_empty() && plan.missing.is_empty() && plan.needed_tree().is_none()
    }) {
        note("the query has no words to search for (only stop words or punctuation)");
    }
    // A GPU may have failed during the search, so the decision is repeated after it.
    let decision = searcher.decide(&[response.plan()]);
    let report = HitReport {
        query: &query,
        explain: options.explain,
        explain_plan: options.explain_plan,
        sorting: options.sorting.clone(),
        decision,
        searcher: &searcher,
        response,
    };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{:#}", report.json()?)?;
    } else {
        report.print(&mut out, &Theme::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

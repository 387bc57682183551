//! The command `warpseek reproduce`: makes data, measures, and writes a page for each document
//! with every table and figure, our values beside the printed ones.

mod catalogue;
mod date;
mod directory;
mod grid;
mod listing;
mod page;
mod plots;
mod readers;
mod runner;
mod steps;
mod values;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use warpseek::devices::{cpu_model, list_devices};
use warpseek_console::terminal::{counted, error, note};
use warpseek_console::{Failure, Interrupt};

use self::catalogue::{Document, Entry};
use self::directory::{Directory, Hardware};
use self::runner::{Outcome, Runner};
use self::steps::Size;

/// Reproduces the tables and figures of the papers.
///
/// The command makes synthetic data, measures, and writes a page for each document: every table and
/// figure with our values beside the printed ones, the ratio, the hardware, the date and the
/// command. A step that is done is not repeated: an interrupted run continues where it was, and
/// pages are written again from the results. Results of another version, other options or other
/// hardware are stale and measured again.
///
/// Without a GPU, the rows that need one say so. A full run needs some 60 GB of disk and hours;
/// --quick uses less data.
#[derive(Args)]
#[command(
    about = "Reproduce the tables and figures of the papers",
    after_help = "\
Examples:
  warpseek reproduce --list                    every table and figure, and what measures it
  warpseek reproduce ding --list --json        also the printed values
  warpseek reproduce all --quick -o out        small data, some minutes
  warpseek reproduce gaioso -o out             as much data as in the document
  warpseek reproduce all -o out --pages        write pages from the results that exist

Results are in DIR/results, pages in DIR/ding.md and so on, plots beside them. Commands run in DIR."
)]
pub struct Options {
    /// Document to reproduce
    #[arg(value_enum, default_value = "all")]
    document: Choice,
    /// Use small data, for about ten minutes on two cores
    #[arg(long)]
    quick: bool,
    /// Use tiny data, for tests
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Directory for data, results and pages
    #[arg(short, long, value_name = "DIR", required_unless_present = "list")]
    output: Option<PathBuf>,
    /// List tables and figures with what measures them, and measure nothing
    #[arg(long, conflicts_with_all = ["output", "pages"])]
    list: bool,
    /// With --list: print JSON, with the printed values and all commands
    #[arg(long, requires = "list")]
    json: bool,
    /// Measure nothing; write pages from the results that exist
    #[arg(long)]
    pages: bool,
    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
}

/// The documents to reproduce.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Ding 2009: queries over compressed lists on a GPU
    Ding,
    /// Walkowiak 2010: approximate search over n-grams
    Walkowiak,
    /// Gaioso 2019: WAND and MaxScore on a GPU
    Gaioso,
    /// Wakatsuki 2016: term weights on a GPU
    Wakatsuki,
    /// Agrawal 2016: cohorts of queries, and the cost of clusters
    Agrawal,
    /// All of them
    All,
}

impl Choice {
    fn documents(self) -> Vec<Document> {
        match self {
            Choice::Ding => vec![Document::Ding],
            Choice::Walkowiak => vec![Document::Walkowiak],
            Choice::Gaioso => vec![Document::Gaioso],
            Choice::Wakatsuki => vec![Document::Wakatsuki],
            Choice::Agrawal => vec![Document::Agrawal],
            Choice::All => Document::ALL.to_vec(),
        }
    }
}

/// Runs the command.
pub fn run(options: &Options) -> Result<ExitCode, Failure> {
    let documents = options.document.documents();
    let size = match (options.quick, options.tiny) {
        (_, true) => Size::Tiny,
        (true, false) => Size::Quick,
        (false, false) => Size::Full,
    };
    if options.list {
        return listing::print(&documents, size, options.json);
    }
    let Some(output) = &options.output else {
        return Err(Failure::user("-o is missing: name a directory for data, results and pages"));
    };
    reproduce(options, &documents, size, output)
}

fn reproduce(
    options: &Options,
    documents: &[Document],
    size: Size,
    output: &Path,
) -> Result<ExitCode, Failure> {
    let directory = Directory::open(output)?;
    let interrupt = Interrupt::listen(None)?;
    let hardware = machine();
    let entries: Vec<_> =
        documents.iter().map(|&document| (document, document.entries())).collect();
    let names: Vec<_> =
        entries.iter().flat_map(|(_, entries)| entries).flat_map(Entry::steps).collect();
    let wanted = steps::with_data(&names);
    let runner = Runner {
        directory: &directory,
        size,
        hardware: &hardware,
        interrupt: &interrupt,
        quiet: options.quiet,
    };
    let outcomes = match options.pages {
        true => runner.known(&wanted),
        false => runner.run(&wanted)?,
    };
    for (document, entries) in &entries {
        let page = page::write(*document, entries, size, &outcomes, &directory)?;
        if !options.quiet {
            note(format!("wrote {}", output.join(page).display()));
        }
    }
    let mut failures = 0;
    for (step, outcome) in &outcomes {
        if let Outcome::Failed(problem) = outcome {
            error(&format!("{}: {problem}", step.command(size)));
            failures += 1;
        }
    }
    if failures == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let commands = counted(failures, "command");
    Err(Failure::broken(format!(
        "{commands} failed; the pages say so, and the same command tries again (messages are in {})",
        output.join("logs").display()
    )))
}

/// Describes the machine.
fn machine() -> Hardware {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = format!("{}, {}", cpu_model(), counted(cores as u64, "core"));
    let gpu = list_devices().ok().and_then(|found| found.into_iter().next());
    Hardware { cpu, gpu: gpu.map(|device| device.name) }
}

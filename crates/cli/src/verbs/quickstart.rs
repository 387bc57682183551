//! `warpseek quickstart`: indexes text from this machine, searches it, and shows the commands.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;
use warpseek::{Index, IndexOptions, Progress, Request, SearcherOptions};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, bytes, count};
use warpseek_console::{Failure, Interrupt};

use crate::report::build::summarise_counts;
use crate::report::hits::HitReport;
use crate::sorting::Sorting;

/// Maximum size of an indexed file.
const MAX_FILE: u64 = 1 << 20;
/// Maximum size of the corpus: enough to show useful results, and indexed in seconds.
const MAX_BYTES: u64 = 96 << 20;

const QUERIES: [&str; 3] =
    ["memory mapped file", "parse command line arguments", "compress integers with SIMD"];

/// Index text from this machine and search it
///
/// The corpus consists of the sources and READMEs of the crates in the local Cargo registry, one
/// document per file, or, without a registry, of the files in the current directory.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek quickstart
  warpseek quickstart --dir /tmp/try")]
pub(crate) struct Options {
    /// Directory for the corpus and the index [default: target/quickstart]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let theme = Theme::stdout();
    let dir = options.dir.clone().unwrap_or_else(|| Path::new("target").join("quickstart"));
    fs::create_dir_all(&dir).map_err(|e| Failure::user(format!("{}: {e}", dir.display())))?;
    let (corpus, idx) = (dir.join("corpus.jsonl"), dir.join("index"));
    let (roots, what) = roots();
    let (files, size) = write_corpus(&roots, &corpus)
        .map_err(|e| Failure::broken(format!("{}: {e}", corpus.display())))?;
    if files == 0 {
        return Err(Failure::user(
            "found no text to index; run the command in a directory with text files",
        ));
    }
    let mut out = std::io::stdout().lock();
    let step = |text: String| theme.paint(theme.strong, text);
    writeln!(
        out,
        "{}",
        step(format!("1. A corpus of {} files, {}: {what}", count(files), bytes(size)))
    )?;
    writeln!(out, "   {}\n", corpus.display())?;

    writeln!(
        out,
        "{}",
        step(format!("2. warpseek index {} -o {}", corpus.display(), idx.display()))
    )?;
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, false);
    let settings = IndexOptions::new().overwrite(true);
    let built = Index::build(&idx, &[corpus], &settings, &progress);
    drop(display);
    let (built, report) = built?;
    summarise_counts(&report, start, false);
    writeln!(out)?;

    for (i, query) in QUERIES.iter().enumerate() {
        let command = format!("{}. warpseek search {} \"{query}\" -k 3", i + 3, idx.display());
        writeln!(out, "{}", step(command))?;
        show(&built, query, 3, &mut out)?;
        writeln!(out)?;
    }
    writeln!(out, "{}", step("Try next".to_owned()))?;
    for (command, why) in [
        (
            format!("warpseek search {} \"unsafe pointer\" --explain", idx.display()),
            "how scores are computed",
        ),
        (format!("warpseek inspect {}", idx.display()), "contents and sizes of the index"),
        (format!("warpseek verify {}", idx.display()), "check every byte of it"),
        ("warpseek index YOUR.jsonl -o idx".to_owned(), "index your own documents"),
        ("warpseek --help".to_owned(), "everything else"),
    ] {
        writeln!(out, "   {command:<66} {}", theme.paint(theme.dim, why))?;
    }
    writeln!(out, "\nwarpseek is {}", std::env::current_exe().unwrap_or_default().display())?;
    Ok(ExitCode::SUCCESS)
}

/// Searches with the default options and prints the hits.
fn show(index: &Index, query: &str, k: usize, out: &mut impl Write) -> Result<(), Failure> {
    let searcher = index.searcher_with(SearcherOptions::new().threads(1))?;
    let response = searcher.search(&Request::new(query).k(k))?;
    let decision = searcher.decide(&[response.plan()]);
    let (explain, explain_plan) = (false, false);
    let sorting = Sorting::default();
    HitReport { query, explain, explain_plan, sorting, decision, searcher: &searcher, response }
        .print(out, &Theme::stdout())
}

/// Returns the directories with text: the sources in the registry, or the current directory.
fn roots() -> (Vec<PathBuf>, &'static str) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let registry = home.map(|home| home.join("registry").join("src"));
    let sources = registry.and_then(|dir| fs::read_dir(dir).ok());
    let mut crates: Vec<PathBuf> = sources
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|index| fs::read_dir(index.path()).ok())
        .flat_map(|entries| entries.flatten().map(|e| e.path()))
        .collect();
    crates.sort();
    if crates.is_empty() {
        (vec![PathBuf::from(".")], "the files below this directory")
    } else {
        (crates, "the crates of the Cargo registry")
    }
}

/// Writes one line of JSON per file; returns the number of files and their bytes.
fn write_corpus(roots: &[PathBuf], to: &Path) -> std::io::Result<(u64, u64)> {
    let mut out = BufWriter::new(File::create(to)?);
    let (mut files, mut size) = (0, 0);
    for root in roots {
        let base = root.parent().unwrap_or(root);
        let mut pending = vec![root.clone()];
        while let Some(path) = pending.pop() {
            if size > MAX_BYTES {
                break;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && !path.is_symlink() {
                if name != "target" && (!name.starts_with('.') || path == *root) {
                    let mut below: Vec<_> =
                        fs::read_dir(&path)?.flatten().map(|e| e.path()).collect();
                    below.sort_by(|a, b| b.cmp(a));
                    pending.extend(below);
                }
                continue;
            }
            let wanted = [".rs", ".md", ".txt", ".toml"].iter().any(|end| name.ends_with(end));
            if !wanted || path.metadata().map_or(0, |m| m.len()) > MAX_FILE {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let id = path.strip_prefix(base).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            writeln!(out, "{}", json!({"id": id, "title": name, "text": text}))?;
            files += 1;
            size += text.len() as u64;
        }
    }
    out.flush()?;
    Ok((files, size))
}

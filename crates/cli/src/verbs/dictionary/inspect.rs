//! `warpseek dictionary inspect`: shows the contents and sizes of a dictionary.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use warpseek::vocabulary::Dictionary;
use warpseek_console::Failure;
use warpseek_console::terminal::{Theme, bytes, count, table};

/// Show the contents and sizes of a dictionary
///
/// The command also checks the whole file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek dictionary inspect docs.dictionary
  warpseek dictionary inspect docs.dictionary --json")]
pub(super) struct Options {
    /// File of the dictionary
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let dictionary = Dictionary::open(&options.file)?;
    let (found, words) = (dictionary.statistics(), u64::from(dictionary.len()));
    let per = |n: u64, total: u64| n as f64 / total.max(1) as f64;
    let in_buckets = words - found.words_of_nodes;
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "words": words,
            "bytes": dictionary.bytes(),
            "bytes_per_word": per(dictionary.bytes(), words),
            "nodes": found.nodes,
            "buckets": found.buckets,
            "words_per_bucket": per(in_buckets, found.buckets),
            "words_of_nodes": found.words_of_nodes,
            "depth": found.depth,
            "nodes_per_look_up": per(found.steps, words),
            "sections": {
                "nodes": found.node_bytes,
                "children": found.child_bytes,
                "buckets": found.bucket_bytes,
            },
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let head = [
        row("words", count(words)),
        row("nodes", count(found.nodes)),
        row("  that are words", count(found.words_of_nodes)),
        row("buckets", count(found.buckets)),
        row("  words in each", format!("{:.1}", per(in_buckets, found.buckets))),
        row("depth", format!("{} nodes", found.depth)),
        row("  on the way to a word", format!("{:.2}", per(found.steps, words))),
    ];
    table(&head, &mut out)?;
    let theme = Theme::stdout();
    writeln!(out, "\n{}", theme.paint(theme.strong, "sizes"))?;
    let size = |name: &str, n: u64| {
        vec![name.to_owned(), bytes(n), format!("{:.2} bytes per word", per(n, words))]
    };
    let sizes = [
        size("nodes", found.node_bytes),
        size("children", found.child_bytes),
        size("buckets", found.bucket_bytes),
        size("all", dictionary.bytes()),
    ];
    table(&sizes, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

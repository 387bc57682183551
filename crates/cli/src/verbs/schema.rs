use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::{Analyzer, Format, IndexOptions, infer_schema};
use warpseek_console::Failure;
use warpseek_console::options::named;

/// Make a schema from documents
///
/// Reads the first documents and prints a schema that fits them: fields of text, and attributes with their types. It is
/// a start: read it, change it, and build the index with `warpseek index --schema`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek schema docs.jsonl > schema.json
  warpseek index docs.jsonl -o idx --schema schema.json

A schema by hand, for documents such as
  {\"id\": 1, \"title\": \"Route flap\", \"body\": \"...\", \"year\": 1998, \"tags\": [\"bgp\"]}
is
  {
    \"text\": [{\"name\": \"title\"}, {\"name\": \"body\", \"analyzer\": \"plain\"}],
    \"attributes\": [
      {\"name\": \"year\", \"type\": \"integer\"},
      {\"name\": \"tags\", \"type\": \"keyword\", \"many\": true}
    ]
  }")]
pub(crate) struct Options {
    /// Files or directories to read; `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Format of all inputs [default: from the file name; a directory is a tree of text files]
    #[arg(long, value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    /// How many documents to read
    #[arg(long, value_name = "N", default_value_t = 1000)]
    documents: usize,
    /// Analyzer of the text fields
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english")]
    analyzer: Analyzer,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut reading = IndexOptions::new().analyzer(options.analyzer);
    if let Some(format) = options.format {
        reading = reading.format(format);
    }
    let schema = infer_schema(&options.inputs, options.documents, &reading)?;
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}

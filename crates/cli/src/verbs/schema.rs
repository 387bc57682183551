//! `warpseek schema`: derives a schema from documents.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::schema::{Sample, SeenField};
use warpseek::text::{FieldNames, Format};
use warpseek::{Analyzer, IndexOptions};
use warpseek_console::Failure;
use warpseek_console::options::named;
use warpseek_console::terminal::{count, table};

use crate::report::text::printable;

/// Derive a schema from documents
///
/// Reads the first documents and prints a schema that fits them: text fields, and attributes with
/// their types. Review and edit it, then build the index with `warpseek index --schema`. A table on
/// standard error lists each field with its number of documents, kinds of values and an example.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek schema docs.jsonl > schema.json
  warpseek index docs.jsonl -o idx --schema schema.json

A schema for documents such as
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
    /// Field with the id, which is not part of the schema [default: id or _id]
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// Do not list the fields
    #[arg(long, short)]
    quiet: bool,
    /// Number of documents to read
    #[arg(long, value_name = "N", default_value_t = 1000)]
    documents: usize,
    /// Analyzer of the text fields
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english")]
    analyzer: Analyzer,
}

/// Maximum number of characters of an example.
const EXAMPLE: usize = 40;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut reading = IndexOptions::new().analyzer(options.analyzer);
    if let Some(format) = options.format {
        reading = reading.format(format);
    }
    let id = options.id_field.clone();
    reading = reading.fields(FieldNames { id, ..FieldNames::default() });
    let sample = Sample::read(&options.inputs, options.documents, &reading)?;
    if !options.quiet {
        table(&rows(&sample.fields()), &mut std::io::stderr().lock())?;
    }
    let schema = sample.schema()?;
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the rows of a table of the fields.
fn rows(fields: &[SeenField]) -> Vec<Vec<String>> {
    let head = ["field", "documents", "kinds", "example"].map(str::to_owned).to_vec();
    let row = |field: &SeenField| {
        let kinds = field.kinds.iter().map(|(kind, n)| format!("{n} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let several = if field.many { ", several per document" } else { "" };
        let example: String = field.example.to_string().chars().take(EXAMPLE).collect();
        vec![
            printable(&field.path),
            count(field.documents as u64),
            format!("{kinds}{several}"),
            printable(&example),
        ]
    };
    std::iter::once(head).chain(fields.iter().map(row)).collect()
}

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use warpseek::{Analyzer, FieldNames, Format, IndexOptions, Sample, SeenField};
use warpseek_console::Failure;
use warpseek_console::options::named;
use warpseek_console::terminal::{count, table};

use super::search::printable;

/// Make a schema from documents
///
/// Reads the first documents and prints a schema that fits them: fields of text, and attributes with their types. It is
/// a start: read it, change it, and build the index with `warpseek index --schema`. What was seen of each field goes to
/// standard error: in how many documents it is, with values of which kinds, and the first of them.
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
    /// Field of the input that has the id; no field of the schema is made of it [default: id, or _id]
    #[arg(long, value_name = "FIELD")]
    id_field: Option<String>,
    /// Do not list the fields that were seen
    #[arg(long, short)]
    quiet: bool,
    /// How many documents to read
    #[arg(long, value_name = "N", default_value_t = 1000)]
    documents: usize,
    /// Analyzer of the text fields
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english")]
    analyzer: Analyzer,
}

/// Characters of an example that are shown.
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

/// What was seen of each field.
fn rows(fields: &[SeenField]) -> Vec<Vec<String>> {
    let head = ["field", "documents", "kinds", "example"].map(str::to_owned).to_vec();
    let row = |field: &SeenField| {
        let kinds = field.kinds.iter().map(|(kind, n)| format!("{n} {kind}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let several = if field.many { ", several a document" } else { "" };
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

//! The listing of the catalogue: every table and figure, and what measures it.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Value, json};
use warpseek_console::Failure;
use warpseek_console::terminal::table;

use crate::catalogue::{Document, Entry};
use crate::steps::{self, Needs, Size};

/// Prints the tables and figures of these documents.
pub(crate) fn print(
    documents: &[Document],
    size: Size,
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    if as_json {
        let document = |&document: &Document| {
            let entries: Vec<Value> =
                document.entries().iter().map(|entry| described(entry, size)).collect();
            json!({
                "document": document, "title": document.title(), "setup": document.setup(),
                "entries": entries,
            })
        };
        let all: Vec<Value> = documents.iter().map(document).collect();
        writeln!(out, "{:#}", Value::from(all))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (at, document) in documents.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", document.title())?;
        let head = ["entry", "values", "printed", "needs", "steps", "title"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(document.entries().iter().map(row));
        table(&rows, &mut out)?;
    }
    writeln!(
        out,
        "\nprinted: numbers, or a plot alone; --json has them, and the commands of steps."
    )?;
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &Entry) -> Vec<String> {
    let steps = match entry.steps() {
        steps if steps.is_empty() => "-".to_owned(),
        steps => steps.join(", "),
    };
    let printed = if entry.grid.has_paper_values() { "numbers" } else { "plot" };
    let own = [entry.id.clone(), entry.how.name().to_owned(), printed.to_owned(), needs(entry)];
    own.into_iter().chain([steps, entry.title.clone()]).collect()
}

/// Returns what an entry needs for some of its rows.
fn needs(entry: &Entry) -> String {
    let kinds = [(Needs::Nothing, "CPU"), (Needs::Gpu, "GPU"), (Needs::Library, "MKL or SciPy")];
    let steps: Vec<_> = entry.steps().into_iter().filter_map(steps::find).collect();
    let some = |(kind, _): &(Needs, &str)| steps.iter().any(|step| step.needs == *kind);
    let names: Vec<&str> = kinds.into_iter().filter(some).map(|(_, name)| name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn described(entry: &Entry, size: Size) -> Value {
    let step = |name: &'static str| {
        let step = steps::find(name)?;
        Some(json!({
            "name": name, "command": step.command(size), "needs_gpu": step.needs == Needs::Gpu,
            "data": steps::with_data(step.after).iter().map(|s| s.command(size)).collect::<Vec<_>>(),
        }))
    };
    json!({
        "entry": entry.id, "title": entry.title, "values": entry.how, "note": entry.note,
        "prints_numbers": entry.grid.has_paper_values(), "needs": needs(entry),
        "steps": entry.steps().into_iter().filter_map(step).collect::<Vec<_>>(),
        "paper": entry.grid.paper(),
    })
}

//! The page of a document, as Markdown with plots beside it.

use std::fmt::Write;

use warpseek_console::Failure;

use crate::catalogue::{Document, Entry};
use crate::directory::Directory;
use crate::grid::{Cell, Row};
use crate::plots;
use crate::runner::{Outcome, Outcomes};
use crate::steps::{self, Size, Step};
use crate::values::{Values, number};

/// Writes the page of a document with its plots, and returns the name of its file.
pub(crate) fn write(
    document: Document,
    entries: &[Entry],
    size: Size,
    outcomes: &Outcomes,
    directory: &Directory,
) -> Result<String, Failure> {
    let values = Values(outcomes);
    let mut page = head(document, size);
    for entry in entries {
        let _ = write!(page, "\n## {}: {}\n\n", capital(&entry.id), entry.title);
        if let Some(svg) = plots::draw(entry, &values) {
            let name = format!("{}-{}.svg", document.name(), entry.id.replace([' ', '.'], "-"));
            directory.write(&name, svg.as_bytes())?;
            let _ = write!(page, "![{}]({name})\n\n", entry.title);
        }
        table(&mut page, entry, &values);
        if !entry.note.is_empty() {
            let _ = write!(page, "\n{}\n", entry.note);
        }
        commands(&mut page, entry, size, &values);
    }
    let name = format!("{}.md", document.name());
    directory.write(&name, page.as_bytes())?;
    Ok(name)
}

fn head(document: Document, size: Size) -> String {
    let mut page = format!("# {}\n\nThe document: {}.\n\n", document.title(), document.setup());
    page += "Each cell has the printed value, ours, and ours divided by the printed one. A `-` in place of the first means that the document prints no number, in place of the second that we have no counterpart. The last column is the number of the command below the table.\n";
    if size != Size::Full {
        let _ = write!(
            page,
            "\n**This is a {} run: its data is smaller than that of the document, so absolute values cannot be compared.**\n",
            size.name()
        );
    }
    page
}

fn table(page: &mut String, entry: &Entry, values: &Values<'_>) {
    let grid = &entry.grid;
    let steps = entry.steps();
    let _ = write!(page, "Unit: {}; {}.\n\n|", grid.unit, entry.how.name());
    for head in &grid.labels {
        let _ = write!(page, " {head} |");
    }
    for column in &grid.columns {
        let _ = write!(page, " {column} |");
    }
    *page += " command |\n|";
    *page += &"---|".repeat(grid.labels.len());
    *page += &"--:|".repeat(grid.columns.len() + 1);
    *page += "\n";
    for row in &grid.rows {
        *page += "|";
        for label in &row.labels {
            let _ = write!(page, " {label} |");
        }
        for cell in &row.cells {
            let _ = write!(page, " {} |", describe(row, cell, values));
        }
        let at = row.step.and_then(|step| steps.iter().position(|name| *name == step));
        let at = at.map_or("-".to_owned(), |at| (at + 1).to_string());
        let _ = writeln!(page, " {at} |");
    }
}

/// Describes a cell: the printed value, ours, and their ratio.
fn describe(row: &Row, cell: &Cell, values: &Values<'_>) -> String {
    let ours = values.describe(row, cell);
    match (cell.paper, values.ours(row, cell)) {
        (Some(paper), Some(value)) if paper != 0.0 => {
            format!("{} / {ours} / {}", number(paper), number(value / paper))
        }
        (Some(paper), _) => format!("{} / {ours}", number(paper)),
        (None, _) if cell.ours.is_none() => ours,
        (None, _) => format!("- / {ours}"),
    }
}

/// Lists the commands of an entry with hardware and date.
fn commands(page: &mut String, entry: &Entry, size: Size, values: &Values<'_>) {
    *page += "\n";
    for (at, name) in entry.steps().into_iter().enumerate() {
        let Some(step) = steps::find(name) else { continue };
        let state = match values.outcome(name) {
            Some(Outcome::Done(record)) => format!(
                "{}, warpseek {}, on {}, {} s",
                record.key.hardware,
                record.key.program,
                record.date,
                number(record.seconds)
            ),
            Some(Outcome::Lacking(problem)) => problem.clone(),
            Some(Outcome::Failed(problem)) => format!("failed: {problem}"),
            Some(Outcome::Missing) | None => "not measured yet".to_owned(),
        };
        let _ = writeln!(page, "{}. {}: {state}", at + 1, line(step, size));
    }
}

/// Returns the commands that make the data of a step, then its own.
fn line(step: &Step, size: Size) -> String {
    let before = steps::with_data(step.after);
    let all = before.iter().map(|step| step.command(size)).chain([step.command(size)]);
    all.map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::directory::{Hardware, Record};

    fn outcomes(report: Option<Value>) -> Outcomes {
        let hardware = Hardware { cpu: "a CPU".to_owned(), gpu: None };
        let outcome = |step: &'static Step| match (step.needs == steps::Needs::Gpu, &report) {
            (true, _) => Outcome::Lacking("needs a GPU".to_owned()),
            (false, None) => Outcome::Failed("it broke".to_owned()),
            (false, Some(report)) => Outcome::Done(Box::new(Record {
                key: Directory::key(step, Size::Quick, &hardware),
                date: "2026-01-02".to_owned(),
                seconds: 2.0,
                report: report.clone(),
            })),
        };
        let names = ["queries", "queries-gpu"];
        names.into_iter().filter_map(steps::find).map(|step| (step, outcome(step))).collect()
    }

    fn page(report: Option<Value>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("new")).unwrap();
        let entries = Document::Ding.entries();
        let outcomes = outcomes(report);
        let name = write(Document::Ding, &entries, Size::Quick, &outcomes, &directory).unwrap();
        std::fs::read_to_string(directory.path().join(name)).unwrap()
    }

    #[test]
    fn a_cell_has_both_values_and_their_ratio() {
        let cell = json!({"algorithm": "auto", "mode": "and", "k": 10, "mean_us": 871.0});
        let page = page(Some(json!({"cells": [cell]})));
        assert!(page.contains("8.71 / 0.871 / 0.1 |"), "{page}");
        assert!(page.contains("7.66 / needs a GPU |"), "{page}");
        assert!(page.contains("a CPU, warpseek 0.1.0, on 2026-01-02, 2 s"), "{page}");
        assert!(page.contains("quick run") && page.contains("not in the report"), "{page}");
        assert!(page.contains("`warpseek synth --postings --preset gov2"), "{page}");
    }

    #[test]
    fn a_failure_is_shown() {
        let page = page(None);
        assert!(page.contains("8.71 / failed |") && page.contains("failed: it broke"), "{page}");
    }
}

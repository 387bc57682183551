//! The summary of a deletion.

use warpseek::index::DeleteReport;
use warpseek_console::terminal::{count, counted, note, summary};

/// Reports the number of deleted documents, and the ids that were not found.
pub(crate) fn summarise(report: &DeleteReport, quiet: bool) {
    for id in report.missing.iter().take(10) {
        note(format!("no document has id `{id}`"));
    }
    if report.missing.len() > 10 {
        note(format!("{} ids were not found in total", count(report.missing.len() as u64)));
    }
    if !quiet {
        summary(format!("{} deleted", counted(report.deleted, "document")));
    }
}

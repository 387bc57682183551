//! The summary of a build.

use std::time::Instant;

use warpseek::index::BuildReport;
use warpseek_console::terminal::{count, counted, note, summary};

use crate::arguments::Reading;

/// Prints a summary of a build to standard error.
pub(crate) fn summarise(report: &BuildReport, start: Instant, reading: &Reading) {
    if let Some(field) = &reading.static_field
        && report.statics == 0
        && report.documents > 0
    {
        note(format!("no document has a field `{field}`, so static scores are all 0"));
    }
    if let Some(field) = &reading.order_by
        && report.sorted == 0
        && report.documents > 0
    {
        note(format!("no document has a field `{field}`, so documents are not sorted"));
    }
    summarise_counts(report, start, reading.from.quiet);
}

/// Prints the summary of a build that has neither `--static-field` nor `--order-by`.
pub(crate) fn summarise_counts(report: &BuildReport, start: Instant, quiet: bool) {
    summarise_as(report, start, ["term", "posting", "token"], quiet);
}

/// Prints the summary of a build with these names for terms, postings and tokens.
pub(crate) fn summarise_as(report: &BuildReport, start: Instant, names: [&str; 3], quiet: bool) {
    for notice in &report.notices {
        note(notice);
    }
    for reason in &report.reasons {
        note(format!("skipped {reason}"));
    }
    if report.skipped > 0 {
        let were = if report.skipped == 1 { "was" } else { "were" };
        note(format!("{} {were} skipped", counted(report.skipped, "record")));
    }
    if report.documents == 0 {
        note("the input has no documents");
    }
    if quiet {
        return;
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = report.documents as f64 / seconds.max(1e-3);
    let replaced = match report.replaced {
        0 => String::new(),
        n => format!(", {} of them replacing older ones", count(n)),
    };
    summary(format!(
        "{}{replaced} in {seconds:.1} s ({}/s): {}, {}, {}",
        counted(report.documents, "document"),
        count(rate as u64),
        counted(report.terms, names[0]),
        counted(report.postings, names[1]),
        counted(report.tokens, names[2]),
    ));
}

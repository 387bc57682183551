//! The verification of an index, with a report as text or JSON.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use warpseek::{Index, Progress};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, bytes, counted};
use warpseek_console::{Failure, Interrupt};

/// Verifies an index and prints the report.
pub(crate) fn verify(index: &Index, json: bool, quiet: bool) -> Result<ExitCode, Failure> {
    let progress = Arc::new(Progress::default());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, quiet || json);
    let found = index.verify(&progress);
    drop(display);
    let found = found?;
    let mut out = std::io::stdout().lock();
    let sound = found.problems.is_empty();
    if json {
        let problems: Vec<_> =
            found.problems.iter().map(|p| json!({"file": p.file, "what": p.what})).collect();
        let report = json!({
            "sound": sound, "files": found.files, "bytes": found.bytes,
            "documents": found.documents, "lists": found.lists, "postings": found.postings,
            "problems": problems, "problems_found": found.problems_found,
        });
        writeln!(out, "{report:#}")?;
    } else {
        let theme = Theme::stdout();
        for problem in &found.problems {
            let bad = theme.paint(theme.bad, "damaged");
            writeln!(out, "{bad}: {}: {}", problem.file.display(), problem.what)?;
        }
        let more = found.problems_found - found.problems.len() as u64;
        if more > 0 {
            writeln!(out, "and {} more that are not listed", counted(more, "problem"))?;
        }
        if sound {
            writeln!(
                out,
                "{}: {}, {}, {}, {} of {}",
                theme.paint(theme.good, "sound"),
                counted(found.documents, "document"),
                counted(found.lists, "list"),
                counted(found.postings, "posting"),
                counted(found.files, "file"),
                bytes(found.bytes),
            )?;
        }
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

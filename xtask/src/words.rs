//! `cargo xtask words`: checks the English of comments, messages and pages.
//!
//! There are four checks: phrases that this project does not use ([`patterns`]), summaries of
//! public items ([`summaries`]), the width of comments and pages, and spelling and grammar by
//! `typos` and Harper ([`tools`]).

mod patterns;
mod summaries;
mod text;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum number of columns of a comment line, and of a line of a page.
const MAX_COLUMNS: usize = 100;

/// A problem, with its place in a file.
pub(crate) struct Finding {
    path: PathBuf,
    line: usize,
    what: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks all files under version control, and lists every finding with its file and line.
pub(crate) fn check() -> Result<(), String> {
    let paths = tracked()?;
    let mut findings = Vec::new();
    let mut passages = Vec::new();
    for path in &paths {
        let Ok(content) = std::fs::read_to_string(path) else { continue };
        findings.extend(wide_lines(path, &content));
        let of_file = text::passages(path, &content);
        findings.extend(of_file.iter().flat_map(|passage| patterns::check(path, passage)));
        if path.extension().is_some_and(|extension| extension == "rs") {
            findings.extend(summaries::check(path, &content)?);
        }
        passages.extend(of_file.into_iter().map(|passage| (path.clone(), passage)));
    }
    findings.extend(tools::spelling(&paths)?);
    findings.extend(tools::grammar(&passages)?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err("the words: 1 finding".to_owned()),
        n => Err(format!("the words: {n} findings")),
    }
}

/// Returns the files under version control that contain prose.
fn tracked() -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).output();
    let listed = listed.map_err(|e| format!("git ls-files: {e}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let has_prose = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| text::EXTENSIONS.contains(&extension))
            && !path.starts_with("xtask/src/words")
    };
    Ok(names
        .split('\0')
        .map(PathBuf::from)
        .filter(has_prose)
        .filter(|path| path.exists())
        .collect())
}

/// Finds comment lines and lines of pages that are too wide. Tables, links and code may be wider.
fn wide_lines(path: &Path, content: &str) -> Vec<Finding> {
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    let mut in_code = false;
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(content.lines()) {
        if is_page && text.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let counts = match is_page {
            true => {
                let is_code = in_code || text.starts_with("    ");
                !is_code && !text.starts_with('|') && !text.contains("](")
            }
            false => text::is_comment(path, text) && !text.contains("://"),
        };
        let columns = text.chars().count();
        if counts && columns > MAX_COLUMNS {
            let what = format!("has {columns} columns; at most {MAX_COLUMNS} are allowed");
            findings.push(Finding { path: path.to_owned(), line, what });
        }
    }
    findings
}

//! `cargo xtask house`: checks the structure of the tree.
//!
//! Every source file must have a head comment and at most [`MAX_FILE`] lines of code, and every
//! function at most [`MAX_FUNCTION`]. Crates may depend only on crates of lower floors
//! ([`floors`]), and the modules of a crate must not use each other in cycles ([`modules`]).
//! Limits and cycles do not apply to tests.

mod floors;
mod modules;
pub(crate) mod source;

use std::path::{Path, PathBuf};

use source::Source;

/// Maximum number of lines of code in a file, not counting blank lines, comments and tests.
const MAX_FILE: usize = 500;

/// Maximum number of lines of code in a function.
const MAX_FUNCTION: usize = 100;

/// Checks the whole tree and lists every finding with its file and line.
pub(crate) fn check() -> Result<(), String> {
    let mut findings = floors::check()?;
    for folder in crates()? {
        let sources = read_sources(&folder.join("src"))?;
        for source in &sources {
            findings.extend(check_source(source));
        }
        findings.extend(modules::cycles(&folder, &sources));
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => Err("the structure of the tree: 1 finding".to_owned()),
        n => Err(format!("the structure of the tree: {n} findings")),
    }
}

/// Returns the folders of all crates of the workspace, sorted.
fn crates() -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir("crates").map_err(|e| format!("crates: {e}"))?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.push(PathBuf::from("xtask"));
    folders.retain(|folder| folder.join("Cargo.toml").exists());
    folders.sort();
    Ok(folders)
}

/// Reads all Rust files below a folder.
fn read_sources(folder: &Path) -> Result<Vec<Source>, String> {
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).map_err(|e| format!("{}: {e}", next.display()))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::read(folder, &path)?);
            }
        }
    }
    source::mark_tests(&mut sources);
    Ok(sources)
}

/// Returns the findings about one file.
fn check_source(source: &Source) -> Vec<String> {
    let path = source.path.display();
    let mut findings = Vec::new();
    if !source.has_head {
        findings.push(format!("{path}:1: has no head comment (`//!`)"));
    }
    if source.is_test {
        return findings;
    }
    if source.code_lines > MAX_FILE {
        let lines = source.code_lines;
        findings
            .push(format!("{path}:1: has {lines} lines of code; at most {MAX_FILE} are allowed"));
    }
    for function in &source.functions {
        if function.lines > MAX_FUNCTION {
            let (name, line, lines) = (&function.name, function.line, function.lines);
            findings.push(format!(
                "{path}:{line}: `{name}` has {lines} lines of code; at most {MAX_FUNCTION} are allowed"
            ));
        }
    }
    findings
}

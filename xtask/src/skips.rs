//! Reports of what was not tested, and why. Tests (`warpseek_testkit::skips`,
//! scripts/pytest_skips.py) and tasks append lines to one file, which is shown at the end.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::target;

/// Environment variable with the path of the file, for all programs that a task starts.
const VARIABLE: &str = "WARPSEEK_SKIPS";

/// Flag that makes skipping an error.
pub(crate) const FLAG: &str = "--no-skips";

/// Prefix of lines about tests that could run here if something were installed.
const SKIPPED: &str = "skipped: ";
/// Prefix of lines about tests for machines of another kind.
const ELSEWHERE: &str = "elsewhere: ";

fn file() -> PathBuf {
    target().join("skips")
}

/// Removes the report of an earlier task.
pub(crate) fn begin() -> Result<(), String> {
    let file = file();
    match fs::remove_file(&file) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {e}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Makes a program append its skips to the file.
pub(crate) fn collect(command: &mut Command) -> &mut Command {
    command.env(VARIABLE, file())
}

/// Returns a pytest command with a package in a folder. The plugin scripts/pytest_skips.py
/// reports its skips.
pub(crate) fn pytest(python: &Path, package: &Path) -> Result<Command, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let path = [package.to_owned(), root.join("scripts")];
    let path = std::env::join_paths(path).map_err(|e| e.to_string())?;
    let mut pytest = pytest_alone(python);
    pytest.args(["-p", "pytest_skips"]).env("PYTHONPATH", path);
    Ok(pytest)
}

/// Returns a pytest command for an environment that lacks packages on purpose. It shows its
/// skips, but does not report them.
pub(crate) fn pytest_alone(python: &Path) -> Command {
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
    pytest.env_remove("PYTHONPATH").env("PYTHONDONTWRITEBYTECODE", "1");
    pytest
}

/// Reports that a step is skipped.
pub(crate) fn note(what: &str, why: &str) -> Result<(), String> {
    eprintln!("\n{SKIPPED}{what}: {why}");
    append(&file(), &format!("{SKIPPED}{what}: {}\n", why.replace('\n', " ")))
}

fn append(file: &Path, line: &str) -> Result<(), String> {
    let told = |e: std::io::Error| format!("{}: {e}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(told)?;
    }
    let mut opened = OpenOptions::new().create(true).append(true).open(file).map_err(told)?;
    opened.write_all(line.as_bytes()).map_err(told)
}

/// Shows what was skipped. With `strict`, returns an error if anything was skipped that could be
/// tested on this machine.
pub(crate) fn end(strict: bool) -> Result<(), String> {
    let said = fs::read_to_string(file()).unwrap_or_default();
    let (skipped, elsewhere) = (counted(&said, SKIPPED), counted(&said, ELSEWHERE));
    for (title, lines) in [("skipped", &skipped), ("for other machines", &elsewhere)] {
        if !lines.is_empty() {
            eprintln!("\n{title}:");
        }
        for (line, times) in lines {
            let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
            eprintln!("  {line}{times}");
        }
    }
    match strict && !skipped.is_empty() {
        true => Err(format!("{FLAG}: {} skipped", skipped.len())),
        false => Ok(()),
    }
}

/// Counts the different lines with this prefix.
fn counted<'a>(said: &'a str, kind: &str) -> BTreeMap<&'a str, u32> {
    let mut lines = BTreeMap::new();
    for line in said.lines().filter_map(|line| line.strip_prefix(kind)) {
        *lines.entry(line).or_default() += 1;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_kind() {
        let said = "skipped: a.rs: x: y\nelsewhere: b.rs: a GPU: none\nskipped: a.rs: x: y\nskipped: python: no network\n";
        let skipped = counted(said, SKIPPED);
        assert_eq!(skipped, BTreeMap::from([("a.rs: x: y", 2), ("python: no network", 1)]));
        assert_eq!(counted(said, ELSEWHERE).into_keys().collect::<Vec<_>>(), ["b.rs: a GPU: none"]);
    }

    #[test]
    fn lines_are_appended() {
        let folder = std::env::temp_dir().join(format!("warpseek-skips-{}", std::process::id()));
        let file = folder.join("skips");
        append(&file, "one\n").unwrap();
        append(&file, "two\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        fs::remove_dir_all(folder).unwrap();
    }
}

//! Spelling by `typos`, and grammar by Harper.
//!
//! Both are installed under `target/words`, `typos` as a program from PyPI and Harper as
//! WebAssembly from npm, since compiling either takes minutes. If they cannot be installed, for
//! example without a network, they are reported as skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::Finding;
use super::text::Passage;
use crate::environments::environment;
use crate::{skips, target};

/// The version of `typos`.
const TYPOS: &str = "typos==1.52.0";

/// The version of Harper.
const HARPER: &str = "harper.js@2.10.0";

/// Finds misspelt words in files.
pub(super) fn spelling(paths: &[PathBuf]) -> Result<Vec<Finding>, String> {
    let python = match environment(&target().join("words/environment"), &[TYPOS]) {
        Ok(python) => python,
        Err(error) => {
            skips::note("spelling (typos)", &error)?;
            return Ok(Vec::new());
        }
    };
    let output = Command::new(python.with_file_name("typos"))
        .args(["--format", "json", "--config", "xtask/words/typos.toml"])
        .args(paths)
        .output()
        .map_err(|e| format!("typos: {e}"))?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !errors.is_empty() {
        return Err(format!("typos: {errors}"));
    }
    let misspelt = lines.lines().filter_map(|line| serde_json::from_str::<Misspelt>(line).ok());
    let finding = |misspelt: Misspelt| {
        let what = format!("\"{}\": write {}", misspelt.typo, misspelt.corrections.join(" or "));
        let path = misspelt.path.strip_prefix("./").unwrap_or(&misspelt.path).to_owned();
        Finding { path, line: misspelt.line_num, what }
    };
    Ok(misspelt.map(finding).collect())
}

#[derive(Deserialize)]
struct Misspelt {
    path: PathBuf,
    line_num: usize,
    typo: String,
    corrections: Vec<String>,
}

/// Finds grammatical mistakes in passages.
pub(super) fn grammar(passages: &[(PathBuf, Passage)]) -> Result<Vec<Finding>, String> {
    let Some(folder) = harper()? else { return Ok(Vec::new()) };
    let input = folder.join("passages.json");
    let asked: Vec<Asked<'_>> = passages
        .iter()
        .map(|(path, passage)| Asked { path, line: passage.line, text: &passage.text })
        .collect();
    let json = serde_json::to_vec(&asked).map_err(|e| e.to_string())?;
    std::fs::write(&input, json).map_err(|e| format!("{}: {e}", input.display()))?;
    let script = folder.join("grammar.mjs");
    std::fs::copy("xtask/words/grammar.mjs", &script).map_err(|e| format!("grammar.mjs: {e}"))?;
    let output = Command::new("node")
        .args([&script, &input])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("node: {e}"))?;
    if !output.status.success() {
        return Err("Harper failed".to_owned());
    }
    let found: Vec<Found> = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let finding = |found: Found| Finding { path: found.path, line: found.line, what: found.what };
    Ok(found.into_iter().map(finding).collect())
}

#[derive(Serialize)]
struct Asked<'a> {
    path: &'a Path,
    line: usize,
    text: &'a str,
}

#[derive(Deserialize)]
struct Found {
    path: PathBuf,
    line: usize,
    what: String,
}

/// Returns the folder in which Harper is installed, or `None` if it cannot be installed.
fn harper() -> Result<Option<PathBuf>, String> {
    let folder = target().join("words/harper");
    if folder.join("node_modules/harper.js").exists() {
        return Ok(Some(folder));
    }
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let installed = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"])
        .args([folder.as_os_str(), HARPER.as_ref()])
        .stdout(Stdio::null())
        .status();
    match installed {
        Ok(status) if status.success() => Ok(Some(folder)),
        _ => {
            skips::note("grammar (Harper)", "npm or the network is missing")?;
            Ok(None)
        }
    }
}

//! Environments of tests: folders with packages of Python or npm.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::quietly;

/// Returns the Python of a virtual environment with these packages, and creates the environment
/// if necessary.
pub(crate) fn environment(folder: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    environment_of(Path::new("python3"), folder, packages)
}

/// Works like [`environment`], with a given Python.
pub(crate) fn environment_of(
    from: &Path,
    folder: &Path,
    packages: &[&str],
) -> Result<PathBuf, String> {
    let python = folder.join("bin/python");
    let (stamp, wanted) = (folder.join("packages"), packages.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    quietly(Command::new(from).args(["-m", "venv", "--clear"]).arg(folder))?;
    quietly(
        Command::new(&python)
            .args(["-m", "pip", "install", "-q", "--disable-pip-version-check"])
            .args(packages),
    )?;
    std::fs::write(stamp, wanted).map_err(|e| e.to_string())?;
    Ok(python)
}

/// Installs these packages of npm in a folder, unless they are there already.
pub(crate) fn npm_environment(folder: &Path, packages: &[&str]) -> Result<(), String> {
    let version = quietly(Command::new("node").arg("--version"));
    version.map_err(|why| format!("node: {why}"))?;
    let (stamp, wanted) = (folder.join("packages"), packages.join("\n"));
    if std::fs::read_to_string(&stamp).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    std::fs::write(folder.join("package.json"), "{\"private\": true}")
        .map_err(|e| e.to_string())?;
    let mut install = Command::new("npm");
    install.current_dir(folder).args(["install", "--no-audit", "--no-fund"]).args(packages);
    quietly(&mut install).map_err(|why| format!("npm: {why}"))?;
    std::fs::write(stamp, wanted).map_err(|e| e.to_string())
}

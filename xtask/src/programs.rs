//! Finding and running other programs.

use std::path::PathBuf;
use std::process::Command;

/// Returns the first of these programs that is on the path.
pub(crate) fn found(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

/// Runs a command without showing its output. An error has the last line of its standard error.
pub(crate) fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(text.lines().last().unwrap_or("the command failed").to_owned())
        }
    }
}

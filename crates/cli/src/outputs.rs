//! Checks of the files and directories that commands write.

use std::path::{Path, PathBuf};

use warpseek_console::Failure;

/// Rejects an output that cannot or must not be written, before any work is done: an input, a
/// directory, a link or device, or a file that exists unless `overwrite` is set. Commands write to
/// a temporary file in the same directory and rename it, so they cannot write through links and
/// devices.
pub(crate) fn check(output: &Path, inputs: &[PathBuf], overwrite: bool) -> Result<(), Failure> {
    let name = output.display();
    let problem = |what: &str| Err(Failure::user(format!("{name} {what}")));
    if output.as_os_str() == "-" {
        return Err(Failure::user("cannot write to standard output (`-`); name a file"));
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        let folder = folder.display();
        return Err(Failure::user(format!("{name}: there is no directory {folder}")));
    }
    let Ok(found) = output.symlink_metadata() else { return Ok(()) };
    if found.is_dir() {
        return problem("is a directory; name a file");
    }
    if !found.is_file() {
        return problem("is not a plain file; name another one");
    }
    let same = |input: &PathBuf| {
        input.canonicalize().is_ok_and(|input| output.canonicalize().is_ok_and(|own| own == input))
    };
    if inputs.iter().any(same) {
        return problem("is an input; write to another file");
    }
    match overwrite {
        true => Ok(()),
        false => problem("already exists; remove it or pass `--overwrite`"),
    }
}

/// Rejects an output path that is a file or `-`, because an index is a directory.
pub(crate) fn refuse_file(output: &Path) -> Result<(), Failure> {
    if output.as_os_str() == "-" {
        let problem = "an index is a directory and cannot be written to standard output (`-`)";
        return Err(Failure::user(format!("{problem}; name a new or empty directory")));
    }
    if output.exists() && !output.is_dir() {
        let output = output.display();
        return Err(Failure::user(format!("{output} is a file; name a new or empty directory")));
    }
    Ok(())
}

/// Returns true if two paths lead to the same existing file.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

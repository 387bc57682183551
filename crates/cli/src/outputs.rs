//! Files that commands write.

use std::path::{Path, PathBuf};

use warpseek_console::Failure;

/// Refuses, before any work is done, a file that cannot be written or must not be: one that exists already unless it is to be overwritten, an input, what is not a file. The file is written beside its
/// final name and then renamed, so links and devices cannot be written through.
pub(crate) fn check(output: &Path, inputs: &[PathBuf], overwrite: bool) -> Result<(), Failure> {
    let name = output.display();
    let problem = |what: &str| Err(Failure::user(format!("{name} {what}")));
    if output.as_os_str() == "-" {
        return Err(Failure::user("this command writes to a file; `-` is none: name one"));
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

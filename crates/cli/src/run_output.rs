//! The destination of a run: a file or standard output.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use warpseek_console::Failure;

use crate::outputs::is_same_file;

/// Rejects a tag that cannot be a column of a run.
pub(crate) fn check_tag(tag: &str) -> Result<(), Failure> {
    if tag.is_empty() || tag.contains(char::is_whitespace) {
        let problem = format!("`{tag}` cannot be the tag of a run: it is empty or has blanks");
        return Err(Failure::user(problem));
    }
    Ok(())
}

/// The destination of a run. A file is opened at the start, so that a file that cannot be written
/// to is reported before any work, but an older run in it is discarded only when there are answers
/// to write.
pub(crate) struct RunOutput {
    file: Option<File>,
    open: Option<BufWriter<Box<dyn Write>>>,
    /// The path of the file if it did not exist before.
    new: Option<PathBuf>,
}

impl Drop for RunOutput {
    /// Removes the new, empty file of a run that failed before its first answer.
    fn drop(&mut self) {
        if let (None, Some(path)) = (&self.open, &self.new) {
            _ = std::fs::remove_file(path);
        }
    }
}

impl RunOutput {
    /// Ends a run: flushes the output, and returns the failure that ended the run, if any.
    pub(crate) fn close(&mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        // A run without queries still replaces an older one.
        if ended.is_ok() {
            self.open()?;
        }
        // The output is flushed after a failure too, so that the file has all answered queries.
        let flushed = self.flush();
        ended?;
        Ok(flushed?)
    }

    /// Opens a file. No path, or `-`, means standard output.
    pub(crate) fn new(path: Option<&Path>, queries: &Path) -> Result<Self, Failure> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(RunOutput { file: None, open: None, new: None });
        };
        if is_same_file(path, queries) {
            let path = path.display();
            let problem = format!("{path} is the file of queries; write the run to another file");
            return Err(Failure::user(problem));
        }
        let new = (!path.exists()).then(|| path.to_owned());
        let file = File::options().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|e| Failure::user(format!("{}: {e}", path.display())))?;
        Ok(RunOutput { file: Some(file), open: None, new })
    }

    pub(crate) fn open(&mut self) -> std::io::Result<&mut BufWriter<Box<dyn Write>>> {
        let open = match (self.open.take(), self.file.take()) {
            (Some(open), _) => open,
            (None, file) => {
                let out: Box<dyn Write> = match file {
                    Some(file) => {
                        // Pipes and terminals have no length.
                        if file.metadata()?.is_file() {
                            file.set_len(0)?;
                        }
                        Box::new(file)
                    }
                    None => Box::new(std::io::stdout().lock()),
                };
                BufWriter::with_capacity(1 << 16, out)
            }
        };
        Ok(self.open.insert(open))
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        self.open.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Returns true if the output goes to a file and not to standard output.
pub(crate) fn writes_file(output: &Option<PathBuf>) -> bool {
    output.as_ref().is_some_and(|path| path.as_os_str() != "-")
}

//! From the paths a user gives to the list of files to read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::format::{Format, without_compression};
use crate::{Location, TextError};

/// One file to read.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` is standard input.
    pub(super) path: Option<PathBuf>,
    pub(super) format: Format,
    /// For messages.
    pub(super) name: String,
    /// The path below the given directory with `/` between its parts, for a file given directly its
    /// file name; `None` where it is not UTF-8.
    pub(super) relative: Option<String>,
    /// The size on disk, `None` where it cannot be known in advance (standard input, pipes).
    pub(super) size: Option<u64>,
}

impl Source {
    fn stdin(format: Format) -> Self {
        let name = "stdin".to_owned();
        Self { path: None, format, relative: Some(name.clone()), name, size: None }
    }

    fn file(path: &Path, relative: &Path, format: Format) -> Result<Self, TextError> {
        let meta = fs::metadata(path).map_err(|source| io_error(path, source))?;
        let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
        Ok(Self {
            path: Some(path.to_owned()),
            format,
            name: path.display().to_string(),
            relative: parts.map(|parts| parts.join("/")),
            size: meta.is_file().then_some(meta.len()),
        })
    }

    /// The location of a record that starts on `line`, or is the whole file.
    pub(super) fn location(&self, line: Option<u64>) -> Location {
        let file = self.name.clone();
        match line {
            Some(line) => Location::Line { file, line },
            None => Location::File { file },
        }
    }

    /// The path an error names.
    pub(super) fn error_path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| PathBuf::from(&self.name))
    }

    /// `relative` less its compression suffix and extension.
    pub(super) fn stem(&self) -> Option<&str> {
        let relative = without_compression(self.relative.as_deref()?);
        let name_at = relative.rfind('/').map_or(0, |slash| slash + 1);
        match relative[name_at..].rfind('.') {
            Some(dot) if dot > 0 => Some(&relative[..name_at + dot]),
            _ => Some(relative),
        }
    }
}

/// The files behind `inputs`, in order; those below a directory sorted by path.
pub(super) fn list(inputs: &[PathBuf], format: Option<Format>) -> Result<Vec<Source>, TextError> {
    let mut sources = Vec::new();
    for path in inputs {
        if path.as_os_str() == "-" {
            sources.push(Source::stdin(format.unwrap_or(Format::Jsonl)));
            continue;
        }
        let meta = fs::metadata(path).map_err(|source| io_error(path, source))?;
        if meta.is_dir() {
            list_directory(path, format.unwrap_or(Format::Tree), &mut sources)?;
        } else {
            let format = format
                .or_else(|| Format::of_name(path))
                .ok_or_else(|| TextError::UnknownFormat { path: path.clone() })?;
            let name = path.file_name().map_or(path.as_path(), Path::new);
            sources.push(Source::file(path, name, format)?);
        }
    }
    Ok(sources)
}

/// Hidden entries are left out because they are tools' bookkeeping (`.git`), and links because they
/// can loop or lead out of the tree.
fn list_directory(root: &Path, format: Format, out: &mut Vec<Source>) -> Result<(), TextError> {
    let visible = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".")
    };
    for entry in WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(visible) {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(root).to_owned();
            let source = error.into_io_error().unwrap_or_else(|| io::Error::other("link loop"));
            TextError::Io { path, source }
        })?;
        if entry.file_type().is_file() {
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(path);
            out.push(Source::file(path, relative, format)?);
        }
    }
    Ok(())
}

fn io_error(path: &Path, source: io::Error) -> TextError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => TextError::NoSuchInput { path },
        _ => TextError::Io { path, source },
    }
}

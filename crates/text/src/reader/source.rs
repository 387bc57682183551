//! Finds the files to read for the paths that a user gives.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use walkdir::WalkDir;

use super::columns::{Columns, IDS};
use super::format::{Format, without_compression};
use super::signature::{Compression, MAGIC};
use crate::{Location, TextError};

/// A file to read.
#[derive(Debug)]
pub(super) struct Source {
    /// Path of the file; `None` for standard input.
    pub(super) path: Option<PathBuf>,
    pub(super) format: Format,
    /// Name for messages.
    pub(super) name: String,
    /// Path below the given directory, with `/` between its parts; for a file given directly, its
    /// file name. `None` if it is not UTF-8.
    pub(super) relative: Option<String>,
    /// Columns of a table, once its first line has been read.
    pub(super) columns: OnceLock<Columns>,
    /// Size on disk; `None` if it is not known in advance (standard input, pipes).
    pub(super) size: Option<u64>,
}

impl Source {
    fn stdin(format: Format) -> Self {
        let name = "stdin".to_owned();
        let columns = OnceLock::new();
        Self { path: None, format, relative: Some(name.clone()), name, columns, size: None }
    }

    fn file(path: &Path, relative: &Path, format: Format) -> Result<Self, TextError> {
        let meta = fs::metadata(path).map_err(|source| io_error(path, source))?;
        let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
        Ok(Self {
            path: Some(path.to_owned()),
            format,
            name: path.display().to_string(),
            relative: parts.map(|parts| parts.join("/")),
            columns: OnceLock::new(),
            size: meta.is_file().then_some(meta.len()),
        })
    }

    /// Returns the location of a record that starts on `line`, or is the whole file.
    pub(super) fn location(&self, line: Option<u64>) -> Location {
        let file = self.name.clone();
        match line {
            Some(line) => Location::Line { file, line },
            None => Location::File { file },
        }
    }

    /// Returns the path for error messages.
    pub(super) fn error_path(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(|| PathBuf::from(&self.name))
    }

    /// Returns an error about the columns of a table.
    pub(super) fn bad_table(&self, reason: impl Into<String>) -> TextError {
        let reason = format!("{}; --format tree makes the file one document", reason.into());
        TextError::BadTable { path: self.error_path(), reason }
    }

    /// Returns `relative` without its compression suffix and extension.
    pub(super) fn stem(&self) -> Option<&str> {
        let relative = without_compression(self.relative.as_deref()?);
        let name_at = relative.rfind('/').map_or(0, |slash| slash + 1);
        match relative[name_at..].rfind('.') {
            Some(dot) if dot > 0 => Some(&relative[..name_at + dot]),
            _ => Some(relative),
        }
    }
}

/// Lists the files that `inputs` name, in order; files below a directory are sorted by path. It
/// adds a message to `notices` if files are read in a way that the user may not expect.
pub(super) fn list(
    inputs: &[PathBuf],
    format: Option<Format>,
    id: Option<&str>,
    notices: &mut Vec<String>,
) -> Result<Vec<Source>, TextError> {
    let mut sources = Vec::new();
    for path in inputs {
        if path.as_os_str() == "-" {
            if format == Some(Format::Parquet) {
                let reason =
                    "Parquet is read from its end, so it must be a file; save the data first";
                return Err(TextError::BadTable { path: path.clone(), reason: reason.to_owned() });
            }
            sources.push(Source::stdin(format.unwrap_or(Format::Jsonl)));
            continue;
        }
        let meta = fs::metadata(path).map_err(|source| io_error(path, source))?;
        if meta.is_dir() {
            let before = sources.len();
            list_directory(path, format, id, &mut sources)?;
            notices.extend(mixture(path, &sources[before..]));
        } else {
            let format = format.or_else(|| Format::of_name(path)).ok_or_else(|| {
                TextError::UnknownFormat { path: path.clone(), formats: Format::NAMES }
            })?;
            let name = path.file_name().map_or(path.as_path(), Path::new);
            sources.push(Source::file(path, name, format)?);
        }
    }
    Ok(sources)
}

/// Adds the files below a directory. It skips hidden entries because they are bookkeeping of
/// tools (`.git`), and links because they can form loops or lead out of the tree.
fn list_directory(
    root: &Path,
    format: Option<Format>,
    id: Option<&str>,
    out: &mut Vec<Source>,
) -> Result<(), TextError> {
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
            let format = format.unwrap_or_else(|| format_in_directory(path, id));
            out.push(Source::file(path, relative, format)?);
        }
    }
    Ok(())
}

/// Determines the format of a file below a directory. If its name does not tell, the file is one
/// document. A `.json` file may be lines of documents or a single document.
fn format_in_directory(path: &Path, id: Option<&str>) -> Format {
    let found = Format::of_name(path).unwrap_or(Format::Tree);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_json = without_compression(name).to_ascii_lowercase().ends_with(".json");
    match is_json && !begins_with_document(path, id) {
        true => Format::Tree,
        false => found,
    }
}

/// Maximum size of the first document of a `.json` file in a directory that is read as lines of
/// documents.
const FIRST: u64 = 1 << 20;

/// Returns true if the first line of a file is a JSON object with an id, which the user may have
/// named. Files of settings have none.
fn begins_with_document(path: &Path, id: Option<&str>) -> bool {
    let id = id.map(|id| id.split('.').next().unwrap_or(id));
    let Ok(file) = fs::File::open(path) else { return false };
    let mut line = Vec::new();
    let mut start = BufReader::new(file).take(FIRST);
    if start.read_until(b'\n', &mut line).is_err() {
        return false;
    }
    // A compressed file can hardly be anything but lines of documents.
    Compression::of(&line[..line.len().min(MAGIC)]).is_some()
        || serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&line).is_ok_and(
            |document| match id {
                Some(id) => document.contains_key(id),
                None => IDS.iter().any(|id| document.contains_key(*id)),
            },
        )
}

/// Describes how the files of a directory are read, if they have several formats.
fn mixture(root: &Path, sources: &[Source]) -> Option<String> {
    let mut counts: Vec<(Format, usize)> = Vec::new();
    for source in sources {
        match counts.iter_mut().find(|(format, _)| *format == source.format) {
            Some((_, count)) => *count += 1,
            None => counts.push((source.format, 1)),
        }
    }
    if counts.len() < 2 {
        return None;
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(format, count)| {
            let files = if *count == 1 { "file is" } else { "files are" };
            format!("{count} {files} read as {format}, {}", format.unit())
        })
        .collect();
    let root = root.display();
    Some(format!("{root}: {}; --format sets one format for all", parts.join("; ")))
}

fn io_error(path: &Path, source: io::Error) -> TextError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => TextError::NoSuchInput { path },
        _ => TextError::Io { path, source },
    }
}

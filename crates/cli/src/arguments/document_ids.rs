//! The ids of documents, as arguments or in a file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use warpseek_console::Failure;

/// The ids of documents.
#[derive(Args)]
#[group(required = true, multiple = true)]
pub(crate) struct DocumentIds {
    /// Id of a document; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// File of ids, one per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

impl DocumentIds {
    pub(crate) fn read(&self) -> Result<Vec<String>, Failure> {
        let mut ids = self.id.clone();
        if let Some(path) = &self.ids {
            ids.extend(read_ids(path)?);
        }
        Ok(ids)
    }
}

fn read_ids(path: &Path) -> Result<Vec<String>, Failure> {
    let fail = |e: std::io::Error| Failure::user(format!("{}: {e}", path.display()));
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(fail)?;
        text
    } else {
        fs::read_to_string(path).map_err(fail)?
    };
    let text = text.trim_start_matches('\u{feff}');
    Ok(text.lines().map(str::trim_end).filter(|l| !l.is_empty()).map(str::to_owned).collect())
}

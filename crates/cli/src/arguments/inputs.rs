//! The documents that a command reads: files, their format and the names of their fields.

use std::path::PathBuf;

use clap::Args;
use warpseek::IndexOptions;
use warpseek::text::{FieldNames, Format};
use warpseek_console::options::{Threads, named, parse_bytes};

use super::on_error::BadRecord;

/// Names of the input fields that have a special meaning, for commands that read documents.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Names {
    /// Field with the id; dots lead into objects. The stored document calls it `id` [default: id or
    /// _id]
    #[arg(long, value_name = "FIELD")]
    pub(crate) id_field: Option<String>,
    /// Field with the title [default: title]
    #[arg(long, value_name = "FIELD")]
    title_field: Option<String>,
    /// Field with the text, e.g. body or article.abstract. If repeated, the texts are joined. A
    /// schema names its own text fields [default: text or contents]
    #[arg(long, value_name = "FIELD")]
    text_field: Vec<String>,
}

impl Names {
    pub(crate) fn get(&self) -> FieldNames {
        FieldNames {
            id: self.id_field.clone(),
            title: self.title_field.clone(),
            text: self.text_field.clone(),
        }
    }
}

/// The documents to read, for `index`, `add`, `ngram index` and `ngram add`.
#[derive(Args)]
pub(crate) struct Inputs {
    /// Files or directories to read; `-` is standard input. Files ending in .gz or .zst are
    /// decompressed
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Format of all inputs [default: from the file name; in a directory, a file of another type is
    /// one document]
    #[arg(long, help_heading = "Input", value_parser = named::<Format>(Format::NAMES.to_vec()))]
    format: Option<Format>,
    #[command(flatten)]
    names: Names,
    /// Stop at malformed records and duplicate ids, or skip them
    #[arg(long, value_enum, default_value = "stop", help_heading = "Input")]
    on_error: BadRecord,
    /// Memory for postings during the build and for reordering documents, e.g. 500M or 4G [default:
    /// a quarter of the memory of the machine or container]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, help_heading = "Device")]
    memory: Option<usize>,
    #[command(flatten)]
    threads: Threads,
    /// Do not show a progress bar or a summary
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl Inputs {
    pub(crate) fn options(&self) -> IndexOptions {
        let mut options =
            IndexOptions::new().threads(self.threads.get()).on_error(self.on_error.get());
        if let Some(format) = self.format {
            options = options.format(format);
        }
        options = options.fields(self.names.get());
        match self.memory {
            Some(bytes) => options.memory(bytes),
            None => options,
        }
    }
}

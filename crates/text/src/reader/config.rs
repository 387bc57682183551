//! The configuration of a reader.

use std::sync::Arc;

use super::field_names::FieldNames;
use super::format::Format;
use crate::{Schema, TextError};

/// The configuration of a [`Reader`](super::Reader).
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderConfig {
    /// Format of every input. Default `None`: the name of each file determines its format; in a
    /// directory, files with other names are one document each ([`Format::Tree`]); standard input
    /// is [`Format::Jsonl`].
    pub format: Option<Format>,
    /// Schema, which determines the fields of a record that are text or attributes. Default
    /// `None`: title and text (`contents` if there is no `text`) are searched together, and there
    /// are no attributes. Formats other than JSONL have `title` and `text`.
    pub schema: Option<Arc<Schema>>,
    /// Names of the fields with the id, the title and the text in records of JSONL, CSV or
    /// Parquet, or of TSV whose first line names its columns. With a schema, only the id can be
    /// renamed. Default: the usual names.
    pub fields: FieldNames,
    /// True if columns of tables keep their names, as they do with a schema, so that a caller can
    /// infer a schema from them. Default `false`: the columns with the title and the text are
    /// renamed to `title` and `text`.
    pub keeps_names: bool,
    /// Numeric JSONL field with the static score. Default `None`: no static scores. Formats
    /// without named fields ignore it.
    pub static_field: Option<String>,
    /// Field whose value is a document's [`order_key`](crate::Document::order_key): a string,
    /// number or boolean. Default `None`: no keys. Formats without named fields have `id`,
    /// `title` and `text`.
    pub order_field: Option<String>,
    /// Factor by which vector weights are multiplied before they are rounded to integers. Default
    /// 256. A larger factor preserves more of each weight and costs bits in the index.
    pub vector_scale: u32,
    /// Maximum length of a record in bytes, after decompression. Default 256 MiB. It bounds the
    /// memory that a broken or hostile input can make the reader use.
    pub max_record: usize,
    /// Number of bytes after which a batch ends. If the next records come in one piece that does
    /// not fit, it ends before. Default 1 MiB. Larger batches cost fewer transfers between
    /// threads, smaller ones balance the load better. A batch always has at least one record.
    pub batch_bytes: usize,
    /// Maximum number of records in a batch. Default 1024.
    pub batch_records: usize,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self {
            format: None,
            schema: None,
            fields: FieldNames::default(),
            keeps_names: false,
            static_field: None,
            order_field: None,
            vector_scale: 256,
            max_record: 256 << 20,
            batch_bytes: 1 << 20,
            batch_records: 1024,
        }
    }
}

impl ReaderConfig {
    /// Returns true if the columns with title and text are renamed to the usual names.
    pub(super) fn renames(&self) -> bool {
        self.schema.is_none() && !self.keeps_names
    }

    /// Rejects values that would silently give documents without scores or vectors.
    pub(super) fn check(&self) -> Result<(), TextError> {
        self.fields.check(self.schema.is_some())?;
        if self.vector_scale == 0 {
            let reason = "zero would drop every weight".to_owned();
            return Err(TextError::BadConfig { field: "vector_scale", reason });
        }
        if self.order_field.as_deref() == Some("vector") {
            let reason = "a vector has no order".to_owned();
            return Err(TextError::BadConfig { field: "order_field", reason });
        }
        self.static_field.as_deref().map_or(Ok(()), check_static_field)
    }
}

/// Rejects fields that cannot hold static scores because they have another meaning.
pub fn check_static_field(name: &str) -> Result<(), TextError> {
    let reason = match name {
        "" => "the name must not be empty".to_owned(),
        "id" | "_id" | "title" | "text" | "vector" => {
            format!("\"{name}\" has another meaning and cannot be a score")
        }
        _ => return Ok(()),
    };
    Err(TextError::BadConfig { field: "static_field", reason })
}

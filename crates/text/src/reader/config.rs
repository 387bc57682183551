//! The reader's settings.

use std::sync::Arc;

use super::format::Format;
use super::names::FieldNames;
use crate::{Schema, TextError};

/// Settings of a [`Reader`](super::Reader).
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderConfig {
    /// The format of every input. Default `None`: each name tells its own, a directory is a
    /// [`Format::Tree`], standard input is [`Format::Jsonl`].
    pub format: Option<Format>,
    /// Which fields of a record are text and which are attributes. Default `None`: title and text (`contents` if there is no `text`) are searched as one, and there are no attributes.
    /// Formats other than JSONL have `title` and `text`.
    pub schema: Option<Arc<Schema>>,
    /// The fields that are the id, the title and the text of a record of JSONL, CSV or Parquet, or of TSV whose first line names its columns. With a schema, only the id can have a name of its own. Default: the usual names.
    pub fields: FieldNames,
    /// Whether fields keep the names that they have in tables, as they do with a schema: for whoever makes a schema of them. Default `false`: columns with the text and the title are called so.
    pub keeps_names: bool,
    /// The numeric JSONL field that holds the static score. Default `None`: no static scores.
    /// Other formats have no fields and ignore it.
    pub static_field: Option<String>,
    /// The field whose value is a document's [`order_key`](crate::Document::order_key): a string, number or boolean. Default `None`: no keys.
    /// Formats other than JSONL have `id`, `title` and `text`.
    pub order_field: Option<String>,
    /// What vector weights are multiplied by before they are rounded to integers. Default 256; more
    /// keeps more of each weight and costs bits in the index.
    pub vector_scale: u32,
    /// The longest record in bytes, after decompression. Default 256 MiB; it bounds what a broken or
    /// hostile input can make the reader hold.
    pub max_record: usize,
    /// A batch ends once it holds this many bytes, or before where the next records come in one piece. Default 1 MiB; more means
    /// fewer hand-overs between threads, less means a smoother load. A batch always holds at least one record.
    pub batch_bytes: usize,
    /// The most records of a batch. Default 1024.
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
    /// Whether columns of tables get the names that title and text usually have.
    pub(super) fn renames(&self) -> bool {
        self.schema.is_none() && !self.keeps_names
    }

    /// Refuses values that would silently give documents without scores or vectors.
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

/// Refuses fields that cannot hold static scores, since records have something else in them.
pub fn check_static_field(name: &str) -> Result<(), TextError> {
    let reason = match name {
        "" => "a field has a name".to_owned(),
        "id" | "_id" | "title" | "text" | "vector" => {
            format!("\"{name}\" has another meaning and cannot be a score")
        }
        _ => return Ok(()),
    };
    Err(TextError::BadConfig { field: "static_field", reason })
}

//! Schemas: text fields and attributes, and the inference of a schema from the first documents of
//! the inputs.

use std::path::PathBuf;

use serde_json::{Map, Value};
use warpseek_index::IndexError;
use warpseek_text::{Analyzer, Reader, ReaderConfig};

use crate::error::{Error, Result};
use crate::options::IndexOptions;

pub use warpseek_text::{
    Attribute, AttributeKind, AttributeValue, FieldId, MAX_ATTRIBUTES, MAX_FIELD_NAME_BYTES,
    MAX_KEYWORD_BYTES, MAX_SOURCE_PARTS, MAX_TEXT_FIELDS, Schema, SchemaConfig, SeenField,
    TextField, format_date, parse_date,
};

/// Infers a schema that fits the first `documents` documents of files and directories. It is a
/// starting point for a handwritten schema. Of the options, only the format and the analyzer for
/// text fields are used.
///
/// ```
/// use warpseek::IndexOptions;
/// use warpseek::schema::infer_schema;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("docs.jsonl");
/// std::fs::write(&file, "{\"id\": \"1\", \"title\": \"an apple\", \"year\": 1999}\n").unwrap();
/// let schema = infer_schema(&[file], 1000, &IndexOptions::new())?;
/// assert_eq!(schema.text()[0].name, "title");
/// assert_eq!(schema.attributes()[0].name, "year");
/// # Ok::<(), warpseek::Error>(())
/// ```
pub fn infer_schema(
    inputs: &[PathBuf],
    documents: usize,
    options: &IndexOptions,
) -> Result<Schema> {
    Sample::read(inputs, documents, options)?.schema()
}

/// The first documents of files and directories, for inspection before an index is built.
///
/// ```
/// use warpseek::IndexOptions;
/// use warpseek::schema::Sample;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let file = folder.path().join("docs.jsonl");
/// let line = "{\"id\": \"1\", \"author\": {\"about\": \"writes of kettles\"}}\n";
/// std::fs::write(&file, line).unwrap();
/// let sample = Sample::read(&[file], 1000, &IndexOptions::new())?;
/// let fields = sample.fields();
/// assert_eq!((fields[0].path.as_str(), fields[0].kinds[0]), ("author.about", ("string", 1)));
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sample {
    documents: Vec<Map<String, Value>>,
    analyzer: Analyzer,
}

impl Sample {
    /// Reads at most `documents` documents. Of the options, only the format, the names of fields,
    /// and the analyzer for text fields are used.
    pub fn read(inputs: &[PathBuf], documents: usize, options: &IndexOptions) -> Result<Self> {
        let documents = first_documents(inputs, documents, options)?;
        Ok(Sample { documents, analyzer: options.config().analyzer })
    }

    /// Returns the fields of the documents, independently of any schema.
    pub fn fields(&self) -> Vec<SeenField> {
        warpseek_text::seen_fields(&self.documents)
    }

    /// Infers a schema that fits the documents. It is a starting point for a handwritten schema.
    pub fn schema(&self) -> Result<Schema> {
        Ok(Schema::infer(&self.documents, self.analyzer)?)
    }
}

fn first_documents(
    inputs: &[PathBuf],
    documents: usize,
    options: &IndexOptions,
) -> Result<Vec<Map<String, Value>>> {
    let reader = ReaderConfig { keeps_names: true, ..options.config().reader.clone() };
    let mut reader = Reader::open(inputs, reader)?;
    let (mut found, mut json) = (Vec::new(), Vec::new());
    'reading: while let Some(batch) = reader.next_batch()? {
        for i in 0..batch.len() {
            if found.len() == documents {
                break 'reading;
            }
            json.clear();
            batch.record(i).map_err(IndexError::from)?.write_json(&mut json);
            let object: Map<String, Value> = serde_json::from_slice(&json).map_err(|error| {
                let (doc, problem) = (found.len() as u32, error.to_string());
                Error::Document { doc, problem }
            })?;
            found.push(object);
        }
    }
    Ok(found)
}

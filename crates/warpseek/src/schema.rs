//! A schema from the first documents of inputs.

use std::path::PathBuf;

use serde_json::{Map, Value};
use warpseek_index::IndexError;
use warpseek_text::{Reader, Schema};

use crate::error::{Error, Result};
use crate::options::IndexOptions;

/// A schema that fits the first `documents` documents of files and directories, as a start for one to write down. Of the options, it takes the format and the analyzer for text fields.
///
/// ```
/// use warpseek::{IndexOptions, infer_schema};
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
    let config = options.config();
    let mut reader = Reader::open(inputs, config.reader.clone())?;
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
    Ok(Schema::infer(&found, config.analyzer)?)
}

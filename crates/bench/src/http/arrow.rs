//! Batches of queries as Arrow streams, and the hits in the answers to them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, Int32Array, RecordBatch, StringArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use warpseek_console::Failure;

pub(super) const CONTENT_TYPE: &str = "application/vnd.apache.arrow.stream";

fn failed(error: ArrowError) -> Failure {
    Failure::broken(format!("Arrow: {error}"))
}

/// Returns the body of a request.
pub(super) fn body(queries: &[&str], k: usize) -> Result<Vec<u8>, Failure> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("query", DataType::Utf8, false),
        Field::new("k", DataType::Int32, false),
    ]));
    let k = i32::try_from(k).unwrap_or(i32::MAX);
    let rows = RecordBatch::try_new(
        schema.clone(),
        vec![
            Arc::new(StringArray::from_iter_values(queries)),
            Arc::new(Int32Array::from(vec![k; queries.len()])),
        ],
    )
    .map_err(failed)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(failed)?;
    writer.write(&rows).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

/// Returns the ids of the hits for each of so many queries in an answer.
pub(super) fn ids(body: &[u8], queries: usize) -> Result<Vec<Vec<String>>, Failure> {
    let mut found = vec![Vec::new(); queries];
    for rows in StreamReader::try_new(body, None).map_err(failed)? {
        let rows = rows.map_err(failed)?;
        let column = |name: &str| {
            let missing = || Failure::broken(format!("the answer has no column {name}"));
            rows.column_by_name(name).ok_or_else(missing)
        };
        let (numbers, ids) = (column("query")?, column("id")?);
        let (numbers, ids) = (numbers.as_primitive::<UInt32Type>(), ids.as_string::<i32>());
        for row in (0..rows.num_rows()).filter(|&row| !ids.is_null(row)) {
            let hits = found.get_mut(numbers.value(row) as usize);
            hits.ok_or_else(|| Failure::broken("the answer contains a query that was not sent"))?
                .push(ids.value(row).to_owned());
        }
    }
    Ok(found)
}

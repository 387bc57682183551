//! Batches of searches and their hits as Arrow streams of record batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use serde_json::json;
use warpseek::query::Limit;
use warpseek::{Request, Response};

use crate::app::App;
use crate::elasticsearch::dsl;
use crate::error::Failure;
use crate::http::answer::{Answer, Reply};
use crate::http::caller::{Caller, under};
use crate::http::content_types::ARROW_STREAM;
use crate::indexes::open_index::{OpenIndex, View};
use crate::operations::telemetry::search_log::count_search;

/// Number of hits of a search whose row has no `k`.
const DEFAULT_K: usize = 10;

pub(crate) fn is_arrow(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(ARROW_STREAM))
}

/// Answers all searches of a stream.
///
/// A row has the column `query`, a string, and optionally `k`. Each record batch is answered by a
/// record batch of hits with the columns `query` (the row's number in the stream), `rank` (from
/// 0), `id`, `score` (as computed by the engine) and `coverage` (the fraction of documents that
/// were searched). A search without hits has no row, unless it covered only part of the
/// documents: it then has one row without rank, id and score.
pub(crate) fn batch(app: &App, index: &OpenIndex, body: &Bytes, caller: &Caller) -> Reply {
    let view = index.view();
    let schema = Arc::new(Schema::new(vec![
        Field::new("query", DataType::UInt32, false),
        Field::new("rank", DataType::UInt32, true),
        Field::new("id", DataType::Utf8, true),
        Field::new("score", DataType::Float64, true),
        Field::new("coverage", DataType::Float64, false),
    ]));
    let broken = |e: ArrowError| Failure::broken(e.to_string());
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(broken)?;
    let deadline = Some(app.config.deadline_ms).filter(|ms| *ms > 0).map(Duration::from_millis);
    let limit = caller.limit(deadline);
    let (mut first, mut wanted) = (0, 0);
    for rows in read(app, body)? {
        let requests = requests(app, &view, &rows, first, &limit)?;
        wanted += requests.iter().map(|request| request.k).sum::<usize>();
        app.config.limits.check_hits(std::iter::once(wanted))?;
        let responses = view.search_batch(&requests, |_| true);
        caller.check(&limit)?;
        let mut hits = Hits::default();
        for (i, (response, request)) in responses.into_iter().zip(&requests).enumerate() {
            let response = response.map_err(|error| named(first + i, &Failure::from(error)))?;
            count_search(app, &index.name, &view, request, &response);
            hits.add(u32::try_from(first + i).unwrap_or(u32::MAX), &response)?;
        }
        first += requests.len();
        writer.write(&hits.finish(schema.clone()).map_err(broken)?).map_err(broken)?;
    }
    let bytes = writer.into_inner().map_err(broken)?;
    Ok(Answer::bytes(bytes, ARROW_STREAM))
}

fn named(row: usize, failure: &Failure) -> Failure {
    Failure { reason: format!("row {row}: {}", failure.reason), ..failure.clone() }
}

/// Decodes the record batches of a body. Allocates nothing on the strength of announced sizes
/// alone.
fn read(app: &App, body: &Bytes) -> Result<Vec<RecordBatch>, Failure> {
    let wrong = |e: ArrowError| Failure::parsing(format!("the body is not an Arrow stream: {e}"));
    let (mut decoder, mut buffer) = (StreamDecoder::new(), body.clone().into());
    let (mut batches, mut rows) = (Vec::new(), 0);
    loop {
        // The decoder panics on some damaged streams. All of its state is dropped with the error.
        let decoded = catch_unwind(AssertUnwindSafe(|| decoder.decode(&mut buffer)));
        let decoded =
            decoded.unwrap_or_else(|_| Err(ArrowError::IpcError("the stream is damaged".into())));
        let Some(batch) = decoded.map_err(wrong)? else { break };
        rows += batch.num_rows();
        let most = app.config.limits.batch;
        if rows > most {
            let reason = format!("more than {most} searches, which is the limit (limits.batch)");
            return Err(Failure::illegal(reason));
        }
        batches.push(batch);
    }
    decoder.finish().map_err(wrong)?;
    match decoder.schema() {
        Some(_) => Ok(batches),
        None => Err(Failure::parsing("the body is not an Arrow stream: it has no schema")),
    }
}

/// Builds the searches of a record batch; `first` is the number of its first row in the stream.
fn requests(
    app: &App,
    view: &View,
    rows: &RecordBatch,
    first: usize,
    limit: &Limit,
) -> Result<Vec<Request>, Failure> {
    let limits = &app.config.limits;
    let schema = rows.schema();
    if let Some(other) =
        schema.fields().iter().find(|f| !matches!(f.name().as_str(), "query" | "k"))
    {
        let reason = format!("a batch has no column [{}]; it may have query and k", other.name());
        return Err(Failure::parsing(reason));
    }
    let texts = rows
        .column_by_name("query")
        .ok_or_else(|| Failure::parsing("the column [query] is missing"))?;
    let ks = rows.column_by_name("k");
    let left = limit.left();
    let mut requests = Vec::with_capacity(rows.num_rows());
    for row in 0..rows.num_rows() {
        let wrong = |failure: Failure| named(first + row, &failure);
        let text = text(texts, row).map_err(wrong)?;
        let k = ks.map_or(Ok(None), |ks| number(ks, row)).map_err(wrong)?.unwrap_or(DEFAULT_K);
        if k > limits.window {
            let reason = format!("[k] is {k}, the limit is {} (limits.window)", limits.window);
            return Err(wrong(Failure::illegal(reason)));
        }
        let query = json!({"multi_match": {"query": text, "type": "most_fields"}});
        let node = dsl::translate(&query, &view.mapping, limits.query_text, &mut Vec::new());
        requests.push(under(Request::new(node.map_err(wrong)?).k(k), limit, left));
    }
    Ok(requests)
}

fn text(column: &dyn Array, row: usize) -> Result<&str, Failure> {
    if column.is_null(row) {
        return Err(Failure::parsing("[query] is null"));
    }
    match column.data_type() {
        DataType::Utf8 => Ok(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Ok(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Ok(column.as_string_view().value(row)),
        other => Err(Failure::parsing(format!("[query] is of type {other}; it must be strings"))),
    }
}

fn number(column: &dyn Array, row: usize) -> Result<Option<usize>, Failure> {
    if column.is_null(row) {
        return Ok(None);
    }
    let number = match column.data_type() {
        DataType::Int32 => usize::try_from(column.as_primitive::<Int32Type>().value(row)).ok(),
        DataType::Int64 => usize::try_from(column.as_primitive::<Int64Type>().value(row)).ok(),
        DataType::UInt32 => usize::try_from(column.as_primitive::<UInt32Type>().value(row)).ok(),
        DataType::UInt64 => usize::try_from(column.as_primitive::<UInt64Type>().value(row)).ok(),
        other => {
            let reason = format!("[k] is of type {other}; it must be integers of 32 or 64 bits");
            return Err(Failure::parsing(reason));
        }
    };
    number.map(Some).ok_or_else(|| Failure::parsing("[k] must be a non-negative integer"))
}

/// The columns of the hits.
#[derive(Default)]
struct Hits {
    query: UInt32Builder,
    rank: UInt32Builder,
    id: StringBuilder,
    score: Float64Builder,
    coverage: Float64Builder,
}

impl Hits {
    fn add(&mut self, query: u32, response: &Response) -> Result<(), Failure> {
        let (searched, all) = response.documents_searched();
        let is_complete = response.coverage().is_complete();
        let coverage = if is_complete { 1.0 } else { searched as f64 / all.max(1) as f64 };
        for rank in 0..response.hits().len() {
            self.query.append_value(query);
            self.rank.append_value(u32::try_from(rank).unwrap_or(u32::MAX));
            self.id.append_value(response.id(rank)?);
            self.score.append_value(response.score(rank));
            self.coverage.append_value(coverage);
        }
        if response.hits().is_empty() && !is_complete {
            self.query.append_value(query);
            self.rank.append_null();
            self.id.append_null();
            self.score.append_null();
            self.coverage.append_value(coverage);
        }
        Ok(())
    }

    fn finish(mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        RecordBatch::try_new(
            schema,
            vec![
                Arc::new(self.query.finish()),
                Arc::new(self.rank.finish()),
                Arc::new(self.id.finish()),
                Arc::new(self.score.finish()),
                Arc::new(self.coverage.finish()),
            ],
        )
    }
}

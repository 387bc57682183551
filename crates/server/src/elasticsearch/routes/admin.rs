//! Maintenance calls (refresh, flush, merge), information about the server and its indexes, and
//! `_analyze`.

use std::cmp::Ordering;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use serde_json::{Map, Value, json};
use warpseek::Analyzer;
use warpseek::schema::FieldId;
use warpseek::text::{FieldAnalyzer, Scratch};

use super::naming::Naming;
use super::{shards, tasks};
use crate::app::{App, run_read, run_write};
use crate::elasticsearch::mapping::Field;
use crate::error::{Failure, Kind, brief};
use crate::http::answer::{Answer, Reply};
use crate::http::call::Call;
use crate::http::params::Params;
use crate::indexes::catalogue::{Listed, counts};
use crate::indexes::open_index::OpenIndex;
use crate::json::only;

async fn each(
    app: Arc<App>,
    index: String,
    params: Params,
    act: fn(&OpenIndex) -> Result<(), Failure>,
) -> Reply {
    let count = run_write(&app, move |app| {
        let selected = Naming::of(&params).select(app, &index)?;
        selected.iter().try_for_each(|index| act(index))?;
        Ok(selected.len())
    })
    .await?;
    Ok(Answer::json(json!({"_shards": shards(count)})))
}

pub(super) async fn refresh_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    each(app, "_all".into(), call.params, OpenIndex::refresh).await
}

pub(super) async fn refresh(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    each(app, index, call.params, OpenIndex::refresh).await
}

pub(super) async fn flush_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    each(app, "_all".into(), call.params, OpenIndex::flush).await
}

pub(super) async fn flush(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    each(app, index, call.params, OpenIndex::flush).await
}

pub(super) async fn force_merge_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    force_merged(app, "_all".into(), call).await
}

pub(super) async fn force_merge(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    force_merged(app, index, call).await
}

/// Merges segments until there are at most `max_num_segments`. Without that option, it only
/// flushes, because worthwhile merges happen in the background anyway.
async fn force_merged(app: Arc<App>, index: String, call: Call) -> Reply {
    let most = match call.params.get("max_num_segments") {
        None => None,
        Some(most) => Some(most.parse().ok().filter(|most| *most > 0).ok_or_else(|| {
            Failure::illegal(format!("[max_num_segments] must be a number above 0, found [{most}]"))
        })?),
    };
    if call.params.flag("only_expunge_deletes") {
        return Err(Failure::unsupported("only_expunge_deletes"));
    }
    let wait = call.params.get("wait_for_completion") != Some("false");
    let action = ("indices:admin/forcemerge", format!("Force-merge [{index}]"));
    tasks::run(&app, action, wait, move |app| {
        let selected = Naming::of(&call.params).select(app, &index)?;
        for index in &selected {
            match most {
                Some(most) => index.merge(most)?,
                None => index.flush()?,
            }
        }
        Ok(Answer::json(json!({"_shards": shards(selected.len())})))
    })
    .await
}

pub(super) async fn health(State(app): State<Arc<App>>) -> Reply {
    Ok(Answer::json(health_body(&app.catalogue().listed())))
}

pub(super) async fn health_of(State(app): State<Arc<App>>, Path(index): Path<String>) -> Reply {
    Ok(Answer::json(health_body(&app.catalogue().select_listed(&index, false)?)))
}

/// Reports each index as one shard, which is inactive if the index is damaged.
fn health_body(indexes: &[Listed]) -> Value {
    let damaged = indexes.iter().filter(|listed| listed.snapshot().damage().is_some()).count();
    let indexes = indexes.len();
    let (status, active) = (if damaged == 0 { "green" } else { "red" }, indexes - damaged);
    let percent = if indexes == 0 { 100.0 } else { 100.0 * active as f64 / indexes as f64 };
    json!({
        "cluster_name": "warpseek", "status": status, "timed_out": false, "number_of_nodes": 1, "number_of_data_nodes": 1,
        "active_primary_shards": active, "active_shards": active, "relocating_shards": 0, "initializing_shards": 0, "unassigned_shards": damaged,
        "delayed_unassigned_shards": 0, "number_of_pending_tasks": 0, "number_of_in_flight_fetch": 0, "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": percent,
    })
}

pub(super) async fn cat_health(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    let health = health_body(&app.catalogue().listed());
    let (epoch, timestamp) = clock();
    let cell = |key: &str| health[key].as_str().map_or(health[key].to_string(), str::to_owned);
    let percent = health["active_shards_percent_as_number"].as_f64().unwrap_or_default();
    let row = [
        ("epoch", epoch.to_string()),
        ("timestamp", timestamp),
        ("cluster", cell("cluster_name")),
        ("status", cell("status")),
        ("node.total", cell("number_of_nodes")),
        ("node.data", cell("number_of_data_nodes")),
        ("shards", cell("active_shards")),
        ("pri", cell("active_primary_shards")),
        ("relo", cell("relocating_shards")),
        ("init", cell("initializing_shards")),
        ("unassign", cell("unassigned_shards")),
        ("pending_tasks", cell("number_of_pending_tasks")),
        ("max_task_wait_time", "-".to_owned()),
        ("active_shards_percent", format!("{percent:.1}%")),
    ];
    // `ts=false` omits the time.
    let from = if call.params.get("ts") == Some("false") { 2 } else { 0 };
    let (columns, cells): (Vec<&str>, Vec<String>) = row.into_iter().skip(from).unzip();
    table(&columns, vec![cells], &call.params, &headers)
}

/// Returns the settings of the cluster. There are none, since they can be neither created nor
/// changed.
pub(super) async fn cluster_settings() -> Reply {
    Ok(Answer::json(json!({"persistent": {}, "transient": {}})))
}

/// Returns the seconds since 1970 and the time of day.
fn clock() -> (u64, String) {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default().as_secs();
    let day = format!("{:02}:{:02}:{:02}", since / 3600 % 24, since / 60 % 60, since % 60);
    (since, day)
}

pub(super) async fn cat_indices(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    indices(&app, "_all", &call.params, &headers)
}

pub(super) async fn cat_indices_of(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    indices(&app, &index, &call.params, &headers)
}

fn indices(app: &App, index: &str, params: &Params, headers: &HeaderMap) -> Reply {
    let columns = [
        "health",
        "status",
        "index",
        "uuid",
        "pri",
        "rep",
        "docs.count",
        "docs.deleted",
        "store.size",
        "pri.store.size",
    ];
    let unit = params.get("bytes").map(bytes_of).transpose()?;
    let mut rows = Vec::new();
    for listed in app.catalogue().select_listed(index, params.flag("ignore_unavailable"))? {
        let snapshot = listed.snapshot();
        let (documents, deleted) = counts(&snapshot);
        let bytes = listed.bytes();
        let size = unit.map_or_else(|| readable(bytes), |unit| (bytes / unit).to_string());
        let uuid = match &listed {
            Listed::Words(index) => index.view().mapping.declared.uuid.clone(),
            Listed::Ngrams(_) => String::new(),
        };
        rows.push(vec![
            if snapshot.damage().is_some() { "red".into() } else { "green".into() },
            "open".into(),
            listed.name().to_owned(),
            // As in Elasticsearch, so that all rows have the same number of columns.
            if uuid.is_empty() { "_na_".into() } else { uuid },
            "1".into(),
            "0".into(),
            documents.to_string(),
            deleted.to_string(),
            size.clone(),
            size,
        ]);
    }
    table(&columns, rows, params, headers)
}

/// Returns the bytes of a unit in which sizes are shown as integers.
fn bytes_of(unit: &str) -> Result<u64, Failure> {
    match unit {
        "b" => Ok(1),
        "k" | "kb" => Ok(1 << 10),
        "m" | "mb" => Ok(1 << 20),
        "g" | "gb" => Ok(1 << 30),
        "t" | "tb" => Ok(1 << 40),
        "p" | "pb" => Ok(1 << 50),
        other => {
            let other = brief(other);
            Err(Failure::illegal(format!(
                "[bytes] must be b, kb, mb, gb, tb or pb, found [{other}]"
            )))
        }
    }
}

fn readable(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}b"),
        1024..1_048_576 => format!("{:.1}kb", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1}mb", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1}gb", bytes as f64 / 1_073_741_824.0),
    }
}

pub(super) async fn cat_count(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    documents(&app, "_all", &call.params, &headers)
}

pub(super) async fn cat_count_of(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    headers: HeaderMap,
    call: Call,
) -> Reply {
    documents(&app, &index, &call.params, &headers)
}

fn documents(app: &App, index: &str, params: &Params, headers: &HeaderMap) -> Reply {
    let selected = Naming::of(params).select(app, index)?;
    let count: u64 = selected.iter().map(|index| index.documents()).sum();
    let (since, time) = clock();
    table(
        &["epoch", "timestamp", "count"],
        vec![vec![since.to_string(), time, count.to_string()]],
        params,
        headers,
    )
}

/// Formats rows as text, or as JSON on request. `h` selects columns, `v` shows their names, and
/// `s` sorts by columns.
pub(super) fn table(
    columns: &[&str],
    mut rows: Vec<Vec<String>>,
    params: &Params,
    headers: &HeaderMap,
) -> Reply {
    let has_heads = params.flag("v");
    let position = |name: &str| {
        let alias = match name {
            "i" | "idx" => "index",
            "dc" => "docs.count",
            other => other,
        };
        columns.iter().position(|column| *column == alias)
    };
    let wanted: Vec<usize> = match params.get("h") {
        None => (0..columns.len()).collect(),
        Some(names) => names.split(',').filter_map(position).collect(),
    };
    let sort = params.get("s").into_iter().flat_map(|keys| keys.split(','));
    let keys = sort.filter(|key| !key.is_empty()).map(|key| {
        let (name, order) = key.split_once(':').unwrap_or((key, "asc"));
        let column = position(name).ok_or_else(|| {
            Failure::illegal(format!("Unable to sort by unknown sort key `{name}`"))
        })?;
        match order {
            "asc" | "desc" => {
                // Columns of numbers or sizes are sorted by value, all others as text.
                let numbers = rows.iter().all(|row| number_in(&row[column]).is_some());
                Ok((column, numbers, order == "desc"))
            }
            _ => Err(Failure::illegal(format!("[s] must be asc or desc, found [{order}]"))),
        }
    });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    rows.sort_by(|a, b| {
        let orders = keys.iter().map(|&(column, numbers, descending)| {
            let (a, b) = (&a[column], &b[column]);
            let order = match (number_in(a), number_in(b)) {
                (Some(a), Some(b)) if numbers => a.total_cmp(&b),
                _ => a.cmp(b),
            };
            if descending { order.reverse() } else { order }
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    if wants_json(params, headers) {
        let row = |row: &Vec<String>| {
            wanted.iter().map(|&i| (columns[i].to_owned(), json!(row[i]))).collect::<Map<_, _>>()
        };
        return Ok(Answer::json(rows.iter().map(row).map(Value::Object).collect()));
    }
    let heads: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let shown: Vec<&Vec<String>> = has_heads.then_some(&heads).into_iter().chain(&rows).collect();
    let width = |i: usize| shown.iter().map(|row| row[i].len()).max().unwrap_or(0);
    let line = |row: &&Vec<String>| {
        let cells: Vec<String> =
            wanted.iter().map(|&i| format!("{:width$}", row[i], width = width(i))).collect();
        format!("{}\n", cells.join(" ").trim_end())
    };
    Ok(Answer::text(shown.iter().map(line).collect::<String>()))
}

/// Returns true if rows are to be JSON. As in Elasticsearch, clients that also accept text get
/// text.
fn wants_json(params: &Params, headers: &HeaderMap) -> bool {
    if let Some(format) = params.get("format") {
        return format == "json";
    }
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let accepted = accepted.map(str::to_ascii_lowercase).unwrap_or_default();
    accepted.contains("json") && !accepted.contains("text/") && !accepted.contains("*/*")
}

fn number_in(cell: &str) -> Option<f64> {
    let (number, unit) = cell.split_at(cell.find(char::is_alphabetic).unwrap_or(cell.len()));
    let unit = match unit {
        "" | "b" => 1.0,
        "kb" => 1024.0,
        "mb" => 1_048_576.0,
        "gb" => 1_073_741_824.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

pub(super) async fn stats_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    statistics(&app, "_all", &call.params)
}

pub(super) async fn stats_of_all(
    State(app): State<Arc<App>>,
    Path(_metric): Path<String>,
    call: Call,
) -> Reply {
    statistics(&app, "_all", &call.params)
}

pub(super) async fn stats(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    statistics(&app, &index, &call.params)
}

pub(super) async fn stats_of(
    State(app): State<Arc<App>>,
    Path((index, _metric)): Path<(String, String)>,
    call: Call,
) -> Reply {
    statistics(&app, &index, &call.params)
}

fn statistics(app: &App, index: &str, params: &Params) -> Reply {
    let mut indices = Map::new();
    let (mut documents, mut gone, mut size) = (0, 0, 0);
    let part_of = |documents: u64, deleted: u64, bytes: u64| {
        let sizes = json!({"docs": {"count": documents, "deleted": deleted}, "store": {"size_in_bytes": bytes}});
        json!({"primaries": sizes, "total": sizes})
    };
    for one in app.catalogue().select_listed(index, params.flag("ignore_unavailable"))? {
        let (live, deleted) = counts(&one.snapshot());
        let bytes = one.bytes();
        documents += live;
        gone += deleted;
        size += bytes;
        indices.insert(one.name().to_owned(), part_of(live, deleted, bytes));
    }
    let count = indices.len();
    Ok(Answer::json(
        json!({"_shards": shards(count), "_all": part_of(documents, gone, size), "indices": indices}),
    ))
}

pub(super) async fn analyze_all(State(app): State<Arc<App>>, call: Call) -> Reply {
    analyzed(app, None, call).await
}

pub(crate) async fn analyze(
    State(app): State<Arc<App>>,
    Path(index): Path<String>,
    call: Call,
) -> Reply {
    analyzed(app, Some(index), call).await
}

async fn analyzed(app: Arc<App>, index: Option<String>, call: Call) -> Reply {
    let body = call.json()?;
    run_read(&app, move |app| {
        let elsewhere = ["tokenizer", "filter", "char_filter", "normalizer", "explain", "attributes"];
        if let Some(key) = elsewhere.into_iter().find(|key| body.get(key).is_some()) {
            return Err(Failure::unsupported(&format!("_analyze with [{key}]")));
        }
        only(&body, &["text", "analyzer", "field"])?;
        for key in ["analyzer", "field"] {
            if !matches!(body[key], Value::Null | Value::String(_)) {
                return Err(Failure::parsing(format!("[{key}] must be a string")));
            }
        }
        if !body["field"].is_null() && !body["analyzer"].is_null() {
            return Err(Failure::illegal("[field] and [analyzer] cannot be combined"));
        }
        let wrong = || Failure::parsing("[text] must be a string or an array of strings");
        let texts: Vec<&str> = match &body["text"] {
            Value::String(text) => vec![text],
            Value::Array(texts) => {
                texts.iter().map(Value::as_str).collect::<Option<_>>().ok_or_else(wrong)?
            }
            _ => return Err(Failure::new(Kind::Action, "Validation Failed: 1: text is missing;")),
        };
        let index = index.map(|index| app.catalogue().get(&index)).transpose()?;
        let analyzer: FieldAnalyzer = match (body["field"].as_str(), body["analyzer"].as_str(), &index) {
            (Some(field), _, Some(index)) => {
                let view = index.view();
                let snapshot = view.searcher.snapshot();
                let schema = snapshot.manifest().schema.clone();
                let name = match view.mapping.field(field) {
                    Some(Field::Text { name, .. }) => name.clone(),
                    _ => return Err(Failure::illegal(format!("[{field}] is not a text field of the index"))),
                };
                match schema.as_ref().and_then(|schema| Some((schema, schema.find(&name)?))) {
                    Some((schema, FieldId::Text(number))) => schema.analyzer(number).clone(),
                    _ => snapshot.manifest().analyzer.into(),
                }
            }
            // The index defines its analyzers and the default.
            (None, name, Some(index)) if index.is_wrapped() => {
                let chain = index.view().mapping.chain(name)?;
                chain.compile().map_err(|e| Failure::illegal(e.to_string()))?
            }
            (None, Some("standard") | None, _) => Analyzer::Plain.into(),
            (None, Some("whitespace"), _) => Analyzer::Raw.into(),
            (None, Some(name), _) => {
                let chain = warpseek::text::Chain::predefined(name);
                let chain = chain.ok_or_else(|| Failure::illegal(format!("failed to find global analyzer [{name}]")))?;
                chain.compile().map_err(|e| Failure::illegal(e.to_string()))?
            }
            (Some(_), ..) => return Err(Failure::illegal("[field] needs an index")),
        };
        let (mut tokens, mut base) = (Vec::new(), 0);
        for text in texts {
            let next = analyzer.for_each_word(&mut Scratch::default(), text, |word, range, position| {
                if let Some(term) = analyzer.term(word) {
                    // Elasticsearch counts offsets in UTF-16 code units.
                    let units = |at: usize| text[..at].encode_utf16().count();
                    let (start, end) = (units(range.start), units(range.end));
                    tokens.push(json!({"token": term, "start_offset": start, "end_offset": end, "type": "<ALPHANUM>", "position": base + position}));
                }
            });
            base += next;
        }
        Ok(Answer::json(json!({"tokens": tokens})))
    })
    .await
}

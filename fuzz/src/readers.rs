//! Targets for the readers of documents and queries. They read files, so the bytes are written to
//! one: set `TMPDIR` to a directory in memory.

use std::fs;
use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError};

use serde_json::Value;
use tempfile::TempDir;
use warpseek_core::limits::{MAX_ID_BYTES, MAX_TERM_BYTES};
use warpseek_text::{
    AttributeValue, DATES, Document, Format, QueryReader, Reader, ReaderConfig, Schema, TopicPart,
};

use crate::split;

/// A schema with every kind of field, without its closing brace.
const SCHEMA: &str = r#"{"analyzers": {"own": {"fold": true}},
    "text": [{"name": "title", "analyzer": "own"}, {"name": "text"}, {"name": "inner", "source": "meta.text"}],
    "attributes": [{"name": "tags", "type": "keyword", "many": true}, {"name": "title.keyword", "source": "title", "type": "keyword"},
        {"name": "year", "type": "integer"}, {"name": "price", "type": "float"}, {"name": "open", "type": "boolean"},
        {"name": "day", "source": "meta.day", "type": "date"}]"#;

static HOME: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

/// Checks JSON lines, with vectors and static scores.
pub fn reader_jsonl(data: &[u8]) {
    check(Format::Jsonl, data);
}

/// Checks tab-separated columns.
pub fn reader_tsv(data: &[u8]) {
    check(Format::Tsv, data);
}

/// Checks rows of cells, the first of which names the columns.
pub fn reader_csv(data: &[u8]) {
    check(Format::Csv, data);
}

/// Message of the last panic.
static SAID: Mutex<String> = Mutex::new(String::new());

fn said() -> MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks Parquet files. The reader catches panics of the Parquet crate, but libFuzzer's panic
/// hook would end the process. So this target replaces the hook, and shows and passes on only
/// those panics that the reader did not catch. The crate may allocate more than the size of the
/// input justifies.
pub fn reader_parquet(data: &[u8]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| panic::set_hook(Box::new(|info| *said() = info.to_string())));
    if let Err(panicked) = panic::catch_unwind(|| check(Format::Parquet, data)) {
        eprintln!("{}", said());
        panic::resume_unwind(panicked);
    }
}

/// Checks TREC SGML.
pub fn reader_trec(data: &[u8]) {
    check(Format::Trec, data);
}

/// Checks files with one word per line.
pub fn reader_words(data: &[u8]) {
    check(Format::Words, data);
}

/// Checks files with one document each.
pub fn reader_tree(data: &[u8]) {
    check(Format::Tree, data);
}

/// Checks files of queries: lines of text or JSON, or topics. Every query and every error must
/// have a line, in ascending order, and nothing may follow the end. Bits 0 and 1 of the first
/// byte select the file's name, bits 2 to 4 the parts of topics.
pub fn queries(data: &[u8]) {
    let Some(([flags], bytes)) = split::<1>(data) else { return };
    let names = ["queries", "queries.tsv", "queries.jsonl", "topics.txt"];
    let path = HOME.path().join(names[usize::from(flags & 3)]);
    fs::write(&path, bytes).expect("a file in memory");
    let all = [(4u8, TopicPart::Title), (8, TopicPart::Desc), (16, TopicPart::Narr)];
    let parts: Vec<TopicPart> =
        all.into_iter().filter(|(bit, _)| flags & bit != 0).map(|(_, part)| part).collect();
    let Ok(mut reader) = QueryReader::open(&path, &parts) else { return };
    let mut last = 1;
    while let Ok(query) = reader.next_query() {
        let line = match query {
            None => {
                assert!(matches!(reader.next_query(), Ok(None)));
                break;
            }
            Some(Ok(query)) => Some(query.line),
            Some(Err(error)) => error.location.line(),
        };
        let line = line.expect("a line of the file");
        assert!(last <= line);
        last = line;
    }
    assert!(reader.take_notice().is_none_or(|notice| !notice.is_empty()));
    assert!(reader.take_notice().is_none());
}

/// Checks that each record becomes a document that the index can store or is refused
/// individually, however the input is divided into batches, and that a record over the limit is
/// never kept in memory. Bit 0 of the first byte selects a small limit, bits 1 and 2 a schema and
/// its treatment of unknown fields.
fn check(format: Format, data: &[u8]) {
    let Some(([flags], bytes)) = split::<1>(data) else { return };
    let path = HOME.path().join("input.ext");
    fs::write(&path, bytes).expect("a file in memory");
    let schema = match flags >> 1 & 3 {
        0 => None,
        n => {
            let unknown = ["store", "ignore", "refuse"][usize::from(n) - 1];
            let json = format!("{SCHEMA}, \"unknown\": \"{unknown}\"}}");
            Some(Arc::new(Schema::parse(&json).expect("a schema")))
        }
    };
    let config = ReaderConfig {
        format: Some(format),
        schema,
        static_field: Some("score".into()),
        order_field: Some("year".into()),
        max_record: if flags & 1 == 1 { 100 } else { 1 << 20 },
        ..ReaderConfig::default()
    };
    let one = ReaderConfig { batch_records: 1, batch_bytes: 1, ..config.clone() };
    let ((batches, ended), (single, why)) = (read(&path, config), read(&path, one));
    assert_eq!(ended, why);
    // If reading fails, the records of the current batch are lost.
    assert!(single.starts_with(&batches) && (ended.is_some() || single.len() == batches.len()));
}

/// Returns a line for each record, and the error that ended the read.
fn read(path: &PathBuf, config: ReaderConfig) -> (Vec<String>, Option<String>) {
    let (mut found, limit, again) = (Vec::new(), config.max_record, config.clone());
    let mut reader = Reader::open(std::slice::from_ref(path), config).expect("the file opens");
    loop {
        let batch = match reader.next_batch() {
            Ok(Some(batch)) => batch,
            Ok(None) => break,
            Err(error) => {
                assert!(reader.next_batch().expect("the read has ended").is_none());
                return (found, Some(error.to_string()));
            }
        };
        assert!(!batch.is_empty());
        for i in 0..batch.len() {
            match batch.record(i) {
                Ok(document) => {
                    check_document(&document, limit);
                    check_fields(&document, &again);
                    found.push(format!("{}: {document:?}", batch.location(i)));
                }
                Err(error) => found.push(error.to_string()),
            }
        }
    }
    let progress = reader.progress();
    assert!(progress.bytes_total.is_none_or(|total| progress.bytes_read <= total));
    (found, None)
}

fn check_document(document: &Document<'_>, limit: usize) {
    assert!((1..=MAX_ID_BYTES).contains(&document.id.len()));
    assert!(document.text.len() <= limit && document.title.len() <= limit);
    assert!(document.static_score.is_none_or(|score| score.is_finite() && score >= 0.0));
    if let Some(vector) = &document.vector {
        assert!(vector.is_sorted_by(|a, b| a.0 < b.0));
        assert!(vector.iter().all(|(t, w)| (1..=MAX_TERM_BYTES).contains(&t.len()) && *w > 0));
    }
    let mut json = Vec::new();
    document.write_json(&mut json);
    let kept: Value = serde_json::from_slice(&json).expect("what is stored parses");
    // With a schema, the text of a line of JSON is among the fields.
    if kept["text"].is_string() && document.fields.is_empty() {
        assert_eq!(kept["text"], *document.text);
    }
}

/// Checks that, with a schema, fields are sorted by number, values are in range, and the stored
/// document has the same fields.
fn check_fields(document: &Document<'_>, config: &ReaderConfig) {
    let Some(schema) = &config.schema else {
        assert!(document.fields.is_empty() && document.attributes.is_empty());
        return;
    };
    assert!(document.fields.is_sorted_by_key(|(number, _)| *number));
    assert!(document.fields.iter().all(|(n, _)| usize::from(*n) < schema.text().len()));
    assert!(
        document.attributes.is_sorted_by(|a, b| {
            a.0 < b.0 || (a.0 == b.0 && a.1.as_keyword() < b.1.as_keyword())
        })
    );
    for (number, value) in &document.attributes {
        assert!(usize::from(*number) < schema.attributes().len());
        match value {
            AttributeValue::Date(date) => assert!(DATES.contains(date)),
            AttributeValue::Float(number) => assert!(number.is_finite()),
            _ => {}
        }
    }
    let mut json = Vec::new();
    document.write_json(&mut json);
    let json = String::from_utf8(json).expect("what is stored is UTF-8");
    let again = Document::parse(&json, config).expect("what is stored is accepted");
    assert_eq!((&again.fields, &again.attributes), (&document.fields, &document.attributes));
}

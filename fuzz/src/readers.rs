//! Targets for the document readers. They read files, so the bytes are written to one: set `TMPDIR`
//! to a directory in memory.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;
use warpseek_core::limits::{MAX_ID_BYTES, MAX_TERM_BYTES};
use warpseek_text::{Document, Format, Reader, ReaderConfig};

use crate::split;

static HOME: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

/// JSON lines, with vectors and static scores.
pub fn reader_jsonl(data: &[u8]) {
    check(Format::Jsonl, data);
}

/// Tab-separated columns.
pub fn reader_tsv(data: &[u8]) {
    check(Format::Tsv, data);
}

/// TREC SGML.
pub fn reader_trec(data: &[u8]) {
    check(Format::Trec, data);
}

/// One word per line.
pub fn reader_words(data: &[u8]) {
    check(Format::Words, data);
}

/// One document per file.
pub fn reader_tree(data: &[u8]) {
    check(Format::Tree, data);
}

/// Each record either becomes a document that the index can store or is refused on its own, however
/// the input is divided into batches. A record over the limit is never kept in memory. Bit 0 of the
/// first byte selects a small limit.
fn check(format: Format, data: &[u8]) {
    let Some(([flags], bytes)) = split::<1>(data) else { return };
    let path = HOME.path().join("input.ext");
    fs::write(&path, bytes).expect("a file in memory");
    let config = ReaderConfig {
        format: Some(format),
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

/// A line for each record, and the error that ended reading.
fn read(path: &PathBuf, config: ReaderConfig) -> (Vec<String>, Option<String>) {
    let (mut found, limit) = (Vec::new(), config.max_record);
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
    if kept["text"].is_string() {
        assert_eq!(kept["text"], *document.text);
    }
}

//! Documents from memory, which a program passes in as values.
//!
//! Each document is written as a line of JSON, which the store needs anyway, and `jsonl` parses
//! it like a line of a file. So documents have the same meaning wherever they come from, and
//! workers share the cost of parsing.

use super::batch::RawBatch;
use super::config::ReaderConfig;
use crate::{Location, OwnedDocument, TextError};

/// The documents that have not been read yet.
pub(super) struct Documents {
    left: Box<dyn Iterator<Item = OwnedDocument> + Send>,
    /// Number of documents read so far, which is the ordinal of the next one.
    taken: u64,
}

impl Documents {
    pub(super) fn new(documents: impl Iterator<Item = OwnedDocument> + Send + 'static) -> Self {
        Documents { left: Box::new(documents), taken: 0 }
    }

    /// Writes the next document to `batch`. Returns false if there is none.
    pub(super) fn cut(
        &mut self,
        config: &ReaderConfig,
        batch: &mut RawBatch,
    ) -> Result<bool, TextError> {
        let Some(document) = self.left.next() else { return Ok(false) };
        let start = batch.bytes.len();
        let static_field = config.static_field.as_deref().unwrap_or_default();
        let written = document.write_json(static_field, &mut batch.bytes);
        if batch.bytes.len() - start > config.max_record {
            let location = Location::Document { number: self.taken + 1 };
            return Err(TextError::RecordTooLong { location, limit: config.max_record });
        }
        batch.push_document(start, self.taken, written.err());
        self.taken += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use crate::{OwnedDocument, RawBatch, Reader, ReaderConfig, RecordErrorKind, TextError};

    fn batches(documents: Vec<OwnedDocument>, config: ReaderConfig) -> Vec<RawBatch> {
        let mut reader = Reader::of_documents(documents, config).unwrap();
        std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
    }

    fn of_line(line: &str, config: ReaderConfig) -> Vec<RawBatch> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, line).unwrap();
        let mut reader = Reader::open(&[path], config).unwrap();
        std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
    }

    fn document(id: &str) -> OwnedDocument {
        OwnedDocument::new(id, "", "some text")
    }

    #[test]
    fn a_document_is_what_its_line_is() {
        let mut rich = OwnedDocument::new("a\"b", "Title\n", "text \u{1} ü \u{2028}");
        rich.static_score = Some(0.1);
        rich.fields = Map::from_iter([
            ("url".to_owned(), json!("http://x")),
            ("n".to_owned(), json!({"deep": [1, 2.5, null, true]})),
        ]);
        let mut vector = OwnedDocument::new("v", "", "");
        vector.vector = Some(vec![("b".into(), 1.5), ("a".into(), 0.3), ("zero".into(), 0.0)]);
        let lines = [
            r#"{"id":"a\"b","title":"Title\n","text":"text \u0001 ü \u{2028}","rank":0.1,"n":{"deep":[1,2.5,null,true]},"url":"http://x"}"#
                .replace("\\u{2028}", "\u{2028}"),
            r#"{"id":"v","vector":{"b":1.5,"a":0.3,"zero":0.0}}"#.to_owned(),
        ];
        let config = ReaderConfig {
            static_field: Some("rank".into()),
            order_field: Some("url".into()),
            vector_scale: 100,
            ..ReaderConfig::default()
        };
        for (document, line) in [rich, vector].into_iter().zip(lines) {
            let (made, read) =
                (batches(vec![document], config.clone()), of_line(&line, config.clone()));
            let (made, read) = (made[0].record(0).unwrap(), read[0].record(0).unwrap());
            assert_eq!(made, read);
            let mut stored = Vec::new();
            made.write_json(&mut stored);
            assert_eq!(str::from_utf8(&stored).unwrap(), line);
        }
    }

    #[test]
    fn contents_among_the_further_fields_are_the_text_if_there_is_no_other() {
        let with = |text: &str| {
            let mut document = OwnedDocument::new("1", "", text);
            document.fields.insert("contents".to_owned(), json!("c"));
            batches(vec![document], ReaderConfig::default()).remove(0)
        };
        assert_eq!(with("").record(0).unwrap().text, "c");
        assert_eq!(with("t").record(0).unwrap().text, "t");
    }

    #[test]
    fn without_a_field_of_the_static_score_it_has_its_own() {
        let mut scored = document("1");
        scored.static_score = Some(2.5);
        let read = batches(vec![scored], ReaderConfig::default());
        let read = read[0].record(0).unwrap();
        assert_eq!(read.static_score, Some(2.5));
        let mut stored = Vec::new();
        read.write_json(&mut stored);
        assert_eq!(stored, br#"{"id":"1","text":"some text","static_score":2.5}"#);
    }

    #[test]
    fn bad_documents_are_located_and_leave_the_rest() {
        let with = |change: fn(&mut OwnedDocument)| {
            let mut document = document("x");
            change(&mut document);
            document
        };
        let documents = vec![
            document("1"),
            with(|d| d.id.clear()),
            with(|d| d.static_score = Some(f64::NAN)),
            with(|d| d.static_score = Some(-1.0)),
            with(|d| d.vector = Some(vec![("a".into(), f64::INFINITY)])),
            with(|d| d.vector = Some(vec![("a".into(), 1.0), ("a".into(), 1.0)])),
            with(|d| drop(d.fields.insert("text".into(), json!("other")))),
            with(|d| drop(d.fields.insert("static_score".into(), json!(1)))),
            document("2"),
        ];
        let batch = batches(documents, ReaderConfig::default()).remove(0);
        let mut errors = Vec::new();
        for i in 0..batch.len() {
            match batch.record(i) {
                Ok(document) => assert!(["1", "2"].contains(&&*document.id)),
                Err(error) => errors.push(error.to_string()),
            }
        }
        let starts =
            ["2: the id is", "3: static score", "4: static score", "5: vector", "6: vector"];
        let starts = starts.into_iter().chain(["7: field \"text\"", "8: field \"static_score\""]);
        assert_eq!(errors.len(), 7);
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(&format!("document {start}")), "{error}");
        }
        assert!(matches!(
            batch.record(2).unwrap_err().kind,
            RecordErrorKind::BadStaticScore { reason, .. } if reason == "found NaN"
        ));
    }

    #[test]
    fn batches_are_bounded_and_numbers_go_on() {
        let config = ReaderConfig { batch_records: 2, ..ReaderConfig::default() };
        let found = batches((0..5).map(|i| document(&i.to_string())).collect(), config);
        assert_eq!(found.iter().map(RawBatch::len).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(found[2].location(0).to_string(), "document 5");
        assert!(batches(Vec::new(), ReaderConfig::default()).is_empty());
    }

    #[test]
    fn a_document_that_is_too_long_ends_the_read() {
        let config = ReaderConfig { max_record: 60, ..ReaderConfig::default() };
        let documents = [document("1"), OwnedDocument::new("2", "", "x".repeat(60)), document("3")];
        let mut reader = Reader::of_documents(documents, config).unwrap();
        let error = reader.next_batch().unwrap_err();
        assert!(matches!(error, TextError::RecordTooLong { limit: 60, .. }));
        assert!(error.to_string().starts_with("document 2: "), "{error}");
        assert!(reader.next_batch().unwrap().is_none());
    }
}

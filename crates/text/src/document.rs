//! A parsed document, as the indexer receives it.

use std::borrow::Cow;

use warpseek_core::limits::MAX_ID_BYTES;

use crate::json::write_string;
use crate::{AttributeValue, RecordErrorKind};

/// A parsed record. It borrows from its batch where possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Document<'a> {
    /// The user's id of the document: 1 to [`MAX_ID_BYTES`] bytes. The index ensures that ids are
    /// unique.
    pub id: Cow<'a, str>,
    /// The title, empty if there is none.
    pub title: Cow<'a, str>,
    /// The text, empty if there is none.
    pub text: Cow<'a, str>,
    /// The values of text fields by field number, if there is a schema. Several values of one field
    /// are in the order of the record. With a schema, `title` and `text` above are not searched; if
    /// the schema names them, their values are also here.
    pub fields: Vec<(u8, Cow<'a, str>)>,
    /// The values of attributes by attribute number, if there is a schema. Several keywords of
    /// one attribute are sorted and distinct.
    pub attributes: Vec<(u16, AttributeValue<'a>)>,
    /// Learned sparse weights as `round(weight * vector_scale)`, sorted by token, each token once,
    /// without weights that round to zero. `None` if the record has no vector.
    pub vector: Option<Vec<(Cow<'a, str>, u32)>>,
    /// A score that does not depend on the query: finite, zero or more.
    pub static_score: Option<f32>,
    /// The value of the field that documents are sorted by: a string itself, a number or boolean
    /// as text.
    pub order_key: Option<Cow<'a, str>>,
    /// The JSON line that the document was read from, which preserves fields that this crate
    /// ignores. Fields that a schema drops have been removed.
    source: Option<Cow<'a, str>>,
}

impl<'a> Document<'a> {
    /// Creates a document without vector and static score, for formats other than JSONL and for
    /// tests.
    pub fn new(
        id: impl Into<Cow<'a, str>>,
        title: impl Into<Cow<'a, str>>,
        text: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self {
            id: id.into(),
            title: title.into(),
            text: text.into(),
            fields: Vec::new(),
            attributes: Vec::new(),
            vector: None,
            static_score: None,
            order_key: None,
            source: None,
        }
    }

    /// Converts the document to one that borrows nothing.
    pub fn into_owned(self) -> Document<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        let fields = self.fields.into_iter().map(|(field, text)| (field, own(text)));
        let attributes = self.attributes.into_iter().map(|(n, value)| (n, value.into_owned()));
        let vector = self.vector.map(|weights| {
            weights.into_iter().map(|(token, weight)| (own(token), weight)).collect()
        });
        Document {
            id: own(self.id),
            title: own(self.title),
            text: own(self.text),
            fields: fields.collect(),
            attributes: attributes.collect(),
            vector,
            static_score: self.static_score,
            order_key: self.order_key.map(own),
            source: self.source.map(own),
        }
    }

    pub(crate) fn with_source(self, line: impl Into<Cow<'a, str>>) -> Self {
        Self { source: Some(line.into()), ..self }
    }

    /// Rejects ids that the index cannot store.
    pub(crate) fn checked(self) -> Result<Self, RecordErrorKind> {
        match self.id.len() {
            0 => Err(RecordErrorKind::EmptyId),
            len if len > MAX_ID_BYTES => Err(RecordErrorKind::IdTooLong { len }),
            _ => Ok(self),
        }
    }

    /// Uses the id, title or text as the order key if `field` names one of them. Only JSONL has
    /// other fields.
    pub(crate) fn ordered_by(mut self, field: Option<&str>) -> Self {
        let present = |text: &Cow<'a, str>| (!text.is_empty()).then(|| text.clone());
        match field {
            Some("id" | "_id") => self.order_key = present(&self.id),
            Some("title") => self.order_key = present(&self.title),
            Some("text") => self.order_key = present(&self.text),
            _ => {}
        }
        self
    }

    /// Appends what the document store keeps: the original line for JSONL, so that all its fields
    /// survive, otherwise an object of `id`, `title` (unless empty) and `text`. It appends no
    /// newline.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        if let Some(line) = &self.source {
            out.extend_from_slice(line.as_bytes());
            return;
        }
        out.extend_from_slice(b"{\"id\":");
        write_string(out, &self.id);
        if !self.title.is_empty() {
            out.extend_from_slice(b",\"title\":");
            write_string(out, &self.title);
        }
        out.extend_from_slice(b",\"text\":");
        write_string(out, &self.text);
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_a_document_without_a_line() {
        let mut out = Vec::new();
        Document::new("a\"b", "", "x\ny").write_json(&mut out);
        assert_eq!(out, br#"{"id":"a\"b","text":"x\ny"}"#);
        out.clear();
        Document::new("1", "T", "").write_json(&mut out);
        assert_eq!(out, br#"{"id":"1","title":"T","text":""}"#);
    }

    #[test]
    fn what_was_stored_is_read_again() {
        let lines = [
            r#"{"_id":"beir","x":1,"title":"T","text":"a","text":"b"}"#,
            r#"{"id":7,"vector":{"b":1.5,"a":0.25}}"#,
        ];
        for line in lines {
            let document = Document::from_json(line, 4).unwrap();
            let mut out = Vec::new();
            document.write_json(&mut out);
            assert_eq!(out, line.as_bytes());
            assert_eq!(Document::from_json(str::from_utf8(&out).unwrap(), 4).unwrap(), document);
        }
        let tree = Document::new("1", "T", "x\ny");
        let mut out = Vec::new();
        tree.write_json(&mut out);
        let read = Document::from_json(str::from_utf8(&out).unwrap(), 1).unwrap();
        assert_eq!((read.id, read.title, read.text), (tree.id, tree.title, tree.text));
        let vector = Document::from_json(lines[1], 4).unwrap().vector.unwrap();
        assert_eq!(vector, [("a".into(), 1), ("b".into(), 6)]);
        assert_eq!(Document::from_json(r#"{"id":""}"#, 1), Err(RecordErrorKind::EmptyId));
    }

    #[test]
    fn ids_are_bounded() {
        assert_eq!(Document::new("", "", "").checked(), Err(RecordErrorKind::EmptyId));
        let longest = "x".repeat(MAX_ID_BYTES);
        assert!(Document::new(longest.clone(), "", "").checked().is_ok());
        assert_eq!(
            Document::new(longest + "x", "", "").checked(),
            Err(RecordErrorKind::IdTooLong { len: MAX_ID_BYTES + 1 })
        );
    }
}

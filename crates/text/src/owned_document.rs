//! Documents that a program creates, to be indexed without a file.

use serde_json::{Map, Value};

use crate::RecordErrorKind;
use crate::json::write_string;

/// Default name of the field that stores static scores of documents from memory.
pub const STATIC_FIELD: &str = "static_score";

/// A document that owns its fields, for [`Reader::of_documents`](crate::Reader::of_documents).
///
/// It is indexed and stored like this line of JSON: an object of `id`, `title` and `text` (unless
/// they are empty), `vector` and the static score (if present), and then the further fields,
/// sorted by name. Reading the document reports errors in it as
/// [`RecordError`](crate::RecordError).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnedDocument {
    /// The user's id of the document, not empty. Adding a document replaces the one with the same
    /// id.
    pub id: String,
    /// The title, empty if there is none. It is searched like the text.
    pub title: String,
    /// The text, empty if there is none. In that case a string `contents` among the further
    /// fields is the text.
    pub text: String,
    /// Tokens and weights of a learned sparse model, each token once; title and text are then not
    /// searched. Either all documents of an index have a vector, or none.
    pub vector: Option<Vec<(String, f64)>>,
    /// A score that does not depend on the query: finite, zero or more.
    pub static_score: Option<f64>,
    /// Further fields. They are stored unchanged and not searched, unless a schema uses them or
    /// `contents` is the text. Their names must differ from those of the fields above.
    pub fields: Map<String, Value>,
}

impl OwnedDocument {
    /// Creates a document of text.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, title, text) = (id.into(), title.into(), text.into());
        OwnedDocument { id, title, text, ..OwnedDocument::default() }
    }

    /// Returns the document as a line of JSON without newline, with the static score in the field
    /// [`STATIC_FIELD`]. Fails if JSON cannot express the document.
    pub fn to_json(&self) -> Result<String, RecordErrorKind> {
        self.to_json_with(STATIC_FIELD)
    }

    /// Returns the document as a line of JSON like [`to_json`](Self::to_json), with the static
    /// score in the field `static_field`.
    pub fn to_json_with(&self, static_field: &str) -> Result<String, RecordErrorKind> {
        let mut out = Vec::new();
        self.write_json(static_field, &mut out)?;
        // All parts of the line were UTF-8 before.
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends the document as a line of JSON without newline to `out`, with the static score in
    /// the field `static_field`. If JSON cannot express the document, it returns an error and
    /// appends nothing.
    pub(crate) fn write_json(
        &self,
        static_field: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordErrorKind> {
        self.check(static_field)?;
        out.extend_from_slice(b"{\"id\":");
        write_string(out, &self.id);
        for (name, text) in [("title", &self.title), ("text", &self.text)] {
            if !text.is_empty() {
                write_key(out, name);
                write_string(out, text);
            }
        }
        if let Some(weights) = &self.vector {
            write_key(out, "vector");
            out.push(b'{');
            for (i, (token, weight)) in weights.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(out, token);
                out.push(b':');
                write_number(out, *weight);
            }
            out.push(b'}');
        }
        if let Some(score) = self.static_score {
            write_key(out, static_field);
            write_number(out, score);
        }
        for (name, value) in &self.fields {
            write_key(out, name);
            // A value always has a JSON form, and writing to a vector cannot fail.
            let written = serde_json::to_writer(&mut *out, value);
            debug_assert!(written.is_ok());
        }
        out.push(b'}');
        Ok(())
    }

    /// Rejects numbers that are not finite, which JSON cannot express, and duplicate field names,
    /// of which readers see only one.
    fn check(&self, static_field: &str) -> Result<(), RecordErrorKind> {
        if let Some(score) = self.static_score.filter(|score| !score.is_finite()) {
            let (field, reason) = (static_field.to_owned(), format!("found {score}"));
            return Err(RecordErrorKind::BadStaticScore { field, reason });
        }
        let weights = self.vector.iter().flatten();
        if let Some((token, weight)) = weights.into_iter().find(|(_, w)| !w.is_finite()) {
            let reason = format!("token {token:?} has weight {weight}");
            return Err(RecordErrorKind::BadVector { reason });
        }
        let taken = ["id", "title", "text", "vector", static_field];
        match taken.into_iter().find(|&name| self.fields.contains_key(name)) {
            None => Ok(()),
            Some(name) => Err(RecordErrorKind::BadField {
                field: name.to_owned(),
                reason: match (name, kind(&self.fields[name])) {
                    ("title" | "text", Some(kind)) => format!("found {kind}, expected a string"),
                    _ => "this name is reserved; rename the field".into(),
                },
            }),
        }
    }
}

/// Returns the kind of a value for messages; `None` for a string.
fn kind(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => Some("null"),
        Value::Bool(_) => Some("a boolean"),
        Value::Number(_) => Some("a number"),
        Value::String(_) => None,
        Value::Array(_) => Some("an array"),
        Value::Object(_) => Some("an object"),
    }
}

fn write_key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    write_string(out, name);
    out.push(b':');
}

/// Writes a finite number with the fewest digits that identify it.
fn write_number(out: &mut Vec<u8>, number: f64) {
    let written = serde_json::to_writer(out, &number);
    debug_assert!(written.is_ok());
}

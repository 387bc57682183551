//! A document that a program makes, to be indexed without a file.

use serde_json::{Map, Value};

use crate::RecordErrorKind;
use crate::document::write_string;

/// The field that a static score is stored in if the reader's configuration names none.
pub const STATIC_FIELD: &str = "static_score";

/// A document that owns its fields, for [`Reader::of_documents`](crate::Reader::of_documents).
///
/// It is indexed and stored as this line of JSON would be: an object of `id`, `title` and `text` (unless they are empty), `vector` and the static score (if
/// present), then the further fields, sorted by name. Errors in it are reported as [`RecordError`](crate::RecordError) when it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnedDocument {
    /// The user's name for the document, not empty. A document that is added replaces the one with the same id.
    pub id: String,
    /// The title, empty if there is none. It is searched like the text.
    pub title: String,
    /// The text, empty if there is none. A string `contents` among the further fields is the text then.
    pub text: String,
    /// Tokens and weights of a learned sparse model, each token once; title and text are not searched then. All documents of an index have one, or none has.
    pub vector: Option<Vec<(String, f64)>>,
    /// A score that does not depend on the query: finite, zero or more.
    pub static_score: Option<f64>,
    /// Further fields, which are stored as they are and not searched, unless a schema wants them or `contents` is the text. None may have the name of one above.
    pub fields: Map<String, Value>,
}

impl OwnedDocument {
    /// A document of text.
    pub fn new(id: impl Into<String>, title: impl Into<String>, text: impl Into<String>) -> Self {
        let (id, title, text) = (id.into(), title.into(), text.into());
        OwnedDocument { id, title, text, ..OwnedDocument::default() }
    }

    /// Its line of JSON, without newline, as [`STATIC_FIELD`] and the other fields are stored. A document that cannot be expressed as such a line is refused.
    pub fn to_json(&self) -> Result<String, RecordErrorKind> {
        self.to_json_with(STATIC_FIELD)
    }

    /// The same with the static score in another field.
    pub fn to_json_with(&self, static_field: &str) -> Result<String, RecordErrorKind> {
        let mut out = Vec::new();
        self.write_json(static_field, &mut out)?;
        // Everything in it was UTF-8 before.
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// Appends its line of JSON, without newline, to `out`, with the static score in the field `static_field`. A document that cannot be expressed as such a
    /// line is refused, and nothing is appended.
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
            // A value is JSON and a vector takes all bytes, so neither half of this can fail.
            let written = serde_json::to_writer(&mut *out, value);
            debug_assert!(written.is_ok());
        }
        out.push(b'}');
        Ok(())
    }

    /// JSON cannot express numbers that are not finite, and readers see only one of two fields with the same name.
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
                    _ => "a further field has a name with a meaning of its own; rename it".into(),
                },
            }),
        }
    }
}

/// What a value is, if it is no string.
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

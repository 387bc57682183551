//! The names that a user gives for the fields with a document's id, title and text.

use crate::TextError;

/// The names of fields in the records of the input. Dots lead into objects, as in `article.body`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldNames {
    /// Name of the field with the id. Default: `id`, or `_id` if there is no `id`.
    pub id: Option<String>,
    /// Name of the field with the title. Default: `title`.
    pub title: Option<String>,
    /// Names of the fields with the text. Their values are joined in this order by newlines.
    /// Default: `text`, or `contents` if there is no `text`.
    pub text: Vec<String>,
}

impl FieldNames {
    /// Returns true if all fields have the usual names.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns all names.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        let names = self.id.iter().chain(&self.title).chain(&self.text);
        names.map(String::as_str)
    }

    /// Rejects invalid field names, and names that a schema must give instead.
    pub(super) fn check(&self, has_schema: bool) -> Result<(), TextError> {
        let bad = |field, reason: String| Err(TextError::BadConfig { field, reason });
        if has_schema && (self.title.is_some() || !self.text.is_empty()) {
            let reason = "the schema names the text fields; give these names there as \"source\"";
            return bad("title and text fields", reason.to_owned());
        }
        for name in self.all() {
            if name.split('.').any(str::is_empty) {
                let reason = format!("`{name}` is not a field name; separate keys by single dots");
                return bad("field names", reason);
            }
        }
        for (i, name) in self.text.iter().enumerate() {
            if self.text[..i].contains(name) {
                return bad("text fields", format!("`{name}` is named twice"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(id: Option<&str>, title: Option<&str>, text: &[&str]) -> FieldNames {
        let own = |name: &str| name.to_owned();
        FieldNames {
            id: id.map(own),
            title: title.map(own),
            text: text.iter().map(|n| own(n)).collect(),
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(names(None, None, &["a", "b.c"]).check(false).is_ok());
        assert!(names(Some("docno"), None, &[]).check(true).is_ok());
        for bad in [
            names(None, None, &["a", "a"]),
            names(Some(""), None, &[]),
            names(None, Some("a..b"), &[]),
        ] {
            assert!(bad.check(false).is_err(), "{bad:?}");
        }
        let with_schema = names(None, None, &["body"]).check(true).unwrap_err().to_string();
        assert!(with_schema.contains("source"), "{with_schema}");
    }
}

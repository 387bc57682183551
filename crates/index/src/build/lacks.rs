//! Detection of missing text and values in a build, so that input that was obviously misread does
//! not go unnoticed.

use std::collections::BTreeSet;

use warpseek_core::near;
use warpseek_text::{Document, RawBatch, Schema};

use crate::files::manifest::Manifest;

/// Number of documents of a batch whose fields are recorded.
const LOOKED_AT: usize = 64;
/// Number of batches in which they are recorded.
const BATCHES: u64 = 4;
/// Maximum number of field names in a notice.
const SHOWN: usize = 12;
/// Documents without text cause a notice if at least one in this many has none.
const PART: u64 = 10;

/// Observations about the documents of a build.
pub(super) struct Lacks {
    documents: u64,
    /// Number of documents without any content that words could find.
    without_text: u64,
    /// Id of the first such document.
    first: Option<String>,
    /// A flag for each text field: true if a document had a value for it.
    text: Vec<bool>,
    /// A flag for each attribute: true if a document had a value for it.
    attributes: Vec<bool>,
    /// Fields of the input's first documents.
    seen: BTreeSet<String>,
}

impl Lacks {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let fields = |count: fn(&Schema) -> usize| {
            manifest.schema.as_ref().map_or(0, |schema| count(schema))
        };
        Lacks {
            documents: 0,
            without_text: 0,
            first: None,
            text: vec![false; fields(|schema| schema.text().len())],
            attributes: vec![false; fields(|schema| schema.attributes().len())],
            seen: BTreeSet::new(),
        }
    }

    /// Records a document, which is record `record` of the batch with this number.
    pub(super) fn look(
        &mut self,
        document: &Document<'_>,
        (number, batch, record): (u64, &RawBatch, usize),
    ) {
        self.documents += 1;
        let is_empty = document.title.is_empty() && document.text.is_empty();
        if is_empty && document.fields.is_empty() && document.vector.is_none() {
            self.without_text += 1;
            self.first.get_or_insert_with(|| document.id.to_string());
        }
        for (field, _) in &document.fields {
            self.text[usize::from(*field)] = true;
        }
        for (attribute, _) in &document.attributes {
            self.attributes[usize::from(*attribute)] = true;
        }
        if number < BATCHES && record < LOOKED_AT {
            self.seen.extend(batch.paths(record));
        }
    }

    /// Adds the observations of the documents that follow these.
    pub(super) fn merge(&mut self, later: Lacks) {
        self.documents += later.documents;
        self.without_text += later.without_text;
        self.first = self.first.take().or(later.first);
        self.text.iter_mut().zip(later.text).for_each(|(own, seen)| *own |= seen);
        self.attributes.iter_mut().zip(later.attributes).for_each(|(own, seen)| *own |= seen);
        self.seen.extend(later.seen);
    }

    /// Returns notices for the user. Fields that all documents lack are reported only for a `new`
    /// index: documents added to an index may well be of a kind that lacks them.
    pub(super) fn notices(&self, manifest: &Manifest, new: bool) -> Vec<String> {
        let mut notices = Vec::new();
        let Lacks { documents, without_text, .. } = *self;
        if documents == 0 {
            return notices;
        }
        let none = without_text == documents;
        match &manifest.schema {
            None if none => {
                let subject = if documents == 1 { "the document has" } else { "no document has" };
                let what = match self.seen.iter().any(|field| is_text(field)) {
                    true => "the fields `text`, `title` and `contents` are empty",
                    false => "there is no field `text`, `title` or `contents`",
                };
                notices.push(format!(
                    "{subject} text, so nothing can be found: {what}{}",
                    self.seen(None)
                ));
            }
            None if without_text * PART >= documents => {
                let first = self.first.as_deref().unwrap_or_default();
                notices.push(format!(
                    "{without_text} of {documents} documents have no text, the first is `{first}`"
                ));
            }
            Some(schema) if none || new => {
                let text = schema.text().iter().zip(&self.text);
                let text =
                    text.map(|(field, seen)| ("text field", &field.name, field.source(), seen));
                let rest = schema.attributes().iter().zip(&self.attributes);
                let rest =
                    rest.map(|(field, seen)| ("attribute", &field.name, field.source(), seen));
                for (kind, name, source, _) in text.chain(rest).filter(|(.., seen)| !**seen) {
                    let from = match name == source {
                        true => String::new(),
                        false => format!(" (from `{source}`)"),
                    };
                    let seen = self.seen(Some(source));
                    notices
                        .push(format!("no document has a value for {kind} `{name}`{from}{seen}"));
                }
            }
            _ => {}
        }
        notices
    }

    /// Describes the fields that the documents have, followed by the one that may have been
    /// meant, or, without a `wanted` field, by advice on how to name the field with the text.
    fn seen(&self, wanted: Option<&str>) -> String {
        let names: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        if names.is_empty() {
            return String::new();
        }
        let more = names.len().saturating_sub(SHOWN);
        let mut shown = names[..names.len() - more].join(", ");
        if more > 0 {
            shown += &format!(" and {more} more");
        }
        match wanted
            .map(|wanted| near(wanted, names.iter().copied().filter(|name| *name != wanted)))
        {
            None => format!(
                "; fields seen: {shown}; name those with the text (--text-field, in Python text_fields)"
            ),
            Some(None) => format!("; fields seen: {shown}"),
            Some(Some(near)) => format!("; fields seen: {shown}; did you mean `{near}`?"),
        }
    }
}

fn is_text(field: &str) -> bool {
    matches!(field, "text" | "title" | "contents")
}

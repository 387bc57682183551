//! What the documents of a build lack: input that was plainly misread should not pass in silence.

use std::collections::BTreeSet;

use warpseek_core::near;
use warpseek_text::{Document, RawBatch, Schema};

use crate::files::manifest::Manifest;

/// Documents of each batch whose fields are noted, and batches in which they are.
const LOOKED_AT: usize = 64;
const BATCHES: u64 = 4;
/// The most names of fields that a notice has.
const SHOWN: usize = 12;
/// Documents without text are worth a notice from this part of all on: one in so many.
const PART: u64 = 10;

/// What has been seen of the documents of a build.
pub(super) struct Lacks {
    documents: u64,
    /// Documents without anything that could be found by words.
    without_text: u64,
    /// The first of them.
    first: Option<String>,
    /// Whether a document had a value for each text field, then for each attribute.
    text: Vec<bool>,
    attributes: Vec<bool>,
    /// The fields of the input's first documents.
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

    /// Looks at a document, which is record `record` of the batch with this number.
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

    /// Adds what was seen of the documents that come after these.
    pub(super) fn merge(&mut self, later: Lacks) {
        self.documents += later.documents;
        self.without_text += later.without_text;
        self.first = self.first.take().or(later.first);
        self.text.iter_mut().zip(later.text).for_each(|(own, seen)| *own |= seen);
        self.attributes.iter_mut().zip(later.attributes).for_each(|(own, seen)| *own |= seen);
        self.seen.extend(later.seen);
    }

    /// What the user should know. Fields that all documents lack are told of a `new` index alone: what is added to one may well be of a kind that has none.
    pub(super) fn notices(&self, manifest: &Manifest, new: bool) -> Vec<String> {
        let mut notices = Vec::new();
        let Lacks { documents, without_text, .. } = *self;
        if documents == 0 {
            return notices;
        }
        let none = without_text == documents;
        match &manifest.schema {
            None if none => {
                let of = if documents == 1 { "the document has" } else { "no document has" };
                let what = match self.seen.iter().any(|field| is_text(field)) {
                    true => "the fields `text`, `title` and `contents` are empty",
                    false => "there is no field `text`, `title` or `contents`",
                };
                notices
                    .push(format!("{of} text, so nothing can be found: {what}{}", self.seen(None)));
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

    /// The fields that the documents have, and the one that may have been meant; for a document that has no text, how to name the one that has it.
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

//! Documents as flat text, for an inverter outside of the workers.

use std::sync::Arc;

use warpseek_core::cosine;
use warpseek_core::limits::MAX_TERM_BYTES;
use warpseek_text::{
    Analyzer, Document, END_OF_DOCUMENT, GramConfig, GramScratch, Schema, Scratch, next_value,
    push_token,
};

use super::invert::DocumentFact;
use crate::files::manifest::Manifest;

/// The meaning of the numbers beside the words of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// There are none. Words become terms by analysis, and are counted.
    #[default]
    None,
    /// Positions. Words become terms by analysis, and are counted.
    Positions,
    /// Weights of tokens, which are terms already. They are added up.
    Weights,
    /// Maps of n-grams, which are terms already. They are united.
    Maps,
}

/// Consecutive documents as flat text.
///
/// A document has a section for each text field, which ends with `END_OF_DOCUMENT`; without a
/// schema there is one. In an index of n-grams, parts of documents take the place of documents.
#[derive(Clone, Debug, Default)]
pub struct TextBatch {
    /// The sections. If there are values, the words are tokens (`push_token`).
    pub text: Vec<u8>,
    /// Number of documents.
    pub documents: usize,
    /// The meaning of the values.
    pub kind: Values,
    /// A number for each token of the text; empty if the kind is [`Values::None`].
    pub values: Vec<u32>,
    /// Length and norm of each document, if tokens have weights. For other kinds they follow from
    /// the words, or are not needed.
    pub facts: Vec<(u32, f32)>,
}

/// A writer of flat text.
pub(super) struct Flattener {
    analyzer: Analyzer,
    schema: Option<Arc<Schema>>,
    grams: Option<GramConfig>,
    /// A flag for each text field: true if it has positions.
    positioned: Vec<bool>,
    scratch: Scratch,
    gram_scratch: GramScratch,
    /// Sections of the current document, by text field, and their values.
    sections: Vec<(Vec<u8>, Vec<u32>)>,
    batch: TextBatch,
}

impl Flattener {
    pub(super) fn new(manifest: &Manifest) -> Self {
        let positioned = manifest.positioned();
        Flattener {
            analyzer: manifest.analyzer,
            schema: manifest.schema.clone(),
            grams: manifest.grams,
            sections: positioned.iter().map(|_| Default::default()).collect(),
            positioned,
            scratch: Scratch::default(),
            gram_scratch: GramScratch::default(),
            batch: TextBatch::default(),
        }
    }

    /// Returns the documents since the last call.
    pub(super) fn take(&mut self) -> TextBatch {
        std::mem::take(&mut self.batch)
    }

    /// Adds a document, which has this many parts. Returns the facts that are known before it is
    /// inverted.
    pub(super) fn add(&mut self, document: &Document<'_>, parts: u32) -> DocumentFact {
        let has_positions = self.positioned.contains(&true);
        match (&document.vector, self.grams, self.schema.clone()) {
            (Some(vector), ..) => return self.vector(vector),
            (_, Some(grams), _) => return self.grams(document, &grams, parts),
            (.., Some(schema)) if has_positions => self.fields_with_positions(document, &schema),
            (.., Some(schema)) => self.fields(document, &schema),
            (.., None) if has_positions => self.words_with_positions(document),
            (.., None) => {
                let (analyzer, batch) = (self.analyzer, &mut self.batch);
                for text in [&document.title, &document.text] {
                    analyzer.flatten(&mut self.scratch, text, &mut batch.text);
                }
                batch.text.push(END_OF_DOCUMENT);
            }
        }
        self.batch.documents += 1;
        DocumentFact::default()
    }

    fn vector(&mut self, vector: &[(impl AsRef<str>, u32)]) -> DocumentFact {
        let batch = &mut self.batch;
        let (mut length, mut squares) = (0u64, 0u64);
        for (token, weight) in vector {
            push_token(token.as_ref().as_bytes(), &mut batch.text);
            batch.values.push(*weight);
            length += u64::from(*weight);
            // A vector has each token once.
            squares = squares.saturating_add(cosine::square(*weight));
        }
        batch.text.push(END_OF_DOCUMENT);
        batch.kind = Values::Weights;
        batch.documents += 1;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let norm = cosine::norm(squares);
        batch.facts.push((length, norm));
        DocumentFact { length, more: Vec::new(), norm: Some(norm) }
    }

    fn grams(&mut self, document: &Document<'_>, grams: &GramConfig, parts: u32) -> DocumentFact {
        let batch = &mut self.batch;
        let mut open = 0;
        let (title, text) = (&document.title, &document.text);
        let length = grams.for_each(&mut self.gram_scratch, title, text, |part, gram, bit| {
            while open < part {
                batch.text.push(END_OF_DOCUMENT);
                open += 1;
            }
            push_token(gram, &mut batch.text);
            batch.values.push(bit);
        });
        batch.text.extend((open..parts).map(|_| END_OF_DOCUMENT));
        batch.kind = Values::Maps;
        batch.documents += parts as usize;
        DocumentFact { length, more: Vec::new(), norm: None }
    }

    fn words_with_positions(&mut self, document: &Document<'_>) {
        let (analyzer, batch) = (self.analyzer, &mut self.batch);
        let mut position = 0u32;
        for text in [&document.title, &document.text] {
            position = next_value(position);
            analyzer.for_each_word(&mut self.scratch, text, |word, _| {
                if word.len() <= MAX_TERM_BYTES {
                    push_token(word.as_bytes(), &mut batch.text);
                    batch.values.push(position);
                }
                position = position.saturating_add(1);
            });
        }
        batch.text.push(END_OF_DOCUMENT);
        batch.kind = Values::Positions;
    }

    fn fields(&mut self, document: &Document<'_>, schema: &Schema) {
        for (field, text) in &document.fields {
            if let Some((section, _)) = self.sections.get_mut(usize::from(*field)) {
                schema.analyzer(*field).flatten(&mut self.scratch, text, section);
            }
        }
        self.end_sections();
    }

    fn fields_with_positions(&mut self, document: &Document<'_>, schema: &Schema) {
        let mut ends = vec![0u32; self.sections.len()];
        for (field, text) in &document.fields {
            let number = usize::from(*field);
            let Some((section, values)) = self.sections.get_mut(number) else { continue };
            let first = next_value(ends[number]);
            let add = |word: &str, _, position: u32| {
                if (1..=MAX_TERM_BYTES).contains(&word.len()) {
                    push_token(word.as_bytes(), section);
                    values.push(first.saturating_add(position));
                }
            };
            let words = schema.analyzer(*field).for_each_word(&mut self.scratch, text, add);
            if words > 0 {
                ends[number] = first.saturating_add(words);
            }
        }
        self.end_sections();
        self.batch.kind = Values::Positions;
    }

    /// Moves the sections of the current document to the batch.
    fn end_sections(&mut self) {
        for (section, values) in &mut self.sections {
            self.batch.text.append(section);
            self.batch.text.push(END_OF_DOCUMENT);
            self.batch.values.append(values);
        }
    }
}

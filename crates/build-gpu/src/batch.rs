//! Batches of documents as flat text, and their division.

use warpseek_index::{TextBatch, Values};
use warpseek_text::END_OF_DOCUMENT;

/// Consecutive documents, in pieces as they came from the workers.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) bytes: usize,
    /// The documents without their text.
    pub(crate) rest: TextBatch,
}

impl Batch {
    /// Adds documents of the same kind.
    pub(crate) fn push(&mut self, more: TextBatch) {
        self.bytes += more.text.len();
        self.pieces.push(more.text);
        self.rest.documents += more.documents;
        self.rest.kind = more.kind;
        join(&mut self.rest.values, more.values);
        join(&mut self.rest.facts, more.facts);
    }

    pub(crate) fn documents(&self) -> usize {
        self.rest.documents
    }

    /// Returns the documents with their text in one piece.
    pub(crate) fn joined(mut self) -> TextBatch {
        let text = match self.pieces.len() {
            1 => self.pieces.remove(0),
            _ => self.pieces.concat(),
        };
        TextBatch { text, ..self.rest }
    }
}

impl From<TextBatch> for Batch {
    fn from(documents: TextBatch) -> Self {
        let mut batch = Batch::default();
        batch.push(documents);
        batch
    }
}

/// Appends values without copying if there are none before them.
fn join<T>(all: &mut Vec<T>, mut more: Vec<T>) {
    match all.is_empty() {
        true => *all = more,
        false => all.append(&mut more),
    }
}

/// Returns the end of each document of a text, each of which has this many sections.
fn ends(text: &[u8], fields: usize) -> impl Iterator<Item = usize> {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == END_OF_DOCUMENT);
    ends.map(|(at, _)| at + 1).skip(fields - 1).step_by(fields)
}

/// Divides documents at a position of their text, at which a document ends.
fn split_at(mut batch: TextBatch, at: usize, fields: usize) -> (TextBatch, TextBatch) {
    let text = batch.text.split_off(at);
    let documents = ends(&batch.text, fields).count();
    let tokens = match batch.kind {
        Values::None => 0,
        _ => batch.text.iter().filter(|&&byte| byte == b' ').count(),
    };
    let after = TextBatch {
        text,
        documents: batch.documents - documents,
        kind: batch.kind,
        values: batch.values.split_off(tokens),
        facts: batch.facts.split_off(documents.min(batch.facts.len())),
    };
    (TextBatch { documents, ..batch }, after)
}

/// Divides documents into two parts of about the same size. Returns `Err` with the documents if
/// there is only one.
pub(crate) fn halves(batch: TextBatch, fields: usize) -> Result<(TextBatch, TextBatch), TextBatch> {
    let (middle, len) = (batch.text.len() / 2, batch.text.len());
    let mut before = None;
    for end in ends(&batch.text, fields).filter(|&end| end < len) {
        before = Some(end);
        if end > middle {
            break;
        }
    }
    match before {
        Some(end) => Ok(split_at(batch, end, fields)),
        None => Err(batch),
    }
}

/// Divides documents into parts of at most `most` bytes of text, each with as many documents as
/// fit. A document that does not fit has a part of its own.
pub(crate) fn parts(mut batch: TextBatch, most: usize, fields: usize) -> Vec<TextBatch> {
    let mut parts = Vec::new();
    while batch.text.len() > most {
        let (mut end, len) = (0, batch.text.len());
        for next in ends(&batch.text, fields) {
            if end > 0 && next > most {
                break;
            }
            end = next;
            if end > most {
                break;
            }
        }
        if end == 0 || end == len {
            break;
        }
        let (part, rest) = split_at(batch, end, fields);
        parts.push(part);
        batch = rest;
    }
    parts.push(batch);
    parts
}

#[cfg(test)]
mod tests {
    use warpseek_text::push_token;

    use super::*;

    /// Returns documents with this many tokens in each of two sections.
    fn documents(tokens: &[[usize; 2]]) -> TextBatch {
        let mut batch = TextBatch { kind: Values::Weights, ..TextBatch::default() };
        for of_document in tokens {
            for &count in of_document {
                for _ in 0..count {
                    push_token(b"token", &mut batch.text);
                    batch.values.push(batch.values.len() as u32);
                }
                batch.text.push(END_OF_DOCUMENT);
            }
            batch.facts.push((batch.documents as u32, 1.0));
            batch.documents += 1;
        }
        batch
    }

    fn check(parts: &[TextBatch], whole: &TextBatch) {
        let texts: Vec<&[u8]> = parts.iter().map(|part| part.text.as_slice()).collect();
        assert_eq!(texts.concat(), whole.text);
        let mut next = 0;
        for part in parts {
            let tokens = part.text.iter().filter(|&&byte| byte == b' ').count();
            assert_eq!(part.values, (next..next + tokens as u32).collect::<Vec<_>>());
            next += tokens as u32;
            assert_eq!(part.facts.len(), part.documents);
            assert_eq!(ends(&part.text, 2).last().unwrap_or(0), part.text.len());
        }
        assert_eq!(parts.iter().map(|part| part.documents).sum::<usize>(), whole.documents);
    }

    #[test]
    fn documents_are_divided_with_all_their_sections_and_values() {
        let whole = documents(&[[3, 0], [0, 0], [1, 50], [2, 2], [0, 1], [7, 1]]);
        for most in 1..whole.text.len() + 2 {
            let parts = parts(whole.clone(), most, 2);
            check(&parts, &whole);
            assert!(parts.iter().all(|part| part.text.len() <= most || part.documents == 1));
        }
        let Ok((before, after)) = halves(whole.clone(), 2) else { panic!("one document") };
        assert!(before.documents > 0 && after.documents > 0);
        check(&[before, after], &whole);
        assert!(halves(documents(&[[5, 6]]), 2).is_err());
    }
}

//! The inverter, which turns documents into postings by term in memory.
//!
//! A term's postings are a byte string of gaps and frequencies. The newest posting is kept aside
//! until its frequency is known, so a term seen in only one document takes no string at all. A
//! second table maps raw words to terms, so that stop words and stemming cost one lookup per
//! word. With a schema, each text field has such a table, since analyzers differ, and its terms
//! are prefixed with the number of the field.

use std::sync::Arc;

use hashbrown::HashTable;
use warpseek_codec::varint::{self, Cursor};
use warpseek_core::cosine;
use warpseek_core::limits::MAX_TERM_BYTES;
use warpseek_text::{Analyzer, Document, GramConfig, GramScratch, Schema, Scratch, next_value};
use xxhash_rust::xxh3::xxh3_64;

use crate::files::manifest::Manifest;

/// Number that marks a word without a term.
const NO_TERM: u32 = u32::MAX;
/// Number of frequencies whose square is in a table.
const SQUARES: usize = 1024;

/// A byte string in an arena.
#[derive(Clone, Copy)]
struct Key {
    start: u32,
    len: u8,
}

impl Key {
    fn push(arena: &mut Vec<u8>, bytes: &[u8]) -> Self {
        let start = arena.len() as u32;
        arena.extend_from_slice(bytes);
        Key { start, len: bytes.len() as u8 }
    }

    #[inline]
    fn of(self, arena: &[u8]) -> &[u8] {
        &arena[self.start as usize..][..usize::from(self.len)]
    }
}

#[derive(Clone, Copy)]
struct Word {
    key: Key,
    term: u32,
}

/// A table from words to terms.
#[derive(Default)]
struct Words {
    table: HashTable<Word>,
    bytes: Vec<u8>,
}

impl Words {
    fn memory(&self) -> usize {
        self.bytes.capacity() + self.table.capacity() * (size_of::<Word>() + 1)
    }
}

struct Term {
    key: Key,
    /// Newest posting, which is not yet in `postings`.
    doc: u32,
    freq: u32,
    /// Last document written to `postings`.
    written: u32,
    count: u32,
    postings: Vec<u8>,
}

/// The positions of a term's postings in their order: the first of each posting, followed by
/// distances.
#[derive(Default)]
struct TermPositions {
    bytes: Vec<u8>,
    last: u32,
}

/// Facts about a document that are known after inversion.
#[derive(Default)]
pub(crate) struct DocumentFact {
    pub(crate) length: u32,
    /// Lengths in text fields from 1 on; empty without a schema.
    pub(crate) more: Vec<u32>,
    /// Norm of the document; `None` with n-grams or a schema.
    pub(crate) norm: Option<f32>,
}

/// An inverter, which collects postings in memory.
pub(crate) struct Inverter {
    analyzer: Analyzer,
    schema: Option<Arc<Schema>>,
    scratch: Scratch,
    gram_scratch: GramScratch,
    /// Tables of words, one for each text field that is inverted; a single one without a schema.
    words: Vec<Words>,
    terms: Vec<Term>,
    by_key: HashTable<u32>,
    term_bytes: Vec<u8>,
    posting_bytes: usize,
    squares: Vec<u64>,
    /// A flag for each text field: true if its positions are collected. Empty if there are none.
    positioned: Vec<bool>,
    /// Positions by number of the term, up to the last term that has any.
    positions: Vec<TermPositions>,
}

impl Inverter {
    /// Creates an inverter for documents of an index with these settings.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let positioned = manifest.positioned();
        let inverter = Self::of_fields(manifest, positioned.len());
        match positioned.contains(&true) {
            true => Inverter { positioned, ..inverter },
            false => inverter,
        }
    }

    /// Creates an inverter for the first `fields` text fields of the schema, without positions.
    pub(crate) fn of_fields(manifest: &Manifest, fields: usize) -> Self {
        Inverter {
            analyzer: manifest.analyzer,
            schema: manifest.schema.clone(),
            scratch: Scratch::default(),
            gram_scratch: GramScratch::default(),
            words: (0..fields).map(|_| Words::default()).collect(),
            terms: Vec::new(),
            by_key: HashTable::new(),
            term_bytes: Vec::new(),
            posting_bytes: 0,
            squares: (0..SQUARES as u32)
                .map(|f| if f == 0 { 0 } else { cosine::square(f) })
                .collect(),
            positioned: Vec::new(),
            positions: Vec::new(),
        }
    }

    /// Returns the memory in use, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.words.iter().map(Words::memory).sum::<usize>()
            + self.term_bytes.capacity()
            + self.terms.capacity() * size_of::<Term>()
            + self.by_key.capacity() * 5
            + self.positions.capacity() * size_of::<TermPositions>()
            + self.posting_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Adds a document, whose number must be larger than all earlier ones.
    pub(crate) fn add(&mut self, doc: u32, document: &Document<'_>) -> DocumentFact {
        if let Some(schema) = self.schema.clone() {
            return self.add_fields(doc, document, &schema);
        }
        let analyzer = self.analyzer;
        let mut counts = Counts { doc, length: 0, squares: 0 };
        match &document.vector {
            Some(vector) => {
                for (token, weight) in vector {
                    let term = self.term(token.as_bytes());
                    self.count(&mut counts, term, *weight);
                }
            }
            None => {
                // The scratch buffer is moved out, because the callback needs the rest of the
                // inverter.
                let mut scratch = std::mem::take(&mut self.scratch);
                let (positioned, mut position) = (self.has_positions(0), 0u32);
                for text in [&document.title, &document.text] {
                    position = next_value(position);
                    analyzer.for_each_word(&mut scratch, text, |word, _| {
                        let term = self.term_of_word(0, word, |inverter| {
                            analyzer.term(word).map(|term| inverter.term(term.as_bytes()))
                        });
                        if term != NO_TERM {
                            self.count(&mut counts, term, 1);
                            if positioned {
                                self.add_position(term, position);
                            }
                        }
                        position = position.saturating_add(1);
                    });
                }
                self.scratch = scratch;
            }
        }
        let length = u32::try_from(counts.length).unwrap_or(u32::MAX);
        DocumentFact { length, more: Vec::new(), norm: Some(cosine::norm(counts.squares)) }
    }

    fn add_fields(&mut self, doc: u32, document: &Document<'_>, schema: &Schema) -> DocumentFact {
        let mut lengths = vec![0u64; self.words.len()];
        let mut ends = vec![0u32; self.positioned.len()];
        let mut scratch = std::mem::take(&mut self.scratch);
        for (field, text) in &document.fields {
            let number = usize::from(*field);
            // Fields that were added to the schema after the segment was written are not
            // inverted.
            let Some(length) = lengths.get_mut(number) else { continue };
            let analyzer = schema.analyzer(*field);
            let mut counts = Counts { doc, length: *length, squares: 0 };
            let positioned = self.has_positions(number);
            let first = ends.get(number).map_or(0, |&end| next_value(end));
            let words = analyzer.for_each_word(&mut scratch, text, |word, _, position| {
                let term = self.term_of_word(number, word, |inverter| {
                    analyzer.term(word).map(|term| inverter.term_in_field(*field, &term))
                });
                if term != NO_TERM {
                    self.count(&mut counts, term, 1);
                    if positioned {
                        self.add_position(term, first.saturating_add(position));
                    }
                }
            });
            if let Some(end) = ends.get_mut(number).filter(|_| words > 0) {
                *end = first.saturating_add(words);
            }
            *length = counts.length;
        }
        self.scratch = scratch;
        let mut lengths =
            lengths.into_iter().map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        DocumentFact { length: lengths.next().unwrap_or(0), more: lengths.collect(), norm: None }
    }

    /// Returns the number of a term of a field, whose analyzer ensures that the term is short
    /// enough for the prefix.
    fn term_in_field(&mut self, field: u8, term: &str) -> u32 {
        let mut bytes = Vec::with_capacity(1 + term.len());
        bytes.push(field);
        bytes.extend_from_slice(term.as_bytes());
        self.term(&bytes)
    }

    /// Adds the n-grams of a document, whose first part must have a number larger than all
    /// earlier ones. Maps of segments are collected instead of frequencies.
    pub(crate) fn add_grams(
        &mut self,
        first_part: u32,
        document: &Document<'_>,
        grams: &GramConfig,
    ) -> DocumentFact {
        let mut scratch = std::mem::take(&mut self.gram_scratch);
        let (title, text) = (&document.title, &document.text);
        let length = grams.for_each(&mut scratch, title, text, |part, gram, bit| {
            let term = self.term(gram);
            self.mark(first_part + part, term, bit);
        });
        self.gram_scratch = scratch;
        DocumentFact { length, more: Vec::new(), norm: None }
    }

    /// Sets a bit in the map of a term's newest posting.
    #[inline]
    fn mark(&mut self, doc: u32, term: u32, bit: u32) {
        let term = &mut self.terms[term as usize];
        if term.freq > 0 && term.doc == doc {
            term.freq |= bit;
            return;
        }
        if term.freq > 0 {
            let room = term.postings.capacity();
            term.flush();
            self.posting_bytes += term.postings.capacity() - room;
        }
        (term.doc, term.freq) = (doc, bit);
        term.count += 1;
    }

    /// Returns the number of the term for a word of a field. `find` determines it if the word is
    /// new.
    #[inline]
    fn term_of_word(
        &mut self,
        field: usize,
        word: &str,
        find: impl FnOnce(&mut Self) -> Option<u32>,
    ) -> u32 {
        let bytes = word.as_bytes();
        if bytes.len() > MAX_TERM_BYTES {
            return NO_TERM;
        }
        let hash = xxh3_64(bytes);
        let words = &self.words[field];
        if let Some(known) = words.table.find(hash, |w| w.key.of(&words.bytes) == bytes) {
            return known.term;
        }
        let term = find(self).unwrap_or(NO_TERM);
        let words = &mut self.words[field];
        let key = Key::push(&mut words.bytes, bytes);
        let arena = &words.bytes;
        words.table.insert_unique(hash, Word { key, term }, |w| xxh3_64(w.key.of(arena)));
        term
    }

    fn term(&mut self, bytes: &[u8]) -> u32 {
        let hash = xxh3_64(bytes);
        let (terms, arena) = (&self.terms, &self.term_bytes);
        let same = |&t: &u32| terms[t as usize].key.of(arena) == bytes;
        if let Some(&known) = self.by_key.find(hash, same) {
            return known;
        }
        let term = self.terms.len() as u32;
        let key = Key::push(&mut self.term_bytes, bytes);
        self.terms.push(Term { key, doc: 0, freq: 0, written: 0, count: 0, postings: Vec::new() });
        let (terms, arena) = (&self.terms, &self.term_bytes);
        self.by_key.insert_unique(hash, term, |&t| xxh3_64(terms[t as usize].key.of(arena)));
        term
    }

    #[inline]
    fn count(&mut self, counts: &mut Counts, term: u32, times: u32) {
        let term = &mut self.terms[term as usize];
        let before = if term.freq > 0 && term.doc == counts.doc {
            term.freq
        } else {
            if term.freq > 0 {
                let room = term.postings.capacity();
                term.flush();
                self.posting_bytes += term.postings.capacity() - room;
            }
            (term.doc, term.freq) = (counts.doc, 0);
            term.count += 1;
            0
        };
        term.freq = before.saturating_add(times);
        counts.length += u64::from(times);
        let square = |f: u32| match self.squares.get(f as usize) {
            Some(&square) => square,
            None => cosine::square(f),
        };
        counts.squares = counts.squares.saturating_add(square(term.freq) - square(before));
    }

    fn has_positions(&self, field: usize) -> bool {
        self.positioned.get(field).copied().unwrap_or(false)
    }

    /// Records the position of the word that was just counted.
    #[inline]
    fn add_position(&mut self, term: u32, position: u32) {
        let number = term as usize;
        if self.positions.len() <= number {
            self.positions.resize_with(number + 1, TermPositions::default);
        }
        let positions = &mut self.positions[number];
        let before = if self.terms[number].freq == 1 { 0 } else { positions.last };
        let room = positions.bytes.capacity();
        varint::write(&mut positions.bytes, u64::from(position - before));
        positions.last = position;
        self.posting_bytes += positions.bytes.capacity() - room;
    }

    /// Empties the inverter. Calls `f` with each term in order, its number of postings, their
    /// bytes, which [`next_posting`] reads, and their positions as varints.
    pub(crate) fn drain<E>(
        &mut self,
        mut f: impl FnMut(&[u8], u32, &[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut terms = std::mem::take(&mut self.terms);
        let arena = std::mem::take(&mut self.term_bytes);
        let positions = std::mem::take(&mut self.positions);
        for (number, term) in (0..).zip(&mut terms) {
            term.flush();
            // The newest document has been written, so the field can hold the number of the term,
            // which is needed after sorting.
            term.doc = number;
        }
        terms.sort_unstable_by(|a, b| a.key.of(&arena).cmp(b.key.of(&arena)));
        for term in &terms {
            let own =
                positions.get(term.doc as usize).map_or(&[][..], |positions| &positions.bytes);
            f(term.key.of(&arena), term.count, &term.postings, own)?;
        }
        self.by_key = HashTable::new();
        self.words.iter_mut().for_each(|words| *words = Words::default());
        self.posting_bytes = 0;
        Ok(())
    }
}

struct Counts {
    doc: u32,
    length: u64,
    squares: u64,
}

impl Term {
    fn flush(&mut self) {
        write_posting(&mut self.postings, self.doc - self.written, self.freq);
        self.written = self.doc;
    }
}

fn write_posting(out: &mut Vec<u8>, gap: u32, freq: u32) {
    let once = u64::from(freq == 1);
    varint::write(out, u64::from(gap) << 1 | once);
    if once == 0 {
        varint::write(out, u64::from(freq));
    }
}

/// Appends the parts of a list in the format that [`next_posting`] reads, and returns the number
/// of postings. Documents must ascend.
pub(super) fn write_postings<'a>(
    parts: impl Iterator<Item = (&'a [u32], &'a [u32])>,
    out: &mut Vec<u8>,
) -> u32 {
    let (mut before, mut count) = (0, 0);
    for (docs, freqs) in parts {
        count += docs.len() as u32;
        for (&doc, &freq) in docs.iter().zip(freqs) {
            write_posting(out, doc - before, freq);
            before = doc;
        }
    }
    count
}

/// Reads a term's next posting and returns its document and frequency, or `None` if the bytes are
/// malformed. `doc` is the document of the preceding posting, initially 0.
pub(crate) fn next_posting(cursor: &mut Cursor<'_>, doc: &mut u32) -> Option<(u32, u32)> {
    let head = cursor.varint()?;
    *doc = doc.checked_add(u32::try_from(head >> 1).ok()?)?;
    Some((*doc, if head & 1 == 1 { 1 } else { cursor.varint32()? }))
}

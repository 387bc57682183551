//! The terms of a build, numbered in the order of their first occurrence, and how they are made of
//! words.

use std::sync::Arc;

use hashbrown::HashTable;
use warpseek_index::Values;
use warpseek_text::{Analyzer, Schema, WordRules};
use xxhash_rust::xxh3::xxh3_64;

/// A number that means a word without a term. A test of the kernel `word_table` compares it.
pub(crate) const NO_TERM: u32 = u32::MAX;

/// The analysis of the words of an index.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    pub(crate) analyzer: Analyzer,
    pub(crate) schema: Option<Arc<Schema>>,
    /// Number of sections of a document, one for each text field.
    pub(crate) fields: usize,
}

impl Analysis {
    /// Returns the rules by which words are found.
    pub(crate) fn rules(&self) -> WordRules {
        match self.schema {
            Some(_) => WordRules::of_fields(),
            None => WordRules::of(self.analyzer),
        }
    }

    /// Returns the term of a word or token of a field, if it has one.
    pub(crate) fn term(&self, kind: Values, field: u8, word: &[u8]) -> Option<Vec<u8>> {
        if matches!(kind, Values::Weights | Values::Maps) {
            return Some(word.to_vec());
        }
        // Flat text is created from text, so bytes that are not UTF-8 were not a word.
        let word = std::str::from_utf8(word).ok()?;
        match &self.schema {
            None => Some(self.analyzer.term(word)?.as_bytes().to_vec()),
            Some(schema) => {
                let term = schema.analyzer(field).term(word)?;
                Some([&[field], term.as_bytes()].concat())
            }
        }
    }
}

/// A set of distinct terms.
#[derive(Default)]
pub(crate) struct Terms {
    bytes: Vec<u8>,
    /// The end of each term.
    ends: Vec<usize>,
    numbers: HashTable<u32>,
}

impl Terms {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        get(&self.bytes, &self.ends, number)
    }

    /// Returns the number of a term, adding the term if it is new.
    pub(crate) fn number(&mut self, term: &[u8]) -> u32 {
        let hash = xxh3_64(term);
        let (bytes, ends) = (&self.bytes, &self.ends);
        if let Some(&known) = self.numbers.find(hash, |&n| get(bytes, ends, n) == term) {
            return known;
        }
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(term);
        self.ends.push(self.bytes.len());
        let (bytes, ends) = (&self.bytes, &self.ends);
        self.numbers.insert_unique(hash, number, |&n| xxh3_64(get(bytes, ends, n)));
        number
    }
}

fn get<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

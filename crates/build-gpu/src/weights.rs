//! The weight of every term in every document, in the eight steps of (Wakatsuki 2016): starts of
//! words, their documents, lengths of documents, sorting, frequencies, document frequencies,
//! these spread over the postings, and weights.
//!
//! There are three methods: sorting words as strings, sorting the ids that a dictionary has for
//! them, and MapReduce, with which the paper compares both. All run on the CPU and on a GPU, with
//! the same result, bit for bit.

mod cpu;
mod gpu;
mod parts;
mod steps;

pub use cpu::weigh_on_cpu;
pub use gpu::{GpuWeigher, HostText, WeighError};
pub use steps::{Step, Steps};

use std::borrow::Cow;

use rayon::prelude::*;
use warpseek_core::saturation::Saturation;
use warpseek_dictionary::Dictionary;
use warpseek_exec::RankingFunction;
use warpseek_text::{END_OF_DOCUMENT, WordRules};

/// The byte that ends a word. Kernels use the same one.
pub(crate) const END_OF_WORD: u8 = b'\n';

/// The words of documents, ready to be weighed: words end with a newline, and documents with
/// `END_OF_DOCUMENT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordText {
    bytes: Vec<u8>,
}

/// The reason why a word cannot be weighed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the word {word:?} contains white space or the byte 0x1e")]
pub struct WordError {
    word: String,
}

impl WordText {
    /// Adds a word to the current document.
    pub fn push(&mut self, word: &[u8]) -> Result<(), WordError> {
        let rules = WordRules::of_words();
        if word.iter().any(|&byte| rules.classes[usize::from(byte)] == 0) {
            return Err(WordError { word: String::from_utf8_lossy(word).into_owned() });
        }
        self.bytes.extend_from_slice(word);
        self.bytes.push(END_OF_WORD);
        Ok(())
    }

    /// Ends the current document.
    pub fn end_document(&mut self) {
        self.bytes.push(END_OF_DOCUMENT);
    }

    /// Appends the documents of another text.
    pub fn append(&mut self, other: WordText) {
        match self.bytes.is_empty() {
            true => *self = other,
            false => self.bytes.extend_from_slice(&other.bytes),
        }
    }

    /// Returns the whole text.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The method by which words are distinguished.
#[derive(Clone, Copy, Debug)]
pub enum Method<'a> {
    /// Sorts the words as strings.
    Strings,
    /// Sorts the ids of the words in a dictionary. Words that it does not contain count as one
    /// word.
    Dictionary(&'a Dictionary),
    /// Groups pairs of word and document by MapReduce: by hash tables on the CPU, as Phoenix++
    /// does, and by sorting on a GPU, as Mars does.
    MapReduce,
}

/// Postings with weights, list by list, in the order of terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights<'a> {
    /// Number of words of the text.
    pub words: u64,
    /// Number of documents.
    pub documents: u32,
    /// The term of each list: its id in the dictionary or, without one, its position in the text.
    pub terms: Cow<'a, [u32]>,
    /// The start of each list, and the end of the last one.
    pub starts: Cow<'a, [u32]>,
    /// Documents of the postings, counted from 0.
    pub docs: Cow<'a, [u32]>,
    /// Weights of the postings.
    pub weights: Cow<'a, [f32]>,
}

impl Weights<'_> {
    /// Returns the term of a list, or `None` for the list of unknown words.
    pub fn term<'t>(
        &self,
        list: usize,
        text: &'t [u8],
        method: Method<'_>,
    ) -> Option<Cow<'t, [u8]>> {
        let term = self.terms[list];
        match method {
            Method::Dictionary(dictionary) => dictionary.word(term).map(Cow::Owned),
            Method::Strings | Method::MapReduce => {
                Some(Cow::Borrowed(word_at(text, term as usize)))
            }
        }
    }
}

/// Returns the word that begins at a position of a [`WordText`].
fn word_at(text: &[u8], start: usize) -> &[u8] {
    let end = text[start..].iter().position(|&byte| byte == END_OF_WORD);
    &text[start..end.map_or(text.len(), |end| start + end)]
}

/// A ranking function with the statistics of the collection that it needs.
#[derive(Clone, Copy, Debug)]
struct Weigher {
    function: RankingFunction,
    documents: u64,
    saturation: Saturation,
}

impl Weigher {
    /// Returns `None` if the function has no saturation.
    fn new(function: RankingFunction, documents: u32, words: u64) -> Option<Self> {
        let (k1, b) = function.saturation()?;
        let mean = words as f64 / f64::from(documents.max(1));
        let saturation = Saturation::new(k1, b, mean);
        Some(Weigher { function, documents: u64::from(documents), saturation })
    }

    /// Returns the weight of a term that occurs in this many documents, 0 if there are none.
    fn term(&self, df: u32) -> f32 {
        if df == 0 {
            return 0.0;
        }
        (self.function.idf(self.documents, u64::from(df)) * self.function.constant()) as f32
    }

    /// Returns the weights of terms that occur in 0 documents, 1 document, and so on up to all.
    fn terms(&self, documents: u32) -> Vec<f32> {
        (0..=documents).into_par_iter().map(|df| self.term(df)).collect()
    }
}

/// An error for a ranking function whose weights cannot be computed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the ranking function must be one of {known}, not {0}", known = names().join(", "))]
pub struct NoWeights(pub RankingFunction);

/// Returns the names of the functions whose weights can be computed.
fn names() -> Vec<&'static str> {
    let functions = RankingFunction::ALL.into_iter().filter(|f| f.saturation().is_some());
    functions.map(|function| function.name()).collect()
}

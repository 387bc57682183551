//! The weight of every term in every document, in the eight steps of (Wakatsuki 2016): where words begin, their documents, lengths of documents, sorting, frequencies,
//! document frequencies, these spread over the postings, and weights.
//!
//! There are two methods: sorting words as strings, and sorting the ids that a dictionary has for them. Both run on the CPU and on a GPU, with the same result,
//! bit for bit.

mod cpu;
mod gpu;
mod parts;

pub use cpu::weigh_on_cpu;
pub use gpu::{GpuWeigher, HostText, Step, Steps, WeighError};

use std::borrow::Cow;

use warpseek_core::saturation::Saturation;
use warpseek_dictionary::Dictionary;
use warpseek_exec::RankingFunction;
use warpseek_text::{END_OF_DOCUMENT, WordRules};

/// Ends a word. Kernels know it too.
const END_OF_WORD: u8 = b'\n';

/// Words of documents, ready to be weighed: words end with a newline, and documents with `END_OF_DOCUMENT`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordText {
    bytes: Vec<u8>,
}

/// Why a word cannot be weighed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the word {word:?} has white space or the byte 0x1e in it")]
pub struct WordError {
    word: String,
}

impl WordText {
    /// Adds a word to the document.
    pub fn push(&mut self, word: &[u8]) -> Result<(), WordError> {
        let rules = WordRules::of_words();
        if word.iter().any(|&byte| rules.classes[usize::from(byte)] == 0) {
            return Err(WordError { word: String::from_utf8_lossy(word).into_owned() });
        }
        self.bytes.extend_from_slice(word);
        self.bytes.push(END_OF_WORD);
        Ok(())
    }

    /// Ends the document.
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

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// How words are told apart.
#[derive(Clone, Copy, Debug)]
pub enum Method<'a> {
    /// By sorting them as strings.
    Strings,
    /// By their ids in a dictionary. Words that it does not have count as one word.
    Dictionary(&'a Dictionary),
}

/// Postings with weights, list by list, in the order of terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights<'a> {
    /// Words of the text.
    pub words: u64,
    /// Documents.
    pub documents: u32,
    /// The term of each list: its id in the dictionary or, without one, where it stands in the text.
    pub terms: Cow<'a, [u32]>,
    /// Where each list begins, and where the last one ends.
    pub starts: Cow<'a, [u32]>,
    /// Documents of the postings, counted from 0.
    pub docs: Cow<'a, [u32]>,
    /// Weights of the postings.
    pub weights: Cow<'a, [f32]>,
}

impl Weights<'_> {
    /// The term of a list; none if it is that of unknown words.
    pub fn term<'t>(
        &self,
        list: usize,
        text: &'t [u8],
        method: Method<'_>,
    ) -> Option<Cow<'t, [u8]>> {
        let term = self.terms[list];
        match method {
            Method::Dictionary(dictionary) => dictionary.word(term).map(Cow::Owned),
            Method::Strings => Some(Cow::Borrowed(word_at(text, term as usize))),
        }
    }
}

/// The word that begins at a position of a [`WordText`].
fn word_at(text: &[u8], start: usize) -> &[u8] {
    let end = text[start..].iter().position(|&byte| byte == END_OF_WORD);
    &text[start..end.map_or(text.len(), |end| start + end)]
}

/// A ranking function with what it must know of the collection.
#[derive(Clone, Copy, Debug)]
struct Weigher {
    function: RankingFunction,
    documents: u64,
    saturation: Saturation,
}

impl Weigher {
    /// None if the function has no saturation.
    fn new(function: RankingFunction, documents: u32, words: u64) -> Option<Self> {
        let (k1, b) = function.saturation()?;
        let mean = words as f64 / f64::from(documents.max(1));
        let saturation = Saturation::new(k1, b, mean);
        Some(Weigher { function, documents: u64::from(documents), saturation })
    }

    /// The weight of a term that this many documents have.
    fn term(&self, df: u32) -> f32 {
        (self.function.idf(self.documents, u64::from(df)) * self.function.constant()) as f32
    }
}

/// A ranking function for which there are no weights.
#[derive(Clone, Debug, thiserror::Error)]
#[error("there are weights for {known}, not for {0}", known = names().join(", "))]
pub struct NoWeights(pub RankingFunction);

/// Returns the names of the functions for which there are weights.
fn names() -> Vec<&'static str> {
    let functions = RankingFunction::ALL.into_iter().filter(|f| f.saturation().is_some());
    functions.map(|function| function.name()).collect()
}

//! Documents and their text: input formats, analyzers, n-grams and snippets.

pub use warpseek_core::near;
pub use warpseek_text::{
    Analyzer, Chain, FieldAnalyzer, FieldNames, Format, GramConfig, Language,
    OwnedDocument as Document, STATIC_FIELD, Scratch, Snippet, StopWords, TextError, Tokens, Unit,
    Unknown, snippet,
};

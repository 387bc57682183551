//! Errors in the syntax of a query.

use std::fmt::{self, Write};

use super::limits::{MAX_TREE_DEPTH, MAX_WEIGHT};

/// A syntax error in the text of a query, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (character {column} of the query)")]
pub struct SyntaxError {
    /// The text of the query.
    pub query: String,
    /// The byte offset of the error.
    pub at: usize,
    /// The character of the error, counted from 1.
    pub column: usize,
    /// The kind of error.
    pub kind: SyntaxErrorKind,
}

/// The kind of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxErrorKind {
    /// The schema has no such field.
    #[error("there is no field `{name}`; {}", near.as_ref().map_or_else(
        || "write `\\:` if the colon belongs to a word".to_owned(),
        |near| format!("did you mean `{near}`?")
    ))]
    UnknownField {
        /// The name.
        name: String,
        /// A similar name in the schema, if there is one.
        near: Option<String>,
    },
    /// The index has no schema, and so no fields.
    #[error(
        "the index has no schema and no field `{name}`; write `\\:` if the colon belongs to a word"
    )]
    NoSchema {
        /// The name.
        name: String,
    },
    /// A parenthesis or quotation mark is not closed.
    #[error("`{open}` is not closed")]
    Unclosed {
        /// The opening character.
        open: char,
    },
    /// A closing parenthesis has no opening one.
    #[error("`)` closes nothing; write `\\)` if it belongs to a word")]
    Unopened,
    /// Something is missing.
    #[error("{what} is missing here")]
    Missing {
        /// Description of the missing part.
        what: &'static str,
    },
    /// A weight is not a number, or out of range.
    #[error("`{text}` is not a weight; it must be a number above 0 and up to {MAX_WEIGHT:e}")]
    Weight {
        /// The given text.
        text: String,
    },
    /// A condition has a weight.
    #[error("a condition adds nothing to scores and cannot have a weight")]
    WeightOfCondition,
    /// A value does not have the attribute's type.
    #[error("`{value}` cannot be a value of `{field}`; it must be {expected}")]
    Value {
        /// The attribute.
        field: String,
        /// The given text.
        value: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// A range or comparison is given for a text field.
    #[error("`{field}` is a text field; ranges and comparisons are for attributes")]
    RangeOfText {
        /// The field.
        field: String,
    },
    /// A range is malformed.
    #[error("a range is written as `[from TO to]`, or with `{{` and `}}` to exclude its bounds")]
    Range,
    /// A prefix is given for a text field, or for an attribute that does not support it.
    #[error(
        "`*` is only allowed at the end of a value of a keyword attribute; write `\\*` if it belongs to a word"
    )]
    Prefix,
    /// A phrase is searched for in fields without positions.
    #[error(
        "{} no positions to find phrases with; rebuild the index with `--positions`, or search for the words with `(` and `)`, each with `+` if all are required",
        field.as_ref().map_or_else(|| "the index has".to_owned(), |field| format!("`{field}` has"))
    )]
    Phrase {
        /// The field, if the phrase is not for all fields.
        field: Option<String>,
    },
    /// A slop is not a number, or out of range.
    #[error("`{text}` is not a slop; it must be a number from 0 to {}", u32::MAX)]
    Slop {
        /// The given text.
        text: String,
    },
    /// A value of an attribute has a sign.
    #[error("the values of an attribute cannot have a sign; put it before the attribute")]
    SignOfValue,
    /// The last backslash is not followed by a character.
    #[error("`\\` must be followed by the character that it escapes")]
    Escape,
    /// Parentheses are nested too deeply.
    #[error("more than {MAX_TREE_DEPTH} parentheses are nested")]
    TooDeep,
}

impl SyntaxError {
    /// Shows the place of the error in two lines: a part of the query of at most `width`
    /// characters, and a `^` under the wrong character.
    pub fn caret(&self, width: usize) -> String {
        let width = width.max(8);
        let shown: Vec<char> =
            self.query.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let place = (self.column - 1).min(shown.len());
        let start = if shown.len() < width { 0 } else { place.saturating_sub(width / 2) };
        let end = shown.len().min(start + width);
        let part: String = shown[start..end].iter().collect();
        let mut lines = String::new();
        // Writing to a string cannot fail.
        let _: fmt::Result = write!(lines, "{part}\n{}^", " ".repeat(place - start));
        lines
    }
}

//! Queries: parsing of text into weighted terms, and query trees, which have a syntax of their
//! own.

mod boosts;
mod display;
mod fields;
mod least;
mod limited_planner;
mod limits;
mod list;
mod phrase;
mod plan_node;
mod reduce;
mod resolve;
mod sign;
mod syntax;
mod syntax_error;
mod tree;
mod values;

use std::borrow::Cow;

use serde_json::Value;
use warpseek_index::{Content, Manifest};
use warpseek_text::{Analyzer, Schema, Scratch};

use crate::error::ExecError;

pub use display::display;
pub(crate) use fields::{attribute, read};
pub use least::Least;
pub use limited_planner::LimitedPlanner;
pub use limits::{
    MAX_BOOST_RATIO, MAX_TREE_DEPTH, MAX_TREE_NODES, MAX_TREE_SET_BYTES, MAX_TREE_VALUES,
};
pub(crate) use limits::{MAX_WEIGHT, is_weight};
pub(crate) use list::listed;
pub use phrase::{PlanPhrase, Starts};
pub(crate) use plan_node::{Facts, TIE};
pub use plan_node::{Group, PlanNode, PlanTree, best_score};
pub use sign::sign;
pub use syntax::parse;
pub use syntax_error::{SyntaxError, SyntaxErrorKind};
pub use tree::{Across, Bool, Filter, Node, Operator, Phrase, Words};
pub(crate) use values::expected;

/// A weighted bag of terms, as the index spells them. Terms may repeat; their weights are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The terms in the order written.
    pub terms: Vec<QueryTerm>,
}

/// A term of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// Number of the text field in which the term is searched for; 0 if the index has no schema.
    pub field: u8,
    /// The term as the field's analyzer spells it.
    pub term: String,
    /// Weight of the term.
    pub weight: f64,
}

impl Query {
    /// Creates a query of terms and weights in the first text field, which is the only one
    /// without a schema.
    pub fn of<S: Into<String>>(terms: impl IntoIterator<Item = (S, f64)>) -> Self {
        Self::of_fields(terms.into_iter().map(|(term, weight)| (0, term, weight)))
    }

    /// Creates a query of terms with their fields and weights.
    pub fn of_fields<S: Into<String>>(terms: impl IntoIterator<Item = (u8, S, f64)>) -> Self {
        let term =
            |(field, term, weight): (u8, S, f64)| QueryTerm { field, term: term.into(), weight };
        Query { terms: terms.into_iter().map(term).collect() }
    }

    /// Parses a query for an index: by its schema if it has one, otherwise by its analyzer.
    pub fn for_index(text: &str, manifest: &Manifest) -> Result<Self, ExecError> {
        match &manifest.schema {
            Some(schema) => Ok(Self::parse_fields(text, schema)),
            None => Self::parse(text, manifest.analyzer, manifest.content),
        }
    }

    /// Parses words, each optionally followed by `^` and a weight, for an index with a schema.
    /// Every word is searched for in every text field, after the field's analyzer has turned it
    /// into terms.
    pub fn parse_fields(text: &str, schema: &Schema) -> Self {
        let (mut terms, mut scratch) = (Vec::new(), Scratch::default());
        for chunk in text.split_whitespace() {
            let (word, weight) = split_weight(chunk);
            for field in (0..).take(schema.text().len()) {
                let analyzer = schema.analyzer(field);
                analyzer.for_each_word(&mut scratch, word, |word, _, _| {
                    let term = analyzer.term(word).map(Cow::into_owned);
                    terms.extend(term.map(|term| QueryTerm { field, term, weight }));
                });
            }
        }
        Query { terms }
    }

    /// Parses a query for an index without a schema. For text, it consists of words, each
    /// optionally followed by `^` and a weight (`apple^2.5 pie`); the analyzer turns them into
    /// terms. For vectors, it has the same form with tokens that are not analyzed, or is a JSON
    /// object of tokens and weights.
    pub fn parse(text: &str, analyzer: Analyzer, content: Content) -> Result<Self, ExecError> {
        if content == Content::Vector && text.trim_start().starts_with('{') {
            return Self::parse_json(text);
        }
        let (mut terms, mut scratch) = (Vec::new(), Scratch::default());
        for chunk in text.split_whitespace() {
            let (word, weight) = split_weight(chunk);
            let mut push = |term: Cow<'_, str>| {
                terms.push(QueryTerm { field: 0, term: term.into_owned(), weight });
            };
            match content {
                Content::Vector => push(Cow::Borrowed(word)),
                Content::Text | Content::Grams => {
                    analyzer.for_each_term(&mut scratch, word, push);
                }
            }
        }
        Ok(Query { terms })
    }

    fn parse_json(text: &str) -> Result<Self, ExecError> {
        let value: Value =
            serde_json::from_str(text).map_err(|e| ExecError::Json(e.to_string()))?;
        let Value::Object(map) = value else { return Err(ExecError::Json("not an object".into())) };
        let terms = map.into_iter().map(|(token, weight)| match weight.as_f64() {
            // Models express "absent" by a weight of zero.
            Some(weight) => Ok((token, weight)),
            None => Err(ExecError::Json(format!("weight of `{token}` is not a number"))),
        });
        let terms: Vec<_> = terms.collect::<Result<_, _>>()?;
        Ok(Query::of(terms.into_iter().filter(|t| t.1 != 0.0)))
    }
}

fn split_weight(chunk: &str) -> (&str, f64) {
    if let Some((word, weight)) = chunk.rsplit_once('^')
        && !word.is_empty()
        && let Ok(weight) = weight.parse::<f64>()
    {
        return (word, weight);
    }
    (chunk, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, content: Content) -> Vec<(String, f64)> {
        let query = Query::parse(text, Analyzer::English, content).unwrap();
        assert!(query.terms.iter().all(|term| term.field == 0));
        query.terms.into_iter().map(|term| (term.term, term.weight)).collect()
    }

    #[test]
    fn with_a_schema_every_word_goes_to_every_text_field() {
        let text = r#"{"text": [{"name": "title", "analyzer": "plain"}, {"name": "body"}]}"#;
        let query = Query::parse_fields("Apples^2.5 the pies", &Schema::parse(text).unwrap());
        let wanted = [
            (0, "apples", 2.5),
            (1, "appl", 2.5),
            (0, "the", 1.0),
            (0, "pies", 1.0),
            (1, "pie", 1.0),
        ];
        assert_eq!(query, Query::of_fields(wanted));
    }

    #[test]
    fn text_queries_have_words_and_weights() {
        let want = [("appl", 2.5), ("pie", 1.0), ("pie", 1.0)].map(|(t, w)| (t.to_owned(), w));
        assert_eq!(parse("Apples^2.5 the  pies pie^1", Content::Text), want);
        assert_eq!(parse("a^b ^2", Content::Text), [("b".to_owned(), 1.0), ("2".to_owned(), 1.0)]);
    }

    #[test]
    fn vector_queries_have_tokens_or_json() {
        let want = [("##s", 0.5), ("Big", 2.0)].map(|(t, w)| (t.to_owned(), w));
        assert_eq!(parse("##s^0.5 Big^2", Content::Vector), want);
        assert_eq!(parse(r###"{"##s": 0.5, "Big": 2, "x": 0}"###, Content::Vector), want);
        assert!(Query::parse(r#"{"a": "b"}"#, Analyzer::Raw, Content::Vector).is_err());
    }
}

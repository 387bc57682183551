//! Parsing of query text into weighted terms, and query trees with a syntax of their own.

mod least;
mod near;
mod plan_node;
mod reduce;
mod resolve;
mod syntax;
mod tree;
mod values;

use serde_json::Value;
use warpseek_index::Content;
use warpseek_text::Analyzer;

use crate::error::ExecError;

pub use least::Least;
pub(crate) use plan_node::{Facts, listed};
pub use plan_node::{Group, PlanNode, PlanTree, best_score};
pub use syntax::{SyntaxError, SyntaxErrorKind, display, parse};
pub use tree::{
    Across, Bool, Filter, MAX_TREE_DEPTH, MAX_TREE_NODES, MAX_TREE_VALUES, Node, Operator, Words,
};

/// A weighted bag of terms, as the index spells them. Terms may repeat; their weights are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Terms and weights, in the order written.
    pub terms: Vec<(String, f64)>,
}

impl Query {
    /// Parses a query for an index. For text, it consists of words, each optionally followed by `^` and a weight
    /// (`apple^2.5 pie`); the analyzer turns them into terms. For vectors, it has the same form with tokens taken as
    /// they are, or is a JSON object of tokens and weights.
    pub fn parse(text: &str, analyzer: Analyzer, content: Content) -> Result<Self, ExecError> {
        if content == Content::Vector && text.trim_start().starts_with('{') {
            return Self::parse_json(text);
        }
        let mut terms = Vec::new();
        for chunk in text.split_whitespace() {
            let (word, weight) = split_weight(chunk);
            match content {
                Content::Vector => terms.push((word.to_owned(), weight)),
                Content::Text | Content::Grams => {
                    terms.extend(analyzer.terms(word).into_iter().map(|term| (term, weight)));
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
        Ok(Query { terms: terms.into_iter().filter(|t| t.1 != 0.0).collect() })
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
        Query::parse(text, Analyzer::English, content).unwrap().terms
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

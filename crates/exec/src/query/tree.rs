//! Query trees: conditions on documents, and the parts of their scores.

use std::ops::Bound;
use std::slice::from_ref;

use super::least::Least;
use super::limits::{MAX_TREE_DEPTH, MAX_TREE_NODES, MAX_TREE_VALUES, MAX_WEIGHT, is_weight};
use crate::error::ExecError;

/// A query, or a part of one. It determines which documents match, and with which scores.
///
/// Fields are given by their names in the schema of the index. Weights are positive numbers up to
/// 1e9.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A text whose words are searched for.
    Words(Words),
    /// A text whose words must be next to each other, which needs positions in the index.
    Phrase(Phrase),
    /// A term as the index spells it, which is not analyzed.
    Term {
        /// The text field.
        field: String,
        /// The term.
        term: String,
    },
    /// Several queries combined.
    Bool(Bool),
    /// The best of several queries, called `dis_max` in other systems. A document matches if it
    /// matches one of them. Its score is that of the best, plus the scores of the others times
    /// `tie_breaker`.
    Best {
        /// The queries.
        of: Vec<Node>,
        /// Factor of the other queries' scores, from 0 to 1.
        tie_breaker: f64,
    },
    /// Documents that match `filter`, all with the same score.
    Constant {
        /// The query, whose scores are ignored.
        filter: Box<Node>,
        /// The score, from 0 to 1e9.
        score: f64,
    },
    /// A condition on attributes or ids. It adds nothing to scores.
    Filter(Filter),
    /// All documents, with a score of 1.
    All,
    /// No document.
    Nothing,
    /// A query whose scores are multiplied by a weight.
    Boost(Box<Node>, f64),
    /// A query, or another query if the texts of the first have no terms.
    IfEmpty {
        /// The query.
        of: Box<Node>,
        /// The other query.
        then: Box<Node>,
    },
}

/// A text that the analyzers of the fields turn into terms. If there are none, as with a text of
/// stop words, the node matches nothing, with two exceptions: a [`Bool`] with `skip_empty` and a
/// [`Node::Best`] ignore it, and [`Node::IfEmpty`] replaces it by another query.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// The text fields with their weights. An empty list means all text fields of the schema,
    /// each with weight 1.
    pub fields: Vec<(String, f64)>,
    /// The text.
    pub text: String,
    /// The operator between terms: a document must have one of them, or all.
    pub operator: Operator,
    /// Minimum number of terms with [`Operator::Or`], if it is not one. A term that occurs twice
    /// in the text counts twice.
    pub least: Option<Least>,
    /// The way in which the matches and scores of several fields are combined.
    pub across: Across,
}

/// A text whose words must follow each other in this order. A document matches if one of the
/// fields contains the phrase. Its score is that of the words in the fields that contain the
/// phrase; the number of occurrences of the phrase does not matter.
///
/// The analyzers of the fields turn words into terms; any word may be in the place of a stop
/// word. A text without terms is treated as in [`Words`].
#[derive(Clone, Debug, PartialEq)]
pub struct Phrase {
    /// The text fields with their weights, which must have positions. An empty list means all
    /// text fields with positions.
    pub fields: Vec<(String, f64)>,
    /// The text.
    pub text: String,
    /// Maximum distance of words from their place in the phrase. Give every word of the phrase an
    /// occurrence, different words different ones, and move each back by its offset in the
    /// phrase: the last of the resulting positions may be at most this far after the first. With
    /// 0 the words must be exactly as in the phrase, 1 allows one word in between, 2 allows two
    /// neighbours to be swapped.
    pub slop: u32,
}

impl Phrase {
    /// Creates an exact phrase in these fields, or in all fields with positions if there are
    /// none.
    pub fn exact(fields: impl IntoIterator<Item = String>, text: impl Into<String>) -> Self {
        let fields = fields.into_iter().map(|field| (field, 1.0)).collect();
        Phrase { fields, text: text.into(), slop: 0 }
    }
}

/// An operator between the terms of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Any one term is sufficient.
    #[default]
    Or,
    /// All terms must match.
    And,
}

/// The way in which [`Words`] are searched for in several fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Across {
    /// Searches each field for all words. A document matches if one of the fields does, and the
    /// scores of the fields are added.
    #[default]
    Most,
    /// Matches like `Most`, but the score is that of the best field, plus the others' times
    /// `tie_breaker`, as with [`Node::Best`].
    Best {
        /// Factor of the other fields' scores, from 0 to 1.
        tie_breaker: f64,
    },
    /// Divides the text at white space; each word may be in any of the fields. The operator and
    /// `least` count words rather than terms. The score of a word is that of its best field, plus
    /// the others' times `tie_breaker`, as with [`Node::Best`]; the scores of the words are
    /// added.
    Cross {
        /// Factor of the other fields' scores, from 0 to 1; with 1, the scores of all fields are
        /// added.
        tie_breaker: f64,
    },
}

/// Several queries combined. A document matches if it matches all of `must` and `filter`, at
/// least `least` of `should`, and none of `must_not`. Its score is the sum of the scores of the
/// queries in `must` and `should` that it matches.
///
/// Without any queries, it is equivalent to [`Node::All`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bool {
    /// Queries that must all match; they add to the score.
    pub must: Vec<Node>,
    /// Queries that add to the score if they match.
    pub should: Vec<Node>,
    /// Queries of which none may match.
    pub must_not: Vec<Node>,
    /// Queries that must all match; they add nothing to the score.
    pub filter: Vec<Node>,
    /// Minimum number of queries in `should` that must match. The default is one if there is
    /// neither `must` nor `filter`, otherwise none. Without `must` and `filter`, at least one is
    /// always required.
    pub least: Option<Least>,
    /// Set to ignore parts whose texts have no terms, as query strings do; if all parts are
    /// ignored, so is the whole. Otherwise such a part matches nothing.
    pub skip_empty: bool,
}

/// A condition on attributes or ids. Values are given as text, which is parsed by the type of the
/// attribute: `2020` is an integer or a date, `true` a boolean.
///
/// A document with several values meets a condition if one of the values does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Requires a value that equals one of these.
    Terms {
        /// The attribute.
        field: String,
        /// The values.
        values: Vec<String>,
    },
    /// Requires a keyword that begins with this prefix.
    Prefix {
        /// The attribute, of keywords.
        field: String,
        /// The leading bytes.
        prefix: String,
    },
    /// Requires a value between two bounds. Keywords are compared by their bytes.
    Range {
        /// The attribute.
        field: String,
        /// The lower bound.
        from: Bound<String>,
        /// The upper bound.
        to: Bound<String>,
    },
    /// Requires a value, or, in a text field, a term.
    Exists {
        /// The attribute or text field.
        field: String,
    },
    /// Requires one of these ids.
    Ids(Vec<String>),
}

impl Words {
    /// Searches for any of the words of a text in these fields, or in all text fields if there
    /// are none.
    pub fn any(fields: impl IntoIterator<Item = String>, text: impl Into<String>) -> Self {
        Words {
            fields: fields.into_iter().map(|field| (field, 1.0)).collect(),
            text: text.into(),
            operator: Operator::Or,
            least: None,
            across: Across::Most,
        }
    }
}

impl Node {
    /// Checks the limits on nodes, values, weights and tie breakers.
    pub(crate) fn check(&self) -> Result<(), ExecError> {
        let (mut nodes, mut values) = (0, 0);
        let mut left = vec![(self, 1)];
        while let Some((node, depth)) = left.pop() {
            nodes += 1;
            if depth > MAX_TREE_DEPTH {
                let limit = format!("its parts are nested more than {MAX_TREE_DEPTH} levels deep");
                return Err(ExecError::Tree(limit));
            }
            if nodes > MAX_TREE_NODES {
                return Err(ExecError::Tree(format!("it may have at most {MAX_TREE_NODES} parts")));
            }
            if let Node::Filter(Filter::Terms { values: list, .. } | Filter::Ids(list)) = node {
                values += list.len();
            }
            if values > MAX_TREE_VALUES {
                let limit = format!("it may have at most {MAX_TREE_VALUES} values");
                return Err(ExecError::Tree(limit));
            }
            node.check_numbers()?;
            left.extend(node.children().map(|child| (child, depth + 1)));
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), ExecError> {
        let tie_breaker = |value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => {
                let (name, expected) = ("tie_breaker", "from 0 to 1".to_owned());
                Err(ExecError::Parameter { name, value, expected })
            }
        };
        match self {
            Node::Words(Words { fields, across, .. }) => {
                fields.iter().try_for_each(|(_, weight)| check_weight(*weight))?;
                match across {
                    Across::Best { tie_breaker: value } | Across::Cross { tie_breaker: value } => {
                        tie_breaker(*value)
                    }
                    Across::Most => Ok(()),
                }
            }
            Node::Phrase(Phrase { fields, .. }) => {
                fields.iter().try_for_each(|(_, weight)| check_weight(*weight))
            }
            Node::Best { tie_breaker: value, .. } => tie_breaker(*value),
            Node::Constant { score, .. } if !(0.0..=MAX_WEIGHT).contains(score) => {
                let (name, expected) = ("score", format!("from 0 to {MAX_WEIGHT:e}"));
                Err(ExecError::Parameter { name, value: *score, expected })
            }
            Node::Boost(_, weight) => check_weight(*weight),
            _ => Ok(()),
        }
    }

    fn children(&self) -> impl Iterator<Item = &Node> {
        let (lists, one): ([&[Node]; 4], Option<&Node>) = match self {
            Node::Bool(Bool { must, should, must_not, filter, .. }) => {
                ([must, should, must_not, filter], None)
            }
            Node::Best { of, .. } => ([of, &[], &[], &[]], None),
            Node::IfEmpty { of, then } => ([from_ref(of), from_ref(then), &[], &[]], None),
            Node::Constant { filter: inner, .. } | Node::Boost(inner, _) => ([&[]; 4], Some(inner)),
            Node::Words(_)
            | Node::Phrase(_)
            | Node::Term { .. }
            | Node::Filter(_)
            | Node::All
            | Node::Nothing => ([&[]; 4], None),
        };
        lists.into_iter().flatten().chain(one)
    }
}

fn check_weight(value: f64) -> Result<(), ExecError> {
    match is_weight(value) {
        true => Ok(()),
        false => {
            let expected = format!("above 0 and up to {MAX_WEIGHT:e}");
            Err(ExecError::Parameter { name: "weight", value, expected })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Node {
        let mut node = Node::All;
        for _ in 1..depth {
            node = Node::Boost(Box::new(node), 2.0);
        }
        node
    }

    #[test]
    fn limits_hold_at_the_edge() {
        assert!(nested(MAX_TREE_DEPTH).check().is_ok());
        assert!(nested(MAX_TREE_DEPTH + 1).check().is_err());
        let wide = |n: usize| Node::Best { of: vec![Node::All; n - 1], tie_breaker: 0.0 };
        assert!(wide(MAX_TREE_NODES).check().is_ok());
        assert!(wide(MAX_TREE_NODES + 1).check().is_err());
        let ids = |n: usize| Node::Filter(Filter::Ids(vec![String::new(); n]));
        assert!(ids(MAX_TREE_VALUES).check().is_ok());
        assert!(ids(MAX_TREE_VALUES + 1).check().is_err());
        let many = Bool { filter: vec![ids(MAX_TREE_VALUES), ids(1)], ..Bool::default() };
        assert!(Node::Bool(many).check().is_err());
    }

    #[test]
    fn numbers_are_in_range() {
        let boost = |weight| Node::Boost(Box::new(Node::All), weight).check().is_ok();
        assert!(boost(1e9) && boost(1e-300));
        assert!(!boost(0.0) && !boost(-1.0) && !boost(1.1e9) && !boost(f64::NAN));
        let best = |tie_breaker| Node::Best { of: vec![], tie_breaker }.check().is_ok();
        assert!(best(0.0) && best(1.0) && !best(1.01) && !best(-0.1) && !best(f64::NAN));
        let across = Across::Best { tie_breaker: 2.0 };
        assert!(Node::Words(Words { across, ..Words::any([], "a") }).check().is_err());
        let fields = vec![("title".to_owned(), 0.0)];
        assert!(Node::Words(Words { fields, ..Words::any([], "a") }).check().is_err());
        let constant = |score| Node::Constant { filter: Box::new(Node::All), score }.check();
        assert!(constant(0.0).is_ok() && constant(1e9).is_ok());
        assert!(constant(-1.0).is_err() && constant(2e9).is_err());
    }
}

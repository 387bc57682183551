//! Query trees: what a document must have, and what its score is made of.

use std::ops::Bound;
use std::slice::from_ref;

use super::least::Least;
use crate::error::ExecError;

/// How many nodes may be inside one another.
pub const MAX_TREE_DEPTH: usize = 64;

/// The largest number of nodes of a tree.
pub const MAX_TREE_NODES: usize = 4096;

/// The largest number of values or ids in a tree, those of all its filters together.
pub const MAX_TREE_VALUES: usize = 65_536;

/// The most bytes of memory for the sets of documents that the different filters of a tree admit: one bit per document and filter.
pub const MAX_TREE_SET_BYTES: u64 = 1 << 30;

/// A query, or a part of one. For every document it says whether the document matches, and with which score.
///
/// Fields are given by their names in the schema of the index. Weights are positive numbers up to 1e9.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Words of a text.
    Words(Words),
    /// Words of a text that stand side by side, which needs positions in the index.
    Phrase(Phrase),
    /// A term as the index spells it. It is not analysed.
    Term {
        /// The text field.
        field: String,
        /// The term.
        term: String,
    },
    /// Several queries in one.
    Bool(Bool),
    /// The best of several queries; in other systems `dis_max`. A document matches if it matches one of them. Its score is that of the best, and of the scores of the others this part.
    Best {
        /// The queries.
        of: Vec<Node>,
        /// What of the others' scores is added, from 0 to 1.
        tie_breaker: f64,
    },
    /// Documents that match `filter`, all with the same score.
    Constant {
        /// The query, whose own scores do not matter.
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
    /// A query, or another one if the texts of the first have no terms.
    IfEmpty {
        /// The query.
        of: Box<Node>,
        /// What takes its place.
        then: Box<Node>,
    },
}

/// Words of a text, which the analyzers of the fields turn into terms. If there are none, as with a text of stop words, the node matches nothing; a [`Bool`] with `skip_empty` and a [`Node::Best`] leave it out, and [`Node::IfEmpty`] puts another query in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Words {
    /// The text fields with their weights. None stands for all text fields of the schema, each with weight 1.
    pub fields: Vec<(String, f64)>,
    /// The text.
    pub text: String,
    /// How many of its terms a document must have: one, or all.
    pub operator: Operator,
    /// With [`Operator::Or`]: how many of its terms a document must have, if not one. A term that the text has twice counts twice.
    pub least: Option<Least>,
    /// What several fields have to do with each other.
    pub across: Across,
}

/// Words of a text as they stand there, one after the other. A document matches if it has the phrase in one of the fields. Its score is that of the words in the fields that have the phrase; how often the phrase occurs does not matter.
///
/// The analyzers of the fields turn words into terms; a stop word stands for any word in its place. Without terms it is as [`Words`] without any.
#[derive(Clone, Debug, PartialEq)]
pub struct Phrase {
    /// The text fields with their weights, which must have positions. None stands for all text fields that have.
    pub fields: Vec<(String, f64)>,
    /// The text.
    pub text: String,
    /// How far words may be from where they should be: if every word of the phrase is given an occurrence, no two words the same, and moved back by its place in the phrase, then the last of these is not further than this from the first.
    /// 0 is the phrase as it stands, 1 lets one word come between, 2 lets two neighbours change places.
    pub slop: u32,
}

impl Phrase {
    /// A text as it stands, in these fields; none stands for all that have positions.
    pub fn exact(fields: impl IntoIterator<Item = String>, text: impl Into<String>) -> Self {
        let fields = fields.into_iter().map(|field| (field, 1.0)).collect();
        Phrase { fields, text: text.into(), slop: 0 }
    }
}

/// Whether one or all must match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Operator {
    /// At least one.
    #[default]
    Or,
    /// All.
    And,
}

/// How [`Words`] are searched for in several fields.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Across {
    /// Each field is searched for all words; a document matches if one of the fields does. Scores of fields are added.
    #[default]
    Most,
    /// As `Most`, but the score is that of the best field, and this part of the others', as with [`Node::Best`].
    Best {
        /// From 0 to 1.
        tie_breaker: f64,
    },
    /// The text is divided at white space, and each word may be in any of the fields: the operator and `least` count words and not terms. The score of a word is that of its best field, and this part of
    /// the others', as with [`Node::Best`]; those of the words are added.
    Cross {
        /// From 0 to 1; with 1, the scores of all fields are added.
        tie_breaker: f64,
    },
}

/// Several queries in one. A document matches if it matches all of `must` and `filter`, at least `least` of `should`, and none of `must_not`. Its score is the sum of those of `must` and `should` that it matches.
///
/// Without any parts it is [`Node::All`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bool {
    /// All must match, and add to the score.
    pub must: Vec<Node>,
    /// Those that match add to the score.
    pub should: Vec<Node>,
    /// None may match.
    pub must_not: Vec<Node>,
    /// All must match; they add nothing to the score.
    pub filter: Vec<Node>,
    /// How many of `should` must match. Default: one if there is neither `must` nor `filter`, else none. Without these two it is never less than one.
    pub least: Option<Least>,
    /// Whether parts whose texts have no terms are left out, as they are in query strings; if all are, so is the whole. Otherwise such a part matches nothing.
    pub skip_empty: bool,
}

/// A condition on attributes or ids. Values are given as text, which is read by the type of the attribute: `2020` is an integer or a date, `true` a boolean.
///
/// A document with several values meets a condition if one of them does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// A value equals one of these.
    Terms {
        /// The attribute.
        field: String,
        /// The values.
        values: Vec<String>,
    },
    /// A keyword begins with this.
    Prefix {
        /// The attribute, of keywords.
        field: String,
        /// The leading bytes.
        prefix: String,
    },
    /// A value lies between two bounds. Keywords are compared by their bytes.
    Range {
        /// The attribute.
        field: String,
        /// The lower bound.
        from: Bound<String>,
        /// The upper bound.
        to: Bound<String>,
    },
    /// The document has a value, or, in a text field, a term.
    Exists {
        /// The attribute or text field.
        field: String,
    },
    /// The document has one of these ids.
    Ids(Vec<String>),
}

impl Words {
    /// Any of the words of a text, in these fields; none stands for all.
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
                let limit = format!("at most {MAX_TREE_DEPTH} of its parts may be nested");
                return Err(ExecError::Tree(limit));
            }
            if nodes > MAX_TREE_NODES {
                return Err(ExecError::Tree(format!("it may have {MAX_TREE_NODES} parts")));
            }
            if let Node::Filter(Filter::Terms { values: of, .. } | Filter::Ids(of)) = node {
                values += of.len();
            }
            if values > MAX_TREE_VALUES {
                return Err(ExecError::Tree(format!("it may have {MAX_TREE_VALUES} values")));
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
                let (name, expected) = ("tie_breaker", "from 0 to 1");
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
                let (name, expected) = ("score", "from 0 to 1e9");
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
            Node::Constant { filter: of, .. } | Node::Boost(of, _) => ([&[]; 4], Some(of)),
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

/// The largest weight.
const MAX_WEIGHT: f64 = 1e9;

/// Whether a number can be a weight.
pub(super) fn is_weight(weight: f64) -> bool {
    weight > 0.0 && weight <= MAX_WEIGHT
}

fn check_weight(value: f64) -> Result<(), ExecError> {
    match is_weight(value) {
        true => Ok(()),
        false => {
            Err(ExecError::Parameter { name: "weight", value, expected: "above 0 and up to 1e9" })
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

//! Translation of Elasticsearch's query language into the library's query trees: a pure function
//! of a query and a mapping.
//!
//! As in Elasticsearch, a clause that only filters (range, exists, terms) scores 1 where scores
//! count, and nothing in a filter. Words of a text field are weighted by Elasticsearch's factor
//! k1 + 1. A field that no document has matches nothing. A field that is stored but not
//! searchable, and every unsupported clause, is an error.

mod leaves;
mod phrases;
mod query_string;
mod value;

use serde_json::{Map, Value};
use warpseek::query::{Across, Bool, Least, MAX_TREE_NODES, Node, Operator, Words};

use crate::elasticsearch::mapping::{Field, Layout, Mapping};
use crate::error::{Failure, brief};

/// Translates a query. Ignored options are reported in `warnings`. A query text may have at most
/// `most_text` bytes.
pub(crate) fn translate(
    query: &Value,
    mapping: &Mapping,
    most_text: usize,
    warnings: &mut Vec<String>,
) -> Result<Node, Failure> {
    Translator { mapping, copied: 0, most_text, now: None, warnings }.node(query, true)
}

/// Translates the query of `?q=`.
pub(crate) fn translate_q(
    text: &str,
    field: Option<&str>,
    operator: Operator,
    mapping: &Mapping,
    most_text: usize,
    warnings: &mut Vec<String>,
) -> Result<Node, Failure> {
    let mut body = serde_json::json!({"query": text, "default_operator": if operator == Operator::And { "and" } else { "or" }});
    if let Some(field) = field {
        body["default_field"] = field.into();
    }
    translate(&serde_json::json!({"query_string": body}), mapping, most_text, warnings)
}

pub(crate) struct Translator<'a> {
    mapping: &'a Mapping,
    /// Number of nodes that occur twice in the tree.
    copied: usize,
    most_text: usize,
    /// The time that `now` denotes, set on first use.
    now: Option<i64>,
    warnings: &'a mut Vec<String>,
}

impl Translator<'_> {
    /// Translates a query. `scored` is false where scores do not count.
    fn node(&mut self, query: &Value, scored: bool) -> Result<Node, Failure> {
        let Value::Object(query) = query else {
            return Err(Failure::parsing("[query] must be an object with one clause"));
        };
        let mut clauses = query.iter();
        let (Some((clause, body)), None) = (clauses.next(), clauses.next()) else {
            let names: Vec<&str> = query.keys().map(String::as_str).collect();
            return Err(match names.is_empty() {
                true => Failure::illegal("query malformed, empty clause found"),
                false => Failure::parsing(format!(
                    "[{}] malformed query, expected one clause; put several into [bool]",
                    names.join(", ")
                )),
            });
        };
        match clause.as_str() {
            "match_all" => {
                let parts = self.parts(clause, body, &["boost"])?;
                let boost = parts.boost()?;
                Ok(boosted(Node::All, boost))
            }
            "match_none" => {
                self.parts(clause, body, &["boost"])?.boost()?;
                Ok(Node::Nothing)
            }
            "bool" => self.bool(clause, body, scored),
            "match" => self.match_words(clause, body, scored),
            "multi_match" => self.multi_match(clause, body, scored),
            "combined_fields" => self.combined_fields(clause, body, scored),
            "term" => self.term(clause, body, scored),
            "terms" => self.terms(clause, body, scored),
            "ids" => self.ids(clause, body, scored),
            "exists" => self.exists(clause, body, scored),
            "range" => self.range(clause, body, scored),
            "prefix" => self.prefix(clause, body, scored),
            "constant_score" => {
                let parts = self.parts(clause, body, &["filter", "boost"])?;
                let filter = parts
                    .get("filter")
                    .ok_or_else(|| Failure::parsing("[constant_score] requires a [filter]"))?;
                let filter = Box::new(self.node(filter, false)?);
                Ok(Node::Constant { filter, score: parts.boost()? })
            }
            "dis_max" => {
                let parts = self.parts(clause, body, &["queries", "tie_breaker", "boost"])?;
                let queries = match parts.get("queries") {
                    Some(Value::Array(queries)) => queries
                        .iter()
                        .map(|query| self.node(query, scored))
                        .collect::<Result<_, _>>()?,
                    _ => return Err(Failure::parsing("[dis_max] requires [queries], an array")),
                };
                let tie_breaker = parts.number("tie_breaker")?.unwrap_or(0.0);
                Ok(boosted(Node::Best { of: queries, tie_breaker }, parts.boost()?))
            }
            "boosting" => self.boosting(clause, body, scored),
            "query_string" => self.query_string(clause, body, scored),
            "simple_query_string" => self.simple_query_string(clause, body, scored),
            "match_phrase" => self.match_phrase(clause, body, scored),
            other => Err(match KNOWN_ELSEWHERE.contains(&other) {
                true => Failure::unsupported(other),
                false => Failure::parsing(format!("unknown query [{other}]")),
            }),
        }
    }

    fn bool(&mut self, clause: &str, body: &Value, scored: bool) -> Result<Node, Failure> {
        let allowed = [
            "must",
            "should",
            "filter",
            "must_not",
            "mustNot",
            "minimum_should_match",
            "boost",
            "adjust_pure_negative",
            "_name",
        ];
        let parts = self.parts(clause, body, &allowed)?;
        let mut list = |key: &str, scored: bool| -> Result<Vec<Node>, Failure> {
            match parts.get(key) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(queries)) => {
                    queries.iter().map(|query| self.node(query, scored)).collect()
                }
                // Some clients send an empty object to mean no filter.
                Some(Value::Object(query)) if query.is_empty() => Ok(Vec::new()),
                Some(query) => Ok(vec![self.node(query, scored)?]),
            }
        };
        let mut must_not = list("must_not", false)?;
        must_not.extend(list("mustNot", false)?);
        let (must, should, filter) =
            (list("must", scored)?, list("should", scored)?, list("filter", false)?);
        let least = parts.least("minimum_should_match")?;
        let only_excludes =
            must.is_empty() && should.is_empty() && filter.is_empty() && !must_not.is_empty();
        let node = Node::Bool(Bool { must, should, must_not, filter, least, skip_empty: false });
        // As in Elasticsearch, a query that only excludes scores 0, and one without parts is
        // match_all.
        let node = match only_excludes {
            true => Node::Bool(Bool { filter: vec![node], ..Bool::default() }),
            false => node,
        };
        Ok(boosted(node, parts.boost()?))
    }

    /// Translates `boosting`: matches of `positive`, with lower scores for those that also match
    /// `negative`. The two halves of the result are disjoint, so each document has one score.
    fn boosting(&mut self, clause: &str, body: &Value, scored: bool) -> Result<Node, Failure> {
        let parts =
            self.parts(clause, body, &["positive", "negative", "negative_boost", "boost"])?;
        let part = |key: &str| {
            parts.get(key).ok_or_else(|| Failure::parsing(format!("[boosting] requires [{key}]")))
        };
        let less =
            parts.number("negative_boost")?.filter(|less| *less >= 0.0).ok_or_else(|| {
                Failure::illegal("[boosting] requires [negative_boost], a non-negative number")
            })?;
        let positive = self.node(part("positive")?, scored)?;
        let negative = self.node(part("negative")?, false)?;
        // Each level of nesting doubles the copies.
        self.copied += nodes(&positive) + nodes(&negative);
        if self.copied > MAX_TREE_NODES {
            return Err(Failure::illegal(format!(
                "[boosting] expands to a query of more than {MAX_TREE_NODES} nodes"
            )));
        }
        let without = Bool {
            must: vec![positive.clone()],
            must_not: vec![negative.clone()],
            ..Bool::default()
        };
        let with = Bool { must: vec![positive], filter: vec![negative], ..Bool::default() };
        let both = any(vec![Node::Bool(without), boosted(Node::Bool(with), less)]);
        Ok(boosted(both, parts.boost()?))
    }

    /// Returns the parts of a clause, after checking that all of them are allowed.
    fn parts<'b>(
        &mut self,
        clause: &str,
        body: &'b Value,
        allowed: &[&str],
    ) -> Result<Parts<'b>, Failure> {
        let Value::Object(body) = body else {
            return Err(Failure::parsing(format!(
                "[{clause}] query malformed, expected an object"
            )));
        };
        if let Some(key) =
            body.keys().find(|key| !allowed.contains(&key.as_str()) && *key != "_name")
        {
            let key = brief(key);
            return Err(Failure::parsing(format!("[{clause}] query does not support [{key}]")));
        }
        if body.contains_key("_name") {
            self.warn("[_name] is ignored: hits do not report which queries they match");
        }
        Ok(Parts(body))
    }

    /// Reads `{FIELD: VALUE}`. Clauses about values also allow a boost and a name next to the
    /// field.
    fn single<'b>(
        &mut self,
        clause: &str,
        body: &'b Value,
    ) -> Result<(&'b str, &'b Value), Failure> {
        let Value::Object(body) = body else {
            return Err(Failure::parsing(format!(
                "[{clause}] query malformed, expected an object"
            )));
        };
        // Keys that are options in clauses about values; in other clauses they would be field
        // names.
        let beside: &[&str] = match clause {
            "term" | "terms" | "range" | "prefix" => &["boost", "_name"],
            _ => &[],
        };
        if beside.contains(&"_name") && body.contains_key("_name") {
            self.warn("[_name] is ignored: hits do not report which queries they match");
        }
        let mut fields = body.iter().filter(|(key, _)| !beside.contains(&key.as_str()));
        match (fields.next(), fields.next()) {
            (Some((field, value)), None) => Ok((field, value)),
            (None, _) => Err(Failure::parsing(format!("[{clause}] query requires a field"))),
            (Some((first, _)), Some((second, _))) => Err(Failure::parsing(format!(
                "[{clause}] query doesn't support multiple fields, found [{first}] and [{second}]"
            ))),
        }
    }

    fn text(&self, clause: &str, value: &Value) -> Result<String, Failure> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => return Err(Failure::parsing(format!("[{clause}] requires a query text"))),
        };
        match text.len() > self.most_text {
            true => Err(Failure::illegal(format!(
                "the text of a query has {} bytes, the limit is {} (limits.query_text)",
                text.len(),
                self.most_text
            ))),
            false => Ok(text),
        }
    }

    fn warn(&mut self, what: impl Into<String>) {
        let what = what.into();
        if !self.warnings.contains(&what) {
            self.warnings.push(what);
        }
    }

    /// Translates words in several fields, each with its weight.
    fn words(
        &mut self,
        fields: &[(String, f64)],
        words: &Words,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (mut text, mut others) = (Vec::new(), Vec::new());
        for (path, weight) in fields {
            match self.mapping.field(path) {
                None | Some(Field::Object) if path != "_id" => {}
                Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
                Some(Field::Text { name, factor, .. }) => {
                    text.push((name.clone(), weight * factor));
                }
                _ => {
                    let value = Value::String(words.text.clone());
                    // Among several fields, those whose type cannot hold the value do not match.
                    match self.equals(path, &value) {
                        Ok(filter) => others.push(constant(Node::Filter(filter), *weight, scored)),
                        Err(_) if fields.len() > 1 => {}
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
        if self.mapping.layout == Layout::NoSchema && !text.is_empty() {
            // Without a schema, title and text form one field without a name.
            let weight = text.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
            text.clear();
            others
                .push(boosted(Node::Words(Words { fields: Vec::new(), ..words.clone() }), weight));
        }
        if !text.is_empty() {
            let node = Node::Words(Words { fields: text, ..words.clone() });
            if others.is_empty() {
                return Ok(node);
            }
            others.push(node);
        }
        let tie_breaker = match words.across {
            Across::Best { tie_breaker } | Across::Cross { tie_breaker } => tie_breaker,
            // With a tie breaker of 1, the best score plus the others is the sum.
            Across::Most => 1.0,
        };
        Ok(best(others, tie_breaker))
    }
}

/// Clauses of Elasticsearch that are not supported.
const KNOWN_ELSEWHERE: [&str; 32] = [
    "match_phrase_prefix",
    "wildcard",
    "regexp",
    "fuzzy",
    "nested",
    "knn",
    "function_score",
    "terms_set",
    "match_bool_prefix",
    "intervals",
    "span_term",
    "span_near",
    "span_or",
    "span_not",
    "span_first",
    "has_child",
    "has_parent",
    "parent_id",
    "geo_distance",
    "geo_bounding_box",
    "geo_shape",
    "more_like_this",
    "percolate",
    "rank_feature",
    "script",
    "script_score",
    "distance_feature",
    "pinned",
    "sparse_vector",
    "text_expansion",
    "semantic",
    "neural",
];

/// The parts of a clause.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a>(&'a Map<String, Value>);

impl<'a> Parts<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    fn number(&self, key: &str) -> Result<Option<f64>, Failure> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                let wrong = || Failure::parsing(format!("[{key}] must be a number, found {value}"));
                // NaN and infinities, which can only be written as strings, are rejected.
                number.filter(|number| number.is_finite()).map(Some).ok_or_else(wrong)
            }
        }
    }

    fn boost(&self) -> Result<f64, Failure> {
        let boost = self.number("boost")?.unwrap_or(1.0);
        match boost >= 0.0 {
            true => Ok(boost),
            false => {
                Err(Failure::illegal(format!("negative [boost] are not allowed, found {boost}")))
            }
        }
    }

    fn operator(&self, key: &str) -> Result<Operator, Failure> {
        match self.get(key).map(|value| value.as_str().unwrap_or("").to_lowercase()) {
            None => Ok(Operator::Or),
            Some(name) if name == "or" => Ok(Operator::Or),
            Some(name) if name == "and" => Ok(Operator::And),
            Some(name) => {
                Err(Failure::parsing(format!("[{key}] must be `and` or `or`, found [{name}]")))
            }
        }
    }

    /// Returns true if a text without terms matches all documents.
    fn zero_terms_match_all(&self) -> Result<bool, Failure> {
        match self.get("zero_terms_query") {
            None | Some(Value::Null) => Ok(false),
            Some(value) => match value.as_str().map(str::to_lowercase).as_deref() {
                Some("none") => Ok(false),
                Some("all") => Ok(true),
                _ => Err(Failure::parsing(format!(
                    "[zero_terms_query] must be `none` or `all`, found {value}"
                ))),
            },
        }
    }

    fn least(&self, key: &str) -> Result<Option<Least>, Failure> {
        let text = match self.get(key) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let wrong = |why: String| Failure::parsing(format!("[{key}]: {why}"));
        text.parse().map(Some).map_err(wrong)
    }
}

/// Builds a condition that has this score where scores count.
pub(crate) fn constant(filter: Node, score: f64, scored: bool) -> Node {
    match scored {
        true => Node::Constant { filter: Box::new(filter), score },
        false => filter,
    }
}

/// Builds a query for documents that match one of several queries.
pub(crate) fn any(mut queries: Vec<Node>) -> Node {
    match queries.len() {
        0 => Node::Nothing,
        1 => queries.remove(0),
        _ => Node::Bool(Bool { should: queries, ..Bool::default() }),
    }
}

/// Builds a query whose score is the best of several, plus a share of the others.
pub(crate) fn best(queries: Vec<Node>, tie_breaker: f64) -> Node {
    match queries.len() {
        0 | 1 => any(queries),
        _ => Node::Best { of: queries, tie_breaker },
    }
}

/// Wraps the query of a text so that it matches all documents if the text has no terms.
pub(crate) fn or_all(node: Node) -> Node {
    Node::IfEmpty { of: Box::new(node), then: Box::new(Node::All) }
}

/// Counts the nodes of a tree.
fn nodes(node: &Node) -> usize {
    let all = |list: &[Node]| list.iter().map(nodes).sum::<usize>();
    1 + match node {
        Node::Bool(parts) => {
            all(&parts.must) + all(&parts.should) + all(&parts.must_not) + all(&parts.filter)
        }
        Node::Best { of, .. } => all(of),
        Node::Constant { filter, .. } => nodes(filter),
        Node::Boost(inner, _) => nodes(inner),
        Node::IfEmpty { of, then } => nodes(of) + nodes(then),
        _ => 0,
    }
}

/// Multiplies the scores of a node.
pub(crate) fn boosted(node: Node, weight: f64) -> Node {
    if weight == 1.0 {
        node
    } else if weight == 0.0 {
        Node::Bool(Bool { filter: vec![node], ..Bool::default() })
    } else {
        Node::Boost(Box::new(node), weight)
    }
}

pub(crate) fn unsearchable(path: &str, why: &str) -> Failure {
    Failure::illegal(format!("field [{path}] cannot be searched: {why}"))
}

#[cfg(test)]
#[path = "dsl/tests.rs"]
mod tests;

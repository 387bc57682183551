//! Translation of Elasticsearch's query language into the library's query trees: a pure function
//! of a query and a mapping.
//!
//! As in Elasticsearch, a clause that only filters (range, exists, terms) scores 1 where scores
//! count, and nothing in a filter. Words of a text field are weighted by Elasticsearch's factor
//! k1 + 1. A field that no document has matches nothing. A field that is stored but not
//! searchable, and every unsupported clause, is an error.

mod compound;
mod exists;
mod phrases;
mod query_string;
mod ranges;
mod terms;
mod value;
mod words;

use serde_json::{Map, Value};
use warpseek::query::{Bool, Least, Node, Operator};

use crate::elasticsearch::mapping::Mapping;
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

/// The translation of one query.
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
            "constant_score" => self.constant_score(clause, body),
            "dis_max" => self.dis_max(clause, body, scored),
            "boosting" => self.boosting(clause, body, scored),
            "query_string" => self.query_string(clause, body, scored),
            "simple_query_string" => self.simple_query_string(clause, body, scored),
            "match_phrase" => self.match_phrase(clause, body, scored),
            other => Err(match UNSUPPORTED_CLAUSES.contains(&other) {
                true => Failure::unsupported(other),
                false => Failure::parsing(format!("unknown query [{other}]")),
            }),
        }
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
}

/// Clauses of Elasticsearch that are not supported.
const UNSUPPORTED_CLAUSES: [&str; 32] = [
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

/// Returns the boost next to the field of a clause.
fn boost_beside(body: &Value) -> Result<f64, Failure> {
    body.as_object().map_or(Ok(1.0), |body| Parts(body).boost())
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

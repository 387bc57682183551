//! Clauses that contain other clauses: `bool`, `boosting`, `constant_score` and `dis_max`.

use serde_json::Value;
use warpseek::query::{Bool, MAX_TREE_NODES, Node};

use super::{Translator, any, boosted};
use crate::error::Failure;

impl Translator<'_> {
    pub(super) fn bool(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
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

    pub(super) fn constant_score(&mut self, clause: &str, body: &Value) -> Result<Node, Failure> {
        let parts = self.parts(clause, body, &["filter", "boost"])?;
        let filter = parts
            .get("filter")
            .ok_or_else(|| Failure::parsing("[constant_score] requires a [filter]"))?;
        let filter = Box::new(self.node(filter, false)?);
        Ok(Node::Constant { filter, score: parts.boost()? })
    }

    pub(super) fn dis_max(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let parts = self.parts(clause, body, &["queries", "tie_breaker", "boost"])?;
        let queries = match parts.get("queries") {
            Some(Value::Array(queries)) => {
                queries.iter().map(|query| self.node(query, scored)).collect::<Result<_, _>>()?
            }
            _ => return Err(Failure::parsing("[dis_max] requires [queries], an array")),
        };
        let tie_breaker = parts.number("tie_breaker")?.unwrap_or(0.0);
        Ok(boosted(Node::Best { of: queries, tie_breaker }, parts.boost()?))
    }

    /// Translates `boosting`: matches of `positive`, with lower scores for those that also match
    /// `negative`. The two halves of the result are disjoint, so each document has one score.
    pub(super) fn boosting(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
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

//! Hits as clients read them.

use serde_json::{Value, json};
use warpseek::{Explanation, Response};

use super::{Found, Order, Part, Total, aggregate, sort};
use crate::error::Failure;

/// A score as Elasticsearch shows it, in single precision and with no more digits than that has.
pub(crate) fn score(score: f64) -> Value {
    let shown = (score as f32).to_string();
    json!(shown.parse::<f64>().unwrap_or(score))
}

impl Found {
    /// The body of a search's response with the hits of a page.
    pub(crate) fn body(&self, from: usize, size: usize) -> Result<Value, Failure> {
        let to = from.saturating_add(size).min(self.hits.len());
        let page = self.hits.get(from.min(to)..to).unwrap_or(&[]);
        let hits = page.iter().map(|&hit| self.hit(hit)).collect::<Result<Vec<_>, _>>()?;
        let shards = self.parts.len();
        let best = self
            .hits
            .first()
            .filter(|_| self.ask.order == Order::Score && self.ask.size > 0)
            .map(|&hit| score(self.score(hit)));
        let mut found = json!({"max_score": best, "hits": hits});
        let total = self.total();
        match (self.ask.total, self.ask.plain_total) {
            (Total::None, _) => {}
            (_, true) => found["total"] = json!(total),
            (Total::UpTo(most), _) if total > most => {
                found["total"] = json!({"value": most, "relation": "gte"});
            }
            // Of a part of the documents it is a lower bound.
            _ if !self.is_complete() => found["total"] = json!({"value": total, "relation": "gte"}),
            _ => found["total"] = json!({"value": total, "relation": "eq"}),
        }
        let mut body = json!({
            "took": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "timed_out": !self.is_complete(),
            "_shards": {"total": shards, "successful": shards, "skipped": 0, "failed": 0},
            "hits": found,
        });
        if !self.ask.aggregations.is_empty() {
            body["aggregations"] = aggregate::shown(&self.ask.aggregations, &self.parts)?;
        }
        Ok(body)
    }

    fn hit(&self, hit: (usize, usize)) -> Result<Value, Failure> {
        let (part, rank) = (&self.parts[hit.0], hit.1);
        let has_score = self.ask.order.has_scores() || self.ask.track_scores;
        let mut shown = json!({
            "_index": part.collection.name,
            "_id": part.response.id(rank)?,
            "_score": if has_score { score(self.score(hit)) } else { Value::Null },
        });
        match &self.ask.order {
            Order::Score => {}
            Order::Document => {
                shown["sort"] = json!([sort::number(hit.0, part.response.hits()[rank].doc)]);
            }
            Order::Keys(keys) => shown["sort"] = sort::values(keys, hit, part).into(),
        }
        if !self.ask.source.hidden || self.ask.highlight.is_some() {
            let source = source(part, rank)?;
            if let Some(highlight) = &self.ask.highlight {
                let highlights = highlight.of(part, &source);
                if !highlights.is_empty() {
                    shown["highlight"] = highlights.into();
                }
            }
            if !self.ask.source.hidden {
                shown["_source"] = self.ask.source.apply(source);
            }
        }
        if self.ask.explain {
            shown["_explanation"] = explained(&part.response, &part.response.explain(rank)?);
        }
        Ok(shown)
    }
}

/// The source of a hit.
fn source(part: &Part, rank: usize) -> Result<Value, Failure> {
    let stored = part.response.document(rank)?;
    Ok(stored.map_or_else(|| json!({}), |stored| part.view.mapping.source_of(stored)))
}

/// How a score came about.
pub(crate) fn explained(response: &Response, explanation: &Explanation) -> Value {
    let plan = response.plan();
    let terms = explanation.terms.iter().filter(|term| term.freq > 0);
    let details: Vec<Value> = terms
        .map(|term| {
            let field = &explanation.fields[usize::from(term.field)];
            let name = field.name.as_deref().unwrap_or("text");
            json!({
                "value": score(plan.real(term.score)),
                "description": format!("weight({name}:{}), computed as boost * idf * tf", term.term),
                "details": [
                    {"value": term.query_weight, "description": "boost, with the factor k1 + 1", "details": []},
                    {"value": term.idf, "description": format!("idf of a term in {} documents", term.df), "details": []},
                    {"value": term.freq, "description": "freq, occurrences of term within document", "details": []},
                    {"value": field.length, "description": format!("dl, length of field; the average is {}", field.mean_length), "details": []},
                ],
            })
        })
        .collect();
    json!({"value": score(plan.real(explanation.score)), "description": "sum of:", "details": details})
}

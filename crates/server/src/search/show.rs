//! Hits as clients read them. Answers are written down at once, so that sources pass through as they are stored.

use serde::Serialize;
use serde_json::{Value, json};
use warpseek::{Explanation, Response};

use super::{Found, Order, Part, Total, aggregate, sort};
use crate::collection::number_of;
use crate::error::Failure;

/// A score as Elasticsearch shows it, in single precision and with no more digits than that has.
pub(crate) fn score(score: f64) -> Value {
    let shown = (score as f32).to_string();
    json!(shown.parse::<f64>().unwrap_or(score))
}

/// Appends a value.
fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    serde_json::to_writer(out, value).map_err(|e| Failure::broken(e.to_string()))
}

/// Appends what stands before a value.
fn put_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(key.as_bytes());
}

/// Adds a member to an object that is written down.
pub(crate) fn add(object: &mut Vec<u8>, name: &str, value: &Value) -> Result<(), Failure> {
    if object.pop() != Some(b'}') {
        return Err(Failure::broken("an answer is no object"));
    }
    if object.len() > 1 {
        object.push(b',');
    }
    put(object, name)?;
    object.push(b':');
    put(object, value)?;
    object.push(b'}');
    Ok(())
}

impl Found {
    /// The body of a search's response with the hits of a page.
    pub(crate) fn body(&self, from: usize, size: usize) -> Result<Vec<u8>, Failure> {
        let to = from.saturating_add(size).min(self.hits.len());
        let page = self.hits.get(from.min(to)..to).unwrap_or(&[]);
        let out = &mut Vec::with_capacity(256 + 256 * page.len());
        put_key(out, "{\"took\":");
        put(out, &u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX))?;
        put_key(out, ",\"timed_out\":");
        put(out, &!self.is_complete())?;
        if self.ask.terminates {
            put_key(out, ",\"terminated_early\":false");
        }
        put_key(out, ",\"_shards\":");
        let shards = self.parts.len();
        put(out, &json!({"total": shards, "successful": shards, "skipped": 0, "failed": 0}))?;
        put_key(out, ",\"hits\":{");
        if let Some(total) = self.shown_total() {
            put_key(out, "\"total\":");
            put(out, &total)?;
            out.push(b',');
        }
        put_key(out, "\"max_score\":");
        let best = self.hits.first();
        let best = best.filter(|_| self.ask.order.is_best_first() && self.ask.size > 0);
        put(out, &best.map(|&hit| self.score(hit) as f32))?;
        put_key(out, ",\"hits\":[");
        for (i, &hit) in page.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            self.put_hit(out, hit)?;
        }
        put_key(out, "]}");
        if !self.ask.aggregations.is_empty() {
            put_key(out, ",\"aggregations\":");
            put(out, &aggregate::shown(&self.ask.aggregations, &self.parts)?)?;
        }
        out.push(b'}');
        Ok(std::mem::take(out))
    }

    /// How many documents match, as it was asked for.
    fn shown_total(&self) -> Option<Value> {
        let total = self.total();
        match (self.ask.total, self.ask.plain_total) {
            (Total::None, _) => None,
            (_, true) => Some(json!(total)),
            (Total::UpTo(most), _) if total > most => {
                Some(json!({"value": most, "relation": "gte"}))
            }
            // Of a part of the documents it is a lower bound.
            _ if !self.is_complete() => Some(json!({"value": total, "relation": "gte"})),
            _ => Some(json!({"value": total, "relation": "eq"})),
        }
    }

    fn put_hit(&self, out: &mut Vec<u8>, hit: (usize, usize)) -> Result<(), Failure> {
        let (part, rank) = (&self.parts[hit.0], hit.1);
        let has_score = self.ask.order.has_scores() || self.ask.track_scores;
        put_key(out, "{\"_index\":");
        put(out, &part.collection.name)?;
        put_key(out, ",\"_id\":");
        put(out, &part.response.id(rank)?)?;
        put_key(out, ",\"_score\":");
        put(out, &has_score.then(|| self.score(hit) as f32))?;
        if self.ask.numbers {
            self.put_numbers(out, part, rank)?;
        }
        let asked = &self.ask.source;
        // What is needed of it is all of it, or has to be looked for.
        if self.ask.highlight.is_none() && asked.is_whole() {
            put_key(out, ",\"_source\":");
            put_source(out, part, rank)?;
        } else if self.ask.highlight.is_some() || !asked.hidden {
            let source = source(part, rank)?;
            if let Some(highlight) = &self.ask.highlight {
                let highlights = highlight.of(part, &source);
                if !highlights.is_empty() {
                    put_key(out, ",\"highlight\":");
                    put(out, &highlights)?;
                }
            }
            if !asked.hidden {
                put_key(out, ",\"_source\":");
                put(out, &asked.apply(source))?;
            }
        }
        match &self.ask.order {
            Order::Score => {}
            Order::Document => {
                put_key(out, ",\"sort\":");
                put(out, &[sort::number(hit.0, part.response.hits()[rank].doc)])?;
            }
            Order::Keys(keys) => {
                put_key(out, ",\"sort\":");
                put(out, &sort::values(keys, hit, part))?;
            }
        }
        if self.ask.explain {
            put_key(out, ",\"_explanation\":");
            put(out, &explained(&part.response, &part.response.explain(rank)?))?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl Found {
    /// What reads and writes say of the document; nothing if the index keeps ids alone.
    fn put_numbers(&self, out: &mut Vec<u8>, part: &Part, rank: usize) -> Result<(), Failure> {
        let doc = part.response.hits()[rank].doc;
        let Some(stored) = part.response.snapshot().document(doc)? else { return Ok(()) };
        put_key(out, ",\"_seq_no\":");
        put(out, &number_of(&stored))?;
        put_key(out, ",\"_primary_term\":1");
        Ok(())
    }
}

/// Appends the source of a hit, as it is stored if that can be.
fn put_source(out: &mut Vec<u8>, part: &Part, rank: usize) -> Result<(), Failure> {
    let doc = part.response.hits()[rank].doc;
    let stored = part.response.snapshot().document(doc)?;
    match stored.as_ref().and_then(|stored| Some(&stored[part.view.mapping.raw_source(stored)?])) {
        Some(raw) => {
            out.extend_from_slice(raw);
            Ok(())
        }
        None => put(out, &source(part, rank)?),
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

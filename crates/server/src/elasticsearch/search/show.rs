//! Serialization of hits for clients. Responses are written directly, so that sources can be
//! copied as stored.

use serde::Serialize;
use serde_json::{Value, json};
use warpseek::Response;
use warpseek::plan::{Plan, Rule};
use warpseek::query::Limit;
use warpseek::response::{Explanation, ScorePart, TermExplanation};

use super::execution::time_of;
use super::{Ask, Found, Order, Part, Total, aggregate, sort};
use crate::app::App;
use crate::error::Failure;
use crate::http::caller::Caller;
use crate::indexes::open_index::number_of;

/// Rounds a score to single precision, with no more digits than that has.
pub(crate) fn score(score: f64) -> Value {
    let shown = (score as f32).to_string();
    json!(shown.parse::<f64>().unwrap_or(score))
}

/// Appends a value as JSON.
fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> Result<(), Failure> {
    serde_json::to_writer(out, value).map_err(|e| Failure::broken(e.to_string()))
}

/// Appends literal JSON, such as the key before a value.
fn put_key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(key.as_bytes());
}

/// Adds a member to a serialized object.
pub(crate) fn add(object: &mut Vec<u8>, name: &str, value: &Value) -> Result<(), Failure> {
    if object.pop() != Some(b'}') {
        return Err(Failure::broken("an answer is not an object"));
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

/// The caller and the time limit for showing hits.
pub(crate) struct Showing<'a> {
    caller: &'a Caller,
    limit: Limit,
    /// True once highlights or explanations were omitted for lack of time.
    is_cut: bool,
}

impl<'a> Showing<'a> {
    /// Creates the limit for highlights and explanations, which may take as long again as the
    /// search.
    pub(crate) fn new(app: &App, caller: &'a Caller, ask: &Ask) -> Self {
        let time = time_of(app, ask).map(|time| time.saturating_mul(2));
        Showing { caller, limit: caller.limit(time), is_cut: false }
    }

    /// Returns true if there is time for an optional part of a hit.
    fn has_time(&mut self) -> bool {
        self.is_cut |= self.limit.is_over();
        !self.is_cut
    }

    /// Adds a warning if parts were omitted.
    pub(crate) fn warn(&self, warnings: &mut Vec<String>) {
        let cut =
            "the time limit was reached before [highlight] and [explain] were done for all hits";
        if self.is_cut && !warnings.iter().any(|warning| warning == cut) {
            warnings.push(cut.to_owned());
        }
    }
}

impl Found {
    /// Writes the body of a search's response with the hits of a page.
    pub(crate) fn body(
        &self,
        from: usize,
        size: usize,
        showing: &mut Showing<'_>,
    ) -> Result<Vec<u8>, Failure> {
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
            showing.caller.check(&showing.limit)?;
            self.put_hit(out, hit, showing)?;
        }
        if showing.is_cut {
            showing.caller.check(&showing.limit)?;
        }
        put_key(out, "]}");
        if !self.ask.aggregations.is_empty() {
            put_key(out, ",\"aggregations\":");
            put(out, &aggregate::shown(&self.ask.aggregations, &self.parts)?)?;
        }
        out.push(b'}');
        Ok(std::mem::take(out))
    }

    /// Returns the number of matches in the requested form.
    fn shown_total(&self) -> Option<Value> {
        let total = self.total();
        match (self.ask.total, self.ask.plain_total) {
            (Total::None, _) => None,
            (_, true) => Some(json!(total)),
            (Total::UpTo(most), _) if total > most => {
                Some(json!({"value": most, "relation": "gte"}))
            }
            // After an incomplete search, the total is a lower bound.
            _ if !self.is_complete() => Some(json!({"value": total, "relation": "gte"})),
            _ => Some(json!({"value": total, "relation": "eq"})),
        }
    }

    fn put_hit(
        &self,
        out: &mut Vec<u8>,
        hit: (usize, usize),
        showing: &mut Showing<'_>,
    ) -> Result<(), Failure> {
        let (part, rank) = (&self.parts[hit.0], hit.1);
        let has_score = self.ask.order.has_scores() || self.ask.track_scores;
        put_key(out, "{\"_index\":");
        put(out, &part.index.name)?;
        put_key(out, ",\"_id\":");
        put(out, &part.response.id(rank)?)?;
        put_key(out, ",\"_score\":");
        put(out, &has_score.then(|| self.score(hit) as f32))?;
        if self.ask.numbers {
            self.put_numbers(out, part, rank)?;
        }
        let asked = &self.ask.source;
        // If the whole source is shown, it need not be parsed.
        if self.ask.highlight.is_none() && asked.is_whole() {
            put_key(out, ",\"_source\":");
            put_source(out, part, rank)?;
        } else if self.ask.highlight.is_some() || !asked.hidden {
            let source = source(part, rank)?;
            if let Some(highlight) = &self.ask.highlight
                && showing.has_time()
            {
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
        if self.ask.explain && showing.has_time() {
            put_key(out, ",\"_explanation\":");
            put(out, &explained(&part.response, &part.response.explain(rank)?))?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl Found {
    /// Appends the `_seq_no` and `_primary_term` of a hit, unless the index stores ids only.
    fn put_numbers(&self, out: &mut Vec<u8>, part: &Part, rank: usize) -> Result<(), Failure> {
        let doc = part.response.hits()[rank].doc;
        let Some(stored) = part.response.snapshot().document(doc)? else { return Ok(()) };
        put_key(out, ",\"_seq_no\":");
        put(out, &number_of(&stored))?;
        put_key(out, ",\"_primary_term\":1");
        Ok(())
    }
}

/// Appends the source of a hit, copying the stored bytes if possible.
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

/// Returns the source of a hit.
fn source(part: &Part, rank: usize) -> Result<Value, Failure> {
    let stored = part.response.document(rank)?;
    Ok(stored.map_or_else(|| json!({}), |stored| part.view.mapping.source_of(stored)))
}

/// Returns the explanation of a score in Elasticsearch's format.
pub(crate) fn explained(response: &Response, explanation: &Explanation) -> Value {
    match &explanation.made_of {
        Some(part) => explained_part(response.plan(), explanation, part),
        None => json!({"value": 0.0, "description": "no matching clause", "details": []}),
    }
}

fn explained_part(plan: &Plan, explanation: &Explanation, part: &ScorePart) -> Value {
    let mut description = explanation.describe(part);
    let details = match part.rule {
        Rule::Term(number) => {
            description.push_str(", computed as boost * idf * tf from:");
            of_term(explanation, &explanation.terms[number])
        }
        _ => part.parts.iter().map(|part| explained_part(plan, explanation, part)).collect(),
    };
    json!({"value": score(plan.real(part.score)), "description": description, "details": details})
}

/// Returns the factors of a term's weight.
fn of_term(explanation: &Explanation, term: &TermExplanation) -> Vec<Value> {
    let field = &explanation.fields[usize::from(term.field)];
    let factor = |value: Value, description: &str, details: Vec<Value>| json!({"value": value, "description": description, "details": details});
    let in_document = vec![
        factor(json!(term.freq), "freq, occurrences of term within document", Vec::new()),
        factor(json!(field.length), "dl, length of field", Vec::new()),
        factor(json!(field.mean_length), "avgdl, average length of field", Vec::new()),
    ];
    vec![
        factor(json!(term.query_weight), "boost, with the factor k1 + 1", Vec::new()),
        factor(json!(term.idf), &format!("idf of a term in {} documents", term.df), Vec::new()),
        factor(
            score(f64::from(term.value)),
            "tf, computed as freq / (freq + k1 * (1 - b + b * dl / avgdl)) from:",
            in_document,
        ),
    ]
}

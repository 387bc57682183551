//! A search of `/v1` as it is asked.

use std::ops::Bound;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use warpseek::query::{Bool, Node};
use warpseek::{Facet, Limit, Ranking, Request, SortKey};
use warpseek_front::options;

use super::order::SortRequest;
use super::syntax;
use crate::app::App;
use crate::elasticsearch::dsl;
use crate::elasticsearch::mapping::{Field, Mapping};
use crate::error::Failure;
use crate::http::caller::{Caller, under};
use crate::indexes::open_index::View;

/// The body of a search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
pub(crate) struct SearchRequest {
    /// A text, which is searched in all text fields, or a query in Elasticsearch's language.
    #[serde(default)]
    pub(crate) query: Value,
    /// Whether the text is read with signs, fields, phrases and conditions.
    #[serde(default)]
    pub(crate) syntax: bool,
    /// A query in Elasticsearch's language that hits must match too. It has no part in scores.
    pub(crate) filter: Option<Value>,
    /// How many hits are shown.
    #[serde(default = "ten")]
    pub(crate) k: usize,
    /// How many hits are left out before them.
    #[serde(default)]
    pub(crate) from: usize,
    /// Whether all matches are counted.
    #[serde(default)]
    pub(crate) count: bool,
    /// Whether hits have their documents.
    #[serde(default = "yes")]
    pub(crate) documents: bool,
    /// The most time, in milliseconds, from when the request came; 0 is no limit.
    pub(crate) deadline_ms: Option<u64>,
    /// What hits are sorted by; the highest score comes first if there is nothing.
    #[serde(default)]
    pub(crate) sort: Vec<SortRequest>,
    /// What all matches are counted by.
    #[serde(default)]
    pub(crate) facets: Vec<FacetRequest>,
    /// The parts of texts that show why they matched.
    pub(crate) highlight: Option<HighlightRequest>,
    /// Whether hits say how their scores came about.
    #[serde(default)]
    pub(crate) explain: bool,
    /// What the static score of a document counts for in its score.
    pub(crate) static_weight: Option<f64>,
}

/// What is asked of a query without its hits: how many documents match.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
pub(crate) struct CountRequest {
    /// As in a search.
    #[serde(default)]
    pub(crate) query: Value,
    /// As in a search.
    #[serde(default)]
    pub(crate) syntax: bool,
    /// As in a search.
    pub(crate) filter: Option<Value>,
    /// As in a search.
    pub(crate) deadline_ms: Option<u64>,
}

/// What is asked of a query to hear why a document has its score.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
pub(crate) struct ExplainRequest {
    /// As in a search.
    #[serde(default)]
    pub(crate) query: Value,
    /// As in a search.
    #[serde(default)]
    pub(crate) syntax: bool,
    /// As in a search.
    pub(crate) filter: Option<Value>,
    /// As in a search.
    pub(crate) deadline_ms: Option<u64>,
    /// As in a search.
    pub(crate) static_weight: Option<f64>,
}

impl CountRequest {
    pub(super) fn read(body: Value) -> Result<Self, Failure> {
        read(body)
    }
}

impl ExplainRequest {
    pub(super) fn read(body: Value) -> Result<Self, Failure> {
        read(body)
    }
}

impl From<ExplainRequest> for SearchRequest {
    fn from(asked: ExplainRequest) -> Self {
        let ExplainRequest { query, syntax, filter, deadline_ms, static_weight } = asked;
        let of = CountRequest { query, syntax, filter, deadline_ms };
        SearchRequest { static_weight, ..of.into() }
    }
}

impl From<CountRequest> for SearchRequest {
    fn from(CountRequest { query, syntax, filter, deadline_ms }: CountRequest) -> Self {
        SearchRequest {
            query,
            syntax,
            filter,
            k: ten(),
            from: 0,
            count: false,
            documents: false,
            deadline_ms,
            sort: Vec::new(),
            facets: Vec::new(),
            highlight: None,
            explain: false,
            static_weight: None,
        }
    }
}

/// A field whose values are counted, one by one or by ranges.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [field]")]
pub(crate) struct FacetRequest {
    /// A field with values: keywords, numbers, booleans or dates.
    pub(crate) field: String,
    /// How many values are shown, the most frequent first.
    #[serde(default = "ten")]
    pub(crate) top: usize,
    /// Ranges that are counted instead of values.
    pub(crate) ranges: Option<Vec<RangeRequest>>,
}

/// A range of values. A bound that is left out is none.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [from] and [to]")]
pub(crate) struct RangeRequest {
    /// The first value of the range.
    pub(crate) from: Option<Value>,
    /// The first value after it.
    pub(crate) to: Option<Value>,
}

/// What parts of texts are shown.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [fields]")]
pub(crate) struct HighlightRequest {
    /// Names of text fields, or patterns with `*`.
    #[serde(default = "every_field")]
    pub(crate) fields: Vec<String>,
    /// Characters of a part.
    #[serde(default = "width")]
    pub(crate) width: usize,
    /// Whether fields without a match are shown too, by their beginning.
    #[serde(default)]
    pub(crate) all: bool,
}

/// Reads an object of options. What is wrong is said with the name of the option.
pub(super) fn read<T: DeserializeOwned>(body: Value) -> Result<T, Failure> {
    options(&body, "query").map_err(Failure::parsing)
}

/// The narrowest part that can be asked for, and the widest.
const WIDTHS: std::ops::RangeInclusive<usize> = 3..=1 << 20;

fn ten() -> usize {
    10
}

fn yes() -> bool {
    true
}

fn width() -> usize {
    160
}

fn every_field() -> Vec<String> {
    vec!["*".to_owned()]
}

impl SearchRequest {
    pub(super) fn read(body: Value) -> Result<Self, Failure> {
        read(body)
    }

    /// What the library is asked. Everything that can be wrong is found here, before work begins.
    pub(super) fn plan(
        &self,
        app: &App,
        view: &View,
        caller: &Caller,
    ) -> Result<(Request, Limit), Failure> {
        let limits = &app.config.limits;
        let last = self.from.saturating_add(self.k);
        if last > limits.window {
            let (k, from) = (self.k, self.from);
            return Err(Failure::illegal(format!(
                "[k] is {k} and [from] is {from}, the limit of both together is {} (limits.window)",
                limits.window
            )));
        }
        if let Some(highlight) = &self.highlight
            && !WIDTHS.contains(&highlight.width)
        {
            let (least, most) = (WIDTHS.start(), WIDTHS.end());
            return Err(Failure::illegal(format!(
                "[highlight.width] is {}, it must be from {least} to {most}",
                highlight.width
            )));
        }
        let mut warnings = Vec::new();
        let mut translate =
            |query: &Value| dsl::translate(query, &view.mapping, limits.query_text, &mut warnings);
        let mut node = match &self.query {
            Value::String(text) if self.syntax => syntax::parse(text, view, limits.query_text)?,
            _ if self.syntax => {
                return Err(Failure::illegal(
                    "[syntax] says how a text is read; a [query] in Elasticsearch's language has none",
                ));
            }
            Value::String(text) => {
                translate(&json!({"multi_match": {"query": text, "type": "most_fields"}}))?
            }
            query => translate(query)?,
        };
        if let Some(filter) = &self.filter {
            if !filter.is_object() {
                return Err(Failure::parsing("[filter] must be an object with one clause"));
            }
            let filter = vec![translate(filter)?];
            node = Node::Bool(Bool { must: vec![node], filter, ..Bool::default() });
        }
        // What is ignored elsewhere is an error here.
        if let Some(warning) = warnings.iter().find(|warning| warning.contains("ignored")) {
            return Err(Failure::illegal(warning.clone()));
        }
        let facets = self.facets.iter().map(|facet| facet.plan(&view.mapping));
        let facets = facets.collect::<Result<Vec<_>, _>>()?;
        let sort = self.sort.iter().map(|key| key.plan(&view.mapping));
        let sort = sort.collect::<Result<Vec<SortKey>, _>>()?;
        let mut request = Request::new(node).k(last).count(self.count).facets(facets).sort(sort);
        if let Some(weight) = self.static_weight {
            request = request.ranking(with_static_weight(view, weight)?);
        }
        let limit = caller.limit(self.time(app));
        Ok((under(request, &limit, limit.left()), limit))
    }

    /// How long the search may take from when its request came, if not as long as it needs.
    fn time(&self, app: &App) -> Option<Duration> {
        let deadline = self.deadline_ms.unwrap_or(app.config.deadline_ms);
        (deadline > 0).then(|| Duration::from_millis(deadline))
    }

    /// The same for what is shown of its hits beside the documents, which may take as long again.
    pub(crate) fn showing(&self, app: &App, caller: &Caller) -> Limit {
        caller.limit(self.time(app).map(|time| time.saturating_mul(2)))
    }
}

/// The ranking of an index with static scores that count for this much.
fn with_static_weight(view: &View, static_weight: f64) -> Result<Ranking, Failure> {
    let snapshot = view.searcher.snapshot();
    if snapshot.manifest().static_field.is_none() && !snapshot.has_statics() {
        return Err(Failure::illegal(
            "[static_weight]: the index has no static scores; make it with the setting [static_field]",
        ));
    }
    Ok(Ranking { static_weight, ..view.searcher.ranking() })
}

impl FacetRequest {
    fn plan(&self, mapping: &Mapping) -> Result<Facet, Failure> {
        let shown = &self.field;
        let field = match mapping.field(shown) {
            Some(Field::Attribute { name, .. }) => name.clone(),
            Some(Field::Text { .. }) => {
                return Err(Failure::illegal(format!(
                    "facet [{shown}]: it is a text field, whose values are not counted; count a field of type keyword, such as [{shown}.keyword] if there is one"
                )));
            }
            Some(Field::Stored(why)) => {
                return Err(Failure::illegal(format!("facet [{shown}]: {why}")));
            }
            Some(Field::Object) | None => {
                return Err(Failure::illegal(format!("facet [{shown}]: there is no such field")));
            }
        };
        let Some(ranges) = &self.ranges else { return Ok(Facet::Values { field, top: self.top }) };
        let ranges = ranges.iter().map(|range| {
            let from = text(shown, range.from.as_ref())?;
            let to = text(shown, range.to.as_ref())?;
            let from = from.map_or(Bound::Unbounded, Bound::Included);
            Ok((from, to.map_or(Bound::Unbounded, Bound::Excluded)))
        });
        Ok(Facet::Ranges { field, ranges: ranges.collect::<Result<_, Failure>>()? })
    }
}

/// A bound as the text that the engine reads by the type of the field.
fn text(field: &str, bound: Option<&Value>) -> Result<Option<String>, Failure> {
    match bound {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(other) => {
            let what = format!("facet [{field}]: {other} is no bound of a range");
            Err(Failure::parsing(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named_without_types_of_the_program() {
        for (body, wanted) in [
            (
                json!({"query": "a", "k": "x"}),
                "[k]: invalid type: string \"x\", expected a whole number from 0 on",
            ),
            (
                json!({"k": -1}),
                "[k]: invalid value: integer `-1`, expected a whole number from 0 on",
            ),
            (
                json!({"highlight": 7}),
                "[highlight]: invalid type: integer `7`, expected an object with [fields]",
            ),
            (json!({"facets": [{"ranges": [3]}]}), "expected an object with [from] and [to]"),
            (json!({"facets": 3}), "[facets]: invalid type: integer `3`, expected an array"),
            (json!({"count": 1}), "expected true or false"),
            (json!({"sise": 1}), "unknown field `sise`"),
            (json!([]), "must be an object"),
        ] {
            let reason = SearchRequest::read(body.clone()).unwrap_err().reason;
            assert!(reason.contains(wanted), "{body}: {reason}");
            for name in ["struct", "usize", "u64", "Request"] {
                assert!(!reason.contains(name), "{body}: {reason}");
            }
        }
        assert!(SearchRequest::read(json!({"query": "a", "k": 3})).is_ok());
        assert!(CountRequest::read(json!({"k": 3})).is_err());
    }
}

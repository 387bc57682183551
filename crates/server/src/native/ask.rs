//! The request of `/v1` for a search.

use std::ops::Bound;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use warpseek::query::{Bool, Facet, Limit, Node, SortKey};
use warpseek::{Ranking, Request};
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
    /// A text to search for in all text fields, or a query in Elasticsearch's language.
    #[serde(default)]
    pub(crate) query: Value,
    /// True to interpret signs, fields, phrases and conditions in the text.
    #[serde(default)]
    pub(crate) syntax: bool,
    /// A query in Elasticsearch's language that hits must also match. It does not affect scores.
    pub(crate) filter: Option<Value>,
    /// Maximum number of hits.
    #[serde(default = "ten")]
    pub(crate) k: usize,
    /// Number of hits to skip.
    #[serde(default)]
    pub(crate) from: usize,
    /// True to count all matches.
    #[serde(default)]
    pub(crate) count: bool,
    /// True to include documents in hits.
    #[serde(default = "yes")]
    pub(crate) documents: bool,
    /// Time limit in milliseconds, counted from the arrival of the request; 0 means no limit.
    pub(crate) deadline_ms: Option<u64>,
    /// Keys to sort hits by; without any, the highest score comes first.
    #[serde(default)]
    pub(crate) sort: Vec<SortRequest>,
    /// Fields by which all matches are counted.
    #[serde(default)]
    pub(crate) facets: Vec<FacetRequest>,
    /// Options for highlights.
    pub(crate) highlight: Option<HighlightRequest>,
    /// True to explain the scores of hits.
    #[serde(default)]
    pub(crate) explain: bool,
    /// Weight of a document's static score in its score.
    pub(crate) static_weight: Option<f64>,
}

/// The request for a count: the number of documents that match a query.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
pub(crate) struct CountRequest {
    /// See [`SearchRequest::query`].
    #[serde(default)]
    pub(crate) query: Value,
    /// See [`SearchRequest::syntax`].
    #[serde(default)]
    pub(crate) syntax: bool,
    /// See [`SearchRequest::filter`].
    pub(crate) filter: Option<Value>,
    /// See [`SearchRequest::deadline_ms`].
    pub(crate) deadline_ms: Option<u64>,
}

/// The request for an explanation of a document's score.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [query]")]
pub(crate) struct ExplainRequest {
    /// See [`SearchRequest::query`].
    #[serde(default)]
    pub(crate) query: Value,
    /// See [`SearchRequest::syntax`].
    #[serde(default)]
    pub(crate) syntax: bool,
    /// See [`SearchRequest::filter`].
    pub(crate) filter: Option<Value>,
    /// See [`SearchRequest::deadline_ms`].
    pub(crate) deadline_ms: Option<u64>,
    /// See [`SearchRequest::static_weight`].
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
        let count = CountRequest { query, syntax, filter, deadline_ms };
        SearchRequest { static_weight, ..count.into() }
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

/// A field by whose values or ranges of values matches are counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [field]")]
pub(crate) struct FacetRequest {
    /// A field with values: keywords, numbers, booleans or dates.
    pub(crate) field: String,
    /// Maximum number of values to list, the most frequent first.
    #[serde(default = "ten")]
    pub(crate) top: usize,
    /// Ranges to count instead of values.
    pub(crate) ranges: Option<Vec<RangeRequest>>,
}

/// A range of values. A missing bound means that the range is open at that end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [from] and [to]")]
pub(crate) struct RangeRequest {
    /// The first value of the range.
    pub(crate) from: Option<Value>,
    /// The first value after the range.
    pub(crate) to: Option<Value>,
}

/// The request for highlights.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with [fields]")]
pub(crate) struct HighlightRequest {
    /// Names of text fields, or patterns with `*`.
    #[serde(default = "every_field")]
    pub(crate) fields: Vec<String>,
    /// Length of a highlighted part in characters.
    #[serde(default = "width")]
    pub(crate) width: usize,
    /// True to also show the beginning of fields without a match.
    #[serde(default)]
    pub(crate) all: bool,
}

/// Reads an object of options. Errors name the option.
pub(super) fn read<T: DeserializeOwned>(body: Value) -> Result<T, Failure> {
    options(&body, "query").map_err(Failure::parsing)
}

/// Minimum and maximum length of a highlighted part.
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

    /// Converts the request for the library. All errors in the request are found here, before the
    /// search begins.
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
                "[k] is {k} and [from] is {from}, the limit of their sum is {} (limits.window)",
                limits.window
            )));
        }
        if let Some(highlight) = &self.highlight
            && !WIDTHS.contains(&highlight.width)
        {
            let (least, most) = (WIDTHS.start(), WIDTHS.end());
            return Err(Failure::illegal(format!(
                "[highlight.width] is {}, but must be from {least} to {most}",
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
                    "[syntax] applies to a text; it cannot be combined with a [query] in Elasticsearch's language",
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
        // Parts that Elasticsearch's routes ignore with a warning are errors here.
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

    /// Returns the time limit of the search, if there is one.
    fn time(&self, app: &App) -> Option<Duration> {
        let deadline = self.deadline_ms.unwrap_or(app.config.deadline_ms);
        (deadline > 0).then(|| Duration::from_millis(deadline))
    }

    /// Returns the limit for highlights and explanations of hits, which may take as long again as
    /// the search.
    pub(crate) fn showing(&self, app: &App, caller: &Caller) -> Limit {
        caller.limit(self.time(app).map(|time| time.saturating_mul(2)))
    }
}

/// Returns the ranking of an index with this weight of static scores.
fn with_static_weight(view: &View, static_weight: f64) -> Result<Ranking, Failure> {
    let snapshot = view.searcher.snapshot();
    if snapshot.manifest().static_field.is_none() && !snapshot.has_statics() {
        return Err(Failure::illegal(
            "[static_weight]: the index has no static scores; create it with the setting [static_field]",
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
                    "facet [{shown}]: the values of text fields cannot be counted; use a field of type keyword, such as [{shown}.keyword] if it exists"
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

/// Converts a bound to text, which the engine interprets by the type of the field.
fn text(field: &str, bound: Option<&Value>) -> Result<Option<String>, Failure> {
    match bound {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
        Some(other) => {
            let what = format!("facet [{field}]: {other} is not a valid bound of a range");
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
                "[k]: invalid type: string \"x\", expected a non-negative integer",
            ),
            (json!({"k": -1}), "[k]: invalid value: integer `-1`, expected a non-negative integer"),
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

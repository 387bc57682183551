//! The parameters of a search, from its body and the query string.

use std::time::Duration;

use serde_json::{Map, Value};
use warpseek::query::Operator;

use super::aggregate::{self, Aggregation};
use super::highlight::Highlight;
use super::sort::Order;
use super::source::SourceFilter;
use crate::error::{Failure, brief};
use crate::http::params::Params;
use crate::json::truth;
use crate::operations::config::Limits;

/// Default number of hits.
const SIZE: usize = 10;
/// Default number of matches up to which totals are exact.
const EXACT_TO: u64 = 10_000;

/// The parameters of a search.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) query: Option<Value>,
    pub(crate) q: Option<Line>,
    pub(crate) post_filter: Option<Value>,
    pub(crate) from: usize,
    pub(crate) size: usize,
    pub(crate) source: SourceFilter,
    pub(crate) total: Total,
    pub(crate) order: Order,
    /// The sort values of the hit to continue after.
    pub(crate) after: Option<Vec<Value>>,
    /// True to show the scores of hits in any order.
    pub(crate) track_scores: bool,
    pub(crate) min_score: Option<f64>,
    /// Time limit, counted from the arrival of the request.
    pub(crate) timeout: Option<Duration>,
    pub(crate) explain: bool,
    pub(crate) highlight: Option<Highlight>,
    /// True to accept a partial result when the time limit is reached.
    pub(crate) allow_partial: bool,
    /// True to show the total as a plain number (`rest_total_hits_as_int`).
    pub(crate) plain_total: bool,
    pub(crate) scroll: Option<Duration>,
    pub(crate) pit: Option<Pit>,
    pub(crate) aggregations: Vec<Aggregation>,
    /// True to show `_seq_no` and `_primary_term` of hits.
    pub(crate) numbers: bool,
    /// True if the request has `terminate_after`, which has no effect here.
    pub(crate) terminates: bool,
    /// True if the answer may come from the cache (`request_cache`).
    pub(crate) may_use_cache: bool,
    /// Warnings about ignored parts.
    pub(crate) warnings: Vec<String>,
}

/// The point in time to search.
#[derive(Clone, Debug)]
pub(crate) struct Pit {
    pub(crate) id: String,
    /// New duration for which it is kept from now on, or `None` to keep the previous one.
    pub(crate) keep: Option<Duration>,
}

impl Pit {
    fn parse(pit: &Value) -> Result<Self, Failure> {
        let known = |key: &&String| !matches!(key.as_str(), "id" | "keep_alive");
        if let Some(key) = pit.as_object().into_iter().flat_map(|pit| pit.keys()).find(known) {
            return Err(Failure::parsing(format!("[pit] has an unknown key [{key}]")));
        }
        let id = pit["id"].as_str().ok_or_else(|| Failure::parsing("[pit] requires an [id]"))?;
        let keep = match &pit["keep_alive"] {
            Value::Null => None,
            keep => duration("keep_alive", keep)?,
        };
        Ok(Pit { id: id.to_owned(), keep })
    }
}

/// The query of `?q=`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) field: Option<String>,
    pub(crate) operator: Operator,
}

impl Line {
    /// Reads the query of `?q=`, if there is one.
    fn parse(params: &Params) -> Option<Result<Self, Failure>> {
        let text = params.get("q")?.to_owned();
        let operator = match params.get("default_operator").map(str::to_lowercase).as_deref() {
            None | Some("or") => Operator::Or,
            Some("and") => Operator::And,
            Some(other) => {
                return Some(Err(Failure::illegal(format!(
                    "[default_operator] must be AND or OR, found [{other}]"
                ))));
            }
        };
        let field = params.get("df").map(str::to_owned);
        Some(Ok(Line { text, field, operator }))
    }
}

/// The number of matches that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Total {
    All,
    UpTo(u64),
    None,
}

/// Keys of a body that change no result here.
const HARMLESS: [&str; 2] = ["stats", "batched_reduce_size"];

/// Keys of a body that are ignored, with the reason shown in the warning.
const IGNORED: [(&str, &str); 6] = [
    ("version", "hits have no version"),
    ("profile", "/v1 reports the time of each step"),
    ("ext", "there are no extensions"),
    ("preference", "there is one copy of each index"),
    ("stored_fields", "fields are shown in _source"),
    ("terminate_after", "all documents are searched"),
];

/// Keys of a body that have an effect.
const KNOWN: [&str; 20] = [
    "query",
    "post_filter",
    "from",
    "size",
    "_source",
    "_source_includes",
    "_source_excludes",
    "track_total_hits",
    "sort",
    "min_score",
    "timeout",
    "explain",
    "highlight",
    "search_after",
    "track_scores",
    "pit",
    "aggs",
    "aggregations",
    "scroll",
    "seq_no_primary_term",
];

/// Keys of a body that Elasticsearch and OpenSearch support and warpseek does not.
const UNSUPPORTED: [&str; 15] = [
    "knn",
    "rescore",
    "collapse",
    "suggest",
    "slice",
    "fields",
    "docvalue_fields",
    "script_fields",
    "indices_boost",
    "rank",
    "retriever",
    "runtime_mappings",
    "sub_searches",
    "search_pipeline",
    "derived",
];

impl Ask {
    /// Parses a search. Options may be in the body or in the query string; the body takes
    /// precedence.
    pub(crate) fn parse(body: Value, params: &Params, limits: &Limits) -> Result<Self, Failure> {
        let mut body = match body {
            Value::Null => Map::new(),
            Value::Object(body) => body,
            _ => return Err(Failure::parsing("the body of a search must be an object")),
        };
        let mut warnings = ignored(&body, params);
        check_keys(&body)?;
        let options = Options { body: &body, params };
        let (from, size) = options.window(limits)?;
        let timeout = options.time("timeout")?;
        let highlight = body.get("highlight").filter(|highlight| !highlight.is_null());
        let highlight =
            highlight.map(|value| Highlight::parse(value, &mut warnings)).transpose()?;
        let min_score = options.min_score()?;
        let q = Line::parse(params);
        if q.is_some() && body.get("query").is_some_and(|query| !query.is_null()) {
            let reason = "[q] in the query string and [query] in the body cannot be combined";
            return Err(Failure::illegal(reason));
        }
        let (explain, numbers) = (options.flag("explain")?, options.flag("seq_no_primary_term")?);
        // These options are ignored, but their values must be valid.
        for key in ["version", "profile"] {
            options.flag(key)?;
        }
        let allow_partial = params.get("allow_partial_search_results") != Some("false");
        let scroll = options.time("scroll")?;
        let after = options.after(from)?;
        let pit = body.get("pit").filter(|pit| !pit.is_null()).map(Pit::parse).transpose()?;
        if after.is_some() && scroll.is_some() {
            return Err(Failure::illegal("`search_after` cannot be used in a scroll context."));
        }
        let sort = options.get("sort");
        let order = Order::parse(sort.as_ref(), after.as_deref(), pit.is_some(), &mut warnings)?;
        if body.contains_key("aggs") && body.contains_key("aggregations") {
            return Err(Failure::parsing("[aggs] and [aggregations] are the same option; use one"));
        }
        let aggregations = aggregate::parse(body.get("aggs").or(body.get("aggregations")))?;
        if !aggregations.is_empty() && (body.contains_key("post_filter") || min_score.is_some()) {
            return Err(Failure::unsupported(
                "aggregations combined with post_filter or min_score",
            ));
        }
        let source = SourceFilter::parse(body.get("_source"), params)?.beside(&body, params)?;
        warnings.extend(SourceFilter::ignored(body.get("_source")));
        let total = total(options.get("track_total_hits").as_ref(), params)?;
        let track_scores = options.flag("track_scores")?;
        let terminates = options.get("terminate_after").is_some();
        // An invalid filter is reported under its own key.
        if let Some(filter) =
            body.get("post_filter").filter(|filter| !filter.is_null() && !filter.is_object())
        {
            return Err(Failure::parsing(format!(
                "[post_filter] must be an object with one clause, found {filter}"
            )));
        }
        // Queries may be long, so they are moved rather than copied.
        let mut taken = |key: &str| body.remove(key).filter(|value| !value.is_null());
        Ok(Ask {
            query: taken("query"),
            q: q.transpose()?,
            post_filter: taken("post_filter"),
            from,
            size,
            source,
            total,
            order,
            after,
            track_scores,
            min_score,
            timeout,
            explain,
            highlight,
            allow_partial,
            plain_total: params.flag("rest_total_hits_as_int"),
            scroll,
            pit,
            aggregations,
            numbers,
            terminates,
            may_use_cache: params.get("request_cache") != Some("false"),
            warnings,
        })
    }
}

/// Returns warnings about keys of a search that are ignored.
fn ignored(body: &Map<String, Value>, params: &Params) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, why) in IGNORED {
        let is_set = body.get(key).is_some_and(|value| *value != Value::Bool(false));
        if is_set || params.get(key).is_some_and(|value| value != "false") {
            warnings.push(format!("[{key}] is ignored: {why}"));
        }
    }
    warnings
}

/// Refuses unknown and unsupported keys of a body.
fn check_keys(body: &Map<String, Value>) -> Result<(), Failure> {
    let is_known = |key: &str| {
        KNOWN.contains(&key)
            || HARMLESS.contains(&key)
            || IGNORED.iter().any(|(ignored, _)| *ignored == key)
    };
    match body.keys().find(|key| !is_known(key)) {
        None => Ok(()),
        Some(key) if UNSUPPORTED.contains(&key.as_str()) => Err(Failure::unsupported(key)),
        Some(key) => {
            let key = brief(key);
            Err(Failure::parsing(format!("unknown key [{key}] in the body of a search")))
        }
    }
}

/// The options of a search in its body and in the query string.
struct Options<'a> {
    body: &'a Map<String, Value>,
    params: &'a Params,
}

impl Options<'_> {
    /// Returns the value of an option; that in the body takes precedence.
    fn get(&self, key: &str) -> Option<Value> {
        self.body.get(key).cloned().or_else(|| self.params.get(key).map(Value::from))
    }

    fn number(&self, key: &str, default: usize) -> Result<usize, Failure> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(default),
            Some(value) => {
                let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
                let wrong = || {
                    Failure::illegal(format!(
                        "[{key}] must be a non-negative integer, found {value}"
                    ))
                };
                number.and_then(|number| usize::try_from(number).ok()).ok_or_else(wrong)
            }
        }
    }

    fn flag(&self, key: &str) -> Result<bool, Failure> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(value) => truth(key, &value),
        }
    }

    fn time(&self, key: &str) -> Result<Option<Duration>, Failure> {
        match self.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(time) => duration(key, &time),
        }
    }

    /// Reads `from` and `size`, whose sum is limited.
    fn window(&self, limits: &Limits) -> Result<(usize, usize), Failure> {
        let (from, size) = (self.number("from", 0)?, self.number("size", SIZE)?);
        if from.saturating_add(size) > limits.window {
            return Err(Failure::illegal(format!(
                "Result window is too large, from + size must be less than or equal to: [{}] but was [{}]. See the scroll api for a more efficient way to request large data sets. This limit can be set by changing limits.window.",
                limits.window,
                from.saturating_add(size)
            )));
        }
        Ok((from, size))
    }

    fn min_score(&self) -> Result<Option<f64>, Failure> {
        let Some(value) = self.get("min_score").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let score = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        score.filter(|score| score.is_finite()).map(Some).ok_or_else(|| {
            let found = value.to_string();
            let found = brief(&found);
            Failure::illegal(format!("[min_score] must be a number, found {found}"))
        })
    }

    /// Reads `search_after`, the sort values of the hit to continue after.
    fn after(&self, from: usize) -> Result<Option<Vec<Value>>, Failure> {
        match self.body.get("search_after") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(_)) if from > 0 => Err(Failure::illegal(
                "[from] parameter must be set to 0 when [search_after] is used",
            )),
            Some(Value::Array(values)) => Ok(Some(values.clone())),
            Some(_) => Err(Failure::parsing("[search_after] must be an array of values")),
        }
    }
}

fn total(value: Option<&Value>, params: &Params) -> Result<Total, Failure> {
    let wrong = |value: &Value| {
        Failure::illegal(format!(
            "[track_total_hits] must be true, false or a number, found {value}"
        ))
    };
    match value {
        None | Some(Value::Null) if params.flag("rest_total_hits_as_int") => Ok(Total::All),
        None | Some(Value::Null) => Ok(Total::UpTo(EXACT_TO)),
        Some(Value::Bool(true)) => Ok(Total::All),
        Some(Value::Bool(false)) => Ok(Total::None),
        Some(Value::String(text)) => match text.as_str() {
            "true" => Ok(Total::All),
            "false" => Ok(Total::None),
            number => number.parse().map(Total::UpTo).map_err(|_| wrong(&Value::from(number))),
        },
        Some(value) => match value.as_i64() {
            Some(-1) => Ok(Total::All),
            Some(number @ 0..) => Ok(Total::UpTo(number.unsigned_abs())),
            _ => Err(wrong(value)),
        },
    }
}

/// Parses a duration such as `5m`, `10s` or `500ms`; without a unit, it is in milliseconds.
/// Returns `None` for -1, which means no limit.
pub(crate) fn duration(what: &str, value: &Value) -> Result<Option<Duration>, Failure> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        value => value.to_string(),
    };
    if text == "-1" {
        return Ok(None);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "d" => 86_400.0,
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" | "" => 1e-3,
        "micros" => 1e-6,
        "nanos" => 1e-9,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().map_or(f64::NAN, |number| number * seconds);
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if seconds < 1e9 => Ok(Some(duration)),
        _ => Err(Failure::illegal(format!(
            "failed to parse setting [{what}] with value [{text}] as a time value; write it as 10s or 500ms"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: Value, query: &str) -> Result<Ask, Failure> {
        Ask::parse(body, &Params::parse(Some(query)), &Limits::default())
    }

    #[test]
    fn what_is_ignored_is_said() {
        let said = |body: Value, query: &str| parse(body, query).unwrap().warnings;
        for key in ["profile", "stored_fields", "preference", "terminate_after", "version"] {
            let warnings = said(json!({key: true}), "");
            assert!(warnings.len() == 1 && warnings[0].contains(key), "{warnings:?}");
        }
        assert_eq!(said(Value::Null, "preference=_local").len(), 1);
        let quiet = json!({"stats": ["a"], "profile": false, "version": false, "size": 3});
        assert!(said(quiet, "size=3&pretty").is_empty());
        let highlight = |options: Value| said(json!({"highlight": {"fields": {"t": options}}}), "");
        assert!(highlight(json!({"number_of_fragments": 3, "no_match_size": 9})).is_empty());
        assert!(highlight(json!({"type": "fvh"}))[0].contains("type"));
        assert!(highlight(json!({"number_of_fragments": 1, "fragment_size": 30})).is_empty());
        assert!(said(json!({"sort": [{"day": {"format": "yyyy"}}]}), "")[0].contains("format"));
        // Options may be in the body or in the query string.
        let body = json!({"scroll": "1m", "_source_includes": "a", "_source_excludes": ["b"]});
        let ask = parse(body, "").unwrap();
        assert_eq!(ask.scroll, Some(Duration::from_secs(60)));
        assert!(!ask.source.is_whole() && ask.warnings.is_empty());
    }

    #[test]
    fn options_have_the_values_that_they_can_have() {
        for body in [
            json!({"min_score": "NaN"}),
            json!({"min_score": "inf"}),
            json!({"min_score": []}),
            json!({"explain": "x"}),
            json!({"explain": 1}),
            json!({"track_scores": "yes"}),
            json!({"seq_no_primary_term": []}),
            json!({"profile": "x"}),
            json!({"version": 3}),
            json!({"highlight": {"fields": {"t": {}}, "pre_tags": 5}}),
            json!({"highlight": {"fields": {"t": {"post_tags": [5]}}}}),
            json!({"highlight": {"fields": {"t": 5}}}),
            json!({"highlight": {"fields": [5]}}),
            json!({"size": 1.5}),
        ] {
            let failure = parse(body.clone(), "").unwrap_err();
            assert_eq!(failure.status(), 400, "{body}");
        }
        assert!(parse(json!({"query": {"match_all": {}}}), "q=a").is_err());
        let body = json!({"explain": "true", "min_score": "1.5", "track_scores": null});
        let ask = parse(body, "").unwrap();
        assert!(ask.explain && ask.min_score == Some(1.5) && !ask.track_scores);
    }

    #[test]
    fn options_stand_in_the_body_or_the_query_string() {
        let ask =
            parse(json!({"size": 3}), "size=5&from=7&timeout=2s&track_total_hits=false").unwrap();
        assert_eq!((ask.size, ask.from, ask.total), (3, 7, Total::None));
        assert_eq!(ask.timeout, Some(Duration::from_secs(2)));
        let ask = parse(Value::Null, "").unwrap();
        assert_eq!(
            (ask.size, ask.from, ask.total, ask.order),
            (10, 0, Total::UpTo(10_000), Order::Score)
        );
        assert_eq!(parse(json!({"track_total_hits": true}), "").unwrap().total, Total::All);
        assert_eq!(parse(json!({"sort": "_doc"}), "").unwrap().order, Order::Document);
        assert_eq!(
            parse(json!({"sort": [{"_score": {"order": "desc"}}]}), "").unwrap().order,
            Order::Score
        );
        assert_eq!(
            parse(json!({"sort": ["_score"]}), "sort=_doc:asc").unwrap().order,
            Order::Score
        );
    }

    #[test]
    fn the_window_has_its_edge() {
        assert!(parse(json!({"from": 9990, "size": 10}), "").is_ok());
        let failure = parse(json!({"from": 9991, "size": 10}), "").unwrap_err();
        assert_eq!((failure.status(), failure.kind.name()), (400, "illegal_argument_exception"));
        assert!(parse(json!({"from": u64::MAX, "size": u64::MAX}), "").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (body, wanted) in [
            (json!({"aggs": {"x": {"geohash_grid": {"field": "y"}}}}), "geohash_grid"),
            (json!({"pit": {}}), "id"),
            (json!({"pit": {"id": "x", "index": "y"}}), "index"),
            (json!({"sise": 1}), "sise"),
            (json!({"post_filter": "lang:en"}), "[post_filter]"),
            (json!({"size": -1}), "size"),
            (json!({"sort": "year:up"}), "order"),
            (json!({"search_after": [1]}), "search_after"),
            (json!({"search_after": [1], "sort": "year", "from": 1}), "from"),
            (json!({"search_after": [1], "sort": "year", "scroll": "1m"}), "scroll"),
            (json!({"sort": "_shard_doc"}), "[point in time]"),
            (json!({"timeout": "soon"}), "timeout"),
            (json!({"track_total_hits": "x"}), "track_total_hits"),
            (json!([]), "object"),
        ] {
            let failure = parse(body.clone(), "").unwrap_err();
            assert!(failure.reason.contains(wanted), "{body}: {}", failure.reason);
        }
    }

    #[test]
    fn times() {
        let read = |text: &str| duration("t", &json!(text)).unwrap();
        assert_eq!(read("5m"), Some(Duration::from_secs(300)));
        assert_eq!(read("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(read("30"), Some(Duration::from_millis(30)));
        assert_eq!(read("-1"), None);
        for wrong in ["", "m", "5x", "1e99d", "-5s"] {
            assert!(duration("t", &json!(wrong)).is_err(), "{wrong}");
        }
    }
}

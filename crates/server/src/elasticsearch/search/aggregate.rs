//! Aggregations that exact counts of values can answer: `terms`, `cardinality`, `value_count`,
//! `range`, `min`, `max`, `stats`, and `composite` with one source.

mod shown;

use std::ops::Bound;

use serde_json::{Map, Value};
use warpseek::query::{Facet, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS, SortKey};
use warpseek::schema::{AttributeKind, AttributeValue};

use super::Planned;
use crate::elasticsearch::mapping::Field;
use crate::error::{Failure, brief};
use crate::http::caller::under;
use crate::indexes::open_index::View;
use crate::json::truth;
pub(super) use shown::shown;

/// Default number of values of a `terms` or `composite` aggregation.
const SIZE: usize = 10;

/// An aggregation over all matches of a search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregation {
    name: String,
    field: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Terms { size: usize, order: TermsOrder, least: u64 },
    Cardinality,
    ValueCount,
    Ranges { ranges: Vec<Range>, keyed: bool },
    Min,
    Max,
    Stats,
    Composite { source: String, size: usize, descending: bool, after: Option<Value> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TermsOrder {
    /// Order by count; values with equal counts are sorted by key.
    Count {
        descending: bool,
        keys_descend: bool,
    },
    Key {
        descending: bool,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Range {
    key: Option<String>,
    from: Option<f64>,
    to: Option<f64>,
}

/// The smallest and the largest value in one index.
pub(crate) type Extremes = (Option<AttributeValue<'static>>, Option<AttributeValue<'static>>);

/// Parses `aggs`.
pub(super) fn parse(aggs: Option<&Value>) -> Result<Vec<Aggregation>, Failure> {
    let Some(aggs) = aggs.filter(|aggs| !aggs.is_null()) else { return Ok(Vec::new()) };
    let Value::Object(aggs) = aggs else {
        return Err(Failure::parsing("[aggs] must be an object that maps names to aggregations"));
    };
    if aggs.len() > MAX_FACETS {
        return Err(Failure::illegal(format!(
            "a search may have at most {MAX_FACETS} aggregations"
        )));
    }
    aggs.iter().map(|(name, body)| Aggregation::parse(name, body)).collect()
}

impl Aggregation {
    fn parse(name: &str, body: &Value) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::parsing(format!("aggregation [{name}]: {what}"));
        let Value::Object(body) = body else {
            return Err(wrong("expected an object with its type".into()));
        };
        if body.contains_key("aggs") || body.contains_key("aggregations") {
            return Err(Failure::unsupported("aggregations inside aggregations"));
        }
        let mut types = body.iter().filter(|(key, _)| *key != "meta");
        let (Some((kind, options)), None) = (types.next(), types.next()) else {
            return Err(wrong("expected exactly one type".into()));
        };
        let Value::Object(options) = options else {
            return Err(wrong(format!("[{kind}] must be an object")));
        };
        let known: &[&str] = match kind.as_str() {
            "terms" => &[
                "field",
                "size",
                "order",
                "min_doc_count",
                "shard_size",
                "show_term_doc_count_error",
                "execution_hint",
                "collect_mode",
            ],
            "cardinality" => &["field", "precision_threshold", "execution_hint"],
            "value_count" | "min" | "max" | "stats" => &["field"],
            "range" => &["field", "ranges", "keyed"],
            "composite" => &["size", "sources", "after"],
            other => return Err(Failure::unsupported(&format!("aggregation of type {other}"))),
        };
        if let Some(key) = options.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(Failure::unsupported(&format!("{key} of an aggregation {kind}")));
        }
        let size = match options.get("size") {
            None => SIZE,
            Some(size) => size
                .as_u64()
                .and_then(|size| usize::try_from(size).ok())
                .filter(|size| (1..=MAX_FACET_VALUES).contains(size))
                .ok_or_else(|| wrong(format!("[size] must be from 1 to {MAX_FACET_VALUES}")))?,
        };
        let (source, of_source) = match kind.as_str() {
            "composite" => composite_source(options).map_err(wrong)?,
            _ => (String::new(), options),
        };
        let field = of_source.get("field").and_then(Value::as_str);
        let field = field.ok_or_else(|| wrong(format!("[{kind}] requires a [field]")))?.to_owned();
        let kind = match kind.as_str() {
            "terms" => {
                let least = options.get("min_doc_count").map_or(Some(1), Value::as_u64);
                let least = least.filter(|least| *least > 0);
                let least = least.ok_or_else(|| {
                    wrong(
                        "[min_doc_count] must be at least 1; values without documents are unknown"
                            .into(),
                    )
                })?;
                Kind::Terms {
                    size,
                    order: terms_order(options.get("order")).map_err(wrong)?,
                    least,
                }
            }
            "cardinality" => Kind::Cardinality,
            "value_count" => Kind::ValueCount,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "stats" => Kind::Stats,
            "range" => {
                let ranges = ranges(options.get("ranges")).map_err(wrong)?;
                let keyed = options.get("keyed").filter(|keyed| !keyed.is_null());
                let keyed = keyed.map_or(Ok(false), |keyed| truth("keyed", keyed))?;
                Kind::Ranges { ranges, keyed }
            }
            _ => {
                let order = of_source.get("order").filter(|order| !order.is_null());
                let descending = order.map_or(Ok(false), is_descending).map_err(wrong)?;
                let after = place_after(options.get("after"), &source).map_err(wrong)?;
                Kind::Composite { source, size, descending, after }
            }
        };
        Ok(Aggregation { name: name.to_owned(), field, kind })
    }

    /// Returns the attribute of an index that has the values, or `None` if the index lacks the
    /// field.
    fn attribute<'a>(&self, view: &'a View) -> Result<Option<(&'a str, AttributeKind)>, Failure> {
        let path = &self.field;
        match view.mapping.field(path) {
            Some(Field::Attribute { name, kind }) => Ok(Some((name, *kind))),
            Some(Field::Text { .. }) => Err(Failure::illegal(format!(
                "field [{path}] is text, which has no values to count; use a keyword field, such as [{path}.keyword]"
            ))),
            Some(Field::Stored(why)) => {
                Err(Failure::illegal(format!("field [{path}] has no values to count: {why}")))
            }
            None | Some(Field::Object) => Ok(None),
        }
    }

    fn wants_extremes(&self) -> bool {
        matches!(self.kind, Kind::Min | Kind::Max | Kind::Stats)
    }

    fn facet(&self, name: &str, kind: AttributeKind) -> Result<Facet, Failure> {
        let field = name.to_owned();
        let is_number = matches!(kind, AttributeKind::Integer | AttributeKind::Float);
        let refused = |what: &str| {
            let path = &self.field;
            Err(Failure::illegal(format!("aggregation [{}]: field [{path}] {what}", self.name)))
        };
        Ok(match &self.kind {
            Kind::Min | Kind::Max | Kind::Stats if !is_number && kind != AttributeKind::Date => {
                return refused("has no numbers or dates");
            }
            Kind::Ranges { .. } if !is_number => return refused("has no numbers"),
            Kind::Ranges { ranges, .. } => {
                let bound = |value: Option<f64>| value.map(|value| number_text(value, kind));
                let ranges = ranges.iter().map(|range| {
                    let from = bound(range.from).map_or(Bound::Unbounded, Bound::Included);
                    (from, bound(range.to).map_or(Bound::Unbounded, Bound::Excluded))
                });
                Facet::Ranges { field, ranges: ranges.collect() }
            }
            _ => Facet::Values { field, top: MAX_FACET_VALUES },
        })
    }
}

/// Formats a number for the engine's type. For integers, a bound with a fraction moves up to the
/// next integer, which admits the same values.
fn number_text(value: f64, kind: AttributeKind) -> String {
    match kind {
        AttributeKind::Integer => format!("{:.0}", value.ceil()),
        _ => value.to_string(),
    }
}

fn composite_source(options: &Map<String, Value>) -> Result<(String, &Map<String, Value>), String> {
    let one = match options.get("sources") {
        Some(Value::Array(sources)) if sources.len() == 1 => sources[0].as_object(),
        _ => None,
    };
    let source = one.filter(|source| source.len() == 1).and_then(|source| source.iter().next());
    let (name, source) = source.ok_or("[composite] must have one source")?;
    let terms = source.get("terms").and_then(Value::as_object);
    let terms = terms.ok_or("the source of [composite] must be [terms]")?;
    match terms.keys().find(|key| !matches!(key.as_str(), "field" | "order")) {
        Some(key) => Err(format!("[{key}] of a source is not supported by warpseek")),
        None => Ok((name.clone(), terms)),
    }
}

/// Reads the value that a `composite` aggregation continues after.
fn place_after(after: Option<&Value>, source: &str) -> Result<Option<Value>, String> {
    let Some(after) = after.filter(|after| !after.is_null()) else { return Ok(None) };
    let Value::Object(values) = after else {
        return Err("[after] must be an object with a value of the source".into());
    };
    if let Some(key) = values.keys().find(|key| key.as_str() != source) {
        return Err(format!("[after] has [{}], which is not a source", brief(key)));
    }
    match values.get(source) {
        None | Some(Value::Null) => Err(format!("[after] requires a value of [{source}]")),
        Some(value) => Ok(Some(value.clone())),
    }
}

fn is_descending(direction: &Value) -> Result<bool, String> {
    match direction.as_str().map(str::to_lowercase).as_deref() {
        Some("asc") => Ok(false),
        Some("desc") => Ok(true),
        _ => Err("[order] must be asc or desc".into()),
    }
}

/// Reads one order or several, each of which breaks ties of those before it. Keys are distinct,
/// so orders after one by key have no effect.
fn terms_order(order: Option<&Value>) -> Result<TermsOrder, String> {
    let orders = match order {
        None => return Ok(TermsOrder::Count { descending: true, keys_descend: false }),
        Some(Value::Array(orders)) => orders.as_slice(),
        Some(order) => std::slice::from_ref(order),
    };
    let orders = orders.iter().map(one_order).collect::<Result<Vec<_>, _>>()?;
    let by_key = orders.iter().find_map(|order| match order {
        TermsOrder::Key { descending } => Some(*descending),
        TermsOrder::Count { .. } => None,
    });
    match orders.first() {
        None => Err("[order] must be by [_count] or [_key]".into()),
        Some(&TermsOrder::Count { descending, .. }) => {
            Ok(TermsOrder::Count { descending, keys_descend: by_key.unwrap_or(false) })
        }
        Some(&first) => Ok(first),
    }
}

fn one_order(order: &Value) -> Result<TermsOrder, String> {
    let one = order.as_object().filter(|map| map.len() == 1).and_then(|map| map.iter().next());
    match one {
        Some((key, direction)) if key == "_count" => {
            Ok(TermsOrder::Count { descending: is_descending(direction)?, keys_descend: false })
        }
        Some((key, direction)) if matches!(key.as_str(), "_key" | "_term") => {
            Ok(TermsOrder::Key { descending: is_descending(direction)? })
        }
        _ => Err("[order] must be by [_count] or [_key]".into()),
    }
}

fn ranges(ranges: Option<&Value>) -> Result<Vec<Range>, String> {
    let Some(Value::Array(ranges)) = ranges else {
        return Err("[range] requires [ranges], an array".into());
    };
    if ranges.is_empty() || ranges.len() > MAX_FACET_RANGES {
        return Err(format!("[ranges] must have 1 to {MAX_FACET_RANGES} ranges"));
    }
    ranges.iter().map(range).collect()
}

fn range(range: &Value) -> Result<Range, String> {
    let Value::Object(range) = range else {
        return Err("[ranges] must contain objects with [from] and [to]".into());
    };
    if let Some(key) = range.keys().find(|key| !matches!(key.as_str(), "key" | "from" | "to")) {
        return Err(format!(
            "a range has no option [{}]; supported are key, from and to",
            brief(key)
        ));
    }
    let number = |key: &str| match range.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
            number.map(Some).ok_or(format!("[{key}] of a range must be a number"))
        }
    };
    let key = match range.get("key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(key.clone()),
        Some(_) => return Err("[key] of a range must be a string".into()),
    };
    Ok(Range { key, from: number("from")?, to: number("to")? })
}

/// Returns the facets for the engine, for those aggregations whose field the index has.
pub(super) fn facets(aggregations: &[Aggregation], view: &View) -> Result<Vec<Facet>, Failure> {
    let mut facets = Vec::new();
    for aggregation in aggregations {
        if let Some((name, kind)) = aggregation.attribute(view)? {
            facets.push(aggregation.facet(name, kind)?);
        }
    }
    Ok(facets)
}

/// Returns true if an aggregation requires further searches.
pub(super) fn want_extremes(aggregations: &[Aggregation]) -> bool {
    aggregations.iter().any(Aggregation::wants_extremes)
}

/// Finds the smallest and largest values among the matches of a search, for the aggregations that
/// need them. Also returns whether there was enough time.
pub(super) fn extremes(
    aggregations: &[Aggregation],
    planned: &Planned,
) -> Result<(Vec<Extremes>, bool), Failure> {
    let (mut extremes, mut complete) = (Vec::new(), true);
    for aggregation in aggregations.iter().filter(|aggregation| aggregation.wants_extremes()) {
        let Some((name, _)) = aggregation.attribute(&planned.view)? else {
            extremes.push((None, None));
            continue;
        };
        let mut first = |key: SortKey| -> Result<Option<AttributeValue<'static>>, Failure> {
            let mut request = planned.request.clone().k(1).count(false).sort([key]);
            (request.facets, request.after) = (Vec::new(), None);
            // All searches share the time limit.
            let request = under(request, &planned.limit, planned.limit.left());
            let response = planned.view.search(&request, planned.may_use_cache)?;
            // The smallest value of a part may not be the smallest of all.
            complete &= response.coverage().is_complete();
            if !complete || response.hits().is_empty() {
                return Ok(None);
            }
            Ok(match response.sort_values(0).values.into_iter().next() {
                Some(warpseek::query::SortValue::Value(value)) => Some(value),
                _ => None,
            })
        };
        extremes.push((first(SortKey::ascending(name))?, first(SortKey::descending(name))?));
    }
    Ok((extremes, complete))
}

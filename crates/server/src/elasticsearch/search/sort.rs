//! The order of hits: `sort` and `search_after`.

use std::cmp::Ordering;

use serde_json::{Number, Value};
use warpseek::Request;
use warpseek::query::{Missing, SortBy, SortKey, SortValues};
use warpseek::response::DocId;

use super::Part;
use crate::elasticsearch::mapping::Field;
use crate::error::{Failure, Kind};
use crate::indexes::open_index::View;

/// Name of the last sort key in a point in time.
const TIE_BREAKER: &str = "_shard_doc";

/// The order of hits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    Score,
    Document,
    /// Order by sort keys, optionally continuing after a position.
    Keys(Vec<Key>),
}

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    path: String,
    descending: bool,
    missing: Missing,
    /// True if indexes may lack the field.
    may_be_unmapped: bool,
}

impl Order {
    /// Parses `sort`. If a search continues after some values, or in a point in time, default
    /// orders are expressed as keys too.
    pub(super) fn parse(
        sort: Option<&Value>,
        after: Option<&[Value]>,
        in_pit: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Failure> {
        let mut read = |key: &Value| Key::parse(key, warnings);
        let mut keys = match sort {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(keys)) => keys.iter().map(read).collect::<Result<_, _>>()?,
            Some(Value::String(keys)) => {
                keys.split(',').map(|key| read(&Value::from(key))).collect::<Result<_, _>>()?
            }
            Some(key) => vec![read(key)?],
        };
        if after.is_some() && keys.is_empty() {
            return Err(Failure::illegal(
                "Sort must contain at least one field when using [search_after]; use \"sort\": [\"_score\"] for the default order",
            ));
        }
        if !in_pit && keys.iter().any(|key| key.path == TIE_BREAKER) {
            let reason = format!(
                "Validation Failed: 1: [{TIE_BREAKER}] sort field cannot be used without [point in time];"
            );
            return Err(Failure::new(Kind::Action, reason));
        }
        // In a point in time, no two hits have equal sort values, unless the client omits the
        // last one when it continues.
        let has_last = after.is_none_or(|values| values.len() == keys.len() + 1);
        if in_pit && has_last && keys.last().is_some_and(|last| last.path != TIE_BREAKER) {
            keys.push(Key::tie_breaker());
        }
        let usual = match keys.as_slice() {
            [] => Some(Order::Score),
            [only] if only.is_score() && only.descending => Some(Order::Score),
            [only] if only.is_document() && !only.descending => Some(Order::Document),
            _ => None,
        };
        Ok(usual.filter(|_| after.is_none()).unwrap_or(Order::Keys(keys)))
    }

    /// Returns true if the best hit comes first.
    pub(super) fn is_best_first(&self) -> bool {
        match self {
            Order::Score => true,
            Order::Document => false,
            Order::Keys(keys) => keys.first().is_some_and(|key| key.is_score() && key.descending),
        }
    }

    /// Returns true if hits show their scores.
    pub(super) fn has_scores(&self) -> bool {
        match self {
            Order::Score => true,
            Order::Document => false,
            Order::Keys(keys) => keys.iter().any(Key::is_score),
        }
    }
}

impl Key {
    fn parse(key: &Value, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        let (path, options) = match key {
            Value::String(name) => match name.split_once(':') {
                Some((name, direction)) => (name, Value::from(direction)),
                None => (name.as_str(), Value::Null),
            },
            Value::Object(map) if map.len() == 1 => match map.iter().next() {
                Some((name, options)) => (name.as_str(), options.clone()),
                None => return Err(Failure::parsing("[sort] contains an object without a field")),
            },
            other => {
                return Err(Failure::parsing(format!(
                    "[sort] must be a field, an object or an array of these, found {other}"
                )));
            }
        };
        if let Some(other) =
            options.as_object().into_iter().flatten().map(|(key, _)| key).find(|key| {
                !matches!(
                    key.as_str(),
                    "order" | "missing" | "unmapped_type" | "mode" | "format" | "numeric_type"
                )
            })
        {
            return Err(Failure::unsupported(&format!("{other} of a sort")));
        }
        for ignored in ["format", "numeric_type"] {
            if options.get(ignored).is_some() {
                warnings.push(format!("[{ignored}] of the sort by [{path}] is ignored"));
            }
        }
        if path == "_id" {
            return Err(Failure::illegal(
                "[_id] cannot be sorted by; use [_doc] as the last key, [_shard_doc] with a point in time, or a keyword field that contains the id",
            ));
        }
        let direction = match &options {
            Value::String(direction) => Some(direction),
            options => match options.get("order") {
                None | Some(Value::Null) => None,
                Some(Value::String(direction)) => Some(direction),
                Some(other) => {
                    return Err(Failure::illegal(format!(
                        "[order] of [{path}] must be asc or desc, found {other}"
                    )));
                }
            },
        };
        let descending = match direction {
            None => path == "_score",
            Some(order) if order.eq_ignore_ascii_case("asc") => false,
            Some(order) if order.eq_ignore_ascii_case("desc") => true,
            Some(other) => {
                return Err(Failure::illegal(format!(
                    "[order] of [{path}] must be asc or desc, found [{other}]"
                )));
            }
        };
        let missing = match options.get("missing").map(|missing| missing.as_str().unwrap_or("")) {
            None | Some("_last") => Missing::Last,
            Some("_first") => Missing::First,
            Some(_) => return Err(Failure::unsupported("a value for missing in a sort")),
        };
        // In ascending order, the smallest of several values counts; in descending order, the
        // largest.
        match (options.get("mode").and_then(Value::as_str), descending) {
            (None | Some("min"), false) | (None | Some("max"), true) => {}
            (Some(mode), _) => return Err(Failure::unsupported(&format!("mode {mode} of a sort"))),
        }
        let may_be_unmapped = options.get("unmapped_type").is_some();
        Ok(Key { path: path.to_owned(), descending, missing, may_be_unmapped })
    }

    /// Returns the key for the number of the document, which is unique among hits.
    fn tie_breaker() -> Self {
        let (path, missing) = (TIE_BREAKER.to_owned(), Missing::Last);
        Key { path, descending: false, missing, may_be_unmapped: false }
    }

    fn is_score(&self) -> bool {
        self.path == "_score"
    }

    fn is_document(&self) -> bool {
        matches!(self.path.as_str(), "_doc" | TIE_BREAKER)
    }

    /// Returns true if the index can be sorted by this key.
    fn is_in(&self, view: &View) -> bool {
        let field = view.mapping.field(&self.path);
        self.is_score() || self.is_document() || matches!(field, Some(Field::Attribute { .. }))
    }

    /// Returns the key for the library, or `None` if the index lacks the field, in which case no
    /// document has a value.
    fn of(&self, view: &View) -> Result<Option<SortKey>, Failure> {
        let path = &self.path;
        let by = match view.mapping.field(path) {
            _ if self.is_score() => SortBy::Score,
            _ if self.is_document() => SortBy::Document,
            Some(Field::Attribute { name, .. }) => SortBy::Attribute(name.clone()),
            Some(Field::Text { .. }) => {
                return Err(Failure::illegal(format!(
                    "field [{path}] is text, which cannot be sorted by; use a keyword field, such as [{path}.keyword]"
                )));
            }
            Some(Field::Stored(why)) => {
                return Err(Failure::illegal(format!("field [{path}] cannot be sorted by: {why}")));
            }
            None | Some(Field::Object) if self.may_be_unmapped => return Ok(None),
            None | Some(Field::Object) => {
                return Err(Failure::illegal(format!(
                    "No mapping found for [{path}] in order to sort on"
                )));
            }
        };
        Ok(Some(SortKey { by, descending: self.descending, missing: self.missing }))
    }
}

/// Returns true if an index has the fields of all keys. Otherwise, its engine cannot locate a
/// position in their order.
pub(super) fn are_in(keys: &[Key], view: &View) -> bool {
    keys.iter().all(|key| key.is_in(view))
}

/// Returns true if the engine has to compare this key. The engine itself orders documents that
/// are equal by all keys by their numbers, which are unique.
fn is_compared(keys: &[Key], at: usize) -> bool {
    let is_first = keys[..at].iter().all(|key| !key.is_document());
    let is_usual = at > 0 && !keys[at].descending && keys[at..].iter().all(Key::is_document);
    !keys[at].is_document() || is_first && !is_usual
}

/// Sets the order of a request and the position to continue after, for which the index must have
/// all fields.
pub(super) fn sorted(
    request: Request,
    keys: &[Key],
    after: Option<&[Value]>,
    view: &View,
) -> Result<Request, Failure> {
    let by_index = keys.iter().map(|key| key.of(view)).collect::<Result<Vec<_>, _>>()?;
    let compared = |at: &usize| is_compared(keys, *at);
    let mut sort: Vec<SortKey> =
        (0..keys.len()).filter(compared).filter_map(|at| by_index[at].clone()).collect();
    if sort.is_empty() {
        // No document has a value for any key, so the order is the default one.
        sort.push(SortKey::document());
    }
    let Some(after) = after else { return Ok(request.sort(sort)) };
    check_length(keys, after)?;
    let (mut values, mut doc) = (Vec::with_capacity(sort.len()), None);
    for (at, (key, value)) in keys.iter().zip(after).enumerate() {
        let mut value = value.clone();
        if key.is_document() {
            // Documents of later indexes have larger numbers than any in this one.
            let number = DocId::try_from(document(key, &value)?).unwrap_or(DocId::MAX);
            doc = doc.or(Some(number));
            value = number.into();
        }
        if compared(&at) {
            values.push(value);
        }
    }
    let place = SortValues { doc, ..view.searcher.sort_values(&sort, &values)? };
    Ok(request.sort(sort).after(place))
}

/// Returns the number of a document across several indexes; its own index is the `part`th.
pub(super) fn number(part: usize, doc: DocId) -> u64 {
    ((part as u64) << 32) | u64::from(doc)
}

/// Reads the number of the document to continue after.
fn document(key: &Key, value: &Value) -> Result<u64, Failure> {
    let wrong = || {
        let path = &key.path;
        Failure::illegal(format!(
            "Failed to parse search_after value for field [{path}]: {value} is not a document number; use the value from [sort] of a hit"
        ))
    };
    value.as_u64().ok_or_else(wrong)
}

/// Returns the sort values of a hit for `sort`: those of the library, and null for fields that
/// the index lacks.
pub(super) fn values(keys: &[Key], hit: (usize, usize), part: &Part) -> Vec<Value> {
    let mut found = part.response.sort_values(hit.1).to_json().into_iter();
    let value = |(at, key): (usize, &Key)| {
        let is_there = is_compared(keys, at) && key.is_in(&part.view);
        let value = if is_there { found.next() } else { None };
        match key.is_document() {
            true => number(hit.0, part.response.hits()[hit.1].doc).into(),
            false => value.unwrap_or_default(),
        }
    };
    keys.iter().enumerate().map(value).collect()
}

/// Merges the hits of several indexes into one order, and removes those up to the position to
/// continue after.
pub(super) fn merge(
    hits: &mut Vec<(usize, usize)>,
    keys: &[Key],
    after: Option<&[Value]>,
    parts: &[Part],
) -> Result<(), Failure> {
    let mut placed: Vec<(Vec<Value>, (usize, usize))> =
        hits.iter().map(|&hit| (values(keys, hit, &parts[hit.0]), hit)).collect();
    // The sort is stable, so ties stay in the order of indexes and documents.
    placed.sort_by(|(a, _), (b, _)| compare(keys, a, b));
    if let Some(after) = after {
        let after = as_shown(keys, after, parts)?;
        placed.retain(|(values, _)| compare(keys, values, &after) == Ordering::Greater);
    }
    *hits = placed.into_iter().map(|(_, hit)| hit).collect();
    Ok(())
}

/// Converts the position to continue after to the form in which hits show values; a date may be
/// given as text.
fn as_shown(keys: &[Key], after: &[Value], parts: &[Part]) -> Result<Vec<Value>, Failure> {
    check_length(keys, after)?;
    let shown = |(key, value): (&Key, &Value)| {
        if key.is_document() {
            return document(key, value).map(Value::from);
        }
        let view = parts.iter().map(|part| &part.view).find(|view| key.is_in(view));
        let Some(view) = view else { return Ok(value.clone()) };
        let Some(sort_key) = key.of(view)? else { return Ok(value.clone()) };
        let read = view.searcher.sort_values(&[sort_key], std::slice::from_ref(value))?;
        Ok(read.to_json().into_iter().next().unwrap_or_default())
    };
    keys.iter().zip(after).map(shown).collect()
}

/// Compares the sort values of two hits, which may be in different indexes.
fn compare(keys: &[Key], a: &[Value], b: &[Value]) -> Ordering {
    let one = |(key, (a, b)): (&Key, (&Value, &Value))| {
        let missing = match key.missing {
            Missing::First => Ordering::Less,
            Missing::Last => Ordering::Greater,
        };
        let order = match (a, b) {
            (Value::Null, Value::Null) => return Ordering::Equal,
            (Value::Null, _) => return missing,
            (_, Value::Null) => return missing.reverse(),
            // Approximate values are compared first, regardless of the types, so that the order
            // is total.
            (Value::Number(a), Value::Number(b)) => {
                let about = |number: &Number| number.as_f64().unwrap_or(0.0) + 0.0;
                about(a).total_cmp(&about(b)).then(a.as_i64().cmp(&b.as_i64()))
            }
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            // If indexes disagree on the type of a field, numbers come before booleans, and these
            // before texts.
            (a, b) => rank(a).cmp(&rank(b)),
        };
        if key.descending { order.reverse() } else { order }
    };
    let mut orders = keys.iter().zip(a.iter().zip(b)).map(one);
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::Bool(_) => 1,
        _ => 2,
    }
}

fn check_length(keys: &[Key], after: &[Value]) -> Result<(), Failure> {
    match after.len() == keys.len() {
        true => Ok(()),
        false => Err(Failure::illegal(format!(
            "search_after has {} value(s) but sort has {}.",
            after.len(),
            keys.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(sort: Value) -> Result<Order, Failure> {
        Order::parse(Some(&sort), None, false, &mut Vec::new())
    }

    #[test]
    fn usual_orders_have_no_keys() {
        assert_eq!(Order::parse(None, None, false, &mut Vec::new()).unwrap(), Order::Score);
        for score in [json!("_score"), json!(["_score"]), json!({"_score": "desc"})] {
            assert_eq!(parse(score).unwrap(), Order::Score);
        }
        for document in [json!("_doc"), json!("_doc:asc"), json!([{"_doc": "asc"}])] {
            assert_eq!(parse(document).unwrap(), Order::Document);
        }
        let after = |values: &[Value]| {
            Order::parse(Some(&json!("_score")), Some(values), false, &mut Vec::new())
        };
        assert!(matches!(after(&[json!(1)]), Ok(Order::Keys(_))));
        assert!(Order::parse(None, Some(&[json!(1)]), false, &mut Vec::new()).is_err());
    }

    #[test]
    fn at_a_point_in_time_the_number_of_the_document_is_the_last_key() {
        let paths = |sort: Value, after: Option<&[Value]>| match Order::parse(
            Some(&sort),
            after,
            true,
            &mut Vec::new(),
        )
        .unwrap()
        {
            Order::Keys(keys) => keys.into_iter().map(|key| key.path).collect(),
            order => vec![format!("{order:?}")],
        };
        let after = [json!(1), json!(2)];
        for (sort, after, wanted) in [
            (json!("_score"), None, vec!["_score", "_shard_doc"]),
            (json!(["_score", "_shard_doc"]), None, vec!["_score", "_shard_doc"]),
            (json!(["_score", "_doc"]), None, vec!["_score", "_doc", "_shard_doc"]),
            (json!(["year", "_score"]), None, vec!["year", "_score", "_shard_doc"]),
            (json!({"_shard_doc": "desc"}), None, vec!["_shard_doc"]),
            (json!("_shard_doc"), None, vec!["Document"]),
            (json!([]), None, vec!["Score"]),
            (json!("year"), Some(&after[..]), vec!["year", "_shard_doc"]),
            // As in Elasticsearch, a client may omit the value of the tie breaker.
            (json!("year"), Some(&after[..1]), vec!["year"]),
            (json!(["year", "_shard_doc"]), Some(&after[..]), vec!["year", "_shard_doc"]),
        ] {
            assert_eq!(paths(sort.clone(), after), wanted, "{sort}");
        }
        let failure = parse(json!(["year", "_shard_doc"])).unwrap_err();
        assert!(failure.reason.contains("without [point in time]"), "{}", failure.reason);
    }

    #[test]
    fn keys_that_decide_nothing_are_not_compared() {
        for (sort, wanted) in [
            (json!(["_score", "_doc"]), vec![true, false]),
            (json!(["_doc", "year"]), vec![true, true]),
            (json!(["year", {"_doc": "desc"}, "_doc"]), vec![true, true, false]),
            (json!(["year", "_doc", "n"]), vec![true, true, true]),
            (json!([{"_doc": "desc"}, "year"]), vec![true, true]),
            (json!(["year", "_doc", "_doc"]), vec![true, false, false]),
        ] {
            let Order::Keys(keys) = parse(sort.clone()).unwrap() else { panic!("no keys") };
            let compared: Vec<bool> = (0..keys.len()).map(|at| is_compared(&keys, at)).collect();
            assert_eq!(compared, wanted, "{sort}");
        }
    }

    #[test]
    fn keys_have_their_options() {
        let Order::Keys(keys) = parse(json!(["year:DESC", {"name": {"order": "Asc", "missing": "_first", "unmapped_type": "long"}}, "_score"])).unwrap() else {
            panic!("no keys");
        };
        assert_eq!((keys[0].descending, keys[0].missing), (true, Missing::Last));
        assert_eq!((keys[1].descending, keys[1].missing), (false, Missing::First));
        assert!(keys[1].may_be_unmapped && keys[2].descending);
        for wrong in [
            json!("year:up"),
            json!({"year": {"missing": 3}}),
            json!({"year": {"mode": "avg"}}),
            json!({"year": {"nested": {}}}),
            json!({"year": {"order": 1}}),
            json!([{"year": "asc"}, {"_id": "asc"}]),
            json!([1]),
        ] {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
    }
}

//! Entry points for the fuzz targets: the parsers of requests, without a server. Any input gives
//! a result or an error, never a panic.

use axum::body::Bytes;
use serde_json::{Value, json};

use crate::elasticsearch::dsl;
use crate::elasticsearch::mapping::Mapping;
use crate::elasticsearch::routes::{declared, parse_bulk, read_pairs};
use crate::elasticsearch::search::Ask;
use crate::http::call::Call;
use crate::http::params::Params;
use crate::operations::config::Limits;

/// Maximum length of a query's text in bytes.
const MOST_TEXT: usize = 1 << 12;

/// Returns a mapping with fields of all kinds.
fn mapping() -> Option<Mapping> {
    let body = json!({"mappings": {"properties": {
        "t": {"type": "text", "fields": {"keyword": {"type": "keyword"}}},
        "k": {"type": "keyword"}, "n": {"type": "long"}, "f": {"type": "double"}, "b": {"type": "boolean"}, "d": {"type": "date"},
        "o": {"properties": {"t": {"type": "text", "index_options": "docs"}}}, "v": {"type": "dense_vector", "dims": 2},
    }}});
    let (declared, _) = declared(&body).ok()?;
    Mapping::new(declared).ok()
}

/// Parses the same JSON as the body of a search, as a mapping and as a document.
pub fn body(bytes: &[u8]) {
    let Some(mapping) = mapping() else { return };
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    search(value.clone(), &mapping);
    search(json!({"query": value}), &mapping);
    if let Ok((declared, _)) = declared(&value) {
        let _ = Mapping::new(declared);
    }
    if let Value::Object(source) = &value
        && let Ok(grown) = mapping.grown(source)
    {
        let grown = grown.map_or(Ok(mapping), Mapping::new);
        // Every document that may be written can be shown unchanged.
        if let Ok(line) = grown.as_ref().map_err(Clone::clone).and_then(|m| m.line("id", source)) {
            let shown = grown.as_ref().ok().and_then(|m| m.raw_source(line.as_bytes()));
            let shown = shown.and_then(|range| serde_json::from_str::<Value>(&line[range]).ok());
            assert_eq!(
                shown.as_ref(),
                Some(&value),
                "the source differs from the document that was written"
            );
        }
    }
}

fn search(body: Value, mapping: &Mapping) {
    let Ok(ask) = Ask::parse(body, &Params::default(), &Limits::default()) else { return };
    for query in [&ask.query, &ask.post_filter].into_iter().flatten() {
        let _ = dsl::translate(query, mapping, MOST_TEXT, &mut Vec::new());
    }
}

/// Parses the lines of a bulk request and of a multi-search.
pub fn lines(bytes: &[u8]) {
    let _ = parse_bulk(&Call::of(Bytes::copy_from_slice(bytes)), Some("a"));
    let Some(mapping) = mapping() else { return };
    let pairs = read_pairs(bytes, Limits::default().batch);
    for (_, body) in pairs.into_iter().flatten() {
        search(body, &mapping);
    }
}

/// Parses the options of a query string as those of a search.
pub fn options(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let params = Params::parse(Some(text));
    if let (Ok(ask), Some(mapping)) =
        (Ask::parse(Value::Null, &params, &Limits::default()), mapping())
        && let Some(q) = &ask.q
    {
        let field = q.field.as_deref();
        let _ = dsl::translate_q(&q.text, field, q.operator, &mapping, MOST_TEXT, &mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    /// Valid requests, which the test corrupts.
    const RIGHT: [&str; 12] = [
        r#"{"query": {"bool": {"must": [{"match": {"t": "a b"}}], "filter": {"range": {"n": {"gte": 1, "lt": 1e30}}}, "must_not": {"term": {"k": "x"}}, "minimum_should_match": "2<75%"}}, "size": 3, "from": 1}"#,
        r#"{"query": {"multi_match": {"query": "a", "fields": ["t^2", "o.*"], "type": "best_fields", "tie_breaker": 0.5}}, "highlight": {"fields": {"*": {"number_of_fragments": 0}}}}"#,
        r#"{"query": {"query_string": {"query": "t:(a OR -b) AND n:[1 TO *} \"c d\"~2^3 _exists_:k", "default_operator": "AND"}}}"#,
        r#"{"query": {"simple_query_string": {"query": "+a -b | (c \"d\")", "fields": ["t"]}}, "sort": [{"n": {"order": "desc", "missing": "_first"}}, "_score"], "search_after": [1, 2.5]}"#,
        r#"{"query": {"boosting": {"positive": {"match_all": {}}, "negative": {"ids": {"values": [1, "a"]}}, "negative_boost": 0.2}}}"#,
        r#"{"query": {"dis_max": {"queries": [{"constant_score": {"filter": {"exists": {"field": "d"}}}}, {"prefix": {"k": "p"}}]}}, "aggs": {"a": {"terms": {"field": "k", "size": 3, "order": {"_key": "asc"}}}}}"#,
        r#"{"query": {"match_phrase": {"t": {"query": "a b", "slop": 1}}}, "_source": {"includes": ["t*"], "excludes": "o"}, "track_total_hits": 7, "timeout": "5ms"}"#,
        r#"{"t": "text", "n": "7", "f": 1.5, "b": "true", "d": "2020-02-30", "o": {"t": ["a", 1]}, "new": {"x": [{"y": null}]}}"#,
        r#"{"mappings": {"dynamic_templates": [{"x": {"match": "*_t", "mapping": {"type": "text"}}}], "properties": {"a.b": {"type": "text", "analyzer": "my"}}}, "settings": {"analysis": {"analyzer": {"my": {"type": "custom", "tokenizer": "standard", "filter": ["lowercase"]}}}}}"#,
        "{\"index\": {\"_id\": 1, \"routing\": \"r\"}}\n{\"t\": \"a\"}\n{\"delete\": {\"_id\": \"2\"}}\n{\"update\": {\"_id\": \"3\"}}\n{\"doc\": {}}\n",
        "{\"index\": \"a\"}\n{\"query\": {\"match\": {\"t\": \"a\"}}}\n\n{\"size\": 0}\n",
        "q=t:a+%22b%22&df=t&default_operator=and&size=3&sort=n:desc,_score&_source=t&timeout=1d",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn requests_that_are_nearly_right_are_an_error_at_most(
            right in select(&RIGHT[..]),
            changes in proptest::collection::vec((any::<Index>(), select(&b"{}[]\",:\\0179eE-.+*() \n\xff\0~^%&="[..]), 0..3u8), 0..6),
        ) {
            let mut bytes = right.as_bytes().to_vec();
            for (at, byte, how) in changes {
                let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
                match how {
                    0 if !bytes.is_empty() => bytes[at] = byte,
                    1 if !bytes.is_empty() => {
                        bytes.remove(at);
                    }
                    _ => bytes.insert(at, byte),
                }
            }
            body(&bytes);
            lines(&bytes);
            options(&bytes);
        }
    }

    #[test]
    fn what_is_right_is_taken() {
        let mapping = mapping().unwrap();
        for right in &RIGHT[..7] {
            let ask = Ask::parse(
                serde_json::from_str(right).unwrap(),
                &Params::default(),
                &Limits::default(),
            )
            .unwrap();
            dsl::translate(&ask.query.unwrap(), &mapping, MOST_TEXT, &mut Vec::new()).unwrap();
        }
        assert!(parse_bulk(&Call::of(Bytes::from(RIGHT[9])), Some("a")).is_ok());
        assert_eq!(read_pairs(RIGHT[10].as_bytes(), 2).unwrap().len(), 2);
        assert!(read_pairs(RIGHT[10].as_bytes(), 1).is_err());
    }

    #[test]
    fn what_is_inside_itself_many_times_is_refused_soon() {
        let deep = |n: usize, open: &str, close: &str| {
            format!("{{\"query\": {}{{\"match_all\": {{}}}}{}}}", open.repeat(n), close.repeat(n))
        };
        for n in [10, 20, 40, 60, 5000] {
            body(deep(n, r#"{"boosting": {"negative": {"match_all": {}}, "negative_boost": 1, "positive": "#, "}}").as_bytes());
            body(deep(n, r#"{"bool": {"must": "#, "}}").as_bytes());
        }
    }
}

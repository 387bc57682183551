//! Aggregations: exact counts of values.

use crate::common::start;
use serde_json::{Value, json};

#[test]
fn values_are_counted_exactly() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    let mappings = json!({"properties": {"tag": {"type": "keyword"}, "year": {"type": "long"}, "price": {"type": "double"}, "open": {"type": "boolean"}, "at": {"type": "date"}, "text": {"type": "text"}}});
    for index in ["a", "b"] {
        server.ok("PUT", &format!("/{index}"), &json!({"mappings": mappings}));
    }
    let documents = [
        (
            "a",
            json!({"tag": ["x", "y"], "year": 2000, "price": 1.5, "open": true, "at": "2020-01-01", "text": "apple"}),
        ),
        ("a", json!({"tag": ["x"], "year": 2001, "price": 2.5, "open": false, "text": "apple"})),
        ("a", json!({"tag": ["x", "x", "z"], "year": 2001, "at": "2021-06-01", "text": "pear"})),
        ("a", json!({"text": "apple"})),
        ("b", json!({"tag": "y", "year": 1990, "price": -4, "text": "apple"})),
    ];
    for (index, document) in &documents {
        server.ok("POST", &format!("/{index}/_doc?refresh"), document);
    }
    let ask = |index: &str, query: Value, agg: Value| {
        let body = json!({"query": query, "size": 0, "aggs": {"x": agg}});
        server.ok("POST", &format!("/{index}/_search"), &body)["aggregations"]["x"].clone()
    };
    let all = || json!({"match_all": {}});
    let apple = || json!({"match": {"text": "apple"}});
    let terms = |buckets: Value, other: u64| json!({"doc_count_error_upper_bound": 0, "sum_other_doc_count": other, "buckets": buckets});
    let bucket = |key: &str, count: u64| json!({"key": key, "doc_count": count});
    for (index, query, agg, wanted) in [
        (
            "a",
            all(),
            json!({"terms": {"field": "tag"}}),
            terms(json!([bucket("x", 3), bucket("y", 1), bucket("z", 1)]), 0),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "tag", "size": 1}}),
            terms(json!([bucket("x", 3)]), 2),
        ),
        (
            "a",
            apple(),
            json!({"terms": {"field": "tag"}}),
            terms(json!([bucket("x", 2), bucket("y", 1)]), 0),
        ),
        (
            "a,b",
            all(),
            json!({"terms": {"field": "tag"}}),
            terms(json!([bucket("x", 3), bucket("y", 2), bucket("z", 1)]), 0),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "tag", "order": {"_key": "desc"}, "size": 2}}),
            terms(json!([bucket("z", 1), bucket("y", 1)]), 3),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "tag", "order": {"_count": "asc"}}}),
            terms(json!([bucket("y", 1), bucket("z", 1), bucket("x", 3)]), 0),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "tag", "order": [{"_count": "ASC"}, {"_key": "desc"}]}}),
            terms(json!([bucket("z", 1), bucket("y", 1), bucket("x", 3)]), 0),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "tag", "min_doc_count": 2}}),
            terms(json!([bucket("x", 3)]), 2),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "year"}}),
            terms(json!([{"key": 2001, "doc_count": 2}, {"key": 2000, "doc_count": 1}]), 0),
        ),
        (
            "a",
            all(),
            json!({"terms": {"field": "open"}}),
            terms(
                json!([{"key": 0, "key_as_string": "false", "doc_count": 1}, {"key": 1, "key_as_string": "true", "doc_count": 1}]),
                0,
            ),
        ),
        ("a", all(), json!({"terms": {"field": "none"}}), terms(json!([]), 0)),
        ("a", all(), json!({"cardinality": {"field": "tag"}}), json!({"value": 3})),
        ("a,b", all(), json!({"cardinality": {"field": "tag"}}), json!({"value": 3})),
        ("a", all(), json!({"value_count": {"field": "tag"}}), json!({"value": 5})),
        ("a", apple(), json!({"value_count": {"field": "year"}}), json!({"value": 2})),
        ("a", all(), json!({"min": {"field": "year"}}), json!({"value": 2000.0})),
        ("a,b", all(), json!({"max": {"field": "price"}}), json!({"value": 2.5})),
        (
            "a,b",
            all(),
            json!({"stats": {"field": "price"}}),
            json!({"count": 3, "min": -4.0, "max": 2.5, "avg": 0.0, "sum": 0.0}),
        ),
        (
            "a",
            json!({"match_none": {}}),
            json!({"stats": {"field": "price"}}),
            json!({"count": 0, "min": null, "max": null, "avg": null, "sum": 0.0}),
        ),
        (
            "a",
            all(),
            json!({"max": {"field": "at"}}),
            json!({"value": 1_622_505_600_000.0, "value_as_string": "2021-06-01T00:00:00.000Z"}),
        ),
        (
            "a,b",
            all(),
            json!({"range": {"field": "year", "ranges": [{"to": 2000}, {"from": 2000, "to": 2001, "key": "k"}, {"from": 2000.5}]}}),
            json!({"buckets": [{"key": "*-2000.0", "to": 2000.0, "doc_count": 1}, {"key": "k", "from": 2000.0, "to": 2001.0, "doc_count": 1}, {"key": "2000.5-*", "from": 2000.5, "doc_count": 2}]}),
        ),
        (
            "a",
            all(),
            json!({"range": {"field": "price", "keyed": true, "ranges": [{"from": 1.5, "to": 2.5}]}}),
            json!({"buckets": {"1.5-2.5": {"from": 1.5, "to": 2.5, "doc_count": 1}}}),
        ),
        (
            "a",
            all(),
            json!({"range": {"field": "price", "keyed": "true", "ranges": [{"from": 1.5, "to": 2.5}]}}),
            json!({"buckets": {"1.5-2.5": {"from": 1.5, "to": 2.5, "doc_count": 1}}}),
        ),
        (
            "a,b",
            all(),
            json!({"composite": {"size": 2, "sources": [{"t": {"terms": {"field": "tag"}}}]}}),
            json!({"after_key": {"t": "y"}, "buckets": [{"key": {"t": "x"}, "doc_count": 3}, {"key": {"t": "y"}, "doc_count": 2}]}),
        ),
        (
            "a,b",
            all(),
            json!({"composite": {"size": 2, "sources": [{"t": {"terms": {"field": "tag"}}}], "after": {"t": "y"}}}),
            json!({"after_key": {"t": "z"}, "buckets": [{"key": {"t": "z"}, "doc_count": 1}]}),
        ),
    ] {
        assert_eq!(ask(index, query, agg.clone()), wanted, "{index} {agg}");
    }
    // All matches are counted, whatever the page.
    let page = json!({"size": 1, "sort": ["year"], "search_after": [2000], "aggs": {"t": {"terms": {"field": "tag"}}}});
    let page = server.ok("POST", "/a/_search", &page);
    assert_eq!(page["aggregations"]["t"]["buckets"][0]["doc_count"], 3, "{page}");
    assert_eq!(page["hits"]["hits"].as_array().unwrap().len(), 1);
    for (agg, wanted) in [
        (json!({"avg": {"field": "year"}}), "avg"),
        (json!({"terms": {"field": "text"}}), "text"),
        (json!({"terms": {"field": "tag", "size": 0}}), "size"),
        (json!({"terms": {"field": "tag", "size": 65_537}}), "size"),
        (json!({"terms": {"field": "tag", "include": "x.*"}}), "include"),
        (json!({"terms": {"field": "tag"}, "aggs": {}}), "inside"),
        (json!({"min": {"field": "tag"}}), "numbers"),
        (json!({"range": {"field": "tag", "ranges": [{"to": 1}]}}), "numbers"),
        (json!({"composite": {"sources": []}}), "source"),
        (
            json!({"composite": {"sources": [{"t": {"terms": {"field": "tag", "order": "up"}}}]}}),
            "order",
        ),
        (
            json!({"composite": {"sources": [{"t": {"terms": {"field": "tag"}}}], "after": {"t": "x", "u": 1}}}),
            "[u]",
        ),
        (
            json!({"composite": {"sources": [{"t": {"terms": {"field": "tag"}}}], "after": "x"}}),
            "after",
        ),
        (json!({"range": {"field": "year", "ranges": [{"form": 1}]}}), "[form]"),
        (json!({"range": {"field": "year", "ranges": [2000]}}), "objects"),
        (json!({"range": {"field": "year", "ranges": [{"to": 1, "key": 5}]}}), "[key]"),
        (json!({"range": {"field": "year", "keyed": "x", "ranges": [{"to": 1}]}}), "keyed"),
        (
            json!({"terms": {"field": "tag", "order": [{"_count": "asc"}, {"bogus": "asc"}]}}),
            "order",
        ),
        (json!({"filter": {"term": {"tag": "x"}}}), "filter"),
    ] {
        let body = json!({"aggs": {"x": agg}});
        let answer = server.ask("POST", "/a/_search", &body);
        assert_eq!(answer.status, 400, "{agg}: {}", answer.text);
        assert!(answer.text.contains(wanted), "{agg}: {}", answer.text);
    }
}

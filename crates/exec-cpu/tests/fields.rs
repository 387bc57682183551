//! Tests of filters and query trees on an index with a schema: filters against a scan of the
//! documents, trees against the reference.
#![allow(clippy::unwrap_used)]

use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};
use warpseek_exec::query::{Filter, Node, Words};
use warpseek_exec::{Engine, ExecError, Planner, Ranking};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::MergeConfig;
use warpseek_index::{FilterCache, Progress, Snapshot, merge};
use warpseek_testkit::conformance::check_trees;
use warpseek_testkit::{Library, Names, Random, answers, external_hits, orders};

fn planner(snapshot: &Arc<Snapshot>) -> Planner {
    Planner::new(snapshot.clone(), Ranking::suited(snapshot.manifest())).unwrap()
}

fn filters() -> Vec<Filter> {
    use Bound::{Excluded, Included, Unbounded};
    let terms = |field: &str, values: &[&str]| Filter::Terms {
        field: field.to_owned(),
        values: values.iter().map(|&value| value.to_owned()).collect(),
    };
    let prefix =
        |field: &str, prefix: &str| Filter::Prefix { field: field.into(), prefix: prefix.into() };
    let range = |field: &str, from: Bound<&str>, to: Bound<&str>| Filter::Range {
        field: field.to_owned(),
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    let mut filters = vec![
        terms("tag", &["a"]),
        terms("tag", &["b c", "é", "a"]),
        terms("tag", &["nosuch"]),
        terms("tag", &[]),
        terms("name", &["n3", "n4", "n29"]),
        terms("year", &["2012"]),
        terms("year", &["2012", "2020", "1"]),
        terms("price", &["0", "2.5", "1e0"]),
        terms("open", &["true"]),
        terms("published", &["1970-03-04", "1971"]),
        prefix("tag", "a"),
        prefix("tag", ""),
        prefix("name", "n1"),
        range("tag", Excluded("a"), Included("b c")),
        range("name", Included("n2"), Excluded("n25")),
        range("year", Included("2015"), Unbounded),
        range("year", Excluded("2012"), Excluded("2014")),
        range("year", Unbounded, Included("2009")),
        range("price", Included("-1.5"), Excluded("3.125")),
        range("price", Unbounded, Unbounded),
        range("open", Included("false"), Excluded("true")),
        range("published", Included("1971-02"), Excluded("1974-01-02T03:04:05Z")),
        Filter::Ids((0..40).map(|i| format!("d{}", i * 5)).collect()),
    ];
    let fields = ["tag", "name", "year", "price", "open", "published", "title", "note"];
    filters.extend(fields.map(|field| Filter::Exists { field: field.to_owned() }));
    filters
}

/// Returns true if a filter admits a document, according to its JSON.
fn admits(filter: &Filter, document: &Value) -> bool {
    let values = |field: &str| match &document[field] {
        Value::Null => Vec::new(),
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    // Numbers, booleans and dates compare by size, strings by their bytes.
    let key = |field: &str, text: &str| -> (f64, String) {
        match field {
            "tag" | "name" => (0.0, text.to_owned()),
            "open" => (f64::from(u8::from(text == "true")), String::new()),
            "published" => (warpseek_text::parse_date(text).unwrap() as f64, String::new()),
            _ => (text.parse().unwrap(), String::new()),
        }
    };
    let keys = |field: &str| -> Vec<(f64, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        values(field).iter().map(|value| key(field, &text(value))).collect()
    };
    match filter {
        Filter::Terms { field, values } => {
            keys(field).iter().any(|own| values.iter().any(|value| key(field, value) == *own))
        }
        Filter::Prefix { field, prefix } => {
            values(field).iter().any(|value| value.as_str().unwrap().starts_with(prefix))
        }
        Filter::Range { field, from, to } => keys(field).iter().any(|own| {
            let from = match from {
                Bound::Included(from) => *own >= key(field, from),
                Bound::Excluded(from) => *own > key(field, from),
                Bound::Unbounded => true,
            };
            let to = match to {
                Bound::Included(to) => *own <= key(field, to),
                Bound::Excluded(to) => *own < key(field, to),
                Bound::Unbounded => true,
            };
            from && to
        }),
        Filter::Exists { field } if matches!(field.as_str(), "title" | "text" | "note") => {
            document[field].as_str().is_some_and(|text| !text.is_empty())
        }
        Filter::Exists { field } => !values(field).is_empty(),
        Filter::Ids(ids) => ids.contains(&document["id"].as_str().unwrap().to_owned()),
    }
}

/// Returns the ids of the documents that a tree matches.
fn matching(snapshot: &Arc<Snapshot>, tree: &Node, cache: &FilterCache) -> Vec<String> {
    let mask = planner(snapshot).matching(tree, cache).unwrap();
    let mut ids = Vec::new();
    for (number, segment) in snapshot.segments().iter().enumerate() {
        let ordinals = segment.documents().ordinals().unwrap();
        for position in mask.segment(number).iter() {
            let ordinal = ordinals.map_or(position, |ordinals| ordinals.get(position));
            ids.push(snapshot.external_id(segment.base() + ordinal).unwrap());
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn filters_admit_what_a_scan_of_the_documents_admits() {
    for (seed, config) in orders().into_iter().enumerate() {
        let mut library = Library::new(seed as u64, 90, config);
        let cache = FilterCache::new(1 << 20);
        for merged in [false, true] {
            let snapshot = library.fixture.snapshot();
            for filter in filters() {
                let mut expected: Vec<String> = (library.live.iter())
                    .filter(|document| admits(&filter, document))
                    .map(|document| document["id"].as_str().unwrap().to_owned())
                    .collect();
                expected.sort_unstable();
                let found = matching(&snapshot, &Node::Filter(filter.clone()), &cache);
                assert_eq!(found, expected, "{filter:?}, merged: {merged}");
            }
            let config = MergeConfig { threads: 1, reorder: false, memory: 64 << 20 };
            merge(&library.fixture.dir(), &config, &Progress::default()).unwrap();
        }
        library.delete(&["d1".to_owned()]);
    }
}

#[test]
fn sets_of_filters_are_kept_for_unchanged_segments() {
    let mut library = Library::new(1, 40, orders()[0].clone());
    let (cache, tree) = (FilterCache::new(1 << 20), Node::Filter(filters()[0].clone()));
    let first = matching(&library.fixture.snapshot(), &tree, &cache);
    let made = cache.usage().misses;
    assert_eq!(made, library.fixture.snapshot().segments().len() as u64);
    // Deletions change the documents, but not the sets.
    library.delete(&first[..1]);
    let second = matching(&library.fixture.snapshot(), &tree, &cache);
    assert_eq!((&second[..], cache.usage().misses), (&first[1..], made));
    library.add(&[json!({"id": "new", "tag": ["a"]})]);
    let third = matching(&library.fixture.snapshot(), &tree, &cache);
    assert_eq!((third.len(), cache.usage().misses), (second.len() + 1, made + 1));
}

fn names() -> Names {
    let text = |field: &str| field.to_owned();
    Names {
        words: (0..42).map(|i| format!("w{i}")).chain(["absent".to_owned()]).collect(),
        ids: (0..320).map(|id| format!("d{id}")).collect(),
        fields: vec![text("title"), text("text"), text("note")],
        filters: filters(),
        phrases: false,
    }
}

#[test]
fn trees_of_fields_and_filters() {
    for (seed, config) in orders().into_iter().enumerate() {
        let library = Library::new(seed as u64 + 10, 130, config);
        let snapshot = library.fixture.snapshot();
        let trees = names().trees(&mut Random::new(seed as u64), 60);
        for algorithm in Algorithm::ALL.map(Some).into_iter().chain([None]) {
            let make = |snapshot: Arc<Snapshot>, _: usize| -> Box<dyn Engine> {
                Box::new(CpuEngine::new(snapshot, algorithm))
            };
            check_trees(&make, &format!("order {seed}"), &snapshot, &trees);
        }
    }
}

#[test]
fn merging_changes_no_hit_of_a_tree() {
    let library = Library::new(20, 100, orders()[0].clone());
    let trees = names().trees(&mut Random::new(3), 80);
    let hits = || {
        let snapshot = library.fixture.snapshot();
        let (planner, cache) = (planner(&snapshot), FilterCache::new(1 << 20));
        let engine = CpuEngine::new(snapshot.clone(), None);
        let hits = trees.iter().map(|search| {
            let filter = search.filter.as_ref();
            let plan = planner.plan_tree(&search.tree, filter, None, search.k, &cache).unwrap();
            let answer = answers(&engine, std::slice::from_ref(&plan), 1).unwrap().remove(0);
            external_hits(&snapshot, &plan, &answer)
        });
        hits.collect::<Vec<_>>()
    };
    let before = hits();
    library.fixture.merge().unwrap();
    assert_eq!(hits(), before);
    assert!(before.iter().filter(|hits| !hits.is_empty()).count() > 20);
}

#[test]
fn what_does_not_fit_the_schema_is_an_error() {
    let library = Library::new(30, 5, orders()[0].clone());
    let snapshot = library.fixture.snapshot();
    let error = |tree: Node| {
        let cache = FilterCache::new(0);
        planner(&snapshot).plan_tree(&tree, None, None, 1, &cache).unwrap_err()
    };
    let terms = |field: &str, value: &str| {
        Node::Filter(Filter::Terms { field: field.into(), values: vec![value.into()] })
    };
    let words = |field: &str| Node::Words(Words::any([field.to_owned()], "x"));
    let message = error(terms("yaer", "1")).to_string();
    assert_eq!(message, "there is no field `yaer`; did you mean `year`?");
    assert!(matches!(error(terms("title", "x")), ExecError::NotAttribute { .. }));
    assert!(matches!(error(terms("year", "x")), ExecError::Value { .. }));
    assert!(matches!(error(words("year")), ExecError::NotText { .. }));
    let prefix = Filter::Prefix { field: "year".into(), prefix: "2".into() };
    assert!(matches!(error(Node::Filter(prefix)), ExecError::Prefix { .. }));
}

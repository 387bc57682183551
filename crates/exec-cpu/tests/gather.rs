//! Tests of orders of hits and facets: against the reference, and against the documents
//! themselves.
#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;
use warpseek_exec::gather::{
    Facet, FacetCounts, Missing, SortBy, SortKey, SortValue, SortValues, value_as_json,
};
use warpseek_exec::query::{Filter, Node};
use warpseek_exec::{
    Answer, Cancel, Context, Engine, ExecError, Mask, Mode, Plan, Planner, Query, Reference,
};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::{DocSet, FilterCache, Snapshot};
use warpseek_testkit::{Library, Names, Random, answers, orders};

const ATTRIBUTES: [&str; 6] = ["tag", "name", "year", "price", "open", "published"];

fn planner(snapshot: &Arc<Snapshot>) -> Planner {
    Planner::suited(snapshot.clone()).unwrap()
}

fn names() -> Names {
    let range = |field: &str, from: &str| Filter::Range {
        field: field.to_owned(),
        from: Bound::Included(from.to_owned()),
        to: Bound::Unbounded,
    };
    Names {
        words: (0..42).map(|i| format!("w{i}")).chain(["absent".to_owned()]).collect(),
        ids: (0..320).map(|id| format!("d{id}")).collect(),
        fields: ["title", "text", "note"].map(str::to_owned).to_vec(),
        filters: vec![range("year", "2015"), range("name", "n2"), range("tag", "b")],
        phrases: false,
    }
}

fn key(random: &mut Random) -> SortKey {
    let by = match random.below(8) {
        0 => SortBy::Score,
        1 => SortBy::Document,
        i => SortBy::Attribute(ATTRIBUTES[i - 2].to_owned()),
    };
    let missing = *random.pick(&[Missing::First, Missing::Last]);
    SortKey { by, descending: random.one_in(2), missing }
}

fn facet(random: &mut Random) -> Facet {
    let number = random.below(ATTRIBUTES.len());
    let field = ATTRIBUTES[number].to_owned();
    if random.one_in(2) {
        return Facet::Values { field, top: *random.pick(&[0, 1, 3, 1000]) };
    }
    let values: [&[&str]; 6] = [
        &["a", "b", "é", ""],
        &["n1", "n2", "n21", "n9"],
        &["2010", "2014", "2015", "2030"],
        &["-5", "0", "2.5", "19.875"],
        &["true", "false"],
        &["1970-01-01", "1973-06-01", "1975"],
    ];
    let bound = |random: &mut Random| {
        let value = (*random.pick(values[number])).to_owned();
        match random.below(3) {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        }
    };
    let ranges = (0..random.below(5)).map(|_| (bound(random), bound(random))).collect();
    Facet::Ranges { field, ranges }
}

/// Creates random plans: trees, and words in each mode with and without a mask.
fn plans(snapshot: &Arc<Snapshot>, random: &mut Random, count: usize) -> Vec<Plan> {
    let (planner, cache) = (planner(snapshot), FilterCache::new(1 << 20));
    let mut plans = Vec::new();
    for search in names().trees(random, count) {
        let filter = search.filter.as_ref();
        plans.push(planner.plan_tree(&search.tree, filter, None, 0, &cache).unwrap());
        let words = (0..1 + random.below(4))
            .map(|_| (random.below(3) as u8, random.pick(&names().words).clone(), 1.0));
        let query = Query::of_fields(words.collect::<Vec<_>>());
        let mode = *random.pick(&[Mode::Or, Mode::And]);
        let mut plan = planner.plan(&query, mode, 0).unwrap();
        if random.one_in(2) {
            let mut set = |documents: u32| {
                let mut set = DocSet::new(documents);
                (0..documents).filter(|_| random.one_in(3)).for_each(|doc| {
                    set.insert(doc);
                });
                set
            };
            let sets = snapshot.segments().iter().map(|segment| set(segment.documents().count()));
            plan.mask = Some(Arc::new(Mask::new(snapshot, sets.collect())));
        }
        plans.push(plan);
    }
    for plan in &mut plans {
        let sort: Vec<SortKey> = (0..random.below(4)).map(|_| key(random)).collect();
        let facets: Vec<Facet> = (0..random.below(3)).map(|_| facet(random)).collect();
        plan.k = *random.pick(&[0, 1, 3, 10, usize::MAX]);
        let mut after = None;
        if random.one_in(2) {
            // After a match, or after all matches with the same values.
            let all = planner.gather(&sort, None, &[Facet::Values { field: "tag".into(), top: 0 }]);
            let all = Plan { k: usize::MAX, gather: all.unwrap().map(Arc::new), ..plan.clone() };
            let all = answers(&Reference::new(snapshot.clone()), &[all], 1).unwrap().remove(0);
            let values = all.gathered.unwrap().values;
            if !values.is_empty() {
                let i = random.below(values.len());
                let doc = (!random.one_in(3)).then_some(all.hits[i].doc);
                after = Some(SortValues { values: values[i].clone(), doc });
            }
        }
        plan.gather = planner.gather(&sort, after.as_ref(), &facets).unwrap().map(Arc::new);
    }
    plans
}

/// Returns an answer without the figures in which engines may differ.
fn results(answer: &Answer) -> Answer {
    Answer { work: None, ..answer.clone() }
}

/// Compares complete answers, and answers that stop after this many checks of the clock.
fn check(snapshot: &Arc<Snapshot>, plans: &[Plan], stops: &[u32]) {
    let mut listed = 0;
    for algorithm in [None, Some(Algorithm::Tree)] {
        let engine = CpuEngine::new(snapshot.clone(), algorithm);
        for plan in plans.iter().filter(|plan| plan.gather.is_some()) {
            let plan = std::slice::from_ref(plan);
            let wanted = answers(&Reference::new(snapshot.clone()), plan, 1).unwrap().remove(0);
            let found = answers(&engine, plan, 2).unwrap().remove(0);
            assert_eq!(results(&found), results(&wanted), "{plan:?}");
            listed += found.hits.len();
            for &checks in stops {
                let context = Context::new(1).cancelled_by(Cancel::after(checks));
                let found = engine.search(&[&plan[0]], &context).remove(0).unwrap();
                let over = Reference::over(snapshot.clone(), found.coverage.clone());
                let wanted = answers(&over, plan, 1).unwrap().remove(0);
                assert_eq!(results(&found), results(&wanted), "after {checks} checks: {plan:?}");
            }
        }
    }
    assert!(listed > plans.len(), "there are hits: {listed}");
}

#[test]
fn random_orders_and_facets_equal_the_reference() {
    for (seed, config) in orders().into_iter().enumerate() {
        let library = Library::new(seed as u64 + 40, 100, config);
        let snapshot = library.fixture.snapshot();
        let plans = plans(&snapshot, &mut Random::new(seed as u64), 30);
        check(&snapshot, &plans, &[0, 1, 2, 5, 12]);
    }
}

#[test]
fn windows_of_documents() {
    // Segments of more than one window.
    let library = Library::new(50, 8300, orders()[1].clone());
    let snapshot = library.fixture.snapshot();
    let planner = planner(&snapshot);
    let query = Query::of_fields([(0, "w0", 1.0), (1, "w1", 1.0), (1, "w30", 2.0)]);
    let facets = ["tag", "published"].map(|field| Facet::Values { field: field.into(), top: 3 });
    let by_name = [SortKey::ascending("name"), SortKey::score()];
    let by_price = [SortKey::descending("price")];
    let plans = [(&by_name[..], usize::MAX), (&by_price[..], 5)].map(|(sort, k)| {
        let gather = planner.gather(sort, None, &facets).unwrap().map(Arc::new);
        Plan { gather, ..planner.plan(&query, Mode::Or, k).unwrap() }
    });
    check(&snapshot, &plans, &[6, 10]);
}

/// Returns the ids of all documents of an index in an order, and the answer with its facets.
fn all(snapshot: &Arc<Snapshot>, sort: &[SortKey], facets: &[Facet]) -> (Vec<String>, Answer) {
    let (planner, cache) = (planner(snapshot), FilterCache::new(0));
    let plan = planner.plan_tree(&Node::All, None, None, usize::MAX, &cache).unwrap();
    let gather = planner.gather(sort, None, facets).unwrap().map(Arc::new);
    let plan = Plan { gather, ..plan };
    let answer = answers(&CpuEngine::new(snapshot.clone(), None), &[plan], 1).unwrap().remove(0);
    let id = |hit: &warpseek_core::Hit| snapshot.external_id(hit.doc).unwrap();
    (answer.hits.iter().map(id).collect(), answer)
}

/// Returns the values of a field of a document.
fn values_of<'a>(document: &'a Value, field: &str) -> Vec<&'a Value> {
    match &document[field] {
        Value::Null => Vec::new(),
        Value::Array(values) => values.iter().collect(),
        value => vec![value],
    }
}

fn cmp(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (a, b) => a.as_f64().unwrap().total_cmp(&b.as_f64().unwrap()),
    }
}

#[test]
fn orders_and_facets_are_those_of_the_documents() {
    for (seed, config) in orders().into_iter().enumerate() {
        let library = Library::new(seed as u64 + 60, 60, config);
        let snapshot = library.fixture.snapshot();
        for field in ATTRIBUTES {
            for (descending, missing) in [(false, Missing::Last), (true, Missing::First)] {
                let key = SortKey { descending, missing, ..SortKey::ascending(field) };
                let facets = [Facet::Values { field: field.to_owned(), top: 1000 }];
                let (found, answer) = all(&snapshot, &[key], &facets);
                let mut documents: Vec<&Value> = library.live.iter().collect();
                documents.sort_by(|a, b| {
                    let value = |document: &Value| {
                        let values = values_of(document, field).into_iter().cloned();
                        match descending {
                            true => values.max_by(cmp),
                            false => values.min_by(cmp),
                        }
                    };
                    match (value(a), value(b)) {
                        (None, None) => Ordering::Equal,
                        (None, _) if missing == Missing::First => Ordering::Less,
                        (None, _) => Ordering::Greater,
                        (_, None) if missing == Missing::First => Ordering::Greater,
                        (_, None) => Ordering::Less,
                        (Some(a), Some(b)) if descending => cmp(&b, &a),
                        (Some(a), Some(b)) => cmp(&a, &b),
                    }
                });
                let id = |document: &&Value| document["id"].as_str().unwrap().to_owned();
                assert_eq!(found, documents.iter().map(id).collect::<Vec<_>>(), "{field}");
                let mut counts: BTreeMap<String, u64> = BTreeMap::new();
                let mut without = 0;
                for document in &library.live {
                    let mut values: Vec<String> =
                        values_of(document, field).iter().map(ToString::to_string).collect();
                    values.sort_unstable();
                    values.dedup();
                    without += u64::from(values.is_empty());
                    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
                }
                let facets = &answer.gathered.unwrap().facets;
                let [FacetCounts::Values { values, other: 0, distinct, missing }] = &facets[..]
                else {
                    panic!("{facets:?}")
                };
                assert_eq!((*distinct, *missing), (counts.len() as u64, without), "{field}");
                assert!(values.is_sorted_by(|a, b| a.1 >= b.1));
                let found =
                    values.iter().map(|(value, count)| (value_as_json(value).to_string(), *count));
                assert_eq!(found.collect::<BTreeMap<_, _>>(), counts, "{field}");
            }
        }
        let (ids, _) = all(&snapshot, &[SortKey::document()], &[]);
        let live = library.live.iter().map(|document| document["id"].as_str().unwrap());
        assert_eq!(ids, live.collect::<Vec<_>>());
    }
}

#[test]
fn pages_make_up_the_whole() {
    let library = Library::new(80, 70, orders()[0].clone());
    let snapshot = library.fixture.snapshot();
    let (planner, cache) = (planner(&snapshot), FilterCache::new(0));
    let engine = CpuEngine::new(snapshot.clone(), None);
    let tree = Node::Words(warpseek_exec::query::Words::any([], "w0 w1 w7"));
    let plan = |k| planner.plan_tree(&tree, None, None, k, &cache).unwrap();
    let answer = |plan: &Plan| answers(&engine, std::slice::from_ref(plan), 1).unwrap().remove(0);
    let mut random = Random::new(3);
    for round in 0..12 {
        let sort: Vec<SortKey> = (0..round % 4).map(|_| key(&mut random)).collect();
        let whole = planner.gather(&sort, None, &[]).unwrap().map(Arc::new);
        // Without keys, hits are in the usual order, which comes from an engine without sort
        // values.
        assert_eq!(whole.is_none(), sort.is_empty() || sort == [SortKey::score()]);
        let whole = answer(&Plan { gather: whole, ..plan(usize::MAX) });
        let (mut hits, mut after) = (Vec::new(), None);
        loop {
            let gather = planner.gather(&sort, after.as_ref(), &[]).unwrap().map(Arc::new);
            let plan = Plan { gather, ..plan(1 + random.below(20)) };
            let page = answer(&plan);
            let Some(last) = page.hits.last() else { break };
            let values = match &page.gathered {
                Some(gathered) => gathered.values.last().unwrap().clone(),
                None => vec![SortValue::Score(plan.real(last.score))],
            };
            let place = SortValues { values, doc: Some(last.doc) };
            // The values survive a round trip through JSON.
            let json = serde_json::to_string(&place.to_json()).unwrap();
            let json: Vec<Value> = serde_json::from_str(&json).unwrap();
            assert_eq!(planner.sort_values(&sort, &json).unwrap(), place);
            after = Some(place);
            hits.extend(page.hits);
        }
        assert_eq!(hits, whole.hits, "{sort:?}");
        assert!(hits.len() > 50);
    }
}

#[test]
fn other_algorithms_refuse() {
    let library = Library::new(90, 5, orders()[0].clone());
    let snapshot = library.fixture.snapshot();
    let gather = planner(&snapshot).gather(&[SortKey::ascending("year")], None, &[]).unwrap();
    let plan = planner(&snapshot).plan(&Query::of([("w0", 1.0)]), Mode::Or, 1).unwrap();
    let plan = Plan { gather: gather.map(Arc::new), ..plan };
    let engine = CpuEngine::new(snapshot, Some(Algorithm::Wand));
    let error = engine.search(&[&plan], Context::single()).remove(0).unwrap_err();
    assert!(matches!(error, ExecError::Unsupported { engine: "wand", .. }), "{error}");
}

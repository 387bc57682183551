//! Aggregations and sorted pages, compared with the model.

use std::cmp::Ordering;

use serde_json::{Value, json};

use crate::clause::Clause;
use crate::documents::{Doc, Kind, kind, one_in, pick};
use crate::model::World;
use crate::searches::{self, Checked, Client, Failure, Hit, INDEX, hits, ids};
use crate::support::kill::Random;

const FIELDS: [&str; 8] =
    ["tag", "code", "label.keyword", "year", "price", "day", "meta.level", "flag"];
const NUMBERS: [&str; 4] = ["year", "price", "day", "meta.level"];

/// A value of a document, in the order of its kind.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum One {
    Number(f64),
    Text(String),
}

impl One {
    fn order(&self, other: &Self) -> Ordering {
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }

    fn is(&self, shown: &Value) -> bool {
        match self {
            One::Number(number) => shown.as_f64() == Some(*number),
            One::Text(text) => shown == text,
        }
    }
}

fn values(doc: &Doc, field: &str) -> Vec<One> {
    let texts = doc.keywords.get(field).into_iter().flatten().cloned().map(One::Text);
    texts.chain(doc.numbers.get(field).copied().map(One::Number)).collect()
}

/// Returns the values of a field in the matching documents, in order, with the number of
/// documents that have each.
fn counted(docs: &[&Doc], field: &str) -> Vec<(One, u64)> {
    let mut all: Vec<One> = docs.iter().flat_map(|doc| values(doc, field)).collect();
    all.sort_by(One::order);
    let same = all.chunk_by(|a, b| a == b);
    same.map(|same| (same[0].clone(), same.len() as u64)).collect()
}

/// Compares one aggregation of each of several types over the matches of a query.
pub(crate) fn aggregate(
    client: &mut Client,
    world: &World,
    clause: &Clause,
    random: &mut Random,
) -> Checked {
    let docs: Vec<&Doc> = world.matches(clause).into_keys().map(|id| &world.docs[id]).collect();
    let field = pick(random, &FIELDS);
    let number = pick(random, &NUMBERS);
    let order = pick(random, &["", "_count asc", "_key asc", "_key desc"]);
    let size = 1 + random.below(12);
    let mut terms = json!({"field": field, "size": size});
    if let Some((by, direction)) = order.split_once(' ') {
        terms["order"] = json!({by: direction});
    }
    let ranged = pick(random, &["year", "price", "meta.level"]);
    let low = random.below(10) as f64 - 4.0 + if ranged == "year" { 1995.0 } else { 0.0 };
    let high = low + 1.0 + random.below(6) as f64 / 2.0;
    let body = json!({"query": clause.json(), "size": 0, "track_total_hits": true, "aggs": {
        "terms": {"terms": terms},
        "cardinality": {"cardinality": {"field": field}},
        "value_count": {"value_count": {"field": field}},
        "min": {"min": {"field": number}},
        "max": {"max": {"field": number}},
        "stats": {"stats": {"field": number}},
        "range": {"range": {"field": ranged, "ranges": [{"to": low}, {"from": low, "to": high}, {"from": high}]}},
        "composite": {"composite": {"size": size, "sources": [{"of": {"terms": {"field": field}}}]}},
    }});
    let answer = client.search(&body)?;
    let all = &answer["aggregations"];
    client.same(
        "total beside aggregations",
        &json!(docs.len()),
        &answer["hits"]["total"]["value"],
    )?;

    let by_key = counted(&docs, field);
    let total: u64 = by_key.iter().map(|(_, count)| count).sum();
    let mut ordered = by_key.clone();
    match order {
        "" => ordered.sort_by_key(|(_, count)| std::cmp::Reverse(*count)),
        "_count asc" => ordered.sort_by_key(|(_, count)| *count),
        "_key desc" => ordered.reverse(),
        _ => {}
    }
    ordered.truncate(size as usize);
    buckets(client, "terms", field, &ordered, &all["terms"], |bucket| bucket["key"].clone())?;
    let shown: u64 = ordered.iter().map(|(_, count)| count).sum();
    client.same(
        "sum_other_doc_count",
        &json!(total - shown),
        &all["terms"]["sum_other_doc_count"],
    )?;
    client.same("cardinality", &json!(by_key.len()), &all["cardinality"]["value"])?;
    client.same("value_count", &json!(total), &all["value_count"]["value"])?;
    let mut page = by_key;
    page.truncate(size as usize);
    // Keys of booleans are booleans in some types and numbers in `terms`.
    let key = |bucket: &Value| match &bucket["key"]["of"] {
        Value::Bool(truth) => json!(f64::from(*truth)),
        key => key.clone(),
    };
    buckets(client, "composite", field, &page, &all["composite"], key)?;

    let numbers: Vec<f64> =
        docs.iter().filter_map(|doc| doc.numbers.get(number).copied()).collect();
    let (min, max) =
        (numbers.iter().copied().reduce(f64::min), numbers.iter().copied().reduce(f64::max));
    client.same("min", &min, &all["min"]["value"].as_f64())?;
    client.same("max", &max, &all["max"]["value"].as_f64())?;
    let (stats, sum) = (&all["stats"], numbers.iter().sum::<f64>() + 0.0);
    client.same("count of stats", &json!(numbers.len()), &stats["count"])?;
    client.same("min of stats", &min, &stats["min"].as_f64())?;
    client.same("max of stats", &max, &stats["max"].as_f64())?;
    // The sum of no values is 0.0, not -0.0.
    client.same(
        "sum of stats",
        &format!("{sum:?}"),
        &format!("{:?}", stats["sum"].as_f64().unwrap_or(f64::NAN)),
    )?;
    let mean = (!numbers.is_empty()).then(|| sum / numbers.len() as f64);
    client.same("avg of stats", &mean, &stats["avg"].as_f64())?;

    let numbers: Vec<f64> =
        docs.iter().filter_map(|doc| doc.numbers.get(ranged).copied()).collect();
    let within =
        |from: f64, to: f64| numbers.iter().filter(|number| (from..to).contains(*number)).count();
    let want = [within(f64::MIN, low), within(low, high), within(high, f64::MAX)].map(Value::from);
    let got: Vec<Value> = all["range"]["buckets"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|bucket| bucket["doc_count"].clone())
        .collect();
    client.same("range aggregation", &want.to_vec(), &got)
}

/// Checks that the buckets have exactly these values.
fn buckets(
    client: &Client,
    what: &str,
    field: &str,
    want: &[(One, u64)],
    got: &Value,
    key: impl Fn(&Value) -> Value,
) -> Checked {
    let buckets: Vec<&Value> = got["buckets"].as_array().into_iter().flatten().collect();
    let is_same = buckets.len() == want.len()
        && buckets.iter().zip(want).all(|(bucket, (value, count))| {
            value.is(&key(bucket)) && bucket["doc_count"] == json!(count)
        });
    match is_same {
        true => Ok(()),
        false => Err(client.failure(
            &format!("{what} aggregation of {:?}", kind(field)),
            &format!("{want:?}"),
            &got.to_string(),
        )),
    }
}

/// A sort key.
#[derive(Clone, Debug)]
enum Key {
    Score,
    Number,
    Field { name: &'static str, descending: bool, first: bool },
}

/// Fetches all hits page by page, in a random order, as the index was when the search began. With
/// a point in time, `between_pages` writes documents, which the search must not see.
pub(crate) fn sorted(
    client: &mut Client,
    world: &World,
    clause: &Clause,
    random: &mut Random,
    between_pages: impl FnOnce(&mut Client) -> Checked,
) -> Checked {
    let keys = keys(random);
    let frozen = one_in(random, 2);
    let mut sort: Vec<Value> = keys.iter().map(|key| key.json(frozen)).collect();
    let has_number = keys.iter().any(|key| matches!(key, Key::Number));
    // Without a point in time, only the number of the document makes every position unique.
    let mut order = keys.clone();
    if !has_number {
        order.push(Key::Number);
        if !frozen {
            sort.push(json!("_doc"));
        }
    }
    let size = 1 + random.below(world.docs.len() as u64 / 2 + 3);
    let mut body = json!({"query": clause.json(), "size": size, "sort": sort, "_source": false, "track_total_hits": true});
    let mut path = format!("/{INDEX}/_search");
    let mut numbers = searches::order(client)?;
    if frozen {
        let opened = client.ok("POST", &format!("/{INDEX}/_pit?keep_alive=5m"), &Value::Null)?;
        body["pit"] = json!({"id": opened["id"], "keep_alive": "5m"});
        path = "/_search".into();
        numbers = searches::frozen_order(client, &opened["id"])?;
        between_pages(client)?;
    }
    let want = world.matches(clause);
    let mut found: Vec<Hit> = Vec::new();
    loop {
        let answer = client.ok("POST", &path, &body)?;
        client.same("total of a page", &json!(want.len()), &answer["hits"]["total"]["value"])?;
        let page = hits(&answer);
        let last = page.len() < size as usize;
        found.extend(page);
        if last || found.len() > want.len() {
            break;
        }
        let Some(after) = found.last().filter(|hit| hit.sort.len() == order.len()) else {
            let got = found.last().map_or(0, |hit| hit.sort.len());
            return Err(client.failure(
                "values of sort",
                &order.len().to_string(),
                &got.to_string(),
            ));
        };
        body["search_after"] = json!(after.sort);
    }
    ids(client, &want.keys().copied().collect(), &found)
        .map_err(|failure| named(failure, "pages"))?;
    // A merge in the background may have changed the order of documents.
    if !frozen && searches::order(client)? != numbers {
        return Ok(());
    }
    let reach = world.reach(clause);
    for pair in found.windows(2) {
        let [a, b] = [&pair[0], &pair[1]];
        let mut compared = order.iter().map(|key| match key {
            Key::Score => {
                let (a, b) = (want[a.id.as_str()], want[b.id.as_str()]);
                let near = a != b && (a - b).abs() <= reach.of(a) + reach.of(b);
                // Scores with such a small difference may be in any order.
                if near { Ordering::Less } else { b.total_cmp(&a) }
            }
            Key::Number => numbers[&a.id].cmp(&numbers[&b.id]),
            Key::Field { name, descending, first } => {
                compare(&world.docs[&a.id], &world.docs[&b.id], name, *descending, *first)
            }
        });
        if compared.find(|order| order.is_ne()) == Some(Ordering::Greater) {
            let shown = format!("{} {:?} before {} {:?}", a.id, a.sort, b.id, b.sort);
            return Err(client.failure("order of sorted hits", &format!("{keys:?}"), &shown));
        }
    }
    if frozen {
        client.ok("DELETE", "/_pit", &json!({"id": body["pit"]["id"]}))?;
    }
    Ok(())
}

fn named(failure: Failure, of: &str) -> Failure {
    Failure { what: format!("{of}: {}", failure.what), ..failure }
}

fn keys(random: &mut Random) -> Vec<Key> {
    let mut keys = Vec::new();
    for _ in 0..1 + random.below(3) {
        let key = match random.below(6) {
            0 => Key::Score,
            1 => Key::Number,
            _ => Key::Field {
                name: pick(random, &FIELDS),
                descending: one_in(random, 2),
                first: one_in(random, 3),
            },
        };
        let is_last = matches!(key, Key::Number);
        keys.push(key);
        if is_last {
            break;
        }
    }
    keys
}

impl Key {
    fn json(&self, frozen: bool) -> Value {
        match self {
            Key::Score => json!("_score"),
            Key::Number if frozen => json!("_shard_doc"),
            Key::Number => json!("_doc"),
            Key::Field { name, descending, first } => {
                let order = if *descending { "desc" } else { "asc" };
                match *first {
                    true => json!({*name: {"order": order, "missing": "_first"}}),
                    false => json!({*name: order}),
                }
            }
        }
    }
}

/// Compares by the smallest of several values in ascending order and by the largest in descending
/// order. Documents without a value go to the requested end.
fn compare(a: &Doc, b: &Doc, field: &str, descending: bool, first: bool) -> Ordering {
    let one = |doc: &Doc| {
        let mut values = values(doc, field);
        values.sort_by(One::order);
        if descending { values.pop() } else { values.into_iter().next() }
    };
    debug_assert!(kind(field) != Kind::Text);
    match (one(a), one(b)) {
        (None, None) => Ordering::Equal,
        (None, _) => {
            if first {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (_, None) => {
            if first {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (Some(a), Some(b)) => {
            if descending {
                b.order(&a)
            } else {
                a.order(&b)
            }
        }
    }
}

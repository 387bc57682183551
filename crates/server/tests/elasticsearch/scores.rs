//! Scores: explanations that add up, and the effects of boosts, tie breakers and `min_score`.

use crate::common::{Running, start};
use serde_json::{Value, json};

/// A deterministic pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    fn words(&mut self, most: usize) -> String {
        let words = 1 + self.below(most);
        let words: Vec<&str> = (0..words).map(|_| *self.pick(&WORDS)).collect();
        words.join(" ")
    }

    fn queries(&mut self, depth: usize, most: usize) -> Vec<Value> {
        (0..self.below(most + 1)).map(|_| self.query(depth)).collect()
    }

    /// Returns a random query of nested clauses.
    fn query(&mut self, depth: usize) -> Value {
        let boost = *self.pick(&[1.0, 1.0, 0.5, 3.0]);
        if depth == 0 {
            return self.clause(boost);
        }
        let depth = depth - 1;
        match self.below(8) {
            0 => {
                let mut queries = self.queries(depth, 3);
                queries.push(self.query(depth));
                json!({"dis_max": {"queries": queries, "tie_breaker": self.pick(&[0.0, 0.3, 1.0]), "boost": boost}})
            }
            1 => json!({"constant_score": {"filter": self.query(depth), "boost": boost}}),
            2 => {
                json!({"boosting": {"positive": self.query(depth), "negative": self.query(depth), "negative_boost": self.pick(&[0.0, 0.5])}})
            }
            3 => self.clause(boost),
            _ => json!({"bool": {
                "must": self.queries(depth, 2), "should": self.queries(depth, 4), "must_not": self.queries(0, 1), "filter": self.queries(0, 1),
                "minimum_should_match": self.pick(&["0", "1", "-1", "50%"]), "boost": boost,
            }}),
        }
    }

    fn clause(&mut self, boost: f64) -> Value {
        let field = *self.pick(&["title", "text"]);
        let text = self.words(3);
        match self.below(13) {
            0 => json!({"match_all": {"boost": boost}}),
            1 => {
                json!({"match": {field: {"query": text, "operator": self.pick(&["or", "and"]), "boost": boost}}})
            }
            2 => {
                json!({"match": {field: {"query": text, "minimum_should_match": "2", "boost": boost}}})
            }
            3 | 4 => {
                json!({"match_phrase": {field: {"query": text, "slop": self.below(3), "boost": boost}}})
            }
            5 | 6 => {
                let kind = self.pick(&["best_fields", "most_fields", "cross_fields", "phrase"]);
                json!({"multi_match": {"query": text, "fields": ["title^2", "text", "tag"], "type": kind, "tie_breaker": self.pick(&[0.0, 0.3, 1.0]), "boost": boost}})
            }
            7 => json!({"term": {"tag": {"value": self.pick(&WORDS), "boost": boost}}}),
            8 => json!({"range": {"n": {"gte": self.below(30), "boost": boost}}}),
            9 => json!({"exists": {"field": "tag", "boost": boost}}),
            10 => {
                json!({"ids": {"values": [self.below(40).to_string(), "nosuch"], "boost": boost}})
            }
            11 => json!({"terms": {"n": [self.below(30), self.below(30)], "boost": boost}}),
            _ => {
                let (a, b, c) = (self.words(1), self.words(2), self.words(1));
                json!({"query_string": {"query": format!("{a}^2 title:\"{b}\" -{c} tag:{a}^3"), "fields": ["title", "text"], "boost": boost}})
            }
        }
    }
}

const WORDS: [&str; 7] = ["red", "green", "blue", "kettle", "lamp", "chair", "absent"];

fn fill(server: &Running) {
    let mappings = json!({"properties": {"title": {"type": "text"}, "text": {"type": "text"}, "tag": {"type": "keyword"}, "n": {"type": "long"}}});
    server.ok("PUT", "/a", &json!({"mappings": mappings}));
    let (mut random, mut lines) = (Random(7), String::new());
    for id in 0..40 {
        let mut document = json!({"title": random.words(3), "text": random.words(9), "n": id});
        for field in ["title", "text"] {
            document[field] = document[field].as_str().unwrap().replace("absent", "").into();
        }
        if id % 3 > 0 {
            document["tag"] = (*random.pick(&WORDS[..6])).into();
        }
        lines += &format!("{}\n{document}\n", json!({"index": {"_id": id.to_string()}}));
    }
    let done = server.ok("POST", "/a/_bulk?refresh=true", &lines.into());
    assert_eq!(done["errors"], false, "{done}");
}

fn value(part: &Value) -> f64 {
    part["value"].as_f64().unwrap_or_else(|| panic!("no value: {part:#}"))
}

/// Returns true if two numbers are equal in single precision.
fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs())
}

/// Checks a part of an explanation and its parts recursively.
fn check(part: &Value, shown: &Value) {
    let details = part["details"].as_array().unwrap();
    let (sum, most) =
        (details.iter().map(value).sum::<f64>(), details.iter().map(value).fold(0.0, f64::max));
    let description = part["description"].as_str().unwrap();
    let expected = match description {
        "sum of:" => Some(sum),
        "max of:" => Some(most),
        "max plus 0.3 times others of:" => Some(most + 0.3 * (sum - most)),
        "constant score" | "conditions, which add nothing" => {
            assert!(details.is_empty());
            None
        }
        weight => {
            assert!(weight.starts_with("weight("), "{part:#}");
            let [boost, idf, tf] = [0, 1, 2].map(|i| value(&details[i]));
            // Every contribution is rounded up to the next unit, and factors are in single
            // precision.
            let difference = (boost * idf * tf - value(part)).abs();
            assert!(difference < 1e-5 * (10.0 + value(part)), "{part:#} of {shown}");
            return;
        }
    };
    if let Some(expected) = expected {
        // The tie breaker has 16 bits.
        let tolerance = if description.contains("0.3") { 1e-5 * (1.0 + expected) } else { 0.0 };
        let near = is_near(value(part), expected) || (value(part) - expected).abs() < tolerance;
        assert!(near, "{expected}: {part:#} of {shown}");
    }
    details.iter().for_each(|part| check(part, shown));
}

#[test]
fn explanations_add_up_for_every_kind_of_query() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let (mut random, mut checked, mut natives) = (Random(1), 0, 0);
    for number in 0..300 {
        let query = random.query(number % 4);
        let body = json!({"query": query, "explain": true, "size": 50});
        let found = server.ok("POST", "/a/_search", &body);
        for (rank, hit) in found["hits"]["hits"].as_array().unwrap().iter().enumerate() {
            let explanation = &hit["_explanation"];
            assert_eq!(value(explanation), hit["_score"].as_f64().unwrap(), "{query}");
            check(explanation, &query);
            checked += 1;
            if rank == 3 {
                let path = format!("/a/_explain/{}", hit["_id"].as_str().unwrap());
                let same = server.ok("POST", &path, &json!({"query": query}));
                assert!(is_near(value(&same["explanation"]), value(explanation)), "{query}");
                check(&same["explanation"], &query);
            }
            // The native routes return the same scores as exact numbers.
            if rank == 2 {
                let path = format!("/v1/indexes/a/explain/{}", hit["_id"].as_str().unwrap());
                let native = server.ask("POST", &path, &json!({"query": query}));
                // Queries with warnings are errors in the native routes.
                if native.status == 400 {
                    continue;
                }
                let native = native.json();
                natives += 1;
                let made_of = &native["explanation"]["made_of"];
                assert_eq!(made_of["score"], native["score"], "{query}");
                assert_eq!(
                    made_of["description"] == "sum of:",
                    explanation["description"] == "sum of:"
                );
            }
        }
    }
    assert!(checked > 1000 && natives > 20, "{checked} {natives}");
}

#[test]
fn phrases_that_do_not_match_have_no_part_in_a_score() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    server.ok("PUT", "/a/_doc/1", &json!({"t": "red lamp and green chair"}));
    server.ok("PUT", "/a/_doc/2?refresh=true", &json!({"t": "blue"}));
    let query = json!({"bool": {"should": [
        {"match_phrase": {"t": "lamp red"}}, {"match_phrase": {"t": "red lamp"}}, {"match": {"t": "blue"}}, {"match_all": {}},
        {"bool": {"must": [{"match": {"t": "chair"}}, {"match": {"t": "blue"}}]}},
    ]}});
    let explained =
        server.ok("POST", "/a/_explain/1", &json!({"query": query}))["explanation"].clone();
    let details = explained["details"].as_array().unwrap();
    let said: Vec<&str> =
        details.iter().map(|part| part["description"].as_str().unwrap()).collect();
    assert_eq!(said, ["sum of:", "constant score"], "{explained:#}");
    assert_eq!(details[0]["details"].as_array().unwrap().len(), 2);
    check(&explained, &query);
    let nothing = server.ok("POST", "/a/_explain/2", &json!({"query": {"match": {"t": "red"}}}));
    assert_eq!(nothing["matched"], false);
    assert_eq!(nothing["explanation"]["description"], "no matching clause");
}

/// Returns the ids and scores of hits.
fn hits(server: &Running, query: &Value) -> Vec<(String, f64)> {
    let found = server.ok("POST", "/a/_search", &json!({"query": query, "size": 50}));
    let hits = found["hits"]["hits"].as_array().unwrap().iter();
    hits.map(|hit| (hit["_id"].as_str().unwrap().to_owned(), hit["_score"].as_f64().unwrap()))
        .collect()
}

#[test]
fn clauses_that_match_nothing_do_not_coarsen_scores() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let words = json!({"match": {"text": "red lamp"}});
    let alone = hits(&server, &words);
    assert!(alone.windows(2).any(|pair| pair[0].1 > pair[1].1));
    let with = |clause: &Value| json!({"bool": {"should": [words, clause]}});
    for clause in [
        json!({"match": {"text": {"query": "absent", "boost": 1e6}}}),
        json!({"term": {"tag": {"value": "nosuch", "boost": 1e6}}}),
        json!({"ids": {"values": ["nosuch"], "boost": 1e6}}),
        json!({"range": {"n": {"gt": 1000, "boost": 1e6}}}),
        json!({"prefix": {"tag": {"value": "zz", "boost": 1e6}}}),
        json!({"exists": {"field": "nosuch", "boost": 1e6}}),
        json!({"constant_score": {"filter": {"match": {"text": "absent"}}, "boost": 1e6}}),
        json!({"bool": {"must": {"match": {"text": "red"}}, "filter": {"term": {"tag": "nosuch"}}, "boost": 1e6}}),
        json!({"dis_max": {"queries": [{"term": {"n": 1000}}], "boost": 1e6}}),
    ] {
        assert_eq!(hits(&server, &with(&clause)), alone, "{clause}");
    }
    for clause in [
        json!({"match": {"text": {"query": "green", "boost": 1e6}}}),
        json!({"range": {"n": {"gte": 0, "boost": 1e6}}}),
        json!({"match_all": {"boost": 1e-6}}),
    ] {
        let answer = server.ask("POST", "/a/_search", &json!({"query": with(&clause)}));
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.text.contains("32768") && answer.text.contains("boost"), "{}", answer.text);
        let native = server.ask("POST", "/v1/indexes/a/search", &json!({"query": with(&clause)}));
        assert_eq!(native.status, 400, "{}", native.text);
        assert!(native.text.contains("32768"), "{}", native.text);
    }
    // The boost of a part that must match but adds no score has no effect.
    let filtered = json!({"bool": {"must": words, "filter": {"term": {"tag": {"value": "red", "boost": 1e6}}}}});
    assert!(hits(&server, &filtered).iter().all(|hit| alone.contains(hit)));
}

#[test]
fn boosts_count_in_query_strings() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    for (query, wanted) in [
        ("_exists_:tag^2", 2.0),
        ("_exists_:tag", 1.0),
        ("n:[1 TO 3]^2.5", 2.5),
        ("tag:re*^3", 3.0),
        ("tag:*^4", 4.0),
        ("(tag:red OR tag:blue)^2", 2.0),
        ("*^5", 5.0),
    ] {
        let found = hits(&server, &json!({"query_string": {"query": query}}));
        assert!(!found.is_empty(), "{query}");
        assert!(found.iter().all(|hit| hit.1 == wanted), "{query}: {found:?}");
    }
    let phrase = |text: &str| hits(&server, &json!({"query_string": {"query": text}}));
    let (plain, twice) = (phrase("text:\"red lamp\"~9"), phrase("text:\"red lamp\"~9^2"));
    assert!(!plain.is_empty() && plain.len() == twice.len());
    for (plain, twice) in plain.iter().zip(&twice) {
        assert_eq!(plain.0, twice.0);
        assert!(is_near(2.0 * plain.1, twice.1), "{plain:?} {twice:?}");
    }
}

#[test]
fn tie_breakers_of_several_fields() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let found = |query: Value| {
        let mut hits = hits(&server, &query);
        hits.sort_by(|a, b| a.0.cmp(&b.0));
        hits
    };
    let multi = |kind: &str, tie_breaker: Value| {
        found(
            json!({"multi_match": {"query": "red", "fields": ["title", "text"], "type": kind, "tie_breaker": tie_breaker}}),
        )
    };
    let field = |field: &str| found(json!({"match": {field: "red"}}));
    let (title, text) = (field("title"), field("text"));
    let score = |hits: &[(String, f64)], id: &str| {
        hits.iter().find(|hit| hit.0 == id).map_or(0.0, |hit| hit.1)
    };
    for (kind, default) in [("best_fields", 0.0), ("most_fields", 1.0), ("cross_fields", 0.0)] {
        for given in [None, Some(0.0), Some(0.3), Some(1.0)] {
            let tie = given.unwrap_or(default);
            let found = multi(kind, given.map_or(Value::Null, Value::from));
            assert!(
                found.iter().any(|hit| score(&title, &hit.0) > 0.0 && score(&text, &hit.0) > 0.0)
            );
            for (id, shown) in found {
                let (a, b) = (score(&title, &id), score(&text, &id));
                let want = a.max(b) + tie * a.min(b);
                assert!((shown - want).abs() < 1e-4, "{kind} {given:?} {id}: {shown} {want}");
            }
        }
        let wrong = json!({"multi_match": {"query": "red", "fields": ["title", "text"], "type": kind, "tie_breaker": 1.5}});
        let answer = server.ask("POST", "/a/_search", &json!({"query": wrong}));
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.text.contains("tie_breaker"), "{}", answer.text);
    }
}

#[test]
fn a_score_that_was_shown_is_high_enough() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[]);
    fill(&server);
    let query = json!({"match": {"text": "red lamp chair"}});
    let all = hits(&server, &query);
    for (rank, (id, score)) in all.iter().enumerate() {
        let body = json!({"query": query, "min_score": score, "size": 50});
        let found = server.ids("a", &body);
        assert!(found.contains(id), "{id} {score}");
        let fewer = all.iter().filter(|hit| hit.1 >= *score).count();
        assert_eq!(found.len(), fewer, "{rank}");
        let counted =
            server.ok("POST", &format!("/a/_count?min_score={score}"), &json!({"query": query}));
        assert_eq!(counted["count"], fewer);
    }
}

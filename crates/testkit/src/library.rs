//! A random index with fields and attributes, and its live documents.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use warpseek_index::{BuildConfig, Progress, add, create, delete};
use warpseek_text::{Schema, format_date};

use crate::fixture::Fixture;
use crate::random::Random;

/// Three text fields and an attribute of each type.
const SCHEMA: &str = r#"{
    "text": [{"name": "title", "analyzer": "plain", "k1": 1.2, "b": 0.75}, {"name": "text"}, {"name": "note", "analyzer": "raw", "b": 1}],
    "attributes": [{"name": "tag", "type": "keyword", "many": true}, {"name": "name", "type": "keyword"}, {"name": "year", "type": "integer"},
        {"name": "price", "type": "float"}, {"name": "open", "type": "boolean"}, {"name": "published", "type": "date"}]
}"#;

const DAY: i64 = 86_400_000;

fn word(random: &mut Random) -> String {
    // Few words are in many documents, and many words in few.
    let most = *random.pick(&[3, 10, 40]);
    format!("w{}", random.below(most))
}

fn text(random: &mut Random, most: usize) -> String {
    let words: Vec<String> = (0..random.below(most + 1)).map(|_| word(random)).collect();
    words.join(" ")
}

/// Generates a document in which any field may be missing.
fn document(id: usize, random: &mut Random) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    put("id", json!(format!("d{id}")));
    let mut there = || !random.one_in(5);
    let has: Vec<bool> = (0..9).map(|_| there()).collect();
    let mut some = |i: usize, name: &str, value: Value| {
        if has[i] {
            put(name, value);
        }
    };
    some(0, "title", json!(text(random, 3)));
    some(1, "text", json!(text(random, 12)));
    some(2, "note", json!(text(random, 2)));
    let tags: Vec<&str> =
        (0..random.below(4)).map(|_| *random.pick(&["a", "ab", "b c", "é"])).collect();
    some(3, "tag", json!(tags));
    some(4, "name", json!(format!("n{}", random.below(30))));
    some(5, "year", json!(random.below(12) as i64 + 2010));
    some(6, "price", json!(random.below(200) as f64 / 8.0 - 5.0));
    some(7, "open", json!(random.one_in(2)));
    some(8, "published", json!(format_date(random.below(3000) as i64 * DAY)));
    Value::Object(fields)
}

fn id(document: &Value) -> &str {
    document["id"].as_str().unwrap()
}

/// An index with a schema and a history, and its live documents.
pub struct Library {
    /// The index.
    pub fixture: Fixture,
    /// The live documents, in the order in which they were added.
    pub live: Vec<Value>,
}

impl Library {
    /// Builds an index of three segments of about `docs` documents each, some of which are
    /// replaced or deleted.
    pub fn new(seed: u64, docs: usize, config: BuildConfig) -> Self {
        let mut random = Random::new(seed);
        let mut config = config;
        config.reader.schema = Some(Arc::new(Schema::parse(SCHEMA).unwrap()));
        let mut library = Library { fixture: Fixture::empty(config), live: Vec::new() };
        for part in 0..3 {
            let mut new: Vec<Value> =
                (part * docs..(part + 1) * docs).map(|id| document(id, &mut random)).collect();
            if part > 0 {
                // Some documents replace earlier ones.
                new.extend((0..docs / 8).map(|i| document(i * 8, &mut random)));
            }
            library.add(&new);
            let gone: Vec<String> =
                (0..docs / 10).map(|_| format!("d{}", random.below((part + 1) * docs))).collect();
            library.delete(&gone);
        }
        library
    }

    /// Adds documents as a segment.
    pub fn add(&mut self, new: &[Value]) {
        let lines: String = new.iter().map(|document| format!("{document}\n")).collect();
        let input = [self.fixture.input(lines.as_bytes())];
        let (dir, config) = (self.fixture.dir(), self.fixture.config());
        match self.live.is_empty() {
            true => drop(create(&dir, &input, config, false, &Progress::default()).unwrap()),
            false => drop(add(&dir, &input, config, &Progress::default()).unwrap()),
        }
        let ids: HashSet<&str> = new.iter().map(id).collect();
        self.live.retain(|old| !ids.contains(id(old)));
        self.live.extend(new.iter().cloned());
    }

    /// Deletes documents.
    pub fn delete(&mut self, ids: &[String]) {
        delete(&self.fixture.dir(), ids, 1, &Progress::default()).unwrap();
        let ids: HashSet<&str> = ids.iter().map(String::as_str).collect();
        self.live.retain(|old| !ids.contains(id(old)));
    }
}

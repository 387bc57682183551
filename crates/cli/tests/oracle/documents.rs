//! Random documents and their searchable values, by the definitions of
//! docs/reference/elasticsearch.md and independently of the code.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use crate::support::kill::Random;

/// The words of texts; earlier ones are more frequent. Each is a single term, whatever surrounds
/// it.
const WORDS: [&str; 36] = [
    "red", "blue", "apple", "pie", "river", "stone", "Green", "tree", "night", "Étude", "42",
    "light", "moon", "Sun", "garden", "wall", "7", "bread", "salt", "Größe", "wind", "north",
    "south", "glass", "paper", "iron", "gold", "fish", "bird", "horse", "road", "bridge", "tower",
    "1984", "ñandú", "zebra",
];

/// Separators between words.
const BETWEEN: [&str; 9] = [" ", " ", " ", " ", ", ", ". ", " - ", "! ", "/"];

/// Values of keywords; some begin alike, and one is empty.
pub(crate) const KEYWORDS: [&str; 12] =
    ["a", "ab", "abc", "abd", "b", "Ba", "blue", "red sun", "x-1", "x-2", "", "zz"];

/// A word that no document has.
pub(crate) const ABSENT: &str = "quixotic";

/// A text field: its name, k1 and b. Its terms are lower-case words if `is_standard` is set, and
/// otherwise the text between blanks.
pub(crate) struct TextField {
    pub(crate) name: &'static str,
    pub(crate) is_standard: bool,
    pub(crate) k1: f64,
    pub(crate) b: f64,
}

const fn text(name: &'static str, is_standard: bool, k1: f64, b: f64) -> TextField {
    TextField { name, is_standard, k1, b }
}

/// The text fields. The first document with `label` adds that field to the mapping.
pub(crate) const TEXTS: [TextField; 4] = [
    text("title", true, 1.2, 0.75),
    text("body", true, 0.9, 0.4),
    text("note", false, 1.2, 0.75),
    text("label", true, 1.2, 0.75),
];

/// Keyword fields, with the maximum length of a value.
const KEYWORD_FIELDS: [(&str, usize); 3] =
    [("tag", usize::MAX), ("code", 4), ("label.keyword", 256)];

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Text,
    Keyword,
    Integer,
    Float,
    Boolean,
    Date,
}

pub(crate) fn kind(field: &str) -> Kind {
    match field {
        "tag" | "code" | "label.keyword" => Kind::Keyword,
        "year" | "meta.level" => Kind::Integer,
        "price" => Kind::Float,
        "flag" => Kind::Boolean,
        "day" => Kind::Date,
        _ => Kind::Text,
    }
}

/// Returns the body of the request that creates the index.
pub(crate) fn mappings() -> Value {
    json!({
        "settings": {"similarity": {"flat": {"type": "BM25", "k1": 0.9, "b": 0.4}}},
        "mappings": {"properties": {
            "title": {"type": "text"},
            "body": {"type": "text", "similarity": "flat"},
            "note": {"type": "text", "analyzer": "whitespace"},
            "tag": {"type": "keyword"},
            "code": {"type": "keyword", "ignore_above": 4},
            "year": {"type": "long"},
            "price": {"type": "double"},
            "flag": {"type": "boolean"},
            "day": {"type": "date"},
            "meta": {"properties": {"level": {"type": "integer"}}},
        }},
    })
}

pub(crate) fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize]
}

/// Returns true once in this many calls, on average.
pub(crate) fn one_in(random: &mut Random, cases: u64) -> bool {
    random.below(cases) == 0
}

pub(crate) fn word(random: &mut Random) -> &'static str {
    let place = random.unit() * random.unit();
    WORDS[(place * WORDS.len() as f64) as usize]
}

/// Returns this number of words with separators between them.
pub(crate) fn words(random: &mut Random, count: u64) -> String {
    let mut text = String::new();
    for i in 0..count {
        if i > 0 {
            text += pick(random, &BETWEEN);
        }
        text += word(random);
    }
    text
}

fn some_text(random: &mut Random, most: u64) -> Value {
    match random.below(30) {
        0 => json!(""),
        1 => json!("?!"),
        2 => json!([]),
        3 => json!(null),
        4 | 5 => {
            let count = random.below(3) + 1;
            (0..count).map(|_| some_words(random, most)).collect()
        }
        _ => json!(some_words(random, most)),
    }
}

fn some_words(random: &mut Random, most: u64) -> String {
    let count = random.below(most) + 1;
    words(random, count)
}

fn keywords(random: &mut Random) -> Value {
    match random.below(10) {
        0 => json!(null),
        1 => json!([]),
        2..=5 => json!(pick(random, &KEYWORDS)),
        _ => (0..random.below(4)).map(|_| pick(random, &KEYWORDS)).collect(),
    }
}

pub(crate) fn year(random: &mut Random) -> i64 {
    1995 + random.below(12) as i64
}

pub(crate) fn price(random: &mut Random) -> f64 {
    (random.below(80) as f64 - 20.0) / 4.0
}

/// Returns a date with the precision of a day or a second.
pub(crate) fn date(random: &mut Random) -> String {
    let day = format!(
        "{}-{:02}-{:02}",
        2019 + random.below(3),
        random.below(12) + 1,
        random.below(28) + 1
    );
    match one_in(random, 3) {
        true => format!("{day}T{:02}:{:02}:00Z", random.below(24), random.below(60)),
        false => day,
    }
}

/// Returns a random value for a field of a new document.
pub(crate) fn value(random: &mut Random, field: &str) -> Value {
    match field {
        "title" => some_text(random, 5),
        "body" => some_text(random, 40),
        "note" | "label" => some_text(random, 7),
        "tag" | "code" => keywords(random),
        "year" => match random.below(12) {
            0 => json!(year(random).to_string()),
            1 => json!(year(random) as f64 + 0.5),
            2 => json!([year(random)]),
            _ => json!(year(random)),
        },
        "price" => json!(price(random)),
        "flag" => match random.below(8) {
            0 => json!("true"),
            1 => json!(""),
            _ => json!(one_in(random, 2)),
        },
        "day" => match one_in(random, 6) {
            true => json!(1_560_000_000_000i64 + random.below(1000) as i64 * 86_400_000),
            false => json!(date(random)),
        },
        _ => json!({"level": random.below(5)}),
    }
}

pub(crate) const PARTS: [&str; 10] =
    ["title", "body", "note", "label", "tag", "code", "year", "price", "flag", "day"];

/// Returns a random document.
pub(crate) fn source(random: &mut Random) -> Value {
    let mut source = json!({});
    for field in PARTS.iter().chain(&["meta"]) {
        if !one_in(random, 4) {
            source[*field] = value(random, field);
        }
    }
    source
}

/// The searchable values of a document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doc {
    pub(crate) texts: BTreeMap<&'static str, Text>,
    pub(crate) keywords: BTreeMap<&'static str, BTreeSet<String>>,
    /// Numbers, booleans as 0 and 1, and dates in milliseconds.
    pub(crate) numbers: BTreeMap<&'static str, f64>,
}

/// A text field that a document has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Text {
    /// The positions of each term.
    pub(crate) positions: HashMap<String, Vec<i64>>,
    pub(crate) length: u64,
}

/// Number of positions between two values of a field.
const GAP: i64 = 100;

/// Returns the terms of a text in a field.
pub(crate) fn terms(field: &str, text: &str) -> Vec<String> {
    let is_standard = TEXTS.iter().any(|of| of.name == field && of.is_standard);
    match is_standard {
        true => text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect(),
        false => text.split_whitespace().map(str::to_owned).collect(),
    }
}

/// Returns the values at a key: none, one, or those of an array.
fn values(source: &Value, key: &str) -> Vec<Value> {
    let flat = match &source[key] {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    flat.into_iter().filter(|value| !value.is_null()).collect()
}

impl Doc {
    pub(crate) fn of(source: &Value) -> Self {
        let mut doc = Doc::default();
        for TextField { name, .. } in &TEXTS {
            let values = values(source, name);
            if values.is_empty() {
                continue;
            }
            let (mut text, mut next) = (Text::default(), 0);
            for value in &values {
                for term in terms(name, value.as_str().unwrap()) {
                    text.positions.entry(term).or_default().push(next);
                    (next, text.length) = (next + 1, text.length + 1);
                }
                next += GAP;
            }
            doc.texts.insert(name, text);
        }
        for (name, most) in KEYWORD_FIELDS {
            let values = values(source, name.trim_end_matches(".keyword"));
            let kept = values.iter().map(|value| value.as_str().unwrap().to_owned());
            let kept: BTreeSet<String> =
                kept.filter(|value| value.chars().count() <= most).collect();
            if !kept.is_empty() {
                doc.keywords.insert(name, kept);
            }
        }
        for (name, key) in [
            ("year", "year"),
            ("price", "price"),
            ("flag", "flag"),
            ("day", "day"),
            ("meta.level", "level"),
        ] {
            let from = if name == key { source } else { &source["meta"] };
            if let Some(value) = values(from, key).first() {
                doc.numbers.insert(name, number(name, value));
            }
        }
        doc
    }

    /// Returns true if a field exists: it or its sub-field has a value, or, for a text field, a
    /// term.
    pub(crate) fn has(&self, field: &str) -> bool {
        let has_terms = self.texts.get(field).is_some_and(|text| text.length > 0);
        let inner = format!("{field}.keyword");
        has_terms
            || [field, &inner].into_iter().any(|name| self.keywords.contains_key(name))
            || self.numbers.contains_key(field)
    }
}

/// Returns a value of a document as a number.
fn number(field: &str, value: &Value) -> f64 {
    match (kind(field), value) {
        (Kind::Date, Value::String(text)) => span(text).0 as f64,
        (Kind::Boolean, value) => f64::from(*value == json!(true) || *value == json!("true")),
        (Kind::Integer, Value::String(text)) => text.parse().unwrap(),
        (Kind::Integer, value) => value.as_f64().unwrap().trunc(),
        (_, value) => value.as_f64().unwrap(),
    }
}

/// Returns the first and the last millisecond of a year, month, day or second.
pub(crate) fn span(text: &str) -> (i64, i64) {
    let (day, time) = text.split_once('T').map_or((text, None), |(day, time)| (day, Some(time)));
    let parts: Vec<i64> = day.split('-').map(|part| part.parse().unwrap()).collect();
    let first = |year: i64, month: i64, day: i64| days(year, month, day) * 86_400_000;
    match (parts.as_slice(), time) {
        (&[year, month, day], Some(time)) => {
            let time: Vec<i64> =
                time.trim_end_matches('Z').split(':').map(|part| part.parse().unwrap()).collect();
            let at = first(year, month, day) + (time[0] * 3600 + time[1] * 60 + time[2]) * 1000;
            (at, at + 999)
        }
        (&[year, month, day], None) => {
            let at = first(year, month, day);
            (at, at + 86_400_000 - 1)
        }
        (&[year, month], _) => {
            let next = if month == 12 { first(year + 1, 1, 1) } else { first(year, month + 1, 1) };
            (first(year, month, 1), next - 1)
        }
        (&[year], _) => (first(year, 1, 1), first(year + 1, 1, 1) - 1),
        _ => panic!("`{text}` is no date"),
    }
}

/// Returns the number of days since 1970, counted year by year and month by month.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let of_years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    of_years + months[..(month - 1) as usize].iter().sum::<i64>() + day - 1
}

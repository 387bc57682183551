//! Random queries.

use serde_json::{Value, json};

use crate::clause::{Across, Clause, LARGE};
use crate::documents::{
    ABSENT, KEYWORDS, Kind, date, kind, one_in, pick, price, word, words, year,
};
use crate::lines::{Chain, Line, Link, Part, Syntax};
use crate::support::kill::Random;

/// Text fields of the model, and those with the standard analyzer.
const TEXTS: [&str; 4] = ["title", "body", "note", "label"];
const STANDARD: [&str; 3] = ["title", "body", "label"];
const KEYWORD_FIELDS: [&str; 3] = ["tag", "code", "label.keyword"];
const NUMBERS: [&str; 5] = ["year", "price", "day", "meta.level", "flag"];

/// Maximum depth of nested clauses.
const DEPTH: u32 = 3;

/// A generator of queries for an index with this number of ids.
pub(crate) struct Queries<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) ids: u64,
}

pub(crate) fn id(random: &mut Random, ids: u64) -> String {
    format!("d{}", random.below(ids))
}

impl Queries<'_> {
    pub(crate) fn query(&mut self) -> Clause {
        let depth = self.random.below(u64::from(DEPTH) + 1) as u32;
        self.clause(depth)
    }

    /// Returns a clause with others inside it, up to a depth.
    fn clause(&mut self, depth: u32) -> Clause {
        let clause = match self.random.below(12) {
            0..=5 if depth > 0 => self.bool(depth),
            6 if depth > 0 => {
                let tie = pick(self.random, &[0.0, 0.0, 0.3, 1.0]);
                Clause::Best { of: self.clauses(depth, 1, 4), tie }
            }
            7 if depth > 0 => Clause::Constant(self.clause(depth - 1).into()),
            8 if depth > 0 => {
                let (positive, negative) = (self.clause(depth - 1), self.clause(depth - 1));
                let less = pick(self.random, &[0.0, 0.5, 1.0, 2.0]);
                Clause::Boosting { positive: positive.into(), negative: negative.into(), less }
            }
            _ => self.leaf(),
        };
        match (self.random.below(8), &clause) {
            (_, Clause::Nothing) | (1.., _) => clause,
            _ => Clause::Boosted(clause.into(), pick(self.random, &[0.5, 2.0, 3.5, 0.0])),
        }
    }

    fn clauses(&mut self, depth: u32, least: u64, most: u64) -> Vec<Clause> {
        let count = least + self.random.below(most - least + 1);
        (0..count).map(|_| self.clause(depth - 1)).collect()
    }

    fn bool(&mut self, depth: u32) -> Clause {
        let (must, should) = (self.clauses(depth, 0, 2), self.clauses(depth, 0, 3));
        let mut rarely = |of: u64| match one_in(self.random, of) {
            true => self.clauses(depth, 1, 2),
            false => Vec::new(),
        };
        let (filter, must_not) = (rarely(3), rarely(3));
        let least = (!should.is_empty() && one_in(self.random, 3)).then(|| self.least());
        Clause::Bool { must, should, filter, must_not, least }
    }

    fn least(&mut self) -> String {
        pick(self.random, &["1", "2", "-1", "50%", "-40%", "75%", "1<50%", "2<-1 4<75%", "0", "3"])
            .to_string()
    }

    fn text_field(&mut self) -> String {
        pick(self.random, &TEXTS).to_string()
    }

    fn fields(&mut self, of: &[&str]) -> Vec<(String, f64)> {
        let mut fields: Vec<(String, f64)> = Vec::new();
        for field in of.iter().take(1 + self.random.below(of.len() as u64) as usize) {
            fields.push((field.to_string(), pick(self.random, &[1.0, 1.0, 2.0, 0.5])));
        }
        fields
    }

    /// Returns words separated by blanks, some of which no document has.
    fn words(&mut self, most: u64) -> String {
        let count = 1 + self.random.below(most);
        let mut one = || if one_in(self.random, 15) { ABSENT } else { word(self.random) };
        (0..count).map(|_| one()).collect::<Vec<_>>().join(" ")
    }

    /// Returns words separated by blanks, words with other separators, or a text without words.
    fn text(&mut self, most: u64) -> String {
        match self.random.below(14) {
            0 => pick(self.random, &["", "???", "!", " - "]).to_string(),
            1 | 2 => words(self.random, most),
            _ => self.words(most),
        }
    }

    /// Returns a value of a field in the notation of queries.
    fn value(&mut self, field: &str) -> Value {
        match kind(field) {
            Kind::Text => json!(word(self.random).to_lowercase()),
            Kind::Keyword => json!(pick(self.random, &KEYWORDS)),
            Kind::Integer if field == "year" => json!(year(self.random)),
            Kind::Integer => json!(self.random.below(6)),
            Kind::Float => json!(price(self.random)),
            Kind::Boolean => json!(one_in(self.random, 2)),
            Kind::Date => {
                let date = date(self.random);
                let length = pick(self.random, &[4, 7, 10, 20]);
                json!(date.get(..length).unwrap_or(&date))
            }
        }
    }

    fn attribute(&mut self) -> String {
        match one_in(self.random, 2) {
            true => pick(self.random, &KEYWORD_FIELDS).to_string(),
            false => pick(self.random, &NUMBERS).to_string(),
        }
    }

    pub(crate) fn leaf(&mut self) -> Clause {
        match self.random.below(26) {
            0..=3 => self.match_words(),
            4..=6 => self.multi(),
            7 | 8 => {
                let (field, text) = (self.text_field(), self.text(4));
                let (slop, zero_all) = (self.slop(), one_in(self.random, 8));
                Clause::Phrase { field, text, slop, zero_all }
            }
            9 | 10 => {
                let field =
                    if one_in(self.random, 3) { self.text_field() } else { self.attribute() };
                let value = self.value(&field);
                Clause::Term { field, value }
            }
            11 => {
                let field =
                    if one_in(self.random, 4) { self.text_field() } else { self.attribute() };
                let values = (0..self.random.below(4)).map(|_| self.value(&field)).collect();
                Clause::Terms { field, values }
            }
            12 => {
                let ids = self.ids + 2;
                Clause::Ids((0..self.random.below(9)).map(|_| id(self.random, ids)).collect())
            }
            13 | 14 => {
                let names = [&TEXTS[..], &KEYWORD_FIELDS, &NUMBERS].concat();
                Clause::Exists(pick(self.random, &names).to_string())
            }
            15..=17 => self.range(),
            18 => Clause::Prefix {
                field: pick(self.random, &KEYWORD_FIELDS).to_string(),
                prefix: pick(self.random, &["", "a", "ab", "b", "B", "x-", "red", "r", "q"])
                    .to_string(),
            },
            19 => Clause::All,
            20 if one_in(self.random, 3) => Clause::Nothing,
            20 if one_in(self.random, 3) => self.large(),
            20 if one_in(self.random, 3) => Clause::Bool {
                must: Vec::new(),
                should: Vec::new(),
                filter: Vec::new(),
                must_not: Vec::new(),
                least: None,
            },
            21..=23 => self.query_string(),
            _ => self.simple(),
        }
    }

    /// Returns a clause with a large boost that matches nothing. It must not affect other scores.
    fn large(&mut self) -> Clause {
        let absent = match one_in(self.random, 2) {
            true => Clause::Term { field: "tag".into(), value: json!(ABSENT) },
            false => {
                let (text, least) = (ABSENT.into(), None);
                Clause::Match { field: self.text_field(), text, and: false, least, zero_all: false }
            }
        };
        Clause::Boosted(absent.into(), LARGE)
    }

    fn slop(&mut self) -> u32 {
        if one_in(self.random, 2) { 0 } else { self.random.below(5) as u32 }
    }

    fn match_words(&mut self) -> Clause {
        if one_in(self.random, 10) {
            let field = self.attribute();
            let value = self.value(&field);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return Clause::Match { field, text, and: false, least: None, zero_all: false };
        }
        let (field, text, and) = (self.text_field(), self.text(5), one_in(self.random, 4));
        let least =
            (!and && text.contains(' ') && one_in(self.random, 3)).then(|| self.least_of_words());
        Clause::Match { field, text, and, least, zero_all: one_in(self.random, 8) }
    }

    /// Returns a minimum that requires at most two words, which every text of several words has.
    fn least_of_words(&mut self) -> String {
        pick(self.random, &["1", "2", "-1", "50%", "-40%", "75%", "1<50%", "2<-1 4<75%"])
            .to_string()
    }

    fn multi(&mut self) -> Clause {
        let across = pick(
            self.random,
            &[Across::Best, Across::Best, Across::Most, Across::Cross, Across::Phrase],
        );
        let fields = self.fields(if across == Across::Cross { &STANDARD } else { &TEXTS });
        let is_phrase = across == Across::Phrase;
        let text = if across == Across::Cross { self.words(4) } else { self.text(4) };
        let and = !is_phrase && one_in(self.random, 3);
        let has_least = !and && !is_phrase && text.contains(' ') && one_in(self.random, 3);
        let least = has_least.then(|| self.least_of_words());
        let tie = one_in(self.random, 3).then(|| pick(self.random, &[0.0, 0.3, 1.0]));
        let slop = if is_phrase { self.slop() } else { 0 };
        Clause::Multi { across, fields, text, and, least, tie, slop }
    }

    fn range(&mut self) -> Clause {
        let field = match self.random.below(5) {
            0 => pick(self.random, &KEYWORD_FIELDS).to_string(),
            _ => pick(self.random, &NUMBERS[..4]).to_string(),
        };
        let mut bound = || match one_in(self.random, 4) {
            true => None,
            false => {
                let is_with = one_in(self.random, 2);
                let value = match (self.random.below(8), kind(&field)) {
                    (0, Kind::Integer) => json!(year(self.random) as f64 + 0.5),
                    _ => self.value(&field),
                };
                Some((is_with, value))
            }
        };
        let (low, high) = (bound(), bound());
        Clause::Range { field, low, high }
    }

    pub(crate) fn query_string(&mut self) -> Clause {
        let across = pick(
            self.random,
            &[
                Across::Best,
                Across::Best,
                Across::Best,
                Across::Most,
                Across::Cross,
                Across::Phrase,
            ],
        );
        let fields = self.fields(&STANDARD);
        let and = one_in(self.random, 3);
        let depth = self.random.below(3) as u32;
        let part = self.part(depth);
        Clause::Line(Line { syntax: Syntax::Full(part, across), fields, and }.into())
    }

    fn part(&mut self, depth: u32) -> Part {
        if depth == 0 || one_in(self.random, 4) {
            return match self.random.below(8) {
                0 | 1 => self.field_part(),
                2 => Part::Phrase(self.words(3), self.slop()),
                3 => Part::Within(self.text_field(), self.words(3)),
                4 => {
                    Part::Boosted(Part::Words(self.words(2)).into(), pick(self.random, &[2.0, 0.5]))
                }
                _ => Part::Words(self.words(3)),
            };
        }
        let mut parts = |count: u64| (0..count).map(|_| self.part(depth - 1)).collect::<Vec<_>>();
        match parts(1).pop() {
            Some(first) => match self.random.below(4) {
                0 => Part::And(vec![first, self.part(depth - 1)]),
                1 => Part::Or(vec![first, self.part(depth - 1), self.part(depth - 1)]),
                2 => Part::Without(first.into(), self.part(depth - 1).into()),
                _ => {
                    // At least one of them is not an exclusion.
                    let mut signed = vec![(pick(self.random, &['+', ' ']), first)];
                    for _ in 0..1 + self.random.below(2) {
                        signed.push((pick(self.random, &['+', ' ', '-']), self.part(depth - 1)));
                    }
                    Part::Signed(signed)
                }
            },
            None => Part::Words(self.words(1)),
        }
    }

    /// Returns a condition on a field.
    fn field_part(&mut self) -> Part {
        match self.random.below(6) {
            0 => {
                let field = self.attribute();
                let clause = Clause::Exists(field.clone());
                Part::Boosted(
                    Part::Field(format!("_exists_:{field}"), clause).into(),
                    pick(self.random, &[1.0, 2.0]),
                )
            }
            1 => {
                let (field, prefix) =
                    ("tag".to_owned(), pick(self.random, &["a", "ab", "zz"]).to_string());
                Part::Field(format!("tag:{prefix}*"), Clause::Prefix { field, prefix })
            }
            2 => {
                let (field, value) = ("flag".to_owned(), json!(one_in(self.random, 2)));
                Part::Field(format!("flag:{value}"), Clause::Term { field, value })
            }
            3 => {
                let (field, year) = ("year".to_owned(), json!(year(self.random)));
                let (sign, with) =
                    pick(self.random, &[(">", false), (">=", true), ("<", false), ("<=", true)]);
                let bound = Some((with, year.clone()));
                let (low, high) = if sign.starts_with('>') { (bound, None) } else { (None, bound) };
                Part::Field(format!("year:{sign}{year}"), Clause::Range { field, low, high })
            }
            4 => {
                let (field, value) = ("year".to_owned(), json!(year(self.random)));
                Part::Field(format!("year:{value}"), Clause::Term { field, value })
            }
            _ => {
                let field = pick(self.random, &["year", "day"]).to_string();
                let (from, to) = (self.value(&field), self.value(&field));
                let (open, with_from) = pick(self.random, &[('[', true), ('{', false)]);
                let (close, with_to) = pick(self.random, &[(']', true), ('}', false)]);
                let shown = |value: &Value| match value.as_str() {
                    Some(text) => format!("\"{text}\""),
                    None => value.to_string(),
                };
                let text = format!("{field}:{open}{} TO {}{close}", shown(&from), shown(&to));
                let (low, high) = (Some((with_from, from)), Some((with_to, to)));
                Part::Field(text, Clause::Range { field, low, high })
            }
        }
    }

    pub(crate) fn simple(&mut self) -> Clause {
        let fields = self.fields(&STANDARD);
        let (and, depth) = (one_in(self.random, 3), self.random.below(3) as u32);
        let chain = self.chain(depth);
        Clause::Line(Line { syntax: Syntax::Simple(chain), fields, and }.into())
    }

    fn chain(&mut self, depth: u32) -> Chain {
        let count = 1 + self.random.below(4);
        let mut link = |_| {
            let before = pick(self.random, &[' ', ' ', '+', '|']);
            let link = match self.random.below(6) {
                0 if depth > 0 => Link::Inner(self.chain(depth - 1)),
                1 => Link::Phrase(self.words(3), self.slop()),
                _ => Link::Word(self.words(1)),
            };
            (before, one_in(self.random, 6), link)
        };
        Chain((0..count).map(&mut link).collect())
    }
}

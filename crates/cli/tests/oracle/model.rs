//! The matches and scores of a query, by definition: every clause is evaluated on every document.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::clause::{Across, Clause, LARGE};
use crate::documents::{Doc, Kind, TEXTS, TextField, kind, span, terms};

/// All searchable documents, with the statistics that scores depend on.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) docs: BTreeMap<String, Doc>,
    fields: BTreeMap<&'static str, Field>,
}

/// Statistics of a text field over all documents.
#[derive(Clone, Debug, Default)]
struct Field {
    /// Number of documents with a term in the field.
    documents: f64,
    /// Number of terms in these documents.
    length: f64,
    /// Number of documents that have each term.
    having: HashMap<String, f64>,
}

/// The permitted difference between a score of the server and that of the model.
///
/// Inside a query, a score is an integer number of units; the maximum sum over all clauses has at
/// least 2^30 of them. The contribution of a term is rounded up to a unit, that of a condition
/// down. Products before that are in single precision, and a tie breaker is a multiple of 2^-16.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// Maximum sum over all clauses, except those with a large boost that match nothing.
    sum: f64,
    leaves: f64,
    ties: f64,
}

impl Reach {
    fn leaf(most: f64) -> Self {
        Reach { sum: most.abs(), leaves: 1.0, ties: 0.0 }
    }

    fn add(self, other: Self) -> Self {
        Reach {
            sum: self.sum + other.sum,
            leaves: self.leaves + other.leaves,
            ties: self.ties + other.ties,
        }
    }

    fn times(self, by: f64) -> Self {
        Reach { sum: self.sum * by, ..self }
    }

    /// Returns the largest permitted difference for a score.
    pub(crate) fn of(self, score: f64) -> f64 {
        let units = (self.leaves + 2.0) * (self.sum + 1.0) * (-29f64).exp2();
        units + self.ties * self.sum * (-16f64).exp2() + score.abs() * 2e-6
    }
}

impl World {
    pub(crate) fn new(sources: &BTreeMap<String, Value>) -> Self {
        let docs: BTreeMap<String, Doc> =
            sources.iter().map(|(id, source)| (id.clone(), Doc::of(source))).collect();
        let mut fields: BTreeMap<&'static str, Field> = BTreeMap::new();
        for (name, text) in
            docs.values().flat_map(|doc| &doc.texts).filter(|(_, text)| text.length > 0)
        {
            let field = fields.entry(*name).or_default();
            (field.documents, field.length) =
                (field.documents + 1.0, field.length + text.length as f64);
            for term in text.positions.keys() {
                *field.having.entry(term.clone()).or_default() += 1.0;
            }
        }
        World { docs, fields }
    }

    /// Returns the matching documents with their scores.
    pub(crate) fn matches(&self, clause: &Clause) -> BTreeMap<&str, f64> {
        let scored = |(id, doc)| Some((String::as_str(id), self.score(clause, doc)?));
        self.docs.iter().filter_map(scored).collect()
    }

    /// Returns the score of a document, or `None` if it does not match.
    pub(crate) fn score(&self, clause: &Clause, doc: &Doc) -> Option<f64> {
        match clause {
            Clause::All => Some(1.0),
            Clause::Nothing => None,
            Clause::Match { field, text, and, least, zero_all } => match kind(field) {
                Kind::Text if terms(field, text).is_empty() => zero_all.then_some(1.0),
                Kind::Text => self.words(field, text, *and, least.as_deref(), doc),
                _ => is_value(doc, field, &Value::from(text.as_str())).then_some(1.0),
            },
            Clause::Multi { across, fields, text, and, least, tie, slop } => {
                let least = least.as_deref();
                match across {
                    Across::Cross => self.cross(fields, text, *and, least, tie.unwrap_or(0.0), doc),
                    Across::Best | Across::Most | Across::Phrase => {
                        let scores = fields.iter().filter_map(|(field, weight)| {
                            let score = match across {
                                Across::Phrase => self.phrase(field, text, *slop, doc),
                                _ => self.words(field, text, *and, least, doc),
                            };
                            Some(score? * weight)
                        });
                        let usual = if *across == Across::Most { 1.0 } else { 0.0 };
                        best(scores, tie.unwrap_or(usual))
                    }
                }
            }
            Clause::Phrase { field, text, slop, zero_all } => match terms(field, text).is_empty() {
                true => zero_all.then_some(1.0),
                false => self.phrase(field, text, *slop, doc),
            },
            Clause::Term { field, value } => match kind(field) {
                Kind::Text => self.term(field, value.as_str()?, doc),
                _ => is_value(doc, field, value).then_some(1.0),
            },
            Clause::Terms { field, values } => {
                let is_one = |value: &Value| match kind(field) {
                    Kind::Text => {
                        value.as_str().is_some_and(|term| self.term(field, term, doc).is_some())
                    }
                    _ => is_value(doc, field, value),
                };
                values.iter().any(is_one).then_some(1.0)
            }
            Clause::Ids(ids) => {
                let is_it =
                    |id: &String| self.docs.get(id).is_some_and(|other| std::ptr::eq(other, doc));
                ids.iter().any(is_it).then_some(1.0)
            }
            Clause::Exists(field) => doc.has(field).then_some(1.0),
            Clause::Range { field, low, high } => {
                is_between(doc, field, low.as_ref(), high.as_ref()).then_some(1.0)
            }
            Clause::Prefix { field, prefix } => {
                let values = doc.keywords.get(field.as_str())?;
                values.iter().any(|value| value.starts_with(prefix)).then_some(1.0)
            }
            Clause::Bool { must, should, filter, must_not, least } => {
                let matching = |of: &[Clause]| -> Vec<f64> {
                    of.iter().filter_map(|clause| self.score(clause, doc)).collect()
                };
                if [must, should, filter, must_not].into_iter().all(Vec::is_empty) {
                    return Some(1.0);
                }
                let (all, some) = (matching(must), matching(should));
                let usual = usize::from(must.is_empty() && filter.is_empty() && !should.is_empty());
                let least =
                    least.as_ref().map_or(0, |least| enough(least, should.len())).max(usual);
                let is_met = all.len() == must.len()
                    && matching(filter).len() == filter.len()
                    && matching(must_not).is_empty()
                    && some.len() >= least;
                is_met.then(|| all.iter().chain(&some).sum())
            }
            Clause::Best { of, tie } => {
                best(of.iter().filter_map(|clause| self.score(clause, doc)), *tie)
            }
            Clause::Constant(of) => self.score(of, doc).map(|_| 1.0),
            Clause::Boosting { positive, negative, less } => {
                let score = self.score(positive, doc)?;
                Some(if self.score(negative, doc).is_some() { score * less } else { score })
            }
            Clause::Line(line) => self.score(&line.meaning(), doc),
            Clause::Boosted(of, boost) => self.score(of, doc).map(|score| score * boost),
        }
    }

    /// Returns the score of a term in a document: BM25 with Elasticsearch's factor k1 + 1.
    fn term(&self, field: &str, term: &str, doc: &Doc) -> Option<f64> {
        let text = doc.texts.get(field)?;
        let frequency = text.positions.get(term)?.len() as f64;
        let TextField { k1, b, .. } = TEXTS.iter().find(|of| of.name == field)?;
        let mean = self.fields[field].length / self.fields[field].documents;
        let saturated = frequency / (frequency + k1 * (1.0 - b + b * text.length as f64 / mean));
        Some(self.most(field, term) * saturated)
    }

    /// Returns the maximum score of a term.
    fn most(&self, field: &str, term: &str) -> f64 {
        let of = self.fields.get(field).zip(TEXTS.iter().find(|of| of.name == field));
        let having = of.and_then(|(field, _)| field.having.get(term));
        let (Some((field, TextField { k1, .. })), Some(having)) = (of, having) else { return 0.0 };
        (1.0 + (field.documents - having + 0.5) / (having + 0.5)).ln() * (k1 + 1.0)
    }

    /// Computes the score of a document that has enough of the words of a text in one field, but
    /// at least one. Repeated words count each time.
    fn words(
        &self,
        field: &str,
        text: &str,
        and: bool,
        least: Option<&str>,
        doc: &Doc,
    ) -> Option<f64> {
        let terms = terms(field, text);
        let scores: Vec<f64> =
            terms.iter().filter_map(|term| self.term(field, term, doc)).collect();
        (!terms.is_empty() && scores.len() >= wanted(terms.len(), and, least))
            .then(|| scores.iter().sum())
    }

    /// Computes the score of a document that has enough of the words, each in any of several
    /// fields.
    fn cross(
        &self,
        fields: &[(String, f64)],
        text: &str,
        and: bool,
        least: Option<&str>,
        tie: f64,
        doc: &Doc,
    ) -> Option<f64> {
        let words = terms(&fields[0].0, text);
        let of = |word: &String| {
            let scores = fields
                .iter()
                .filter_map(|(field, weight)| Some(self.term(field, word, doc)? * weight));
            best(scores, tie)
        };
        let scores: Vec<f64> = words.iter().filter_map(of).collect();
        (!words.is_empty() && scores.len() >= wanted(words.len(), and, least))
            .then(|| scores.iter().sum())
    }

    /// Computes the score of a phrase, which is that of its words. Each word gets a different
    /// position in the document, from which its position in the text is subtracted; the largest
    /// of these differences exceeds the smallest by at most the slop.
    fn phrase(&self, field: &str, text: &str, slop: u32, doc: &Doc) -> Option<f64> {
        let terms = terms(field, text);
        if terms.is_empty() {
            return None;
        }
        let own = doc.texts.get(field)?;
        let places: Vec<&[i64]> = terms
            .iter()
            .map(|term| own.positions.get(term).map(Vec::as_slice))
            .collect::<Option<_>>()?;
        let starts =
            places.iter().enumerate().flat_map(|(i, of)| of.iter().map(move |at| at - i as i64));
        let slop = i64::from(slop);
        let mut starts: Vec<i64> = starts.collect();
        starts.sort_unstable();
        starts.dedup();
        let is_met =
            starts.iter().any(|start| fits(&places, *start..=start + slop, &mut Vec::new()));
        is_met.then(|| terms.iter().filter_map(|term| self.term(field, term, doc)).sum())
    }

    /// Returns the precision of the scores of a query.
    pub(crate) fn reach(&self, clause: &Clause) -> Reach {
        let all =
            |of: &[Clause]| of.iter().map(|of| self.reach(of)).fold(Reach::default(), Reach::add);
        let of_text = |field: &str, text: &str| {
            let terms = terms(field, text);
            let most = |term: &String| Reach::leaf(self.most(field, term));
            terms.iter().map(most).fold(Reach::default(), Reach::add)
        };
        match clause {
            Clause::Match { field, text, .. } | Clause::Phrase { field, text, .. }
                if kind(field) == Kind::Text =>
            {
                of_text(field, text).add(Reach::leaf(1.0))
            }
            Clause::Multi { fields, text, tie, .. } => {
                let of = fields.iter().map(|(field, weight)| of_text(field, text).times(*weight));
                let ties = Reach {
                    ties: tie.map_or(0.0, |_| terms("title", text).len() as f64),
                    ..Reach::default()
                };
                of.fold(ties, Reach::add)
            }
            Clause::Term { field, value } if kind(field) == Kind::Text => {
                Reach::leaf(self.most(field, value.as_str().unwrap_or_default()))
            }
            Clause::Bool { must, should, .. } => all(must).add(all(should)).add(Reach::leaf(0.0)),
            Clause::Best { of, .. } => {
                Reach { ties: 1.0, ..all(of) }.add(Reach { ties: all(of).ties, ..Reach::default() })
            }
            // The tree has the clause twice.
            Clause::Boosting { positive, less, .. } => {
                let positive = self.reach(positive);
                positive.add(positive.times(*less))
            }
            Clause::Line(line) => self.reach(&line.meaning()),
            // A clause without matches must not reduce the precision of others, however large its
            // boost is.
            Clause::Boosted(of, boost) if *boost >= LARGE && self.matches(of).is_empty() => {
                Reach::default()
            }
            Clause::Boosted(of, boost) => self.reach(of).times(*boost),
            _ => Reach::leaf(1.0),
        }
    }
}

/// Returns the largest score plus this fraction of the others.
fn best(scores: impl Iterator<Item = f64>, tie: f64) -> Option<f64> {
    let scores: Vec<f64> = scores.collect();
    let largest = scores.iter().copied().reduce(f64::max)?;
    Some(largest + tie * (scores.iter().sum::<f64>() - largest))
}

/// Returns the number of words of a text that must match.
fn wanted(words: usize, and: bool, least: Option<&str>) -> usize {
    match (and, least) {
        (true, _) => words,
        (false, least) => least.map_or(1, |least| enough(least, words)).max(1),
    }
}

/// Evaluates `minimum_should_match` for this number of clauses.
pub(crate) fn enough(least: &str, of: usize) -> usize {
    let of = of as i64;
    if least.contains('<') {
        let mut amount = of;
        for rule in least.split_whitespace() {
            let (above, then) = rule.split_once('<').unwrap();
            if of <= above.parse::<i64>().unwrap() {
                return amount as usize;
            }
            amount = enough(then, of as usize) as i64;
        }
        return amount as usize;
    }
    let amount: i64 = match least.strip_suffix('%') {
        Some(percent) => of * percent.parse::<i64>().unwrap() / 100,
        None => least.parse().unwrap(),
    };
    (if least.starts_with('-') { of + amount } else { amount }).max(0) as usize
}

/// Returns true if the remaining words fit on different positions that start in the range.
fn fits(places: &[&[i64]], range: std::ops::RangeInclusive<i64>, taken: &mut Vec<i64>) -> bool {
    let word = taken.len();
    let Some(of) = places.get(word) else { return true };
    of.iter().any(|at| {
        if !range.contains(&(at - word as i64)) || taken.contains(at) {
            return false;
        }
        taken.push(*at);
        let fits = fits(places, range.clone(), taken);
        taken.truncate(word);
        fits
    })
}

/// Returns true if the document has a value, which may be given as text.
fn is_value(doc: &Doc, field: &str, value: &Value) -> bool {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match kind(field) {
        Kind::Keyword => doc.keywords.get(field).is_some_and(|values| values.contains(&text)),
        Kind::Date => {
            let (first, last) = span(&text);
            doc.numbers.get(field).is_some_and(|date| (first as f64..=last as f64).contains(date))
        }
        Kind::Boolean => doc.numbers.get(field) == Some(&f64::from(text == "true")),
        _ => doc.numbers.get(field) == text.parse().ok().as_ref(),
    }
}

/// Returns true if a value of the document is within the bounds, each of which may be inclusive.
fn is_between(
    doc: &Doc,
    field: &str,
    low: Option<&(bool, Value)>,
    high: Option<&(bool, Value)>,
) -> bool {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if kind(field) == Kind::Keyword {
        let is_in = |value: &String| {
            low.is_none_or(|(with, low)| *value > text(low) || *with && *value == text(low))
                && high
                    .is_none_or(|(with, high)| *value < text(high) || *with && *value == text(high))
        };
        return doc.keywords.get(field).is_some_and(|values| values.iter().any(is_in));
    }
    let is_date = kind(field) == Kind::Date;
    // "After a day" means after its end, and "up to a day" includes its end.
    let bound = |value: &Value, end: bool| match is_date {
        true if end => span(&text(value)).1 as f64,
        true => span(&text(value)).0 as f64,
        false => text(value).parse().unwrap(),
    };
    let is_in = |value: &f64| {
        low.is_none_or(|(with, low)| {
            *value > bound(low, !with) || *with && *value == bound(low, !with)
        }) && high.is_none_or(|(with, high)| {
            *value < bound(high, *with) || *with && *value == bound(high, *with)
        })
    };
    doc.numbers.get(field).is_some_and(is_in)
}

#[test]
fn the_model_counts_as_documented() {
    for (least, of, want) in [
        ("2", 3, 2),
        ("-1", 3, 2),
        ("75%", 3, 2),
        ("-25%", 3, 3),
        ("2<75%", 2, 2),
        ("2<-25% 9<-3", 12, 9),
        ("5", 2, 5),
    ] {
        assert_eq!(enough(least, of), want, "{least} of {of}");
    }
    assert_eq!(span("1970-01-02"), (86_400_000, 2 * 86_400_000 - 1));
    assert_eq!(span("2020-02").1 + 1, span("2020-03-01T00:00:00Z").0);
    let places: [&[i64]; 2] = [&[4], &[3]];
    assert!(fits(&places, 2..=4, &mut Vec::new()) && !fits(&places, 3..=4, &mut Vec::new()));
}

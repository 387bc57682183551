//! Queries of the model, and their JSON.

use serde_json::{Map, Value, json};

use crate::lines::Line;

/// A boost so large that the scores of other clauses would lose digits if it counted.
pub(crate) const LARGE: f64 = 1e6;

/// The types of `multi_match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Across {
    Best,
    Most,
    Cross,
    Phrase,
}

impl Across {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Across::Best => "best_fields",
            Across::Most => "most_fields",
            Across::Cross => "cross_fields",
            Across::Phrase => "phrase",
        }
    }
}

/// A clause of a query.
#[derive(Clone, Debug)]
pub(crate) enum Clause {
    All,
    Nothing,
    Match {
        field: String,
        text: String,
        and: bool,
        least: Option<String>,
        zero_all: bool,
    },
    Multi {
        across: Across,
        fields: Vec<(String, f64)>,
        text: String,
        and: bool,
        least: Option<String>,
        tie: Option<f64>,
        slop: u32,
    },
    Phrase {
        field: String,
        text: String,
        slop: u32,
        zero_all: bool,
    },
    Term {
        field: String,
        value: Value,
    },
    Terms {
        field: String,
        values: Vec<Value>,
    },
    Ids(Vec<String>),
    Exists(String),
    /// Each bound has a flag, true if the range includes it.
    Range {
        field: String,
        low: Option<(bool, Value)>,
        high: Option<(bool, Value)>,
    },
    Prefix {
        field: String,
        prefix: String,
    },
    Bool {
        must: Vec<Clause>,
        should: Vec<Clause>,
        filter: Vec<Clause>,
        must_not: Vec<Clause>,
        least: Option<String>,
    },
    Best {
        of: Vec<Clause>,
        tie: f64,
    },
    Constant(Box<Clause>),
    Boosting {
        positive: Box<Clause>,
        negative: Box<Clause>,
        less: f64,
    },
    /// A query string.
    Line(Box<Line>),
    /// A clause with a `boost`.
    Boosted(Box<Clause>, f64),
}

pub(crate) fn fields_json(fields: &[(String, f64)]) -> Value {
    let of = |(name, weight): &(String, f64)| match *weight == 1.0 {
        true => name.clone(),
        false => format!("{name}^{weight}"),
    };
    fields.iter().map(of).collect()
}

impl Clause {
    pub(crate) fn json(&self) -> Value {
        self.boosted(None)
    }

    /// Returns the clause as JSON, with the boost at the clause's position for it.
    fn boosted(&self, boost: Option<f64>) -> Value {
        if let Clause::Boosted(of, boost) = self {
            return of.boosted(Some(*boost));
        }
        let (name, field, mut body) = self.parts();
        if let Some(boost) = boost {
            body.insert("boost".into(), json!(boost));
        }
        if let Clause::Terms { field, values } = self {
            body.insert(field.clone(), json!(values));
        }
        match (field, body.len()) {
            (None, _) => json!({name: body}),
            // A single option may be given without an object.
            (Some(field), 1) if matches!(name, "match" | "match_phrase" | "term" | "prefix") => {
                json!({name: {field: body.values().next()}})
            }
            (Some(field), _) => json!({name: {field: body}}),
        }
    }

    /// Returns the name of the clause, the field that its options belong to, and the options.
    fn parts(&self) -> (&'static str, Option<&str>, Map<String, Value>) {
        let mut body = json!({});
        let mut set = |key: &str, value: Value| body[key] = value;
        let all = |of: &[Clause]| of.iter().map(Clause::json).collect::<Value>();
        let (name, field) = match self {
            Clause::All => ("match_all", None),
            Clause::Nothing => ("match_none", None),
            Clause::Match { field, text, and, least, zero_all } => {
                set("query", json!(text));
                if *and {
                    set("operator", json!("and"));
                }
                if let Some(least) = least {
                    set("minimum_should_match", json!(least));
                }
                if *zero_all {
                    set("zero_terms_query", json!("all"));
                }
                ("match", Some(field.as_str()))
            }
            Clause::Multi { across, fields, text, and, least, tie, slop } => {
                set("query", json!(text));
                set("fields", fields_json(fields));
                set("type", json!(across.name()));
                if *and {
                    set("operator", json!("and"));
                }
                if let Some(least) = least {
                    set("minimum_should_match", json!(least));
                }
                if let Some(tie) = tie {
                    set("tie_breaker", json!(tie));
                }
                if *slop > 0 {
                    set("slop", json!(slop));
                }
                ("multi_match", None)
            }
            Clause::Phrase { field, text, slop, zero_all } => {
                set("query", json!(text));
                if *slop > 0 {
                    set("slop", json!(slop));
                }
                if *zero_all {
                    set("zero_terms_query", json!("all"));
                }
                ("match_phrase", Some(field.as_str()))
            }
            Clause::Term { field, value } => {
                set("value", value.clone());
                ("term", Some(field.as_str()))
            }
            // The boost is beside the field.
            Clause::Terms { .. } => ("terms", None),
            Clause::Ids(ids) => {
                set("values", json!(ids));
                ("ids", None)
            }
            Clause::Exists(field) => {
                set("field", json!(field));
                ("exists", None)
            }
            Clause::Range { field, low, high } => {
                for (bound, with, without) in [(low, "gte", "gt"), (high, "lte", "lt")] {
                    if let Some((is_with, value)) = bound {
                        set(if *is_with { with } else { without }, value.clone());
                    }
                }
                ("range", Some(field.as_str()))
            }
            Clause::Prefix { field, prefix } => {
                set("value", json!(prefix));
                ("prefix", Some(field.as_str()))
            }
            Clause::Bool { must, should, filter, must_not, least } => {
                for (key, of) in
                    [("must", must), ("should", should), ("filter", filter), ("must_not", must_not)]
                {
                    match of.as_slice() {
                        [] => {}
                        [one] => set(key, one.json()),
                        of => set(key, all(of)),
                    }
                }
                if let Some(least) = least {
                    let number = least.parse::<i64>().map(Value::from);
                    set("minimum_should_match", number.unwrap_or_else(|_| json!(least)));
                }
                ("bool", None)
            }
            Clause::Best { of, tie } => {
                set("queries", all(of));
                if *tie > 0.0 {
                    set("tie_breaker", json!(tie));
                }
                ("dis_max", None)
            }
            Clause::Constant(of) => {
                set("filter", of.json());
                ("constant_score", None)
            }
            Clause::Boosting { positive, negative, less } => {
                set("positive", positive.json());
                set("negative", negative.json());
                set("negative_boost", json!(less));
                ("boosting", None)
            }
            Clause::Line(line) => {
                body = line.json();
                (line.name(), None)
            }
            Clause::Boosted(of, _) => return of.parts(),
        };
        let Value::Object(body) = body else { unreachable!("it was made as an object") };
        (name, field, body)
    }

    /// Returns slightly simpler queries, to find the smallest one that fails.
    pub(crate) fn simpler(&self) -> Vec<Clause> {
        let without = |of: &[Clause]| -> Vec<Vec<Clause>> {
            let less = |i: usize| [&of[..i], &of[i + 1..]].concat();
            (0..of.len()).map(less).collect()
        };
        let each = |of: &[Clause]| -> Vec<Vec<Clause>> {
            let with = |i: usize| {
                let put = move |simpler: Clause| [&of[..i], &[simpler], &of[i + 1..]].concat();
                of[i].simpler().into_iter().map(put)
            };
            (0..of.len()).flat_map(with).collect()
        };
        let shorter = |text: &str| -> Vec<String> {
            let words: Vec<&str> = text.split(' ').collect();
            let less = |i: usize| [&words[..i], &words[i + 1..]].concat().join(" ");
            if words.len() > 1 { (0..words.len()).map(less).collect() } else { Vec::new() }
        };
        match self {
            Clause::Bool { must, should, filter, must_not, least } => {
                let parts = [must, should, filter, must_not];
                let mut found: Vec<Clause> = parts.into_iter().flatten().cloned().collect();
                let with = |which: usize, of: Vec<Clause>| {
                    let mut parts = parts.map(Clone::clone);
                    parts[which] = of;
                    let [must, should, filter, must_not] = parts;
                    Clause::Bool { must, should, filter, must_not, least: least.clone() }
                };
                for (which, of) in parts.into_iter().enumerate() {
                    let smaller = without(of).into_iter().chain(each(of));
                    found.extend(smaller.map(|of| with(which, of)));
                }
                if least.is_some() {
                    let [must, should, filter, must_not] = parts.map(Clone::clone);
                    found.push(Clause::Bool { must, should, filter, must_not, least: None });
                }
                found
            }
            Clause::Best { of, tie } => {
                let fewer = without(of).into_iter().filter(|of| !of.is_empty()).chain(each(of));
                let mut found = of.clone();
                found.extend(fewer.map(|of| Clause::Best { of, tie: *tie }));
                if *tie > 0.0 {
                    found.push(Clause::Best { of: of.clone(), tie: 0.0 });
                }
                found
            }
            Clause::Constant(of) => {
                let inner = of.simpler().into_iter().map(|of| Clause::Constant(of.into()));
                std::iter::once((**of).clone()).chain(inner).collect()
            }
            Clause::Boosting { positive, negative, less } => {
                let mut found = vec![(**positive).clone(), (**negative).clone()];
                for (side, of) in [(true, positive), (false, negative)] {
                    found.extend(of.simpler().into_iter().map(|of| {
                        let (positive, negative) = if side {
                            (of.into(), negative.clone())
                        } else {
                            (positive.clone(), of.into())
                        };
                        Clause::Boosting { positive, negative, less: *less }
                    }));
                }
                found
            }
            Clause::Boosted(of, boost) => {
                let inner = of.simpler().into_iter().map(|of| match of {
                    of @ Clause::Boosted(..) => of,
                    of => Clause::Boosted(of.into(), *boost),
                });
                std::iter::once((**of).clone()).chain(inner).collect()
            }
            Clause::Line(line) => {
                line.simpler().into_iter().map(|line| Clause::Line(line.into())).collect()
            }
            Clause::Match { text, .. }
            | Clause::Multi { text, .. }
            | Clause::Phrase { text, .. } => {
                let with = |shorter: String| {
                    let mut less = self.clone();
                    if let Clause::Match { text, .. }
                    | Clause::Multi { text, .. }
                    | Clause::Phrase { text, .. } = &mut less
                    {
                        *text = shorter;
                    }
                    less
                };
                shorter(text).into_iter().map(with).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the names of the clauses inside, which distinguish kinds of failures.
    pub(crate) fn shape(&self) -> String {
        let all = |of: &[Clause]| {
            let mut shapes: Vec<String> = of.iter().map(Clause::shape).collect();
            shapes.sort();
            shapes.dedup();
            shapes.join(", ")
        };
        match self {
            Clause::Bool { must, should, filter, must_not, least } => {
                let parts = [
                    ("must", must),
                    ("should", should),
                    ("filter", filter),
                    ("must_not", must_not),
                ];
                let parts = parts.into_iter().filter(|(_, of)| !of.is_empty());
                let mut parts: Vec<String> =
                    parts.map(|(name, of)| format!("{name} {}", all(of))).collect();
                parts.extend(least.as_ref().map(|_| "minimum_should_match".to_owned()));
                format!("bool({})", parts.join("; "))
            }
            Clause::Best { of, tie } => {
                format!("dis_max({}{})", all(of), if *tie > 0.0 { "; tie" } else { "" })
            }
            Clause::Constant(of) => format!("constant_score({})", of.shape()),
            Clause::Boosting { positive, negative, .. } => {
                format!("boosting({}, {})", positive.shape(), negative.shape())
            }
            Clause::Boosted(of, boost) => {
                format!("{}^{}", of.shape(), if *boost >= LARGE { "large" } else { "boost" })
            }
            Clause::Line(line) => line.shape(),
            _ => {
                let (name, _, body) = self.parts();
                let text = body.get("query").and_then(Value::as_str);
                let empty = text.is_some_and(|text| !text.contains(char::is_alphanumeric));
                let mut options: Vec<&str> = body
                    .keys()
                    .map(String::as_str)
                    .filter(|key| {
                        matches!(
                            *key,
                            "minimum_should_match"
                                | "tie_breaker"
                                | "operator"
                                | "slop"
                                | "zero_terms_query"
                        )
                    })
                    .collect();
                options.extend(body.get("type").and_then(Value::as_str));
                options.extend(empty.then_some("no words"));
                match options.is_empty() {
                    true => name.to_owned(),
                    false => format!("{name}[{}]", options.join(" ")),
                }
            }
        }
    }
}

//! `query_string` and `simple_query_string`, generated from trees, so that their meaning is
//! known.

use serde_json::{Value, json};

use crate::clause::{Across, Clause, fields_json};

/// A query string.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) syntax: Syntax,
    pub(crate) fields: Vec<(String, f64)>,
    /// True if `default_operator` is AND.
    pub(crate) and: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Syntax {
    /// A `query_string` with its `type`.
    Full(Part, Across),
    /// A `simple_query_string`.
    Simple(Chain),
}

/// A part of a `query_string`.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// Words separated by blanks, which are analyzed together.
    Words(String),
    Phrase(String, u32),
    /// The text `field:…` and the equivalent clause.
    Field(String, Clause),
    /// Words in a field, `field:(…)`.
    Within(String, String),
    /// Clauses with `+`, `-` or neither.
    Signed(Vec<(char, Part)>),
    And(Vec<Part>),
    Or(Vec<Part>),
    /// `a AND NOT b`.
    Without(Box<Part>, Box<Part>),
    Boosted(Box<Part>, f64),
}

/// Parts of a `simple_query_string`, read from left to right. Each has the operator before it
/// (`+`, `|` or a blank; the first has none), and a flag that is set after a `-`.
#[derive(Clone, Debug)]
pub(crate) struct Chain(pub(crate) Vec<(char, bool, Link)>);

#[derive(Clone, Debug)]
pub(crate) enum Link {
    Word(String),
    Phrase(String, u32),
    Inner(Chain),
}

fn group(must: Vec<Clause>, should: Vec<Clause>, must_not: Vec<Clause>) -> Clause {
    Clause::Bool { must, should, filter: Vec::new(), must_not, least: None }
}

fn quoted(words: &str, slop: u32) -> String {
    if slop == 0 { format!("\"{words}\"") } else { format!("\"{words}\"~{slop}") }
}

impl Line {
    pub(crate) fn name(&self) -> &'static str {
        match self.syntax {
            Syntax::Full(..) => "query_string",
            Syntax::Simple(_) => "simple_query_string",
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut body = json!({"fields": fields_json(&self.fields)});
        if self.and {
            body["default_operator"] = json!("and");
        }
        match &self.syntax {
            Syntax::Full(part, across) => {
                // A single part needs no parentheses.
                body["query"] = match part {
                    Part::Words(words) => json!(words),
                    Part::Signed(clauses) => json!(signed(clauses)),
                    part => json!(part.text()),
                };
                if *across != Across::Best {
                    body["type"] = json!(across.name());
                }
            }
            Syntax::Simple(chain) => body["query"] = json!(chain.text()),
        }
        body
    }

    /// Returns the equivalent clause.
    pub(crate) fn meaning(&self) -> Clause {
        match &self.syntax {
            Syntax::Full(part, across) => part.meaning(self, *across),
            Syntax::Simple(chain) => chain.meaning(self),
        }
    }

    fn words(&self, across: Across, text: &str, slop: u32) -> Clause {
        Clause::Multi {
            across,
            fields: self.fields.clone(),
            text: text.to_owned(),
            and: self.and,
            least: None,
            tie: None,
            slop,
        }
    }

    pub(crate) fn simpler(&self) -> Vec<Line> {
        let with = |syntax: Syntax| Line { syntax, ..self.clone() };
        let mut found: Vec<Line> = match &self.syntax {
            Syntax::Full(part, across) => {
                part.simpler().into_iter().map(|part| with(Syntax::Full(part, *across))).collect()
            }
            Syntax::Simple(chain) => {
                chain.simpler().into_iter().map(|chain| with(Syntax::Simple(chain))).collect()
            }
        };
        if self.fields.len() > 1 {
            found.extend(
                self.fields
                    .iter()
                    .map(|field| Line { fields: vec![field.clone()], ..self.clone() }),
            );
        }
        if self.and {
            found.push(Line { and: false, ..self.clone() });
        }
        found
    }

    pub(crate) fn shape(&self) -> String {
        let fields = if self.fields.len() > 1 { " fields" } else { "" };
        let and = if self.and { " and" } else { "" };
        match &self.syntax {
            Syntax::Full(part, across) => {
                format!("query_string[{}{fields}{and}]({})", across.name(), part.shape())
            }
            Syntax::Simple(chain) => {
                format!("simple_query_string[{fields}{and}]({})", chain.shape())
            }
        }
    }
}

fn signed(clauses: &[(char, Part)]) -> String {
    let text = |(sign, part): &(char, Part)| format!("{sign}{}", part.text()).trim().to_owned();
    clauses.iter().map(text).collect::<Vec<_>>().join(" ")
}

impl Part {
    /// Returns the text of the part beside others. Words are in parentheses, because they would
    /// otherwise be analyzed together with neighbouring words.
    fn text(&self) -> String {
        let joined = |of: &[Part], by: &str| of.iter().map(Part::text).collect::<Vec<_>>().join(by);
        match self {
            Part::Words(words) => format!("({words})"),
            Part::Phrase(words, slop) => quoted(words, *slop),
            Part::Field(text, _) => text.clone(),
            Part::Within(field, words) => format!("{field}:({words})"),
            Part::Signed(clauses) => format!("({})", signed(clauses)),
            Part::And(of) => format!("({})", joined(of, " AND ")),
            Part::Or(of) => format!("({})", joined(of, " OR ")),
            Part::Without(with, without) => format!("({} AND NOT {})", with.text(), without.text()),
            Part::Boosted(of, boost) => format!("{}^{boost}", of.text()),
        }
    }

    fn meaning(&self, of: &Line, across: Across) -> Clause {
        let all =
            |parts: &[Part]| parts.iter().map(|part| part.meaning(of, across)).collect::<Vec<_>>();
        match self {
            Part::Words(words) => of.words(across, words, 0),
            Part::Phrase(words, slop) => of.words(Across::Phrase, words, *slop),
            Part::Field(_, clause) => clause.clone(),
            Part::Within(field, words) => {
                let line = Line { fields: vec![(field.clone(), 1.0)], ..of.clone() };
                line.words(across, words, 0)
            }
            Part::Signed(clauses) => {
                let (mut must, mut should, mut must_not) = (Vec::new(), Vec::new(), Vec::new());
                for (sign, part) in clauses {
                    let list = match sign {
                        '-' => &mut must_not,
                        ' ' if !of.and => &mut should,
                        _ => &mut must,
                    };
                    list.push(part.meaning(of, across));
                }
                group(must, should, must_not)
            }
            Part::And(parts) => group(all(parts), Vec::new(), Vec::new()),
            Part::Or(parts) => group(Vec::new(), all(parts), Vec::new()),
            Part::Without(with, without) => {
                group(vec![with.meaning(of, across)], Vec::new(), vec![without.meaning(of, across)])
            }
            Part::Boosted(part, boost) => Clause::Boosted(part.meaning(of, across).into(), *boost),
        }
    }

    fn simpler(&self) -> Vec<Part> {
        let fewer = |of: &[Part], make: fn(Vec<Part>) -> Part| -> Vec<Part> {
            let without = |i: usize| make([&of[..i], &of[i + 1..]].concat());
            let with = |i: usize| {
                of[i]
                    .simpler()
                    .into_iter()
                    .map(move |part| make([&of[..i], &[part], &of[i + 1..]].concat()))
            };
            let mut found = of.to_vec();
            if of.len() > 2 {
                found.extend((0..of.len()).map(without));
            }
            found.extend((0..of.len()).flat_map(with));
            found
        };
        match self {
            Part::And(of) => fewer(of, Part::And),
            Part::Or(of) => fewer(of, Part::Or),
            Part::Signed(clauses) => {
                let mut found: Vec<Part> = clauses.iter().map(|(_, part)| part.clone()).collect();
                for i in 0..clauses.len() {
                    let less = [&clauses[..i], &clauses[i + 1..]].concat();
                    if less.iter().any(|(sign, _)| *sign != '-') {
                        found.push(Part::Signed(less));
                    }
                    for part in clauses[i].1.simpler() {
                        let with = (clauses[i].0, part);
                        found.push(Part::Signed(
                            [&clauses[..i], &[with], &clauses[i + 1..]].concat(),
                        ));
                    }
                }
                found
            }
            Part::Without(with, without) => vec![(**with).clone(), (**without).clone()],
            Part::Boosted(of, _) => vec![(**of).clone()],
            Part::Words(words) | Part::Within(_, words) | Part::Phrase(words, _) => {
                let Some((less, _)) = words.rsplit_once(' ') else { return Vec::new() };
                vec![match self {
                    Part::Within(field, _) => Part::Within(field.clone(), less.to_owned()),
                    Part::Phrase(_, slop) => Part::Phrase(less.to_owned(), *slop),
                    _ => Part::Words(less.to_owned()),
                }]
            }
            Part::Field(..) => Vec::new(),
        }
    }

    fn shape(&self) -> String {
        let all = |of: Vec<String>| {
            let mut of = of;
            of.sort();
            of.dedup();
            of.join(" ")
        };
        match self {
            Part::Words(words) => if words.contains(' ') { "words" } else { "word" }.to_owned(),
            Part::Phrase(..) => "phrase".to_owned(),
            Part::Field(_, clause) => format!("field:{}", clause.shape()),
            Part::Within(..) => "field:(words)".to_owned(),
            Part::Signed(of) => {
                all(of.iter().map(|(sign, part)| format!("{sign}{}", part.shape())).collect())
            }
            Part::And(of) => format!("AND {}", all(of.iter().map(Part::shape).collect())),
            Part::Or(of) => format!("OR {}", all(of.iter().map(Part::shape).collect())),
            Part::Without(with, without) => format!("{} NOT {}", with.shape(), without.shape()),
            Part::Boosted(of, _) => format!("{}^", of.shape()),
        }
    }
}

impl Chain {
    fn text(&self) -> String {
        let mut text = String::new();
        for (i, (before, not, link)) in self.0.iter().enumerate() {
            if i > 0 {
                text += &match before {
                    ' ' => " ".to_owned(),
                    before => format!(" {before} "),
                };
            }
            let link = match link {
                Link::Word(word) => word.clone(),
                Link::Phrase(words, slop) => quoted(words, *slop),
                Link::Inner(chain) => format!("({})", chain.text()),
            };
            text += &if *not { format!("-{link}") } else { link };
        }
        text
    }

    /// Returns the equivalent clause. Parts are combined from left to right: where the operator
    /// changes, all parts before it become one operand.
    fn meaning(&self, of: &Line) -> Clause {
        let mut whole: Option<(bool, Vec<Clause>)> = None;
        let made = |(and, clauses): (bool, Vec<Clause>)| match and {
            true => group(clauses, Vec::new(), Vec::new()),
            false => group(Vec::new(), clauses, Vec::new()),
        };
        for (i, (before, not, link)) in self.0.iter().enumerate() {
            let mut clause = match link {
                Link::Word(word) => of.words(Across::Most, word, 0),
                Link::Phrase(words, slop) => of.words(Across::Phrase, words, *slop),
                Link::Inner(chain) => chain.meaning(of),
            };
            if *not {
                clause = group(Vec::new(), vec![Clause::All], vec![clause]);
            }
            let and = match before {
                '+' => true,
                '|' => false,
                _ => of.and,
            };
            whole = Some(match whole {
                None => (and, vec![clause]),
                // The first operator makes a group of its two operands.
                Some((_, first)) if i == 1 => (and, [first, vec![clause]].concat()),
                Some((same, mut clauses)) if same == and => {
                    clauses.push(clause);
                    (and, clauses)
                }
                Some(other) => (and, vec![made(other), clause]),
            });
        }
        whole.map_or(Clause::Nothing, made)
    }

    fn simpler(&self) -> Vec<Chain> {
        let mut found = Vec::new();
        for (i, (before, not, link)) in self.0.iter().enumerate() {
            if self.0.len() > 1 {
                found.push(Chain([&self.0[..i], &self.0[i + 1..]].concat()));
            }
            let mut put = |not: bool, link: Link| {
                found.push(Chain(
                    [&self.0[..i], &[(*before, not, link)], &self.0[i + 1..]].concat(),
                ));
            };
            if *not {
                put(false, link.clone());
            }
            if let Link::Inner(chain) = link {
                chain.simpler().into_iter().for_each(|chain| put(*not, Link::Inner(chain)));
                if let [(_, false, only)] = chain.0.as_slice() {
                    put(*not, only.clone());
                }
            }
        }
        found
    }

    fn shape(&self) -> String {
        let link = |(i, (before, not, link)): (usize, &(char, bool, Link))| {
            let inner = match link {
                Link::Word(_) => "w".to_owned(),
                Link::Phrase(..) => "\"\"".to_owned(),
                Link::Inner(chain) => format!("({})", chain.shape()),
            };
            let before = if i == 0 { String::new() } else { before.to_string() };
            format!("{before}{}{inner}", if *not { "-" } else { "" })
        };
        self.0.iter().enumerate().map(link).collect()
    }
}

#[test]
fn lines_are_read_from_left_to_right() {
    let word = |word: &str| Link::Word(word.into());
    let links =
        vec![(' ', false, word("apple")), ('+', false, word("pie")), ('|', true, word("moon"))];
    let (syntax, fields) = (Syntax::Simple(Chain(links)), vec![("title".to_owned(), 1.0)]);
    let line = Line { syntax, fields, and: false };
    assert_eq!(line.json()["query"], "apple + pie | -moon");
    let shape = "bool(should bool(must multi_match[most_fields]), bool(should match_all; must_not multi_match[most_fields]))";
    assert_eq!(line.meaning().shape(), shape);
    let words = |text: &str| Part::Words(text.into());
    let signed = vec![
        ('+', words("red")),
        (' ', Part::Boosted(words("a b").into(), 2.0)),
        ('-', words("x")),
    ];
    let full = Line { syntax: Syntax::Full(Part::Signed(signed), Across::Best), ..line };
    assert_eq!(full.json()["query"], "+(red) (a b)^2 -(x)");
}

//! `query_string`: queries in one line with AND, OR, NOT, `+`, `-`, `field:`, `^` and ranges,
//! with the semantics of Lucene's classic parser. The submodule `simple` has the other syntax.

mod simple;
mod tokens;

use serde_json::{Value, json};
use warpseek::query::{Across, Bool, Node, Operator, Words};
use warpseek::schema::AttributeKind;

use self::tokens::{Token, tokens};
use super::{Parts, Translator, best, boosted};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::{Failure, brief};

/// Maximum nesting of parentheses.
pub(super) const MAX_DEPTH: usize = 32;

/// The occurrence of a clause, which decides whether it must, should or must not match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Must,
    Should,
    MustNot,
}

/// The way in which the words of a query string are searched in several fields.
#[derive(Clone, Copy)]
enum Kind {
    Words(Across),
    Phrase { tie_breaker: f64 },
}

/// Options that apply to all clauses of a query string.
#[derive(Clone, Copy)]
struct Options {
    kind: Kind,
    operator: Operator,
    /// Slop of phrases that specify none.
    slop: u32,
    /// Tie breaker of phrases in several fields.
    phrase_tie: f64,
    /// Tie breaker of other clauses in several fields.
    tie: f64,
}

/// The fields that words are searched in.
#[derive(Clone)]
struct Scope {
    fields: Vec<(String, f64)>,
    /// True if the query string names the fields before a colon.
    named: bool,
}

impl Translator<'_> {
    pub(super) fn query_string(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let allowed = [
            "query",
            "fields",
            "default_field",
            "default_operator",
            "boost",
            "lenient",
            "analyze_wildcard",
            "allow_leading_wildcard",
            "minimum_should_match",
            "tie_breaker",
            "type",
            "phrase_slop",
            "fuzziness",
            "auto_generate_synonyms_phrase_query",
            "analyzer",
            "fuzzy_prefix_length",
            "fuzzy_max_expansions",
            "fuzzy_transpositions",
            "fuzzy_rewrite",
            "rewrite",
            "max_determinized_states",
            "escape",
            "enable_position_increments",
            "quote_field_suffix",
            "time_zone",
        ];
        let parts = self.parts(clause, body, &allowed)?;
        only_defaults(clause, parts)?;
        if parts.get("analyzer").is_some() {
            return Err(Failure::unsupported(&format!("{clause} with [analyzer]")));
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let named = parts.get("default_field").filter(|field| !field.is_null());
        let named = named.map(|field| Value::Array(vec![field.clone()]));
        let is_none = |fields: &Value| fields.is_null() || *fields == json!([]);
        let given = parts.get("fields").filter(|fields| !is_none(fields));
        let fields = self.fields(clause, given.or(named.as_ref()))?;
        let tie_breaker = parts.number("tie_breaker")?;
        let is_most = parts.get("type").is_some_and(|kind| kind == "most_fields");
        let options = Options {
            kind: kind(clause, parts, tie_breaker)?,
            operator: parts.operator("default_operator")?,
            slop: self.slop(clause, parts.get("phrase_slop"))?,
            phrase_tie: tie_breaker.unwrap_or(0.0),
            tie: tie_breaker.unwrap_or(if is_most { 1.0 } else { 0.0 }),
        };
        let mut parser = Parser { tokens: tokens(&text)?, at: 0, options };
        let node = parser.any(self, &Scope { fields, named: false }, scored, 0)?;
        Ok(boosted(with_least(node, parts)?, parts.boost()?))
    }

    /// Translates a text in several fields, as `multi_match` does.
    fn in_fields(
        &mut self,
        options: Options,
        fields: &[(String, f64)],
        text: &str,
        scored: bool,
    ) -> Result<Node, Failure> {
        match options.kind {
            Kind::Words(across) => {
                let across = if fields.len() > 1 { across } else { Across::Most };
                let words = Words { operator: options.operator, across, ..Words::any([], text) };
                self.words(fields, &words, scored)
            }
            Kind::Phrase { tie_breaker } => {
                self.phrase(fields, text, options.slop, tie_breaker, scored)
            }
        }
    }
}

/// Refuses unsupported options unless they have their default values, which some clients send.
fn only_defaults(clause: &str, parts: Parts<'_>) -> Result<(), Failure> {
    for (key, default) in [
        ("escape", json!(false)),
        ("enable_position_increments", json!(true)),
        ("quote_field_suffix", Value::Null),
        ("time_zone", Value::Null),
    ] {
        let is_default = |value: &Value| {
            value.is_null() || *value == default || *value == default.to_string().as_str()
        };
        if let Some(value) = parts.get(key).filter(|value| !is_default(value)) {
            let value = value.to_string();
            let value = brief(&value);
            return Err(Failure::unsupported(&format!("{clause} with [{key}] {value}")));
        }
    }
    Ok(())
}

/// Reads the type of a `query_string`.
fn kind(clause: &str, parts: Parts<'_>, tie_breaker: Option<f64>) -> Result<Kind, Failure> {
    let name = match parts.get("type") {
        None | Some(Value::Null) => "best_fields",
        Some(Value::String(name)) => name,
        Some(_) => return Err(Failure::parsing(format!("[{clause}] [type] must be a string"))),
    };
    let tie_breaker = |usual: f64| tie_breaker.unwrap_or(usual);
    match name {
        "best_fields" => Ok(Kind::Words(Across::Best { tie_breaker: tie_breaker(0.0) })),
        "most_fields" => Ok(Kind::Words(Across::Best { tie_breaker: tie_breaker(1.0) })),
        "cross_fields" => Ok(Kind::Words(Across::Cross { tie_breaker: tie_breaker(0.0) })),
        "phrase" => Ok(Kind::Phrase { tie_breaker: tie_breaker(0.0) }),
        "phrase_prefix" | "bool_prefix" => {
            Err(Failure::unsupported(&format!("{clause} of type {name}")))
        }
        other => Err(Failure::parsing(format!(
            "[{clause}] [type] [{other}] is unknown; use best_fields, most_fields, cross_fields or phrase"
        ))),
    }
}

/// Applies `minimum_should_match` to a query string with optional clauses.
pub(super) fn with_least(mut node: Node, parts: Parts<'_>) -> Result<Node, Failure> {
    if let Some(least) = parts.least("minimum_should_match")?
        && let Node::Bool(Bool { should, least: wanted, skip_empty: true, .. }) = &mut node
        && !should.is_empty()
    {
        *wanted = Some(least);
    }
    Ok(node)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    options: Options,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Parses clauses up to the end or a closing parenthesis.
    fn any(
        &mut self,
        translator: &mut Translator<'_>,
        scope: &Scope,
        scored: bool,
        depth: usize,
    ) -> Result<Node, Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::parsing(format!(
                "parentheses may be nested at most {MAX_DEPTH} levels deep"
            )));
        }
        let mut clauses: Vec<(Sign, Node)> = Vec::new();
        let is_and = self.options.operator == Operator::And;
        let default = if is_and { Sign::Must } else { Sign::Should };
        let mut sign = None;
        while let Some(token) = self.peek() {
            match token {
                Token::Close if depth > 0 => break,
                Token::Close => {
                    return Err(Failure::parsing(
                        "a closing parenthesis was not opened; write \\) to search for it",
                    ));
                }
                Token::And => {
                    self.at += 1;
                    // AND also makes the clause before it mandatory.
                    if let Some((before @ Sign::Should, _)) = clauses.last_mut() {
                        *before = Sign::Must;
                    }
                    sign = sign.or(Some(Sign::Must));
                }
                Token::Or => {
                    self.at += 1;
                    if let Some((before @ Sign::Must, _)) = clauses.last_mut()
                        && is_and
                    {
                        *before = Sign::Should;
                    }
                    sign = Some(Sign::Should);
                }
                Token::Plus => {
                    self.at += 1;
                    sign = Some(Sign::Must);
                }
                Token::Minus | Token::Not => {
                    self.at += 1;
                    sign = Some(Sign::MustNot);
                }
                _ => {
                    let node = match sign {
                        None if self.together(translator, scope) => {
                            self.run(translator, scope, scored)?
                        }
                        _ => None,
                    };
                    let sign = sign.take().unwrap_or(default);
                    let node = match node {
                        None => {
                            self.clause(translator, scope, scored && sign != Sign::MustNot, depth)?
                        }
                        run => run,
                    };
                    clauses.extend(node.map(|node| (sign, node)));
                }
            }
        }
        let mut bool = Bool { skip_empty: true, ..Bool::default() };
        for (sign, node) in clauses {
            match sign {
                Sign::Must => bool.must.push(node),
                Sign::Should => bool.should.push(node),
                Sign::MustNot => bool.must_not.push(node),
            }
        }
        match (bool.must.len() + bool.should.len(), bool.must_not.len()) {
            (0, 0) => Ok(Node::Nothing),
            (1, 0) => Ok(bool.must.pop().or(bool.should.pop()).unwrap_or(Node::Nothing)),
            _ => Ok(Node::Bool(bool)),
        }
    }

    /// Returns true if consecutive plain words form one text, which each field turns into a
    /// query, rather than one clause each. In a single text field, and in cross-field search,
    /// each word is a clause.
    fn together(&self, translator: &Translator<'_>, scope: &Scope) -> bool {
        match (self.options.kind, scope.fields.as_slice()) {
            (Kind::Phrase { .. }, _) => true,
            (Kind::Words(_), [(name, _)]) => matches!(
                translator.mapping.field(name),
                Some(Field::Attribute { kind: AttributeKind::Keyword, .. })
            ),
            (Kind::Words(Across::Cross { .. }), _) => false,
            // Without a schema, all fields are one.
            (Kind::Words(_), _) => translator.mapping.layout != Layout::NoSchema,
        }
    }

    /// Parses two or more consecutive plain words as one text. Stops before a word that an
    /// operator or boost after it refers to.
    fn run(
        &mut self,
        translator: &mut Translator<'_>,
        scope: &Scope,
        scored: bool,
    ) -> Result<Option<Node>, Failure> {
        let (start, mut text) = (self.at, String::new());
        while let Some(Token::Word(word)) = self.tokens.get(self.at) {
            let is_separate = self.at > start
                && matches!(
                    self.tokens.get(self.at + 1),
                    Some(Token::Boost(_) | Token::Fuzzy | Token::And | Token::Or | Token::Star)
                );
            if is_separate {
                break;
            }
            if self.at > start {
                text.push(' ');
            }
            text.push_str(word);
            self.at += 1;
        }
        if self.at - start < 2 {
            self.at = start;
            return Ok(None);
        }
        translator.in_fields(self.options, &scope.fields, &text, scored).map(Some)
    }

    fn clause(
        &mut self,
        translator: &mut Translator<'_>,
        scope: &Scope,
        scored: bool,
        depth: usize,
    ) -> Result<Option<Node>, Failure> {
        let (fields, tie) = (&scope.fields, self.options.tie);
        let node = match self.next() {
            Some(Token::Compared(word)) if scope.named => {
                compared(translator, fields, &word, tie, scored)?
            }
            Some(Token::Word(word) | Token::Compared(word)) => {
                translator.in_fields(self.options, fields, &word, scored)?
            }
            Some(Token::Star) => match fields.as_slice() {
                [] | [_, _, ..] if !scope.named => Node::All,
                fields => each(fields, tie, |name| {
                    translator.node(&json!({"exists": {"field": name}}), scored)
                })?,
            },
            Some(Token::Prefix(prefix)) => prefixes(translator, fields, &prefix, tie, scored)?,
            Some(Token::Wildcard) => {
                return Err(Failure::unsupported("wildcard in a query string"));
            }
            Some(Token::Phrase(words, slop)) => {
                let Options { slop: usual, phrase_tie, .. } = self.options;
                translator.phrase(fields, &words, slop.unwrap_or(usual), phrase_tie, scored)?
            }
            Some(Token::Field(name)) if name == "_exists_" => {
                let Some(Token::Word(field)) = self.next() else {
                    return Err(Failure::parsing("a field must follow [_exists_:]"));
                };
                translator.node(&json!({"exists": {"field": field}}), scored)?
            }
            Some(Token::Field(name)) if name == "*" && self.peek() == Some(&Token::Star) => {
                self.at += 1;
                Node::All
            }
            Some(Token::Field(name)) => {
                let fields = match name.contains('*') {
                    true => translator.fields("query_string", Some(&name.as_str().into()))?,
                    false => vec![(name.clone(), 1.0)],
                };
                return match self.peek() {
                    Some(
                        Token::Word(_)
                        | Token::Compared(_)
                        | Token::Star
                        | Token::Prefix(_)
                        | Token::Wildcard
                        | Token::Range(_)
                        | Token::Phrase(..)
                        | Token::Open,
                    ) => self.clause(translator, &Scope { fields, named: true }, scored, depth),
                    _ => Err(Failure::parsing(format!("a value must follow [{name}:]"))),
                };
            }
            Some(Token::Open) => {
                let inner = self.any(translator, scope, scored, depth + 1)?;
                match self.next() {
                    Some(Token::Close) => inner,
                    _ => return Err(Failure::parsing("a parenthesis is not closed")),
                }
            }
            Some(Token::Range(range)) => range_of(translator, fields, &range, tie, scored)?,
            // A boost or tilde without a word before it.
            _ => return Ok(None),
        };
        Ok(Some(self.with_boost(node)?))
    }

    /// Applies the boost that follows a clause, if there is one.
    fn with_boost(&mut self, node: Node) -> Result<Node, Failure> {
        match self.peek() {
            Some(&Token::Boost(weight)) => {
                self.at += 1;
                Ok(boosted(node, weight))
            }
            Some(Token::Fuzzy) => Err(Failure::unsupported("fuzzy search [~] in a query string")),
            _ => Ok(node),
        }
    }
}

/// Builds a query for values of several fields that begin with a prefix.
fn prefixes(
    translator: &mut Translator<'_>,
    fields: &[(String, f64)],
    prefix: &str,
    tie: f64,
    scored: bool,
) -> Result<Node, Failure> {
    each(fields, tie, |name| translator.node(&json!({"prefix": {name: prefix}}), scored))
}

/// Combines a query for each field, multiplied by the field's weight, to the best of them.
fn each(
    fields: &[(String, f64)],
    tie_breaker: f64,
    mut query: impl FnMut(&str) -> Result<Node, Failure>,
) -> Result<Node, Failure> {
    let nodes = fields.iter().map(|(name, weight)| Ok(boosted(query(name)?, *weight)));
    Ok(best(nodes.collect::<Result<_, Failure>>()?, tie_breaker))
}

/// Builds a query for values of several fields that satisfy a comparison such as `>=5`.
fn compared(
    translator: &mut Translator<'_>,
    fields: &[(String, f64)],
    word: &str,
    tie: f64,
    scored: bool,
) -> Result<Node, Failure> {
    let operators = [(">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt")];
    let found = operators.iter().find_map(|(sign, key)| Some((key, word.strip_prefix(sign)?)));
    let Some((key, value)) = found.filter(|(_, value)| !value.is_empty()) else {
        return Err(Failure::parsing(format!("a value must follow [{word}]")));
    };
    each(fields, tie, |name| translator.node(&json!({"range": {name: {*key: value}}}), scored))
}

/// Builds a query for a range such as `[a TO b]`; `{` or `}` exclude an end.
fn range_of(
    translator: &mut Translator<'_>,
    fields: &[(String, f64)],
    range: &str,
    tie: f64,
    scored: bool,
) -> Result<Node, Failure> {
    let inner = &range[1..range.len() - 1];
    let Some((from, to)) = inner.split_once(" TO ") else {
        return Err(Failure::parsing(format!("the range [{range}] must have the form [1 TO 5]")));
    };
    let mut body = serde_json::Map::new();
    let (low, high) = (
        if range.starts_with('[') { "gte" } else { "gt" },
        if range.ends_with(']') { "lte" } else { "lt" },
    );
    for (key, value) in [(low, from.trim()), (high, to.trim())] {
        if value != "*" {
            body.insert(key.into(), Value::from(value.trim_matches('"')));
        }
    }
    each(fields, tie, |name| match body.is_empty() {
        true => translator.node(&json!({"exists": {"field": name}}), scored),
        false => translator.node(&json!({"range": {name: body}}), scored),
    })
}

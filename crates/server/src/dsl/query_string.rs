//! Queries in one line: `query_string` with AND, OR, NOT, `+`, `-`, `field:` and `^`; `simple_query_string` with `+`, `|` and `-`.

use serde_json::Value;
use warpseek::query::{Bool, Node, Operator};

use super::{Translator, boosted};
use crate::error::Failure;

/// The most parentheses inside one another.
const MAX_DEPTH: usize = 32;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// Words between quotation marks, and their slop.
    Phrase(String, u32),
    Field(String),
    Open,
    Close,
    Plus,
    Minus,
    And,
    Or,
    Not,
    Boost(f64),
    /// `[a TO b]` as it is written.
    Range(String),
    Fuzzy,
}

/// Whether a clause must match, may match or must not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Must,
    Should,
    MustNot,
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
            "fuzziness",
            "flags",
            "auto_generate_synonyms_phrase_query",
            "analyzer",
        ];
        let parts = self.parts(clause, body, &allowed)?;
        for key in ["analyzer", "flags"] {
            if parts.get(key).is_some_and(|value| value != "ALL") {
                return Err(Failure::unsupported(&format!("{clause} with [{key}]")));
            }
        }
        if parts.get("minimum_should_match").is_some() || parts.get("tie_breaker").is_some() {
            self.warn(format!("[{clause}] [minimum_should_match] and [tie_breaker] are ignored"));
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let named = parts.get("default_field").map(|field| Value::Array(vec![field.clone()]));
        let fields = self.fields(clause, parts.get("fields").or(named.as_ref()))?;
        let simple = clause == "simple_query_string";
        let operator = parts.operator("default_operator")?;
        let tokens = tokens(&text, simple)?;
        let mut parser = Parser { tokens, at: 0, simple, operator };
        let node = parser.any(self, &fields, scored, 0)?;
        Ok(boosted(node, parts.boost()?))
    }
}

/// Characters that stand for something in a word unless `\` is before them.
fn is_special(c: char, simple: bool) -> bool {
    match simple {
        true => matches!(c, '"' | '(' | ')' | '|'),
        false => matches!(c, '"' | '(' | ')' | '^' | '~' | ':' | '[' | '{'),
    }
}

fn tokens(text: &str, simple: bool) -> Result<Vec<Token>, Failure> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    let bad = |what: &str| Failure::parsing(format!("Failed to parse query [{text}]: {what}"));
    while let Some(&c) = rest.peek() {
        match c {
            c if c.is_whitespace() => {
                rest.next();
            }
            '(' | ')' | '|' if c != '|' || simple => {
                rest.next();
                tokens.push(match c {
                    '(' => Token::Open,
                    ')' => Token::Close,
                    _ => Token::Or,
                });
            }
            '+' | '-' | '!' if c != '!' || !simple => {
                rest.next();
                tokens.push(if c == '+' { Token::Plus } else { Token::Minus });
            }
            '"' => {
                rest.next();
                let (mut words, mut closed) = (String::new(), false);
                while let Some(c) = rest.next() {
                    match c {
                        '"' => {
                            closed = true;
                            break;
                        }
                        '\\' => words.extend(rest.next()),
                        c => words.push(c),
                    }
                }
                if !closed && !simple {
                    return Err(bad("a quotation mark is not closed"));
                }
                let mut slop = String::new();
                if rest.next_if_eq(&'~').is_some() {
                    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                        slop.push(digit);
                    }
                }
                let slop = match slop.is_empty() {
                    true => 0,
                    false => slop.parse().map_err(|_| bad("the slop of a phrase is too large"))?,
                };
                tokens.push(Token::Phrase(words, slop));
            }
            '[' | '{' if !simple => {
                let mut range = String::new();
                let mut closed = false;
                for c in rest.by_ref() {
                    range.push(c);
                    if matches!(c, ']' | '}') {
                        closed = true;
                        break;
                    }
                }
                match closed {
                    true => tokens.push(Token::Range(range)),
                    false => return Err(bad("a range is not closed")),
                }
            }
            '^' if !simple => {
                rest.next();
                let mut number = String::new();
                while let Some(c) = rest.next_if(|c| c.is_ascii_digit() || *c == '.') {
                    number.push(c);
                }
                tokens
                    .push(Token::Boost(number.parse().map_err(|_| bad("a number must follow ^"))?));
            }
            '~' if !simple => {
                rest.next();
                while rest.next_if(char::is_ascii_digit).is_some() {}
                tokens.push(Token::Fuzzy);
            }
            ':' if !simple => return Err(bad("a field must stand before [:]")),
            _ => {
                let (mut word, mut escaped) = (String::new(), false);
                while let Some(c) = rest.next_if(|&c| !c.is_whitespace() && !is_special(c, simple))
                {
                    if c == '\\' {
                        escaped = true;
                        word.extend(rest.next());
                    } else {
                        word.push(c);
                    }
                }
                if !simple && rest.next_if_eq(&':').is_some() {
                    tokens.push(Token::Field(word));
                } else {
                    tokens.push(match word.as_str() {
                        "AND" | "&&" if !simple && !escaped => Token::And,
                        "OR" | "||" if !simple && !escaped => Token::Or,
                        "NOT" if !simple && !escaped => Token::Not,
                        _ => Token::Word(word),
                    });
                }
            }
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    simple: bool,
    operator: Operator,
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

    /// Clauses up to the end or a parenthesis.
    fn any(
        &mut self,
        of: &mut Translator<'_>,
        fields: &[(String, f64)],
        scored: bool,
        depth: usize,
    ) -> Result<Node, Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::parsing(format!(
                "at most {MAX_DEPTH} parentheses may be inside one another"
            )));
        }
        let mut clauses: Vec<(Sign, Node)> = Vec::new();
        let default = if self.operator == Operator::And { Sign::Must } else { Sign::Should };
        let mut sign = None;
        while let Some(token) = self.peek().cloned() {
            match token {
                Token::Close if depth > 0 => break,
                // As there: the simple syntax takes what makes no sense for nothing, the other refuses it.
                Token::Close if self.simple => self.at += 1,
                Token::Close => {
                    return Err(Failure::parsing(
                        "a parenthesis is closed that was not opened; write \\) to search for it",
                    ));
                }
                Token::And => {
                    self.at += 1;
                    // What stands before AND is wanted as well.
                    if let Some((before @ Sign::Should, _)) = clauses.last_mut() {
                        *before = Sign::Must;
                    }
                    sign = sign.or(Some(Sign::Must));
                }
                Token::Or => {
                    self.at += 1;
                    if let Some((before @ Sign::Must, _)) = clauses.last_mut()
                        && self.operator == Operator::And
                    {
                        *before = Sign::Should;
                    }
                    sign = Some(Sign::Should);
                }
                Token::Plus => {
                    self.at += 1;
                    // In the simple syntax `+` stands between words that are all wanted.
                    if self.simple
                        && let Some((before @ Sign::Should, _)) = clauses.last_mut()
                    {
                        *before = Sign::Must;
                    }
                    sign = Some(Sign::Must);
                }
                Token::Minus | Token::Not => {
                    self.at += 1;
                    sign = Some(Sign::MustNot);
                }
                _ => {
                    let sign = sign.take().unwrap_or(default);
                    if let Some(node) =
                        self.clause(of, fields, scored && sign != Sign::MustNot, depth)?
                    {
                        clauses.push((sign, node));
                    }
                }
            }
        }
        let mut bool = Bool::default();
        for (sign, node) in clauses {
            match sign {
                Sign::Must => bool.must.push(node),
                Sign::Should => bool.should.push(node),
                Sign::MustNot => bool.must_not.push(node),
            }
        }
        let single = bool.must.len() + bool.should.len() == 1 && bool.must_not.is_empty();
        match (bool.must.is_empty() && bool.should.is_empty() && bool.must_not.is_empty(), single) {
            (true, _) => Ok(Node::Nothing),
            (_, true) => {
                Ok(bool.must.into_iter().chain(bool.should).next().unwrap_or(Node::Nothing))
            }
            _ => Ok(Node::Bool(bool)),
        }
    }

    fn clause(
        &mut self,
        of: &mut Translator<'_>,
        fields: &[(String, f64)],
        scored: bool,
        depth: usize,
    ) -> Result<Option<Node>, Failure> {
        let node = match self.next() {
            Some(Token::Word(word)) => self.word(of, fields, &word, scored)?,
            Some(Token::Phrase(words, slop)) => of.phrase(fields, &words, slop, 0.0, scored)?,
            Some(Token::Field(name)) => {
                let fields = match name.as_str() {
                    "_exists_" => {
                        let Some(Token::Word(field)) = self.next() else {
                            return Err(Failure::parsing("a field must follow [_exists_:]"));
                        };
                        let node =
                            of.node(&serde_json::json!({"exists": {"field": field}}), scored)?;
                        return Ok(Some(self.with_boost(of, node)));
                    }
                    name if name.contains('*') => {
                        of.fields("query_string", Some(&Value::from(name)))?
                    }
                    name => vec![(name.to_owned(), 1.0)],
                };
                match self.peek() {
                    Some(Token::Range(_)) => {
                        let Some(Token::Range(range)) = self.next() else { return Ok(None) };
                        range_of(of, &name, &range, scored)?
                    }
                    Some(Token::Word(_) | Token::Phrase(..) | Token::Open) => {
                        let Some(node) = self.clause(of, &fields, scored, depth)? else {
                            return Ok(None);
                        };
                        return Ok(Some(node));
                    }
                    _ => return Err(Failure::parsing(format!("a value must follow [{name}:]"))),
                }
            }
            Some(Token::Open) => {
                let inner = self.any(of, fields, scored, depth + 1)?;
                match self.next() {
                    // Nothing was asked for, which must not keep the rest from matching.
                    Some(Token::Close) | None if self.simple && inner == Node::Nothing => {
                        return Ok(None);
                    }
                    Some(Token::Close) => inner,
                    None if self.simple => inner,
                    _ => return Err(Failure::parsing("a parenthesis is not closed")),
                }
            }
            Some(Token::Range(_)) => {
                return Err(Failure::parsing("a field must stand before a range"));
            }
            // A boost or tilde without a word.
            _ => return Ok(None),
        };
        Ok(Some(self.with_boost(of, node)))
    }

    /// A clause with the boost that follows it, in either order with a tilde.
    fn with_boost(&mut self, of: &mut Translator<'_>, mut node: Node) -> Node {
        loop {
            match self.peek() {
                Some(Token::Boost(weight)) => node = boosted(node, *weight),
                Some(Token::Fuzzy) => of.warn("[~] is ignored: words match exactly"),
                _ => return node,
            }
            self.at += 1;
        }
    }

    fn word(
        &self,
        of: &mut Translator<'_>,
        fields: &[(String, f64)],
        word: &str,
        scored: bool,
    ) -> Result<Node, Failure> {
        if word == "*" {
            return match fields {
                [(name, weight)] => {
                    let node = of.node(&serde_json::json!({"exists": {"field": name}}), scored)?;
                    Ok(boosted(node, *weight))
                }
                _ => Ok(Node::All),
            };
        }
        if word.contains('*') || (word.contains('?') && !self.simple) {
            let plain = word.strip_suffix('*').filter(|prefix| !prefix.contains(['*', '?']));
            return match (plain, fields) {
                (Some(prefix), [(name, weight)]) => {
                    let node = of.node(&serde_json::json!({"prefix": {name: prefix}}), scored)?;
                    Ok(boosted(node, *weight))
                }
                _ => Err(Failure::unsupported("wildcard in a query string")),
            };
        }
        of.plain_words(fields, word, self.operator, scored)
    }
}

/// `[a TO b]`, with `{` or `}` for an end that does not belong to it.
fn range_of(
    of: &mut Translator<'_>,
    field: &str,
    range: &str,
    scored: bool,
) -> Result<Node, Failure> {
    let inner = &range[1..range.len() - 1];
    let Some((from, to)) = inner.split_once(" TO ") else {
        return Err(Failure::parsing(format!("the range [{range}] must be like [1 TO 5]")));
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
    if body.is_empty() {
        return of.node(&serde_json::json!({"exists": {"field": field}}), scored);
    }
    of.node(&serde_json::json!({"range": {field: body}}), scored)
}

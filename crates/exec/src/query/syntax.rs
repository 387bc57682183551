//! The syntax of queries, which docs/reference/query-syntax.md describes.
//!
//! ```text
//! query  = clause*                    clause = ["+" | "-"] unit ["^" weight]
//! unit   = [field ":"] ( word | word "*" | '"' text '"' ["~" slop] | "(" query ")"
//!                      | range | compared | "*" )
//! range  = ("[" | "{") (value | "*") "TO" (value | "*") ("]" | "}")
//! compared = (">=" | ">" | "<=" | "<") value
//! ```
//!
//! A clause that contains words adds to scores. A clause without words, such as `year:>=2020`, is
//! a condition: it must hold, with or without `+`, and adds nothing.

use std::ops::Bound;

use warpseek_core::near;
use warpseek_text::{AttributeKind, FieldId, Schema, TextField};

use super::fields::{ID, names};
use super::least::Least;
use super::limits::{MAX_TREE_DEPTH, is_weight};
use super::syntax_error::{SyntaxError, SyntaxErrorKind};
use super::tree::{Bool, Filter, Node, Operator, Phrase, Words};
use super::values;

/// Parses a query. `schema` is the schema of the index; without one, there are no fields.
/// `operator` determines if a document must have all words without a sign, or one of them.
pub fn parse(text: &str, schema: Option<&Schema>, operator: Operator) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text, at: 0, schema, operator };
    let located = |(at, kind): Located| SyntaxError {
        query: text.to_owned(),
        at,
        column: text[..at].chars().count() + 1,
        kind,
    };
    let query = parser.group(None, None, 0).map_err(located)?;
    Ok(query.unwrap_or(Node::Nothing))
}

type Located = (usize, SyntaxErrorKind);

/// A field name before a colon, resolved.
#[derive(Clone)]
enum Field {
    Text(String),
    Attribute(String, AttributeKind),
    Ids,
}

/// A word or value: its text without escapes, and the place of an unescaped `*` at its end.
struct Word {
    at: usize,
    text: String,
    star: Option<usize>,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    schema: Option<&'a Schema>,
    operator: Operator,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn skip(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }

    /// Parses clauses up to the end, or to the parenthesis that closes the one at `open`. Words
    /// belong to `field`, if given.
    fn group(
        &mut self,
        field: Option<&Field>,
        open: Option<usize>,
        depth: usize,
    ) -> Result<Option<Node>, Located> {
        let mut clauses = Bool { skip_empty: true, ..Bool::default() };
        loop {
            self.skip_blanks();
            match (self.peek(), open) {
                (None, None) => break,
                (None, Some(open)) => {
                    return Err((open, SyntaxErrorKind::Unclosed { open: '(' }));
                }
                (Some(')'), Some(_)) => {
                    self.at += 1;
                    break;
                }
                (Some(')'), None) => return Err((self.at, SyntaxErrorKind::Unopened)),
                (Some(_), _) => self.clause(field, depth, &mut clauses)?,
            }
        }
        Ok(single(clauses))
    }

    fn clause(
        &mut self,
        field: Option<&Field>,
        depth: usize,
        clauses: &mut Bool,
    ) -> Result<(), Located> {
        let sign = self.peek().filter(|c| matches!(c, '+' | '-'));
        self.at += sign.map_or(0, char::len_utf8);
        let start = self.at;
        if self.peek().is_none_or(|c| c.is_whitespace() || c == ')') {
            return Err((start, SyntaxErrorKind::Missing { what: "a word" }));
        }
        let mut node = self.unit(field, depth)?;
        let condition = is_condition(&node);
        if self.peek() == Some('^') {
            let weight = self.weight()?;
            if condition {
                return Err((start, SyntaxErrorKind::WeightOfCondition));
            }
            node = Node::Boost(Box::new(node), weight);
        }
        match sign {
            Some('-') => clauses.must_not.push(node),
            _ if condition => clauses.filter.push(node),
            Some(_) => clauses.must.push(node),
            None if self.operator == Operator::And => clauses.must.push(node),
            None => clauses.should.push(node),
        }
        Ok(())
    }

    fn weight(&mut self) -> Result<f64, Located> {
        let start = self.at + 1;
        let rest = &self.text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || c == ')').unwrap_or(rest.len());
        let text = &rest[..end];
        let weight = text.parse().ok().filter(|&weight| is_weight(weight));
        self.at = start + end;
        weight.ok_or_else(|| (start, SyntaxErrorKind::Weight { text: text.to_owned() }))
    }

    fn unit(&mut self, field: Option<&Field>, depth: usize) -> Result<Node, Located> {
        let start = self.at;
        match self.peek() {
            Some('(') => return self.nested(field, depth),
            Some('"') => return self.phrase(field),
            _ => {}
        }
        let word = self.word(&[':'])?;
        if self.peek() != Some(':') {
            return self.words(field, word);
        }
        if word.text.is_empty() {
            return Err((start, SyntaxErrorKind::Missing { what: "the name of a field" }));
        }
        if let Some(star) = word.star {
            return Err((star, SyntaxErrorKind::Prefix));
        }
        self.at += 1;
        let field = self.field(word)?;
        match &field {
            Field::Text(name) => match self.peek() {
                Some('(') => self.nested(Some(&field), depth),
                Some('"') => self.phrase(Some(&field)),
                Some('[' | '{' | '<' | '>') => {
                    Err((self.at, SyntaxErrorKind::RangeOfText { field: name.clone() }))
                }
                _ => {
                    let word = self.value_word()?;
                    self.words(Some(&field), word)
                }
            },
            Field::Attribute(name, kind) => self.attribute(name, *kind),
            Field::Ids => Ok(Node::Filter(Filter::Ids(self.values(None)?))),
        }
    }

    fn field(&self, word: Word) -> Result<Field, Located> {
        if word.text == ID {
            return Ok(Field::Ids);
        }
        let (at, name) = (word.at, word.text);
        let Some(schema) = self.schema else {
            return Err((at, SyntaxErrorKind::NoSchema { name }));
        };
        match schema.find(&name) {
            Some(FieldId::Text(_)) => Ok(Field::Text(name)),
            Some(FieldId::Attribute(number)) => {
                let kind = schema.attributes()[usize::from(number)].kind;
                Ok(Field::Attribute(name, kind))
            }
            None => {
                let near = near(&name, names(schema)).map(str::to_owned);
                Err((at, SyntaxErrorKind::UnknownField { name, near }))
            }
        }
    }

    /// Parses a query in parentheses.
    fn nested(&mut self, field: Option<&Field>, depth: usize) -> Result<Node, Located> {
        let open = self.at;
        if depth == MAX_TREE_DEPTH {
            return Err((open, SyntaxErrorKind::TooDeep));
        }
        self.at += 1;
        let group = self.group(field, Some(open), depth + 1)?;
        group.ok_or((open, SyntaxErrorKind::Missing { what: "a query between `(` and `)`" }))
    }

    /// Makes a node of words of a text field, or of all text fields.
    fn words(&self, field: Option<&Field>, word: Word) -> Result<Node, Located> {
        let name = match field {
            Some(Field::Text(name)) => Some(name),
            _ => None,
        };
        match (word.star, word.text.as_str(), name) {
            (None, "", _) => Err((word.at, SyntaxErrorKind::Missing { what: "a word" })),
            (None, _, _) => Ok(Node::Words(Words::any(name.cloned(), word.text))),
            (Some(_), "", None) => Ok(Node::All),
            (Some(_), "", Some(name)) => Ok(Node::Filter(Filter::Exists { field: name.clone() })),
            (Some(star), ..) => Err((star, SyntaxErrorKind::Prefix)),
        }
    }

    /// Parses words between quotation marks, and their slop.
    fn phrase(&mut self, field: Option<&Field>) -> Result<Node, Located> {
        let start = self.at;
        let text = self.quoted()?;
        let name = match field {
            Some(Field::Text(name)) => Some(name.clone()),
            _ => None,
        };
        // Without a schema, the index says whether it has positions.
        if let Some(schema) = self.schema {
            let named = |field: &&TextField| name.as_ref().is_none_or(|name| *name == field.name);
            if !schema.text().iter().filter(named).any(|field| field.positions) {
                return Err((start, SyntaxErrorKind::Phrase { field: name }));
            }
        }
        if text.trim().is_empty() {
            return Err((start, SyntaxErrorKind::Missing { what: "a word" }));
        }
        let slop = if self.skip('~') { self.slop()? } else { 0 };
        Ok(Node::Phrase(Phrase { slop, ..Phrase::exact(name, text) }))
    }

    fn slop(&mut self) -> Result<u32, Located> {
        let (start, rest) = (self.at, &self.text[self.at..]);
        let ends = |c: char| c.is_whitespace() || c == ')' || c == '^';
        let text = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += text.len();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let slop = text.parse().ok().filter(|_| is_number);
        slop.ok_or_else(|| (start, SyntaxErrorKind::Slop { text: text.to_owned() }))
    }

    fn attribute(&mut self, field: &str, kind: AttributeKind) -> Result<Node, Located> {
        let name = || field.to_owned();
        let filter = match self.peek() {
            Some('[' | '{') => self.range(field, kind)?,
            Some('<' | '>') => {
                let above = self.skip('>');
                self.at += usize::from(!above);
                let bound = if self.skip('=') { Bound::Included } else { Bound::Excluded };
                let value = bound(self.value(field, kind)?);
                let (from, to) = match above {
                    true => (value, Bound::Unbounded),
                    false => (Bound::Unbounded, value),
                };
                Filter::Range { field: name(), from, to }
            }
            Some('(' | '"') => {
                Filter::Terms { field: name(), values: self.values(Some((field, kind)))? }
            }
            _ => {
                let word = self.value_word()?;
                match (word.star, word.text.is_empty()) {
                    (Some(_), true) => Filter::Exists { field: name() },
                    (Some(_), false) if kind == AttributeKind::Keyword => {
                        Filter::Prefix { field: name(), prefix: word.text }
                    }
                    (Some(star), false) => return Err((star, SyntaxErrorKind::Prefix)),
                    (None, _) => {
                        let values = vec![checked(field, kind, word)?];
                        Filter::Terms { field: name(), values }
                    }
                }
            }
        };
        Ok(Node::Filter(filter))
    }

    /// Parses one value, or several in parentheses, of an attribute or, without `attribute`, of
    /// ids.
    fn values(&mut self, attribute: Option<(&str, AttributeKind)>) -> Result<Vec<String>, Located> {
        let value = |parser: &mut Self| match attribute {
            Some((field, kind)) => parser.value(field, kind),
            None => parser.plain_value().map(|word| word.text),
        };
        let open = self.at;
        if !self.skip('(') {
            return Ok(vec![value(self)?]);
        }
        let mut values = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return Err((open, SyntaxErrorKind::Unclosed { open: '(' })),
                Some(')') if values.is_empty() => {
                    return Err((self.at, SyntaxErrorKind::Missing { what: "a value" }));
                }
                Some(')') => {
                    self.at += 1;
                    return Ok(values);
                }
                // A minus sign is allowed, because it begins a negative number.
                Some('+') => return Err((self.at, SyntaxErrorKind::SignOfValue)),
                Some(_) => values.push(value(self)?),
            }
        }
    }

    /// Parses a value of an attribute.
    fn value(&mut self, field: &str, kind: AttributeKind) -> Result<String, Located> {
        let word = self.plain_value()?;
        checked(field, kind, word)
    }

    /// Parses a value without a star, quoted or not.
    fn plain_value(&mut self) -> Result<Word, Located> {
        let at = self.at;
        if self.peek() == Some('"') {
            return Ok(Word { at, text: self.quoted()?, star: None });
        }
        let word = self.value_word()?;
        match word.star {
            Some(star) => Err((star, SyntaxErrorKind::Prefix)),
            None => Ok(word),
        }
    }

    /// Parses a word of at least one character, in which a colon has no special meaning.
    fn value_word(&mut self) -> Result<Word, Located> {
        let word = self.word(&[])?;
        match word.text.is_empty() && word.star.is_none() {
            true => Err((word.at, SyntaxErrorKind::Missing { what: "a value" })),
            false => Ok(word),
        }
    }

    fn range(&mut self, field: &str, kind: AttributeKind) -> Result<Filter, Located> {
        let (start, open) = (self.at, self.peek());
        self.at += 1;
        let from = self.end_of_range(field, kind)?;
        self.skip_blanks();
        let Some(rest) = self.text[self.at..].strip_prefix("TO") else {
            return Err((start, SyntaxErrorKind::Range));
        };
        if !rest.starts_with(char::is_whitespace) {
            return Err((start, SyntaxErrorKind::Range));
        }
        self.at += 2;
        let to = self.end_of_range(field, kind)?;
        self.skip_blanks();
        let closed = self.peek().filter(|c| matches!(c, ']' | '}'));
        let Some(closed) = closed else { return Err((start, SyntaxErrorKind::Range)) };
        self.at += 1;
        let bound = |value: Option<String>, included: bool| match value {
            None => Bound::Unbounded,
            Some(value) if included => Bound::Included(value),
            Some(value) => Bound::Excluded(value),
        };
        let (from, to) = (bound(from, open == Some('[')), bound(to, closed == ']'));
        Ok(Filter::Range { field: field.to_owned(), from, to })
    }

    /// Parses a bound of a range; `None` if the range is unbounded on this side.
    fn end_of_range(
        &mut self,
        field: &str,
        kind: AttributeKind,
    ) -> Result<Option<String>, Located> {
        self.skip_blanks();
        let at = self.at;
        if self.peek() == Some('"') {
            let word = Word { at, text: self.quoted()?, star: None };
            return checked(field, kind, word).map(Some);
        }
        let word = self.word(&[']', '}'])?;
        match (word.star, word.text.as_str()) {
            (Some(_), "") => Ok(None),
            (Some(star), _) => Err((star, SyntaxErrorKind::Prefix)),
            (None, "") => Err((at, SyntaxErrorKind::Missing { what: "a value" })),
            (None, _) => checked(field, kind, word).map(Some),
        }
    }

    /// Reads characters up to a blank, a parenthesis, a weight, a quotation mark or one of
    /// `ends`.
    fn word(&mut self, ends: &[char]) -> Result<Word, Located> {
        let (start, mut text, mut star) = (self.at, String::new(), None);
        while let Some(c) = self.peek() {
            let ended = matches!(c, '(' | ')' | '^' | '"') || c.is_whitespace();
            if ended || ends.contains(&c) {
                break;
            }
            if let Some(star) = star {
                return Err((star, SyntaxErrorKind::Prefix));
            }
            let at = self.at;
            self.at += c.len_utf8();
            match c {
                '*' => star = Some(at),
                '\\' => {
                    let escaped = self.peek().ok_or((at, SyntaxErrorKind::Escape))?;
                    self.at += escaped.len_utf8();
                    text.push(escaped);
                }
                c => text.push(c),
            }
        }
        Ok(Word { at: start, text, star })
    }

    /// Reads the text between quotation marks.
    fn quoted(&mut self) -> Result<String, Located> {
        let (start, mut text) = (self.at, String::new());
        self.at += 1;
        loop {
            let c = self.peek().ok_or((start, SyntaxErrorKind::Unclosed { open: '"' }))?;
            let at = self.at;
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(text),
                '\\' => {
                    let escaped = self.peek().ok_or((at, SyntaxErrorKind::Escape))?;
                    self.at += escaped.len_utf8();
                    text.push(escaped);
                }
                c => text.push(c),
            }
        }
    }
}

/// Returns the value if it has the attribute's type.
fn checked(field: &str, kind: AttributeKind, word: Word) -> Result<String, Located> {
    match values::read(kind, &word.text) {
        Some(_) => Ok(word.text),
        None => {
            let (field, value, expected) = (field.to_owned(), word.text, values::expected(kind));
            Err((word.at, SyntaxErrorKind::Value { field, value, expected }))
        }
    }
}

/// Returns the only clause, or all clauses combined; `None` if there are none.
fn single(mut query: Bool) -> Option<Node> {
    let clauses = query.must.len() + query.should.len() + query.filter.len();
    match (clauses, query.must_not.len()) {
        (0, 0) => None,
        (1, 0) => query.must.pop().or(query.should.pop()).or(query.filter.pop()),
        _ => {
            query.least = least(&query);
            Some(Node::Bool(query))
        }
    }
}

/// Returns the minimum number of words without a sign that must match. Conditions alone are not
/// sufficient, but required words are.
pub(super) fn least(query: &Bool) -> Option<Least> {
    let needed = query.must.is_empty() && !query.should.is_empty() && !query.filter.is_empty();
    needed.then(|| Least::count(1))
}

/// Returns true if a clause contains nothing that adds to scores.
pub(super) fn is_condition(node: &Node) -> bool {
    match node {
        Node::Filter(_) => true,
        Node::Bool(query) => query.must.is_empty() && query.should.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;

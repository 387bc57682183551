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

use std::fmt::{self, Write};
use std::ops::Bound;

use warpseek_core::near;
use warpseek_text::{AttributeKind, FieldId, Schema, TextField};

use super::least::Least;
use super::tree::{Bool, Filter, MAX_TREE_DEPTH, Node, Operator, Phrase, Words, is_weight};
use super::values;

/// The name under which the syntax addresses the ids of documents.
pub(super) const ID: &str = "_id";

/// A syntax error in the text of a query, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (character {column} of the query)")]
pub struct SyntaxError {
    /// The text of the query.
    pub query: String,
    /// The byte offset of the error.
    pub at: usize,
    /// The character of the error, counted from 1.
    pub column: usize,
    /// The kind of error.
    pub kind: SyntaxErrorKind,
}

/// The kind of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxErrorKind {
    /// The schema has no such field.
    #[error("there is no field `{name}`; {}", near.as_ref().map_or_else(
        || "write `\\:` if the colon belongs to a word".to_owned(),
        |near| format!("did you mean `{near}`?")
    ))]
    UnknownField {
        /// The name.
        name: String,
        /// A similar name in the schema, if there is one.
        near: Option<String>,
    },
    /// The index has no schema, and so no fields.
    #[error(
        "the index has no schema and no field `{name}`; write `\\:` if the colon belongs to a word"
    )]
    NoSchema {
        /// The name.
        name: String,
    },
    /// A parenthesis or quotation mark is not closed.
    #[error("`{open}` is not closed")]
    Unclosed {
        /// The opening character.
        open: char,
    },
    /// A closing parenthesis has no opening one.
    #[error("`)` closes nothing; write `\\)` if it belongs to a word")]
    Unopened,
    /// Something is missing.
    #[error("{what} is missing here")]
    Missing {
        /// Description of the missing part.
        what: &'static str,
    },
    /// A weight is not a number, or out of range.
    #[error("`{text}` is not a weight; it must be a number above 0 and up to 1e9")]
    Weight {
        /// The given text.
        text: String,
    },
    /// A condition has a weight.
    #[error("a condition adds nothing to scores and cannot have a weight")]
    WeightOfCondition,
    /// A value does not have the attribute's type.
    #[error("`{value}` cannot be a value of `{field}`; it must be {expected}")]
    Value {
        /// The attribute.
        field: String,
        /// The given text.
        value: String,
        /// Description of a valid value.
        expected: &'static str,
    },
    /// A range or comparison is given for a text field.
    #[error("`{field}` is a text field; ranges and comparisons are for attributes")]
    RangeOfText {
        /// The field.
        field: String,
    },
    /// A range is malformed.
    #[error("a range is written as `[from TO to]`, or with `{{` and `}}` to exclude its bounds")]
    Range,
    /// A prefix is given for a text field, or for an attribute that does not support it.
    #[error(
        "`*` is only allowed at the end of a value of a keyword attribute; write `\\*` if it belongs to a word"
    )]
    Prefix,
    /// A phrase is searched for in fields without positions.
    #[error(
        "{} no positions to find phrases with; rebuild the index with `--positions`, or search for the words with `(` and `)`, each with `+` if all are required",
        field.as_ref().map_or_else(|| "the index has".to_owned(), |field| format!("`{field}` has"))
    )]
    Phrase {
        /// The field, if the phrase is not for all fields.
        field: Option<String>,
    },
    /// A slop is not a number, or out of range.
    #[error("`{text}` is not a slop; it must be a number from 0 to {}", u32::MAX)]
    Slop {
        /// The given text.
        text: String,
    },
    /// A value of an attribute has a sign.
    #[error("the values of an attribute cannot have a sign; put it before the attribute")]
    SignOfValue,
    /// The last backslash is not followed by a character.
    #[error("`\\` must be followed by the character that it escapes")]
    Escape,
    /// Parentheses are nested too deeply.
    #[error("more than {MAX_TREE_DEPTH} parentheses are nested")]
    TooDeep,
}

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

/// Formats a tree as text that [`parse`] parses to the same tree with [`Operator::Or`]; `None` if
/// there is no such text, because trees can express more than the syntax.
pub fn display(node: &Node) -> Option<String> {
    let mut out = String::new();
    match node {
        Node::Nothing => {}
        Node::Bool(query) => write_clauses(query, &mut out)?,
        node => write_clause("", node, &mut out)?,
    }
    Some(out)
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

/// Returns the names of all fields.
pub(super) fn names(schema: &Schema) -> impl Iterator<Item = &str> {
    let text = schema.text().iter().map(|field| field.name.as_str());
    text.chain(schema.attributes().iter().map(|attribute| attribute.name.as_str())).chain([ID])
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
fn least(query: &Bool) -> Option<Least> {
    let needed = query.must.is_empty() && !query.should.is_empty() && !query.filter.is_empty();
    needed.then(|| Least::count(1))
}

/// Returns true if a clause contains nothing that adds to scores.
fn is_condition(node: &Node) -> bool {
    match node {
        Node::Filter(_) => true,
        Node::Bool(query) => query.must.is_empty() && query.should.is_empty(),
        _ => false,
    }
}

fn write_clauses(query: &Bool, out: &mut String) -> Option<()> {
    let Bool { must, should, must_not, filter, skip_empty, .. } = query;
    // The parser makes other trees of such lists.
    let alone = must.len() + should.len() + filter.len() == 1 && must_not.is_empty();
    let scored = must.iter().chain(should);
    let scored = !scored.clone().any(is_condition) && filter.iter().all(is_condition);
    let empty = must.is_empty() && should.is_empty() && must_not.is_empty() && filter.is_empty();
    if query.least != least(query) || !skip_empty || alone || !scored || empty {
        return None;
    }
    let signed = [("", should), ("+", must), ("", filter), ("-", must_not)];
    let start = out.len();
    for (sign, nodes) in signed {
        for node in nodes {
            if out.len() > start {
                out.push(' ');
            }
            write_clause(sign, node, out)?;
        }
    }
    Some(())
}

fn write_clause(sign: &str, node: &Node, out: &mut String) -> Option<()> {
    out.push_str(sign);
    match node {
        Node::Boost(inner, weight) => {
            if is_condition(inner) || !is_weight(*weight) {
                return None;
            }
            write_unit(inner, out)?;
            write!(out, "^{weight}").ok()
        }
        node => write_unit(node, out),
    }
}

fn write_unit(node: &Node, out: &mut String) -> Option<()> {
    match node {
        Node::Words(words) => {
            match words.fields.as_slice() {
                [] => {}
                [(field, weight)] if *weight == 1.0 => write!(out, "{}:", escaped(field)).ok()?,
                _ => return None,
            }
            let fields = words.fields.iter().map(|(field, _)| field.clone());
            if words.text.is_empty() || *words != Words::any(fields, words.text.as_str()) {
                return None;
            }
            out.push_str(&escaped(&words.text));
        }
        Node::Phrase(phrase) => {
            match phrase.fields.as_slice() {
                [] => {}
                [(field, weight)] if *weight == 1.0 => write!(out, "{}:", escaped(field)).ok()?,
                _ => return None,
            }
            if phrase.text.trim().is_empty() {
                return None;
            }
            out.push_str(&quoted(&phrase.text));
            if phrase.slop > 0 {
                write!(out, "~{}", phrase.slop).ok()?;
            }
        }
        Node::Filter(filter) => write_filter(filter, out)?,
        Node::All => out.push('*'),
        Node::Bool(query) => {
            out.push('(');
            write_clauses(query, out)?;
            out.push(')');
        }
        // The node already has a weight, so it needs parentheses.
        Node::Boost(..) => {
            out.push('(');
            write_clause("", node, out)?;
            out.push(')');
        }
        Node::Term { .. }
        | Node::Best { .. }
        | Node::Constant { .. }
        | Node::IfEmpty { .. }
        | Node::Nothing => return None,
    }
    Some(())
}

fn write_filter(filter: &Filter, out: &mut String) -> Option<()> {
    let several = |values: &[String]| match values {
        [] => None,
        [value] => Some(escaped_value(value)),
        values => {
            let values: Vec<String> = values.iter().map(|value| escaped_value(value)).collect();
            Some(format!("({})", values.join(" ")))
        }
    };
    match filter {
        Filter::Terms { field, values } => {
            write!(out, "{}:{}", escaped(field), several(values)?).ok()
        }
        Filter::Ids(ids) => write!(out, "{ID}:{}", several(ids)?).ok(),
        Filter::Prefix { prefix, .. } if prefix.is_empty() => None,
        Filter::Prefix { field, prefix } => {
            write!(out, "{}:{}*", escaped(field), escaped(prefix)).ok()
        }
        Filter::Exists { field } => write!(out, "{}:*", escaped(field)).ok(),
        Filter::Range { field, from, to } => {
            let end = |bound: &Bound<String>| match bound {
                Bound::Unbounded => "*".to_owned(),
                Bound::Included(value) | Bound::Excluded(value) => quoted(value),
            };
            let open = if matches!(from, Bound::Excluded(_)) { '{' } else { '[' };
            let close = if matches!(to, Bound::Excluded(_)) { '}' } else { ']' };
            write!(out, "{}:{open}{} TO {}{close}", escaped(field), end(from), end(to)).ok()
        }
    }
}

/// Writes a word with a backslash before every character that has a special meaning somewhere.
fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        let special = matches!(
            c,
            '\\' | '+'
                | '-'
                | ':'
                | '^'
                | '"'
                | '*'
                | '('
                | ')'
                | '['
                | ']'
                | '{'
                | '}'
                | '<'
                | '>'
                | '='
        );
        if special || c.is_whitespace() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Writes a value as a word, or between quotation marks if it is empty.
fn escaped_value(value: &str) -> String {
    if value.is_empty() { quoted(value) } else { escaped(value) }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

impl SyntaxError {
    /// Shows the place of the error in two lines: a part of the query of at most `width`
    /// characters, and a `^` under the wrong character.
    pub fn caret(&self, width: usize) -> String {
        let width = width.max(8);
        let shown: Vec<char> =
            self.query.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let place = (self.column - 1).min(shown.len());
        let start = if shown.len() < width { 0 } else { place.saturating_sub(width / 2) };
        let end = shown.len().min(start + width);
        let part: String = shown[start..end].iter().collect();
        let mut lines = String::new();
        // Writing to a string cannot fail.
        let _: fmt::Result = write!(lines, "{part}\n{}^", " ".repeat(place - start));
        lines
    }
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;

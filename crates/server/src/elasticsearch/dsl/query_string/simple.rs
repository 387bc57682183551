//! `simple_query_string`, with the semantics of Lucene's simple parser: no text is an error.
//! Operators apply from left to right. When the operator changes, everything before it becomes
//! one operand, so `a + b | c` is `(a + b) | c`.
//!
//! A `-` before a clause turns it into the set of all other documents, whatever operator joins it
//! to the rest.

use serde_json::Value;
use warpseek::query::{Across, Bool, MAX_TREE_DEPTH, Node, Operator, Words};

use super::{MAX_DEPTH, Translator, prefixes, with_least};
use crate::elasticsearch::dsl::{boosted, constant};
use crate::error::Failure;

/// The enabled operators; disabled ones are read as text. The numbers are those that clients may
/// send instead of names.
#[derive(Clone, Copy)]
struct Flags(u32);

impl Flags {
    const AND: u32 = 1;
    const NOT: u32 = 2;
    const OR: u32 = 4;
    const PREFIX: u32 = 8;
    const PHRASE: u32 = 16;
    const PRECEDENCE: u32 = 32;
    const ESCAPE: u32 = 64;
    const WHITESPACE: u32 = 128;
    const FUZZY: u32 = 256;
    const NEAR: u32 = 512;

    fn parse(given: Option<&Value>) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::parsing(format!(
                "[simple_query_string] [flags]: {what} is unknown; use ALL, NONE, AND, OR, NOT, PREFIX, PHRASE, PRECEDENCE, ESCAPE, WHITESPACE, FUZZY, NEAR or SLOP, separated by |"
            ))
        };
        let names = match given {
            None | Some(Value::Null) => return Ok(Flags(u32::MAX)),
            Some(Value::String(names)) => names,
            Some(number) => {
                let number = number.as_i64().ok_or_else(|| wrong(&number.to_string()))?;
                // As in Elasticsearch, a negative number enables all.
                return Ok(Flags(u32::try_from(number).unwrap_or(u32::MAX)));
            }
        };
        let mut flags = 0;
        for name in names.split('|').map(str::trim).filter(|name| !name.is_empty()) {
            flags |= match name.to_uppercase().as_str() {
                "ALL" => u32::MAX,
                "NONE" => 0,
                "AND" => Self::AND,
                "NOT" => Self::NOT,
                "OR" => Self::OR,
                "PREFIX" => Self::PREFIX,
                "PHRASE" => Self::PHRASE,
                "PRECEDENCE" => Self::PRECEDENCE,
                "ESCAPE" => Self::ESCAPE,
                "WHITESPACE" => Self::WHITESPACE,
                "FUZZY" => Self::FUZZY,
                "NEAR" | "SLOP" => Self::NEAR,
                _ => return Err(wrong(&format!("[{name}]"))),
            };
        }
        Ok(Flags(flags))
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

impl Translator<'_> {
    pub(in crate::elasticsearch::dsl) fn simple_query_string(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let allowed = [
            "query",
            "fields",
            "default_operator",
            "boost",
            "lenient",
            "analyze_wildcard",
            "minimum_should_match",
            "flags",
            "auto_generate_synonyms_phrase_query",
            "analyzer",
            "fuzzy_prefix_length",
            "fuzzy_max_expansions",
            "fuzzy_transpositions",
        ];
        let parts = self.parts(clause, body, &allowed)?;
        if parts.get("analyzer").is_some() {
            return Err(Failure::unsupported(&format!("{clause} with [analyzer]")));
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let fields = self.fields(clause, parts.get("fields"))?;
        let (operator, flags) = (parts.operator("default_operator")?, parts.get("flags"));
        let flags = Flags::parse(flags)?;
        let node = match text.trim() {
            "*" => Node::All,
            _ => {
                let text: Vec<char> = text.chars().collect();
                let mut parser = Simple::new(self, &text, flags, operator, fields, scored);
                parser.query(0, text.len(), 0)?.unwrap_or(Node::Nothing)
            }
        };
        Ok(boosted(with_least(node, parts)?, parts.boost()?))
    }
}

struct Simple<'a, 'b> {
    of: &'a mut Translator<'b>,
    text: &'a [char],
    /// Position of the closing parenthesis of each opening one.
    closed: Vec<Option<usize>>,
    flags: Flags,
    operator: Operator,
    fields: Vec<(String, f64)>,
    scored: bool,
    at: usize,
}

/// The parser's state within one pair of parentheses.
#[derive(Default)]
struct Read {
    /// The clauses so far as one query, and the operator that joins them.
    top: Option<(Node, Option<Operator>)>,
    /// The operator before the next clause, if it was given.
    operator: Option<Operator>,
    /// True if the next clause is negated.
    not: bool,
    /// Number of changes of the operator.
    changes: usize,
}

impl<'a, 'b> Simple<'a, 'b> {
    fn new(
        translator: &'a mut Translator<'b>,
        text: &'a [char],
        flags: Flags,
        operator: Operator,
        fields: Vec<(String, f64)>,
        scored: bool,
    ) -> Self {
        // As in Lucene, quotation marks do not hide parentheses.
        let (mut closed, mut open) = (vec![None; text.len()], Vec::new());
        let mut at = 0;
        while at < text.len() {
            match text[at] {
                '\\' if flags.has(Flags::ESCAPE) => at += 1,
                '(' => open.push(at),
                ')' => {
                    if let Some(start) = open.pop() {
                        closed[start] = Some(at);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Simple { of: translator, text, closed, flags, operator, fields, scored, at: 0 }
    }

    /// Parses the query between two positions.
    fn query(&mut self, start: usize, end: usize, depth: usize) -> Result<Option<Node>, Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::parsing(format!(
                "parentheses may be nested at most {MAX_DEPTH} levels deep"
            )));
        }
        let mut read = Read::default();
        self.at = start;
        while self.at < end {
            let c = self.text[self.at];
            match c {
                '(' if self.flags.has(Flags::PRECEDENCE) => match self.closed[self.at] {
                    Some(close) if close == self.at + 1 => {
                        read.operator = None;
                        self.at = close + 1;
                    }
                    Some(close) if close < end => {
                        let inner = self.query(self.at + 1, close, depth + 1)?;
                        self.add(&mut read, inner)?;
                        self.at = close + 1;
                    }
                    // An unmatched parenthesis is ignored.
                    _ => self.at += 1,
                },
                ')' if self.flags.has(Flags::PRECEDENCE) => self.at += 1,
                '"' if self.flags.has(Flags::PHRASE) => self.phrase(&mut read, end)?,
                '+' if self.flags.has(Flags::AND) => {
                    self.at += 1;
                    if read.top.is_some() {
                        read.operator = read.operator.or(Some(Operator::And));
                    }
                }
                '|' if self.flags.has(Flags::OR) => {
                    self.at += 1;
                    if read.top.is_some() {
                        read.operator = read.operator.or(Some(Operator::Or));
                    }
                }
                '-' if self.flags.has(Flags::NOT) => {
                    self.at += 1;
                    read.not = !read.not;
                    // The sign applies only to what follows immediately.
                    continue;
                }
                c if c.is_whitespace() && self.flags.has(Flags::WHITESPACE) => self.at += 1,
                _ => self.word(&mut read, end)?,
            }
            read.not = false;
        }
        Ok(read.top.map(|(node, _)| node))
    }

    /// Returns true if this character ends a word.
    fn ends_word(&self, c: char) -> bool {
        match c {
            '"' => self.flags.has(Flags::PHRASE),
            '|' => self.flags.has(Flags::OR),
            '+' => self.flags.has(Flags::AND),
            '(' | ')' => self.flags.has(Flags::PRECEDENCE),
            c => c.is_whitespace() && self.flags.has(Flags::WHITESPACE),
        }
    }

    fn phrase(&mut self, read: &mut Read, end: usize) -> Result<(), Failure> {
        let (start, mut words, mut at) = (self.at + 1, String::new(), self.at + 1);
        while at < end && self.text[at] != '"' {
            if self.text[at] == '\\' && self.flags.has(Flags::ESCAPE) {
                at += 1;
            }
            words.extend(self.text[..end].get(at));
            at += 1;
        }
        if at >= end {
            // An unclosed quotation mark is ignored.
            self.at = start;
            return Ok(());
        }
        self.at = at + 1;
        if at == start {
            read.operator = None;
            return Ok(());
        }
        let is_near = self.flags.has(Flags::NEAR) && self.text[..end].get(self.at) == Some(&'~');
        let slop = match is_near {
            true if self.at + 1 < end => self.number(end)?,
            // As in Lucene, a tilde at the very end is ignored.
            true => {
                self.at += 1;
                0
            }
            false => 0,
        };
        let node = self.of.phrase(&self.fields, &words, slop, 0.0, self.scored)?;
        self.add(read, Some(node))
    }

    /// Reads the number after `~`: 2 if it is missing, and 0 if it is something else.
    fn number(&mut self, end: usize) -> Result<u32, Failure> {
        let start = self.at + 1;
        self.at = start;
        while self.at < end && !self.ends_word(self.text[self.at]) {
            self.at += 1;
        }
        let digits: String = self.text[start..self.at].iter().collect();
        match digits.as_str() {
            "" => Ok(2),
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .map_err(|_| Failure::parsing(format!("[~{digits}]: the number is too large"))),
            _ => Ok(0),
        }
    }

    fn word(&mut self, read: &mut Read, end: usize) -> Result<(), Failure> {
        let (mut word, mut is_prefix) = (String::new(), false);
        let mut fuzziness = 0;
        while self.at < end {
            let mut c = self.text[self.at];
            if c == '\\' && self.flags.has(Flags::ESCAPE) {
                is_prefix = false;
                self.at += 1;
                let Some(&escaped) = self.text[..end].get(self.at) else { break };
                c = escaped;
            } else if self.ends_word(c) {
                break;
            } else if c == '~' && !word.is_empty() && self.flags.has(Flags::FUZZY) {
                fuzziness = self.number(end)?;
                break;
            } else {
                is_prefix = c == '*' && !word.is_empty() && self.flags.has(Flags::PREFIX);
            }
            word.push(c);
            self.at += 1;
        }
        if word.is_empty() {
            return Ok(());
        }
        let node = if fuzziness > 0 {
            return Err(Failure::unsupported("fuzzy search [~] in a query string"));
        } else if is_prefix {
            word.pop();
            prefixes(self.of, &self.fields, &word, 1.0, self.scored)?
        } else {
            let across = match self.fields.len() {
                0 | 1 => Across::Most,
                _ => Across::Best { tie_breaker: 1.0 },
            };
            let words = Words { across, ..Words::any([], word) };
            self.of.words(&self.fields, &words, self.scored)?
        };
        self.add(read, Some(node))
    }

    /// Joins a clause to those before it.
    fn add(&self, read: &mut Read, clause: Option<Node>) -> Result<(), Failure> {
        let Some(mut clause) = clause else { return Ok(()) };
        if read.not {
            let others = Bool { must_not: vec![clause], skip_empty: true, ..Bool::default() };
            clause = constant(Node::Bool(others), 1.0, self.scored);
        }
        let operator = read.operator.take().unwrap_or(self.operator);
        read.top = Some(match read.top.take() {
            None => (clause, None),
            Some((Node::Bool(mut all), Some(before))) if before == operator => {
                of_operator(&mut all, operator).push(clause);
                (Node::Bool(all), Some(operator))
            }
            Some((first, _)) => {
                read.changes += 1;
                if read.changes > MAX_TREE_DEPTH {
                    return Err(Failure::parsing(format!(
                        "[+] and [|] alternate more than {MAX_TREE_DEPTH} times; use parentheses"
                    )));
                }
                let mut all = Bool { skip_empty: true, ..Bool::default() };
                of_operator(&mut all, operator).extend([first, clause]);
                (Node::Bool(all), Some(operator))
            }
        });
        Ok(())
    }
}

/// Returns the list of clauses that an operator joins.
fn of_operator(all: &mut Bool, operator: Operator) -> &mut Vec<Node> {
    match operator {
        Operator::And => &mut all.must,
        Operator::Or => &mut all.should,
    }
}

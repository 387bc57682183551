//! The tokens of a `query_string`.

use std::iter::Peekable;
use std::str::Chars;

use crate::error::Failure;

/// A token of a query string.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    /// A word that begins with `<` or `>`. After the name of a field, it is a comparison.
    Compared(String),
    /// A word with a `*` at its end, without the `*`.
    Prefix(String),
    /// A single `*`.
    Star,
    /// Any other word with `*` or `?`.
    Wildcard,
    /// The text between quotation marks, and the slop if it is given.
    Phrase(String, Option<u32>),
    Field(String),
    Open,
    Close,
    Plus,
    Minus,
    And,
    Or,
    Not,
    Boost(f64),
    /// A range `[a TO b]` as written.
    Range(String),
    Fuzzy,
}

/// Returns true for characters that end a word unless they follow a `\`.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '(' | ')' | '^' | '~' | ':' | '[' | '{')
}

/// The rest of a text.
type Rest<'a> = Peekable<Chars<'a>>;

/// Splits a text into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Failure> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    let bad = |what: &str| Failure::parsing(format!("Failed to parse query [{text}]: {what}"));
    let slashes = text.matches('/').count();
    while let Some(&c) = rest.peek() {
        match c {
            c if c.is_whitespace() => {
                rest.next();
            }
            '(' | ')' => {
                rest.next();
                tokens.push(if c == '(' { Token::Open } else { Token::Close });
            }
            '+' | '-' | '!' => {
                rest.next();
                tokens.push(if c == '+' { Token::Plus } else { Token::Minus });
            }
            '"' => tokens.push(phrase(&mut rest).map_err(bad)?),
            '[' | '{' => tokens.push(range(&mut rest).map_err(bad)?),
            '^' => {
                rest.next();
                let mut number = String::new();
                while let Some(c) = rest.next_if(|c| c.is_ascii_digit() || *c == '.') {
                    number.push(c);
                }
                tokens
                    .push(Token::Boost(number.parse().map_err(|_| bad("a number must follow ^"))?));
            }
            '~' => {
                rest.next();
                while rest.next_if(char::is_ascii_digit).is_some() {}
                tokens.push(Token::Fuzzy);
            }
            ':' => return Err(bad("a field must precede [:]")),
            '/' if slashes > 1 => {
                return Err(Failure::unsupported(
                    "regexp in a query string (write \\/ for a slash within a word)",
                ));
            }
            _ => tokens.push(word(&mut rest)),
        }
    }
    Ok(tokens)
}

/// Reads a phrase between quotation marks, and its slop.
fn phrase(rest: &mut Rest<'_>) -> Result<Token, &'static str> {
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
    if !closed {
        return Err("a quotation mark is not closed");
    }
    let mut slop = String::new();
    if rest.next_if_eq(&'~').is_some() {
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            slop.push(digit);
        }
    }
    let slop = match slop.is_empty() {
        true => None,
        false => Some(slop.parse().map_err(|_| "the slop of a phrase is too large")?),
    };
    Ok(Token::Phrase(words, slop))
}

/// Reads a range up to its closing bracket.
fn range(rest: &mut Rest<'_>) -> Result<Token, &'static str> {
    let mut range = String::new();
    for c in rest.by_ref() {
        range.push(c);
        if matches!(c, ']' | '}') {
            return Ok(Token::Range(range));
        }
    }
    Err("a range is not closed")
}

/// Reads a word: a term, an operator, the name of a field before a colon, or a pattern.
fn word(rest: &mut Rest<'_>) -> Token {
    let is_comparison = matches!(rest.peek(), Some('<' | '>'));
    let (mut word, mut escaped, mut wild) = (String::new(), false, 0);
    let mut ends_with_star = false;
    while let Some(c) = rest.next_if(|&c| !ends_word(c)) {
        ends_with_star = c == '*';
        if c == '\\' {
            escaped = true;
            word.extend(rest.next());
        } else {
            wild += usize::from(matches!(c, '*' | '?'));
            word.push(c);
        }
    }
    if rest.next_if_eq(&':').is_some() {
        return Token::Field(word);
    }
    match word.as_str() {
        "AND" | "&&" if !escaped => Token::And,
        "OR" | "||" if !escaped => Token::Or,
        "NOT" if !escaped => Token::Not,
        "*" if wild == 1 => Token::Star,
        _ if wild == 1 && ends_with_star => {
            word.pop();
            Token::Prefix(word)
        }
        _ if wild > 0 => Token::Wildcard,
        _ if is_comparison && word.len() > 1 => Token::Compared(word),
        _ => Token::Word(word),
    }
}

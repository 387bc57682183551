//! Formats query trees in the syntax of queries.

use std::fmt::Write;
use std::ops::Bound;

use super::fields::ID;
use super::limits::is_weight;
use super::syntax::{is_condition, least};
use super::tree::{Bool, Filter, Node, Words};

/// Formats a tree as text that [`parse`](super::parse) parses to the same tree with
/// [`Operator::Or`](super::Operator::Or); `None` if there is no such text, because trees can
/// express more than the syntax.
pub fn display(node: &Node) -> Option<String> {
    let mut out = String::new();
    match node {
        Node::Nothing => {}
        Node::Bool(query) => write_clauses(query, &mut out)?,
        node => write_clause("", node, &mut out)?,
    }
    Some(out)
}

fn write_clauses(query: &Bool, out: &mut String) -> Option<()> {
    let Bool { must, should, must_not, filter, skip_empty, .. } = query;
    // The parser creates other trees from such lists.
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
pub(super) fn escaped(word: &str) -> String {
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

//! Keys of filters: equal bytes for filters with the same meaning, so that a cache finds them.

use std::ops::Bound;
use std::sync::Arc;

use super::filter::{Filter, key_bound, text_bound};
use super::numbers::inclusive;
use super::{AttributeKind, AttributeValue};

impl Filter {
    /// Returns bytes that distinguish the filter from filters that admit other documents.
    ///
    /// Filters that differ only in the order of their parts, in repetitions, in nesting, or in
    /// the way they write a value or a range have the same key.
    pub fn key(&self) -> Arc<[u8]> {
        self.encode().into()
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Filter::Everything => vec![tag::EVERYTHING],
            Filter::Nothing => vec![tag::NOTHING],
            Filter::Exists { column } => leaf(tag::EXISTS, *column, &[]),
            Filter::Prefix { column, prefix } => leaf(tag::PREFIX, *column, prefix.as_bytes()),
            Filter::Term { column, value } => encode_terms(*column, std::slice::from_ref(value)),
            Filter::Terms { column, values } => encode_terms(*column, values),
            Filter::Range { column, from, to } => encode_range(*column, from, to),
            Filter::All(filters) => encode_all(filters.iter().map(Filter::encode).collect()),
            Filter::Any { of: filters, least } => {
                encode_any(filters.iter().map(Filter::encode).collect(), *least)
            }
            Filter::Not(filter) => match &filter.encode()[..] {
                [tag::EVERYTHING] => vec![tag::NOTHING],
                [tag::NOTHING] => vec![tag::EVERYTHING],
                [tag::NOT, inner @ ..] => inner.to_vec(),
                other => [&[tag::NOT], other].concat(),
            },
        }
    }
}

/// First bytes of encoded filters.
mod tag {
    pub(super) const EVERYTHING: u8 = 0;
    pub(super) const NOTHING: u8 = 1;
    pub(super) const EXISTS: u8 = 2;
    pub(super) const PREFIX: u8 = 3;
    pub(super) const TERMS: u8 = 4;
    pub(super) const NUMBERS: u8 = 5;
    pub(super) const KEYWORDS: u8 = 6;
    pub(super) const ALL: u8 = 7;
    pub(super) const ANY: u8 = 8;
    pub(super) const NOT: u8 = 9;
}

fn leaf(tag: u8, column: u16, rest: &[u8]) -> Vec<u8> {
    [&[tag], &column.to_le_bytes()[..], rest].concat()
}

/// Concatenates parts, each after its length, so that no two sequences give the same bytes.
fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    let with_length = |part: &Vec<u8>| [&(part.len() as u64).to_le_bytes()[..], part].concat();
    parts.iter().flat_map(with_length).collect()
}

fn sorted(mut parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    parts.sort_unstable();
    parts
}

/// Returns kind and value as bytes, or `None` for NaN, which equals nothing.
fn encode_value(value: &AttributeValue) -> Option<Vec<u8>> {
    let rest = match value {
        AttributeValue::Keyword(text) => text.as_bytes().to_vec(),
        number => number.key()?.to_le_bytes().to_vec(),
    };
    Some([&[value.kind() as u8], &rest[..]].concat())
}

fn encode_terms(column: u16, values: &[AttributeValue]) -> Vec<u8> {
    let mut values = sorted(values.iter().filter_map(encode_value).collect());
    values.dedup();
    match values.len() {
        0 => vec![tag::NOTHING],
        _ => leaf(tag::TERMS, column, &sequence(&values)),
    }
}

fn encode_range(column: u16, from: &Bound<AttributeValue>, to: &Bound<AttributeValue>) -> Vec<u8> {
    let kind = match (from, to) {
        (Bound::Included(value) | Bound::Excluded(value), _) => value.kind(),
        (_, Bound::Included(value) | Bound::Excluded(value)) => value.kind(),
        (Bound::Unbounded, Bound::Unbounded) => return leaf(tag::EXISTS, column, &[]),
    };
    if kind == AttributeKind::Keyword {
        let (Some(from), Some(to)) = (text_bound(from), text_bound(to)) else {
            return vec![tag::NOTHING];
        };
        let bounds = [from, to].map(|bound| match bound {
            Bound::Included(text) => ["i", text].concat().into_bytes(),
            Bound::Excluded(text) => ["e", text].concat().into_bytes(),
            Bound::Unbounded => Vec::new(),
        });
        return leaf(tag::KEYWORDS, column, &sequence(&bounds));
    }
    let keys = key_bound(from, kind).zip(key_bound(to, kind));
    match keys.and_then(|(from, to)| inclusive(from, to)) {
        None => vec![tag::NOTHING],
        Some((key, high)) if key == high => {
            let value = [&[kind as u8], &key.to_le_bytes()[..]].concat();
            leaf(tag::TERMS, column, &sequence(&[value]))
        }
        Some((low, high)) => {
            let rest = [&[kind as u8], &low.to_le_bytes()[..], &high.to_le_bytes()].concat();
            leaf(tag::NUMBERS, column, &rest)
        }
    }
}

fn encode_all(parts: Vec<Vec<u8>>) -> Vec<u8> {
    let mut flat = Vec::new();
    for part in parts {
        match &part[..] {
            [tag::EVERYTHING] => {}
            [tag::ALL, inner @ ..] => flat.extend(split(inner)),
            _ => flat.push(part),
        }
    }
    let mut parts = sorted(flat);
    parts.dedup();
    if parts.contains(&vec![tag::NOTHING]) {
        return vec![tag::NOTHING];
    }
    match &parts[..] {
        [] => vec![tag::EVERYTHING],
        [part] => part.clone(),
        _ => [&[tag::ALL], &sequence(&parts)[..]].concat(),
    }
}

fn encode_any(mut parts: Vec<Vec<u8>>, least: usize) -> Vec<u8> {
    // A filter that admits everything contributes one for every document; a filter that admits
    // nothing never contributes.
    let given = parts.len();
    parts.retain(|part| part[..] != [tag::EVERYTHING]);
    let least = least.saturating_sub(given - parts.len());
    parts.retain(|part| part[..] != [tag::NOTHING]);
    let mut parts = sorted(parts);
    if least == 1 {
        parts.dedup();
    }
    match (least, parts.len()) {
        (0, _) => vec![tag::EVERYTHING],
        (least, given) if least > given => vec![tag::NOTHING],
        (least, given) if least == given => encode_all(parts),
        _ => {
            let least = (least as u64).to_le_bytes();
            [&[tag::ANY], &least[..], &sequence(&parts)].concat()
        }
    }
}

/// Splits a [`sequence`] into its parts.
fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let (part, rest) = rest.split_at(u64::from_le_bytes(*len) as usize);
        parts.push(part.to_vec());
        bytes = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_other_meaning_have_other_keys() {
        let keyword = |text: &str| AttributeValue::Keyword(text.to_owned().into());
        let term = |column, text| Filter::Term { column, value: keyword(text) };
        let range = |from, to| Filter::Range { column: 1, from, to };
        let any = |filters: &[&Filter], least| Filter::Any {
            of: filters.iter().map(|&filter| filter.clone()).collect(),
            least,
        };
        let (a, b, c) = (term(1, "a"), term(1, "b"), term(1, "c"));
        let one = || AttributeValue::Integer(1);
        let all = [
            Filter::Everything,
            Filter::Nothing,
            a.clone(),
            b.clone(),
            term(2, "a"),
            term(1, ""),
            Filter::Terms { column: 1, values: vec![keyword("a"), keyword("b")] },
            Filter::Terms { column: 1, values: vec![keyword("ab")] },
            Filter::Prefix { column: 1, prefix: "a".into() },
            Filter::Exists { column: 1 },
            Filter::Term { column: 1, value: one() },
            Filter::Term { column: 1, value: AttributeValue::Date(1) },
            range(Bound::Included(one()), Bound::Unbounded),
            range(Bound::Excluded(one()), Bound::Unbounded),
            range(Bound::Unbounded, Bound::Included(one())),
            range(Bound::Included(keyword("a")), Bound::Unbounded),
            range(Bound::Excluded(keyword("a")), Bound::Unbounded),
            range(Bound::Unbounded, Bound::Excluded(keyword("a"))),
            range(Bound::Included(keyword("")), Bound::Excluded(keyword("a"))),
            Filter::All(vec![a.clone(), b.clone()]),
            Filter::All(vec![a.clone(), b.clone(), c.clone()]),
            any(&[&a, &b], 1),
            any(&[&a, &b, &c], 1),
            any(&[&a, &b, &c], 2),
            any(&[&a, &a, &b], 2),
            Filter::Not(Box::new(a.clone())),
            Filter::Not(Box::new(Filter::All(vec![a.clone(), b.clone()]))),
            Filter::All(vec![Filter::Not(Box::new(a)), b]),
        ];
        for (i, one) in all.iter().enumerate() {
            for other in &all[..i] {
                assert_ne!(one.key(), other.key(), "{one:?} and {other:?}");
            }
        }
    }
}

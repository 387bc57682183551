//! Tests that compare columns with a scan of the values that were written.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::error::IndexError;
use crate::files::container::{Kind, Sealed, SealedWriter, seal_bytes};

/// The attribute values of one document.
pub(super) type Document = Vec<(u16, AttributeValue)>;

/// Numbers of the attributes in these tests.
pub(super) const TAGS: u16 = 0;
pub(super) const NAME: u16 = 3;
pub(super) const NUMBERS: [u16; 4] = [1, 2, 7, 300];
/// An attribute of which no document has a value.
pub(super) const UNUSED: u16 = 5;

pub(super) fn keyword() -> impl Strategy<Value = AttributeValue> {
    prop_oneof!["[ab]{0,3}", "[a-d]{1,2}", "\\PC{0,9}"]
        .prop_map(|text| AttributeValue::Keyword(text.into()))
}

/// Generates a value of the attribute `NUMBERS[i]`.
pub(super) fn number(i: usize) -> BoxedStrategy<AttributeValue> {
    match i {
        0 => prop_oneof![-20i64..20, (-9i64..9).prop_map(|n| n * 1000), any::<i64>()]
            .prop_map(AttributeValue::Integer)
            .boxed(),
        1 => prop_oneof![
            (-8i32..8).prop_map(|n| f64::from(n) / 4.0),
            Just(-0.0),
            proptest::num::f64::ANY.prop_filter("NaN is refused", |x| !x.is_nan()),
        ]
        .prop_map(AttributeValue::Float)
        .boxed(),
        2 => any::<bool>().prop_map(AttributeValue::Boolean).boxed(),
        _ => (0i64..40).prop_map(|day| AttributeValue::Date(day * 86_400_000)).boxed(),
    }
}

/// Generates a document that has every attribute, or each with a probability of one half.
fn document(full: bool) -> impl Strategy<Value = Document> {
    let tags = vec(keyword(), if full { 1..4 } else { 0..4 });
    let numbers = (number(0), number(1), number(2), number(3));
    (tags, keyword(), numbers, any::<[bool; 5]>()).prop_map(
        move |(tags, name, (a, b, c, d), has)| {
            let mut values = vec![(NAME, name)];
            values.extend(NUMBERS.into_iter().zip([a, b, c, d]));
            let mut has = has.into_iter();
            values.retain(|_| full | has.next().unwrap());
            values.extend(tags.into_iter().map(|tag| (TAGS, tag)));
            values
        },
    )
}

/// Generates documents; in some cases all have a value of every attribute, in some none has any.
pub(super) fn documents() -> impl Strategy<Value = Vec<Document>> {
    prop_oneof![
        4 => vec(document(false), 0..200),
        1 => vec(Just(Document::new()), 0..70),
        1 => vec(document(true), 1..70),
    ]
}

pub(super) fn write(documents: &[Document], positions: Option<&[u32]>) -> Vec<u8> {
    let mut writer = AttributesWriter::default();
    documents.iter().for_each(|values| writer.push(values).unwrap());
    saved(|file| writer.write(positions, file))
}

fn saved(write: impl FnOnce(SealedWriter) -> Result<Sealed>) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = SealedWriter::create(&path, Kind::Attributes).unwrap();
    let Sealed { seal, .. } = write(file).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[bytes.len() - 8..], seal.to_le_bytes());
    bytes
}

pub(super) fn open(bytes: Vec<u8>, documents: usize) -> Result<Attributes> {
    Attributes::new(SealedFile::from_bytes("a", Kind::Attributes, bytes)?, documents as u32)
}

/// Writes columns, reads them and verifies them.
pub(super) fn columns_of(documents: &[Document]) -> Attributes {
    let attributes = open(write(documents, None), documents.len()).unwrap();
    attributes.verify().unwrap();
    attributes
}

/// Compares two values without the keys by which columns compare.
pub(super) fn compare(a: &AttributeValue, b: &AttributeValue) -> Option<Ordering> {
    use warpseek_text::AttributeValue::{Boolean, Date, Float, Integer, Keyword};
    match (a, b) {
        (Keyword(a), Keyword(b)) => Some(a.as_bytes().cmp(b.as_bytes())),
        (Integer(a), Integer(b)) | (Date(a), Date(b)) => Some(a.cmp(b)),
        (Float(a), Float(b)) => a.partial_cmp(b),
        (Boolean(a), Boolean(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

pub(super) fn is_between(
    value: &AttributeValue,
    from: &Bound<AttributeValue>,
    to: &Bound<AttributeValue>,
) -> bool {
    let after = match from {
        Bound::Included(from) => compare(from, value).is_some_and(Ordering::is_le),
        Bound::Excluded(from) => compare(from, value).is_some_and(Ordering::is_lt),
        Bound::Unbounded => true,
    };
    let before = match to {
        Bound::Included(to) => compare(value, to).is_some_and(Ordering::is_le),
        Bound::Excluded(to) => compare(value, to).is_some_and(Ordering::is_lt),
        Bound::Unbounded => true,
    };
    after && before
}

pub(super) fn bound<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Bound<T>> {
    (value, 0..3).prop_map(|(value, which)| match which {
        0 => Bound::Included(value),
        1 => Bound::Excluded(value),
        _ => Bound::Unbounded,
    })
}

/// Returns the distinct values of a document's attribute, in order.
fn values_of(document: &Document, number: u16) -> Vec<AttributeValue> {
    let mut values: Vec<_> =
        document.iter().filter(|v| v.0 == number).map(|v| v.1.clone()).collect();
    values.sort_by(|a, b| compare(a, b).unwrap());
    values.dedup();
    values
}

/// Returns the documents that have a value for which `holds`.
pub(super) fn scan(
    documents: &[Document],
    number: u16,
    holds: impl Fn(&AttributeValue) -> bool,
) -> Vec<u32> {
    let found =
        (0..).zip(documents).filter(|(_, d)| d.iter().any(|v| v.0 == number && holds(&v.1)));
    found.map(|(doc, _)| doc).collect()
}

fn collected(documents: usize, add: impl FnOnce(&mut DocSet)) -> Vec<u32> {
    let mut set = DocSet::new(documents as u32);
    add(&mut set);
    assert_eq!(set.len(), set.iter().count() as u64);
    set.iter().collect()
}

fn numbers_of(attributes: &Attributes, number: u16) -> Option<Numbers<'_>> {
    match attributes.column(number).unwrap()? {
        Column::Numbers(column) => Some(column),
        Column::Keywords(_) => panic!("column {number} has keywords"),
    }
}

fn keywords_of(attributes: &Attributes, number: u16) -> Option<Keywords<'_>> {
    match attributes.column(number).unwrap()? {
        Column::Keywords(column) => Some(column),
        Column::Numbers(_) => panic!("column {number} has numbers"),
    }
}

proptest! {
    #[test]
    fn values_are_read_back(documents in documents(), seed: u64) {
        let mut ordinals: Vec<u32> = (0..documents.len() as u32).collect();
        ordinals.sort_by_key(|&ordinal| xxhash_rust::xxh3::xxh3_64_with_seed(&ordinal.to_le_bytes(), seed));
        let mut positions = vec![0; ordinals.len()];
        (0..).zip(&ordinals).for_each(|(position, &ordinal)| positions[ordinal as usize] = position);
        let attributes = open(write(&documents, Some(&positions)), documents.len()).unwrap();
        attributes.verify().unwrap();
        let used: BTreeMap<u16, AttributeKind> =
            documents.iter().flatten().map(|(number, value)| (*number, value.kind())).collect();
        prop_assert_eq!(attributes.columns().collect::<BTreeMap<_, _>>(), used);
        for number in NUMBERS.into_iter().chain([TAGS, NAME, UNUSED]) {
            let Some(column) = attributes.column(number).unwrap() else {
                prop_assert!(scan(&documents, number, |_| true).is_empty());
                continue;
            };
            for (&ordinal, position) in ordinals.iter().zip(0..) {
                let values = values_of(&documents[ordinal as usize], number);
                prop_assert_eq!(column.has(position), !values.is_empty());
                prop_assert_eq!(column.values(position).unwrap(), values);
            }
            let mut present: Vec<u32> =
                scan(&documents, number, |_| true).iter().map(|&doc| positions[doc as usize]).collect();
            present.sort_unstable();
            prop_assert_eq!(collected(documents.len(), |set| column.exists_into(set)), present);
        }
        let sorted: Vec<Document> = ordinals.iter().map(|&o| documents[o as usize].clone()).collect();
        prop_assert!(write(&sorted, None) == write(&documents, Some(&positions)), "order is content");
    }

    #[test]
    fn ranges_of_numbers(documents in documents(), bounds in (bound(number(0)), bound(number(0)), bound(number(1)), bound(number(1))), flag in bound(number(2)), days in (bound(number(3)), bound(number(3)))) {
        let attributes = columns_of(&documents);
        let (integers, more_integers, floats, more_floats) = bounds;
        let all = [(integers, more_integers), (floats, more_floats), (flag, Bound::Unbounded), days];
        for (number, (from, to)) in NUMBERS.into_iter().zip(all) {
            let Some(column) = numbers_of(&attributes, number) else { continue };
            let key = |bound: &Bound<AttributeValue>| bound.as_ref().map(|value| value.key().unwrap());
            let found = collected(documents.len(), |set| column.range_into(key(&from), key(&to), set));
            prop_assert_eq!(found, scan(&documents, number, |value| is_between(value, &from, &to)));
        }
    }

    #[test]
    fn any_of_some_numbers(documents in documents(), integers in vec(number(0), 0..9), days in vec(number(3), 0..9)) {
        let attributes = columns_of(&documents);
        for (number, wanted) in [(NUMBERS[0], integers), (NUMBERS[3], days)] {
            let Some(column) = numbers_of(&attributes, number) else { continue };
            let mut keys: Vec<i64> = wanted.iter().filter_map(AttributeValue::key).collect();
            keys.sort_unstable();
            let found = collected(documents.len(), |set| column.any_into(&keys, set));
            prop_assert_eq!(found, scan(&documents, number, |value| wanted.contains(value)));
        }
    }

    #[test]
    fn keywords(documents in documents(), probes in vec(keyword(), 1..9), picked in vec(any::<bool>(), 200), (from, to) in (bound(keyword()), bound(keyword()))) {
        let attributes = columns_of(&documents);
        for number in [TAGS, NAME] {
            let Some(column) = keywords_of(&attributes, number) else { continue };
            let text = |value: &AttributeValue| match value {
                AttributeValue::Keyword(text) => text.to_string(),
                _ => unreachable!("only keywords"),
            };
            let distinct: BTreeSet<String> =
                documents.iter().flatten().filter(|v| v.0 == number).map(|v| text(&v.1)).collect();
            let distinct: Vec<String> = distinct.into_iter().collect();
            prop_assert_eq!(column.values() as usize, distinct.len());
            let docs = (0..documents.len()).fold(DocSet::new(documents.len() as u32), |mut docs, doc| {
                let _ = picked[doc] && docs.insert(doc as u32);
                docs
            });
            let counts = column.counts(&docs).unwrap();
            for (ordinal, value) in (0..).zip(&distinct) {
                prop_assert_eq!(&column.value(ordinal).unwrap(), value);
                prop_assert_eq!(column.find(value).unwrap(), Some(ordinal));
                let expected = scan(&documents, number, |other| text(other) == *value);
                prop_assert_eq!(column.df(ordinal).unwrap() as usize, expected.len());
                prop_assert_eq!(counts[ordinal as usize], expected.iter().filter(|&&doc| docs.contains(doc)).count() as u64);
                prop_assert_eq!(collected(documents.len(), |set| column.list_into(ordinal, set).unwrap()), expected);
            }
            prop_assert!(column.value(column.values()).is_err());
            prop_assert!(column.list_into(column.values(), &mut docs.clone()).is_err());
            for probe in probes.iter().map(text) {
                let at = distinct.iter().position(|value| *value == probe);
                prop_assert_eq!(column.find(&probe).unwrap(), at.map(|at| at as u32));
                let range = column.prefix(&probe).unwrap();
                let inside = |ordinal: usize| range.contains(&(ordinal as u32));
                for (ordinal, value) in distinct.iter().enumerate() {
                    prop_assert_eq!(inside(ordinal), value.starts_with(&probe));
                }
            }
            let range = column.range(from.as_ref().map(text).as_ref().map(String::as_str), to.as_ref().map(text).as_ref().map(String::as_str)).unwrap();
            for (ordinal, value) in (0..).zip(&distinct) {
                prop_assert_eq!(range.contains(&ordinal), is_between(&AttributeValue::Keyword(value.clone().into()), &from, &to));
            }
        }
    }

    #[test]
    fn a_merge_equals_a_build(segments in vec((documents(), any::<bool>()), 0..4), live in vec(any::<bool>(), 800), reverse: bool) {
        let mut live = live.into_iter();
        let sources: Vec<_> = segments.iter().map(|(documents, has_file)| {
            let live = (0..documents.len() as u32).filter(|_| live.next().unwrap_or(true)).map(|doc| (doc, doc));
            (columns_of(documents), live.collect::<Vec<_>>(), *has_file)
        }).collect();
        let mut kept = Vec::new();
        for ((documents, _), (_, live, has_file)) in segments.iter().zip(&sources) {
            let values = |doc: u32| if *has_file { documents[doc as usize].clone() } else { Document::new() };
            kept.extend(live.iter().map(|&(doc, _)| values(doc)));
        }
        let positions: Option<Vec<u32>> = reverse.then(|| (0..kept.len() as u32).rev().collect());
        let sources: Vec<AttributesSource<'_>> = sources.iter().map(|(attributes, live, has_file)| AttributesSource {
            attributes: has_file.then_some(attributes),
            live,
        }).collect();
        let merged = saved(|file| merge_attributes(&sources, positions.as_deref(), file));
        prop_assert!(merged == write(&kept, positions.as_deref()));
    }
}

/// Values of three zones: ascending in the first, missing in the second, and mixed in the third.
#[test]
fn zones() {
    let value = |doc: i64| match doc / 4096 {
        0 => Some(doc * 3),
        1 => None,
        _ => Some(doc * 7919 % 20_000 - 5_000),
    };
    let documents: Vec<Document> = (0..2 * 4096 + 1000)
        .map(|doc| value(doc).map(|v| (1, AttributeValue::Integer(v))).into_iter().collect())
        .collect();
    let attributes = columns_of(&documents);
    let column = numbers_of(&attributes, 1).unwrap();
    for (low, high) in [
        (0, 0),
        (-9999, 99_999),
        (3 * 64, 3 * 4095),
        (-5000, -1),
        (12_286, 30_000),
        (100, 99),
        (99_999, i64::MAX),
        (i64::MIN, i64::MAX),
    ] {
        let (from, to) = (Bound::Included(low), Bound::Included(high));
        let found = collected(documents.len(), |set| column.range_into(from, to, set));
        let is_in = |value: &AttributeValue| (low..=high).contains(&value.key().unwrap());
        assert_eq!(found, scan(&documents, 1, is_in), "{low} to {high}");
    }
    let keys = [-4999, 0, 1, 3, 12_285, 15_000];
    let found = collected(documents.len(), |set| column.any_into(&keys, set));
    assert_eq!(found, scan(&documents, 1, |value| keys.contains(&value.key().unwrap())));
}

#[test]
fn a_date_of_whole_days_takes_few_bits() {
    let days = |unit: i64| -> Vec<Document> {
        (0..1000).map(|day| vec![(0, AttributeValue::Date((day % 256) * unit))]).collect()
    };
    let size = |unit| write(&days(unit), None).len();
    assert_eq!(size(86_400_000), size(1));
    assert!((1000..1300).contains(&size(1)), "8 bits for each of 1000 documents");
}

fn sample() -> Vec<Document> {
    let word = |doc: i64| AttributeValue::Keyword(format!("w{}", doc * doc % 19).into());
    let document = |doc: i64| {
        let mut values = vec![(0, word(doc)), (3, AttributeValue::Integer(doc * 1000))];
        values.extend((doc % 3 == 0).then(|| (0, AttributeValue::Keyword("three".into()))));
        values.extend((doc % 5 != 0).then(|| (1, word(doc / 20))));
        values.extend((doc % 2 == 0).then(|| (2, AttributeValue::Float(doc as f64 / 7.0))));
        values
    };
    (0..70).map(document).collect()
}

/// Calls all functions that read. Forged bytes may cause errors and wrong values, but nothing
/// else.
fn read_everything(attributes: &Attributes) {
    let documents = attributes.documents();
    for (number, _) in attributes.columns().collect::<Vec<_>>() {
        let Ok(Some(column)) = attributes.column(number) else { continue };
        let mut set = DocSet::new(documents);
        column.exists_into(&mut set);
        for doc in 0..documents {
            let _ = column.values(doc);
        }
        match column {
            Column::Numbers(column) => {
                column.range_into(Bound::Included(-3), Bound::Excluded(30_000), &mut set);
                column.any_into(&[0, 3000, 5000], &mut set);
            }
            Column::Keywords(column) => {
                for ordinal in 0..column.values().min(100) {
                    if let Ok(value) = column.value(ordinal) {
                        let _ = column.find(&value);
                    }
                    let _ = (column.df(ordinal), column.list_into(ordinal, &mut set));
                }
                if let Ok(range) = column.prefix("w1") {
                    assert!(range.start <= range.end && range.end <= column.values());
                }
                let _ = column.counts(&DocSet::full(documents));
            }
        }
        assert!(set.iter().all(|doc| doc < documents));
    }
}

/// Whichever byte is changed, the file is refused or has other values: it contains no redundant,
/// unchecked byte.
#[test]
fn every_forged_byte_is_refused_or_changes_a_value() {
    let documents = sample();
    let file = SealedFile::from_bytes("a", Kind::Attributes, write(&documents, None)).unwrap();
    let body = file.all().unwrap();
    let values = |body: &[u8]| -> Result<Vec<Vec<AttributeValue>>> {
        let attributes = open(seal_bytes(Kind::Attributes, body), documents.len())?;
        read_everything(&attributes);
        attributes.verify()?;
        let (mut all, columns) = (Vec::new(), attributes.columns().collect::<Vec<_>>());
        for (number, _) in columns {
            let column = attributes.column(number)?.unwrap();
            all.push(vec![AttributeValue::Integer(i64::from(number))]);
            for doc in 0..attributes.documents() {
                all.push(column.values(doc)?);
            }
        }
        Ok(all)
    };
    let sound = values(body).unwrap();
    let mut refused = 0;
    for at in 0..body.len() {
        for change in [1, 0x80, 0xff] {
            let mut bad = body.to_vec();
            bad[at] ^= change;
            match values(&bad) {
                Ok(values) => assert!(values != sound, "byte {at} changed by {change}"),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > body.len() * 2, "{refused} of {} changes were noticed", body.len() * 3);
    for len in 0..body.len() {
        assert!(values(&body[..len]).is_err(), "cut to {len}");
    }
    assert!(open(seal_bytes(Kind::Attributes, body), documents.len() + 1).is_err());
}

#[test]
fn a_refused_document_leaves_no_trace() {
    let keyword = |text: &str| AttributeValue::Keyword(text.to_owned().into());
    let mut writer = AttributesWriter::default();
    writer.push(&[(1, AttributeValue::Integer(1)), (2, keyword("a")), (2, keyword("a"))]).unwrap();
    let long = "x".repeat(MAX_KEYWORD_BYTES + 1);
    let refused: [(u16, &[(u16, AttributeValue)]); 6] = [
        (4, &[(2, keyword("b")), (4, AttributeValue::Float(f64::NAN))]),
        (2, &[(2, keyword(&long))]),
        (1, &[(1, AttributeValue::Date(1))]),
        (2, &[(2, AttributeValue::Boolean(true))]),
        (1, &[(1, AttributeValue::Integer(1)), (1, AttributeValue::Integer(1))]),
        (9, &[(9, AttributeValue::Integer(1)), (9, keyword("1"))]),
    ];
    for (number, values) in refused {
        match writer.push(values) {
            Err(IndexError::Attribute { column, .. }) => assert_eq!(column, number),
            other => panic!("{values:?}: {other:?}"),
        }
    }
    writer.push(&[(2, keyword("c"))]).unwrap();
    assert_eq!(writer.documents(), 2);
    let expected: [Document; 2] =
        [vec![(1, AttributeValue::Integer(1)), (2, keyword("a"))], vec![(2, keyword("c"))]];
    assert_eq!(saved(|file| writer.write(None, file)), write(&expected, None));
}

#[test]
fn kinds_must_agree_in_a_merge() {
    let one = |value| columns_of(&[vec![(1, value)]]);
    let (a, b) = (one(AttributeValue::Integer(1)), one(AttributeValue::Date(1)));
    let source = |attributes| AttributesSource { attributes: Some(attributes), live: &[(0, 0)] };
    let dir = tempfile::tempdir().unwrap();
    let file = SealedWriter::create(&dir.path().join("a"), Kind::Attributes).unwrap();
    let error = merge_attributes(&[source(&a), source(&b)], None, file).err().unwrap().to_string();
    assert!(
        error.contains("column 1 is of kind date, in other segments of kind integer"),
        "{error}"
    );
}

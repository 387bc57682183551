//! Targets for the files of an index.

use std::ops::Bound;

use warpseek_codec::CodecId;
use warpseek_core::limits::{BLOCK, MAX_ID_BYTES};
use warpseek_index::container::{Kind, SealedFile, VERSION, VERSIONS, seal_bytes, seal_bytes_as};
use warpseek_index::log::{MAX_DOCUMENT_BYTES, Operation, replay_bytes};
use warpseek_index::{
    Attributes, BIN, Bounds, Column, Deletes, Dictionary, DocSet, Documents, FieldLengths, Glimpse,
    Ids, Keywords, List, LookUp, MAX_KEYWORD_BYTES, MAX_PAIRS, Manifest, MapList, Numbers, Parts,
    PositionReader, Positions, Store, TermInfo,
};

use crate::split;

/// Returns all kinds of files.
fn kinds() -> impl Iterator<Item = Kind> {
    [Kind::Manifest].into_iter().chain(Kind::SEGMENT).chain([Kind::Deletes])
}

fn sealed(kind: Kind, body: &[u8]) -> SealedFile {
    sealed_as(kind, VERSION, body)
}

fn sealed_as(kind: Kind, version: u32, body: &[u8]) -> SealedFile {
    let bytes = seal_bytes_as(kind, version, body);
    SealedFile::from_bytes("fuzz", kind, bytes).expect("a sealed file opens")
}

/// Versions whose tables of documents, ids, dictionaries and lists differ.
const FORMS: [u32; 2] = [1, VERSION];

fn read_all(kind: Kind, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let file = SealedFile::from_bytes("fuzz", kind, bytes).ok()?;
    assert!(file.bytes(file.body_len(), 1).is_err());
    assert!(file.bytes(u64::MAX, 1).is_err());
    file.all().ok().map(<[u8]>::to_vec)
}

/// Checks that any bytes are either read as a file or refused. A sealed file must be read back
/// unchanged, and refused if a byte was changed or its end was cut off.
pub fn container(data: &[u8]) {
    for kind in kinds() {
        if let Some(body) = read_all(kind, data.to_vec()) {
            assert!(
                VERSIONS.into_iter().any(|version| seal_bytes_as(kind, version, &body) == data)
            );
        }
    }
    let Some(([at @ .., change], body)) = split::<4>(data) else { return };
    let mut bytes = seal_bytes(Kind::Post, body);
    assert_eq!(read_all(Kind::Post, bytes.clone()).as_deref(), Some(body));
    let at = u32::from_le_bytes([at[0], at[1], at[2], 0]) as usize % bytes.len();
    match change {
        0 => bytes.truncate(at),
        _ => bytes[at] ^= change,
    }
    assert_eq!(read_all(Kind::Post, bytes), None);
}

/// Checks that an accepted manifest can be written and read back, and that the sums of its counts
/// do not overflow.
pub fn manifest(data: &[u8]) {
    let read = |version: u32, body: &[u8]| {
        let bytes = seal_bytes_as(Kind::Manifest, version, body);
        let file = SealedFile::from_bytes("fuzz", Kind::Manifest, bytes);
        Manifest::read(&file.expect("a sealed file opens")).ok()
    };
    let Some(manifest) = VERSIONS.into_iter().find_map(|version| read(version, data)) else {
        return;
    };
    let again = read(VERSION, &manifest.to_bytes());
    assert_eq!(again.expect("what was written is read"), manifest);
    for field in 0..=u8::MAX {
        let counts = manifest.segments.iter().map(|segment| segment.live_field(field));
        let sum = counts.map(|c| (c.documents, c.tokens)).try_fold((0u64, 0u64), |sum, add| {
            Some((sum.0.checked_add(add.0)?, sum.1.checked_add(add.1)?))
        });
        let (documents, tokens) = sum.expect("sums fit");
        assert!(documents <= tokens && (documents > 0 || tokens == 0));
    }
    assert!(manifest.generation.checked_add(1).is_some());
    assert!(manifest.next_segment.checked_add(1).is_some());
    let sum = |count: fn(&warpseek_index::SegmentEntry) -> u64| {
        manifest.segments.iter().map(count).try_fold(0u64, u64::checked_add).expect("sums fit")
    };
    let (documents, tokens) = (sum(|s| s.live_documents()), sum(|s| s.live_tokens()));
    assert!(documents > 0 || tokens == 0);
    assert!(documents <= sum(|s| s.documents) && tokens <= sum(|s| s.tokens));
    sum(|s| s.postings);
    sum(|s| s.terms);
    for name in manifest.segments.iter().flat_map(|s| s.file_names()) {
        assert!(!name.contains('/'), "{name}");
    }
}

/// Checks that terms ascend, that their lists are inside `post`, and that lookups agree with the
/// iteration. If the iteration reaches the end, lookups must find all terms.
pub fn dictionary(data: &[u8]) {
    FORMS.into_iter().for_each(|version| dictionary_of(version, data));
}

fn dictionary_of(version: u32, data: &[u8]) {
    let file = sealed_as(Kind::Dict, version, data);
    let Ok(dictionary) = Dictionary::new(file) else { return };
    let mut terms: Vec<(Vec<u8>, TermInfo)> = Vec::new();
    let mut iter = dictionary.iter();
    let whole = loop {
        let info = match iter.next_term() {
            Ok(Some(info)) => info,
            end => break end.is_ok(),
        };
        let term = iter.term();
        assert!((1..=255).contains(&term.len()) && info.df > 0);
        assert_eq!(info.ordinal as usize, terms.len());
        assert!(info.ordinal < dictionary.terms());
        assert!(info.offset.checked_add(info.len).is_some_and(|end| end <= dictionary.lists_len()));
        assert!(terms.last().is_none_or(|(last, _)| last[..] < *term));
        terms.push((term.to_vec(), info));
    };
    assert!(!whole || terms.len() == dictionary.terms() as usize);
    // A term may be found a second time after a damaged part.
    let find = |probe: &[u8]| {
        let found = dictionary.find(probe).ok().flatten()?;
        if let Some((term, info)) = terms.get(found.ordinal as usize) {
            assert_eq!((&term[..], *info), (probe, found));
        }
        Some(found)
    };
    for (term, info) in terms.iter().step_by(terms.len() / 100 + 1) {
        let found = find(term);
        assert!(!whole || found == Some(*info));
    }
    for probe in [&[][..], &[0], &[0xff; 300], &data[..data.len().min(9)]] {
        find(probe);
    }
}

/// Checks a list; the bytes are codec, df, number of documents and the list. Decoded documents
/// must ascend and exist in the segment, and frequencies must be positive.
pub fn postings(data: &[u8]) {
    let Some(([codec, numbers @ ..], bytes)) = split::<9>(data) else { return };
    let numbers = u64::from_le_bytes(numbers);
    let (df, docs) = (numbers as u32, (numbers >> 32) as u32);
    let codec = CodecId::ALL[usize::from(codec) % CodecId::ALL.len()];
    for version in FORMS {
        if let Ok(list) = List::new(bytes, df, docs, codec, version) {
            check_list(&list, df, docs, bytes.len());
        }
    }
}

fn check_list(list: &List<'_>, df: u32, docs: u32, bytes: usize) {
    assert_eq!(list.df(), df);
    list.bounds().into_iter().for_each(check_bounds);
    let blocks = list.block_bounds().map_while(Result::ok).inspect(check_bounds).count();
    assert!(blocks <= list.blocks());
    let mut out = [0; BLOCK];
    for block in 0..list.blocks() {
        assert!(list.block_max_doc(block) < docs);
        if let Ok(n) = list.decode_docs(block, &mut out) {
            assert_eq!(n, list.block_len(block));
            assert!(out[..n].is_sorted_by(|a, b| a < b));
            assert!(block == 0 || out[0] > list.block_max_doc(block - 1));
            assert!(out[n - 1] <= list.block_max_doc(block));
        }
        if let Ok(n) = list.decode_freqs(block, &mut out) {
            assert_eq!(n, list.block_len(block));
            assert!(out[..n].iter().all(|&freq| freq > 0));
        }
        let _ = list.block_bytes(block);
    }
    assert!(list.payload_len() <= bytes);
}

fn check_bounds(bounds: &Bounds) {
    let pairs = bounds.pairs();
    assert!((1..=MAX_PAIRS).contains(&pairs.len()) && pairs[0].0 > 0);
    assert!(pairs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
    assert!((0.0..=1.0).contains(&bounds.cosine()));
    assert_eq!(bounds.max_freq(), pairs[pairs.len() - 1].0);
}

/// Checks a list with maps; the bytes are codec, df, number of documents, the number of segments
/// of each, and the list. Decoded documents must ascend and exist in the segment, and no map may
/// be empty. If the whole list can be decoded, lookups must agree with it.
pub fn map_list(data: &[u8]) {
    let Some(([codec, df @ .., low, high], data)) = split::<7>(data) else { return };
    let documents = usize::from(u16::from_le_bytes([low, high]));
    let Some((segments, bytes)) = data.split_at_checked(documents) else { return };
    let parts = Parts::of_segments(segments.to_vec());
    let codec = CodecId::ALL[usize::from(codec) % CodecId::ALL.len()];
    let df = u32::from_le_bytes(df);
    let Ok(list) = MapList::new(bytes, df, &parts, codec) else { return };
    assert_eq!(list.df(), df);
    let (mut docs, mut maps, mut look_up) = ([0; BIN], [0; BIN], LookUp::default());
    let (mut found, mut whole) = (vec![0; documents], true);
    for block in 0..list.blocks() {
        let Ok(n) = list.decode(block, &mut docs, &mut maps) else {
            whole = false;
            continue;
        };
        assert_eq!(list.decode_docs(block, &mut docs).expect("it was decoded"), n);
        assert!(docs[..n].is_sorted_by(|a, b| a < b));
        assert!(n == 0 || docs[n - 1] <= list.block_max_doc(block));
        assert!(maps[..n].iter().all(|&map| map != 0));
        assert!(n == 0 || found[docs[0] as usize..].iter().all(|&map| map == 0));
        docs[..n].iter().zip(&maps).for_each(|(&doc, &map)| found[doc as usize] = map);
    }
    for (doc, &map) in (0..).zip(&found) {
        let (has, own) = (list.has(doc, &mut look_up), list.map_of(doc, &mut look_up));
        let glimpse = list.glimpse(doc, &mut look_up);
        if whole {
            match glimpse.expect("it was decoded") {
                Glimpse::Absent => assert_eq!(map, 0),
                Glimpse::Map(seen) => assert_eq!(map, seen),
                Glimpse::Several => assert_ne!(map, 0),
            }
            assert_eq!(
                (has.expect("it was decoded"), own.expect("it was decoded")),
                (map != 0, map)
            );
        }
    }
}

/// Checks that every document of an accepted table has its numbers, and that ordinals are a
/// permutation.
pub fn documents(data: &[u8]) {
    FORMS.into_iter().for_each(|version| documents_of(version, data));
}

fn documents_of(version: u32, data: &[u8]) {
    let Ok(documents) = Documents::new(sealed_as(Kind::Docs, version, data)) else { return };
    let lengths = documents.lengths().unwrap();
    let norms = documents.has_norms().then(|| documents.norms().unwrap());
    let statics = documents.statics().unwrap();
    let ordinals = documents.ordinals().unwrap();
    for doc in 0..documents.count() {
        lengths.get(doc);
        norms.map(|norms| norms.get(doc));
        statics.map(|s| s.get(doc));
        let ordinal = ordinals.map_or(doc, |o| o.get(doc));
        assert!(ordinal < documents.count());
        assert_eq!(documents.position(ordinal).unwrap(), doc);
    }
}

/// Checks that accepted tables of lengths contain the length of every document.
pub fn lengths(data: &[u8]) {
    let Some(([low, high, fields], body)) = split::<3>(data) else { return };
    let documents = u32::from(u16::from_le_bytes([low, high]));
    for version in FORMS {
        lengths_of(version, documents, fields, body);
    }
}

fn lengths_of(version: u32, documents: u32, fields: u8, body: &[u8]) {
    let file = sealed_as(Kind::Lengths, version, body);
    let Ok(lengths) = FieldLengths::new(file, documents, fields.into()) else { return };
    for field in 1..=fields {
        let found = lengths.get(field).unwrap().expect("the field is there");
        assert_eq!(found.count(), documents as usize);
        (0..documents).for_each(|doc| _ = found.get(doc));
    }
    assert!(lengths.get(0).unwrap().is_none());
}

/// Checks that every list of positions is read or refused. A posting must have as many positions
/// as its frequency, in ascending order.
pub fn positions(data: &[u8]) {
    let Some((numbers, body)) = split::<6>(data) else { return };
    let number = |i: usize| u32::from(u16::from_le_bytes([numbers[2 * i], numbers[2 * i + 1]]));
    let (terms, df, freq) = (number(0), number(1).max(1), number(2));
    let Ok(positions) = Positions::new(sealed(Kind::Positions, body), terms) else { return };
    let mut out = Vec::new();
    for ordinal in 0..terms.min(64) {
        let Ok(list) = positions.list(ordinal, df) else { continue };
        let mut reader = PositionReader::new(list);
        for block in 0..(df as usize).div_ceil(BLOCK).min(8) {
            let freqs = [freq; BLOCK];
            let n = (df as usize - block * BLOCK).min(BLOCK);
            for i in [0, n / 2, n - 1] {
                if reader.read(block, &freqs[..n], i, &mut out).is_ok() {
                    assert_eq!(out.len(), freq as usize);
                    assert!(out.is_sorted());
                }
            }
        }
    }
    assert!(positions.list(terms, 1).is_err());
}

/// Checks that ids have 1 to 1024 bytes, and that a lookup finds only documents with the given
/// id.
pub fn ids(data: &[u8]) {
    FORMS.into_iter().for_each(|version| ids_of(version, data));
}

fn ids_of(version: u32, data: &[u8]) {
    let Ok(ids) = Ids::new(sealed_as(Kind::Ids, version, data)) else { return };
    let step = ids.count() as usize / 200 + 1;
    for doc in (0..ids.count()).step_by(step) {
        let Ok(id) = ids.get(doc) else { continue };
        assert!((1..=1024).contains(&id.len()));
        // With a forged order, a lookup may scan all ids.
        if doc as usize / step < 8 {
            check_find(&ids, &id);
        }
    }
    check_find(&ids, "");
    check_find(&ids, &String::from_utf8_lossy(&data[..data.len().min(5)]));
    assert!(ids.get(ids.count()).is_err());
}

fn check_find(ids: &Ids, id: &str) {
    for doc in ids.find(id).unwrap_or_default() {
        assert_eq!(ids.get(doc).expect("it was found"), id);
    }
}

/// Checks that blocks cover the documents, and that a document read from its block equals the
/// same document read alone.
pub fn store(data: &[u8]) {
    let Ok(store) = Store::new(sealed(Kind::Store, data)) else { return };
    assert!(store.blocks() <= u64::from(store.count()));
    for block in (0..store.blocks()).take(32) {
        let _ = store.block(block);
    }
    let count = store.count();
    for doc in [0, 1, count / 2, count.saturating_sub(1)] {
        if store.get(doc).is_ok() {
            assert!(doc < count);
        }
    }
    assert!(store.get(count).is_err());
    if let Ok(block) =
        store.blocks().checked_sub(1).map_or(Err(()), |b| store.block(b).map_err(drop))
    {
        for doc in (0..count).rev().take(64) {
            if let (Some(json), Ok(alone)) = (block.get(doc), store.get(doc)) {
                assert_eq!(json, alone);
            }
        }
    }
}

/// Checks deletions; the bytes are the numbers of documents and terms of the segment, and a body.
/// Deleted documents must exist; terms must exist and ascend.
pub fn deletes(data: &[u8]) {
    let Some((numbers, body)) = split::<8>(data) else { return };
    let numbers = u64::from_le_bytes(numbers);
    let (docs, terms) = (numbers as u32, (numbers >> 32) as u32);
    let Ok(deletes) = Deletes::read(&sealed(Kind::Deletes, body), docs, terms) else { return };
    let all: Vec<u32> = deletes.docs.iter().collect();
    assert_eq!(all.len() as u64, deletes.docs.len());
    assert!(all.is_sorted_by(|a, b| a < b));
    assert!(all.iter().all(|&doc| doc < docs && deletes.docs.contains(doc)));
    assert!(docs == 0 || deletes.docs.contains(docs - 1) == all.contains(&(docs - 1)));
    assert!(deletes.terms.is_sorted_by(|a, b| a.0 < b.0));
    for &(ordinal, count) in &deletes.terms {
        assert!(ordinal < terms && count > 0 && u64::from(count) <= deletes.docs.len());
        assert_eq!(deletes.of_term(ordinal), count);
    }
}

/// Checks attributes; the bytes are the number of documents and a body. All values must exist in
/// the segment; in a verified file, all tables of a column must agree.
pub fn attributes(data: &[u8]) {
    let Some((documents, body)) = split::<2>(data) else { return };
    // The limit covers two zones and a bit. Columns of a single value take no space for any
    // number of documents.
    let documents = u32::from(u16::from_le_bytes(documents)) % 10_000;
    let Ok(attributes) = Attributes::new(sealed(Kind::Attributes, body), documents) else { return };
    let sound = attributes.verify().is_ok();
    for (number, kind) in attributes.columns() {
        let column = match attributes.column(number) {
            Ok(column) => column.expect("it is in the directory"),
            Err(_) => {
                assert!(!sound);
                continue;
            }
        };
        assert_eq!(column.kind(), kind);
        let mut present = DocSet::new(documents);
        column.exists_into(&mut present);
        assert!((0..documents).all(|doc| column.has(doc) == present.contains(doc)));
        assert_eq!(present.count_within(0, documents), present.len());
        match column {
            Column::Numbers(column) => check_numbers(&column, documents, &present, sound),
            Column::Keywords(column) => check_keywords(&column, documents, &present, sound),
        }
    }
}

fn check_numbers(column: &Numbers<'_>, documents: u32, present: &DocSet, sound: bool) {
    let keys: Vec<(u32, i64)> =
        present.iter().map(|doc| (doc, column.key(doc).expect("it is present"))).collect();
    let (low, high) = (keys.first().map_or(0, |k| k.1), keys.last().map_or(0, |k| k.1));
    for (low, high) in [(low, high), (high, low), (low, i64::MAX), (0, 1000), (i64::MIN, high)] {
        let (mut range, mut two) = (DocSet::new(documents), DocSet::new(documents));
        column.range_into(Bound::Included(low), Bound::Included(high), &mut range);
        column.any_into(&[low.min(high), low.max(high)], &mut two);
        let is_in = |doc: u32| keys.binary_search_by_key(&doc, |k| k.0).map(|i| keys[i].1);
        assert!(range.iter().chain(two.iter()).all(|doc| is_in(doc).is_ok()));
        if sound {
            let count = |holds: &dyn Fn(i64) -> bool| keys.iter().filter(|k| holds(k.1)).count();
            assert_eq!(range.len(), count(&|key| (low..=high).contains(&key)) as u64);
            assert_eq!(two.len(), count(&|key| key == low || key == high) as u64);
        }
    }
}

fn check_keywords(column: &Keywords<'_>, documents: u32, present: &DocSet, sound: bool) {
    let values = column.values();
    let ordinals = column.ordinals().expect("its pages are sound");
    for doc in present.iter().take(100) {
        assert!(ordinals.of(doc).all(|ordinal| ordinal < values));
        assert!(!sound || ordinals.of(doc).next().is_some());
    }
    // Forged tables may give every document all values.
    let counts = if sound { column.counts(present).expect("it is sound") } else { Vec::new() };
    for ordinal in (0..values).step_by(values as usize / 100 + 1) {
        let mut list = DocSet::new(documents);
        let read = column.list_into(ordinal, &mut list);
        assert!(read.is_err() || column.df(ordinal).is_ok_and(|df| u64::from(df) == list.len()));
        let value = column.value(ordinal);
        if let Ok(value) = &value {
            assert!(value.len() <= MAX_KEYWORD_BYTES);
            let found = column.find(value).ok().flatten();
            assert!(found.is_none_or(|at| column.value(at).is_ok_and(|other| other == *value)));
            let prefix = column.prefix(&value[..value.floor_char_boundary(1)]);
            assert!(prefix.as_ref().is_ok_and(|range| range.end <= values) || !sound);
            if sound {
                assert_eq!(found, Some(ordinal));
                assert!(prefix.is_ok_and(|range| range.contains(&ordinal)));
            }
        }
        if sound {
            assert!(read.is_ok() && value.is_ok());
            assert_eq!(counts[ordinal as usize], list.len());
            assert!(list.iter().all(|doc| ordinals.of(doc).any(|other| other == ordinal)));
        }
    }
    assert!(column.value(values).is_err());
}

/// Checks a log. The bytes are the position of a change (3 bytes), the change (1 byte; 0
/// truncates the log there), and the records without checksums, each after its length (2 bytes).
/// Any log must be replayed or refused. Records must have consecutive sequence numbers and
/// respect the limits; the records replayed after the change must be a prefix of those before it.
pub fn log(data: &[u8]) {
    let _ = replay(data);
    let Some(([at @ .., change], mut left)) = split::<4>(data) else { return };
    let mut file = b"WARPSEEKlog\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
    while let Some((len, rest)) = split::<2>(left) {
        let (record, later) = rest.split_at(rest.len().min(u16::from_le_bytes(len).into()));
        file.extend((record.len() as u32).to_le_bytes());
        file.extend(xxhash_rust::xxh3::xxh3_64(record).to_le_bytes());
        file.extend(record);
        left = later;
    }
    let Some(records) = replay(&file) else { return };
    let at = u32::from_le_bytes([at[0], at[1], at[2], 0]) as usize % file.len();
    match change {
        0 => file.truncate(at),
        _ => file[at] ^= change,
    }
    assert!(replay(&file).is_none_or(|found| records.starts_with(&found)));
}

/// Returns the records of a log that begins with sequence number 0: the id, and the document of a
/// put.
fn replay(file: &[u8]) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let mut records = Vec::new();
    let replayed = replay_bytes("fuzz".as_ref(), file, 0, |record| {
        assert_eq!(record.sequence, records.len() as u64);
        let id = record.operation.id();
        assert!((1..=MAX_ID_BYTES).contains(&id.len()));
        let document = match record.operation {
            Operation::Put { document, .. } => Some(document.to_vec()),
            Operation::Delete { .. } => None,
        };
        assert!(document.as_ref().is_none_or(|document| document.len() <= MAX_DOCUMENT_BYTES));
        records.push((id.to_owned(), document));
        Ok(())
    });
    let replayed = replayed.ok()?;
    assert!(replayed.next == records.len() as u64 && replayed.end <= file.len() as u64);
    Some(records)
}

/// Checks that any file of a dictionary of words is refused or is a dictionary: its words are in
/// order, each is found under its id and within the range of its prefixes, and the dictionary can
/// be written and read back.
pub fn words(data: &[u8]) {
    const SUM: std::ops::Range<usize> = 40..48;
    let mut file = data.to_vec();
    if let Some(rest) = data.get(SUM.end..) {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&data[..SUM.start]);
        hash.update(rest);
        file[SUM].copy_from_slice(&hash.digest().to_le_bytes());
    }
    let read = |file: &[u8]| warpseek_dictionary::Dictionary::from_bytes("fuzz".as_ref(), file);
    let Ok(dictionary) = read(&file) else { return };
    assert_eq!(read(&dictionary.to_bytes()).expect("what was written is read"), dictionary);
    let mut last = Vec::new();
    for (id, word) in (0..).zip(dictionary.iter()) {
        assert!(last < word && word.len() <= warpseek_core::limits::MAX_TERM_BYTES);
        assert_eq!(dictionary.look_up(&word), Some(id));
        for end in [0, 1, word.len() / 2, word.len()] {
            assert!(dictionary.prefix(&word[..end]).contains(&id));
        }
        last = word;
    }
    assert_eq!(dictionary.prefix(&[]), 0..dictionary.len());
    for end in 0..data.len().min(300) {
        let id = dictionary.look_up(&data[..end]);
        assert!(id.is_none_or(|id| dictionary.word(id).as_deref() == Some(&data[..end])));
    }
}

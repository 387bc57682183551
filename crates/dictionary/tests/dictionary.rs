//! A dictionary behaves like a sorted set, and opening a damaged file returns an error.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use warpseek_dictionary::{Dictionary, DictionaryError};

type Set = BTreeSet<Vec<u8>>;

/// Generates words of few letters, of any bytes, of UTF-8, with long common prefixes, and of the
/// maximum length.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let long =
        |prefix: usize| vec(0u8..3, 1..6).prop_map(move |end| [vec![b'x'; prefix], end].concat());
    prop_oneof![
        vec(b'a'..=b'b', 1..12),
        vec(any::<u8>(), 1..5),
        vec(prop_oneof![Just(0u8), Just(255)], 1..6),
        "[äöüß東京]{1,5}".prop_map(String::into_bytes),
        (0usize..40).prop_flat_map(long),
        (245usize..250).prop_flat_map(long),
    ]
}

fn words(most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(word(), 0..most)
}

/// Returns strings close to the words: prefixes, extensions, slightly smaller and greater ones,
/// and strings that cannot be words.
fn strangers(set: &Set) -> Vec<Vec<u8>> {
    let mut found = vec![vec![], vec![0], vec![255], vec![b'x'; 255], vec![b'x'; 300]];
    for word in set {
        for end in [0, 1, word.len() / 2, word.len() - 1] {
            found.push(word[..end].to_vec());
        }
        for more in [0, b'a', 255] {
            found.push([&word[..], &[more]].concat());
        }
        for change in [1, 255] {
            let mut other = word.clone();
            let last = other.len() - 1;
            other[last] = other[last].wrapping_add(change);
            found.push(other);
        }
    }
    found
}

fn check(dictionary: &Dictionary, set: &Set) {
    assert_eq!(dictionary.len() as usize, set.len());
    let sorted: Vec<&Vec<u8>> = set.iter().collect();
    for (id, word) in (0..).zip(&sorted) {
        assert_eq!(dictionary.look_up(word), Some(id), "{word:?}");
        assert_eq!(dictionary.word(id).as_ref(), Some(*word));
    }
    assert_eq!(dictionary.word(dictionary.unknown()), None);
    assert_eq!(dictionary.word(u32::MAX), None);
    assert!(dictionary.iter().eq(set.iter().cloned()));
    for string in strangers(set).iter().chain(set) {
        let id = sorted.binary_search(&string).ok().map(|id| id as u32);
        assert_eq!(dictionary.look_up(string), id, "{string:?}");
        let start = sorted.partition_point(|word| *word < string);
        let len = sorted[start..].iter().take_while(|word| word.starts_with(string)).count();
        let range = dictionary.prefix(string);
        assert_eq!(range.len(), len, "{string:?}");
        assert!(len == 0 || range.start as usize == start, "{string:?}");
    }
    let found = dictionary.statistics();
    assert_eq!(found.node_bytes + found.child_bytes + found.bucket_bytes, dictionary.bytes());
}

fn read(bytes: &[u8]) -> Result<Dictionary, DictionaryError> {
    Dictionary::from_bytes(Path::new("words"), bytes)
}

proptest! {
    #[test]
    fn does_what_a_set_does(words in words(300), bucket_words in prop_oneof![Just(1u8), 1u8..40, Just(255)]) {
        let set: Set = words.iter().cloned().collect();
        let dictionary = Dictionary::build_with(&words, bucket_words).unwrap();
        check(&dictionary, &set);
        // Sorted words give the same dictionary.
        prop_assert_eq!(&Dictionary::build_with(&set, bucket_words).unwrap(), &dictionary);
        prop_assert_eq!(&read(&dictionary.to_bytes()).unwrap(), &dictionary);
    }

    /// A correct checksum proves nothing: invalid arrays behind one are rejected, or form another
    /// valid dictionary.
    #[test]
    fn forged_files_are_errors_or_dictionaries(
        words in words(120), bucket_words in 1u8..8, changes in vec((any::<usize>(), any::<u8>()), 1..4), cut in 0usize..3,
    ) {
        let mut bytes = Dictionary::build_with(&words, bucket_words).unwrap().to_bytes();
        for (at, value) in changes {
            let at = 16 + at % (bytes.len() - 16);
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut);
        seal(&mut bytes);
        if let Ok(dictionary) = read(&bytes) {
            let set: Set = dictionary.iter().collect();
            check(&dictionary, &set);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
        bytes.splice(0..0, Dictionary::build(["a"]).unwrap().to_bytes()[..20].iter().copied());
        let _ = read(&bytes);
    }
}

/// Replaces the checksum by the correct one.
fn seal(bytes: &mut [u8]) {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    hash.update(&bytes[..40]);
    hash.update(&bytes[48..]);
    bytes[40..48].copy_from_slice(&hash.digest().to_le_bytes());
}

/// Returns some hundred words, with nodes that are words, long words, and all bytes.
fn sample() -> Set {
    let mut set: Set = (0..400u32).map(|i| format!("{:x}", i * i).into_bytes()).collect();
    set.extend((0..=255u8).map(|byte| vec![byte]));
    set.extend((0..40u8).map(|byte| [&[b'y'; 250][..], &[byte]].concat()));
    set.extend([vec![255; 255], vec![0; 255]]);
    set
}

#[test]
fn every_flipped_byte_and_every_cut_is_found() {
    let good = Dictionary::build(sample()).unwrap().to_bytes();
    assert!(read(&good).is_ok());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        assert!(read(&bad).is_err(), "byte {at}");
    }
    for len in 0..good.len() {
        assert!(read(&good[..len]).is_err(), "cut to {len}");
    }
    let mut longer = good;
    longer.push(0);
    assert!(read(&longer).is_err());
}

#[test]
fn every_byte_forged_is_an_error_or_another_dictionary() {
    let good = Dictionary::build_with(sample(), 5).unwrap().to_bytes();
    let (mut refused, mut accepted) = (0, 0);
    for at in 16..good.len() {
        for change in [1, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= change;
            seal(&mut bad);
            match read(&bad) {
                Err(_) => refused += 1,
                Ok(dictionary) => {
                    accepted += 1;
                    // Words stay in order and can be found.
                    let words: Vec<Vec<u8>> = dictionary.iter().collect();
                    assert!(words.is_sorted_by(|a, b| a < b), "byte {at}");
                    for (id, word) in (0..).zip(&words) {
                        assert_eq!(dictionary.look_up(word), Some(id), "byte {at}");
                        assert!(dictionary.prefix(word).contains(&id), "byte {at}");
                    }
                }
            }
        }
    }
    assert!(refused > 1000 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn words_have_limits() {
    let build = |word: &[u8]| Dictionary::build([b"ok", word]).map(|found| found.len());
    assert_eq!(build(&[b'a'; 255]).unwrap(), 2);
    for bad in [&[][..], &[b'a'; 256]] {
        let error = build(bad).unwrap_err();
        assert!(matches!(error, DictionaryError::WordLength { number: 2, .. }), "{error}");
    }
}

#[test]
fn small_dictionaries() {
    for set in [
        Set::new(),
        Set::from([b"word".to_vec()]),
        Set::from([b"a".to_vec(), b"ab".to_vec(), b"abc".to_vec()]),
    ] {
        for bucket_words in [1, 2, 32] {
            check(&Dictionary::build_with(&set, bucket_words).unwrap(), &set);
        }
    }
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.dictionary");
    for words in [&["one"][..], &["one", "two"]] {
        let dictionary = Dictionary::build(words).unwrap();
        dictionary.write(&path).unwrap();
        assert_eq!(Dictionary::open(&path).unwrap(), dictionary);
        assert_eq!(std::fs::read(&path).unwrap(), dictionary.to_bytes());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    let nowhere = dir.path().join("no/such");
    assert!(matches!(
        Dictionary::build(["a"]).unwrap().write(&nowhere),
        Err(DictionaryError::Io { .. })
    ));
    assert!(matches!(Dictionary::open(&nowhere), Err(DictionaryError::Io { .. })));
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = Dictionary::build(["a"]).unwrap().to_bytes();
    bytes[16] = 2;
    let error = read(&bytes).unwrap_err();
    assert!(matches!(error, DictionaryError::Version { found: 2, known: 1, .. }), "{error}");
}

/// Files of version 1 must stay readable, and writing the same words must still give the same
/// file.
#[test]
fn golden_file_of_version_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/1.dictionary");
    let dictionary = Dictionary::build(sample()).unwrap();
    if std::env::var_os("WARPSEEK_WRITE_GOLDEN").is_some() {
        dictionary.write(&path).unwrap();
    }
    check(&Dictionary::open(&path).unwrap(), &sample());
    assert_eq!(
        std::fs::read(&path).unwrap(),
        dictionary.to_bytes(),
        "files changed: is it a new version?"
    );
}

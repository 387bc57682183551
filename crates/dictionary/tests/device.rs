//! A device finds the same words as the CPU, on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{devices, on_gpu};
use warpseek_dictionary::{DeviceDictionary, DeviceWords, Dictionary};

/// Looks up strings on every device and compares the results with those of the CPU.
fn check(words: &BTreeSet<Vec<u8>>, strings: &[Vec<u8>], bucket_words: u8) {
    let dictionary = Dictionary::build_with(words, bucket_words).unwrap();
    let text: Vec<u8> = strings.concat();
    let mut ends: Vec<u32> = strings
        .iter()
        .scan(0, |end, string| {
            *end += string.len() as u32;
            Some(*end)
        })
        .collect();
    let mut starts = vec![0; strings.len()];
    starts[1..].copy_from_slice(&ends[..strings.len() - 1]);
    let mut want: Vec<u32> =
        strings.iter().map(|s| dictionary.look_up(s).unwrap_or(dictionary.unknown())).collect();
    let mut ranges: Vec<[u32; 2]> = strings
        .iter()
        .map(|string| dictionary.prefix(string))
        .map(|ids| [ids.start, ids.end])
        .collect();
    // A range that does not lie within the text counts as empty: it is not a word, but a prefix
    // of all words.
    let end = text.len() as u32;
    for (start, end) in [(0, end + 1), (end + 1, end + 2), (u32::MAX, 0), (0, u32::MAX), (end, end)]
    {
        starts.push(start);
        ends.push(end);
        want.push(dictionary.unknown());
        ranges.push([0, dictionary.len()]);
    }
    for device in devices() {
        let stream = device.stream().unwrap();
        let on_device = DeviceDictionary::upload(&device, &stream, &dictionary).unwrap();
        assert_eq!(on_device.bytes(), dictionary.bytes());
        assert_eq!(on_device.unknown(), dictionary.unknown());
        let upload = |values: &[u32]| device.upload(&stream, values).unwrap();
        let (starts, ends) = (upload(&starts), upload(&ends));
        let text = device.upload(&stream, &text).unwrap();
        let words = DeviceWords { text: &text, starts: &starts, ends: &ends };
        let ids = device.buffer(want.len()).unwrap();
        on_device.look_up(&stream, words, &ids).unwrap();
        assert_eq!(stream.download(&ids).unwrap(), want);
        let ids = device.buffer(want.len()).unwrap();
        on_device.prefix(&stream, words, &ids).unwrap();
        assert_eq!(stream.download(&ids).unwrap(), ranges);
    }
}

/// Returns the words and strings that are close to them.
fn around(words: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut strings =
        vec![vec![], vec![0], vec![255], vec![b'x'; 256], vec![0; 255], vec![255; 300]];
    for word in words {
        strings.push(word.clone());
        strings.push(word[..word.len() - 1].to_vec());
        strings.push(word[..word.len() / 2].to_vec());
        strings.extend([0, b'a', 255].map(|byte| [&word[..], &[byte]].concat()));
        let mut other = word.clone();
        let middle = other.len() / 2;
        other[middle] ^= 1;
        strings.push(other);
    }
    strings
}

#[test]
fn words_of_all_kinds() {
    let mut words: BTreeSet<Vec<u8>> =
        (0..600u32).map(|i| format!("{:x}", i * i).into_bytes()).collect();
    words.extend((0..=255u8).map(|byte| vec![byte]));
    words.extend((0..=255u8).map(|byte| vec![b'a', byte]));
    words.extend((0..40u8).map(|byte| [&[b'y'; 254][..], &[byte]].concat()));
    words.extend([vec![255; 255], vec![0; 255], vec![0; 2], "東京都".into(), "東京".into()]);
    for bucket_words in [1, 7, 32, 255] {
        check(&words, &around(&words), bucket_words);
    }
}

#[test]
fn a_dictionary_without_words() {
    check(&BTreeSet::new(), &around(&BTreeSet::new()), 32);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if on_gpu() { 200 } else { 40 }))]
    #[test]
    fn any_words(words in vec(prop_oneof![vec(b'a'..=b'b', 1..10), vec(any::<u8>(), 1..4)], 0..200), bucket_words in 1u8..40) {
        let words: BTreeSet<Vec<u8>> = words.into_iter().collect();
        check(&words, &around(&words), bucket_words);
    }
}

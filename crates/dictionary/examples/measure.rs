//! Measures dictionaries of the words in a file, one per line, with buckets of several sizes:
//! bytes per word, and look-ups per second on one core.
//!
//! `cargo run --release -p warpseek-dictionary --example measure -- FILE`

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use warpseek_dictionary::Dictionary;

fn main() {
    let path = std::env::args().nth(1).expect("a file of words");
    let text = std::fs::read(path).unwrap();
    let words: Vec<&[u8]> =
        text.split(|&byte| byte == b'\n').filter(|word| (1..=255).contains(&word.len())).collect();
    let bytes: usize = words.iter().map(|word| word.len()).sum();
    println!("{} lines, {:.2} bytes each", words.len(), bytes as f64 / words.len() as f64);
    println!(
        "bucket  build s   open s  nodes B/w  children B/w  buckets B/w    B/w  words/bucket  steps  known M/s  unknown M/s"
    );
    for bucket_words in [8, 16, 24, 32, 48, 64, 128, 255] {
        let start = Instant::now();
        let dictionary = Dictionary::build_with(&words, bucket_words).unwrap();
        let build = start.elapsed().as_secs_f64();
        let file = dictionary.to_bytes();
        let start = Instant::now();
        black_box(Dictionary::from_bytes("words".as_ref(), &file).unwrap());
        let open = start.elapsed().as_secs_f64();
        let found = dictionary.statistics();
        let each = |n: u64| n as f64 / f64::from(dictionary.len());
        let known = rate(&dictionary, &words, |_| {});
        let unknown = rate(&dictionary, &words, |word| word.push(b'q'));
        println!(
            "{bucket_words:6} {build:8.2} {open:8.2} {:10.2} {:13.2} {:12.2} {:6.2} {:13.1} {:6.2} {known:10.2} {unknown:12.2}",
            each(found.node_bytes),
            each(found.child_bytes),
            each(found.bucket_bytes),
            each(dictionary.bytes()),
            f64::from(dictionary.len()) / found.buckets as f64,
            each(found.steps),
        );
    }
}

/// Measures the million look-ups per second of words in random order, changed by `change`.
fn rate(dictionary: &Dictionary, words: &[&[u8]], change: impl Fn(&mut Vec<u8>)) -> f64 {
    let (mut bytes, mut ends, mut random) = (Vec::new(), vec![0], 1u64);
    for _ in 0..1_000_000 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut word = words[(random >> 33) as usize % words.len()].to_vec();
        change(&mut word);
        bytes.extend_from_slice(&word);
        ends.push(bytes.len());
    }
    let start = Instant::now();
    let sum: u64 = ends
        .windows(2)
        .map(|at| u64::from(dictionary.look_up(&bytes[at[0]..at[1]]).unwrap_or(7)))
        .sum();
    black_box(sum);
    1.0 / start.elapsed().as_secs_f64()
}

//! Measures look-ups on the first GPU, for the words in a file, one per line, in random order.
//!
//! `cargo run --release -p warpseek-dictionary --example measure_gpu -- FILE`

#![allow(clippy::unwrap_used)]

use warpseek_cuda::Device;
use warpseek_dictionary::{DeviceDictionary, DeviceWords, Dictionary};

const LOOK_UPS: usize = 1 << 25;
const RUNS: usize = 7;

fn main() {
    let path = std::env::args().nth(1).expect("a file of words");
    let text = std::fs::read(path).unwrap();
    let words: Vec<&[u8]> =
        text.split(|&byte| byte == b'\n').filter(|word| (1..=255).contains(&word.len())).collect();
    let device = Device::open(0, None).unwrap();
    let stream = device.stream().unwrap();
    // A uniform order visits all words equally often; a Zipf order repeats frequent words, as a
    // text does.
    let zipf = |random: u64| {
        ((random as f64 / (1u64 << 31) as f64 * (words.len() as f64).ln()).exp() as usize) - 1
    };
    let uniform = |random: u64| random as usize;
    for bucket_words in [8, 16, 24, 32, 48, 64] {
        let dictionary = Dictionary::build_with(&words, bucket_words).unwrap();
        let on_device = DeviceDictionary::upload(&device, &stream, &dictionary).unwrap();
        let each = on_device.bytes() as f64 / f64::from(dictionary.len());
        let mut rates = Vec::new();
        for (more, pick) in
            [(&b""[..], &uniform as &dyn Fn(u64) -> usize), (b"", &zipf), (b"q", &uniform)]
        {
            let (mut bytes, mut starts, mut ends, mut random) =
                (Vec::new(), Vec::new(), Vec::new(), 1u64);
            for _ in 0..LOOK_UPS {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // Scatter the words; otherwise frequent words would be neighbours in the
                // dictionary.
                let word = pick(random >> 33).wrapping_mul(7_368_787) % words.len();
                starts.push(bytes.len() as u32);
                bytes.extend_from_slice(words[word]);
                bytes.extend_from_slice(more);
                ends.push(bytes.len() as u32);
            }
            let text = device.upload(&stream, &bytes).unwrap();
            let on = |values: &[u32]| device.upload(&stream, values).unwrap();
            let (starts_on, ends_on) = (on(&starts), on(&ends));
            let words_on = DeviceWords { text: &text, starts: &starts_on, ends: &ends_on };
            let ids = device.buffer(LOOK_UPS).unwrap();
            let (start, end) = (device.event().unwrap(), device.event().unwrap());
            let mut best = f64::INFINITY;
            for _ in 0..RUNS {
                stream.record(&start).unwrap();
                on_device.look_up(&stream, words_on, &ids).unwrap();
                stream.record(&end).unwrap();
                end.synchronize().unwrap();
                best = best.min(end.since(&start).unwrap().as_secs_f64());
            }
            // Compare a sample with the CPU.
            let found = stream.download(&ids.slice(..10_000)).unwrap();
            for ((start, end), id) in starts.iter().zip(&ends).zip(found) {
                let word = &bytes[*start as usize..*end as usize];
                assert_eq!(dictionary.look_up(word).unwrap_or(dictionary.unknown()), id);
            }
            rates.push(LOOK_UPS as f64 / best / 1e9);
        }
        println!(
            "bucket {bucket_words:3}: {each:.2} bytes a word; 10^9 look-ups/s: {:.2} any word, {:.2} by frequency, {:.2} unknown",
            rates[0], rates[1], rates[2]
        );
    }
}

//! The bytes of a seed never change: not over time, nor with the thread or the order of generation.

use warpseek_synth::{
    QueryConfig, TextConfig, TextFormat, TextGenerator, queries, word, write_document,
};

fn bytes(generator: &TextGenerator, format: TextFormat, ordinals: &[u64]) -> Vec<u8> {
    let (mut ranks, mut out) = (Vec::new(), Vec::new());
    for &ordinal in ordinals {
        generator.document(ordinal, &mut ranks);
        write_document(format, ordinal, &ranks, &mut out);
    }
    out
}

/// Computes FNV-1a, so that the golden values do not depend on a crate either.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Tests values that may change only together with an announced break of the crate's guarantee.
#[test]
fn golden_bytes() {
    let ordinals: Vec<u64> = (0..100).collect();
    let generator = TextGenerator::new(TextConfig { seed: 42, ..TextConfig::default() }).unwrap();
    let lines = bytes(&generator, TextFormat::Jsonl, &ordinals);
    let start = String::from_utf8_lossy(&lines[..GOLDEN_START.len()]);
    assert_eq!(start, GOLDEN_START);
    assert_eq!(hash(&lines), GOLDEN_JSONL);

    let generator = TextGenerator::new(TextConfig { seed: 42, ..TextConfig::table1() }).unwrap();
    assert_eq!(hash(&bytes(&generator, TextFormat::Words, &ordinals)), GOLDEN_WORDS);

    let log = queries(generator.config(), &QueryConfig::default()).unwrap();
    assert_eq!(log[0], GOLDEN_QUERY);
    assert_eq!(hash(log.join("\n").as_bytes()), GOLDEN_QUERIES);
}

const GOLDEN_START: &str =
    r#"{"id":"d0","title":"qoqiv is kuzutu qoqiv teduci vel","text":"qoqiv is kuzutu qo"#;
const GOLDEN_JSONL: u64 = 0x2c0b_860c_1244_7c59;
const GOLDEN_WORDS: u64 = 0x05d9_ce37_1b4f_60cc;
const GOLDEN_QUERY: &str = "upafu wora gajor picate nadesuj";
const GOLDEN_QUERIES: u64 = 0xb169_f898_4bc4_f0ee;

#[test]
fn golden_spelling() {
    let mut out = Vec::new();
    for rank in [0, 1, 2, 30, 300, 3_000, 30_000, 9_999_999] {
        word(rank, &mut out);
        out.push(b' ');
    }
    assert_eq!(String::from_utf8(out).unwrap(), GOLDEN_SPELLING);
}

const GOLDEN_SPELLING: &str = "ta qi is aji ahoqi yuzapu acofiyup yocakozec ";

#[test]
fn order_and_threads_do_not_matter() {
    const DOCUMENTS: u64 = 64;
    let generator = TextGenerator::new(TextConfig::default()).unwrap();
    let forward: Vec<Vec<u8>> =
        (0..DOCUMENTS).map(|ordinal| bytes(&generator, TextFormat::Words, &[ordinal])).collect();

    let mut threaded = vec![Vec::new(); DOCUMENTS as usize];
    std::thread::scope(|scope| {
        for (chunk, documents) in threaded.chunks_mut(16).enumerate() {
            let generator = &generator;
            scope.spawn(move || {
                for (index, document) in documents.iter_mut().enumerate().rev() {
                    let ordinal = (chunk * 16 + index) as u64;
                    *document = bytes(generator, TextFormat::Words, &[ordinal]);
                }
            });
        }
    });
    assert_eq!(threaded, forward);
}

#[test]
fn larger_collections_and_logs_begin_with_smaller_ones() {
    let small = TextConfig { documents: 10, ..TextConfig::default() };
    let large = TextConfig { documents: 1_000, ..TextConfig::default() };
    let ordinals: Vec<u64> = (0..10).collect();
    let written =
        |config| bytes(&TextGenerator::new(config).unwrap(), TextFormat::Words, &ordinals);
    assert_eq!(written(small.clone()), written(large));

    let few = queries(&small, &QueryConfig { count: 5, ..QueryConfig::default() }).unwrap();
    let many = queries(&small, &QueryConfig { count: 9, ..QueryConfig::default() }).unwrap();
    assert_eq!(few[..], many[..5]);
}

#[test]
fn seeds_differ() {
    let written = |seed| {
        let config = TextConfig { seed, ..TextConfig::default() };
        bytes(&TextGenerator::new(config).unwrap(), TextFormat::Words, &[0])
    };
    assert_ne!(written(1), written(2));

    let text = TextConfig::default();
    let log = |seed| queries(&text, &QueryConfig { seed, count: 3, ..QueryConfig::default() });
    assert_ne!(log(1).unwrap(), log(2).unwrap());
}

//! Images made on the device equal those made on the host, byte for byte, on the emulator or on a
//! GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use proptest::prelude::*;
use support::devices;
use warpseek_codec::CodecId;
use warpseek_cuda::Device;
use warpseek_exec::Formula;
use warpseek_exec_gpu::image::oracle::Oracle;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::{BuildConfig, Snapshot};
use warpseek_testkit::generator::{Case, cases};
use warpseek_testkit::{Doc, Fixture, Random, build_config};

const FORMULAS: [Formula; 5] = [
    Formula::Saturation { fixed: 0.3, by_length: 0.01 },
    Formula::Saturation { fixed: 1.2, by_length: 0.0 },
    Formula::Cosine,
    Formula::Linear,
    Formula::Quantized,
];

fn engine(snapshot: &Arc<Snapshot>, device: &Device, tile_bits: u32) -> GpuEngine {
    let settings = Settings { tile_bits, or_bits: 8, and_bits: 10, ..Settings::default() };
    GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap()
}

/// Compares every list of an engine's image.
fn check(engine: &GpuEngine, snapshot: &Snapshot, formula: Formula, part: Option<(u32, u32)>) {
    let stream = engine.device().stream().unwrap();
    let image = engine.image(formula, 2).unwrap();
    for (segment, image) in snapshot.segments().iter().zip(image.iter()) {
        let all = 0..segment.documents().count();
        let within = part.map_or(all, |(from, to)| segment.part(&(from..to)));
        let oracle = Oracle::new(segment, within, formula, image.view().bits).unwrap();
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term().unwrap() {
            let (made, expected) =
                (image.read(&stream, &info).unwrap(), oracle.list(&info).unwrap());
            assert!(
                made == expected,
                "{formula:?}, {part:?}, list {} of {} postings:\n{made:?}\n{expected:?}",
                info.ordinal,
                info.df
            );
        }
    }
}

fn check_formulas(snapshot: &Arc<Snapshot>, device: &Device, bits: u32, part: Option<(u32, u32)>) {
    let engine = engine(snapshot, device, bits);
    let engine = match part {
        Some((from, to)) => engine.within(from..to),
        None => engine,
    };
    for formula in FORMULAS {
        check(&engine, snapshot, formula, part);
    }
}

/// Returns words with frequencies that need patches and with gaps of all sizes, in lists of one
/// posting to several groups of blocks.
fn many(docs: usize, seed: u64) -> Vec<Doc> {
    let mut random = Random::new(seed);
    let text = |i: usize| {
        let mut words = vec!["all".to_owned()];
        for (step, word) in [(2, "half"), (7, "some"), (130, "few"), (1000, "rare")] {
            if random.one_in(step) {
                let times =
                    if random.one_in(20) { random.below(400) + 1 } else { random.below(3) + 1 };
                words.extend(std::iter::repeat_n(word.to_owned(), times));
            }
        }
        // A run of neighbours, and a word that occurs in one document only.
        if (i / 100).is_multiple_of(7) {
            words.push("run".to_owned());
        }
        if random.one_in(3) {
            words.push(format!("only{i}"));
        }
        words.join(" ")
    };
    (0..docs).map(text).enumerate().map(|(i, text)| Doc::text(i, text)).collect()
}

#[test]
fn long_lists_in_every_codec() {
    let docs = many(5000, 7);
    for codec in CodecId::ALL {
        let fixture = Fixture::with(&docs, BuildConfig { codec: Some(codec), ..build_config() });
        let snapshot = fixture.snapshot();
        for device in devices() {
            let bits = if codec == CodecId::BitPack { 5..12 } else { 8..9 };
            for bits in bits {
                check_formulas(&snapshot, &device, bits, None);
            }
        }
    }
}

/// Covers lists with so many tiles that the largest values of tiles show where the best values
/// are.
#[test]
fn many_tiles() {
    let fixture = Fixture::of(&many(40_000, 13));
    let snapshot = fixture.snapshot();
    let device = devices().remove(0);
    let engine = engine(&snapshot, &device, 5);
    for formula in [FORMULAS[0], Formula::Linear] {
        check(&engine, &snapshot, formula, None);
    }
}

#[test]
fn parts_of_segments_with_deletions() {
    let docs = many(2000, 11);
    let fixture = Fixture::of(&docs[..1500]);
    fixture.add(&docs[1500..]).unwrap();
    let deleted: Vec<String> = (0..2000).filter(|i| i % 3 == 0).map(|i| i.to_string()).collect();
    fixture.delete(&deleted).unwrap();
    let snapshot = fixture.snapshot();
    for device in devices() {
        for part in [
            None,
            Some((0, 1)),
            Some((1, 1999)),
            Some((700, 1700)),
            Some((1501, 1502)),
            Some((9, 9)),
        ] {
            check_formulas(&snapshot, &device, 6, part);
        }
    }
}

#[test]
fn a_frequency_above_all_tables() {
    let docs = [
        Doc::text(0, "x ".repeat(70_000)),
        Doc::text(1, "x y"),
        Doc::text(2, "y ".repeat(200_000)),
    ];
    let fixture = Fixture::of(&docs);
    for device in devices() {
        check_formulas(&fixture.snapshot(), &device, 5, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_index(case in cases(), bits in 5u32..9) {
        let case: Case = case;
        let fixture = Fixture::after_each(&case.history(), |operation| case.config(operation));
        let snapshot = fixture.snapshot();
        for device in devices() {
            check_formulas(&snapshot, &device, bits, None);
        }
    }
}

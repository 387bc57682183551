//! The formula of a posting's contribution is implemented in several places, which
//! `warpseek_exec::Formula` lists. These tests compare all of them, bit for bit.
#![allow(unsafe_code, clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

// The vector code itself; a CPU otherwise uses only one of its versions.
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
#[allow(dead_code, unused_imports)]
#[path = "../../exec-cpu/src/simd/neon.rs"]
mod neon;
#[allow(dead_code)]
#[path = "../../exec-cpu/src/simd/scalar.rs"]
mod scalar;
#[cfg(target_arch = "x86_64")]
#[allow(dead_code)]
#[path = "../../exec-cpu/src/simd/x86.rs"]
mod x86;

use std::sync::Arc;

use support::devices;
use warpseek_build_gpu::kernels::weigh;
use warpseek_core::limits::MAX_IMPACT;
use warpseek_core::saturation::{self, Saturation};
use warpseek_core::{Score, cosine};
use warpseek_cuda::{Args, Device, Grid};
use warpseek_exec::{Engine, Formula, Mode, Query, Ranking, RankingFunction};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_exec_gpu::{GpuEngine, GpuLists, Settings};
use warpseek_exec_gpu_papers::compressed::{CODECS, ValueTables};
use warpseek_exec_gpu_papers::kernels::decode::posting_values;
use warpseek_exec_gpu_papers::partitioned::{PartitionSettings, PartitionedEngine, Pruning};
use warpseek_exec_gpu_papers::{CohortEngine, CohortSettings, IntersectEngine};
use warpseek_index::{BuildConfig, Impacts, Snapshot};
use warpseek_testkit::skips::elsewhere;
use warpseek_testkit::{Doc, Fixture, Random, Search, answers, build_config, expected, plans};

/// Returns numbers around powers of two, where the precision changes, and random numbers of all
/// sizes.
fn numbers(random: &mut Random, most: u32) -> Vec<u32> {
    let around = (0..32u32).flat_map(|bit| (-2..=2i64).map(move |by| (1i64 << bit) + by));
    let edges = around.filter_map(|number| u32::try_from(number).ok()).chain(1..300).chain([most]);
    // Vector code leaves blocks with larger numbers to the scalar code.
    let some = (0..3000).map(|_| (random.bits() as u32 | 1) >> (1 + random.below(31)));
    edges.chain(some.collect::<Vec<_>>()).filter(|number| (1..=most).contains(number)).collect()
}

/// Returns formulas of all kinds, with extreme and random parameters.
fn formulas(random: &mut Random) -> Vec<Formula> {
    let pairs = [(0.3, 0.9 / 250.0), (1e-4, 0.0), (0.0, 0.0), (0.0, 1000.0), (1.2, 1e-9)];
    let mut share = || (random.below(1 << 24) as f32 + 1.0) / (1 << 24) as f32;
    let some: Vec<_> = (0..8).map(|_| (3.0 * share(), share() / 100.0)).collect();
    let saturation = |(fixed, by_length)| Formula::Saturation { fixed, by_length };
    let others = [Formula::Cosine, Formula::Linear, Formula::Quantized];
    pairs.into_iter().chain(some).map(saturation).chain(others).collect()
}

/// A block of postings and its formula.
struct Postings {
    formula: Formula,
    docs: Vec<u32>,
    freqs: Vec<u32>,
    lengths: Vec<u32>,
    /// The factor of each document, computed from its length.
    factors: Vec<f32>,
}

impl Postings {
    fn new(formula: Formula, random: &mut Random) -> Self {
        let (freqs, lengths) = (numbers(random, u32::MAX), numbers(random, u32::MAX));
        let docs = freqs.iter().map(|_| random.below(lengths.len()) as u32).collect();
        let norm = |length: u32| cosine::norm(cosine::square(length) / 3 + (1 << 32));
        let factors = lengths.iter().map(|&length| formula.factor(length, norm(length))).collect();
        Postings { formula, docs, freqs, lengths, factors }
    }

    fn values(&self) -> Vec<f32> {
        let value = |(&doc, &freq)| self.formula.value(freq, self.factors[doc as usize]);
        self.docs.iter().zip(&self.freqs).map(value).collect()
    }

    /// Returns weights with which no contribution is too large for a score.
    fn weights(&self) -> [f32; 5] {
        let most = if self.formula == Formula::Linear { 30_000.0 } else { 2.0e9 };
        [0.0, 1.0, 0.37, most / 162_000.0, most]
    }
}

/// A version of the vector code. It returns false if it leaves such postings to the scalar code.
type Version = fn(&Formula, f32, &[u32], &[u32], &[f32], &mut [Score]) -> bool;

/// Returns the versions that this CPU can run.
fn versions() -> Vec<(&'static str, Version)> {
    let mut versions: Vec<(&str, Version)> =
        vec![("scalar", |formula, weight, docs, freqs, factors, out| {
            scalar::score(formula, weight, docs, freqs, factors, out);
            true
        })];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        versions.push(("AVX2", |formula, weight, docs, freqs, factors, out| {
            let signed = freqs.iter().all(|&freq| freq <= i32::MAX as u32);
            if !matches!(formula, Formula::Saturation { .. }) || !signed {
                return false;
            }
            // SAFETY: the CPU has the feature, all documents have factors, and numbers are below
            // 2^31.
            unsafe { x86::avx2(weight, docs, freqs, factors, out) };
            true
        }));
        // AVX-512 if the CPU has it.
        versions.push(("x86", |formula, weight, docs, freqs, factors, out| {
            matches!(formula, Formula::Saturation { .. })
                && x86::saturation(weight, docs, freqs, factors, out)
        }));
    }
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    versions.push(("NEON", |formula, weight, docs, freqs, factors, out| {
        neon::score(formula, weight, docs, freqs, factors, out);
        true
    }));
    versions
}

/// Checks the scores of blocks, and of stored values, with all vector code.
fn check_cpu(postings: &Postings) {
    let Postings { formula, docs, freqs, factors, .. } = postings;
    let values = postings.values();
    for weight in postings.weights() {
        let expected: Vec<Score> = docs
            .iter()
            .zip(freqs)
            .map(|(&doc, &freq)| formula.contribution(weight, freq, factors[doc as usize]))
            .collect();
        let (mut blocks, mut answered) = (0, [0; 4]);
        // This is not a multiple of any number of lanes, so that remainders are tested too.
        for from in (0..docs.len()).step_by(101) {
            let part = from..docs.len().min(from + 101);
            blocks += 1;
            for (version, (name, score)) in versions().into_iter().enumerate() {
                let mut out = vec![0; part.len()];
                let (docs, freqs) = (&docs[part.clone()], &freqs[part.clone()]);
                if score(formula, weight, docs, freqs, factors, &mut out) {
                    answered[version] += 1;
                    assert_eq!(out, expected[part.clone()], "{name}, {formula:?} times {weight}");
                }
            }
        }
        let vectors = matches!(formula, Formula::Saturation { .. });
        let least = if vectors { blocks / 2 } else { 0 };
        let counts = &answered[..versions().len()];
        assert!(counts[0] == blocks && counts.iter().all(|&count| count >= least), "{counts:?}");
        #[cfg(target_arch = "x86_64")]
        {
            let mut out = vec![0; values.len()];
            if x86::units(weight, &values, &mut out) {
                assert_eq!(out, expected, "units, {formula:?} times {weight}");
            }
        }
        let mut out = vec![0; values.len()];
        scalar::units(weight, &values, &mut out);
        assert_eq!(out, expected, "scalar units, {formula:?} times {weight}");
    }
}

/// Checks the values that the kernels of the papers compute.
fn check_papers(postings: &Postings, device: &Device) {
    let Postings { formula, docs, freqs, factors, .. } = postings;
    let stream = device.stream().unwrap();
    let tables = ValueTables::for_frequencies(device, *formula, factors, freqs).unwrap();
    let bits = posting_values(device, &stream, &tables, docs, freqs).unwrap();
    let expected: Vec<u32> = postings.values().into_iter().map(f32::to_bits).collect();
    assert_eq!(bits, expected, "exec-gpu-papers, {formula:?}");
}

/// Checks the weights that the kernel of `warpseek_build_gpu::weights` computes, and the
/// saturation function of the core crate.
fn check_weights(postings: &Postings, device: &Device) {
    let Formula::Saturation { fixed, by_length } = postings.formula else { return };
    let Postings { docs, freqs, lengths, .. } = postings;
    let (stream, count) = (device.stream().unwrap(), docs.len());
    let up = |values: &[u32]| device.upload(&stream, values).unwrap();
    let kernel = device.kernel(&weigh::SOURCE, "weigh_weights").unwrap();
    for idf in [1.0f32, 0.37, 9.75] {
        // A single list contains all postings.
        let (lists, starts) = (up(&vec![0; count]), up(&[0, count as u32]));
        let (docs_there, lengths_there, freqs_there) = (up(docs), up(lengths), up(freqs));
        let idfs = device.upload(&stream, &vec![idf; count + 1]).unwrap();
        let args = Args::new()
            .buffer(&lists)
            .buffer(&starts)
            .value(count as u32)
            .buffer(&docs_there)
            .buffer(&lengths_there)
            .buffer(&idfs)
            .value(fixed)
            .value(by_length)
            .buffer(&freqs_there);
        // SAFETY: every posting has a list, a document with a length, and a document frequency
        // with a weight.
        unsafe { stream.launch(&kernel, Grid::over(count, 256), &args) }.unwrap();
        let bits = stream.download(&freqs_there).unwrap();
        let by_core = Saturation { fixed, by_length };
        let expected = docs.iter().zip(freqs).map(|(&doc, &freq)| {
            let value = saturation::value(freq, by_core.factor(lengths[doc as usize]));
            assert_eq!(value, postings.formula.value(freq, postings.factors[doc as usize]));
            (idf * value).to_bits()
        });
        assert_eq!(bits, expected.collect::<Vec<_>>(), "build-gpu, {:?}", postings.formula);
    }
}

/// Builds indexes whose postings have extreme frequencies and lengths, for each kind of formula.
/// Returns them with the ranking functions to test.
fn indexes(random: &mut Random) -> Vec<(Fixture, Vec<RankingFunction>)> {
    // The frequency of a word and the number of other words. The former determines the
    // frequencies in lists, the sum determines the lengths of documents.
    let sizes = [
        0, 1, 2, 3, 7, 8, 254, 255, 256, 257, 1023, 4095, 4096, 4097, 65_534, 65_535, 65_536,
        70_000,
    ];
    let mut counts: Vec<(usize, usize)> = sizes.iter().map(|&size| (1.max(size), 0)).collect();
    counts.extend(sizes.iter().map(|&size| (1, size)));
    counts.extend(
        (0..400).map(|_| (1 + random.below(300) / (1 + random.below(90)), random.below(900))),
    );
    let text = |(word, others): (usize, usize)| "w ".repeat(word) + &"x ".repeat(others);
    let docs: Vec<Doc> = counts.iter().enumerate().map(|(i, &n)| Doc::text(i, text(n))).collect();
    let bm25 = |k1, b| RankingFunction::Bm25 { k1, b };
    let of_text = RankingFunction::ALL.into_iter().flat_map(|function| match function {
        RankingFunction::Bm25 { .. } => {
            vec![bm25(0.9, 0.4), bm25(1.2, 0.75), bm25(0.0, 0.0), bm25(1000.0, 1.0)]
        }
        RankingFunction::Okapi { .. } => vec![RankingFunction::Okapi { k1: 1.7, b: 0.3 }],
        RankingFunction::Wakatsuki { .. } => vec![RankingFunction::Wakatsuki { k1: 2.0, b: 0.9 }],
        RankingFunction::Cosine => vec![RankingFunction::Cosine],
        // Indexes of vectors are below, and fields of a schema have formulas of these kinds.
        RankingFunction::Impact | RankingFunction::Bm25ByField => Vec::new(),
    });
    let of_text = of_text.collect();
    let quantized = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..build_config() };
    let weight = |i: usize| f64::from([1, 2, 255, 256, 257, 4096, 65_534, 65_535][i % 8]) / 256.0;
    let vectors: Vec<Doc> = (0..300)
        .map(|i| {
            let some = random.below(MAX_IMPACT as usize) as f64 / 256.0;
            Doc::vector(i, &[("w", weight(i)), ("x", some)])
        })
        .collect();
    let suited = |fixture: &Fixture| vec![Ranking::suited(fixture.snapshot().manifest()).function];
    let (quantized, vectors) = (Fixture::with(&docs, quantized), Fixture::of(&vectors));
    let (of_quantized, of_vectors) = (suited(&quantized), suited(&vectors));
    vec![(Fixture::of(&docs), of_text), (quantized, of_quantized), (vectors, of_vectors)]
}

/// Creates all engines. For a query of one word, their scores are contributions.
fn engines(snapshot: &Arc<Snapshot>, device: &Device) -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = Vec::new();
    for algorithm in Algorithm::ALL {
        engines.push(Box::new(CpuEngine::new(snapshot.clone(), Some(algorithm))));
    }
    let gpu = |form: GpuLists| {
        let settings = Settings { lists: form, ..Settings::USUAL };
        GpuEngine::new(snapshot.clone(), device.clone(), settings).unwrap()
    };
    for form in [GpuLists::Tiles, GpuLists::Compact, GpuLists::OnDemand] {
        engines.push(Box::new(gpu(form)));
    }
    let cohort = CohortEngine::new(Arc::new(gpu(GpuLists::Tiles)), CohortSettings::default());
    engines.push(Box::new(cohort.unwrap()));
    for codec in CODECS {
        let intersect = IntersectEngine::new(snapshot.clone(), device.clone(), Some(codec));
        engines.push(Box::new(intersect.unwrap()));
        for &pruning in Pruning::ALL {
            let settings = PartitionSettings { pruning, codec, ..PartitionSettings::default() };
            let engine = PartitionedEngine::new(snapshot.clone(), device.clone(), settings);
            engines.push(Box::new(engine.unwrap()));
        }
    }
    engines
}

fn check_engines(fixture: &Fixture, functions: &[RankingFunction], device: &Device) {
    let snapshot = fixture.snapshot();
    let mut searches = Vec::new();
    for &function in functions {
        for (mode, word, weight) in [
            (Mode::Or, "w", 1.0),
            (Mode::And, "w", 1.0),
            (Mode::Or, "x", 0.01),
            (Mode::And, "x", 300.0),
        ] {
            let query = Query::of([(word, weight)]);
            let ranking = Ranking { function, static_weight: 0.0 };
            searches.push(Search { query, mode, k: 1000, ranking });
        }
    }
    let plans = plans(&snapshot, &searches);
    let expected = expected(&snapshot, &plans);
    assert!(expected.iter().all(|answer| answer.hits.len() > 200));
    for engine in engines(&snapshot, device) {
        let mut answered = 0;
        for (plan, expected) in plans.iter().zip(&expected) {
            if engine.can_answer(plan).is_err() {
                continue;
            }
            answered += 1;
            let answer = answers(&*engine, std::slice::from_ref(plan), 1).unwrap().remove(0);
            assert_eq!(answer.hits, expected.hits, "{}, {:?}", engine.name(), plan.formulas);
        }
        assert!(answered > 0 || functions.len() == 1, "{} answers nothing", engine.name());
    }
}

#[test]
fn every_place_of_the_formula_gives_the_same_bits() {
    #[cfg(target_arch = "x86_64")]
    if !is_x86_feature_detected!("avx512f") {
        elsewhere("the formula in AVX-512", "this CPU has no such instructions");
    }
    let mut random = Random::new(35);
    for formula in formulas(&mut random) {
        let postings = Postings::new(formula, &mut random);
        check_cpu(&postings);
        for device in devices() {
            check_papers(&postings, &device);
            check_weights(&postings, &device);
        }
    }
    for (fixture, functions) in indexes(&mut random) {
        check_engines(&fixture, &functions, &devices()[0]);
    }
}

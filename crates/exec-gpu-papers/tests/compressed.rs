//! Tests of lists in compressed form and their decoders, on the emulator or on a GPU (see
//! `support`).
#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use support::devices;
use warpseek_codec::CodecId;
use warpseek_core::limits::BLOCK;
use warpseek_cuda::Device;
use warpseek_exec::Formula;
use warpseek_exec_gpu_papers::compressed::{
    CODECS, CompressedLists, CompressedSegment, Postings, ValueTables,
};
use warpseek_exec_gpu_papers::kernels::decode::{Decode, What, Work, posting_values};
use warpseek_testkit::{Doc, Fixture};

/// Returns numbers of all widths, a few of them much wider than the others.
fn postings(len: usize, gap_bits: u32, freq_bits: u32, outliers: u32, mut state: u64) -> Postings {
    state |= 1;
    let mut next = move |bits: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 32) & ((1 << bits) - 1)) as u32
    };
    let (mut docs, mut freqs, mut doc) = (Vec::new(), Vec::new(), 0u32);
    for i in 0..len as u32 {
        let wide = outliers == 0 || next(32) % outliers == 0;
        // Numbers are as wide as requested, as long as the rest of the list fits.
        let room = u32::MAX - 1 - doc - (len as u32 - i);
        doc += next(if wide { gap_bits } else { gap_bits / 4 }).min(room);
        docs.push(doc);
        doc += 1;
        let wide = outliers == 0 || next(32) % outliers == 0;
        freqs.push(1 + next(if wide { freq_bits } else { freq_bits / 4 }).min(u32::MAX - 1));
    }
    Postings { docs, freqs, values: Vec::new() }
}

/// Encodes lists, decodes them in every way, and compares.
fn check(device: &Device, codec: CodecId, lists: &[Postings]) -> Result<(), TestCaseError> {
    let stream = device.stream().unwrap();
    let coded = CompressedLists::new(device, codec, lists, 1, 2).unwrap();
    let work = Work::new(device, &stream, &coded, 0..lists.len()).unwrap();
    let decode = Decode::new(device, codec).unwrap();
    let (mut docs, mut freqs) = (Vec::new(), Vec::new());
    for list in lists {
        docs.extend_from_slice(&list.docs);
        freqs.extend_from_slice(&list.freqs);
        docs.resize(docs.len().next_multiple_of(BLOCK), u32::MAX);
        freqs.resize(freqs.len().next_multiple_of(BLOCK), 0);
    }
    let numbers = || device.buffer::<u32>(work.numbers()).unwrap();
    let (to_docs, to_freqs, fetched) = (numbers(), numbers(), numbers());
    decode.write(&stream, &work, &to_docs, &to_freqs).unwrap();
    decode.fetch(&stream, &work, &fetched).unwrap();
    prop_assert_eq!(stream.download(&to_docs).unwrap(), &docs[..], "documents, {}", codec);
    prop_assert_eq!(stream.download(&to_freqs).unwrap(), &freqs[..], "frequencies, {}", codec);
    prop_assert_eq!(stream.download(&fetched).unwrap(), &freqs[..], "each alone, {}", codec);
    let sums = device.buffer::<u32>(work.runs()).unwrap();
    let gap = |i: usize| match (i % BLOCK, docs[i]) {
        (_, u32::MAX) => u32::MAX,
        (0, _) => 0,
        _ => docs[i] - docs[i - 1] - 1,
    };
    let gaps: Vec<u32> = (0..docs.len()).map(gap).collect();
    let both = [&docs[..], &freqs].concat();
    let mut cases = vec![(What::Docs, &docs), (What::Both, &both)];
    cases.extend((codec == CodecId::PFor).then_some((What::Gaps, &gaps)));
    for (what, expected) in cases {
        decode.sums(&stream, &work, what, &sums).unwrap();
        let add = |numbers: &[u32]| numbers.iter().copied().fold(0, u32::wrapping_add);
        prop_assert_eq!(
            add(&stream.download(&sums).unwrap()),
            add(expected),
            "{:?}, {}",
            what,
            codec
        );
    }
    Ok(())
}

#[test]
fn corner_cases() {
    let list = |docs: &[u32], freqs: &[u32]| {
        let (docs, freqs) = (docs.to_vec(), freqs.to_vec());
        Postings { docs, freqs, values: Vec::new() }
    };
    let lists = [
        list(&[0], &[1]),
        list(&[u32::MAX - 1], &[u32::MAX]),
        list(&[0, u32::MAX - 1], &[u32::MAX, 1]),
        list(&(0..128).collect::<Vec<_>>(), &[1; 128]),
        list(&(0..129).map(|i| i * 1000).collect::<Vec<_>>(), &[7; 129]),
        list(&(0..127).map(|i| i * i * 100).collect::<Vec<_>>(), &[u32::MAX; 127]),
        postings(5000, 16, 9, 9, 1),
        // Three in ten numbers are exceptions, and three of those, in one run, are much wider.
        list(
            &(0..9000).map(|i: u32| i * 40).collect::<Vec<_>>(),
            &(0..9000)
                .map(|i: u32| match i {
                    1000 | 1100 | 1200 => i << 12,
                    _ if i % 10 < 3 => 200 + i % 50,
                    _ => 1,
                })
                .collect::<Vec<_>>(),
        ),
        // Runs in which every number is an exception, and exceptions of exceptions.
        list(
            &(0..3000).map(|i: u32| if i < 2000 { i } else { i * 1_000_000 }).collect::<Vec<_>>(),
            &(0..3000)
                .map(|i: u32| if i % 500 < 130 { i << 16 | 1 } else { 1 })
                .collect::<Vec<_>>(),
        ),
    ];
    for device in devices() {
        for codec in CODECS {
            check(&device, codec, &lists).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_lists(
        shapes in proptest::collection::vec(
            (
                prop_oneof![1usize..=130, Just(255), Just(256), Just(257), 1usize..2000],
                0u32..=31, 0u32..=32,
                prop_oneof![Just(0u32), Just(2), Just(8), Just(64)],
                any::<u64>(),
            ),
            1..4,
        ),
    ) {
        let lists: Vec<Postings> =
            shapes.into_iter().map(|(n, gap, freq, out, seed)| postings(n, gap, freq, out, seed)).collect();
        for device in devices() {
            for codec in CODECS {
                check(&device, codec, &lists)?;
            }
        }
    }
}

/// Tests that every list of an index is at its ordinal, with its largest value.
#[test]
fn segments_are_loaded_completely() {
    let text =
        |i: usize| (0..i % 9 + 1).map(|j| format!("w{} ", i * (j + 1) % 50)).collect::<String>();
    let docs: Vec<Doc> = (0..400).map(|i| Doc::text(i, text(i))).collect();
    let fixture = Fixture::of(&docs);
    let snapshot = fixture.snapshot();
    let formula = Formula::Saturation { fixed: 0.3, by_length: 0.1 };
    for device in devices() {
        let stream = device.stream().unwrap();
        for (segment, codec) in
            snapshot.segments().iter().flat_map(|s| [(s, CodecId::PFor), (s, CodecId::BitPack)])
        {
            let loaded = AtomicU64::new(0);
            let all = 0..segment.documents().count();
            let image = CompressedSegment::load(&device, segment, &all, formula, codec, 3, &loaded)
                .unwrap();
            let lists = image.lists();
            let work = Work::new(&device, &stream, lists, 0..lists.lists().len()).unwrap();
            let numbers = || device.buffer::<u32>(work.numbers()).unwrap();
            let (to_docs, to_freqs) = (numbers(), numbers());
            Decode::new(&device, codec)
                .unwrap()
                .write(&stream, &work, &to_docs, &to_freqs)
                .unwrap();
            let (docs, freqs) =
                (stream.download(&to_docs).unwrap(), stream.download(&to_freqs).unwrap());
            let (mut terms, mut at, mut postings) = (segment.dictionary().iter(), 0, 0);
            while let Some(info) = terms.next_term().unwrap() {
                let (list, coded) = (segment.list(&info).unwrap(), image.list(&info));
                assert_eq!((coded.df, coded.blocks as usize), (info.df, list.blocks()));
                let (mut block_docs, mut block_freqs, mut most) = ([0; BLOCK], [0; BLOCK], 0f32);
                for block in 0..list.blocks() {
                    let n = list.decode_docs(block, &mut block_docs).unwrap();
                    list.decode_freqs(block, &mut block_freqs).unwrap();
                    assert_eq!(docs[at..at + n], block_docs[..n]);
                    assert_eq!(freqs[at..at + n], block_freqs[..n]);
                    let lengths = segment.documents().lengths().unwrap();
                    for (&doc, &freq) in block_docs[..n].iter().zip(&block_freqs) {
                        most = most.max(formula.value(freq, formula.factor(lengths.get(doc), 0.0)));
                    }
                    at += BLOCK;
                }
                assert_eq!(coded.most, most);
                postings += u64::from(info.df);
            }
            assert_eq!(loaded.into_inner(), postings);
            assert_eq!(at, docs.len());
        }
    }
}

#[test]
fn a_codec_without_a_form_is_refused() {
    let device = devices().remove(0);
    let Err(error) = CompressedLists::new(&device, CodecId::EliasFano, &[], 1, 1) else {
        panic!("there is none");
    };
    assert_eq!(error.to_string(), "codec ef has no form on the device; take bitpack, rice or pfor");
}

#[test]
fn values_have_the_bits_of_the_cpu() {
    let formulas = [
        Formula::Saturation { fixed: 0.3, by_length: 0.9 / 250.0 },
        Formula::Saturation { fixed: 1e-4, by_length: 0.0 },
        Formula::Saturation { fixed: 0.0, by_length: 1000.0 },
        Formula::Cosine,
        Formula::Linear,
        Formula::Quantized,
    ];
    // Frequencies around powers of two, where the step of rounding changes, and some of all
    // sizes.
    let around = (0..32u32).flat_map(|bit| (-2..=2i64).map(move |by| (1i64 << bit) + by));
    let mut freqs: Vec<u32> =
        around.filter_map(|f| u32::try_from(f).ok()).filter(|&f| f > 0).collect();
    freqs.extend(1..3000);
    freqs.extend((1..3000u32).map(|i| i.wrapping_mul(2_654_435_761) | 1));
    freqs.push(u32::MAX);
    let lengths = [1u32, 2, 3, 17, 250, 251, 4095, 65_536, 1_000_003, u32::MAX];
    for formula in formulas {
        let norm = |length: u32| (length as f32).sqrt() + 0.1;
        let factors = lengths.map(|length| formula.factor(length, norm(length)));
        let docs: Vec<u32> = (0..freqs.len() as u32).map(|i| i % lengths.len() as u32).collect();
        let bits = docs.iter().zip(&freqs);
        let expected: Vec<u32> = bits
            .map(|(&doc, &freq)| formula.value(freq, factors[doc as usize]).to_bits())
            .collect();
        for device in devices() {
            let stream = device.stream().unwrap();
            let tables = ValueTables::for_frequencies(&device, formula, &factors, &freqs).unwrap();
            let bits = posting_values(&device, &stream, &tables, &docs, &freqs).unwrap();
            assert_eq!(bits, expected, "{formula:?}");
        }
    }
}

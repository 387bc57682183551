//! Tests that weights are the same on the CPU and on a GPU, by strings and by a dictionary, and
//! equal to the definition.

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

use std::borrow::Cow;
use std::collections::BTreeMap;

use proptest::prelude::*;
use support::{devices, devices_within};
use warpseek_build_gpu::weights::{
    GpuWeigher, HostText, Method, Step, WeighError, Weights, WordText, weigh_on_cpu,
};
use warpseek_core::saturation::{self, Saturation};
use warpseek_dictionary::Dictionary;
use warpseek_exec::RankingFunction;

const WAKATSUKI: RankingFunction = RankingFunction::Wakatsuki { k1: 1.2, b: 0.75 };

type Lists = BTreeMap<Option<Vec<u8>>, Vec<(u32, u32)>>;

fn text(documents: &[Vec<Vec<u8>>]) -> WordText {
    let mut text = WordText::default();
    for document in documents {
        document.iter().for_each(|word| text.push(word).unwrap());
        text.end_document();
    }
    text
}

/// Computes the bits of weights by term and document, by the definition. Unknown words are one
/// term.
fn reference(
    documents: &[Vec<Vec<u8>>],
    known: impl Fn(&[u8]) -> bool,
    function: RankingFunction,
) -> Lists {
    let mut counts: BTreeMap<Option<Vec<u8>>, BTreeMap<u32, u32>> = BTreeMap::new();
    for (doc, document) in (0..).zip(documents) {
        for word in document {
            let term = known(word).then(|| word.clone());
            *counts.entry(term).or_default().entry(doc).or_default() += 1;
        }
    }
    let words: usize = documents.iter().map(Vec::len).sum();
    let (k1, b) = function.saturation().unwrap();
    let saturation = Saturation::new(k1, b, words as f64 / documents.len().max(1) as f64);
    let list = |(term, docs): (Option<Vec<u8>>, BTreeMap<u32, u32>)| {
        let df = docs.len() as u64;
        let idf = (function.idf(documents.len() as u64, df) * function.constant()) as f32;
        let weight = |(doc, freq): (u32, u32)| {
            let factor = saturation.factor(documents[doc as usize].len() as u32);
            (doc, (idf * saturation::value(freq, factor)).to_bits())
        };
        (term, docs.into_iter().map(weight).collect())
    };
    counts.into_iter().map(list).collect()
}

fn lists(weights: &Weights<'_>, text: &WordText, method: Method<'_>) -> Lists {
    let mut terms = Vec::new();
    let all = (0..weights.terms.len()).map(|list| {
        let range = weights.starts[list] as usize..weights.starts[list + 1] as usize;
        let docs = weights.docs[range.clone()].iter().copied();
        let weights_of = weights.weights[range].iter().map(|weight| weight.to_bits());
        let term = weights.term(list, text.bytes(), method).map(Cow::into_owned);
        terms.push(term.clone());
        (term, docs.zip(weights_of).collect())
    });
    let all: Lists = all.collect();
    // The unknown words come last.
    assert!(terms.is_sorted_by_key(|term| (term.is_none(), term.clone())), "order of terms");
    assert_eq!(all.len(), terms.len());
    all
}

fn check(documents: &[Vec<Vec<u8>>], vocabulary: &[Vec<u8>]) {
    let text = text(documents);
    let dictionary = Dictionary::build(vocabulary).unwrap();
    let words: usize = documents.iter().map(Vec::len).sum();
    for function in [WAKATSUKI, RankingFunction::Bm25 { k1: 0.9, b: 0.4 }] {
        for method in [Method::Strings, Method::Dictionary(&dictionary), Method::MapReduce] {
            let known = |word: &[u8]| match method {
                Method::Strings | Method::MapReduce => true,
                Method::Dictionary(dictionary) => dictionary.look_up(word).is_some(),
            };
            let want = reference(documents, known, function);
            let (cpu, _) = weigh_on_cpu(text.bytes(), method, function).unwrap();
            assert_eq!((cpu.words, cpu.documents as usize), (words as u64, documents.len()));
            assert_eq!(lists(&cpu, &text, method), want, "CPU");
            for device in devices() {
                let mut weigher = GpuWeigher::new(&device, method).unwrap();
                let bytes = text.bytes();
                let (gpu, _) = weigher.weigh(HostText::Slice(bytes), function).unwrap();
                assert!(gpu == cpu, "GPU, {function}, {method:?}");
                // Memory of a larger text serves a smaller one.
                let (empty, _) = weigher.weigh(HostText::Slice(&[]), function).unwrap();
                assert_eq!((empty.words, empty.docs.len(), empty.terms.len()), (0, 0, 0));
                let mut pinned = device.pinned(bytes.len() + 7).unwrap();
                pinned.write().unwrap()[..bytes.len()].copy_from_slice(bytes);
                let pinned = HostText::Pinned(&pinned, bytes.len());
                let (again, steps) = weigher.weigh(pinned, function).unwrap();
                assert!(again == cpu, "GPU from page-locked memory");
                let has = |step: Step| steps.iter().any(|(own, _)| *own == step);
                assert_eq!(has(Step::Ids), matches!(method, Method::Dictionary(_)));
                assert_eq!(has(Step::Reduce), matches!(method, Method::MapReduce));
            }
        }
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn few_documents() {
    check(&[], &[]);
    check(&[vec![]], &[]);
    check(&[words("a"), vec![], words("b a a"), words("a c")], &words("a b"));
    let long =
        vec![b"x".repeat(255), b"x".repeat(254), b"\0".to_vec(), b"a\0".to_vec(), b"a".to_vec()];
    check(&[long.clone(), long.clone()], &long);
    let sevens = words(
        "abcdefg abcdefgh abcdefgi abcdef abcdefgh abcdefghi \u{ff}\u{ff}\u{ff}\u{ff} abcdefg",
    );
    check(&[sevens.clone(), sevens.clone()], &sevens[..3]);
}

#[test]
fn sizes_around_the_borders_of_warps_blocks_and_tiles() {
    for count in [31, 32, 33, 255, 256, 257, 2303, 2304, 2305, 7679, 7681] {
        let document = (0..count).map(|i: u32| format!("w{}", i * i % 89).into_bytes()).collect();
        check(&[document], &words("w1 w4 w9 w16"));
    }
}

#[test]
fn words_must_be_words() {
    let mut text = WordText::default();
    for bad in ["a b", "\u{1e}", "a\n", "\t"] {
        assert!(text.push(bad.as_bytes()).is_err(), "{bad:?}");
    }
    assert!(text.bytes().is_empty());
    let device = &devices()[0];
    for method in [Method::Strings, Method::MapReduce] {
        assert!(weigh_on_cpu(b"a\n\x1e", method, RankingFunction::Cosine).is_err());
        let mut weigher = GpuWeigher::new(device, method).unwrap();
        let error = weigher.weigh(HostText::Slice(b"a\n\x1e"), RankingFunction::Cosine);
        assert!(matches!(error.unwrap_err(), WeighError::Function(_)));
    }
}

/// Tests that a text that does not fit into the memory of a device is counted in parts.
#[test]
fn little_device_memory() {
    let mut documents: Vec<Vec<Vec<u8>>> = (0..300u32)
        .map(|i| (0..i % 50).map(|j| format!("word-{}", i * j % 137).into_bytes()).collect())
        .collect();
    // Some documents do not fit by themselves.
    for at in [0, 150, 151, 302] {
        let long = (0..5000).map(|j| format!("word-{}", (j * j + at) % 251).into_bytes());
        documents.insert(at, long.collect());
    }
    let text = text(&documents);
    let dictionary = Dictionary::build(&documents.concat()[..100]).unwrap();
    for method in [Method::Strings, Method::Dictionary(&dictionary)] {
        let (cpu, _) = weigh_on_cpu(text.bytes(), method, WAKATSUKI).unwrap();
        for kilobytes in [400, 1000, 4000] {
            let device = devices_within(Some(kilobytes << 10)).remove(0).unwrap();
            let mut weigher = GpuWeigher::new(&device, method).unwrap();
            for _ in 0..2 {
                let (gpu, _) = weigher.weigh(HostText::Slice(text.bytes()), WAKATSUKI).unwrap();
                assert!(gpu == cpu, "{kilobytes} KB, {method:?}");
            }
        }
    }
}

/// Tests that threads of the CPU, which take chunks of a text in any order, give the lists of the
/// definition.
#[test]
fn many_chunks_on_many_threads() {
    let word = |i: u32, j: u32| format!("word{}", i.wrapping_mul(j * j + 7) % 5003).into_bytes();
    let documents: Vec<Vec<Vec<u8>>> =
        (0..2600).map(|i| (0..i % 200).map(|j| word(i, j)).collect()).collect();
    let text = text(&documents);
    assert!(text.bytes().len() > 2 << 20);
    let all = Dictionary::build(documents.concat()).unwrap();
    let want = reference(&documents, |_| true, WAKATSUKI);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
    for method in [Method::Strings, Method::Dictionary(&all), Method::MapReduce] {
        let weighed = pool.install(|| weigh_on_cpu(text.bytes(), method, WAKATSUKI));
        let (weights, steps) = weighed.unwrap();
        assert!(lists(&weights, &text, method) == want, "{method:?}");
        assert_eq!(steps.last().unwrap().0, Step::Merge);
    }
    let (strings, _) = weigh_on_cpu(text.bytes(), Method::Strings, WAKATSUKI).unwrap();
    let (grouped, _) =
        pool.install(|| weigh_on_cpu(text.bytes(), Method::MapReduce, WAKATSUKI)).unwrap();
    assert!(strings == grouped);
}

/// Tests that MapReduce holds as much text as its error says, which is the worst case: words of
/// one letter.
#[test]
fn map_reduce_within_little_device_memory() {
    let device = devices_within(Some(4 << 20)).remove(0).unwrap();
    let mut weigher = GpuWeigher::new(&device, Method::MapReduce).unwrap();
    let mut weigh = |words: usize| {
        let mut bytes = b"a\nb\n".repeat(words / 2);
        bytes.push(0x1e);
        let cpu = weigh_on_cpu(&bytes, Method::MapReduce, WAKATSUKI).unwrap().0;
        match weigher.weigh(HostText::Slice(&bytes), WAKATSUKI) {
            Ok((gpu, _)) => {
                assert!(gpu == cpu);
                Ok(())
            }
            Err(error) => Err((error, bytes.len())),
        }
    };
    let (error, bytes) = weigh(200_000).unwrap_err();
    let WeighError::TextTooLarge { bytes: found, most } = error else { panic!("{error}") };
    assert_eq!(found, bytes);
    assert!(most < found && most > 1000, "{most}");
    // A text has an odd number of bytes, and one byte less than a multiple of four besides.
    let fits = (most - 1) / 4 * 2;
    weigh(fits).unwrap();
    assert!(matches!(weigh(fits + 2), Err((WeighError::TextTooLarge { .. }, _))));
}

/// Tests that unknown words do not change the weights of known ones, as long as documents keep
/// their lengths.
#[test]
fn unknown_words_do_not_disturb_known_ones() {
    let known = words("a b c");
    let dictionary = Dictionary::build(&known).unwrap();
    let weights_with = |unknown: &str| {
        let documents = ["a U b a", "c U U", "U", "a b"];
        let documents: Vec<_> = documents.map(|text| words(&text.replace('U', unknown))).into();
        let text = text(&documents);
        let method = Method::Dictionary(&dictionary);
        let (weights, _) = weigh_on_cpu(text.bytes(), method, WAKATSUKI).unwrap();
        let mut all = lists(&weights, &text, method);
        all.remove(&None).unwrap();
        all
    };
    assert_eq!(weights_with("x"), weights_with("longer-word"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_words(
        documents in prop::collection::vec(
            prop::collection::vec(prop_oneof!["[a-c]{1,3}", "[a-b]{6,10}", "[é東a]{1,4}", "\\PC{1,3}"], 0..60), 0..40),
        keep in 1usize..4,
    ) {
        let documents: Vec<Vec<Vec<u8>>> = documents
            .iter()
            .map(|words| words.iter().flat_map(|word| word.split(char::is_whitespace)))
            .map(|words| words.filter(|word| !word.is_empty()).map(|w| w.as_bytes().to_vec()).collect())
            .collect();
        let vocabulary: Vec<Vec<u8>> = documents.iter().flatten().step_by(keep).cloned().collect();
        check(&documents, &vocabulary);
    }
}

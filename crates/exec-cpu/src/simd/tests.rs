//! Tests that compare the versions that run on this CPU, and those for CPUs with fewer features,
//! with the scalar version.

use super::*;

#[test]
fn every_version_equals_the_scalar_one() {
    let mut state = 7u64;
    let mut next = move |limit: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % limit
    };
    let factors: Vec<f32> = (0..5000).map(|_| next(100_000) as f32 / 7919.0).collect();
    for len in [0, 1, 7, 8, 9, 15, 16, 17, 100, 127, 128] {
        for weight in [0.0f32, 1.0, 12_345.678, 2.0e9] {
            let docs: Vec<u32> = (0..len).map(|_| next(5000)).collect();
            let freqs: Vec<u32> =
                (0..len).map(|i| 1 + next(if i % 5 == 0 { 70_000 } else { 9 })).collect();
            let formula = Formula::Saturation { fixed: 0.0, by_length: 0.0 };
            let mut expected = vec![0; len];
            scalar::score(&formula, weight, &docs, &freqs, &factors, &mut expected);
            let mut out = vec![0; len];
            score_block(&formula, weight, &docs, &freqs, &factors, &mut out);
            assert_eq!(out, expected);
            // CPUs with AVX-512 do not choose this version.
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has the feature, and documents are below 5000, the length of
                // `factors`.
                #[allow(unsafe_code)]
                unsafe {
                    x86::avx2(weight, &docs, &freqs, &factors, &mut out);
                }
                assert_eq!(out, expected);
            }
        }
    }
}

#[test]
fn frequencies_of_any_size_are_scored_by_every_formula() {
    let freqs =
        [1, 3, (1 << 24) + 1, (1 << 24) + 3, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
    let (docs, factors) = ([0, 1, 2, 1, 0, 1, 2, 0], [0.5, 1e9, 3e-9]);
    let saturation = Formula::Saturation { fixed: 0.0, by_length: 0.0 };
    for formula in [saturation, Formula::Linear, Formula::Quantized] {
        let (mut out, mut expected) = ([0; 8], [0; 8]);
        score_block(&formula, 12_345.678, &docs, &freqs, &factors, &mut out);
        scalar::score(&formula, 12_345.678, &docs, &freqs, &factors, &mut expected);
        assert_eq!(out, expected);
    }
}

#[test]
fn values_are_multiplied_as_by_the_scalar_code() {
    for len in [0, 1, 15, 16, 17, 128, 500] {
        let values: Vec<f32> = (0..len).map(|i| i as f32 / 97.0 + 1e-3).collect();
        for weight in [0.0f32, 1.0, 12_345.678, 1.0e8, 3.0e9] {
            let (mut out, mut expected) = (vec![0; len], vec![0; len]);
            // The planner refuses queries with a contribution of 2^32.
            let most = 4.29e9 / weight.max(1.0);
            let damaged = [-5.0, f32::NAN].into_iter();
            let values: Vec<f32> =
                damaged.chain(values.iter().map(|v| v.min(most))).take(len).collect();
            units(weight, &values, &mut out);
            scalar::units(weight, &values, &mut expected);
            assert_eq!(out, expected, "{len} values with {weight}");
        }
    }
}

#[test]
fn documents_are_found_as_by_the_scalar_code() {
    for len in [0usize, 1, 15, 16, 17, 33, 127, 128] {
        for step in [1u32, 2, 0x0100_0001] {
            let docs: Vec<u32> = (0..len as u32).map(|i| 3 + i * step).collect();
            let last = docs.last().map_or(9, |&last| last + 1);
            let near = |doc: &u32| [doc - 1, *doc, doc + 1];
            for doc in docs.iter().flat_map(near).chain([0, last, u32::MAX]) {
                for from in (0..len).filter(|&from| from == 0 || docs[from - 1] < doc) {
                    let expected = scalar::find_doc(&docs, from, doc);
                    let found = find_doc(&docs, from, doc);
                    assert_eq!(found, expected, "{doc} from {from} of {len}");
                    if let Ok(block) = docs.as_slice().try_into() {
                        assert_eq!(rank(block, from, doc), expected, "{doc} from {from}");
                    }
                }
            }
            assert_eq!(find_doc(&docs, len, last), len);
        }
    }
}

#[test]
fn survivors_are_those_of_the_scalar_code_and_nothing_is_left() {
    let mut state = 7u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32
    };
    for words in [0, 1, 2, 9] {
        for (one_in, least) in [(1, 0), (1, 500), (3, 900), (50, 10), (1, u32::MAX)] {
            let mut sums = vec![0; 64 * words];
            let mut touched = vec![0u64; words];
            for at in 0..sums.len() {
                if next() % one_in == 0 {
                    sums[at] = 1 + next() % 1000 + (next() % 5 / 4) * 0x8000_0000;
                    touched[at / 64] |= 1 << (at % 64);
                }
            }
            let expected: Vec<(u32, Score)> = (1000..).zip(sums.iter().copied()).collect();
            let expected: Vec<_> = expected.into_iter().filter(|pair| pair.1 > least).collect();
            let run = |survivors: &dyn Fn(&mut [_], &mut [_], &mut [_], &mut [_]) -> usize| {
                let (mut sums, mut touched) = (sums.clone(), touched.clone());
                let (mut docs, mut out) = (vec![0; 64 * words], vec![0; 64 * words]);
                let found = survivors(&mut sums, &mut touched, &mut docs, &mut out);
                assert!(sums.iter().all(|&sum| sum == 0) && touched.iter().all(|&t| t == 0));
                let pairs = docs.into_iter().zip(out).take(found);
                assert_eq!(pairs.collect::<Vec<_>>(), expected, "{words} words, above {least}");
            };
            run(&|sums, touched, docs, out| {
                scalar::survivors(sums, touched, 1000, least, docs, out)
            });
            run(&|sums, touched, docs, out| survivors(sums, touched, 1000, least, docs, out));
        }
    }
}

#[test]
fn those_above_are_kept_and_nothing_behind_is_touched() {
    let docs: Vec<u32> = (0..200).collect();
    let sums: Vec<Score> = (0..200u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    for (range, to) in [(0..0, 0), (0..200, 0), (7..8, 7), (40..57, 33), (40..150, 2)] {
        for least in [0, 1 << 30, 3 << 30, u32::MAX] {
            let run = |keep: &dyn Fn(&mut [u32], &mut [Score]) -> usize| {
                let (mut docs, mut sums) = (docs.clone(), sums.clone());
                let end = keep(&mut docs, &mut sums);
                let kept = |all: &[u32]| [&all[..end], &all[range.end..]].concat();
                (kept(&docs), kept(&sums))
            };
            let expected =
                run(&|docs, sums| scalar::keep_above(docs, sums, range.clone(), to, least));
            let above = range.clone().filter(|&i| sums[i] > least).map(|i| i as u32);
            assert!(above.eq(expected.0[to..expected.0.len() - (200 - range.end)].to_vec()));
            let found = run(&|docs, sums| keep_above(docs, sums, range.clone(), to, least));
            assert_eq!(found, expected, "{range:?} to {to} above {least}");
        }
    }
}

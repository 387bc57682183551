//! Compaction, Parallel Merge Find, the tree of maxima and sorts against plain Rust, on the emulator or on a GPU (see `support`).
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use support::devices;
use warpseek_cuda::Device;
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::max_tree::{Best, MaxTree};
use warpseek_cuda::kernels::merge_find::{MAX_LEVELS, MergeFind};
use warpseek_cuda::kernels::radix_sort::RadixSort;

/// Numbers that look random and are the same in every run.
fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 29
}

fn check_compact(device: &Device, values: &[u32], keep: impl Fn(usize) -> bool, known: bool) {
    let stream = device.stream().unwrap();
    let compact = Compact::new(device).unwrap();
    // Only half of the values count: their number is in device memory, and the bits after them are not looked at.
    let count = if known { values.len() / 2 } else { values.len() };
    let mut words = vec![0u32; values.len().div_ceil(32)];
    for i in (0..values.len()).filter(|&i| keep(i)) {
        words[i / 32] |= 1 << (i % 32);
    }
    if let Some(last) = words.last_mut()
        && !values.len().is_multiple_of(32)
    {
        *last |= u32::MAX << (values.len() % 32);
    }
    let bits = device.upload(&stream, &words).unwrap();
    let input = device.upload(&stream, values).unwrap();
    let doubled: Vec<u32> = values.iter().map(|v| v ^ 1).collect();
    let second = device.upload(&stream, &doubled).unwrap();
    let outs: Vec<_> = (0..2).map(|_| device.buffer::<u32>(values.len()).unwrap()).collect();
    let scratch = device.buffer(Compact::scratch_len(values.len())).unwrap();
    let number = device.upload(&stream, &[count as u32]).unwrap();
    let arrays = [(&input, &outs[0]), (&second, &outs[1])];
    compact.launch(&stream, &bits, known.then_some(&number), &arrays, &scratch).unwrap();
    let expected: Vec<u32> = (0..count).filter(|&i| keep(i)).map(|i| values[i]).collect();
    let kept = expected.len();
    assert_eq!(stream.download(&scratch).unwrap().last(), Some(&(kept as u32)));
    assert_eq!(stream.download(&outs[0].slice(..kept)).unwrap(), expected);
    let expected: Vec<u32> = expected.iter().map(|v| v ^ 1).collect();
    assert_eq!(stream.download(&outs[1].slice(..kept)).unwrap(), expected);
}

#[test]
fn compact_at_every_edge() {
    for device in devices() {
        for len in [0, 1, 31, 32, 33, 1023, 1024, 1025, 70_000] {
            let values: Vec<u32> = (0..len).map(|i| mixed(i) as u32).collect();
            for known in [false, true] {
                check_compact(&device, &values, |_| true, known);
                check_compact(&device, &values, |_| false, known);
                check_compact(&device, &values, |i| mixed(i as u64).is_multiple_of(5), known);
                check_compact(&device, &values, |i| i % 1000 > 900, known);
            }
        }
    }
}

/// The intersection by a plain merge.
fn plain_merge(a: &[u32], b: &[u32]) -> Vec<u32> {
    let (mut i, mut j, mut both) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                both.push(a[i]);
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    both
}

fn check_merge_find(device: &Device, a: &[u32], b: &[u32]) {
    let stream = device.stream().unwrap();
    let merge_find = MergeFind::new(device).unwrap();
    let (shorter, longer) =
        (device.upload(&stream, a).unwrap(), device.upload(&stream, b).unwrap());
    let expected = plain_merge(a, b);
    for levels in 0..=MAX_LEVELS {
        let out = device.buffer(a.len()).unwrap();
        let scratch = device.buffer(MergeFind::scratch_len(a.len())).unwrap();
        merge_find.intersect(&stream, &shorter, &longer, levels, &out, &scratch).unwrap();
        let count = *stream.download(&scratch).unwrap().last().unwrap() as usize;
        assert_eq!(count, expected.len(), "{levels} levels");
        assert_eq!(stream.download(&out.slice(..count)).unwrap(), expected, "{levels} levels");
    }
}

#[test]
fn merge_find_at_every_edge() {
    let every =
        |n: u32, step: u32, from: u32| -> Vec<u32> { (0..n).map(|i| from + i * step).collect() };
    for device in devices() {
        check_merge_find(&device, &[], &[]);
        check_merge_find(&device, &[], &[1]);
        check_merge_find(&device, &[1], &[]);
        check_merge_find(&device, &[0, u32::MAX], &[0, 7, u32::MAX]);
        for n in [1, 31, 32, 33, 1023, 1024, 1025, 5000] {
            check_merge_find(&device, &every(n, 3, 0), &every(n, 2, 0));
            check_merge_find(&device, &every(n, 3, 0), &every(n, 3, 0));
            check_merge_find(&device, &every(n, 1, 0), &every(n, 1, n));
            check_merge_find(&device, &every(n, 1, n), &every(n, 1, 0));
            check_merge_find(&device, &every(n, 700, 5), &every(40_000, 7, 5));
        }
    }
}

/// The best k by sorting, which every other way must equal.
fn plain_best(keys: &[u64], k: usize) -> Vec<u64> {
    let mut best: Vec<u64> = keys.iter().copied().filter(|&key| key != 0).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    best.truncate(k);
    best
}

fn check_tree(device: &Device, keys: &[u64], k: usize, count: Option<u32>) {
    let stream = device.stream().unwrap();
    let tree = MaxTree::new(device).unwrap();
    let all = device.upload(&stream, keys).unwrap();
    let out = Best { keys: device.buffer(k).unwrap(), count: device.buffer(1).unwrap() };
    let scratch = device.buffer(MaxTree::scratch_len(keys.len(), k)).unwrap();
    let number = device.upload(&stream, &[count.unwrap_or(0)]).unwrap();
    tree.best(&stream, &all, count.map(|_| &number), k, &out, &scratch).unwrap();
    let expected = plain_best(&keys[..count.map_or(keys.len(), |n| n as usize)], k);
    let found = stream.download(&out.count).unwrap()[0] as usize;
    assert_eq!(found, expected.len(), "{} keys, k {k}", keys.len());
    assert_eq!(
        stream.download(&out.keys.slice(..found)).unwrap(),
        expected,
        "{} keys, k {k}",
        keys.len()
    );
}

/// A document's key: higher scores first, then lower documents. There are few scores, so that there are ties.
fn hit(doc: usize, score: u64) -> u64 {
    if score == 0 { 0 } else { score << 32 | u64::from(!(doc as u32)) }
}

#[test]
fn the_tree_equals_sorting() {
    for device in devices() {
        for n in [0, 1, 100, 4096, 4097, 20_000, 300_000] {
            let mixed: Vec<u64> = (0..n).map(|i| hit(i, mixed(i as u64) % 50)).collect();
            let rising: Vec<u64> = (0..n).map(|i| hit(i, i as u64 / 7)).collect();
            for k in [1, 10, 1000, 5000] {
                check_tree(&device, &mixed, k, None);
                // The best keys are neighbours, so few groups contain all of them.
                check_tree(&device, &rising, k, None);
                check_tree(&device, &rising, k, Some(n as u32 / 3));
            }
        }
    }
}

#[test]
fn the_best_of_runs_equal_sorting() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let tree = MaxTree::new(&device).unwrap();
        let keys: Vec<u64> = (0..30_000).map(|i| hit(i, mixed(i as u64) % 9)).collect();
        let starts = [0u32, 0, 1, 4000, 4000, 9000, 30_000];
        for ks in [[1u32, 1, 10, 10, 3, 7], [1, 2000, 3000, 10, 4500, 5000]] {
            let most = *ks.iter().max().unwrap() as usize;
            let (runs, all) = (ks.len(), device.upload(&stream, &keys).unwrap());
            let out = Best {
                keys: device.buffer(runs * most).unwrap(),
                count: device.buffer(runs).unwrap(),
            };
            let scratch = device.buffer(MaxTree::runs_scratch_len(runs, most)).unwrap();
            let (from, wanted) =
                (device.upload(&stream, &starts).unwrap(), device.upload(&stream, &ks).unwrap());
            tree.best_of_runs(&stream, &all, &from, &wanted, most, &out, &scratch).unwrap();
            let (found, counts) =
                (stream.download(&out.keys).unwrap(), stream.download(&out.count).unwrap());
            for i in 0..runs {
                let run = &keys[starts[i] as usize..starts[i + 1] as usize];
                let expected = plain_best(run, ks[i] as usize);
                assert_eq!(counts[i] as usize, expected.len(), "run {i}");
                assert_eq!(found[i * most..][..expected.len()], expected, "run {i}");
            }
        }
    }
}

fn numbers(most: u32) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::btree_set(0..most, 0..3000)
        .prop_map(|set: BTreeSet<u32>| set.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merge_find_equals_a_merge(a in numbers(5000), b in prop_oneof![numbers(5000), numbers(u32::MAX)]) {
        for device in devices() {
            check_merge_find(&device, &a, &b);
        }
    }

    #[test]
    fn radix_sort_equals_sorting(
        keys in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..300, Just(u64::MAX)], 0..20_000), bits in 1u32..=64,
    ) {
        let short: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
        for device in devices() {
            check_radix_sort(&device, &short, bits.min(32));
            check_radix_sort_u64(&device, &keys, bits);
        }
    }

    #[test]
    fn the_tree_equals_sorting_random_keys(scores in prop::collection::vec(0u64..40, 0..60_000), k in 1usize..3000) {
        let keys: Vec<u64> = scores.iter().enumerate().map(|(doc, &score)| hit(doc, score)).collect();
        for device in devices() {
            check_tree(&device, &keys, k, None);
        }
    }
}

/// A number with only its low `bits` bits.
fn low(key: u64, bits: u32) -> u64 {
    key & u64::MAX >> (64 - bits)
}

/// Values say where a pair was, so that a sort that is not stable gives other values.
fn check_radix_sort(device: &Device, keys: &[u32], bits: u32) {
    let stream = device.stream().unwrap();
    let sort = RadixSort::new(device).unwrap();
    let places: Vec<u32> = (0..keys.len() as u32).collect();
    let mut expected: Vec<(u32, u32)> =
        keys.iter().copied().zip(places.iter().map(|v| v * 3)).collect();
    expected.sort_by_key(|&(key, _)| low(u64::from(key), bits));
    let given: Vec<u32> = places.iter().map(|v| v * 3).collect();
    let ones = [device.upload(&stream, keys).unwrap(), device.buffer::<u32>(keys.len()).unwrap()];
    let twos = [device.upload(&stream, &given).unwrap(), device.buffer::<u32>(keys.len()).unwrap()];
    let scratch = device.buffer(RadixSort::scratch_len(keys.len())).unwrap();
    // What was in the scratch does not matter.
    stream.fill(&scratch, 0x5a).unwrap();
    let (pair, values) = ([&ones[0], &ones[1]], [&twos[0], &twos[1]]);
    let at = sort.sort(&stream, pair, values, bits, &scratch).unwrap();
    let found: Vec<(u32, u32)> = (stream.download(pair[at]).unwrap().into_iter())
        .zip(stream.download(values[at]).unwrap())
        .collect();
    assert!(found == expected, "{} keys, {bits} bits", keys.len());
    // Without values, with the same scratch again.
    stream.upload(keys, pair[0]).unwrap();
    let at = sort.sort_keys(&stream, pair, bits, &scratch).unwrap();
    let expected: Vec<u32> = expected.iter().map(|&(key, _)| key).collect();
    assert!(stream.download(pair[at]).unwrap() == expected, "{} keys alone", keys.len());
}

fn check_radix_sort_u64(device: &Device, keys: &[u64], bits: u32) {
    let stream = device.stream().unwrap();
    let sort = RadixSort::new(device).unwrap();
    let places: Vec<u32> = (0..keys.len() as u32).collect();
    let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(places.clone()).collect();
    expected.sort_by_key(|&(key, _)| low(key, bits));
    let ones = [device.upload(&stream, keys).unwrap(), device.buffer::<u64>(keys.len()).unwrap()];
    let twos =
        [device.upload(&stream, &places).unwrap(), device.buffer::<u32>(keys.len()).unwrap()];
    let scratch = device.buffer(RadixSort::scratch_len_u64(keys.len())).unwrap();
    stream.fill(&scratch, 0x5a).unwrap();
    let (pair, values) = ([&ones[0], &ones[1]], [&twos[0], &twos[1]]);
    let at = sort.sort_u64(&stream, pair, Some(values), bits, &scratch).unwrap();
    let found: Vec<(u64, u32)> = (stream.download(pair[at]).unwrap().into_iter())
        .zip(stream.download(values[at]).unwrap())
        .collect();
    assert!(found == expected, "{} keys, {bits} bits", keys.len());
    stream.upload(keys, pair[0]).unwrap();
    let at = sort.sort_u64(&stream, pair, None, bits, &scratch).unwrap();
    let expected: Vec<u64> = expected.iter().map(|&(key, _)| key).collect();
    assert!(stream.download(pair[at]).unwrap() == expected, "{} keys alone", keys.len());
}

#[test]
fn radix_sort_at_every_edge() {
    for device in devices() {
        // Tiles have 7680 and 3840 pairs, the part of a warp has 640 and 320, and a block counts 4096 at a time.
        for len in [0, 1, 31, 32, 33, 319, 320, 640, 641, 3839, 3840, 3841, 4097, 7679, 7680, 7681]
        {
            let keys: Vec<u64> = (0..len).map(mixed).collect();
            let short: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
            check_radix_sort(&device, &short, 32);
            check_radix_sort(&device, &short, 13);
            check_radix_sort_u64(&device, &keys, 33);
        }
    }
}

#[test]
fn radix_sort_of_every_number_of_bits() {
    for device in devices() {
        let keys: Vec<u64> = (0..9000).map(mixed).collect();
        let short: Vec<u32> = keys.iter().map(|&key| key as u32).collect();
        for bits in 1..=32 {
            check_radix_sort(&device, &short, bits);
        }
        for bits in [1, 8, 9, 31, 32, 40, 63, 64] {
            check_radix_sort_u64(&device, &keys, bits);
        }
    }
}

#[test]
fn radix_sort_of_every_order() {
    for device in devices() {
        let n = 120_000u32;
        let orders: [&dyn Fn(u32) -> u32; 6] = [
            &|i| mixed(u64::from(i)) as u32,
            &|_| 0x00ab_cdef,
            &|_| u32::MAX,
            &|i| i,
            &|i| n - i,
            // Few keys, which differ in all digits.
            &|i| (mixed(u64::from(i)) % 5) as u32 * 0x0101_0101,
        ];
        for order in orders {
            let keys: Vec<u32> = (0..n).map(order).collect();
            check_radix_sort(&device, &keys, 24);
            let keys: Vec<u64> = keys.iter().take(30_000).map(|&k| u64::from(k) << 20).collect();
            check_radix_sort_u64(&device, &keys, 64);
        }
    }
}

/// Benchmarks launch them as graphs, so nothing in them may allocate or wait.
#[test]
fn primitives_can_be_recorded() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (a, b): (Vec<u32>, Vec<u32>) =
            ((0..3000).map(|i| i * 3).collect(), (0..9000).map(|i| i * 2).collect());
        let (on_a, on_b) =
            (device.upload(&stream, &a).unwrap(), device.upload(&stream, &b).unwrap());
        let (merge_find, tree) = (MergeFind::new(&device).unwrap(), MaxTree::new(&device).unwrap());
        let out = device.buffer(a.len()).unwrap();
        let scratch = device.buffer(MergeFind::scratch_len(a.len())).unwrap();
        let record = |stream: &_| merge_find.intersect(stream, &on_a, &on_b, 3, &out, &scratch);
        stream.capture(record).unwrap().launch(&stream).unwrap();
        let expected = plain_merge(&a, &b);
        assert_eq!(stream.download(&out.slice(..expected.len())).unwrap(), expected);

        let keys: Vec<u64> = (0..50_000).map(|i| hit(i, mixed(i as u64) % 90)).collect();
        let all = device.upload(&stream, &keys).unwrap();
        let best = Best { keys: device.buffer(20).unwrap(), count: device.buffer(1).unwrap() };
        let scratch = device.buffer(MaxTree::scratch_len(keys.len(), 20)).unwrap();
        let record = |stream: &_| tree.best(stream, &all, None, 20, &best, &scratch);
        let mut graph = stream.capture(record).unwrap();
        for _ in 0..2 {
            graph.launch(&stream).unwrap();
            assert_eq!(stream.download(&best.keys).unwrap(), plain_best(&keys, 20));
        }
    }
}

//! Tests of compaction, Parallel Merge Find, the tree of maxima, sorts and runs against plain
//! Rust, on the emulator or on a GPU (see `support`).
#![allow(clippy::unwrap_used, unsafe_code)]

mod support;

use std::collections::BTreeSet;

use proptest::prelude::*;
use support::{devices, on_gpu};
use warpseek_cuda::kernels::common::{LOOK_BACK, MERGE_SORT, TYPES, WARP};
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::load_balance::LoadBalance;
use warpseek_cuda::kernels::max_tree::{Best, MaxTree};
use warpseek_cuda::kernels::merge_find::{MAX_LEVELS, MergeFind};
use warpseek_cuda::kernels::merge_sort::MergeSort;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::{Args, Device, Grid, Source};

/// Returns numbers that look random and are the same in every run.
fn mixed(i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 29
}

fn check_compact(device: &Device, values: &[u32], keep: impl Fn(usize) -> bool, known: bool) {
    let stream = device.stream().unwrap();
    let compact = Compact::new(device).unwrap();
    // Only half of the values count: their number is in device memory, and the bits after them
    // are not read.
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

/// Returns the intersection by a plain merge.
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

/// Returns the best k by sorting, which every other way must equal.
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

/// Returns a document's key: higher scores first, then lower documents. There are few scores, so
/// that there are ties.
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
    fn merge_sort_equals_sorting(keys in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..99, Just(u64::MAX)], 0..20_000)) {
        for device in devices() {
            check_merge_sort(&device, &keys);
        }
    }

    #[test]
    fn runs_and_load_balance_are_inverse(lengths in prop::collection::vec(prop_oneof![1u32..5, 1u32..3000], 1..200)) {
        for device in devices() {
            check_load_balance(&device, &lengths);
            let values: Vec<u32> = lengths.iter().enumerate().flat_map(|(i, &n)| vec![i as u32 * 7; n as usize]).collect();
            check_runs(&device, &values, None, values.len());
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

/// Returns a number with only its low `bits` bits.
fn low(key: u64, bits: u32) -> u64 {
    key & u64::MAX >> (64 - bits)
}

/// Checks a sort with values that record the original position of each pair, so that an unstable
/// sort gives other values.
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
    // The previous contents of the scratch do not matter.
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
        // Tiles have 7680 and 3840 pairs, the part of a warp has 640 and 320, and a block counts
        // 4096 at a time.
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
        let n = 50_000u32;
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

/// Returns the positions at which a new pair begins, and the length.
fn plain_starts(a: &[u32], b: &[u32]) -> Vec<u32> {
    let begins = |&i: &usize| i == 0 || a[i] != a[i - 1] || b[i] != b[i - 1];
    (0..a.len()).filter(begins).chain([a.len()]).map(|i| i as u32).collect()
}

/// Finds the runs of the first `len` values of one array or two.
fn check_runs(device: &Device, a: &[u32], b: Option<&[u32]>, len: usize) {
    let stream = device.stream().unwrap();
    let runs = Runs::new(device).unwrap();
    let same = vec![0; len];
    let expected = plain_starts(&a[..len], b.map_or(&same[..], |b| &b[..len]));
    let arrays: Vec<_> =
        [Some(a), b].iter().flatten().map(|v| device.upload(&stream, v).unwrap()).collect();
    let arrays: Vec<_> = arrays.iter().collect();
    let scratch = device.buffer(Runs::scratch_len(len)).unwrap();
    // Sizes for all starts and one more, for all but the length, for half of them and for none.
    for room in [expected.len() + 1, expected.len(), expected.len() - 1, expected.len() / 2, 0] {
        stream.fill(&scratch, 0x5a).unwrap();
        let starts = device.upload(&stream, &vec![77; room]).unwrap();
        runs.launch(&stream, &arrays, len, &starts, &scratch).unwrap();
        let count = stream.download(&Runs::count(&scratch)).unwrap()[0] as usize;
        assert_eq!(count, expected.len() - 1, "{len} values");
        let mut wanted = expected.clone();
        wanted.resize(room, 77);
        assert!(stream.download(&starts).unwrap() == wanted, "{len} values, room for {room}");
    }
}

#[test]
fn runs_at_every_edge() {
    for device in devices() {
        // A warp has 512 values, a tile 4096; a warp looks back at 32 tiles at once.
        for len in [0, 1, 31, 32, 33, 511, 512, 513, 4095, 4096, 4097, 20_000] {
            let all = len as usize + 40;
            let mut values: Vec<u32> = (0..all).map(|i| mixed(i as u64) as u32 % 5).collect();
            check_runs(&device, &values, None, len as usize);
            values.sort_unstable();
            check_runs(&device, &values, None, len as usize);
            let other: Vec<u32> = (0..all).map(|i| i as u32 / 3).collect();
            check_runs(&device, &values, Some(&other), len as usize);
            check_runs(&device, &other, Some(&values), len as usize);
            // One run, then as many as values.
            check_runs(&device, &vec![0; all], None, len as usize);
            check_runs(&device, &(0..all as u32).collect::<Vec<_>>(), None, len as usize);
        }
    }
}

/// Tests looking back with given words, most of which are sums of one tile. If blocks run one
/// after another, all tiles before a tile know their sums up to there.
#[test]
fn looking_back_adds_up_what_was_published() {
    const SOURCE: Source = Source {
        name: "look_back",
        text: include_str!("../../cuda-emulator/tests/kernels/look_back/kernel.cu"),
        headers: &[TYPES, WARP, LOOK_BACK],
    };
    const UP_TO_HERE: u32 = 1 << 31;
    for device in devices() {
        let stream = device.stream().unwrap();
        let by_thread = device.kernel(&SOURCE, "look_back_threads").unwrap();
        let by_warp = device.kernel(&SOURCE, "look_back_warp").unwrap();
        for every in [1, 2, 3, 4, 5, 31, 32, 33, 64, 1000] {
            let tiles = 200;
            let sums: Vec<u32> = (0..tiles).map(|i| mixed(i) as u32 % 3 * 1000).collect();
            let mut before = vec![0u32];
            for sum in &sums {
                before.push(before.last().unwrap() + sum);
            }
            let words: Vec<u32> = (0..tiles as usize)
                .map(|i| match i % every {
                    0 => UP_TO_HERE | before[i + 1],
                    _ => sums[i] + 1,
                })
                .collect();
            // Words of other digits are in between, as in a sort.
            let spread: Vec<u32> = words.iter().flat_map(|&word| [word, 0, 7]).collect();
            let states = device.upload(&stream, &spread).unwrap();
            let out = device.upload(&stream, &vec![0u32; tiles as usize]).unwrap();
            let args = Args::new().buffer(&states).value(3u32).value(tiles as u32).buffer(&out);
            // SAFETY: the buffers have an element for each tile and each result.
            unsafe { stream.launch(&by_thread, Grid::over(tiles as usize, 96), &args) }.unwrap();
            assert_eq!(stream.download(&out).unwrap(), before[..tiles as usize], "{every}");
            for tile in [1, 31, 32, 33, 64, 65, 199] {
                let (states, out) = (device.upload(&stream, &words).unwrap(), out.clone());
                let args = Args::new().buffer(&states).value(tile as u32);
                let args = args.value(sums[tile]).buffer(&out);
                // SAFETY: as above.
                unsafe { stream.launch(&by_warp, Grid::new(1, 32), &args) }.unwrap();
                let found = stream.download(&out).unwrap()[tile];
                assert_eq!(found, before[tile], "{every}, tile {tile}");
                let own = stream.download(&states).unwrap()[tile];
                assert_eq!(own, UP_TO_HERE | before[tile + 1], "{every}, tile {tile}");
            }
        }
    }
}

/// Sorts enough pairs for thousands of blocks on a GPU, which wait for each other; the emulator
/// runs blocks one after another.
#[test]
fn primitives_with_many_blocks() {
    let n = if on_gpu() { 20_000_000 } else { 140_000 };
    for device in devices() {
        // The most frequent keys are a large part of all keys, like words of a text.
        let keys: Vec<u32> =
            (0..n).map(|i| (mixed(i) >> (mixed(i + n) % 20 + 40)) as u32).collect();
        check_radix_sort(&device, &keys, 24);
        let mut sorted = keys;
        sorted.sort_unstable();
        check_runs(&device, &sorted, None, n as usize);
        let long: Vec<u64> = (0..n / 4).map(|i| mixed(i) >> (mixed(i + n) % 50)).collect();
        check_radix_sort_u64(&device, &long, 64);
        check_merge_sort(&device, &long);
        check_load_balance(
            &device,
            &(0..n / 40).map(|i| 1 + (mixed(i) % 70) as u32).collect::<Vec<_>>(),
        );
    }
}

/// Tests runs with these lengths, with numbers on the device and without.
fn check_load_balance(device: &Device, lengths: &[u32]) {
    let stream = device.stream().unwrap();
    let search = LoadBalance::new(device).unwrap();
    let mut starts = vec![0];
    let mut expected = Vec::new();
    for (run, &length) in lengths.iter().enumerate() {
        starts.push(starts[run] + length);
        expected.resize(starts[run + 1] as usize, run as u32);
    }
    let (k, n) = (lengths.len(), expected.len());
    let all = device.upload(&stream, &starts).unwrap();
    let out = device.upload(&stream, &vec![77; n]).unwrap();
    search.launch(&stream, &all.slice(..k), None, None, &out).unwrap();
    assert!(stream.download(&out).unwrap() == expected, "{k} runs of {n}");
    // Only a part of the runs and of the elements counts; other elements are not written.
    let (few, part) = (k.div_ceil(2), n / 3);
    let runs = device.upload(&stream, &[few as u32]).unwrap();
    let elements = device.upload(&stream, &[part as u32]).unwrap();
    let out = device.upload(&stream, &vec![77; n + 9]).unwrap();
    search.launch(&stream, &all, Some(&runs), Some(&elements), &out).unwrap();
    let mut wanted: Vec<u32> = expected[..part].to_vec();
    for run in &mut wanted {
        *run = (*run).min(few as u32 - 1);
    }
    wanted.resize(n + 9, 77);
    assert!(stream.download(&out).unwrap() == wanted, "{few} of {k} runs, {part} of {n}");
}

#[test]
fn load_balance_at_every_edge() {
    for device in devices() {
        // A warp has 1024 elements.
        for n in [1, 31, 32, 33, 1023, 1024, 1025, 8192, 70_000] {
            check_load_balance(&device, &[n]);
            check_load_balance(&device, &vec![1; n as usize]);
            check_load_balance(&device, &[n, 1, 1, n, 1]);
            check_load_balance(&device, &vec![33; n as usize / 33]);
            let mixed: Vec<u32> =
                (0..n / 20).map(|i| 1 + (mixed(u64::from(i)) % 40) as u32).collect();
            check_load_balance(&device, &mixed);
            let few_long: Vec<u32> =
                (0..n / 500).map(|i| [1, 1, 1, 5000][i as usize % 4]).collect();
            check_load_balance(&device, &few_long);
        }
        check_load_balance(&device, &[]);
    }
}

fn check_merge_sort(device: &Device, keys: &[u64]) {
    let stream = device.stream().unwrap();
    let sort = MergeSort::new(device).unwrap();
    let places: Vec<u32> = (0..keys.len() as u32).collect();
    let mut expected: Vec<(u64, u32)> = keys.iter().copied().zip(places.clone()).collect();
    expected.sort_by_key(|&(key, _)| key);
    let ones = [device.upload(&stream, keys).unwrap(), device.buffer::<u64>(keys.len()).unwrap()];
    let twos =
        [device.upload(&stream, &places).unwrap(), device.buffer::<u32>(keys.len()).unwrap()];
    let scratch = device.buffer(MergeSort::<u64>::scratch_len(keys.len())).unwrap();
    let (pair, values) = ([&ones[0], &ones[1]], [&twos[0], &twos[1]]);
    let at = sort.sort(&stream, pair, values, &scratch).unwrap();
    let found: Vec<(u64, u32)> = (stream.download(pair[at]).unwrap().into_iter())
        .zip(stream.download(values[at]).unwrap())
        .collect();
    assert!(found == expected, "{} keys", keys.len());
}

#[test]
fn merge_sort_at_every_edge() {
    for device in devices() {
        // A thread has 9 pairs, a tile 2304.
        let edges = [0, 1, 8, 9, 10, 18, 31, 32, 33, 2303, 2304, 2305, 4608, 4609, 6912, 100_000];
        for len in edges {
            check_merge_sort(&device, &(0..len).map(mixed).collect::<Vec<_>>());
            check_merge_sort(&device, &(0..len).map(|i| mixed(i) % 7).collect::<Vec<_>>());
            check_merge_sort(&device, &(0..len).map(|i| len - i).collect::<Vec<_>>());
        }
        check_merge_sort(&device, &vec![u64::MAX; 10_000]);
        check_merge_sort(&device, &(0..10_000).collect::<Vec<_>>());
    }
}

/// Sorts by a comparison with a state, from another source than the crate's.
fn check_words(device: &Device, words: &[Vec<u8>]) {
    const SOURCE: Source = Source {
        name: "sort_words",
        text: include_str!("../../cuda-emulator/tests/kernels/sort_words/kernel.cu"),
        headers: &[TYPES, MERGE_SORT],
    };
    let stream = device.stream().unwrap();
    let kernel = |name| device.kernel(&SOURCE, name).unwrap();
    let sort = MergeSort::<u64>::with_kernels(
        kernel("sort_words_tiles"),
        kernel("sort_words_splits"),
        kernel("sort_words_merge"),
    );
    let mut starts = vec![0u32];
    let mut keys = Vec::new();
    for word in words {
        starts.push(starts.last().unwrap() + word.len() as u32);
        let mut first = [0; 8];
        let len = word.len().min(8);
        first[..len].copy_from_slice(&word[..len]);
        keys.push(u64::from_be_bytes(first));
    }
    let bytes = device.upload(&stream, &words.concat()).unwrap();
    let starts = device.upload(&stream, &starts).unwrap();
    let places: Vec<u32> = (0..words.len() as u32).collect();
    let ones = [device.upload(&stream, &keys).unwrap(), device.buffer(words.len()).unwrap()];
    let twos = [device.upload(&stream, &places).unwrap(), device.buffer(words.len()).unwrap()];
    let scratch = device.buffer(MergeSort::<u64>::scratch_len(words.len())).unwrap();
    let (pair, values) = ([&ones[0], &ones[1]], [&twos[0], &twos[1]]);
    let more = |args: Args| args.buffer(&bytes).buffer(&starts);
    // SAFETY: these are the kernels' arguments; values are indices of words.
    let at = unsafe { sort.sort_with(&stream, pair, values, &scratch, more) }.unwrap();
    let mut expected = places;
    expected.sort_by_key(|&word| &words[word as usize]);
    assert!(stream.download(values[at]).unwrap() == expected, "{} words", words.len());
}

#[test]
fn merge_sort_by_a_comparison_with_a_state() {
    for device in devices() {
        for len in [1, 100, 2305, 12_000] {
            let words: Vec<Vec<u8>> = (0..len)
                .map(|i| format!("word{:05}{}", mixed(i) % 50, mixed(i + len) % 40).into_bytes())
                .collect();
            check_words(&device, &words);
        }
        // Zeros are ordinary bytes, although keys are padded with them.
        check_words(&device, &[b"ab\0".to_vec(), b"ab".to_vec(), b"".to_vec(), b"ab\0\0".to_vec()]);
    }
}

/// Checks that nothing in the primitives allocates or waits, because benchmarks launch them as
/// graphs.
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

        let (sort, runs) = (RadixSort::new(&device).unwrap(), Runs::new(&device).unwrap());
        let keys: Vec<u32> = (0..20_000).map(|i| mixed(i) as u32 % 1000).collect();
        let buffers: Vec<_> = (0..5).map(|_| device.upload(&stream, &keys).unwrap()).collect();
        let scratch = device.buffer(RadixSort::scratch_len(keys.len())).unwrap();
        let record = |stream: &_| {
            let (pair, values) = ([&buffers[0], &buffers[1]], [&buffers[2], &buffers[3]]);
            let at = sort.sort(stream, pair, values, 10, &scratch)?;
            runs.launch(stream, &[pair[at]], keys.len(), &buffers[4], &scratch)
        };
        let mut graph = stream.capture(record).unwrap();
        for _ in 0..2 {
            stream.upload(&keys, &buffers[0]).unwrap();
            graph.launch(&stream).unwrap();
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let expected = plain_starts(&sorted, &sorted);
            let found = stream.download(&buffers[4].slice(..expected.len())).unwrap();
            assert_eq!(found, expected);
        }

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

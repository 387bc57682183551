//! Tests of the emulator: valid kernels work, and invalid ones are detected and reported.
#![allow(unsafe_code, clippy::unwrap_used)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Device, DeviceError, Grid, Source, Stream};
use warpseek_cuda_emulator::{DEVICES, symbol};

const PROBES: Source = Source { name: "probes", text: "", headers: &[] };
const FULL: u32 = u32::MAX;

fn open(ordinal: u32) -> (Device, Stream) {
    // SAFETY: `symbol` is the emulator's own function.
    let device = unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
    let stream = device.stream().unwrap();
    (device, stream)
}

/// Runs a test on each device.
fn on_each_device(test: impl Fn(&Device, &Stream)) {
    for ordinal in 0..DEVICES {
        let (device, stream) = open(ordinal);
        test(&device, &stream);
    }
}

fn launch(stream: &Stream, name: &str, grid: Grid, args: &Args) -> Result<(), DeviceError> {
    let kernel = stream.device().kernel(&PROBES, name)?;
    // SAFETY: the emulator detects invalid accesses, which is what these tests check.
    unsafe { stream.launch(&kernel, grid, args) }
}

/// Returns the error of a kernel that was launched.
fn fails(stream: &Stream, name: &str, grid: Grid, args: &Args) -> String {
    launch(stream, name, grid, args).unwrap();
    let error = stream.synchronize().expect_err("the kernel must fail");
    assert!(matches!(&error, DeviceError::Kernel { ran, .. } if ran[..] == [name]), "{error:?}");
    let text = error.to_string();
    // Everything fails afterwards, as on a real device.
    assert_eq!(stream.synchronize().map_err(|e| e.to_string()), Err(text.clone()));
    text
}

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn sums_over_blocks_are_right() {
    on_each_device(|device, stream| {
        for threads in [32, 64, 256, 1024] {
            let values: Vec<u32> = (0..3 * threads).map(|i| i * 7 + 1).collect();
            let input = device.upload(stream, &values).unwrap();
            let sums = device.buffer::<u32>(3).unwrap();
            let prefixes = device.buffer::<u32>(values.len()).unwrap();
            let args = Args::new().buffer(&input).buffer(&sums).buffer(&prefixes);
            launch(stream, "block_sums", Grid::new(3, threads), &args).unwrap();
            let expected: Vec<u32> =
                values.chunks(threads as usize).map(|c| c.iter().sum()).collect();
            assert_eq!(stream.download(&sums).unwrap(), expected);
            let expected = values.chunks(threads as usize).flat_map(|chunk| {
                chunk.iter().scan(0, |sum, v| Some(std::mem::replace(sum, *sum + v)))
            });
            assert_eq!(stream.download(&prefixes).unwrap(), expected.collect::<Vec<u32>>());
        }
    });
}

#[test]
fn dynamic_shared_memory_works() {
    on_each_device(|device, stream| {
        for threads in [1, 31, 33, 1000] {
            let values: Vec<u32> = (0..2 * threads).collect();
            let buffer = device.upload(stream, &values).unwrap();
            let grid = Grid::new(2, threads).shared(threads * 4);
            launch(stream, "reverse_in_shared", grid, &Args::new().buffer(&buffer)).unwrap();
            let expected = values.chunks(threads as usize).flat_map(|c| c.iter().rev().copied());
            assert_eq!(stream.download(&buffer).unwrap(), expected.collect::<Vec<_>>());
        }
        // More than a block may use by default.
        let buffer = device.upload(stream, &[1u32, 2]).unwrap();
        let args = Args::new().buffer(&buffer);
        launch(stream, "reverse_in_shared", Grid::new(1, 2).shared(200 << 10), &args).unwrap();
        assert_eq!(stream.download(&buffer).unwrap(), [2, 1]);
        let too_much =
            launch(stream, "reverse_in_shared", Grid::new(1, 2).shared(228 << 10), &args);
        contains(&too_much.unwrap_err().to_string(), &["233472 bytes of shared memory", "232448"]);
    });
}

#[test]
fn every_warp_operation_works() {
    on_each_device(|device, stream| {
        let values: Vec<u32> = (0..32).map(|i| (i * 37 + 11) % 997).collect();
        let input = device.upload(stream, &values).unwrap();
        let out = device.buffer::<u32>(32 * 24).unwrap();
        let args = Args::new().buffer(&input).buffer(&out);
        launch(stream, "warp_operations", Grid::new(1, 32), &args).unwrap();
        let rows = stream.download(&out).unwrap();
        let v = |lane: usize| values[lane];
        let bits = |p: &dyn Fn(u32) -> bool| {
            (0..32).filter(|&l| p(values[l])).fold(0, |all, l| all | 1u32 << l)
        };
        let fold = |f: &dyn Fn(u32, u32) -> u32| values.iter().copied().reduce(f).unwrap();
        for (lane, row) in rows.chunks(24).enumerate() {
            let expected = [
                v(5),
                v((lane + 1) % 32),
                v(lane / 8 * 8 + 2),
                if lane >= 3 { v(lane - 3) } else { v(lane) },
                if lane % 8 >= 3 { v(lane - 3) } else { v(lane) },
                if lane + 7 < 32 { v(lane + 7) } else { v(lane) },
                if lane % 16 + 7 < 16 { v(lane + 7) } else { v(lane) },
                v(lane ^ 21),
                bits(&|x| x & 1 == 1),
                u32::from(values.contains(&7)),
                u32::from(values.iter().all(|&x| x < 1000)),
                bits(&|x| x % 3 == v(lane) % 3),
                FULL.wrapping_add(1),
                values.iter().sum(),
                fold(&Ord::min),
                fold(&Ord::max),
                fold(&|a, b| a | b),
                values.iter().sum(),
                fold(&Ord::min),
                fold(&Ord::max),
                fold(&|a, b| a | b),
                v(9),
                9,
                (v(lane ^ 1) as f32).to_bits(),
            ];
            assert_eq!(row, expected, "lane {lane}");
        }
    });
}

#[test]
fn reductions_over_half_a_warp_work() {
    on_each_device(|device, stream| {
        let values: Vec<u32> = (0..32).map(|i| ((i * 37 + 11) % 997) | 64).collect();
        let input = device.upload(stream, &values).unwrap();
        let out = device.buffer::<u32>(32 * 8).unwrap();
        let args = Args::new().buffer(&input).buffer(&out);
        launch(stream, "reductions", Grid::new(1, 32), &args).unwrap();
        let rows = stream.download(&out).unwrap();
        let odd = || values.iter().skip(1).step_by(2).copied();
        let (min, max) = (odd().min().unwrap(), odd().max().unwrap());
        let expected = [
            odd().sum(),
            min,
            max,
            min.wrapping_sub(500),
            max.wrapping_sub(500),
            odd().reduce(|a, b| a | b).unwrap(),
            odd().reduce(|a, b| a & b).unwrap(),
            odd().reduce(|a, b| a ^ b).unwrap(),
        ];
        for row in rows.chunks(8).skip(1).step_by(2) {
            assert_eq!(row, expected);
        }
    });
}

#[test]
fn partial_masks_work() {
    on_each_device(|device, stream| {
        let out = device.buffer::<u32>(32).unwrap();
        launch(stream, "partial_masks", Grid::new(1, 32), &Args::new().buffer(&out)).unwrap();
        let even_sum: u32 = (0..32).step_by(2).sum();
        let odd = 3 * (0..32).filter(|i| i % 2 == 1 && *i > 8).count() as u32;
        let expected: Vec<u32> = (0..32).map(|i| if i % 2 == 0 { odd } else { even_sum }).collect();
        assert_eq!(stream.download(&out).unwrap(), expected);
    });
}

#[test]
fn barriers_with_votes_work() {
    on_each_device(|device, stream| {
        let out = device.buffer::<u32>(100).unwrap();
        launch(stream, "barriers", Grid::new(1, 100), &Args::new().buffer(&out)).unwrap();
        assert_eq!(stream.download(&out).unwrap(), vec![34 << 4 | 0b1010; 100]);
    });
}

#[test]
fn atomic_operations_work() {
    on_each_device(|device, stream| {
        let mut words = [0u32; 11];
        (words[5], words[7]) = (FULL, FULL);
        let words = device.upload(stream, &words).unwrap();
        let wide = device.upload(stream, &[0u64; 2]).unwrap();
        let args = Args::new().buffer(&words).buffer(&wide);
        launch(stream, "atomics", Grid::new(3, 96), &args).unwrap();
        let sum = |m: u32| (0..288).filter(|i| i % 4 == m).sum::<u32>();
        let expected = [sum(0), sum(1), sum(2), sum(3), 287, 0, FULL, 0xffff_0000, 576, 1, 1];
        assert_eq!(stream.download(&words).unwrap(), expected);
        let all: u64 = (0..288).sum();
        assert_eq!(stream.download(&wide).unwrap(), [all << 20, 287 << 40]);
    });
}

#[test]
fn arithmetic_is_bit_identical_to_the_host() {
    let (device, stream) = open(0);
    let cases =
        [(1.5f32, 3.0f32, 0x8000_0001u32, 77u32), (16_777_217.3, 0.1, 0x0123_4567, 0x89ab_cdef)];
    for (a, b, x, y) in cases {
        let out = device.buffer::<u32>(20).unwrap();
        let args = Args::new().value(a).value(b).value(x).value(y).buffer(&out);
        launch(&stream, "arithmetic", Grid::new(1, 1), &args).unwrap();
        let both = u64::from(y) << 32 | u64::from(x);
        let down =
            if f64::from(x as f32) > f64::from(x) { (x as f32).next_down() } else { x as f32 };
        let byte = |i: u32| (both >> (8 * i)) as u8;
        let sign = |i: u32| if byte(i) & 128 != 0 { 255u8 } else { 0 };
        let expected = [
            (a + b).to_bits(),
            (a * b).to_bits(),
            (a / b).to_bits(),
            (1.0 / b).to_bits(),
            (a * b + a).to_bits(),
            a.floor() as u32,
            0,
            (-a).floor() as i32 as u32,
            FULL,
            (x as f32).to_bits(),
            down.to_bits(),
            x.count_ones(),
            y.leading_zeros(),
            x.trailing_zeros() + 1,
            x.reverse_bits(),
            ((u64::from(x) * u64::from(y)) >> 32) as u32,
            (both << 7 >> 32) as u32,
            (both >> 7) as u32,
            u32::from_le_bytes([byte(0), byte(4), sign(2), byte(7)]),
            x ^ y,
        ];
        assert_eq!(stream.download(&out).unwrap(), expected);
    }
}

#[test]
fn structures_and_vectors_are_passed() {
    #[derive(Clone, Copy, Pod, Zeroable)]
    #[repr(C)]
    struct Pair {
        wide: u64,
        narrow: [u32; 2],
    }
    on_each_device(|device, stream| {
        let vectors: Vec<[u32; 4]> = (0..40).map(|i| [i, 2 * i, 5, 9]).collect();
        let input = device.upload(stream, &vectors).unwrap();
        let out = device.buffer::<u32>(40).unwrap();
        let pair = Pair { wide: 3 << 32, narrow: [100, 1] };
        let args = Args::new().value(pair).value(7u8).buffer(&input).buffer(&out);
        launch(stream, "structures", Grid::new(1, 40), &args).unwrap();
        let expected: Vec<u32> = (0..40).map(|i| 3 * i + 14 + 3 + 99 + 7).collect();
        assert_eq!(stream.download(&out).unwrap(), expected);
    });
}

/// Kernels defined by macros, shared memory in templates and member functions, and launch bounds.
#[test]
fn templates_and_macros_work() {
    on_each_device(|device, stream| {
        for threads in [64, 96] {
            let values: Vec<u32> = (0..threads).map(|i| i + 1000).collect();
            let buffer = device.upload(stream, &values).unwrap();
            let (name, args) = (format!("rotate_{threads}"), Args::new().buffer(&buffer));
            launch(stream, &name, Grid::new(1, threads), &args).unwrap();
            let expected: Vec<u32> = (0..threads).map(|i| (i + 1) % threads + 2001).collect();
            assert_eq!(stream.download(&buffer).unwrap(), expected);
            let kernel = device.kernel(&PROBES, &name).unwrap();
            assert_eq!(kernel.max_threads(), threads);
        }
    });
}

#[test]
fn deadlocks_are_reported() {
    for ordinal in 0..DEVICES {
        let cases = [
            (
                "diverged_barrier",
                64,
                ["waits at __syncthreads (probes/kernel.cu:", "thread 40 has ended"],
            ),
            (
                "two_barriers",
                64,
                [
                    "thread 0 of block 0 waits at __syncthreads",
                    "but thread 32 waits at __syncthreads",
                ],
            ),
            (
                "diverged_warp",
                32,
                ["waits at __ballot_sync (probes/kernel.cu:", "thread 3 has ended"],
            ),
            (
                "foreign_mask",
                32,
                ["waits at __ballot_sync", "with a mask 0x0000000f that it is not in"],
            ),
            ("masks_differ", 32, ["with mask 0xffffffff", "thread 16"]),
            // An incomplete warp.
            ("warp_operations", 20, ["with a mask 0xffffffff", "only 20 threads"]),
            ("trapped", 32, ["thread 7 of block 0 stopped at __trap()", "probes/kernel.cu:"]),
        ];
        for (name, threads, says) in cases {
            let (device, stream) = open(ordinal);
            let buffer = device.upload(&stream, &[0u32; 32 * 24]).unwrap();
            let mut args = Args::new().buffer(&buffer);
            if name == "warp_operations" {
                args = args.buffer(&buffer);
            }
            contains(&fails(&stream, name, Grid::new(1, threads), &args), &says);
        }
    }
}

#[test]
fn failures_in_graphs_name_their_kernels() {
    let (device, stream) = open(0);
    let buffer = device.upload(&stream, &[0u32; 64]).unwrap();
    let args = Args::new().buffer(&buffer);
    // Modules cannot be loaded while recording, so load it before.
    let early = stream.capture(|stream| launch(stream, "trapped", Grid::new(1, 64), &args));
    contains(&early.unwrap_err().to_string(), &["a module is loaded while a graph is recorded"]);
    device.kernel(&PROBES, "diverged_barrier").unwrap();
    let mut graph = stream
        .capture(|stream| launch(stream, "diverged_barrier", Grid::new(1, 64), &args))
        .unwrap();
    stream.synchronize().unwrap();
    graph.launch(&stream).unwrap();
    let error = stream.synchronize().unwrap_err();
    contains(&error.to_string(), &["kernel `diverged_barrier` failed", "thread 40 has ended"]);
}

#[test]
fn accesses_outside_of_buffers_are_reported() {
    for ordinal in 0..DEVICES {
        // The buffer has 40 bytes; the guard page begins 8 bytes after it and has at least 4096
        // bytes.
        for (index, says) in [
            (10, "writes past the end of a buffer of 40 bytes"),
            (11, "writes past the end of a buffer of 40 bytes"),
            (12, "8 bytes after the end of the nearest buffer, which has 40 bytes"),
            (500, "1960 bytes after the end"),
            (-1, "writes before the start of a buffer of 40 bytes"),
            (-16, "writes before the start of a buffer of 40 bytes"),
        ] {
            let (device, stream) = open(ordinal);
            let buffer = device.buffer::<u32>(10).unwrap();
            let args = Args::new().buffer(&buffer).value(index);
            contains(&fails(&stream, "write_at", Grid::new(1, 1), &args), &["write_at: ", says]);
        }
        let (device, stream) = open(ordinal);
        let (buffer, out) = (device.buffer::<u32>(8).unwrap(), device.buffer::<u32>(1).unwrap());
        let args = Args::new().buffer(&buffer).value(8i32).buffer(&out);
        let text = fails(&stream, "read_at", Grid::new(1, 1), &args);
        contains(&text, &["thread 0 of block 0", "0 bytes after the end", "32 bytes"]);
        // The bytes between the end of a buffer and the guard page.
        let (device, stream) = open(ordinal);
        let bytes = device.buffer::<u8>(33).unwrap();
        let text = fails(
            &stream,
            "write_byte_at",
            Grid::new(1, 1),
            &Args::new().buffer(&bytes).value(33i32),
        );
        contains(&text, &["past the end of a buffer of 33 bytes"]);
    }
}

#[test]
fn accesses_outside_of_shared_memory_are_reported() {
    for (index, says) in [
        (25, "past the end of dynamic shared"),
        (28, "past the end of dynamic shared"),
        (-1, "before dynamic shared"),
    ] {
        let (_device, stream) = open(0);
        let grid = Grid::new(1, 1).shared(100);
        contains(&fails(&stream, "shared_at", grid, &Args::new().value(index)), &[says]);
    }
    let (device, stream) = open(0);
    let out = device.buffer::<u32>(1).unwrap();
    launch(&stream, "static_shared_at", Grid::new(1, 1), &Args::new().value(7u32).buffer(&out))
        .unwrap();
    assert_eq!(stream.download(&out).unwrap(), [5]);
    let args = Args::new().value(8u32).buffer(&out);
    contains(
        &fails(&stream, "static_shared_at", Grid::new(1, 1), &args),
        &["index outside of an array"],
    );
}

#[test]
fn undefined_arithmetic_is_reported() {
    let (device, stream) = open(0);
    let (from, out) = (device.buffer::<u32>(4).unwrap(), device.buffer::<u32>(1).unwrap());
    launch(&stream, "shift_by", Grid::new(1, 1), &Args::new().value(31u32).buffer(&out)).unwrap();
    assert_eq!(stream.download(&out).unwrap(), [1 << 31]);
    let args = Args::new().value(32u32).buffer(&out);
    contains(&fails(&stream, "shift_by", Grid::new(1, 1), &args), &["a shift by the width"]);
    drop((from, out));
    let (device, stream) = open(0);
    let (from, out) = (device.buffer::<u32>(4).unwrap(), device.buffer::<u32>(1).unwrap());
    let args = Args::new().buffer(&from).buffer(&out);
    contains(&fails(&stream, "misaligned", Grid::new(1, 1), &args), &["misaligned"]);
    for lanes in [1, 2, 3, 33, 64] {
        let (device, stream) = open(0);
        let out = device.buffer::<u32>(1).unwrap();
        let args = Args::new().value(0u32).buffer(&out);
        contains(&fails(&stream, "deep", Grid::new(1, lanes), &args), &["local memory"]);
    }
}

/// Checks that a comparison reveals uninitialised values and values that depend on the order of
/// execution, because they differ between the two devices.
#[test]
fn the_devices_differ_where_programs_must_not_depend_on_them() {
    let results = [0, 1].map(|ordinal| {
        let (device, stream) = open(ordinal);
        let (from, out) = (device.buffer::<u32>(1).unwrap(), device.buffer::<u32>(4).unwrap());
        let args = Args::new().buffer(&from).buffer(&out);
        launch(&stream, "uninitialised", Grid::new(1, 1).shared(8), &args).unwrap();
        let race = device.buffer::<u32>(2).unwrap();
        launch(&stream, "racing", Grid::new(5, 64), &Args::new().buffer(&race)).unwrap();
        (stream.download(&out).unwrap(), stream.download(&race).unwrap())
    });
    assert_eq!(results[0], (vec![0xcbcb_cbcb; 4], vec![4, 63]));
    assert_eq!(results[1], (vec![0x3535_3535; 4], vec![0, 0]));
}

/// Prints the speed of switching between lanes without testing it.
#[test]
fn frequent_switches_between_lanes_work() {
    let (device, stream) = open(0);
    let out = device.buffer::<u32>(256).unwrap();
    let rounds = 10_000u32;
    let start = std::time::Instant::now();
    launch(&stream, "switches", Grid::new(1, 256), &Args::new().value(rounds).buffer(&out))
        .unwrap();
    assert_eq!(stream.download(&out).unwrap(), vec![rounds * (rounds - 1) / 2; 256]);
    let switches = 256.0 * f64::from(rounds) / start.elapsed().as_secs_f64() / 1e6;
    println!("{switches:.1} million warp operations per second, counted per lane");
}

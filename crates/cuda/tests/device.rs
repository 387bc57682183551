//! The device layer and its first kernels, on the emulator or on a GPU (see `support`).
#![allow(unsafe_code, clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use support::{devices, devices_within, on_gpu};
use warpseek_cuda::kernels::copy::{self, Copy};
use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Args, Device, DeviceError, Grid, Source, Stream, Uploader};
use warpseek_testkit::skips::elsewhere;

#[test]
fn devices_describe_themselves() {
    for device in devices() {
        let info = device.info();
        println!("{info:?}");
        assert_eq!(info.emulated, !on_gpu());
        assert!(!info.name.is_empty() && info.multiprocessors > 0);
        assert!(info.capability >= (7, 0) && info.cuda >= (12, 0));
        assert!(info.shared_per_block >= 48 << 10);
        assert!(device.available().unwrap() <= info.memory);
    }
}

#[test]
fn a_missing_device_is_refused() {
    // SAFETY: the emulator's own function.
    let error = unsafe { Device::emulated(warpseek_cuda_emulator::symbol, 7, None) }.unwrap_err();
    assert_eq!(error, DeviceError::NoSuchDevice { ordinal: 7, count: 2 });
    // SAFETY: a driver without functions is refused.
    let error = unsafe { Device::emulated(|_| None, 0, None) }.unwrap_err();
    assert!(error.to_string().contains("too old: it has no cuInit"), "{error}");
}

#[test]
fn copies_in_parts() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let buffer = device.upload(&stream, &(0..100u32).collect::<Vec<_>>()).unwrap();
        stream.copy(&buffer.slice(..10), &buffer.slice(90..)).unwrap();
        stream.zero(&buffer.slice(5..=6)).unwrap();
        stream.fill(&buffer.slice(7..8), 0xff).unwrap();
        stream.upload(&[77], &buffer.slice(8..9)).unwrap();
        let mut expected: Vec<u32> = (0..90).chain(0..10).collect();
        expected[5..9].copy_from_slice(&[0, 0, u32::MAX, 77]);
        assert_eq!(stream.download(&buffer).unwrap(), expected);
        assert_eq!(stream.download(&buffer.slice(8..10)).unwrap(), [77, 9]);
        assert_eq!(stream.download(&buffer.slice(8..10).slice(1..)).unwrap(), [9]);
        let bytes = buffer.slice(7..9).cast::<u8>();
        assert_eq!(stream.download(&bytes).unwrap(), [255, 255, 255, 255, 77, 0, 0, 0]);
        assert!(stream.download(&buffer.slice(50..50)).unwrap().is_empty());
        assert_eq!(device.buffer::<u64>(0).unwrap().len(), 0);
    }
}

#[test]
fn ranges_are_checked() {
    let device = devices().remove(0);
    let stream = device.stream().unwrap();
    let buffer = device.buffer::<u32>(10).unwrap();
    let pinned = device.pinned::<u32>(4).unwrap();
    let panics = |f: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).expect_err("a panic");
    };
    panics(&|| drop(buffer.slice(5..11)));
    panics(&|| drop(buffer.slice(11..)));
    panics(&|| drop(buffer.slice(..3).cast::<u64>()));
    panics(&|| drop(buffer.slice(1..3).cast::<u64>()));
    panics(&|| drop(stream.upload(&[1, 2], &buffer)));
    panics(&|| drop(stream.copy(&buffer.slice(..2), &buffer.slice(2..5))));
    panics(&|| drop(stream.copy_in(&pinned, 3, &buffer.slice(..2))));
}

#[test]
fn pinned_memory_is_read_when_copies_have_ended() {
    for device in devices() {
        let (one, two) = (device.stream().unwrap(), device.stream().unwrap());
        let buffer = device.buffer::<u32>(1000).unwrap();
        let mut input = device.pinned::<u32>(1010).unwrap();
        let mut output = device.pinned::<u32>(1000).unwrap();
        assert!(input.read().unwrap().iter().all(|&v| v == 0));
        for round in 0..3u32 {
            for (i, v) in input.write().unwrap().iter_mut().enumerate() {
                *v = i as u32 * 3 + round;
            }
            one.copy_in(&input, 10, &buffer).unwrap();
            let event = device.event().unwrap();
            one.record(&event).unwrap();
            two.wait(&event).unwrap();
            two.copy_out(&buffer.slice(..500), &mut output, 500).unwrap();
            two.copy_out(&buffer.slice(500..), &mut output, 0).unwrap();
            // The test waits for neither stream here: reading the values waits.
            let expected = |i: usize| ((i + 500) % 1000 + 10) as u32 * 3 + round;
            assert_eq!(output.read().unwrap(), (0..1000).map(expected).collect::<Vec<_>>());
        }
    }
}

#[test]
fn events_have_times() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let (start, end) = (device.event().unwrap(), device.event().unwrap());
        let buffer = device.buffer::<u32>(1 << 16).unwrap();
        stream.record(&start).unwrap();
        stream.zero(&buffer).unwrap();
        stream.record(&end).unwrap();
        end.synchronize().unwrap();
        assert!(end.since(&start).unwrap().as_secs() < 60);
        let never = device.event().unwrap();
        assert!(never.since(&start).is_err());
    }
}

/// Checks that reading the result of the first copy does not wait for work after its event;
/// otherwise a pipeline of two kernels would not overlap.
#[test]
fn an_event_ends_the_copies_before_it() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let buffer = device.upload(&stream, &[1u32]).unwrap();
        let mut first = device.pinned::<u32>(1).unwrap();
        let mut second = device.pinned::<u32>(1).unwrap();
        stream.copy_out(&buffer, &mut first, 0).unwrap();
        let (event, late) = (device.event().unwrap(), device.event().unwrap());
        stream.record(&event).unwrap();
        stream.fill(&buffer, 7).unwrap();
        stream.copy_out(&buffer, &mut second, 0).unwrap();
        stream.record(&late).unwrap();
        event.synchronize().unwrap();
        assert_eq!(first.read().unwrap(), [1]);
        if device.info().emulated {
            assert!(late.since(&event).is_err(), "reading waited for later work");
        }
        assert_eq!(second.read().unwrap(), [0x0707_0707]);
        assert!(late.since(&event).is_ok());
    }
}

#[test]
fn memory_is_counted_and_limited() {
    for device in devices_within(Some(1000)) {
        let device = device.unwrap();
        let a = device.buffer::<u32>(100).unwrap();
        let part = a.slice(10..20);
        assert_eq!(device.memory().current, 400);
        let error = device.buffer::<u64>(76).unwrap_err();
        let expected =
            DeviceError::OutOfMemory { asked: 608, used: 400, available: 600, budget: true };
        assert_eq!(error, expected);
        assert!(error.to_string().contains("raise --gpu-memory"), "{error}");
        assert_eq!(device.available().unwrap(), 600);
        let b = device.buffer::<u64>(75).unwrap();
        drop(b);
        drop(a);
        assert_eq!(device.memory().current, 400, "a part keeps the whole");
        drop(part);
        let memory = device.memory();
        assert_eq!((memory.current, memory.peak, memory.budget), (0, 1000, Some(1000)));
    }
    for device in devices() {
        let error = device.buffer::<u8>(1 << 50).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { budget: false, .. }), "{error:?}");
        assert_eq!(device.memory().current, 0);
        let error = device.buffer::<u64>(usize::MAX).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error:?}");
    }
}

#[test]
fn freed_memory_is_kept_for_others() {
    for device in devices_within(Some(1000)) {
        let device = device.unwrap();
        let used = || (device.memory().current, device.available().unwrap());
        device.keep_freed(500);
        let a = device.buffer::<u8>(400).unwrap();
        let address = a.address();
        drop(a);
        assert_eq!(used(), (0, 1000), "what is kept is available");
        let a = device.buffer::<u8>(320).unwrap();
        assert_eq!(a.address(), address, "it has room, and not much more");
        assert_eq!(used(), (400, 600), "all of it counts");
        let b = device.buffer::<u8>(300).unwrap();
        drop((a, b));
        // One of the two is kept and makes memory available.
        let all = device.buffer::<u8>(1000).unwrap();
        assert_eq!(used(), (1000, 0));
        drop(all);
        let a = device.buffer::<u8>(480).unwrap();
        drop(a);
        // The budget is too small for the whole kept block, so it is not used.
        let rest = device.buffer::<u8>(590).unwrap();
        let b = device.buffer::<u8>(400).unwrap();
        assert_eq!(used(), (990, 10));
        drop((rest, b));
        device.keep_freed(0);
        assert_eq!(used(), (0, 1000));
    }
}

#[test]
fn launches_are_checked() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let unknown = device.kernel(&copy::SOURCE, "no_such_kernel").unwrap_err();
        assert!(unknown.to_string().contains("no_such_kernel"), "{unknown}");
        let kernel = device.kernel(&copy::SOURCE, "copy_words").unwrap();
        let buffer = device.buffer::<u32>(8).unwrap();
        let good = Args::new().buffer(&buffer).buffer(&buffer).value(0u64);
        let refused = |grid, args: &Args| {
            // SAFETY: nothing is copied, and wrong arguments are refused.
            let error = unsafe { stream.launch(&kernel, grid, args) }.unwrap_err();
            assert!(matches!(error, DeviceError::Launch { .. }), "{error:?}");
            error.to_string()
        };
        assert!(refused(Grid::new(1, 0), &good).contains("0 threads per block"));
        assert!(refused(Grid::new(1, 1025), &good).contains("1025 threads per block"));
        // SAFETY: as above.
        let error = unsafe { stream.launch(&kernel, Grid::new(1, 32).shared(1 << 20), &good) };
        let most = device.info().shared_per_block;
        let kernel_name = "copy_words".to_owned();
        let expected = DeviceError::SharedMemory { kernel: kernel_name, asked: 1 << 20, most };
        assert_eq!(error, Err(expected));
        let fewer = Args::new().buffer(&buffer).buffer(&buffer);
        let narrower = Args::new().buffer(&buffer).buffer(&buffer).value(0u32);
        for wrong in [fewer, narrower] {
            assert!(refused(Grid::new(1, 32), &wrong).contains("[8, 8, 8] bytes"));
        }
        // SAFETY: nothing is copied.
        unsafe { stream.launch(&kernel, Grid::new(0, 32), &good) }.unwrap();
        stream.synchronize().unwrap();
    }
}

#[test]
fn missing_sources_are_reported() {
    if on_gpu() {
        return elsewhere("sources that are missing", "a GPU has no list of them");
    }
    const NONE: Source = Source { name: "nowhere", text: "", headers: &[] };
    let error = devices()[0].kernel(&NONE, "x").unwrap_err();
    assert!(error.to_string().contains("kernels/nowhere/kernel.cu"), "{error}");
}

#[test]
fn kernels_that_do_not_compile_are_reported() {
    if !on_gpu() {
        return elsewhere("errors of NVRTC", "the emulator does not compile kernels");
    }
    const BAD: Source = Source { name: "bad", text: "this is not C++", headers: &[] };
    let error = devices()[0].kernel(&BAD, "x").unwrap_err();
    assert!(matches!(&error, DeviceError::Compile { log, .. } if log.contains("error")), "{error}");
}

#[test]
fn copy_copies() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let copy = Copy::new(&device).unwrap();
        for len in [0, 1, 3, 4, 5, 511, 512, 513, 100_001] {
            let values: Vec<u32> = (0..len).map(|i| i ^ 0x5555).collect();
            let from = device.upload(&stream, &values).unwrap();
            let to = device.buffer(values.len()).unwrap();
            copy.launch(&stream, &from, &to).unwrap();
            assert_eq!(stream.download(&to).unwrap(), values);
            // Slices that are not aligned for vectors.
            if len > 1 {
                copy.launch(&stream, &from.slice(1..), &to.slice(..to.len() - 1)).unwrap();
                assert_eq!(stream.download(&to.slice(..to.len() - 1)).unwrap(), values[1..]);
            }
        }
    }
}

/// Computes prefix sums on the CPU, and the sum of all values.
fn plain_scan(values: &[u32]) -> (Vec<u32>, u32) {
    let mut sum = 0u32;
    let before = |&value: &u32| {
        let before = sum;
        sum = sum.wrapping_add(value);
        before
    };
    (values.iter().map(before).collect(), sum)
}

fn check_scan(device: &Device, values: &[u32]) {
    let stream = device.stream().unwrap();
    let scan = Scan::new(device).unwrap();
    let input = device.upload(&stream, values).unwrap();
    let out = device.buffer(values.len()).unwrap();
    let scratch = device.buffer(Scan::scratch_len(values.len())).unwrap();
    let (expected, total) = plain_scan(values);
    scan.launch(&stream, &input, &out, &scratch).unwrap();
    assert_eq!(stream.download(&out).unwrap(), expected);
    assert_eq!(stream.download(&scratch).unwrap().last(), Some(&total));
    scan.launch(&stream, &input, &input, &scratch).unwrap();
    assert_eq!(stream.download(&input).unwrap(), expected, "in place");
}

#[test]
fn scan_sums_at_every_edge() {
    for device in devices() {
        // A tile is 2048 values, and the second step processes 256 tiles at a time.
        let tiles = 2048 * 256;
        for len in [0, 1, 2047, 2048, 2049, 5000, tiles, tiles + 1] {
            let values: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            check_scan(&device, &values);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scan_equals_prefix_sums_on_the_cpu(values in prop::collection::vec(any::<u32>(), 0..10_000)) {
        for device in devices() {
            check_scan(&device, &values);
        }
    }
}

proptest! {
    /// Checks that bytes between the units of pieces do not change.
    #[test]
    fn scattered_pieces_leave_other_units_alone(
        unit in prop::sample::select(vec![1usize, 16, 64]),
        lens in prop::collection::vec((0usize..200, 0usize..3), 1..40),
    ) {
        for device in devices() {
            let stream = device.stream().unwrap();
            let (mut at, mut pieces, mut expected) = (0, Vec::new(), Vec::new());
            for (i, &(len, skipped)) in lens.iter().enumerate() {
                pieces.push((at, vec![i as u8 + 1; len]));
                expected.extend(std::iter::repeat_n(Some(i as u8 + 1), len));
                at = (at + len).next_multiple_of(unit);
                expected.resize(at, None);
                expected.extend(std::iter::repeat_n(Some(0xee), skipped * unit));
                at += skipped * unit;
            }
            let buffer = device.buffer::<u8>(at.max(1)).unwrap();
            stream.upload(&vec![0xee; buffer.len()], &buffer).unwrap();
            let mut uploader = Uploader::new(&device).unwrap();
            uploader.scatter(&buffer, unit, pieces.iter().map(|(at, p)| (*at, &p[..]))).unwrap();
            uploader.finish().unwrap();
            let found = stream.download(&buffer).unwrap();
            let wrong = expected.iter().zip(&found).position(|(e, f)| e.is_some_and(|e| e != *f));
            prop_assert_eq!(wrong, None);
        }
    }
}

#[test]
fn graphs_run_again() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let scan = Scan::new(&device).unwrap();
        let input = device.buffer::<u32>(3000).unwrap();
        let out = device.buffer::<u32>(3000).unwrap();
        let scratch = device.buffer::<u32>(Scan::scratch_len(3000)).unwrap();
        let mut graph = stream
            .capture(|stream| {
                stream.zero(&out)?;
                scan.launch(stream, &input, &out, &scratch)
            })
            .unwrap();
        // The graph keeps the buffers that it needs.
        drop(scratch);
        for round in 1..4u32 {
            let values = vec![round; 3000];
            stream.upload(&values, &input).unwrap();
            graph.launch(&stream).unwrap();
            assert_eq!(stream.download(&out).unwrap(), plain_scan(&values).0);
        }
    }
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    for device in devices() {
        let stream = device.stream().unwrap();
        let buffer = device.upload(&stream, &[1u32]).unwrap();
        let refused = stream.capture(|stream| stream.upload(&[2], &buffer)).unwrap_err();
        assert_eq!(refused, DeviceError::Recording { what: "an upload" });
        let refused = stream.capture(Stream::synchronize).unwrap_err();
        assert!(matches!(refused, DeviceError::Recording { .. }), "{refused:?}");
        let refused = stream.capture(|s| s.capture(|_| Ok(())).map(drop)).unwrap_err();
        assert_eq!(refused, DeviceError::Recording { what: "a recording" });
        // The stream still works.
        assert_eq!(stream.download(&buffer).unwrap(), [1]);
    }
}

#[test]
fn threads_share_a_device() {
    for device in devices() {
        std::thread::scope(|scope| {
            for start in 0..4u32 {
                let device = device.clone();
                scope.spawn(move || {
                    check_scan(&device, &(start..start + 3000).collect::<Vec<_>>());
                });
            }
        });
        assert_eq!(device.memory().current, 0);
    }
}

#[test]
fn copies_have_a_bandwidth() {
    for device in devices() {
        let rate = copy::bandwidth(&device).unwrap();
        println!("{}: {:.1} GB/s read and written", device.info().name, rate / 1e9);
        assert!(rate > 0.0);
        assert_eq!(device.memory().current, 0);
    }
}

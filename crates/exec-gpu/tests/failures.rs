//! What goes wrong with a device: the engine ends with an error or with the right hits, on the emulator, which fails on purpose.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use warpseek_cuda::{Device, DeviceError, Fault, Uploader};
use warpseek_cuda_emulator::{inject, symbol};
use warpseek_exec::{Answer, Engine, ExecError, Mode, Plan, Planner, Query, Ranking, Reference};
use warpseek_exec_gpu::image::least_bytes;
use warpseek_exec_gpu::{GpuEngine, Settings};
use warpseek_index::{IndexError, Snapshot};
use warpseek_testkit::{Doc, Fixture};

const SMALL: Settings =
    Settings { tile_bits: 5, or_bits: 8, and_bits: 10, round: 50, pruned: true };

/// An index, plans for it, and the answers to them.
struct Case {
    _fixture: Fixture,
    snapshot: Arc<Snapshot>,
    plans: Vec<Plan>,
    expected: Vec<Answer>,
}

impl Case {
    fn new(docs: usize) -> Self {
        let words = ["red", "green", "blue", "white", "black"];
        let text = |i: usize| {
            let word = |n: usize| words[(i / (n + 1) + n) % words.len()];
            (0..i % 4 + 1).map(word).collect::<Vec<_>>().join(" ")
        };
        let docs: Vec<Doc> = (0..docs).map(|i| Doc::text(i, text(i))).collect();
        // Two segments: a launch may fail after another one has run.
        let (first, second) = docs.split_at(docs.len() / 2);
        let fixture = Fixture::of(first);
        fixture.add(second).unwrap();
        let snapshot = fixture.snapshot();
        let manifest = snapshot.manifest();
        let planner = Planner::new(snapshot.clone(), Ranking::suited(manifest)).unwrap();
        let plan = |(text, mode, k)| {
            let query = Query::parse(text, manifest.analyzer, manifest.content).unwrap();
            planner.plan(&query, mode, k).unwrap()
        };
        let asked = [
            ("red green", Mode::Or, 3),
            ("blue white", Mode::And, 5),
            ("red black blue", Mode::AndOr, 40),
            ("green", Mode::Or, 1),
            ("white red", Mode::Or, 40),
        ];
        let plans: Vec<Plan> = asked.into_iter().map(plan).collect();
        let expected = Reference::new(snapshot.clone(), 1).search(&plans).unwrap();
        Case { _fixture: fixture, snapshot, plans, expected }
    }

    fn engine(&self, budget: Option<u64>) -> Result<GpuEngine, ExecError> {
        let device = |error| ExecError::Device(Box::new(error));
        // SAFETY: the emulator's own function.
        let gpu = unsafe { Device::emulated(symbol, 0, budget) }.map_err(device)?;
        GpuEngine::new(self.snapshot.clone(), gpu, SMALL, 1).map_err(device)
    }

    fn check(&self, answers: &[Answer]) {
        let hits = |answers: &[Answer]| answers.iter().map(|a| a.hits.clone()).collect::<Vec<_>>();
        assert_eq!(hits(answers), hits(&self.expected));
    }
}

fn device_error(error: &ExecError) -> &DeviceError {
    match error {
        ExecError::Device(error) => error.downcast_ref().unwrap(),
        other => panic!("{other}"),
    }
}

/// Every function that the engine calls, lost at every call: an error comes back, and never hits that are wrong.
#[test]
fn a_device_may_be_lost_at_any_call() {
    let case = Case::new(100);
    let functions = [
        "cuInit",
        "cuDriverGetVersion",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceTotalMem_v2",
        "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuMemGetInfo_v2",
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuMemsetD8Async",
        "cuStreamCreate",
        "cuStreamQuery",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuFuncGetAttribute",
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        "cuLaunchKernel",
    ];
    let try_all = || case.engine(None).and_then(|engine| engine.search(&case.plans));
    case.check(&try_all().unwrap());
    for function in functions {
        let mut failures = 0;
        for n in 1.. {
            assert!(n < 1000, "{function}: there is no end");
            let injected = inject(&format!("{function}@{n}=999!"));
            let result = try_all();
            drop(injected);
            match result {
                Err(error) => {
                    let said = device_error(&error).to_string();
                    assert!(said.contains("CUDA_ERROR_UNKNOWN"), "{function} {n}: {said}");
                    failures += 1;
                }
                // Calls when all is done come too late.
                Ok(answers) => {
                    case.check(&answers);
                    break;
                }
            }
        }
        assert!(failures > 0, "{function} is not called");
    }
}

/// A call that fails once, on a device that lives: the next batch is answered.
#[test]
fn a_failure_that_passes_is_forgotten() {
    let case = Case::new(100);
    for function in ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"] {
        let injected = inject(&format!("{function}@3=1"));
        let engine = case.engine(None).unwrap();
        drop(injected);
        let failed = (0..20).filter(|_| match engine.search(&case.plans) {
            Ok(answers) => {
                case.check(&answers);
                false
            }
            Err(error) => matches!(device_error(&error), DeviceError::Driver { .. }),
        });
        assert_eq!(failed.count(), 1, "{function}");
    }
}

/// A kernel that never ends, at every launch of a search: an error within the limit, nothing waits after it, and another device answers.
#[test]
fn a_device_that_hangs_ends_a_search_and_no_more() {
    let case = Case::new(100);
    // SAFETY: the emulator's own function.
    let open = |ordinal| unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
    let engine = |gpu| GpuEngine::new(case.snapshot.clone(), gpu, SMALL, 1).unwrap();
    let other = engine(open(1));
    let mut hung = 0;
    for launch in 1.. {
        assert!(launch < 100, "there is no end");
        let injected = inject(&format!("hang={launch}"));
        let gpu = open(0);
        drop(injected);
        gpu.set_time_limit(Some(Duration::from_millis(10)));
        let failing = engine(gpu);
        match failing.search(&case.plans) {
            Ok(answers) => {
                case.check(&answers);
                break;
            }
            Err(error) => {
                let error = device_error(&error);
                assert!(matches!(error, DeviceError::Hung { .. }), "{launch}: {error}");
                assert_eq!(error.fault(), Fault::Device);
                // Without a limit: who still waits would do so for ever.
                failing.device().set_time_limit(None);
                assert!(failing.search(&case.plans).is_err());
                hung += 1;
            }
        }
        drop(failing);
        case.check(&other.search(&case.plans).unwrap());
    }
    assert!(hung > 3);
}

/// A lost device answers again when the engine and all handles are gone and it is opened anew.
#[test]
fn a_lost_device_answers_when_opened_anew() {
    let case = Case::new(100);
    let injected = inject("cuLaunchKernel@3=700!");
    let engine = case.engine(None).unwrap();
    drop(injected);
    for _ in 0..2 {
        let error = engine.search(&case.plans).unwrap_err();
        assert_eq!(device_error(&error).fault(), Fault::Device, "{error}");
    }
    drop(engine);
    case.check(&case.engine(None).unwrap().search(&case.plans).unwrap());
}

#[test]
fn kernels_that_fail_are_named() {
    let case = Case::new(100);
    // The first waits are for the index to be copied.
    let named = (1..20).any(|wait| {
        let _injected = inject(&format!("cuStreamQuery@{wait}=719"));
        let error = case.engine(None).unwrap().search(&case.plans).unwrap_err();
        let DeviceError::Kernel { ran, .. } = device_error(&error) else { panic!("{error}") };
        assert!(error.to_string().contains("--device cpu"), "{error}");
        ran.contains(&"merge".to_owned())
    });
    assert!(named);
}

#[test]
fn an_index_that_cannot_fit_is_refused_before_it_is_copied() {
    let case = Case::new(300);
    let whole = case.engine(None).unwrap();
    whole.load(case.plans[0].formula).unwrap();
    let segments = case.snapshot.segments();
    let sizes = segments.iter().map(|segment| {
        let all = 0..segment.documents().count();
        least_bytes(segment, &all, SMALL.tile_bits).unwrap()
    });
    let least: u64 = sizes.sum();
    let (copied, total) = whole.loading().postings();
    assert_eq!(copied, total);
    // No more than it is, and not far from it, fill being the rest: small lists have much of it.
    assert!(least <= whole.loading().bytes() && least * 4 > whole.loading().bytes());

    let engine = case.engine(Some(least - 1)).unwrap();
    let error = engine.search(&case.plans).unwrap_err();
    let expected = DeviceError::TooLarge { needed: least, available: least - 1, budget: true };
    assert_eq!(device_error(&error), &expected);
    assert!(error.to_string().contains("--gpu-memory"), "{error}");
    assert_eq!(engine.loading().postings(), (0, 0));

    let _injected = inject(&format!("memory={}", least - 1));
    let error = case.engine(None).unwrap().search(&case.plans).unwrap_err();
    let DeviceError::TooLarge { budget, .. } = device_error(&error) else { panic!("{error}") };
    assert!(!budget && error.to_string().contains("--device cpu"), "{error}");
}

/// Memory that suffices for the image and some queries, and not for all at once: more rounds, the same hits.
#[test]
fn batches_shrink_to_what_fits() {
    let case = Case::new(300);
    // SAFETY: the emulator's own function.
    let open = |budget| unsafe { Device::emulated(symbol, 0, budget) }.unwrap();
    let engine =
        |device: &Device| GpuEngine::new(case.snapshot.clone(), device.clone(), SMALL, 1).unwrap();
    let plans: Vec<Plan> = case.plans.iter().cycle().take(200).cloned().collect();
    let device = open(None);
    let whole = engine(&device);
    whole.load(plans[0].formula).unwrap();
    let image = device.memory().current;
    whole.search(&plans).unwrap();
    let room = device.memory().peak - image;
    for part in [2, 4, 8] {
        let device = open(Some(image + room / part));
        let answers = engine(&device).search(&plans).unwrap();
        for (answer, expected) in answers.iter().zip(case.expected.iter().cycle()) {
            assert_eq!(answer.hits, expected.hits);
        }
    }
    let error = engine(&open(Some(image + 8))).search(&plans).unwrap_err();
    assert!(matches!(device_error(&error), DeviceError::OutOfMemory { budget: true, .. }));
}

#[test]
fn pinned_memory_runs_out() {
    let case = Case::new(100);
    // Of the device's memory there is enough.
    let _injected = inject("cuMemHostAlloc@1+=2");
    let error = case.engine(None).unwrap().search(&case.plans).unwrap_err();
    assert!(matches!(device_error(&error), DeviceError::HostMemory { .. }), "{error}");
    assert!(error.to_string().contains("ulimit -l"), "{error}");
}

#[test]
fn a_copy_of_an_index_ends_when_asked_to() {
    let case = Case::new(100);
    let engine = case.engine(None).unwrap();
    engine.loading().cancel();
    let error = engine.load(case.plans[0].formula).unwrap_err();
    assert!(matches!(error, ExecError::Index(IndexError::Cancelled)), "{error}");
}

#[test]
fn drivers_and_devices_that_are_too_old() {
    let case = Case::new(10);
    for (fault, says) in [
        ("cuda=11080", "too old: it speaks CUDA 11.8"),
        ("capability=61", "has compute capability 6.1"),
        ("cuInit@1=100", "sees no GPU"),
        ("cuModuleLoadData@1=222", "update the driver"),
    ] {
        let _injected = inject(fault);
        let error = case.engine(None).err().unwrap();
        assert!(error.to_string().contains(says), "{fault}: {error}");
    }
}

/// Pieces of every length arrive, with and without pinned memory.
#[test]
fn uploads_in_pieces() {
    let bytes: Vec<u8> = (0..9_000_001u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    for fault in ["", "cuMemHostAlloc@1=2", "cuMemHostAlloc@2=2"] {
        let _injected = inject(fault);
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(symbol, 1, None) }.unwrap();
        let mut uploader = Uploader::new(&device).unwrap();
        let lens = [0, 1, 1 << 18, 4 << 20, (4 << 20) + 1, (8 << 20) - 1, bytes.len()];
        let sent: Vec<_> =
            lens.iter().map(|&len| uploader.send(&bytes[bytes.len() - len..]).unwrap()).collect();
        uploader.finish().unwrap();
        let stream = device.stream().unwrap();
        for (len, buffer) in lens.iter().zip(sent) {
            assert!(stream.download(&buffer).unwrap() == bytes[bytes.len() - len..], "{len}");
        }
    }
}

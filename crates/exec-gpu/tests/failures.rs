//! Failures of a device: each query ends with an error or with the correct hits. The emulator
//! fails on purpose.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use warpseek_cuda::{Device, DeviceError, Uploader};
use warpseek_cuda_emulator::{inject, symbol};
use warpseek_exec::{
    Answer, Answers, Context, Engine, ExecError, Fault, Mode, Plan, Planner, Query, Ranking,
};
use warpseek_exec_gpu::image::least_bytes;
use warpseek_exec_gpu::{GpuEngine, GpuLists, Settings, failed};
use warpseek_index::{IndexError, Snapshot};
use warpseek_testkit::{Doc, Fixture, answers, expected};

const SMALL: Settings = Settings {
    tile_bits: 5,
    or_bits: 8,
    and_bits: 10,
    round: 50,
    lists: GpuLists::Tiles,
    ..Settings::USUAL
};

/// Settings with the largest rounds, several at a time.
const LAYOUTS: [Settings; 2] = [SMALL, Settings { round: 2, ..SMALL }];

/// Settings with the largest rounds, and lists that are loaded when queries need them.
const FORMS: [Settings; 4] = [
    SMALL,
    Settings { round: 2, ..SMALL },
    Settings { lists: GpuLists::Compact, ..SMALL },
    Settings { lists: GpuLists::OnDemand, ..SMALL },
];

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
        let expected = expected(&snapshot, &plans);
        Case { _fixture: fixture, snapshot, plans, expected }
    }

    fn engine(&self, budget: Option<u64>) -> Result<GpuEngine, ExecError> {
        self.engine_with(budget, SMALL)
    }

    fn engine_with(&self, budget: Option<u64>, settings: Settings) -> Result<GpuEngine, ExecError> {
        // SAFETY: the emulator's own function.
        let gpu = unsafe { Device::emulated(symbol, 0, budget) }.map_err(failed)?;
        GpuEngine::new(self.snapshot.clone(), gpu, settings).map_err(failed)
    }

    fn search(&self, engine: &GpuEngine) -> Answers {
        let answers = engine.search(&self.plans.iter().collect::<Vec<_>>(), &Context::new(1));
        assert_eq!(answers.len(), self.plans.len());
        answers
    }

    /// Returns the queries that failed, each with its error. The others must have the correct
    /// hits.
    fn failures(&self, answers: Answers) -> Vec<(usize, ExecError)> {
        let mut failures = Vec::new();
        for (i, (answer, expected)) in answers.into_iter().zip(&self.expected).enumerate() {
            match answer {
                Ok(answer) => {
                    assert_eq!(answer.hits, expected.hits, "query {i}");
                    assert!(answer.coverage.is_complete(), "query {i}");
                }
                Err(error) => failures.push((i, error)),
            }
        }
        failures
    }

    /// Returns the error of an engine that fails all queries for the same reason.
    fn failure(&self, engine: &GpuEngine) -> ExecError {
        let mut failures = self.failures(self.search(engine));
        assert_eq!(failures.len(), self.plans.len(), "{failures:?}");
        let (_, first) = failures.remove(0);
        let kind = |error: &ExecError| std::mem::discriminant(device_error(error));
        let same = |(_, error): &(usize, ExecError)| kind(error) == kind(&first);
        assert!(failures.iter().all(same), "{first} and {failures:?}");
        first
    }
}

fn device_error(error: &ExecError) -> &DeviceError {
    match error {
        ExecError::Device { source, .. } => source.downcast_ref().unwrap(),
        other => panic!("{other}"),
    }
}

/// Loses the device at every call of every driver function that the engine uses: queries end with
/// errors, and never with wrong hits.
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
    for settings in FORMS {
        let whole = case.engine_with(None, settings).unwrap();
        assert!(case.failures(case.search(&whole)).is_empty());
        for function in functions {
            let mut failed = 0;
            for n in 1.. {
                assert!(n < 1000, "{function}: there is no end");
                let _injected = inject(&format!("{function}@{n}=999!"));
                let engine = case.engine_with(None, settings);
                let failures = match &engine {
                    Ok(engine) => case.failures(case.search(engine)),
                    Err(error) => vec![(0, error.clone())],
                };
                for (_, error) in &failures {
                    let said = device_error(error).to_string();
                    assert!(said.contains("CUDA_ERROR_UNKNOWN"), "{function} {n}: {said}");
                    assert_ne!(error.fault(), Some(Fault::Query), "{function} {n}: {said}");
                }
                // Calls after all queries are answered come too late to matter.
                if failures.is_empty() {
                    break;
                }
                failed += 1;
                // A lost device stays lost.
                if let Ok(engine) = &engine {
                    assert_eq!(case.failures(case.search(engine)).len(), case.plans.len());
                }
            }
            assert!(failed > 0, "{function} is not called");
        }
    }
}

/// Fails one call, after which the device survives: the queries of its round fail, and all other
/// queries and all later batches are answered.
#[test]
fn a_transient_failure_fails_only_its_round() {
    let case = Case::new(100);
    let mut first_rounds: HashSet<Vec<usize>> = HashSet::new();
    for settings in FORMS {
        for function in ["cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"] {
            let mut failed = 0;
            for n in 1..60 {
                let injected = inject(&format!("{function}@{n}=1"));
                let engine = case.engine_with(None, settings).unwrap();
                drop(injected);
                // The setup may fail as well, once.
                let loaded = engine.load(&case.plans[0].formulas, 1).is_ok();
                let mut failed_batches = usize::from(!loaded);
                for _ in 0..3 {
                    let failures = case.failures(case.search(&engine));
                    for (_, error) in &failures {
                        let driver = matches!(device_error(error), DeviceError::Driver { .. });
                        assert!(driver, "{error}");
                        assert_eq!(error.fault(), Some(Fault::Device));
                    }
                    let modes = failures.iter().map(|(i, _)| case.plans[*i].mode);
                    assert!(modes.collect::<HashSet<_>>().len() <= 1, "a round has one mode");
                    let is_small = failures.len() <= settings.round;
                    assert!(is_small || settings.lists != GpuLists::Tiles, "{function} {n}");
                    if !failures.is_empty() {
                        failed += 1;
                        failed_batches += 1;
                        first_rounds.insert(failures.into_iter().map(|(i, _)| i).collect());
                    }
                }
                assert!(failed_batches <= 1, "{function} {n}");
            }
            assert!(failed > 0, "{function}");
        }
    }
    // All OR queries are one round.
    assert!(first_rounds.contains(&vec![0, 3, 4]), "{first_rounds:?}");
}

/// Hangs a kernel at every launch of a search: the error comes within the limit, nothing waits
/// after it, and another device answers.
#[test]
fn a_device_that_hangs_ends_a_search_and_no_more() {
    let case = Case::new(100);
    // SAFETY: the emulator's own function.
    let open = |ordinal| unsafe { Device::emulated(symbol, ordinal, None) }.unwrap();
    let engine = |gpu| GpuEngine::new(case.snapshot.clone(), gpu, SMALL).unwrap();
    let other = engine(open(1));
    let mut hung = 0;
    for launch in 1.. {
        assert!(launch < 100, "there is no end");
        let injected = inject(&format!("hang={launch}"));
        let gpu = open(0);
        drop(injected);
        gpu.set_time_limit(Some(Duration::from_millis(10)));
        let failing = engine(gpu);
        let failures = case.failures(case.search(&failing));
        if failures.is_empty() {
            break;
        }
        for (_, error) in failures {
            assert_eq!(error.fault(), Some(Fault::Device));
            let error = device_error(&error);
            assert!(matches!(error, DeviceError::Hung { .. }), "{launch}: {error}");
        }
        // Without a limit, anything that still waited would wait forever.
        failing.device().set_time_limit(None);
        assert_eq!(case.failures(case.search(&failing)).len(), case.plans.len());
        hung += 1;
        drop(failing);
        assert!(case.failures(case.search(&other)).is_empty());
    }
    assert!(hung > 3);
}

/// Checks that a lost device answers again once the engine and all handles have been dropped and
/// it is opened again.
#[test]
fn a_lost_device_answers_when_opened_again() {
    let case = Case::new(100);
    let injected = inject("cuLaunchKernel@3=700!");
    let engine = case.engine(None).unwrap();
    drop(injected);
    for _ in 0..2 {
        let (_, error) = case.failures(case.search(&engine)).remove(0);
        assert_eq!(error.fault(), Some(Fault::Device), "{error}");
    }
    drop(engine);
    assert!(case.failures(case.search(&case.engine(None).unwrap())).is_empty());
}

#[test]
fn kernels_that_fail_are_named() {
    let case = Case::new(100);
    // The first waits are for the copy of the index.
    let named = (1..60).any(|wait| {
        let _injected = inject(&format!("cuStreamQuery@{wait}=719"));
        let engine = case.engine(None).unwrap();
        let Some((_, error)) = case.failures(case.search(&engine)).into_iter().next() else {
            return false;
        };
        assert_eq!(error.fault(), Some(Fault::Device));
        assert!(error.to_string().contains("--device cpu"), "{error}");
        // Freeing memory after the copy of the index may be the first call to notice.
        let DeviceError::Kernel { ran, .. } = device_error(&error) else { return false };
        ran.contains(&"merge".to_owned())
    });
    assert!(named);
}

#[test]
fn an_index_that_cannot_fit_is_refused_before_it_is_copied() {
    let case = Case::new(300);
    let whole = case.engine(None).unwrap();
    whole.load(&case.plans[0].formulas, 1).unwrap();
    let segments = case.snapshot.segments();
    let sizes = segments.iter().map(|segment| {
        let all = 0..segment.documents().count();
        least_bytes(segment, &all, SMALL.tile_bits).unwrap()
    });
    let least: u64 = sizes.sum();
    let (copied, total) = whole.loading().postings();
    assert_eq!(copied, total);
    // The estimate is at most the real size and close to it. The difference is padding, of which
    // small lists have much.
    let real = whole.device().memory().current;
    assert!(least <= real && least * 4 > real, "{least} and {real}");

    let engine = case.engine(Some(least - 1)).unwrap();
    let error = case.failure(&engine);
    assert_eq!(error.fault(), Some(Fault::Setup));
    let expected = DeviceError::TooLarge { needed: least, available: least - 1, budget: true };
    assert_eq!(device_error(&error), &expected);
    assert!(error.to_string().contains("--gpu-memory"), "{error}");
    assert_eq!(engine.loading().postings(), (0, 0));

    let _injected = inject(&format!("memory={}", least - 1));
    let error = case.failure(&case.engine(None).unwrap());
    assert_eq!(error.fault(), Some(Fault::Setup));
    let DeviceError::TooLarge { budget, .. } = device_error(&error) else { panic!("{error}") };
    assert!(!budget && error.to_string().contains("--device cpu"), "{error}");
}

/// Answers queries on an index that does not fit as tiles with the memory that there is.
#[test]
fn an_index_that_cannot_fit_is_answered_on_demand() {
    let case = Case::new(40_000);
    let whole = case.engine(None).unwrap();
    whole.load(&case.plans[0].formulas, 1).unwrap();
    let tiles = whole.device().memory().current - whole.loading().bytes();
    for budget in [tiles / 2, tiles - 1] {
        let auto = Settings { lists: GpuLists::Auto, ..SMALL };
        let engine = case.engine_with(Some(budget), auto).unwrap();
        let failures = case.failures(case.search(&engine));
        assert!(failures.is_empty(), "{budget}: {failures:?}");
        assert_eq!(engine.resident().now().form(), Some("compact"), "{budget}");
        assert!(engine.device().memory().peak <= budget);
    }
}

/// Lets another process take memory: allocations fail from some moment on, or once. Queries are
/// answered with the remaining memory, or end with an error that says what is missing; and all
/// memory is freed.
#[test]
fn allocations_may_fail_half_way() {
    let case = Case::new(100);
    for form in [GpuLists::Auto, GpuLists::Compact, GpuLists::OnDemand] {
        let settings = Settings { lists: form, ..SMALL };
        for kind in ["", "+"] {
            let (mut failed, mut answered) = (0, 0);
            for n in 1.. {
                assert!(n < 300, "there is no end");
                let injected = inject(&format!("cuMemAlloc_v2@{n}{kind}=2"));
                // SAFETY: the emulator's own function.
                let gpu = unsafe { Device::emulated(symbol, 0, None) }.unwrap();
                drop(injected);
                let engine = GpuEngine::new(case.snapshot.clone(), gpu.clone(), settings).unwrap();
                let failures = case.failures(case.search(&engine));
                for (_, error) in &failures {
                    let error = device_error(error);
                    let short = matches!(error, DeviceError::OutOfMemory { .. });
                    assert!(short || matches!(error, DeviceError::TooLarge { .. }), "{error}");
                }
                failed += failures.len();
                answered += case.plans.len() - failures.len();
                let done = engine.device().memory().current > 0 && failures.is_empty() && n > 100;
                drop(engine);
                assert_eq!(gpu.memory().current, 0, "{form} {n}{kind}");
                if done {
                    break;
                }
            }
            assert!(answered > 0, "{form} {kind}");
            assert!(failed > 0 || kind.is_empty(), "{form} {kind}");
        }
    }
}

/// Returns the bytes of the image, and the maximum number of bytes that rounds need in addition.
fn memory(case: &Case, plans: &[Plan], settings: Settings) -> (u64, u64) {
    let engine = case.engine_with(None, settings).unwrap();
    engine.load(&plans[0].formulas, 1).unwrap();
    let image = engine.device().memory().current;
    answers(&engine, plans, 1).unwrap();
    (image, engine.device().memory().peak - image)
}

/// Provides memory for the image and some queries, but not for all at once: there are more
/// rounds, and the hits are the same.
#[test]
fn batches_shrink_to_what_fits() {
    let case = Case::new(300);
    let plans: Vec<Plan> = case.plans.iter().cycle().take(200).cloned().collect();
    let (image, room) = memory(&case, &plans, SMALL);
    for part in [2, 4, 8] {
        let engine = case.engine(Some(image + room / part)).unwrap();
        for (answer, expected) in
            answers(&engine, &plans, 1).unwrap().iter().zip(case.expected.iter().cycle())
        {
            assert_eq!(answer.hits, expected.hits);
        }
    }
}

/// Provides memory for one round at a time: rounds wait for each other instead of failing.
#[test]
fn rounds_take_turns_if_memory_is_short() {
    let case = Case::new(300);
    let plans: Vec<Plan> = case.plans.iter().cycle().take(60).cloned().collect();
    let alone = Settings { round: 1, in_flight: 1, ..SMALL };
    let (image, room) = memory(&case, &plans, alone);
    for round in [1, 7, 50] {
        let settings = Settings { round, ..SMALL };
        for _ in 0..5 {
            let engine = case.engine_with(Some(image + room), settings).unwrap();
            let answers = answers(&engine, &plans, 1).unwrap();
            for (answer, expected) in answers.iter().zip(case.expected.iter().cycle()) {
                assert_eq!(answer.hits, expected.hits);
            }
        }
    }
}

/// Checks that a query that does not fit alone fails alone.
#[test]
fn a_query_that_cannot_fit_fails_alone() {
    let case = Case::new(300);
    let mut plans: Vec<Plan> = case.plans.iter().cycle().take(60).cloned().collect();
    let small = Settings { round: 1, in_flight: 1, ..SMALL };
    let (image, room) = memory(&case, &plans, small);
    for greedy in [13, 41] {
        plans[greedy].k = usize::MAX;
    }
    let (_, needed) = memory(&case, &plans, small);
    assert!(needed > 2 * room, "{needed} and {room}");
    for settings in LAYOUTS {
        let engine = case.engine_with(Some(image + 2 * room), settings).unwrap();
        let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &Context::new(1));
        for (i, answer) in answers.into_iter().enumerate() {
            if [13, 41].contains(&i) {
                assert_eq!(answer.unwrap_err().fault(), Some(Fault::Query));
            } else {
                assert_eq!(answer.unwrap().hits, case.expected[i % 5].hits, "query {i}");
            }
        }
    }
}

/// Checks that a second engine on the same image has the same hits, and takes no memory for
/// another image.
#[test]
fn engines_can_share_an_image() {
    let case = Case::new(300);
    let first = case.engine(None).unwrap();
    let exhaustive = Settings { pruned: false, tile_bits: 9, ..SMALL };
    let second = first.sharing_image(exhaustive);
    assert_eq!((second.settings().tile_bits, second.settings().pruned), (SMALL.tile_bits, false));
    second.load(&case.plans[0].formulas, 1).unwrap();
    let image = first.device().memory().current;
    first.load(&case.plans[0].formulas, 1).unwrap();
    assert_eq!(first.device().memory().current, image);
    for engine in [&first, &second] {
        assert!(case.failures(case.search(engine)).is_empty());
    }
}

#[test]
fn pinned_memory_runs_out() {
    let case = Case::new(100);
    // There is enough device memory.
    let _injected = inject("cuMemHostAlloc@1+=2");
    let error = case.failure(&case.engine(None).unwrap());
    assert!(matches!(device_error(&error), DeviceError::HostMemory { .. }), "{error}");
    assert_eq!(error.fault(), Some(Fault::Setup));
    assert!(error.to_string().contains("ulimit -l"), "{error}");
}

#[test]
fn copying_an_index_can_be_cancelled() {
    let case = Case::new(100);
    for form in [GpuLists::Tiles, GpuLists::Compact] {
        let engine = case.engine_with(None, Settings { lists: form, ..SMALL }).unwrap();
        engine.loading().cancel();
        let ExecError::Index(error) = engine.load(&case.plans[0].formulas, 1).unwrap_err() else {
            panic!("another error");
        };
        assert!(matches!(*error, IndexError::Cancelled), "{error}");
        // The next copy is not cancelled.
        engine.load(&case.plans[0].formulas, 1).unwrap();
    }
}

#[test]
fn old_drivers_and_devices_are_refused() {
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
        assert_eq!(error.fault(), Some(Fault::Setup), "{fault}");
    }
}

/// Checks that pieces of every length arrive, with and without pinned memory.
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

//! Choice of devices, fallback of single queries, and devices that fail and come back. The
//! emulator replaces the GPU.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use warpseek::devices::Device;
use warpseek::gpu::{GpuLists, Notice};
use warpseek::options::{CalibrationChoice, Split};
use warpseek::plan::CollectionStatistics;
use warpseek::query::SortKey;
use warpseek::research::Tuning;
use warpseek::{
    DeviceChoice, Document, Error, Index, IndexOptions, LiveOptions, Mode, Progress, Request,
    Schema, Searcher, SearcherOptions, ServiceOptions,
};
use warpseek_cuda_emulator::{inject, symbol};

/// An index, and the notices of its searchers.
struct Case {
    _folder: TempDir,
    index: Index,
    notices: Arc<Mutex<Vec<Notice>>>,
    opened: Arc<AtomicUsize>,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = |i: usize| {
            let words = ["red", "green", "blue", "white", "black"];
            (0..i % 4 + 1).map(|n| words[(i / (n + 1) + n) % 5]).collect::<Vec<_>>().join(" ")
        };
        let documents = (0..2000).map(move |i| Document::new(i.to_string(), "", text(i)));
        let (dir, options) = (folder.path().join("index"), IndexOptions::new());
        let (index, _) =
            Index::build_from_documents(dir, documents, &options, &Progress::default()).unwrap();
        Case { _folder: folder, index, notices: Arc::default(), opened: Arc::default() }
    }

    /// Returns options whose GPUs have faults: the first fault for the device opened first, and
    /// so on. Later devices have none.
    fn options(&self, device: DeviceChoice, faults: &'static [&'static str]) -> SearcherOptions {
        let (notices, opened) = (self.notices.clone(), self.opened.clone());
        SearcherOptions::new()
            .device(device)
            .gpu_from(0)
            .threads(2)
            .retry_gpu_after(Duration::from_millis(20))
            .on_notice(move |notice| notices.lock().unwrap().push(notice.clone()))
            .open_gpus_by(move |number, budget| {
                let time = opened.fetch_add(1, Ordering::Relaxed);
                let _faults = inject(faults.get(time).unwrap_or(&""));
                // SAFETY: the function is the emulator's own.
                unsafe { Device::emulated(symbol, number, budget) }
            })
    }

    fn searcher(&self, device: DeviceChoice, faults: &'static [&'static str]) -> Searcher {
        self.index.searcher_with(self.options(device, faults)).unwrap()
    }

    fn requests(&self) -> Vec<Request> {
        let queries = ["red", "green blue", "white black red", "blue blue^3 black", "absent"];
        let modes = [Mode::Or, Mode::And, Mode::AndOr];
        let all = queries.iter().flat_map(|&query| {
            modes.map(|mode| Request::new(query).mode(mode).k(7).count(query.len() > 9))
        });
        all.collect()
    }

    /// Checks that the responses to all requests equal those of the CPU.
    fn check(&self, searcher: &Searcher) {
        let cpu = self.index.searcher().unwrap();
        let requests = self.requests();
        for (i, response) in searcher.search_batch(&requests).into_iter().enumerate() {
            let (response, expected) = (response.unwrap(), cpu.search(&requests[i]).unwrap());
            assert_eq!(response.hits(), expected.hits(), "{:?}", requests[i]);
        }
    }

    fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap().clone()
    }
}

#[test]
fn every_choice_of_devices_gives_the_same_hits() {
    let case = Case::new();
    for device in [DeviceChoice::Cuda, DeviceChoice::Auto, DeviceChoice::Both] {
        for split in [Split::Documents, Split::Queries] {
            for gpus in [vec![0], vec![0, 1]] {
                let options = case.options(device, &[]).split(split).gpus(gpus);
                case.check(&case.index.searcher_with(options).unwrap());
            }
        }
    }
    assert_eq!(case.notices(), []);
}

#[test]
fn without_a_gpu_the_cpu_answers_or_it_is_an_error() {
    let case = Case::new();
    // The driver of this GPU is too old.
    let searcher = case.searcher(DeviceChoice::Auto, &["cuda=11000"]);
    case.check(&searcher);
    assert!(searcher.gpu_status().why_not.unwrap().contains("too old"));
    assert!(matches!(&case.notices()[..], [Notice::NoGpu { .. }]));
    let case = Case::new();
    let refused = case.index.searcher_with(case.options(DeviceChoice::Cuda, &["cuda=11000"]));
    assert!(matches!(refused, Err(Error::Device(_))));
}

/// Checks that the CPU answers a query that needs more memory than the GPU has, and that the GPU
/// answers the others.
#[test]
fn one_query_does_not_disable_the_gpu() {
    let case = Case::new();
    // The least memory that suffices for everything but the large query.
    let within = |budget: u64| {
        let options = case.options(DeviceChoice::Auto, &[]).gpu_memory(budget);
        let searcher = case.index.searcher_with(options).unwrap();
        case.check(&searcher);
        let status = searcher.gpu_status();
        (status.why_not.is_none() && status.fallen_back == 0).then_some(searcher)
    };
    let budgets = std::iter::successors(Some(1u64 << 14), |budget| Some(budget + budget / 16));
    let searcher = budgets.take(100).find_map(within).unwrap();
    case.notices.lock().unwrap().clear();
    let large = Request::new("red green blue white black").k(usize::MAX);
    let expected = case.index.searcher().unwrap().search(&large).unwrap();
    let requests = [Request::new("red"), large, Request::new("blue")];
    let responses = searcher.search_batch(&requests);
    assert!(responses.iter().all(Result::is_ok));
    assert_eq!(responses[1].as_ref().unwrap().hits(), expected.hits());
    let status = searcher.gpu_status();
    assert!(status.fallen_back >= 1 && status.why_not.is_none(), "{status:?}");
    assert!(searcher.decide(&[&searcher.plan(&requests[0]).unwrap()]).choices[0].device != "CPU");
    assert!(matches!(&case.notices()[..], [Notice::FellBack { .. }]), "the GPU is not lost");
}

/// Checks that a device that fails is opened again later, and that the CPU answers until then.
#[test]
fn a_lost_gpu_comes_back() {
    let case = Case::new();
    // Launches fail from the third on, and everything else with them; the second attempt fails
    // too.
    let lost = "cuLaunchKernel@3=719!";
    static FAULTS: [&str; 2] = ["cuLaunchKernel@3=719!", "cuLaunchKernel@1=719!"];
    assert_eq!(FAULTS[0], lost);
    let searcher = case.searcher(DeviceChoice::Auto, &FAULTS);
    let start = Instant::now();
    loop {
        case.check(&searcher);
        let back = case.notices().iter().any(|notice| matches!(notice, Notice::GpuBack { .. }));
        if back
            && searcher.gpu_status().why_not.is_none()
            && case.opened.load(Ordering::Relaxed) > 2
        {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", case.notices());
    }
    let notices = case.notices();
    let Notice::GpuLost { retry_in, cpu_answers, .. } = &notices[0] else { panic!("{notices:?}") };
    assert!(*cpu_answers && *retry_in == Duration::from_millis(20));
    case.check(&searcher);
}

/// Checks that the CPU answers if a kernel never ends, and that the GPU is not used again.
#[test]
fn a_gpu_that_hangs_is_not_waited_for() {
    let case = Case::new();
    let options = case.options(DeviceChoice::Auto, &[]);
    let options = options.open_gpus_by(|number, budget| {
        let _faults = inject("hang=2");
        // SAFETY: the function is the emulator's own.
        let device = unsafe { Device::emulated(symbol, number, budget) }?;
        device.set_time_limit(Some(Duration::from_millis(20)));
        Ok(device)
    });
    let searcher = case.index.searcher_with(options).unwrap();
    case.check(&searcher);
    case.check(&searcher);
    assert!(matches!(&case.notices()[..], [Notice::NoGpu { .. }]), "{:?}", case.notices());
}

/// Checks that searches that require the GPU fail with an error while it is lost.
#[test]
fn without_fallback_a_lost_gpu_is_an_error() {
    let case = Case::new();
    let searcher = case.searcher(DeviceChoice::Cuda, &["cuLaunchKernel@1=719!"]);
    let request = Request::new("red");
    assert!(searcher.search(&request).is_err());
    let start = Instant::now();
    while searcher.search(&request).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", case.notices());
        std::thread::sleep(Duration::from_millis(5));
    }
    case.check(&searcher);
    assert!(matches!(case.notices()[0], Notice::GpuLost { cpu_answers: false, .. }));
}

/// Checks that a newer snapshot reuses the GPU, copies only new data, and does not interrupt
/// searches.
#[test]
fn refresh_moves_what_is_new_while_searches_run() {
    for gpu_lists in [GpuLists::Auto, GpuLists::Compact] {
        let case = Case::new();
        let tuning = Tuning { gpu_lists, ..Tuning::default() };
        let options = case.options(DeviceChoice::Cuda, &[]).tuning(tuning);
        let searcher = case.index.searcher_with(options).unwrap();
        searcher.prepare().unwrap();
        let copied = |searcher: &Searcher| searcher.gpu_status().residency[0].copied;
        let (whole, ended) = (copied(&searcher), AtomicBool::new(false));
        assert!(whole > 0);
        std::thread::scope(|scope| {
            // Each response is that of the snapshot it names.
            let searching = scope.spawn(|| {
                let mut seen = BTreeMap::new();
                while !ended.load(Ordering::Relaxed) || seen.is_empty() {
                    for response in searcher.search_batch(&case.requests()) {
                        let response = response.unwrap();
                        let hits = response.hits().to_vec();
                        let key = (response.generation(), response.plan().terms.len(), hits);
                        *seen.entry(key).or_insert(0) += 1;
                    }
                }
                seen
            });
            for i in 0..5 {
                let mut writer = case.index.writer().unwrap();
                for n in 0..20 {
                    let id = format!("new {i} {n}");
                    writer.add(Document::new(id, "", "red green blue new")).unwrap();
                }
                writer.commit().unwrap();
                assert!(searcher.refresh().unwrap());
                assert!(copied(&searcher) < whole / 4, "{}", copied(&searcher));
                case.check(&searcher);
            }
            ended.store(true, Ordering::Relaxed);
            assert!(!searching.join().unwrap().is_empty());
        });
        assert_eq!(case.opened.load(Ordering::Relaxed), 1, "the GPU stays open");
        assert!(case.notices().is_empty(), "{:?}", case.notices());
    }
}

#[test]
fn what_is_on_a_gpu_is_known() {
    let case = Case::new();
    let whole = case.searcher(DeviceChoice::Cuda, &[]);
    whole.prepare().unwrap();
    let residency = whole.gpu_status().residency.remove(0);
    assert_eq!((residency.form(), residency.formulas), (Some("tiles"), 1));
    let budget = 400_000;
    let tuning = Tuning { gpu_lists: GpuLists::Compact, ..Tuning::default() };
    let options = case.options(DeviceChoice::Cuda, &[]).gpu_memory(budget).tuning(tuning);
    let searcher = case.index.searcher_with(options).unwrap();
    case.check(&searcher);
    let residency = searcher.gpu_status().residency.remove(0);
    assert_eq!((residency.form(), residency.limit), (Some("compact"), Some(budget)));
    assert!(residency.cache.unwrap().lists.iter().sum::<u64>() > 0);
}

/// Checks that a GPU answers for a part of a collection once it has values for the collection's
/// mean length. Until then, the CPU answers.
#[test]
fn a_part_is_prepared_for_the_statistics_of_its_collection() {
    let case = Case::new();
    let (auto, cpu) = (case.searcher(DeviceChoice::Auto, &[]), case.index.searcher().unwrap());
    auto.prepare().unwrap();
    let snapshot = cpu.snapshot();
    let mut all = CollectionStatistics::of(&snapshot);
    let mut others = all.fields.clone();
    others[0].tokens *= 3;
    all.add_fields(&others).unwrap();
    for term in ["red", "green", "blue", "white", "black", "absent"] {
        let documents = snapshot.document_frequency(term.as_bytes()).unwrap();
        all.add_term(0, term, documents * 2).unwrap();
    }
    let all = Arc::new(all);
    let requests: Vec<Request> =
        case.requests().into_iter().map(|request| request.of_collection(all.clone())).collect();
    let check = || {
        for (request, response) in requests.iter().zip(auto.search_batch(&requests)) {
            let (response, expected) = (response.unwrap(), cpu.search(request).unwrap());
            assert_eq!(response.hits(), expected.hits(), "{request:?}");
        }
        auto.gpu_status().stayed
    };
    let before = check();
    assert!(before > 0, "the GPU has no such values yet");
    auto.prepare_as_part(&all).unwrap();
    assert_eq!(check(), before, "the GPU answers");
    // No query here uses the index's own statistics any more.
    case.check(&auto);
    auto.prepare_as_part(&all).unwrap();
    assert!(case.notices().is_empty(), "{:?}", case.notices());
}

#[test]
fn a_form_of_lists_that_has_no_effect_is_refused() {
    let case = Case::new();
    let tuning = Tuning { gpu_lists: GpuLists::Compact, ..Tuning::default() };
    for algorithm in ["wand", "cohort", "intersect"] {
        let options = case.options(DeviceChoice::Cuda, &[]).tuning(tuning.clone());
        let error = case.index.searcher_with(options.algorithm(algorithm.parse().unwrap()));
        let error = error.err().unwrap().to_string();
        assert!(error.contains("the form of lists on a GPU"), "{error}");
    }
}

/// Checks that a service with the CPU and a GPU has the hits of a searcher, also while the GPU is
/// lost and over a newer snapshot.
#[test]
fn a_service_answers_with_the_cpu_and_the_gpu() {
    let case = Case::new();
    let cpu = case.index.searcher().unwrap();
    for faults in [&[][..], &["cuLaunchKernel@40=719!"]] {
        let searcher = case.searcher(DeviceChoice::Auto, faults);
        let options = ServiceOptions::new().threads(1).calibration(Duration::ZERO).cache(1 << 20);
        let service = searcher.service(options).unwrap();
        for _ in 0..3 {
            let requests = case.requests();
            let tickets: Vec<_> =
                requests.iter().map(|request| service.submit(request).unwrap()).collect();
            for (ticket, request) in tickets.into_iter().zip(&requests) {
                let (response, expected) =
                    (ticket.wait().answer.unwrap(), cpu.search(request).unwrap());
                assert_eq!(response.hits(), expected.hits());
                assert!(!request.count || response.matches() == expected.matches());
            }
        }
        assert!(service.status().cache.unwrap().hits > 0);
    }
    let service = case
        .searcher(DeviceChoice::Auto, &[])
        .service(ServiceOptions::new().keep_calibration(false))
        .unwrap();
    let mut writer = case.index.writer().unwrap();
    writer.add(Document::new("new", "", "red red red red")).unwrap();
    writer.commit().unwrap();
    assert!(service.refresh().unwrap() && !service.refresh().unwrap());
    let response = service.submit(&Request::new("red")).unwrap().wait().answer.unwrap();
    assert!(cpu.refresh().unwrap());
    assert_eq!(response.hits(), cpu.search(&Request::new("red")).unwrap().hits());
}

/// Checks that a traced search names the device that answered, even if another one failed first.
#[test]
fn a_trace_names_the_device_that_answered() {
    let case = Case::new();
    let cpu = case.index.searcher().unwrap();
    let check = |searcher: &Searcher, request: &Request| {
        let traced = searcher.search_traced(request).unwrap();
        assert_eq!(traced.response.hits(), cpu.search(request).unwrap().hits());
        assert!(traced.planning + traced.answering <= traced.response.took());
        assert!(!traced.choice.algorithm.is_empty());
        traced.choice.device
    };
    let request = Request::new("red blue").count(true);
    assert_eq!(check(&cpu, &request), "CPU");
    let searcher = case.searcher(DeviceChoice::Cuda, &[]);
    let name = searcher.gpu_status().name.unwrap();
    assert_eq!(check(&searcher, &request), name);
    let searcher = case.searcher(DeviceChoice::Auto, &[]);
    assert_eq!(check(&searcher, &request), name);
    // The GPU does not support another order, so it is not tried.
    let sorted = request.clone().sort([SortKey::document()]);
    assert_eq!(check(&searcher, &sorted), "CPU");
    assert_eq!(check(&searcher, &request), name);
    // The GPU is tried, and fails.
    let case = Case::new();
    let searcher = case.searcher(DeviceChoice::Auto, &["cuLaunchKernel@1=719!"]);
    assert_eq!(check(&searcher, &request), "CPU");
    assert_eq!(searcher.gpu_status().fallen_back, 1);
}

/// Checks that a GPU is not used for an index with several text fields, which is reported once
/// and not again with every refresh.
#[test]
fn what_no_gpu_can_search_is_said_once() {
    let case = Case::new();
    let schema = Schema::parse(r#"{"text": [{"name": "title"}, {"name": "body"}]}"#).unwrap();
    let dir = case.index.path().with_file_name("fields");
    let index = Index::create_with(&dir, IndexOptions::new().schema(schema)).unwrap();
    let live = index.live(LiveOptions::new()).unwrap();
    let searcher = live.searcher(case.options(DeviceChoice::Auto, &[])).unwrap();
    for i in 0..3 {
        let line = format!(r#"{{"id": "{i}", "title": "red", "body": "green"}}"#);
        live.put_json(&line).unwrap().wait().unwrap();
        live.refresh().unwrap();
        assert_eq!(searcher.search(&Request::new("green")).unwrap().hits().len(), i + 1);
    }
    searcher.prepare().unwrap();
    assert!(searcher.gpu_status().why_not.unwrap().contains("2 text fields"));
    assert!(matches!(&case.notices()[..], [Notice::NoGpu { .. }]), "{:?}", case.notices());
    assert_eq!(case.opened.load(Ordering::Relaxed), 0);
    let service = searcher.service(ServiceOptions::new().calibration(Duration::ZERO)).unwrap();
    assert_eq!(
        service.submit(&Request::new("red")).unwrap().wait().answer.unwrap().hits().len(),
        3
    );
}

/// Checks that a refresh does not try a GPU again that has too little memory for the index, and
/// that nothing fails.
#[test]
fn a_gpu_without_room_is_not_asked_again() {
    let case = Case::new();
    let live = case.index.live(LiveOptions::new()).unwrap();
    let options = case.options(DeviceChoice::Auto, &["memory=1000"]);
    let searcher = live.searcher(options).unwrap();
    searcher.prepare().unwrap();
    let service = searcher.service(ServiceOptions::new().calibration(Duration::ZERO)).unwrap();
    for i in 0..3 {
        live.put(&Document::new(format!("new{i}"), "", "violet")).unwrap().wait().unwrap();
        live.refresh().unwrap();
        assert_eq!(searcher.search(&Request::new("violet")).unwrap().hits().len(), i + 1);
        let served = service.submit(&Request::new("violet")).unwrap().wait();
        assert_eq!(served.answer.unwrap().hits().len(), i + 1);
    }
    assert!(searcher.gpu_status().why_not.is_some() && searcher.gpu_status().name.is_none());
    assert!(matches!(&case.notices()[..], [Notice::NoGpu { .. }]), "{:?}", case.notices());
    assert_eq!(case.opened.load(Ordering::Relaxed), 1);
}

/// Checks that a choice between devices says where its estimates come from: from the engines
/// before the index is on the GPU, from a brief measurement afterwards, and from a calibration as
/// soon as there is one; and that a calibration of another machine is not used silently.
#[test]
fn times_come_from_this_machine() {
    let case = Case::new();
    let folder = tempfile::tempdir().unwrap();
    let open = |calibration: CalibrationChoice| {
        let (notices, options) = (case.notices.clone(), SearcherOptions::new());
        let options = options
            .device(DeviceChoice::Auto)
            .threads(2)
            .calibration(calibration)
            .on_notice(move |notice| notices.lock().unwrap().push(notice.clone()))
            // SAFETY: the function is the emulator's own.
            .open_gpus_by(|number, budget| unsafe { Device::emulated(symbol, number, budget) });
        case.index.searcher_with(options).unwrap()
    };
    let source = |searcher: &Searcher| {
        let plan = searcher.plan(&Request::new("red green")).unwrap();
        let decision = searcher.decide(&[&plan]);
        assert_eq!(searcher.gpu_status().calibration, decision.calibration);
        assert!(decision.cpu.unwrap().time > Duration::ZERO && decision.gpu.is_some());
        decision.calibration.unwrap()
    };
    let searcher = open(CalibrationChoice::Auto);
    assert!(source(&searcher).contains("no query was timed here yet"), "{}", source(&searcher));
    searcher.prepare().unwrap();
    let measured = source(&searcher);
    assert!(measured.contains("on the CPU") && measured.contains("on the GPU"), "{measured}");
    case.check(&searcher);
    let off = open(CalibrationChoice::Off);
    off.prepare().unwrap();
    assert!(source(&off).contains("as requested"), "{}", source(&off));

    // A calibration of the CPU, as if the GPU were as fast.
    let file = folder.path().join("calibration.json");
    let cpu = case.index.searcher_with(SearcherOptions::new().threads(2)).unwrap();
    let report = cpu.calibrate_into(&file, Duration::from_secs(5), &[]).unwrap();
    assert_eq!((report.stations.len(), report.file.as_deref()), (1, Some(&*file)));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    let name = searcher.gpu_status().name.unwrap();
    other["conditions"]["devices"] = vec!["CPU", &name].into();
    let mut gpu = other["stations"][0].clone();
    (gpu[0], gpu[1]["batches"]) = (name.into(), true.into());
    other["stations"].as_array_mut().unwrap().push(gpu);
    std::fs::write(&file, other.to_string()).unwrap();
    let named = open(CalibrationChoice::File(file.clone()));
    assert!(source(&named).starts_with("calibration of "), "{}", source(&named));
    assert!(source(&named).ends_with("calibration.json"), "{}", source(&named));
    case.check(&named);
    assert_eq!(case.notices(), []);

    other["conditions"]["cpu"] = "Another CPU".into();
    std::fs::write(&file, other.to_string()).unwrap();
    let searcher = open(CalibrationChoice::File(file.clone()));
    assert!(source(&searcher).contains("no query was timed"), "{}", source(&searcher));
    let notices = case.notices();
    let [Notice::OtherCalibration { why, .. }] = &notices[..] else { panic!("{notices:?}") };
    assert!(why.contains("on the CPU Another CPU"), "{why}");
    // A file that is named must be a calibration.
    std::fs::write(&file, "{}").unwrap();
    let options = SearcherOptions::new()
        .device(DeviceChoice::Auto)
        .calibration(CalibrationChoice::File(file));
    let error = case.index.searcher_with(options).err().unwrap().to_string();
    assert!(error.contains("calibration.json") && error.contains("warpseek calibrate"), "{error}");
}

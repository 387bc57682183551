//! Tests that an index that a GPU has inverted equals the index that the CPU creates, byte for
//! byte; on the emulator or on a GPU (see `support`).

#![allow(clippy::unwrap_used)]

#[path = "../../cuda/tests/support/mod.rs"]
mod support;

mod builds;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use builds::{assert_equal, files, on_gpu};
use proptest::prelude::*;
use support::{devices, devices_within, on_gpu as on_real_gpu};
use warpseek_build_gpu::{GpuInverters, OnFailure};
use warpseek_cuda::DeviceError;
use warpseek_cuda_emulator::inject;
use warpseek_index::{
    BuildConfig, BuildReport, Impacts, IndexError, OnError, Progress, StoreMode, add, create,
    create_from_reader, verify,
};
use warpseek_testkit::collections;
use warpseek_testkit::skips::elsewhere;
use warpseek_text::{Analyzer, OwnedDocument, Reader, ReaderConfig};

fn config() -> BuildConfig {
    BuildConfig { store: StoreMode::Ids, threads: 2, ..BuildConfig::default() }
}

fn documents(texts: &[String]) -> Vec<OwnedDocument> {
    let title = |i: usize| if i.is_multiple_of(3) { "A title's words" } else { "" };
    texts
        .iter()
        .enumerate()
        .map(|(i, text)| OwnedDocument::new(format!("{i}"), title(i), text))
        .collect()
}

fn build(dir: &Path, texts: &[String], config: &BuildConfig) -> Result<BuildReport, IndexError> {
    // Segments of a replaced index are not numbered from the start.
    _ = std::fs::remove_dir_all(dir);
    let reader = Reader::of_documents(documents(texts), ReaderConfig::default()).unwrap();
    create_from_reader(dir, reader, config, true, &Progress::default())
}

/// Builds on both and compares.
fn check(texts: &[String], config: &BuildConfig, batches: &[usize]) {
    let dir = tempfile::tempdir().unwrap();
    let cpu = dir.path().join("cpu");
    let notices = build(&cpu, texts, config).unwrap().notices;
    for device in devices() {
        for &batch in batches {
            let gpu = dir.path().join("gpu");
            let report = build(&gpu, texts, &on_gpu(config, &device, batch)).unwrap();
            assert_eq!(report.notices, notices);
            assert_equal(&cpu, &gpu, &format!("{:?}, batches of {batch}", config.analyzer));
        }
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn hostile_text() {
    let texts = strings(&[
        "",
        " ",
        "_ __ ___ _a_",
        "the the THE The's it's e.g. 3.14 1,000 a.b.c a:b 1:2 x_1",
        "line\r\nline\r\n\tend\r\n",
        "\u{1e} \u{1e}a\u{1e}b\0c\u{7f}",
        "naïve café Straße ΣΊΣΥΦΟΣ 東京タワー don’t א'ב \"א\"ב\" x\u{300}y",
        "東京tower tower Tower",
        &"word ".repeat(3000),
        &"often ".repeat(70_000),
        &"a".repeat(1_000_000),
        &("b".repeat(255)
            + " "
            + &"b".repeat(256)
            + " "
            + &"é".repeat(127)
            + " "
            + &"é".repeat(128)),
        &"a.".repeat(10_000),
        &(0..5000).map(|i| format!("w{i} ")).collect::<String>(),
    ]);
    for analyzer in [Analyzer::English, Analyzer::Plain, Analyzer::Raw] {
        check(&texts, &BuildConfig { analyzer, ..config() }, &[1 << 22, 40_000, 100]);
    }
    check(&[], &config(), &[100]);
    check(&strings(&["", ""]), &config(), &[100]);
}

#[test]
fn sizes_around_the_borders_of_tiles_and_blocks() {
    for words in [1, 31, 32, 33, 255, 256, 257, 2047, 4096, 8193] {
        let text = (0..words).map(|i| format!("{} ", i % 97)).collect::<String>();
        check(&[text.clone(), text], &config(), &[1 << 20]);
    }
}

#[test]
fn all_settings_of_a_build() {
    let texts: Vec<String> = (0..300)
        .map(|i| (0..i % 40).map(|j| format!("term{} ", (i * j) % 211)).collect())
        .collect();
    for changed in [
        BuildConfig { reorder: true, ..config() },
        BuildConfig { norms: true, ..config() },
        BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..config() },
        BuildConfig { store: StoreMode::All, threads: 1, ..config() },
        // Every batch is spilled.
        BuildConfig { memory: 1, ..config() },
        BuildConfig { codec: Some("rice".parse().unwrap()), memory: 10_000, ..config() },
    ] {
        check(&texts, &changed, &[1 << 20, 1000]);
    }
}

/// Tests lists of many blocks, in one batch and in many: patched frequencies and some that are
/// too large for patches, wide and narrow gaps, blocks with more pairs in their bounds than the
/// device keeps, frequencies whose logarithms it does not have.
#[test]
fn long_lists() {
    let texts: Vec<String> = (0..1400usize)
        .map(|i| {
            let mut text = "always ".to_owned();
            let mut add =
                |term: &str, times: usize| text.push_str(&format!("{term} ").repeat(times));
            // The longer the document, the higher the frequency.
            add("rising", 1 + i % 40);
            add("falling", 40 - i % 40);
            add("patched", if i % 50 == 7 { 1 + i } else { 1 + i % 3 });
            add("half", usize::from(i % 2 == 0));
            add("some", usize::from(i % 11 == 0 || i > 1200));
            add("huge", if i % 500 == 499 { 5000 } else { 1 });
            add(&format!("block{}", i / 128), 2);
            text
        })
        .collect();
    // With norms, bounds have weights of cosine.
    let with_norms = BuildConfig { norms: true, ..config() };
    check(&texts, &with_norms, &[1 << 22, 20_000, 2_000]);
    check(&texts, &config(), &[20_000]);
    check(&texts[..129], &config(), &[1 << 22]);
    check(&texts[..128], &config(), &[1 << 22]);
}

#[test]
fn little_device_memory() {
    let texts: Vec<String> =
        (0..40).map(|i| (0..2000).map(|j| format!("word{} ", i * 1000 + j)).collect()).collect();
    let dir = tempfile::tempdir().unwrap();
    let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
    build(&cpu, &texts, &config()).unwrap();
    for megabytes in [1, 2, 8, 64] {
        let device = devices_within(Some(megabytes << 20)).remove(0).unwrap();
        build(&gpu, &texts, &on_gpu(&config(), &device, usize::MAX)).unwrap();
        assert_equal(&cpu, &gpu, &format!("{megabytes} MB"));
    }
}

#[test]
fn collections_of_real_text() {
    for collection in collections::present() {
        let dir = tempfile::tempdir().unwrap();
        let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
        let inputs = [collection.corpus()];
        let progress = Progress::default();
        create(&cpu, &inputs, &config(), true, &progress).unwrap();
        for device in devices() {
            _ = std::fs::remove_dir_all(&gpu);
            create(&gpu, &inputs, &on_gpu(&config(), &device, 1 << 18), true, &progress).unwrap();
            assert_equal(&cpu, &gpu, &inputs[0].display().to_string());
        }
    }
}

#[test]
fn documents_are_added_and_bad_records_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("docs.jsonl");
    let progress = Progress::default();
    std::fs::write(&file, "{\"id\":\"1\",\"text\":\"one two\"}\n{\"id\":\"2\",\"text\":\"two\"}\n")
        .unwrap();
    let more = dir.path().join("more.jsonl");
    std::fs::write(
        &more,
        "{\"id\":\"2\",\"text\":\"three\"}\nnonsense\n{\"id\":\"3\",\"text\":\"one\"}\n",
    )
    .unwrap();
    let skip = BuildConfig { on_error: OnError::Skip, ..config() };
    let device = &devices()[0];
    let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
    for (dir, config) in [(&cpu, skip.clone()), (&gpu, on_gpu(&skip, device, 1 << 20))] {
        create(dir, std::slice::from_ref(&file), &config, true, &progress).unwrap();
        let report = add(dir, std::slice::from_ref(&more), &config, &progress).unwrap();
        assert_eq!((report.documents, report.replaced, report.skipped), (2, 1, 1));
        assert!(verify(dir, &progress).unwrap().problems.is_empty());
    }
    assert_equal(&cpu, &gpu, "added");
    let before = files(&gpu);
    let stop = BuildConfig { on_error: OnError::Stop, ..skip };
    let error = add(&gpu, std::slice::from_ref(&more), &on_gpu(&stop, device, 1 << 20), &progress);
    assert!(error.unwrap_err().to_string().contains("more.jsonl:2"));
    assert_eq!(files(&gpu), before);
}

/// Tests that any call may fail, whether or not the device is lost with it.
#[test]
fn a_gpu_that_fails_is_replaced_by_the_cpu_or_changes_nothing() {
    let texts: Vec<String> =
        (0..60).map(|i| (0..50).map(|j| format!("w{} ", i * j)).collect()).collect();
    let dir = tempfile::tempdir().unwrap();
    let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
    build(&cpu, &texts, &config()).unwrap();
    if on_real_gpu() {
        return elsewhere("faults of a build on a GPU", "faults are those of the emulator");
    }
    let mut failed = 0;
    for function in
        ["cuLaunchKernel", "cuMemAlloc_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]
    {
        for number in [1, 5, 40, 90] {
            for status in ["700!", "2", "999"] {
                let faults = format!("{function}@{number}={status}");
                // Faults are those of the contexts that this thread opens.
                let device = || {
                    let _injected = inject(&faults);
                    devices_within(None).remove(0)
                };
                let Ok(device_of_stop) = device() else { continue };
                let inverters =
                    |device, on_failure| -> Option<Arc<dyn warpseek_index::InverterFactory>> {
                        Some(Arc::new(GpuInverters::new(device, on_failure).with_batches_of(2000)))
                    };
                let stop = BuildConfig {
                    inverter: inverters(device_of_stop, OnFailure::Stop),
                    ..config()
                };
                let go_on = BuildConfig {
                    inverter: inverters(device().unwrap(), OnFailure::UseCpu),
                    ..config()
                };
                match build(&gpu, &texts, &stop) {
                    Ok(_) => assert_equal(&cpu, &gpu, &faults),
                    Err(error) => {
                        failed += 1;
                        assert!(matches!(error, IndexError::Inverter { .. }), "{faults}: {error}");
                        assert!(!gpu.join("manifest").exists(), "{faults}");
                    }
                }
                build(&gpu, &texts, &go_on).unwrap_or_else(|error| panic!("{faults}: {error}"));
                assert_equal(&cpu, &gpu, &faults);
            }
        }
    }
    assert!(failed > 10, "only {failed} builds met a fault");
}

/// Tests that text is read while the device is opened, however long that takes, and if it cannot
/// be opened at all.
#[test]
fn a_device_that_opens_late_or_never() {
    let texts: Vec<String> =
        (0..120).map(|i| (0..50).map(|j| format!("w{} ", i * j)).collect()).collect();
    let dir = tempfile::tempdir().unwrap();
    let (cpu, gpu) = (dir.path().join("cpu"), dir.path().join("gpu"));
    build(&cpu, &texts, &config()).unwrap();
    let config = |inverters: GpuInverters, batch| {
        let inverters = Arc::new(inverters.with_batches_of(batch));
        BuildConfig { inverter: Some(inverters), ..config() }
    };
    for device in devices() {
        for batch in [1, 3000, 1 << 20] {
            let device = device.clone();
            let open = move || {
                std::thread::sleep(Duration::from_millis(100));
                Ok(device.clone())
            };
            let late = config(GpuInverters::opening(open, None, OnFailure::Stop), batch);
            let report = build(&gpu, &texts, &late).unwrap();
            assert_eq!(report.notices, Vec::<String>::new());
            assert_equal(&cpu, &gpu, &format!("opened late, batches of {batch}"));
        }
    }
    let never = || Err(DeviceError::NoSuchDevice { ordinal: 3, count: 1 });
    let stop = config(GpuInverters::opening(never, None, OnFailure::Stop), 500);
    let error = build(&gpu, &texts, &stop).unwrap_err();
    assert!(matches!(error, IndexError::Inverter { .. }), "{error}");
    assert!(!gpu.join("manifest").exists());
    let go_on = config(GpuInverters::opening(never, None, OnFailure::UseCpu), 500);
    let report = build(&gpu, &texts, &go_on).unwrap();
    assert_eq!(report.notices.len(), 1, "{:?}", report.notices);
    assert_equal(&cpu, &gpu, "never opened");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn any_text(
        texts in prop::collection::vec("([a-cA-C0-2.':,;_\" \t\n\u{1e}-]{0,30}|[éÉßİΣאבカ東ะः’'\u{a0}\u{300}\u{3000}😀 ]{0,6}|\\PC{0,4}){0,12}", 0..30),
        batch in prop_oneof![1usize..300, Just(1 << 20)],
        analyzer in prop_oneof![Just(Analyzer::English), Just(Analyzer::Plain), Just(Analyzer::Raw)],
    ) {
        check(&texts, &BuildConfig { analyzer, ..config() }, &[batch]);
    }
}

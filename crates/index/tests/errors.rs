//! Tests of bad input, which errors name by file and line while nothing is left behind, or which
//! is skipped, counted and reported.
#![allow(clippy::unwrap_used)]

use std::fs;

use warpseek_index::{
    BuildConfig, BuildReport, IndexError, OnError, Progress, Result, Snapshot, add, create,
};
use warpseek_testkit::{Doc, Fixture, build_config, file_bytes};

/// Contents of line 4, and the part of the message that describes them.
const BAD: [(&[u8], &str); 10] = [
    (br#"{"id":"x","text":"#, "not a JSON object"),
    (br#"["x"]"#, "not a JSON object"),
    (br#"{"text":"no id"}"#, "no id"),
    (br#"{"id":"","text":"a"}"#, "the id is empty"),
    (br#"{"id":"a","text":"again"}"#, "id `a` was seen before"),
    (b"{\"id\":\"x\",\"text\":\"\xff\"}", "not valid UTF-8"),
    (br#"{"id":"x","vector":{"a":1}}"#, "an index holds either text or vectors"),
    (br#"{"id":"x","text":7}"#, "text"),
    (br#"{"id":"x","text":"a","score":-1}"#, "score"),
    (br#"{"id":"x","text":"a","score":1e300}"#, "score"),
];

fn input(bad: &[u8]) -> Vec<u8> {
    let good = |id: &str| format!("{{\"id\":\"{id}\",\"text\":\"apple {id}\"}}\n").into_bytes();
    [&good("a")[..], &good("b"), &good("c"), bad, b"\n", &good("d"), &good("e")].concat()
}

fn config(threads: usize, on_error: OnError) -> BuildConfig {
    let mut config = BuildConfig { threads, on_error, ..build_config() };
    config.reader.batch_records = 2;
    config
}

fn assert_named(error: &IndexError, location: &str, what: &str) {
    let text = error.to_string();
    assert!(text.contains(location) && text.contains(what), "{text} names not {location}, {what}");
}

#[test]
fn stopping_names_the_place_and_leaves_nothing() {
    for (bad, what) in BAD {
        for threads in [1, 3] {
            let fixture = Fixture::empty(config(threads, OnError::Stop));
            let path = fixture.input(&input(bad));
            let location = format!("{}:4", path.display());
            let error = build(&fixture, &path, create_new).unwrap_err();
            assert_named(&error, &location, what);
            assert!(!fixture.dir().exists(), "{what}: a directory is left");

            fixture.create(&[Doc::text("z", "apple"), Doc::text("a", "pie")]).unwrap();
            let before = file_bytes(&fixture.dir());
            let error = build(&fixture, &path, add).unwrap_err();
            assert_named(&error, &location, what);
            assert!(file_bytes(&fixture.dir()) == before, "{what}: the index changed");
        }
    }
}

#[test]
fn skipping_counts_and_reports() {
    for (bad, what) in BAD {
        for threads in [1, 3] {
            let fixture = Fixture::empty(config(threads, OnError::Skip));
            let path = fixture.input(&input(bad));
            let location = format!("{}:4", path.display());
            let check = |report: &BuildReport| {
                assert_eq!((report.documents, report.skipped), (5, 1), "{what}");
                let reason = &report.reasons[0];
                assert!(reason.contains(&location) && reason.contains(what), "{reason}");
            };
            check(&build(&fixture, &path, create_new).unwrap());
            let snapshot = fixture.snapshot();
            let ids: Vec<_> = (0..5).map(|doc| snapshot.external_id(doc).unwrap()).collect();
            assert_eq!(ids, ["a", "b", "c", "d", "e"]);
            // The first document of an id is kept.
            assert_eq!(snapshot.document(0).unwrap().unwrap(), br#"{"id":"a","text":"apple a"}"#);

            let report = build(&fixture, &path, add).unwrap();
            check(&report);
            assert_eq!(report.replaced, 5);
            assert_eq!(fixture.snapshot().statistics().documents, 5);
        }
    }
}

#[test]
fn the_first_of_many_errors_is_named_and_only_some_are_listed() {
    let lines: String = (0..100).map(|i| format!("{{\"id\":{i}}}\nbad\n")).collect();
    for threads in [1, 4] {
        let fixture = Fixture::empty(config(threads, OnError::Stop));
        let path = fixture.input(lines.as_bytes());
        let error = build(&fixture, &path, create_new).unwrap_err();
        assert_named(&error, &format!("{}:2:", path.display()), "not a JSON object");
        let fixture = Fixture::empty(config(threads, OnError::Skip));
        let path = fixture.input(lines.as_bytes());
        let report = build(&fixture, &path, create_new).unwrap();
        assert_eq!((report.documents, report.skipped, report.reasons.len()), (100, 100, 10));
    }
}

#[test]
fn adding_nothing_but_skipped_records_changes_nothing() {
    let fixture = Fixture::with(&[Doc::text("a", "apple")], config(2, OnError::Skip));
    let before = file_bytes(&fixture.dir());
    let path = fixture.input(b"bad\nworse\n");
    let report = build(&fixture, &path, add).unwrap();
    assert_eq!((report.documents, report.skipped), (0, 2));
    assert!(file_bytes(&fixture.dir()) == before);
}

#[test]
fn text_into_vectors_is_refused() {
    let fixture = Fixture::of(&[Doc::vector("v", &[("a", 1.0)])]);
    let error = fixture.add(&[Doc::text("t", "apple")]).unwrap_err();
    assert!(matches!(error, IndexError::MixedContent { vector: false, .. }), "{error}");
    // An index without documents accepts text as well as vectors.
    fixture.delete(&["v".into()]).unwrap();
    fixture.merge().unwrap();
    fixture.add(&[Doc::text("t", "apple")]).unwrap();
    assert_eq!(fixture.snapshot().document_frequency(b"appl").unwrap(), 1);
}

#[test]
fn directories_that_do_not_fit_are_left_alone() {
    let fixture = Fixture::of(&[Doc::text("a", "apple")]);
    let before = file_bytes(&fixture.dir());
    assert!(matches!(fixture.create(&[]), Err(IndexError::Exists { .. })));
    assert!(file_bytes(&fixture.dir()) == before);

    let fixture = Fixture::empty(build_config());
    fs::create_dir(fixture.dir()).unwrap();
    assert!(matches!(Snapshot::open(&fixture.dir()), Err(IndexError::NotAnIndex { .. })));
    assert!(matches!(fixture.add(&[]), Err(IndexError::NotAnIndex { .. })));
    fs::write(fixture.dir().join("letter.txt"), b"mine").unwrap();
    assert!(matches!(fixture.create(&[]), Err(IndexError::NotEmpty { .. })));
    assert!(file_bytes(&fixture.dir()).keys().eq(["letter.txt"]));
}

#[test]
fn missing_input_and_cancelling_leave_nothing() {
    let fixture = Fixture::empty(build_config());
    let nowhere = fixture.dir().with_file_name("nosuch.jsonl");
    let error = build(&fixture, &nowhere, create_new).unwrap_err();
    assert!(matches!(error, IndexError::Input(_)), "{error}");
    assert!(!fixture.dir().exists());

    let progress = Progress::default();
    progress.cancel();
    let inputs = [fixture.input(&input(b""))];
    let error = create(&fixture.dir(), &inputs, fixture.config(), false, &progress).unwrap_err();
    assert!(matches!(error, IndexError::Cancelled), "{error}");
    assert!(!fixture.dir().exists());

    fixture.create(&[Doc::text("a", "apple")]).unwrap();
    let before = file_bytes(&fixture.dir());
    for result in [
        add(&fixture.dir(), &inputs, fixture.config(), &progress).map(drop),
        warpseek_index::delete(&fixture.dir(), &["a".into()], 1, &progress).map(drop),
    ] {
        assert!(matches!(result, Err(IndexError::Cancelled)));
    }
    assert!(file_bytes(&fixture.dir()) == before);
}

type Build =
    fn(&std::path::Path, &[std::path::PathBuf], &BuildConfig, &Progress) -> Result<BuildReport>;

fn build(fixture: &Fixture, input: &std::path::Path, how: Build) -> Result<BuildReport> {
    how(&fixture.dir(), &[input.to_owned()], fixture.config(), &Progress::default())
}

fn create_new(
    dir: &std::path::Path,
    inputs: &[std::path::PathBuf],
    config: &BuildConfig,
    progress: &Progress,
) -> Result<BuildReport> {
    create(dir, inputs, config, false, progress)
}

//! Files that are damaged while an index is open: the error comes within a period, and no wrong
//! hit follows it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use warpseek::index::{ScrubOptions, Scrubber};
use warpseek::ngram::NgramRequest;
use warpseek::text::GramConfig;
use warpseek::{
    Document, Index, IndexOptions, LiveOptions, Progress, Request, SearcherOptions, ServiceOptions,
};

/// A short period, so that passes follow each other closely.
const QUICK: ScrubOptions =
    ScrubOptions { period: Duration::from_millis(200), bytes_per_second: u64::MAX };

fn index(options: IndexOptions) -> (tempfile::TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create_with(folder.path().join("index"), options).unwrap();
    let mut writer = index.writer().unwrap();
    for i in 0..500 {
        let text = format!("apple pie number {i} with {}", ["walrus", "carpenter"][i % 2]);
        writer.add(Document::new(format!("d{i}"), "", text)).unwrap();
    }
    writer.commit().unwrap();
    (folder, index)
}

/// Returns the file of the index's first segment with this extension.
fn file_of(index: &Index, extension: &str) -> PathBuf {
    let files = fs::read_dir(index.path()).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|own| own == extension)).min().unwrap()
}

/// Overwrites the middle of a file in place.
fn damage(path: &Path) {
    let len = fs::metadata(path).unwrap().len();
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.write_all(&[0xa5; 8]).unwrap();
}

/// Asserts that the error names the file and the page.
fn assert_named(error: &dyn std::fmt::Display, file: &Path) {
    let error = error.to_string();
    assert!(error.contains(&*file.to_string_lossy()) && error.contains("(page 0)"), "{error}");
}

#[test]
fn a_scrubber_finds_damage_of_any_file_and_all_searches_fail_then() {
    for name in ["post", "dict", "docs", "ids", "store"] {
        let (_folder, index) = index(IndexOptions::new());
        let searcher = index.searcher().unwrap();
        let service = searcher.service(ServiceOptions::new()).unwrap();
        let request = Request::new("walrus pie");
        let before = searcher.search(&request).unwrap().hits().to_vec();
        assert!(!before.is_empty());
        let (told, heard) = channel();
        let open = {
            let searcher = searcher.clone();
            move || vec![searcher.snapshot()]
        };
        let told = move |damage: &warpseek::index::Damage| told.send(damage.clone()).unwrap();
        let scrubber = Scrubber::start(QUICK, open, told).unwrap();
        let file = file_of(&index, name);
        damage(&file);
        let found = heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(found.file, file);
        assert_named(&searcher.search(&request).err().unwrap(), &file);
        assert_named(&searcher.search(&Request::new("nothing")).err().unwrap(), &file);
        assert_named(
            &searcher.search_batch(std::slice::from_ref(&request))[0].as_ref().err().unwrap(),
            &file,
        );
        assert_named(&service.submit(&request).err().unwrap(), &file);
        // Damage is reported once.
        let passes = scrubber.status().passes;
        while scrubber.status().passes < passes + 3 {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(scrubber);
        assert!(heard.recv().is_err(), "{name}: told twice");
    }
}

#[test]
fn an_index_of_n_grams_and_its_texts_are_scrubbed_too() {
    for name in ["post", "dict", "store"] {
        let grams = GramConfig { segment_words: 3, ..GramConfig::default() };
        let (_folder, index) = index(IndexOptions::new().grams(grams));
        let searcher = index.ngram_searcher().unwrap();
        let request = NgramRequest::new("walruss").verify(true);
        assert!(searcher.search(&request).is_ok());
        let (told, heard) = channel();
        let open = {
            let searcher = searcher.clone();
            move || vec![searcher.snapshot()]
        };
        let _scrubber = Scrubber::start(QUICK, open, move |_| told.send(()).unwrap()).unwrap();
        let file = file_of(&index, name);
        damage(&file);
        heard.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_named(&searcher.search(&request).err().unwrap(), &file);
        let many = searcher.search_many(&[request.clone(), request]);
        many.iter().for_each(|answer| assert_named(&answer.as_ref().err().unwrap(), &file));
    }
}

#[test]
fn damage_that_a_search_meets_fails_the_searches_after_it() {
    let (_folder, index) = index(IndexOptions::new());
    let file = file_of(&index, "post");
    damage(&file);
    let searcher = index.searcher().unwrap();
    let request = Request::new("walrus");
    assert_named(&searcher.search(&request).err().unwrap(), &file);
    assert_named(&searcher.search(&Request::new("nothing")).err().unwrap(), &file);
    assert_eq!(searcher.snapshot().damage().unwrap().file, file);
}

#[test]
fn verifying_again_finds_what_is_damaged_while_it_is_open() {
    let (_folder, index) = index(IndexOptions::new());
    let (searcher, request) = (index.searcher().unwrap(), Request::new("walrus"));
    searcher.snapshot().verify_again(&Progress::default()).unwrap();
    let file = file_of(&index, "post");
    damage(&file);
    assert!(searcher.snapshot().damage().is_none());
    let found = searcher.snapshot().verify_again(&Progress::default());
    assert_named(&found.err().unwrap(), &file);
    assert_named(&searcher.search(&request).err().unwrap(), &file);
}

/// Checks that a merge verifies pages again. Otherwise it would write damaged data with valid
/// checksums.
#[test]
fn a_merge_does_not_copy_damage() {
    let (_folder, index) = index(IndexOptions::new());
    let live = index.live(LiveOptions::new()).unwrap();
    for i in 0..30 {
        let document = Document::new(format!("n{i}"), "", format!("walrus {i}"));
        live.put(&document).unwrap().wait().unwrap();
    }
    live.flush().unwrap();
    let searcher = live.searcher(SearcherOptions::new()).unwrap();
    searcher.snapshot().verify_again(&Progress::default()).unwrap();
    let file = file_of(&index, "post");
    damage(&file);
    assert_named(&live.merge(1).err().unwrap(), &file);
    let copy = index.path().with_file_name("copy");
    fs::create_dir(&copy).unwrap();
    assert_named(&live.export(&copy).err().unwrap(), &file);
    assert_eq!(fs::read_dir(&copy).unwrap().count(), 0);
    assert_named(&searcher.search(&Request::new("walrus")).err().unwrap(), &file);
}

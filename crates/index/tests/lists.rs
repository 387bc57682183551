//! Tests of indexes of lists, which equal the indexes of documents with the same terms.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use warpseek_codec::CodecId;
use warpseek_index::{
    BuildConfig, IndexError, Lists, ListsConfig, Progress, StoreMode, create_from_lists, verify,
};
use warpseek_testkit::{Doc, Fixture, file_bytes};
use warpseek_text::{Analyzer, ReaderConfig};

/// Lists in memory.
struct MemoryLists {
    documents: u32,
    lists: Vec<(String, Vec<(u32, u32)>)>,
}

impl Lists for MemoryLists {
    fn documents(&self) -> u32 {
        self.documents
    }

    fn count(&self) -> u32 {
        self.lists.len() as u32
    }

    fn term(&self, list: u32) -> &[u8] {
        self.lists[list as usize].0.as_bytes()
    }

    fn weight(&self, list: u32) -> usize {
        self.lists[list as usize].1.len()
    }

    fn load(&self, list: u32, out: &mut Vec<(u32, u32)>) {
        out.extend(&self.lists[list as usize].1);
    }
}

/// Returns lists and the texts that they represent.
fn invert(texts: &[Vec<u32>]) -> (MemoryLists, Vec<Doc>) {
    let mut lists = BTreeMap::<String, BTreeMap<u32, u32>>::new();
    let mut docs = Vec::new();
    for (doc, words) in texts.iter().enumerate() {
        let words: Vec<String> = words.iter().map(|word| format!("w{word}")).collect();
        for word in &words {
            *lists.entry(word.clone()).or_default().entry(doc as u32).or_default() += 1;
        }
        docs.push(Doc::text(doc, words.join(" ")));
    }
    let lists = lists.into_iter().map(|(term, list)| (term, list.into_iter().collect()));
    (MemoryLists { documents: texts.len() as u32, lists: lists.collect() }, docs)
}

fn make(dir: &Path, lists: &MemoryLists, codec: CodecId, threads: usize) {
    let config = ListsConfig { codec, threads };
    create_from_lists(dir, lists, &config, false, &Progress::default()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn equals_the_index_of_documents(
        // Some words occur in nearly every document, so that lists have several blocks.
        texts in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![0u32..3, 0u32..40, 0u32..2000], 1..30), 1..300),
        codec in proptest::sample::select(CodecId::ALL.to_vec()),
    ) {
        let (mut lists, docs) = invert(&texts);
        let config = BuildConfig {
            analyzer: Analyzer::Plain,
            codec: Some(codec),
            store: StoreMode::Ids,
            // Lists have no static scores.
            reader: ReaderConfig::default(),
            ..warpseek_testkit::build_config()
        };
        let fixture = Fixture::with(&docs, config);
        let wanted = file_bytes(&fixture.dir());
        // A list without postings is left out.
        lists.lists.push(("zzz".into(), Vec::new()));
        for threads in [1, 3] {
            let home = tempfile::tempdir().unwrap();
            let dir = home.path().join("lists");
            make(&dir, &lists, codec, threads);
            prop_assert_eq!(&file_bytes(&dir), &wanted);
            let found = verify(&dir, &Progress::default()).unwrap();
            prop_assert!(found.problems.is_empty(), "{:?}", found.problems);
        }
    }
}

#[test]
fn nothing_is_left_when_cancelled_and_what_stood_stands() {
    let (lists, _) = invert(&[vec![1, 2, 2], vec![2]]);
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("lists");
    let cancelled = Progress::default();
    cancelled.cancel();
    let config = ListsConfig::default();
    let result = create_from_lists(&dir, &lists, &config, false, &cancelled);
    assert!(matches!(result, Err(IndexError::Cancelled)), "{result:?}");
    assert!(!dir.exists());
    make(&dir, &lists, CodecId::default(), 1);
    let before = file_bytes(&dir);
    let again = create_from_lists(&dir, &lists, &config, false, &Progress::default());
    assert!(matches!(again, Err(IndexError::Exists { .. })), "{again:?}");
    let result = create_from_lists(&dir, &lists, &config, true, &cancelled);
    assert!(matches!(result, Err(IndexError::Cancelled)), "{result:?}");
    assert_eq!(file_bytes(&dir), before);
}

#[test]
#[should_panic(expected = "a scoped thread panicked")]
fn lists_out_of_order_are_not_written() {
    let lists = MemoryLists { documents: 3, lists: vec![("a".into(), vec![(2, 1), (1, 1)])] };
    let home = tempfile::tempdir().unwrap();
    make(&home.path().join("lists"), &lists, CodecId::default(), 2);
}

//! Phrases through the library: documents of single writes have positions as soon as they can be
//! searched, and keep them.
#![allow(clippy::unwrap_used)]

use warpseek::index::{Durability, IndexError};
use warpseek::query::{Node, Phrase};
use warpseek::{
    Document, Error, Index, IndexOptions, LiveIndex, LiveOptions, Request, Searcher,
    SearcherOptions,
};

fn document(id: usize, version: usize) -> Document {
    let words = ["apple", "pear", "plum", "the"];
    // The words are scrambled, so that every word follows every other one somewhere.
    let word = |i: usize| {
        let number = (id * 1000 + version * 100 + i) as u64;
        words[((number * number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 45) as usize % 4]
    };
    let text: Vec<&str> = (0..3 + id % 9).map(word).collect();
    Document::new(id.to_string(), "", text.join(" "))
}

/// Compares the ids of documents with some phrases to those whose newest text contains them.
fn check(searcher: &Searcher, version: impl Fn(usize) -> Option<usize>) {
    for text in ["apple pear", "plum plum", "pear the apple"] {
        let request = Request::new(Node::Phrase(Phrase::exact([], text))).k(1000);
        let response = searcher.search(&request).unwrap();
        let mut found: Vec<usize> = (0..response.hits().len())
            .map(|rank| response.id(rank).unwrap().parse().unwrap())
            .collect();
        found.sort_unstable();
        let words: Vec<&str> = text.split(' ').collect();
        let has = |id: &usize| {
            let Some(version) = version(*id) else { return false };
            let text = document(*id, version).text;
            let own: Vec<&str> = text.split(' ').collect();
            // A stop word matches any word.
            let same = |(own, word): (&&str, &&str)| own == word || *word == "the";
            own.windows(words.len()).any(|part| part.iter().zip(&words).all(same))
        };
        let expected: Vec<usize> = (0..300).filter(has).collect();
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{text}");
    }
}

fn open(index: &Index) -> LiveIndex {
    index.live(LiveOptions::new().durability(Durability::Written).threads(1)).unwrap()
}

#[test]
fn single_writes_have_positions() {
    let folder = tempfile::tempdir().unwrap();
    let options = IndexOptions::new().positions(true);
    let index = Index::create_with(folder.path().join("index"), options).unwrap();
    let live = open(&index);
    let searcher = live.searcher(SearcherOptions::new().threads(1)).unwrap();
    let newest = |id: usize| Some(usize::from(id.is_multiple_of(3)) * 2);
    for version in 0..3 {
        for id in (0..300).filter(|&id| newest(id).is_some_and(|newest| version <= newest)) {
            live.put(&document(id, version)).unwrap().wait().unwrap();
        }
        live.refresh().unwrap();
    }
    check(&searcher, newest);
    live.flush().unwrap();
    check(&searcher, newest);
    for id in (0..300).step_by(5) {
        live.delete(&id.to_string()).unwrap().unwrap().wait().unwrap();
    }
    live.refresh().unwrap();
    let left = |id: usize| newest(id).filter(|_| !id.is_multiple_of(5));
    check(&searcher, left);
    live.close().unwrap();
    check(&index.searcher().unwrap(), left);
    assert!(index.verify(&Default::default()).unwrap().problems.is_empty());
}

#[test]
fn plans_say_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create(folder.path().join("index")).unwrap();
    let request = Request::new(Node::Phrase(Phrase::exact([], "apple pear")));
    let error = index.searcher().unwrap().search(&request).err().unwrap();
    assert!(error.to_string().contains("--positions"), "{error}");
    let options = IndexOptions::new().positions(true).quantize(0.9, 0.4);
    let error = Index::create_with(folder.path().join("other"), options).unwrap_err();
    assert!(matches!(error, Error::Index(IndexError::Positions { .. })), "{error}");
}

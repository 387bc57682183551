//! Shards are equal to indexes of their documents, and together to one index of all documents.

use std::fs;

use warpseek::index::IndexError;
use warpseek::options::OnError;
use warpseek::{Error, Index, IndexOptions, Progress};
use warpseek_collection::{Collection, CollectionError, MAX_SHARDS};

use crate::{Space, files, lines};

#[test]
fn fetched_shards_are_the_indexes_of_their_documents() {
    let space = Space::new();
    let documents = lines(200);
    for shards in [1, 2, 7] {
        let version = space.build(&documents, shards);
        let manifest = space.collection().manifest(version).unwrap();
        assert_eq!((manifest.documents, manifest.shards.len()), (200, shards));
        let mut next = 0;
        for shard in &manifest.shards {
            assert_eq!(shard.base, next);
            next += shard.documents;
            let range = shard.base as usize..next as usize;
            let inputs = [space.write("part.jsonl", &documents[range])];
            let (dir, options) = (space.path("alone"), IndexOptions::new().threads(1));
            Index::build(&dir, &inputs, &options, &Progress::default()).unwrap();
            let mut alone = files(&dir);
            alone.remove("lock");
            let cache = space.cache();
            let fetched = space.collection().fetch_shard(version, shard.shard, &cache).unwrap();
            let fetched = files(&fetched);
            assert_eq!(fetched.keys().collect::<Vec<_>>(), alone.keys().collect::<Vec<_>>());
            for (name, bytes) in &fetched {
                assert!(*bytes == alone[name], "{name} of shard {}", shard.shard);
            }
            fs::remove_dir_all(dir).unwrap();
        }
        assert_eq!(next, 200);
        let sizes = manifest.shards.iter().map(|s| s.bytes);
        assert!(
            sizes.clone().max().unwrap() < 2 * sizes.min().unwrap(),
            "shards are of equal size"
        );
    }
}

#[test]
fn documents_have_the_ids_of_one_index() {
    let space = Space::new();
    let mut documents = lines(100);
    documents.insert(31, "{broken\n".to_owned());
    documents.insert(77, documents[3].clone());
    let inputs = [space.write("docs.jsonl", &documents)];
    let options = IndexOptions::new().on_error(OnError::Skip);
    let (collection, progress) = (space.collection(), Progress::default());
    let (version, cut, survey) = collection.cut(&inputs, 5, &options, &progress).unwrap();
    assert_eq!((survey.documents, survey.skipped), (100, 2));
    assert!(survey.reasons[0].contains("docs.jsonl:32"), "{:?}", survey.reasons);
    assert!(survey.reasons[1].contains("docs.jsonl:78"), "{:?}", survey.reasons);
    let (one, _) = Index::build(space.path("one"), &inputs, &options, &progress).unwrap();
    let one = one.snapshot().unwrap();
    for (shard, cut) in (0..).zip(&cut.shards) {
        let scratch = space.path(&format!("shard{shard}"));
        collection.build_shard(version, shard, &inputs, &options, &scratch, &progress).unwrap();
        let part = Index::open(&scratch).unwrap().snapshot().unwrap();
        assert_eq!(part.statistics().documents, cut.documents);
        for doc in 0..cut.documents as u32 {
            let whole = one.external_id(cut.base as u32 + doc).unwrap();
            assert_eq!(part.external_id(doc).unwrap(), whole);
        }
    }
    let manifest = collection.publish(version).unwrap();
    assert_eq!(manifest.documents, one.statistics().documents);
}

#[test]
fn an_id_in_two_shards_is_refused_as_in_one_index() {
    let space = Space::new();
    let mut documents = lines(60);
    documents[55] = documents[2].clone();
    let error = space.build_without_publishing(&documents, 4).unwrap_err();
    let inputs = [space.path("docs.jsonl")];
    let one = Index::build(space.path("one"), &inputs, &IndexOptions::new(), &Progress::default());
    assert_eq!(error.to_string(), one.unwrap_err().to_string());
    assert!(error.to_string().contains("docs.jsonl:56: id `d2` was seen before"), "{error}");
    assert!(matches!(error, CollectionError::Index(Error::Index(IndexError::DuplicateId { .. }))));
    // No version was started.
    assert!(!space.path("store/fruit").exists());
}

#[test]
fn numbers_of_shards_have_limits() {
    let space = Space::new();
    let few = |shards| space.build_without_publishing(&lines(3), shards);
    for shards in [0, MAX_SHARDS + 1] {
        assert!(matches!(few(shards), Err(CollectionError::Shards { .. })), "{shards}");
    }
    for shards in [4, MAX_SHARDS] {
        let error = few(shards).unwrap_err();
        assert!(matches!(error, CollectionError::TooFewDocuments { documents: 3, .. }), "{error}");
    }
    assert!(few(3).is_ok());
}

#[test]
fn what_cannot_be_a_collection_is_refused() {
    let space = Space::new();
    let (collection, progress) = (space.collection(), Progress::default());
    let inputs = [space.write("docs.jsonl", &lines(3))];
    let quantized = IndexOptions::new().quantize(0.9, 0.4);
    let error = collection.cut(&inputs, 2, &quantized, &progress).unwrap_err();
    assert!(matches!(error, CollectionError::Unsuitable), "{error}");
    let error = collection.cut(&["-".into()], 2, &IndexOptions::new(), &progress).unwrap_err();
    assert!(matches!(error, CollectionError::ReadOnce { .. }), "{error}");
    for name in ["", "..", "A", "a/b"] {
        assert!(matches!(Collection::open("x", name), Err(CollectionError::Name { .. })), "{name}");
    }
    assert!(!space.path("store/fruit").exists());
}

#[test]
fn inputs_that_changed_are_noticed() {
    let space = Space::new();
    let (collection, progress) = (space.collection(), Progress::default());
    let options = IndexOptions::new();
    let inputs = [space.write("docs.jsonl", &lines(30))];
    let (version, _, _) = collection.cut(&inputs, 2, &options, &progress).unwrap();
    let build = |shard| {
        let scratch = tempfile::tempdir().unwrap();
        collection.build_shard(version, shard, &inputs, &options, scratch.path(), &progress)
    };
    space.write("docs.jsonl", &lines(31));
    assert!(matches!(build(0), Err(CollectionError::InputChanged { .. })));
    // The inputs have the same size but one document less.
    let text = lines(30).concat();
    let end = text.trim_end().rfind('\n').unwrap();
    let blank = " ".repeat(text.len() - end - 1) + "\n";
    space.write("docs.jsonl", &[text[..end].to_owned(), blank]);
    let error = build(1).unwrap_err();
    assert!(matches!(error, CollectionError::InputChanged { shard: 1, .. }), "{error}");
    assert!(matches!(build(2), Err(CollectionError::NoShard { shard: 2, last: 1, .. })));
    space.write("docs.jsonl", &lines(30));
    build(0).unwrap();
    let error = collection.publish(version).unwrap_err();
    assert!(
        matches!(&error, CollectionError::Unfinished { missing, .. } if missing == &[1]),
        "{error}"
    );
}

#[test]
fn shards_of_other_options_are_not_put_together() {
    let space = Space::new();
    let (collection, progress) = (space.collection(), Progress::default());
    let inputs = [space.write("docs.jsonl", &lines(30))];
    let (plain, positions) = (IndexOptions::new(), IndexOptions::new().positions(true));
    let (version, _, _) = collection.cut(&inputs, 2, &plain, &progress).unwrap();
    let build = |shard, options| {
        let scratch = tempfile::tempdir().unwrap();
        collection.build_shard(version, shard, &inputs, options, scratch.path(), &progress).unwrap()
    };
    build(0, &plain);
    build(1, &positions);
    let error = collection.publish(version).unwrap_err();
    assert!(
        matches!(&error, CollectionError::OtherOptions { shard: 1, what, .. } if what == "positions"),
        "{error}"
    );
    // The later upload counts.
    build(1, &plain);
    collection.publish(version).unwrap();
    let scratch = space.path("scratch");
    let again = collection.build_shard(version, 1, &inputs, &plain, &scratch, &progress);
    assert!(matches!(again, Err(CollectionError::Published { .. })));
}

#[test]
fn cancelling_leaves_the_current_version() {
    let space = Space::new();
    space.build(&lines(30), 2);
    let progress = Progress::default();
    progress.cancel();
    let inputs = [space.write("docs.jsonl", &lines(40))];
    let collection = space.collection();
    let cut = collection.cut(&inputs, 2, &IndexOptions::new(), &progress);
    assert!(matches!(cut, Err(CollectionError::Index(Error::Index(IndexError::Cancelled)))));
    assert_eq!(collection.current().unwrap(), 1);
}

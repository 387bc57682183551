//! A shard on the disk of a node is complete and correct, or absent.

use std::fs;

use warpseek::index::IndexError;
use warpseek::{Error, Index, Progress};
use warpseek_collection::{Check, CollectionError, shard_folder};

use crate::{Files, Space, files, lines};

/// Creates a version of two shards, and returns the files of the second one.
fn fetched(space: &Space) -> (u64, Files) {
    let version = space.build(&lines(300), 2);
    let elsewhere = space.path("elsewhere");
    let folder = space.collection().fetch_shard(version, 1, &elsewhere).unwrap();
    (version, files(&folder))
}

fn largest(files: &Files) -> &str {
    files.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap().0
}

#[test]
fn a_shard_that_is_there_is_not_fetched_again() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    let (collection, cache) = (space.collection(), space.cache());
    let folder = collection.fetch_shard(version, 1, &cache).unwrap();
    assert_eq!(folder, shard_folder(&cache, "fruit", version, 1));
    assert_eq!(files(&folder), wanted);
    Index::open(&folder).unwrap();
    // Without the objects, only fetches of missing files fail.
    fs::remove_dir_all(space.object(version, 1, "manifest").parent().unwrap()).unwrap();
    assert_eq!(collection.fetch_shard(version, 1, &cache).unwrap(), folder);
    let other = collection.fetch_shard(version, 1, &space.path("third"));
    assert!(matches!(other, Err(CollectionError::Missing { .. })));
    assert!(matches!(
        collection.fetch_shard(version, 2, &cache),
        Err(CollectionError::NoShard { shard: 2, last: 1, .. })
    ));
}

#[test]
fn an_interrupted_fetch_is_continued() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    let (collection, cache) = (space.collection(), space.cache());
    let folder = shard_folder(&cache, "fruit", version, 1);
    let partial = folder.with_extension("partial");
    let name = largest(&wanted);
    let bytes = &wanted[name];
    for there in [0, 1, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
        fs::create_dir_all(&partial).unwrap();
        fs::write(partial.join(name), &bytes[..there]).unwrap();
        // Files that do not belong to the shard are removed.
        fs::write(partial.join("other"), "x").unwrap();
        // Existing bytes are not read from the store again, so damage to that part of the object
        // has no effect.
        let object = space.object(version, 1, name);
        let mut changed = bytes.clone();
        changed[..there].fill(0xaa);
        fs::write(&object, &changed).unwrap();
        assert_eq!(collection.fetch_shard(version, 1, &cache).unwrap(), folder);
        assert_eq!(files(&folder), wanted, "{there} bytes were there");
        assert!(!partial.exists());
        fs::write(&object, bytes).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_partial_file_that_is_wrong_is_fetched_again() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    let (collection, cache) = (space.collection(), space.cache());
    let folder = shard_folder(&cache, "fruit", version, 1);
    let partial = folder.with_extension("partial");
    let name = largest(&wanted);
    for wrong in [vec![7; 10], vec![7; wanted[name].len()], vec![7; wanted[name].len() + 1]] {
        fs::create_dir_all(&partial).unwrap();
        fs::write(partial.join(name), wrong).unwrap();
        collection.fetch_shard(version, 1, &cache).unwrap();
        assert_eq!(files(&folder), wanted);
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_damaged_object_is_an_error_that_names_it() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    let (collection, cache) = (space.collection(), space.cache());
    let folder = shard_folder(&cache, "fruit", version, 1);
    for (name, bytes) in &wanted {
        let object = space.object(version, 1, name);
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        let longer = [&bytes[..], &[0]].concat();
        for wrong in [&flipped[..], &bytes[..bytes.len() - 1], &[]] {
            fs::write(&object, wrong).unwrap();
            let error = collection.fetch_shard(version, 1, &cache).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("/{name}")), "{text}");
            assert!(
                matches!(error, CollectionError::Damaged { .. } | CollectionError::Store { .. }),
                "{text}"
            );
            assert!(!folder.exists(), "{text}");
        }
        // A longer object has the right bytes in the range that is read.
        fs::write(&object, &longer).unwrap();
        collection.fetch_shard(version, 1, &cache).unwrap();
        assert_eq!(files(&folder), wanted);
        fs::remove_dir_all(&folder).unwrap();
        fs::remove_file(&object).unwrap();
        let error = collection.fetch_shard(version, 1, &cache).unwrap_err();
        assert!(matches!(&error, CollectionError::Missing { object } if object.ends_with(name)));
        fs::write(&object, bytes).unwrap();
        collection.fetch_shard(version, 1, &cache).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn damage_in_the_cache_is_repaired() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    let (collection, cache) = (space.collection(), space.cache());
    let folder = collection.fetch_shard(version, 1, &cache).unwrap();
    let progress = Progress::default();
    let fetch = |check| collection.fetch_shard_with(version, 1, &cache, check, &progress);
    for (name, bytes) in &wanted {
        let path = folder.join(name);
        for wrong in [None, Some(&bytes[..bytes.len() / 2])] {
            match wrong {
                None => fs::remove_file(&path).unwrap(),
                Some(wrong) => fs::write(&path, wrong).unwrap(),
            }
            fetch(Check::Sizes).unwrap();
            assert_eq!(files(&folder), wanted, "{name}");
        }
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        fs::write(&path, &flipped).unwrap();
        fetch(Check::Sizes).unwrap();
        assert_ne!(files(&folder), wanted, "sizes alone do not show it");
        fetch(Check::Checksums).unwrap();
        assert_eq!(files(&folder), wanted, "{name}");
    }
    assert_eq!(progress.bytes().0, progress.bytes().1);
}

#[test]
fn a_cancelled_fetch_leaves_no_shard() {
    let space = Space::new();
    let (version, _) = fetched(&space);
    let (collection, cache, progress) = (space.collection(), space.cache(), Progress::default());
    progress.cancel();
    let done = collection.fetch_shard_with(version, 1, &cache, Check::Sizes, &progress);
    assert!(matches!(done, Err(CollectionError::Index(Error::Index(IndexError::Cancelled)))));
    assert!(!shard_folder(&cache, "fruit", version, 1).exists());
    collection.fetch_shard(version, 1, &cache).unwrap();
}

#[test]
fn several_threads_fetch_one_shard() {
    let space = Space::new();
    let (version, wanted) = fetched(&space);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let folder = space.collection().fetch_shard(version, 1, &space.cache()).unwrap();
                assert_eq!(files(&folder), wanted);
            });
        }
    });
}

#[test]
fn older_versions_leave_the_cache() {
    let space = Space::new();
    let (collection, cache) = (space.collection(), space.cache());
    assert!(collection.remove_older(&cache, 3, 1).unwrap().is_empty());
    for n in [10, 11, 12, 13, 14] {
        let version = space.build(&lines(n), 1);
        collection.fetch_shard(version, 0, &cache).unwrap();
    }
    fs::write(cache.join("fruit/note"), "not ours").unwrap();
    assert_eq!(collection.remove_older(&cache, 4, 3).unwrap(), [1]);
    assert_eq!(collection.remove_older(&cache, 4, 1).unwrap(), [3, 2]);
    for version in [4, 5] {
        Index::open(shard_folder(&cache, "fruit", version, 0)).unwrap();
    }
    assert!(cache.join("fruit/note").exists());
}

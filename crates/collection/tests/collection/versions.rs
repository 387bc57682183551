//! Switching, rolling back and removing versions.

use std::fs;

use warpseek_collection::{Collection, CollectionError, VersionState};

use crate::{Space, lines};

fn states(collection: &Collection) -> Vec<(u64, VersionState, u64)> {
    let all = collection.versions().unwrap();
    all.iter().map(|v| (v.version, v.state, v.documents)).collect()
}

#[test]
fn a_version_becomes_current_when_it_is_complete() {
    use VersionState::{Current, Ready, Unfinished};
    let space = Space::new();
    let collection = space.collection();
    assert!(matches!(collection.current(), Err(CollectionError::NoCollection { .. })));
    assert!(matches!(collection.versions(), Err(CollectionError::NoCollection { .. })));
    assert_eq!(space.build(&lines(10), 2), 1);
    assert_eq!(space.build_without_publishing(&lines(11), 2).unwrap(), 2);
    assert_eq!(states(&collection), [(1, Current, 10), (2, Unfinished, 11)]);
    assert_eq!(collection.current().unwrap(), 1);
    // An unfinished version cannot be activated explicitly either.
    assert!(matches!(collection.activate(2), Err(CollectionError::Unfinished { .. })));
    assert!(matches!(collection.activate(3), Err(CollectionError::NoVersion { version: 3, .. })));
    collection.publish(2).unwrap();
    assert_eq!(states(&collection), [(1, Current, 10), (2, Ready, 11)]);
    assert!(matches!(collection.publish(2), Err(CollectionError::Published { .. })));
    collection.activate(2).unwrap();
    assert_eq!(states(&collection), [(1, Ready, 10), (2, Current, 11)]);
    let names = Collection::names(space.path("store").to_str().unwrap()).unwrap();
    assert_eq!(names, ["fruit"]);
}

#[test]
fn a_version_can_be_gone_back_to() {
    let space = Space::new();
    let collection = space.collection();
    space.build(&lines(10), 2);
    assert!(matches!(collection.rollback(), Err(CollectionError::NoPrevious { .. })));
    space.build(&lines(11), 2);
    space.build(&lines(12), 1);
    assert_eq!(collection.rollback().unwrap().version, 2);
    assert_eq!(collection.rollback().unwrap().version, 3);
    // Activating the current version again keeps the version to roll back to.
    collection.activate(3).unwrap();
    assert_eq!(collection.rollback().unwrap().version, 2);
    collection.activate(1).unwrap();
    assert_eq!(collection.rollback().unwrap().version, 2);
}

/// Tests that after a rollback the previous version is not the one with the next lower number.
#[test]
fn the_version_to_go_back_to_is_kept() {
    let space = Space::new();
    let collection = space.collection();
    space.build(&lines(10), 1);
    space.build(&lines(11), 1);
    collection.rollback().unwrap();
    assert_eq!(space.build(&lines(12), 1), 3);
    assert_eq!(collection.remove_old(1).unwrap(), [2]);
    assert_eq!(collection.rollback().unwrap().version, 1);
}

#[test]
fn old_versions_are_removed() {
    let space = Space::new();
    let collection = space.collection();
    for n in 10..14 {
        space.build(&lines(n), 2);
    }
    space.build_without_publishing(&lines(14), 2).unwrap();
    let numbers = || states(&collection).iter().map(|state| state.0).collect::<Vec<_>>();
    assert!(matches!(collection.remove(4), Err(CollectionError::IsCurrent { .. })));
    assert!(matches!(collection.remove(9), Err(CollectionError::NoVersion { .. })));
    assert_eq!(collection.remove_old(1).unwrap(), [1, 2]);
    assert_eq!(numbers(), [3, 4, 5]);
    assert!(!space.path("store/fruit/versions/00000001").exists());
    // Unfinished versions are removed by number.
    collection.remove(5).unwrap();
    assert_eq!(collection.remove_old(0).unwrap(), [3]);
    assert_eq!(numbers(), [4]);
    // Version numbers are not reused.
    collection.activate(4).unwrap();
    assert_eq!(space.build(&lines(3), 1), 5);
    // A removed version cannot be rolled back to.
    collection.remove(4).unwrap();
    assert!(matches!(collection.rollback(), Err(CollectionError::NoVersion { version: 4, .. })));
    assert_eq!(collection.current().unwrap(), 5);
}

#[test]
fn damaged_objects_are_named() {
    let space = Space::new();
    let collection = space.collection();
    space.build(&lines(10), 2);
    let manifest = space.path("store/fruit/versions/00000001/manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, &text[..text.len() / 2]).unwrap();
    let error = collection.manifest(1).unwrap_err();
    assert!(
        matches!(&error, CollectionError::Damaged { object, .. } if object == "fruit/versions/00000001/manifest.json"),
        "{error}"
    );
    fs::write(&manifest, text.replace("\"fruit\"", "\"wine\"")).unwrap();
    assert!(matches!(collection.manifest(1), Err(CollectionError::Damaged { .. })));
    fs::write(&manifest, text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    assert!(matches!(collection.manifest(1), Err(CollectionError::Format { found: 2, .. })));
    fs::write(space.path("store/fruit/current.json"), "{}").unwrap();
    assert!(matches!(collection.current(), Err(CollectionError::Damaged { .. })));
}

#[test]
fn a_version_whose_files_are_not_all_there_is_not_published() {
    let space = Space::new();
    let collection = space.collection();
    let version = space.build_without_publishing(&lines(20), 2).unwrap();
    let file = space.object(version, 1, "manifest");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[1..]).unwrap();
    assert!(matches!(collection.publish(version), Err(CollectionError::Damaged { .. })));
    fs::remove_file(&file).unwrap();
    assert!(matches!(collection.publish(version), Err(CollectionError::Missing { .. })));
    fs::write(&file, bytes).unwrap();
    collection.publish(version).unwrap();
}

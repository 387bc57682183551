//! Static scores: an index has one field for them, and all commands that write documents read it.

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"a\",\"text\":\"apple\",\"rank\":1}
{\"id\":\"b\",\"text\":\"apple\",\"rank\":2}
{\"id\":\"c\",\"text\":\"apple\",\"rank\":3}
";

/// Returns the ids of all documents, those with the highest static scores first.
fn by_rank(space: &Space, index: &str) -> Vec<String> {
    space.hits(&format!("{index} apple --static-weight 1"))
}

#[test]
fn every_command_that_writes_keeps_them() {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space.run("index docs.jsonl -o idx --static-field rank -q").ok();
    assert_eq!(by_rank(&space, "idx"), ["c", "b", "a"]);
    space.write("new.jsonl", "{\"id\":\"d\",\"text\":\"apple\",\"rank\":2.5}\n");
    space.run("add idx new.jsonl -q").ok();
    assert_eq!(by_rank(&space, "idx"), ["c", "d", "b", "a"]);
    let writes = "\
{\"put\": {\"id\":\"b\",\"text\":\"apple\",\"rank\":2}}
{\"create\": {\"id\":\"e\",\"text\":\"apple\",\"rank\":0.5}}
{\"update\": {\"id\":\"a\",\"rank\":9}}
{\"update\": {\"id\":\"c\",\"title\":\"the third\"}}
";
    space.pipe("write idx -q", writes.as_bytes()).code(0);
    let after = ["a", "c", "d", "b", "e"];
    assert_eq!(by_rank(&space, "idx"), after);
    for merge in ["merge idx -q", "merge idx --reorder -q"] {
        space.run(merge).code(0);
        assert_eq!(by_rank(&space, "idx"), after, "{merge}");
    }
    // A static score that is not a number is an error, in every command that writes documents.
    space.write("bad.jsonl", "{\"id\":\"f\",\"text\":\"apple\",\"rank\":\"high\"}\n");
    space.run("add idx bad.jsonl -q").fails(2, &["static score \"rank\""]);
    let bad = "{\"put\": {\"id\":\"f\",\"text\":\"apple\",\"rank\":-1}}\n";
    space.pipe("write idx -q", bad.as_bytes()).fails(2, &["static score \"rank\""]);
}

#[test]
fn another_field_is_refused_and_both_are_named() {
    let space = Space::new();
    space.write("docs.jsonl", DOCS);
    space.run("index docs.jsonl -o idx --static-field rank -q").ok();
    let before = space.list("idx");
    space.run("add idx docs.jsonl --static-field price").fails(2, &["`rank`", "`price`"]);
    assert_eq!(space.list("idx"), before);
    space.run("add idx docs.jsonl --static-field rank -q").ok();
    // An index without scores gets the field, and reports the documents that have none.
    space.run("index docs.jsonl -o plain -q").ok();
    let added = space.run("add plain docs.jsonl --static-field rank").code(0);
    added.says("static scores");
    assert_eq!(by_rank(&space, "plain"), ["c", "b", "a"]);
    space.run("add plain docs.jsonl --static-field price").fails(2, &["`rank`", "`price`"]);
}

#[test]
fn all_shards_of_a_collection_have_the_same_field() {
    const STORE: &str = "--store store --name web";
    let space = Space::new();
    let line = |i: usize| format!("{{\"id\":\"d{i}\",\"text\":\"apple\",\"rank\":{i}}}\n");
    space.write("docs.jsonl", (0..6).map(line).collect::<String>());
    let build = format!("cluster build docs.jsonl {STORE} -q --shards 2");
    space.run(&format!("{build} --static-field rank")).ok();
    let shard = |version: usize, shard: usize| {
        space.run(&format!("cluster fetch {STORE} --cache cache -q")).ok();
        by_rank(&space, &format!("cache/web/{version:08}/{shard:05}"))
    };
    assert_eq!((shard(1, 0), shard(1, 1)), (ids(&[2, 1, 0]), ids(&[5, 4, 3])));
    // The command does not name the field, and some of the documents replace others.
    let moved = "{\"id\":\"d0\",\"text\":\"apple\",\"rank\":70}\n{\"id\":\"d6\",\"text\":\"apple\",\"rank\":80}\n";
    space.write("new.jsonl", moved);
    space.run(&format!("cluster add new.jsonl {STORE} --cache kept -q")).ok();
    let all = [shard(2, 0), shard(2, 1)];
    assert!(all.iter().any(|shard| shard[0] == "d6"), "{all:?}");
    let first = all[0].iter().position(|id| id == "d0").unwrap();
    assert!(all[0][..first].iter().all(|id| id == "d6"), "{all:?}");
    let other = format!("cluster add new.jsonl {STORE} --cache kept --static-field price");
    space.run(&other).fails(2, &["`rank`", "`price`"]);
    // Shards that were built with different fields cannot form a collection.
    let cut = format!("cluster cut docs.jsonl {STORE} -q --shards 2 --static-field rank");
    let version = space.run(&cut).ok();
    let version = version.trim();
    let only = format!("cluster build docs.jsonl {STORE} -q --build {version} --only-shard");
    space.run(&format!("{only} 0 --static-field rank")).ok();
    space.run(&format!("{only} 1 --static-field price")).ok();
    let publish = format!("cluster publish {STORE} --build {version}");
    space.run(&publish).fails(2, &["static_field"]);
}

/// Returns the ids of documents by their numbers.
fn ids(numbers: &[usize]) -> Vec<String> {
    numbers.iter().map(|i| format!("d{i}")).collect()
}

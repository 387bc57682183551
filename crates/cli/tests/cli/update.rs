//! `add`, `delete` and `merge`.

use crate::support::Space;

const DOCS: &str = "\
{\"id\":\"a\",\"text\":\"apple apple\"}
{\"id\":\"b\",\"text\":\"apple banana\"}
{\"id\":\"c\",\"text\":\"cherry\"}
{\"id\":\"d\",\"text\":\"apple date\"}
";

fn segments(space: &Space) -> usize {
    let report = space.run("inspect idx --json").json();
    report["manifest"]["segments"].as_array().unwrap().len()
}

#[test]
fn added_documents_replace_those_with_their_id() {
    let space = Space::with_index(DOCS);
    space.write(
        "new.jsonl",
        "{\"id\":\"b\",\"text\":\"blueberry\"}\n{\"id\":\"e\",\"text\":\"elder\"}\n",
    );
    let done = space.run("add idx new.jsonl").code(0);
    assert!(
        done.err.starts_with("2 documents, 1 of them replacing older ones in "),
        "{}",
        done.err
    );
    assert_eq!(space.documents("idx"), 5);
    assert_eq!(space.hits("idx blueberry elder"), ["b", "e"]);
    assert!(space.hits("idx banana").is_empty());
    assert_eq!(space.hits("idx apple"), ["a", "d"]);
}

#[test]
fn a_failed_add_changes_nothing() {
    let space = Space::with_index(DOCS);
    let before = space.list("idx");
    space
        .write("new.jsonl", "{\"id\":\"a\",\"text\":\"new\"}\n{\"id\":\"a\",\"text\":\"twice\"}\n");
    space.run("add idx new.jsonl").fails(2, &["new.jsonl:2: id `a` was seen before"]);
    assert_eq!(space.list("idx"), before);
    assert_eq!(space.hits("idx apple"), ["a", "b", "d"]);
    space.run("add idx new.jsonl --on-error skip").code(0).says("1 record was skipped");
    assert_eq!(space.hits("idx new"), ["a"]);
}

#[test]
fn adding_nothing_changes_nothing() {
    let space = Space::with_index(DOCS);
    let before = space.list("idx");
    space.write("empty.jsonl", "\n");
    space.run("add idx empty.jsonl").code(0).says("the input has no documents");
    assert_eq!(space.list("idx"), before);
}

#[test]
fn documents_are_deleted_by_option_file_and_standard_input() {
    let space = Space::with_index(DOCS);
    let done = space.run("delete idx --id a --id nope").code(0);
    assert_eq!(done.err, "note: no document has id `nope`\n1 document deleted\n");
    assert_eq!(space.hits("idx apple"), ["b", "d"]);
    space.write("gone.txt", "\u{feff}b\r\n\r\n");
    space.run("delete idx --ids gone.txt --id d").code(0).says("2 documents deleted");
    assert!(space.hits("idx apple").is_empty());
    space.pipe("delete idx --ids - -q", b"c\n").ok();
    assert_eq!(space.documents("idx"), 0);
    assert_eq!(space.run("inspect idx --json").json()["deleted"], 4);
    space.run("delete idx --id a").code(0).says("0 documents deleted");
}

#[test]
fn many_missing_ids_are_counted() {
    let space = Space::with_index(DOCS);
    let ids: String = (0..1234).map(|i| format!("x{i}\n")).collect();
    space.write("gone.txt", ids);
    let done =
        space.run("delete idx --ids gone.txt").code(0).says("1,234 ids were not found in total");
    assert_eq!(done.err.lines().count(), 12);
}

#[test]
fn strict_deletes_all_or_nothing() {
    let space = Space::with_index(DOCS);
    space
        .run("delete idx --id a --id nope --strict")
        .fails(2, &["no document has id `nope`", "nothing was deleted"]);
    assert_eq!(space.documents("idx"), 4);
    space.run("delete idx --id a --strict -q").ok();
    assert_eq!(space.documents("idx"), 3);
    space.run("delete idx --id a --strict").fails(2, &["no document has id `a`"]);
}

#[test]
fn a_merge_does_not_change_hits() {
    let space = Space::with_index(DOCS);
    space.write(
        "new.jsonl",
        "{\"id\":\"b\",\"text\":\"blue apple\"}\n{\"id\":\"e\",\"text\":\"apple\"}\n",
    );
    space.run("add idx new.jsonl -q").ok();
    space.run("delete idx --id d -q").ok();
    assert_eq!(segments(&space), 2);
    space.write("queries.txt", "apple\nblue apple cherry\nbanana\n");
    let run = || space.run("run idx --queries queries.txt -q").ok();
    let before = run();
    let done = space.run("merge idx").code(0);
    assert!(done.err.starts_with("2 segments merged in "), "{}", done.err);
    assert!(done.err.ends_with(": 4 documents, 2 deleted ones removed\n"), "{}", done.err);
    assert_eq!(run(), before);
    assert_eq!(segments(&space), 1);
    assert_eq!(space.documents("idx"), 4);
    assert_eq!(space.run("inspect idx --json").json()["deleted"], 0);
    assert_eq!(space.run("merge idx").code(0).err, "nothing to merge: 4 documents\n");
}

#[test]
fn an_index_without_live_documents_can_be_merged_and_grow_again() {
    let space = Space::with_index(DOCS);
    space.run("delete idx --id a --id b --id c --id d -q").ok();
    space.run("merge idx -q").ok();
    assert_eq!((segments(&space), space.documents("idx")), (0, 0));
    space.run("add idx docs.jsonl -q").ok();
    assert_eq!(space.hits("idx cherry"), ["c"]);
}

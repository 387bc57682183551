//! Collections of shards in a store that is a folder.

use serde_json::json;

use crate::support::Space;

const STORE: &str = "--store store --name web";

fn documents(n: usize) -> String {
    let line =
        |i: usize| format!("{{\"id\": \"d{i}\", \"text\": \"apple w{} w{}\"}}\n", i % 7, i % 11);
    (0..n).map(line).collect()
}

fn states(space: &Space) -> Vec<(u64, String)> {
    let listed = space.run("cluster list --store store --json").json();
    let versions = listed["collections"][0]["versions"].as_array().unwrap();
    let state = |v: &serde_json::Value| {
        (v["version"].as_u64().unwrap(), v["state"].as_str().unwrap().to_owned())
    };
    versions.iter().map(state).collect()
}

#[test]
fn a_collection_is_built_listed_and_fetched() {
    let space = Space::new();
    space.write("docs.jsonl", documents(60));
    let built = space.run(&format!("cluster build docs.jsonl {STORE} --shards 3 --json")).json();
    assert_eq!((&built["version"], &built["documents"]), (&json!(1), &json!(60)));
    let table = space.run("cluster list --store store").ok();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["web", "1", "current", "3", "60"]);

    let fetched = space.run(&format!("cluster fetch {STORE} --cache cache --json -q")).json();
    let mut next = 0;
    for (number, shard) in fetched["shards"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&shard["shard"], &shard["base"]), (&json!(number), &json!(next)));
        next += shard["documents"].as_u64().unwrap();
        let folder = format!("cache/web/00000001/{number:05}");
        assert_eq!(shard["folder"], folder);
        assert_eq!(space.documents(&folder), shard["documents"].as_u64().unwrap());
    }
    assert_eq!(next, 60);
    let one = space.run(&format!("cluster fetch {STORE} --cache cache --shard 1 -q")).ok();
    assert_eq!(one.trim(), "cache/web/00000001/00001");
}

#[test]
fn shards_are_built_one_by_one() {
    let space = Space::new();
    space.write("docs.jsonl", documents(40));
    let version = space.run(&format!("cluster cut docs.jsonl {STORE} --shards 2 -q")).ok();
    assert_eq!(version.trim(), "1");
    let build = format!("cluster build docs.jsonl {STORE} --build 1 -q --only-shard");
    space.run(&format!("{build} 1")).ok();
    space.run(&format!("cluster publish {STORE} --build 1")).fails(2, &["shards 0 are missing"]);
    assert_eq!(states(&space), [(1, "unfinished".to_owned())]);
    space.run(&format!("{build} 0")).ok();
    space.run(&format!("cluster publish {STORE} --build 1 --no-activate")).ok();
    assert_eq!(states(&space), [(1, "ready".to_owned())]);
    let fetch = format!("cluster fetch {STORE} --cache cache");
    space.run(&fetch).fails(2, &["no collection `web`"]);
    space.run(&format!("cluster activate {STORE} --to 1")).ok();
    assert_eq!(states(&space), [(1, "current".to_owned())]);
    // The result equals that of a single build.
    space.run(&format!("cluster build docs.jsonl {STORE} --shards 2 -q")).ok();
    space.run(&format!("cluster fetch {STORE} --cache cache -q")).ok();
    space.run(&format!("cluster fetch {STORE} --cache cache -q --version-number 1")).ok();
    for name in space.list("cache/web/00000001/00001") {
        let bytes = |version| {
            std::fs::read(space.path(&format!("cache/web/{version:08}/00001/{name}"))).unwrap()
        };
        assert!(bytes(1) == bytes(2), "{name}");
    }
}

#[test]
fn versions_are_switched_and_removed() {
    let space = Space::new();
    for n in [20, 30, 40] {
        space.write("docs.jsonl", documents(n));
        space.run(&format!("cluster build docs.jsonl {STORE} --shards 2 -q")).ok();
    }
    space.run(&format!("cluster rollback {STORE}")).ok();
    let state = |text: &str| text.to_owned();
    assert_eq!(states(&space), [(1, state("ready")), (2, state("current")), (3, state("ready"))]);
    let remove = format!("cluster remove {STORE} --version-number 2");
    space.run(&remove).fails(2, &["is the current one"]);
    space.run(&format!("cluster remove {STORE} --keep 0")).ok();
    assert_eq!(states(&space), [(2, state("current")), (3, state("ready"))]);
    space.run(&format!("cluster remove {STORE} --version-number 3")).ok();
    space.run(&format!("cluster rollback {STORE}")).fails(2, &["has no version 3"]);
}

#[test]
fn documents_are_added_and_deleted() {
    let space = Space::new();
    space.write("docs.jsonl", documents(60));
    space.run(&format!("cluster build docs.jsonl {STORE} --shards 3 -q")).ok();
    space.run("index docs.jsonl -o idx -q").ok();
    space.write(
        "new.jsonl",
        "{\"id\": \"d5\", \"text\": \"plum\"}\n{\"id\": \"e1\", \"text\": \"plum\"}\n",
    );
    let add = format!("cluster add new.jsonl {STORE} --cache kept");
    let done = space.run(&add);
    // The output is that of `add`, followed by the new version.
    assert!(done.err.contains("2 documents, 1 of them replacing older ones in"), "{}", done.err);
    let version = "version 2 of web is the current one: 61 documents in 3 shards, of which";
    assert!(done.err.contains(version), "{}", done.err);
    let gone = space.run(&format!("cluster delete --id d7 --id d59 --id x1 {STORE} --json")).json();
    assert_eq!((&gone["of"], &gone["version"]), (&json!(2), &json!(3)));
    assert_eq!((&gone["deleted"], &gone["missing"]), (&json!(2), &json!(["x1"])));
    assert_eq!((&gone["documents"], &gone["changed"]), (&json!(59), &json!([0, 2])));
    let table = space.run("cluster list --store store").ok();
    let row: Vec<&str> = table.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["web", "3", "current", "3", "59"]);
    // Unknown ids are reported as by `delete`.
    space.write("ids.txt", "x1\nx2\n");
    let delete = format!("cluster delete --ids ids.txt {STORE}");
    let (done, one) = (space.run(&delete), space.run("delete idx --ids ids.txt"));
    assert!(done.err.starts_with(&one.err), "{}\n{}", done.err, one.err);
    assert!(done.err.contains("nothing changed: version 3 of web"), "{}", done.err);
    let strict = format!("cluster delete --id d1 --id x1 --strict {STORE}");
    space.run(&strict).fails(2, &["no document has id `x1`; nothing was deleted"]);
    assert_eq!(states(&space).len(), 3);
    // The new version is not activated.
    let later = space.run(&format!("{add} --no-activate --json -q")).json();
    assert_eq!((&later["version"], &later["replaced"]), (&json!(4), &json!(2)));
    assert_eq!(states(&space)[2..], [(3, "current".to_owned()), (4, "ready".to_owned())]);
    space.write(
        "bad.jsonl",
        "{\"id\": \"e2\", \"text\": \"fig\"}\n{\"id\": \"e2\", \"text\": \"fig\"}\n",
    );
    let bad = format!("cluster add bad.jsonl {STORE} --cache kept");
    space.run(&bad).fails(2, &["bad.jsonl:2: id `e2` was seen before"]);
    space.run(&format!("{bad} --on-error skip")).says("1 record was skipped").ok();
    space
        .run("cluster add bad.jsonl --store store --name other")
        .fails(2, &["no collection `other`"]);
    space.run(&format!("cluster delete {STORE}")).fails(2, &["--id <ID>"]);
}

#[test]
fn mistakes_are_explained() {
    let space = Space::new();
    space.write("docs.jsonl", documents(5));
    let cases = [
        ("cluster build docs.jsonl --store store --name Web --shards 2", "name of a collection"),
        ("cluster build docs.jsonl --store ftp://x --name web --shards 2", "kind `ftp`"),
        ("cluster build docs.jsonl --store s3://u:secret@b/x --name web --shards 2", "environment"),
        ("cluster build docs.jsonl --store store --name web --shards 6", "5 documents"),
        ("cluster build docs.jsonl --store store --name web --shards 0", "1 to 65536"),
        ("cluster build - --store store --name web --shards 2", "read only once"),
        ("cluster build missing.jsonl --store store --name web --shards 2", "missing.jsonl"),
        ("cluster list --store nowhere", "there is no folder nowhere"),
        ("cluster list --store . --name web", "no collection `web`"),
    ];
    for (line, wanted) in cases {
        space.run(line).fails(2, &[wanted]);
    }
    space.write("twice.jsonl", documents(5) + &documents(1));
    let twice = format!("cluster build twice.jsonl {STORE} --shards 2");
    space.run(&twice).fails(2, &["twice.jsonl:6: id `d0` was seen before"]);
    space.run(&format!("cluster build twice.jsonl {STORE} --shards 2 --on-error skip -q")).ok();
    assert_eq!(states(&space), [(1, "current".to_owned())]);
}

/// Checks that the commands for Ray, which need a Python with the package, say how to install it.
#[test]
#[cfg(unix)]
fn a_python_without_the_package_is_named() {
    let space = Space::new();
    for verb in ["up", "scale", "roll", "status", "down"] {
        for (python, told) in [
            ("/bin/false", "/bin/false -m pip install ./python/cluster"),
            ("/no/such/python", "name one with WARPSEEK_PYTHON"),
        ] {
            let mut command = space.command();
            let output = command.args(["cluster", verb]).env("WARPSEEK_PYTHON", python).output();
            let output = output.unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{verb}, {python}: {error}");
            assert!(error.contains(&format!("`cluster {verb}` needs")), "{error}");
            assert!(error.contains(told) && error.contains(python), "{error}");
        }
    }
}

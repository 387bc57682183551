//! `warpseek node` and `warpseek aggregate` as processes: their answers, and the effects of a
//! killed or hung node.
#![allow(clippy::unwrap_used)]
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::Space;
use support::server::Connection;

const SHARDS: usize = 4;

/// A process that prints its address. It is killed when this value is dropped.
struct Listening {
    process: Child,
    address: String,
}

impl Listening {
    fn start(space: &Space, arguments: &str) -> Self {
        Self::start_command(space.command(), arguments)
    }

    fn start_command(mut command: Command, arguments: &str) -> Self {
        command.args(arguments.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("listening on ")));
        let line = line.unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let address = line.rsplit([' ', '/']).next().unwrap().to_owned();
        Listening { process, address }
    }

    fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Creates a collection as one index `idx` and as shards `part0` and so on, each with two nodes.
struct Collection {
    space: Space,
    nodes: Vec<Listening>,
}

impl Collection {
    fn start() -> Self {
        let space = Space::new();
        let words = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"];
        let text = |i: usize| {
            let word = |j: usize| words[(i * 31 + j * j * 7 + i * j) % (2 + i % 9)];
            (0..1 + i % 9).map(word).collect::<Vec<_>>().join(" ")
        };
        let line = |i: usize| format!("{{\"id\":\"d{i}\",\"text\":\"{}\"}}\n", text(i));
        let all: Vec<String> = (0..500).map(line).collect();
        space.write("all.jsonl", all.concat());
        space.run("index all.jsonl -o idx --quiet").ok();
        for (number, edge) in [0, 90, 91, 300, 500].windows(2).enumerate() {
            space.write(&format!("part{number}.jsonl"), all[edge[0]..edge[1]].concat());
            space.run(&format!("index part{number}.jsonl -o part{number} --quiet")).ok();
        }
        let query = |i: usize| {
            let words: Vec<&str> = (0..1 + i % 4).map(|j| words[(i * 3 + j * 5) % 10]).collect();
            // Some have a word that no document has.
            let unknown = if i.is_multiple_of(3) { " wolf" } else { "" };
            format!("q{i}\t{}{unknown}\n", words.join(" "))
        };
        space.write("queries.tsv", (0..400).map(query).collect::<String>());
        let nodes = (0..2 * SHARDS).map(|n| {
            let shard = n % SHARDS;
            let line = format!("node --listen 127.0.0.1:0 -j 1 --shard {shard}=part{shard}");
            Listening::start(&space, &line)
        });
        let nodes = nodes.collect();
        Collection { space, nodes }
    }

    fn aggregate(&self) -> String {
        let nodes: Vec<&str> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        format!("aggregate --nodes {} --shards {SHARDS}", nodes.join(","))
    }

    fn search(&self, address: &str, body: &str) -> (u16, serde_json::Value) {
        let (status, body) =
            Connection::open(address).unwrap().ask("POST", "/v1/search", body).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    }
}

#[test]
fn runs_are_those_of_one_index_byte_for_byte() {
    let collection = Collection::start();
    let space = &collection.space;
    for options in [
        "-k 10",
        "-k 1000 --mode and",
        "-k 3 --mode and-or",
        "-k 5 --rank okapi --k1 1.5",
        "-k 7 --filter ant --syntax",
    ] {
        let asked = format!("--queries queries.tsv -q {options}");
        let want = space.run(&format!("run idx {asked}")).ok();
        assert!(want.lines().count() > 100);
        let found = space.run(&format!("{} {asked}", collection.aggregate())).ok();
        assert_eq!(found, want, "{options}");
    }
    // The addresses come from a file.
    let nodes: Vec<&str> = collection.nodes.iter().map(|node| node.address.as_str()).collect();
    space.write("nodes.txt", nodes.join("\n"));
    let found =
        space.run("aggregate --nodes nodes.txt --shards 4 --queries queries.tsv -q -k 10").ok();
    assert_eq!(found, space.run("run idx --queries queries.tsv -q -k 10").ok());
}

#[test]
fn a_cluster_is_measured_and_simulated() {
    let collection = Collection::start();
    let space = &collection.space;
    let nodes: Vec<&str> = collection.nodes.iter().map(|node| node.address.as_str()).collect();
    space.write("nodes.txt", nodes.join("\n"));
    let bench = format!(
        "bench cluster --nodes nodes.txt --shards {SHARDS} --queries queries.tsv --rates 20,40 --requests 40 --node-threads 1 -q"
    );
    let measured = space.run(&format!("{bench} --json")).json();
    assert_eq!((measured["shards"].as_u64(), measured["replicas"].as_u64()), (Some(4), Some(2)));
    assert!(measured["shared_cores"].is_u64(), "all nodes are on this machine");
    let alone = measured["alone"]["shards_ms"].as_array().unwrap();
    assert!(alone.len() == 40 && alone.iter().all(|of| of.as_array().unwrap().len() == SHARDS));
    let rows = measured["rows"].as_array().unwrap();
    assert!(rows.len() == 8 && rows.iter().all(|row| row["failed"] == 0));
    for (row, size) in rows.iter().zip([1, 1, 1, 1, 64, 64, 64, 64]) {
        assert_eq!(row["cohort_size"], size);
        let rate = |name: &str| row[name].as_f64().unwrap();
        let both = rate("sent_mbit_per_s") + rate("received_mbit_per_s");
        assert!(both > 0.0 && (both - rate("node_mbit_per_s")).abs() < 1e-9, "{row}");
        assert!(rate("cohort_queries") >= 1.0 && (size > 1 || rate("cohort_queries") == 1.0));
    }
    assert!(rows.iter().all(|row| row["hedging"] == true || row["hedged"] == 0.0));
    space.write("cluster.json", measured.to_string());
    let found = space.run("plan --simulate --calibrate cluster.json --json").json();
    let again = space.run("plan --simulate --calibrate cluster.json --seed 1 --json").json();
    assert_eq!(found, again);
    // The simulation has no cohorts.
    assert_eq!(found["rows"].as_array().unwrap().len(), 4);
    for (row, measured) in found["rows"].as_array().unwrap().iter().zip(rows) {
        assert_eq!(row["measured"]["p99_ms"], measured["p99_ms"]);
        assert_eq!(
            (&row["simulated"]["nodes"], &row["simulated"]["complete"]),
            (&8.into(), &1.0.into())
        );
    }
    let out = space.run("plan --simulate --calibrate cluster.json").ok();
    assert!(out.contains("service_ms = ") && out.contains("of its cores"), "{out}");
    let shown = space.run(&bench).ok();
    assert!(shown.contains("a shard alone") && shown.contains("11 Mbit/s per node"), "{shown}");
    space.run("plan --calibrate cluster.json").fails(2, &["--simulate"]);
    space.run(&bench.replace("nodes.txt", "127.0.0.1:1")).fails(1, &["no node answers"]);
}

/// Clients that search at the same time get the answers that they get alone, and the pages of
/// metrics and of the state count their cohorts and the bytes of each node.
#[test]
fn clients_share_cohorts_and_get_their_own_answers() {
    let collection = Collection::start();
    let start = |options: &str| {
        let line = format!("{} --cache 0 --listen 127.0.0.1:0 {options}", collection.aggregate());
        Listening::start(&collection.space, &line)
    };
    let (alone, together) = (start("--cohort-size 1"), start("--cohort-size 8 --cohort-wait 1000"));
    let body = |client: usize| {
        let (word, mode) = (["ant", "bee cat", "(dog", "eel fox gnu"][client % 4], client % 3);
        let (mode, k) = (["or", "and", "and-or"][mode], 1 + 3 * client);
        format!(r#"{{"query": "{word}", "k": {k}, "mode": "{mode}", "deadline_ms": 600000}}"#)
    };
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (collection, alone, together) = (&collection, &alone, &together);
            scope.spawn(move || {
                let body = body(client);
                let found = collection.search(&together.address, &body);
                assert_eq!(found, collection.search(&alone.address, &body), "{body}");
                assert_eq!(found.0, 200, "{body}: {}", found.1);
            });
        }
    });
    for (server, cohorts) in [(&alone, 8), (&together, 1)] {
        let connection = || Connection::open(&server.address).unwrap();
        let (_, page) = connection().ask("GET", "/metrics", "").unwrap();
        let value = |name: &str| -> u64 {
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(name));
            lines.next().and_then(|rest| rest.trim().parse().ok()).unwrap()
        };
        assert_eq!(value("warpseek_cluster_cohort_queries_sum"), 8);
        let found = value("warpseek_cluster_cohort_queries_count");
        assert!((cohorts..=8).contains(&found), "{found} cohorts");
        assert_eq!(value("warpseek_cluster_cohort_wait_seconds_count"), 8);
        assert_eq!(value("warpseek_cluster_cohort_waiting"), 0);
        for node in &collection.nodes {
            let of = |name: &str| value(&format!("{name}{{node=\"{}\"}}", node.address));
            assert!(of("warpseek_cluster_node_sent_bytes_total") > 0);
            assert!(of("warpseek_cluster_node_received_bytes_total") > 0);
        }
        let (_, status) = connection().ask("GET", "/v1/cluster", "").unwrap();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        assert_eq!((&status["cohorts"], &status["cohort_queries"]), (&found.into(), &8.into()));
    }
}

#[test]
fn a_collection_that_changed_is_searched_as_one_index() {
    let collection = Collection::start();
    let space = &collection.space;
    let store = "--store store --name animals";
    space.run(&format!("cluster build all.jsonl {store} --shards 3 -q")).ok();
    // The last shard becomes the smallest, so that new documents come last, as in one index.
    let gone: String = (440..490).chain([3, 5, 200]).map(|i| format!("d{i}\n")).collect();
    space.write("gone.txt", gone);
    let line =
        |i: usize| format!("{{\"id\":\"n{i}\",\"text\":\"ant cat {}\"}}\n", "dog ".repeat(i % 5));
    space.write("new.jsonl", (0..20).map(line).collect::<String>());
    space.run(&format!("cluster delete --ids gone.txt {store} --cache kept -q")).ok();
    let added = space.run(&format!("cluster add new.jsonl {store} --cache kept -q --json")).json();
    assert_eq!((&added["changed"], &added["documents"]), (&[2][..].into(), &467.into()));
    space.run("delete idx --ids gone.txt -q").ok();
    space.run("add idx new.jsonl -q").ok();
    let folders = space.run(&format!("cluster fetch {store} --cache kept -q")).ok();
    let nodes: Vec<Listening> = folders
        .lines()
        .enumerate()
        .map(|(shard, folder)| {
            let line = format!("node --listen 127.0.0.1:0 -j 1 --shard {shard}={folder}");
            Listening::start(space, &line)
        })
        .collect();
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    let aggregate = format!("aggregate --nodes {} --shards 3", addresses.join(","));
    for options in ["-k 10", "-k 1000 --mode and", "-k 5 --rank okapi --k1 1.5"] {
        let asked = format!("--queries queries.tsv -q {options}");
        let want = space.run(&format!("run idx {asked}")).ok();
        assert!(want.lines().count() > 100);
        assert_eq!(space.run(&format!("{aggregate} {asked}")).ok(), want, "{options}");
    }
}

#[test]
fn nodes_fetch_their_shards_from_the_store() {
    let collection = Collection::start();
    let space = &collection.space;
    let store = "--store store --name animals";
    space.run(&format!("cluster build all.jsonl {store} --shards 3 -q")).ok();
    let line = |shard: usize| {
        format!("node --listen 127.0.0.1:0 -j 1 {store} --cache kept --shard {shard}")
    };
    let compare = |nodes: &[Listening]| {
        let addresses: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
        let aggregate = format!("aggregate --nodes {} --shards 3", addresses.join(","));
        let asked = "--queries queries.tsv -q -k 20";
        let want = space.run(&format!("run idx {asked}")).ok();
        assert_eq!(space.run(&format!("{aggregate} {asked}")).ok(), want);
    };
    let mut nodes: Vec<Listening> =
        (0..3).map(|shard| Listening::start(space, &line(shard))).collect();
    compare(&nodes);
    // Files that were damaged on the disk of a node are fetched again.
    let folder = space.path("kept/animals/00000001/00001");
    let files = || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let dictionary =
        files().find(|path| path.extension().is_some_and(|end| end == "dict")).unwrap();
    let whole = std::fs::read(&dictionary).unwrap();
    nodes.remove(1);
    std::fs::write(&dictionary, vec![0; whole.len()]).unwrap();
    nodes.insert(1, Listening::start(space, &line(1)));
    compare(&nodes);
    assert_eq!(std::fs::read(&dictionary).unwrap(), whole);
    // Files that no search has read yet are fetched again too, with --verify and without.
    for more in ["", "--verify"] {
        for end in ["post", "store"] {
            let path = dictionary.with_extension(end);
            let whole = std::fs::read(&path).unwrap();
            let mut damaged = whole.clone();
            damaged[whole.len() / 2] ^= 1;
            nodes.remove(1);
            std::fs::write(&path, &damaged).unwrap();
            nodes.insert(1, Listening::start(space, &format!("{} {more}", line(1))));
            compare(&nodes);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
    }
    let mixed = format!("{} --shard 1=idx", line(0));
    space.run(&mixed).fails(2, &["--shard 1 without a directory"]);
    space.run(&line(3)).fails(2, &["shard 3"]);
    space.run(&line(0).replace("animals", "plants")).fails(2, &["plants"]);
    space.run("node --listen 127.0.0.1:0 --shard 0").fails(2, &["--shard 0=DIR", "--store"]);
    space.run(&line(0).replace("--cache kept", "")).fails(2, &["--cache"]);
}

/// Overwrites the middle of a file in place, as a disk would.
fn damage(path: &std::path::Path) {
    use std::io::{Seek, SeekFrom, Write};
    let len = std::fs::metadata(path).unwrap().len();
    let mut file = std::fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.write_all(&[0xa5; 40]).unwrap();
}

/// Checks a repair while two nodes share files and a third has copies. While the store is away,
/// so that the files cannot be fetched again, the third answers alone.
#[test]
fn nodes_whose_files_are_damaged_while_they_serve_leave_and_come_back() {
    let space = Space::new();
    let text = |i: usize| ["ant bee", "cat", "bee dog cat", "eel"][i % 4];
    let line = |i: usize| format!("{{\"id\":\"d{i}\",\"text\":\"{}\"}}\n", text(i));
    space.write("all.jsonl", (0..400).map(line).collect::<String>());
    let store = "--store store --name animals";
    space.run(&format!("cluster build all.jsonl {store} --shards 1 -q")).ok();
    let node = |cache: &str, listen: &str, status: &str| {
        let line = format!(
            "node --listen {listen} -j 1 {store} --cache {cache} --shard 0 --scrub-period 1 --status-file {status}"
        );
        Listening::start(&space, &line)
    };
    let any = "127.0.0.1:0";
    let mut nodes = [node("one", any, "a"), node("one", any, "b"), node("two", any, "c")];
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let line = format!(
        "aggregate --nodes {} --shards 1 --listen 127.0.0.1:0 --cache 0",
        addresses.join(",")
    );
    let server = Listening::start(&space, &line);
    let ask = |method: &str, path: &str, body: &str| {
        Connection::open(&server.address).unwrap().ask(method, path, body).unwrap()
    };
    let search = || {
        let body = r#"{"query": "bee cat", "k": 20, "count": true, "allow_partial": false}"#;
        let (status, found) = ask("POST", "/v1/search", body);
        (status, serde_json::from_str::<serde_json::Value>(&found).unwrap())
    };
    let status = |name: &str| {
        let text = space.read(name);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let until = |what: &str, done: &dyn Fn() -> bool| {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(120), "it never happened: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let damaged = |nodes: usize| {
        let line = format!("\nwarpseek_cluster_shards_damaged {nodes}\n");
        ask("GET", "/metrics", "").1.contains(&line)
    };
    let (code, whole) = search();
    assert!(code == 200 && whole["matches"] == 300, "{whole}");
    until("all are known", &|| damaged(0));
    assert!(status("a")["ready"] == true && status("a")["shards"][0]["shard"] == 0);

    std::fs::rename(space.path("store"), space.path("away")).unwrap();
    let file = space.path("one/animals/00000001/00000/000001.post");
    let sound = std::fs::read(&file).unwrap();
    damage(&file);
    until("both leave", &|| damaged(2));
    let (_, shown) = ask("GET", "/v1/cluster", "");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["replicas"], serde_json::json!([1]), "{shown}");
    for at in 0..2 {
        let reason = shown["nodes"][at]["damaged"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("000001.post") && reason.contains("(page 0)"), "{reason}");
    }
    assert_eq!(shown["nodes"][2]["damaged"], serde_json::json!([]));
    // No node answers from the damaged file.
    for _ in 0..30 {
        assert_eq!(search(), (200, whole.clone()));
    }
    for name in ["a", "b"] {
        until("the file says so", &|| status(name)["ready"] == false);
        let reason = status(name)["damaged"][0]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("000001.post"), "{reason}");
    }

    std::fs::rename(space.path("away"), space.path("store")).unwrap();
    until("both are back", &|| damaged(0));
    assert_eq!(std::fs::read(&file).unwrap(), sound);
    until("the files say so", &|| status("a")["ready"] == true && status("b")["ready"] == true);
    // The other two nodes answer alone.
    nodes[2].signal("-KILL");
    let _ = nodes[2].process.wait();
    assert_eq!(search(), (200, whole.clone()));

    // Restarted nodes find a damaged file of the right size.
    for node in &mut nodes[..2] {
        node.signal("-KILL");
        let _ = node.process.wait();
    }
    damage(&file);
    nodes[0] = node("one", &addresses[0], "a");
    nodes[1] = node("one", &addresses[1], "b");
    assert_eq!(std::fs::read(&file).unwrap(), sound);
    until("they answer again", &|| search() == (200, whole.clone()));
}

/// Checks that, without a store, a shard returns to service when its folder is repaired.
#[test]
fn a_damaged_folder_is_served_again_when_it_is_sound() {
    let space = Space::new();
    // Enough words that the middle of the file is in a page, and not in its seal.
    let words: Vec<String> = (0..500).map(|i| format!("word{i}")).collect();
    space
        .write("all.jsonl", format!("{{\"id\":\"a\",\"text\":\"ant bee {}\"}}\n", words.join(" ")));
    space.run("index all.jsonl -o part -q").ok();
    let line = "node --listen 127.0.0.1:0 --shard 0=part --scrub-period 1 --scrub-rate 0";
    let node = Listening::start(&space, line);
    let line = format!("aggregate --nodes {} --shards 1 --listen 127.0.0.1:0", node.address);
    let server = Listening::start(&space, &line);
    let search = |text: &str| {
        let body = format!(r#"{{"query": "{text}", "allow_partial": false, "deadline_ms": 2000}}"#);
        Connection::open(&server.address).unwrap().ask("POST", "/v1/search", &body).unwrap()
    };
    assert_eq!(search("ant").0, 200);
    let file = space.path("part/000001.post");
    let sound = std::fs::read(&file).unwrap();
    damage(&file);
    // The node does not read files in the background: a search finds the damage and reports it.
    let start = Instant::now();
    let mut n = 0;
    let reason = loop {
        n += 1;
        let (status, body) = search(&format!("ant bee{n}"));
        if status == 503 && body.contains("000001.post") {
            break body;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it is not found: {body}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(reason.contains("(page 0)"), "{reason}");
    std::fs::write(&file, &sound).unwrap();
    while search("bee").0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(120), "it does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_answers_for_a_cluster_under_its_own_keys_and_limits() {
    let mut collection = Collection::start();
    let space = &collection.space;
    let nodes: Vec<&str> = collection.nodes.iter().map(|node| node.address.as_str()).collect();
    let (nodes, keys) = (nodes.join(","), ["admin 0123456789abcdef", "read fedcba9876543210"]);
    space.write("keys.txt", keys.join("\n"));
    let line = format!(
        "serve data --listen 127.0.0.1:0 --api-key-file keys.txt --cluster {nodes} --cluster-shards {SHARDS}"
    );
    let mut command = space.command();
    command.env("WARPSEEK__LIMITS__WINDOW", "100").env("WARPSEEK__LIMITS__BATCH", "3");
    let server = Listening::start_command(command, &line);
    let aggregator =
        Listening::start(space, &format!("{} --listen 127.0.0.1:0", collection.aggregate()));
    let ask_as = |key: &str, method: &str, path: &str, body: &str| {
        let mut connection = Connection::open(&server.address).unwrap();
        let header = format!("authorization: Bearer {key}\r\n");
        let (status, body) = connection.ask_with(method, path, &header, body).unwrap();
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap_or(body.into()))
    };
    let ask = |method: &str, path: &str, body: &str| ask_as("fedcba9876543210", method, path, body);
    let start = Instant::now();
    while ask("GET", "/v1/cluster", "").0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "it is not ready");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The answers equal those of the aggregator.
    for text in ["ant bee", "cat", "dog eel wolf", "jay ibis hen"] {
        let body =
            format!(r#"{{"query": "{text}", "k": 7, "count": true, "allow_partial": false}}"#);
        let (status, want) = collection.search(&aggregator.address, &body);
        assert_eq!((status, ask("POST", "/v1/cluster/search", &body)), (200, (200, want)));
    }
    let batch = r#"{"queries": [{"query": "ant", "k": 2}, {"query": "fox gnu", "mode": "and"}]}"#;
    let (status, found) = ask("POST", "/v1/cluster/batch", batch);
    let mut connection = Connection::open(&aggregator.address).unwrap();
    let (_, want) = connection.ask("POST", "/v1/batch", batch).unwrap();
    assert_eq!((status, found), (200, serde_json::from_str(&want).unwrap()));
    let (_, shown) = ask("GET", "/v1/cluster", "");
    assert_eq!((&shown["shards"], &shown["replicas"]), (&4.into(), &[2, 2, 2, 2][..].into()));
    // Keys, limits and options are those of the server.
    let body = r#"{"query": "ant"}"#;
    assert_eq!(ask_as("0000000000000000", "POST", "/v1/cluster/search", body).0, 401);
    assert_eq!(ask_as("0000000000000000", "GET", "/v1/cluster", "").0, 401);
    let many = [body; 4].join(",");
    for (path, body, wanted) in [
        ("/v1/cluster/search", r#"{"query": "ant", "k": 101}"#.to_owned(), "at most 100"),
        ("/v1/cluster/batch", format!(r#"{{"queries": [{many}]}}"#), "at most 3"),
        ("/v1/cluster/search", r#"{"query": "(ant", "syntax": true}"#.to_owned(), "("),
        ("/v1/cluster/search", r#"{"query": "ant", "kk": 1}"#.to_owned(), "kk"),
        ("/v1/cluster/search?kk=1", body.to_owned(), "no option [kk]"),
    ] {
        let (status, error) = ask("POST", path, &body);
        let reason = error["error"]["reason"].as_str().unwrap_or("");
        assert!(status == 400 && reason.contains(wanted), "{error}");
    }
    let (_, metrics) = ask("GET", "/metrics", "");
    let metrics = metrics.as_str().unwrap();
    let counted = r#"warpseek_search_duration_seconds_count{index="_cluster",device="cluster"} 6"#;
    assert!(metrics.contains(counted), "{metrics}");
    assert!(metrics.contains(r#"route="/v1/cluster/search""#), "{metrics}");
    // Both pages show the same nodes, but the searches and cache of their process.
    let (status, page) =
        Connection::open(&aggregator.address).unwrap().ask("GET", "/metrics", "").unwrap();
    assert_eq!(status, 200);
    for line in ["shards 4", "shards_missing 0", "replicas_fewest 2", "nodes 8", "nodes_gone 0"] {
        let line = format!("\nwarpseek_cluster_{line}\n");
        assert!(metrics.contains(&line) && page.contains(&line), "{line}: {metrics}\n{page}");
    }
    assert!(page.contains(counted), "{page}");
    // The server also has indexes.
    let admin = "0123456789abcdef";
    let (status, _) = ask_as(admin, "PUT", "/own/_doc/1?refresh=true", r#"{"text": "ant"}"#);
    assert_eq!(status, 201);
    assert_eq!(ask("POST", "/v1/indexes/own/search", body).1["hits"][0]["id"], "1");
    // Missing shards are named, or the request is an error.
    for node in [2, 6] {
        collection.nodes[node].signal("-KILL");
        let _ = collection.nodes[node].process.wait();
    }
    let ask_for = |deadline_ms: u32, more: &str| {
        let body = format!(r#"{{"query": "wolf jay cat", "deadline_ms": {deadline_ms}{more}}}"#);
        ask("POST", "/v1/cluster/search", &body)
    };
    // Half of the time is spent on waiting for the shard.
    let (status, partial) = ask_for(15_000, "");
    assert_eq!((status, &partial["coverage"]["missing"][0]["shard"]), (200, &2.into()));
    let (status, error) = ask_for(5000, r#", "allow_partial": false"#);
    assert!(status == 503 && error.to_string().contains("shard 2 is missing"), "{error}");
    // The server shuts down as usual.
    let mut server = server;
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_server_says_what_is_wrong_with_its_cluster() {
    let space = Space::new();
    space.run("serve data --cluster 127.0.0.1:1").fails(2, &["cluster.shards"]);
    let serve = "serve data --listen 127.0.0.1:0 --cluster-shards 2 --cluster";
    space.run(&format!("{serve} 127.0.0.1:1")).fails(1, &["no node answers"]);
    space.run(&format!("{serve} nodes.txt")).fails(2, &["nodes.txt"]);
    space.write("short.txt", "too short");
    let short = format!("{serve} 127.0.0.1:1 --cluster-token-file short.txt");
    space.run(&short).fails(2, &["short.txt", "16"]);
    let server = Listening::start(&space, "serve data --listen 127.0.0.1:0");
    let start = Instant::now();
    loop {
        let mut connection = Connection::open(&server.address).unwrap();
        let (status, body) = connection.ask("GET", "/v1/cluster", "").unwrap();
        if status != 503 {
            assert!(status == 404 && body.contains("--cluster NODES"), "{body}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it is not ready");
    }
}

#[test]
fn killed_nodes_are_replaced_and_missing_shards_named() {
    let mut collection = Collection::start();
    let server = Listening::start(
        &collection.space,
        &format!("{} --listen 127.0.0.1:0", collection.aggregate()),
    );
    let body = |text: &str, deadline_ms: u32, more: &str| {
        format!(r#"{{"query": "{text}", "k": 5, "deadline_ms": {deadline_ms}{more}}}"#)
    };
    let (status, whole) = collection.search(&server.address, &body("ant bee", 60_000, ""));
    assert!(status == 200 && whole["coverage"]["complete"] == true, "{whole}");
    let strict = r#", "allow_partial": false"#;
    collection.nodes[2].signal("-KILL");
    for text in ["cat dog", "eel fox", "gnu hen", "ant cat eel"] {
        let (status, found) = collection.search(&server.address, &body(text, 60_000, strict));
        assert!(status == 200 && found["coverage"]["complete"] == true, "{found}");
    }
    // The run begins before the kill of another replica and continues after it.
    let space = &collection.space;
    let want = space.run("run idx --queries queries.tsv -q -k 10").ok();
    let mut command = space.command();
    command.args(collection.aggregate().split_whitespace());
    let mut run = command
        .args(["--queries", "-", "-q", "-k", "10"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let queries = space.read("queries.tsv");
    let (first, rest) = queries.split_at(queries.find("q200\t").unwrap());
    let mut input = run.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, first.as_bytes()).unwrap();
    collection.nodes[5].signal("-KILL");
    std::io::Write::write_all(&mut input, rest.as_bytes()).unwrap();
    drop(input);
    let found = run.wait_with_output().unwrap();
    assert!(found.status.success() && String::from_utf8(found.stdout).unwrap() == want);
    // Kills the other replica of shard 2.
    collection.nodes[6].signal("-KILL");
    // Half of the time is spent on waiting for the shard.
    let (status, found) = collection.search(&server.address, &body("jay ibis", 15_000, ""));
    assert!(status == 200 && found["coverage"]["complete"] == false, "{found}");
    assert_eq!(found["coverage"]["missing"][0]["shard"], 2, "{found}");
    let (status, error) = collection.search(&server.address, &body("jay ibis", 5000, strict));
    let reason = error["error"]["reason"].as_str().unwrap();
    assert!(status == 503 && reason.contains("shard 2 is missing"), "{error}");
    let failed = space.run(&format!("{} --queries queries.tsv -q -k 10", collection.aggregate()));
    assert_eq!(failed.status.code(), Some(1));
    assert!(failed.err.contains("shard 2 is missing"), "{}", failed.err);
    // The node restarts under the same address, and all shards are served again.
    let address = collection.nodes[6].address.clone();
    collection.nodes[6] =
        Listening::start(space, &format!("node --listen {address} --shard 2=part2"));
    let start = Instant::now();
    while collection.search(&server.address, &body("jay ibis", 5000, strict)).0 != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "it is not found again");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_node_takes_a_cohort_that_is_larger_than_its_capacity() {
    let space = Space::new();
    let line = |i: usize| format!("{{\"id\":\"d{i}\",\"text\":\"ant w{i}\"}}\n");
    space.write("all.jsonl", (0..100).map(line).collect::<String>());
    space.run("index all.jsonl -o idx --quiet").ok();
    let queries: String = (0..64).map(|i| format!("q{i}\tant w{i}\n")).collect();
    space.write("queries.tsv", queries);
    let node =
        Listening::start(&space, "node --listen 127.0.0.1:0 -j 1 --shard 0=idx --capacity 1");
    let asked = "--queries queries.tsv -q -k 10";
    let found = space.run(&format!("aggregate --nodes {} --shards 1 {asked}", node.address)).ok();
    assert_eq!(found, space.run(&format!("run idx {asked}")).ok());
}

#[test]
fn an_aggregator_has_defaults_and_ends_at_once_if_it_is_told_twice() {
    let space = Space::new();
    space.write("all.jsonl", "{\"id\":\"a\",\"text\":\"ant\"}\n");
    space.run("index all.jsonl -o idx --quiet").ok();
    let node = Listening::start(&space, "node --listen 127.0.0.1:0 -j 1 --shard 0=idx");
    let line =
        format!("aggregate --nodes {} --shards 1 --listen 127.0.0.1:0 --deadline 0", node.address);
    let mut server = Listening::start(&space, &line);
    let ask = |body: &str| {
        let mut connection = Connection::open(&server.address).unwrap();
        let (status, body) = connection.ask("POST", "/v1/search", body).unwrap();
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    // There is no default deadline.
    let (status, found) = ask(r#"{"query": "ant"}"#);
    assert!(status == 200 && found["coverage"]["complete"] == false, "{found}");
    let (status, found) = ask(r#"{"query": "ant", "deadline_ms": 3600000}"#);
    assert!(status == 200 && found["hits"][0]["id"] == "a", "{found}");
    // A request whose body never arrives completely stays open until the limit, unless a second
    // signal arrives.
    let mut slow = std::net::TcpStream::connect(&server.address).unwrap();
    let head = "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
    std::io::Write::write_all(&mut slow, head.as_bytes()).unwrap();
    ask(r#"{"query": "ant"}"#);
    let start = Instant::now();
    while server.process.try_wait().unwrap().is_none() {
        let id = server.process.id().to_string();
        // The process may have ended by now.
        let _ = Command::new("kill").args(["-TERM", &id]).stderr(Stdio::null()).status();
        assert!(start.elapsed() < Duration::from_secs(120), "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[test]
fn nodes_come_and_go_with_the_file_that_lists_them() {
    let collection = Collection::start();
    let space = &collection.space;
    let list = |nodes: &[Listening]| {
        let lines: String = nodes.iter().map(|node| format!("{}\n", node.address)).collect();
        // The file is replaced atomically: readers see the old list or the new one.
        space.write("new.txt", format!("# a replica of each shard\n{lines}"));
        std::fs::rename(space.path("new.txt"), space.path("nodes.txt")).unwrap();
    };
    let (first, second) = collection.nodes.split_at(SHARDS);
    list(first);
    let line = format!("aggregate --nodes nodes.txt --shards {SHARDS} --listen 127.0.0.1:0");
    let server = Listening::start(space, &line);
    let nodes = || {
        let (status, body) =
            Connection::open(&server.address).unwrap().ask("GET", "/v1/cluster", "").unwrap();
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<serde_json::Value>(&body).unwrap()
    };
    let ask = |i: usize| {
        let body =
            format!(r#"{{"query": "ant fox w{i}", "deadline_ms": 60000, "allow_partial": false}}"#);
        let (status, found) = collection.search(&server.address, &body);
        assert_eq!(status, 200, "{found}");
        found["hits"].clone()
    };
    let want = ask(0);
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let start = Instant::now();
        while !done(&nodes()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {}", nodes());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    list(second);
    until("other nodes", &|seen| {
        seen["nodes"][0]["address"] == second[0].address.as_str()
            && seen["replicas"] == serde_json::json!([1, 1, 1, 1])
    });
    // Nodes that are no longer listed are not needed.
    first.iter().for_each(|node| node.signal("-KILL"));
    assert_eq!(ask(1), want);
    // An invalid list leaves the last valid one in effect.
    std::fs::remove_file(space.path("nodes.txt")).unwrap();
    until("no list", &|seen| {
        seen["list_problem"].as_str().is_some_and(|why| why.contains("nodes.txt"))
    });
    assert_eq!(ask(2), want);
}

#[test]
fn a_hung_node_does_not_make_answers_late() {
    let collection = Collection::start();
    let server = Listening::start(
        &collection.space,
        &format!("{} --listen 127.0.0.1:0", collection.aggregate()),
    );
    let ask = |i: usize| {
        let body = format!(
            r#"{{"query": "ant bee fox w{i}", "k": 7, "deadline_ms": 60000, "allow_partial": false}}"#
        );
        let (status, found) = collection.search(&server.address, &body);
        assert!(status == 200, "{found}");
        found["hits"].clone()
    };
    let want = ask(0);
    collection.nodes[1].signal("-STOP");
    collection.nodes[7].signal("-STOP");
    for i in 1..40 {
        // The words at the end are in no document, so that no answer comes from the cache.
        assert_eq!(ask(i), want);
    }
    collection.nodes[1].signal("-CONT");
    collection.nodes[7].signal("-CONT");
    assert_eq!(ask(40), want);
}

#[test]
fn a_node_ends_when_it_is_asked_to_and_mistakes_are_refused() {
    let mut collection = Collection::start();
    collection.nodes[0].signal("-TERM");
    assert_eq!(collection.nodes[0].process.wait().unwrap().code(), Some(0));
    let space = &collection.space;
    space
        .run("node --listen 127.0.0.1:0 --shard 0=part0 --shard 0=part1")
        .fails(2, &["shard 0", "twice"]);
    space.run("node --listen 127.0.0.1:0 --shard 0=nowhere").fails(2, &["shard 0 in nowhere"]);
    space.run("node --listen 0.0.0.0:0 --shard 0=part0").fails(2, &["--insecure"]);
    space.run("node --listen somewhere --shard 0=part0").fails(2, &["`somewhere`"]);
    space.run("aggregate --nodes nowhere --shards 4 --listen 127.0.0.1:0").fails(2, &["nowhere"]);
    space
        .run("aggregate --nodes 127.0.0.1:1 --shards 4 --listen 127.0.0.1:0")
        .fails(1, &["no node answers", "127.0.0.1:1: ", "refused"]);
    space
        .run("aggregate --nodes host1 --shards 4 --listen 127.0.0.1:0")
        .fails(2, &["host1", "no such file", "host1:9300"]);
    space
        .run("aggregate --nodes host1:9300,host2 --shards 4 --listen 127.0.0.1:0")
        .fails(2, &["`host2` has no port", "host2:9300"]);
    for option in [
        "--mode and",
        "--count",
        "--among ids.txt",
        "--filter ant",
        "--syntax",
        "--words",
        "--rank okapi",
        "--k1 1.5",
        "--b 0.5",
        "--static-weight 1",
        "-k 5",
        "-o r.trec",
        "--tag x",
        "--on-error skip",
        "--allow-partial",
    ] {
        space
            .run(&format!("aggregate --nodes host1:9300 --shards 4 --listen 127.0.0.1:0 {option}"))
            .fails(2, &["--listen", "cannot be used with"]);
    }
    space.write("short.txt", "too short");
    space.write("nodes-token.txt", "0123456789abcdef");
    for (options, wanted) in [
        ("--listen 0.0.0.0:0", "--client-token-file"),
        ("--listen 127.0.0.1:0 --token-file nodes-token.txt", "--client-token-file"),
        ("--listen 127.0.0.1:0 --client-token-file short.txt", "short.txt"),
        ("--listen 127.0.0.1:0 --http-key x", "--http-certificate"),
        ("--listen 127.0.0.1:0 --connections 0", "1..=1000000"),
        ("--listen 127.0.0.1:0 --cache 9000T", "give 0 to 8192T bytes"),
        ("--queries queries.tsv --client-token-file short.txt", "--queries"),
    ] {
        space.run(&format!("{} {options}", collection.aggregate())).fails(2, &[wanted]);
    }
    space
        .run("node --listen 127.0.0.1:0 --shard 0=part0 --token-file short.txt")
        .fails(2, &["short.txt", "16"]);
    let bad = space.pipe(&format!("{} --queries - --syntax", collection.aggregate()), b"(ant\n");
    bad.fails(2, &["stdin:1"]);
    let bad = space.pipe(
        &format!("{} --queries - --syntax --on-error skip -q", collection.aggregate()),
        b"(ant\nant\n",
    );
    assert!(bad.says("1 query was skipped").ok().starts_with("2 Q0 "));
    let few = collection.aggregate().replace("--shards 4", "--shards 3");
    space
        .pipe(&format!("{few} --queries -"), b"ant\n")
        .fails(2, &["has shard 3", "correct the number of shards"]);
}

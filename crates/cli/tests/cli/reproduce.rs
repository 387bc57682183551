//! `reproduce`: the listing, and a whole run over tiny data, interrupted and continued. The tests
//! check that values are present, not what they are.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Space;

/// Returns a run of the command that finds no GPU.
fn command(space: &Space, line: &str) -> Command {
    let mut command = space.command();
    command.args(line.split_whitespace()).env("CUDA_VISIBLE_DEVICES", "");
    command
}

#[test]
fn the_listing_has_every_table_and_figure() {
    let space = Space::new();
    let all = space.run("reproduce --list --json").json();
    let counts: Vec<usize> =
        all.as_array().unwrap().iter().map(|d| d["entries"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [7, 5, 44, 6, 8]);
    let gaioso = space.run("reproduce gaioso --list --json").json();
    let entries = gaioso[0]["entries"].as_array().unwrap();
    let table = entries.iter().find(|entry| entry["entry"] == "table 5.4").unwrap();
    assert_eq!(table["paper"]["rows"][0]["values"][1], 25.84);
    assert_eq!((&table["values"], &table["needs"]), (&"measured".into(), &"GPU".into()));
    let step = &table["steps"][0];
    assert!(step["command"].as_str().unwrap().starts_with("warpseek bench gpu --pruning"));
    assert!(step["data"][0].as_str().unwrap().starts_with("warpseek synth"), "{step}");
    let out = space.run("reproduce --list").ok();
    for line in ["table 5.14", "figure 7.8", "total by sums", "figure 9"] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("computed") && out.contains("plot"), "{out}");
    assert!(!out.contains("not measured"), "{out}");
}

#[test]
fn mistakes_are_named() {
    let space = Space::new();
    space.write("mine/thesis.txt", "words");
    space.run("reproduce ding --quick -o mine").fails(2, &["mine", "other files", "-o"]);
    assert_eq!(space.list("mine"), ["thesis.txt"]);
    space.run("reproduce ding").fails(2, &["--output <DIR>"]);
    space.run("reproduce ducks --list").fails(2, &["ducks", "walkowiak"]);
    space.run("reproduce --list -o out").fails(2, &["--list"]);
}

/// Interrupts a run as soon as it has its first result.
fn interrupt(space: &Space, line: &str) {
    let mut child = command(space, line).stderr(Stdio::null()).spawn().unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    while space.list("out/results").is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its first result");
        assert!(Instant::now() < give_up, "there is no result");
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Returns the result of a step.
fn result(space: &Space, name: &str) -> Value {
    serde_json::from_str(&space.read(&format!("out/results/{name}.json"))).unwrap()
}

/// Returns the cells of the row of a page that begins with these labels.
fn row(page: &str, labels: &str) -> Vec<String> {
    let line = page.lines().find(|line| line.starts_with(labels));
    let line = line.unwrap_or_else(|| panic!("{labels} is not in {page}"));
    line[labels.len()..].split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn a_run_is_interrupted_and_continues_and_writes_all_pages() {
    let space = Space::new();
    let line = "reproduce all --tiny -o out";
    interrupt(&space, line);
    let first = fs::metadata(space.path("out/results/gov2.json")).unwrap().modified().unwrap();
    assert!(!space.path("out/ding.md").exists());

    let done = command(&space, line).output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{errors}");
    assert!(errors.contains("warpseek bench codecs"), "{errors}");
    let again = fs::metadata(space.path("out/results/gov2.json")).unwrap().modified().unwrap();
    assert_eq!(first, again, "the first result was measured again");

    let ding = space.read("out/ding.md");
    let cells = row(&ding, "| Rice | CPU |");
    assert!(cells[0].starts_with("310.6 / ") && cells[0].matches('/').count() == 2, "{cells:?}");
    assert_eq!(row(&ding, "| Rice | GPU |")[1], "305.3 / needs a GPU");
    assert!(ding.contains("This is a tiny run") && ding.contains("(ding-figure-3.svg)"), "{ding}");
    assert!(space.read("out/ding-figure-3.svg").contains("<rect"));
    let walkowiak = space.read("out/walkowiak.md");
    let cells = row(&walkowiak, "| CPU, bins |");
    assert!(cells.iter().any(|cell| cell.starts_with("- / ")), "{cells:?}");
    assert!(space.read("out/walkowiak-figure-3.svg").contains("<circle"));
    let gaioso = space.read("out/gaioso.md");
    let cells = row(&gaioso, "| extra | 5494285 |");
    assert!(cells[0].starts_with("202.8 / ") && cells[0].matches('/').count() == 2, "{cells:?}");
    let wakatsuki = space.read("out/wakatsuki.md");
    assert!(row(&wakatsuki, "| 100 MB |")[1].starts_with("24411 / "), "{wakatsuki}");
    let cells = row(&wakatsuki, "| MRP: MapReduce on the CPU |");
    assert!(cells[0].starts_with("- / 0."), "{cells:?}");
    assert_eq!(row(&wakatsuki, "| MRM: MapReduce on the GPU |")[0], "- / needs a GPU");
    let agrawal = space.read("out/agrawal.md");
    assert!(agrawal.contains("| 97657 / 97657 / 1 | 320 / "), "{agrawal}");
    for page in [&ding, &walkowiak, &gaioso, &wakatsuki, &agrawal] {
        assert!(!page.contains("not measured yet") && !page.contains("failed"), "{page}");
    }

    // Another run measures only what is missing; without measuring, pages say so.
    let date = result(&space, "plan")["date"].clone();
    assert_eq!(date.as_str().unwrap().len(), "2026-01-02".len());
    fs::remove_file(space.path("out/results/plan.json")).unwrap();
    let done = command(&space, "reproduce agrawal --tiny -o out --pages").output().unwrap();
    assert!(done.status.success());
    assert!(space.read("out/agrawal.md").contains("97657 / not measured yet"));
    let done = command(&space, "reproduce agrawal --tiny -o out").output().unwrap();
    let errors = String::from_utf8(done.stderr).unwrap();
    assert!(errors.contains("warpseek plan --json"), "{errors}");
    assert!(!errors.contains("warpseek synth"), "{errors}");
    assert!(space.read("out/agrawal.md").contains("97657 / 97657 / 1"));
}

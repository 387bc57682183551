//! Several GPUs, the CPU and GPUs together, and the choice between them, with the emulator
//! instead of CUDA's libraries.

use serde_json::Value;

use crate::gpu::{Machine, QUERIES};

#[test]
fn devices_together_give_the_same_bytes_as_the_cpu() {
    let machine = Machine::new();
    // There are enough queries for every device to take some.
    let queries: Vec<String> = machine.0.read("q.tsv").lines().map(str::to_owned).collect();
    let text = |i: usize| queries[i % QUERIES].split('\t').next_back().unwrap().to_owned();
    let many: String = (0..8 * QUERIES).map(|i| text(i) + "\n").collect();
    machine.0.write("many.txt", &many);
    let [order, reverse] = ["emulated, in order", "emulated, in reverse"];
    let devices = [
        ("cuda --gpus 0,1", format!("on {order} and {reverse} in")),
        ("cuda --gpus 1,1 --split queries", format!("on {reverse} and {reverse} in")),
        ("auto --gpus 1 --gpu-from 0", format!("on {reverse} in")),
        // The measured share depends on the load of the machine.
        ("both", format!("{order} (")),
        (
            "both --host-share 0.3 --gpus 1,0",
            format!(
                "on the CPU and {reverse} and {order} (the CPU's part of the documents is 0.300, as requested) in"
            ),
        ),
        (
            "both --host-share 1",
            format!("on the CPU and {order} (the CPU's part of the documents is 1.000"),
        ),
        (
            "both --host-share 0",
            format!("on {order} (the CPU's part of the documents is 0, as requested) in"),
        ),
        ("both --split queries --host-threads 2", format!("on the CPU and {order}")),
        ("both --gpus 0,1 --split queries", format!("on the CPU and {order} and {reverse}")),
    ];
    for options in ["-k 10", "-k 100 --mode and", "-k 5 --mode and-or --count"] {
        let line = format!("run idx --queries many.txt {options}");
        let expected = machine.run(&line, "").ok();
        for (choice, says) in &devices {
            let run = machine.run(&format!("{line} --device {choice}"), "").says(says);
            assert!(run.ok() == expected, "{choice} {options}: different hits");
        }
    }
    let line = "run idx --queries many.txt --mode and";
    let expected = machine.run(line, "").ok();
    for devices in ["cuda --gpus 0,1 --split queries", "cuda --gpus 0,1", "both --host-share 0.4"] {
        for algorithm in ["intersect", "cohort", "maxscore --no-block-maxima"] {
            let options = format!("--device {devices} --algorithm {algorithm}");
            assert!(machine.run(&format!("{line} {options}"), "").ok() == expected, "{options}");
        }
    }
    let line = "run idx --queries many.txt -k 10";
    let expected = machine.run(line, "").ok();
    for algorithm in ["cohort", "wand"] {
        let options = format!("--device both --host-share 0.4 --algorithm {algorithm}");
        let run = machine.run(&format!("{line} {options}"), "").says("documents is 0.400");
        assert!(run.ok() == expected, "{options}");
    }
}

#[test]
fn missing_devices_and_wrong_combinations_are_reported() {
    let machine = Machine::new();
    let line = "run idx --queries q.tsv -k 10";
    for (choice, faults, code, says) in [
        ("cuda --gpus 0,7", "", 2, "there is no GPU 7"),
        ("both --gpu 7", "", 2, "there is no GPU 7"),
        ("both", "cuInit@1=100", 2, "sees no GPU"),
        ("both --host-share 0.5", "cuLaunchKernel@1=999!", 1, "cuLaunchKernel failed"),
        ("cuda --gpus 0,1 --gpu-memory 1000", "", 2, "--gpu-memory"),
        (
            "both --algorithm wand --partition homogeneous",
            "",
            2,
            "`wand` with homogeneous partitions is approximate",
        ),
        (
            "cuda --gpus 0,1 --algorithm maxscore --partition homogeneous",
            "",
            2,
            "add `--split queries` or `--partition heterogeneous`",
        ),
    ] {
        machine.run(&format!("{line} --device {choice}"), faults).fails(code, &[says]);
    }
    for (choice, says) in [
        ("both --host-share 2", "`2` is not a number from 0 to 1"),
        ("cuda --gpu 0 --gpus 0,1", "cannot be used with"),
    ] {
        machine.run(&format!("{line} --device {choice}"), "").code(2).says(says);
    }
    // With `auto`, the CPU answers everything.
    let auto = machine.run(&format!("{line} --device auto --gpus 0,7"), "");
    assert_eq!(auto.says("there is no GPU 7").ok(), machine.run(line, "").ok());
}

fn plan(machine: &Machine, options: &str) -> Value {
    let word = machine.0.read("q.tsv");
    let word = word.lines().next().and_then(|l| l.split('\t').next_back()).unwrap();
    let found = machine.run(&format!("search idx {word} --json --explain-plan {options}"), "");
    found.json()["plan"].take()
}

#[test]
fn plans_are_explained() {
    let machine = Machine::new();
    let cpu = plan(&machine, "");
    assert_eq!(cpu["device"], "CPU", "{cpu:#}");
    assert!(cpu["estimate"].is_null(), "nothing to choose from: {cpu:#}");
    let lists = cpu["lists"].as_array().unwrap().iter().map(|l| l["postings"].as_u64().unwrap());
    assert_eq!(lists.sum::<u64>(), cpu["postings"].as_u64().unwrap());
    assert_eq!((&cpu["k"], &cpu["batch"]), (&10.into(), &1.into()));

    // Such a small index is searched faster on the CPU, so it is not copied to the GPU.
    let auto = plan(&machine, "--device auto");
    assert_eq!(auto["device"], "CPU", "{auto:#}");
    assert!(auto["why"].as_str().unwrap().starts_with("faster than on the GPU; "), "{auto:#}");
    let time = |device: &str| auto["estimate"][device]["microseconds"].as_f64().unwrap();
    assert!(time("cpu") <= time("gpu"), "{auto:#}");
    // All considered algorithms are listed with a time or a reason.
    let of = |device: &str, name: &str| {
        let candidates = auto["estimate"][device]["candidates"].as_array().unwrap();
        candidates.iter().find(|c| c["algorithm"] == name).unwrap().clone()
    };
    assert_eq!(of("gpu", "pruned tiles")["microseconds"], auto["estimate"]["gpu"]["microseconds"]);
    assert!(of("gpu", "tiles")["microseconds"].is_number());
    assert!(of("cpu", "windowed-maxscore")["microseconds"].is_number());
    assert_eq!(of("cpu", "taat")["why_not"], "it is for many terms", "{auto:#}");
    assert_eq!(of("cpu", "taat")["microseconds"], Value::Null);
    let source = auto["calibration"].as_str().unwrap();
    assert!(source.contains("no query was timed here yet"), "{auto:#}");
    assert!(cpu["calibration"].is_null(), "{cpu:#}");
    machine.run("search idx x --device auto", "cuLaunchKernel@1=999!").ok();

    let forced = plan(&machine, "--device auto --gpu-from 0");
    assert_eq!(forced["device"], "emulated, in order", "{forced:#}");
    assert_eq!(forced["algorithm"], "pruned tiles");
    assert_eq!(plan(&machine, "--device auto --gpu-from 999999999")["device"], "CPU");
    let counted = plan(&machine, "--device cuda --count");
    assert_eq!(counted["algorithm"], "tiles");
    assert_eq!(counted["estimate"]["gpu"]["candidates"][0]["why_not"], "matches are counted");
    assert!(plan(&machine, "--device cuda --algorithm exhaustive")["estimate"].is_null());
    let none = plan(&machine, "--device both --host-share 0");
    assert_eq!(none["device"], "emulated, in order", "{none:#}");
    assert!(
        none["why"].as_str().unwrap().starts_with("the CPU's part of the documents is 0, "),
        "{none:#}"
    );
    let both = plan(&machine, "--device both --host-share 0.5");
    assert_eq!(both["device"], "CPU + emulated, in order", "{both:#}");

    let text = machine.run("search idx x --explain-plan --algorithm wand", "").ok();
    assert!(text.contains("plan: on CPU, by wand: asked for\n  "), "{text}");
    assert!(text.contains("  mode or, k 10, batch of 1, 300 documents, "), "{text}");
}

#[test]
fn plans_of_a_run_are_explained() {
    let machine = Machine::new();
    let line = "run idx --queries q.tsv -k 10 --explain-plan --device";
    let expected = machine.run("run idx --queries q.tsv -k 10", "").ok();
    let auto = machine.run(&format!("{line} auto"), "");
    let auto = auto.says("16 of them on the CPU, which was faster, in");
    let auto = auto.says("on CPU, by ").says("  1 batch of up to 16 queries\n  estimated: ");
    let auto = auto.says("\n    GPU: pruned tiles ").says("taat (it is for many terms)");
    assert_eq!(auto.ok(), expected);
    let cuda = machine.run(&format!("{line} cuda"), "");
    let cuda = cuda.says("plan: 16 queries on emulated, in order, by pruned tiles: ");
    assert_eq!(cuda.says("  mean per query: ").ok(), expected);
    let count = machine.run(&format!("{line} cuda --count -q"), "");
    assert_eq!(count.says("16 queries on emulated, in order, by tiles: all").ok(), expected);
    // The CPU answers the queries that the GPU could not answer.
    let failed = machine.run(&format!("{line} auto --gpu-from 0"), "cuLaunchKernel@1=999!");
    assert_eq!(failed.says("on CPU, by ").ok(), expected);
}

//! `--device cuda` and `--device auto`, with the emulator instead of CUDA's libraries: what
//! works, and everything that can fail.

use std::process::Command;

use warpseek_testkit::skips::elsewhere;

use crate::support::{Done, Space};

/// A directory whose programs find the emulator when they look for a GPU, with queries and a
/// small index.
pub(crate) struct Machine(pub(crate) Space);

pub(crate) const QUERIES: usize = 16;

impl Machine {
    pub(crate) fn new() -> Self {
        let space = Space::new();
        space.run("synth --docs 300 --vocabulary 500 --mu 2 -o docs.jsonl -q").ok();
        let queries = "synth --docs 300 --vocabulary 500 --mu 2 -o q.tsv -q --queries";
        space.run(&format!("{queries} {QUERIES}")).ok();
        space.run("index docs.jsonl -o idx -q").ok();
        space.add_emulator();
        Machine(space)
    }

    fn command(&self, line: &str, faults: &str) -> Command {
        let mut command = self.0.command();
        command.args(line.split_whitespace());
        command.env("EMULATOR_FAULTS", faults);
        command
    }

    pub(crate) fn run(&self, line: &str, faults: &str) -> Done {
        done(line, &mut self.command(line, faults))
    }
}

fn done(line: &str, command: &mut Command) -> Done {
    Done::new(line.to_owned(), command.output().unwrap())
}

#[test]
fn a_gpu_gives_the_same_bytes_as_the_cpu() {
    let machine = Machine::new();
    for options in ["-k 10", "-k 100 --mode and", "-k 5 --mode and-or --count", "--rank cosine"] {
        let line = format!("run idx --queries q.tsv {options}");
        let cpu = machine.run(&line, "").ok();
        let gpu = machine.run(&format!("{line} --device cuda"), "");
        assert_eq!(gpu.says("16 queries on emulated, in order in").ok(), cpu, "{options}");
        let gpu = machine.run(&format!("{line} --device auto --gpu 1 --gpu-from 0"), "");
        assert_eq!(gpu.says("on emulated, in reverse").ok(), cpu, "{options}");
        for algorithm in ["cohort --cohort 5 --tile 100", "exhaustive", "wand"] {
            let gpu = machine.run(&format!("{line} --device cuda --algorithm {algorithm}"), "");
            assert_eq!(gpu.says("on emulated, in order").ok(), cpu, "{options}, {algorithm}");
        }
    }
    let report = machine.run("devices --json", "memory=400000").json();
    assert_eq!(report["devices"][0]["usable"], true, "{report:#}");
    assert_eq!(report["devices"][0]["nvrtc"], "12.8");
    let bench = "bench gpu --index idx --queries q.tsv --rounds 1 --singles 1 --modes or --json";
    let report = machine.run(bench, "").json();
    assert_eq!(report["cells"][0]["compared"], QUERIES);
    assert!(report["images"][0]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn deadlines_are_measured_on_a_gpu() {
    let machine = Machine::new();
    let line = "bench deadlines --index idx --queries q.tsv -q --json --modes or,and-or";
    let tiles = machine.run("inspect idx --json --device cuda", "").json();
    let bytes = tiles["gpu"]["residency"][0]["bytes_used"].as_u64().unwrap();
    for options in ["", "--batch 5", &format!("--batch 7 --gpu-memory {}", bytes * 3 / 4)] {
        let more = "--device cuda --deadlines 0,100000";
        let report = machine.run(&format!("{line} {more} {options}"), "").json();
        let cells = report["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 4, "{options}");
        for cell in cells {
            let in_time = cell["deadline_ms"] == 100_000.0;
            let (covered, partial) = if in_time { (1.0, 0.0) } else { (0.0, 1.0) };
            let found = (cell["covered"].as_f64().unwrap(), cell["partial"].as_f64().unwrap());
            assert_eq!(found, (covered, partial), "{options}: {cell}");
            assert_eq!(cell["algorithm"], "auto");
        }
    }
    let cpu = machine.run(&format!("{line} --gpu-memory 1G"), "");
    cpu.fails(2, &["--gpu-memory has no effect on the CPU; add --device cuda"]);
}

#[test]
fn lists_may_be_on_the_gpu_in_any_form() {
    let machine = Machine::new();
    let line = "run idx --queries q.tsv -k 20";
    let cpu = machine.run(line, "").ok();
    let residency = |options: &str| {
        let found = machine.run(&format!("inspect idx --json --device cuda {options}"), "").json();
        found["gpu"]["residency"][0].clone()
    };
    let tiles = residency("--gpu-lists tiles")["bytes_used"].as_u64().unwrap();
    let less = format!("--gpu-memory {}", tiles * 3 / 4);
    for (options, form) in [
        ("--gpu-lists tiles", "tiles"),
        ("--gpu-lists compact", "compact"),
        ("--gpu-lists on-demand", "compact"),
        (&less, "compact"),
    ] {
        let gpu = machine.run(&format!("{line} --device cuda {options}"), "");
        assert_eq!(gpu.ok(), cpu, "{options}");
        let found = residency(options);
        assert_eq!(found["form"], form, "{options}: {found:#}");
        assert!(found["bytes_used"].as_u64().unwrap() > 0, "{found:#}");
        assert_eq!(found["cache"].is_null(), form == "tiles", "{found:#}");
    }
    let inspected = machine.run("inspect idx --device cuda", "").ok();
    for part in ["on the GPU", "layout of lists", "bytes per posting", "ready after"] {
        assert!(inspected.contains(part), "{part} in {inspected}");
    }

    // One query needs little; many need all.
    let queries = machine.0.read("q.tsv");
    let word = queries.split_whitespace().nth(1).unwrap();
    let search = format!("search idx {word} --device cuda --explain-plan");
    let found = machine.run(&search, "").ok();
    assert!(found.contains("lists are loaded when queries need them"), "{found}");
    let found = machine.run(&format!("{search} --gpu-lists tiles"), "").ok();
    assert!(found.contains("all lists are loaded as tiles"), "{found}");
    let found = machine.run(&format!("{search} --json"), "").json();
    let lists = &found["plan"]["residency"][0]["cache"]["lists"];
    let asked = ["tiles", "compressed", "main_memory"].map(|level| lists[level].as_u64().unwrap());
    assert!(asked.iter().sum::<u64>() > 0, "{found:#}");
    let run = machine.run(&format!("{line} --device cuda --gpu-lists compact --explain-plan"), "");
    run.says("%) compressed").ok();

    machine.run(&format!("{line} --gpu-lists tiles"), "").fails(2, &["add `--device cuda`"]);
    machine.run(&format!("{line} --device cuda --gpu-lists flat"), "").fails(2, &["on-demand"]);
    machine
        .run(&format!("{line} --device cuda --gpu-lists tiles --gpu-memory {}", tiles / 2), "")
        .fails(2, &["--gpu-memory"]);
    machine.run("inspect idx --device cuda --gpu 7", "").fails(2, &["there is no GPU 7"]);
}

/// Failures, the exit code of `--device cuda`, and the message.
const FAILURES: [(&str, &str, i32, &str); 12] = [
    ("", "cuInit@1=100", 2, "sees no GPU; check nvidia-smi"),
    ("", "cuda=11080", 2, "the NVIDIA driver is too old: it speaks CUDA 11.8"),
    ("", "capability=70", 2, "7.5 is needed"),
    ("", "memory=1000", 2, "are free; end other programs on the GPU"),
    ("--gpu-memory 1000", "", 2, "--gpu-memory leaves 0.0 MiB; raise it"),
    ("--gpu 7", "", 2, "there is no GPU 7"),
    ("", "nvrtcCompileProgram@2=6", 2, "does not compile for sm_90; set WARPSEEK_NVRTC"),
    ("", "cuModuleLoadData@1=222", 2, "update the driver"),
    ("", "cuMemHostAlloc@1+=2", 2, "docker run --ulimit memlock=-1"),
    ("", "cuMemAlloc_v2@1+=2", 2, "the GPU is out of memory"),
    ("", "cuLaunchKernel@1=999!", 1, "cuLaunchKernel failed"),
    ("", "cuStreamQuery@4=719", 1, "failed on the device"),
];

#[test]
fn failures_are_errors_with_cuda_and_the_cpu_answers_with_auto() {
    let machine = Machine::new();
    let expected = machine.run("run idx --queries q.tsv -k 20", "").ok();
    for (option, faults, code, says) in FAILURES {
        // Kernels are compiled in every run.
        let _ = std::fs::remove_dir_all(machine.0.path("cache"));
        let line = format!("run idx --queries q.tsv -k 20 --gpu-from 0 {option}");
        machine.run(&format!("{line} --device cuda"), faults).fails(code, &[says]);
        let _ = std::fs::remove_dir_all(machine.0.path("cache"));
        let auto = machine.run(&format!("{line} --device auto"), faults).says(says);
        assert!(auto.err.contains("on the CPU"), "{}", auto.err);
        assert_eq!(auto.err.matches(says).count(), 1, "said twice: {}", auto.err);
        assert_eq!(auto.ok(), expected, "{option} {faults}");
        let line = format!("search idx x {option} --gpu-from 0 --device");
        machine.run(&format!("{line} auto"), faults).ok();
    }
    for (variable, value, says) in [
        ("WARPSEEK_NVRTC", "/nowhere/libnvrtc.so.12", "found none of /nowhere/libnvrtc.so.12"),
        ("WARPSEEK_NVRTC", "docs.jsonl", "pip install nvidia-cuda-nvrtc-cu12"),
        ("LD_LIBRARY_PATH", "/nowhere", "no NVIDIA driver"),
    ] {
        let line = "run idx --queries q.tsv -k 20 --gpu-from 0 --device";
        if variable == "LD_LIBRARY_PATH" && machine.0.run("devices").out.contains("GPU 0") {
            elsewhere("a machine without a driver", "this machine has one");
            continue;
        }
        let run = |device: &str| {
            let line = format!("{line} {device}");
            done(&line, machine.command(&line, "").env(variable, value))
        };
        run("cuda").fails(2, &[says]);
        assert_eq!(run("auto").says(says).ok(), expected);
    }
}

/// Checks failures during a run. With this many hits per query, a batch has four queries.
#[test]
fn a_gpu_may_fail_in_the_middle_of_a_run() {
    let machine = Machine::new();
    let line = "run idx --queries q.tsv -k 1000000 -o run.trec --gpu-from 0 --device";
    machine.run(&format!("{line} cpu"), "").ok();
    let expected = machine.0.read("run.trec");
    let mut in_the_middle = 0;
    for faults in ["cuLaunchKernel@11=999!", "cuStreamQuery@18=719", "cuMemcpyHtoDAsync_v2@7=999!"]
    {
        let auto = machine.run(&format!("{line} auto"), faults);
        assert_eq!(auto.err.matches("the GPU failed").count(), 1, "{faults}: {}", auto.err);
        auto.says("in order, then on the CPU in").says("16 queries").ok();
        assert!(machine.0.read("run.trec") == expected, "{faults}: not the same");

        machine.run(&format!("{line} cuda"), faults).says("--device cpu").code(1);
        let part = machine.0.read("run.trec");
        assert!(expected.starts_with(&part) && part.len() < expected.len(), "{faults}");
        in_the_middle += usize::from(!part.is_empty());
        let query = |line: Option<&str>| line.and_then(|l| l.split(' ').next()).map(str::to_owned);
        let next = query(expected[part.len()..].lines().next());
        assert!(query(part.lines().last()) != next, "{faults}: half a query");
    }
    assert!(in_the_middle > 0, "every failure was in the first batch");
}

#[test]
fn cached_kernels_may_be_damaged_or_not_writable() {
    let machine = Machine::new();
    let line = "run idx --queries q.tsv -k 20 --device cuda";
    let expected = machine.run(line, "").ok();
    let kernels = machine.0.list("cache/kernels");
    assert!(kernels.len() >= 3, "{kernels:?}");
    // A cached kernel is used: nothing is compiled.
    assert_eq!(machine.run(line, "nvrtcCompileProgram@1=6").ok(), expected);
    for damage in ["", "wskernel", "something else that is no kernel at all"] {
        for name in &kernels {
            machine.0.write(&format!("cache/kernels/{name}"), damage);
        }
        assert_eq!(machine.run(line, "").ok(), expected);
        assert_eq!(machine.run(line, "nvrtcCompileProgram@1=6").ok(), expected, "not repaired");
    }
    for name in &kernels {
        std::fs::remove_file(machine.0.path(&format!("cache/kernels/{name}"))).unwrap();
        std::fs::create_dir(machine.0.path(&format!("cache/kernels/{name}"))).unwrap();
    }
    assert_eq!(machine.run(line, "").ok(), expected, "unreadable");
    let mut command = machine.command(line, "");
    let unwritable = done(line, command.env("WARPSEEK_CACHE", machine.0.path("docs.jsonl")));
    assert_eq!(unwritable.ok(), expected);
}

/// Checks that `bench load` rejects an emulated GPU, whose times would be meaningless.
#[test]
fn load_is_not_measured_on_an_emulated_gpu() {
    let machine = Machine::new();
    machine.0.write("log.tsv", "1\tapple\n");
    let load = "bench load --index idx --queries log.tsv -q --configurations gpu --seconds 0.1";
    machine.run(load, "").fails(2, &["there is no GPU to measure", "an emulated one"]);
}

/// Cohorts of all sizes have the CPU's hits, and the matrices of one can be read by NumPy.
#[test]
fn cohorts_are_measured_and_written() {
    let machine = Machine::new();
    let bench = "bench gpu --cohorts --index idx --queries q.tsv --rounds 1 --json";
    let line = format!("{bench} --cohort 1,8 --tile 64,100000 -k 3 --matrices m");
    let report = machine.run(&line, "").json();
    let cells = report["cells"].as_array().unwrap();
    let of = |engine: &str| cells.iter().filter(|cell| cell["engine"] == engine).count();
    assert_eq!((of("cohort"), of("auto"), of("CPU")), (4, 2, 1), "{report:#}");
    let read = |name: &str| std::fs::read(machine.0.path("m").join(name)).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&read("about.json")).unwrap();
    assert_eq!(about["queries"], 8);
    let hits = read("hits.npy");
    assert!(hits.starts_with(b"\x93NUMPY\x01\x00"));
    assert_eq!(hits.len() % 64, 8 * 3 * 4 % 64, "values begin at a multiple of 64");
    let postings = about["postings"].as_u64().unwrap() as usize;
    assert_eq!(read("docs_columns.npy").len() % 64, postings * 4 % 64);
}

/// The same sweep on the CPU and the GPU. The emulator has no energy counter, and the report says
/// so instead of leaving it out.
#[test]
fn cohorts_are_measured_on_cpu_and_gpu() {
    let machine = Machine::new();
    let bench = "bench cohorts --cuda --index idx --queries q.tsv --rounds 1 --cohort 1,8";
    let report = machine.run(&format!("{bench} --tile 64,100000 -k 3 --json"), "").json();
    let cells = report["cells"].as_array().unwrap();
    let of = |engine: &str| cells.iter().filter(|cell| cell["engine"] == engine).count();
    assert_eq!((of("cohort"), of("auto"), of("CPU")), (4, 2, 4), "{report:#}");
    let best = report["best"].as_array().unwrap();
    assert_eq!(best.len(), 4);
    assert!(best[2]["of_cpu"].as_f64().is_some_and(|ratio| ratio > 0.0), "{}", best[2]);
    assert_eq!(best[2]["paper_of_cpu"], 1.09);
    let unreadable = report["unreadable"].to_string();
    assert!(unreadable.contains("GPU: not readable: "), "{unreadable}");
    assert!(unreadable.contains("cuDeviceGetPCIBusId"), "{unreadable}");
    let out = machine.run(&format!("{bench} --tile 64 -k 3 --energy-seconds 0 -q"), "").ok();
    assert!(out.contains("Figure 6b") && out.contains("GPU: not readable"), "{out}");
}

/// Checks the steps of rounds and their bytes, classes of queries, and table 2. Measured values
/// are checked only if they must add up.
#[test]
fn steps_and_classes_of_queries_are_measured() {
    /// GPU memory of the emulator. The measurement of copies uses a fraction of it.
    const SMALL: &str = "memory=2000000";
    let machine = Machine::new();
    let bench = "bench gpu --index idx --queries q.tsv --rounds 1 --singles 3 --kernels --classes";
    for (options, kernels) in [
        ("--modes or,and-or -k 10", vec!["pruned_tiles", "merge"]),
        ("--modes and-or -k 40 --exhaustive", vec!["and_tiles", "merge", "or_tiles"]),
    ] {
        let report = machine.run(&format!("{bench} {options} --json"), SMALL).json();
        let of = |name: &str| report[name].as_array().unwrap();
        let cells = of("cells").len();
        assert_eq!(of("table_2").len(), if options.contains("-k 10") { cells } else { 0 });
        assert!(report["copy_bytes_per_s"].as_f64().unwrap() > 0.0);
        assert_eq!(of("kernels").len(), 2 * cells, "in a batch and one at a time");
        for cell in of("kernels") {
            let steps = cell["steps"].as_array().unwrap();
            let figure = |step: &serde_json::Value, name: &str| step[name].as_f64().unwrap();
            let sum: f64 = steps.iter().map(|step| figure(step, "share")).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{cell:#}");
            let named = |name: &str| steps.iter().find(|step| step["name"] == name);
            // A single query is sent with the arguments, and merges its own hits.
            let alone = cell["way"] != "batch" && kernels[0] == "pruned_tiles";
            let twice = named("pruned_single_two_pass").is_some();
            let kernels = match alone {
                true => vec![if twice { "pruned_single_two_pass" } else { "pruned_single" }],
                false => kernels.clone(),
            };
            for name in &kernels {
                let step = named(name).unwrap_or_else(|| panic!("no {name}: {cell:#}"));
                assert!(figure(step, "bytes") > 0.0 && figure(step, "of_copy") > 0.0, "{step:#}");
                assert!(figure(step, "postings_per_s") > 0.0, "{step:#}");
            }
            assert_eq!(named("copy in").is_none(), alone, "{cell:#}");
            if let Some(copy) = named("copy in") {
                assert!(figure(copy, "bytes") > 0.0 && copy["postings_per_s"].is_null());
            }
            let last = steps.last().unwrap();
            assert_eq!((&last["name"], &last["bytes"]), (&"host".into(), &().into()));
            assert_eq!(cell["queries"], if cell["way"] == "batch" { QUERIES } else { 3 });
        }
        let queries: u64 = of("classes").iter().map(|c| c["queries"].as_u64().unwrap()).sum();
        assert_eq!(queries, (cells * QUERIES) as u64, "{report:#}");
        assert!(of("classes").iter().all(|class| class["p50_us"].as_f64().unwrap() > 0.0));
    }
    let text = machine.run(&format!("{bench} --modes or"), SMALL).ok();
    for part in ["Table 2", "Table 3", "212.72", "pruned_tiles", "from text to hits", "by number"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let plain = machine.run(&bench.replace("--kernels --classes", "-k 3"), "").ok();
    assert!(!plain.contains("Table") && !plain.contains("pruned_tiles"), "{plain}");
    machine.run("bench gpu --codecs --kernels", "").fails(2, &["cannot be used with"]);
}

/// Checks every table of (Gaioso 2019), with the CPU's hits in exact settings. Tables go to
/// standard error and the report to standard output.
#[test]
fn wand_and_maxscore_are_measured() {
    let machine = Machine::new();
    // Lists of more than one block.
    machine.0.run("synth --docs 600 --vocabulary 70 --mu 2 -o few.jsonl -q").ok();
    machine.0.run("synth --docs 600 --vocabulary 70 --mu 2 -o few.tsv -q --queries 4").ok();
    machine.0.run("index few.jsonl -o few -q").ok();
    let bench = "bench gpu --pruning --index few --queries few.tsv --rounds 1 --json";
    let done = machine.run(bench, "").says("Table 5.13: maxscore, and").says("recall");
    let report = done.json();
    let cells = report["cells"].as_array().unwrap();
    let of = |table: &str| cells.iter().filter(|cell| cell["table"] == table).count();
    // Settings times four classes.
    assert_eq!(["5.4", "5.7", "5.10", "5.13"].map(of), [4 * 48; 4]);
    assert_eq!(["7.2", "7.3", "7.4"].map(of), [54, 54, 2]);
    let exact = cells.iter().filter(|cell| cell["partitioning"] == "heterogeneous");
    assert!(exact.clone().count() > 300 && exact.clone().all(|cell| cell["recall"] == 1.0));
    let goals = &report["goals"][0];
    assert!(goals["asynchronous_speedup"].as_f64().unwrap() > 0.0, "{goals:#}");
    assert!(goals["safe_read_over_local"].as_f64().unwrap() > 0.0, "{goals:#}");
}

#[test]
fn n_grams_on_a_gpu_give_the_same_bytes_as_on_the_cpu() {
    let machine = Machine::new();
    machine.run("ngram index docs.jsonl -o grams -q", "").ok();
    // A second segment, of a few documents, some of which replace others.
    let docs = std::fs::read_to_string(machine.0.path("docs.jsonl")).unwrap();
    machine.0.write(
        "few.jsonl",
        docs.lines().take(3).map(|line| format!("{line}\n")).collect::<String>(),
    );
    machine.run("ngram add grams few.jsonl -q", "").ok();
    let published = ["--misses 6 --algorithm bins", "--misses 60% -k 3 --algorithm baseline"];
    let ours = ["--misses 6", "--errors 2 --verify -k 3", "--misses 60% -k 100"];
    for options in ours.into_iter().chain(published) {
        let line = format!("ngram run grams q.tsv {options}");
        let cpu = machine.run(&line, "").ok();
        let gpu = machine.run(&format!("{line} --device cuda"), "");
        assert_eq!(gpu.says("by emulated, in order").ok(), cpu, "{options}");
    }
    // The output reports how many candidates the GPU verified and how many the CPU verified
    // instead: here those of a query with more letters than the GPU supports.
    let words = docs.chars().filter(|c| c.is_ascii_alphanumeric() || *c == ' ');
    let long: String = words.take(2100).collect();
    machine.0.write("long.tsv", format!("1\t{}\n2\t{long}\n", &long[..60]));
    let line = "ngram run grams long.tsv --misses 99% --verify --format jsonl --snippet";
    let cpu = machine.run(line, "").ok();
    let gpu = machine.run(&format!("{line} --device cuda"), "");
    let gpu = gpu
        .says("verified on the GPU and ")
        .says("copied to the GPU, where 0 candidates had theirs already");
    assert_eq!(gpu.ok(), cpu);
    machine.run("ngram index docs.jsonl -o small -q --codec ef", "").ok();
    let refused = machine.run("ngram search small abc --device cuda", "");
    refused.fails(2, &["codec rice or bitpack"]);
}

#[test]
fn bench_ngram_measures_every_engine_and_saves_phrases() {
    let machine = Machine::new();
    // Every document has different words, so that a phrase identifies its document.
    let word = |i: u32| format!("w{:x}", i.wrapping_mul(2_654_435_761));
    let document = |doc: u32| {
        let words: Vec<String> = (0..30).map(|i| word(doc * 30 + i)).collect();
        format!("{}\n", serde_json::json!({ "id": format!("d{doc}"), "text": words.join(" ") }))
    };
    machine.0.write("words.jsonl", (0..40).map(document).collect::<String>());
    machine.run("ngram index words.jsonl -o grams -q", "").ok();
    let line = "bench ngram --index grams --cuda --json -q --phrases 4 --misses 3 --batch 8 --save-phrases phrases.jsonl";
    let report = machine.run(line, "").json();
    let engines: Vec<&str> =
        report["times"].as_array().unwrap().iter().filter_map(|t| t["engine"].as_str()).collect();
    let cpu = ["baseline", "bins", "counting"];
    let gpu = ["gpu baseline", "gpu bins", "gpu counting", "cpu, then gpu", "gpu, then cpu"];
    assert_eq!(engines, [&cpu[..], &gpu[..]].concat());
    assert_eq!(report["recall"][0]["recall"], 1.0, "{report:#}");
    let saved = std::fs::read_to_string(machine.0.path("phrases.jsonl")).unwrap();
    let phrases: Vec<serde_json::Value> =
        saved.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(phrases.len(), 4 * 5);
    assert!(phrases.iter().all(|p| p["doc"].as_str().unwrap().starts_with('d')), "{saved}");
    assert_eq!(phrases[7]["errors"], 2);
    let refused = machine.run(&line.replace("phrases.jsonl", "missing/phrases.jsonl"), "");
    refused.fails(2, &["missing/phrases.jsonl"]);
    let line = "bench ngram --index grams --cuda --measure verify --json -q --batch 8";
    let report = machine.run(line, "").json();
    let measured = report["verification"].as_array().unwrap();
    let engines: Vec<&str> = measured.iter().filter_map(|v| v["engine"].as_str()).collect();
    let gpu = ["gpu, texts copied", "gpu, texts there"];
    assert_eq!(engines, [&["cpu, one by one", "cpu, batch"][..], &gpu[..]].concat());
    let read = |i: usize| measured[i]["texts_read"].as_u64().unwrap();
    assert!(read(2) > 0 && read(3) == 0, "{report:#}");
}

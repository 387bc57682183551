//! Development tasks of the workspace: `cargo xtask ci` runs all checks.

mod browser;
mod clients;
mod cluster;
mod environments;
mod gpu;
mod house;
mod neon;
mod peers;
mod programs;
mod python;
mod server;
mod skips;
mod steps;
mod stores;
mod test_programs;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use steps::Step;

const USAGE: &str = "\
usage: cargo xtask <task> [--no-skips]

Tests that lack a dependency are skipped and listed at the end; with --no-skips, they are failures.

  ci         all checks: house, words, format, lints, all tests, docs, examples, clients, python, cluster, kernels, library code of the fuzz targets
  house      check the structure of the tree: cycles of modules, floors of crates, sizes, head comments
  words      check the English of comments, messages and pages; needs Python, npm and a network for spelling and grammar
  clients    run real clients of Elasticsearch and others, and a browser, against a server; needs Python and a network
  kernels    compile every kernel with NVRTC from PyPI; needs no GPU
  python     test the Python package with a debug build; needs Python and a network. --soak: run a million searches with a dist build;
             --bench [--rfc FILE]: compare it with the command line, bm25s and Pyserini
  cluster    test the Ray driver with nodes of a debug build; needs Python and a network
  stores     test collections and snapshots in S3 and Azure, with servers on this machine; needs Python, npm and a network
  wheel      build a wheel of the Python package in target/wheels, and test it in fresh environments
  gpu-tests  build the tests of the GPU crates as programs for a machine with a GPU, in target/gpu-tests
  neon       test the vector code for AArch64 in an emulator; lists the tools that are missing
  soak       run the long tests in a release build, some for a number of seconds: cargo xtask soak [SECONDS], 60 by default
  fuzz       run each fuzz target for a number of seconds: cargo xtask fuzz [SECONDS]
  peers      compare the speed with other engines: cargo xtask peers --help";

/// Examples of the library, which must run.
const EXAMPLES: [&str; 6] = [
    "in_memory",
    "batch_arrays",
    "gpu_with_fallback",
    "refresh_while_searching",
    "explain",
    "service",
];

/// Crates outside the workspace whose lock files contain crates of the workspace.
const OUTSIDE: [&str; 4] =
    ["fuzz", "xtask/filter-peers", "xtask/ngram-peers", "xtask/phrase-peers"];

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let strict = args.iter().any(|arg| arg == skips::FLAG);
    args.retain(|arg| arg != skips::FLAG);
    let mut args = args.into_iter();
    let Some(task) = args.next().filter(|task| TASKS.contains(&task.as_str())) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let args: Vec<String> = args.collect();
    if let Some(arg) = unread(&task, &args) {
        eprintln!("`cargo xtask {task}` does not take `{arg}`\n\n{USAGE}");
        return ExitCode::from(2);
    }
    let done = skips::begin().and_then(|()| perform(&task, args.into_iter()));
    let shown = skips::end(strict);
    match done.and(shown) {
        Ok(()) => ExitCode::SUCCESS,
        Err(step) => {
            eprintln!("\nfailed: {step}");
            ExitCode::FAILURE
        }
    }
}

const TASKS: [&str; 14] = [
    "ci",
    "house",
    "words",
    "clients",
    "kernels",
    "python",
    "cluster",
    "stores",
    "wheel",
    "gpu-tests",
    "neon",
    "soak",
    "fuzz",
    "peers",
];

/// Returns the first argument that a task would not read, for example a misspelt flag.
fn unread<'a>(task: &str, args: &'a [String]) -> Option<&'a str> {
    let read = match task {
        // These tasks check their arguments themselves.
        "peers" => return None,
        "python" if args.first().is_some_and(|arg| arg == "--bench") => return None,
        "python" | "soak" | "fuzz" => 1,
        _ => 0,
    };
    args.get(read).map(String::as_str)
}

fn perform(task: &str, mut args: impl Iterator<Item = String>) -> Result<(), String> {
    match task {
        "ci" => ci(),
        "house" => house::check(),
        "words" => words::check(),
        "clients" => clients::run(&[]),
        "kernels" => gpu::kernels(&[]),
        "python" => python::run_with(args),
        "cluster" => cluster::tests(&[]),
        "stores" => stores::tests(&[]),
        "wheel" => python::wheel(),
        "gpu-tests" => gpu::tests(),
        "neon" => neon::tests(),
        "soak" => soak(args.next().as_deref().unwrap_or("60")),
        "fuzz" => fuzz(args.next().as_deref().unwrap_or("60")),
        "peers" => peers::run(args),
        _ => Err(format!("there is no task `{task}`")),
    }
}

fn ci() -> Result<(), String> {
    let start = Instant::now();
    step("the structure of the tree", house::check)?;
    cargo(&["fmt", "--all", "--check"], &[])?;
    for folder in OUTSIDE {
        locked(folder)?;
    }
    // All steps use the same flags, so that nothing is compiled twice. A single full build is
    // faster without incremental compilation and debug information.
    let flags = [
        ("RUSTFLAGS", "-D warnings"),
        ("CARGO_INCREMENTAL", "0"),
        ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ];
    // The check of words keeps one core busy.
    let lints = || cargo(&["clippy", "--workspace", "--all-targets", "--locked"], &flags);
    side_by_side(|| step("the words", words::check), lints)?;
    test_programs::run(&flags)?;
    build_examples(&flags)?;
    for name in EXAMPLES {
        run(&mut example(name), &format!("example {name}"))?;
    }
    let strict = [&flags[..], &[("RUSTDOCFLAGS", "-D warnings")]].concat();
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &strict)?;
    // The tests of a cluster wait most of the time, so others run beside them.
    let others = || {
        clients::run(&flags)?;
        python::tests(&flags)?;
        gpu::kernels(&flags)
    };
    side_by_side(|| cluster::tests(&flags), others)?;
    // The targets themselves need nightly Rust and a C++ compiler, but the library code they call
    // does not.
    let fuzz = ["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"];
    let target = target();
    let shared = [&flags[..], &[("CARGO_TARGET_DIR", target.to_str().unwrap_or("target"))]];
    let parts = ["--no-default-features", "--lib", "--examples"];
    cargo(&[&fuzz[..], &parts].concat(), &shared.concat())?;
    eprintln!("\nall checks passed in {} s:\n\n{}", start.elapsed().as_secs(), steps::table());
    Ok(())
}

/// Runs two checks at the same time, each in a thread.
fn side_by_side(
    first: impl FnOnce() -> Result<(), String> + Send,
    second: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        let first = first.join().unwrap_or_else(|_| Err("a check has panicked".to_owned()));
        first.and(second)
    })
}

/// Runs a check as a step with a name.
fn step(name: &str, check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let _step = Step::begin(name);
    check()
}

/// Checks that a lock file is up to date, early rather than when the crate is built at the end.
fn locked(folder: &str) -> Result<(), String> {
    let manifest = format!("{folder}/Cargo.toml");
    cargo(&["update", "--workspace", "--locked", "--quiet", "--manifest-path", &manifest], &[])
}

/// Runs tests that search for a given time, in a release build.
fn soak(seconds: &str) -> Result<(), String> {
    let with = [("WARPSEEK_SOAK_SECONDS", seconds)];
    let test = |package: &str, test: &str, name: &str| {
        let args = ["test", "--release", "-p", package, "--test", test, name, "--", "--nocapture"];
        cargo(&args, &with)
    };
    test("warpseek", "concurrent", "")?;
    test("warpseek-sched", "service", "every_schedule")?;
    let kills =
        ["test", "--release", "-p", "warpseek-cli", "--test", "kill_writes", "--", "--nocapture"];
    cargo(&kills, &[("WARPSEEK_KILLS", "1000")])?;
    let served =
        ["test", "--release", "-p", "warpseek-cli", "--test", "kill_serve", "--", "--nocapture"];
    cargo(&served, &[("WARPSEEK_KILLS", "20"), ("WARPSEEK_LIFE_MS", "60000")])?;
    let oracle =
        ["test", "--release", "-p", "warpseek-cli", "--test", "oracle", "--", "--nocapture"];
    cargo(&oracle, &[("WARPSEEK_ORACLE_SECONDS", seconds), ("WARPSEEK_ORACLE_ROUNDS", "10")])?;
    let pruned = [
        "test",
        "--release",
        "-p",
        "warpseek-exec-gpu-papers",
        "--test",
        "partitioned",
        "random_queries",
        "--",
        "--nocapture",
    ];
    cargo(&pruned, &[("WARPSEEK_SOAK_QUERIES", "20000")])
}

fn fuzz(seconds: &str) -> Result<(), String> {
    let seconds: u32 =
        seconds.parse().map_err(|_| format!("`{seconds}` is not a number of seconds"))?;
    let mut targets: Vec<String> = std::fs::read_dir("fuzz/fuzz_targets")
        .map_err(|e| format!("fuzz/fuzz_targets: {e}"))?
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned))
        .collect();
    targets.sort();
    let limit = format!("-max_total_time={seconds}");
    for target in targets {
        let args =
            ["+nightly", "fuzz", "run", &target, "--", &limit, "-max_len=65536", "-timeout=10"];
        run(Command::new("cargo").args(args), &args.join(" "))?;
    }
    Ok(())
}

fn cargo_command() -> Command {
    Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
}

/// Builds the examples of all crates with the features of tests, so that nothing is compiled
/// twice.
fn build_examples(env: &[(&str, &str)]) -> Result<(), String> {
    cargo(&["build", "--workspace", "--examples", "--locked"], env)
}

/// Returns the command of an example that was built.
fn example(name: &str) -> Command {
    Command::new(target().join("debug/examples").join(name))
}

/// Returns cargo's target directory.
fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    run(cargo_command().args(args).envs(env.iter().copied()), &format!("cargo {}", args.join(" ")))
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    let step = Step::begin(name);
    let status = skips::collect(command).status().map_err(|e| format!("{name}: {e}"))?;
    drop(step);
    if status.success() { Ok(()) } else { Err(name.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_side_by_side_all_run_and_fail_together() {
        let fails = || Err("broken".to_owned());
        assert_eq!(side_by_side(|| Ok(()), || Ok(())), Ok(()));
        assert_eq!(side_by_side(fails, || Ok(())), fails());
        assert_eq!(side_by_side(|| Ok(()), fails), fails());
        assert!(side_by_side(|| panic!("on purpose"), || Ok(())).is_err());
    }

    #[test]
    fn arguments_that_no_task_reads_are_found() {
        let found = |task: &str, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            unread(task, &args).map(str::to_owned)
        };
        for task in TASKS {
            assert_eq!(found(task, &[]), None, "{task}");
        }
        for task in ["ci", "clients", "kernels", "cluster", "stores", "wheel", "gpu-tests", "neon"]
        {
            assert_eq!(found(task, &["--no-skip"]).as_deref(), Some("--no-skip"), "{task}");
        }
        for task in ["soak", "fuzz"] {
            assert_eq!(found(task, &["5"]), None);
            assert_eq!(found(task, &["5", "6"]).as_deref(), Some("6"));
        }
        assert_eq!(found("python", &["--soak"]), None);
        assert_eq!(found("python", &["--soak", "--bench"]).as_deref(), Some("--bench"));
        assert_eq!(found("python", &["--bench", "--rfc", "file"]), None);
        assert_eq!(found("peers", &["--tables", "a", "b"]), None);
    }
}

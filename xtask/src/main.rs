//! Development tasks of the workspace: `cargo xtask ci` runs all checks.

mod browser;
mod clients;
mod cluster;
mod gpu;
mod neon;
mod peers;
mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "\
usage: cargo xtask <task>

  ci         format, lints, all tests, docs, examples, kernels, library code of the fuzz targets
  clients    run real clients of Elasticsearch and others, and a browser, against a server; needs Python and a network. --require: fail if they are not available
  kernels    compile every kernel with NVRTC from PyPI; needs no GPU. --require: fail if NVRTC is not available
  python     test the Python package with a debug build; needs Python and a network. --require: fail if they are not available; --soak: a million searches with a release build;
             --bench [--rfc FILE]: measure it beside the command line, bm25s and Pyserini
  cluster    test the Ray driver with nodes of a debug build; needs Python and a network. --require: fail if they are not available
  wheel      build a wheel of the Python package in target/wheels, and try it in fresh environments
  gpu-tests  build the tests of the GPU crates as programs for a machine with a GPU, in target/gpu-tests
  neon       test the vector code for AArch64 in an emulator; says what is missing if it cannot
  soak       run the tests that take long, each for a number of seconds: cargo xtask soak [SECONDS], 60 by default
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

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let outcome = match args.next().as_deref() {
        Some("ci") => ci(),
        Some("clients") => clients::run(args.next().as_deref() == Some("--require"), &[]),
        Some("kernels") => gpu::kernels(args.next().as_deref() == Some("--require"), &[]),
        Some("python") => python::run_with(args),
        Some("cluster") => cluster::tests(args.next().as_deref() == Some("--require"), &[]),
        Some("wheel") => python::wheel(),
        Some("gpu-tests") => gpu::tests(),
        Some("neon") => neon::tests(),
        Some("soak") => soak(args.next().as_deref().unwrap_or("60")),
        Some("fuzz") => fuzz(args.next().as_deref().unwrap_or("60")),
        Some("peers") => peers::run(args),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(step) => {
            eprintln!("\nfailed: {step}");
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), String> {
    let start = Instant::now();
    cargo(&["fmt", "--all", "--check"], &[])?;
    let deny = [("RUSTFLAGS", "-D warnings")];
    // Lints and tests use the same flags, so that nothing is compiled twice.
    cargo(&["clippy", "--workspace", "--all-targets", "--locked"], &deny)?;
    // A test that waits for ever is named instead of waited for.
    let limit = "timeout --foreground --kill-after=10 1200";
    let runner = [deny[0], ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", limit)];
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"], &runner)?;
    build_examples(&deny)?;
    for name in EXAMPLES {
        run(&mut example(name), &format!("example {name}"))?;
    }
    let strict = [deny[0], ("RUSTDOCFLAGS", "-D warnings")];
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &strict)?;
    clients::run(false, &deny)?;
    python::tests(false, &deny)?;
    cluster::tests(false, &deny)?;
    gpu::kernels(false, &deny)?;
    let fuzz = ["check", "--manifest-path", "fuzz/Cargo.toml", "--locked"];
    // The targets themselves need nightly Rust and a C++ compiler; the library code they call does
    // not.
    cargo(&[&fuzz[..], &["--no-default-features", "--lib", "--examples"]].concat(), &[])?;
    eprintln!("\nall checks passed in {} s", start.elapsed().as_secs());
    Ok(())
}

/// Tests that search for as long as they are told, in a release build.
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
    cargo(&served, &[("WARPSEEK_KILLS", "20"), ("WARPSEEK_LIFE_MS", "60000")])
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

/// Builds the examples of all crates with the features of tests, so that nothing is compiled twice.
fn build_examples(env: &[(&str, &str)]) -> Result<(), String> {
    cargo(&["build", "--workspace", "--examples", "--locked"], env)
}

/// An example that was built.
fn example(name: &str) -> Command {
    Command::new(target().join("debug/examples").join(name))
}

/// Where cargo builds.
fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from)
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    run(cargo_command().args(args).envs(env.iter().copied()), &format!("cargo {}", args.join(" ")))
}

fn run(command: &mut Command, name: &str) -> Result<(), String> {
    eprintln!("\n== {name}");
    let start = Instant::now();
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    eprintln!("== {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(name.to_owned()) }
}

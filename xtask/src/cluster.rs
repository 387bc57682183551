//! Tests of the Ray driver of a cluster, with the nodes and the aggregator of a debug build.

use std::path::Path;
use std::process::Command;

use crate::environments::environment;
use crate::{run, skips, target};

/// Packages of python/cluster and its tests. The version of Ray is that of its pyproject.toml.
const PACKAGES: [&str; 3] = ["mypy==2.4.1", "pytest==9.2.0", "ray==2.60.0"];

/// Runs the tests and type checks if Python and Ray are available.
pub(crate) fn tests(env: &[(&str, &str)]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let (folder, source) = (target().join("cluster"), root.join("python/cluster"));
    pinned(&source)?;
    let python = match environment(&folder.join("environment"), &PACKAGES) {
        Ok(python) => python,
        Err(why) => return skips::note("the Ray driver, python/cluster", &why),
    };
    // The build has the same features as in tests, so that nothing is compiled twice.
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--workspace", "--locked", "--bins", "--examples"]);
    run(build.current_dir(root).envs(env.iter().copied()), "cargo build, for python/cluster")?;
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(folder.join("mypy"));
    run(mypy.current_dir(&source), "mypy --strict, python/cluster")?;
    let mut pytest = skips::pytest(&python, &source)?;
    pytest.arg("-x").env("WARPSEEK_BIN", target().join("debug").join("warpseek"));
    run(pytest.current_dir(&source), "pytest, python/cluster")
}

/// Checks that the tests run with the version of Ray that users get.
fn pinned(source: &Path) -> Result<(), String> {
    let file = source.join("pyproject.toml");
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let ray = PACKAGES.iter().find(|package| package.starts_with("ray=="));
    match ray.is_some_and(|ray| text.contains(&format!("\"{ray}\""))) {
        true => Ok(()),
        false => Err(format!("{} requires a different version of Ray than xtask", file.display())),
    }
}

//! Tests of collections and snapshots in object stores: a build with support for all stores,
//! against servers that speak the protocols of S3 and Azure.

use std::path::Path;
use std::process::Command;

use crate::environments::{environment, npm_environment};
use crate::{cargo, run, skips, target};

/// A server for S3 on this machine.
const PACKAGES: [&str; 1] = ["moto[server]==5.2.5"];

/// A server for Azure Blob Storage on this machine.
const NODE_PACKAGES: [&str; 1] = ["azurite@3.37.0"];

/// Runs the tests if the servers are available.
pub(crate) fn tests(env: &[(&str, &str)]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let folder = target().join("stores");
    let available = || {
        let python = environment(&folder.join("environment"), &PACKAGES)?;
        npm_environment(&folder.join("node"), &NODE_PACKAGES)?;
        Ok::<_, String>(python)
    };
    let python = match available() {
        Ok(python) => python,
        Err(why) => return skips::note("object stores", &why),
    };
    // Everything else has the features of tests, so that little is compiled again.
    let features = "warpseek-cli/s3,warpseek-cli/gcs,warpseek-cli/azure";
    cargo(
        &["build", "--workspace", "--locked", "--bins", "--examples", "--features", features],
        env,
    )?;
    // The program gets a different name, because other tests use the one without stores.
    let program = folder.join("warpseek");
    std::fs::copy(target().join("debug/warpseek"), &program).map_err(|e| e.to_string())?;
    let mut script = Command::new(python);
    script.arg(root.join("crates/collection/tests/stores.py"));
    script.arg(program).arg(folder.join("node"));
    run(&mut script, "collections and snapshots in object stores")
}

//! Tests of the server's page in a real browser, driven by clicks and keys:
//! crates/server/tests/browser with Debian's Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environments::environment;
use crate::programs::{found, quietly};
use crate::server::Server;
use crate::skips;
use crate::steps::Step;

const PACKAGES: [&str; 1] = ["selenium==4.51.0"];
const SYSTEM_PACKAGES: [&str; 3] = ["chromium", "chromium-driver", "fonts-dejavu-core"];
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVERS: [&str; 1] = ["chromedriver"];

/// Runs the page's test if there is a browser. The test leaves pictures of the page in the
/// folder.
pub(crate) fn run(root: &Path, program: &Path, folder: &Path) -> Result<(), String> {
    const NAME: &str = "the page in a browser";
    let _step = Step::begin(NAME);
    let tools = environment(&folder.join("browser"), &PACKAGES)
        .and_then(|python| Ok((python, browser_and_driver()?)));
    let (python, (browser, driver)) = match tools {
        Ok(tools) => tools,
        Err(why) => return skips::note(NAME, &why),
    };
    let server = Server::start(program, &folder.join("data"))?;
    let done = Command::new(python)
        // Python must not write bytecode into the folder of the tests.
        .arg("-B")
        .arg(root.join("crates/server/tests/browser/page.py"))
        .args([Path::new(&server.url), program, &browser, &driver, &folder.join("pictures")])
        .status()
        .map_err(|e| e.to_string())?;
    server.end()?;
    if done.success() { Ok(()) } else { Err(NAME.into()) }
}

/// Returns the browser and driver of the system, and installs them if that is possible.
fn browser_and_driver() -> Result<(PathBuf, PathBuf), String> {
    let both = || Some((found(&BROWSERS)?, found(&DRIVERS)?));
    if let Some(both) = both() {
        return Ok(both);
    }
    let missing = "chromium or chromedriver is missing";
    let user = Command::new("id").arg("-u").output().map_err(|e| e.to_string())?;
    if user.stdout.trim_ascii() != b"0" || found(&["apt-get"]).is_none() {
        return Err(format!("{missing}, and only root can install Debian's"));
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        quietly(command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    apt(&["update", "-q"])?;
    apt(&[&["install", "-qy", "--no-install-recommends"], &SYSTEM_PACKAGES[..]].concat())?;
    both().ok_or_else(|| missing.to_owned())
}

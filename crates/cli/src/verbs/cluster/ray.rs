//! `warpseek cluster up`, `scale`, `roll`, `status` and `down`: run the Python package
//! `warpseek_cluster`, which controls clusters on Ray.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use warpseek_console::Failure;

/// Environment variable that names the Python with the package, instead of `python3`.
const PYTHON: &str = "WARPSEEK_PYTHON";

/// Pass options to the Python package `warpseek_cluster`
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Options of `python -m warpseek_cluster`; --help shows them
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Replaces this process by the Python package, which then receives signals and sets the exit code.
pub(super) fn run(verb: &str, options: &Options) -> Result<ExitCode, Failure> {
    let python = std::env::var_os(PYTHON).unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let mut probe = Command::new(&python);
    probe.args(["-c", "import warpseek_cluster, ray"]).stdin(Stdio::null());
    let probed = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = probed.map_err(|error| {
        Failure::user(format!(
            "`cluster {verb}` needs Python: {name}: {error}; name one with {PYTHON}"
        ))
    })?;
    if !found.success() {
        return Err(Failure::user(format!(
            "`cluster {verb}` needs the Python package warpseek-cluster, which {name} does not have; \
             install it with `{name} -m pip install ./python/cluster`, or name another Python with {PYTHON}"
        )));
    }
    let mut command = Command::new(&python);
    command.args(["-m", "warpseek_cluster", verb]).args(&options.words);
    // Nodes run this program unless the user names another one.
    let named = options.words.iter().any(|word| word.to_string_lossy().starts_with("--program"));
    if verb == "up" && !named {
        command.arg("--program").arg(std::env::current_exe()?);
    }
    become_it(command).map_err(|error| Failure::broken(format!("{name}: {error}")))
}

#[cfg(unix)]
fn become_it(mut command: Command) -> Result<ExitCode, std::io::Error> {
    use std::os::unix::process::CommandExt;
    Err(command.exec())
}

#[cfg(not(unix))]
fn become_it(mut command: Command) -> Result<ExitCode, std::io::Error> {
    let code = command.status()?.code();
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

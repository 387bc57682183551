//! Reports of tests that this machine cannot run. They go to the real standard error, past the
//! capture of the test harness, and to a file that `cargo xtask` specifies and shows at the end.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;
use std::path::Path;

/// Environment variable with the path of the file to append skips to. `cargo xtask` sets it for
/// all programs that it starts.
pub const VARIABLE: &str = "WARPSEEK_SKIPS";

/// Reports that something is not tested because a dependency that can be installed or downloaded
/// is missing. It makes `cargo xtask ci --no-skips` fail.
#[track_caller]
pub fn skipped(what: impl Display, why: impl Display) {
    say("skipped", &what, &why);
}

/// Reports that something is not tested because it is for machines of another kind, for example
/// with a GPU, or without one. It never counts as a failure.
#[track_caller]
pub fn elsewhere(what: impl Display, why: impl Display) {
    say("elsewhere", &what, &why);
}

#[track_caller]
fn say(kind: &str, what: &dyn Display, why: &dyn Display) {
    let line = line(kind, Location::caller().file(), &what.to_string(), &why.to_string());
    // One write per line, since tests run at the same time. The macros would write to the
    // harness, which shows the output only if the test fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        append(Path::new(&file), &line);
    }
}

/// Formats a skip as one line, even if a part of it contains line breaks.
fn line(kind: &str, file: &str, what: &str, why: &str) -> String {
    let one = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{kind}: {file}: {}: {}\n", one(what), one(why))
}

fn append(file: &Path, line: &str) {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Variable that makes the test below skip, for a child process.
    const CHILD: &str = "WARPSEEK_SKIPS_CHILD";

    #[test]
    fn a_child_that_skips() {
        if env::var_os(CHILD).is_some() {
            skipped("the collection\nnowhere", "it is not there");
            elsewhere("a GPU", "there is none");
        }
    }

    #[test]
    fn skips_are_seen_past_the_harness_and_collected() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("skips");
        let run = |named: bool| {
            let mut child = Command::new(env::current_exe().unwrap());
            child.args(["--exact", "skips::tests::a_child_that_skips"]).env(CHILD, "1");
            child.env_remove(VARIABLE);
            let output = if named { child.env(VARIABLE, &file) } else { &mut child }.output();
            let output = output.unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        };
        let here = file!().replace('\\', "/");
        let lines = format!(
            "skipped: {here}: the collection nowhere: it is not there\nelsewhere: {here}: a GPU: there is none\n"
        );
        assert_eq!(run(false), lines);
        assert!(!file.exists());
        assert_eq!(run(true), lines);
        assert_eq!(run(true), lines);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), lines.repeat(2));
    }
}

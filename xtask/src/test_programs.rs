//! All tests of the workspace. Cargo runs one program after the other; here, as many programs run
//! at the same time as there are cores, since those that use the emulator keep only one core
//! busy.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tempfile::TempDir;

use crate::steps::Step;
use crate::{cargo, cargo_command, skips, target};

/// Programs that take longest. They start first, so that none of them runs alone at the end.
const LONG: [&str; 6] = ["on_demand", "conformance", "devices", "gpu", "cli", "cohort"];

/// Time limit of a program, so that a test that hangs is reported.
const LIMIT: Duration = Duration::from_secs(1200);

/// Maximum number of tests of a program that run at the same time, since as many programs run as
/// there are cores.
const THREADS: usize = 4;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// Free bytes of memory from which on temporary files are kept there. Tests use up to 1 GB.
const TEMPORARY_BYTES: u64 = 8 << 30;

/// A message of cargo about something that it has built.
#[derive(Deserialize)]
struct Built {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// A program with tests.
struct Program {
    name: String,
    file: PathBuf,
    folder: PathBuf,
}

impl Program {
    /// Returns the program that a line of cargo's messages contains, if it has tests.
    fn of(message: &str) -> Option<Self> {
        let built: Built = serde_json::from_str(message).ok()?;
        let file = built.executable.filter(|_| built.profile.test)?;
        let folder = built.manifest_path.parent()?.to_owned();
        let package = folder.file_name()?.to_string_lossy().into_owned();
        Some(Program { name: format!("{package}/{}", built.target.name), file, folder })
    }

    fn is_long(&self) -> bool {
        LONG.iter().any(|name| self.name.ends_with(&format!("/{name}")))
    }

    /// Runs the program like cargo does, with a folder for temporary files. Its output goes to a
    /// file.
    fn run(&self, log: &Path, temporary: &Path) -> Result<(), String> {
        let told = |e: std::io::Error| format!("{}: {e}", log.display());
        let output = File::create(log).map_err(told)?;
        // A separate process group lets servers that the program started end with it.
        let process = skips::collect(&mut Command::new(&self.file))
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", cores().min(THREADS).to_string())
            .env("TMPDIR", temporary)
            .stdin(Stdio::null())
            .stderr(output.try_clone().map_err(told)?)
            .stdout(output)
            .process_group(0)
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut group = Group(process);
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            match group.0.try_wait().map_err(|e| e.to_string())? {
                Some(status) if ExitStatus::success(&status) => return Ok(()),
                Some(status) => return Err(status.to_string()),
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(format!("it took longer than {} s", LIMIT.as_secs()))
    }
}

/// A process and its process group, which end when this is dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // The group no longer exists if all its processes have ended.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// Builds and runs all tests. Failures are shown as they occur and listed at the end.
pub(crate) fn run(env: &[(&str, &str)]) -> Result<(), String> {
    let mut programs = build(env)?;
    programs.sort_by_key(|program| !program.is_long());
    let logs = target().join("tests");
    fs::create_dir_all(&logs).map_err(|e| format!("{}: {e}", logs.display()))?;
    let (count, at_once) = (programs.len(), cores());
    let step = Step::begin(format!("{count} programs with tests, {at_once} at once"));
    let temporary = temporary_folder()?;
    eprintln!("their output is in {}, and their files are in {temporary:?}", logs.display());
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    // A poisoned lock means that another worker has panicked; this one then takes no more
    // programs.
    let next = || waiting.lock().ok()?.pop_front();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let log = logs.join(format!("{}.log", program.name.replace('/', "-")));
                    let start = Instant::now();
                    let outcome = program.run(&log, temporary.path());
                    let said = fs::read(&log).unwrap_or_default();
                    let said = String::from_utf8_lossy(&said);
                    let seconds = start.elapsed().as_secs_f64();
                    match outcome {
                        Ok(()) => eprintln!("{seconds:6.1} s  {}: {}", program.name, passed(&said)),
                        Err(why) => {
                            eprintln!("{seconds:6.1} s  {} FAILED: {why}\n{said}", program.name);
                            failed.lock().map(|mut failed| failed.push(program.name)).ok();
                        }
                    }
                }
            });
        }
    });
    drop(step);
    let mut failed = failed.into_inner().map_err(|e| e.to_string())?;
    failed.extend(cargo(&["test", "--workspace", "--locked", "--doc"], env).err());
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("tests: {}", failed.join(", "))),
    }
}

/// Creates the folder for the temporary files of tests: in memory if there is enough, because
/// tests sync thousands of small files, which takes most of their time on a disk.
fn temporary_folder() -> Result<TempDir, String> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("warpseek-tests-");
    match free_bytes(MEMORY) >= TEMPORARY_BYTES {
        true => folder.tempdir_in(MEMORY),
        false => folder.tempdir(),
    }
    .map_err(|e| format!("no folder for temporary files: {e}"))
}

/// Returns the free bytes of the file system that contains a folder, or 0 if there is no such
/// folder.
fn free_bytes(folder: &str) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |system| system.f_bavail * system.f_frsize)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Builds all programs with tests.
fn build(env: &[(&str, &str)]) -> Result<Vec<Program>, String> {
    let args = ["test", "--workspace", "--locked", "--no-run"];
    let name = format!("cargo {}", args.join(" "));
    let step = Step::begin(&name);
    let output = cargo_command()
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .envs(env.iter().copied())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{name}: {e}"))?;
    drop(step);
    if !output.status.success() {
        return Err(name);
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Program::of).collect())
}

/// Returns the summary of the test harness without counts that are zero.
fn passed(said: &str) -> &str {
    let line = said.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    line.and_then(|line| line.split("; 0 failed").next()).unwrap_or("no summary of tests")
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn messages_of_cargo() {
        let message = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"p","manifest_path":"/w/crates/text/Cargo.toml","target":{{"kind":["test"],"name":"words","src_path":"/w"}},"profile":{{"opt_level":"1","test":{test}}},"features":[],"filenames":[],"executable":{executable},"fresh":true}}"#
            )
        };
        let program = Program::of(&message(true, "\"/w/target/words-1\"")).unwrap();
        assert_eq!(
            (program.name.as_str(), program.folder.as_path()),
            ("text/words", Path::new("/w/crates/text"))
        );
        assert!(Program::of(&message(false, "\"/w/target/words-1\"")).is_none(), "an example");
        assert!(Program::of(&message(true, "null")).is_none(), "a library");
        assert!(Program::of(r#"{"reason":"build-finished","success":true}"#).is_none());
    }

    #[test]
    fn what_the_harness_says() {
        let said = "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(passed(said), "ok. 2 passed");
    }

    #[test]
    fn a_program_that_fails_is_an_error() {
        let folder = std::env::temp_dir();
        let program =
            |file: &str| Program { name: "x/y".into(), file: file.into(), folder: folder.clone() };
        let log = folder.join(format!("warpseek-xtask-{}.log", std::process::id()));
        assert_eq!(program("true").run(&log, &folder), Ok(()));
        assert!(program("false").run(&log, &folder).unwrap_err().contains('1'));
        assert!(program("/no/such/program").run(&log, &folder).is_err());
        fs::remove_file(log).unwrap();
    }

    #[test]
    fn what_a_program_has_started_ends_with_it() {
        let process = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut group = Group(process);
        let mut sleeper = String::new();
        let mut output = BufReader::new(group.0.stdout.take().unwrap());
        output.read_line(&mut sleeper).unwrap();
        assert!(sleeper.trim().parse::<u32>().is_ok());
        drop(group);
        // The output stays open until the group has ended.
        assert_eq!(output.read_line(&mut sleeper).unwrap(), 0);
    }
}

//! A temporary directory in which tests create files, run commands and check their output.

// Each test target uses only a part of this module.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod kill;
pub(crate) mod server;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The algorithms that answer a query; all of them return the same hits.
pub(crate) const ALGORITHMS: [&str; 13] = [
    "auto",
    "reference",
    "daat",
    "taat",
    "wand",
    "maxscore",
    "block-max-wand",
    "block-max-maxscore",
    "windowed-maxscore",
    "cohort",
    "filtered",
    "tree",
    "decoded",
];

/// A temporary directory. Commands run inside it, so file names are short and messages do not vary.
pub(crate) struct Space {
    dir: TempDir,
}

impl Space {
    pub(crate) fn new() -> Self {
        Space { dir: TempDir::new().unwrap() }
    }

    /// Creates a directory with these documents in `docs.jsonl` and an index `idx` of them.
    pub(crate) fn with_index(documents: &str) -> Self {
        let space = Space::new();
        space.write("docs.jsonl", documents);
        space.run("index docs.jsonl -o idx --quiet").ok();
        space
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns the names in a directory, sorted.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        names(&self.path(name))
    }

    /// Returns a command that runs the program here, without environment variables that affect
    /// its output.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpseek"));
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_remove("NO_COLOR").env_remove("COLUMNS").env("TERM", "xterm-256color");
        command.env("WARPSEEK_CACHE", self.path("cache"));
        if self.path("lib").exists() {
            command.env("LD_LIBRARY_PATH", self.path("lib")).env_remove("WARPSEEK_NVRTC");
        }
        command
    }

    /// Lets programs find the emulator when they look for a GPU.
    pub(crate) fn add_emulator(&self) {
        let deps = std::env::current_exe().unwrap();
        let library = deps.with_file_name("libwarpseek_cuda_emulator.so");
        assert!(library.exists(), "{} was not built", library.display());
        fs::create_dir(self.path("lib")).unwrap();
        for name in ["libcuda.so.1", "libnvrtc.so.12"] {
            std::os::unix::fs::symlink(&library, self.path("lib").join(name)).unwrap();
        }
    }

    /// Runs a command; the arguments are separated by blanks.
    pub(crate) fn run(&self, line: &str) -> Done {
        self.args(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs a command whose arguments contain blanks.
    pub(crate) fn args(&self, args: &[&str]) -> Done {
        Done::new(args.join(" "), self.command().args(args).output().unwrap())
    }

    /// Runs a command with this standard input.
    pub(crate) fn pipe(&self, line: &str, input: &[u8]) -> Done {
        let mut command = self.command();
        command.args(line.split_whitespace()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Done::new(line.to_owned(), child.wait_with_output().unwrap())
    }

    /// Returns the ids that a search finds, best first.
    pub(crate) fn hits(&self, line: &str) -> Vec<String> {
        let found = self.run(&format!("search {line} --json")).json();
        let hits = found["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the number of documents in the index according to `verify`, which must find no
    /// damage.
    pub(crate) fn documents(&self, index: &str) -> u64 {
        let report = self.run(&format!("verify {index} --json")).json();
        assert_eq!(report["sound"], true, "{report:#}");
        report["documents"].as_u64().unwrap()
    }
}

/// Returns the names in a directory, sorted; none if it does not exist.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The result of a run of the program.
pub(crate) struct Done {
    line: String,
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn new(line: String, output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Done { line, status: output.status, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Asserts the exit code.
    pub(crate) fn code(self, code: i32) -> Self {
        let Done { line, status, out, err } = &self;
        assert_eq!(status.code(), Some(code), "warpseek {line}\n{status}\n{out}\n{err}");
        self
    }

    /// Asserts success and returns standard output.
    pub(crate) fn ok(self) -> String {
        self.code(0).out
    }

    /// Asserts success and parses standard output as JSON.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// Asserts failure with this code, no result, and a message that contains all of these parts.
    pub(crate) fn fails(self, code: i32, said: &[&str]) {
        let Done { line, out, err, .. } = self.code(code);
        assert_eq!(out, "", "warpseek {line}");
        assert!(err.starts_with("error: "), "warpseek {line}\n{err}");
        for part in said {
            assert!(err.contains(part), "warpseek {line}\nsays nothing of `{part}`:\n{err}");
        }
    }

    /// Asserts that standard error contains this.
    pub(crate) fn says(self, part: &str) -> Self {
        let Done { line, err, .. } = &self;
        assert!(err.contains(part), "warpseek {line}\nsays nothing of `{part}`:\n{err}");
        self
    }
}

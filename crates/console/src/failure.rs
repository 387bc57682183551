//! Conversion of errors into messages and exit codes.
//!
//! Exit codes: 0 for success; 1 if something broke (a file, the system, a damaged index); 2 if
//! the caller can fix the problem (arguments, input, a directory without an index); 130 if Ctrl-C
//! stopped the command.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use warpseek::Error;
use warpseek::devices::DeviceError;
use warpseek::eval::EvalError;
use warpseek::index::{IndexError, MANIFEST};
use warpseek::inspect::Content;
use warpseek::ngram::NgramError;
use warpseek::options::OptionsError;
use warpseek::plan::ExecError;
use warpseek::text::near;
use warpseek::vocabulary::DictionaryError;
use warpseek_synth::SynthError;

use crate::terminal;

/// The maximum number of characters shown of a query with a syntax error.
const QUERY_WIDTH: usize = 72;

/// The reason why a command ended early: a message and an exit code.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: u8,
    quiet: bool,
}

impl Failure {
    /// Creates a failure that the caller can fix (exit code 2).
    pub fn user(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 2, quiet: false }
    }

    /// Creates a failure because something broke (exit code 1).
    pub fn broken(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 1, quiet: false }
    }

    /// Creates a failure for a command that Ctrl-C stopped (exit code 130).
    pub fn interrupted(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 130, quiet: false }
    }

    /// Prefixes the message with its subject, such as the name of a file.
    pub fn within(self, what: impl Display) -> Self {
        Failure { message: format!("{what}: {}", self.message), ..self }
    }

    /// Returns the message for the user.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message to standard error and returns the exit code.
    pub fn report(self) -> ExitCode {
        if !self.quiet {
            terminal::error(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Index(error) => index(&error),
            Error::Query(error) => query(&error),
            Error::Ngram(error) => ngram(&error),
            Error::Dictionary(error) => error.into(),
            Error::NoText => Failure::user(format!("{error}; build it with `--store all`")),
            Error::Device(error) => device(&error),
            Error::Options(error) => Failure::user(advise(&error)),
            Error::Text(error) => Failure::user(error),
            error => Failure::broken(error),
        }
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        index(&error)
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        query(&error)
    }
}

impl From<DictionaryError> for Failure {
    fn from(error: DictionaryError) -> Self {
        match &error {
            DictionaryError::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => {
                Failure::broken(error)
            }
            DictionaryError::Damaged { .. } => Failure::broken(error),
            _ => Failure::user(error),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        device(&error)
    }
}

fn index(error: &IndexError) -> Failure {
    match error {
        IndexError::Cancelled => Failure::interrupted(error),
        IndexError::Io { path, source } if source.kind() == io::ErrorKind::NotADirectory => {
            // The index path that the user gave is a file. The error names the manifest below it.
            let named = path.parent().unwrap_or(path);
            Failure::user(format!("{} is a file; an index is a directory", named.display()))
        }
        IndexError::Inverter { source } => match source.downcast_ref::<DeviceError>() {
            Some(source) => Failure { message: error.to_string(), ..device(source) },
            None => Failure::broken(error),
        },
        IndexError::NotAnIndex { dir } => match index_like(dir) {
            Some(near) => Failure::user(format!("{error}; did you mean `{near}`?")),
            None => Failure::user(error),
        },
        IndexError::Io { .. }
        | IndexError::Corrupt { .. }
        | IndexError::Log { .. }
        | IndexError::Interrupted { .. } => Failure::broken(error),
        _ => Failure::user(error),
    }
}

/// Returns the name of an index beside `dir` whose name resembles that of `dir`.
fn index_like(dir: &Path) -> Option<String> {
    let name = dir.file_name()?.to_str()?;
    let folder = dir.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let indexes = entries.filter(|entry| entry.path().join(MANIFEST).is_file());
    let names: Vec<String> =
        indexes.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    near(name, names.iter().map(String::as_str)).map(str::to_owned)
}

fn query(error: &ExecError) -> Failure {
    match error {
        ExecError::Index(error) => index(error),
        ExecError::Device { source, .. } => match source.downcast_ref::<DeviceError>() {
            Some(error) => device(error),
            None => Failure::broken(error),
        },
        ExecError::Content { content, .. } => {
            let rank = if *content == Content::Vector { "impact" } else { "bm25" };
            Failure::user(format!("{error}; use `--rank {rank}`"))
        }
        ExecError::Grams => Failure::user(format!(
            "{error}; use `warpseek ngram search`, `ngram run` or another verb of `ngram`"
        )),
        ExecError::Quantized { .. } => Failure::user(format!(
            "{error}; use `--rank bm25` without `--k1` and `--b`, or build the index without `--quantize`"
        )),
        ExecError::Unsupported { engine: "intersect", .. } => {
            Failure::user(format!("{error}; add `--mode and`"))
        }
        ExecError::NoAnswer | ExecError::OtherSnapshot => Failure::broken(error),
        ExecError::Syntax(syntax) => {
            let mark = syntax.caret(QUERY_WIDTH).replace('\n', "\n  ");
            Failure::user(format!("{}\n  {mark}", syntax.kind))
        }
        error => Failure::user(error),
    }
}

fn ngram(error: &NgramError) -> Failure {
    match error {
        NgramError::Index(error) => index(error),
        NgramError::Device(error) => device(error),
        NgramError::Malformed => Failure::broken(error),
        NgramError::NotGrams => Failure::user(format!(
            "{error}; use `warpseek search`, `run` or another verb for words, or build an index of n-grams with `warpseek ngram index INPUT -o DIR`"
        )),
        error => Failure::user(error),
    }
}

fn device(error: &DeviceError) -> Failure {
    match error {
        // A GPU, its driver or our use of them failed. All other errors mean that something is
        // missing or too small.
        DeviceError::Driver { .. }
        | DeviceError::Kernel { .. }
        | DeviceError::Launch { .. }
        | DeviceError::Recording { .. } => Failure::broken(error),
        _ => Failure::user(error),
    }
}

/// Adds advice on flags to an error in the options.
fn advise(error: &OptionsError) -> String {
    let advice = match error {
        OptionsError::NeedsGpu { why: None, .. } => "add `--device cuda`",
        OptionsError::NotOnGpu { .. } => {
            "a GPU supports auto, exhaustive, wand, maxscore, cohort and intersect; for other algorithms add `--device cpu`"
        }
        OptionsError::ApproximateParts { .. } => {
            "add `--split queries` or `--partition heterogeneous`, or name one GPU"
        }
        OptionsError::NoPartitions { .. } => {
            "--partition, --partition-size, --partitions-per-block, --threshold, --no-block-maxima, --batch and --gpu-codec need --device cuda and --algorithm wand or maxscore"
        }
        OptionsError::NoEffect { option: OptionsError::GPU_LISTS, .. } => "remove `--gpu-lists`",
        OptionsError::NoEffect { .. } => "add `--device both`",
        OptionsError::NoParameters { .. } => "remove `--k1` and `--b`",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

impl From<OptionsError> for Failure {
    fn from(error: OptionsError) -> Self {
        Failure::user(advise(&error))
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        match error {
            EvalError::Write { source } => source.into(),
            EvalError::Open { ref source, .. } => Failure::user(format!("{error}: {source}")),
            EvalError::Read { ref source, .. } => Failure::broken(format!("{error}: {source}")),
            error => Failure::user(error),
        }
    }
}

impl From<SynthError> for Failure {
    fn from(error: SynthError) -> Self {
        Failure::user(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::broken(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // The reader of our output is gone (`| head`). Like other tools, we end silently.
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { message: error.to_string(), code: if quiet { 0 } else { 1 }, quiet }
    }
}

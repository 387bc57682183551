//! From errors to messages and exit codes.
//!
//! 0: done. 1: something broke (a file, the system, a damaged index). 2: the caller can mend it (arguments, input,
//! a directory without an index). 130: stopped by Ctrl-C.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use warpseek_cuda::DeviceError;
use warpseek_eval::EvalError;
use warpseek_exec::ExecError;
use warpseek_index::IndexError;
use warpseek_synth::SynthError;

use crate::terminal;

/// Why a verb ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
    quiet: bool,
}

impl Failure {
    /// The caller can mend it.
    pub(crate) fn user(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 2, quiet: false }
    }

    /// Something broke.
    pub(crate) fn broken(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 1, quiet: false }
    }

    /// Stopped by Ctrl-C.
    pub(crate) fn interrupted(message: impl Display) -> Self {
        Failure { message: message.to_string(), code: 130, quiet: false }
    }

    pub(crate) fn report(self) -> ExitCode {
        if !self.quiet {
            terminal::error(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Cancelled => Failure::interrupted(error),
            IndexError::Io { path, source } if source.kind() == io::ErrorKind::NotADirectory => {
                // What was named as an index is a file; the path is that of the manifest in it.
                let named = path.parent().unwrap_or(&path);
                Failure::user(format!("{} is a file; an index is a directory", named.display()))
            }
            IndexError::Io { .. } | IndexError::Corrupt { .. } => Failure::broken(error),
            _ => Failure::user(error),
        }
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::Index(error) => error.into(),
            ExecError::Device(error) => match error.downcast::<DeviceError>() {
                Ok(error) => (*error).into(),
                Err(error) => Failure::broken(error),
            },
            error => Failure::user(error),
        }
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        match error {
            // A GPU, its driver or our use of them failed; all else is what is missing or too small.
            DeviceError::Driver { .. }
            | DeviceError::Kernel { .. }
            | DeviceError::Launch { .. }
            | DeviceError::Recording { .. } => Failure::broken(error),
            _ => Failure::user(error),
        }
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
        // The reader of our output went away (`| head`): nothing to say, as other tools do.
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { message: error.to_string(), code: if quiet { 0 } else { 1 }, quiet }
    }
}

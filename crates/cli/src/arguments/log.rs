//! The log of a program that serves requests.

use clap::ValueEnum;
use warpseek_server::{LogFormat, flush_log, start_log};

/// Format of the log of a program that serves requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogChoice {
    /// Readable lines
    Pretty,
    /// A JSON object per line
    Json,
}

impl LogChoice {
    /// Returns the name of the format in the server's settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LogChoice::Pretty => "pretty",
            LogChoice::Json => "json",
        }
    }

    /// Writes a log while `work` runs, and flushes it afterwards.
    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        start_log(match self {
            LogChoice::Pretty => LogFormat::Pretty,
            LogChoice::Json => LogFormat::Json,
        });
        let done = work();
        flush_log();
        done
    }
}

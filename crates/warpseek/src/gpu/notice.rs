//! Notices for operators: events that are not errors, since queries are still answered.

use std::fmt;
use std::time::Duration;

/// An event that the operator of a searcher may want to know about.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use warpseek::gpu::Notice;
/// use warpseek::{DeviceChoice, Index, SearcherOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let heard = Arc::new(Mutex::new(Vec::new()));
/// let log = heard.clone();
/// let options = SearcherOptions::new()
///     .device(DeviceChoice::Auto)
///     .on_notice(move |notice: &Notice| log.lock().unwrap().push(notice.to_string()));
/// let searcher = index.searcher_with(options)?;
/// // Without a GPU, the notice says why the CPU answers.
/// assert_eq!(heard.lock().unwrap().is_empty(), searcher.gpu_status().name.is_some());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The GPU cannot be used, so the CPU answers.
    NoGpu {
        /// The reason.
        why: String,
    },
    /// The GPU could not answer some queries, so the CPU did. The GPU continues with others. This
    /// notice is sent once; [`fallen_back`](super::GpuStatus::fallen_back) counts the queries.
    FellBack {
        /// The reason for the first of these queries.
        why: String,
    },
    /// The GPU failed. It is going to be tried again.
    GpuLost {
        /// The error.
        why: String,
        /// Time until the next attempt.
        retry_in: Duration,
        /// True if the CPU answers until then. Otherwise queries fail.
        cpu_answers: bool,
    },
    /// The GPU that failed is available again.
    GpuBack {
        /// The name of the GPU.
        name: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::NoGpu { why } => write!(f, "no GPU, the CPU answers: {why}"),
            Notice::FellBack { why } => {
                write!(f, "the CPU answers what the GPU cannot: {why}")
            }
            Notice::GpuLost { why, retry_in, cpu_answers } => {
                let until_then = if *cpu_answers {
                    "the CPU answers until then"
                } else {
                    "queries fail until then"
                };
                let seconds = retry_in.as_secs_f64();
                write!(f, "the GPU failed; trying again in {seconds} s, {until_then}: {why}")
            }
            Notice::GpuBack { name } => write!(f, "{name} answers again"),
        }
    }
}

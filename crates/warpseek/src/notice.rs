use std::fmt;
use std::time::Duration;

/// Something that whoever operates a searcher may want to know. It is no failure: queries were answered.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use warpseek::{DeviceChoice, Index, Notice, SearcherOptions};
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
        /// Why not.
        why: String,
    },
    /// The GPU could not answer some queries, so the CPU did; the GPU goes on with others. Said once; [`crate::GpuStatus::fallen_back`] counts them.
    FellBack {
        /// What was in the way of the first of them.
        why: String,
    },
    /// The GPU failed. It is tried again later.
    GpuLost {
        /// What it said.
        why: String,
        /// When it is tried again.
        retry_in: Duration,
        /// Whether the CPU answers meanwhile; else queries fail.
        cpu_answers: bool,
    },
    /// The GPU that failed answers again.
    GpuBack {
        /// Its name.
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
                let meanwhile = if *cpu_answers {
                    "the CPU answers meanwhile"
                } else {
                    "queries fail meanwhile"
                };
                let seconds = retry_in.as_secs_f64();
                write!(f, "the GPU failed; it is tried again in {seconds} s, {meanwhile}: {why}")
            }
            Notice::GpuBack { name } => write!(f, "{name} answers again"),
        }
    }
}

//! The state of a searcher's GPUs, for display.

use warpseek_exec_gpu::Residency;

/// The state of the GPUs of a searcher, and counts of queries that the CPU answered instead.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = warpseek::Index::create(folder.path().join("index"))?;
/// let status = index.searcher()?.gpu_status();
/// assert!(status.name.is_none() && status.why_not.is_none()); // No GPU was requested.
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuStatus {
    /// The name of the GPU that answers or last answered, or the names of all GPUs that work
    /// together.
    pub name: Option<String>,
    /// The reason why no GPU answers although one was requested.
    pub why_not: Option<String>,
    /// The CPU's share of the documents and the reason for it, if the CPU and GPUs divide them.
    pub host: Option<String>,
    /// The source of the expected times by which devices are chosen; none if no device is.
    pub calibration: Option<String>,
    /// Number of queries that the CPU answered because it is faster. Here and below, a query that
    /// a batch repeats counts once.
    pub stayed: u64,
    /// Number of queries that the CPU answered to help the GPU.
    pub helped: u64,
    /// Number of queries that the CPU answered because the GPU failed or does not support them.
    pub fallen_back: u64,
    /// The parts of the index that each GPU holds.
    pub residency: Vec<Residency>,
}

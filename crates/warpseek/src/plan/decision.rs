//! The choice of device and algorithm for a batch, for display.

use warpseek_exec::{Choice, Estimate};

/// The device and algorithm for each plan of a batch, the reasons, and the estimates behind them.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// # let mut writer = index.writer()?;
/// # writer.add(Document::new("a", "", "apple"))?;
/// # writer.commit()?;
/// let searcher = index.searcher()?;
/// let plan = searcher.plan(&Request::new("apple"))?;
/// let decision = searcher.decide(&[&plan]);
/// assert_eq!(decision.choices[0].device, "CPU");
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decision {
    /// The choice for each plan.
    pub choices: Vec<Choice>,
    /// The estimate for the CPU, if there was a choice of devices.
    pub cpu: Option<Estimate>,
    /// The estimate for the GPU, if there was a choice of devices.
    pub gpu: Option<Estimate>,
    /// The source of the estimates, if there was a choice of devices.
    pub calibration: Option<String>,
    /// Number of live documents of the index.
    pub documents: u64,
    /// Number of CPU threads.
    pub threads: usize,
}

impl Decision {
    /// Returns the choice to report for an engine that gives none.
    pub(crate) fn no_choice() -> Choice {
        Choice { device: "CPU".to_owned(), algorithm: "none".to_owned(), why: String::new() }
    }
}

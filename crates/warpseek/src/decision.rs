use warpseek_exec::{Choice, Estimate};

/// How a batch is answered, why, and the numbers that decided.
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
    /// One for each plan.
    pub choices: Vec<Choice>,
    /// What the CPU should take, if the device was a choice.
    pub cpu: Option<Estimate>,
    /// What the GPU should take, if the device was a choice.
    pub gpu: Option<Estimate>,
    /// Live documents of the index.
    pub documents: u64,
    /// Threads of the CPU.
    pub threads: usize,
}

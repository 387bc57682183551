//! A thread that verifies the files of open indexes again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_index::{Damage, Scrub, ScrubCounts, Snapshot};

use crate::error::{Error, Result};

/// How a [`Scrubber`] verifies files again.
///
/// ```
/// use std::time::Duration;
/// use warpseek::ScrubOptions;
///
/// let options = ScrubOptions { period: Duration::from_secs(60), ..ScrubOptions::default() };
/// assert_eq!(options.bytes_per_second, 32 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// How long a page counts as verified once it was read. Damage after that is found within this time when a search reads the page. Default: 300 s.
    pub period: Duration,
    /// Bytes a second that are read to find damage of pages that no search reads. 0 reads none. Default: 32 MiB.
    pub bytes_per_second: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions { period: Duration::from_secs(300), bytes_per_second: 32 << 20 }
    }
}

/// What a [`Scrubber`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// Its options.
    pub options: ScrubOptions,
    /// Passes over all pages so far.
    pub passes: u64,
    /// Bytes that were read and compared with their checksums.
    pub bytes: u64,
    /// Within this time every page is read once; `None` if nothing is read.
    pub reads_all_in: Option<Duration>,
}

/// A thread that verifies the files of open indexes again while they are searched, until this is dropped.
///
/// Pages of an index are verified when they are first read. A file that is damaged later would give wrong answers until it is opened again. A scrubber makes every page count as unverified once a period, and reads as many as
/// its rate allows to verify them itself. Once damage is found, by it or by a search, all searches of the index fail with an error that names file and page.
///
/// ```
/// use std::sync::Arc;
/// use warpseek::{Index, ScrubOptions, Scrubber};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let index = Index::create(folder.path().join("index"))?;
/// let searcher = index.searcher()?;
/// let open = { let searcher = searcher.clone(); move || vec![searcher.snapshot()] };
/// let scrubber = Scrubber::start(ScrubOptions::default(), open, |damage| eprintln!("{damage:?}"))?;
/// assert_eq!(scrubber.status().passes, 0);
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct Scrubber {
    /// Ends the thread when it is dropped.
    stop: Option<Sender<()>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    options: ScrubOptions,
    counts: Arc<Mutex<ScrubCounts>>,
}

impl Scrubber {
    /// Starts the thread. `open` returns the snapshots that are open now; it is asked again and again, and must not keep them from being closed. `found` is called once for each damage, also for damage that a search found.
    pub fn start(
        options: ScrubOptions,
        open: impl Fn() -> Vec<Arc<Snapshot>> + Send + 'static,
        found: impl Fn(&Damage) + Send + 'static,
    ) -> Result<Self> {
        let (stop, stopped) = channel::<()>();
        let (stopping, counts) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<_>>::default());
        let (ending, shown) = (stopping.clone(), Arc::clone(&counts));
        let work = move || {
            let mut scrub = Scrub::new(options.period, options.bytes_per_second);
            let (start, mut known) = (Instant::now(), Vec::new());
            while stopped.recv_timeout(scrub.every()) == Err(RecvTimeoutError::Timeout) {
                let snapshots = open();
                scrub.step(&snapshots, start.elapsed(), || ending.load(Ordering::Relaxed));
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = scrub.counts();
                let mut damages: Vec<Damage> = Vec::new();
                for damage in snapshots.iter().filter_map(|snapshot| snapshot.damage()) {
                    if !damages.contains(damage) {
                        damages.push(damage.clone());
                    }
                }
                damages.iter().filter(|damage| !known.contains(*damage)).for_each(&found);
                known = damages;
            }
        };
        let thread = std::thread::Builder::new().name("warpseek-scrub".into()).spawn(work);
        let thread = Some(thread.map_err(Error::Threads)?);
        Ok(Scrubber { stop: Some(stop), stopping, thread, options, counts })
    }

    /// What it has done so far.
    pub fn status(&self) -> ScrubStatus {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let passes = u32::try_from(counts.passes_to_read_all).unwrap_or(u32::MAX);
        ScrubStatus {
            options: self.options,
            passes: counts.passes,
            bytes: counts.bytes,
            reads_all_in: (self.options.bytes_per_second > 0)
                .then(|| self.options.period.saturating_mul(passes.max(1))),
        }
    }
}

impl Drop for Scrubber {
    /// Ends the thread, which stops after the page at hand.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

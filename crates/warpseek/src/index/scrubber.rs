//! A background thread that verifies the files of open indexes again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpseek_index::{Damage, Scrub, ScrubCounts, Snapshot};

use crate::error::{Error, Result};

/// Options of a [`Scrubber`].
///
/// ```
/// use std::time::Duration;
/// use warpseek::index::ScrubOptions;
///
/// let options = ScrubOptions { period: Duration::from_secs(60), ..ScrubOptions::default() };
/// assert_eq!(options.bytes_per_second, 32 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// The time for which a page counts as verified after it was read. Later damage is found
    /// within this time if a search reads the page. Default: 300 s.
    pub period: Duration,
    /// The rate, in bytes per second, at which pages are read to find damage in pages that no
    /// search reads. With 0, none are read. Default: 32 MiB.
    pub bytes_per_second: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions { period: Duration::from_secs(300), bytes_per_second: 32 << 20 }
    }
}

/// The progress of a [`Scrubber`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// The options of the scrubber.
    pub options: ScrubOptions,
    /// Number of completed passes over all pages.
    pub passes: u64,
    /// Number of bytes that were read and compared with their checksums.
    pub bytes: u64,
    /// The time within which every page is read once; `None` if no pages are read.
    pub reads_all_in: Option<Duration>,
}

/// A background thread that verifies the files of open indexes again while they are searched. It
/// runs until the scrubber is dropped.
///
/// Pages of an index are verified when they are first read. If a file were damaged later,
/// searches would return wrong answers until the index is opened again. A scrubber therefore
/// marks every page as unverified once per period, and verifies as many pages itself as its rate
/// allows. Once the scrubber or a search has found damage, all searches of the index fail with an
/// error that names the file and the page.
///
/// ```
/// use std::sync::Arc;
/// use warpseek::Index;
/// use warpseek::index::{ScrubOptions, Scrubber};
///
/// # let folder = tempfile::tempdir().unwrap();
/// let index = Index::create(folder.path().join("index"))?;
/// let searcher = index.searcher()?;
/// let open = { let searcher = searcher.clone(); move || vec![searcher.snapshot()] };
/// let found = |damage: &warpseek::index::Damage| eprintln!("{damage:?}");
/// let scrubber = Scrubber::start(ScrubOptions::default(), open, found)?;
/// assert_eq!(scrubber.status().passes, 0);
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct Scrubber {
    /// A channel that ends the thread when it is dropped.
    stop: Option<Sender<()>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    options: ScrubOptions,
    counts: Arc<Mutex<ScrubCounts>>,
}

impl Scrubber {
    /// Starts the thread. `open` returns the snapshots that are currently open; it is called
    /// repeatedly and must not keep them open. `found` is called once for each damage, including
    /// damage that a search found.
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

    /// Returns the progress so far.
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
    /// Ends the thread, which stops after the current page.
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, it has printed a message.
            let _ = thread.join();
        }
    }
}

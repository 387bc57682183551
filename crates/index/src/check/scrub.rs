//! Repeated verification of the files of open indexes, a little at a time.
//!
//! A page counts as verified once it has been read, so it has to be verified again. A pass covers
//! all pages of all files in one period. The scrub reads as many pages as the rate permits and
//! compares their checksums. For the remaining pages it only forgets that they were verified,
//! which costs nothing until the next read. Each pass reads different pages. Whatever the size of
//! an index, a damaged page thus gives wrong answers for one period at most, and a page that no
//! search reads is verified as soon as the rate allows.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::files::container::SealedFile;
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Shortest and longest time between two steps.
const STEP: Range<Duration> = Duration::from_millis(10)..Duration::from_secs(1);

/// Number of steps of a pass, if neither bound applies.
const STEPS: u32 = 256;

/// A verifier of the files of open indexes. It has no thread: its owner calls
/// [`step`](Self::step) every [`every`](Self::every).
#[derive(Debug)]
pub struct Scrub {
    period: Duration,
    bytes_per_second: u64,
    /// Time between two steps.
    every: Duration,
    /// Number of steps of a pass.
    steps: u64,
    /// Number of steps done.
    done: u64,
    /// File at which the next step begins.
    next_file: usize,
    counts: ScrubCounts,
}

/// Counters of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubCounts {
    /// Number of passes over all pages.
    pub passes: u64,
    /// Number of bytes that were read and compared with their checksums.
    pub bytes: u64,
    /// Number of passes until every page has been read, by the sizes at the last step: 1 if every
    /// pass reads all pages, 0 if pages are not read.
    pub passes_to_read_all: u64,
}

impl Scrub {
    /// Creates a scrub whose passes take `period` and that reads at most `bytes_per_second`. With
    /// 0, it does not read pages, only the checksums at the end of each file; pages are verified
    /// again at their next use.
    pub fn new(period: Duration, bytes_per_second: u64) -> Self {
        let every = (period / STEPS).clamp(STEP.start, STEP.end).min(period);
        let steps = (period.as_nanos() / every.as_nanos().max(1)).max(1) as u64;
        let counts = ScrubCounts::default();
        Scrub { period, bytes_per_second, every, steps, done: 0, next_file: 0, counts }
    }

    /// Returns the time between two steps.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> ScrubCounts {
        self.counts
    }

    /// Advances to the step that is due when `elapsed` has passed since the start.
    ///
    /// The step ends early if `stop` returns true or if the disk takes longer than the time between
    /// two steps; pages that it has not read by then are verified at their next use. Damage is
    /// recorded in the segments ([`Segment::damage`]).
    pub fn step(
        &mut self,
        snapshots: &[Arc<Snapshot>],
        elapsed: Duration,
        stop: impl Fn() -> bool,
    ) {
        let now = (elapsed.as_nanos() / self.every.as_nanos().max(1)) as u64;
        let from = self.done.max(now.saturating_sub(self.steps));
        let mut seen = HashSet::new();
        let segments: Vec<&Segment> = snapshots
            .iter()
            .flat_map(|snapshot| snapshot.segments())
            .map(|segment| &**segment)
            .filter(|segment| seen.insert(segment.files_id()))
            .collect();
        let bytes: u64 =
            segments.iter().flat_map(|segment| segment.files()).map(|(_, f)| f.file_len()).sum();
        let stride = self.stride(bytes);
        self.counts.passes_to_read_all = stride.unwrap_or(0);
        let (start, give_up) = (Instant::now(), Instant::now() + self.every);
        for segment in &segments {
            segment.watch().put_off(start);
            if segment.damage().is_some() {
                // No page of a damaged segment is trusted any more.
                segment.forget_verified();
            }
        }
        // The work that costs nothing comes first, so that it is done in time.
        let steps = self.steps;
        let parts = |file: &SealedFile| {
            let pages = file.pages();
            (from..now).map(move |step| (step, part(pages, step % steps, steps)))
        };
        for (_, file) in segments.iter().flat_map(|segment| segment.files()) {
            parts(file).for_each(|(_, pages)| file.forget(pages));
        }
        // If the disk did not finish the last step in time, this step begins with the files that
        // were left out.
        let undamaged = segments.iter().filter(|segment| segment.damage().is_none());
        let files =
            undamaged.flat_map(|segment| segment.files().map(move |(_, file)| (segment, file)));
        let mut files: Vec<_> = files.collect();
        let skipped = self.next_file % files.len().max(1);
        files.rotate_left(skipped);
        let mut read = 0;
        'files: for (number, (segment, file)) in files.iter().enumerate() {
            // A page behind the end of a file must not be touched.
            let is_damaged = segment.damage().is_some();
            if is_damaged || from < now && file.verify_frame().is_err() {
                segment.forget_verified();
                continue;
            }
            for (step, pages) in parts(file) {
                let pass = step / steps;
                for page in pages.filter(|page| is_read(*page, pass, stride)) {
                    if stop() || Instant::now() > give_up {
                        // Advance by at least one file, so that a file that takes all of the time
                        // is not the only one verified.
                        self.next_file = skipped + number.max(1);
                        break 'files;
                    }
                    read += SealedFile::PAGE_BYTES;
                    if file.verify_page(page).is_err() {
                        segment.forget_verified();
                        continue 'files;
                    }
                }
            }
        }
        self.counts.bytes += read;
        self.done = self.done.max(now);
        self.counts.passes = self.done / self.steps;
    }

    /// Returns the number of pages of which a pass reads one, or `None` if it reads none.
    fn stride(&self, bytes: u64) -> Option<u64> {
        let of_a_pass = self.bytes_per_second as f64 * self.period.as_secs_f64();
        (of_a_pass > 0.0).then(|| (bytes as f64 / of_a_pass).ceil().max(1.0) as u64)
    }
}

/// Returns the pages of a file that belong to one of `steps` steps.
fn part(pages: u64, step: u64, steps: u64) -> Range<u64> {
    let until = |step: u64| (u128::from(pages) * u128::from(step) / u128::from(steps)) as u64;
    until(step)..until(step + 1)
}

/// Returns true if a pass reads a page. Each page is read in one of `stride` consecutive passes.
fn is_read(page: u64, pass: u64, stride: Option<u64>) -> bool {
    stride.is_some_and(|stride| page.wrapping_add(pass).is_multiple_of(stride))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_has_every_page_once() {
        for (pages, steps) in [(0, 7), (1, 7), (6, 7), (7, 7), (1000, 7), (3, 256), (1 << 40, 256)]
        {
            let mut next = 0;
            for step in 0..steps {
                let part = part(pages, step, steps);
                assert_eq!(part.start, next);
                next = part.end;
            }
            assert_eq!(next, pages, "{pages} pages in {steps} steps");
        }
    }

    #[test]
    fn every_page_is_read_in_as_many_passes_as_the_stride_says() {
        for stride in [1, 2, 5] {
            for page in 0..20 {
                let read = (0..stride).filter(|pass| is_read(page, *pass, Some(stride))).count();
                assert_eq!(read, 1, "page {page}, stride {stride}");
            }
        }
        assert!(!is_read(0, 0, None));
    }

    #[test]
    fn steps_and_strides_follow_period_and_rate() {
        let scrub = |seconds, rate| Scrub::new(Duration::from_secs(seconds), rate);
        assert_eq!((scrub(300, 1).every, scrub(300, 1).steps), (Duration::from_secs(1), 300));
        assert_eq!(scrub(1, 1).every, Duration::from_micros(10_000));
        assert_eq!(scrub(64, 1).every, Duration::from_millis(250));
        assert_eq!(scrub(300, 0).stride(1 << 40), None);
        assert_eq!(scrub(300, 1 << 20).stride(0), Some(1));
        assert_eq!(scrub(300, 1 << 20).stride(300 << 20), Some(1));
        assert_eq!(scrub(300, 1 << 20).stride((300 << 20) + 1), Some(2));
        assert_eq!(scrub(1, 1).stride(1 << 20), Some(1 << 20));
    }
}

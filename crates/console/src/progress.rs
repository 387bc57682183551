//! Progress bars for long operations. They are drawn on standard error, and only if that is a
//! terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use indicatif::ProgressBar;
use indicatif::{ProgressDrawTarget, ProgressStyle};
use warpseek::Progress;
use warpseek::gpu::Loading;
use warpseek::index::Phase;

use crate::interrupt::Interrupt;

const TICK: Duration = Duration::from_millis(100);

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file; any test would show a wrong one.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A progress display, updated by a thread until it is dropped.
pub struct Display {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Display {
    /// Shows the progress of a build, deletion, merge or verification.
    pub fn build(progress: &Arc<Progress>, quiet: bool) -> Self {
        let progress = progress.clone();
        Self::start(!quiet, move |stop| watch(&progress, stop))
    }

    /// Shows the progress of copying an index to GPUs. An interrupt cancels the copies.
    pub fn loading(parts: &[Arc<Loading>], interrupt: &Interrupt, quiet: bool) -> Self {
        let (parts, interrupt) = (parts.to_vec(), interrupt.clone());
        Self::start(true, move |stop| watch_loading(&parts, &interrupt, quiet, stop))
    }

    fn start(wanted: bool, show: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let thread = wanted.then(|| std::thread::spawn(move || show(&stop)));
        Display { done, thread }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(progress: &Progress, stop: &AtomicBool) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let (start, mut shown) = (Instant::now(), None);
    while !stop.load(Ordering::Relaxed) {
        let phase = progress.phase();
        let (done, total) = match phase {
            Phase::Reading => progress.bytes(),
            Phase::Ordering => progress.ordering(),
            Phase::Generating | Phase::Merging | Phase::Committing => progress.terms(),
        };
        if shown != Some((phase, total > 0)) {
            shown = Some((phase, total > 0));
            let bars = match phase {
                Phase::Reading if total > 0 => "reading {bar:24} {percent:>3}%  {msg}  {eta} left",
                Phase::Reading => "reading {spinner} {bytes}  {msg}",
                Phase::Generating => "generating {bar:24} {percent:>3}%  {eta} left",
                Phase::Ordering if total > 0 => "ordering {bar:24} {percent:>3}%  {eta} left",
                Phase::Ordering => "ordering {spinner}",
                Phase::Merging if total > 0 => "merging {bar:24} {percent:>3}%  {eta} left",
                Phase::Merging => "working {spinner}",
                Phase::Committing => "writing {spinner}",
            };
            bar.set_style(style(bars));
            bar.reset_eta();
        }
        bar.set_length(total.max(done));
        bar.set_position(done);
        let rate = progress.documents() as f64 / start.elapsed().as_secs_f64().max(0.001);
        bar.set_message(format!(
            "{} docs  {}/s",
            crate::terminal::count(progress.documents()),
            crate::terminal::count(rate as u64)
        ));
        bar.tick();
        std::thread::park_timeout(TICK);
    }
    bar.finish_and_clear();
}

fn watch_loading(parts: &[Arc<Loading>], interrupt: &Interrupt, quiet: bool, stop: &AtomicBool) {
    let bar = bar(None, "loading {bar:24} {percent:>3}%  {msg}  {eta} left", quiet);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        if interrupt.is_set() {
            parts.iter().for_each(|part| part.cancel());
        }
        let counts = parts.iter().map(|part| part.postings());
        let (done, total) = counts.fold((0, 0), |(a, b), (done, total)| (a + done, b + total));
        if total > 0 {
            bar.set_length(total);
            bar.set_position(done);
            let bytes: u64 = parts.iter().map(|part| part.bytes()).sum();
            let rate = bytes as f64 / start.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!(
                "{} of {} million postings  {:.1} GB/s",
                crate::terminal::count(done / 1_000_000),
                crate::terminal::count(total / 1_000_000),
                rate / 1e9
            ));
            bar.tick();
        }
        std::thread::park_timeout(TICK);
    }
    bar.finish_and_clear();
}

fn bar(total: Option<u64>, template: &str, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(total, target);
    bar.set_style(style(template));
    bar
}

/// Returns a running count of queries whose total is unknown.
pub fn queries(quiet: bool) -> ProgressBar {
    bar(None, "queries {spinner} {pos}  {per_sec}", quiet)
}

/// Returns a progress bar over a known number of items.
pub fn items(name: &str, total: u64, quiet: bool) -> ProgressBar {
    bar(
        Some(total),
        &format!("{name} {{bar:24}} {{percent:>3}}%  {{per_sec}}  {{eta}} left"),
        quiet,
    )
}

/// Returns a progress bar over steps that take different times. Its message names the current one.
pub fn steps(name: &str, total: u64, quiet: bool) -> ProgressBar {
    bar(
        Some(total),
        &format!("{name} {{bar:24}} {{pos}} of {{len}}  {{elapsed}}  {{wide_msg}}"),
        quiet,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_ends_the_copy_of_an_index() {
        let (loading, interrupt) = (Arc::new(Loading::default()), Interrupt::default());
        let display = Display::loading(std::slice::from_ref(&loading), &interrupt, true);
        std::thread::sleep(2 * TICK);
        assert!(!loading.is_cancelled());
        interrupt.set();
        let give_up = Instant::now() + Duration::from_secs(60);
        while !loading.is_cancelled() {
            assert!(Instant::now() < give_up, "the copy was not cancelled");
            std::thread::sleep(TICK);
        }
        drop(display);
    }
}

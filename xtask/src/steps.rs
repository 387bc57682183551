//! Steps of a task and their times.

use std::sync::Mutex;
use std::time::Instant;

/// Names and seconds of the steps that have ended.
static ENDED: Mutex<Vec<(String, f64)>> = Mutex::new(Vec::new());

/// A running step. It ends when it is dropped.
pub(crate) struct Step {
    name: String,
    start: Instant,
}

impl Step {
    /// Begins a step and prints its name.
    pub(crate) fn begin(name: impl Into<String>) -> Self {
        let step = Step { name: name.into(), start: Instant::now() };
        eprintln!("\n== {}", step.name);
        step
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        let seconds = self.start.elapsed().as_secs_f64();
        eprintln!("== {seconds:.0} s");
        if let Ok(mut ended) = ENDED.lock() {
            ended.push((std::mem::take(&mut self.name), seconds));
        }
    }
}

/// Formats a table of the steps that took a second or longer, the longest first, and of the
/// others as one row.
pub(crate) fn table() -> String {
    let ended = ENDED.lock().map(|ended| ended.clone()).unwrap_or_default();
    table_of(ended)
}

fn table_of(mut steps: Vec<(String, f64)>) -> String {
    steps.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (long, short): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.1 >= 1.0);
    let rest: f64 = short.iter().map(|step| step.1).sum();
    let others = (!short.is_empty()).then(|| (format!("{} shorter steps", short.len()), rest));
    let row = |(name, seconds): (String, f64)| format!("{seconds:7.0} s  {name}\n");
    long.into_iter().chain(others).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_steps_come_first_and_short_ones_together() {
        let steps = [("b", 0.25), ("docs", 20.4), ("a", 0.5), ("tests", 300.0)];
        let table = table_of(steps.map(|(name, seconds)| (name.to_owned(), seconds)).into());
        assert_eq!(table, "    300 s  tests\n     20 s  docs\n      1 s  2 shorter steps\n");
        assert_eq!(table_of(Vec::new()), "");
    }
}

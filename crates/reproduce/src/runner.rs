//! The runner: executes the steps whose results are missing or stale. Each command runs in a
//! process of its own, so that no measurement finds memory or threads of another one, and so that
//! the command beside a value is exactly what measured it.

use std::fs::File;
use std::io::IsTerminal;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use warpseek_console::terminal::{counted, note};
use warpseek_console::{Failure, Interrupt, progress};

use crate::date::today;
use crate::directory::{Directory, Hardware, Record};
use crate::steps::{Needs, Size, Step};

/// Time between two looks at a running command.
const TICK: Duration = Duration::from_millis(20);

/// The result of a step in this run.
pub(crate) enum Outcome {
    /// A result, new or of an earlier run.
    Done(Box<Record>),
    /// The machine lacks what the command needs; the text says what is missing.
    Lacking(String),
    /// There is no result yet.
    Missing,
    /// The command failed, or data that it needs could not be made.
    Failed(String),
}

/// The steps of a run with their outcomes.
pub(crate) type Outcomes = Vec<(&'static Step, Outcome)>;

/// The state of a run.
pub(crate) struct Runner<'a> {
    pub(crate) directory: &'a Directory,
    pub(crate) size: Size,
    pub(crate) hardware: &'a Hardware,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) quiet: bool,
}

impl Runner<'_> {
    /// Executes all steps that have no result yet and returns the outcome of each.
    pub(crate) fn run(&self, steps: &[&'static Step]) -> Result<Outcomes, Failure> {
        let bar = progress::steps("measuring", steps.len() as u64, self.quiet);
        let is_terminal = std::io::stderr().is_terminal();
        let mut outcomes: Outcomes = Vec::new();
        for (at, &step) in steps.iter().enumerate() {
            let key = Directory::key(step, self.size, self.hardware);
            let outcome = match self.directory.result(step, &key) {
                Some(record) => Outcome::Done(Box::new(record)),
                None if self.lacks_gpu(step) => Outcome::Lacking(step.needs.missing().to_owned()),
                None => match lost(step, &outcomes) {
                    Some(data) => Outcome::Failed(format!("its data `{data}` could not be made")),
                    None => {
                        bar.set_message(key.command.clone());
                        if !is_terminal && !self.quiet {
                            let all = counted(steps.len() as u64, "step");
                            note(format!("{} of {all}: {}", at + 1, key.command));
                        }
                        let (start, report) = (Instant::now(), self.execute(step, &bar)?);
                        let seconds = start.elapsed().as_secs_f64();
                        match report {
                            Err(problem) if step.needs == Needs::Library => {
                                let missing = step.needs.missing();
                                Outcome::Lacking(format!("{missing}: {problem}"))
                            }
                            Err(problem) => Outcome::Failed(problem),
                            Ok(report) => {
                                let record = Record { key, date: today(), seconds, report };
                                self.directory.save(step, &record)?;
                                Outcome::Done(Box::new(record))
                            }
                        }
                    }
                },
            };
            outcomes.push((step, outcome));
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(outcomes)
    }

    fn lacks_gpu(&self, step: &Step) -> bool {
        step.needs == Needs::Gpu && self.hardware.gpu.is_none()
    }

    /// Returns the outcome of each step without executing any.
    pub(crate) fn known(&self, steps: &[&'static Step]) -> Outcomes {
        let outcome = |&step: &&'static Step| {
            let key = Directory::key(step, self.size, self.hardware);
            let outcome = match self.directory.result(step, &key) {
                Some(record) => Outcome::Done(Box::new(record)),
                None if self.lacks_gpu(step) => Outcome::Lacking(step.needs.missing().to_owned()),
                None => Outcome::Missing,
            };
            (step, outcome)
        };
        steps.iter().map(outcome).collect()
    }

    /// Runs the command of a step. Returns its report, or what went wrong with it. Fails if the
    /// user asks to stop.
    fn execute(
        &self,
        step: &Step,
        bar: &progress::ProgressBar,
    ) -> Result<Result<Value, String>, Failure> {
        self.directory.remove_made(step)?;
        let log = |kind: &str| self.directory.path().join(format!("logs/{}.{kind}", step.name));
        let create = |kind: &str| {
            let path = log(kind);
            File::create(&path).map_err(|e| Failure::broken(format!("{}: {e}", path.display())))
        };
        let program = std::env::current_exe().map_err(Failure::broken)?;
        let mut command = Command::new(program);
        command.args(step.arguments(self.size)).current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(create("out")?).stderr(create("err")?);
        let mut child = command.spawn().map_err(Failure::broken)?;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(Failure::broken)? {
                break status;
            }
            if self.interrupt.is_set() {
                stop(&mut child);
                self.directory.remove_made(step)?;
                return Err(Failure::interrupted(
                    "interrupted; the same command continues with what is missing",
                ));
            }
            bar.tick();
            std::thread::sleep(TICK);
        };
        if self.interrupt.is_set() {
            // Ctrl-C reaches the command as well, which may end before this loop sees the signal.
            self.directory.remove_made(step)?;
            return Err(Failure::interrupted(
                "interrupted; the same command continues with what is missing",
            ));
        }
        let read = |kind: &str| std::fs::read_to_string(log(kind)).unwrap_or_default();
        if !status.success() {
            let errors = read("err");
            let mut lines = errors.lines().filter(|line| !line.trim().is_empty());
            let error = lines.clone().find(|line| line.starts_with("error"));
            let said = error.or_else(|| lines.next_back()).unwrap_or("no message");
            return Ok(Err(format!("{status}: {said}")));
        }
        if !step.makes.is_empty() {
            return Ok(Ok(Value::Null));
        }
        let report = serde_json::from_str(&read("out"));
        Ok(report.map_err(|error| format!("its output is not JSON: {error}")))
    }
}

/// Returns the data of a step that could not be made.
fn lost(step: &Step, outcomes: &Outcomes) -> Option<&'static str> {
    let is_lost = |name: &&&'static str| {
        outcomes
            .iter()
            .any(|(data, outcome)| data.name == **name && !matches!(outcome, Outcome::Done(_)))
    };
    step.after.iter().find(is_lost).copied()
}

/// Asks a command to stop, and waits for it. It may have received Ctrl-C already, and ends at
/// once after a second signal.
fn stop(child: &mut Child) {
    #[cfg(unix)]
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // A child that has ended in between needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
    #[cfg(not(unix))]
    let _ = child.kill();
    let _ = child.wait();
}

//! The output directory: its mark, the results of steps, and pages. Files are written to a
//! temporary file first and then renamed, so that an interrupted run leaves none half written.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warpseek_console::Failure;

use crate::steps::{self, Needs, Size, Step};

/// The file that marks a directory as one of this command.
const MARK: &str = "reproduce.json";

/// What a result depends on. A result with another key is stale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The version of the program.
    pub(crate) program: String,
    /// The command line, and those that made its data.
    pub(crate) command: String,
    pub(crate) data: Vec<String>,
    /// The CPU, and the GPU if the step needs one.
    pub(crate) hardware: String,
}

/// The result of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) key: Key,
    /// The day of the measurement, as year-month-day.
    pub(crate) date: String,
    /// Seconds that the command took.
    pub(crate) seconds: f64,
    /// What the command printed as JSON; null for data.
    pub(crate) report: Value,
}

/// The output directory.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens a directory of an earlier run, or creates one. Refuses a directory with other
    /// contents.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let at = |error: std::io::Error| Failure::user(format!("{}: {error}", path.display()));
        fs::create_dir_all(path).map_err(at)?;
        let mark = path.join(MARK);
        let is_empty = fs::read_dir(path).map_err(at)?.next().is_none();
        if !is_empty && !mark.is_file() {
            return Err(Failure::user(format!(
                "{}: expected an empty directory or one of an earlier `warpseek reproduce`, but it has other files; name a new directory with -o",
                path.display()
            )));
        }
        let directory = Directory { path: fs::canonicalize(path).map_err(at)? };
        for folder in ["data", "results", "logs"] {
            fs::create_dir_all(directory.path.join(folder)).map_err(at)?;
        }
        let made_by = json!({"made_by": "warpseek reproduce"});
        directory.write(MARK, format!("{made_by:#}\n").as_bytes())?;
        Ok(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file atomically.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let path = self.path.join(name);
        let folder = path.parent().unwrap_or(&self.path);
        let write = || -> std::io::Result<()> {
            // Temporary files are private by default; this one gets the permissions of others.
            let mut new = tempfile::Builder::new();
            #[cfg(unix)]
            new.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
            let mut file = new.tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| Failure::broken(format!("{}: {error}", path.display())))
    }

    /// Returns the key that a result of this step must have now.
    pub(crate) fn key(step: &Step, size: Size, hardware: &Hardware) -> Key {
        let before = steps::with_data(step.after);
        Key {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            command: step.command(size),
            data: before.into_iter().map(|data| data.command(size)).collect(),
            hardware: hardware.of(step),
        }
    }

    /// Returns the result of a step if there is one with this key. Data that was deleted has no
    /// result.
    pub(crate) fn result(&self, step: &Step, key: &Key) -> Option<Record> {
        let bytes = fs::read(self.path.join(result_name(step))).ok()?;
        let record: Record = serde_json::from_slice(&bytes).ok()?;
        let made = step.makes.iter().all(|made| self.path.join(made).exists());
        (made && record.key == *key).then_some(record)
    }

    /// Saves the result of a step.
    pub(crate) fn save(&self, step: &Step, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record).map_err(Failure::broken)?;
        self.write(&result_name(step), format!("{text}\n").as_bytes())
    }

    /// Removes what a step makes, which may be stale or half written.
    pub(crate) fn remove_made(&self, step: &Step) -> Result<(), Failure> {
        for made in step.makes {
            let path = self.path.join(made);
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false if path.exists() => fs::remove_file(&path),
                false => Ok(()),
            };
            removed.map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }
}

fn result_name(step: &Step) -> String {
    format!("results/{}.json", step.name)
}

/// The machine.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) cpu: String,
    /// The name of the first GPU, if there is a usable one.
    pub(crate) gpu: Option<String>,
}

impl Hardware {
    /// Returns the parts of the machine that a step uses.
    fn of(&self, step: &Step) -> String {
        match &self.gpu {
            Some(gpu) if step.needs == Needs::Gpu => format!("{gpu}; {}", self.cpu),
            _ => self.cpu.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> Hardware {
        Hardware { cpu: "a CPU".to_owned(), gpu: Some("a GPU".to_owned()) }
    }

    #[test]
    fn other_files_are_refused_and_an_earlier_run_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        Directory::open(&new).unwrap();
        Directory::open(&new).unwrap();
        fs::write(dir.path().join("thesis.txt"), "words").unwrap();
        let refused = Directory::open(dir.path()).map(|_| ()).unwrap_err();
        assert!(refused.message().contains("other files"), "{}", refused.message());
    }

    #[test]
    fn results_are_found_again_until_something_changes() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("new")).unwrap();
        let step = steps::find("gov2").unwrap();
        let key = Directory::key(step, Size::Quick, &hardware());
        assert!(directory.result(step, &key).is_none());
        let date = "2026-01-02".to_owned();
        let record = Record { key: key.clone(), date, seconds: 1.5, report: Value::Null };
        directory.save(step, &record).unwrap();
        assert!(directory.result(step, &key).is_none(), "its data does not exist");
        fs::create_dir(directory.path().join("data/gov2")).unwrap();
        fs::write(directory.path().join("data/gov2.queries.tsv"), "").unwrap();
        assert_eq!(directory.result(step, &key).unwrap().seconds, 1.5);
        let other = Directory::key(step, Size::Full, &hardware());
        assert!(directory.result(step, &other).is_none(), "another size");
        directory.remove_made(step).unwrap();
        assert!(directory.result(step, &key).is_none(), "the data was removed");
        fs::write(directory.path().join("results/gov2.json"), "{\"half").unwrap();
        assert!(directory.result(step, &key).is_none(), "a damaged result");
    }

    #[test]
    fn a_key_has_the_data_and_the_gpu_only_where_one_is_used() {
        let key = |name| Directory::key(steps::find(name).unwrap(), Size::Tiny, &hardware());
        assert_eq!(key("queries").hardware, "a CPU");
        assert_eq!(key("queries-gpu").hardware, "a GPU; a CPU");
        assert!(key("queries").data[0].starts_with("warpseek synth "));
    }
}

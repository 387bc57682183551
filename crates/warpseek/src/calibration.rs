//! Files with calibrations: measured costs of queries, with everything that they depend on. They
//! are saved in the user's cache rather than in the index, which may be copied to another machine,
//! or in a file that the user names. A calibration is used only under the conditions that it was
//! measured under.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use warpseek_exec_gpu::GpuLists;
use warpseek_sched::calibrate::Calibration;
use xxhash_rust::xxh3::xxh3_64;

use crate::devices::cpu_model;
use crate::error::{Error, Result};
use crate::gpu::Notice;
use crate::options::{CalibrationChoice, SearcherOptions};

/// The version of the file format and of the measurements.
const VERSION: u32 = 2;

/// Minimum number of timed queries. With fewer, the engines' own estimates are more accurate.
const ENOUGH: usize = 64;

/// Maximum number of saved files. The oldest ones are deleted.
const MOST_FILES: usize = 100;

/// Measurements no longer apply once the index has grown or shrunk by this factor.
const OTHER_SIZE: u64 = 2;

/// Name of the CPU's station, as engines report it.
pub(crate) const CPU: &str = "CPU";

/// Returns true if a model is based on enough queries to be used.
pub(crate) fn is_enough(found: &Calibration) -> bool {
    found.queries >= ENOUGH
}

/// What the times of queries depend on, besides the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conditions {
    /// Version of the program.
    program: String,
    /// Model of the CPU.
    cpu: String,
    /// Number of CPU threads.
    threads: usize,
    /// Names of the devices of the stations, the CPU's first.
    devices: Vec<String>,
    ranking: String,
    /// Options of the searcher that affect times.
    settings: String,
}

impl Conditions {
    /// Returns the present conditions of a searcher whose stations have these devices.
    pub(crate) fn now(
        options: &SearcherOptions,
        threads: usize,
        devices: Vec<String>,
        ranking: String,
    ) -> Self {
        Conditions {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            cpu: cpu_model(),
            threads,
            devices,
            ranking,
            settings: format!("{:?}", options.that_times_depend_on()),
        }
    }

    /// Returns these conditions with a GPU that holds as many lists as its memory allows, which is
    /// how calibrations are measured unless the user chooses otherwise.
    pub(crate) fn with_usual_lists(self, options: &SearcherOptions) -> Self {
        let mut usual = options.clone();
        usual.tuning.gpu_lists = GpuLists::Auto;
        Conditions { settings: format!("{:?}", usual.that_times_depend_on()), ..self }
    }

    /// Returns the first difference to the conditions `now`, as the end of a sentence about a
    /// calibration.
    fn difference(&self, now: &Conditions) -> Option<String> {
        let devices = |of: &Conditions| of.devices.join(", ");
        let all = [
            ("by version", self.program.clone(), now.program.clone(), "this is version"),
            ("on the CPU", self.cpu.clone(), now.cpu.clone(), "this machine has"),
            ("with", count(self.threads), count(now.threads), "this search has"),
            ("on the devices", devices(self), devices(now), "the devices are"),
            ("for the ranking", self.ranking.clone(), now.ranking.clone(), "the ranking is"),
            ("with the options", self.settings.clone(), now.settings.clone(), "they are"),
        ];
        let (how, then, now, but) = all.into_iter().find(|(_, then, now, _)| then != now)?;
        Some(format!("it was measured {how} {then}, but {but} {now}"))
    }
}

fn count(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The contents of a file with a calibration.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    conditions: Conditions,
    documents: u64,
    stations: Vec<(String, Calibration)>,
}

/// A calibration that applies.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The file that it came from or was saved in, if any.
    pub(crate) file: Option<PathBuf>,
    /// The measurements of each station, with the name of its device.
    pub(crate) stations: Vec<(String, Calibration)>,
}

impl Known {
    /// Returns the measurements of a device.
    pub(crate) fn of(&self, device: &str) -> Option<&Calibration> {
        let found = self.stations.iter().find(|(name, _)| name == device);
        found.map(|(_, found)| found).filter(|found| is_enough(found))
    }
}

/// The result of looking for a calibration.
pub(crate) enum Lookup {
    /// It applies.
    Found(Known),
    /// There is none.
    None,
    /// There is one, but it was measured under other conditions.
    Unfit {
        file: PathBuf,
        /// The difference.
        why: String,
    },
}

/// Returns the file in which the calibration of an index is kept: the one that the options name,
/// or one in the user's cache. The latter's name has a hash of the conditions, except the version
/// of the program, so that machines that share a home directory do not overwrite each other's.
pub(crate) fn file_for(
    options: &SearcherOptions,
    index: &Path,
    conditions: &Conditions,
) -> Option<PathBuf> {
    match &options.calibration {
        CalibrationChoice::File(file) => return Some(file.clone()),
        CalibrationChoice::Off => return None,
        CalibrationChoice::Auto => {}
    }
    let folder = warpseek_cuda::user_cache()?.join("calibrations");
    let index = fs::canonicalize(index).ok()?;
    let Conditions { program: _, cpu, threads, devices, ranking, settings } = conditions;
    let key = format!(
        "{VERSION}\n{}\n{cpu}\n{threads}\n{devices:?}\n{ranking}\n{settings}",
        index.display()
    );
    Some(folder.join(format!("{:016x}.json", xxh3_64(key.as_bytes()))))
}

/// Looks for the calibration of an index with this many documents. Fails if the user named a file
/// that cannot be read.
pub(crate) fn look_up(
    options: &SearcherOptions,
    index: &Path,
    documents: u64,
    conditions: &Conditions,
) -> Result<Lookup> {
    let Some(file) = file_for(options, index, conditions) else { return Ok(Lookup::None) };
    let is_named = matches!(options.calibration, CalibrationChoice::File(_));
    let failed = |why: String| Error::Calibration { file: file.clone(), why };
    let contents = match fs::read(&file) {
        Ok(bytes) => serde_json::from_slice::<Contents>(&bytes).map_err(|error| error.to_string()),
        Err(error) if is_named => return Err(failed(error.to_string())),
        Err(_) => return Ok(Lookup::None),
    };
    let contents = match contents {
        Ok(contents) => contents,
        Err(why) if is_named => return Err(failed(format!("it is not a calibration: {why}"))),
        // Another version of the program may have written it, or a part of it was lost.
        Err(_) => return Ok(Lookup::None),
    };
    let Contents { version, conditions: then, documents: before, stations } = contents;
    let (most, least) = (before.max(documents).max(1), before.min(documents).max(1));
    let why = match then.difference(conditions) {
        _ if version != VERSION => {
            Some(format!("its format has version {version}, but this program writes {VERSION}"))
        }
        None if most >= OTHER_SIZE * least => {
            Some(format!("it was measured on {before} documents, but the index has {documents}"))
        }
        why => why,
    };
    Ok(match why {
        Some(why) => Lookup::Unfit { file, why },
        None => Lookup::Found(Known { file: Some(file), stations }),
    })
}

/// Looks for a calibration of these devices. A notice says so if there is one of other conditions.
pub(crate) fn find(
    options: &SearcherOptions,
    index: &Path,
    documents: u64,
    devices: Vec<String>,
    ranking: String,
) -> Result<Option<Known>> {
    let exact = Conditions::now(options, options.threads, devices, ranking);
    let usual = exact.clone().with_usual_lists(options);
    let mut unfit = None;
    for conditions in [exact, usual] {
        match look_up(options, index, documents, &conditions)? {
            Lookup::Found(known) => return Ok(Some(known)),
            Lookup::Unfit { file, why } => {
                unfit = Some(Notice::OtherCalibration { file, why });
            }
            Lookup::None => {}
        }
    }
    if let Some(notice) = unfit {
        (options.listener)(&notice);
    }
    Ok(None)
}

/// Writes a calibration to a temporary file and renames it, so that readers never see a part of
/// it.
pub(crate) fn keep(
    file: &Path,
    documents: u64,
    conditions: &Conditions,
    stations: &[(String, Calibration)],
) -> std::io::Result<()> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let (conditions, stations) = (conditions.clone(), stations.to_vec());
    let contents = Contents { version: VERSION, conditions, documents, stations };
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(&contents)?)?;
    new.persist(file)?;
    Ok(())
}

/// Deletes the oldest files of the user's cache, since nothing tells when an index is deleted.
pub(crate) fn prune(folder: &Path) -> std::io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    files.iter().rev().skip(MOST_FILES).try_for_each(|(_, file)| fs::remove_file(file))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn conditions() -> Conditions {
        let options = SearcherOptions::new();
        Conditions::now(&options, 2, vec![CPU.to_owned(), "GPU".to_owned()], "bm25".to_owned())
    }

    /// Checks that a calibration applies under its own conditions only, and that the reason names
    /// both sides.
    #[test]
    fn a_calibration_of_other_conditions_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/calibration.json");
        let options = SearcherOptions::new().calibration(CalibrationChoice::File(file.clone()));
        let found = |documents, conditions: &Conditions| match look_up(
            &options,
            Path::new("nowhere"),
            documents,
            conditions,
        ) {
            Ok(Lookup::Found(_)) => "found".to_owned(),
            Ok(Lookup::None) => "none".to_owned(),
            Ok(Lookup::Unfit { why, .. }) => why,
            Err(error) => error.to_string(),
        };
        let now = conditions();
        assert!(found(100, &now).contains("calibration.json"), "a named file must exist");
        keep(&file, 100, &now, &[]).unwrap();
        assert_eq!(found(100, &now), "found");
        assert_eq!((found(199, &now), found(51, &now)), ("found".to_owned(), "found".to_owned()));
        assert!(found(200, &now).contains("100 documents, but the index has 200"));
        let others = [
            (Conditions { cpu: "Other".into(), ..now.clone() }, "has Other"),
            (Conditions { threads: 3, ..now.clone() }, "2 threads, but this search has 3 threads"),
            (Conditions { devices: vec![CPU.into()], ..now.clone() }, "the devices are CPU"),
            (Conditions { program: "9.9".into(), ..now.clone() }, "this is version 9.9"),
            (Conditions { ranking: "okapi".into(), ..now.clone() }, "the ranking is okapi"),
            (Conditions { settings: "x".into(), ..now.clone() }, "they are x"),
        ];
        for (other, why) in others {
            assert!(found(100, &other).contains(why), "{}", found(100, &other));
        }
        let bytes = fs::read(&file).unwrap();
        for len in 0..bytes.len().min(200) {
            fs::write(&file, &bytes[..len]).unwrap();
            assert!(found(100, &now).contains("not a calibration"), "{len} bytes");
        }
    }

    #[test]
    fn the_default_place_depends_on_the_conditions_but_not_on_the_version() {
        let (folder, options) = (tempfile::tempdir().unwrap(), SearcherOptions::new());
        let file = |conditions: &Conditions| file_for(&options, folder.path(), conditions);
        let now = conditions();
        // Without a home directory there is no default place.
        if file(&now).is_none() {
            return;
        }
        let newer = Conditions { program: "9.9".into(), ..now.clone() };
        let other = Conditions { threads: 3, ..now.clone() };
        assert_eq!(file(&newer), file(&now));
        assert_ne!(file(&other), file(&now));
        let off = SearcherOptions::new().calibration(CalibrationChoice::Off);
        assert_eq!(file_for(&off, folder.path(), &now), None);
    }

    #[test]
    fn only_the_newest_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let start = SystemTime::now();
        for i in 0..MOST_FILES as u64 + 5 {
            let file = fs::File::create(folder.path().join(i.to_string())).unwrap();
            file.set_modified(start + Duration::from_secs(i)).unwrap();
        }
        prune(folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MOST_FILES);
        assert!(!folder.path().join("4").exists() && folder.path().join("5").exists());
    }
}

//! Measurements of the cost of queries for an index on this machine. They are saved in the user's
//! cache rather than in the index, which may be copied to another machine.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use warpseek_exec::{Limit, Plan};
use warpseek_sched::calibrate::Calibration;
use xxhash_rust::xxh3::xxh3_64;

use super::stations::Stations;
use crate::devices::cpu_model;
use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::query::Request;
use crate::searcher::Searcher;

/// The version of the file format and of the measurements.
const VERSION: u32 = 1;

/// Minimum number of timed queries. With fewer, the engines' own estimates are more accurate.
const ENOUGH: usize = 64;

/// Maximum number of saved files. The oldest ones are deleted.
const MOST_FILES: usize = 100;

/// Measurements are repeated once the index has grown or shrunk by this factor.
const OTHER_SIZE: u64 = 2;

/// Returns true if a model is based on enough queries to be used.
pub(crate) fn is_enough(found: &Calibration) -> bool {
    found.queries >= ENOUGH
}

/// The result of [`Searcher::calibrate`].
#[derive(Clone, Debug)]
pub struct CalibrationReport {
    /// The measurements of each engine of a service, with the name of its device.
    pub stations: Vec<(String, Calibration)>,
    /// The file with the measurements, unless too few queries were timed for them to be saved.
    pub file: Option<PathBuf>,
}

/// The contents of a file with measurements.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    documents: u64,
    stations: Vec<(String, Calibration)>,
}

impl Searcher {
    /// Measures the cost of queries on each engine that a service of this searcher would have,
    /// for about `time`. The measurements are saved in the user's cache for services that are
    /// started later.
    ///
    /// The queries consist of terms of the index. The reported errors of the cost models refer to
    /// the queries of `log`, or, if it is empty, to measured queries that were not used for the
    /// models.
    pub fn calibrate(&self, time: Duration, log: &[Request]) -> Result<CalibrationReport> {
        let opened = self.opened();
        let stations = Stations::of(&opened, self.threads(), None)?;
        let plan = |request: &Request| Ok(opened.plan(request, &Limit::none())?);
        let log: Vec<Plan> = log.iter().map(plan).collect::<Result<_>>()?;
        let log = Some(&log[..]).filter(|log| !log.is_empty());
        let found = stations.calibrate(&opened, log, time)?;
        let missing = || Error::Cache("the user has no cache folder; set WARPSEEK_CACHE".into());
        let file = self.calibration_file(&opened, stations).ok_or_else(missing)?;
        let in_file = |error: std::io::Error| Error::Cache(format!("{}: {error}", file.display()));
        let is_enough = found.iter().all(|(_, found)| is_enough(found));
        if is_enough {
            keep(&file, &opened, &found).map_err(in_file)?;
        }
        Ok(CalibrationReport { stations: found, file: Some(file).filter(|_| is_enough) })
    }

    /// Returns the saved measurements, or measures if there are none.
    pub(crate) fn calibrations(
        &self,
        opened: &Arc<Opened>,
        stations: Stations,
        time: Duration,
        keeps: bool,
    ) -> Result<Vec<(String, Calibration)>> {
        let file = keeps.then(|| self.calibration_file(opened, stations)).flatten();
        if let Some(known) = file.as_ref().and_then(|file| read(file, opened)) {
            return Ok(known);
        }
        let found = stations.calibrate(opened, None, time)?;
        if let Some(file) = file
            && found.iter().all(|(_, found)| is_enough(found))
        {
            // Saving is optional: a failure only costs time at the next start.
            let _ = keep(&file, opened, &found);
        }
        Ok(found)
    }

    /// Returns the path of the file with the measurements. Its name contains a hash of everything
    /// that times depend on, so that nothing else has to be compared.
    fn calibration_file(&self, opened: &Arc<Opened>, stations: Stations) -> Option<PathBuf> {
        let folder = warpseek_cuda::user_cache()?.join("calibrations");
        let index = fs::canonicalize(self.path()).ok()?;
        let key = format!(
            "{VERSION}\n{}\n{}\n{}\n{}\n{:?}",
            index.display(),
            cpu_model(),
            stations.name(opened),
            self.ranking_name(),
            self.options.that_times_depend_on(),
        );
        Some(folder.join(format!("{:016x}.json", xxh3_64(key.as_bytes()))))
    }
}

fn read(file: &Path, opened: &Opened) -> Option<Vec<(String, Calibration)>> {
    let kept: Kept = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let (then, now) = (kept.documents.max(1), opened.snapshot.statistics().documents.max(1));
    let is_same = kept.version == VERSION && then.max(now) < OTHER_SIZE * then.min(now);
    is_same.then_some(kept.stations)
}

/// Writes measurements to a temporary file and renames it, so that readers never see a part of
/// it.
fn keep(file: &Path, opened: &Opened, found: &[(String, Calibration)]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)?;
    let documents = opened.snapshot.statistics().documents;
    let kept = Kept { version: VERSION, documents, stations: found.to_vec() };
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(&kept)?)?;
    new.persist(file)?;
    // This may fail because another process does the same.
    let _ = prune(folder);
    Ok(())
}

/// Deletes the oldest files, since nothing tells when an index is deleted.
fn prune(folder: &Path) -> std::io::Result<()> {
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
    use super::*;
    use crate::{Document, Index};

    fn add(index: &Index, from: usize, to: usize) {
        let mut writer = index.writer().unwrap();
        for i in from..to {
            let text = format!("ant bee{} cow{}", i % 5, i % 17);
            writer.add(Document::new(i.to_string(), "", text)).unwrap();
        }
        writer.commit().unwrap();
    }

    #[test]
    fn what_was_kept_is_used_until_the_index_has_another_size() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(folder.path().join("index")).unwrap();
        add(&index, 0, 300);
        let searcher = index.searcher().unwrap();
        let opened = searcher.opened();
        let stations = Stations::of(&opened, 1, None).unwrap();
        // The calibration ends early when it runs out of queries.
        let found = stations.calibrate(&opened, None, Duration::from_secs(5)).unwrap();
        assert!(is_enough(&found[0].1), "{found:?}");
        let file = folder.path().join("cache").join("file.json");
        assert!(read(&file, &opened).is_none());
        keep(&file, &opened, &found).unwrap();
        let kept = read(&file, &opened).unwrap();
        assert_eq!((&kept[0].0, &kept[0].1.model), (&found[0].0, &found[0].1.model));

        add(&index, 300, 500);
        assert!(searcher.refresh().unwrap() && read(&file, &searcher.opened()).is_some());
        add(&index, 500, 700);
        assert!(searcher.refresh().unwrap() && read(&file, &searcher.opened()).is_none());
        let bytes = fs::read(&file).unwrap();
        for len in 0..bytes.len().min(200) {
            fs::write(&file, &bytes[..len]).unwrap();
            assert!(read(&file, &opened).is_none(), "{len} bytes");
        }
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

//! What queries cost on this machine, as it was measured for an index, kept in the user's cache: the index may be on another machine tomorrow.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpseek_exec::Plan;
use warpseek_sched::calibrate::Calibration;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};
use crate::opened::Opened;
use crate::request::Request;
use crate::searcher::Searcher;
use crate::stations::Stations;

/// Changes with the form of the file, and with what is measured.
const VERSION: u32 = 1;

/// With fewer queries timed, what engines say of themselves is closer.
const ENOUGH: usize = 64;

/// An index that has become this many times as large or small is measured anew.
const OTHER_SIZE: u64 = 2;

/// Whether a model is good enough to be used.
pub(crate) fn is_enough(found: &Calibration) -> bool {
    found.queries >= ENOUGH
}

/// What was measured by [`Searcher::calibrate`].
#[derive(Clone, Debug)]
pub struct CalibrationReport {
    /// Each engine of a service, with the name of its device.
    pub stations: Vec<(String, Calibration)>,
    /// The file in which it is kept.
    pub file: PathBuf,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u32,
    documents: u64,
    stations: Vec<(String, Calibration)>,
}

impl Searcher {
    /// Measures for about this long what queries cost on each engine that a service of this searcher has, and keeps that in the user's cache for services
    /// that are started later. The errors of its models are those on the queries of a log, if there is one, else on a part of the queries of the
    /// index's own terms that are timed.
    pub fn calibrate(&self, time: Duration, log: &[Request]) -> Result<CalibrationReport> {
        let opened = self.opened();
        let stations = Stations::of(&opened, self.threads(), None);
        if opened.gpu.engine().is_some() {
            opened.prepare()?;
        }
        let plan = |request: &Request| Ok(opened.plan(request)?);
        let log: Vec<Plan> = log.iter().map(plan).collect::<Result<_>>()?;
        let log = Some(&log[..]).filter(|log| !log.is_empty());
        let found = stations.calibrate(&opened, log, time)?;
        let missing = || Error::Cache("the user has no cache folder; set WARPSEEK_CACHE".into());
        let file = self.calibration_file(&opened, stations).ok_or_else(missing)?;
        let in_file = |error: std::io::Error| Error::Cache(format!("{}: {error}", file.display()));
        keep(&file, &opened, &found).map_err(in_file)?;
        Ok(CalibrationReport { stations: found, file })
    }

    /// What was measured earlier, or is measured now.
    pub(crate) fn calibrations(
        &self,
        opened: &Arc<Opened>,
        stations: Stations,
        time: Duration,
        keeps: bool,
    ) -> Result<Vec<(String, Calibration)>> {
        let file = self.calibration_file(opened, stations).filter(|_| keeps);
        if let Some(known) = file.as_ref().and_then(|file| read(file, opened)) {
            return Ok(known);
        }
        let found = stations.calibrate(opened, None, time)?;
        if let Some(file) = file
            && found.iter().all(|(_, found)| is_enough(found))
        {
            // If that fails it costs time at the next start, and nothing else.
            let _ = keep(&file, opened, &found);
        }
        Ok(found)
    }

    /// Its name has a hash of all that times depend on, so that nothing else has to be compared.
    fn calibration_file(&self, opened: &Arc<Opened>, stations: Stations) -> Option<PathBuf> {
        let folder = warpseek_cuda::user_cache()?.join("calibrations");
        let index = fs::canonicalize(self.path()).ok()?;
        let of = format!(
            "{VERSION}\n{}\n{}\n{}\n{}\n{:?}",
            index.display(),
            cpu_model(),
            stations.name(opened),
            self.ranking_name(),
            self.options.that_times_depend_on(),
        );
        Some(folder.join(format!("{:016x}.json", xxh3_64(of.as_bytes()))))
    }
}

fn read(file: &PathBuf, opened: &Opened) -> Option<Vec<(String, Calibration)>> {
    let kept: Kept = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let (then, now) = (kept.documents.max(1), opened.snapshot.statistics().documents.max(1));
    let is_same = kept.version == VERSION && then.max(now) < OTHER_SIZE * then.min(now);
    is_same.then_some(kept.stations)
}

/// Written under another name first, so that nobody reads half of it.
fn keep(file: &PathBuf, opened: &Opened, found: &[(String, Calibration)]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder)?;
    let documents = opened.snapshot.statistics().documents;
    let kept = Kept { version: VERSION, documents, stations: found.to_vec() };
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(&serde_json::to_vec(&kept)?)?;
    new.persist(file)?;
    Ok(())
}

/// The name of the CPU, as far as the system tells.
pub fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|m| m.1));
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}

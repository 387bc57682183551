//! Calibration of a searcher: its measurement, and its use by services.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use warpseek_exec::{Limit, Plan};
use warpseek_sched::calibrate::Calibration;

use super::stations::Stations;
use crate::calibration::{self, Conditions, Known, Lookup, file_for, is_enough, keep};
use crate::error::{Error, Result};
use crate::gpu::Notice;
use crate::opened::Opened;
use crate::options::{CalibrationChoice, SearcherOptions};
use crate::query::Request;
use crate::searcher::Searcher;

/// The result of [`Searcher::calibrate`].
#[derive(Clone, Debug)]
pub struct CalibrationReport {
    /// The measurements of each engine of a service, with the name of its device.
    pub stations: Vec<(String, Calibration)>,
    /// The file with the measurements, unless too few queries were timed for them to be saved.
    pub file: Option<PathBuf>,
}

impl Searcher {
    /// Measures the cost of queries on each engine that a service of this searcher would have,
    /// for about `time`. The measurements are saved in the user's cache, where searchers and
    /// services find them that are opened later for the same index on the same machine.
    ///
    /// The queries consist of terms of the index. The reported errors of the cost models refer to
    /// the queries of `log`, or, if it is empty, to measured queries that were not used for the
    /// models.
    pub fn calibrate(&self, time: Duration, log: &[Request]) -> Result<CalibrationReport> {
        self.calibrate_to(None, time, log)
    }

    /// Measures as [`Searcher::calibrate`] does, and saves the measurements in a file, for
    /// [`CalibrationChoice::File`](crate::options::CalibrationChoice::File).
    pub fn calibrate_into(
        &self,
        file: &Path,
        time: Duration,
        log: &[Request],
    ) -> Result<CalibrationReport> {
        self.calibrate_to(Some(file), time, log)
    }

    fn calibrate_to(
        &self,
        file: Option<&Path>,
        time: Duration,
        log: &[Request],
    ) -> Result<CalibrationReport> {
        let opened = self.opened();
        let stations = Stations::of(&opened, self.threads(), None)?;
        let plan = |request: &Request| Ok(opened.plan(request, &Limit::none())?);
        let log: Vec<Plan> = log.iter().map(plan).collect::<Result<_>>()?;
        let log = Some(&log[..]).filter(|log| !log.is_empty());
        let found = stations.calibrate(&opened, log, time)?;
        let conditions = self.conditions(&opened, stations, None);
        let kept_by_default = || {
            let options = SearcherOptions::clone(&self.options);
            let options = options.calibration(CalibrationChoice::Auto);
            file_for(&options, self.path(), &conditions)
        };
        let missing = || Error::Cache("the user has no cache folder; set WARPSEEK_CACHE".into());
        let named = file.map(Path::to_owned);
        let file = named.clone().or_else(kept_by_default).ok_or_else(missing)?;
        let in_file = |error: std::io::Error| Error::Cache(format!("{}: {error}", file.display()));
        let is_enough = found.iter().all(|(_, found)| is_enough(found));
        if is_enough {
            save(&file, named.is_none(), &opened, &conditions, &found).map_err(in_file)?;
            let file = Some(file.clone());
            opened.costs.calibrated(Known { file, stations: found.clone() });
        }
        Ok(CalibrationReport { stations: found, file: Some(file).filter(|_| is_enough) })
    }

    /// Returns the saved measurements, or measures for this time if there are none. With no time
    /// at all, there are then no measurements.
    pub(crate) fn calibrations(
        &self,
        opened: &Arc<Opened>,
        stations: Stations,
        servers: Option<usize>,
        time: Duration,
        keeps: bool,
    ) -> Result<Vec<(String, Calibration)>> {
        let conditions = self.conditions(opened, stations, servers);
        let documents = opened.snapshot.statistics().documents;
        // A file that the user names is used whatever the service would keep itself.
        let is_named = matches!(self.options.calibration, CalibrationChoice::File(_));
        let looks = keeps || is_named;
        let lookup = || calibration::look_up(&self.options, self.path(), documents, &conditions);
        match if looks { lookup()? } else { Lookup::None } {
            Lookup::Found(known) => {
                let stations = known.stations.clone();
                opened.costs.calibrated(known);
                return Ok(stations);
            }
            Lookup::Unfit { file, why } => {
                (self.options.listener)(&Notice::OtherCalibration { file, why });
            }
            Lookup::None => {}
        }
        if time.is_zero() {
            return Ok(Vec::new());
        }
        let found = stations.calibrate(opened, None, time)?;
        if !found.iter().all(|(_, found)| is_enough(found)) {
            return Ok(found);
        }
        let mut file = None;
        // A file that the user named is not replaced.
        if keeps
            && !is_named
            && let Some(place) = file_for(&self.options, self.path(), &conditions)
        {
            // Saving is optional: a failure only costs time at the next start.
            let kept = save(&place, true, opened, &conditions, &found);
            file = kept.is_ok().then_some(place);
        }
        opened.costs.calibrated(Known { file, stations: found.clone() });
        Ok(found)
    }

    /// Returns what the times of the stations depend on.
    fn conditions(
        &self,
        opened: &Arc<Opened>,
        stations: Stations,
        servers: Option<usize>,
    ) -> Conditions {
        let mut devices = stations.devices(opened);
        // The CPU's times depend on the number of its threads that work at the same time.
        if let Some(servers) = servers {
            devices.push(format!("{servers} servers"));
        }
        Conditions::now(&self.options, self.threads(), devices, self.ranking_name())
    }
}

fn save(
    file: &Path,
    is_cache: bool,
    opened: &Opened,
    conditions: &Conditions,
    found: &[(String, Calibration)],
) -> std::io::Result<()> {
    keep(file, opened.snapshot.statistics().documents, conditions, found)?;
    if is_cache && let Some(folder) = file.parent() {
        // This may fail because another process does the same.
        let _ = calibration::prune(folder);
    }
    Ok(())
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

    /// Checks that services use the calibration in a named file without measuring, until the
    /// index has another size.
    #[test]
    fn a_named_calibration_is_used_until_the_index_has_another_size() {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::create(folder.path().join("index")).unwrap();
        add(&index, 0, 300);
        let file = folder.path().join("new").join("calibration.json");
        let searcher = index.searcher().unwrap();
        // The calibration ends early when it runs out of queries.
        let report = searcher.calibrate_into(&file, Duration::from_secs(5), &[]).unwrap();
        assert_eq!(report.file.as_deref(), Some(&*file));
        let notices = Arc::new(std::sync::Mutex::new(Vec::new()));
        let heard = notices.clone();
        let options = SearcherOptions::new()
            .calibration(CalibrationChoice::File(file.clone()))
            .on_notice(move |notice| heard.lock().unwrap().push(notice.to_string()));
        let known = || {
            let searcher = index.searcher_with(options.clone()).unwrap();
            let opened = searcher.opened();
            let stations = Stations::of(&opened, searcher.threads(), None).unwrap();
            searcher.calibrations(&opened, stations, None, Duration::ZERO, false).unwrap()
        };
        let found = known();
        assert_eq!(
            (&found[0].0, &found[0].1.model),
            (&report.stations[0].0, &report.stations[0].1.model)
        );
        assert!(notices.lock().unwrap().is_empty());
        add(&index, 300, 700);
        assert!(known().is_empty());
        let notices = notices.lock().unwrap();
        assert!(notices[0].contains("300 documents, but the index has 700"), "{notices:?}");
        // A file that cannot be read is an error.
        let missing = CalibrationChoice::File(folder.path().join("missing.json"));
        let searcher = index.searcher_with(options.calibration(missing)).unwrap();
        let service = searcher.service(crate::ServiceOptions::new().calibration(Duration::ZERO));
        assert!(service.err().unwrap().to_string().contains("missing.json"));
    }
}

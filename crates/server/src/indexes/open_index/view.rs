//! The view of an index that searches use: its searcher and mapping.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metrics::Histogram;
use warpseek::options::Algorithm;
use warpseek::plan::{Choice, Traced};
use warpseek::service::ServiceTicket;
use warpseek::{Error, Request, Response, Searcher, Service, ServiceError, ServiceOptions};

use crate::elasticsearch::mapping::Mapping;
use crate::error::Failure;
use crate::http::caller::under;
use crate::operations::telemetry::counters::search_times;

/// A searcher and the mapping that belongs to it.
pub(crate) struct View {
    pub(crate) searcher: Searcher,
    pub(crate) mapping: Mapping,
    /// Set on first use; `None` without a GPU.
    cohorts: OnceLock<Option<Arc<Cohorts>>>,
    /// Histograms of search times on the CPU and on a GPU.
    times: [OnceLock<Histogram>; 2],
}

impl View {
    pub(super) fn new(searcher: Searcher, mapping: Mapping) -> Self {
        View { searcher, mapping, cohorts: OnceLock::new(), times: Default::default() }
    }

    /// Creates a view whose searches are not batched, because there are few of them.
    pub(crate) fn alone(searcher: Searcher, mapping: Mapping) -> Self {
        View { searcher, mapping, cohorts: OnceLock::from(None), times: Default::default() }
    }

    /// Creates a view with another mapping and the same searcher.
    pub(super) fn with_mapping(&self, mapping: Mapping) -> Self {
        let (searcher, cohorts) = (self.searcher.clone(), self.cohorts.clone());
        View { searcher, mapping, cohorts, times: Default::default() }
    }

    /// Returns the histogram for the times of searches. The GPU's state is queried only if there
    /// `may_be` one.
    pub(crate) fn times(&self, index: &str, may_be: bool) -> &Histogram {
        match may_be && self.searcher.gpu_status().name.is_some() {
            false => self.times[0].get_or_init(|| search_times(index, "cpu")),
            true => self.times[1].get_or_init(|| search_times(index, "gpu")),
        }
    }

    /// Prepares the searcher, so that the first search need not wait.
    pub(crate) fn prepare(&self) -> Result<(), Error> {
        self.searcher.prepare()?;
        if self.cohorts.get().is_none() {
            let _ = self.cohorts.set(self.start(ServiceOptions::new())?);
        }
        Ok(())
    }

    fn start(&self, options: ServiceOptions) -> Result<Option<Arc<Cohorts>>, Error> {
        let Some(gpu) = self.searcher.gpu_status().name else { return Ok(None) };
        Ok(Some(Arc::new(Cohorts { service: self.searcher.service(options)?, gpu })))
    }

    fn cohorts(&self) -> Option<&Cohorts> {
        // A search is waiting, so costs are not calibrated now; the service learns them from its
        // searches.
        let quick = || self.start(ServiceOptions::new().calibration(Duration::ZERO));
        let cohorts = self.cohorts.get_or_init(|| {
            quick().unwrap_or_else(|error| {
                tracing::warn!(%error, "searches are not batched");
                None
            })
        });
        cohorts.as_deref()
    }

    /// Answers a search.
    pub(crate) fn search(&self, request: &Request) -> Result<Response, Failure> {
        match self.cohorts() {
            Some(cohorts) => {
                let limit = request.limit(Instant::now());
                match cohorts.service.submit(request) {
                    // A search that cannot start in time gets a partial answer, as without a GPU.
                    Err(ServiceError::Refused { .. }) => {
                        Ok(self.searcher.search(&under(request.clone(), &limit, limit.left()))?)
                    }
                    ticket => Ok(ticket?.wait().answer?),
                }
            }
            None => Ok(self.searcher.search(request)?),
        }
    }

    /// Answers a search and reports how it was executed.
    pub(crate) fn search_traced(&self, request: &Request) -> Result<Traced, Failure> {
        match self.cohorts() {
            Some(cohorts) => {
                let start = Instant::now();
                let limit = request.limit(start);
                match cohorts.service.submit(request) {
                    Err(ServiceError::Refused { .. }) => Ok(self
                        .searcher
                        .search_traced(&under(request.clone(), &limit, limit.left()))?),
                    ticket => cohorts.traced(ticket?, start.elapsed()),
                }
            }
            None => Ok(self.searcher.search_traced(request)?),
        }
    }
}

/// A service that combines searches of different requests into batches for a GPU.
struct Cohorts {
    service: Service,
    gpu: String,
}

impl Cohorts {
    fn traced(&self, ticket: ServiceTicket, planning: Duration) -> Result<Traced, Failure> {
        let served = ticket.wait();
        let on_gpu = served.station.is_some_and(|station| station > 0);
        let choice = Choice {
            device: if on_gpu { self.gpu.clone() } else { "CPU".to_owned() },
            algorithm: Algorithm::Auto.to_string(),
            why: match (served.shared, served.batch) {
                (true, _) => "the answer of an identical concurrent request was used".to_owned(),
                (false, batch) => {
                    format!("it was the first idle device and answered a batch of {batch}")
                }
            },
        };
        let answering = served.took.saturating_sub(planning);
        Ok(Traced { response: served.answer?, choice, planning, answering })
    }
}

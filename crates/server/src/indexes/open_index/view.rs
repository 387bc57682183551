//! The view of an index that searches use: its searcher and mapping, and the cache of answers.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metrics::Histogram;
use warpseek::cache::AnswerCache;
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
    /// The cache that all indexes share, unless it is disabled.
    answers: Option<Arc<AnswerCache>>,
    /// Set on first use; `None` without a GPU.
    cohorts: OnceLock<Option<Arc<Cohorts>>>,
    /// Histograms of search times on the CPU and on a GPU.
    times: [OnceLock<Histogram>; 2],
}

impl View {
    pub(super) fn new(
        searcher: Searcher,
        mapping: Mapping,
        answers: Option<Arc<AnswerCache>>,
    ) -> Self {
        View { searcher, mapping, answers, cohorts: OnceLock::new(), times: Default::default() }
    }

    /// Returns a view that never changes. Its searches are not batched, because there are few of
    /// them.
    pub(crate) fn frozen(&self) -> Self {
        let (searcher, mapping) = (self.searcher.frozen(), self.mapping.clone());
        let (answers, cohorts) = (self.answers.clone(), OnceLock::from(None));
        View { searcher, mapping, answers, cohorts, times: Default::default() }
    }

    /// Creates a view with another mapping and the same searcher.
    pub(super) fn with_mapping(&self, mapping: Mapping) -> Self {
        let (searcher, answers) = (self.searcher.clone(), self.answers.clone());
        View {
            searcher,
            mapping,
            answers,
            cohorts: self.cohorts.clone(),
            times: Default::default(),
        }
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

    /// Answers a search. If it `may_use_cache`, its answer may come from the cache, which else
    /// keeps it.
    pub(crate) fn search(
        &self,
        request: &Request,
        may_use_cache: bool,
    ) -> Result<Response, Failure> {
        let compute = || self.compute(request);
        self.with_cache(request, may_use_cache, compute, |response| response, |response| response)
    }

    /// Answers a search like [`View::search`], and reports how it was executed.
    pub(crate) fn search_traced(&self, request: &Request) -> Result<Traced, Failure> {
        let compute = || self.compute_traced(request);
        self.with_cache(request, true, compute, |traced| &traced.response, from_cache)
    }

    /// Answers many searches over the same snapshot, in their order. Those that `may_use_cache`,
    /// which gets their numbers, are treated as by [`View::search`].
    pub(crate) fn search_batch(
        &self,
        requests: &[Request],
        may_use_cache: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Result<Response, Error>> {
        match &self.answers {
            Some(answers) => answers.search_batch(&self.searcher, requests, may_use_cache),
            None => self.searcher.search_batch(requests),
        }
    }

    /// Takes the answer of a search from the cache, with `found`, or computes it and adds the
    /// response in it to the cache.
    fn with_cache<T>(
        &self,
        request: &Request,
        may_use_cache: bool,
        compute: impl FnOnce() -> Result<T, Failure>,
        response_of: impl FnOnce(&T) -> &Response,
        found: impl FnOnce(Response) -> T,
    ) -> Result<T, Failure> {
        let Some(answers) = self.answers.as_deref().filter(|_| may_use_cache) else {
            return compute();
        };
        let snapshot = self.searcher.snapshot();
        let Some(question) = AnswerCache::question(&snapshot, request) else { return compute() };
        if let Some(response) = answers.get(&question, &snapshot) {
            return Ok(found(response));
        }
        let computed = compute()?;
        answers.add(&question, response_of(&computed));
        Ok(computed)
    }

    /// Answers a search with an engine.
    fn compute(&self, request: &Request) -> Result<Response, Failure> {
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

    /// Answers a search with an engine, and reports how it was executed.
    fn compute_traced(&self, request: &Request) -> Result<Traced, Failure> {
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

/// Returns the record of a search whose answer was in the cache.
fn from_cache(response: Response) -> Traced {
    let choice = Choice {
        device: "cache".to_owned(),
        algorithm: "lookup".to_owned(),
        why: "an equal search of the same snapshot was answered before".to_owned(),
    };
    let answering = response.took();
    Traced { response, choice, planning: Duration::ZERO, answering }
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

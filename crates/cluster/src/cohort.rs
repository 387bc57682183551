//! Answers to several queries that are sent together. A cohort collects the statistics of its
//! terms once, plans each query with them, takes answers from the cache, and sends the remaining
//! queries to all shards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tonic::Status;
use warpseek::Mode;
use warpseek::plan::{CollectionStatistics, Plan};
use warpseek::service::{HeapBytes, Lookup, ResultCache, ResultKey};

use crate::asking::{CallFailure, ask};
use crate::coverage::MissingShard;
use crate::error::ClusterError;
use crate::gather::{Collector, Halt, Term, TermStatistics, halted};
use crate::merge::merge;
use crate::protocol;
use crate::request::{ClusterHit, ClusterRequest, ClusterResponse};
use crate::shard_times::ShardTimes;
use crate::wire;

/// Cache of answers by query, with the requests that wait for an answer in progress.
pub(crate) type Cache = ResultCache<ClusterResponse, oneshot::Sender<Arc<ClusterResponse>>>;

impl HeapBytes for ClusterResponse {
    fn heap_bytes(&self) -> usize {
        let ids: usize = self.hits.iter().map(|hit| hit.id.capacity()).sum();
        // Only complete answers are cached, and their coverage has no allocations.
        ids + self.hits.capacity() * size_of::<ClusterHit>()
    }
}

/// Result of a request.
type Outcome = Result<Arc<ClusterResponse>, ClusterError>;

/// Queries that are answered together.
pub(crate) struct Cohort<'a> {
    pub(crate) collector: Collector<'a>,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) shard_times: Option<&'a ShardTimes>,
}

/// A query with its plan.
struct PlannedQuery<'a> {
    /// Index of the request in the cohort.
    at: usize,
    request: &'a ClusterRequest,
    terms: Vec<Term>,
    plan: Plan,
}

/// Statistics and shards for an answer.
struct Scope {
    statistics: Arc<CollectionStatistics>,
    shards: Vec<u32>,
    missing: Vec<MissingShard>,
    is_whole: bool,
}

impl Cohort<'_> {
    /// Answers each request independently. Returns [`Halt`] if the nodes have to be called
    /// again.
    pub(crate) async fn answer(&self, requests: &[ClusterRequest]) -> Result<Vec<Outcome>, Halt> {
        let mut outcomes: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
        let searcher = &self.collector.view.epoch.searcher;
        // A plan without documents and statistics lists all its terms as missing.
        let listed = |request: &ClusterRequest| -> Result<Vec<Term>, ClusterError> {
            Ok(searcher.plan(&request.planned_by(searcher)?)?.missing)
        };
        let mut asked: Vec<(usize, Vec<Term>)> = Vec::with_capacity(requests.len());
        for (at, request) in requests.iter().enumerate() {
            match listed(request) {
                Ok(terms) => asked.push((at, terms)),
                Err(error) => outcomes[at] = Some(Err(error)),
            }
        }
        let all: BTreeSet<Term> = asked.iter().flat_map(|(_, terms)| terms).cloned().collect();
        let all: Vec<Term> = all.into_iter().collect();
        let whole = self.collector.whole(&all).await?;
        let knows = |terms: &[Term]| {
            let known = |(field, term): &Term, gathered: &TermStatistics| {
                gathered.statistics.frequency(*field, term).is_some()
            };
            whole.as_ref().is_some_and(|whole| terms.iter().all(|term| known(term, whole)))
        };
        let (known, others): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|(_, terms)| knows(terms));
        let mut blamed = Vec::new();
        if let Some(TermStatistics { statistics, shards, missing }) = whole {
            blamed = missing;
            let statistics = Arc::new(statistics);
            let over = Scope { statistics, shards, missing: Vec::new(), is_whole: true };
            self.over(&over, requests, known, &mut outcomes).await?;
        }
        if !others.is_empty() {
            let terms: BTreeSet<Term> =
                others.iter().flat_map(|(_, terms)| terms).cloned().collect();
            let terms: Vec<Term> = terms.into_iter().collect();
            let TermStatistics { statistics, shards, missing } =
                self.collector.reduced(&terms, blamed).await?;
            let statistics = Arc::new(statistics);
            let over = Scope { statistics, shards, missing, is_whole: false };
            self.over(&over, requests, others, &mut outcomes).await?;
        }
        let none = || Err(ClusterError::Query(warpseek::plan::ExecError::NoAnswer));
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(none));
        let strict = |(outcome, request): (Outcome, &ClusterRequest)| match outcome {
            Ok(response) if !request.allow_partial && !response.coverage.is_complete() => {
                Err(ClusterError::Incomplete(response.coverage.clone()))
            }
            outcome => outcome,
        };
        Ok(outcomes.zip(requests).map(strict).collect())
    }

    /// Plans requests with the given statistics, and answers them from the cache or by calling
    /// the shards.
    async fn over(
        &self,
        over: &Scope,
        requests: &[ClusterRequest],
        asked: Vec<(usize, Vec<Term>)>,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Halt> {
        let (mut leading, mut computed, mut following) = (Vec::new(), Vec::new(), Vec::new());
        for (at, terms) in asked {
            let request = &requests[at];
            let plan = match self.plan(over, request) {
                Ok(plan) => plan,
                Err(error) => {
                    outcomes[at] = Some(Err(error));
                    continue;
                }
            };
            let planned = PlannedQuery { at, request, terms, plan };
            let Some(cache) = self.cache.filter(|_| over.is_whole && request.is_cached()) else {
                computed.push(planned);
                leading.push(None);
                continue;
            };
            let key = ResultKey::of(&planned.plan);
            let (answer, answered) = oneshot::channel();
            match cache.lookup(&key, at as u64, answer) {
                Lookup::Hit(response, _) => outcomes[at] = Some(Ok(response)),
                Lookup::Lead(_) => {
                    computed.push(planned);
                    leading.push(Some(CacheLead { cache, key, filled: false }));
                }
                Lookup::Follow => following.push((planned, answered)),
            }
        }
        let answers = self.compute(over, &computed).await?;
        for ((planned, leading), response) in computed.iter().zip(leading).zip(answers) {
            let response = Arc::new(response);
            if let Some(leading) = leading
                && response.coverage.is_complete()
            {
                leading.fill(&response);
            }
            outcomes[planned.at] = Some(Ok(response));
        }
        let mut left = Vec::new();
        for (planned, answered) in following {
            // The leader may have more time than is left here, or may have given up.
            match within(self.collector.times.until, answered).await {
                Some(Ok(response)) => outcomes[planned.at] = Some(Ok(response)),
                _ => left.push(planned),
            }
        }
        let answers = self.compute(over, &left).await?;
        for (planned, response) in left.iter().zip(answers) {
            outcomes[planned.at] = Some(Ok(Arc::new(response)));
        }
        Ok(())
    }

    fn plan(&self, over: &Scope, request: &ClusterRequest) -> Result<Plan, ClusterError> {
        let searcher = &self.collector.view.epoch.searcher;
        let planned = request.planned_by(searcher)?;
        Ok(match over.shards.is_empty() {
            // There are no shards to call, so no statistics are needed.
            true => searcher.plan(&planned)?,
            false => searcher.plan(&planned.of_collection(over.statistics.clone()))?,
        })
    }

    /// Calls the shards. AND-then-OR depends on all of them: they answer AND first, and then OR
    /// for the queries that have too few hits together.
    async fn compute(
        &self,
        over: &Scope,
        planned: &[PlannedQuery<'_>],
    ) -> Result<Vec<ClusterResponse>, Halt> {
        let mode = |planned: &PlannedQuery<'_>| match planned.request.mode {
            Mode::Or => protocol::Mode::Or,
            Mode::And | Mode::AndOr => protocol::Mode::And,
        };
        let all: Vec<&PlannedQuery<'_>> = planned.iter().collect();
        let mut answers = self.round(over, &all, mode).await?;
        let is_short = |at: &usize| {
            let query = &planned[*at];
            query.request.mode == Mode::AndOr && answers[*at].hits.len() < query.request.k
        };
        let short: Vec<usize> = (0..planned.len()).filter(is_short).collect();
        if !short.is_empty() {
            let again: Vec<&PlannedQuery<'_>> = short.iter().map(|&at| &planned[at]).collect();
            let more = self.round(over, &again, |_| protocol::Mode::Or).await?;
            for (at, answer) in short.into_iter().zip(more) {
                answers[at] = answer;
            }
        }
        Ok(answers)
    }

    /// Calls each shard once.
    async fn round(
        &self,
        over: &Scope,
        planned: &[&PlannedQuery<'_>],
        mode: impl Fn(&PlannedQuery<'_>) -> protocol::Mode,
    ) -> Result<Vec<ClusterResponse>, Halt> {
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let queries =
            planned.iter().map(|query| wire::to_query(query.request, mode(query), &query.plan));
        let queries: Vec<protocol::Query> =
            queries.collect::<Result<_, _>>().map_err(Halt::Failed)?;
        let terms: BTreeSet<&Term> = planned.iter().flat_map(|query| &query.terms).collect();
        let known =
            |(field, term): &&Term| over.statistics.frequency(*field, term).unwrap_or_default();
        let request = protocol::SearchRequest {
            shard: None,
            fields: over.statistics.fields.iter().map(Into::into).collect(),
            documents: terms.iter().map(known).collect(),
            terms: terms
                .iter()
                .map(|(field, term)| protocol::Term { field: (*field).into(), term: term.clone() })
                .collect(),
            queries,
            deadline: 0,
        };
        let answers = over.shards.iter().map(|&shard| {
            let request = &request;
            async move { (shard, self.shard(shard, request).await) }
        });
        let (mut parts, mut missing) = (Vec::new(), over.missing.clone());
        let answers = match self.shard_times {
            None => join_all(answers).await,
            Some(times) => {
                let mut one_by_one = Vec::new();
                for answer in answers {
                    let start = Instant::now();
                    one_by_one.push(answer.await);
                    times.note(one_by_one[one_by_one.len() - 1].0, start.elapsed());
                }
                one_by_one
            }
        };
        for (shard, answer) in answers {
            match answer {
                Ok(answer) => parts.push((shard, answer)),
                Err(unanswered) => missing.push(halted(shard, unanswered)?),
            }
        }
        missing.sort_by_key(|gone| gone.shard);
        let merged = |(at, query): (usize, &&PlannedQuery<'_>)| {
            let parts: Vec<(u32, &protocol::Answer)> =
                parts.iter().map(|(shard, answer)| (*shard, &answer.answers[at])).collect();
            let epoch = &self.collector.view.epoch;
            merge(epoch, &query.plan, &parts, missing.clone(), over.is_whole)
        };
        Ok(planned.iter().enumerate().map(merged).collect())
    }

    async fn shard(
        &self,
        number: u32,
        request: &protocol::SearchRequest,
    ) -> Result<protocol::SearchResponse, CallFailure> {
        let Collector { view, hedges, times } = self.collector;
        let shard = view.epoch.shards[number as usize].as_ref().map(|info| info.id);
        let (replicas, wanted) = (&view.replicas[number as usize], request.queries.len());
        if replicas.is_empty() {
            return Err(CallFailure::Missing(view.why_missing(number)));
        }
        ask(replicas, wanted, times, hedges, |peer, left: Option<Duration>| {
            let mut client = peer.client();
            // 0 would mean no deadline.
            let deadline = left.map_or(0, |left| left.as_micros().clamp(1, u64::MAX.into()) as u64);
            let request = protocol::SearchRequest { shard, deadline, ..request.clone() };
            async move {
                let answer = client.search(request).await?;
                match answer.answers.len() == wanted && answer.answers.iter().all(is_sound) {
                    true => Ok(answer),
                    false => Err(Status::internal(
                        "the answer does not have one id and score for each hit, or has too few parts",
                    )),
                }
            }
        })
        .await
    }
}

fn is_sound(answer: &protocol::Answer) -> bool {
    let hits = answer.documents.len();
    hits == answer.scores.len() && hits == answer.ids.len()
}

/// Returns the output of a future, or `None` if the time is up first.
pub(crate) async fn within<T>(
    until: Option<Instant>,
    future: impl Future<Output = T>,
) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), future).await.ok(),
        None => Some(future.await),
    }
}

/// A computation whose answer other requests may wait for. Dropping it unfilled wakes them.
struct CacheLead<'a> {
    cache: &'a Cache,
    key: ResultKey,
    filled: bool,
}

impl CacheLead<'_> {
    fn fill(mut self, response: &Arc<ClusterResponse>) {
        self.filled = true;
        for waiter in self.cache.fill(&self.key, response, true) {
            let _ = waiter.send(response.clone());
        }
    }
}

impl Drop for CacheLead<'_> {
    fn drop(&mut self) {
        // Waiting requests whose sender is dropped compute the answer themselves.
        if !self.filled {
            drop(self.cache.abandon(&self.key));
        }
    }
}

//! Answers to several queries that are sent together. A cohort collects the statistics of its
//! terms once, plans each query with them, takes answers from the cache, and sends the remaining
//! queries to all shards. Each query gets its answer as soon as it is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join};
use tokio::sync::oneshot;
use tonic::{Code, Status};
use warpseek::Mode;
use warpseek::plan::{CollectionStatistics, Plan};
use warpseek::service::{HeapBytes, Lookup, ResultCache, ResultKey};

use crate::asked::Asked;
use crate::asking::{CallFailure, ask};
use crate::coverage::MissingShard;
use crate::error::ClusterError;
use crate::gather::{Collector, Halt, Term, TermStatistics, halted};
use crate::merge::merge;
use crate::protocol;
use crate::request::{ClusterHit, ClusterRequest, ClusterResponse};
use crate::shard_times::ShardTimes;
use crate::wire;

/// Part of its time after which a cohort counts as cut short by its deadline: all but one in this
/// many. Nodes end earlier than the deadline, and shards that fail are given up in the middle.
const CUT_SHARE: u32 = 2;

/// Part of the cohort's time that a request must have left beyond it to be asked again.
const AGAIN_SHARE: u32 = 8;

/// Cache of answers by query, with the requests that wait for an answer in progress.
pub(crate) type Cache = ResultCache<ClusterResponse, oneshot::Sender<Arc<ClusterResponse>>>;

impl HeapBytes for ClusterResponse {
    fn heap_bytes(&self) -> usize {
        let ids: usize = self.hits.iter().map(|hit| hit.id.capacity()).sum();
        // Only complete answers are cached, and their coverage has no allocations.
        ids + self.hits.capacity() * size_of::<ClusterHit>()
    }
}

/// Queries that are answered together.
pub(crate) struct Cohort<'a> {
    pub(crate) collector: Collector<'a>,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) shard_times: Option<&'a ShardTimes>,
    /// Time at which it was sent.
    pub(crate) sent: Instant,
}

/// A query with its plan.
struct PlannedQuery<'a> {
    asked: &'a Asked,
    terms: Vec<Term>,
    plan: Plan,
    /// The entry of the cache to fill, if other requests may wait for it.
    lead: Option<CacheLead<'a>>,
}

/// Statistics and shards for an answer.
struct Scope {
    statistics: Arc<CollectionStatistics>,
    shards: Vec<u32>,
    missing: Vec<MissingShard>,
    is_whole: bool,
}

impl Scope {
    /// Returns the scope without the shards that are missing.
    fn without(&self, missing: Vec<MissingShard>) -> Self {
        let gone = |shard: &u32| missing.iter().any(|missing| missing.shard == *shard);
        Scope {
            statistics: self.statistics.clone(),
            shards: self.shards.iter().copied().filter(|shard| !gone(shard)).collect(),
            missing,
            is_whole: self.is_whole,
        }
    }
}

impl<'a> Cohort<'a> {
    /// Answers each request independently. A request whose answer would be another one if it were
    /// alone is taken out of the cohort instead. Returns [`Halt`] if the nodes have to be called
    /// again for the requests that are still open.
    pub(crate) async fn answer(&self, asked: &'a [Arc<Asked>]) -> Result<(), Halt> {
        // Requests whose words are known do not wait for those of others.
        let (known, others): (Vec<_>, Vec<_>) =
            self.listed(asked).into_iter().partition(|(_, terms)| self.collector.knows(terms));
        try_join(self.whole(known), self.whole(others)).await?;
        Ok(())
    }

    /// Answers requests with the statistics of the whole collection, or of the shards that answer
    /// if those of the others cannot be obtained.
    async fn whole(&self, listed: Vec<(&'a Asked, Vec<Term>)>) -> Result<(), Halt> {
        if listed.is_empty() {
            return Ok(());
        }
        let whole = self.collector.whole(&union(&listed)).await?;
        let knows = |terms: &[Term]| {
            let known = |(field, term): &Term, gathered: &TermStatistics| {
                gathered.statistics.frequency(*field, term).is_some()
            };
            whole.as_ref().is_some_and(|whole| terms.iter().all(|term| known(term, whole)))
        };
        let (known, others): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|(_, terms)| knows(terms));
        let mut blamed = Vec::new();
        if let Some(TermStatistics { statistics, shards, missing }) = whole {
            blamed = missing;
            let statistics = Arc::new(statistics);
            let over = Scope { statistics, shards, missing: Vec::new(), is_whole: true };
            self.over(&over, known).await?;
        }
        if !others.is_empty() {
            let TermStatistics { statistics, shards, missing } =
                self.collector.reduced(&union(&others), blamed).await?;
            let statistics = Arc::new(statistics);
            let over = Scope { statistics, shards, missing, is_whole: false };
            self.over(&over, others).await?;
        }
        Ok(())
    }

    /// Requests the frequencies of all terms of the requests that are not known yet, so that
    /// cohorts that are answered separately do not each request them.
    pub(crate) async fn prefetch(&self, asked: &'a [Arc<Asked>]) {
        // Each cohort reports what fails.
        let _ = self.collector.whole(&union(&self.listed(asked))).await;
    }

    /// Returns the answer to a request if it is in the cache.
    pub(crate) fn cached(&self, request: &ClusterRequest) -> Option<Arc<ClusterResponse>> {
        let cache = self.cache.filter(|_| request.is_cached())?;
        let searcher = &self.collector.view.epoch.searcher;
        let planned = request.planned_by(searcher).ok()?;
        let terms = searcher.plan(&planned).ok()?.missing;
        let statistics = Arc::new(self.collector.known(&terms)?);
        let plan = searcher.plan(&planned.of_collection(statistics)).ok()?;
        cache.peek(&ResultKey::of(&plan))
    }

    /// Returns the requests that can be planned, with their terms, and answers the others.
    fn listed(&self, asked: &'a [Arc<Asked>]) -> Vec<(&'a Asked, Vec<Term>)> {
        let searcher = &self.collector.view.epoch.searcher;
        // A plan without documents and statistics lists all its terms as missing.
        let terms = |request: &ClusterRequest| -> Result<Vec<Term>, ClusterError> {
            Ok(searcher.plan(&request.planned_by(searcher)?)?.missing)
        };
        let mut listed = Vec::with_capacity(asked.len());
        for one in asked {
            match terms(&one.request) {
                Ok(terms) => listed.push((one.as_ref(), terms)),
                Err(error) => one.give(Err(error)),
            }
        }
        listed
    }

    /// Plans requests with the given statistics, and answers them from the cache or by calling
    /// the shards.
    async fn over(&self, over: &Scope, listed: Vec<(&'a Asked, Vec<Term>)>) -> Result<(), Halt> {
        let (mut computed, mut following) = (Vec::new(), Vec::new());
        for (number, (asked, terms)) in (0..).zip(listed) {
            let plan = match self.plan(over, &asked.request) {
                Ok(plan) => plan,
                Err(error) => {
                    asked.give(Err(error));
                    continue;
                }
            };
            let mut planned = PlannedQuery { asked, terms, plan, lead: None };
            let is_cached = over.is_whole && asked.request.is_cached();
            let Some(cache) = self.cache.filter(|_| is_cached) else {
                computed.push(planned);
                continue;
            };
            let key = ResultKey::of(&planned.plan);
            let (answer, answered) = oneshot::channel();
            match cache.lookup(&key, number, answer) {
                Lookup::Hit(response, _) => asked.give(Ok(response)),
                Lookup::Lead(_) => {
                    planned.lead = Some(CacheLead { cache, key, filled: false });
                    computed.push(planned);
                }
                Lookup::Follow => following.push((planned, answered)),
            }
        }
        self.compute(over, computed).await?;
        let mut left = Vec::new();
        for (planned, answered) in following {
            // The leader may have more time than is left here, or may have given up.
            match within(self.collector.times.until, answered).await {
                Some(Ok(response)) => planned.asked.give(Ok(response)),
                _ => left.push(planned),
            }
        }
        self.compute(over, left).await
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

    /// Answers queries by calling the shards. AND-then-OR depends on all of them: they answer AND
    /// first, and then OR for the queries that have too few hits together.
    async fn compute(&self, over: &Scope, planned: Vec<PlannedQuery<'a>>) -> Result<(), Halt> {
        let mode = |planned: &PlannedQuery<'_>| match planned.asked.request.mode {
            Mode::Or => protocol::Mode::Or,
            Mode::And | Mode::AndOr => protocol::Mode::And,
        };
        let answers = self.round(over, &planned, mode).await?;
        let is_short = |request: &ClusterRequest, answer: &Option<ClusterResponse>| {
            let hits = answer.as_ref().map(|answer| answer.hits.len());
            request.mode == Mode::AndOr && hits.is_some_and(|hits| hits < request.k)
        };
        let missing = answers.iter().flatten().next().map(|answer| answer.coverage.missing.clone());
        let mut again = Vec::new();
        for (planned, answer) in planned.into_iter().zip(answers) {
            match answer {
                answer if !is_short(&planned.asked.request, &answer) => {
                    self.finish(planned, answer);
                }
                // Documents that were not searched with AND may have the hits that are missing.
                Some(answer) if !answer.coverage.partial.is_empty() => {
                    self.finish(planned, Some(answer.without_hits()));
                }
                _ => again.push(planned),
            }
        }
        // For the same reason, shards that did not answer are left out.
        let over = &over.without(missing.unwrap_or_default());
        let answers = self.round(over, &again, |_| protocol::Mode::Or).await?;
        for (planned, answer) in again.into_iter().zip(answers) {
            self.finish(planned, answer);
        }
        Ok(())
    }

    /// Passes an answer on. A query without one, because a node refused it, and a query whose
    /// answer is partial because another query of the cohort had less time, are to be asked again
    /// alone.
    fn finish(&self, planned: PlannedQuery<'_>, answer: Option<ClusterResponse>) {
        let PlannedQuery { asked, lead, .. } = planned;
        let Some(answer) = answer else { return asked.set_apart(None) };
        let (is_complete, answer) = (answer.coverage.is_complete(), Arc::new(answer));
        if let Some(lead) = lead.filter(|_| is_complete) {
            lead.fill(&answer);
        }
        match !is_complete && self.is_cut_short_for(asked) {
            true => asked.set_apart(Some(answer)),
            false => asked.give(Ok(answer)),
        }
    }

    /// Returns true if the time of the cohort is nearly up, and the request has so much more that
    /// it may have a better answer alone.
    fn is_cut_short_for(&self, asked: &Asked) -> bool {
        self.collector.times.until.is_some_and(|until| {
            let time = until.saturating_duration_since(self.sent);
            asked.is_after(until + time / AGAIN_SHARE) && Instant::now() >= until - time / CUT_SHARE
        })
    }

    /// Calls each shard once. A query that a node refuses, and would refuse alone too, has no
    /// answer.
    async fn round(
        &self,
        over: &Scope,
        planned: &[PlannedQuery<'_>],
        mode: impl Fn(&PlannedQuery<'_>) -> protocol::Mode,
    ) -> Result<Vec<Option<ClusterResponse>>, Halt> {
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let queries = planned
            .iter()
            .map(|query| wire::to_query(&query.asked.request, mode(query), &query.plan));
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
        let merged = |(at, query): (usize, &PlannedQuery<'_>)| {
            let parts: Vec<(u32, &protocol::Answer)> =
                parts.iter().map(|(shard, answer)| (*shard, &answer.answers[at])).collect();
            let epoch = &self.collector.view.epoch;
            let is_answered = parts.iter().all(|(_, answer)| answer.failure == 0);
            is_answered.then(|| merge(epoch, &query.plan, &parts, missing.clone(), over.is_whole))
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
                match &answer.answers[..] {
                    [alone] if alone.failure != 0 => {
                        Err(Status::new(Code::from(alone.failure as i32), alone.reason.clone()))
                    }
                    all if all.len() == wanted && all.iter().all(is_sound) => Ok(answer),
                    _ => Err(Status::internal(
                        "the answer does not have one id and score for each hit, or has too few parts",
                    )),
                }
            }
        })
        .await
    }
}

/// Returns the terms of all requests, each once.
fn union(listed: &[(&Asked, Vec<Term>)]) -> Vec<Term> {
    let all: BTreeSet<&Term> = listed.iter().flat_map(|(_, terms)| terms).collect();
    all.into_iter().cloned().collect()
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

//! The answers to some queries that are asked together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tonic::{Request, Status};
use warpseek::{CollectionStatistics, HeapBytes, Lookup, Mode, Plan, ResultCache, ResultKey};

use crate::aggregator::ShardTimes;
use crate::asking::{Unanswered, ask};
use crate::error::ClusterError;
use crate::gather::{Gathered, Gathering, Halted, Term, halted};
use crate::merge::merge;
use crate::proto;
use crate::request::{ClusterHit, ClusterRequest, ClusterResponse, MissingShard};
use crate::wire;

/// Answers by query, and those who wait for an answer that is under way.
pub(crate) type Cache = ResultCache<ClusterResponse, oneshot::Sender<Arc<ClusterResponse>>>;

impl HeapBytes for ClusterResponse {
    fn heap_bytes(&self) -> usize {
        let ids: usize = self.hits.iter().map(|hit| hit.id.capacity()).sum();
        // Only complete answers are kept, whose coverage has nothing allocated.
        ids + self.hits.capacity() * size_of::<ClusterHit>()
    }
}

/// What became of a request.
type Outcome = Result<Arc<ClusterResponse>, ClusterError>;

/// Queries that are answered together.
pub(crate) struct Cohort<'a> {
    pub(crate) gathering: Gathering<'a>,
    pub(crate) cache: Option<&'a Cache>,
    pub(crate) shard_times: Option<&'a ShardTimes>,
}

/// A query with its plan.
struct Planned<'a> {
    /// Its number among the requests.
    at: usize,
    request: &'a ClusterRequest,
    terms: Vec<Term>,
    plan: Plan,
}

/// What an answer is computed with.
struct Over {
    statistics: Arc<CollectionStatistics>,
    shards: Vec<u32>,
    missing: Vec<MissingShard>,
    is_whole: bool,
}

impl Cohort<'_> {
    /// Answers requests, each on its own; halted if the shards have to be looked at again.
    pub(crate) async fn answer(&self, requests: &[ClusterRequest]) -> Result<Vec<Outcome>, Halted> {
        let mut outcomes: Vec<Option<Outcome>> = requests.iter().map(|_| None).collect();
        let searcher = &self.gathering.view.epoch.searcher;
        // A plan without documents and statistics lacks all its terms.
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
        let whole = self.gathering.whole(&all).await?;
        let knows = |terms: &[Term]| {
            let known = |(field, term): &Term, of: &Gathered| {
                of.statistics.frequency(*field, term).is_some()
            };
            whole.as_ref().is_some_and(|of| terms.iter().all(|term| known(term, of)))
        };
        let (known, others): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|(_, terms)| knows(terms));
        let mut blamed = Vec::new();
        if let Some(Gathered { statistics, shards, missing }) = whole {
            blamed = missing;
            let statistics = Arc::new(statistics);
            let over = Over { statistics, shards, missing: Vec::new(), is_whole: true };
            self.over(&over, requests, known, &mut outcomes).await?;
        }
        if !others.is_empty() {
            let terms: BTreeSet<Term> =
                others.iter().flat_map(|(_, terms)| terms).cloned().collect();
            let terms: Vec<Term> = terms.into_iter().collect();
            let Gathered { statistics, shards, missing } =
                self.gathering.reduced(&terms, blamed).await?;
            let statistics = Arc::new(statistics);
            let over = Over { statistics, shards, missing, is_whole: false };
            self.over(&over, requests, others, &mut outcomes).await?;
        }
        let none = || Err(ClusterError::Query(warpseek::ExecError::NoAnswer));
        let outcomes = outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(none));
        let strict = |(outcome, request): (Outcome, &ClusterRequest)| match outcome {
            Ok(response) if !request.allow_partial && !response.coverage.is_complete() => {
                Err(ClusterError::Incomplete(response.coverage.clone()))
            }
            outcome => outcome,
        };
        Ok(outcomes.zip(requests).map(strict).collect())
    }

    /// Plans requests with statistics, and answers them from the cache or by asking.
    async fn over(
        &self,
        over: &Over,
        requests: &[ClusterRequest],
        asked: Vec<(usize, Vec<Term>)>,
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Halted> {
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
            let planned = Planned { at, request, terms, plan };
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
                    leading.push(Some(Leading { cache, key, filled: false }));
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
            // Who computes it may have more time than there is here, or may have given up.
            match within(self.gathering.times.until, answered).await {
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

    fn plan(&self, over: &Over, request: &ClusterRequest) -> Result<Plan, ClusterError> {
        let searcher = &self.gathering.view.epoch.searcher;
        let planned = request.planned_by(searcher)?;
        Ok(match over.shards.is_empty() {
            // There is nobody to ask, and nothing to weigh.
            true => searcher.plan(&planned)?,
            false => searcher.plan(&planned.of_collection(over.statistics.clone()))?,
        })
    }

    /// Asks the shards. AND-then-OR depends on all of them: they answer AND, and then OR for queries that have too few hits together.
    async fn compute(
        &self,
        over: &Over,
        planned: &[Planned<'_>],
    ) -> Result<Vec<ClusterResponse>, Halted> {
        let mode = |of: &Planned<'_>| match of.request.mode {
            Mode::Or => proto::Mode::Or,
            Mode::And | Mode::AndOr => proto::Mode::And,
        };
        let all: Vec<&Planned<'_>> = planned.iter().collect();
        let mut answers = self.round(over, &all, mode).await?;
        let is_short = |at: &usize| {
            let of = &planned[*at];
            of.request.mode == Mode::AndOr && answers[*at].hits.len() < of.request.k
        };
        let short: Vec<usize> = (0..planned.len()).filter(is_short).collect();
        if !short.is_empty() {
            let again: Vec<&Planned<'_>> = short.iter().map(|&at| &planned[at]).collect();
            let more = self.round(over, &again, |_| proto::Mode::Or).await?;
            for (at, answer) in short.into_iter().zip(more) {
                answers[at] = answer;
            }
        }
        Ok(answers)
    }

    /// Asks each shard once.
    async fn round(
        &self,
        over: &Over,
        planned: &[&Planned<'_>],
        mode: impl Fn(&Planned<'_>) -> proto::Mode,
    ) -> Result<Vec<ClusterResponse>, Halted> {
        if planned.is_empty() {
            return Ok(Vec::new());
        }
        let queries = planned.iter().map(|of| wire::to_query(of.request, mode(of), &of.plan));
        let queries: Vec<proto::Query> =
            queries.collect::<Result<_, _>>().map_err(Halted::Failed)?;
        let terms: BTreeSet<&Term> = planned.iter().flat_map(|of| &of.terms).collect();
        let known =
            |(field, term): &&Term| over.statistics.frequency(*field, term).unwrap_or_default();
        let request = proto::SearchRequest {
            shard: None,
            fields: over.statistics.fields.iter().map(Into::into).collect(),
            documents: terms.iter().map(known).collect(),
            terms: terms
                .iter()
                .map(|(field, term)| proto::Term { field: (*field).into(), term: term.clone() })
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
        missing.sort_by_key(|of| of.shard);
        let merged = |(at, of): (usize, &&Planned<'_>)| {
            let parts: Vec<(u32, &proto::Answer)> =
                parts.iter().map(|(shard, answer)| (*shard, &answer.answers[at])).collect();
            let epoch = &self.gathering.view.epoch;
            merge(epoch, &of.plan, &parts, missing.clone(), over.is_whole)
        };
        Ok(planned.iter().enumerate().map(merged).collect())
    }

    async fn shard(
        &self,
        number: u32,
        request: &proto::SearchRequest,
    ) -> Result<proto::SearchResponse, Unanswered> {
        let Gathering { view, hedges, times } = self.gathering;
        let shard = view.epoch.shards[number as usize].as_ref().map(|of| of.id);
        let (replicas, wanted) = (&view.replicas[number as usize], request.queries.len());
        if replicas.is_empty() {
            return Err(Unanswered::Missing(view.why_missing(number)));
        }
        ask(replicas, wanted, times, hedges, |peer, left: Option<Duration>| {
            let mut client = peer.client();
            // A deadline of 0 would be none.
            let deadline = left.map_or(0, |left| left.as_micros().clamp(1, u64::MAX.into()) as u64);
            let request = proto::SearchRequest { shard, deadline, ..request.clone() };
            async move {
                let answer = client.search(Request::new(request)).await?.into_inner();
                match answer.answers.len() == wanted && answer.answers.iter().all(is_sound) {
                    true => Ok(answer),
                    false => Err(Status::internal(
                        "the answer has not one id and score for each hit, or too few answers",
                    )),
                }
            }
        })
        .await
    }
}

fn is_sound(answer: &proto::Answer) -> bool {
    let hits = answer.documents.len();
    hits == answer.scores.len() && hits == answer.ids.len()
}

/// What a future gives, unless the time is up before.
pub(crate) async fn within<T>(until: Option<Instant>, of: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), of).await.ok(),
        None => Some(of.await),
    }
}

/// A computation that others may wait for. Whatever becomes of it, they are told.
struct Leading<'a> {
    cache: &'a Cache,
    key: ResultKey,
    filled: bool,
}

impl Leading<'_> {
    fn fill(mut self, response: &Arc<ClusterResponse>) {
        self.filled = true;
        for waiter in self.cache.fill(&self.key, response, true) {
            let _ = waiter.send(response.clone());
        }
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        // Those who lose their sender ask for themselves.
        if !self.filled {
            drop(self.cache.abandon(&self.key));
        }
    }
}

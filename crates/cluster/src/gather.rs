//! Statistics of the collection for a set of terms. Known frequencies come from the view; the
//! others are requested from all shards and added up.

use futures_util::future::join_all;
use tonic::Status;
use warpseek::plan::CollectionStatistics;

use crate::asking::{CallFailure, HedgeBudget, Times, ask};
use crate::coverage::MissingShard;
use crate::error::CohortError;
use crate::protocol;
use crate::view::View;

/// A term with its field.
pub(crate) type Term = (u8, String);

/// Statistics, and the shards that they cover.
pub(crate) struct TermStatistics {
    pub(crate) statistics: CollectionStatistics,
    pub(crate) shards: Vec<u32>,
    /// The shards that they do not cover.
    pub(crate) missing: Vec<MissingShard>,
}

/// The reason why the shards cannot be searched now.
pub(crate) enum Halt {
    /// Shards were replaced.
    Stale,
    /// A call failed in a way that other replicas cannot repair.
    Failed(CohortError),
}

/// The shards to call, and the time for it.
#[derive(Clone, Copy)]
pub(crate) struct Collector<'a> {
    pub(crate) view: &'a View,
    pub(crate) hedges: &'a HedgeBudget,
    pub(crate) times: Times,
}

impl Collector<'_> {
    /// Returns the statistics of the whole collection for these terms, as far as their
    /// frequencies are known or can be obtained. Terms whose frequencies are not known for all
    /// shards are left out, and the shards without an answer are returned too.
    pub(crate) async fn whole(&self, terms: &[Term]) -> Result<Option<TermStatistics>, Halt> {
        let epoch = &self.view.epoch;
        let known = epoch.frequencies(terms);
        let unknown = terms.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<Term> = unknown.map(|(term, _)| term.clone()).collect();
        let all: Vec<u32> = (0..).take(epoch.shards.len()).collect();
        let Some(mut statistics) = self.fields(&all) else { return Ok(None) };
        let (mut missing, mut found) = (Vec::new(), Vec::new());
        if !unknown.is_empty() {
            let answers;
            let times = self.times.before_search();
            (answers, missing) = self.frequencies(&all, &unknown, times).await?;
            if missing.is_empty() {
                let sum = |at: usize| answers.iter().map(|(_, counts)| counts[at]).sum::<u64>();
                found = unknown.into_iter().enumerate().map(|(at, term)| (term, sum(at))).collect();
                epoch.keep(found.iter().cloned());
            }
        }
        let known = terms.iter().cloned().zip(known);
        let known = known.filter_map(|(term, known)| Some((term, known?)));
        for ((field, term), documents) in known.chain(found) {
            add(&mut statistics, field, &term, documents)?;
        }
        Ok(Some(TermStatistics { statistics, shards: all, missing }))
    }

    /// Returns true if the frequencies of all these terms are known.
    pub(crate) fn knows(&self, terms: &[Term]) -> bool {
        self.view.epoch.frequencies(terms).iter().all(Option::is_some)
    }

    /// Returns the statistics of the whole collection for these terms if no call is necessary for
    /// them.
    pub(crate) fn known(&self, terms: &[Term]) -> Option<CollectionStatistics> {
        let epoch = &self.view.epoch;
        let all: Vec<u32> = (0..).take(epoch.shards.len()).collect();
        let mut statistics = self.fields(&all)?;
        for ((field, term), documents) in terms.iter().zip(epoch.frequencies(terms)) {
            statistics.add_term(*field, term, documents?).ok()?;
        }
        Some(statistics)
    }

    /// Returns the statistics of a collection that consists only of the shards that answer now.
    /// Shards in `missing` are not called.
    pub(crate) async fn reduced(
        &self,
        terms: &[Term],
        mut missing: Vec<MissingShard>,
    ) -> Result<TermStatistics, Halt> {
        let shards = &self.view.epoch.shards;
        // Shards that an earlier call waited for have used that time already.
        let times = if missing.is_empty() { self.times.before_search() } else { self.times };
        let mut there: Vec<u32> = Vec::new();
        for (number, shard) in (0..).zip(shards) {
            match shard {
                Some(_) if missing.iter().any(|gone| gone.shard == number) => {}
                Some(_) => there.push(number),
                None => {
                    let reason = self.view.why_missing(number);
                    missing.push(MissingShard { shard: number, reason });
                }
            }
        }
        let (answers, others) = self.frequencies(&there, terms, times).await?;
        missing.extend(others);
        missing.sort_by_key(|gone| gone.shard);
        there.retain(|number| answers.iter().any(|(shard, _)| shard == number));
        let none = || CollectionStatistics::with_fields(Vec::new());
        let mut statistics = self.fields(&there).unwrap_or_else(none);
        if !there.is_empty() {
            for (at, (field, term)) in terms.iter().enumerate() {
                let sum = answers.iter().map(|(_, counts)| counts[at]).sum();
                add(&mut statistics, *field, term, sum)?;
            }
        }
        Ok(TermStatistics { statistics, shards: there, missing })
    }

    /// Returns the statistics of the fields of some shards, or `None` if there are no shards or
    /// not all of them are known.
    fn fields(&self, shards: &[u32]) -> Option<CollectionStatistics> {
        let mut sum: Option<CollectionStatistics> = None;
        for &number in shards {
            let fields = &self.view.epoch.shards[number as usize].as_ref()?.fields;
            match &mut sum {
                None => sum = Some(CollectionStatistics::with_fields(fields.clone())),
                // All shards have the same settings, and so the same number of fields.
                Some(sum) => sum.add_fields(fields).ok()?,
            }
        }
        sum
    }

    /// Returns the frequencies of the terms in the shards that answered, and the shards that did
    /// not answer.
    async fn frequencies(
        &self,
        shards: &[u32],
        terms: &[Term],
        times: Times,
    ) -> Result<(Vec<(u32, Vec<u64>)>, Vec<MissingShard>), Halt> {
        let message: Vec<protocol::Term> = terms
            .iter()
            .map(|(field, term)| protocol::Term { field: (*field).into(), term: term.clone() })
            .collect();
        let ask_shard = |number: u32| {
            let (message, wanted) = (message.clone(), terms.len());
            async move {
                let shard = self.view.epoch.shards[number as usize].as_ref().map(|info| info.id);
                let replicas = &self.view.replicas[number as usize];
                if replicas.is_empty() {
                    return (number, Err(CallFailure::Missing(self.view.why_missing(number))));
                }
                let request = protocol::FrequenciesRequest { shard, terms: message };
                let answer = ask(replicas, 0, times, self.hedges, |peer, _| {
                    let (mut client, request) = (peer.client(), request.clone());
                    async move {
                        let answer = client.frequencies(request).await?.documents;
                        match answer.len() == wanted {
                            true => Ok(answer),
                            false => Err(Status::internal(
                                "the answer does not have one frequency for each term",
                            )),
                        }
                    }
                });
                (number, answer.await)
            }
        };
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (number, answer) in join_all(shards.iter().copied().map(ask_shard)).await {
            match answer {
                Ok(answer) => found.push((number, answer)),
                Err(unanswered) => missing.push(halted(number, unanswered)?),
            }
        }
        Ok((found, missing))
    }
}

/// Returns the shard as missing, or an error if the failure stops the whole request.
pub(crate) fn halted(shard: u32, unanswered: CallFailure) -> Result<MissingShard, Halt> {
    match unanswered {
        CallFailure::Stale => Err(Halt::Stale),
        CallFailure::Refused(reason) => Err(Halt::Failed(CohortError::Refused { shard, reason })),
        CallFailure::TooLarge(reason) => Err(Halt::Failed(CohortError::TooLarge { shard, reason })),
        CallFailure::Missing(reason) => Ok(MissingShard { shard, reason }),
    }
}

fn add(to: &mut CollectionStatistics, field: u8, term: &str, n: u64) -> Result<(), Halt> {
    to.add_term(field, term, n).map_err(|error| Halt::Failed(CohortError::Query(error)))
}

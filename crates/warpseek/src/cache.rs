//! A cache of complete answers, for searchers whose requests repeat.
//!
//! The key of an answer is the request and the snapshot that was searched, so a search never finds
//! an answer that is older than the snapshot it would search itself. An entry has the plan and the
//! answer, but not the snapshot: the cache keeps no files open, and drops the entries of snapshots
//! that are gone.
//!
//! A search whose answer is not in the cache computes it, even if an equal search is in progress:
//! waiting for the other one would keep its thread from other work.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use warpseek_exec::{Answer, ExecError, Plan};
use warpseek_index::{Snapshot, SnapshotId};
use warpseek_sched::{HeapBytes, Key, ResultCache};

use crate::error::{Error, Result};
use crate::query::Request;
use crate::response::Response;
use crate::searcher::Searcher;

pub use warpseek_sched::CacheCounts;

/// A cache of complete answers, bounded in bytes. Any number of searchers and threads can share
/// one.
///
/// ```
/// use warpseek::cache::AnswerCache;
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "", "apple"))?;
/// writer.commit()?;
/// let (searcher, cache) = (index.searcher()?, AnswerCache::new(1 << 20));
/// let (request, snapshot) = (Request::new("apple"), searcher.snapshot());
/// let question = AnswerCache::question(&snapshot, &request).unwrap();
/// assert!(cache.get(&question, &snapshot).is_none());
/// cache.add(&question, &searcher.search(&request)?);
/// assert_eq!(cache.get(&question, &snapshot).unwrap().id(0)?, "a");
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct AnswerCache {
    answers: ResultCache<CachedAnswer, ()>,
    /// The snapshots of the entries.
    snapshots: Mutex<HashMap<SnapshotId, Weak<Snapshot>>>,
}

/// A request over a snapshot: the key of an answer.
#[derive(Clone, Debug)]
pub struct Question(Key);

/// An answer and its plan, which says what its scores mean.
struct CachedAnswer {
    plan: Arc<Plan>,
    answer: Arc<Answer>,
}

impl HeapBytes for CachedAnswer {
    fn heap_bytes(&self) -> usize {
        /// Size of the counters of both `Arc`s.
        const COUNTERS: usize = 4 * size_of::<usize>();
        COUNTERS + self.plan.bytes() + size_of::<Answer>() + self.answer.heap_bytes()
    }
}

impl AnswerCache {
    /// Creates a cache whose entries take at most this many bytes. An answer of more than a
    /// sixteenth of that is not kept.
    pub fn new(bytes: u64) -> Self {
        AnswerCache { answers: ResultCache::new(bytes), snapshots: Mutex::default() }
    }

    /// Returns the question that a request is over a snapshot. Returns `None` for requests whose
    /// answers are not cached: those with a list of documents or with the statistics of a
    /// collection.
    pub fn question(snapshot: &Snapshot, request: &Request) -> Option<Question> {
        // There is no `..` here, so that a new field of requests forces a decision on whether
        // answers depend on it. A complete answer does not depend on limits.
        let Request {
            query,
            k,
            mode,
            count,
            count_to,
            among,
            filter,
            sort,
            after,
            facets,
            ranking,
            collection,
            deadline: _,
            cancel: _,
        } = request;
        if among.is_some() || collection.is_some() {
            return None;
        }
        // No search has more hits than the snapshot has documents.
        let k = (*k).min(snapshot.doc_limit() as usize);
        let mut text = String::with_capacity(256);
        // All of these types derive `Debug`, so different values have different texts.
        let of_hits = (k, mode, count, count_to, ranking);
        write!(text, "{of_hits:?}{query:?}{filter:?}{sort:?}{after:?}{facets:?}").ok()?;
        Some(Question(Key::new(snapshot.id(), text.as_bytes())))
    }

    /// Returns the answer to a question about this snapshot if it is in the cache.
    /// [`Response::work`] is then the work of the search that computed the answer.
    pub fn get(&self, question: &Question, snapshot: &Arc<Snapshot>) -> Option<Response> {
        let start = Instant::now();
        // Searches of a damaged snapshot have to fail.
        if question.0.snapshot() != snapshot.id() || snapshot.check_damage().is_err() {
            return None;
        }
        let found = self.answers.get(&question.0)?;
        let (plan, answer) = (found.plan.clone(), found.answer.clone());
        Some(Response { snapshot: snapshot.clone(), plan, answer, took: start.elapsed() })
    }

    /// Adds the response to a question. Partial responses are not kept, nor are those of other
    /// snapshots than that of the question.
    pub fn add(&self, question: &Question, response: &Response) {
        let Response { snapshot, plan, answer, .. } = response;
        if !answer.coverage.is_complete() || question.0.snapshot() != snapshot.id() {
            return;
        }
        self.note(snapshot);
        let (plan, answer) = (plan.clone(), answer.clone());
        self.answers.add(&question.0, &Arc::new(CachedAnswer { plan, answer }));
    }

    /// Answers many requests like [`Searcher::search_batch`], and takes the answers to those that
    /// `may_use_cache`, which gets their numbers, from the cache if possible; else it adds them.
    pub fn search_batch(
        &self,
        searcher: &Searcher,
        requests: &[Request],
        may_use_cache: impl Fn(usize) -> bool + Sync,
    ) -> Vec<Result<Response>> {
        // All answers are about one snapshot.
        let searcher = searcher.frozen();
        let snapshot = searcher.snapshot();
        let numbers: Vec<usize> = (0..requests.len()).collect();
        let mut all = searcher.in_parallel(&numbers, |&i| {
            let question =
                may_use_cache(i).then(|| Self::question(&snapshot, &requests[i])).flatten();
            let found = question.as_ref().and_then(|question| self.get(question, &snapshot));
            (question, found.map(Ok))
        });
        let open: Vec<usize> = numbers.into_iter().filter(|&i| all[i].1.is_none()).collect();
        let asked: Vec<Request> = open.iter().map(|&i| requests[i].clone()).collect();
        for (i, response) in open.into_iter().zip(searcher.search_batch(&asked)) {
            if let (Some(question), Ok(response)) = (&all[i].0, &response) {
                self.add(question, response);
            }
            all[i].1 = Some(response);
        }
        let none = || Err(Error::from(ExecError::NoAnswer));
        all.into_iter().map(|(_, response)| response.unwrap_or_else(none)).collect()
    }

    /// Remembers a snapshot, so that its entries are dropped once it is gone.
    fn note(&self, snapshot: &Arc<Snapshot>) {
        let mut known = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(&snapshot.id()) {
            return;
        }
        known.insert(snapshot.id(), Arc::downgrade(snapshot));
        drop(known);
        self.drop_gone();
    }

    /// Drops the entries of snapshots that nothing uses any longer. This also happens when the
    /// first answer of another snapshot is added.
    pub fn drop_gone(&self) {
        let mut known = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        // No search can add an entry for a snapshot that is gone.
        known.retain(|_, snapshot| snapshot.strong_count() > 0);
        if known.len() < before {
            self.answers.forget_all(|snapshot| !known.contains_key(&snapshot));
        }
    }

    /// Drops all entries.
    pub fn clear(&self) {
        self.answers.forget_all(|_| true);
    }

    /// Returns the counts so far and the current size.
    pub fn counts(&self) -> CacheCounts {
        self.drop_gone();
        self.answers.counts()
    }
}

#[cfg(test)]
mod tests;

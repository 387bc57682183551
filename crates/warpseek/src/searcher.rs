//! A searcher: the current snapshot of an index with its engines, which a refresh replaces.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use warpseek_exec::gather::{SortKey, SortValues};
use warpseek_exec::query::Node;
use warpseek_exec::{Answers, CollectionStatistics, Context, ExecError, Mode, Plan, Ranking};
use warpseek_exec_gpu::Loading;
use warpseek_index::{Manifest, Published, Snapshot};

use crate::engines::GpuEngines;
use crate::error::{Error, Result};
use crate::gpu::GpuStatus;
use crate::index::{Index, settings as settings_of};
use crate::opened::Opened;
use crate::options::SearcherOptions;
use crate::plan::Decision;
use crate::query::Request;
use crate::response::{Arrays, Response};

/// Number of queries per thread in a batch for the CPU.
const BATCH_PER_THREAD: usize = 64;
/// Number of queries in a batch for a GPU.
const BATCH_OF_A_GPU: usize = 1 << 14;

/// Limit of the hits that the queries of a GPU's batch request together. Three batches are in
/// progress at a time.
const BATCH_HITS: usize = 1 << 22;

/// A searcher answers requests over a snapshot of an index, from any number of threads. Clones
/// share the snapshot: refreshing one of them refreshes all.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let searcher = index.searcher()?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "", "apple"))?;
/// writer.commit()?;
///
/// let request = Request::new("apple");
/// assert_eq!(searcher.search(&request)?.hits().len(), 0); // The snapshot is older.
/// assert!(searcher.refresh()?);
/// assert_eq!(searcher.search(&request)?.hits().len(), 1);
///
/// let batch = searcher.search_batch(&[request.clone(), Request::new("apple").k(0), request]);
/// assert_eq!(batch.len(), 3);
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone)]
pub struct Searcher {
    index: Index,
    pub(crate) options: Arc<SearcherOptions>,
    /// The worker threads, without a time limit.
    context: Context,
    now: Arc<RwLock<Arc<Opened>>>,
    /// The live index whose refreshes this searcher follows, if it was opened from one.
    live: Option<Published>,
}

/// A handle that refreshes a searcher of a live index without keeping the searcher alive.
pub(crate) struct Follower {
    index: Index,
    options: Arc<SearcherOptions>,
    context: Context,
    live: Published,
    now: Weak<RwLock<Arc<Opened>>>,
}

impl Follower {
    /// Refreshes the searcher to the published snapshot. Returns `None` if the searcher no longer
    /// exists.
    pub(crate) fn refresh(&self) -> Option<Result<bool>> {
        let searcher = Searcher {
            index: self.index.clone(),
            options: self.options.clone(),
            context: self.context.clone(),
            now: self.now.upgrade()?,
            live: Some(self.live.clone()),
        };
        Some(searcher.refresh())
    }
}

impl Index {
    /// Opens a searcher with the default options.
    pub fn searcher(&self) -> Result<Searcher> {
        self.searcher_with(SearcherOptions::default())
    }

    /// Opens a searcher with the given options.
    pub fn searcher_with(&self, options: SearcherOptions) -> Result<Searcher> {
        Searcher::open(self, options)
    }
}

impl Searcher {
    fn open(index: &Index, options: SearcherOptions) -> Result<Self> {
        let options = Arc::new(options);
        let snapshot = index.snapshot_with(options.mmap)?;
        Self::of(index, snapshot, options, None)
    }

    fn of(
        index: &Index,
        snapshot: Arc<Snapshot>,
        options: Arc<SearcherOptions>,
        live: Option<Published>,
    ) -> Result<Self> {
        let opened = Opened::of(snapshot, &options, None)?;
        let context = opened.context.clone();
        let now = Arc::new(RwLock::new(Arc::new(opened)));
        Ok(Searcher { index: index.clone(), options, context, now, live })
    }

    /// Creates a searcher without documents from the settings of an index. It parses and plans
    /// queries as that index does.
    ///
    /// With [`Request::collection`], its plans have the terms, weights and scale of the
    /// collection. Without, [`Plan::missing`] lists the terms whose frequencies a plan needs.
    ///
    /// ```
    /// use warpseek::{Index, Request, Searcher};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let index = Index::create(folder.path().join("index"))?;
    /// let searcher = Searcher::without_documents(&index.manifest()?)?;
    /// let plan = searcher.plan(&Request::new("apples and pies"))?;
    /// assert_eq!(plan.missing, [(0, "appl".to_owned()), (0, "pie".to_owned())]);
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn without_documents(settings: &Manifest) -> Result<Self> {
        let index = Index::at("");
        let snapshot = Arc::new(Snapshot::of(index.path(), settings_of(settings), Vec::new())?);
        let options = SearcherOptions::default().threads(1);
        Self::of(&index, snapshot, Arc::new(options), None)
    }

    /// Opens a searcher of the state that `live` publishes, and a handle that keeps it up to
    /// date.
    pub(crate) fn follow(
        index: &Index,
        live: Published,
        options: SearcherOptions,
    ) -> Result<(Self, Follower)> {
        let snapshot = live.snapshot();
        let searcher = Self::of(index, snapshot, Arc::new(options), Some(live.clone()))?;
        let follower = Follower {
            index: index.clone(),
            options: searcher.options.clone(),
            context: searcher.context.clone(),
            live,
            now: Arc::downgrade(&searcher.now),
        };
        Ok((searcher, follower))
    }

    /// Returns a clone that answers its requests with another number of threads.
    pub fn with_threads(&self, threads: usize) -> Self {
        Searcher { context: Context::new(threads), ..self.clone() }
    }

    /// Returns a searcher that keeps the current snapshot when this one is refreshed.
    pub fn frozen(&self) -> Self {
        let now = Arc::new(RwLock::new(self.now()));
        Searcher { now, live: None, ..self.clone() }
    }

    fn now(&self) -> Arc<Opened> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Switches to the newest commit, or to the last refresh of the
    /// [`LiveIndex`](crate::LiveIndex) that the searcher belongs to. Returns false if the
    /// searcher is up to date already. Searches in progress keep the snapshot with which they
    /// started.
    pub fn refresh(&self) -> Result<bool> {
        let newest = match &self.live {
            Some(live) => live.snapshot(),
            None if self.index.manifest()?.generation <= self.now().snapshot.generation() => {
                return Ok(false);
            }
            None => self.index.snapshot_with(self.options.mmap)?,
        };
        if newest.generation() <= self.now().snapshot.generation() {
            return Ok(false);
        }
        let before = self.now();
        let opened = Opened::of(newest, &self.options, Some(&before))?;
        if before.is_prepared() {
            opened.prepare()?;
        }
        // The last search over the old snapshot frees its GPU memory.
        drop(before);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster and may have installed a later snapshot.
        if opened.snapshot.generation() <= now.snapshot.generation() {
            return Ok(false);
        }
        let old = std::mem::replace(&mut *now, Arc::new(opened));
        drop(now);
        // If this is the last reference, GPU memory is freed here, while others can search.
        drop(old);
        Ok(true)
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now().snapshot.clone()
    }

    /// Returns the ranking of requests that do not set one.
    pub fn ranking(&self) -> Ranking {
        self.now().ranking
    }

    /// Returns the name of the ranking, including a remark if it is approximate.
    pub fn ranking_name(&self) -> String {
        self.now().planner.ranking_name()
    }

    /// Returns true if hits may differ from exact ones, because the index is quantized or the
    /// algorithm is approximate.
    pub fn is_approximate(&self) -> bool {
        let now = self.now();
        now.approximate || now.snapshot.manifest().impacts.is_some()
    }

    /// Returns true if the algorithm is approximate.
    pub fn has_approximate_algorithm(&self) -> bool {
        self.now().approximate
    }

    /// Returns the copies of the index to GPUs, which the first query or [`Searcher::prepare`]
    /// performs. They report progress and can be cancelled.
    pub fn loadings(&self) -> Vec<Arc<Loading>> {
        let loadings = |engines: Arc<GpuEngines>| {
            engines.residents.iter().map(|resident| resident.loading().clone()).collect()
        };
        self.now().gpu.engines().map_or(Vec::new(), loadings)
    }

    /// Performs the work that the first query would otherwise wait for, such as copying the index
    /// to a GPU.
    pub fn prepare(&self) -> Result<()> {
        Ok(self.now().prepare()?)
    }

    /// Performs the work that the first query with the statistics of a collection
    /// ([`Request::of_collection`]) would have to wait for: a GPU recomputes the values of all
    /// postings, because the mean document length is different. Until this returns, the CPU
    /// answers such queries if the options allow it.
    pub fn prepare_as_part(&self, collection: &Arc<CollectionStatistics>) -> Result<()> {
        Ok(self.now().prepare_as_part(collection)?)
    }

    /// Returns the state of the GPU, and counts of queries that the CPU answered instead.
    pub fn gpu_status(&self) -> GpuStatus {
        self.now().gpu_status()
    }

    /// Returns the best number of queries for a batch, if each requests `k` hits.
    pub fn batch_size(&self, k: usize) -> usize {
        let now = self.now();
        match now.gpu.engine() {
            Some(_) => BATCH_OF_A_GPU.min(BATCH_HITS / k.max(1)).max(1),
            None => BATCH_PER_THREAD * self.context.threads(),
        }
    }

    /// Answers a request.
    pub fn search(&self, request: &Request) -> Result<Response> {
        let (now, start) = (self.now(), Instant::now());
        let context = self.context.with_limit(request.limit(start));
        let (plan, answer) = match now.plan(request, context.limit()) {
            Ok(plan) => {
                let mut answers = now.answer(&[&plan], &context);
                (plan, answers.pop().unwrap_or(Err(ExecError::NoAnswer))?)
            }
            Err(ExecError::Stopped) => now.nothing(request)?,
            Err(error) => return Err(error.into()),
        };
        let (snapshot, plan, answer) = (now.snapshot.clone(), Arc::new(plan), Arc::new(answer));
        Ok(Response { snapshot, plan, answer, took: start.elapsed() })
    }

    /// Answers many requests over the same snapshot. The responses are in the order of the
    /// requests. A request that fails does not affect the others, and equal requests are answered
    /// only once.
    pub fn search_batch(&self, requests: &[Request]) -> Vec<Result<Response>> {
        self.search_batch_over(&self.now(), requests)
    }

    fn search_batch_over(&self, now: &Arc<Opened>, requests: &[Request]) -> Vec<Result<Response>> {
        let start = Instant::now();
        let plan = |(): &mut (), request: &Request| now.plan(request, &request.limit(start));
        let plans = self.context.pool().map(requests, || (), plan);
        let mut responses: Vec<Option<Result<Response>>> =
            std::iter::repeat_with(|| None).take(requests.len()).collect();
        let mut planned = Vec::with_capacity(requests.len());
        for (i, plan) in plans.into_iter().enumerate() {
            match plan {
                Ok(plan) => planned.push((i, plan)),
                Err(ExecError::Stopped) => {
                    let nothing = now.nothing(&requests[i]).map_err(Error::from);
                    responses[i] = Some(nothing.map(|(plan, answer)| {
                        let (plan, answer) = (Arc::new(plan), Arc::new(answer));
                        Response {
                            snapshot: now.snapshot.clone(),
                            plan,
                            answer,
                            took: start.elapsed(),
                        }
                    }));
                }
                Err(error) => responses[i] = Some(Err(error.into())),
            }
        }
        // Requests with the same time limits are answered together.
        let mut left = planned;
        // Earlier deadlines come first, requests without a deadline last.
        left.sort_by_key(|(i, _)| requests[*i].deadline.unwrap_or(Duration::MAX));
        while let Some(first) = left.first().map(|(i, _)| *i) {
            let earliest = &requests[first];
            let (group, others) =
                left.into_iter().partition(|(i, _)| same_limits(earliest, &requests[*i]));
            left = others;
            let group: Vec<(usize, Plan)> = group;
            let context = self.context.with_limit(earliest.limit(start));
            let refs: Vec<&Plan> = group.iter().map(|(_, plan)| plan).collect();
            let answers = now.answer(&refs, &context);
            let took = start.elapsed();
            for ((i, plan), answer) in group.into_iter().zip(answers) {
                let snapshot = now.snapshot.clone();
                responses[i] = Some(match answer {
                    Ok(answer) => {
                        let (plan, answer) = (Arc::new(plan), Arc::new(answer));
                        Ok(Response { snapshot, plan, answer, took })
                    }
                    Err(error) => Err(error.into()),
                });
            }
        }
        let none = || Err(ExecError::NoAnswer.into());
        responses.into_iter().map(|response| response.unwrap_or_else(none)).collect()
    }

    /// Answers many requests, and returns their hits as flat arrays.
    pub fn search_arrays(&self, requests: &[Request]) -> Arrays {
        let now = self.now();
        let mut arrays = Arrays::new(now.snapshot.clone());
        let responses = self.search_batch_over(&now, requests);
        for (i, response) in responses.into_iter().enumerate() {
            match response {
                Ok(response) => {
                    let hits = response.hits().iter();
                    arrays.docs.extend(hits.clone().map(|hit| hit.doc));
                    arrays.scores.extend(hits.map(|hit| response.plan.real(hit.score) as f32));
                    if !response.coverage().is_complete() {
                        arrays.partial.push(i);
                    }
                }
                Err(error) => arrays.errors.push((i, error)),
            }
            arrays.offsets.push(arrays.docs.len());
        }
        arrays
    }

    /// Parses a query or a filter in the syntax of [`parse`](crate::query::parse), with the
    /// fields of the index.
    pub fn parse(&self, text: &str) -> Result<Node> {
        Ok(self.now().parse(text, Mode::Or)?)
    }

    /// Parses sort values as written by [`SortValues::to_json`], for the order `sort` of hits. An
    /// empty `sort` is the order by score.
    pub fn sort_values(&self, sort: &[SortKey], values: &[Value]) -> Result<SortValues> {
        Ok(self.now().planner.sort_values(sort, values)?)
    }

    /// Plans a request without answering it. Plans belong to a snapshot and are refused after
    /// [`Searcher::refresh`]. Fails if the deadline of the request passes before the plan is ready,
    /// or if the request is cancelled.
    pub fn plan(&self, request: &Request) -> Result<Plan> {
        Ok(self.now().plan(request, &request.limit(Instant::now()))?)
    }

    /// Plans many requests, using all threads.
    pub fn plan_batch(&self, requests: &[Request]) -> Vec<Result<Plan>> {
        let (now, start) = (self.now(), Instant::now());
        let plan = |(): &mut (), request: &Request| {
            now.plan(request, &request.limit(start)).map_err(Error::from)
        };
        self.context.pool().map(requests, || (), plan)
    }

    /// Answers plans without a time limit.
    pub fn answer(&self, plans: &[&Plan]) -> Answers {
        self.now().answer(plans, &self.context)
    }

    /// Processes items with the searcher's threads, for instance to format the hits of a batch.
    pub fn in_parallel<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        self.context.pool().map(items, || (), |(), item| work(item))
    }

    /// Returns true if the searcher follows a live index.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn threads(&self) -> usize {
        self.context.threads()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn path(&self) -> &Path {
        self.index.path()
    }

    pub(crate) fn opened(&self) -> Arc<Opened> {
        self.now()
    }

    /// Determines how a batch would be answered, and why.
    pub fn decide(&self, plans: &[&Plan]) -> Decision {
        self.now().decide(plans, &self.context)
    }
}

/// Returns true if two requests have the same time limits, so that they can be answered together.
fn same_limits(a: &Request, b: &Request) -> bool {
    let same_cancel = match (&a.cancel, &b.cancel) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_same(b),
        _ => false,
    };
    a.deadline == b.deadline && same_cancel
}

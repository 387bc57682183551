use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use warpseek_exec::gather::{SortKey, SortValues};
use warpseek_exec::query::Node;
use warpseek_exec::{Answers, CollectionStatistics, Context, ExecError, Mode, Plan, Ranking};
use warpseek_exec_gpu::{Loading, Residency};
use warpseek_index::{Manifest, Published, Snapshot};

use crate::decision::Decision;
use crate::engines::GpuEngines;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::opened::Opened;
use crate::options::SearcherOptions;
use crate::request::Request;
use crate::response::{Arrays, Response};
use crate::service::{Service, ServiceOptions};
use crate::settings::settings as settings_of;

/// Queries in a batch for each thread, and for a GPU.
const BATCH_PER_THREAD: usize = 64;
const BATCH_OF_A_GPU: usize = 1 << 14;

/// Hits that the queries of a GPU's batch may ask for together: three batches are under way at a time.
const BATCH_HITS: usize = 1 << 22;

/// Answers requests over a snapshot of an index, from any number of threads. Clones are the same searcher.
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
/// assert_eq!(searcher.search(&request)?.hits().len(), 0); // its snapshot is older
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
    /// Its threads, and no limit of time.
    context: Context,
    now: Arc<RwLock<Arc<Opened>>>,
    /// What it follows, if that is an index that takes single writes.
    live: Option<Published>,
}

/// A searcher that sees the refreshes of an index that takes single writes, without being kept alive by it.
pub(crate) struct Follower {
    index: Index,
    options: Arc<SearcherOptions>,
    context: Context,
    live: Published,
    now: Weak<RwLock<Arc<Opened>>>,
}

impl Follower {
    /// Lets the searcher go over to what was published; `None` if there is no such searcher any more.
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

/// Where queries are answered.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = warpseek::Index::create(folder.path().join("index"))?;
/// let status = index.searcher()?.gpu_status();
/// assert!(status.name.is_none() && status.why_not.is_none()); // none was asked for
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuStatus {
    /// Name of the GPU that answers, or did, or of all that do so together.
    pub name: Option<String>,
    /// Why none answers, though one might.
    pub why_not: Option<String>,
    /// The CPU's part of the documents, if it takes one or was to.
    pub host: Option<String>,
    /// Queries that the CPU answered because it is faster. Here and below, one that a batch repeats counts once.
    pub stayed: u64,
    /// Queries that the CPU answered in time to help the GPU.
    pub helped: u64,
    /// Queries that the CPU answered because the GPU failed.
    pub fallen_back: u64,
    /// What each GPU has of the index.
    pub residency: Vec<Residency>,
}

impl Searcher {
    pub(crate) fn open(index: &Index, options: SearcherOptions) -> Result<Self> {
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

    /// A searcher of no documents, with the settings of an index: it reads and plans queries as that index does. With [`Request::collection`] its plans have the terms, weights and scale of the collection's, and without,
    /// [`Plan::missing`] are the terms whose frequencies a plan needs.
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
        let snapshot = Arc::new(Snapshot::of(index.dir(), settings_of(settings), Vec::new())?);
        let options = SearcherOptions::default().threads(1);
        Self::of(&index, snapshot, Arc::new(options), None)
    }

    /// A searcher of what `live` shows, and what keeps it up to date.
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

    /// The same searcher, with another number of threads for what is asked of this clone.
    pub fn with_threads(&self, threads: usize) -> Self {
        Searcher { context: Context::new(threads), ..self.clone() }
    }

    /// A searcher of the snapshot that this one has now. It stays with it when this one goes on to a later one.
    pub fn frozen(&self) -> Self {
        let now = Arc::new(RwLock::new(self.now()));
        Searcher { now, live: None, ..self.clone() }
    }

    fn now(&self) -> Arc<Opened> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes over to the newest commit, or to the last refresh of a [`LiveIndex`](crate::LiveIndex) that it belongs to; false if it has that already. Searches under way keep the snapshot that they
    /// began with.
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
        // What it has on a GPU is freed with the last search over it.
        drop(before);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster, and have a later snapshot.
        if opened.snapshot.generation() <= now.snapshot.generation() {
            return Ok(false);
        }
        let old = std::mem::replace(&mut *now, Arc::new(opened));
        drop(now);
        // Its GPU memory is freed, if nobody else has it, while others search.
        drop(old);
        Ok(true)
    }

    /// The snapshot that it searches.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now().snapshot.clone()
    }

    /// How documents are ranked where a request says nothing else.
    pub fn ranking(&self) -> Ranking {
        self.now().ranking
    }

    /// The name of the ranking, which says so if it is approximate.
    pub fn ranking_name(&self) -> String {
        self.now().planner.ranking_name()
    }

    /// Whether hits may differ from those that the text has: the index is quantized, or the algorithm approximate.
    pub fn is_approximate(&self) -> bool {
        let now = self.now();
        now.approximate || now.snapshot.manifest().impacts.is_some()
    }

    /// Whether the algorithm is approximate.
    pub fn has_approximate_algorithm(&self) -> bool {
        self.now().approximate
    }

    /// Copies of the index to GPUs that the first query, or [`Searcher::prepare`], makes: for those who show how far they are, or end them.
    pub fn loadings(&self) -> Vec<Arc<Loading>> {
        let loadings = |engines: Arc<GpuEngines>| {
            engines.residents.iter().map(|of| of.loading().clone()).collect()
        };
        self.now().gpu.engines().map_or(Vec::new(), loadings)
    }

    /// Does what the first query would have to wait for, such as copying the index to a GPU.
    pub fn prepare(&self) -> Result<()> {
        Ok(self.now().prepare()?)
    }

    /// Does what the first query with the statistics of a collection ([`Request::of_collection`]) would have to wait for: a GPU computes the values of all postings anew, as the
    /// mean length of documents is another. Until this returns, the CPU answers such queries if it may.
    pub fn prepare_as_part(&self, collection: &Arc<CollectionStatistics>) -> Result<()> {
        Ok(self.now().prepare_as_part(collection)?)
    }

    /// Whether a GPU answers, and what it and the CPU did so far.
    pub fn gpu_status(&self) -> GpuStatus {
        self.now().gpu_status()
    }

    /// How many queries of k hits are best answered in one batch.
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
        let (snapshot, plan) = (now.snapshot.clone(), Arc::new(plan));
        Ok(Response { snapshot, plan, answer, took: start.elapsed() })
    }

    /// Answers many requests, in their order, all over one snapshot. One that fails does not disturb the others. What is asked several times is
    /// answered once, and all get that answer.
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
                        let (snapshot, plan) = (now.snapshot.clone(), Arc::new(plan));
                        Response { snapshot, plan, answer, took: start.elapsed() }
                    }));
                }
                Err(error) => responses[i] = Some(Err(error.into())),
            }
        }
        // Requests with the same limits of time are answered together.
        let mut left = planned;
        // The earliest deadline comes first, and what has none last.
        left.sort_by_key(|(i, _)| requests[*i].deadline.unwrap_or(Duration::MAX));
        while let Some(first) = left.first().map(|(i, _)| *i) {
            let of = &requests[first];
            let (group, others) =
                left.into_iter().partition(|(i, _)| same_limits(of, &requests[*i]));
            left = others;
            let group: Vec<(usize, Plan)> = group;
            let context = self.context.with_limit(of.limit(start));
            let refs: Vec<&Plan> = group.iter().map(|(_, plan)| plan).collect();
            let answers = now.answer(&refs, &context);
            let took = start.elapsed();
            for ((i, plan), answer) in group.into_iter().zip(answers) {
                let snapshot = now.snapshot.clone();
                responses[i] = Some(match answer {
                    Ok(answer) => {
                        let plan = Arc::new(plan);
                        Ok(Response { snapshot, plan, answer, took })
                    }
                    Err(error) => Err(error.into()),
                });
            }
        }
        let none = || Err(ExecError::NoAnswer.into());
        responses.into_iter().map(|response| response.unwrap_or_else(none)).collect()
    }

    /// Answers many requests, with the hits in flat arrays.
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

    /// Reads a query, or a filter, in the syntax of [`parse`](crate::query::parse), with the fields of the index.
    pub fn parse(&self, text: &str) -> Result<Node> {
        Ok(self.now().parse(text, Mode::Or)?)
    }

    /// Reads values as [`SortValues::to_json`] writes them, for an order of hits; none is the usual one.
    pub fn sort_values(&self, sort: &[SortKey], values: &[Value]) -> Result<SortValues> {
        Ok(self.now().planner.sort_values(sort, values)?)
    }

    /// Plans a request without answering it. Plans are of one snapshot: after [`Searcher::refresh`] they are refused. Fails if the deadline of the request passes before, or it is cancelled.
    pub fn plan(&self, request: &Request) -> Result<Plan> {
        Ok(self.now().plan(request, &request.limit(Instant::now()))?)
    }

    /// Plans many requests with all threads.
    pub fn plan_batch(&self, requests: &[Request]) -> Vec<Result<Plan>> {
        let (now, start) = (self.now(), Instant::now());
        let plan = |(): &mut (), request: &Request| {
            now.plan(request, &request.limit(start)).map_err(Error::from)
        };
        self.context.pool().map(requests, || (), plan)
    }

    /// Answers plans, with no limit of time.
    pub fn answer(&self, plans: &[&Plan]) -> Answers {
        self.now().answer(plans, &self.context)
    }

    /// Works on items with the searcher's threads, such as writing out the hits of a batch.
    pub fn in_parallel<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        self.context.pool().map(items, || (), |(), item| work(item))
    }

    /// Whether it follows an index that takes single writes.
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

    /// A service that takes requests one by one, with the engines of this searcher: the CPU, and a GPU if it has one.
    pub fn service(&self, options: ServiceOptions) -> Result<Service> {
        Service::start(self.clone(), self.now(), self.threads(), &options)
    }

    /// How a batch is answered, and why.
    pub fn decide(&self, plans: &[&Plan]) -> Decision {
        self.now().decide(plans, &self.context)
    }
}

/// Whether two requests have the same limits of time, so that they can be answered together.
fn same_limits(a: &Request, b: &Request) -> bool {
    let same_cancel = match (&a.cancel, &b.cancel) {
        (None, None) => true,
        (Some(a), Some(b)) => a.is_same(b),
        _ => false,
    };
    a.deadline == b.deadline && same_cancel
}

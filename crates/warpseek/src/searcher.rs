use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use warpseek_core::DocId;
use warpseek_cuda::DeviceError;
use warpseek_exec::{
    Answer, Answers, Choice, Context, Engine, ExecError, Fault, Load, Plan, Planner, Query,
    Ranking, is_sooner,
};
use warpseek_exec_gpu::Loading;
use warpseek_index::Snapshot;

use crate::decision::Decision;
use crate::engines::Maker;
use crate::error::{Error, Result};
use crate::gpu::{self, Gpu, State};
use crate::index::Index;
use crate::notice::Notice;
use crate::options::{Algorithm, DeviceChoice, SearcherOptions};
use crate::request::{QueryInput, Request};
use crate::response::{Arrays, Response};

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
    options: Arc<SearcherOptions>,
    /// Its threads, and no limit of time.
    context: Context,
    now: Arc<RwLock<Arc<Opened>>>,
}

/// What a searcher has for one snapshot.
struct Opened {
    snapshot: Arc<Snapshot>,
    ranking: Ranking,
    planner: Planner,
    /// For what is not asked by anybody, such as copying the index to a GPU.
    context: Context,
    /// The CPU's, which answers if no GPU does.
    cpu: Box<dyn Engine>,
    gpu: Gpu,
    options: Arc<SearcherOptions>,
    /// Whether hits may differ from those of other engines.
    approximate: bool,
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
    /// Queries that the CPU answered because it is faster.
    pub stayed: u64,
    /// Queries that the CPU answered in time to help the GPU.
    pub helped: u64,
    /// Queries that the CPU answered because the GPU failed.
    pub fallen_back: u64,
}

impl Searcher {
    pub(crate) fn open(index: &Index, options: SearcherOptions) -> Result<Self> {
        let options = Arc::new(options);
        let snapshot = index.snapshot_with(options.mmap)?;
        let opened = Opened::of(snapshot, &options)?;
        let context = opened.context.clone();
        let now = Arc::new(RwLock::new(Arc::new(opened)));
        Ok(Searcher { index: index.clone(), options, context, now })
    }

    /// The same searcher, with another number of threads for what is asked of this clone.
    pub fn with_threads(&self, threads: usize) -> Self {
        Searcher { context: Context::new(threads), ..self.clone() }
    }

    fn now(&self) -> Arc<Opened> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes over to the newest commit; false if it has that already. Searches under way keep the snapshot that they began with.
    pub fn refresh(&self) -> Result<bool> {
        let newest = self.index.snapshot_with(self.options.mmap)?;
        if newest.generation() == self.now().snapshot.generation() {
            return Ok(false);
        }
        let opened = Opened::of(newest, &self.options)?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(opened);
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
        self.now().gpu.engines().map_or(Vec::new(), |engines| engines.loadings.clone())
    }

    /// Does what the first query would have to wait for, such as copying the index to a GPU.
    pub fn prepare(&self) -> Result<()> {
        Ok(self.now().prepare()?)
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
        let plan = now.plan(request)?;
        let context = limited(&self.context, request, start);
        let answer = now.answer(&[&plan], &context).pop().unwrap_or(Err(ExecError::NoAnswer))?;
        Ok(Response { snapshot: now.snapshot.clone(), plan, answer, took: start.elapsed() })
    }

    /// Answers many requests, in their order, all over one snapshot. One that fails does not disturb the others.
    pub fn search_batch(&self, requests: &[Request]) -> Vec<Result<Response>> {
        let (now, start) = (self.now(), Instant::now());
        let plans = self.context.pool().map(requests, || (), |(), request| now.plan(request));
        let mut responses: Vec<Option<Result<Response>>> =
            std::iter::repeat_with(|| None).take(requests.len()).collect();
        let mut planned = Vec::with_capacity(requests.len());
        for (i, plan) in plans.into_iter().enumerate() {
            match plan {
                Ok(plan) => planned.push((i, plan)),
                Err(error) => responses[i] = Some(Err(error.into())),
            }
        }
        // Requests with the same limits of time are answered together.
        let mut left = planned;
        while let Some(first) = left.first().map(|(i, _)| *i) {
            let of = &requests[first];
            let (group, others) =
                left.into_iter().partition(|(i, _)| same_limits(of, &requests[*i]));
            left = others;
            let group: Vec<(usize, Plan)> = group;
            let context = limited(&self.context, of, start);
            let refs: Vec<&Plan> = group.iter().map(|(_, plan)| plan).collect();
            let answers = now.answer(&refs, &context);
            let took = start.elapsed();
            for ((i, plan), answer) in group.into_iter().zip(answers) {
                let snapshot = now.snapshot.clone();
                responses[i] = Some(match answer {
                    Ok(answer) => Ok(Response { snapshot, plan, answer, took }),
                    Err(error) => Err(error.into()),
                });
            }
        }
        let none = || Err(ExecError::NoAnswer.into());
        responses.into_iter().map(|response| response.unwrap_or_else(none)).collect()
    }

    /// Answers many requests, with the hits in flat arrays.
    pub fn search_arrays(&self, requests: &[Request]) -> Arrays {
        let mut arrays = Arrays { offsets: vec![0], ..Arrays::default() };
        for (i, response) in self.search_batch(requests).into_iter().enumerate() {
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

    /// Plans a request without answering it. Plans are of one snapshot: after [`Searcher::refresh`] they are refused.
    pub fn plan(&self, request: &Request) -> Result<Plan> {
        Ok(self.now().plan(request)?)
    }

    /// Plans many requests with all threads.
    pub fn plan_batch(&self, requests: &[Request]) -> Vec<Result<Plan>> {
        let now = self.now();
        let plan = |(): &mut (), request: &Request| now.plan(request).map_err(Error::from);
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

    /// How a batch is answered, and why.
    pub fn decide(&self, plans: &[&Plan]) -> Decision {
        self.now().decide(plans, &self.context)
    }

    /// The id that the user gave a document.
    pub fn id(&self, doc: DocId) -> Result<String> {
        Ok(self.now().snapshot.external_id(doc)?)
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

/// The context of a request that came at a moment: with its limits.
fn limited(context: &Context, request: &Request, start: Instant) -> Context {
    let context = context.clone();
    let context = match request.deadline.and_then(|time| start.checked_add(time)) {
        Some(deadline) => context.until(deadline),
        None => context,
    };
    match &request.cancel {
        Some(cancel) => context.cancelled_by(cancel.clone()),
        None => context,
    }
}

impl Opened {
    fn of(snapshot: Arc<Snapshot>, options: &Arc<SearcherOptions>) -> Result<Self> {
        let ranking = options.ranking.unwrap_or_else(|| Ranking::suited(snapshot.manifest()));
        let planner = Planner::new(snapshot.clone(), ranking)?;
        let context = Context::new(options.threads);
        let (gpus, why) = gpu::open(options)?;
        let maker = Maker { snapshot: &snapshot, planner: &planner, options, context: &context };
        maker.check(&gpus, why.as_deref())?;
        let cpu = maker.cpu();
        let mut approximate = false;
        let state = match why {
            Some(why) => State::Unusable(why),
            None if gpus.is_empty() => State::Off,
            None => match maker.gpus(&gpus) {
                Ok(engines) => {
                    approximate = options.partitions().is_some_and(|p| p.is_approximate());
                    State::Ready(Arc::new(engines))
                }
                Err(ExecError::Device { source, .. }) if options.device == DeviceChoice::Auto => {
                    State::Unusable(source.to_string())
                }
                Err(error) => return Err(error.into()),
            },
        };
        if let State::Unusable(why) = &state {
            (options.listener)(&Notice::NoGpu { why: why.clone() });
        }
        let (gpu, options) = (Gpu::new(state), options.clone());
        Ok(Opened { snapshot, ranking, planner, context, cpu, gpu, options, approximate })
    }

    fn may_choose(&self) -> bool {
        self.options.device == DeviceChoice::Auto
    }

    fn prepare(&self) -> Result<(), ExecError> {
        let Some(engine) = self.gpu.engine() else { return Ok(()) };
        match engine.prepare(self.planner.formula(), &self.context) {
            Err(error @ ExecError::Device { .. }) if self.may_choose() => {
                self.give_up(&engine, error);
                Ok(())
            }
            prepared => prepared,
        }
    }

    fn gpu_status(&self) -> GpuStatus {
        let mut status = GpuStatus {
            stayed: self.gpu.stayed.load(Ordering::Relaxed),
            fallen_back: self.gpu.fallen_back.load(Ordering::Relaxed),
            ..GpuStatus::default()
        };
        match &*self.gpu.state() {
            State::Off => {}
            State::Unusable(why) => status.why_not = Some(why.clone()),
            State::Ready(engines) => {
                status.name = Some(engines.name.clone());
                status.host.clone_from(&engines.host);
                let helped = engines.helped.as_ref();
                status.helped = helped.map_or(0, |helped| helped.load(Ordering::Relaxed));
            }
            State::Lost(lost) => {
                status.name = Some(lost.name.clone());
                status.why_not = Some(lost.error.to_string());
            }
        }
        status
    }

    fn plan(&self, request: &Request) -> Result<Plan, ExecError> {
        let manifest = self.snapshot.manifest();
        let parsed;
        let query = match &request.query {
            QueryInput::Text(text) => {
                parsed = Query::parse(text, manifest.analyzer, manifest.content)?;
                &parsed
            }
            QueryInput::Terms(query) => query,
        };
        let plan = match request.ranking.filter(|ranking| *ranking != self.ranking) {
            None => self.planner.plan(query, request.mode, request.k)?,
            Some(ranking) => {
                let planner = Planner::new(self.snapshot.clone(), ranking)?;
                planner.plan(query, request.mode, request.k)?
            }
        };
        Ok(Plan { count: request.count, ..plan })
    }

    /// Answers plans on the device that is to answer them. What the GPU cannot answer, or fails, the CPU answers if the library may choose.
    fn answer(self: &Arc<Self>, plans: &[&Plan], context: &Context) -> Answers {
        if self.gpu.wants_revival() {
            self.revive();
        }
        let Some(engine) = self.gpu.engine() else { return self.without_gpu(plans, context) };
        if self.stays(&engine, plans, context) {
            self.gpu.stayed.fetch_add(plans.len() as u64, Ordering::Relaxed);
            return self.cpu.search(plans, context);
        }
        let mut answers = engine.search(plans, context);
        if let Some(Err(error)) = answers.iter().find(|answer| is_final(answer)) {
            self.give_up(&engine, error.clone());
        }
        if self.may_choose() {
            self.make_good(plans, context, &mut answers);
        }
        answers
    }

    /// Answers plans while no GPU does.
    fn without_gpu(&self, plans: &[&Plan], context: &Context) -> Answers {
        let lost = match &*self.gpu.state() {
            State::Lost(lost) if !self.may_choose() => Some(lost.error.clone()),
            _ => None,
        };
        match lost {
            Some(error) => warpseek_exec::fail_all(plans, &error),
            None => self.cpu.search(plans, context),
        }
    }

    /// The CPU answers what the GPU failed, or cannot answer.
    fn make_good(&self, plans: &[&Plan], context: &Context, answers: &mut Answers) {
        let is_open = |answer: &std::result::Result<_, ExecError>| {
            matches!(answer, Err(ExecError::Device { .. } | ExecError::Unsupported { .. }))
        };
        let open: Vec<usize> = (0..plans.len()).filter(|&i| is_open(&answers[i])).collect();
        if open.is_empty() {
            return;
        }
        self.gpu.fallen_back.fetch_add(open.len() as u64, Ordering::Relaxed);
        // A lost GPU has its own notice.
        if let Err(error) = &answers[open[0]]
            && !is_final(&answers[open[0]])
            && !self.gpu.told.swap(true, Ordering::Relaxed)
        {
            (self.options.listener)(&Notice::FellBack { why: error.to_string() });
        }
        let some: Vec<&Plan> = open.iter().map(|&i| plans[i]).collect();
        for (i, answer) in open.into_iter().zip(self.cpu.search(&some, context)) {
            answers[i] = answer;
        }
    }

    /// The GPU failed, and answers nothing until it is opened anew.
    fn give_up(&self, engine: &Arc<dyn Engine>, error: ExecError) {
        let (why, cpu_answers) = (error.to_string(), self.may_choose());
        if error.fault() != Some(Fault::Device) || is_hung(&error) {
            // It does not fit, is set up wrongly, or would keep everybody waiting: trying again would not help. Who insists on the GPU gets this error for every query.
            if cpu_answers {
                *self.gpu.state() = State::Unusable(why.clone());
                (self.options.listener)(&Notice::NoGpu { why });
            }
        } else if let Some(retry_in) = self.gpu.lost(engine, error, self.options.retry) {
            (self.options.listener)(&Notice::GpuLost { why, retry_in, cpu_answers });
        }
    }

    /// Tries to use the GPU again, in a thread of its own: nobody waits for it.
    fn revive(self: &Arc<Self>) {
        let this = self.clone();
        let revive = move || {
            let revived = this.try_again();
            match revived {
                Ok(engines) => {
                    let name = engines.name.clone();
                    *this.gpu.state() = State::Ready(Arc::new(engines));
                    (this.options.listener)(&Notice::GpuBack { name });
                }
                Err(error) => {
                    let (why, cpu_answers) = (error.to_string(), this.may_choose());
                    let retry_in = this.gpu.still_lost(error);
                    (this.options.listener)(&Notice::GpuLost { why, retry_in, cpu_answers });
                }
            }
            this.gpu.revived();
        };
        if std::thread::Builder::new().name("warpseek-gpu".into()).spawn(revive).is_err() {
            self.gpu.revived();
        }
    }

    fn try_again(&self) -> Result<crate::engines::GpuEngines, ExecError> {
        let open = |&number: &u32| (self.options.open)(number, self.options.gpu_memory);
        let gpus = self.options.gpus.iter().map(open).collect::<Result<Vec<_>, _>>();
        let gpus = gpus.map_err(warpseek_exec_gpu::failed)?;
        let (snapshot, planner) = (&self.snapshot, &self.planner);
        let maker = Maker { snapshot, planner, options: &self.options, context: &self.context };
        let engines = maker.gpus(&gpus)?;
        engines.engine.prepare(self.planner.formula(), &self.context)?;
        Ok(engines)
    }

    /// Whether a batch is the CPU's though a GPU is there: the one choice between devices.
    fn stays(&self, gpu: &Arc<dyn Engine>, plans: &[&Plan], context: &Context) -> bool {
        if !self.may_choose() || self.options.algorithm != Algorithm::Auto {
            return false;
        }
        match self.options.gpu_from {
            Some(least) => Load::sum(plans.iter().copied()).postings < least,
            None => is_sooner(self.cpu.cost(plans, context), gpu.cost(plans, context)),
        }
    }

    fn decide(&self, plans: &[&Plan], context: &Context) -> Decision {
        let engines = self.gpu.engines();
        let chooses = self.options.algorithm == Algorithm::Auto && engines.is_some();
        let estimate = |engine: &dyn Engine| engine.estimate(plans, context);
        let cpu = chooses.then(|| estimate(&*self.cpu));
        let gpu = engines.as_ref().filter(|_| chooses).map(|engines| estimate(&*engines.engine));
        let stays =
            engines.as_ref().is_some_and(|engines| self.stays(&engines.engine, plans, context));
        let mut choices: Vec<Choice> = match &engines {
            Some(engines) if !stays => engines.engine.explain(plans, context),
            _ => self.cpu.explain(plans, context),
        };
        let reason = match (stays, self.options.gpu_from.is_some()) {
            _ if !self.may_choose() => engines.and_then(|engines| engines.host.clone()),
            _ if !chooses => None,
            (true, true) => Some("fewer postings than a GPU is to have".to_owned()),
            (false, true) => Some("as many postings as a GPU is to have, or more".to_owned()),
            (true, false) => Some("sooner than on the GPU".to_owned()),
            (false, false) => Some("sooner than on the CPU".to_owned()),
        };
        if let Some(reason) = reason {
            choices.iter_mut().for_each(|choice| choice.why = format!("{reason}; {}", choice.why));
        }
        let documents = self.snapshot.statistics().documents;
        Decision { choices, cpu, gpu, documents, threads: context.threads() }
    }
}

/// Whether a kernel never ended. The driver would wait for it whatever this process asks of the device.
fn is_hung(error: &ExecError) -> bool {
    let ExecError::Device { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(DeviceError::Hung { .. }))
}

/// Whether the GPU will fail other queries too.
fn is_final(answer: &std::result::Result<Answer, ExecError>) -> bool {
    let fault = answer.as_ref().err().and_then(ExecError::fault);
    matches!(fault, Some(Fault::Device | Fault::Setup))
}

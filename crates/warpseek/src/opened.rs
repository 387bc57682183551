//! An open snapshot and its engines. It plans requests, chooses a device for each batch, and
//! falls back to the CPU if a GPU fails.

mod choice;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_cuda::DeviceError;
use warpseek_exec::query::{Node, Operator, parse};
use warpseek_exec::{
    Answer, Answers, Choice, CollectionStatistics, Context, Engine, ExecError, Fault, Formulas,
    Limit, Mask, Mode, Plan, Planner, Query, Ranking, fail_all,
};
use warpseek_exec_gpu::Resident;
use warpseek_index::{FilterCache, FilterCacheUsage, Snapshot};

use crate::calibration::{self, CPU};
use crate::costs::Costs;
use crate::engines::{GpuEngines, Maker};
use crate::error::Result;
use crate::gpu::open as gpus;
use crate::gpu::state::{Gpu, State};
use crate::gpu::{GpuStatus, Notice};
use crate::options::{CalibrationChoice, DeviceChoice, SearcherOptions};
use crate::plan::Decision;
use crate::query::{QueryInput, Request};
use crate::repeats::Repeats;

/// Ids, and the documents with these ids.
type Among = (Arc<[String]>, Arc<Mask>);

/// A filter, and the documents that match it.
type Filtered = (Arc<Node>, Arc<Mask>);

/// Maximum size of the cached sets of documents that filters admit, in bytes.
const FILTER_CACHE_BYTES: usize = 64 << 20;

/// The state of a searcher for one snapshot.
pub(crate) struct Opened {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) ranking: Ranking,
    pub(crate) planner: Planner,
    /// The context of work that no request asked for, such as copying the index to a GPU.
    pub(crate) context: Context,
    /// The CPU's engine, which answers if no GPU does.
    pub(crate) cpu: Box<dyn Engine>,
    pub(crate) gpu: Gpu,
    options: Arc<SearcherOptions>,
    /// True if hits may differ from those of other engines.
    pub(crate) approximate: bool,
    /// The formulas whose values the GPU holds or is about to compute: those of the index, or of
    /// the collection that it is a part of.
    home: Mutex<Formulas>,
    /// Set once [`Opened::prepare`] was called.
    prepared: AtomicBool,
    /// Set once the GPU has what queries need, so that it can be measured.
    warm: AtomicBool,
    /// The expected times of batches.
    pub(crate) costs: Arc<Costs>,
    /// The ids that the last request was restricted to, and their documents. Many requests use
    /// the same ids.
    among: Mutex<Option<Among>>,
    /// The filter that the last request was restricted to, and its documents.
    filter: Mutex<Option<Filtered>>,
    /// Sets of documents that conditions on attributes admit, shared with later snapshots.
    filters: Arc<FilterCache>,
}

impl Opened {
    /// Opens the engines for a snapshot. If the GPUs of an earlier snapshot still work, they are
    /// reused, and only new data is copied to them.
    pub(crate) fn of(
        snapshot: Arc<Snapshot>,
        options: &Arc<SearcherOptions>,
        before: Option<&Opened>,
    ) -> Result<Self> {
        let ranking = options.ranking.unwrap_or_else(|| Ranking::suited(snapshot.manifest()));
        let planner = Planner::new(snapshot.clone(), ranking)?;
        let context = Context::new(options.threads);
        let unusable = before.and_then(|before| before.gpu.why_unusable());
        let (gpus, why) = match before.and_then(|before| before.gpu.engines()) {
            _ if options.device == DeviceChoice::Auto
                && let Some(why) = unusable.clone().or_else(|| gpus::unfit(planner.formulas())) =>
            {
                (Vec::new(), Some(why))
            }
            Some(engines) => (engines.gpus.clone(), None),
            None => gpus::open(options)?,
        };
        let documents = snapshot.statistics().documents;
        let look_up = |devices: Vec<String>| {
            calibration::find(options, snapshot.dir(), documents, devices, planner.ranking_name())
        };
        // The devices of a calibration for each GPU alone; the first one stands for others.
        let gpu = gpus.first().map(|gpu| gpu.device.info().name.clone());
        let chooses = matches!(options.device, DeviceChoice::Auto | DeviceChoice::Both)
            && (gpu.is_some() || matches!(options.calibration, CalibrationChoice::File(_)));
        let costs = match before {
            Some(before) => before.costs.clone(),
            None if chooses => {
                let devices = std::iter::once(CPU.to_owned()).chain(gpu).collect();
                Arc::new(Costs::new(look_up(devices)?))
            }
            None => Arc::default(),
        };
        let known = costs.calibration();
        let maker = Maker {
            snapshot: &snapshot,
            planner: &planner,
            options,
            context: &context,
            known: known.as_deref(),
        };
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
        if let State::Unusable(why) = &state
            && unusable.is_none()
        {
            (options.listener)(&Notice::NoGpu { why: why.clone() });
        }
        let (gpu, options) = (Gpu::new(state), options.clone());
        let home = Mutex::new(planner.formulas().clone());
        let (prepared, warm) = (AtomicBool::new(false), AtomicBool::new(false));
        let (among, filter) = (Mutex::default(), Mutex::default());
        let new = || Arc::new(FilterCache::new(FILTER_CACHE_BYTES));
        let filters = before.map_or_else(new, |before| before.filters.clone());
        Ok(Opened {
            snapshot,
            ranking,
            planner,
            context,
            cpu,
            gpu,
            options,
            approximate,
            home,
            prepared,
            warm,
            costs,
            among,
            filter,
            filters,
        })
    }

    fn may_choose(&self) -> bool {
        self.options.device == DeviceChoice::Auto
    }

    /// Returns true if [`Opened::prepare`] was called. A later snapshot should then be prepared
    /// as well.
    pub(crate) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Relaxed)
    }

    pub(crate) fn prepare(&self) -> Result<(), ExecError> {
        self.prepared.store(true, Ordering::Relaxed);
        self.prepare_for(&self.home())
    }

    fn prepare_for(&self, formulas: &Formulas) -> Result<(), ExecError> {
        let Some(engine) = self.gpu.engine() else {
            return self.cpu.prepare(formulas, &self.context);
        };
        if self.may_choose() {
            self.cpu.prepare(formulas, &self.context)?;
        }
        match engine.prepare(formulas, &self.context) {
            Ok(()) => {
                self.warm.store(true, Ordering::Release);
                if self.compares_times() {
                    self.measure();
                }
                Ok(())
            }
            Err(error @ ExecError::Device { .. }) if self.may_choose() => {
                self.give_up(&engine, error);
                Ok(())
            }
            // The CPU answers all queries over such an index.
            Err(ExecError::Unsupported { .. }) if self.may_choose() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Prepares for queries with the statistics of a collection. Until this is done, the CPU
    /// answers them if the options allow it.
    pub(crate) fn prepare_as_part(
        &self,
        collection: &Arc<CollectionStatistics>,
    ) -> Result<(), ExecError> {
        let of_part = Planner::of_part(self.snapshot.clone(), self.ranking, collection.clone())?;
        let formulas = of_part.formulas();
        if *formulas == self.home() {
            return Ok(());
        }
        self.prepare_for(formulas)?;
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = formulas.clone();
        Ok(())
    }

    fn home(&self) -> Formulas {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn gpu_status(&self) -> GpuStatus {
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
        if self.may_choose() && self.gpu.engines().is_some() {
            status.calibration = Some(self.source());
        }
        // The state is unlocked here, so searches do not wait while residencies are read.
        if let Some(engines) = self.gpu.engines() {
            status.residency = engines.residents.iter().map(Resident::now).collect();
        }
        status
    }

    /// Plans a request. If its time is up before the plan is complete, this fails with
    /// [`ExecError::Stopped`], and [`Opened::nothing`] returns the answer to the request.
    pub(crate) fn plan(&self, request: &Request, limit: &Limit) -> Result<Plan, ExecError> {
        self.snapshot.check_damage()?;
        let other;
        let ranking = request.ranking.unwrap_or(self.ranking);
        let planner = match &request.collection {
            Some(collection) => {
                other = Planner::of_part(self.snapshot.clone(), ranking, collection.clone())?;
                &other
            }
            None if ranking == self.ranking => &self.planner,
            None => {
                other = Planner::for_one_plan(self.snapshot.clone(), ranking)?;
                &other
            }
        };
        let (mode, k) = (request.mode, request.k);
        let mask = self.mask(request, limit)?;
        let trees = planner.limited(limit);
        let plan = match &request.query {
            QueryInput::Text(text) => {
                // Every word is searched for in every field, so a document with all terms would
                // need each word in each field.
                if mode != Mode::Or && self.snapshot.text_fields() > 1 {
                    return Err(ExecError::WordsOfFields(mode));
                }
                let query = Query::for_index(text, self.snapshot.manifest())?;
                Plan { mask, ..planner.plan_owned(query, mode, k)? }
            }
            QueryInput::Terms(query) => Plan { mask, ..planner.plan(query, mode, k)? },
            QueryInput::Expression(text) => {
                let tree = self.parse(text, mode)?;
                trees.plan_expression(&tree, None, mask.as_ref(), k, &self.filters)?
            }
            QueryInput::Tree(tree) => {
                if mode != Mode::Or {
                    return Err(ExecError::ModeOfTree(mode));
                }
                trees.plan_tree(tree, None, mask.as_ref(), k, &self.filters)?
            }
        };
        let gather = planner.gather(&request.sort, request.after.as_ref(), &request.facets)?;
        if gather.is_some() && mode == Mode::AndOr {
            return Err(ExecError::GatherMode);
        }
        let count = request.count && plan.least_matches() <= request.count_to;
        Ok(Plan { count, gather: gather.map(Arc::new), ..plan })
    }

    /// Returns the answer to a request whose time was up before it was planned. It covers no
    /// documents, and its plan matches nothing but has the request's settings for hits.
    pub(crate) fn nothing(&self, request: &Request) -> Result<(Plan, Answer), ExecError> {
        let (query, mode) = (QueryInput::Tree(Node::Nothing), Mode::Or);
        let of_nothing =
            Request { query, mode, among: None, filter: None, collection: None, ..request.clone() };
        let plan = self.plan(&of_nothing, &Limit::none())?;
        let answer = Answer::nothing(&plan);
        Ok((plan, answer))
    }

    /// Parses the text of a query.
    pub(crate) fn parse(&self, text: &str, mode: Mode) -> Result<Node, ExecError> {
        let operator = match mode {
            Mode::Or => Operator::Or,
            Mode::And => Operator::And,
            Mode::AndOr => return Err(ExecError::ModeOfTree(mode)),
        };
        Ok(parse(text, self.snapshot.manifest().schema.as_deref(), operator)?)
    }

    /// Returns the set of documents that may be hits, or `None` for all documents.
    fn mask(&self, request: &Request, limit: &Limit) -> Result<Option<Arc<Mask>>, ExecError> {
        let among = request.among.as_ref().map(|ids| self.documents_among(ids, limit));
        let filter = request.filter.as_ref().map(|tree| self.documents_of(tree, limit));
        let (among, filter) = (among.transpose()?, filter.transpose()?);
        Ok(match (among, filter) {
            (Some(among), Some(filter)) => Some(Arc::new(among.and(&filter))),
            (among, filter) => among.or(filter),
        })
    }

    /// Returns the documents that match a filter.
    fn documents_of(&self, tree: &Arc<Node>, limit: &Limit) -> Result<Arc<Mask>, ExecError> {
        let last = self.filter.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, mask)) = last.filter(|(known, _)| Arc::ptr_eq(known, tree)) {
            return Ok(mask);
        }
        let mask = Arc::new(self.planner.limited(limit).matching(tree, &self.filters)?);
        let mut last = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((tree.clone(), mask.clone()));
        Ok(mask)
    }

    /// Returns the documents with these ids.
    fn documents_among(&self, ids: &Arc<[String]>, limit: &Limit) -> Result<Arc<Mask>, ExecError> {
        let last = self.among.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, mask)) = last.filter(|(known, _)| Arc::ptr_eq(known, ids)) {
            return Ok(mask);
        }
        let mask = Arc::new(Mask::of_ids_in_time(&self.snapshot, ids.iter(), &mut limit.ticker())?);
        let mut last = self.among.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((ids.clone(), mask.clone()));
        Ok(mask)
    }

    /// Answers plans on the best device. If the options allow it, the CPU answers those that the
    /// GPU does not support or fails to answer.
    pub(crate) fn answer(self: &Arc<Self>, plans: &[&Plan], context: &Context) -> Answers {
        if plans.len() < 2 {
            return self.answer_by(plans, context).0;
        }
        let repeats = Repeats::of(plans);
        let answers = self.answer_by(&repeats.distinct, context).0;
        repeats.spread(answers)
    }

    /// Answers a plan. Also returns the GPU engine that did so, or `None` if it was the CPU.
    pub(crate) fn answer_one(
        self: &Arc<Self>,
        plan: &Plan,
        context: &Context,
    ) -> (Result<Answer, ExecError>, Option<Arc<dyn Engine>>) {
        let (mut answers, by) = self.answer_by(&[plan], context);
        (answers.pop().unwrap_or(Err(ExecError::NoAnswer)), by)
    }

    /// Returns the device and algorithm with which a GPU engine, or the CPU if there is none,
    /// answers a plan.
    pub(crate) fn choice(
        &self,
        gpu: Option<&Arc<dyn Engine>>,
        plan: &Plan,
        context: &Context,
    ) -> Choice {
        let choices = match gpu {
            Some(engine) => engine.explain(&[plan], context),
            None => self.cpu.explain(&[plan], context),
        };
        choices.into_iter().next().unwrap_or_else(Decision::no_choice)
    }

    pub(crate) fn filter_cache(&self) -> FilterCacheUsage {
        self.filters.usage()
    }

    /// Answers plans. Also returns the GPU engine if it answered all of them.
    fn answer_by(
        self: &Arc<Self>,
        plans: &[&Plan],
        context: &Context,
    ) -> (Answers, Option<Arc<dyn Engine>>) {
        if self.gpu.wants_revival() {
            self.revive();
        }
        let Some(engine) = self.gpu.engine() else {
            return (self.without_gpu(plans, context), None);
        };
        if self.may_choose() && self.would_wait(plans, context)
            || self.stays(&engine, plans, context)
        {
            self.gpu.stayed.fetch_add(plans.len() as u64, Ordering::Relaxed);
            return (self.cpu.search(plans, context), None);
        }
        let mut answers = self.ask_gpu(&engine, plans, context);
        let made_good = self.may_choose() && self.make_good(plans, context, &mut answers);
        (answers, (!made_good).then_some(engine))
    }

    /// Answers plans on the GPU, whatever the estimates for the CPU. Returns `None` if no GPU is
    /// available now.
    pub(crate) fn answer_on_gpu(
        self: &Arc<Self>,
        plans: &[&Plan],
        context: &Context,
    ) -> Option<Answers> {
        if self.gpu.wants_revival() {
            self.revive();
        }
        let engine = self.gpu.engine()?;
        Some(self.ask_gpu(&engine, plans, context))
    }

    fn ask_gpu(&self, engine: &Arc<dyn Engine>, plans: &[&Plan], context: &Context) -> Answers {
        let answers = engine.search(plans, context);
        if let Some(Err(error)) =
            answers.iter().find(|answer| answer.as_ref().is_err_and(ExecError::is_final))
        {
            self.give_up(engine, error.clone());
        } else if answers.iter().any(Result::is_ok) {
            self.warm.store(true, Ordering::Release);
        }
        answers
    }

    /// Returns true if the GPU would first have to copy the index for a search that has no time
    /// for it, or compute values for a ranking of a single request, which may never be used
    /// again.
    fn would_wait(&self, plans: &[&Plan], context: &Context) -> bool {
        let home = self.home();
        let other = plans.iter().any(|plan| plan.formulas != home);
        other || context.is_limited() && !self.is_prepared()
    }

    /// Answers plans when no GPU is available.
    fn without_gpu(&self, plans: &[&Plan], context: &Context) -> Answers {
        let lost = match &*self.gpu.state() {
            State::Lost(lost) if !self.may_choose() => Some(lost.error.clone()),
            _ => None,
        };
        match lost {
            Some(error) => fail_all(plans, &error),
            None => self.cpu.search(plans, context),
        }
    }

    /// Lets the CPU answer the plans that the GPU failed to answer or does not support. Returns
    /// false if there are none.
    fn make_good(&self, plans: &[&Plan], context: &Context, answers: &mut Answers) -> bool {
        let is_open = |answer: &std::result::Result<_, ExecError>| {
            matches!(answer, Err(ExecError::Device { .. } | ExecError::Unsupported { .. }))
        };
        let open: Vec<usize> = (0..plans.len()).filter(|&i| is_open(&answers[i])).collect();
        if open.is_empty() {
            return false;
        }
        self.gpu.fallen_back.fetch_add(open.len() as u64, Ordering::Relaxed);
        // The loss of a GPU is reported by a separate notice.
        if let Err(error) = &answers[open[0]]
            && !error.is_final()
            && !self.gpu.told.swap(true, Ordering::Relaxed)
        {
            (self.options.listener)(&Notice::FellBack { why: error.to_string() });
        }
        let some: Vec<&Plan> = open.iter().map(|&i| plans[i]).collect();
        for (i, answer) in open.into_iter().zip(self.cpu.search(&some, context)) {
            answers[i] = answer;
        }
        true
    }

    /// Stops using the GPU after a failure, until it has been opened again.
    fn give_up(&self, engine: &Arc<dyn Engine>, error: ExecError) {
        let (why, cpu_answers) = (error.to_string(), self.may_choose());
        if error.fault() != Some(Fault::Device) || is_hung(&error) {
            // The GPU has no memory left, is set up incorrectly, or hangs: trying again would not
            // help. With [`DeviceChoice::Cuda`] every query fails with this error.
            if cpu_answers && self.gpu.unusable(engine, &why) {
                (self.options.listener)(&Notice::NoGpu { why });
            }
        } else if let Some(retry_in) = self.gpu.lost(engine, error, self.options.retry) {
            (self.options.listener)(&Notice::GpuLost { why, retry_in, cpu_answers });
        }
    }

    /// Tries to use the GPU again, in a background thread for which no request waits.
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

    fn try_again(&self) -> Result<GpuEngines, ExecError> {
        let gpus = gpus::open_all(&self.options).map_err(warpseek_exec_gpu::failed)?;
        let (snapshot, planner) = (&self.snapshot, &self.planner);
        let (options, context) = (&*self.options, &self.context);
        let known = self.costs.calibration();
        let maker = Maker { snapshot, planner, options, context, known: known.as_deref() };
        let engines = maker.gpus(&gpus)?;
        engines.engine.prepare(&self.home(), &self.context)?;
        Ok(engines)
    }
}

/// Returns true if a kernel did not end. The driver would wait for it in every later call.
fn is_hung(error: &ExecError) -> bool {
    let ExecError::Device { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(DeviceError::Hung { .. }))
}

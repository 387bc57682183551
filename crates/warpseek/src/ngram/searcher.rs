//! A searcher for approximate search, on the CPU or on a GPU.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use warpseek_cuda::Device;
use warpseek_exec::{Context, Pool};
use warpseek_index::{Snapshot, StoreMode};
use warpseek_ngram::{
    Algorithm, GpuSearcher, GpuSettings, GpuVerifier, NgramError, Query, Searcher, VerifyCounts,
};
use warpseek_text::GramConfig;

use super::request::NgramRequest;
use super::response::NgramResponse;
use super::verification::{Answered, finish_many};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::query::limit_of;

/// Number of queries per thread in a batch for the CPU.
const BATCH_PER_THREAD: usize = 64;

/// Number of queries in a batch for a GPU.
const BATCH_OF_GPU: usize = 4096;

/// Options for approximate search.
///
/// ```
/// use warpseek::ngram::{NgramAlgorithm, NgramOptions};
///
/// let options = NgramOptions::new().threads(2).algorithm(NgramAlgorithm::Bins);
/// ```
#[derive(Clone, Debug)]
pub struct NgramOptions {
    threads: usize,
    mmap: bool,
    algorithm: Algorithm,
    gpu: Option<u32>,
    gpu_memory: Option<u64>,
}

impl Default for NgramOptions {
    fn default() -> Self {
        NgramOptions {
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            mmap: true,
            algorithm: Algorithm::default(),
            gpu: None,
            gpu_memory: None,
        }
    }
}

impl NgramOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        NgramOptions::default()
    }

    /// Sets the number of CPU threads. Default: one per core.
    pub fn threads(self, threads: usize) -> Self {
        NgramOptions { threads: threads.max(1), ..self }
    }

    /// Sets whether files are mapped into memory (true) or read into memory. Default: true. If
    /// another process truncates a mapped file, the operating system ends this process.
    pub fn mmap(self, mmap: bool) -> Self {
        NgramOptions { mmap, ..self }
    }

    /// Sets the algorithm. All algorithms find the same hits. Default: the fastest one.
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        NgramOptions { algorithm, ..self }
    }

    /// Sets the number of the GPU that answers requests. Default: none.
    ///
    /// The index is copied to the GPU; if it does not fit, lists are copied when queries need
    /// them. The GPU also verifies candidates and caches texts for that. The CPU answers requests
    /// that have a deadline or can be cancelled, and does the work for which the GPU lacks
    /// memory.
    pub fn gpu(self, gpu: u32) -> Self {
        NgramOptions { gpu: Some(gpu), ..self }
    }

    /// Limits the memory to use on the GPU, in bytes. Default: all memory.
    pub fn gpu_memory(self, bytes: u64) -> Self {
        NgramOptions { gpu_memory: Some(bytes), ..self }
    }
}

/// A searcher answers approximate searches over a snapshot of an index of n-grams, from any
/// number of threads. Clones share the snapshot: refreshing one of them refreshes all.
///
/// A document is found if it has nearly all n-grams of the query close together. It therefore
/// does not matter whether the query or the text is misspelt.
///
/// ```
/// use warpseek::ngram::NgramRequest;
/// use warpseek::text::GramConfig;
/// use warpseek::{Document, Index, IndexOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let dir = folder.path().join("index");
/// let index = Index::create_with(&dir, IndexOptions::new().grams(GramConfig::default()))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "Aspirin", "Acetylsalicylic acid, or ASA, is a drug."))?;
/// writer.add(Document::new("b", "Vinegar", "Acetic acid is what makes vinegar sour."))?;
/// writer.commit()?;
///
/// let searcher = index.ngram_searcher()?;
/// let request = NgramRequest::new("acetylsalicilic acid").verify(true);
/// let response = searcher.search(&request)?;
/// assert_eq!(response.id(0)?, "a");
/// assert_eq!(response.hits()[0].distance, Some(1));
/// let snippet = response.snippet(0, 80)?;
/// assert_eq!(&snippet.text[snippet.highlights[0].clone()], "Acetylsalicylic acid");
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone)]
pub struct NgramSearcher {
    index: Index,
    options: NgramOptions,
    /// The worker threads, without a time limit.
    context: Context,
    device: Option<Device>,
    now: Arc<RwLock<Now>>,
}

/// A snapshot, with its copy on a GPU, if there is one.
#[derive(Clone)]
struct Now {
    searcher: Searcher,
    gpu: Option<Arc<Gpu>>,
}

struct Gpu {
    searcher: GpuSearcher,
    verifier: GpuVerifier,
}

impl Now {
    fn open(index: &Index, options: &NgramOptions, device: Option<&Device>) -> Result<Self> {
        let searcher = Searcher::new(index.snapshot_with(options.mmap)?)?;
        let on_gpu = |device: &Device| {
            let usual = GpuSettings::USUAL;
            let verifier = GpuVerifier::new(device, None);
            GpuSearcher::new(searcher.clone(), device.clone(), usual)
                .map(|searcher| Arc::new(Gpu { searcher, verifier }))
        };
        Ok(Now { gpu: device.map(on_gpu).transpose()?, searcher })
    }
}

impl Index {
    /// Opens a searcher for approximate search, with the default options. Fails if the index
    /// contains words instead of n-grams.
    pub fn ngram_searcher(&self) -> Result<NgramSearcher> {
        self.ngram_searcher_with(NgramOptions::default())
    }

    /// Opens a searcher for approximate search, with the given options.
    pub fn ngram_searcher_with(&self, options: NgramOptions) -> Result<NgramSearcher> {
        NgramSearcher::open(self, options)
    }
}

impl NgramSearcher {
    fn open(index: &Index, options: NgramOptions) -> Result<Self> {
        let device = options.gpu.map(|gpu| Device::open(gpu, options.gpu_memory)).transpose()?;
        let now = Now::open(index, &options, device.as_ref())?;
        let (context, now) = (Context::new(options.threads), Arc::new(RwLock::new(now)));
        Ok(NgramSearcher { index: index.clone(), options, context, device, now })
    }

    fn now(&self) -> Now {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Switches to the newest commit. Returns false if the searcher is up to date already.
    /// Searches in progress keep the snapshot with which they started.
    pub fn refresh(&self) -> Result<bool> {
        if self.index.manifest()?.generation <= self.snapshot().generation() {
            return Ok(false);
        }
        let newest = Now::open(&self.index, &self.options, self.device.as_ref())?;
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster and may have installed a later snapshot.
        let generation = |now: &Now| now.searcher.snapshot().generation();
        if generation(&newest) <= generation(&now) {
            return Ok(false);
        }
        *now = newest;
        Ok(true)
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now().searcher.snapshot().clone()
    }

    /// Returns the unit and length of the n-grams of the index.
    pub fn config(&self) -> GramConfig {
        *self.now().searcher.config()
    }

    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.options.algorithm
    }

    /// Returns the best number of queries for a batch.
    pub fn batch_size(&self) -> usize {
        match self.device {
            Some(_) => BATCH_OF_GPU,
            None => BATCH_PER_THREAD * self.context.threads(),
        }
    }

    /// Returns the name of the GPU that answers, or of the algorithm if the CPU does.
    pub fn engine(&self) -> String {
        match &self.device {
            Some(device) => device.info().name.clone(),
            None => self.options.algorithm.to_string(),
        }
    }

    /// Answers a request, using all threads.
    pub fn search(&self, request: &NgramRequest) -> Result<NgramResponse> {
        let (now, start) = (self.now(), Instant::now());
        match &now.gpu {
            Some(gpu) if !request.is_limited() => {
                let requests = std::slice::from_ref(request);
                self.answer_on_gpu(&now.searcher, gpu, requests, start).remove(0)
            }
            _ => self.answer(&now.searcher, request, &self.context, start),
        }
    }

    /// Answers many requests over the same snapshot. The responses are in the order of the
    /// requests, and each thread answers some of the requests. A request that fails does not
    /// affect the others.
    pub fn search_many(&self, requests: &[NgramRequest]) -> Vec<Result<NgramResponse>> {
        if let [request] = requests {
            return vec![self.search(request)];
        }
        let (now, start) = (self.now(), Instant::now());
        match &now.gpu {
            Some(gpu) if !requests.iter().any(NgramRequest::is_limited) => {
                self.answer_on_gpu(&now.searcher, gpu, requests, start)
            }
            _ if !requests.iter().any(NgramRequest::is_limited) => {
                // The candidates of one batch fit into memory.
                let batches = requests.chunks(self.batch_size());
                batches.flat_map(|some| self.answer_many(&now.searcher, some, start)).collect()
            }
            _ => {
                let single = self.context.with_pool(Pool::shared(1));
                let answer = |(): &mut (), request: &NgramRequest| {
                    self.answer(&now.searcher, request, &single, start)
                };
                self.context.pool().map(requests, || (), answer)
            }
        }
    }

    /// Returns the number of candidates of the current snapshot that the GPU verified, and the
    /// number left to the CPU. Returns `None` without a GPU.
    pub fn verified(&self) -> Option<VerifyCounts> {
        self.now().gpu.map(|gpu| gpu.verifier.counts())
    }

    /// Processes items with the searcher's threads, for instance to format the hits of a batch.
    pub fn in_parallel<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + Sync,
    ) -> Vec<R> {
        self.context.pool().map(items, || (), |(), item| work(item))
    }

    fn answer(
        &self,
        searcher: &Searcher,
        request: &NgramRequest,
        context: &Context,
        start: Instant,
    ) -> Result<NgramResponse> {
        let limit = limit_of(request.deadline, request.cancel.as_ref(), start);
        let context = context.with_limit(limit);
        let answered = self.find(searcher, request, &context)?;
        answered.finish(searcher.snapshot(), &context, start)
    }

    /// Answers requests without limits on the CPU. Threads first divide the requests among them,
    /// and then the documents to verify.
    fn answer_many(
        &self,
        searcher: &Searcher,
        requests: &[NgramRequest],
        start: Instant,
    ) -> Vec<Result<NgramResponse>> {
        let single = self.context.with_pool(Pool::shared(1));
        // References let the results borrow from the requests.
        let each: Vec<&NgramRequest> = requests.iter().collect();
        let answered = self.context.pool().map(
            &each,
            || (),
            |(), &request| self.find(searcher, request, &single),
        );
        finish_many(answered, None, searcher.snapshot(), &self.context, start)
    }

    /// Finds the candidates of a request.
    fn find<'a>(
        &self,
        searcher: &Searcher,
        request: &'a NgramRequest,
        context: &Context,
    ) -> Result<Answered<'a>> {
        let query = query(searcher, request)?;
        let algorithm = self.options.algorithm;
        let answer = searcher.search(&query, request.wanted(), algorithm, context)?;
        Ok(Answered { request, query, answer })
    }

    /// Answers requests without limits on a GPU.
    fn answer_on_gpu(
        &self,
        searcher: &Searcher,
        gpu: &Gpu,
        requests: &[NgramRequest],
        start: Instant,
    ) -> Vec<Result<NgramResponse>> {
        let read = |(): &mut (), request: &NgramRequest| query(searcher, request);
        let queries = self.context.pool().map(requests, || (), read);
        let sound: Vec<Query> =
            queries.iter().filter_map(|query| query.as_ref().ok()).cloned().collect();
        // The best hits of a longer list begin with those of a shorter list.
        let most = requests.iter().map(NgramRequest::wanted).max().unwrap_or(0);
        let found = gpu.searcher.search_many(&sound, most, self.options.algorithm, &self.context);
        let mut found = found.into_iter();
        let mut answered = queries.into_iter().zip(requests).map(|(query, request)| {
            let query = query?;
            // There is an answer for each valid query.
            let mut answer = found.next().unwrap_or(Err(NgramError::NotGrams))?;
            answer.hits.truncate(request.wanted());
            Ok(Answered { request, query, answer })
        });
        let (snapshot, verifier) = (searcher.snapshot(), Some(&gpu.verifier));
        let mut responses = Vec::with_capacity(requests.len());
        while responses.len() < requests.len() {
            // The candidates of one batch fit into memory.
            let some = answered.by_ref().take(BATCH_OF_GPU).collect();
            responses.extend(finish_many(some, verifier, snapshot, &self.context, start));
        }
        responses
    }
}

/// Returns the query of a request, or an error if the index cannot answer it.
fn query(searcher: &Searcher, request: &NgramRequest) -> Result<Query> {
    searcher.snapshot().check_damage()?;
    if request.verify && searcher.snapshot().manifest().store == StoreMode::Ids {
        return Err(Error::NoText);
    }
    Ok(searcher.query(&request.text, request.allowed())?)
}

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use warpseek_core::Hit;
use warpseek_cuda::Device;
use warpseek_exec::{Context, Pool};
use warpseek_index::{Snapshot, StoreMode};
use warpseek_ngram::distance::{Match, Pattern};
use warpseek_ngram::{Algorithm, Answer, GpuSearcher, GpuSettings, NgramError, Query, Searcher};
use warpseek_text::GramConfig;

use super::alignment::{read_document, write_normal};
use super::request::NgramRequest;
use super::response::{NgramHit, NgramResponse};
use crate::error::{Error, Result};
use crate::index::Index;
use crate::searcher::limited;

/// Queries in a batch for each thread.
const BATCH_PER_THREAD: usize = 64;

/// Queries in a batch for a GPU.
const BATCH_OF_GPU: usize = 4096;

/// Candidates that a thread verifies at a time; several short texts are compared faster together.
const VERIFIED_TOGETHER: usize = 16;

/// How approximate searches are answered.
///
/// ```
/// use warpseek::{NgramAlgorithm, NgramOptions};
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
    /// The defaults.
    pub fn new() -> Self {
        NgramOptions::default()
    }

    /// Threads of the CPU. Default: one a core.
    pub fn threads(self, threads: usize) -> Self {
        NgramOptions { threads: threads.max(1), ..self }
    }

    /// Whether files are mapped into memory, or read into it. Default: mapped. A file that somebody truncates while it is mapped ends the process.
    pub fn mmap(self, mmap: bool) -> Self {
        NgramOptions { mmap, ..self }
    }

    /// How hits are found. Default: the fastest way. All find the same ones.
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        NgramOptions { algorithm, ..self }
    }

    /// The GPU that answers, by number. The index is copied to it; if it has no room there, lists are copied when queries need them. Default: none. Requests with a deadline or that can be cancelled, and what the GPU has no room for, are left to the CPU.
    pub fn gpu(self, gpu: u32) -> Self {
        NgramOptions { gpu: Some(gpu), ..self }
    }

    /// The most bytes of the GPU's memory that are used. Default: all.
    pub fn gpu_memory(self, bytes: u64) -> Self {
        NgramOptions { gpu_memory: Some(bytes), ..self }
    }
}

/// Answers approximate searches over a snapshot of an index of n-grams, from any number of threads. Clones are the same searcher.
///
/// A document is found if it has nearly all n-grams of the query close together, so it does not matter whether query or text is misspelt.
///
/// ```
/// use warpseek::{Document, GramConfig, Index, IndexOptions, NgramRequest};
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
    /// Its threads, and no limit of time.
    context: Context,
    device: Option<Device>,
    now: Arc<RwLock<Now>>,
}

/// What answers: a snapshot, and the same on a GPU.
#[derive(Clone)]
struct Now {
    searcher: Searcher,
    gpu: Option<Arc<GpuSearcher>>,
}

impl Now {
    fn open(index: &Index, options: &NgramOptions, device: Option<&Device>) -> Result<Self> {
        let searcher = Searcher::new(index.snapshot_with(options.mmap)?)?;
        let on_gpu = |device: &Device| {
            GpuSearcher::new(searcher.clone(), device.clone(), GpuSettings::USUAL).map(Arc::new)
        };
        Ok(Now { gpu: device.map(on_gpu).transpose()?, searcher })
    }
}

impl NgramSearcher {
    pub(crate) fn open(index: &Index, options: NgramOptions) -> Result<Self> {
        let device = options.gpu.map(|gpu| Device::open(gpu, options.gpu_memory)).transpose()?;
        let now = Now::open(index, &options, device.as_ref())?;
        let (context, now) = (Context::new(options.threads), Arc::new(RwLock::new(now)));
        Ok(NgramSearcher { index: index.clone(), options, context, device, now })
    }

    fn now(&self) -> Now {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes over to the newest commit; false if it has that already. Searches under way keep the snapshot that they began with.
    pub fn refresh(&self) -> Result<bool> {
        if self.index.manifest()?.generation <= self.snapshot().generation() {
            return Ok(false);
        }
        let newest = Now::open(&self.index, &self.options, self.device.as_ref())?;
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster, and have a later snapshot.
        let generation = |now: &Now| now.searcher.snapshot().generation();
        if generation(&newest) <= generation(&now) {
            return Ok(false);
        }
        *now = newest;
        Ok(true)
    }

    /// The snapshot that it searches.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.now().searcher.snapshot().clone()
    }

    /// Which n-grams the index has.
    pub fn config(&self) -> GramConfig {
        *self.now().searcher.config()
    }

    /// How hits are found.
    pub fn algorithm(&self) -> Algorithm {
        self.options.algorithm
    }

    /// How many queries are best answered in one batch.
    pub fn batch_size(&self) -> usize {
        match self.device {
            Some(_) => BATCH_OF_GPU,
            None => BATCH_PER_THREAD * self.context.threads(),
        }
    }

    /// What answers: the name of the algorithm, or of the GPU.
    pub fn engine(&self) -> String {
        match &self.device {
            Some(device) => device.info().name.clone(),
            None => self.options.algorithm.to_string(),
        }
    }

    /// Answers a request, with all threads.
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

    /// Answers many requests, in their order, all over one snapshot; threads share the requests. One that fails does not disturb the others.
    pub fn search_many(&self, requests: &[NgramRequest]) -> Vec<Result<NgramResponse>> {
        if let [request] = requests {
            return vec![self.search(request)];
        }
        let (now, start) = (self.now(), Instant::now());
        match &now.gpu {
            Some(gpu) if !requests.iter().any(NgramRequest::is_limited) => {
                self.answer_on_gpu(&now.searcher, gpu, requests, start)
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

    /// Works on items with the searcher's threads, such as writing out the hits of a batch.
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
        let context = limited(context, request.deadline, request.cancel.as_ref(), start);
        let query = query(searcher, request)?;
        let algorithm = self.options.algorithm;
        let answer = searcher.search(&query, request.wanted(), algorithm, &context)?;
        finish(searcher, request, query, answer, &context, start)
    }

    /// Answers requests without limits.
    fn answer_on_gpu(
        &self,
        searcher: &Searcher,
        gpu: &GpuSearcher,
        requests: &[NgramRequest],
        start: Instant,
    ) -> Vec<Result<NgramResponse>> {
        let read = |(): &mut (), request: &NgramRequest| query(searcher, request);
        let queries = self.context.pool().map(requests, || (), read);
        let sound: Vec<Query> =
            queries.iter().filter_map(|query| query.as_ref().ok()).cloned().collect();
        // The best of more hits begin with the best of fewer.
        let most = requests.iter().map(NgramRequest::wanted).max().unwrap_or(0);
        let mut answers =
            gpu.search_many(&sound, most, self.options.algorithm, &self.context).into_iter();
        let finished = queries.into_iter().zip(requests).map(|(query, request)| {
            let query = query?;
            // There is an answer for each query that is sound.
            let mut answer = answers.next().unwrap_or(Err(NgramError::NotGrams))?;
            answer.hits.truncate(request.wanted());
            finish(searcher, request, query, answer, &self.context, start)
        });
        finished.collect()
    }
}

/// The query of a request, if the index can answer it.
fn query(searcher: &Searcher, request: &NgramRequest) -> Result<Query> {
    if request.verify && searcher.snapshot().manifest().store == StoreMode::Ids {
        return Err(Error::NoText);
    }
    Ok(searcher.query(&request.text, request.allowed())?)
}

/// Verifies an answer if the request asks for it.
fn finish(
    searcher: &Searcher,
    request: &NgramRequest,
    query: Query,
    answer: Answer,
    context: &Context,
    start: Instant,
) -> Result<NgramResponse> {
    let mut response = NgramResponse {
        snapshot: searcher.snapshot().clone(),
        query,
        hits: Vec::new(),
        matches: Vec::new(),
        coverage: answer.coverage,
        unverified: 0,
        too_distant: 0,
        took: start.elapsed(),
    };
    if request.verify {
        verify(&mut response, &answer.hits, request, context)?;
    } else {
        response.matches = vec![None; answer.hits.len()];
        response.hits = answer.hits.iter().map(|hit| NgramHit::of(hit, None)).collect();
    }
    response.took = start.elapsed();
    Ok(response)
}

/// Ranks candidates by their distance to the query, and keeps those that were asked for.
fn verify(
    response: &mut NgramResponse,
    candidates: &[Hit],
    request: &NgramRequest,
    context: &Context,
) -> Result<()> {
    let (pattern, snapshot) = (Pattern::new(&response.query.grams.text), &response.snapshot);
    let groups: Vec<&[Hit]> = candidates.chunks(VERIFIED_TOGETHER).collect();
    let matched = context.pool().map(
        &groups,
        || (),
        |(), group| match context.is_over() {
            true => Ok(None),
            false => matches(&pattern, snapshot, group).map(Some),
        },
    );
    let mut verified: Vec<(Match, &Hit)> = Vec::with_capacity(candidates.len());
    for (group, matched) in groups.into_iter().zip(matched) {
        match matched? {
            Some(matched) => verified.extend(matched.into_iter().zip(group)),
            None => response.unverified += group.len(),
        }
    }
    if let Some(errors) = request.errors {
        let before = verified.len();
        verified.retain(|(matched, _)| matched.distance <= errors);
        response.too_distant = before - verified.len();
    }
    // Candidates come in the order of hits, which a stable sort keeps among equal distances.
    verified.sort_by_key(|(matched, _)| matched.distance);
    verified.truncate(request.k);
    let hit = |&(matched, hit): &(Match, &Hit)| NgramHit::of(hit, Some(matched.distance));
    response.hits = verified.iter().map(hit).collect();
    response.matches = verified.iter().map(|&(matched, _)| Some(matched)).collect();
    Ok(())
}

/// The best match of the query in each document.
fn matches(pattern: &Pattern, snapshot: &Snapshot, hits: &[Hit]) -> Result<Vec<Match>> {
    let mut texts = Vec::with_capacity(hits.len());
    for hit in hits {
        texts.push(read_document(snapshot, hit.doc, |title, text| {
            let mut normal = String::new();
            write_normal(title, text, &mut normal);
            normal
        })?);
    }
    Ok(pattern.best_matches(&texts))
}

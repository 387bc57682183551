//! Inverters for the builder of `warpseek_index`. A separate thread drives the GPU, while workers
//! continue to read.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use warpseek_core::cosine;
use warpseek_cuda::{Device, DeviceError};
use warpseek_index::{
    BatchInverter, DocumentFacts, IndexError, InverterFactory, InverterOptions, ListBatch, Result,
    RunSink, SortedLists, TextBatch, Values,
};
use warpseek_text::WordRules;

use crate::batch::{Batch, halves, parts};
use crate::cpu;
use crate::encode::encode;
use crate::postings::{Postings, sorted};
use crate::terms::{Analysis, Terms};
use crate::worker::{Counted, DevicePostings, HostPostings, Inverted, Worker};

/// Maximum number of bytes of text in a batch.
const MOST_TEXT: usize = 64 << 20;
/// Bytes of device memory per byte of a batch. Text of words of one letter takes the most, about
/// 20 bytes for each of its bytes.
const MEMORY_A_BYTE: u64 = 32;
const LEAST_TEXT: usize = 64 << 10;
/// Bytes of device memory per byte of postings of all lists; if there are more postings, the CPU
/// encodes them.
const MEMORY_A_POSTING_BYTE: u64 = 4;
/// Number of batches that may wait to be inverted, as far as memory permits: opening the device
/// takes as long as reading some of them.
const BATCHES: std::ops::RangeInclusive<usize> = 2..=12;
/// Bytes of the memory for lists per byte of a batch.
const MEMORY_A_BATCH_BYTE: usize = 4;

/// The reaction to a failure of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// The build continues with the CPU and reports this.
    UseCpu,
    /// The build ends with an error.
    Stop,
}

/// A factory of inverters that run on a GPU.
#[derive(Clone, Debug)]
pub struct GpuInverters {
    device: Opening,
    /// Maximum number of bytes of device memory, if it is known before the device is open.
    budget: Option<u64>,
    on_failure: OnFailure,
    most_text: usize,
    ending: Arc<Ending>,
}

/// Threads that release their device memory. They use the device, so they must end before the
/// process may.
#[derive(Debug, Default)]
struct Ending(Mutex<Vec<JoinHandle<()>>>);

impl Drop for Ending {
    fn drop(&mut self) {
        let threads = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// A device that a separate thread may still be opening.
#[derive(Clone)]
struct Opening {
    opened: Arc<Mutex<Option<Result<Device, DeviceError>>>>,
    open: Arc<dyn Fn() -> Result<Device, DeviceError> + Send + Sync>,
    /// True if a build closes the device when it no longer needs it; another build then opens it
    /// again.
    closes: bool,
}

impl Opening {
    /// Returns the device, once it is open.
    fn wait(&self) -> Result<Device, DeviceError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get_or_insert_with(|| (self.open)()).clone()
    }

    /// Returns the device if it is open already.
    fn now(&self) -> Option<Device> {
        // A thread that holds the lock is opening the device.
        self.opened.try_lock().ok()?.as_ref()?.as_ref().ok().cloned()
    }

    /// Closes the device. That takes time, which a build need not wait for.
    fn close(&self) {
        if self.closes {
            let device = self.opened.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(device);
        }
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opening").field(&self.opened).finish()
    }
}

impl GpuInverters {
    /// Creates inverters on a device, within its memory budget.
    pub fn new(device: Device, on_failure: OnFailure) -> Self {
        let budget = device.memory().budget;
        let inverters = Self::of(move || Ok(device.clone()), budget, on_failure, false);
        _ = inverters.device.wait();
        inverters
    }

    /// Creates inverters and starts a thread that opens the device, so that reading the input need
    /// not wait for it. If the device cannot be opened, `on_failure` decides whether builds fail or
    /// the CPU inverts, as after any other failure.
    pub fn opening(
        open: impl Fn() -> Result<Device, DeviceError> + Send + Sync + 'static,
        budget: Option<u64>,
        on_failure: OnFailure,
    ) -> Self {
        let inverters = Self::of(open, budget, on_failure, true);
        let device = inverters.device.clone();
        // If the thread cannot be started, the first caller that needs the device opens it.
        _ = std::thread::Builder::new().name("gpu-opening".to_owned()).spawn(move || device.wait());
        inverters
    }

    fn of(
        open: impl Fn() -> Result<Device, DeviceError> + Send + Sync + 'static,
        budget: Option<u64>,
        on_failure: OnFailure,
        closes: bool,
    ) -> Self {
        let device = Opening { opened: Arc::default(), open: Arc::new(open), closes };
        let ending = Arc::default();
        GpuInverters { device, budget, on_failure, most_text: MOST_TEXT, ending }
    }

    /// Limits batches to this many bytes of text, for tests.
    pub fn with_batches_of(self, bytes: usize) -> Self {
        GpuInverters { most_text: bytes.max(1), ..self }
    }
}

fn device_error(error: DeviceError) -> IndexError {
    IndexError::Inverter { source: Box::new(error) }
}

/// Returns how device memory is divided: bytes of postings that stay there, and bytes of text of
/// a batch.
fn shares(memory: u64) -> (u64, u64) {
    let kept = memory / MEMORY_A_POSTING_BYTE;
    (kept, ((memory - kept) / MEMORY_A_BYTE).max(LEAST_TEXT as u64))
}

impl InverterFactory for GpuInverters {
    fn start(&self, options: InverterOptions, runs: RunSink) -> Result<Box<dyn BatchInverter>> {
        let InverterOptions { analyzer, schema, fields, threads, blocks } = options;
        let analysis = Analysis { analyzer, schema, fields };
        // A device that is not open yet may have less memory; batches that do not fit are then
        // divided.
        let memory = self.device.now().and_then(|device| device.available().ok()).or(self.budget);
        let most = memory.map_or(u64::MAX, |memory| shares(memory).1);
        let most_text = self.most_text.min(usize::try_from(most).unwrap_or(usize::MAX));
        let waiting = runs.memory() / MEMORY_A_BATCH_BYTE / most_text;
        let waiting = waiting.clamp(*BATCHES.start(), *BATCHES.end());
        // One thread is added because the thread that drives the GPU mostly waits, also for the
        // others.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads + 1).build();
        let pool = pool.map_err(|source| IndexError::Inverter { source: Box::new(source) })?;
        let (full, jobs) = sync_channel(waiting);
        let (done, facts) = sync_channel(1);
        let mut driver = Driver {
            runs,
            rules: analysis.rules(),
            analysis,
            notices: Vec::new(),
            worker: None,
            on_failure: self.on_failure,
            terms: Terms::default(),
            documents: 0,
            facts: DocumentFacts::default(),
            fetching: None,
            batches: Vec::new(),
            kept: blocks.then(Vec::new),
            most_kept: 0,
        };
        let device = self.device.clone();
        let work = move || {
            let facts = driver.open(&device).and_then(|()| driver.work(&jobs));
            // The receiver is gone if the build has ended. The rest is dropped while the build
            // goes on.
            _ = done.send(facts);
            drop(driver);
            device.close();
        };
        let thread = std::thread::Builder::new()
            .name("gpu-inverter".to_owned())
            .spawn(move || pool.install(work))
            .map_err(|source| IndexError::Inverter { source: Box::new(source) })?;
        Ok(Box::new(Batches {
            most_text,
            fields,
            filling: Batch::default(),
            full: Some(full),
            facts,
            thread: Some(thread),
            ending: self.ending.clone(),
        }))
    }
}

/// A message to the GPU's thread.
enum Job {
    Batch(Batch),
    /// A document that is larger than a batch.
    Document(TextBatch),
    /// The end of the text. Without it, the build has failed or was cancelled.
    Finish,
}

/// The builder's side, which fills batches.
struct Batches {
    most_text: usize,
    /// Number of sections of a document.
    fields: usize,
    filling: Batch,
    full: Option<SyncSender<Job>>,
    facts: Receiver<Result<DocumentFacts>>,
    thread: Option<JoinHandle<()>>,
    ending: Arc<Ending>,
}

impl Batches {
    fn send(&mut self, job: Job) -> Result<()> {
        match self.full.as_ref().map(|full| full.send(job)) {
            Some(Ok(())) => Ok(()),
            // Only a thread that has failed accepts no more jobs, and its error is the reason.
            _ => Err(self.facts().err().unwrap_or(IndexError::Cancelled)),
        }
    }

    fn send_filling(&mut self) -> Result<()> {
        match std::mem::take(&mut self.filling) {
            batch if batch.documents() > 0 => self.send(Job::Batch(batch)),
            _ => Ok(()),
        }
    }

    /// Returns the results of the thread, as soon as it has finished the text.
    fn facts(&mut self) -> Result<DocumentFacts> {
        self.full = None;
        match (self.facts.recv(), self.thread.take()) {
            (Ok(facts), thread) => {
                let mut ending = self.ending.0.lock().unwrap_or_else(PoisonError::into_inner);
                ending.extend(thread);
                facts
            }
            (Err(_), Some(thread)) => match thread.join() {
                Ok(()) => Err(IndexError::Cancelled),
                Err(panic) => std::panic::resume_unwind(panic),
            },
            (Err(_), None) => Err(IndexError::Cancelled),
        }
    }

    /// Adds documents that are larger than a batch: each part has as many as fit.
    fn add_in_parts(&mut self, documents: TextBatch) -> Result<()> {
        for part in parts(documents, self.most_text, self.fields) {
            if part.text.len() > self.most_text {
                self.send(Job::Document(part))?;
            } else {
                self.filling.push(part);
                self.send_filling()?;
            }
        }
        Ok(())
    }
}

impl BatchInverter for Batches {
    fn add(&mut self, documents: TextBatch) -> Result<()> {
        if documents.documents == 0 {
            return Ok(());
        }
        if self.filling.bytes + documents.text.len() > self.most_text {
            self.send_filling()?;
        }
        match documents.text.len() <= self.most_text {
            true => self.filling.push(documents),
            false => self.add_in_parts(documents)?,
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<DocumentFacts> {
        self.send_filling()?;
        self.send(Job::Finish)?;
        self.facts()
    }
}

impl Drop for Batches {
    /// Waits for the thread, which uses the device and must end before the process may.
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn failure(error: &dyn fmt::Display) -> String {
    format!("the GPU failed: {error}; the CPU inverts the rest, and the index is the same")
}

/// A batch whose postings are being copied to the host. Its text is kept until they have arrived:
/// if the device fails, the CPU needs it.
struct Fetching {
    batch: Batch,
    first: u32,
    lists: ListBatch,
    postings: DevicePostings,
    copied: Receiver<Result<HostPostings, DeviceError>>,
}

/// The GPU's side, which inverts batches.
struct Driver {
    runs: RunSink,
    analysis: Analysis,
    rules: WordRules,
    notices: Vec<String>,
    /// The worker, or `None` once it has failed.
    worker: Option<Worker>,
    on_failure: OnFailure,
    terms: Terms,
    /// Number of documents so far.
    documents: u32,
    /// The facts about these documents.
    facts: DocumentFacts,
    /// The previous batch, if its postings are still being copied.
    fetching: Option<Fetching>,
    batches: Vec<ListBatch>,
    /// Postings of the batches on the device, as long as the device is to encode them.
    kept: Option<Vec<DevicePostings>>,
    most_kept: usize,
}

impl Driver {
    /// Waits for the device and loads the kernels.
    fn open(&mut self, device: &Opening) -> Result<()> {
        let opened = device.wait().and_then(|device| {
            let memory = device.available()?;
            Ok((Worker::new(&device, &self.analysis, memory)?, memory))
        });
        match (opened, self.on_failure) {
            (Ok((worker, memory)), _) => {
                self.worker = Some(worker);
                self.most_kept = usize::try_from(shares(memory).0).unwrap_or(usize::MAX);
            }
            (Err(error), OnFailure::UseCpu) => self.notices.push(failure(&error)),
            (Err(error), OnFailure::Stop) => return Err(device_error(error)),
        }
        Ok(())
    }

    fn work(&mut self, jobs: &Receiver<Job>) -> Result<DocumentFacts> {
        loop {
            match jobs.recv().map_err(|_| IndexError::Cancelled)? {
                Job::Finish => break,
                Job::Document(document) => self.on_cpu(&document)?,
                Job::Batch(batch) => self.invert(batch)?,
            }
        }
        self.take_fetched()?;
        let batches = std::mem::take(&mut self.batches);
        let lists = sorted(&self.terms, batches);
        let mut facts = std::mem::take(&mut self.facts);
        let lists = self.encode(lists, &facts)?;
        facts.notices = std::mem::take(&mut self.notices);
        self.runs.keep(lists);
        Ok(facts)
    }

    /// Encodes full blocks if the device has all postings. Otherwise the builder encodes them.
    fn encode(&mut self, lists: SortedLists, facts: &DocumentFacts) -> Result<SortedLists> {
        let (Some(worker), Some(kept)) = (&self.worker, self.kept.take()) else { return Ok(lists) };
        match encode(worker, &lists, &kept, facts, self.analysis.fields) {
            Ok(Some(blocks)) => Ok(lists.with_blocks(blocks)),
            Ok(None) => Ok(lists),
            Err(error) if error.is_short() => Ok(lists),
            Err(error) if self.on_failure == OnFailure::Stop => Err(device_error(error)),
            Err(error) => {
                self.notices.push(failure(&error));
                Ok(lists)
            }
        }
    }

    fn on_cpu(&mut self, batch: &TextBatch) -> Result<()> {
        self.take_fetched()?;
        let (lists, facts) = self.invert_on_cpu(batch, self.documents);
        self.add_facts(batch, facts);
        // If the upload fails, the next batch reports the reason.
        let uploaded = match (&self.worker, &self.kept) {
            (Some(worker), Some(_)) => worker.upload(&lists).ok(),
            _ => None,
        };
        self.take(lists, uploaded)
    }

    fn invert_on_cpu(&mut self, batch: &TextBatch, first: u32) -> (ListBatch, Vec<(u32, u64)>) {
        let mut postings = Postings::default();
        let (rules, terms) = (&self.rules, &mut self.terms);
        let facts = cpu::invert(&self.analysis, rules, batch, first, terms, &mut postings);
        (postings.batch(), facts)
    }

    /// Keeps the facts about the next documents: those that follow from their words, length and
    /// sum of squares of each section, or those that came with their vectors.
    fn add_facts(&mut self, batch: &TextBatch, facts: Vec<(u32, u64)>) {
        self.documents += batch.documents as u32;
        match batch.kind {
            Values::Maps => {}
            Values::Weights => {
                self.facts.lengths.extend(batch.facts.iter().map(|fact| fact.0));
                self.facts.norms.extend(batch.facts.iter().map(|fact| fact.1));
            }
            Values::None | Values::Positions => {
                self.facts.lengths.extend(facts.iter().map(|fact| fact.0));
                if self.analysis.schema.is_none() {
                    self.facts.norms.extend(facts.iter().map(|fact| cosine::norm(fact.1)));
                }
            }
        }
    }

    /// Takes the lists of the previous batch, once they have arrived.
    fn take_fetched(&mut self) -> Result<()> {
        let Some(fetching) = self.fetching.take() else { return Ok(()) };
        let Fetching { batch, first, lists, postings, copied } = fetching;
        match copied.recv().map_err(|_| IndexError::Cancelled)? {
            Ok((docs, freqs, positions)) => {
                self.take(ListBatch { docs, freqs, positions, ..lists }, Some(postings))
            }
            Err(error) if self.on_failure == OnFailure::Stop => Err(device_error(error)),
            Err(error) => {
                // The batch that came after may have reported it already.
                if self.worker.take().is_some() {
                    self.notices.push(failure(&error));
                }
                let (lists, _) = self.invert_on_cpu(&batch.joined(), first);
                self.take(lists, None)
            }
        }
    }

    /// Keeps the lists of the next documents, and spills all lists if there are too many.
    fn take(&mut self, lists: ListBatch, postings: Option<DevicePostings>) -> Result<()> {
        self.batches.push(lists);
        self.kept = self.kept.take().zip(postings).map(|(mut kept, postings)| {
            kept.push(postings);
            kept
        });
        let bytes = |kept: &Vec<DevicePostings>| kept.iter().map(DevicePostings::bytes).sum();
        self.kept.take_if(|kept| self.most_kept < bytes(kept));
        if self.batches.iter().map(ListBatch::bytes).sum::<usize>() > self.runs.memory() {
            let batches = std::mem::take(&mut self.batches);
            self.kept = None;
            self.runs.spill(&sorted(&self.terms, batches))?;
        }
        Ok(())
    }

    /// Inverts whole documents. If they do not fit on the device, half of them are inverted at a
    /// time.
    fn invert(&mut self, batch: Batch) -> Result<()> {
        let Some(worker) = &mut self.worker else { return self.on_cpu(&batch.joined()) };
        match worker.invert(&batch, self.documents, &mut self.terms) {
            Ok(Inverted::Counted(counted)) => self.fetch(batch, counted),
            Ok(Inverted::Collision) => self.on_cpu(&batch.joined()),
            Ok(Inverted::TooManyWords)
            | Err(DeviceError::OutOfMemory { .. } | DeviceError::TooLarge { .. }) => {
                match halves(batch.joined(), self.analysis.fields) {
                    Ok((before, after)) => {
                        self.invert(before.into())?;
                        self.invert(after.into())
                    }
                    Err(document) => self.on_cpu(&document),
                }
            }
            Err(error) if self.on_failure == OnFailure::Stop => Err(device_error(error)),
            Err(error) => {
                self.worker = None;
                self.notices.push(failure(&error));
                self.on_cpu(&batch.joined())
            }
        }
    }

    /// Starts to copy the postings of a batch, after those of the previous batch have arrived.
    fn fetch(&mut self, batch: Batch, counted: Box<Counted>) -> Result<()> {
        self.take_fetched()?;
        // If that failed, the device is gone.
        let Some(worker) = &self.worker else { return self.on_cpu(&batch.joined()) };
        let Counted { lists, facts, postings, positions } = *counted;
        let (send, copied) = sync_channel(1);
        let (fetcher, of_batch) = (worker.fetcher.clone(), postings.clone());
        rayon::spawn(move || {
            let copied = fetcher.postings(&of_batch, positions.as_ref());
            // The receiver of the copy may close the device.
            drop((fetcher, of_batch, positions));
            _ = send.send(copied);
        });
        let first = self.documents;
        self.add_facts(&batch.rest, facts);
        self.fetching = Some(Fetching { batch, first, lists, postings, copied });
        Ok(())
    }
}

impl Drop for Driver {
    /// Waits for a copy in progress, which uses the device.
    fn drop(&mut self) {
        if let Some(fetching) = self.fetching.take() {
            _ = fetching.copied.recv();
        }
    }
}

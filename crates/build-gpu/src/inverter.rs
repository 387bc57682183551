//! Inverters for the builder of `warpseek_index`: a thread of their own drives the GPU, while workers read on.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rayon::prelude::*;
use warpseek_core::cosine;
use warpseek_cuda::{Device, DeviceError, Pinned};
use warpseek_index::{
    BatchInverter, DocumentFacts, IndexError, InverterFactory, ListBatch, Result, RunSink,
    SortedLists, Wanted,
};
use warpseek_text::{Analyzer, END_OF_DOCUMENT, WordRules};

use crate::cpu;
use crate::encode::encode;
use crate::postings::{Postings, sorted};
use crate::terms::Terms;
use crate::worker::{DevicePostings, Inverted, Worker};

/// The most bytes of text of a batch.
const MOST_TEXT: usize = 64 << 20;
/// A batch takes at most one in this many bytes of device memory. Text of words of one letter takes the most, about 20 bytes for each of its bytes.
const MEMORY_A_BYTE: u64 = 32;
const LEAST_TEXT: usize = 64 << 10;
/// Postings of all lists may take one in this many bytes of device memory; if there are more, the CPU encodes them.
const MEMORY_A_POSTING_BYTE: u64 = 4;
/// Batches that are filled, wait or are inverted at the same time.
const BATCHES: usize = 3;
/// The same while the device is being opened, which takes as long as reading some of them.
const EARLY_BATCHES: usize = 12;
/// Batches take at most one in this many bytes of the memory for lists.
const MEMORY_A_BATCH_BYTE: usize = 4;

/// What to do if the GPU fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Go on with the CPU, and say so.
    UseCpu,
    /// End the build with an error.
    Stop,
}

/// Inverts on a GPU.
#[derive(Clone, Debug)]
pub struct GpuInverters {
    device: Opening,
    /// The most bytes of device memory, if it is known before the device is open.
    budget: Option<u64>,
    on_failure: OnFailure,
    most_text: usize,
}

/// A device that may still be opened by a thread of its own.
#[derive(Clone)]
struct Opening {
    opened: Arc<OnceLock<Result<Device, DeviceError>>>,
    open: Arc<dyn Fn() -> Result<Device, DeviceError> + Send + Sync>,
}

impl Opening {
    /// The device, once it is open.
    fn wait(&self) -> Result<Device, DeviceError> {
        self.opened.get_or_init(|| (self.open)()).clone()
    }

    /// The device if it is open already.
    fn now(&self) -> Option<&Device> {
        self.opened.get()?.as_ref().ok()
    }
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opening").field(&self.opened).finish()
    }
}

impl GpuInverters {
    /// On a device, within its memory budget.
    pub fn new(device: Device, on_failure: OnFailure) -> Self {
        let budget = device.memory().budget;
        let inverters = Self::of(move || Ok(device.clone()), budget, on_failure);
        _ = inverters.device.wait();
        inverters
    }

    /// On a device that a thread of its own opens from now on, so that reading need not wait for it. If it cannot be opened, builds fail, or the CPU inverts, as
    /// after any other failure.
    pub fn opening(
        open: impl Fn() -> Result<Device, DeviceError> + Send + Sync + 'static,
        budget: Option<u64>,
        on_failure: OnFailure,
    ) -> Self {
        let inverters = Self::of(open, budget, on_failure);
        let device = inverters.device.clone();
        // Without this thread, whoever needs the device first opens it.
        _ = std::thread::Builder::new().name("gpu-opening".to_owned()).spawn(move || device.wait());
        inverters
    }

    fn of(
        open: impl Fn() -> Result<Device, DeviceError> + Send + Sync + 'static,
        budget: Option<u64>,
        on_failure: OnFailure,
    ) -> Self {
        let device = Opening { opened: Arc::default(), open: Arc::new(open) };
        GpuInverters { device, budget, on_failure, most_text: MOST_TEXT }
    }

    /// With batches of at most this many bytes of text, for tests.
    pub fn with_batches_of(self, bytes: usize) -> Self {
        GpuInverters { most_text: bytes.max(1), ..self }
    }
}

fn device_error(error: DeviceError) -> IndexError {
    IndexError::Inverter { source: Box::new(error) }
}

/// How device memory is shared: bytes of postings that stay there, and bytes of text of a batch.
fn shares(memory: u64) -> (u64, u64) {
    let kept = memory / MEMORY_A_POSTING_BYTE;
    (kept, ((memory - kept) / MEMORY_A_BYTE).max(LEAST_TEXT as u64))
}

impl InverterFactory for GpuInverters {
    fn start(&self, wanted: Wanted, runs: RunSink) -> Result<Box<dyn BatchInverter>> {
        let Wanted { analyzer, threads, blocks } = wanted;
        // A device that is not open yet may have less; what does not fit is then divided.
        let memory = self.device.now().and_then(|device| device.available().ok()).or(self.budget);
        let most = memory.map_or(u64::MAX, |memory| shares(memory).1);
        let most_text = self.most_text.min(usize::try_from(most).unwrap_or(usize::MAX));
        let early = runs.memory() / MEMORY_A_BATCH_BYTE / most_text;
        let early = early.clamp(BATCHES, EARLY_BATCHES);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|source| IndexError::Inverter { source: Box::new(source) })?;
        let (full, batches) = sync_channel(early);
        let (used, free) = channel();
        let mut driver = Driver {
            runs,
            analyzer,
            rules: WordRules::of(analyzer),
            notices: Vec::new(),
            worker: None,
            on_failure: self.on_failure,
            terms: Terms::default(),
            facts: Vec::new(),
            batches: Vec::new(),
            kept: blocks.then(Vec::new),
            most_kept: 0,
        };
        let device = self.device.clone();
        let work = move || {
            driver.open(&device)?;
            driver.work(&batches, &used)
        };
        let thread = std::thread::Builder::new()
            .name("gpu-inverter".to_owned())
            .spawn(move || pool.install(work))
            .map_err(|source| IndexError::Inverter { source: Box::new(source) })?;
        Ok(Box::new(Batches {
            device: self.device.clone(),
            most_text,
            early,
            made: 0,
            filling: None,
            full: Some(full),
            free,
            thread: Some(thread),
        }))
    }
}

/// Text of consecutive documents.
struct Batch {
    text: Text,
    len: usize,
}

/// Page-locked memory, from which copies are fast, or other memory if there is none.
enum Text {
    Locked(Pinned<u8>),
    Other(Vec<u8>),
    /// Memory for text that was read before the device was open.
    Early(Vec<u8>),
}

impl Batch {
    fn new(device: Option<&Device>, bytes: usize) -> Self {
        let text = match device.map(|device| device.pinned(bytes)) {
            Some(Ok(pinned)) => Text::Locked(pinned),
            Some(Err(_)) => Text::Other(vec![0; bytes]),
            None => Text::Early(vec![0; bytes]),
        };
        Batch { text, len: 0 }
    }

    fn push(&mut self, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        let room = match &mut self.text {
            Text::Locked(pinned) => pinned.write()?,
            Text::Other(bytes) | Text::Early(bytes) => bytes,
        };
        room[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    fn bytes(&self) -> std::result::Result<&[u8], DeviceError> {
        Ok(match &self.text {
            Text::Locked(pinned) => &pinned.read()?[..self.len],
            Text::Other(bytes) | Text::Early(bytes) => &bytes[..self.len],
        })
    }
}

/// What the GPU's thread is sent.
enum Job {
    Batch(Batch),
    /// A document that is larger than a batch.
    Document(Vec<u8>),
    /// There is no more text. Without it, the build has failed or was cancelled.
    Finish,
}

/// The side of the builder: fills batches.
struct Batches {
    device: Opening,
    most_text: usize,
    /// The most batches before the device is open.
    early: usize,
    /// Batches there are now.
    made: usize,
    filling: Option<Batch>,
    full: Option<SyncSender<Job>>,
    free: Receiver<Batch>,
    thread: Option<JoinHandle<Result<DocumentFacts>>>,
}

impl Batches {
    fn send(&mut self, job: Job) -> Result<()> {
        match self.full.as_ref().map(|full| full.send(job)) {
            Some(Ok(())) => Ok(()),
            // Only a thread that has failed takes no more, and its error says why.
            _ => Err(self.join().err().unwrap_or(IndexError::Cancelled)),
        }
    }

    fn send_filling(&mut self) -> Result<()> {
        match self.filling.take() {
            Some(batch) if batch.len > 0 => self.send(Job::Batch(batch)),
            _ => Ok(()),
        }
    }

    fn join(&mut self) -> Result<DocumentFacts> {
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(IndexError::Cancelled),
        }
    }

    /// An empty batch, as soon as there is one.
    fn next(&mut self) -> Result<Batch> {
        loop {
            let open = self.device.now();
            let most = if open.is_some() { BATCHES } else { self.early };
            let batch = match self.free.try_recv() {
                Ok(batch) => batch,
                Err(_) if self.made < most => {
                    self.made += 1;
                    return Ok(Batch::new(open, self.most_text));
                }
                Err(_) => match self.free.recv() {
                    Ok(batch) => batch,
                    Err(_) => return Err(self.join().err().unwrap_or(IndexError::Cancelled)),
                },
            };
            match batch.text {
                // Others take its place, from which copies are fast.
                Text::Early(_) if self.device.now().is_some() => self.made -= 1,
                _ => return Ok(batch),
            }
        }
    }
}

impl BatchInverter for Batches {
    fn add(&mut self, mut text: &[u8]) -> Result<()> {
        while !text.is_empty() {
            let filled = self.filling.as_ref().map_or(0, |batch| batch.len);
            let room = self.most_text - filled;
            // Whole documents, as many as there is room for.
            let fits = match text.len() <= room {
                true => text.len(),
                false => {
                    let end = text[..room].iter().rposition(|&byte| byte == END_OF_DOCUMENT);
                    end.map_or(0, |end| end + 1)
                }
            };
            if fits > 0 {
                let mut batch = match self.filling.take() {
                    Some(batch) => batch,
                    None => self.next()?,
                };
                batch.push(&text[..fits]).map_err(device_error)?;
                self.filling = Some(batch);
                text = &text[fits..];
            } else if filled > 0 {
                self.send_filling()?;
            } else {
                let end = text.iter().position(|&byte| byte == END_OF_DOCUMENT);
                let (document, rest) = text.split_at(end.map_or(text.len(), |end| end + 1));
                self.send(Job::Document(document.to_vec()))?;
                text = rest;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<DocumentFacts> {
        self.send_filling()?;
        self.send(Job::Finish)?;
        self.join()
    }
}

impl Drop for Batches {
    /// The thread uses the device, so it must have ended before the process may.
    fn drop(&mut self) {
        self.full = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn failure(error: &dyn fmt::Display) -> String {
    format!("the GPU cannot go on: {error}; the CPU inverts the rest, and the index is the same")
}

/// The side of the GPU.
struct Driver {
    runs: RunSink,
    analyzer: Analyzer,
    rules: WordRules,
    notices: Vec<String>,
    /// None once it has failed.
    worker: Option<Worker>,
    on_failure: OnFailure,
    terms: Terms,
    facts: Vec<(u32, u64)>,
    batches: Vec<ListBatch>,
    /// Postings of the batches on the device, as long as it is to encode them.
    kept: Option<Vec<DevicePostings>>,
    most_kept: usize,
}

impl Driver {
    /// Waits for the device and loads what it runs.
    fn open(&mut self, device: &Opening) -> Result<()> {
        let opened = device.wait().and_then(|device| {
            let memory = device.available()?;
            Ok((Worker::new(&device, self.analyzer, memory)?, memory))
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

    fn work(&mut self, jobs: &Receiver<Job>, free: &Sender<Batch>) -> Result<DocumentFacts> {
        loop {
            match jobs.recv().map_err(|_| IndexError::Cancelled)? {
                Job::Finish => break,
                Job::Document(text) => self.on_cpu(&text)?,
                Job::Batch(mut batch) => {
                    self.invert(batch.bytes().map_err(device_error)?)?;
                    batch.len = 0;
                    // Nobody takes it if the build has ended.
                    _ = free.send(batch);
                }
            }
        }
        let batches = std::mem::take(&mut self.batches);
        let lists = sorted(&self.terms, batches);
        let mut facts = DocumentFacts {
            lengths: self.facts.iter().map(|fact| fact.0).collect(),
            norms: self.facts.iter().map(|fact| cosine::norm(fact.1)).collect(),
            notices: Vec::new(),
        };
        let lists = self.encode(lists, &facts)?;
        facts.notices = std::mem::take(&mut self.notices);
        self.runs.keep(lists);
        Ok(facts)
    }

    /// Encodes full blocks if the device has all postings. If it cannot, the builder will do so.
    fn encode(&mut self, lists: SortedLists, facts: &DocumentFacts) -> Result<SortedLists> {
        let (Some(worker), Some(kept)) = (&self.worker, self.kept.take()) else { return Ok(lists) };
        match encode(worker, &lists, &kept, facts) {
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

    fn on_cpu(&mut self, text: &[u8]) -> Result<()> {
        let first = self.facts.len() as u32;
        let mut postings = Postings::default();
        let facts =
            cpu::invert(self.analyzer, &self.rules, text, first, &mut self.terms, &mut postings);
        let lists = postings.batch();
        // If it fails, the next batch shows why.
        let uploaded = match (&self.worker, &self.kept) {
            (Some(worker), Some(_)) => worker.upload(&lists).ok(),
            _ => None,
        };
        self.take(lists, facts, uploaded)
    }

    /// Keeps lists of the next documents, and spills all if there are too many.
    fn take(
        &mut self,
        lists: ListBatch,
        facts: Vec<(u32, u64)>,
        postings: Option<DevicePostings>,
    ) -> Result<()> {
        self.batches.push(lists);
        self.facts.extend(facts);
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

    /// Inverts whole documents. If they are too many for the device, it takes half of them at a time.
    fn invert(&mut self, text: &[u8]) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let Some(worker) = &mut self.worker else { return self.on_cpu(text) };
        let ends = |text: &[u8]| text.iter().filter(|&&byte| byte == END_OF_DOCUMENT).count();
        let documents: usize = text.par_chunks(1 << 20).map(ends).sum();
        let first = self.facts.len() as u32;
        match worker.invert(text, documents as u32, first, &mut self.terms) {
            Ok(Inverted::Lists(lists, facts, postings)) => self.take(lists, facts, Some(postings)),
            Ok(Inverted::Collision) => self.on_cpu(text),
            Ok(Inverted::TooManyWords)
            | Err(DeviceError::OutOfMemory { .. } | DeviceError::TooLarge { .. }) => {
                match halves(text) {
                    Some((before, after)) => {
                        self.invert(before)?;
                        self.invert(after)
                    }
                    None => self.on_cpu(text),
                }
            }
            Err(error) if self.on_failure == OnFailure::Stop => Err(device_error(error)),
            Err(error) => {
                self.worker = None;
                self.notices.push(failure(&error));
                self.on_cpu(text)
            }
        }
    }
}

/// Two parts of about the same size, each of whole documents; none if there is only one document.
fn halves(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_end = |byte: &u8| *byte == END_OF_DOCUMENT;
    let middle = text.len() / 2;
    let after = text[middle..].iter().position(is_end).map(|end| middle + end + 1);
    let before = || text[..middle].iter().rposition(is_end).map(|end| end + 1);
    let split = after.filter(|&end| end < text.len()).or_else(before)?;
    Some(text.split_at(split))
}

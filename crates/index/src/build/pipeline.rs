//! The workers of a build, and the two sequencers that their batches enter in order.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use warpseek_codec::CodecId;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{Document, GramScratch, RawBatch, Reader};

use super::admission::{Admission, Parsed};
use super::batches::{BatchInverter, InverterOptions, RunSink, Runs};
use super::config::{BuildConfig, BuildReport, Phase, Progress};
use super::flat::Flattener;
use super::invert::Inverter;
use super::jobs::sorted_jobs;
use super::lacks::Lacks;
use super::run::{Run, RunSource, spill};
use super::sequencer::Sequencer;
use super::write::{Coding, Written, write_jobs, write_lists};
use crate::build::order::{OrderKeys, by_bisection};
use crate::build::segment_writer::SegmentWriter;
use crate::directory::WriteLock;
use crate::error::{IndexError, Result};
use crate::files::impacts::Impacts;
use crate::files::manifest::{Content, Manifest, SegmentEntry, StoreMode};
use crate::files::store::StoreChunk;
use crate::snapshot::Snapshot;

/// Minimum memory of an inverter before it spills, whatever the budget.
const LEAST_SPILL: usize = 8 << 20;
/// Maximum memory of an inverter before it spills, whatever the budget: its arenas have 32-bit
/// offsets.
const MOST_SPILL: usize = 2 << 30;
/// Bytes kept in memory for each document: lengths, norms, static scores, hashes of ids.
const BYTES_A_DOCUMENT: usize = 45;

/// A segment that was built but is not committed yet.
pub(crate) struct Built {
    pub(crate) entry: Option<SegmentEntry>,
    pub(crate) report: BuildReport,
    pub(crate) content: Option<Content>,
    /// Impacts of the index, if any; their mean length is set if there are documents.
    pub(crate) impacts: Option<Impacts>,
    /// Field of the index's static scores: the one that the index has or the user named, or else
    /// the one in which documents have scores.
    pub(crate) static_field: Option<String>,
    /// Documents of `old` that the new ones replace.
    pub(crate) replaced: Vec<u32>,
}

/// The state of the second sequencer, which appends in document order.
struct Output {
    segment: SegmentWriter,
    replaced: Vec<u32>,
    statics: u64,
    lacks: Lacks,
    /// Values of the field that documents are sorted by; empty if there is none.
    keys: OrderKeys,
    /// Inverter of the documents' text, if workers do not invert it.
    inverter: Option<Box<dyn BatchInverter>>,
}

struct Pipeline<'a> {
    config: &'a BuildConfig,
    manifest: &'a Manifest,
    progress: &'a Progress,
    old: Option<&'a Snapshot>,
    reader: Mutex<(Reader, u64)>,
    admission: Sequencer<Admission>,
    output: Sequencer<Output>,
    /// True if text is inverted outside of the workers.
    elsewhere: bool,
    scratch: PathBuf,
    runs: AtomicU64,
    failure: Mutex<Option<IndexError>>,
}

/// Builds the manifest's next segment. Documents of `old` with the same ids are reported as
/// replaced.
pub(crate) fn build_segment(
    lock: &WriteLock,
    manifest: &Manifest,
    reader: Reader,
    config: &BuildConfig,
    old: Option<&Snapshot>,
    progress: &Progress,
) -> Result<Built> {
    let scratch = lock.scratch()?;
    let batches = Arc::new(Runs::default());
    // Lists get half of the memory, since merging and tables also need some.
    let sink = batches.sink(scratch.path(), config.memory / 2);
    let inverter = start_inverter(manifest, config, sink);
    let elsewhere = inverter.is_some();
    let pipeline = Pipeline {
        config,
        manifest,
        progress,
        old,
        reader: Mutex::new((reader, 0)),
        admission: Sequencer::new(admission(manifest, config, old)),
        output: Sequencer::new(Output {
            segment: SegmentWriter::create(lock.dir(), manifest)?,
            replaced: Vec::new(),
            statics: 0,
            lacks: Lacks::new(manifest),
            keys: OrderKeys::default(),
            inverter: inverter.transpose()?,
        }),
        elsewhere,
        scratch: scratch.path().to_owned(),
        runs: AtomicU64::new(0),
        failure: Mutex::new(None),
    };
    progress.enter(Phase::Reading);
    std::thread::scope(|scope| {
        for _ in 0..config.threads.max(1) {
            scope.spawn(|| pipeline.work());
        }
    });
    if let Some(error) = pipeline.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let admission = pipeline.admission.into_inner();
    let mut output = pipeline.output.into_inner();
    let spilled = pipeline.runs.into_inner();
    let admission = admission.forget_ids();
    let (reader, _) = pipeline.reader.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut notices = reader.notices().to_vec();
    notices.extend(output.lacks.notices(manifest, old.is_none()));
    if let Some(inverter) = output.inverter.take() {
        notices.extend(finish_inverter(inverter, &mut output.segment)?);
    }
    let mut runs: Vec<Run> =
        (0..spilled).map(|i| Run::open(&run_path(scratch.path(), i))).collect::<Result<_>>()?;
    for run in batches.take() {
        progress.add_terms_total(run.terms());
        runs.push(run);
    }
    let mut report = BuildReport {
        documents: output.segment.table.lengths.len() as u64,
        tokens: output.segment.table.tokens(),
        statics: output.statics,
        sorted: output.keys.present(),
        skipped: admission.skipped,
        reasons: admission.reasons,
        runs: runs.len() as u64,
        notices,
        ..BuildReport::default()
    };
    let (content, mut impacts) = (admission.content, manifest.impacts);
    let found = config.reader.static_field.clone();
    let found = found.filter(|_| report.statics > 0 && manifest.grams.is_none());
    let static_field = manifest.static_field.clone().or(found);
    if report.documents == 0 {
        let (entry, replaced) = (None, Vec::new());
        return Ok(Built { entry, report, content, impacts, static_field, replaced });
    }

    let sources = || runs.iter().map(Run::source).collect::<Vec<_>>();
    if let Some(ordinals) = order(config, &mut output, sources, progress)? {
        output.segment.table.reorder(ordinals);
    }
    progress.enter(Phase::Merging);
    if let Some(impacts) = &mut impacts {
        impacts.settle(report.tokens, report.documents);
    }
    let written = merge_runs(&runs, &output.segment, manifest, impacts, config, progress)?;
    (report.terms, report.postings) = (written.terms, written.postings);

    progress.enter(Phase::Committing);
    let entry = output.segment.finish(written)?.entry;
    let mut replaced = output.replaced;
    replaced.sort_unstable();
    Ok(Built { entry: Some(entry), report, content, impacts, static_field, replaced })
}

/// Returns the rules by which documents are admitted.
fn admission(manifest: &Manifest, config: &BuildConfig, old: Option<&Snapshot>) -> Admission {
    let mut admission = Admission::new(config.on_error);
    admission.content = match manifest.content {
        Content::Grams => Some(Content::Grams),
        _ => old.map(|s| s.manifest().content),
    };
    admission.quantized = manifest.impacts.is_some();
    admission.positions = manifest.positions;
    admission.limit = MAX_DOCS - old.map_or(0, |s| u64::from(s.doc_limit()));
    admission
}

/// Starts the inverter outside of the workers, if there is one.
fn start_inverter(
    manifest: &Manifest,
    config: &BuildConfig,
    sink: RunSink,
) -> Option<Result<Box<dyn BatchInverter>>> {
    let factory = config.inverter.as_ref()?;
    let is_plain = manifest.codec == CodecId::BitPack
        && manifest.impacts.is_none()
        && manifest.grams.is_none();
    let in_order = !config.reorder && config.reader.order_field.is_none();
    let options = InverterOptions {
        analyzer: manifest.analyzer,
        schema: manifest.schema.clone(),
        fields: manifest.positioned().len(),
        threads: config.threads.max(1),
        blocks: is_plain && in_order,
    };
    Some(factory.start(options, sink))
}

/// Inverts the remaining documents and enters the facts about all documents in the segment's
/// table. Returns notices for the user.
fn finish_inverter(
    inverter: Box<dyn BatchInverter>,
    segment: &mut SegmentWriter,
) -> Result<Vec<String>> {
    let facts = inverter.finish()?;
    let has_norms = segment.has_norms();
    let table = &mut segment.table;
    // Lengths of documents with n-grams are known already.
    if facts.lengths.is_empty() {
        return Ok(facts.notices);
    }
    let (fields, documents) = (1 + table.more.len(), table.lengths.len());
    assert_eq!(facts.lengths.len(), fields * documents, "documents that were inverted");
    let of_field = |field: usize| facts.lengths[field..].iter().step_by(fields).copied();
    table.lengths = of_field(0).collect();
    table.more = (1..fields).map(|field| of_field(field).collect()).collect();
    table.norms = if has_norms { facts.norms } else { Vec::new() };
    Ok(facts.notices)
}

/// Merges the runs into the lists of the segment.
fn merge_runs(
    runs: &[Run],
    segment: &SegmentWriter,
    manifest: &Manifest,
    impacts: Option<Impacts>,
    config: &BuildConfig,
    progress: &Progress,
) -> Result<Written> {
    let (files, table) = (segment.list_files()?, &segment.table);
    let parts = table.parts(manifest.grams.as_ref()).ok_or(IndexError::TooManyDocuments)?;
    let coding = match manifest.grams {
        None => Coding::Frequencies(manifest.codec, impacts.map(|impacts| impacts.saturation())),
        Some(_) => Coding::Maps(manifest.codec, &parts),
    };
    match runs {
        // A single run of lists needs no merge, for which workers would have to wait.
        [run] if let Some(lists) = run.lists() => {
            let mut jobs = sorted_jobs(lists);
            write_jobs(|| Ok(jobs.next()), table, coding, config.threads, files, progress)
        }
        _ => {
            let sources = runs.iter().map(Run::source).collect();
            write_lists(sources, table, coding, config.threads, files, progress)
        }
    }
}

/// Returns the requested order, if any.
fn order<'a>(
    config: &BuildConfig,
    output: &mut Output,
    sources: impl Fn() -> Vec<RunSource<'a>>,
    progress: &Progress,
) -> Result<Option<Vec<u32>>> {
    let keys = std::mem::take(&mut output.keys);
    let sorted = config.reader.order_field.as_ref().map(|_| keys.sorted());
    drop(keys);
    if !config.reorder {
        return Ok(sorted);
    }
    let documents = output.segment.table.lengths.len() as u32;
    let start = sorted.unwrap_or_else(|| (0..documents).collect());
    by_bisection(sources, start, config.threads, config.memory, progress).map(Some)
}

fn run_path(scratch: &std::path::Path, number: u64) -> PathBuf {
    scratch.join(format!("run-{number}"))
}

impl Pipeline<'_> {
    fn work(&self) {
        // The other workers must not wait for this one, even if it panics.
        struct CloseOnDrop<'a, 'b>(&'a Pipeline<'b>);
        impl Drop for CloseOnDrop<'_, '_> {
            fn drop(&mut self) {
                self.0.admission.close();
                self.0.output.close();
            }
        }
        let guard = CloseOnDrop(self);
        match self.work_on_batches() {
            Ok(()) => std::mem::forget(guard),
            Err(error) => {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
            }
        }
    }

    fn work_on_batches(&self) -> Result<()> {
        let mut inverter = Inverter::of(self.manifest);
        while let Some((number, batch)) = self.next_batch()? {
            let Some(tables) = self.work_on_batch(number, &batch, &mut inverter)? else {
                return Ok(());
            };
            if inverter.memory() > self.spill_at(tables) {
                self.spill(&mut inverter)?;
            }
        }
        if inverter.is_empty() { Ok(()) } else { self.spill(&mut inverter) }
    }

    fn next_batch(&self) -> Result<Option<(u64, RawBatch)>> {
        self.progress.check()?;
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, next) = &mut *reader;
        let batch = reader.next_batch()?;
        let read = reader.progress();
        self.progress.set_bytes(read.bytes_read, read.bytes_total);
        Ok(batch.map(|batch| {
            *next += 1;
            (*next - 1, batch)
        }))
    }

    /// Processes a batch. Returns the memory in bytes that documents take so far, or `None` if
    /// another worker failed.
    fn work_on_batch(
        &self,
        number: u64,
        batch: &RawBatch,
        inverter: &mut Inverter,
    ) -> Result<Option<usize>> {
        let mut scratch = GramScratch::default();
        let mut parts = |document: &Document<'_>| match &self.config.grams {
            None => 1,
            Some(grams) => grams.count_parts(&mut scratch, &document.title, &document.text),
        };
        let mut records: Vec<Parsed<'_>> =
            (0..batch.len()).map(|number| Parsed::new(batch, number, &mut parts)).collect();
        let admitted = self.admission.enter(number, |a| a.admit(batch, &mut records));
        let Some(first) = admitted.transpose()? else { return Ok(None) };

        let mut facts = Vec::with_capacity(records.len());
        let mut chunk = StoreChunk::default();
        let (mut replaced, mut part) = (Vec::new(), first);
        let mut flattener = self.elsewhere.then(|| Flattener::new(self.manifest));
        let mut lacks = Lacks::new(self.manifest);
        for record in &records {
            let Ok(document) = &record.document else { continue };
            lacks.look(document, (number, batch, record.number));
            let fact = match (&mut flattener, &self.config.grams) {
                (Some(flattener), _) => flattener.add(document, record.parts),
                (None, None) => inverter.add(part, document),
                (None, Some(grams)) => inverter.add_grams(part, document, grams),
            };
            part += record.parts;
            facts.push((fact, document));
            if self.config.store == StoreMode::All {
                chunk.add(|out| document.write_json(out)).map_err(IndexError::io(&self.scratch))?;
            }
            if let Some(old) = self.old {
                replaced.extend(old.find_id(&document.id)?);
            }
        }
        chunk.close().map_err(IndexError::io(&self.scratch))?;
        self.progress.add_documents(facts.len() as u64);

        let done = self.output.enter(number, |output| -> Result<usize> {
            if let (Some(inverter), Some(flat)) = (&mut output.inverter, &mut flattener) {
                inverter.add(flat.take())?;
            }
            let segment = &mut output.segment;
            for (fact, document) in &facts {
                segment.push(fact, document)?;
                output.statics += u64::from(document.static_score.is_some());
                if self.config.reader.order_field.is_some() {
                    output.keys.push(document.order_key.as_deref());
                }
            }
            if let Some(store) = &mut segment.store {
                store.append(&mut chunk)?;
            }
            output.replaced.append(&mut replaced);
            output.lacks.merge(lacks);
            Ok(segment.table.lengths.len() * BYTES_A_DOCUMENT + segment.field_memory())
        });
        done.transpose()
    }

    /// Returns the memory that an inverter may use, given the memory that documents take so far.
    fn spill_at(&self, tables: usize) -> usize {
        // A quarter is reserved for buffers that grow by copying, and for batches in progress.
        let all = self.config.memory.saturating_sub(tables) / 4 * 3;
        (all / self.config.threads.max(1)).clamp(LEAST_SPILL, MOST_SPILL)
    }

    fn spill(&self, inverter: &mut Inverter) -> Result<()> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let terms = spill(inverter, &run_path(&self.scratch, number))?;
        self.progress.add_terms_total(terms);
        Ok(())
    }
}

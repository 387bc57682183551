//! The current state of the server, for monitoring.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use warpseek::gpu::GpuStatus;
use warpseek::text::GramConfig;

use super::search::written;
use super::syntax;
use crate::app::App;
use crate::error::Failure;
use crate::http::admission::AdmissionQueue;
use crate::http::answer::Reply;
use crate::http::call::Call;
use crate::indexes::catalogue::{Catalogue, IndexKind, Listed, counts};
use crate::indexes::open_index::OpenIndex;
use crate::operations::config::Device;
use crate::operations::load::LoadStatus;

/// The answer of `GET /v1/status`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) version: &'static str,
    pub(crate) uptime_s: f64,
    /// The configured device: `cpu`, `cuda` or `auto`.
    pub(crate) device: Device,
    pub(crate) load: LoadStatus,
    pub(crate) queues: QueuesStatus,
    /// GPUs that hold parts of indexes.
    pub(crate) gpus: Vec<GpuMemory>,
    pub(crate) caches: CachesStatus,
    /// The background verification of files; null during startup and shutdown.
    pub(crate) scrub: Option<ScrubShown>,
    /// Indexes with damaged files, including n-gram indexes. Searches of them fail.
    pub(crate) damaged: Vec<DamageShown>,
    /// All indexes, sorted by name; absent with `indexes=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) indexes: Option<Vec<IndexStatus>>,
}

/// The background verification of files.
#[derive(Debug, Serialize)]
pub(crate) struct ScrubShown {
    /// Settings of the verification.
    pub(crate) period_s: f64,
    pub(crate) bytes_per_second: u64,
    /// Number of completed passes over all pages, and of bytes read.
    pub(crate) passes: u64,
    pub(crate) bytes: u64,
    /// Seconds in which every page is read once; null if the server reads no pages itself.
    pub(crate) reads_all_in_s: Option<f64>,
}

/// The damage of an index.
#[derive(Debug, Serialize)]
pub(crate) struct DamageShown {
    pub(crate) index: String,
    pub(crate) file: String,
    /// Description of the damage, with the page.
    pub(crate) what: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueuesStatus {
    pub(crate) searches: QueueStatus,
    pub(crate) writes: QueueStatus,
}

/// Number of requests that are running, that are waiting, and that may wait before further ones
/// are refused.
#[derive(Debug, Serialize)]
pub(crate) struct QueueStatus {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) limit: usize,
}

/// The memory of a GPU.
#[derive(Debug, Serialize)]
pub(crate) struct GpuMemory {
    pub(crate) device: String,
    pub(crate) used_bytes: u64,
    /// Maximum number of bytes that may be used, if there is a limit.
    pub(crate) limit_bytes: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct CachesStatus {
    /// The cache of answers; zeros if it is disabled.
    pub(crate) answers: CacheStatus,
    /// The cache of document sets that filters admit.
    pub(crate) filters: CacheStatus,
    /// The caches of document lists on GPUs whose memory cannot hold all lists.
    pub(crate) gpu_lists: CacheStatus,
}

/// Number of successful and unsuccessful lookups in a cache.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CacheStatus {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct IndexStatus {
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    /// Number of documents that searches see.
    pub(crate) documents: u64,
    /// Number of deleted or replaced documents that still occupy space.
    pub(crate) deleted: u64,
    /// Size on disk in bytes.
    pub(crate) bytes: u64,
    pub(crate) segments: usize,
    pub(crate) generation: u64,
    pub(crate) made_by_server: bool,
    /// True if queries are usually written in the query syntax: the index has a schema or
    /// positions.
    pub(crate) syntax: bool,
    /// The fields; empty for an n-gram index.
    pub(crate) fields: Vec<FieldStatus>,
    /// The configuration of an n-gram index.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ngrams: Option<GramConfig>,
    pub(crate) residency: ResidencyStatus,
}

#[derive(Debug, Serialize)]
pub(crate) struct FieldStatus {
    pub(crate) name: String,
    /// The type: `text`, `keyword`, `long`, `double`, `boolean`, `date`, or `stored` if the field
    /// cannot be searched.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
}

/// The devices that search an index. The default is the CPU alone, as for n-gram indexes.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ResidencyStatus {
    /// The GPU that answers or has answered; null if only the CPU does.
    pub(crate) gpu: Option<String>,
    /// The reason why no GPU answers although one might.
    pub(crate) why_not: Option<String>,
    /// The source of the times by which devices are chosen; absent if none is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calibration: Option<String>,
    pub(crate) gpus: Vec<GpuResidency>,
}

/// The part of an index on a GPU.
#[derive(Debug, Serialize)]
pub(crate) struct GpuResidency {
    pub(crate) device: String,
    /// True if all lists are on the GPU; otherwise, lists are loaded as needed.
    pub(crate) whole: bool,
    pub(crate) used_bytes: u64,
}

/// Answers without queuing behind searches, so that a server under load can be monitored.
pub(super) async fn status(State(app): State<Arc<App>>, call: Call) -> Reply {
    let with_indexes = call.params.get("indexes") != Some("false");
    let made = tokio::task::spawn_blocking(move || written(&Status::now(&app, with_indexes)));
    made.await.unwrap_or_else(|error| Err(Failure::broken(error.to_string())))
}

impl Status {
    fn now(app: &App, with_indexes: bool) -> Self {
        let all = app.catalogue_if_open().map_or(Vec::new(), Catalogue::listed);
        let (mut caches, mut gpus) = (CachesStatus::default(), Vec::new());
        if let Some(answers) = &app.answers {
            let counts = answers.counts();
            caches.answers.add(counts.hits, counts.misses);
        }
        for listed in &all {
            let Listed::Words(index) = listed else { continue };
            let searcher = &index.view().searcher;
            let filters = searcher.filter_cache();
            caches.filters.add(filters.hits, filters.misses);
            add_gpus(&searcher.gpu_status(), &mut gpus, &mut caches.gpu_lists);
        }
        let damaged = app.catalogue_if_open().map_or(Vec::new(), Catalogue::damaged);
        let damaged = damaged.into_iter().map(|(index, damage)| DamageShown {
            index,
            file: damage.file.display().to_string(),
            what: damage.what,
        });
        Status {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: app.load.uptime().as_secs_f64(),
            device: app.config.device,
            load: app.load.status(),
            queues: QueuesStatus {
                searches: QueueStatus::of(&app.searches),
                writes: QueueStatus::of(&app.writes),
            },
            gpus,
            caches,
            scrub: app.scrub_status().map(|scrub| ScrubShown {
                period_s: scrub.options.period.as_secs_f64(),
                bytes_per_second: scrub.options.bytes_per_second,
                passes: scrub.passes,
                bytes: scrub.bytes,
                reads_all_in_s: scrub.reads_all_in.map(|time| time.as_secs_f64()),
            }),
            damaged: damaged.collect(),
            indexes: with_indexes.then(|| all.iter().map(IndexStatus::of).collect()),
        }
    }
}

/// Adds a searcher's use of each GPU to the totals.
fn add_gpus(status: &GpuStatus, gpus: &mut Vec<GpuMemory>, lists: &mut CacheStatus) {
    for residency in &status.residency {
        if let Some(cache) = &residency.cache {
            lists.add(cache.lists[0] + cache.lists[1], cache.lists[2]);
        }
        match gpus.iter_mut().find(|gpu| gpu.device == residency.device) {
            Some(gpu) => gpu.used_bytes += residency.used,
            None => gpus.push(GpuMemory {
                device: residency.device.clone(),
                used_bytes: residency.used,
                limit_bytes: residency.limit,
            }),
        }
    }
}

impl CacheStatus {
    fn add(&mut self, hits: u64, misses: u64) {
        self.hits += hits;
        self.misses += misses;
    }
}

impl QueueStatus {
    fn of(queue: &AdmissionQueue) -> Self {
        let (running, waiting, limit) = (queue.running(), queue.waiting(), queue.limit());
        QueueStatus { running, waiting, limit }
    }
}

impl IndexStatus {
    fn of(listed: &Listed) -> Self {
        let snapshot = listed.snapshot();
        let (documents, deleted) = counts(&snapshot);
        let status = IndexStatus {
            name: listed.name().to_owned(),
            kind: listed.kind(),
            documents,
            deleted,
            bytes: listed.bytes(),
            segments: snapshot.segments().len(),
            generation: snapshot.generation(),
            made_by_server: false,
            syntax: syntax::is_usual(snapshot.manifest()),
            fields: Vec::new(),
            ngrams: None,
            residency: ResidencyStatus::default(),
        };
        match listed {
            Listed::Words(index) => IndexStatus {
                made_by_server: index.is_wrapped(),
                fields: fields(index),
                residency: ResidencyStatus::of(index),
                ..status
            },
            Listed::Ngrams(ngrams) => IndexStatus { ngrams: Some(ngrams.config()), ..status },
        }
    }
}

fn fields(index: &OpenIndex) -> Vec<FieldStatus> {
    let view = index.view();
    let fields = view.mapping.matching("*").into_iter();
    let fields = fields.filter_map(|(name, field)| {
        Some(FieldStatus { name: name.to_owned(), kind: field.type_name()? })
    });
    fields.collect()
}

impl ResidencyStatus {
    fn of(index: &OpenIndex) -> Self {
        let status = index.view().searcher.gpu_status();
        let gpus = status.residency.into_iter().map(|on| GpuResidency {
            device: on.device,
            whole: on.cache.is_none(),
            used_bytes: on.used,
        });
        ResidencyStatus {
            gpu: status.name,
            why_not: status.why_not,
            calibration: status.calibration,
            gpus: gpus.collect(),
        }
    }
}

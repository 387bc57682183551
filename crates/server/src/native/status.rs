//! What the server does now, for people who watch it.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use warpseek::{GpuStatus, GramConfig};

use super::search::written;
use super::syntax;
use crate::app::App;
use crate::error::Failure;
use crate::http::admission::Gate;
use crate::http::exchange::{Call, Reply};
use crate::indexes::catalogue::{Catalogue, IndexKind, Listed, counts};
use crate::indexes::open_index::Collection;
use crate::operations::config::Device;
use crate::operations::load::LoadStatus;

/// The answer of `GET /v1/status`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) version: &'static str,
    pub(crate) uptime_s: f64,
    /// The setting: `cpu`, `cuda` or `auto`.
    pub(crate) device: Device,
    pub(crate) load: LoadStatus,
    pub(crate) queues: QueuesStatus,
    /// GPUs that have something of an index.
    pub(crate) gpus: Vec<GpuMemory>,
    pub(crate) caches: CachesStatus,
    /// How files of open indexes are verified again; none while the server starts or ends.
    pub(crate) scrub: Option<ScrubShown>,
    /// Indexes whose files were found to be damaged, those of n-grams included. Searches of them fail.
    pub(crate) damaged: Vec<DamageShown>,
    /// All indexes by name; left out if `indexes=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) indexes: Option<Vec<IndexStatus>>,
}

/// Verifying files again.
#[derive(Debug, Serialize)]
pub(crate) struct ScrubShown {
    /// The settings.
    pub(crate) period_s: f64,
    pub(crate) bytes_per_second: u64,
    /// Passes over all pages so far, and bytes that were read in them.
    pub(crate) passes: u64,
    pub(crate) bytes: u64,
    /// Seconds within which every page is read once; none if nothing is read.
    pub(crate) reads_all_in_s: Option<f64>,
}

/// Damage of an index.
#[derive(Debug, Serialize)]
pub(crate) struct DamageShown {
    pub(crate) index: String,
    pub(crate) file: String,
    /// What is wrong with the file, and at which page.
    pub(crate) what: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct QueuesStatus {
    pub(crate) searches: QueueStatus,
    pub(crate) writes: QueueStatus,
}

/// Requests that are worked on, that wait, and that may wait before further ones are refused.
#[derive(Debug, Serialize)]
pub(crate) struct QueueStatus {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) limit: usize,
}

/// Memory of a GPU.
#[derive(Debug, Serialize)]
pub(crate) struct GpuMemory {
    pub(crate) device: String,
    pub(crate) used_bytes: u64,
    /// The most that may be used, if there is such a limit.
    pub(crate) limit_bytes: Option<u64>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct CachesStatus {
    /// Sets of documents that filters admit.
    pub(crate) filters: CacheStatus,
    /// Lists of documents on GPUs whose memory does not hold all of them.
    pub(crate) gpu_lists: CacheStatus,
}

/// How often something was found in a cache, and how often not.
#[derive(Debug, Default, Serialize)]
pub(crate) struct CacheStatus {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct IndexStatus {
    pub(crate) name: String,
    pub(crate) kind: IndexKind,
    /// Documents as searches see them.
    pub(crate) documents: u64,
    /// Deleted or replaced ones that still take room.
    pub(crate) deleted: u64,
    /// On disk.
    pub(crate) bytes: u64,
    pub(crate) segments: usize,
    pub(crate) generation: u64,
    pub(crate) made_by_server: bool,
    /// Whether queries are usually read by the syntax: the index has a schema or positions.
    pub(crate) syntax: bool,
    /// None of an index of n-grams.
    pub(crate) fields: Vec<FieldStatus>,
    /// Which n-grams it has, if those are what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ngrams: Option<GramConfig>,
    pub(crate) residency: ResidencyStatus,
}

#[derive(Debug, Serialize)]
pub(crate) struct FieldStatus {
    pub(crate) name: String,
    /// `text`, `keyword`, `long`, `double`, `boolean`, `date`, or `stored` if it cannot be searched.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
}

/// Where an index is searched. By default on the CPU, as one of n-grams is.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ResidencyStatus {
    /// The GPU that answers, or that did; none if only the CPU does.
    pub(crate) gpu: Option<String>,
    /// Why no GPU answers, though one might.
    pub(crate) why_not: Option<String>,
    pub(crate) gpus: Vec<GpuResidency>,
}

/// What a GPU has of an index.
#[derive(Debug, Serialize)]
pub(crate) struct GpuResidency {
    pub(crate) device: String,
    /// Whether all lists are there; if not, they come as they are needed.
    pub(crate) whole: bool,
    pub(crate) used_bytes: u64,
}

/// Does not wait behind searches, so that a server under load can be watched.
pub(super) async fn status(State(app): State<Arc<App>>, call: Call) -> Reply {
    let with_indexes = call.params.get("indexes") != Some("false");
    let made = tokio::task::spawn_blocking(move || written(&Status::now(&app, with_indexes)));
    made.await.unwrap_or_else(|error| Err(Failure::broken(error.to_string())))
}

impl Status {
    fn now(app: &App, with_indexes: bool) -> Self {
        let all = app.catalogue_if_open().map_or(Vec::new(), Catalogue::listed);
        let (mut caches, mut gpus) = (CachesStatus::default(), Vec::new());
        for of in &all {
            let Listed::Words(of) = of else { continue };
            let searcher = &of.view().searcher;
            let filters = searcher.filter_cache();
            caches.filters.add(filters.hits, filters.misses);
            add_gpus(&searcher.gpu_status(), &mut gpus, &mut caches.gpu_lists);
        }
        let damaged = app.catalogue_if_open().map_or(Vec::new(), Catalogue::damaged);
        let damaged = damaged.into_iter().map(|(index, of)| DamageShown {
            index,
            file: of.file.display().to_string(),
            what: of.what,
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
            scrub: app.scrub_status().map(|of| ScrubShown {
                period_s: of.options.period.as_secs_f64(),
                bytes_per_second: of.options.bytes_per_second,
                passes: of.passes,
                bytes: of.bytes,
                reads_all_in_s: of.reads_all_in.map(|time| time.as_secs_f64()),
            }),
            damaged: damaged.collect(),
            indexes: with_indexes.then(|| all.iter().map(IndexStatus::of).collect()),
        }
    }
}

/// Adds up what searchers have on each GPU.
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
    fn of(gate: &Gate) -> Self {
        let (running, waiting, limit) = (gate.running(), gate.waiting(), gate.limit());
        QueueStatus { running, waiting, limit }
    }
}

impl IndexStatus {
    fn of(of: &Listed) -> Self {
        let snapshot = of.snapshot();
        let (documents, deleted) = counts(&snapshot);
        let status = IndexStatus {
            name: of.name().to_owned(),
            kind: of.kind(),
            documents,
            deleted,
            bytes: of.bytes(),
            segments: snapshot.segments().len(),
            generation: snapshot.generation(),
            made_by_server: false,
            syntax: syntax::is_usual(snapshot.manifest()),
            fields: Vec::new(),
            ngrams: None,
            residency: ResidencyStatus::default(),
        };
        match of {
            Listed::Words(of) => IndexStatus {
                made_by_server: of.is_wrapped(),
                fields: fields(of),
                residency: ResidencyStatus::of(of),
                ..status
            },
            Listed::Ngrams(of) => IndexStatus { ngrams: Some(of.config()), ..status },
        }
    }
}

fn fields(of: &Collection) -> Vec<FieldStatus> {
    let view = of.view();
    let fields = view.mapping.matching("*").into_iter();
    let fields = fields.filter_map(|(name, field)| {
        Some(FieldStatus { name: name.to_owned(), kind: field.type_name()? })
    });
    fields.collect()
}

impl ResidencyStatus {
    fn of(of: &Collection) -> Self {
        let status = of.view().searcher.gpu_status();
        let gpus = status.residency.into_iter().map(|on| GpuResidency {
            device: on.device,
            whole: on.cache.is_none(),
            used_bytes: on.used,
        });
        ResidencyStatus { gpu: status.name, why_not: status.why_not, gpus: gpus.collect() }
    }
}

//! All options for answering queries from an index of words or vectors.

use clap::Args;
use warpseek::gpu::{GpuLists, Notice};
use warpseek::options::{Algorithm, CalibrationChoice, Split};
use warpseek::research::Tuning;
use warpseek::{DeviceChoice, Index, SearcherOptions};
use warpseek_console::options::RankingChoice;
use warpseek_console::{Failure, terminal};

use super::device::{DeviceName, DeviceOptions, SplitName};
use super::query::QueryChoice;
use super::research::ResearchOptions;

/// Options for answering queries, for `search` and `run`.
#[derive(Args, Clone, Default)]
pub(crate) struct Searching {
    #[command(flatten)]
    pub(crate) query: QueryChoice,
    #[command(flatten)]
    pub(crate) ranking: RankingChoice,
    #[command(flatten)]
    pub(crate) device: DeviceOptions,
    #[command(flatten)]
    pub(crate) research: ResearchOptions,
}

impl Searching {
    /// Converts the flags to options of the library.
    pub(crate) fn options(
        &self,
        index: &Index,
        threads: usize,
    ) -> Result<SearcherOptions, Failure> {
        let (device, research) = (&self.device, &self.research);
        let gpus = match device.gpus.is_empty() {
            true => vec![device.gpu.unwrap_or(0)],
            false => device.gpus.clone(),
        };
        let needs_gpu = device.gpu.is_some()
            || !device.gpus.is_empty()
            || device.gpu_memory.is_some()
            || device.gpu_lists.is_some();
        if needs_gpu && device.device == DeviceName::Cpu {
            let problem = "--gpu, --gpus, --gpu-memory and --gpu-lists have no effect on the CPU";
            return Err(Failure::user(format!("{problem}; add `--device cuda`")));
        }
        let chooses = matches!(device.device, DeviceName::Auto | DeviceName::Both);
        if device.calibration.is_some() && (!chooses || research.gpu_from.is_some()) {
            let problem = "--calibration has no effect unless times decide how devices are used";
            return Err(Failure::user(format!(
                "{problem}; add `--device auto` or `--device both`, without --gpu-from"
            )));
        }
        let tuning = Tuning {
            tile: research.tile,
            cohort: research.cohort.map(usize::from),
            partitions: research.partitions(),
            gpu_lists: device.gpu_lists.unwrap_or_default(),
        };
        let manifest = index.manifest()?;
        if self.ranking.static_weight() > 0.0
            && manifest.static_field.is_none()
            && !index.snapshot()?.has_statics()
        {
            let problem = "--static-weight has no effect on an index without static scores";
            return Err(Failure::user(format!(
                "{problem}; add documents with --static-field FIELD"
            )));
        }
        let mut options = SearcherOptions::new()
            .ranking(self.ranking.get(&manifest)?)
            .algorithm(research.algorithm)
            .device(match device.device {
                DeviceName::Cpu => DeviceChoice::Cpu,
                DeviceName::Cuda => DeviceChoice::Cuda,
                DeviceName::Auto => DeviceChoice::Auto,
                DeviceName::Both => DeviceChoice::Both,
            })
            .gpus(gpus)
            .split(match device.split {
                SplitName::Documents => Split::Documents,
                SplitName::Queries => Split::Queries,
            })
            .mmap(!device.no_mmap)
            .threads(threads)
            .tuning(tuning)
            .on_notice(|notice| match notice {
                // The error that follows reports it.
                Notice::GpuLost { cpu_answers: false, .. } => {}
                notice => terminal::note(notice),
            });
        if let Some(share) = research.host_share {
            options = options.host_share(share);
        }
        if let Some(threads) = research.host_threads {
            options = options.host_threads(threads.into());
        }
        if let Some(postings) = research.gpu_from {
            options = options.gpu_from(postings);
        }
        if let Some(bytes) = device.gpu_memory {
            options = options.gpu_memory(bytes as u64);
        }
        if let Some(file) = &device.calibration {
            options = options.calibration(CalibrationChoice::File(file.clone()));
        }
        Ok(options)
    }

    /// Returns these options for a single query. Unless the user chose otherwise, a GPU receives
    /// only the lists that the query needs.
    pub(crate) fn for_one(&self) -> Self {
        let mut one = self.clone();
        let usual = matches!(self.research.algorithm, Algorithm::Auto | Algorithm::Exhaustive);
        if usual && matches!(self.device.device, DeviceName::Cuda | DeviceName::Auto) {
            one.device.gpu_lists.get_or_insert(GpuLists::OnDemand);
        }
        one
    }
}

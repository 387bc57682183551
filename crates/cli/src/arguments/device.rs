//! The device that answers queries, and its limits.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpseek::gpu::GpuLists;
use warpseek_console::options::{named, parse_bytes};

/// The device that answers queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceName {
    /// The CPU
    #[default]
    Cpu,
    /// A GPU; without one, the command fails
    Cuda,
    /// The GPU or the CPU, whichever has the faster estimate; the CPU if there is no GPU or if it
    /// fails. The output names the device that answered
    Auto,
    /// The CPU and the GPU together (see `--split`); without a GPU, the command fails
    Both,
}

/// The division of work among devices that answer together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitName {
    /// Split the documents: each device answers every query over its part of the index, and GPUs
    /// hold only their parts
    #[default]
    Documents,
    /// Split the queries of a batch: each device holds the whole index. The CPU takes short
    /// queries, and GPUs do not wait for it
    Queries,
}

/// The device that answers queries, and its limits.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// Device that answers queries: cuda is a GPU, auto the faster device, both share the work. All
    /// return the same hits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) device: DeviceName,
    /// Number of the GPU (see `warpseek devices`) [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub(crate) gpu: Option<u32>,
    /// Numbers of GPUs that answer together, e.g. 0,1; a number may be repeated
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        conflicts_with = "gpu",
        hide_short_help = true
    )]
    pub(crate) gpus: Vec<u32>,
    /// Limit of GPU memory, e.g. 8G. A larger index is searched more slowly: its lists are copied
    /// when queries need them [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, hide_short_help = true)]
    pub(crate) gpu_memory: Option<usize>,
    /// Layout of lists in GPU memory: tiles, ready to be searched (about 11 bytes per posting);
    /// compact, compressed as on disk (about 2); on-demand, copied when a query needs them; auto,
    /// tiles if they fit, else compact [default: auto; on-demand for a single query]
    #[arg(long, value_name = "FORM", hide_short_help = true, value_parser = named::<GpuLists>(GpuLists::NAMES.to_vec()))]
    pub(crate) gpu_lists: Option<GpuLists>,
    /// Division of work among several GPUs, or the CPU and GPUs: by documents, where each device
    /// has its part of the index, or by queries of a batch
    #[arg(long, value_enum, default_value_t, hide_short_help = true)]
    pub(crate) split: SplitName,
    /// File with the times of queries on this machine, as `warpseek calibrate --output` writes it,
    /// which auto and both rely on [default: the calibration in the user's cache; without one, a
    /// few queries are timed]
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) calibration: Option<PathBuf>,
    /// Read the index into memory instead of mapping its files. It opens more slowly, but a file
    /// truncated during the search cannot crash the process
    #[arg(long, hide_short_help = true)]
    pub(crate) no_mmap: bool,
}

//! `warpseek inspect`: shows the contents and sizes of an index, on disk and on GPUs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use warpseek::Index;
use warpseek::gpu::Residency;
use warpseek::inspect::ShapeClass;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, bytes, count, table};
use warpseek_console::{Failure, Interrupt};

use crate::arguments::{DeviceName, DeviceOptions, Searching};
use crate::report::{inspection, residency};

/// Show the contents and sizes of an index
///
/// The report has the size of each part, the bits per posting and the lengths of lists. With
/// --device cuda, the index is also copied to a GPU, and the report adds the layout of its lists,
/// the memory they take and the time the copy takes.
///
/// With --shape, the report has the distribution of gaps, frequencies and block maxima, by the
/// share of documents that contain a term. Engines behave alike on two indexes of the same shape.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek inspect idx
  warpseek inspect idx --json
  warpseek inspect idx --shape      to compare with another index
  warpseek inspect idx --device cuda --gpu-memory 4G")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Show gaps, frequencies and block maxima instead
    #[arg(long)]
    shape: bool,
    #[command(flatten)]
    device: DeviceOptions,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let index = Index::at(&options.index);
    let mut out = std::io::stdout().lock();
    if options.shape {
        let classes = index.shape()?;
        if options.json {
            writeln!(out, "{:#}", serde_json::to_value(&classes)?)?;
        } else {
            print_shape(&classes, &mut out)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let found = index.inspect()?;
    let on_gpu = match options.device.device {
        DeviceName::Cpu => None,
        _ => Some(OnGpu::load(&index, &options.device)?),
    };
    if options.json {
        let mut report = inspection::as_json(&found)?;
        if let Some(on_gpu) = on_gpu {
            report["gpu"] = json!({
                "seconds": on_gpu.seconds,
                "residency": on_gpu.residency.iter().map(residency::as_json).collect::<Value>(),
            });
        }
        writeln!(out, "{report:#}")?;
    } else {
        inspection::print(&found, &mut out)?;
        if let Some(on_gpu) = on_gpu {
            on_gpu.print(found.postings, &mut out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// An index on GPUs.
struct OnGpu {
    residency: Vec<Residency>,
    /// The source of the times by which devices are chosen, if they are chosen.
    calibration: Option<String>,
    /// The time from open devices to an index that is ready, in seconds.
    seconds: f64,
}

impl OnGpu {
    fn load(index: &Index, device: &DeviceOptions) -> Result<Self, Failure> {
        let searching = Searching { device: device.clone(), ..Searching::default() };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let searcher = index.searcher_with(searching.options(index, threads)?)?;
        let interrupt = Interrupt::default();
        let display = Display::loading(&searcher.loadings(), &interrupt, false);
        let start = Instant::now();
        let prepared = searcher.prepare();
        let seconds = start.elapsed().as_secs_f64();
        drop(display);
        prepared?;
        let status = searcher.gpu_status();
        match status.why_not {
            Some(why) => Err(Failure::user(format!("cannot copy the index to a GPU: {why}"))),
            None => {
                let (residency, calibration) = (status.residency, status.calibration);
                Ok(OnGpu { residency, calibration, seconds })
            }
        }
    }

    fn print(&self, postings: u64, out: &mut impl Write) -> std::io::Result<()> {
        let theme = Theme::stdout();
        writeln!(out, "\n{}", theme.paint(theme.strong, "on the GPU"))?;
        for gpu in &self.residency {
            let row = |name: &str, value: String| vec![name.to_owned(), value];
            let limit = gpu.limit.map_or("all of its memory".to_owned(), bytes);
            let each = gpu.used as f64 / postings.max(1) as f64;
            let mut rows = vec![
                row("device", gpu.device.clone()),
                row("layout of lists", gpu.form().unwrap_or("none").to_owned()),
                row("memory in use", format!("{} ({each:.2} bytes per posting)", bytes(gpu.used))),
                row("memory limit", limit),
                row("copied", bytes(gpu.copied)),
                row("ready after", format!("{:.3} s", self.seconds)),
            ];
            if let Some(cache) = &gpu.cache {
                rows.push(row("space for lists", bytes(cache.room)));
                rows.push(row("lists in memory", bytes(cache.held)));
                rows.push(row("space for a round's tiles", bytes(cache.scratch)));
            }
            table(&rows, out)?;
        }
        if let Some(source) = &self.calibration {
            writeln!(out, "times: {source}")?;
        }
        Ok(())
    }
}

fn print_shape(classes: &[ShapeClass], out: &mut impl Write) -> std::io::Result<()> {
    let head = [
        "in one of",
        "lists",
        "postings",
        "log2 gap",
        "gaps of 1",
        "bits/docID",
        "once",
        "frequency",
        "block max",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (i, class) in classes.iter().enumerate().filter(|(_, class)| class.lists > 0) {
        let percent = |x: f64| format!("{:.1}%", 100.0 * x);
        rows.push(vec![
            format!("{}-{}", count(1 << (2 * i)), count((4 << (2 * i)) - 1)),
            count(class.lists),
            count(class.postings),
            format!("{:.2}", class.log_gap),
            percent(class.adjacent),
            format!("{:.2}", class.bits_per_doc),
            percent(class.once),
            format!("{:.2}", class.mean_freq),
            if class.block_maximum > 0.0 { percent(class.block_maximum) } else { "-".to_owned() },
        ]);
    }
    table(&rows, out)
}

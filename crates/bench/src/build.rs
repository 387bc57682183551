//! The `bench build` command: computation of term weights and index building, on the CPU and on a
//! GPU. It reproduces table 1 and figures 3 to 5 of (Wakatsuki 2016).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek::options::{BuildDevice, StoreMode};
use warpseek::research::weights::{
    GpuWeigher, HostText, Method, Step, Steps, WeighError, Weights, WordText, weigh_on_cpu,
};
use warpseek::vocabulary::Dictionary;
use warpseek::{Index, IndexOptions, Progress, RankingFunction};
use warpseek_console::options::{Threads, parse_bytes};
use warpseek_console::terminal::{count, note, table};
use warpseek_console::{Failure, Interrupt};
use warpseek_cuda::Device;
use warpseek_synth::{MAX_VOCABULARY, TextConfig, TextGenerator, word};

use crate::report::html::{Page, Target};
use crate::report::svg::{Bars, Scale};
use crate::statistics::median;
use crate::{hardware, program};

/// Ratios reported by the paper. Its figure 3 shows the times of the whole computation without
/// numbers, so only the ratios in the text are quoted.
const PAPER: &str = "paper: ids are 3.8 to 4.5 times as fast as strings on its GPU, and 5.0 to 5.1 times 8 CPU threads";

/// MapReduce on the CPU and on the GPU, which the paper compares its methods with.
const MRP: (&str, Method<'_>) = ("CPU, MapReduce", Method::MapReduce);
const MRM: (&str, Method<'_>) = ("GPU, MapReduce", Method::MapReduce);

/// Measure term weights and index building
///
/// The text is synthetic, with the parameters of (Wakatsuki 2016): log-normal document lengths
/// and ten million words by frequency. A measurement starts with text in main memory and ends
/// with weights in main memory; the report shows the median of the rounds. The results of all
/// methods are compared.
///
/// With --input, the command also builds an index of the file, on the CPU and, with --cuda, on
/// the GPU.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench build --sizes 20
  warpseek bench build --cuda                        with a GPU
  warpseek bench build --sizes 500 --cuda --input docs.jsonl
  warpseek bench build --cuda --html build.html")]
pub(super) struct Options {
    /// Sizes of the texts in megabytes
    #[arg(long, value_delimiter = ',', default_value = "100,200,300,400,500", value_name = "MB,MB",
        value_parser = clap::value_parser!(u32).range(1..=4000))]
    sizes: Vec<u32>,
    /// Number of words in the vocabulary and in the dictionary
    #[arg(long, default_value_t = MAX_VOCABULARY as u32, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=MAX_VOCABULARY as i64))]
    vocabulary: u32,
    /// Also measure a GPU
    #[arg(long)]
    cuda: bool,
    /// Number of the GPU
    #[arg(long, default_value_t = 0, value_name = "N", requires = "cuda")]
    gpu: u32,
    /// Maximum GPU memory to use, e.g. 8G [default: all]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes, requires = "cuda")]
    gpu_memory: Option<usize>,
    /// Also build an index of this file and measure the time
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    #[command(flatten)]
    threads: Threads,
    /// Also write a self-contained HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Do not report what is being measured
    #[arg(long, short)]
    quiet: bool,
}

/// The measurement of a method on a text.
#[derive(Serialize)]
struct Cell {
    megabytes: u32,
    method: &'static str,
    seconds: f64,
    gb_per_s: f64,
    /// Milliseconds of each step.
    steps: Vec<(&'static str, f64)>,
}

/// A row of table 1.
#[derive(Serialize)]
struct Counts {
    megabytes: u32,
    words: u64,
    documents: u32,
    pairs: u64,
    terms: u64,
}

/// An index built on one device.
#[derive(Serialize)]
struct Built {
    device: &'static str,
    seconds: f64,
    mb_per_s: f64,
}

#[derive(Serialize, Default)]
struct Results {
    counts: Vec<Counts>,
    cells: Vec<Cell>,
    index: Vec<Built>,
    dictionary_bytes_a_word: f64,
    /// Dictionary lookups per second on the device, for the words of the largest text.
    look_ups_per_s: Option<f64>,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.rounds == 0 {
        return Err(Failure::user("--rounds must be at least 1"));
    }
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let device = match options.cuda {
        true => Some(Device::open(options.gpu, options.gpu_memory.map(|bytes| bytes as u64))?),
        false => None,
    };
    let threads = options.threads.get();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::user(error.to_string()))?;
    let interrupt = Interrupt::listen(None)?;
    let results = pool.install(|| measure(options, device.as_ref(), &interrupt))?;

    let mut facts = vec![
        ("program", program()),
        ("hardware", hardware()),
        ("threads", threads.to_string()),
        ("rounds", format!("median of {}", options.rounds)),
    ];
    if let Some(device) = &device {
        facts.push(("GPU", device.info().name.clone()));
    }
    if let Some(target) = target {
        target.save(&page(&facts, &results))?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let facts: serde_json::Map<_, _> =
            facts.into_iter().map(|(name, fact)| (name.to_owned(), fact.into())).collect();
        writeln!(out, "{:#}", json!({"facts": facts, "results": results}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (name, fact) in facts {
        writeln!(out, "{name}: {fact}")?;
    }
    for rows in tables(&results) {
        writeln!(out)?;
        table(&rows, &mut out)?;
    }
    writeln!(out, "\n{PAPER}")?;
    Ok(ExitCode::SUCCESS)
}

fn measure(
    options: &Options,
    device: Option<&Device>,
    interrupt: &Interrupt,
) -> Result<Results, Failure> {
    let say = |what: &str| {
        if !options.quiet {
            note(what);
        }
        if interrupt.is_set() { Err(Failure::interrupted("interrupted")) } else { Ok(()) }
    };
    let mut results = Results::default();
    say("building the dictionary")?;
    let dictionary = vocabulary(options.vocabulary)?;
    results.dictionary_bytes_a_word =
        dictionary.bytes() as f64 / f64::from(dictionary.len().max(1));
    let mut sizes = options.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let largest = sizes.last().copied().unwrap_or(0);
    let (text, ends) = text(options, largest)?;
    let wakatsuki: RankingFunction = "wakatsuki".parse().map_err(Failure::user)?;
    let pinned = match device {
        Some(device) => {
            let mut pinned = device.pinned::<u8>(text.len())?;
            pinned.write()?.copy_from_slice(&text);
            Some(pinned)
        }
        None => None,
    };
    for megabytes in sizes {
        // Only whole documents, up to this size.
        let most = megabytes as usize * 1_000_000;
        let len = ends[..ends.partition_point(|&end| end <= most)].last().copied().unwrap_or(0);
        let text = &text[..len];
        let ids = Method::Dictionary(&dictionary);
        let (expected, _) = weigh_on_cpu(text, ids, wakatsuki).map_err(Failure::broken)?;
        results.counts.push(Counts {
            megabytes,
            words: expected.words,
            documents: expected.documents,
            pairs: expected.docs.len() as u64,
            terms: expected.terms.len() as u64,
        });
        for (name, method) in [("CPU, strings", Method::Strings), ("CPU, ids", ids), MRP] {
            say(&format!("{megabytes} MB: {name}"))?;
            let measured = measured(options.rounds, || {
                let start = Instant::now();
                let weighed = weigh_on_cpu(text, method, wakatsuki).map_err(Failure::broken)?;
                let time = start.elapsed();
                check(name, &weighed.0, &expected)?;
                Ok((time, weighed.1))
            })?;
            results.cells.push(cell(megabytes, name, len, measured));
        }
        let (Some(device), Some(pinned)) = (device, &pinned) else { continue };
        for (name, method) in [MRM, ("GPU, strings", Method::Strings), ("GPU, ids", ids)] {
            say(&format!("{megabytes} MB: {name}"))?;
            let mut weigher = GpuWeigher::new(device, method)?;
            let text = HostText::Pinned(pinned, len);
            // The first round allocates the memory for all later ones.
            match weigher.weigh(text, wakatsuki) {
                Ok(_) => {}
                Err(error @ WeighError::TextTooLarge { .. }) => {
                    note(format!("{megabytes} MB: {name}: {error}"));
                    continue;
                }
                Err(error) => return Err(Failure::broken(error)),
            }
            let measured = measured(options.rounds, || {
                let start = Instant::now();
                let weighed = weigher.weigh(text, wakatsuki).map_err(Failure::broken)?;
                let time = start.elapsed();
                check(name, &weighed.0, &expected)?;
                Ok((time, weighed.1))
            })?;
            if let Some((_, time)) = measured.1.iter().find(|(step, _)| *step == Step::Ids) {
                results.look_ups_per_s = Some(expected.words as f64 / time.as_secs_f64());
            }
            results.cells.push(cell(megabytes, name, len, measured));
        }
    }
    if let Some(input) = &options.input {
        let devices = [("CPU", BuildDevice::Cpu), ("GPU", BuildDevice::Cuda)];
        for (name, on) in devices.into_iter().take(1 + usize::from(device.is_some())) {
            say(&format!("building an index of {}: {name}", input.display()))?;
            results.index.push(build(options, input, name, on)?);
        }
    }
    Ok(results)
}

/// Builds a dictionary of all words that the synthetic text can contain.
fn vocabulary(words: u32) -> Result<Dictionary, Failure> {
    let spelt = (0..words).map(|rank| {
        let mut spelling = Vec::new();
        word(rank, &mut spelling);
        spelling
    });
    Dictionary::build(spelt).map_err(Failure::broken)
}

/// Generates this many megabytes of text; also returns the end of each document.
fn text(options: &Options, megabytes: u32) -> Result<(Vec<u8>, Vec<usize>), Failure> {
    let config = TextConfig {
        vocabulary: u64::from(options.vocabulary),
        documents: u64::MAX,
        ..TextConfig::table1()
    };
    let generator = TextGenerator::new(config).map_err(Failure::broken)?;
    let (mut text, mut ends) = (WordText::default(), Vec::new());
    let (mut ranks, mut spelling) = (Vec::new(), Vec::new());
    let mut ordinal = 0;
    while text.bytes().len() < megabytes as usize * 1_000_000 {
        ranks.clear();
        generator.document(ordinal, &mut ranks);
        ordinal += 1;
        for &rank in &ranks {
            spelling.clear();
            word(rank, &mut spelling);
            text.push(&spelling).map_err(Failure::broken)?;
        }
        text.end_document();
        ends.push(text.bytes().len());
    }
    Ok((text.bytes().to_vec(), ends))
}

/// The whole time of a method, and the times of its steps.
type Measured = (Duration, Steps);

/// Calls a function that measures itself.
fn measured(
    rounds: usize,
    mut round: impl FnMut() -> Result<Measured, Failure>,
) -> Result<Measured, Failure> {
    let (mut times, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (time, steps) = round()?;
        times.push(time);
        all.push(steps);
    }
    let step = |(i, &(step, _)): (usize, &(Step, Duration))| {
        let mut times: Vec<Duration> = all.iter().map(|steps| steps[i].1).collect();
        (step, median(&mut times))
    };
    let steps = all[0].iter().enumerate().map(step).collect();
    Ok((median(&mut times), steps))
}

/// Compares the weights of a method with those of another. The vocabulary contains all words of
/// the text, so all methods produce the same lists.
fn check(name: &str, weights: &Weights<'_>, expected: &Weights<'_>) -> Result<(), Failure> {
    let bits = |weight: &f32| weight.to_bits();
    let same = weights.docs == expected.docs
        && weights.weights.iter().map(bits).eq(expected.weights.iter().map(bits));
    if same { Ok(()) } else { Err(Failure::broken(format!("{name}: weights differ"))) }
}

fn build(
    options: &Options,
    input: &std::path::Path,
    device: &'static str,
    on: BuildDevice,
) -> Result<Built, Failure> {
    let len = std::fs::metadata(input)
        .map_err(|e| Failure::user(format!("{}: {e}", input.display())))?
        .len();
    let mut settings = IndexOptions::new()
        .store(StoreMode::Ids)
        .threads(options.threads.get())
        .device(on)
        .gpu(options.gpu);
    if let Some(bytes) = options.gpu_memory {
        settings = settings.gpu_memory(bytes as u64);
    }
    let mut times = Vec::new();
    for _ in 0..options.rounds {
        let dir = tempfile::tempdir()?;
        let start = Instant::now();
        Index::build(
            dir.path().join("index"),
            &[input.to_owned()],
            &settings,
            &Progress::default(),
        )?;
        times.push(start.elapsed());
    }
    let seconds = median(&mut times).as_secs_f64();
    Ok(Built { device, seconds, mb_per_s: len as f64 / 1e6 / seconds })
}

fn cell(megabytes: u32, method: &'static str, len: usize, (time, steps): Measured) -> Cell {
    let seconds = time.as_secs_f64();
    let steps = steps.into_iter().map(|(step, time)| (step.name(), time.as_secs_f64() * 1e3));
    Cell {
        megabytes,
        method,
        seconds,
        gb_per_s: len as f64 / 1e9 / seconds,
        steps: steps.collect(),
    }
}

fn strings<const N: usize>(row: [&str; N]) -> Vec<String> {
    row.map(str::to_owned).into()
}

fn tables(results: &Results) -> Vec<Vec<Vec<String>>> {
    let mut counts = vec![strings(["text", "words", "documents", "pairs", "terms"])];
    counts.extend(results.counts.iter().map(|row| {
        let size = format!("{} MB", row.megabytes);
        vec![
            size,
            count(row.words),
            count(row.documents.into()),
            count(row.pairs),
            count(row.terms),
        ]
    }));

    let mut times = vec![strings(["text", "method", "ms", "GB/s", "times CPU, ids"])];
    times.extend(results.cells.iter().map(|cell| {
        let same = |other: &&Cell| other.megabytes == cell.megabytes && other.method == "CPU, ids";
        let ratio = results.cells.iter().find(same).map_or(0.0, |cpu| cpu.seconds / cell.seconds);
        vec![
            format!("{} MB", cell.megabytes),
            cell.method.to_owned(),
            format!("{:.1}", cell.seconds * 1e3),
            format!("{:.2}", cell.gb_per_s),
            format!("{ratio:.1}"),
        ]
    }));

    let mut steps = vec![strings(["text", "method", "step", "ms", "share of compute"])];
    for cell in &results.cells {
        let is_copy = |name: &str| name == Step::CopyIn.name() || name == Step::CopyOut.name();
        let compute: f64 = cell.steps.iter().filter(|(name, _)| !is_copy(name)).map(|s| s.1).sum();
        steps.extend(cell.steps.iter().map(|(name, ms)| {
            let share = match is_copy(name) {
                true => String::new(),
                false => format!("{:.0} %", 100.0 * ms / compute),
            };
            let size = format!("{} MB", cell.megabytes);
            vec![size, cell.method.to_owned(), (*name).to_owned(), format!("{ms:.2}"), share]
        }));
    }

    let mut facts = vec![strings(["dictionary", ""])];
    facts
        .push(vec!["bytes per word".to_owned(), format!("{:.2}", results.dictionary_bytes_a_word)]);
    if let Some(rate) = results.look_ups_per_s {
        facts.push(vec!["lookups per second, GPU".to_owned(), format!("{:.2} * 10^9", rate / 1e9)]);
    }

    let mut index = vec![strings(["index", "s", "MB/s", "times CPU"])];
    index.extend(results.index.iter().map(|built| {
        let ratio = results.index[0].seconds / built.seconds;
        let (seconds, rate) = (format!("{:.2}", built.seconds), format!("{:.0}", built.mb_per_s));
        vec![built.device.to_owned(), seconds, rate, format!("{ratio:.1}")]
    }));
    [counts, times, steps, facts, index].into_iter().filter(|rows| rows.len() > 1).collect()
}

fn page(facts: &[(&str, String)], results: &Results) -> Page {
    let mut page = Page::new("Term weights and index building", facts);
    for rows in tables(results) {
        page.table(&rows);
    }
    let methods = ["CPU, strings", "CPU, ids", MRP.0, MRM.0, "GPU, strings", "GPU, ids"];
    let rates = |name: &&str| {
        let of_method = results.cells.iter().filter(|cell| cell.method == *name);
        ((*name).to_owned(), of_method.map(|cell| cell.gb_per_s).collect::<Vec<f64>>())
    };
    let series: Vec<(String, Vec<f64>)> =
        methods.iter().map(rates).filter(|(_, rates)| !rates.is_empty()).collect();
    let names: Vec<String> = series.iter().map(|(name, _)| name.clone()).collect();
    let bars = Bars {
        title: "Text weighed".to_owned(),
        unit: "GB/s".to_owned(),
        scale: Scale::Linear,
        groups: results.counts.iter().map(|row| format!("{} MB", row.megabytes)).collect(),
        series,
    };
    page.figures("Speed", PAPER, &names, &[bars.draw()]);
    page
}

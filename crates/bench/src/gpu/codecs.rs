//! The `--codecs` part of `bench gpu`: decoding of lists with every codec (Ding 2009, table 1 and
//! figure 4).

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_codec::{CodecError, CodecId};
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_core::limits::BLOCK;
use warpseek_cuda::kernels::copy::bandwidth;
use warpseek_cuda::{Device, DeviceError, Stream};
use warpseek_exec::Pool;
use warpseek_exec_gpu_papers::compressed::{CODECS, CompressedLists, Postings};
use warpseek_exec_gpu_papers::kernels::decode::{Decode, What, Work};
use warpseek_index::Snapshot;

use super::Options;
use crate::codecs::{Coded, Sample, encode, sample};
use crate::hardware;
use crate::statistics::median;

/// Number of documents that the synthetic lists are drawn from, as many as GOV2 has.
const DOCS: u32 = 25_200_000;

/// Lengths of the synthetic lists.
const LENGTHS: [u32; 6] = [1_000, 8_000, 64_000, 512_000, 4_000_000, 12_000_000];

/// Number of postings of a class that are encoded, and that the CPU decodes. The device holds
/// several copies of them, so that no decoder finds data of the previous one in a cache.
const CODED: u64 = 1 << 22;

/// A group of lists that are measured together.
struct Class {
    name: String,
    lists: Vec<Postings>,
}

#[derive(Serialize)]
struct Cell {
    codec: &'static str,
    lists: String,
    /// Number of postings that are decoded at once.
    postings: u64,
    /// Bits per document, including the heads of blocks, without the skip array and bounds.
    bits_per_doc: f64,
    docs_per_s: f64,
    /// Bytes read per second while documents are decoded.
    bytes_per_s: f64,
    /// `bytes_per_s` as a fraction of the copy bandwidth.
    of_copy: f64,
    /// Gaps decoded per second, without the prefix sum.
    gaps_per_s: Option<f64>,
    /// Postings decoded per second, documents and frequencies.
    both_per_s: f64,
    /// Postings with frequencies per second that are decoded and written to memory.
    written_per_s: f64,
    /// Frequencies per second, each fetched alone.
    fetched_per_s: f64,
    cpu_docs_per_s: f64,
    cpu_threads_docs_per_s: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let device = Device::open(options.gpu, None).map_err(failed)?;
    let threads = options.threads.get();
    let copy = bandwidth(&device).map_err(failed)?;
    let mut classes = synthetic(threads);
    if let Some(index) = &options.index {
        classes.extend(of_index(&Snapshot::open(index)?)?);
    }
    let mut cells = Vec::new();
    for class in &classes {
        for codec in CODECS {
            let postings: usize = class.lists.iter().map(|list| list.docs.len()).sum();
            let copies = options.postings.div_ceil(postings.max(1));
            let cell = measure(&device, codec, class, copies, copy, options.rounds, threads)?;
            eprintln!("{}", json!(cell));
            cells.push(cell);
        }
    }
    let hardware = format!("{}; {}", device.info().name, hardware());
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({
            "hardware": hardware, "threads": threads, "rounds": options.rounds, "copy_bytes_per_s": copy, "cells": cells,
        });
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{hardware}; copies {:.2} TB/s; median of {} rounds, 10^9 integers/s",
        copy / 1e12,
        options.rounds
    )?;
    print(&cells, threads, &mut out)?;
    writeln!(
        out,
        "\nDing 2009, GeForce 8800 GTS and one core of 2.66 GHz, next to this machine; 10^9 integers/s"
    )?;
    paper(&cells, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::user(error.to_string())
}

/// Generates lists of random documents, by length. Every document is in a list with the same
/// probability.
fn synthetic(threads: usize) -> Vec<Class> {
    let class = |&length: &u32| {
        let number = (CODED / u64::from(length)).max(1);
        let numbers: Vec<u64> = (0..number).collect();
        let draw = |(): &mut (), &seed: &u64| draw(length, seed);
        let lists = Pool::shared(threads).map(&numbers, || (), draw);
        Class { name: count(u64::from(length)), lists }
    };
    LENGTHS.iter().map(class).collect()
}

fn draw(length: u32, seed: u64) -> Postings {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    // `log` follows from the probability of a document. Gaps have a geometric distribution.
    // Frequencies have one too: each frequency is half as likely as the next smaller one.
    let log = (-f64::from(length) / f64::from(DOCS)).ln_1p();
    let (mut docs, mut freqs, mut doc) = (Vec::new(), Vec::new(), 0u64);
    for _ in 0..length {
        doc += ((1.0 - next()).ln() / log) as u64;
        docs.push(doc as u32);
        doc += 1;
        freqs.push(1 + (-(1.0 - next()).log2()) as u32);
    }
    Postings { docs, freqs, values: Vec::new() }
}

fn of_index(snapshot: &Snapshot) -> Result<Vec<Class>, Failure> {
    let class = |(name, lists): (String, Vec<Sample>)| {
        let list = |Sample { docs, freqs }| Postings { docs, freqs, values: Vec::new() };
        Class { name: format!("index, {name}"), lists: lists.into_iter().map(list).collect() }
    };
    Ok(sample(snapshot, CODED)?.into_iter().map(class).collect())
}

fn measure(
    device: &Device,
    codec: CodecId,
    class: &Class,
    copies: usize,
    copy: f64,
    rounds: usize,
    threads: usize,
) -> Result<Cell, Failure> {
    let lists = &class.lists;
    let coded = CompressedLists::new(device, codec, lists, copies, threads).map_err(failed)?;
    let decode = Decode::new(device, codec).map_err(failed)?;
    let stream = device.stream().map_err(failed)?;
    check(device, &stream, &decode, &coded, lists, codec)?;
    let work = Work::new(device, &stream, &coded, 0..coded.lists().len()).map_err(failed)?;
    let postings: u64 = coded.lists().iter().map(|list| u64::from(list.df)).sum();
    let sums = device.buffer::<u32>(work.runs()).map_err(failed)?;
    let rate = |launch: &dyn Fn() -> Result<(), DeviceError>| -> Result<f64, Failure> {
        let time = time(device, &stream, rounds, launch).map_err(failed)?;
        Ok(postings as f64 / time.as_secs_f64().max(1e-9))
    };
    let sums_rate = |what| rate(&|| decode.sums(&stream, &work, what, &sums));
    let docs_per_s = sums_rate(What::Docs)?;
    let both_per_s = sums_rate(What::Both)?;
    let gaps_per_s = if codec == CodecId::PFor { Some(sums_rate(What::Gaps)?) } else { None };
    let (docs, freqs) =
        (device.buffer::<u32>(work.numbers()), device.buffer::<u32>(work.numbers()));
    let (docs, freqs) = (docs.map_err(failed)?, freqs.map_err(failed)?);
    let written_per_s = rate(&|| decode.write(&stream, &work, &docs, &freqs))?;
    let fetched_per_s = rate(&|| decode.fetch(&stream, &work, &freqs))?;
    let (one, all) = cpu(codec, lists, rounds, threads).map_err(Failure::broken)?;
    let bytes_per_s = docs_per_s * coded.doc_bytes() as f64 / postings as f64;
    Ok(Cell {
        codec: codec.name(),
        lists: class.name.clone(),
        postings,
        bits_per_doc: 8.0 * coded.doc_bytes() as f64 / postings as f64,
        docs_per_s,
        bytes_per_s,
        of_copy: bytes_per_s / copy,
        gaps_per_s,
        both_per_s,
        written_per_s,
        fetched_per_s,
        cpu_docs_per_s: one,
        cpu_threads_docs_per_s: all,
    })
}

/// Checks that the first copy decodes to the lists, and that all other copies give the same sums.
fn check(
    device: &Device,
    stream: &Stream,
    decode: &Decode,
    coded: &CompressedLists,
    lists: &[Postings],
    codec: CodecId,
) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::broken(format!("{codec}: {what} differ from the CPU's"));
    let mut first_sums = Vec::new();
    for copy in 0..coded.lists().len() / lists.len().max(1) {
        let which = copy * lists.len()..(copy + 1) * lists.len();
        let work = Work::new(device, stream, coded, which).map_err(failed)?;
        let sums = device.buffer::<u32>(work.runs()).map_err(failed)?;
        decode.sums(stream, &work, What::Both, &sums).map_err(failed)?;
        let sums = stream.download(&sums).map_err(failed)?;
        if copy > 0 {
            if sums != first_sums {
                return Err(wrong("sums of a copy"));
            }
            continue;
        }
        first_sums = sums;
        let buffer = || device.buffer::<u32>(work.numbers()).map_err(failed);
        let (docs, freqs, fetched) = (buffer()?, buffer()?, buffer()?);
        decode.write(stream, &work, &docs, &freqs).map_err(failed)?;
        decode.fetch(stream, &work, &fetched).map_err(failed)?;
        let [docs, freqs, fetched] = [docs, freqs, fetched].map(|buffer| stream.download(&buffer));
        let (docs, freqs, fetched) =
            (docs.map_err(failed)?, freqs.map_err(failed)?, fetched.map_err(failed)?);
        let mut at = 0;
        for list in lists {
            let end = at + list.docs.len();
            if docs[at..end] != list.docs {
                return Err(wrong("documents"));
            }
            if freqs[at..end] != list.freqs || fetched[at..end] != list.freqs {
                return Err(wrong("frequencies"));
            }
            at = end.next_multiple_of(BLOCK);
        }
        // The sums must equal those of the numbers that were written.
        let sum = |numbers: &[u32]| numbers.iter().copied().fold(0, u32::wrapping_add);
        if sum(&first_sums) != sum(&docs).wrapping_add(sum(&freqs)) {
            return Err(wrong("sums"));
        }
    }
    Ok(())
}

/// Returns the median time of `rounds` launches by the device's clock, after one launch to warm
/// up.
fn time(
    device: &Device,
    stream: &Stream,
    rounds: usize,
    launch: &dyn Fn() -> Result<(), DeviceError>,
) -> Result<Duration, DeviceError> {
    let (start, end) = (device.event()?, device.event()?);
    let mut times = Vec::new();
    for round in 0..=rounds {
        stream.record(&start)?;
        launch()?;
        stream.record(&end)?;
        end.synchronize()?;
        if round > 0 {
            times.push(end.since(&start)?);
        }
    }
    stream.synchronize()?;
    Ok(median(&mut times))
}

/// Returns the number of documents that the CPU decodes per second, on one thread and on all.
fn cpu(
    codec: CodecId,
    lists: &[Postings],
    rounds: usize,
    threads: usize,
) -> Result<(f64, f64), CodecError> {
    let (mut samples, mut postings) = (Vec::new(), 0u64);
    for list in lists {
        if postings < CODED {
            // Long lists are split, so that all threads have work.
            for (docs, freqs) in list.docs.chunks(1 << 18).zip(list.freqs.chunks(1 << 18)) {
                samples.push(Sample { docs: docs.to_vec(), freqs: freqs.to_vec() });
            }
            postings += list.docs.len() as u64;
        }
    }
    let encode = |(): &mut (), list: &Sample| encode(codec, list);
    let coded = Pool::shared(threads).map(&samples, || (), encode);
    let coded = coded.into_iter().collect::<Result<Vec<_>, _>>()?;
    let coded: Vec<_> = coded.iter().zip(&samples).collect();
    let rate = |threads: usize| -> Result<f64, CodecError> {
        let (pool, mut times) = (Pool::shared(threads), Vec::new());
        let decode =
            |(): &mut (), (coded, list): &(&Coded, &Sample)| coded.decode_docs(codec, list);
        for round in 0..=rounds {
            let start = Instant::now();
            let decoded = pool.map(&coded, || (), decode);
            if round > 0 {
                times.push(start.elapsed());
            }
            decoded.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(postings as f64 / median(&mut times).as_secs_f64().max(1e-9))
    };
    Ok((rate(1)?, rate(threads)?))
}

fn billions(rate: f64) -> String {
    format!("{:.1}", rate / 1e9)
}

fn print(cells: &[Cell], threads: usize, out: &mut impl Write) -> std::io::Result<()> {
    let many = format!("CPU x {threads}");
    let head = [
        "codec",
        "lists of",
        "postings",
        "bits/doc",
        "docs",
        "GB/s",
        "of copy",
        "and freqs",
        "to memory",
        "freqs alone",
        "CPU",
        &many,
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        rows.push(vec![
            cell.codec.to_owned(),
            cell.lists.clone(),
            count(cell.postings),
            format!("{:.2}", cell.bits_per_doc),
            billions(cell.docs_per_s),
            format!("{:.0}", cell.bytes_per_s / 1e9),
            format!("{:.0} %", 100.0 * cell.of_copy),
            billions(cell.both_per_s),
            billions(cell.written_per_s),
            billions(cell.fetched_per_s),
            billions(cell.cpu_docs_per_s),
            billions(cell.cpu_threads_docs_per_s),
        ]);
    }
    table(&rows, out)
}

/// Prints table 1 and figure 4 of (Ding 2009) next to the measurements. The paper states only a
/// few values of the figure in its text.
fn paper(cells: &[Cell], out: &mut impl Write) -> std::io::Result<()> {
    // The longest synthetic lists are used, since those of the paper are long, too.
    let longest = |codec: CodecId| {
        cells.iter().rfind(|cell| cell.codec == codec.name() && !cell.lists.starts_with("index"))
    };
    let here = |codec: CodecId| {
        let cell = longest(codec);
        let rate =
            |value: fn(&Cell) -> f64| cell.map_or("-".to_owned(), |cell| billions(value(cell)));
        (rate(|cell| cell.cpu_docs_per_s), rate(|cell| cell.docs_per_s))
    };
    let head = ["Table 1", "CPU", "GPU", "CPU here", "GPU here"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for (name, cpu, gpu, codec) in
        [("Rice", "0.311", "0.305", CodecId::Rice), ("PForDelta", "1.165", "1.238", CodecId::PFor)]
    {
        let (cpu_here, gpu_here) = here(codec);
        rows.push(vec![name.into(), cpu.into(), gpu.into(), cpu_here, gpu_here]);
    }
    table(&rows, out)?;
    writeln!(
        out,
        "\nFigure 4, PForDelta by length of list; the paper's GPU reaches 2.0 with and 2.5 without the prefix sum on long lists"
    )?;
    let head = ["lists of", "CPU here", "GPU here", "without prefix sum"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        if let Some(gaps) = cell.gaps_per_s {
            rows.push(vec![
                cell.lists.clone(),
                billions(cell.cpu_docs_per_s),
                billions(cell.docs_per_s),
                billions(gaps),
            ]);
        }
    }
    table(&rows, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::tests::device;

    /// Runs on the emulator and compares the decoded lists. Only the rates are meaningless.
    #[test]
    fn every_codec_is_measured() {
        let class = Class { name: "some".into(), lists: vec![draw(140, 1), draw(3, 2)] };
        let device = device();
        let cells: Vec<Cell> = CODECS
            .iter()
            .map(|&codec| measure(&device, codec, &class, 3, 1e9, 1, 2).expect("equal lists"))
            .collect();
        assert!(cells.iter().all(|cell| cell.postings == 143 * 3));
        assert!(cells.iter().all(|cell| cell.docs_per_s > 0.0 && cell.bits_per_doc > 1.0));
        let mut out = Vec::new();
        print(&cells, 2, &mut out).expect("memory");
        paper(&cells, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(CODECS.iter().all(|codec| text.contains(codec.name())), "{text}");
        assert_eq!(text.lines().count(), 1 + CODECS.len() + 3 + 2 + 2, "{text}");
    }

    /// Checks that the lists have the requested length, are ascending, and have about the
    /// expected density.
    #[test]
    fn synthetic_lists_are_valid() {
        for length in [1_000, 100_000] {
            let list = draw(length, 7);
            assert_eq!((list.docs.len(), list.freqs.len()), (length as usize, length as usize));
            assert!(
                list.docs.is_sorted_by(|a, b| a < b) && list.freqs.iter().all(|&freq| freq > 0)
            );
            let last = list.docs[length as usize - 1];
            assert!((DOCS / 2..2 * DOCS).contains(&last), "{last}");
        }
    }
}

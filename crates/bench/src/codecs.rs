//! The `bench codecs` command: sizes and speeds of all codecs on the lists of an index, on the
//! CPU.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use warpseek_codec::varint::Cursor;
use warpseek_codec::{Block, CodecError, CodecId, ListState};
use warpseek_console::options::named;
use warpseek_console::terminal::{count, counted, table};
use warpseek_console::{Failure, Interrupt, progress};
use warpseek_core::limits::BLOCK;
use warpseek_index::Snapshot;

use super::{hardware, index_line, program};
use crate::report::html::{Page, Target};
use crate::report::svg::{Bars, Scale};

/// Bounds of the classes of list lengths.
const CLASSES: [u32; 5] = [129, 1_000, 10_000, 100_000, u32::MAX];

/// Measure every codec on the lists of an index
///
/// Each codec encodes a sample of the lists with more than 128 postings. For each class of list
/// lengths, the report shows the bytes per document and per frequency, without skip arrays and
/// bounds, and the rates at which blocks are encoded and decoded. Rates are the best of the
/// rounds, on one core.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek bench codecs --index idx
  warpseek bench codecs --index idx --codecs bitpack,rice --json
  warpseek bench codecs --index idx --html codecs.html")]
pub(super) struct Options {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Codecs to measure [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES",
        value_parser = named::<CodecId>(CodecId::names()))]
    codecs: Vec<CodecId>,
    /// Postings to sample in each class of list lengths
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    postings: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: usize,
    /// Also write a self-contained HTML page with the table and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Do not show a progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// A decoded list.
pub(super) struct Sample {
    pub(super) docs: Vec<u32>,
    pub(super) freqs: Vec<u32>,
}

/// Measurements of one codec on one class of lists.
#[derive(Serialize)]
struct Cell {
    codec: &'static str,
    lists: String,
    postings: u64,
    bytes_per_doc: f64,
    bytes_per_freq: f64,
    encode_per_s: f64,
    decode_docs_per_s: f64,
    decode_freqs_per_s: f64,
    decode_gb_per_s: f64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.rounds == 0 {
        return Err(Failure::user("--rounds must be at least 1"));
    }
    let target = options.html.as_deref().map(Target::new).transpose()?;
    let snapshot = Snapshot::open(&options.index)?;
    let classes = sample(&snapshot, options.postings)?;
    let codecs =
        if options.codecs.is_empty() { CodecId::ALL.to_vec() } else { options.codecs.clone() };
    let interrupt = Interrupt::listen(None)?;
    let bar = progress::items("measuring", (codecs.len() * classes.len()) as u64, options.quiet);
    let mut cells = Vec::new();
    for &codec in &codecs {
        for (name, lists) in &classes {
            if interrupt.is_set() {
                return Err(Failure::interrupted("interrupted"));
            }
            cells.push(measure(codec, name, lists, options.rounds).map_err(Failure::broken)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let rows = rows(&cells);
    if let Some(target) = target {
        let facts = [
            ("program", program()),
            ("hardware", hardware()),
            ("index", index_line(&options.index, &snapshot)),
            ("sample", format!("at most {} postings per class", count(options.postings))),
            ("rounds", format!("best of {}, one core", options.rounds)),
        ];
        target.save(&page(&facts, &rows, &cells, &classes))?;
    }
    let mut out = std::io::stdout().lock();
    if options.json {
        let report = json!({"hardware": hardware(), "rounds": options.rounds, "cells": cells});
        writeln!(out, "{report:#}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let rounds = counted(options.rounds as u64, "round");
    writeln!(out, "{}; best of {rounds}, one core, 10^6 integers/s", hardware())?;
    table(&rows, &mut out)?;
    Ok(ExitCode::SUCCESS)
}

fn rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head = ["codec", "lists", "postings", "B/doc", "B/freq", "encode", "docs", "freqs", "GB/s"];
    let mut rows = vec![head.map(String::from).to_vec()];
    for cell in cells {
        let million = |rate: f64| format!("{:.0}", rate / 1e6);
        rows.push(vec![
            cell.codec.to_owned(),
            cell.lists.clone(),
            count(cell.postings),
            format!("{:.3}", cell.bytes_per_doc),
            format!("{:.3}", cell.bytes_per_freq),
            million(cell.encode_per_s),
            million(cell.decode_docs_per_s),
            million(cell.decode_freqs_per_s),
            format!("{:.2}", cell.decode_gb_per_s),
        ]);
    }
    rows
}

/// Renders the measurements as a page with a colour for each codec and a group of bars for each
/// class of lists.
fn page(
    facts: &[(&str, String)],
    rows: &[Vec<String>],
    cells: &[Cell],
    classes: &[(String, Vec<Sample>)],
) -> Page {
    let mut page = Page::new("Codecs", facts);
    page.table(rows);
    // Cells are ordered by codec, and every codec has all classes.
    let by_codec: Vec<&[Cell]> = cells.chunk_by(|a, b| a.codec == b.codec).collect();
    let codecs: Vec<String> = by_codec.iter().map(|cells| cells[0].codec.to_owned()).collect();
    let draw = |title: &str, unit: &str, value: &dyn Fn(&Cell) -> f64| {
        let series = by_codec
            .iter()
            .map(|cells| (cells[0].codec.to_owned(), cells.iter().map(value).collect()))
            .collect();
        let groups = classes.iter().map(|(name, _)| name.clone()).collect();
        let (title, unit) = (title.to_owned(), unit.to_owned());
        Bars { title, unit, scale: Scale::Linear, groups, series }.draw()
    };
    let sizes = [
        draw("Documents", "bytes per document", &|cell| cell.bytes_per_doc),
        draw("Frequencies", "bytes per frequency", &|cell| cell.bytes_per_freq),
    ];
    let note = "By number of postings in a list, without skip arrays and bounds.";
    page.figures("Size", note, &codecs, &sizes);
    let unit = "10^6 integers per second";
    let rates = [
        draw("Decoding documents", unit, &|cell| cell.decode_docs_per_s / 1e6),
        draw("Decoding frequencies", unit, &|cell| cell.decode_freqs_per_s / 1e6),
        draw("Encoding both", unit, &|cell| cell.encode_per_s / 1e6),
    ];
    let note = "By number of postings in a list. Documents are decoded to ids, not to gaps.";
    page.figures("Speed", note, &codecs, &rates);
    page
}

/// Samples lists of each class, spread over the dictionary, with about `most` postings in total.
pub(super) fn sample(
    snapshot: &Snapshot,
    most: u64,
) -> Result<Vec<(String, Vec<Sample>)>, Failure> {
    let mut classes = Vec::new();
    for bounds in CLASSES.windows(2) {
        let (from, to) = (bounds[0], bounds[1]);
        let mut lists = Vec::new();
        let mut taken = 0;
        for segment in snapshot.segments() {
            let (mut fitting, mut terms) = (Vec::new(), segment.dictionary().iter());
            while let Some(info) = terms.next_term()? {
                if (from..to).contains(&info.df) {
                    fitting.push(info);
                }
            }
            let all: u64 = fitting.iter().map(|info| u64::from(info.df)).sum();
            let step = all.div_ceil(most.max(1)).max(1) as usize;
            for info in fitting.iter().step_by(step) {
                if taken >= most {
                    break;
                }
                let list = segment.list(info)?;
                let mut sample = Sample { docs: Vec::new(), freqs: Vec::new() };
                let mut block = [0; BLOCK];
                for i in 0..list.blocks() {
                    let bad = |what| segment.bad_list(info, what);
                    let n = list.decode_docs(i, &mut block).map_err(bad)?;
                    sample.docs.extend(&block[..n]);
                    let n = list.decode_freqs(i, &mut block).map_err(bad)?;
                    sample.freqs.extend(&block[..n]);
                }
                taken += u64::from(info.df);
                lists.push(sample);
            }
        }
        if !lists.is_empty() {
            let name = match to {
                u32::MAX => format!("{}+", count(u64::from(from))),
                to => format!("{}-{}", count(u64::from(from)), count(u64::from(to) - 1)),
            };
            classes.push((name, lists));
        }
    }
    if classes.is_empty() {
        return Err(Failure::user("the index has no list of more than 128 postings to measure"));
    }
    Ok(classes)
}

/// An encoded list.
pub(super) struct Coded {
    state: ListState,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Encodes a list block by block.
pub(super) fn encode(codec: CodecId, list: &Sample) -> Result<Coded, CodecError> {
    let (codec, mut header, mut bytes, mut ends) =
        (codec.codec(), Vec::new(), Vec::new(), Vec::new());
    let n = list.docs.len();
    let state = codec.encode_list(u32::MAX, &list.docs, &list.freqs, &mut header);
    let mut prev = u32::MAX;
    for (docs, freqs) in list.docs.chunks(BLOCK).zip(list.freqs.chunks(BLOCK)) {
        codec.encode(&state, prev, docs, freqs, &mut bytes);
        prev = docs[docs.len() - 1];
        ends.push(bytes.len());
    }
    // Open the list as a reader does, because only an opened list knows how many bytes it takes
    // in total.
    let state = codec.open(&mut Cursor::new(&header), n, n)?;
    Ok(Coded { state, bytes, ends })
}

impl Coded {
    /// Decodes all documents.
    pub(super) fn decode_docs(&self, codec: CodecId, list: &Sample) -> Result<(), CodecError> {
        let (codec, mut prev, mut out) = (codec.codec(), u32::MAX, [0; BLOCK]);
        for index in 0..self.ends.len() {
            let block = self.block(list, index);
            codec.decode_docs(block, prev, &mut out)?;
            prev = std::hint::black_box(&out)[block.docs - 1];
        }
        Ok(())
    }

    fn block(&self, list: &Sample, index: usize) -> Block<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        let n = (list.docs.len() - index * BLOCK).min(BLOCK);
        Block {
            bytes: &self.bytes[start..self.ends[index]],
            list: &self.state,
            index,
            docs: n,
            freqs: n,
        }
    }
}

/// Returns the best time of the rounds in seconds.
fn best(
    rounds: usize,
    mut work: impl FnMut() -> Result<(), CodecError>,
) -> Result<f64, CodecError> {
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        work()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn measure(id: CodecId, name: &str, lists: &[Sample], rounds: usize) -> Result<Cell, CodecError> {
    let codec = id.codec();
    let postings: u64 = lists.iter().map(|l| l.docs.len() as u64).sum();
    let mut coded = Vec::new();
    let encode_s = best(rounds, || {
        coded = lists.iter().map(|list| encode(id, list)).collect::<Result<_, _>>()?;
        Ok(())
    })?;
    let (mut doc_bytes, mut freq_bytes) = (0, 0);
    for (list, coded) in lists.iter().zip(&coded) {
        let (docs, freqs) = coded.state.bytes();
        doc_bytes += docs;
        freq_bytes += freqs;
        for index in 0..coded.ends.len() {
            let block = coded.block(list, index);
            let docs = codec.docs_len(block)?;
            doc_bytes += docs;
            freq_bytes += block.bytes.len() - docs;
        }
    }
    let mut out = [0; BLOCK];
    let docs_s = best(rounds, || {
        lists.iter().zip(&coded).try_for_each(|(list, coded)| coded.decode_docs(id, list))
    })?;
    let freqs_s = best(rounds, || {
        for (list, coded) in lists.iter().zip(&coded) {
            for index in 0..coded.ends.len() {
                codec.decode_freqs(coded.block(list, index), &mut out)?;
                std::hint::black_box(&out);
            }
        }
        Ok(())
    })?;
    let n = postings as f64;
    Ok(Cell {
        codec: id.name(),
        lists: name.to_owned(),
        postings,
        bytes_per_doc: doc_bytes as f64 / n,
        bytes_per_freq: freq_bytes as f64 / n,
        encode_per_s: 2.0 * n / encode_s,
        decode_docs_per_s: n / docs_s,
        decode_freqs_per_s: n / freqs_s,
        decode_gb_per_s: 8.0 * n / (docs_s + freqs_s) / 1e9,
    })
}

//! `cargo xtask peers`: compares warpseek with other engines on the same tokens, in alternation.
//!
//! The runners of the other engines are not part of the repository; `--peers` names the folder that
//! contains them. Each runner takes `--corpus --queries --mode --k --threads --reps --dump` and
//! prints one JSON line per cell. A cell is a combination of a query log, a mode and a k.

mod agreement;
mod corpora;
mod engine;
mod names;
mod ngram;
mod options;
mod report;
mod words;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use agreement::Agreement;
use engine::{Call, Ours};
use names::{DocumentOrder, Peer};
use options::{Data, Options, USAGE};
use report::{Cell, Sample, Size};

use crate::skips;

/// Engine name of our own figures.
const US: &str = "warpseek";

/// Engine name of our figures with documents in the order of graph bisection.
const REORDERED: &str = "warpseek-reorder";

/// The peer that also has such an order; it is compared with [`REORDERED`].
const REORDERED_PEER: &str = "lucene10bp";

/// Number of hits that are compared for agreement.
const TOP: usize = 10;

/// All results.
#[derive(Default, Serialize, Deserialize)]
struct Findings {
    rounds: usize,
    reps: usize,
    samples: Vec<Sample>,
    agreements: Vec<Agreement>,
    sizes: Vec<Size>,
    notes: Vec<String>,
    #[serde(rename = "load_averages")]
    loads: Vec<f64>,
}

impl Findings {
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            eprintln!("note: {text}");
            self.notes.push(text);
        }
    }

    /// Adds the results of another run, with their rounds numbered after those of this run.
    fn append(&mut self, mut other: Findings) {
        let last = self.samples.iter().map(|sample| sample.round + 1).max().unwrap_or(0);
        other.samples.iter_mut().for_each(|sample| sample.round += last);
        self.rounds = self.rounds.max(other.rounds);
        self.reps = self.reps.max(other.reps);
        self.samples.append(&mut other.samples);
        self.agreements.append(&mut other.agreements);
        self.sizes.append(&mut other.sizes);
        self.loads.append(&mut other.loads);
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }
}

/// The engines that take part, and the results so far.
struct Comparison {
    options: Options,
    ours: Ours,
    peers: Vec<Peer>,
    found: Findings,
}

/// The engine that is measured next.
#[derive(Clone, Copy)]
enum Turn {
    Ours(DocumentOrder),
    Theirs(Peer),
}

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Turn::Ours(order) => order.name(),
            Turn::Theirs(peer) => peer.name(),
        }
    }
}

pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    if args.iter().any(|arg| arg == "--help") {
        println!("{USAGE}\n\n{}\n\n{}", corpora::USAGE, ngram::USAGE);
        return Ok(());
    }
    let rest = || args.clone().into_iter().skip(1);
    match args.first().map(String::as_str) {
        Some("--ngram") => return ngram::run(rest()),
        Some("--prepare") => return corpora::run(rest()),
        Some("--tables") => return tables(&rest().collect::<Vec<_>>()),
        _ => {}
    }
    let options = Options::parse(args.into_iter())?;
    let mut comparison = Comparison::new(options)?;
    let outcome = comparison.measure();
    let Comparison { options, found, .. } = comparison;
    print!("{}", report::markdown(&found));
    if let Some(file) = &options.json {
        let error = |e: String| format!("{}: {e}", file.display());
        let text = serde_json::to_string_pretty(&found).map_err(|e| error(e.to_string()))?;
        fs::write(file, text + "\n").map_err(|e| error(e.to_string()))?;
    }
    // The error is returned last, so that a failure late in a long run does not lose earlier
    // results.
    outcome
}

/// Prints the tables of files that earlier runs wrote.
fn tables(args: &[String]) -> Result<(), String> {
    let [files] = args else {
        return Err(format!(
            "--tables needs one argument, a list of files separated by commas\n\n{USAGE}"
        ));
    };
    let mut found = Findings::default();
    for file in files.split(',') {
        let text = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        found.append(serde_json::from_str(&text).map_err(|e| format!("{file}: {e}"))?);
    }
    print!("{}", report::markdown(&found));
    Ok(())
}

impl Comparison {
    fn new(options: Options) -> Result<Comparison, String> {
        let (rounds, reps) = (options.rounds, options.reps);
        let mut found = Findings { rounds, reps, ..Findings::default() };
        let mut peers = Vec::new();
        for &peer in &options.engines {
            match peer.missing(&options) {
                None => peers.push(peer),
                Some(what) => {
                    let name = peer.name();
                    skips::note(name, &format!("it is not installed ({what} is missing)"))?;
                    found.note(format!(
                        "{name} is not installed ({what} is missing) and is left out"
                    ));
                }
            }
        }
        if peers.is_empty() {
            return Err(format!("{} contains no engine to compare with", options.home.display()));
        }
        let ours = Ours::new(&options)?;
        if !ours.counts {
            found.note(
                "`bench queries` has no --count, so there are no cells with counts".to_owned(),
            );
        }
        Ok(Comparison { options, ours, peers, found })
    }

    /// Measures everything, collection by collection and log by log.
    fn measure(&mut self) -> Result<(), String> {
        for data in std::mem::take(&mut self.options.data) {
            self.index(&data)?;
            let ordinals = agreement::ordinals(&data.corpus)?;
            for queries in &data.queries {
                self.compare_hits(&data, queries, &ordinals)?;
                for round in 0..self.options.rounds {
                    self.round(&data, queries, round)?;
                }
            }
        }
        Ok(())
    }

    /// Builds all indexes of a collection; ours is rebuilt, since the code may have changed.
    fn index(&mut self, data: &Data) -> Result<(), String> {
        let corpus = data.name();
        eprintln!("{corpus}: indexes");
        for &order in &self.options.ours {
            let bytes = self.ours.index(order, &data.corpus)?;
            let (corpus, engine) = (corpus.clone(), order.name().to_owned());
            self.found.sizes.push(Size { corpus, engine, bytes });
        }
        for peer in &self.peers {
            let bytes = peer.index(&self.options, &data.corpus)?;
            let (corpus, engine) = (corpus.clone(), peer.name().to_owned());
            self.found.sizes.push(Size { corpus, engine, bytes });
        }
        Ok(())
    }

    /// Compares the documents that the engines find.
    fn compare_hits(
        &mut self,
        data: &Data,
        queries: &Path,
        ordinals: &HashMap<String, u64>,
    ) -> Result<(), String> {
        let log = format!("{} {}", data.name(), log_name(queries));
        eprintln!("{log}: hits");
        let scratch = self.options.home.join("dumps");
        let error = |e: std::io::Error| format!("{}: {e}", scratch.display());
        // Remove dumps of another log, which would be mistaken for those of this log.
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(error)?;
        }
        fs::create_dir_all(&scratch).map_err(error)?;
        let first = self.options.ours.first().copied().unwrap_or(DocumentOrder::Plain);
        for mode in &self.options.modes {
            for peer in self.peers.iter().filter(|peer| peer.supports(mode)) {
                let call = Call { queries, mode, k: TOP, reps: 1, counted: false };
                peer.dump(&self.options, &data.corpus, &call, &scratch.join(peer.name()))?;
            }
            let run = self.ours.hits(first, &data.corpus, queries, mode, TOP)?;
            let hits = agreement::from_run(&run, ordinals)?;
            for (engine, file) in agreement::dumps(&scratch, mode, TOP)? {
                let (overlap, with_ties) = agreement::overlap(&hits, &agreement::from_dump(&file)?);
                let (log, mode) = (log.clone(), mode.clone());
                let agreement = Agreement { log, mode, engine, overlap, with_ties };
                self.found.agreements.push(agreement);
            }
        }
        Ok(())
    }

    /// Measures every engine on all cells of one query log. The engines take turns in each cell,
    /// and the order rotates from round to round.
    fn round(&mut self, data: &Data, queries: &Path, round: usize) -> Result<(), String> {
        let ours = self.options.ours.iter().copied().map(Turn::Ours);
        let theirs = self.peers.iter().copied().map(Turn::Theirs);
        let mut turns: Vec<Turn> = ours.chain(theirs).collect();
        let first = round % turns.len();
        turns.rotate_left(first);
        for (mode, k, counted) in self.cells() {
            let call = Call { queries, mode: &mode, k, reps: self.options.reps, counted };
            let cell = || Cell {
                corpus: data.name(),
                log: log_name(queries),
                mode: mode.clone(),
                k,
                counted,
            };
            eprintln!("round {}, {}", round + 1, report::name(&cell()));
            for &turn in &turns {
                self.found.loads.extend(engine::load_average());
                let figures = match turn {
                    Turn::Ours(order) => {
                        vec![self.ours.measure(order, &self.options, &data.corpus, &call)?]
                    }
                    Turn::Theirs(peer) if !peer.supports(&mode) => continue,
                    Turn::Theirs(peer) if counted && !peer.counts() => Vec::new(),
                    Turn::Theirs(peer) => peer.measure(&self.options, &data.corpus, &call)?,
                };
                if figures.is_empty() {
                    let name = turn.name();
                    self.found.note(format!(
                        "{name} or its runner does not return counts together with hits"
                    ));
                }
                self.found.samples.extend(figures.into_iter().map(|figure| Sample {
                    cell: cell(),
                    round,
                    engine: figure.engine,
                    mean_us: figure.mean_us,
                    p99_us: figure.p99_us,
                    by_words: figure.by_words,
                }));
            }
        }
        Ok(())
    }

    /// Returns modes and numbers of hits, and true if matches are counted. Counting is measured
    /// only where it costs the most relative to the hits: in OR mode with few hits.
    fn cells(&self) -> Vec<(String, usize, bool)> {
        let Options { modes, ks, .. } = &self.options;
        let with_ks =
            |mode: &String| ks.iter().map(|&k| (mode.clone(), k, false)).collect::<Vec<_>>();
        let mut cells: Vec<_> = modes.iter().flat_map(with_ks).collect();
        if self.ours.counts && modes.iter().any(|mode| mode == "or") {
            cells.push(("or".to_owned(), ks.iter().copied().min().unwrap_or(TOP), true));
        }
        cells
    }
}

fn log_name(queries: &Path) -> String {
    let name = queries.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    name.trim_start_matches("queries_").trim_start_matches("q_").to_owned()
}

//! `cargo xtask peers`: compares warpseek with other engines on the same tokens, in alternation.
//!
//! The runners of the other engines are not part of the repository; `--peers` names the folder that
//! contains them. Each runner takes `--corpus --queries --mode --k --threads --reps --dump` and
//! prints one JSON line per cell. A cell is a combination of a query log, a mode and a k.

mod agreement;
mod engine;
mod ngram;
mod options;
mod report;

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::json;

use agreement::Agreement;
use engine::{Call, Ours, Peer};
use options::{Data, Options, USAGE};
use report::{Cell, Sample, Size};

/// The engine name of our own figures.
const US: &str = "warpseek";

/// The number of hits that are compared for agreement.
const TOP: usize = 10;

/// All results.
#[derive(Default)]
struct Findings {
    samples: Vec<Sample>,
    agreements: Vec<Agreement>,
    sizes: Vec<Size>,
    notes: Vec<String>,
    loads: Vec<f64>,
}

impl Findings {
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            eprintln!("note: {text}");
            self.notes.push(text);
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

pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let args: Vec<String> = args.collect();
    if args.iter().any(|arg| arg == "--help") {
        println!("{USAGE}\n\n{}", ngram::USAGE);
        return Ok(());
    }
    if args.first().is_some_and(|arg| arg == "--ngram") {
        return ngram::run(args.into_iter().skip(1));
    }
    let options = Options::parse(args.into_iter())?;
    let mut comparison = Comparison::new(options)?;
    let outcome = comparison.measure();
    let Comparison { options, found, .. } = comparison;
    print!("{}", report::markdown(&found, &options));
    if let Some(file) = &options.json {
        let text = json!({
            "rounds": options.rounds, "reps": options.reps, "samples": found.samples,
            "agreements": found.agreements, "sizes": found.sizes, "notes": found.notes,
            "load_averages": found.loads,
        });
        fs::write(file, format!("{text:#}\n")).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    // Returned last, so that a failure late in a long run does not lose earlier results.
    outcome
}

impl Comparison {
    fn new(options: Options) -> Result<Comparison, String> {
        let mut found = Findings::default();
        let mut peers = Vec::new();
        for &peer in &options.engines {
            match peer.missing(&options.home) {
                None => peers.push(peer),
                Some(what) => {
                    let name = peer.name();
                    found.note(format!("{name} is not installed (no {what}) and is left out"));
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
        let bytes = self.ours.index(&data.corpus)?;
        self.found.sizes.push(Size { corpus: corpus.clone(), engine: US.to_owned(), bytes });
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
        // Remove dumps of another log, which would be mistaken for this one's.
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(error)?;
        }
        fs::create_dir_all(&scratch).map_err(error)?;
        for peer in &self.peers {
            let modes = peer.modes(&self.options.modes);
            if !modes.is_empty() {
                let call = Call { queries, modes: &modes, ks: &[TOP], reps: 1, counted: false };
                let prefix = scratch.join(peer.name());
                peer.measure(&self.options, &data.corpus, &call, Some(&prefix))?;
            }
        }
        for mode in &self.options.modes {
            let run = self.ours.hits(&data.corpus, queries, mode, TOP)?;
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

    /// Measures every engine on all cells of one query log. The engine that goes first changes from
    /// round to round.
    fn round(&mut self, data: &Data, queries: &Path, round: usize) -> Result<(), String> {
        let Options { modes, ks, reps, .. } = &self.options;
        let plain = Call { queries, modes, ks, reps: *reps, counted: false };
        // Counts are measured where they cost the most relative to the hits: in OR mode with few
        // hits.
        let or = ["or".to_owned()];
        let least = [ks.iter().copied().min().unwrap_or(TOP)];
        let counted = Call { modes: &or, ks: &least, counted: true, ..plain };
        let with_counts = self.ours.counts && modes.contains(&or[0]);
        let calls = if with_counts { vec![plain, counted] } else { vec![plain] };

        let peers = self.peers.iter().copied().map(Some);
        let mut turns: Vec<Option<Peer>> = std::iter::once(None).chain(peers).collect();
        let first = round % turns.len();
        turns.rotate_left(first);
        for turn in turns {
            let name = turn.map_or(US, Peer::name);
            eprintln!("{} {}: round {}, {name}", data.name(), log_name(queries), round + 1);
            self.found.loads.extend(engine::load_average());
            for call in &calls {
                let figures = match turn {
                    None => self.ours.measure(&data.corpus, call)?,
                    Some(peer) => {
                        let modes = peer.modes(call.modes);
                        let call = Call { modes: &modes, ..*call };
                        if modes.is_empty() {
                            continue;
                        } else if call.counted && !peer.counts() {
                            Vec::new()
                        } else {
                            peer.measure(&self.options, &data.corpus, &call, None)?
                        }
                    }
                };
                if figures.is_empty() {
                    self.found.note(format!(
                        "{name} or its runner does not return counts together with hits"
                    ));
                }
                self.found.samples.extend(figures.into_iter().map(|figure| Sample {
                    cell: Cell {
                        corpus: data.name(),
                        log: log_name(queries),
                        mode: figure.mode,
                        k: figure.k,
                        counted: call.counted,
                    },
                    round,
                    engine: figure.engine,
                    mean_us: figure.mean_us,
                    p99_us: figure.p99_us,
                }));
            }
        }
        Ok(())
    }
}

fn log_name(queries: &Path) -> String {
    let name = queries.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    name.trim_start_matches("queries_").trim_start_matches("q_").to_owned()
}

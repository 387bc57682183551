//! Computation of the tables from the samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::words::{self, Group};
use super::{Findings, REORDERED, REORDERED_PEER, US};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Cell {
    pub(super) corpus: String,
    pub(super) log: String,
    pub(super) mode: String,
    pub(super) k: usize,
    /// True if the exact number of matches was requested.
    pub(super) counted: bool,
}

/// The times of one engine on one cell in one round.
#[derive(Serialize, Deserialize)]
pub(super) struct Sample {
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) round: usize,
    pub(super) engine: String,
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
    /// Means by number of words, if they are known.
    #[serde(default)]
    pub(super) by_words: Vec<Group>,
}

impl Sample {
    fn with_words(&self, words: usize) -> Option<f64> {
        self.by_words.iter().find(|group| group.words == words).map(|group| group.mean_us)
    }
}

/// The size of the dictionary, postings and lengths in bytes.
#[derive(Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) corpus: String,
    pub(super) engine: String,
    pub(super) bytes: u64,
}

/// Our times relative to those of one engine on one cell.
#[derive(Clone, Debug, PartialEq)]
struct Ratio {
    engine: String,
    /// Median over rounds of our mean time divided by theirs in the same round; `p99` is computed
    /// in the same way.
    mean: f64,
    p99: f64,
    /// Our best round divided by theirs.
    best_mean: f64,
    best_p99: f64,
    /// Medians like `mean`, by number of words.
    by_words: BTreeMap<usize, f64>,
}

/// A cell with our times and all ratios.
struct Row {
    cell: Cell,
    mean_us: f64,
    p99_us: f64,
    ratios: Vec<Ratio>,
}

impl Row {
    /// Returns the engine that is hardest to beat, by the given column of the ratios.
    fn best(&self, column: impl Fn(&Ratio) -> f64) -> Option<&Ratio> {
        self.ratios.iter().max_by(|a, b| column(a).total_cmp(&column(b)))
    }

    fn worst_mean(&self) -> f64 {
        self.best(|r| r.mean).map_or(0.0, |r| r.mean)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (upper, lower) = (values.get(values.len() / 2)?, values.get((values.len() - 1) / 2)?);
    Some((upper + lower) / 2.0)
}

/// Returns the rows with at least one engine to compare with, the slowest ones relative to the
/// peers first.
fn rows(samples: &[Sample]) -> Vec<Row> {
    let cells: BTreeSet<&Cell> = samples.iter().map(|s| &s.cell).collect();
    let ours = [US, REORDERED];
    let engines: BTreeSet<&str> =
        samples.iter().map(|s| &*s.engine).filter(|e| !ours.contains(e)).collect();
    let mut rows: Vec<Row> =
        cells.into_iter().filter_map(|cell| row(samples, cell, &engines)).collect();
    // The sort is stable, so equal ratios keep the order of cells.
    rows.sort_by(|a, b| b.worst_mean().total_cmp(&a.worst_mean()));
    rows
}

/// Returns our forms to compare an engine with, in order of preference. An engine that reorders
/// documents is compared with our reordered index, if that was measured.
fn counterpart(engine: &str) -> [&'static str; 2] {
    if engine == REORDERED_PEER { [REORDERED, US] } else { [US, REORDERED] }
}

fn row(samples: &[Sample], cell: &Cell, engines: &BTreeSet<&str>) -> Option<Row> {
    let samples_of = |engine: &str| -> Vec<&Sample> {
        samples.iter().filter(|s| s.engine == engine && s.cell == *cell).collect()
    };
    let first =
        |names: [&str; 2]| names.map(samples_of).into_iter().find(|found| !found.is_empty());
    let ratios: Vec<Ratio> = engines
        .iter()
        .filter_map(|engine| ratio(engine, &first(counterpart(engine))?, &samples_of(engine)))
        .collect();
    let ours = first([US, REORDERED])?;
    let mean_us = median(ours.iter().map(|s| s.mean_us).collect())?;
    let p99_us = median(ours.iter().map(|s| s.p99_us).collect())?;
    (!ratios.is_empty()).then(|| Row { cell: cell.clone(), mean_us, p99_us, ratios })
}

fn ratio(engine: &str, ours: &[&Sample], theirs: &[&Sample]) -> Option<Ratio> {
    let over_rounds = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let pairs =
            ours.iter().filter_map(|a| Some((a, theirs.iter().find(|b| b.round == a.round)?)));
        median(pairs.filter_map(|(a, b)| Some(value(a)? / value(b)?)).collect())
    };
    let best = |value: fn(&Sample) -> f64| {
        let least = |samples: &[&Sample]| samples.iter().map(|s| value(s)).fold(f64::MAX, f64::min);
        least(ours) / least(theirs)
    };
    let with_words =
        |words: usize| Some((words, over_rounds(&|sample: &Sample| sample.with_words(words))?));
    Some(Ratio {
        engine: engine.to_owned(),
        mean: over_rounds(&|sample| Some(sample.mean_us))?,
        p99: over_rounds(&|sample| Some(sample.p99_us))?,
        best_mean: best(|sample| sample.mean_us),
        best_p99: best(|sample| sample.p99_us),
        by_words: (1..=words::MOST).filter_map(with_words).collect(),
    })
}

/// Returns the arithmetic mean of ratios. A lost cell raises it more than a won one lowers it.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Formats a ratio with two digits, in bold if we are slower.
fn shown(ratio: f64) -> String {
    if ratio > 1.0 { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
}

pub(super) fn markdown(found: &Findings) -> String {
    let rows = rows(&found.samples);
    let mut out = String::new();
    let write = &mut out;
    // Writing to a string cannot fail.
    let _ = best_peers(write, &rows, found);
    let _ = by_corpus(write, &rows);
    let _ = by_words(write, &rows);
    let _ = all_peers(write, &rows);
    let _ = agreement(write, found);
    let _ = sizes(write, &found.sizes);
    let _ = remarks(write, found);
    out
}

fn best_peers(out: &mut String, rows: &[Row], found: &Findings) -> std::fmt::Result {
    writeln!(out, "## {US} compared with its best peer in each cell\n")?;
    writeln!(
        out,
        "One thread, warm; best of {} passes per query, then mean and p99 over queries. Ratio: our time divided by theirs, median of {} rounds; \
         below 1 we are faster; in brackets, the ratio of the best rounds. {REORDERED_PEER} is compared with {REORDERED}. Slowest cells first.\n",
        found.reps, found.rounds
    )?;
    writeln!(
        out,
        "| corpus | queries | mode | k | mean us | best peer | ratio | p99 us | best peer at p99 | ratio |"
    )?;
    writeln!(out, "|---|---|---|--:|--:|---|--:|--:|---|--:|")?;
    let (mut means, mut tails) = (Vec::new(), Vec::new());
    for row in rows {
        let (Some(by_mean), Some(by_p99)) = (row.best(|r| r.mean), row.best(|r| r.p99)) else {
            continue;
        };
        let (mean_us, p99_us) = (row.mean_us, row.p99_us);
        let (a, b) = (&by_mean.engine, &by_p99.engine);
        let mean = format!("{} ({:.2})", shown(by_mean.mean), by_mean.best_mean);
        let p99 = format!("{} ({:.2})", shown(by_p99.p99), by_p99.best_p99);
        writeln!(
            out,
            "| {} | {mean_us:.1} | {a} | {mean} | {p99_us:.1} | {b} | {p99} |",
            name(&row.cell)
        )?;
        means.push(by_mean.mean);
        tails.push(by_p99.p99);
    }
    let lost = |ratios: &[f64]| ratios.iter().filter(|r| **r > 1.0).count();
    writeln!(
        out,
        "\n{} cells. Mean ratio {:.3} for means, {:.3} for p99; lost: {} by mean, {} by p99.\n",
        rows.len(),
        mean(&means),
        mean(&tails),
        lost(&means),
        lost(&tails),
    )
}

/// Writes a table with one row for each collection, in which all cells have the same weight.
fn by_corpus(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(out, "## Means over the cells of a corpus, best peer in each\n")?;
    writeln!(out, "| corpus | cells | mean | worst | p99 | worst |\n|---|--:|--:|--:|--:|--:|")?;
    let corpora: BTreeSet<&str> = rows.iter().map(|row| &*row.cell.corpus).collect();
    for corpus in corpora {
        let best = |column: fn(&Ratio) -> f64| -> Vec<f64> {
            let rows = rows.iter().filter(|row| row.cell.corpus == corpus);
            rows.filter_map(|row| row.best(column)).map(column).collect()
        };
        let worst = |ratios: &[f64]| shown(ratios.iter().copied().fold(0.0, f64::max));
        let (means, tails) = (best(|r| r.mean), best(|r| r.p99));
        let (cells, mean_of, tail) = (means.len(), shown(mean(&means)), shown(mean(&tails)));
        let (mean_worst, tail_worst) = (worst(&means), worst(&tails));
        writeln!(out, "| {corpus} | {cells} | {mean_of} | {mean_worst} | {tail} | {tail_worst} |")?;
    }
    writeln!(out)
}

/// Writes a table of the mean ratios to the best peer, by number of words.
fn by_words(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    let heads: Vec<String> = (1..=words::MOST).map(words::name).collect();
    writeln!(out, "## Means by number of words, best peer in each\n")?;
    writeln!(out, "| corpus | queries | mode | k | {} |", heads.join(" | "))?;
    writeln!(out, "|---|---|---|--:|{}", "---|".repeat(heads.len()))?;
    for row in rows.iter().filter(|row| row.ratios.iter().any(|r| !r.by_words.is_empty())) {
        write!(out, "| {} |", name(&row.cell))?;
        for words in 1..=words::MOST {
            let value = |ratio: &Ratio| ratio.by_words.get(&words).copied().unwrap_or(0.0);
            match row.best(value).filter(|ratio| value(ratio) > 0.0) {
                Some(best) => write!(out, " {} {} |", shown(value(best)), best.engine)?,
                None => write!(out, " |")?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

/// Formats the first four columns of a row.
pub(super) fn name(cell: &Cell) -> String {
    let counted = if cell.counted { " + count" } else { "" };
    format!("{} | {} | {}{counted} | {}", cell.corpus, cell.log, cell.mode.to_uppercase(), cell.k)
}

fn all_peers(out: &mut String, rows: &[Row]) -> std::fmt::Result {
    let engines: BTreeSet<&str> = rows.iter().flat_map(|r| &r.ratios).map(|r| &*r.engine).collect();
    let columns: Vec<&str> = engines.iter().copied().collect();
    writeln!(out, "## Ratios to every peer: means / p99\n")?;
    writeln!(out, "| corpus | queries | mode | k | {} |", columns.join(" | "))?;
    writeln!(out, "|---|---|---|--:|{}", "--:|".repeat(engines.len()))?;
    for row in rows {
        write!(out, "| {} |", name(&row.cell))?;
        for engine in &engines {
            match row.ratios.iter().find(|r| r.engine == *engine) {
                Some(ratio) => write!(out, " {} / {} |", shown(ratio.mean), shown(ratio.p99))?,
                None => write!(out, " |")?,
            }
        }
        writeln!(out)?;
    }
    writeln!(out)
}

fn agreement(out: &mut String, found: &Findings) -> std::fmt::Result {
    writeln!(
        out,
        "## Shared documents in the top 10: plain / with ties with the last hit counted as equal\n"
    )?;
    writeln!(out, "| queries | mode | peer | overlap |\n|---|---|---|--:|")?;
    for a in &found.agreements {
        let (log, mode, engine) = (&a.log, a.mode.to_uppercase(), &a.engine);
        writeln!(out, "| {log} | {mode} | {engine} | {:.3} / {:.3} |", a.overlap, a.with_ties)?;
    }
    writeln!(out)
}

fn sizes(out: &mut String, sizes: &[Size]) -> std::fmt::Result {
    writeln!(out, "## Index: dictionary, postings, lengths\n")?;
    writeln!(out, "| corpus | engine | MB | ours / theirs |\n|---|---|--:|--:|")?;
    for size in sizes {
        let ours = sizes.iter().find(|s| s.corpus == size.corpus && s.engine == US);
        let ratio = ours.map_or(0.0, |ours| ours.bytes as f64 / size.bytes as f64);
        let megabytes = size.bytes as f64 / 1e6;
        writeln!(out, "| {} | {} | {megabytes:.1} | {} |", size.corpus, size.engine, shown(ratio))?;
    }
    writeln!(out)
}

fn remarks(out: &mut String, found: &Findings) -> std::fmt::Result {
    for note in &found.notes {
        writeln!(out, "- {note}")?;
    }
    let least = found.loads.iter().copied().fold(f64::MAX, f64::min);
    let most = found.loads.iter().copied().fold(0.0, f64::max);
    if !found.loads.is_empty() {
        writeln!(
            out,
            "- load average of the machine before each turn: {least:.1} to {most:.1} (of which 1.0 is ours)"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(k: usize) -> Cell {
        let (corpus, log, mode) = ("c".to_owned(), "l".to_owned(), "or".to_owned());
        Cell { corpus, log, mode, k, counted: false }
    }

    fn sample(k: usize, round: usize, engine: &str, mean_us: f64) -> Sample {
        let (engine, p99_us) = (engine.to_owned(), 2.0 * mean_us);
        let group = Group { words: 2, queries: 1, mean_us: 4.0 * mean_us };
        Sample { cell: cell(k), round, engine, mean_us, p99_us, by_words: vec![group] }
    }

    #[test]
    fn median_of_even_and_odd_numbers_of_values() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0]), Some(5.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn a_ratio_is_the_median_over_rounds_and_never_mixes_rounds() {
        // The ratios are 0.5, 2 and 0.25; the median of our times divided by that of theirs would
        // be 20 / 20.
        let samples = [
            sample(10, 0, US, 10.0),
            sample(10, 0, "a", 20.0),
            sample(10, 1, US, 20.0),
            sample(10, 1, "a", 10.0),
            sample(10, 2, US, 30.0),
            sample(10, 2, "a", 120.0),
            // A round in which only one of the two was measured has no ratio.
            sample(10, 3, US, 1000.0),
        ];
        let rows = rows(&samples);
        assert_eq!(rows.len(), 1);
        let (engine, by_words) = ("a".to_owned(), BTreeMap::from([(2, 0.5)]));
        // The best rounds take 10 and 10, even though they are different rounds.
        let (best_mean, best_p99) = (1.0, 1.0);
        let expected = Ratio { engine, mean: 0.5, p99: 0.5, best_mean, best_p99, by_words };
        assert_eq!(rows[0].ratios, [expected]);
        assert_eq!(rows[0].mean_us, 25.0);
    }

    #[test]
    fn lost_cells_come_first_with_their_best_peer() {
        let mut samples = Vec::new();
        for (k, slow, fast) in [(1, 40.0, 20.0), (2, 40.0, 5.0), (3, 12.5, 50.0)] {
            samples.push(sample(k, 0, US, 10.0));
            samples.push(sample(k, 0, "a", slow));
            samples.push(sample(k, 0, "b", fast));
        }
        // A cell without peers has no row.
        samples.push(sample(4, 0, US, 10.0));
        let rows = rows(&samples);
        let order: Vec<_> =
            rows.iter().map(|r| (r.cell.k, r.best(|r| r.mean).unwrap().engine.clone())).collect();
        assert_eq!(order, [(2, "b".to_owned()), (3, "a".to_owned()), (1, "b".to_owned())]);
        assert_eq!(rows[0].worst_mean(), 2.0);
    }

    #[test]
    fn a_reordered_peer_is_compared_with_our_reordered_index() {
        let mut samples = vec![
            sample(1, 0, US, 10.0),
            sample(1, 0, "a", 20.0),
            sample(1, 0, REORDERED_PEER, 5.0),
        ];
        let ratio = |samples: &[Sample], engine: &str| {
            let rows = rows(samples);
            rows[0].ratios.iter().find(|r| r.engine == engine).unwrap().mean
        };
        assert_eq!(ratio(&samples, REORDERED_PEER), 2.0);
        samples.push(sample(1, 0, REORDERED, 4.0));
        assert_eq!((ratio(&samples, REORDERED_PEER), ratio(&samples, "a")), (0.8, 0.5));
        assert_eq!(rows(&samples)[0].ratios.len(), 2, "our own forms are not peers");
    }

    #[test]
    fn results_are_read_back() {
        let mut found = Findings { rounds: 1, reps: 2, ..Findings::default() };
        found.samples.extend([sample(1, 0, US, 10.0), sample(1, 0, "a", 20.0)]);
        let text = serde_json::to_string(&found).unwrap();
        let mut twice: Findings = serde_json::from_str(&text).unwrap();
        assert_eq!(markdown(&twice), markdown(&found));
        twice.append(serde_json::from_str(&text).unwrap());
        let rounds: Vec<_> = twice.samples.iter().map(|sample| sample.round).collect();
        assert_eq!(rounds, [0, 0, 1, 1]);
    }

    #[test]
    fn the_tables_show_lost_cells() {
        let mut found = Findings::default();
        for (k, theirs) in [(1, 5.0), (2, 20.0)] {
            found.samples.extend([sample(k, 0, US, 10.0), sample(k, 0, "a", theirs)]);
        }
        found.sizes.push(Size { corpus: "c".to_owned(), engine: US.to_owned(), bytes: 3_000_000 });
        found.sizes.push(Size { corpus: "c".to_owned(), engine: "a".to_owned(), bytes: 4_000_000 });
        let text = markdown(&found);
        for line in [
            "| c | l | OR | 1 | 10.0 | a | **2.00** (2.00) | 20.0 | a | **2.00** (2.00) |",
            "| c | l | OR | 2 | 10.0 | a | 0.50 (0.50) | 20.0 | a | 0.50 (0.50) |",
            "| c | 2 | **1.25** | **2.00** | **1.25** | **2.00** |",
            "| c | l | OR | 1 | | **2.00** a | | | | |",
            "2 cells. Mean ratio 1.250 for means, 1.250 for p99; lost: 1 by mean, 1 by p99.",
            "| c | a | 4.0 | 0.75 |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}

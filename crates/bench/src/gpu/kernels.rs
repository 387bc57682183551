//! The `--kernels` part of `bench gpu`: a breakdown of the time between a query's text and its
//! hits into copies, fills and kernels of a round, and the host. Rounds run one after the other
//! here, so that their times add up.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use warpseek_console::Failure;
use warpseek_console::terminal::{count, table};
use warpseek_cuda::Step;
use warpseek_exec::{Answer, Mode, Plan};
use warpseek_exec_gpu::GpuEngine;
use warpseek_exec_gpu_papers::CountedEngine;

use super::measurement::{Bench, Setting, check, postings_of};
use super::{one_round_at_a_time, search_all};
use crate::statistics::median;

/// Shares of the GPU's time in OR (Ding 2009, table 3): initialization, decompression, scoring,
/// the best k.
const TABLE_3: [f64; 4] = [0.09, 0.30, 0.48, 0.13];

/// Names of the steps before scores are computed, and of the one after.
const INITIAL: [&str; 3] = ["copy in", "copy", "fill"];
const COPY_OUT: &str = "copy out";

/// Name of the kernel that selects the best k of the hits of all items.
const MERGE: &str = "merge";

/// Name of the row for the time of a run outside of all steps: planning, preparing rounds,
/// submitting them to the device, waiting, and reading hits.
const HOST: &str = "host";

/// Grouping of the queries that are sent to the engine.
#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Way {
    /// All queries in one batch.
    Batch,
    /// Each query alone.
    Alone,
}

/// The steps of one setting.
#[derive(Serialize)]
pub(super) struct Cell {
    #[serde(flatten)]
    setting: Setting,
    way: Way,
    queries: usize,
    /// Microseconds per query, from text to hits: the sum of all steps.
    us: f64,
    /// Mean time of a query without a trace, when rounds may overlap.
    usual_us: f64,
    steps: Vec<Row>,
    /// The CPU's hits for the first queries.
    #[serde(skip)]
    expected: Vec<Answer>,
}

/// A kernel, or all copies or fills, or the host.
#[derive(Serialize, Clone, Debug, Default, PartialEq)]
struct Row {
    name: String,
    /// Number of occurrences in a run.
    times: usize,
    /// Microseconds per query. All following fields except rates are per query, too.
    us: f64,
    /// Share of the time from text to hits.
    share: f64,
    /// Postings of all lists per second, read or not, for kernels only.
    postings_per_s: Option<f64>,
    /// Bytes read and written on the device; for copies in and out, bytes copied.
    bytes: Option<f64>,
    bytes_per_s: Option<f64>,
    /// `bytes_per_s` as a fraction of the rate at which copies on the device read and write.
    of_copy: Option<f64>,
}

/// Shares of the device's time in OR, beside (Ding 2009, table 3). Lists are not compressed, and
/// the kernels that compute scores also keep the best k of each item, so that these steps have one
/// share.
#[derive(Serialize, Clone, Copy, Debug, PartialEq)]
pub(crate) struct Table3 {
    /// Copies to the device and fills.
    pub(crate) initialization: f64,
    /// Scores, and the best k of each item.
    pub(crate) scoring: f64,
    /// The best k of all items, and copies of hits to the host.
    pub(crate) best_k: f64,
    /// The paper's shares: initialization, decompression, scoring, the best k.
    pub(crate) paper: [f64; 4],
}

impl Table3 {
    /// Returns the shares of a cell, if it has the best k apart: an OR of several queries at a
    /// time. A single query merges its hits in the kernel that computes its scores.
    pub(super) fn of(cell: &Cell) -> Option<Table3> {
        let is_or = cell.setting.mode == Mode::Or && cell.way == Way::Batch;
        is_or.then(|| Table3::of_steps(&cell.steps))
    }

    fn of_steps(steps: &[Row]) -> Table3 {
        let sum = |is_part: &dyn Fn(&str) -> bool| -> f64 {
            steps.iter().filter(|step| is_part(&step.name)).map(|step| step.us).sum()
        };
        let all = sum(&|name| name != HOST).max(1e-9);
        let best_k = sum(&|name| name == MERGE || name == COPY_OUT) / all;
        let initialization = sum(&|name| INITIAL.contains(&name)) / all;
        let scoring = 1.0 - best_k - initialization;
        Table3 { initialization, scoring, best_k, paper: TABLE_3 }
    }
}

impl Way {
    fn queries<'a>(self, bench: &Bench<'a>) -> &'a [&'a str] {
        match self {
            Way::Batch => bench.queries,
            Way::Alone => &bench.queries[..bench.options.singles.min(bench.queries.len())],
        }
    }

    /// Answers the queries, from text to hits.
    fn ask(
        self,
        bench: &Bench<'_>,
        Setting { mode, k, .. }: Setting,
        search: impl Fn(&[Plan]) -> Result<Vec<Answer>, Failure>,
    ) -> Result<Vec<Answer>, Failure> {
        let queries = self.queries(bench);
        match self {
            Way::Batch => search(&bench.plans(queries, mode, k, &bench.context)?),
            Way::Alone => {
                let mut answers = Vec::with_capacity(queries.len());
                for text in queries {
                    answers.extend(search(&[bench.plan(text, mode, k)?])?);
                }
                Ok(answers)
            }
        }
    }
}

/// Measures the steps of a cell, in a batch and one query at a time. Without a trace, these take
/// `usual_us` per query. `expected` are the answers to all queries.
pub(super) fn time(
    bench: &Bench<'_>,
    engine: &GpuEngine,
    setting: Setting,
    usual_us: [f64; 2],
    expected: &[Answer],
    copy: f64,
) -> Result<Vec<Cell>, Failure> {
    let engine = one_round_at_a_time(engine);
    let measure = |(way, usual_us): (Way, f64)| {
        let queries = way.queries(bench).len();
        let plans = bench.plans(way.queries(bench), setting.mode, setting.k, &bench.context)?;
        let postings = postings_of(&plans);
        let trace = bench.device.trace();
        let mut runs = Vec::new();
        for round in 0..=bench.options.rounds {
            let start = Instant::now();
            let answers =
                way.ask(bench, setting, |plans| search_all(&engine, plans, &bench.context))?;
            let whole = start.elapsed();
            let steps = trace.take()?;
            check(expected, &answers, "has different hits when steps are timed")?;
            if round > 0 {
                runs.push((whole, steps));
            }
        }
        let steps = rows(&runs, queries, postings, copy);
        let us = steps.iter().map(|step| step.us).sum();
        let expected = expected[..bench.options.cpu.min(queries)].to_vec();
        Ok(Cell { setting, way, queries, us, usual_us, steps, expected })
    };
    [Way::Batch, Way::Alone].into_iter().zip(usual_us).map(measure).collect()
}

/// Adds the bytes that kernels move, which are counted in separate runs.
pub(super) fn count_moved(
    bench: &Bench<'_>,
    engine: &CountedEngine,
    mut cells: Vec<Cell>,
    copy: f64,
) -> Result<Vec<Cell>, Failure> {
    for cell in &mut cells {
        engine.take_moved()?;
        let search = |plans: &[Plan]| -> Result<Vec<Answer>, Failure> {
            let plans: Vec<&Plan> = plans.iter().collect();
            Ok(engine.search(&plans, &bench.context).into_iter().collect::<Result<_, _>>()?)
        };
        let answers = cell.way.ask(bench, cell.setting, search)?;
        let moved = engine.take_moved()?;
        check(&cell.expected, &answers, "has different hits when bytes are counted")?;
        for row in &mut cell.steps {
            if let Some((_, bytes)) = moved.iter().find(|(name, _)| **name == *row.name) {
                row.set_bytes(*bytes as f64 / cell.queries as f64, copy);
            }
        }
        eprintln!("{}", json!(cell));
    }
    Ok(cells)
}

/// Returns medians over runs; each run is given as its time from text to hits and its steps.
fn rows(runs: &[(Duration, Vec<Step>)], queries: usize, postings: u64, copy: f64) -> Vec<Row> {
    let of_query = |time: Duration| time.as_secs_f64() * 1e6 / queries.max(1) as f64;
    let mut names: Vec<&Arc<str>> = Vec::new();
    for step in runs.iter().flat_map(|(_, steps)| steps) {
        if !names.contains(&&step.name) {
            names.push(&step.name);
        }
    }
    let mut rows = Vec::new();
    for name in names {
        let total = |steps: &[Step]| -> (Duration, u64, usize) {
            let matching = steps.iter().filter(|step| step.name == *name);
            matching.fold((Duration::ZERO, 0, 0), |(time, bytes, times), step| {
                (time + step.time, bytes + step.bytes, times + 1)
            })
        };
        let mut times: Vec<Duration> = runs.iter().map(|(_, steps)| total(steps).0).collect();
        let time = median(&mut times);
        let (_, bytes, times) =
            runs.last().map_or_else(Default::default, |(_, steps)| total(steps));
        let mut row = Row { name: name.to_string(), times, us: of_query(time), ..Row::default() };
        if bytes > 0 {
            row.set_bytes(bytes as f64 / queries.max(1) as f64, copy);
        } else {
            row.postings_per_s = Some(postings as f64 / time.as_secs_f64().max(1e-9));
        }
        rows.push(row);
    }
    let rest = |(whole, steps): &(Duration, Vec<Step>)| {
        whole.saturating_sub(steps.iter().map(|step| step.time).sum())
    };
    let mut times: Vec<Duration> = runs.iter().map(rest).collect();
    rows.push(Row { name: HOST.to_owned(), us: of_query(median(&mut times)), ..Row::default() });
    let whole: f64 = rows.iter().map(|row| row.us).sum();
    for row in &mut rows {
        row.share = row.us / whole.max(1e-9);
    }
    rows
}

impl Row {
    fn set_bytes(&mut self, bytes: f64, copy: f64) {
        let rate = bytes / (self.us / 1e6).max(1e-12);
        (self.bytes, self.bytes_per_s, self.of_copy) = (Some(bytes), Some(rate), Some(rate / copy));
    }
}

pub(super) fn print(cells: &[Cell], copy: f64, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "\nSteps of rounds that run one after the other, medians; postings of all lists, read or not; bytes of memory in sectors of 32, some of which caches may have served; \
         copies on the device read and write {:.2} TB/s",
        copy / 1e12
    )?;
    for cell in cells {
        let Setting { tile_bits, at_once, mode, k } = cell.setting;
        let at_once = at_once.map_or(String::new(), |docs| format!(", {docs} at once"));
        let way = match cell.way {
            Way::Batch => "in a batch",
            Way::Alone => "one at a time",
        };
        writeln!(
            out,
            "\n{mode}, k = {k}, tiles of {}{at_once}: {} queries {way}, {:.2} us each when rounds may overlap and no step is timed",
            1u64 << tile_bits,
            count(cell.queries as u64),
            cell.usual_us
        )?;
        let head = [
            "step",
            "times",
            "us/query",
            "share",
            "10^9 postings/s",
            "KB/query",
            "GB/s",
            "of copy",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        let figure = |value: Option<f64>, unit: f64| {
            value.map_or("-".to_owned(), |value| format!("{:.1}", value / unit))
        };
        for row in &cell.steps {
            rows.push(vec![
                row.name.clone(),
                if row.name == HOST { "-".to_owned() } else { count(row.times as u64) },
                format!("{:.2}", row.us),
                format!("{:.1}%", 100.0 * row.share),
                figure(row.postings_per_s, 1e9),
                figure(row.bytes, 1e3),
                figure(row.bytes_per_s, 1e9),
                row.of_copy.map_or("-".to_owned(), |part| format!("{:.1}%", 100.0 * part)),
            ]);
        }
        rows.push(vec![
            "from text to hits".to_owned(),
            String::new(),
            format!("{:.2}", cell.us),
            "100.0%".to_owned(),
        ]);
        table(&rows, out)?;
    }
    for cell in cells {
        let Some(table_3) = Table3::of(cell) else { continue };
        writeln!(
            out,
            "\nTable 3 of Ding 2009, shares of the GPU's time in OR, k = {}. Here lists are not compressed, and one kernel computes scores and the best k of an item. For AND see --intersect.",
            cell.setting.k
        )?;
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let [start, decompression, scoring, best_k] = TABLE_3.map(percent);
        let head = ["", "initialization", "decompression", "scoring", "the best k"];
        let here = [table_3.initialization, table_3.scoring, table_3.best_k].map(percent);
        let rows = [
            head.map(String::from).to_vec(),
            vec!["paper".to_owned(), start, decompression, scoring, best_k],
            vec![
                "here".to_owned(),
                here[0].clone(),
                "none".to_owned(),
                here[1].clone(),
                here[2].clone(),
            ],
        ];
        table(&rows, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, bytes: u64, us: u64) -> Step {
        Step { name: name.into(), bytes, time: Duration::from_micros(us) }
    }

    #[test]
    fn the_shares_of_table_3_are_those_of_the_device() {
        let row = |name: &str, us: f64| Row { name: name.to_owned(), us, ..Row::default() };
        let steps = [
            row("copy in", 6.0),
            row("fill", 4.0),
            row("or_tiles", 60.0),
            row(MERGE, 20.0),
            row("copy out", 10.0),
            row(HOST, 500.0),
        ];
        let found = Table3::of_steps(&steps);
        assert_eq!((found.initialization, found.best_k), (0.1, 0.3));
        assert!((found.scoring - 0.6).abs() < 1e-12);
    }

    /// Checks the sums within runs, the medians over runs, and that shares add up to 1.
    #[test]
    fn steps_and_host_add_up() {
        let run = |whole: u64, kernel: u64| {
            let steps = vec![
                step("copy in", 4000, 10),
                step("k", 0, kernel),
                step("copy in", 1000, 30),
                step("k", 0, 100),
            ];
            (Duration::from_micros(whole), steps)
        };
        let rows = rows(&[run(1000, 100), run(5000, 900), run(1200, 300)], 10, 8000, 1e9);
        let seen: Vec<(&str, usize, f64)> =
            rows.iter().map(|row| (&*row.name, row.times, row.us)).collect();
        // Kernels took 200, 1000 and 400, the host 760, 3960 and 760.
        assert_eq!(seen, [("copy in", 2, 4.0), ("k", 2, 40.0), (HOST, 0, 76.0)]);
        let shares: Vec<f64> = rows.iter().map(|row| row.share).collect();
        assert_eq!(shares, [4.0 / 120.0, 40.0 / 120.0, 76.0 / 120.0]);
        // 5000 bytes in 40 us, 8000 postings in 400 us.
        assert_eq!((rows[0].bytes, rows[0].bytes_per_s), (Some(500.0), Some(125e6)));
        assert_eq!((rows[0].of_copy, rows[0].postings_per_s), (Some(0.125), None));
        assert_eq!((rows[1].bytes, rows[1].postings_per_s), (None, Some(20e6)));
        assert_eq!((rows[2].bytes, rows[2].postings_per_s), (None, None));
    }
}

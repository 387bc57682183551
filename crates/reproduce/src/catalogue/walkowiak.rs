//! Walkowiak and others, 2010.

use serde_json::{Value, json};

use super::{Entry, Plot, Points};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::{Wanted, pick};

/// Numbers of n-grams that may be missing.
const MISSES: [u32; 5] = [0, 3, 6, 9, 12];

/// The hybrids: labels, and names in reports.
const HYBRIDS: [(&str, &str); 2] =
    [("CPU gathers, GPU prunes", "cpu, then gpu"), ("GPU gathers, CPU prunes", "gpu, then cpu")];

pub(super) fn entries() -> Vec<Entry> {
    vec![table_1(), figure_2(), figure_3(), by_sums(), by_means()]
}

fn table_1() -> Entry {
    let columns = MISSES.map(|misses| misses.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |paper: [f64; 5], engine: &'static str, field: &'static str, factor: f64| {
        let cell = |(i, misses): (usize, u32)| {
            let wanted = vec![("engine", json!(engine)), ("misses", json!(misses))];
            Cell::new(paper[i], pick("/suite/by_misses", wanted, field, factor))
        };
        MISSES.into_iter().enumerate().map(cell).collect::<Vec<_>>()
    };
    let bins = [80.0, 99.0, 140.0, 191.0, 245.0];
    let mut grid = Grid::new(&["value", "engine"], &columns, "ms, and %").row(
        &["ms", "CPU, bins"],
        "ngram-long",
        row(bins, "counting", "bins_ms", 1.0),
    );
    for (label, engine) in HYBRIDS {
        let times = [51.0, 102.0, 166.0, 239.0, 320.0];
        grid = grid.row(&["ms", label], "ngram-long-gpu", row(times, engine, "ms", 1.0));
    }
    for (label, engine) in HYBRIDS {
        let speedups = [66.4, 91.8, 108.5, 114.5, 120.5];
        let cells = row(speedups, engine, "mean_speedup", 100.0);
        grid = grid.row(&["average speedup, %", label], "ngram-long-gpu", cells);
    }
    for (label, engine) in HYBRIDS {
        let rates = [12.7, 35.1, 51.5, 59.2, 66.5];
        let cells = row(rates, engine, "success", 100.0);
        grid = grid.row(&["success rate, %", label], "ngram-long-gpu", cells);
    }
    Entry::new("table 1", "the hybrid beside bins on the CPU, by missing n-grams", grid).note(
        "Speedups are means over single queries, and the success rate is the share of queries that the hybrid answers faster. The printed times fit the printed speedups only if their two rows are exchanged. Our queries have 8 to 110 characters, as those of the paper.",
    )
}

fn figure_2() -> Entry {
    let mut grid = Grid::new(&["engine"], &["mean speedup"], "speedup over the baseline");
    grid = grid.row(&["CPU, bins"], "ngram-long", vec![Cell::unprinted(means("bins"))]);
    for (label, engine) in HYBRIDS {
        let cells = vec![Cell::unprinted(means(engine))];
        grid = grid.row(&[label], "ngram-long-gpu", cells);
    }
    Entry::new("figure 2", "speedup of the hybrid by the time of the baseline", grid)
        .plot(Plot::Scatter {
            steps: &["ngram-long", "ngram-long-gpu"],
            units: ("ms of the baseline", "times as fast"),
            log: (true, true),
            lines: false,
            points: hybrids,
        })
        .note("The paper has plots without numbers; each point is a query.")
}

/// Figure 3 and the last two entries: the printed numbers of the CPU with bins, and of the GPU.
const BINS_MEAN: f64 = 7.0;
const GPU_MEAN: f64 = 18.2;

fn figure_3() -> Entry {
    let grid = Grid::new(&["engine"], &["mean speedup"], "speedup over the baseline")
        .row(&["CPU, bins"], "ngram", vec![Cell::new(BINS_MEAN, means("bins"))])
        .row(&["GPU, list by list"], "ngram-gpu", vec![Cell::new(GPU_MEAN, means("gpu baseline"))])
        .row(&["GPU, bins"], "ngram-gpu", vec![Cell::unprinted(means("gpu bins"))]);
    Entry::new("figure 3", "speedup of CPU and GPU by the time of the baseline", grid)
        .plot(Plot::Scatter {
            steps: &["ngram", "ngram-gpu"],
            units: ("ms of the baseline", "times as fast"),
            log: (true, true),
            lines: false,
            points: published,
        })
        .note("Each point is a query; the printed numbers are the means.")
}

/// Reads a field of the total of an engine.
fn total(engine: &str, field: &'static str) -> Reader {
    let wanted: Wanted = vec![("engine", json!(engine))];
    pick("/suite/totals", wanted, field, 1.0)
}

fn means(engine: &str) -> Reader {
    total(engine, "mean_speedup")
}

/// The engines of the totals: label, name in reports, step.
const ENGINES: [(&str, &str, &str); 6] = [
    ("CPU, baseline", "baseline", "ngram"),
    ("CPU, bins", "bins", "ngram"),
    ("CPU, ours", "counting", "ngram"),
    ("GPU, list by list", "gpu baseline", "ngram-gpu"),
    ("GPU, bins", "gpu bins", "ngram-gpu"),
    ("GPU, ours", "gpu counting", "ngram-gpu"),
];

fn by_sums() -> Entry {
    let papers = [
        (Some(260.2), Some(1.0)),
        (Some(63.1), Some(4.1)),
        (None, None),
        (Some(13.6), Some(19.0)),
        (None, None),
        (None, None),
    ];
    let mut grid = Grid::new(&["engine"], &["s", "speedup"], "s for the suite, and speedup");
    for ((label, engine, step), (seconds, speedup)) in ENGINES.into_iter().zip(papers) {
        let cells = vec![
            Cell::new(seconds, total(engine, "seconds")),
            Cell::new(speedup, total(engine, "speedup")),
        ];
        grid = grid.row(&[label], step, cells);
    }
    Entry::new("total by sums", "1,232 queries over 1.6 million records", grid).note(
        "Queries have 7 to 75 characters; ours have 0, 3, 6, 9 and 12 missing n-grams in turn. The paper estimates 15 to 18 times the CPU with bins for the GPU with bins, which it had not built: 60 to 74 times the baseline.",
    )
}

fn by_means() -> Entry {
    let papers = [Some(1.0), Some(BINS_MEAN), None, Some(GPU_MEAN), None, None];
    let mut grid = Grid::new(&["engine"], &["mean speedup"], "speedup over the baseline");
    for ((label, engine, step), paper) in ENGINES.into_iter().zip(papers) {
        grid = grid.row(&[label], step, vec![Cell::new(paper, means(engine))]);
    }
    Entry::new("total by means", "the mean of the speedups of the single queries", grid)
        .note("The same queries as for the sums.")
}

/// Returns a point for each query of some engines. If the report is that of a GPU, the engines on
/// the CPU are left out, since the other report has them.
fn points(report: &Value, wanted: &[&str], split: bool) -> Points {
    let mut all = Points::new();
    let engines =
        || report.pointer("/suite/points").and_then(Value::as_array).into_iter().flatten();
    let name = |series: &Value| series.get("engine").and_then(Value::as_str).map(str::to_owned);
    let on_gpu = engines().filter_map(name).any(|engine| engine.contains("gpu"));
    for series in engines() {
        let Some(engine) = name(series) else { continue };
        if !wanted.contains(&engine.as_str()) || on_gpu && !engine.contains("gpu") {
            continue;
        }
        let numbers = |field: &str| -> Vec<f64> {
            let values = series.get(field).and_then(Value::as_array).into_iter().flatten();
            values.filter_map(Value::as_f64).collect()
        };
        let (times, speedups) = (numbers("first_ms"), numbers("speedups"));
        let misses = numbers("misses");
        for ((ms, speedup), misses) in times.into_iter().zip(speedups).zip(misses) {
            let name = if split { format!("{engine}, {misses} misses") } else { engine.clone() };
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push((ms, speedup)),
                None => all.push((name, vec![(ms, speedup)])),
            }
        }
    }
    all
}

fn hybrids(report: &Value) -> Points {
    points(report, &["cpu, then gpu", "bins"], true)
}

fn published(report: &Value) -> Points {
    points(report, &["bins", "gpu baseline", "gpu bins"], false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_grouped_by_engine_and_misses() {
        let series = |engine: &str| json!({"engine": engine, "misses": [0, 3], "first_ms": [8, 4], "speedups": [2, 3]});
        let cpu = json!({"suite": {"points": [series("bins"), series("counting")]}});
        let both = json!({"suite": {"points": [series("bins"), series("cpu, then gpu")]}});
        let found = hybrids(&cpu);
        assert_eq!(found[1], ("bins, 3 misses".to_owned(), vec![(4.0, 3.0)]));
        assert_eq!(published(&cpu), [("bins".to_owned(), vec![(8.0, 2.0), (4.0, 3.0)])]);
        assert_eq!(hybrids(&both)[0].0, "cpu, then gpu, 0 misses");
        assert!(published(&both).is_empty());
    }
}

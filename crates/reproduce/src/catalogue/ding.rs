//! Ding, He, Yan and Suel, 2009.

use serde_json::{Value, json};

use super::{Entry, Plot, Points};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::{at, pick, weighted};

/// Microseconds in milliseconds.
const MS: f64 = 1e-3;
const MILLION: f64 = 1e-6;

pub(super) fn entries() -> Vec<Entry> {
    vec![figure_3(), table_1(), figure_4(), figure_6(), table_2(), table_3(), figure_7()]
}

/// Codecs by the names in the paper.
const CODECS: [(&str, &str); 7] = [
    ("Rice", "rice"),
    ("PForDelta, b per block", "pfd"),
    ("PForDelta, b per list, no recursion", "pfor0"),
    ("1 level of recursion", "pfor"),
    ("2 levels", "pfor2"),
    ("3 levels", "pfor3"),
    ("4 levels", "pfor4"),
];

fn codec(name: &str) -> Vec<(&'static str, Value)> {
    vec![("codec", json!(name))]
}

fn figure_3() -> Entry {
    let mut grid = Grid::new(&["method"], &["bytes per docID"], "bytes per docID");
    for (label, name) in CODECS {
        let ours = weighted("/cells", codec(name), ("bytes_per_doc", "postings"), false, 1.0);
        grid = grid.row(&[label], "codecs", vec![Cell::unprinted(ours)]);
    }
    Entry::new("figure 3", "compressed size of a docID", grid)
        .plot(Plot::Bars { log: false })
        .note("The paper has bars without numbers: Rice is the smallest, and one level of recursion is slightly smaller than one b for each block. Our skip array is not counted.")
}

fn table_1() -> Entry {
    let columns = ["CPU", "GPU"];
    let mut grid = Grid::new(&["algorithm", "measured on"], &columns, "million integers/s");
    for (label, name, paper) in
        [("Rice", "rice", [310.63, 305.27]), ("PForDelta", "pfor", [1165.13, 1237.57])]
    {
        let fields = ("decode_docs_per_s", "postings");
        let on_cpu = weighted("/cells", codec(name), fields, true, MILLION);
        let cells = vec![Cell::new(paper[0], on_cpu), Cell { paper: None, ours: None }];
        grid = grid.row(&[label, "CPU"], "codecs", cells);
        let fields = ("docs_per_s", "postings");
        let on_gpu = weighted("/cells", codec(name), fields, true, MILLION);
        let cells = vec![Cell { paper: None, ours: None }, Cell::new(paper[1], on_gpu)];
        grid = grid.row(&[label, "GPU"], "codecs-gpu", cells);
    }
    Entry::new("table 1", "decompression speed", grid).note(
        "Both of our decoders compute docIDs; the paper's CPU decodes gaps only. Ours is one core, and vectorised.",
    )
}

/// Lengths of the lists, as `bench gpu --codecs` names them, and the class of `bench codecs` that
/// contains them.
const LENGTHS: [(&str, &str); 6] = [
    ("1,000", "1,000-9,999"),
    ("8,000", "1,000-9,999"),
    ("64,000", "10,000-99,999"),
    ("512,000", "100,000+"),
    ("4,000,000", "100,000+"),
    ("12,000,000", "100,000+"),
];

fn figure_4() -> Entry {
    let columns = LENGTHS.map(|(length, _)| length);
    let mut grid = Grid::new(&["PForDelta"], &columns, "million integers/s");
    let cells = |own: &dyn Fn(&'static str, &'static str) -> Reader, last: Option<f64>| {
        let at = LENGTHS.iter().enumerate();
        let paper = |i: usize| last.filter(|_| i + 1 == LENGTHS.len());
        at.map(|(i, &(length, class))| Cell::new(paper(i), own(length, class))).collect::<Vec<_>>()
    };
    let of = |lists: &str, field| {
        let wanted = vec![("codec", json!("pfor")), ("lists", json!(lists))];
        pick("/cells", wanted, field, MILLION)
    };
    let own = |_: &'static str, class: &'static str| of(class, "decode_docs_per_s");
    grid = grid.row(&["CPU"], "codecs", cells(&own, None));
    let own = |length: &'static str, _: &'static str| of(length, "docs_per_s");
    grid = grid.row(&["GPU, docIDs"], "codecs-gpu", cells(&own, None));
    let own = |length: &'static str, _: &'static str| of(length, "gaps_per_s");
    grid = grid.row(&["GPU, gaps alone"], "codecs-gpu", cells(&own, Some(2500.0)));
    Entry::new("figure 4", "decompression speed by length of list", grid)
        .plot(Plot::Curves { across: "postings in a list", log: (true, false) })
        .note("The paper prints one number, up to 2.5 billion gaps/s on long lists. Our CPU decodes lists of the index in classes: 1,000 to 9,999, 10,000 to 99,999, and 100,000 or more postings. Our GPU decodes many lists of one length at once.")
}

fn figure_6() -> Entry {
    let columns = ["5,000", "50,000", "500,000", "4,000,000", "16,000,000"];
    let mut grid = Grid::new(&["levels"], &columns, "ns per integer");
    for level in 0..=4 {
        let label = match level {
            0 => "direct".to_owned(),
            level => level.to_string(),
        };
        let cell = |column: usize| {
            let paper = (level == 3 && column >= 3).then_some(4.0);
            Cell::new(paper, at(format!("/merge_find/{column}/ns/{level}"), 1.0))
        };
        let cells = (0..columns.len()).map(cell).collect();
        grid = grid.row(&[&label], "intersect-gpu", cells);
    }
    Entry::new("figure 6", "intersection of two lists of one length", grid)
        .plot(Plot::Curves { across: "integers in a list", log: (true, true) })
        .note("The paper prints one number: below 4 ns on long lists, with three levels of recursion the best overall.")
}

const MODES: [(&str, &str, [f64; 2]); 3] = [
    ("AND", "and", [8.71, 7.66]),
    ("OR", "or", [212.72, 29.31]),
    ("AND+OR", "and-or", [23.85, 9.98]),
];

fn table_2() -> Entry {
    let columns = MODES.map(|(label, ..)| label);
    let mut grid = Grid::new(&["device", "algorithm"], &columns, "ms per query");
    for (label, algorithm) in [("chosen by cost", "auto"), ("DAAT, as in the paper", "daat")] {
        let cells = MODES.map(|(_, mode, [cpu, _])| {
            let wanted = vec![("algorithm", json!(algorithm)), ("mode", json!(mode))];
            Cell::new(cpu, pick("/cells", wanted, "mean_us", MS))
        });
        grid = grid.row(&["CPU", label], "queries", cells.into());
    }
    let of = |field, label, grid: Grid| {
        let cells = MODES.map(|(_, mode, [_, gpu])| {
            Cell::new(gpu, pick("/table_2", vec![("mode", json!(mode))], field, 1.0))
        });
        grid.row(&["GPU", label], "queries-gpu", cells.into())
    };
    grid = of("gpu_ms", "one query at a time", grid);
    grid = of("gpu_batch_ms", "in a batch", grid);
    Entry::new("table 2", "time of a query, top 10", grid).note(
        "On both sides the lists are in memory, on the GPU in its own. Ours skip postings that cannot be among the best, unless the row says DAAT.",
    )
}

fn table_3() -> Entry {
    let columns = [
        "top-k and scoring",
        "intersection",
        "decompression",
        "initialization",
        "scoring",
        "top-k",
    ];
    let none = || Cell { paper: None, ours: None };
    let phases = |paper: f64, of: [usize; 2]| {
        Cell::new(
            paper,
            Box::new(move |report: &Value| {
                let share = |i: usize| report.pointer(&format!("/queries/phases/{i}/1"))?.as_f64();
                Some(100.0 * (share(of[0])? + if of[1] == of[0] { 0.0 } else { share(of[1])? }))
            }),
        )
    };
    let and = vec![
        phases(8.0, [4, 4]),
        phases(45.0, [1, 3]),
        phases(47.0, [0, 2]),
        none(),
        none(),
        none(),
    ];
    let share =
        |paper: f64, field: &str| Cell::new(paper, at(format!("/table_3/0/{field}"), 100.0));
    let or = vec![
        none(),
        none(),
        Cell { paper: Some(30.0), ours: None },
        share(9.0, "initialization"),
        share(48.0, "scoring"),
        share(13.0, "best_k"),
    ];
    let grid = Grid::new(&["mode"], &columns, "% of the time on the GPU")
        .row(&["AND"], "intersect-gpu", and)
        .row(&["OR"], "queries-gpu", or);
    Entry::new("table 3", "shares of the steps of a query on the GPU", grid).note(
        "For AND, our share of decompression contains the look-ups and the scores, which one kernel does. For OR, our lists are not compressed on the device, and one kernel computes scores and the best of a part of the documents; the last column is the best k of all parts.",
    )
}

fn figure_7() -> Entry {
    let configurations = [
        ("CPU only", "cpu", "load", Some(100.0)),
        ("GPU only", "gpu", "load-gpu", None),
        ("better of both, one at a time", "better", "load-gpu", None),
        ("both in parallel", "both", "load-gpu", Some(300.0)),
    ];
    let columns = ["deadline 500 ms", "deadline 50 ms"];
    let mut grid = Grid::new(&["configuration"], &columns, "highest sustained queries/s, AND");
    for (label, name, step, paper) in configurations {
        let of = |deadline: f64| {
            let wanted = vec![
                ("configuration", json!(name)),
                ("deadline_ms", json!(deadline)),
                ("sustained", json!(true)),
            ];
            pick("/rows", wanted, "rate", 1.0)
        };
        let cells = vec![Cell::new(paper, of(500.0)), Cell::unprinted(of(50.0))];
        grid = grid.row(&[label], step, cells);
    }
    Entry::new("figure 7", "queries under a deadline", grid)
        .plot(Plot::Scatter {
            steps: &["load", "load-gpu"],
            units: ("queries/s that arrive", "median ms"),
            log: (true, true),
            lines: true,
            points: delays,
        })
        .note("The paper says less than 100 queries/s for the CPU and beyond 300 for both, and plots mean delays of a simulation with one core and a deadline of 500 ms. Ours is a service on all cores, measured; the plot has medians.")
}

/// Returns the median delay by rate, for each configuration with a deadline of 500 ms.
fn delays(report: &Value) -> Points {
    let mut all = Points::new();
    for row in report.pointer("/rows").and_then(Value::as_array).into_iter().flatten() {
        let number = |name: &str| row.get(name).and_then(Value::as_f64);
        let (Some(500.0), Some(rate), Some(ms)) =
            (number("deadline_ms"), number("rate"), number("p50_ms"))
        else {
            continue;
        };
        let name = row.get("configuration").and_then(Value::as_str).unwrap_or_default();
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push((rate, ms)),
            None => all.push((name.to_owned(), vec![(rate, ms)])),
        }
    }
    all.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    all
}

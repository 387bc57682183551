//! Agrawal, Dee and Lebeck, 2016.

use serde_json::{Value, json};

use super::{Entry, How, Plot, Points};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::{Wanted, at, greatest, pick};

/// Numbers of queries in a cohort.
const COHORTS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Numbers of documents in a tile.
const TILES: [u32; 5] = [100_000, 250_000, 500_000, 1_000_000, 2_000_000];

/// Queries times documents in billions.
const BILLION: f64 = 1e-9;

pub(super) fn entries() -> Vec<Entry> {
    vec![
        figure_2(),
        table_1(),
        figure_6(),
        figure_7(),
        figure_8(),
        table_2(),
        figure_9(),
        section_6_5(),
    ]
}

fn figure_2() -> Entry {
    // A cohort of 256 queries, from plans to hits.
    let on_gpu: Reader = Box::new(|report| {
        let wanted = fields("cohort", 256, Some(500_000));
        Some(256.0 * 1e3 / pick("/cells", wanted, "qps", 1.0)(report)?)
    });
    let vendor: Reader = Box::new(|report| {
        let ways = report.pointer("/spmm/ways")?.as_array()?;
        let times = ways.iter().filter_map(|way| way.get("product_s")?.as_f64());
        times.reduce(f64::min).map(|seconds| 1e3 * seconds)
    });
    let ours = at("/spmm/warpseek_s", 1e3);
    let grid = Grid::new(&["product"], &["ms"], "ms for 256 queries")
        .row(&["op_host: ours on the CPU"], "spmm", vec![Cell::unprinted(ours)])
        .row(&["MKL (or SciPy), the product alone"], "spmm", vec![Cell::unprinted(vendor)])
        .row(&["op_acc: ours on the GPU"], "cohorts-gpu", vec![Cell::unprinted(on_gpu)])
        .lacking(&["cuSPARSE"], &[None]);
    Entry::new("figure 2", "a cohort as a product of sparse matrices", grid)
        .plot(Plot::Bars { log: true })
        .note("The paper has bars without numbers: 256 queries on a tile of 500,000 documents. Ours is the whole collection and includes the best k; `scripts/spmm.py --backend cupy` measures cuSPARSE on the matrices of `bench cohorts --matrices`.")
}

fn table_1() -> Entry {
    let columns = ["CPU cores", "multiprocessors of the GPU", "GPU memory, GB"];
    let (titan, maxwell) = ([Some(14.0), Some(6.0)], [Some(5.0), Some(6.0)]);
    let mut grid = Grid::new(&["platform"], &columns, "number");
    let platforms = [
        ("Xeon: 2 x E5-2650v2", Some(16.0), [None, None]),
        ("ARM: Tegra K1", Some(4.0), [None, None]),
        ("Xeon + Titan", Some(16.0), titan),
        ("Xeon + Maxwell", Some(16.0), maxwell),
        ("SoC + Titan, modelled", None, titan),
        ("SoC + Maxwell, modelled", None, maxwell),
    ];
    for (label, cores, [processors, memory]) in platforms {
        grid = grid.lacking(&[label], &[cores, processors, memory]);
    }
    let cells = vec![
        Cell { paper: None, ours: None },
        Cell::unprinted(at("/devices/0/multiprocessors", 1.0)),
        Cell::unprinted(at("/devices/0/memory_bytes", 1e-9)),
    ];
    let grid = grid.row(&["this machine"], "devices-gpu", cells);
    Entry::new("table 1", "platforms", grid)
        .how(How::Listed)
        .note("A list of hardware; the CPU of this machine is beside each command of the page.")
}

/// Returns the fields of a measurement of cohorts.
fn fields(engine: &str, cohort: u32, tile: Option<u32>) -> Wanted {
    let mut wanted = vec![("engine", json!(engine)), ("cohort", json!(cohort))];
    wanted.extend(tile.map(|tile| ("tile", json!(tile))));
    wanted
}

/// The engines: label, name in reports, step.
const ENGINES: [(&str, &str, &str); 2] =
    [("CPU", "CPU", "cohorts"), ("GPU", "cohort", "cohorts-gpu")];

fn figure_6() -> Entry {
    let columns = TILES.map(|tile| tile.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut grid = Grid::new(&["device", "cohort"], &columns, "10^9 queries x documents/s");
    for (label, engine, step) in ENGINES {
        for cohort in COHORTS {
            let cell = |tile| {
                let wanted = fields(engine, cohort, Some(tile));
                Cell::unprinted(greatest("/cells", wanted, "work_per_s", BILLION))
            };
            grid = grid.row(&[label, &cohort.to_string()], step, TILES.map(cell).into());
        }
    }
    Entry::new("figure 6", "performance by sizes of cohorts and tiles", grid)
        .plot(Plot::Curves { across: "documents in a tile", log: (true, true) })
        .note("The paper has plots without numbers: for the Xeon large cohorts and small tiles are best, for the Titan large ones of both.")
}

/// Reads the best value of an engine over all tiles, relative to that of another one.
fn over(own: (&'static str, u32), other: (&'static str, u32), field: &'static str) -> Reader {
    Box::new(move |report| {
        let best = |(engine, cohort): (&str, u32)| {
            greatest("/cells", fields(engine, cohort, None), field, 1.0)(report)
        };
        Some(best(own)? / best(other)?)
    })
}

/// Returns the cohort on the CPU beside which one of this size is shown.
type Beside = fn(u32) -> u32;

fn figure_7() -> Entry {
    let columns = COHORTS.map(|cohort| cohort.to_string());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |paper: [Option<f64>; 6], engine, beside: Beside, field| {
        let cell = |(i, cohort): (usize, u32)| {
            Cell::new(paper[i], over((engine, cohort), ("CPU", beside(cohort)), field))
        };
        COHORTS.into_iter().enumerate().map(cell).collect::<Vec<_>>()
    };
    let (one, same): (Beside, Beside) = (|_| 1, |cohort| cohort);
    let (work, energy, none) = ("work_per_s", "work_per_joule", [None; 6]);
    let titan = [Some(1.09), None, None, Some(2.5), None, None];
    let joules = [Some(1.21), None, None, None, None, None];
    let grid = Grid::new(&["value", "processor"], &columns, "ratio")
        .row(&["work/s over one query on the CPU", "CPU"], "cohorts", row(none, "CPU", one, work))
        .row(
            &["work/s over one query on the CPU", "GPU"],
            "cohorts-gpu",
            row(none, "cohort", one, work),
        )
        .row(
            &["work/s over the CPU, same cohort", "GPU (Titan in the paper)"],
            "cohorts-gpu",
            row(titan, "cohort", same, work),
        )
        .row(&["work/J over one query on the CPU", "CPU"], "cohorts", row(none, "CPU", one, energy))
        .row(
            &["work/J over the CPU, same cohort", "GPU (Titan in the paper)"],
            "cohorts-gpu",
            row(joules, "cohort", same, energy),
        )
        .lacking(
            &["work/s over the CPU, same cohort", "Maxwell"],
            &[Some(1.5), None, None, None, None, None],
        )
        .lacking(
            &["work/s over the CPU, same cohort", "ARM"],
            &[None, None, None, Some(0.07), None, None],
        )
        .lacking(
            &["work/J over the CPU, same cohort", "Maxwell"],
            &[Some(3.0), None, None, Some(3.5), None, None],
        )
        .lacking(
            &["work/J over the CPU, same cohort", "ARM"],
            &[None, None, None, Some(3.0), None, None],
        );
    Entry::new("figure 7", "throughput and efficiency by size of cohort", grid)
        .plot(Plot::Bars { log: true })
        .note("The paper prints more than 2.5 for the Titan and more than 3.5 for the Maxwell with a cohort of 64, and its ARM is compared with Xeon in the same cohort. Energy is that of the counters that the machine lets the program read.")
}

/// The platforms of table 2, in the order of the plan.
const PLATFORMS: [&str; 6] =
    ["Xeon", "Arm", "Xeon + Maxwell", "Xeon + Titan", "SoC + Maxwell", "SoC + Titan"];

/// The workloads of table 2: the label, and cohort, documents in thousands, machines and kW of
/// each platform.
const WORKLOADS: [(&str, [[f64; 4]; 6]); 2] = [
    (
        "1,000 queries/s",
        [
            [1.0, 56_000.0, 893.0, 146.0],
            [8.0, 800.0, 7813.0, 23.0],
            [32.0, 5500.0, 285.0, 52.0],
            [32.0, 5500.0, 285.0, 62.0],
            [32.0, 4000.0, 391.0, 14.0],
            [32.0, 4000.0, 391.0, 27.0],
        ],
    ),
    (
        "25,000 queries/s",
        [
            [256.0, 1300.0, 3757.0, 611.0],
            [128.0, 100.0, 97_657.0, 320.0],
            [128.0, 5500.0, 1776.0, 419.0],
            [128.0, 8500.0, 1149.0, 323.0],
            [128.0, 3000.0, 3256.0, 218.0],
            [128.0, 6000.0, 1628.0, 183.0],
        ],
    ),
];

/// Returns the JSON pointer of a field of a platform in the report of the plan.
fn planned(workload: usize, platform: usize, field: &str) -> String {
    format!("/workloads/{workload}/platforms/{platform}/{field}")
}

fn table_2() -> Entry {
    let columns = ["C", "n, thousand documents", "machines", "kW"];
    let fields =
        [("cohort", 1.0), ("documents_per_machine", 1e-3), ("machines", 1.0), ("kilowatts", 1.0)];
    let mut grid = Grid::new(&["workload", "platform"], &columns, "as in the heads");
    for (w, (workload, rows)) in WORKLOADS.into_iter().enumerate() {
        for (p, platform) in PLATFORMS.into_iter().enumerate() {
            let cell = |(column, (field, factor)): (usize, (&str, f64))| {
                Cell::new(rows[p][column], at(planned(w, p, field), factor))
            };
            let cells = fields.into_iter().enumerate().map(cell).collect();
            grid = grid.row(&[workload, platform], "plan", cells);
        }
    }
    Entry::new("table 2", "machines and power for a billion documents in 50 ms", grid)
        .how(How::Computed)
        .note("The model of the paper derives machines and power from its inputs (cohorts, documents and watts); n is that of CPU and accelerator together. `warpseek plan` adds current hardware, and takes your measurements.")
}

/// Returns work per machine relative to the first platform, and work per joule relative to the
/// second.
fn relative(workload: usize, platform: usize) -> [Reader; 2] {
    let work = move |report: &Value, platform: usize| {
        at(planned(workload, platform, "work_per_machine"), 1.0)(report)
    };
    let per_watt = move |report: &Value, platform: usize| {
        Some(
            work(report, platform)?
                / at(planned(workload, platform, "machine_watts"), 1.0)(report)?,
        )
    };
    [
        Box::new(move |report| Some(work(report, platform)? / work(report, 0)?)),
        Box::new(move |report| Some(per_watt(report, platform)? / per_watt(report, 1)?)),
    ]
}

fn figure_8() -> Entry {
    let columns = ["throughput over the Xeon", "work per joule over the ARM"];
    let mut grid = Grid::new(&["workload", "platform"], &columns, "ratio");
    for (w, (workload, _)) in WORKLOADS.into_iter().enumerate() {
        for (p, platform) in PLATFORMS.into_iter().enumerate() {
            let paper = match (w, p) {
                (0, 4) => [Some(2.2), Some(1.7)],
                (1, 5) => [Some(2.3), Some(1.75)],
                _ => [None, None],
            };
            let [throughput, efficiency] = relative(w, p);
            let cells = vec![Cell::new(paper[0], throughput), Cell::new(paper[1], efficiency)];
            grid = grid.row(&[workload, platform], "plan", cells);
        }
    }
    Entry::new("figure 8", "throughput and efficiency under a deadline of 50 ms", grid)
        .how(How::Computed)
        .plot(Plot::Scatter {
            steps: &["plan"],
            units: ("work per joule over the ARM", "throughput over the Xeon"),
            log: (true, true),
            lines: true,
            points: efficiencies,
        })
        .note("The paper normalises to other cohorts of Xeon and ARM than those of table 2, from which ours is computed, and prints four of the numbers.")
}

fn efficiencies(report: &Value) -> Points {
    let mut all = Points::new();
    for (w, (workload, _)) in WORKLOADS.into_iter().enumerate() {
        for (p, platform) in PLATFORMS.into_iter().enumerate() {
            let [throughput, efficiency] = relative(w, p);
            if let (Some(x), Some(y)) = (efficiency(report), throughput(report)) {
                all.push((format!("{platform}, {workload}"), vec![(x, y)]));
            }
        }
    }
    all
}

/// Prices of the Xeon in dollars, and their positions in the plan's list.
const PRICES: [(&str, usize); 3] = [("$500", 0), ("$3000", 25), ("$6000", 55)];

fn figure_9() -> Entry {
    let columns = PRICES.map(|(price, _)| price);
    let mut grid = Grid::new(&["workload", "platform"], &columns, "cost over that of the Xeon");
    for (w, (workload, _)) in WORKLOADS.into_iter().enumerate() {
        for (p, platform) in PLATFORMS.into_iter().enumerate().skip(1) {
            let paper = match (w, p) {
                (0, 1) => [None, Some(0.27), None],
                (0, 2) => [Some(0.44), None, None],
                (0, 4) => [Some(1.0 / 3.0), Some(1.0 / 15.0), None],
                (1, 3) => [Some(0.7), Some(0.5), None],
                (1, 5) => [Some(0.7), Some(0.2), None],
                _ => [None; 3],
            };
            let cell = |(column, (_, position)): (usize, (&str, usize))| {
                let field = format!("ratios/{position}");
                Cell::new(paper[column], at(planned(w, p, &field), 1.0))
            };
            let cells = PRICES.into_iter().enumerate().map(cell).collect();
            grid = grid.row(&[workload, platform], "plan", cells);
        }
    }
    Entry::new("figure 9", "cost of ownership by the price of the Xeon", grid)
        .how(How::Computed)
        .plot(Plot::Scatter {
            steps: &["plan"],
            units: ("price of the Xeon, $", "cost over that of the Xeon"),
            log: (false, true),
            lines: true,
            points: costs,
        })
        .note("The printed values are those that the text has: 73% cheaper, more than 15 times cheaper (SoC + Maxwell at $3000), and so on; at 25,000 queries/s the Xeon is cheaper than the ARM below $2400. Prices of 2016 cannot be measured.")
}

fn costs(report: &Value) -> Points {
    let numbers = |pointer: String| -> Vec<f64> {
        let values = report.pointer(&pointer).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_f64).collect()
    };
    let mut all = Points::new();
    for (w, (workload, _)) in WORKLOADS.into_iter().enumerate() {
        let prices = numbers(format!("/workloads/{w}/prices"));
        for (p, platform) in PLATFORMS.into_iter().enumerate().skip(1) {
            let ratios = numbers(planned(w, p, "ratios"));
            let points: Vec<(f64, f64)> = prices.iter().copied().zip(ratios).collect();
            if !points.is_empty() {
                all.push((format!("{platform}, {workload}"), points));
            }
        }
    }
    all
}

fn section_6_5() -> Entry {
    let columns = [
        "Mbit/s of a node at 5,120 queries/s",
        "bytes of a query and its hits",
        "queries in a cohort",
    ];
    let fields = ["at_paper_rate_mbit_per_s", "bytes_per_query", "cohort_queries"];
    let row = |paper: [Option<f64>; 3], size: u32| {
        let cell = |(column, field): (usize, &'static str)| {
            let wanted = vec![("cohort_size", json!(size)), ("hedging", json!(false))];
            Cell::new(paper[column], pick("/rows", wanted, field, 1.0))
        };
        fields.into_iter().enumerate().map(cell).collect::<Vec<_>>()
    };
    // A query has 20 bytes, and each of 32 hits has 8.
    let paper = [Some(11.0), Some(276.0), Some(256.0)];
    let grid = Grid::new(&["queries"], &columns, "as in the heads")
        .row(&["in cohorts of up to 256"], "network", row(paper, 256))
        .row(&["each sent alone"], "network", row([None; 3], 1));
    Entry::new("section 6.5", "network of a service node, k = 32", grid)
        .note("The paper computes 11 Mbit/s from 8 bytes for each of 2.4 terms and of 32 hits, for cohorts of 256 queries every 50 ms. Ours are all bytes of the connection between aggregator and node, measured at the rate of the command: the texts of the queries, the statistics of the collection, hits with their external ids, and the frames of gRPC. Cohorts are as large as arrivals make them.")
}

//! Wakatsuki, Keyaki and Miyazaki, 2016.

use serde_json::Value;

use super::{Entry, How, Plot};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::at;

/// Sizes of the texts.
const SIZES: [&str; 5] = ["100 MB", "200 MB", "300 MB", "400 MB", "500 MB"];

/// The text whose steps the paper shows.
const MIDDLE: usize = 2;

pub(super) fn entries() -> Vec<Entry> {
    vec![table_1(), figure_3(), ratios(), figure_4(), figure_5()]
}

fn table_1() -> Entry {
    let paper: [[f64; 4]; 5] = [
        [17_881_505.0, 24_411.0, 11_029_756.0, 447_663.0],
        [35_767_202.0, 48_725.0, 22_074_419.0, 687_255.0],
        [53_651_412.0, 73_163.0, 33_119_396.0, 882_477.0],
        [71_532_437.0, 97_683.0, 44_123_823.0, 1_051_534.0],
        [89_409_102.0, 122_178.0, 55_165_752.0, 1_203_716.0],
    ];
    let columns = ["words", "documents", "pairs of word and document", "distinct words"];
    let fields = ["words", "documents", "pairs", "terms"];
    let mut grid = Grid::new(&["text"], &columns, "number");
    for (i, size) in SIZES.into_iter().enumerate() {
        let cell = |(column, field): (usize, &str)| {
            Cell::new(paper[i][column], at(format!("/results/counts/{i}/{field}"), 1.0))
        };
        let cells = fields.into_iter().enumerate().map(cell).collect();
        grid = grid.row(&[size], "weights", cells);
    }
    Entry::new("table 1", "the texts", grid).note(
        "Texts of both are artificial, with log-normal lengths; a formula gives our frequencies of words. In a quick run the texts have 2 to 10 MB.",
    )
}

/// The methods that we have: label, name in reports, step.
const METHODS: [(&str, &str, &str); 4] = [
    ("CPU, strings", "CPU, strings", "weights"),
    ("CPU, ids", "CPU, ids", "weights"),
    ("PP: GPU, strings", "GPU, strings", "weights-gpu"),
    ("PPD: GPU, ids", "GPU, ids", "weights-gpu"),
];

/// Returns the measurement of a method on the text at this position.
fn cell<'a>(report: &'a Value, method: &str, text: usize) -> Option<&'a Value> {
    let cells = report.pointer("/results/cells")?.as_array()?;
    let mut of_method = cells.iter().filter(|cell| cell.get("method").is_some_and(|m| m == method));
    of_method.nth(text)
}

/// Reads the seconds of a method on the text at this position.
fn seconds(method: &'static str, text: usize) -> Reader {
    Box::new(move |report| cell(report, method, text)?.get("seconds")?.as_f64())
}

fn figure_3() -> Entry {
    let mut grid = Grid::new(&["method"], &SIZES, "s");
    for (label, method, step) in METHODS {
        let cells = (0..SIZES.len()).map(|text| Cell::unprinted(seconds(method, text))).collect();
        grid = grid.row(&[label], step, cells);
    }
    grid = grid.lacking(&["MRP: Phoenix++ on 8 CPU threads"], &[None; 5]);
    grid = grid.lacking(&["MRM: Mars on the GPU"], &[None; 5]);
    Entry::new("figure 3", "time of the weights of a text", grid)
        .plot(Plot::Curves { across: "MB", log: (false, false) })
        .note("The paper has bars without numbers; from text in memory to weights in memory. Its MapReduce methods have no counterpart here: our CPU methods use all cores.")
}

fn ratios() -> Entry {
    let range = |slow: &'static str, fast: &'static str, most: bool| -> Reader {
        Box::new(move |report| {
            let ratio = |text| Some(seconds(slow, text)(report)? / seconds(fast, text)(report)?);
            let all = (0..SIZES.len()).filter_map(ratio);
            all.reduce(if most { f64::max } else { f64::min })
        })
    };
    let row = |paper: [f64; 2], slow, fast| {
        vec![
            Cell::new(paper[0], range(slow, fast, false)),
            Cell::new(paper[1], range(slow, fast, true)),
        ]
    };
    let grid = Grid::new(&["method", "over"], &["least", "most"], "speedup over all texts")
        .row(
            &["PPD: GPU, ids", "PP: GPU, strings"],
            "weights-gpu",
            row([3.8, 4.5], "GPU, strings", "GPU, ids"),
        )
        .row(
            &["PPD: GPU, ids", "CPU (MRP in the paper)"],
            "weights-gpu",
            row([5.0, 5.1], "CPU, ids", "GPU, ids"),
        );
    Entry::new("speedups of figure 3", "the ratios that the text prints", grid)
        .note("Our CPU method uses ids on all cores, and is faster than MapReduce.")
}

fn figure_4() -> Entry {
    let columns = ["map", "shuffle", "reduce", "merge", "copies"];
    let grid = Grid::new(&["method"], &columns, "s")
        .lacking(&["MRP: Phoenix++ on 8 CPU threads"], &[None; 5])
        .lacking(&["MRM: Mars on the GPU"], &[None; 5]);
    Entry::new("figure 4", "steps of the MapReduce methods, 300 MB", grid)
        .how(How::Missing)
        .plot(Plot::Bars { log: false })
        .note("The paper has bars without numbers. `warpseek weights` has no method that imitates MapReduce, so nothing is measured.")
}

/// Steps of the GPU: labels, and names in reports.
const STEPS: [(&str, &str); 9] = [
    ("htod", "copy in"),
    ("steps 1, 2", "words (1, 2)"),
    ("step 3", "lengths (3)"),
    ("ID", "ids"),
    ("step 4", "sort (4)"),
    ("step 5", "tf (5)"),
    ("steps 6, 7", "df (6, 7)"),
    ("step 8", "weights (8)"),
    ("dtoh", "copy out"),
];

/// Returns the milliseconds of the steps with these names.
fn ms(report: &Value, method: &str, wanted: impl Fn(&str) -> bool) -> Option<f64> {
    let steps = cell(report, method, MIDDLE)?.get("steps")?.as_array()?;
    let step = |step: &Value| Some((step.get(0)?.as_str()?.to_owned(), step.get(1)?.as_f64()?));
    let found: Vec<f64> =
        steps.iter().filter_map(step).filter(|(name, _)| wanted(name)).map(|s| s.1).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

fn figure_5() -> Entry {
    let mut columns: Vec<&str> = STEPS.iter().map(|(label, _)| *label).collect();
    columns.push("ID, % without copies");
    let mut grid = Grid::new(&["method"], &columns, "ms");
    for (label, method) in [("PP", "GPU, strings"), ("PPD", "GPU, ids")] {
        let step = |(_, name): (&str, &'static str)| -> Cell {
            Cell::unprinted(Box::new(move |report| ms(report, method, |step| step == name)))
        };
        let mut cells: Vec<Cell> = STEPS.into_iter().map(step).collect();
        let share: Reader = Box::new(move |report| {
            let ids = ms(report, method, |step| step == "ids")?;
            Some(100.0 * ids / ms(report, method, |step| !step.starts_with("copy"))?)
        });
        cells.push(match method {
            "GPU, ids" => Cell::new(45.0, share),
            _ => Cell { paper: None, ours: None },
        });
        grid = grid.row(&[label], "weights-gpu", cells);
    }
    Entry::new("figure 5", "steps of the methods with primitives, 300 MB", grid)
        .plot(Plot::Bars { log: false })
        .note("The paper has bars without numbers, and prints the share of the translation to ids. In a quick run the text has 6 MB.")
}

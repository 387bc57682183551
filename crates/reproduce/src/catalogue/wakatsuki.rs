//! Wakatsuki, Keyaki and Miyazaki, 2016.

use serde_json::Value;

use super::{Entry, Plot};
use crate::grid::{Cell, Grid, Reader};
use crate::readers::at;

/// Sizes of the texts.
const SIZES: [&str; 5] = ["100 MB", "200 MB", "300 MB", "400 MB", "500 MB"];

/// The text whose steps the paper shows.
const MIDDLE: usize = 2;

pub(super) fn entries() -> Vec<Entry> {
    vec![table_1(), figure_3(), ratios(), figure_4(), figure_5(), steps()]
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

/// A method.
struct Method {
    label: &'static str,
    /// The name in reports.
    name: &'static str,
    /// The step that measures it.
    step: &'static str,
    /// The description in reports.
    does: &'static [&'static str],
}

const MRP: Method = Method {
    label: "MRP: MapReduce on the CPU",
    name: "CPU, MapReduce",
    step: "weights",
    does: &["map", "reduce", "merge"],
};
const MRM: Method = Method {
    label: "MRM: MapReduce on the GPU",
    name: "GPU, MapReduce",
    step: "weights-gpu",
    does: &["copy in", "map", "shuffle", "reduce", "copy out"],
};
const PP: Method = Method {
    label: "PP: GPU, strings",
    name: "GPU, strings",
    step: "weights-gpu",
    does: &[
        "copy in",
        "words (1, 2)",
        "lengths (3)",
        "sort (4)",
        "tf (5)",
        "df (6, 7)",
        "weights (8)",
        "copy out",
    ],
};
const PPD: Method = Method {
    label: "PPD: GPU, ids",
    name: "GPU, ids",
    step: "weights-gpu",
    does: &[
        "copy in",
        "words (1, 2)",
        "lengths (3)",
        "ids",
        "sort (4)",
        "tf (5)",
        "df (6, 7)",
        "weights (8)",
        "copy out",
    ],
};
const METHODS: [Method; 6] = [
    MRP,
    MRM,
    PP,
    PPD,
    Method {
        label: "PP on the CPU: strings",
        name: "CPU, strings",
        step: "weights",
        does: &["ids", "counts (1 to 5)", "lists (6 to 8)", "merge"],
    },
    Method {
        label: "PPD on the CPU: ids",
        name: "CPU, ids",
        step: "weights",
        does: &["counts (1 to 5)", "lists (6 to 8)", "merge"],
    },
];

impl Method {
    /// Returns the cell with the milliseconds of some steps, which is empty if the method does
    /// none of them.
    fn cell(&self, text: usize, steps: &'static [&'static str]) -> Cell {
        let (name, does) = (self.name, self.does);
        let ours = move |report: &Value| ms(report, name, text, |step| steps.contains(&step));
        let ours: Reader = Box::new(ours);
        Cell { paper: None, ours: steps.iter().any(|step| does.contains(step)).then_some(ours) }
    }
}

/// Returns the measurement of a method on the text at this position. A method may lack the text,
/// for which it did not have enough memory.
fn cell<'a>(report: &'a Value, method: &str, text: usize) -> Option<&'a Value> {
    let size = report.pointer(&format!("/results/counts/{text}/megabytes"))?;
    let cells = report.pointer("/results/cells")?.as_array()?;
    let is = |cell: &&Value, name: &str, value: &Value| cell.get(name) == Some(value);
    cells.iter().find(|cell| is(cell, "method", &method.into()) && is(cell, "megabytes", size))
}

/// Reads the seconds of a method on the text at this position.
fn seconds(method: &'static str, text: usize) -> Reader {
    Box::new(move |report| cell(report, method, text)?.get("seconds")?.as_f64())
}

fn figure_3() -> Entry {
    let mut grid = Grid::new(&["method"], &SIZES, "s");
    for Method { label, name, step, .. } in METHODS {
        let cells = (0..SIZES.len()).map(|text| Cell::unprinted(seconds(name, text))).collect();
        grid = grid.row(&[label], step, cells);
    }
    Entry::new("figure 3", "time of the weights of a text", grid)
        .plot(Plot::Curves { across: "MB", log: (false, false) })
        .note("The paper has bars without numbers; from text in memory to weights in memory. Its MRP is made with Phoenix++ on 8 threads, its MRM with Mars, which had too little memory from 400 MB on; ours follow both with our own primitives, on all cores. The methods on the CPU below them have no counterpart in the paper.")
}

fn ratios() -> Entry {
    let range = |slow: &'static str, fast: &'static str, most: bool| -> Reader {
        Box::new(move |report| {
            let ratio = |text| Some(seconds(slow, text)(report)? / seconds(fast, text)(report)?);
            let all = (0..SIZES.len()).filter_map(ratio);
            all.reduce(if most { f64::max } else { f64::min })
        })
    };
    let row = |paper: Option<[f64; 2]>, slow, fast| {
        let printed = |at: usize| paper.map(|paper| paper[at]);
        vec![
            Cell::new(printed(0), range(slow, fast, false)),
            Cell::new(printed(1), range(slow, fast, true)),
        ]
    };
    let grid = Grid::new(&["method", "over"], &["least", "most"], "speedup over all texts")
        .row(
            &["PPD: GPU, ids", "PP: GPU, strings"],
            "weights-gpu",
            row(Some([3.8, 4.5]), "GPU, strings", "GPU, ids"),
        )
        .row(
            &["PPD: GPU, ids", "MRP: MapReduce on the CPU"],
            "weights-gpu",
            row(Some([5.0, 5.1]), "CPU, MapReduce", "GPU, ids"),
        )
        .row(
            &["PPD: GPU, ids", "PPD on the CPU: ids"],
            "weights-gpu",
            row(None, "CPU, ids", "GPU, ids"),
        );
    Entry::new("speedups of figure 3", "the ratios that the text prints", grid)
        .note("The last row compares with our own method on all cores, which is faster than MapReduce and has no counterpart in the paper.")
}

/// Steps of MapReduce: labels, and names in reports.
const MAP_REDUCE: [(&str, &[&str]); 5] = [
    ("map", &["map"]),
    ("shuffle", &["shuffle"]),
    ("reduce", &["reduce"]),
    ("merge", &["merge"]),
    ("copies", &["copy in", "copy out"]),
];

fn figure_4() -> Entry {
    let columns = MAP_REDUCE.map(|(label, _)| label);
    let mut grid = Grid::new(&["method"], &columns, "ms");
    for method in [MRP, MRM] {
        let cells = MAP_REDUCE.into_iter().map(|(_, steps)| method.cell(MIDDLE, steps));
        grid = grid.row(&[method.label], method.step, cells.collect());
    }
    Entry::new("figure 4", "steps of the MapReduce methods, 300 MB", grid)
        .plot(Plot::Bars { log: false })
        .note("The paper has bars without numbers. On the CPU, hash tables group pairs in the map step, and only the CPU merges outputs of threads. In a quick run the text has 6 MB.")
}

/// Steps of the GPU: labels, and names in reports.
const STEPS: [(&str, &[&str]); 9] = [
    ("htod", &["copy in"]),
    ("steps 1, 2", &["words (1, 2)"]),
    ("step 3", &["lengths (3)"]),
    ("ID", &["ids"]),
    ("step 4", &["sort (4)"]),
    ("step 5", &["tf (5)"]),
    ("steps 6, 7", &["df (6, 7)"]),
    ("step 8", &["weights (8)"]),
    ("dtoh", &["copy out"]),
];

/// Returns the milliseconds of the steps of a method with these names.
fn ms(report: &Value, method: &str, text: usize, wanted: impl Fn(&str) -> bool) -> Option<f64> {
    let steps = cell(report, method, text)?.get("steps")?.as_array()?;
    let step = |step: &Value| Some((step.get(0)?.as_str()?.to_owned(), step.get(1)?.as_f64()?));
    let found: Vec<f64> =
        steps.iter().filter_map(step).filter(|(name, _)| wanted(name)).map(|s| s.1).collect();
    (!found.is_empty()).then(|| found.iter().sum())
}

fn figure_5() -> Entry {
    let mut columns: Vec<&str> = STEPS.iter().map(|(label, _)| *label).collect();
    columns.push("ID, % without copies");
    let mut grid = Grid::new(&["method"], &columns, "ms");
    for method in [PP, PPD] {
        let mut cells: Vec<Cell> =
            STEPS.into_iter().map(|(_, steps)| method.cell(MIDDLE, steps)).collect();
        let name = method.name;
        let share: Reader = Box::new(move |report| {
            let ids = ms(report, name, MIDDLE, |step| step == "ids")?;
            Some(100.0 * ids / ms(report, name, MIDDLE, |step| !step.starts_with("copy"))?)
        });
        cells.push(match method.does.contains(&"ids") {
            true => Cell::new(45.0, share),
            false => Cell { paper: None, ours: None },
        });
        grid = grid.row(&[method.label], method.step, cells);
    }
    Entry::new("figure 5", "steps of the methods with primitives, 300 MB", grid)
        .plot(Plot::Bars { log: false })
        .note("The paper has bars without numbers, and prints the share of the translation to ids. In a quick run the text has 6 MB.")
}

/// Every step of every method.
const ALL_STEPS: [&[&str]; 15] = [
    &["copy in"],
    &["words (1, 2)"],
    &["lengths (3)"],
    &["ids"],
    &["sort (4)"],
    &["tf (5)"],
    &["counts (1 to 5)"],
    &["df (6, 7)"],
    &["weights (8)"],
    &["lists (6 to 8)"],
    &["map"],
    &["shuffle"],
    &["reduce"],
    &["merge"],
    &["copy out"],
];

fn steps() -> Entry {
    let columns = ALL_STEPS.map(|names| names[0]);
    let mut grid = Grid::new(&["method", "text"], &columns, "ms");
    for method in METHODS {
        for (text, size) in SIZES.into_iter().enumerate() {
            let cells = ALL_STEPS.into_iter().map(|step| method.cell(text, step)).collect();
            grid = grid.row(&[method.label, size], method.step, cells);
        }
    }
    Entry::new("steps of table 1", "steps of all methods on all texts", grid)
        .note("The paper shows the steps of the text of 300 MB only (figures 4 and 5). On the CPU, one loop performs several of its steps. In a quick run the texts have 2 to 10 MB.")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_found_by_method_and_text_although_a_method_may_lack_texts() {
        let cell = |megabytes, method, ms| {
            json!({"megabytes": megabytes, "method": method, "seconds": ms / 1e3,
                "steps": [["copy in", 1.0], ["map", ms], ["copy out", 2.0]]})
        };
        let report = json!({"results": {
            "counts": [{"megabytes": 2}, {"megabytes": 4}],
            "cells": [cell(2, "CPU, MapReduce", 5.0), cell(4, "GPU, MapReduce", 7.0)],
        }});
        assert_eq!(seconds(MRP.name, 0)(&report), Some(0.005));
        assert_eq!(seconds(MRM.name, 0)(&report), None);
        assert_eq!(seconds(MRM.name, 1)(&report), Some(0.007));
        let read = |method: &Method, steps| method.cell(1, steps).ours.map(|ours| ours(&report));
        assert_eq!(read(&MRM, &["map"]), Some(Some(7.0)));
        assert_eq!(read(&MRM, &["copy in", "copy out"]), Some(Some(3.0)));
        assert_eq!(read(&MRM, &["shuffle"]), Some(None));
        assert!(read(&MRM, &["merge"]).is_none(), "a step that the method does not have");
    }
}

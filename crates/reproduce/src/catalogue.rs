//! The catalogue: every table and figure of the documents that is reproduced, one file per
//! document.

mod agrawal;
mod ding;
mod gaioso;
mod wakatsuki;
mod walkowiak;

use serde::Serialize;
use serde_json::Value;

use crate::grid::Grid;

/// A document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Document {
    /// Ding 2009: queries over compressed lists on a GPU
    Ding,
    /// Walkowiak 2010: approximate search over n-grams
    Walkowiak,
    /// Gaioso 2019: WAND and MaxScore on a GPU
    Gaioso,
    /// Wakatsuki 2016: term weights on a GPU
    Wakatsuki,
    /// Agrawal 2016: cohorts of queries, and the cost of clusters
    Agrawal,
}

impl Document {
    /// All documents.
    pub(crate) const ALL: [Document; 5] = [
        Document::Ding,
        Document::Walkowiak,
        Document::Gaioso,
        Document::Wakatsuki,
        Document::Agrawal,
    ];

    /// Returns the name in arguments and of the page.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Document::Ding => "ding",
            Document::Walkowiak => "walkowiak",
            Document::Gaioso => "gaioso",
            Document::Wakatsuki => "wakatsuki",
            Document::Agrawal => "agrawal",
        }
    }

    /// Returns author, year and subject.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Document::Ding => "Ding 2009: queries over compressed lists on a GPU",
            Document::Walkowiak => "Walkowiak 2010: approximate search over n-grams",
            Document::Gaioso => "Gaioso 2019: WAND and MaxScore on a GPU",
            Document::Wakatsuki => "Wakatsuki 2016: term weights on a GPU",
            Document::Agrawal => "Agrawal 2016: cohorts of queries, and the cost of clusters",
        }
    }

    /// Returns the collection and the hardware of the document.
    pub(crate) fn setup(self) -> &'static str {
        match self {
            Document::Ding => {
                "GOV2, 25.2 million documents, 1,000 queries; one core of a Core2 Duo E6750 at 2.66 GHz; a GeForce 8800 GTS with 640 MB"
            }
            Document::Walkowiak => {
                "1.6 and 4 million abstracts; one core of an Opteron 8216 at 2.4 GHz; one board of a Tesla S1070, and a Tesla C1070"
            }
            Document::Gaioso => {
                "ClueWeb09 B, 50.2 million documents, k = 128; one core of a Core i7-5820K, in Java; a Titan Xp"
            }
            Document::Wakatsuki => {
                "artificial texts of 100 to 500 MB; a Core i7-6700K with 8 threads; a GeForce GTX 970 with 4 GB"
            }
            Document::Agrawal => {
                "4 million pages of Wikipedia, k = 32; two Xeon E5-2650v2 with 16 cores; a GTX Titan and a GTX 750 Ti"
            }
        }
    }

    /// Returns the tables and figures, in the order of the document.
    pub(crate) fn entries(self) -> Vec<Entry> {
        match self {
            Document::Ding => ding::entries(),
            Document::Walkowiak => walkowiak::entries(),
            Document::Gaioso => gaioso::entries(),
            Document::Wakatsuki => wakatsuki::entries(),
            Document::Agrawal => agrawal::entries(),
        }
    }
}

/// How our values come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum How {
    /// Programs are timed, or results are counted.
    Measured,
    /// A model derives them from inputs.
    Computed,
    /// The hardware is listed.
    Listed,
}

impl How {
    pub(crate) fn name(self) -> &'static str {
        match self {
            How::Measured => "measured",
            How::Computed => "computed",
            How::Listed => "listed",
        }
    }
}

/// A series of points: its name, and pairs of values.
pub(crate) type Points = Vec<(String, Vec<(f64, f64)>)>;

/// How the values of an entry are drawn.
pub(crate) enum Plot {
    /// Not drawn.
    None,
    /// A bar for each row, grouped by column.
    Bars { log: bool },
    /// A curve for each row; the names of the columns are numbers.
    Curves { across: &'static str, log: (bool, bool) },
    /// Points that a function finds in the reports of steps.
    Scatter {
        steps: &'static [&'static str],
        units: (&'static str, &'static str),
        log: (bool, bool),
        lines: bool,
        points: fn(&Value) -> Points,
    },
}

/// A table or figure.
pub(crate) struct Entry {
    /// The name in the document, such as "table 1".
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) how: How,
    pub(crate) grid: Grid,
    pub(crate) plot: Plot,
    /// What else the document says of its values, and how ours differ in kind.
    pub(crate) note: &'static str,
}

impl Entry {
    /// Creates an entry that is measured and not drawn.
    pub(crate) fn new(id: impl Into<String>, title: impl Into<String>, grid: Grid) -> Self {
        let (id, title) = (id.into(), title.into());
        Entry { id, title, how: How::Measured, grid, plot: Plot::None, note: "" }
    }

    pub(crate) fn how(self, how: How) -> Self {
        Entry { how, ..self }
    }

    pub(crate) fn plot(self, plot: Plot) -> Self {
        Entry { plot, ..self }
    }

    pub(crate) fn note(self, note: &'static str) -> Self {
        Entry { note, ..self }
    }

    /// Returns the names of the steps that have our values, each once.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        let plotted: &[&str] = match &self.plot {
            Plot::Scatter { steps, .. } => steps,
            _ => &[],
        };
        let mut steps = Vec::new();
        for step in self.grid.rows.iter().filter_map(|row| row.step).chain(plotted.iter().copied())
        {
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::steps;

    /// The tables and figures that must be there, by document.
    fn coverage(document: Document) -> Vec<String> {
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match document {
            Document::Ding => named(&[
                "figure 3", "figure 4", "figure 6", "figure 7", "table 1", "table 2", "table 3",
            ]),
            Document::Walkowiak => {
                named(&["table 1", "figure 2", "figure 3", "total by sums", "total by means"])
            }
            Document::Gaioso => {
                let tables = (3..=14).map(|n| format!("table 5.{n}"));
                let tables = tables.chain((1..=4).map(|n| format!("table 7.{n}")));
                let figures = (1..=20).map(|n| format!("figure 5.{n}"));
                tables.chain(figures).chain((1..=8).map(|n| format!("figure 7.{n}"))).collect()
            }
            Document::Wakatsuki => {
                named(&["table 1", "figure 3", "figure 4", "figure 5", "steps of table 1"])
            }
            Document::Agrawal => named(&[
                "figure 2",
                "figure 6",
                "figure 7",
                "figure 8",
                "figure 9",
                "table 1",
                "table 2",
                "section 6.5",
            ]),
        }
    }

    #[test]
    fn every_table_and_figure_is_in_the_catalogue_once() {
        for document in Document::ALL {
            let entries = document.entries();
            let ids: HashSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
            assert_eq!(ids.len(), entries.len(), "{document:?}");
            for id in coverage(document) {
                assert!(ids.contains(id.as_str()), "{document:?}: {id}");
            }
        }
    }

    #[test]
    fn rows_have_a_label_and_a_cell_for_each_column_and_steps_exist() {
        for document in Document::ALL {
            for entry in document.entries() {
                let grid = &entry.grid;
                assert!(!grid.rows.is_empty(), "{document:?} {}", entry.id);
                for row in &grid.rows {
                    assert_eq!(row.labels.len(), grid.labels.len(), "{}", entry.id);
                    assert_eq!(row.cells.len(), grid.columns.len(), "{}", entry.id);
                }
                for name in entry.steps() {
                    assert!(steps::find(name).is_some(), "{}: {name}", entry.id);
                }
                let plotted = matches!(entry.plot, Plot::None);
                assert_eq!(plotted, !entry.id.starts_with("figure"), "{}", entry.id);
                let says = grid.has_paper_values() || !entry.note.is_empty();
                assert!(says, "{document:?} {}: values or a note", entry.id);
            }
        }
    }
}

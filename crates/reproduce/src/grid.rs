//! The values of a table or figure: those of a document, and where ours are found in the reports
//! of our measurements.

use serde_json::{Value, json};

/// Finds our value in the report of a step, in the units of the document.
pub(crate) type Reader = Box<dyn Fn(&Value) -> Option<f64>>;

/// A value of a document, and ours.
pub(crate) struct Cell {
    /// The printed value; `None` if the document only has a plot.
    pub(crate) paper: Option<f64>,
    /// `None` if we have no counterpart.
    pub(crate) ours: Option<Reader>,
}

impl Cell {
    pub(crate) fn new(paper: impl Into<Option<f64>>, ours: Reader) -> Self {
        Cell { paper: paper.into(), ours: Some(ours) }
    }

    /// Creates a cell of which the document only has a plot.
    pub(crate) fn unprinted(ours: Reader) -> Self {
        Cell { paper: None, ours: Some(ours) }
    }
}

/// A row of a table, or a series of a figure. One step measures all of it.
pub(crate) struct Row {
    /// One label for each of [`Grid::labels`].
    pub(crate) labels: Vec<String>,
    /// Name of the step whose report has our values; `None` if nothing measures this row.
    pub(crate) step: Option<&'static str>,
    /// One cell for each of [`Grid::columns`].
    pub(crate) cells: Vec<Cell>,
}

/// Rows and columns as in the document.
pub(crate) struct Grid {
    /// Heads of the columns with labels.
    pub(crate) labels: Vec<&'static str>,
    /// Heads of the columns with values.
    pub(crate) columns: Vec<String>,
    /// Unit of all values.
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
}

impl Grid {
    pub(crate) fn new(labels: &[&'static str], columns: &[&str], unit: &'static str) -> Self {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        Grid { labels: labels.to_vec(), columns, unit, rows: Vec::new() }
    }

    /// Adds a row that a step measures.
    pub(crate) fn row(mut self, labels: &[&str], step: &'static str, cells: Vec<Cell>) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.rows.push(Row { labels, step: Some(step), cells });
        self
    }

    /// Adds a row that nothing measures.
    pub(crate) fn lacking(mut self, labels: &[&str], paper: &[Option<f64>]) -> Self {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        let cells = paper.iter().map(|&paper| Cell { paper, ours: None }).collect();
        self.rows.push(Row { labels, step: None, cells });
        self
    }

    /// Returns true if the document prints at least one of the values.
    pub(crate) fn has_paper_values(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.paper.is_some())
    }

    /// Returns the printed values as JSON.
    pub(crate) fn paper(&self) -> Value {
        let row = |row: &Row| {
            let values: Vec<Option<f64>> = row.cells.iter().map(|cell| cell.paper).collect();
            json!({"labels": row.labels, "values": values})
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({"labels": self.labels, "columns": self.columns, "unit": self.unit, "rows": rows})
    }
}

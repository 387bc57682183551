//! The plots of figures, as SVG files: our values, and the printed ones if there are any.

use warpseek_bench::report::svg::{Bars, Curves, Scale, Series};

use crate::catalogue::{Entry, Plot};
use crate::values::Values;

/// Draws the plot of an entry. Returns `None` if it has none, or if there is nothing to draw.
pub(crate) fn draw(entry: &Entry, values: &Values<'_>) -> Option<String> {
    match &entry.plot {
        Plot::None => None,
        Plot::Bars { log } => {
            let series = rows(entry, values, |value| value.unwrap_or(f64::NAN));
            let is_empty = series.iter().all(|(_, bars)| bars.iter().all(|bar| bar.is_nan()));
            let bars = Bars {
                title: title(entry),
                unit: entry.grid.unit.to_owned(),
                scale: scale(*log),
                groups: entry.grid.columns.clone(),
                series,
            };
            (!is_empty).then(|| bars.file())
        }
        Plot::Curves { across, log } => {
            let places: Vec<Option<f64>> = entry.grid.columns.iter().map(|c| number(c)).collect();
            let point = |(x, y): (&Option<f64>, &Option<f64>)| Some(((*x)?, (*y)?));
            let curve = |(name, ours): (String, Vec<Option<f64>>)| {
                (name, places.iter().zip(&ours).filter_map(point).collect::<Vec<_>>())
            };
            let series = rows(entry, values, |value| value).into_iter().map(curve);
            let series: Vec<Series<(f64, f64)>> =
                series.filter(|(_, points)| !points.is_empty()).collect();
            curves(entry, (*across, entry.grid.unit), *log, series, true)
        }
        Plot::Scatter { steps, units, log, lines, points } => {
            let reports = steps.iter().filter_map(|step| values.report(step));
            curves(entry, *units, *log, reports.flat_map(*points).collect(), *lines)
        }
    }
}

fn curves(
    entry: &Entry,
    units: (&str, &str),
    log: (bool, bool),
    series: Vec<Series<(f64, f64)>>,
    lines: bool,
) -> Option<String> {
    let units = (units.0.to_owned(), units.1.to_owned());
    let scales = (scale(log.0), scale(log.1));
    (!series.is_empty()).then(|| Curves { title: title(entry), units, scales, series }.file(lines))
}

/// Returns our values of each row, and the printed ones as rows of their own.
fn rows<T>(
    entry: &Entry,
    values: &Values<'_>,
    convert: impl Fn(Option<f64>) -> T,
) -> Vec<(String, Vec<T>)> {
    let mut all = Vec::new();
    for row in &entry.grid.rows {
        let name = row.labels.join(", ");
        let ours: Vec<Option<f64>> = row.cells.iter().map(|cell| values.ours(row, cell)).collect();
        if ours.iter().any(Option::is_some) {
            all.push((name.clone(), ours.into_iter().map(&convert).collect()));
        }
        let paper: Vec<Option<f64>> = row.cells.iter().map(|cell| cell.paper).collect();
        if paper.iter().any(Option::is_some) {
            all.push((format!("{name} (paper)"), paper.into_iter().map(&convert).collect()));
        }
    }
    all
}

fn title(entry: &Entry) -> String {
    format!("{}: {}", entry.id, entry.title)
}

fn scale(log: bool) -> Scale {
    if log { Scale::Log } else { Scale::Linear }
}

/// Returns the number that begins the name of a column, such as 64 of "64 lists".
fn number(name: &str) -> Option<f64> {
    name.split_whitespace().next()?.replace(',', "").parse().ok()
}

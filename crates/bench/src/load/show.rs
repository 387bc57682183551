//! Measurements of `bench load` as a table and as a page.

use std::io::Write;

use warpseek_console::Failure;
use warpseek_console::terminal::table;

use super::measure::Row;
use super::own_cost::{Errors, OwnCost};
use crate::hardware;
use crate::report::html::Page;
use crate::report::svg::{Curves, Scale};

fn cells(rows: &[Row]) -> Vec<Vec<String>> {
    let head = [
        "configuration",
        "deadline ms",
        "requests/s",
        "in time/s",
        "p50 ms",
        "p99",
        "p99.9",
        "within",
        "partial",
        "late",
        "refused",
        "after us",
        "batch",
        "cohort",
        "memory MB",
        "",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    for row in rows {
        let ms = |value: f64| format!("{value:.3}");
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let mut cell = vec![row.configuration.clone(), row.deadline_ms.to_string()];
        cell.extend([row.rate, row.answered].map(|rate| format!("{rate:.0}")));
        cell.extend([row.p50_ms, row.p99_ms, row.p999_ms].map(ms));
        cell.extend([row.within, row.partial, row.late, row.refused].map(percent));
        // 99.9% of the refusals are faster than this.
        cell.push(if row.refused > 0.0 {
            format!("{:.0}", row.refusal_p999_us)
        } else {
            String::new()
        });
        cell.push(format!("{:.1}", row.batch));
        cell.push(row.largest_cohort.map_or(String::new(), |cohort| format!("{cohort:.0}")));
        cell.push(format!("{:.0}", row.memory_mb));
        cell.push(if row.sustained { "highest sustained".to_owned() } else { String::new() });
        cells.push(cell);
    }
    cells
}

pub(super) fn page(facts: &str, what: &str, rows: &[Row]) -> Page {
    let mut page = Page::new(
        "A service under load",
        &[("hardware", hardware()), ("index", facts.to_owned()), ("queries", what.to_owned())],
    );
    let mut deadlines: Vec<f64> = rows.iter().map(|row| row.deadline_ms).collect();
    deadlines.sort_by(f64::total_cmp);
    deadlines.dedup();
    let mut names: Vec<String> = rows.iter().map(|row| row.configuration.clone()).collect();
    names.dedup();
    let curve = |deadline: f64, what: &str, value: fn(&Row) -> f64, scale: Scale| {
        let points = |name: &String| {
            let own =
                rows.iter().filter(|row| row.deadline_ms == deadline && row.configuration == *name);
            (name.clone(), own.map(|row| (row.rate, value(row))).collect())
        };
        let units = ("requests/s".to_owned(), what.to_owned());
        let title = format!("{what}, deadline {deadline} ms");
        Curves {
            title,
            units,
            scales: (Scale::Log, scale),
            series: names.iter().map(points).collect(),
        }
        .draw()
    };
    let mut drawn = Vec::new();
    for &deadline in &deadlines {
        drawn.push(curve(deadline, "p99 ms", |row| row.p99_ms, Scale::Log));
        drawn.push(curve(
            deadline,
            "% in full and in time",
            |row| 100.0 * row.within,
            Scale::Linear,
        ));
    }
    let note = "Time from the intended arrival to the answer, and the share of requests that were answered in full and in time.";
    page.figures("Delay by rate", note, &names, &drawn);
    page.table(&cells(rows));
    page
}

/// Prints a head line, the costs of the services, and the table of measurements.
pub(super) fn print(head: &str, costs: &[OwnCost], rows: &[Row]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{head}")?;
    for cost in costs {
        let errors = cost.errors.iter().map(|Errors { station, boosted, tree, rules }| {
            let percent = |error: &f64| format!("{:.1}%", 100.0 * error);
            let (boosted, tree, rules) = (percent(boosted), percent(tree), percent(rules));
            format!("{station} {boosted} (tree {tree}, rules {rules})")
        });
        let errors: Vec<String> = errors.collect();
        writeln!(
            out,
            "{}: the service takes {:.1} us of the caller and {:.1} us of the server per request, which takes {:.1} us without it (p50 from text to hits {:.1} us, {:.1} us after a pause of 1 ms); error of the cost model: {}",
            cost.configuration,
            cost.submit_us,
            cost.serve_us,
            cost.alone_us,
            cost.single_p50_us,
            cost.paused_p50_us,
            errors.join(", ")
        )?;
    }
    table(&cells(rows), &mut out)?;
    Ok(())
}

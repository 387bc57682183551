//! Measurements of `bench cohorts` as tables and as a page.

use std::io::Write;

use warpseek_console::terminal::{count, counted, table};

use super::Report;
use super::cell::{Best, CPU, Cell, GPU};
use super::spmm::{Spmm, Way};
use crate::program;
use crate::report::html::Page;
use crate::report::svg::{Bars, Curves, Scale};

/// Returns the figure of an engine: throughput by cohort and tile.
fn figure_6(cells: &[Cell], engine: &str, k: usize) -> Vec<Vec<String>> {
    let own = || cells.iter().filter(|c| c.setting.engine == engine && c.setting.k == k);
    let mut tiles: Vec<u32> = own().filter_map(|cell| cell.setting.tile).collect();
    let mut cohorts: Vec<usize> = own().map(|cell| cell.setting.cohort).collect();
    tiles.sort_unstable();
    tiles.dedup();
    cohorts.dedup();
    let mut rows = vec![vec!["cohort".to_owned()]];
    rows[0].extend(tiles.iter().map(|&tile| format!("tile {}", count(tile.into()))));
    for cohort in cohorts {
        let work = |tile: &u32| {
            let mut same = own()
                .filter(|c| c.setting.cohort == cohort && c.setting.tile == Some(*tile))
                .map(|cell| cell.work_per_s);
            let best = same.next().map(|first| same.fold(first, f64::max));
            best.map_or("-".to_owned(), billions)
        };
        let mut row = vec![cohort.to_string()];
        row.extend(tiles.iter().map(work));
        rows.push(row);
    }
    rows
}

fn billions(value: f64) -> String {
    let value = value / 1e9;
    let decimals = if value >= 100.0 { 0 } else { 3 };
    format!("{value:.decimals$}")
}

fn best_rows(best: &[Best]) -> Vec<Vec<String>> {
    let head = [
        "k",
        "engine",
        "cohort",
        "best tile",
        "10^9 queries x documents/s",
        "of the CPU's first",
        "GPU / CPU",
        "paper",
        "10^9 queries x documents/J",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    for row in best {
        rows.push(vec![
            row.k.to_string(),
            row.engine.to_owned(),
            row.cohort.to_string(),
            row.tile.map_or("-".to_owned(), |tile| count(tile.into())),
            billions(row.work_per_s),
            ratio(row.of_first_cpu),
            ratio(row.of_cpu),
            ratio(row.paper_of_cpu),
            row.work_per_joule.map_or("not readable".to_owned(), billions),
        ]);
    }
    rows
}

/// Returns the rows of all cells.
fn cell_rows(cells: &[Cell]) -> Vec<Vec<String>> {
    let head = [
        "k",
        "engine",
        "cohort",
        "tile",
        "queries",
        "q/s",
        "kernels q/s",
        "10^9 queries x documents/s",
        "host W",
        "GPU W",
        "J",
        "10^9 queries x documents/J",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let figure = |value: Option<f64>| or_none(value.map(|value| format!("{value:.1}")));
    for cell in cells {
        rows.push(vec![
            cell.setting.k.to_string(),
            cell.setting.engine.to_owned(),
            cell.setting.cohort.to_string(),
            or_none(cell.setting.tile.map(|docs| count(docs.into()))),
            cell.queries.to_string(),
            count(cell.qps as u64),
            or_none(cell.device_qps.map(|qps| count(qps as u64))),
            billions(cell.work_per_s),
            figure(cell.host_watts),
            figure(cell.device_watts),
            figure(cell.joules),
            or_none(cell.work_per_joule.map(billions)),
        ]);
    }
    rows
}

fn spmm_rows(spmm: &Spmm) -> Vec<Vec<String>> {
    let head = ["", "product ms", "with the best k", "equal"];
    let mut rows = vec![head.map(String::from).to_vec()];
    let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
    for way in &spmm.ways {
        let times = [way.product_s, way.best_s].map(ms);
        rows.push([vec![way.way.clone()], times.to_vec(), vec![way.equal.to_string()]].concat());
    }
    let ours = ["warpseek", "-", &ms(spmm.warpseek_s), &spmm.queries.to_string()];
    rows.push(ours.map(String::from).to_vec());
    rows
}

fn spmm_line(spmm: &Spmm) -> String {
    let threads =
        spmm.threads.map_or(String::new(), |n| format!(", {}", counted(n as u64, "thread")));
    let ratio = spmm.ratio().map_or(String::new(), |ratio| {
        format!(
            "; warpseek with the best k takes {ratio:.2} times less than the fastest product alone"
        )
    });
    format!(
        "Figure 2 of Agrawal 2016: {}{threads}; {}, {} postings, tiles of {} documents, k {}{ratio}",
        spmm.peer,
        counted(spmm.queries as u64, "query"),
        count(spmm.postings),
        count(spmm.tile.into()),
        spmm.k
    )
}

/// Returns the name of an engine in figures.
fn titled(engine: &str) -> &str {
    if engine == GPU { "GPU" } else { engine }
}

/// Returns the engines that have a figure 6, with the numbers of hits.
fn swept(report: &Report) -> Vec<(&'static str, usize)> {
    let mut found: Vec<(&'static str, usize)> = Vec::new();
    for Cell { setting, .. } in &report.cells {
        let own = (setting.engine, setting.k);
        if [CPU, GPU].contains(&setting.engine) && !found.contains(&own) {
            found.push(own);
        }
    }
    found
}

/// Prints the tables.
pub(super) fn print(report: &Report, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{}; {}; {}; {}; median of {}; the first {} of each cell have the hits of the CPU's usual algorithm",
        report.hardware,
        report.index,
        report.ranking,
        counted(report.threads as u64, "thread"),
        counted(report.rounds as u64, "round"),
        counted(report.compared as u64, "query")
    )?;
    for (engine, k) in swept(report) {
        let part = if engine == CPU { "6a" } else { "6b" };
        writeln!(
            out,
            "\nFigure {part} of Agrawal 2016, {}, k {k}: 10^9 queries x documents/s by cohort and tile",
            titled(engine)
        )?;
        table(&figure_6(&report.cells, engine, k), out)?;
    }
    writeln!(
        out,
        "\nFigure 7 of Agrawal 2016: the best tile of each cohort; the paper compares a GTX Titan with 16 cores"
    )?;
    table(&best_rows(&report.best), out)?;
    report.unreadable.iter().try_for_each(|why| writeln!(out, "{why}"))?;
    if let Some(spmm) = &report.spmm {
        writeln!(out, "\n{}", spmm_line(spmm))?;
        table(&spmm_rows(spmm), out)?;
        spmm.missing.iter().try_for_each(|why| writeln!(out, "{why}"))?;
    }
    Ok(())
}

/// Renders the measurements as a page.
pub(super) fn page(report: &Report) -> Page {
    let mut page = Page::new(
        "Cohorts",
        &[
            ("program", program()),
            ("hardware", report.hardware.clone()),
            ("index", report.index.clone()),
            ("ranking", report.ranking.clone()),
            ("threads", report.threads.to_string()),
            ("rounds", format!("median of {}, after one to warm up", report.rounds)),
            (
                "energy",
                match report.unreadable.is_empty() {
                    true => "host by RAPL, GPU by NVML, with what they take when idle".to_owned(),
                    false => report.unreadable.join("; "),
                },
            ),
        ],
    );
    let mut cohorts: Vec<usize> = report.cells.iter().map(|cell| cell.setting.cohort).collect();
    cohorts.sort_unstable();
    cohorts.dedup();
    let names: Vec<String> = cohorts.iter().map(|cohort| format!("cohorts of {cohort}")).collect();
    let drawn: Vec<String> =
        swept(report).into_iter().map(|(engine, k)| by_tile(report, engine, k, &cohorts)).collect();
    let note = "Throughput by the number of documents in a tile; figure 6 of Agrawal 2016.";
    page.figures("Tiles and cohorts", note, &names, &drawn);
    for (engine, k) in swept(report) {
        let mut rows = figure_6(&report.cells, engine, k);
        rows[0][0] = format!("{}, k {k}: 10^9/s", titled(engine));
        page.table(&rows);
    }
    best_of(report, &cohorts, &mut page);
    page.table(&best_rows(&report.best));
    if let Some(spmm) = &report.spmm {
        let series = ["product", "with the best k"].map(String::from);
        let mut groups: Vec<String> = spmm.ways.iter().map(|way| way.way.clone()).collect();
        groups.push("warpseek".to_owned());
        let of = |value: fn(&Way) -> f64| spmm.ways.iter().map(value);
        let product = of(|way| way.product_s * 1e3).collect();
        let best = of(|way| way.best_s * 1e3).chain([spmm.warpseek_s * 1e3]).collect();
        let series_of = vec![(series[0].clone(), product), (series[1].clone(), best)];
        let (title, unit) = (spmm.peer.clone(), "ms".to_owned());
        let bars = Bars { title, unit, scale: Scale::Log, groups, series: series_of };
        page.figures("A vendor's product", &spmm_line(spmm), &series, &[bars.draw()]);
        page.table(&spmm_rows(spmm));
    }
    page.table(&cell_rows(&report.cells));
    page
}

/// Draws the throughput of an engine by tile, with a curve for each cohort.
fn by_tile(report: &Report, engine: &str, k: usize, cohorts: &[usize]) -> String {
    let curve = |&cohort: &usize| {
        let own = report.cells.iter().filter(|Cell { setting, .. }| {
            (setting.engine, setting.k, setting.cohort) == (engine, k, cohort)
        });
        let points = own.filter_map(|c| Some((f64::from(c.setting.tile?), c.work_per_s)));
        (format!("cohorts of {cohort}"), points.collect())
    };
    Curves {
        title: format!("{}, k = {k}", titled(engine)),
        units: ("documents in a tile".to_owned(), "queries x documents/s".to_owned()),
        scales: (Scale::Log, Scale::Log),
        series: cohorts.iter().map(curve).collect(),
    }
    .draw()
}

/// Draws the best throughput by cohort and, if the energy is known, by the work per joule.
fn best_of(report: &Report, cohorts: &[usize], page: &mut Page) {
    let engines = swept(report);
    let name = |engine: &str, k: usize| format!("{}, k {k}", titled(engine));
    let names: Vec<String> = engines.iter().map(|&(engine, k)| name(engine, k)).collect();
    let own = |engine: &'static str, k: usize| {
        report.best.iter().filter(move |best| best.engine == engine && best.k == k)
    };
    let bars = Bars {
        title: "by cohort".to_owned(),
        unit: "queries x documents/s".to_owned(),
        scale: Scale::Log,
        groups: cohorts.iter().map(ToString::to_string).collect(),
        series: engines
            .iter()
            .map(|&(engine, k)| {
                let work = |cohort: &usize| {
                    let mut same = own(engine, k).filter(|best| best.cohort == *cohort);
                    same.next().map_or(0.0, |best| best.work_per_s)
                };
                (name(engine, k), cohorts.iter().map(work).collect())
            })
            .collect(),
    };
    let mut drawn = vec![bars.draw()];
    if report.best.iter().any(|best| best.work_per_joule.is_some()) {
        let curve = |&(engine, k): &(&'static str, usize)| {
            let points = own(engine, k).filter_map(|b| Some((b.work_per_joule?, b.work_per_s)));
            (name(engine, k), points.collect())
        };
        let curves = Curves {
            title: "by efficiency".to_owned(),
            units: ("queries x documents/J".to_owned(), "queries x documents/s".to_owned()),
            scales: (Scale::Log, Scale::Log),
            series: engines.iter().map(curve).collect(),
        };
        drawn.push(curves.draw());
    }
    let note = "The best tile of each cohort; figure 7 of Agrawal 2016.";
    page.figures("The best by cohort", note, &names, &drawn);
}

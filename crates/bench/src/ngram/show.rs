//! Measurements of `bench ngram` as tables, JSON and a page.

use std::io::Write;

use serde_json::{Value, json};
use warpseek_console::Failure;
use warpseek_console::terminal::table;

use super::Options;
use super::rates::{self, Rate};
use super::recall::{self, Recall};
use super::suite::{self, Suite};
use super::times::{self, Times};
use super::verify::{self, Verification};
use crate::report::html::Page;
use crate::report::svg::{Bars, Curves, Scale};

/// All measurements; those that were not requested are empty.
pub(super) struct Measured {
    pub(super) times: Vec<Times>,
    pub(super) suite: Option<Suite>,
    pub(super) recalls: Vec<Recall>,
    pub(super) rates: Vec<Rate>,
    pub(super) verified: Vec<Verification>,
}

impl Measured {
    fn tables(&self) -> [Vec<Vec<String>>; 6] {
        let Measured { times, suite, recalls, rates, verified } = self;
        let [totals, compared] = suite::rows(suite.as_ref());
        let (rates, verified) = (rates::rows(rates), verify::rows(verified));
        [times::rows(times), totals, compared, recall::rows(recalls), rates, verified]
    }
}

/// Prints all measurements as tables or JSON.
pub(super) fn show(
    options: &Options,
    facts: &[(&'static str, String)],
    measured: &Measured,
) -> Result<(), Failure> {
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>| -> std::io::Result<()> {
        if options.json {
            let facts: serde_json::Map<String, Value> = facts
                .iter()
                .map(|(name, value)| (name.to_lowercase(), Value::String(value.clone())))
                .collect();
            let all = json!({
                "facts": facts,
                "times": measured.times,
                "suite": measured.suite,
                "recall": measured.recalls,
                "rates": measured.rates,
                "verification": measured.verified,
            });
            return writeln!(out, "{all:#}");
        }
        for (name, value) in facts {
            writeln!(out, "{name}: {value}")?;
        }
        let titles = [
            "One query at a time, one thread, unmodified phrases",
            "A suite: each query with one number of misses, one thread",
            "The queries of the suite beside bins on the CPU",
            "Phrases of 5 to 12 words by number of errors, one thread; verified: by edit distance among the best 100",
            "Batches",
            "Batches of phrases with two errors, the best 100 candidates verified",
        ];
        for (title, rows) in titles.into_iter().zip(measured.tables()) {
            if rows.len() > 1 {
                writeln!(out, "\n{title}")?;
                table(&rows, out)?;
            }
        }
        Ok(())
    };
    write(&mut out).and_then(|()| std::io::stdout().lock().write_all(&out))?;
    Ok(())
}

/// Returns a page with all measurements.
pub(super) fn page(facts: &[(&'static str, String)], measured: &Measured) -> Page {
    let mut page = Page::new("Approximate search over n-grams", facts);
    let [of_times, of_totals, of_compared, of_recalls, of_rates, of_verified] = measured.tables();
    let times = &measured.times;
    let mut engines: Vec<String> = Vec::new();
    for t in times {
        if !engines.contains(&t.engine) {
            engines.push(t.engine.clone());
        }
    }
    let mut misses: Vec<u32> = times.iter().map(|t| t.misses).collect();
    misses.dedup();
    let cell =
        |engine: &str, misses: u32| times.iter().find(|t| t.engine == engine && t.misses == misses);
    let bars = Bars {
        title: "Mean time of a query".into(),
        unit: "ms".into(),
        scale: Scale::Log,
        groups: misses.iter().map(|m| format!("{m} misses")).collect(),
        series: engines
            .iter()
            .map(|engine| {
                let mean = |&m: &u32| cell(engine, m).map_or(0.0, |t| t.mean_ms);
                (engine.clone(), misses.iter().map(mean).collect())
            })
            .collect(),
    };
    page.figures("Times", "One query at a time, one thread.", &engines, &[bars.draw()]);
    page.table(&of_times);
    let drawn: Vec<String> = misses
        .iter()
        .map(|&m| {
            let base = engines.first().and_then(|engine| cell(engine, m));
            let series = engines.iter().filter_map(|engine| {
                let (base, own) = (base?, cell(engine, m)?);
                let pairs = base.each_ms.iter().zip(&own.each_ms);
                let mut points: Vec<(f64, f64)> = pairs.map(|(a, b)| (*a, a / b)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Some((engine.clone(), points))
            });
            let units = ("ms of the first engine".to_owned(), "times as fast".to_owned());
            let scales = (Scale::Log, Scale::Log);
            Curves { title: format!("{m} misses"), units, scales, series: series.collect() }.draw()
        })
        .collect();
    let note = "Speed of each query relative to the first engine, by its time on the first engine.";
    page.figures("Speedup", note, &engines, &drawn);
    page.table(&of_recalls);
    for rows in [of_totals, of_compared, of_rates, of_verified] {
        if rows.len() > 1 {
            page.table(&rows);
        }
    }
    page
}

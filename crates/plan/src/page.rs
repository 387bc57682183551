//! The report as a single HTML page with its style and charts, which loads nothing.

use std::fmt::Write;

use crate::capacity::Capacity;
use crate::digits::count;
use crate::report::{PlannedWorkload, Report};

const COLOURS: [&str; 10] = [
    "#2f6db5", "#d9700f", "#2c8f3c", "#c5303a", "#7d56b3", "#8a5a44", "#cf5fae", "#7b8087",
    "#98981a", "#0f97a8",
];

const STYLE: &str = "
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1f24; --dim: #5c636e; --line: #dfe2e7; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181d; --ink: #e6e9ee; --dim: #a0a8b4; --line: #343a44; } }
body { max-width: 1180px; margin: 2rem auto; padding: 0 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; } p { color: var(--dim); max-width: 50rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } th { color: var(--dim); font-weight: 600; }
figure { margin: 1rem 0; max-width: 46rem; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 11px; } .grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: 0; margin: .3rem 0; }
.legend svg { width: .8em; height: .8em; margin-right: .4em; }
";

/// Formats a report as a page.
pub fn page(report: &Report) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Capacity and cost of ownership</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>{STYLE}"
    );
    for (i, colour) in COLOURS.iter().enumerate() {
        let _ = writeln!(
            html,
            ".c{i} {{ stroke: {colour}; }} rect.c{i} {{ fill: {colour}; stroke: none; }}"
        );
    }
    let _ = write!(
        html,
        "</style>\n<h1>Capacity and cost of ownership</h1>\n<p>Machines, power and cost after Agrawal, Dee and Lebeck (PPoPP 2016). A watt costs \
         {:.2} dollars over the lifetime of a machine. Prices and watts are inputs; those of the default file that the paper does not have are \
         assumptions.</p>\n",
        report.dollars_per_watt
    );
    for workload in &report.workloads {
        let _ = write!(
            html,
            "<h2>{}</h2>\n<p>{} documents, {} queries per second, deadline {} ms.</p>\n",
            escape(&workload.name),
            count(workload.documents),
            count(workload.queries_per_s),
            workload.deadline_ms
        );
        table(&mut html, &workload.cells());
        plot(&mut html, workload);
        if !workload.capacity.is_empty() {
            html += "<h2>Documents per node, from measurements</h2>\n";
            table(&mut html, &Capacity::cells(&workload.capacity));
        }
    }
    html
}

fn table(html: &mut String, rows: &[Vec<String>]) {
    *html += "<div class=\"wide\"><table>\n";
    for (i, row) in rows.iter().enumerate() {
        let tag = if i == 0 { "th" } else { "td" };
        *html += "<tr>";
        for cell in row {
            let _ = write!(html, "<{tag}>{}</{tag}>", escape(cell));
        }
        *html += "</tr>\n";
    }
    *html += "</table></div>\n";
}

/// Plots the ratios of cost against the price of a server, on a logarithmic scale: twice the cost
/// is as far from 1 as half of it.
fn plot(html: &mut String, workload: &PlannedWorkload) {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 320.0;
    /// Number of parts of the horizontal axis: 500 dollars each by default.
    const PARTS: u32 = 11;
    let (left, right, top, bottom) = (62.0, WIDTH - 20.0, 12.0, HEIGHT - 42.0);
    let title = format!(
        "Cost over that of {}, by the price of a server `{}`",
        workload.baseline, workload.plot_server
    );
    let ratios = || workload.platforms.iter().flat_map(|platform| platform.ratios.iter().copied());
    let low = ratios().fold(1.0, f64::min).log10().floor();
    let high = ratios().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let (from, to) = match workload.prices[..] {
        [from, .., to] => (from, to),
        _ => return,
    };
    let x = |price: f64| left + (price - from) / (to - from) * (right - left);
    let y = |ratio: f64| bottom - (ratio.log10() - low) / (high - low) * (bottom - top);
    let escaped = escape(&title);
    let _ = write!(html, "<figure><figcaption>{escaped}</figcaption>\n<ul class=\"legend\">");
    for (i, platform) in workload.platforms.iter().enumerate() {
        let colour = i % COLOURS.len();
        let _ = write!(
            html,
            r#"<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="c{colour}" width="10" height="10"/></svg>{}</li>"#,
            escape(&platform.name)
        );
    }
    let _ = write!(
        html,
        r#"</ul><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escaped}">"#
    );
    let (first, last) = (low as i32, high as i32);
    for power in first..=last {
        for digit in [1.0, 2.0, 5.0] {
            let ratio = digit * 10f64.powi(power);
            if digit > 1.0 && (power == last || last - first > 3) {
                continue;
            }
            let at = y(ratio);
            let _ = write!(
                html,
                r#"<line class="grid" x1="{left}" y1="{at:.1}" x2="{right}" y2="{at:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{ratio}</text>"#,
                left - 6.0,
                at + 4.0
            );
        }
    }
    for i in 0..=PARTS {
        let price = from + (to - from) * f64::from(i) / f64::from(PARTS);
        let at = x(price);
        let _ = write!(
            html,
            r#"<line class="grid" x1="{at:.1}" y1="{top}" x2="{at:.1}" y2="{bottom}"/><text x="{at:.1}" y="{:.1}" text-anchor="middle">{price:.0}</text>"#,
            bottom + 16.0
        );
    }
    let _ = write!(
        html,
        r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">dollars</text>"#,
        (left + right) / 2.0,
        bottom + 34.0
    );
    for (i, platform) in workload.platforms.iter().enumerate() {
        let _ = write!(html, r#"<polyline class="c{}" points=""#, i % COLOURS.len());
        for (&price, &ratio) in workload.prices.iter().zip(&platform.ratios) {
            let _ = write!(html, "{:.1},{:.1} ", x(price), y(ratio));
        }
        let _ = write!(html, r#""><title>{}</title></polyline>"#, escape(&platform.name));
    }
    *html += "</svg></figure>\n";
}

/// Escapes text, for use between tags and in quoted attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, DEFAULTS};

    #[test]
    fn a_page_loads_nothing_and_escapes_names() {
        let text = DEFAULTS.replace("\"Xeon\"", "\"<Xeon>\"");
        let report = Report::new(&Config::parse(&text).unwrap(), None).unwrap();
        let page = page(&report);
        for outside in ["http", "src=", "href", "@import", "url(", "<script", "<Xeon>", "NaN"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("&lt;Xeon&gt;"));
        assert_eq!(page.matches("<figure>").count(), 2);
        assert_eq!(page.matches("<polyline").count(), 16);
    }
}

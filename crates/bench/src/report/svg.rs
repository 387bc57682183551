//! Charts with SVG: grouped bars, curves, and points. `draw` returns a figure of an HTML page,
//! which provides the style; a series has the same colour in all charts of a page. `file` returns a
//! file with style and legend.

use std::fmt::Write;
use std::ops::RangeInclusive;

use super::colours::{COLOURS, LIGHT};
use super::escape::escape;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
/// The frame of the values: left, right, top, bottom.
const FRAME: (f64, f64, f64, f64) = (62.0, WIDTH - 20.0, 12.0, HEIGHT - 42.0);
/// Maximum number of ticks of an axis that are easy to tell apart.
const MOST_TICKS: usize = 8;
/// Range of values that can be drawn. No measurement lies outside, and arithmetic on ticks stays
/// far from its limits.
const DRAWN: RangeInclusive<f64> = 1e-12..=1e15;

/// The mapping of values to positions on an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A linear scale that starts at zero.
    Linear,
    /// A logarithmic scale. Values that are not positive are not drawn.
    Log,
}

/// An axis, which maps values to positions between 0 and 1.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// Creates an axis for all of these values that can be drawn.
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut least, mut most) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|v| DRAWN.contains(v)) {
            (least, most) = (least.min(value), most.max(value));
        }
        if most == 0.0 {
            (least, most) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => {
                let steps = |step: f64| (most / step * (1.0 - 1e-9)).ceil();
                let mut step = 10f64.powf((most / MOST_TICKS as f64).log10().floor());
                for factor in [2.0, 2.5, 2.0] {
                    if steps(step) > (MOST_TICKS - 2) as f64 {
                        step *= factor;
                    }
                }
                let n = steps(step).max(1.0);
                let ticks = (0..=n as usize).map(|i| i as f64 * step).collect();
                Axis { scale, low: 0.0, high: n * step, ticks }
            }
            Scale::Log => {
                let low = least.log10().floor() as i32;
                let high = (most.log10().ceil() as i32).max(low + 1);
                let decades = (high - low) as usize;
                let digits: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = (low..high).step_by(decades.div_ceil(MOST_TICKS));
                let mut ticks: Vec<f64> = powers
                    .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
                    .collect();
                ticks.push(10f64.powi(high));
                Axis { scale, low: 10f64.powi(low), high: 10f64.powi(high), ticks }
            }
        }
    }

    /// Returns the position of a value, or `None` if it cannot be drawn.
    fn position(&self, value: f64) -> Option<f64> {
        let position = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= 0.0 => return None,
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        position.is_finite().then(|| position.clamp(0.0, 1.0))
    }
}

/// Formats a number in short form: 0.02, 1.5, 300, 20k, 3M.
pub(crate) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 1.0 => 2,
        v => 1 + (-v.log10()).ceil().clamp(1.0, 12.0) as usize,
    };
    let digits = format!("{value:.decimals$}");
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => &digits,
    };
    format!("{digits}{unit}")
}

/// A series: its name and its values.
pub type Series<T> = (String, Vec<T>);

/// Bars in groups: a group for each name, with a bar for each series.
pub struct Bars {
    /// Title of the chart.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Scale of the values.
    pub scale: Scale,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// A value for each group.
    pub series: Vec<Series<f64>>,
}

impl Bars {
    /// Renders the chart as a file.
    pub fn file(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        file(&self.draw(), &self.title, &names)
    }

    /// Renders the chart as HTML.
    pub fn draw(&self) -> String {
        let values = self.series.iter().flat_map(|(_, values)| values.iter().copied());
        let axis = Axis::new(self.scale, values);
        let mut svg = open(&self.title);
        vertical(&mut svg, &axis, &self.unit);
        let (left, right, top, bottom) = FRAME;
        let group_width = (right - left) / self.groups.len().max(1) as f64;
        let bars = self.series.len().max(1) as f64;
        let bar_width = (group_width * 0.84 / bars).min(48.0);
        for (g, group) in self.groups.iter().enumerate() {
            let start = left + group_width * g as f64;
            text(&mut svg, start + group_width / 2.0, bottom + 16.0, "middle", group);
            for (s, (name, values)) in self.series.iter().enumerate() {
                let Some((value, position)) =
                    values.get(g).and_then(|&v| Some((v, axis.position(v)?))).filter(|p| p.1 > 0.0)
                else {
                    continue;
                };
                let height = position * (bottom - top);
                let x = start + (group_width - bar_width * bars) / 2.0 + bar_width * s as f64;
                let _ = write!(
                    svg,
                    r#"<rect class="c{}" x="{x:.1}" y="{:.1}" width="{:.1}" height="{height:.1}"><title>{}, {}: {} {}</title></rect>"#,
                    s % COLOURS,
                    bottom - height,
                    (bar_width - 1.0).max(0.5),
                    escape(name),
                    escape(group),
                    short(value),
                    escape(&self.unit),
                );
            }
        }
        svg + "</svg></figure>\n"
    }
}

/// Curves through points.
pub struct Curves {
    /// Title of the chart.
    pub title: String,
    /// Units of the horizontal and the vertical axis.
    pub units: (String, String),
    /// Scales of the horizontal and the vertical axis.
    pub scales: (Scale, Scale),
    /// Points from left to right.
    pub series: Vec<Series<(f64, f64)>>,
}

impl Curves {
    /// Renders the chart as a file, with curves, or with the points alone.
    pub fn file(&self, lines: bool) -> String {
        let names: Vec<&str> = self.series.iter().map(|(name, _)| name.as_str()).collect();
        file(&self.render(lines), &self.title, &names)
    }

    /// Renders the chart as HTML.
    pub fn draw(&self) -> String {
        self.render(true)
    }

    fn render(&self, lines: bool) -> String {
        let points = || self.series.iter().flat_map(|(_, points)| points.iter().copied());
        let across = Axis::new(self.scales.0, points().map(|p| p.0));
        let up = Axis::new(self.scales.1, points().map(|p| p.1));
        let mut svg = open(&self.title);
        vertical(&mut svg, &up, &self.units.1);
        let (left, right, top, bottom) = FRAME;
        for &tick in &across.ticks {
            let x = left + across.position(tick).unwrap_or(0.0) * (right - left);
            let _ = write!(
                svg,
                r#"<line class="grid" x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{bottom:.1}"/>"#
            );
            text(&mut svg, x, bottom + 16.0, "middle", &short(tick));
        }
        text(&mut svg, (left + right) / 2.0, bottom + 34.0, "middle", &self.units.0);
        for (s, (name, points)) in self.series.iter().enumerate() {
            let place = |&(x, y): &(f64, f64)| {
                let (x, y) = (across.position(x)?, up.position(y)?);
                Some((left + x * (right - left), bottom - y * (bottom - top)))
            };
            let places: Vec<(f64, f64)> = points.iter().filter_map(place).collect();
            if !lines {
                for (x, y) in places {
                    let class = s % COLOURS;
                    let _ = write!(
                        svg,
                        r#"<circle class="c{class}" cx="{x:.1}" cy="{y:.1}" r="1.8"/>"#
                    );
                }
                continue;
            }
            let _ = write!(svg, r#"<polyline class="c{}" points=""#, s % COLOURS);
            // A single point is drawn as a short line.
            let alone = places.first().filter(|_| places.len() == 1).map(|(x, y)| (x + 3.0, *y));
            for (x, y) in places.iter().copied().chain(alone) {
                let _ = write!(svg, "{x:.1},{y:.1} ");
            }
            let _ = write!(svg, r#""><title>{}</title></polyline>"#, escape(name));
        }
        svg + "</svg></figure>\n"
    }
}

/// Height of a line of the legend.
const LEGEND_LINE: f64 = 16.0;

/// Turns a figure into a file of its own: with a name space, a style for light and dark
/// backgrounds, its title, and a legend below.
fn file(figure: &str, title: &str, names: &[&str]) -> String {
    let svg = figure.split_once("<svg").and_then(|(_, rest)| rest.split_once('>'));
    let body = svg.and_then(|(_, rest)| rest.split_once("</svg>")).map_or("", |(body, _)| body);
    let top = 2.0 * LEGEND_LINE;
    let height = HEIGHT + top + LEGEND_LINE * names.len() as f64;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{title}"><style>text {{ font: 11px system-ui, sans-serif; fill: #5c636e; }} .title {{ font-weight: 600; font-size: 13px; }} .grid {{ stroke: #b4bac3; stroke-opacity: .5; }} polyline {{ fill: none !important; stroke-width: 2; }} rect, circle {{ stroke: none !important; }}"#,
        title = escape(title),
    );
    for (i, colour) in LIGHT.iter().enumerate() {
        let _ = write!(svg, " .c{i} {{ fill: {colour}; stroke: {colour}; }}");
    }
    svg += "</style>";
    let title = escape(title);
    let _ = write!(svg, r#"<text class="title" x="4" y="16">{title}</text>"#);
    let _ = write!(svg, r#"<g transform="translate(0 {top})">{body}</g>"#);
    for (s, name) in names.iter().enumerate() {
        let y = HEIGHT + top + LEGEND_LINE * s as f64;
        let class = s % COLOURS;
        let _ = write!(
            svg,
            r#"<rect class="c{class}" x="{}" y="{y}" width="10" height="10"/>"#,
            FRAME.0
        );
        text(&mut svg, FRAME.0 + 16.0, y + 9.0, "start", name);
    }
    svg + "</svg>\n"
}

fn open(title: &str) -> String {
    let title = escape(title);
    format!(
        r#"<figure><figcaption>{title}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">"#
    )
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = write!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
}

/// Draws the vertical axis, its lines across the frame and its unit.
fn vertical(svg: &mut String, axis: &Axis, unit: &str) {
    let (left, right, top, bottom) = FRAME;
    for &tick in &axis.ticks {
        let y = bottom - axis.position(tick).unwrap_or(0.0) * (bottom - top);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{left:.1}" y1="{y:.1}" x2="{right:.1}" y2="{y:.1}"/>"#
        );
        text(svg, left - 6.0, y + 4.0, "end", &short(tick));
    }
    let middle = (top + bottom) / 2.0;
    let _ = write!(
        svg,
        r#"<text transform="translate(12 {middle:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
        escape(unit)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticks(scale: Scale, values: &[f64]) -> Vec<f64> {
        Axis::new(scale, values.iter().copied()).ticks
    }

    #[test]
    fn linear_ticks_are_round_and_begin_at_zero() {
        assert_eq!(ticks(Scale::Linear, &[3.0, 9.5]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(Scale::Linear, &[1.0]), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(Scale::Linear, &[]), ticks(Scale::Linear, &[1.0]));
    }

    #[test]
    fn logarithmic_ticks_are_decades_and_finer_if_there_are_few() {
        assert_eq!(ticks(Scale::Log, &[3.0, 70_000.0]), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(ticks(Scale::Log, &[3.0, 0.0, 8.0]), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(Scale::Log, &[10.0]), [10.0, 20.0, 50.0, 100.0]);
    }

    #[test]
    fn numbers_are_shortened() {
        let numbers = [0.0, 0.02, 0.2, 1.0, 1.25, 300.0, 1000.0, 20_000.0, 3e6, 2.5e9];
        let want = ["0", "0.02", "0.2", "1", "1.25", "300", "1000", "20k", "3M", "2.5G"];
        assert_eq!(numbers.map(short), want);
    }

    #[test]
    fn values_that_cannot_be_drawn_are_omitted() {
        let bars = Bars {
            title: String::new(),
            unit: String::new(),
            scale: Scale::Log,
            groups: vec!["a".into(), "b".into(), "c".into(), "d".into()],
            series: vec![("s".into(), vec![f64::NAN, f64::INFINITY, 0.0, 20.0])],
        };
        assert_eq!(bars.draw().matches("<rect").count(), 1);
        let line = (Scale::Log, Scale::Linear);
        let points = vec![(f64::NAN, 1.0), (1.0, f64::NAN), (0.0, 1.0), (5.0, 1.0), (9.0, 2.0)];
        let units = (String::new(), String::new());
        let series = vec![("s".into(), points)];
        let svg = Curves { title: String::new(), units, scales: line, series }.draw();
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.matches(',').count(), 2, "{points}");
    }

    #[test]
    fn a_point_alone_is_visible() {
        let (units, title) = ((String::new(), String::new()), String::new());
        let series = vec![("s".into(), vec![(5.0, 1.0)])];
        let svg = Curves { title, units, scales: (Scale::Log, Scale::Linear), series }.draw();
        let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.matches(',').count(), 2, "{points}");
    }

    #[test]
    fn names_are_escaped() {
        let bars = Bars {
            title: "<t>".into(),
            unit: "<u>".into(),
            scale: Scale::Linear,
            groups: vec!["<g>".into()],
            series: vec![("<s>".into(), vec![1.0])],
        };
        let svg = bars.draw();
        for name in ["t", "u", "g", "s"] {
            assert!(svg.contains(&format!("&lt;{name}&gt;")), "{name}: {svg}");
            assert!(!svg.contains(&format!("<{name}>")), "{name}: {svg}");
        }
    }

    #[test]
    fn a_file_has_its_own_style_and_legend() {
        let bars = Bars {
            title: "Times".into(),
            unit: "ms".into(),
            scale: Scale::Linear,
            groups: vec!["a".into()],
            series: vec![("<one>".into(), vec![1.0]), ("two".into(), vec![2.0])],
        };
        let svg = bars.file();
        for part in ["http://www.w3.org/2000/svg", "<style>", "&lt;one&gt;</text>", "Times</text>"]
        {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(svg.matches("<rect").count(), 4, "two bars, two entries of the legend");
        let curves = Curves {
            title: String::new(),
            units: (String::new(), String::new()),
            scales: (Scale::Linear, Scale::Linear),
            series: vec![("s".into(), vec![(1.0, 2.0), (2.0, 3.0)])],
        };
        assert_eq!(curves.file(false).matches("<circle").count(), 2);
        assert_eq!(curves.file(true).matches("<polyline").count(), 1);
        assert!(!curves.file(true).contains("<circle"));
    }

    proptest! {
        #[test]
        fn values_stay_inside_the_frame(
            values in prop::collection::vec(prop::num::f64::ANY, 0..20), log: bool,
        ) {
            let scale = if log { Scale::Log } else { Scale::Linear };
            let axis = Axis::new(scale, values.iter().copied());
            prop_assert!((2..=MOST_TICKS + 1).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.is_sorted_by(|a, b| a < b), "{:?}", axis.ticks);
            for &value in values.iter().chain(&axis.ticks) {
                prop_assert!(axis.position(value).is_none_or(|p| (0.0..=1.0).contains(&p)));
            }
            let groups = values.iter().map(ToString::to_string).collect();
            let series = vec![("s".to_owned(), values)];
            let (title, unit) = (String::new(), String::new());
            let svg = Bars { title, unit, scale, groups, series }.draw();
            for part in svg.split(['"', ' ']) {
                prop_assert!(!matches!(part, "NaN" | "inf" | "-inf"), "{}", svg);
            }
        }
    }
}

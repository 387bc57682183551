//! Terminal output: colours (only on a terminal and without NO_COLOR), readable numbers, and
//! tables.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

/// Returns true if standard output is a terminal that shows colours.
pub fn stdout_is_styled() -> bool {
    wants_style(io::stdout().is_terminal())
}

fn wants_style(is_terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Styles for a stream. All of them are plain if the stream is not a terminal.
#[derive(Clone, Copy)]
pub struct Theme {
    /// Headings and ids.
    pub strong: Style,
    /// Less important text.
    pub dim: Style,
    /// Words of the query in a snippet.
    pub mark: Style,
    /// Success.
    pub good: Style,
    /// Errors and damage.
    pub bad: Style,
}

impl Theme {
    /// Returns the styles for standard output.
    pub fn stdout() -> Self {
        Self::new(stdout_is_styled())
    }

    fn new(styled: bool) -> Self {
        let pick = |style: Style| if styled { style } else { Style::new() };
        Theme {
            strong: pick(Style::new().bold()),
            dim: pick(Style::new().dimmed()),
            mark: pick(Style::new().bold().fg_color(Some(AnsiColor::Yellow.into()))),
            good: pick(Style::new().fg_color(Some(AnsiColor::Green.into()))),
            bad: pick(Style::new().bold().fg_color(Some(AnsiColor::Red.into()))),
        }
    }

    /// Returns `text` in a style.
    pub fn paint(&self, style: Style, text: impl Display) -> String {
        format!("{style}{text}{style:#}")
    }
}

/// Prints an error to standard error.
pub fn error(message: &str) {
    let theme = Theme::new(wants_style(io::stderr().is_terminal()));
    let _ = writeln!(io::stderr(), "{}: {message}", theme.paint(theme.bad, "error"));
}

/// Prints a note about the result to standard error.
pub fn note(message: impl Display) {
    let theme = Theme::new(wants_style(io::stderr().is_terminal()));
    let _ = writeln!(io::stderr(), "{}: {message}", theme.paint(theme.dim, "note"));
}

/// Prints a summary line to standard error, ignoring a failure to write it.
pub fn summary(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Formats 1234567 as 1,234,567.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of things, such as 1 document, 2,000 documents or 3 queries.
pub fn counted(n: u64, thing: &str) -> String {
    let number = count(n);
    match thing.strip_suffix('y') {
        _ if n == 1 => format!("{number} {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None => format!("{number} {thing}s"),
    }
}

/// Formats a number of bytes, such as 1.5 MiB.
pub fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") }
}

/// Writes a table with the first column aligned to the left and the others to the right.
pub fn table(rows: &[Vec<String>], out: &mut impl Write) -> io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    for row in rows {
        let mut line = String::new();
        for (c, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            if c == 0 {
                line += &format!("{cell:<width$}");
            } else {
                line += &format!("  {cell:>width$}");
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_readably() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1536, 3 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]);
    }

    #[test]
    fn counted_things_are_singular_or_plural() {
        assert_eq!(counted(1, "document"), "1 document");
        assert_eq!(counted(0, "document"), "0 documents");
        assert_eq!(counted(2000, "query"), "2,000 queries");
        assert_eq!(counted(1, "query"), "1 query");
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [vec!["a".into(), "10".into()], vec!["bcd".into(), "7".into()]];
        let mut out = Vec::new();
        table(&rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a    10\nbcd   7\n");
    }
}

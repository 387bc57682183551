//! HTML pages of one file, which contains its style and charts and loads nothing.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use warpseek_console::Failure;

use super::colours::{COLOURS, DARK, LIGHT};
use super::escape::escape;

const STYLE: &str = "
:root { color-scheme: light dark; --ground: #fff; --ink: #1c1f24; --dim: #5c636e; --line: #dfe2e7; }
body { max-width: 1180px; margin: 2rem auto; padding: 0 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem; } p { margin: .2rem 0 .6rem; color: var(--dim); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--dim); } dd { margin: 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } th { color: var(--dim); font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; }
svg text { fill: var(--dim); font-size: 11px; } .grid { stroke: var(--line); }
polyline { fill: none !important; stroke-width: 2; stroke-linejoin: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: 0; margin: .3rem 0 .6rem; }
.legend svg { width: .8em; height: .8em; margin-right: .4em; }
";

/// A page under construction.
pub(crate) struct Page {
    html: String,
}

impl Page {
    /// Creates a page that begins with its title and the facts that hold for all of it.
    pub(crate) fn new(title: &str, facts: &[(&str, String)]) -> Self {
        let title = escape(title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>{STYLE}"
        );
        for (i, colour) in LIGHT.iter().enumerate() {
            let _ = writeln!(html, ".c{i} {{ fill: {colour}; stroke: {colour}; }}");
        }
        html += "rect { stroke: none !important; }\n@media (prefers-color-scheme: dark) {\n";
        html += ":root { --ground: #15181d; --ink: #e6e9ee; --dim: #a0a8b4; --line: #343a44; }\n";
        for (i, colour) in DARK.iter().enumerate() {
            let _ = writeln!(html, ".c{i} {{ fill: {colour}; stroke: {colour}; }}");
        }
        let _ = write!(html, "}}\n</style>\n<h1>{title}</h1>\n<dl>\n");
        for (name, value) in facts {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        html += "</dl>\n";
        Page { html }
    }

    /// Adds a table. The first row is its head.
    pub(crate) fn table(&mut self, rows: &[Vec<String>]) {
        self.html += "<div class=\"wide\"><table>\n";
        for (i, row) in rows.iter().enumerate() {
            let tag = if i == 0 { "th" } else { "td" };
            self.html += "<tr>";
            for cell in row {
                let _ = write!(self.html, "<{tag}>{}</{tag}>", escape(cell));
            }
            self.html += "</tr>\n";
        }
        self.html += "</table></div>\n";
    }

    /// Adds figures that have the same series.
    pub(crate) fn figures(&mut self, title: &str, note: &str, series: &[String], drawn: &[String]) {
        let (title, note) = (escape(title), escape(note));
        let _ = write!(self.html, "<h2>{title}</h2>\n<p>{note}</p>\n<ul class=\"legend\">");
        for (i, name) in series.iter().enumerate() {
            let colour = i % COLOURS;
            let mark = format!(r#"<rect class="c{colour}" width="10" height="10"/>"#);
            let svg = format!(r#"<svg viewBox="0 0 10 10" aria-hidden="true">{mark}</svg>"#);
            let _ = write!(self.html, "<li>{svg}{}</li>", escape(name));
        }
        let _ = write!(self.html, "</ul>\n<div class=\"figures\">\n{}</div>\n", drawn.concat());
    }
}

/// The file that a page will be written to. The path is checked before anything is measured, so
/// that a wrong name wastes no time.
pub(crate) struct Target {
    path: PathBuf,
    temporary: PathBuf,
}

impl Target {
    /// Checks that the path is not a directory, and that its directory exists.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let Some(file) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Failure::user(format!("{name} is a directory; specify a file in it")));
        };
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            let parent = parent.display();
            return Err(Failure::user(format!(
                "{name}: there is no directory {parent}; create it first"
            )));
        }
        let mut temporary = file.to_os_string();
        temporary.push(format!(".{}.tmp", std::process::id()));
        Ok(Target { path: path.to_owned(), temporary: parent.join(temporary) })
    }

    /// Writes the whole page; on failure, an existing file remains unchanged.
    pub(crate) fn save(&self, page: &Page) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let mut file = File::create(&self.temporary)?;
            file.write_all(page.html.as_bytes())?;
            file.sync_all()?;
            fs::rename(&self.temporary, &self.path)
        };
        write().map_err(|e| {
            let _ = fs::remove_file(&self.temporary);
            Failure::broken(format!("{}: {e}", self.path.display()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_a_page_is_escaped() {
        let mut page = Page::new("<t>", &[("<n>", "<v>".into())]);
        page.table(&[vec!["<h>".into()], vec!["<d>".into()]]);
        page.figures("<f>", "<o>", &["<s>".into()], &[]);
        for name in ["t", "n", "v", "h", "d", "f", "o", "s"] {
            assert!(!page.html.contains(&format!("<{name}>")), "{name}");
            assert!(page.html.contains(&format!("&lt;{name}&gt;")), "{name}");
        }
    }

    #[test]
    fn a_page_is_written_completely_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        let (page, target) = (Page::new("new", &[]), Target::new(&path).unwrap());
        fs::write(&path, "old").unwrap();
        target.save(&page).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), page.html);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(target.save(&page).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the temporary file is gone");
        assert!(Target::new(&path).is_err());
        assert!(Target::new(&dir.path().join("no/page.html")).is_err());
    }
}

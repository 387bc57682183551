//! The matching documents of a query, and the syntax of its text.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use warpseek::inspect::Content;
use warpseek::query::Node;
use warpseek::{Mode, QueryInput, Searcher};
use warpseek_console::options::named;
use warpseek_console::{Failure, terminal};

/// The matching documents of a query.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Query")]
pub(crate) struct QueryChoice {
    /// Documents that match: those with any term (or), those with all terms (and), or those with
    /// all terms if there are at least k, otherwise with any (and-or)
    #[arg(long, value_parser = named::<Mode>(Mode::NAMES), default_value = "or")]
    pub(crate) mode: Mode,
    /// Count all matching documents exactly
    #[arg(long)]
    pub(crate) count: bool,
    /// Search only documents whose ids are in this file, one per line. Scores do not change, and
    /// unknown ids are ignored
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    among: Option<PathBuf>,
    /// Search only documents that match this query, e.g. "year:>=2020 tag:(a b)". Scores do not
    /// change
    #[arg(long, value_name = "QUERY", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Parse queries in the query syntax (docs/reference/query-syntax.md). An index with a schema
    /// or positions always does, unless --words is given
    #[arg(long)]
    syntax: bool,
    /// Read queries as plain words, without operators, for questions in natural language
    #[arg(long, conflicts_with = "syntax", hide_short_help = true)]
    words: bool,
}

impl QueryChoice {
    /// Returns a query for the index: an expression if the index has a schema or positions or the
    /// user passes `--syntax`, plain words otherwise or with `--words`.
    pub(crate) fn input(&self, searcher: &Searcher, text: &str) -> QueryInput {
        let snapshot = searcher.snapshot();
        let manifest = snapshot.manifest();
        let usual = manifest.schema.is_some() || manifest.positions;
        match self.syntax || (usual && !self.words) {
            true => QueryInput::Expression(text.to_owned()),
            false => {
                if !self.words && manifest.content != Content::Vector {
                    self.note_signs(text);
                }
                QueryInput::Text(text.to_owned())
            }
        }
    }

    /// Prints a note, once per process, if a query has operators that are read as words.
    fn note_signs(&self, text: &str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let Some(sign) = warpseek::query::sign(text) else { return };
        if !SAID.swap(true, Ordering::Relaxed) {
            terminal::note(format!(
                "`{sign}` is read as words, because the index has neither a schema nor positions; --syntax enables operators such as + and - (fields need a schema, phrases an index with --positions), and --words silences this note"
            ));
        }
    }

    /// Parses the query of `--filter`, if it is given.
    pub(crate) fn filter(&self, searcher: &Searcher) -> Result<Option<Arc<Node>>, Failure> {
        let parse = |text: &String| Ok(Arc::new(searcher.parse(text)?));
        self.filter.as_ref().map(parse).transpose()
    }

    /// Returns the text of `--filter`, if it is given.
    pub(crate) fn filter_text(&self) -> Option<String> {
        self.filter.clone()
    }

    /// Reads the ids in the file of `--among`, if it is given.
    pub(crate) fn ids(&self) -> Result<Option<Arc<[String]>>, Failure> {
        let Some(path) = &self.among else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::user(format!("{}: {error}", path.display())))?;
        let ids: Arc<[String]> =
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if ids.is_empty() {
            return Err(Failure::user(format!(
                "{}: the file has no ids; expected one per line",
                path.display()
            )));
        }
        Ok(Some(ids))
    }
}

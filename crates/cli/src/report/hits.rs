//! The hits of a query, as text and as JSON.

use std::io::Write;

use serde_json::{Value, json};
use warpseek::plan::Decision;
use warpseek::response::{Explanation, FieldSnippet};
use warpseek::{Response, Searcher};
use warpseek_console::Failure;
use warpseek_console::terminal::{Theme, count, counted};

use super::phrases::{caution, matching};
use super::text::{painted, printable, wrap};
use super::{decision, explanation, residency};
use crate::sorting::Sorting;

/// The hits of a query and the options of their output.
pub(crate) struct HitReport<'a> {
    pub(crate) query: &'a str,
    /// True if each score is explained.
    pub(crate) explain: bool,
    /// True if the choice of the algorithm and device is explained.
    pub(crate) explain_plan: bool,
    pub(crate) sorting: Sorting,
    pub(crate) decision: Decision,
    pub(crate) searcher: &'a Searcher,
    pub(crate) response: Response,
}

impl HitReport<'_> {
    fn explanation(&self, rank: usize) -> Result<Option<Explanation>, Failure> {
        Ok(self.explain.then(|| self.response.explain(rank)).transpose()?)
    }

    /// Describes the algorithm and device that answered, and the reason.
    fn engine(&self) -> String {
        let status = self.searcher.gpu_status();
        let no_gpu = match &status.why_not {
            Some(_) => "; no GPU".to_owned(),
            None => String::new(),
        };
        match self.decision.choices.first() {
            // An algorithm that the user chose needs no reason.
            Some(choice) if choice.device == "CPU" && choice.is_asked_for() => {
                choice.algorithm.clone()
            }
            Some(choice) if choice.device == "CPU" => {
                format!("{} ({}{no_gpu})", choice.algorithm, choice.why)
            }
            Some(choice) => format!("{} on {} ({})", choice.algorithm, choice.device, choice.why),
            None => String::new(),
        }
    }

    /// Returns the report as JSON.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        let response = &self.response;
        let plan = response.plan();
        let mut hits = Vec::new();
        for (rank, hit) in response.hits().iter().enumerate() {
            let mut entry = json!({
                "rank": rank + 1,
                "id": response.id(rank)?,
                "doc": hit.doc,
                "score": response.score(rank),
                "units": hit.score,
                "document": response.document(rank)?,
            });
            if self.sorting.is_sorted() {
                entry["sort"] = response.sort_values(rank).to_json().into();
            }
            if let Some(explanation) = self.explanation(rank)? {
                entry["explanation"] = explanation::as_json(&explanation, plan);
            }
            hits.push(entry);
        }
        let (searched, documents) = response.documents_searched();
        let work = response.work().map(|work| {
            json!({
                "postings_scored": work.postings_scored,
                "blocks_decoded": work.blocks_decoded,
                "blocks_skipped": work.blocks_skipped,
            })
        });
        let mut found = json!({
            "query": self.query,
            "terms": plan.terms.iter().map(|t| &t.term).collect::<Vec<_>>(),
            "missing": response.unknown_words(self.query),
            "mode": plan.mode.to_string(),
            "ranking": self.searcher.ranking_name(),
            "approximate": plan.formulas.is_approximate(),
            "engine": self.engine(),
            "scale": plan.scale,
            "matches": response.matches(),
            "generation": response.generation(),
            "coverage": {
                "complete": response.coverage().is_complete(),
                "searched": searched,
                "documents": documents,
            },
            "microseconds": response.took().as_micros() as u64,
            "work": work,
            "hits": hits,
        });
        if !response.facets().is_empty() {
            found["facets"] = self.sorting.json(response);
        }
        if self.explain_plan {
            let residency = self.searcher.gpu_status().residency;
            found["plan"] = decision::as_json(&self.decision, plan);
            found["plan"]["residency"] = residency.iter().map(residency::as_json).collect();
        }
        Ok(found)
    }

    /// Prints the report as text.
    pub(crate) fn print(&self, out: &mut impl Write, theme: &Theme) -> Result<(), Failure> {
        let response = &self.response;
        let plan = response.plan();
        for rank in 0..response.hits().len() {
            let id = response.id(rank)?;
            let document = response.document(rank)?.unwrap_or(Value::Null);
            let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or("");
            let number = theme.paint(theme.dim, format!("{:>3}.", rank + 1));
            let score = theme.paint(theme.dim, format!("{:.4}", response.score(rank)));
            let id = theme.paint(theme.strong, printable(&id));
            match self.sorting.line(response, rank) {
                line if line.is_empty() => writeln!(out, "{number} {id}  {score}")?,
                line => writeln!(out, "{number} {id}  {line}  {score}")?,
            }
            let texts: Vec<String> = match self.has_fields() {
                true => self.fields(rank, theme)?,
                false => [(field("title"), 74), (field("text"), 220)]
                    .map(|(text, width)| self.highlighted(text, width, theme))
                    .to_vec(),
            };
            for text in texts {
                wrap(&text, 75).iter().try_for_each(|line| writeln!(out, "     {line}"))?;
            }
            if let Some(explanation) = self.explanation(rank)? {
                explanation::print(&explanation, plan, out)?;
            }
        }
        self.sorting.print(response, out, theme)?;
        let mut dim = |line: String| writeln!(out, "{}", theme.paint(theme.dim, line));
        let unknown = response.unknown_words(self.query);
        if !unknown.is_empty() {
            dim(format!("in no document: {}", printable(&unknown.join(" "))))?;
        }
        if !response.coverage().is_complete() {
            let (searched, documents) = response.documents_searched();
            let all = counted(documents, "document");
            dim(format!("the deadline passed: {} of {all} were searched", count(searched)))?;
        }
        let matches = response.matches().map_or(String::new(), |n| format!("{}, ", matching(n)));
        let scored = match response.work() {
            Some(work) => format!("{} scored in ", counted(work.postings_scored, "posting")),
            None => "in ".to_owned(),
        };
        dim(format!("{matches}{scored}{:.2} ms", response.took().as_secs_f64() * 1e3))?;
        dim(format!("by {}{}", self.engine(), caution(self.searcher)))?;
        if self.explain_plan {
            let mut lines = decision::lines(&self.decision, plan);
            let residency = self.searcher.gpu_status().residency;
            lines.extend(residency.iter().map(|gpu| format!("  {}", residency::line(gpu))));
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(())
    }

    fn has_fields(&self) -> bool {
        self.response.snapshot().manifest().schema.is_some()
    }

    /// Returns the fields of a hit that have words of the query, with their names, or the first
    /// field if none has.
    fn fields(&self, rank: usize, theme: &Theme) -> Result<Vec<String>, Failure> {
        let mut fields = self.response.snippets(rank, 220)?;
        if fields.iter().any(|field| !field.snippet.highlights.is_empty()) {
            fields.retain(|field| !field.snippet.highlights.is_empty());
        } else {
            fields.truncate(1);
        }
        let text = |field: &FieldSnippet| {
            let name = theme.paint(theme.dim, format!("{}:", printable(&field.field)));
            format!("{name} {}", painted(&field.snippet, theme))
        };
        Ok(fields.iter().map(text).collect())
    }

    fn highlighted(&self, text: &str, width: usize, theme: &Theme) -> String {
        painted(&self.response.snippet(text, width), theme)
    }
}

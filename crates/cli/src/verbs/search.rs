use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use warpseek_exec::{Answer, Explanation, Plan, explain};
use warpseek_text::snippet;

use crate::decision::Decision;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::options::{Searching, Threads};
use crate::searcher::Searcher;
use crate::terminal::{Theme, count, counted, note, table};

/// Search an index
///
/// Words may carry weights (`apple^2.5 pie`). For an index of vectors the query is tokens with weights, or a JSON object of them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek search idx \"route flap damping\"
  warpseek search idx \"ospf^2 area\" --mode and -k 5 --explain
  warpseek search idx \"ospf area\" --count
  warpseek search idx \"slow start\" --rank cosine --json
  warpseek search idx \"route flap damping\" --mode and --device cuda --algorithm intersect
  warpseek search idx \"route flap damping\" --device auto --explain-plan   where it is answered, and why
  warpseek search vectors '{\"slow\": 1.3, \"start\": 0.8}'")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// The query; several words need no quotes
    #[arg(required = true)]
    query: Vec<String>,
    /// How many hits
    #[arg(short, default_value_t = 10, value_name = "K")]
    k: usize,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    threads: Threads,
    /// Show how each score came about
    #[arg(long)]
    explain: bool,
    /// Show which algorithm answered, where, why, and the numbers that decided
    #[arg(long)]
    explain_plan: bool,
    /// JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let threads = options.threads.get();
    let searcher = Searcher::open(&options.index, &options.searching, options.k, threads)?;
    let query = options.query.join(" ");
    if !searcher.stays(&[searcher.plan(&query)?]) {
        // Nobody listens: Ctrl-C ends the program, which writes nothing.
        searcher.load(&Interrupt::default(), options.json)?;
    }
    let start = Instant::now();
    let mut answers = searcher.answer(&[&query])?;
    let took = start.elapsed();
    let (plan, answer) = answers.remove(0);
    if plan.terms.is_empty() && plan.missing.is_empty() {
        note("the query has no words to search for (only stop words or punctuation)");
    }
    let (query, explain) = (query.as_str(), options.explain);
    let decide = || searcher.decide(std::slice::from_ref(&plan));
    let decision = options.explain_plan.then(decide);
    let searcher = &searcher;
    let result = Found { query, explain, decision, searcher, plan: &plan, answer: &answer, took };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{:#}", result.json()?)?;
    } else {
        result.print(&mut out, &Theme::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Searches with the defaults and prints.
pub(super) fn show(
    index: &Path,
    query: &str,
    k: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let searcher = Searcher::open(index, &Searching::default(), k, 1)?;
    let start = Instant::now();
    let mut answers = searcher.answer(&[query])?;
    let (took, (plan, answer)) = (start.elapsed(), answers.remove(0));
    let (searcher, plan, answer) = (&searcher, &plan, &answer);
    Found { query, explain: false, decision: None, searcher, plan, answer, took }
        .print(out, &Theme::stdout())
}

struct Found<'a> {
    query: &'a str,
    explain: bool,
    decision: Option<Decision>,
    searcher: &'a Searcher,
    plan: &'a Plan,
    answer: &'a Answer,
    took: Duration,
}

impl Found<'_> {
    fn document(&self, doc: u32) -> Result<Value, Failure> {
        let json = self.searcher.snapshot.document(doc)?;
        Ok(json.map_or(Ok(Value::Null), |json| serde_json::from_slice(&json))?)
    }

    fn explanation(&self, doc: u32) -> Result<Option<Explanation>, Failure> {
        let explanation = || explain(&self.searcher.snapshot, self.plan, doc);
        Ok(self.explain.then(explanation).transpose()?)
    }

    fn json(&self) -> Result<Value, Failure> {
        let (plan, answer) = (self.plan, self.answer);
        let mut hits = Vec::new();
        for (rank, hit) in answer.hits.iter().enumerate() {
            let mut entry = json!({
                "rank": rank + 1,
                "id": self.searcher.snapshot.external_id(hit.doc)?,
                "doc": hit.doc,
                "score": plan.real(hit.score),
                "units": hit.score,
                "document": self.document(hit.doc)?,
            });
            if let Some(explanation) = self.explanation(hit.doc)? {
                entry["explanation"] = explanation_json(&explanation, plan);
            }
            hits.push(entry);
        }
        let work = answer.work;
        let mut found = json!({
            "query": self.query,
            "terms": plan.terms.iter().map(|t| &t.term).collect::<Vec<_>>(),
            "missing": plan.missing,
            "mode": plan.mode.to_string(),
            "ranking": self.searcher.ranking_name(),
            "approximate": plan.formula.is_approximate(),
            "engine": self.searcher.engine_name(plan),
            "scale": plan.scale,
            "matches": answer.matches,
            "microseconds": self.took.as_micros() as u64,
            "work": {
                "postings_scored": work.postings_scored,
                "blocks_decoded": work.blocks_decoded,
                "blocks_skipped": work.blocks_skipped,
            },
            "hits": hits,
        });
        if let Some(decision) = &self.decision {
            found["plan"] = decision.json(plan);
        }
        Ok(found)
    }

    fn print(&self, out: &mut impl Write, theme: &Theme) -> Result<(), Failure> {
        let (plan, answer) = (self.plan, self.answer);
        for (rank, hit) in answer.hits.iter().enumerate() {
            let id = self.searcher.snapshot.external_id(hit.doc)?;
            let document = self.document(hit.doc)?;
            let field = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or("");
            let rank = theme.paint(theme.dim, format!("{:>3}.", rank + 1));
            let score = theme.paint(theme.dim, format!("{:.4}", plan.real(hit.score)));
            writeln!(out, "{rank} {}  {score}", theme.paint(theme.strong, printable(&id)))?;
            for (text, width) in [(field("title"), 74), (field("text"), 220)] {
                let text = self.highlighted(text, width, theme);
                wrap(&text, 75).iter().try_for_each(|line| writeln!(out, "     {line}"))?;
            }
            if let Some(explanation) = self.explanation(hit.doc)? {
                print_explanation(&explanation, plan, out)?;
            }
        }
        if !plan.missing.is_empty() {
            writeln!(
                out,
                "{}",
                theme.paint(theme.dim, format!("in no document: {}", plan.missing.join(" ")))
            )?;
        }
        let matches = answer.matches.map_or(String::new(), |n| format!("{}, ", matching(n)));
        let line = format!(
            "{matches}{} scored in {:.2} ms",
            counted(answer.work.postings_scored, "posting"),
            self.took.as_secs_f64() * 1e3,
        );
        writeln!(out, "{}", theme.paint(theme.dim, line))?;
        let engine = self.searcher.engine_name(plan);
        let line = format!("by {engine}{}", self.searcher.caution());
        writeln!(out, "{}", theme.paint(theme.dim, line))?;
        let lines = self.decision.as_ref().map_or(Vec::new(), |decision| decision.lines(plan));
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        Ok(())
    }

    fn highlighted(&self, text: &str, width: usize, theme: &Theme) -> String {
        let terms: Vec<&str> = self.plan.terms.iter().map(|t| t.term.as_str()).collect();
        let analyzer = self.searcher.snapshot.manifest().analyzer;
        let snippet = snippet(text, analyzer, &terms, width);
        let (mut out, mut at) = (String::new(), 0);
        for range in snippet.highlights {
            out += &printable(&snippet.text[at..range.start]);
            out += &theme.paint(theme.mark, printable(&snippet.text[range.clone()]));
            at = range.end;
        }
        out + &printable(&snippet.text[at..])
    }
}

/// How many documents match.
pub(super) fn matching(n: u64) -> String {
    format!("{} {}", counted(n, "document"), if n == 1 { "matches" } else { "match" })
}

/// Without control characters: a document must not command the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Breaks at blanks, and inside words longer than a line, so that no line shows more than `width` columns; escape
/// sequences show none.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line, mut shown) = (Vec::new(), String::new(), 0);
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let len: usize = columns(word).map(|(_, columns)| columns).sum();
        if shown > 0 && shown + 1 + len > width {
            lines.push(std::mem::take(&mut line));
            shown = 0;
        }
        if shown > 0 {
            line.push(' ');
            shown += 1;
        }
        for (c, columns) in columns(word) {
            if shown > 0 && shown + columns > width {
                lines.push(std::mem::take(&mut line));
                shown = 0;
            }
            line.push(c);
            shown += columns;
        }
    }
    lines.extend((!line.is_empty()).then_some(line));
    lines
}

/// Each character with the columns it takes on a terminal: none in an escape sequence, two if East Asian or a
/// pictograph, by the large blocks of Unicode that are wide throughout.
fn columns(text: &str) -> impl Iterator<Item = (char, usize)> + '_ {
    let mut escape = false;
    text.chars().map(move |c| {
        let columns = match c {
            '\u{1b}' => {
                escape = true;
                0
            }
            _ if escape => {
                escape = c != 'm';
                0
            }
            '\u{1100}'..='\u{115f}'
            | '\u{2e80}'..='\u{a4cf}'
            | '\u{ac00}'..='\u{d7a3}'
            | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff00}'..='\u{ff60}'
            | '\u{1f300}'..='\u{1faff}'
            | '\u{20000}'..='\u{3fffd}' => 2,
            _ => 1,
        };
        (c, columns)
    })
}

fn print_explanation(e: &Explanation, plan: &Plan, out: &mut impl Write) -> std::io::Result<()> {
    let in_doc = if plan.formula.is_approximate() { "impact" } else { "in doc" };
    let mut rows = vec![
        ["     term", "in query", "in docs", "idf", in_doc, "units", "score"]
            .map(String::from)
            .to_vec(),
    ];
    for t in &e.terms {
        rows.push(vec![
            format!("     {}", t.term),
            t.query_weight.to_string(),
            count(t.df),
            format!("{:.4}", t.idf),
            t.freq.to_string(),
            t.score.to_string(),
            format!("{:.4}", plan.real(t.score)),
        ]);
    }
    let total = |name: &str, score: u32| {
        let mut row = vec![format!("     {name}")];
        row.resize(5, String::new());
        row.extend([score.to_string(), format!("{:.4}", plan.real(score))]);
        row
    };
    if e.static_score > 0 {
        rows.push(total("static score", e.static_score));
    }
    rows.push(total("sum", e.score));
    table(&rows, out)?;
    writeln!(
        out,
        "     length {}, mean length {:.2}, norm {:.4}; one unit is 2^{}",
        e.length, e.mean_length, e.norm, -plan.scale
    )
}

fn explanation_json(e: &Explanation, plan: &Plan) -> Value {
    let in_doc = if plan.formula.is_approximate() { "impact" } else { "freq" };
    let terms: Vec<_> = e
        .terms
        .iter()
        .map(|t| {
            json!({
                "term": t.term, "query_weight": t.query_weight, "df": t.df, "idf": t.idf,
                in_doc: t.freq, "units": t.score, "score": plan.real(t.score),
            })
        })
        .collect();
    json!({
        "length": e.length, "mean_length": e.mean_length, "norm": e.norm,
        "terms": terms, "static_units": e.static_score, "units": e.score,
    })
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn lines_never_show_more_than_their_width() {
        assert_eq!(wrap("ab cd  ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrap("\u{1b}[1mab\u{1b}[0m cd ef", 5), ["\u{1b}[1mab\u{1b}[0m cd", "ef"]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("a \u{1b}[1mbcdefgh\u{1b}[0m", 5), ["a", "\u{1b}[1mbcdef", "gh\u{1b}[0m"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert!(wrap("", 5).is_empty());
    }
}

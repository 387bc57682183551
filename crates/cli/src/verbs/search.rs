//! `warpseek search`: answers one query and prints the hits as text or JSON. Also has the helpers
//! for output on a terminal, which other commands share.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use warpseek::{
    Decision, Error, ExecError, Explanation, FieldExplanation, FieldSnippet, Index, Plan, Request,
    Response, ScorePart, Searcher, SearcherOptions, Snippet, TermExplanation,
};
use warpseek_console::options::Threads;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{Theme, count, counted, note, table};
use warpseek_console::{Failure, Interrupt};

use crate::options::{Deadline, Searching};
use crate::sorting::Sorting;
use crate::{decision, residency};

/// Search an index
///
/// Words may have weights (`apple^2.5 pie`). An index with a schema or positions also supports
/// fields, operators, phrases and conditions (docs/reference/query-syntax.md). For an index of
/// vectors, the query is a list of tokens with weights or a JSON object.
#[derive(Args)]
#[command(after_help = "\
Examples:
  warpseek search idx \"route flap damping\"
  warpseek search idx \"ospf^2 area\" --mode and -k 5 --explain
  warpseek search idx \"+title:ospf area\" --filter \"year:>=2010\" --sort year:desc --facet tag

For misspelt words, see `warpseek ngram`. `--help` shows all options.")]
#[command(after_long_help = "\
Examples:
  warpseek search idx \"route flap damping\"
  warpseek search idx \"ospf^2 area\" --mode and -k 5 --explain
  warpseek search idx \"ospf area\" --count
  warpseek search idx \"slow start\" --rank cosine --json
  warpseek search idx \"slow start\" --deadline 5ms                  best hits within 5 ms
  warpseek search idx \"flap damping\" --among ids.txt              only these documents
  warpseek search idx \"+title:ospf area year:>=2010\"              fields and conditions
  warpseek search idx \"flap damping\" --filter \"year:>=2010\"      only documents that match
  warpseek search idx ospf --sort year:desc,_score                 by year, then by score
  warpseek search idx ospf --sort year:desc --after '[2019, 17]'   the next page
  warpseek search idx ospf --facet tag --facet year:..2000,2000..  counts of all matches
  warpseek search idx \"flap damping\" --device auto --explain-plan  which device answered, and why
  warpseek search vectors '{\"slow\": 1.3, \"start\": 0.8}'

For misspelt words, see `warpseek ngram`.
Settings for studies (--tile, --partition and others) are in docs/reference/study-settings.md.")]
pub(crate) struct Options {
    /// Directory of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
    /// Query; several words need no quotes
    #[arg(required = true)]
    query: Vec<String>,
    /// Number of hits to return
    #[arg(short, long, default_value_t = 10, value_name = "K", help_heading = "Query")]
    k: usize,
    #[command(flatten)]
    searching: Searching,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    deadline: Deadline,
    #[command(flatten)]
    threads: Threads,
    /// Unsupported; the error names the command for approximate search
    #[arg(long, hide = true)]
    fuzzy: bool,
    /// Show how each score is computed
    #[arg(long, help_heading = "Output")]
    explain: bool,
    /// Show the algorithm and device that answered, the reason, and the estimates behind the choice
    #[arg(long, help_heading = "Output")]
    explain_plan: bool,
    /// Print JSON instead of text
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    if options.fuzzy {
        return Err(Failure::user(
            "an index of words does not find misspelt words; build an index of n-grams \
             with `warpseek ngram index INPUT -o DIR` and search it with `warpseek ngram search DIR QUERY`",
        ));
    }
    let (index, searching) = (Index::at(&options.index), options.searching.for_one());
    let among = searching.query.ids()?;
    let settings = searching.options(&index, options.threads.get())?;
    let searcher = index.searcher_with(settings)?;
    let query = options.query.join(" ");
    let mut request = Request::new(searching.query.input(&searcher, &query))
        .k(options.k)
        .mode(searching.query.mode)
        .count(searching.query.count);
    request.among = among;
    request.filter = searching.query.filter(&searcher)?;
    if let Some(time) = options.deadline.deadline {
        request = request.deadline(time);
    }
    let request = options.sorting.apply(&searcher, request)?;
    // If the deadline leaves no time for a plan, the search reports that.
    let plan = match searcher.plan(&request) {
        Err(Error::Query(ExecError::Stopped)) => None,
        plan => Some(plan?),
    };
    let needs_gpu = |plan| {
        let decision = searcher.decide(&[plan]);
        decision.choices.iter().any(|choice| choice.device != "CPU")
    };
    if plan.as_ref().is_some_and(needs_gpu) {
        // This flag is never set: Ctrl-C ends the program, which has written nothing.
        let display = Display::loading(&searcher.loadings(), &Interrupt::default(), options.json);
        let prepared = searcher.prepare();
        drop(display);
        prepared?;
    }
    let response = searcher.search(&request)?;
    if plan.is_some_and(|plan| {
        plan.terms.is_empty() && plan.missing.is_empty() && plan.needed_tree().is_none()
    }) {
        note("the query has no words to search for (only stop words or punctuation)");
    }
    // A GPU may have failed during the search, so the decision is repeated after it.
    let decision = searcher.decide(&[response.plan()]);
    let found = Found {
        query: &query,
        explain: options.explain,
        explain_plan: options.explain_plan,
        sorting: options.sorting.clone(),
        decision,
        searcher: &searcher,
        response,
    };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{:#}", found.json()?)?;
    } else {
        found.print(&mut out, &Theme::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Searches with the default options and prints the hits.
pub(super) fn show(
    index: &Index,
    query: &str,
    k: usize,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let searcher = index.searcher_with(SearcherOptions::new().threads(1))?;
    let response = searcher.search(&Request::new(query).k(k))?;
    let decision = searcher.decide(&[response.plan()]);
    let (explain, explain_plan) = (false, false);
    let sorting = Sorting::default();
    Found { query, explain, explain_plan, sorting, decision, searcher: &searcher, response }
        .print(out, &Theme::stdout())
}

struct Found<'a> {
    query: &'a str,
    explain: bool,
    explain_plan: bool,
    sorting: Sorting,
    decision: Decision,
    searcher: &'a Searcher,
    response: Response,
}

impl Found<'_> {
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
            Some(choice) if choice.device == "CPU" && choice.why == "asked for" => {
                choice.algorithm.clone()
            }
            Some(choice) if choice.device == "CPU" => {
                format!("{} ({}{no_gpu})", choice.algorithm, choice.why)
            }
            Some(choice) => format!("{} on {} ({})", choice.algorithm, choice.device, choice.why),
            None => String::new(),
        }
    }

    /// Returns an addition to the summary line if the ranking or the algorithm is approximate.
    fn caution(&self) -> String {
        caution(self.searcher)
    }

    fn json(&self) -> Result<Value, Failure> {
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
                entry["explanation"] = explanation_json(&explanation, plan);
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

    fn print(&self, out: &mut impl Write, theme: &Theme) -> Result<(), Failure> {
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
                print_explanation(&explanation, plan, out)?;
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
        dim(format!("by {}{}", self.engine(), self.caution()))?;
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

/// Returns a snippet with marked highlights and without control characters.
pub(super) fn painted(snippet: &Snippet, theme: &Theme) -> String {
    let (mut out, mut at) = (String::new(), 0);
    for range in &snippet.highlights {
        out += &printable(&snippet.text[at..range.start]);
        out += &theme.paint(theme.mark, printable(&snippet.text[range.clone()]));
        at = range.end;
    }
    out + &printable(&snippet.text[at..])
}

/// Returns an addition to the summary line if the ranking or the algorithm is approximate.
pub(super) fn caution(searcher: &Searcher) -> String {
    let algorithm = match searcher.has_approximate_algorithm() {
        true => "; homogeneous partitions: approximate",
        false => "",
    };
    match searcher.snapshot().manifest().impacts {
        Some(_) => format!("; ranked by {}{algorithm}", searcher.ranking_name()),
        None => algorithm.to_owned(),
    }
}

/// Returns a phrase with the number of matching documents.
pub(super) fn matching(n: u64) -> String {
    format!("{} {}", counted(n, "document"), if n == 1 { "matches" } else { "match" })
}

/// Replaces control characters, so that text of documents cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Breaks a text at blanks, and inside words longer than a line, so that no line takes more than
/// `width` columns. Escape sequences take none.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
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

/// Returns each character with the columns it takes on a terminal: none in an escape sequence, two
/// for East Asian characters and pictographs, judged by the large Unicode blocks that are wide
/// throughout.
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
    let in_doc = if plan.formulas.is_approximate() { "impact" } else { "in doc" };
    let mut rows = vec![
        ["     term", "in query", "in docs", "idf", in_doc, "units", "score"]
            .map(String::from)
            .to_vec(),
    ];
    for t in &e.terms {
        rows.push(vec![
            format!("     {}", printable(&e.name_of(t))),
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
    let is_sum = e.terms.iter().map(|term| term.score).sum::<u32>() + e.static_score == e.score;
    rows.push(total(if is_sum { "sum" } else { "score" }, e.score));
    table(&rows, out)?;
    if !is_sum {
        writeln!(out, "     made of, in units:")?;
        e.lines().iter().try_for_each(|line| writeln!(out, "       {}", printable(line)))?;
    }
    let fields = e.fields.iter().map(|field| {
        let name = field.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
        format!("{name}length {}, mean length {:.2}", field.length, field.mean_length)
    });
    let fields: Vec<String> = fields.collect();
    let norm = e.norm.map_or(String::new(), |norm| format!(", norm {norm:.4}"));
    writeln!(out, "     {}{norm}; one unit is 2^{}", fields.join("; "), -plan.scale)
}

fn name_of<'a>(e: &'a Explanation, term: &TermExplanation) -> Option<&'a str> {
    e.fields.iter().find(|field| field.field == term.field)?.name.as_deref()
}

fn explanation_json(e: &Explanation, plan: &Plan) -> Value {
    let in_doc = if plan.formulas.is_approximate() { "impact" } else { "freq" };
    let terms: Vec<_> = e
        .terms
        .iter()
        .map(|t| {
            let mut term = json!({
                "term": t.term, "query_weight": t.query_weight, "df": t.df, "idf": t.idf,
                in_doc: t.freq, "units": t.score, "score": plan.real(t.score),
            });
            if let Some(name) = name_of(e, t) {
                term["field"] = name.into();
            }
            term
        })
        .collect();
    let mut json = json!({
        "terms": terms, "static_units": e.static_score, "units": e.score,
        "made_of": e.made_of.as_ref().map(|part| made_of_json(e, part, plan)),
    });
    let lengths = |field: &FieldExplanation| json!({ "length": field.length, "mean_length": field.mean_length });
    for field in &e.fields {
        match &field.name {
            Some(name) => json["fields"][name] = lengths(field),
            None => {
                json["length"] = field.length.into();
                json["mean_length"] = field.mean_length.into();
            }
        }
    }
    if let Some(norm) = e.norm {
        json["norm"] = norm.into();
    }
    json
}

fn made_of_json(e: &Explanation, part: &ScorePart, plan: &Plan) -> Value {
    let parts: Vec<Value> = part.parts.iter().map(|part| made_of_json(e, part, plan)).collect();
    json!({
        "units": part.score, "score": plan.real(part.score),
        "description": e.describe(part), "parts": parts,
    })
}

#[cfg(test)]
mod tests {
    use super::wrap;

    #[test]
    fn wrapped_lines_never_exceed_the_width() {
        assert_eq!(wrap("ab cd  ef", 5), ["ab cd", "ef"]);
        assert_eq!(wrap("\u{1b}[1mab\u{1b}[0m cd ef", 5), ["\u{1b}[1mab\u{1b}[0m cd", "ef"]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("a \u{1b}[1mbcdefgh\u{1b}[0m", 5), ["a", "\u{1b}[1mbcdef", "gh\u{1b}[0m"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert!(wrap("", 5).is_empty());
    }
}

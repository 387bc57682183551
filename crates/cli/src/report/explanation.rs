//! The computation of a score, as text and as JSON, for `--explain`.

use std::io::Write;

use serde_json::{Value, json};
use warpseek::plan::Plan;
use warpseek::response::{Explanation, FieldExplanation, ScorePart, TermExplanation};
use warpseek_console::terminal::{count, table};

use super::text::printable;

/// Prints a table with a row for each term.
pub(super) fn print(e: &Explanation, plan: &Plan, out: &mut impl Write) -> std::io::Result<()> {
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

/// Returns an explanation as JSON.
pub(super) fn as_json(e: &Explanation, plan: &Plan) -> Value {
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
        "made_of": e.made_of.as_ref().map(|part| part_as_json(e, part, plan)),
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

fn part_as_json(e: &Explanation, part: &ScorePart, plan: &Plan) -> Value {
    let parts: Vec<Value> = part.parts.iter().map(|part| part_as_json(e, part, plan)).collect();
    json!({
        "units": part.score, "score": plan.real(part.score),
        "description": e.describe(part), "parts": parts,
    })
}

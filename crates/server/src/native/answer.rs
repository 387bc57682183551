//! The answer of `/v1` to a search.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use warpseek::Response;
use warpseek::plan::Plan;
use warpseek::query::{FacetCounts, Limit, value_as_json};
use warpseek::response::{Explanation, ScorePart};
use warpseek::text::Snippet;

use super::ask::{FacetRequest, HighlightRequest, SearchRequest};
use super::order::sort_values;
use crate::elasticsearch::search::snippets;
use crate::error::Failure;
use crate::http::caller::Caller;
use crate::indexes::open_index::View;

/// The results of a search.
#[derive(Debug, Serialize)]
pub(crate) struct SearchAnswer {
    /// Microseconds of planning and search; in a batch, of the whole batch.
    pub(crate) took_us: u64,
    pub(crate) hits: Vec<HitAnswer>,
    /// Number of matching documents, if it was requested or is known anyway.
    pub(crate) matches: Option<u64>,
    /// Words of the query that occur in no document.
    pub(crate) missing: Vec<String>,
    /// The generation of the index that was searched.
    pub(crate) generation: u64,
    pub(crate) coverage: CoverageAnswer,
    /// Counts for each requested facet, in the same order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) facets: Vec<FacetAnswer>,
    /// The way in which the search was executed; absent in batches.
    #[serde(flatten)]
    pub(crate) trace: Option<TraceAnswer>,
}

/// The way in which a search was executed.
#[derive(Debug, Serialize)]
pub(crate) struct TraceAnswer {
    /// The device that answered: `CPU`, or the name of a GPU.
    pub(crate) device: String,
    /// The algorithm used on the device.
    pub(crate) algorithm: String,
    /// The reason for this choice.
    pub(crate) why: String,
    pub(crate) steps: StepsAnswer,
}

/// Milliseconds of each step, in chronological order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct StepsAnswer {
    /// Waiting between the arrival of the request and the start of its work.
    pub(crate) wait: f64,
    /// Reading the body and translating the query.
    pub(crate) parse: f64,
    /// Looking up words and conditions.
    pub(crate) plan: f64,
    /// The search itself, including counts and facets.
    pub(crate) search: f64,
    /// Fetching ids and documents of hits.
    pub(crate) fetch: f64,
    /// Finding highlights.
    pub(crate) highlight: f64,
    /// Explaining scores.
    pub(crate) explain: f64,
}

/// A hit.
#[derive(Debug, Serialize)]
pub(crate) struct HitAnswer {
    pub(crate) id: String,
    pub(crate) score: f64,
    /// The sort values of the hit, if the search has `sort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sort: Option<Vec<Value>>,
    /// The document: null if the index stores ids only, absent if it was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) document: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) highlights: Option<Vec<HighlightAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) explanation: Option<ExplanationAnswer>,
}

/// The part of a text field that shows the match.
#[derive(Debug, Serialize)]
pub(crate) struct HighlightAnswer {
    pub(crate) field: String,
    /// The part, split where matches begin and end; the pieces concatenated are the whole part.
    pub(crate) pieces: Vec<Piece>,
}

/// A piece of a text.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Piece {
    pub(crate) text: String,
    /// True if the piece matches a word of the query.
    #[serde(rename = "match")]
    pub(crate) is_match: bool,
}

/// The explanation of a score. It equals the sum of the scores of terms, `static_score` and
/// `other` exactly; `made_of` shows the calculation.
#[derive(Debug, Serialize)]
pub(crate) struct ExplanationAnswer {
    pub(crate) score: f64,
    /// Every term of the query. Terms that the document lacks, or that are in an unmatched part
    /// of the query, have the score 0.
    pub(crate) terms: Vec<TermAnswer>,
    /// The static score of the document.
    pub(crate) static_score: f64,
    /// The rest of the score, which is not a sum of terms: conditions with a score, and the
    /// deduction for fields other than the best, which is negative.
    pub(crate) other: f64,
    /// The parts of the query that the document matches.
    pub(crate) made_of: Option<PartAnswer>,
}

/// A part of a score and its own parts.
#[derive(Debug, Serialize)]
pub(crate) struct PartAnswer {
    pub(crate) score: f64,
    /// The rule that combines the parts: `sum of:`, `max of:`, and so on.
    pub(crate) description: String,
    pub(crate) parts: Vec<PartAnswer>,
}

impl PartAnswer {
    fn new(plan: &Plan, explanation: &Explanation, part: &ScorePart) -> Self {
        let parts = part.parts.iter().map(|part| PartAnswer::new(plan, explanation, part));
        PartAnswer {
            score: plan.real(part.score),
            description: explanation.describe(part),
            parts: parts.collect(),
        }
    }
}

/// The contribution of a term to a score.
#[derive(Debug, Serialize)]
pub(crate) struct TermAnswer {
    pub(crate) field: String,
    pub(crate) term: String,
    pub(crate) score: f64,
    /// The weight of the term in the query.
    pub(crate) weight: f64,
    pub(crate) idf: f64,
    /// Number of documents with the term.
    pub(crate) documents: u64,
    /// Number of occurrences of the term in this document.
    pub(crate) occurrences: u32,
    /// Number of words in the field: of this document, and on average.
    pub(crate) length: u32,
    pub(crate) mean_length: f64,
}

/// The part of the index that was searched.
#[derive(Debug, Serialize)]
pub(crate) struct CoverageAnswer {
    /// The searched documents in percent.
    pub(crate) coverage: u64,
    /// Number of documents that were searched, and of all documents.
    pub(crate) documents: u64,
    pub(crate) of: u64,
    pub(crate) full: bool,
    pub(crate) degraded: DegradedAnswer,
}

/// The reasons for an incomplete search.
#[derive(Debug, Serialize)]
pub(crate) struct DegradedAnswer {
    /// True if the time limit was reached.
    pub(crate) timeout: bool,
}

/// Counts of all matches by a field: `values`, `other` and `distinct`, or `ranges`.
#[derive(Debug, Serialize)]
pub(crate) struct FacetAnswer {
    pub(crate) field: String,
    /// The most frequent values, by descending count, then by ascending value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Vec<ValueCount>>,
    /// The sum of the counts of values that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<u64>,
    /// Number of different values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) distinct: Option<u64>,
    /// Counts for each requested range, in the same order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ranges: Option<Vec<RangeCount>>,
    /// Number of matches without a value.
    pub(crate) missing: u64,
}

/// The number of matches with a value.
#[derive(Debug, Serialize)]
pub(crate) struct ValueCount {
    pub(crate) value: Value,
    pub(crate) count: u64,
}

/// The number of matches with a value in a range.
#[derive(Debug, Serialize)]
pub(crate) struct RangeCount {
    pub(crate) from: Option<Value>,
    pub(crate) to: Option<Value>,
    pub(crate) count: u64,
}

impl CoverageAnswer {
    pub(super) fn new(documents: u64, total: u64, full: bool) -> Self {
        let coverage = (documents * 100).checked_div(total).unwrap_or(100);
        CoverageAnswer {
            coverage,
            documents,
            of: total,
            full,
            degraded: DegradedAnswer { timeout: !full },
        }
    }
}

impl SearchAnswer {
    /// Builds the answer to a request. The times of steps after the search are added to `steps`.
    pub(super) fn new(
        view: &View,
        response: &Response,
        asked: &SearchRequest,
        steps: &mut StepsAnswer,
        (caller, limit): (&Caller, &Limit),
    ) -> Result<Self, Failure> {
        let (mut hits, mut is_cut) = (Vec::new(), false);
        for rank in asked.from..response.hits().len() {
            caller.check(limit)?;
            is_cut |= (asked.highlight.is_some() || asked.explain) && limit.is_over();
            hits.push(hit(view, response, asked, rank, steps, !is_cut)?);
        }
        if is_cut {
            caller.check(limit)?;
        }
        let (documents, total) = response.documents_searched();
        let full = response.coverage().is_complete();
        let facets = asked.facets.iter().zip(response.facets());
        let missing = match response.plan().missing.is_empty() {
            true => Vec::new(),
            false => response.unknown_words(asked.query.as_str().unwrap_or_default()),
        };
        Ok(SearchAnswer {
            took_us: u64::try_from(response.took().as_micros()).unwrap_or(u64::MAX),
            hits,
            matches: response.matches(),
            missing,
            generation: response.generation(),
            coverage: CoverageAnswer {
                degraded: DegradedAnswer { timeout: !full || is_cut },
                ..CoverageAnswer::new(documents, total, full)
            },
            facets: facets.map(|(asked, counts)| FacetAnswer::new(asked, counts)).collect(),
            trace: None,
        })
    }
}

fn hit(
    view: &View,
    response: &Response,
    asked: &SearchRequest,
    rank: usize,
    steps: &mut StepsAnswer,
    has_time: bool,
) -> Result<HitAnswer, Failure> {
    let start = Instant::now();
    let mut shown = HitAnswer {
        id: response.id(rank)?,
        score: response.score(rank),
        sort: (!asked.sort.is_empty()).then(|| sort_values(response, rank)),
        document: None,
        highlights: None,
        explanation: None,
    };
    let document = match asked.documents || asked.highlight.is_some() {
        true => response.document(rank)?.map(|stored| view.mapping.source_of(stored)),
        false => None,
    };
    steps.fetch += ms(start.elapsed());
    if let Some(highlight) = &asked.highlight
        && has_time
    {
        let start = Instant::now();
        let document = document.as_ref().unwrap_or(&Value::Null);
        shown.highlights = Some(highlights(view, response, highlight, document));
        steps.highlight += ms(start.elapsed());
    }
    if asked.documents {
        shown.document = Some(document.unwrap_or(Value::Null));
    }
    if asked.explain && has_time {
        let start = Instant::now();
        shown.explanation = Some(ExplanationAnswer::new(response, &response.explain(rank)?));
        steps.explain += ms(start.elapsed());
    }
    Ok(shown)
}

fn highlights(
    view: &View,
    response: &Response,
    asked: &HighlightRequest,
    document: &Value,
) -> Vec<HighlightAnswer> {
    let mut shown: Vec<HighlightAnswer> = Vec::new();
    for pattern in &asked.fields {
        for (field, snippet) in snippets(view, response, pattern, document, asked.width) {
            let is_known = shown.iter().any(|known| known.field == field);
            if (asked.all || !snippet.highlights.is_empty()) && !is_known {
                shown.push(HighlightAnswer { field, pieces: pieces(&snippet) });
            }
        }
    }
    shown
}

pub(super) fn pieces(snippet: &Snippet) -> Vec<Piece> {
    let (mut pieces, mut at) = (Vec::new(), 0);
    let mut push = |text: &str, is_match| {
        if !text.is_empty() {
            pieces.push(Piece { text: text.to_owned(), is_match });
        }
    };
    for range in &snippet.highlights {
        push(&snippet.text[at..range.start], false);
        push(&snippet.text[range.clone()], true);
        at = range.end;
    }
    push(&snippet.text[at..], false);
    pieces
}

impl ExplanationAnswer {
    pub(super) fn new(response: &Response, explanation: &Explanation) -> Self {
        let plan = response.plan();
        let terms = explanation.terms.iter().map(|term| {
            let field = &explanation.fields[usize::from(term.field)];
            TermAnswer {
                field: field.name.clone().unwrap_or_else(|| "text".to_owned()),
                term: term.term.clone(),
                score: plan.real(term.score),
                weight: term.query_weight,
                idf: term.idf,
                documents: term.df,
                occurrences: term.freq,
                length: field.length,
                mean_length: field.mean_length,
            }
        });
        let terms: Vec<TermAnswer> = terms.collect();
        let (score, static_score) =
            (plan.real(explanation.score), plan.real(explanation.static_score));
        // Scores are integers times a power of two, so their sums are exact.
        let other = score - static_score - terms.iter().map(|term| term.score).sum::<f64>();
        let made_of = explanation.made_of.as_ref();
        let made_of = made_of.map(|part| PartAnswer::new(plan, explanation, part));
        ExplanationAnswer { score, terms, static_score, other, made_of }
    }
}

impl FacetAnswer {
    fn new(asked: &FacetRequest, counts: &FacetCounts) -> Self {
        let field = asked.field.clone();
        match counts {
            FacetCounts::Values { values, other, distinct, missing } => {
                let values = values.iter();
                let value = values.map(|(value, count)| ValueCount {
                    value: value_as_json(value),
                    count: *count,
                });
                FacetAnswer {
                    field,
                    values: Some(value.collect()),
                    other: Some(*other),
                    distinct: Some(*distinct),
                    ranges: None,
                    missing: *missing,
                }
            }
            FacetCounts::Ranges { counts, missing } => {
                let ranges = asked.ranges.iter().flatten().zip(counts);
                let range = ranges.map(|(range, count)| RangeCount {
                    from: range.from.clone(),
                    to: range.to.clone(),
                    count: *count,
                });
                FacetAnswer {
                    field,
                    values: None,
                    other: None,
                    distinct: None,
                    ranges: Some(range.collect()),
                    missing: *missing,
                }
            }
        }
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

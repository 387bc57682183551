//! Explanations of scores: the statistics and the contribution of each term, and the rules by
//! which a score follows from them.

use std::fmt::Write;

use warpseek_core::limits::BLOCK;
use warpseek_core::{DocId, Score};
use warpseek_index::{IndexError, List, Snapshot};

use crate::error::ExecError;
use crate::formula::Formula;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::query::{Facts, Group, PlanNode, TIE};

/// The contribution of one term to a score.
#[derive(Clone, Debug, PartialEq)]
pub struct TermExplanation {
    /// Number of the term's text field; 0 if the index has no schema.
    pub field: u8,
    /// The term.
    pub term: String,
    /// Weight of the term in the query.
    pub query_weight: f64,
    /// Number of live documents that contain the term.
    pub df: u64,
    /// Weight of the term in the collection.
    pub idf: f64,
    /// Frequency of the term in the document, or its impact in an index of impacts; 0 if the
    /// document does not contain it.
    pub freq: u32,
    /// Value of the frequency, given the length of the document, before it is multiplied by the
    /// term's weight; 0 if the document does not contain the term.
    pub value: f32,
    /// Contribution of the term in units. It is 0 if the document does not contain the term or
    /// does not match the part of the query that the term belongs to.
    pub score: Score,
}

/// Statistics of a document in a text field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldExplanation {
    /// Number of the field.
    pub field: u8,
    /// Name of the field; `None` if the index has no schema.
    pub name: Option<String>,
    /// Length of the document in the field.
    pub length: u32,
    /// Mean length over the documents that have the field, or over all documents if there is no
    /// schema.
    pub mean_length: f64,
}

/// A part of a score, with the parts from which it follows exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct ScorePart {
    /// The score in units.
    pub score: Score,
    /// The rule by which the score follows from the parts.
    pub rule: Rule,
    /// The parts of the query that the document matches and that have scores.
    pub parts: Vec<ScorePart>,
}

/// A rule by which a score follows from its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The score of the term with this number in [`Explanation::terms`].
    Term(usize),
    /// The sum of the parts; 0 if there are none.
    Sum,
    /// The largest of the parts, plus the sum of the others times `tie` / 65536, rounded down.
    Best {
        /// The tie breaker.
        tie: u32,
    },
    /// A number given in the query.
    Constant,
    /// The static score of the document.
    Static,
}

/// An explanation of the score of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Every text field of the index, in order; a single one if the index has no schema.
    pub fields: Vec<FieldExplanation>,
    /// Norm of the document; `None` unless documents are ranked by cosine.
    pub norm: Option<f32>,
    /// Every term of the plan.
    pub terms: Vec<TermExplanation>,
    /// Contribution of the document's static score, in units; 0 if the document does not match.
    pub static_score: Score,
    /// The score, in units; 0 if the document does not match.
    pub score: Score,
    /// The parts of the score; `None` if the document does not match.
    pub made_of: Option<ScorePart>,
}

impl Explanation {
    /// Returns a term with the name of its field, as in `title:apple`, or the term alone if
    /// fields have no names.
    pub fn name_of(&self, term: &TermExplanation) -> String {
        match self.fields.get(usize::from(term.field)).and_then(|field| field.name.as_ref()) {
            Some(field) => format!("{field}:{}", term.term),
            None => term.term.clone(),
        }
    }

    /// Describes how the score of a part follows from its own parts.
    pub fn describe(&self, part: &ScorePart) -> String {
        match part.rule {
            Rule::Term(number) => format!("weight({})", self.name_of(&self.terms[number])),
            Rule::Sum if part.parts.is_empty() => "conditions, which add nothing".to_owned(),
            Rule::Sum => "sum of:".to_owned(),
            Rule::Best { tie: 0 } => "max of:".to_owned(),
            Rule::Best { tie } => {
                // The tie breaker is only exact to this many digits.
                let mut shown = format!("{:.4}", f64::from(tie) / TIE);
                shown.truncate(shown.trim_end_matches('0').trim_end_matches('.').len());
                format!("max plus {shown} times others of:")
            }
            Rule::Constant => "constant score".to_owned(),
            Rule::Static => "static score of the document".to_owned(),
        }
    }

    /// Formats the parts of the score as lines. Each line has the units of a part and is indented
    /// below the part it belongs to.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut left: Vec<(usize, &ScorePart)> =
            self.made_of.iter().map(|part| (0, part)).collect();
        while let Some((depth, part)) = left.pop() {
            let mut line = "  ".repeat(depth);
            let _ = write!(line, "{} {}", part.score, self.describe(part));
            lines.push(line);
            left.extend(part.parts.iter().rev().map(|part| (depth + 1, part)));
        }
        lines
    }
}

impl ScorePart {
    fn leaf(rule: Rule, score: Score) -> Self {
        ScorePart { score, rule, parts: Vec::new() }
    }

    /// Returns the sum of parts, or the part itself if there is only one.
    ///
    /// The sum saturates: the scale of a plan has room for the static scores of live documents
    /// only, and that of a deleted document may be larger.
    fn sum(mut parts: Vec<ScorePart>) -> Self {
        match parts.len() {
            1 => parts.remove(0),
            _ => {
                let score = parts.iter().fold(0, |sum: Score, part| sum.saturating_add(part.score));
                ScorePart { score, rule: Rule::Sum, parts }
            }
        }
    }

    /// Returns the part of the score that a query node gives a document, or `None` if the
    /// document does not match it.
    fn of(node: &PlanNode, facts: &Facts<'_>) -> Option<Self> {
        let score = node.evaluate(facts)?;
        let all = |nodes: &[PlanNode]| -> Vec<ScorePart> {
            let scoring = nodes.iter().filter(|node| !node.is_condition());
            scoring.filter_map(|node| ScorePart::of(node, facts)).collect()
        };
        let part = match node {
            PlanNode::Term(number) => ScorePart::leaf(Rule::Term(*number), score),
            PlanNode::Group(Group { must, should, .. }) => {
                let mut parts = all(must);
                parts.extend(all(should));
                ScorePart::sum(parts)
            }
            PlanNode::Best { of, tie } => {
                let mut parts = all(of);
                match parts.len() {
                    1 => parts.remove(0),
                    _ => ScorePart { score, rule: Rule::Best { tie: *tie }, parts },
                }
            }
            PlanNode::Constant { .. } => ScorePart::leaf(Rule::Constant, score),
            PlanNode::Word(_)
            | PlanNode::Phrase(_)
            | PlanNode::Set(_)
            | PlanNode::Everything
            | PlanNode::Nothing => ScorePart::leaf(Rule::Sum, score),
        };
        debug_assert_eq!(part.score, score);
        Some(part)
    }

    /// Calls `f` with the number of every term that has a part in the score.
    fn for_each_term(&self, f: &mut impl FnMut(usize)) {
        if let Rule::Term(number) = self.rule {
            f(number);
        }
        self.parts.iter().for_each(|part| part.for_each_term(f));
    }
}

/// Explains the score that `doc` has under `plan`.
pub fn explain(snapshot: &Snapshot, plan: &Plan, doc: DocId) -> Result<Explanation, ExecError> {
    let Some((segment, ordinal)) = snapshot.locate(doc) else {
        let what = format!("it has no document {doc}");
        return Err(IndexError::Corrupt { path: snapshot.dir().to_owned(), what }.into());
    };
    let number = snapshot.segments().iter().position(|s| s.base() == segment.base()).unwrap_or(0);
    let documents = segment.documents();
    let place = documents.position(ordinal)?;
    let by_cosine = plan.terms.iter().any(|t| plan.formulas.of(t.field) == Formula::Cosine);
    let norm = by_cosine.then(|| segment.norms()).transpose()?.map(|norms| norms.get(place));
    let schema = snapshot.manifest().schema.as_ref();
    let of_field = |field: u8| -> Result<FieldExplanation, ExecError> {
        let length = segment.lengths(field)?.get(place);
        let mean_length = snapshot.field_statistics(field).mean_length();
        let name = schema.map(|schema| schema.text()[usize::from(field)].name.clone());
        Ok(FieldExplanation { field, name, length, mean_length })
    };
    let fields: Vec<FieldExplanation> =
        (0..).take(snapshot.text_fields()).map(of_field).collect::<Result<_, _>>()?;
    let static_score = documents.statics()?.map_or(0, |s| plan.static_score(s.get(place)));
    let (mut terms, mut shares) = (Vec::new(), Vec::new());
    for term in &plan.terms {
        let formula = plan.formulas.of(term.field);
        let mut freq = 0;
        if let Some(info) = &term.lists[number] {
            let list = segment.list(info)?;
            freq = frequency(&list, place).map_err(|what| segment.bad_list(info, what))?;
        }
        let length = fields[usize::from(term.field)].length;
        let factor = formula.factor(length, norm.unwrap_or(0.0));
        let (mut value, mut share) = (0.0, None);
        if freq > 0 {
            value = formula.value(freq, factor);
            share = Some(formula.contribution(term.weight, freq, factor));
        }
        shares.push(share);
        terms.push(TermExplanation {
            field: term.field,
            term: term.term.clone(),
            query_weight: term.query_weight,
            df: term.df,
            idf: term.idf,
            freq,
            value,
            score: 0,
        });
    }
    let mut made_of = match &plan.tree {
        Some(tree) => {
            let mut words = Vec::new();
            for lists in &tree.words {
                let Some(info) = &lists[number] else {
                    words.push(false);
                    continue;
                };
                let freq = frequency(&segment.list(info)?, place);
                words.push(freq.map_err(|what| segment.bad_list(info, what))? > 0);
            }
            let phrases = tree.phrases.iter().map(|phrase| phrase.is_in(segment, number, place));
            let phrases = phrases.collect::<Result<Vec<_>, _>>()?;
            let facts = Facts {
                term: &|term| shares[term],
                word: &|word| words[word],
                phrase: &|phrase| phrases[phrase],
                set: &|set| set.segment(number).contains(place),
            };
            ScorePart::of(&tree.root, &facts)
        }
        None => flat(plan, &shares),
    };
    if let Some(part) = &mut made_of {
        let of_term = &mut |number: usize| terms[number].score = shares[number].unwrap_or(0);
        part.for_each_term(of_term);
        if static_score > 0 {
            let own = ScorePart::leaf(Rule::Static, static_score);
            let mut parts = match part.rule {
                Rule::Sum => std::mem::take(&mut part.parts),
                _ => vec![part.clone()],
            };
            parts.push(own);
            *part = ScorePart::sum(parts);
        }
    }
    let static_score = if made_of.is_some() { static_score } else { 0 };
    let score = made_of.as_ref().map_or(0, |part| part.score);
    Ok(Explanation { fields, norm, terms, static_score, score, made_of })
}

/// Returns the score of a document under a plan without a tree: the sum of the contributions of
/// its terms.
fn flat(plan: &Plan, shares: &[Option<Score>]) -> Option<ScorePart> {
    let part = |(number, share): (usize, &Option<Score>)| {
        share.map(|share| ScorePart::leaf(Rule::Term(number), share))
    };
    let parts: Vec<ScorePart> = shares.iter().enumerate().filter_map(part).collect();
    let matches = match plan.mode {
        Mode::And => !plan.lacks_terms() && parts.len() == shares.len(),
        Mode::Or | Mode::AndOr => !parts.is_empty(),
    };
    matches.then(|| ScorePart::sum(parts))
}

/// Returns the frequency of a document in a list, or 0 if it is not in the list.
fn frequency(list: &List<'_>, doc: u32) -> Result<u32, warpseek_index::ListError> {
    let Some(block) = (0..list.blocks()).find(|&b| list.block_max_doc(b) >= doc) else {
        return Ok(0);
    };
    let mut out = [0; BLOCK];
    let n = list.decode_docs(block, &mut out)?;
    let Ok(place) = out[..n].binary_search(&doc) else { return Ok(0) };
    list.decode_freqs(block, &mut out)?;
    Ok(out[place])
}

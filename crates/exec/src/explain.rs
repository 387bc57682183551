//! Explanations of scores.

use warpseek_core::limits::BLOCK;
use warpseek_core::{DocId, Score};
use warpseek_index::{IndexError, List, Snapshot};

use crate::error::ExecError;
use crate::formula::Formula;
use crate::plan::Plan;
use crate::query::Facts;

/// The contribution of one term to a score.
#[derive(Clone, Debug, PartialEq)]
pub struct TermExplanation {
    /// The number of its text field; 0 if the index has no schema.
    pub field: u8,
    /// The term.
    pub term: String,
    /// Its weight in the query.
    pub query_weight: f64,
    /// Live documents that contain the term.
    pub df: u64,
    /// The weight of the term in the collection.
    pub idf: f64,
    /// Its frequency in the document, or its impact in an index of impacts; 0 if the document does not contain it.
    pub freq: u32,
    /// Its contribution in units; 0 if the document does not contain it.
    pub score: Score,
}

/// What a document has in a text field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldExplanation {
    /// The number of the field.
    pub field: u8,
    /// Its name; none if the index has no schema.
    pub name: Option<String>,
    /// Length of the document in it.
    pub length: u32,
    /// Mean length of the documents that have it; without a schema, of all.
    pub mean_length: f64,
}

/// How the score of a document is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Every text field of the index, in order: one if it has no schema.
    pub fields: Vec<FieldExplanation>,
    /// Norm of the document; none unless documents are ranked by cosine.
    pub norm: Option<f32>,
    /// Every term of the plan.
    pub terms: Vec<TermExplanation>,
    /// What the document's static score adds, in units.
    pub static_score: Score,
    /// The sum, in units; for a query tree that is no sum, what the tree makes of the terms. 0 if the document does not match.
    pub score: Score,
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
    let (mut terms, mut score) = (Vec::new(), static_score);
    for term in &plan.terms {
        let formula = plan.formulas.of(term.field);
        let mut freq = 0;
        if let Some(info) = &term.lists[number] {
            let list = segment.list(info)?;
            freq = frequency(&list, place).map_err(|what| segment.bad_list(info, what))?;
        }
        let length = fields[usize::from(term.field)].length;
        let factor = formula.factor(length, norm.unwrap_or(0.0));
        let share = if freq == 0 { 0 } else { formula.contribution(term.weight, freq, factor) };
        score += share;
        terms.push(TermExplanation {
            field: term.field,
            term: term.term.clone(),
            query_weight: term.query_weight,
            df: term.df,
            idf: term.idf,
            freq,
            score: share,
        });
    }
    if let Some(tree) = &plan.tree {
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
            term: &|term| Some(terms[term].score).filter(|&score| score > 0),
            word: &|word| words[word],
            phrase: &|phrase| phrases[phrase],
            set: &|set| set.segment(number).contains(place),
        };
        score = tree.root.evaluate(&facts).map_or(0, |score| score + static_score);
    }
    Ok(Explanation { fields, norm, terms, static_score, score })
}

/// Frequency of a document in a list; 0 if it is not in the list.
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

//! Planning: from a query to lists, weights and the scale of integer scores.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use warpseek_core::Score;
use warpseek_core::limits::{MAX_QUERY_TERMS, MAX_SCORE};
use warpseek_index::{Snapshot, SnapshotId, TermInfo};
use warpseek_text::Schema;

use crate::collection::CollectionStatistics;
use crate::error::ExecError;
use crate::formula::Formulas;
use crate::gather::Gather;
use crate::known::{KnownTerms, TermLists};
use crate::mask::Mask;
use crate::mode::Mode;
use crate::query::{PlanTree, Query, QueryTerm, is_weight};
use crate::ranking::{FieldRanking, Ranking};

/// A term of a plan. It is in at least one live document of the index, or of the collection that
/// the index is a part of.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanTerm {
    /// Number of the term's text field; 0 if the index has no schema.
    pub field: u8,
    /// The term as the index spells it.
    pub term: String,
    /// Sum of the weights that the term has in the query.
    pub query_weight: f64,
    /// Number of live documents that contain the term, in the whole collection.
    pub df: u64,
    /// Weight of the term in the collection.
    pub idf: f64,
    /// Weight of the term in the formula, in units.
    pub weight: f32,
    /// Largest contribution of one of the term's postings, in units.
    pub most: Score,
    /// The term's entry in each segment's dictionary.
    pub lists: Vec<Option<TermInfo>>,
}

/// Everything that an engine needs to answer a query. Scores of a plan are integers: real scores
/// times 2^`scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The snapshot that the plan was made for; engines of other snapshots reject it.
    pub snapshot: SnapshotId,
    /// Distinct terms, in the order of the query.
    pub terms: Vec<PlanTerm>,
    /// Terms of the query that are in no live document, with the numbers of their fields.
    pub missing: Vec<(u8, String)>,
    /// The condition for matching documents.
    pub mode: Mode,
    /// Number of requested hits.
    pub k: usize,
    /// True if matching documents are counted too. The planner sets it to false; callers that
    /// need the count set it.
    pub count: bool,
    /// The documents that may be hits, if not all live documents may. [`Planner::plan`] does not
    /// set it; callers that filter do.
    pub mask: Option<Arc<Mask>>,
    /// The query tree of the plan, if it was made from one. The tree defines which documents
    /// match and with which scores, besides static scores; if it is additive, terms, mode and
    /// mask express the same. The mask of a plan with a tree follows from the tree and must not
    /// be changed.
    pub tree: Option<Arc<PlanTree>>,
    /// Another order of hits, or counts, over all matches. The planner does not set it; callers
    /// set the result of [`Planner::gather`]. All matches are then counted.
    pub gather: Option<Arc<Gather>>,
    /// The formula of every text field of the index.
    pub formulas: Formulas,
    /// Factor of the static score. A document's static score times this factor, rounded down, is
    /// added to its score in units; 0 adds nothing.
    pub static_weight: f32,
    /// Binary logarithm of the number of units per 1.0.
    pub scale: i32,
}

impl Plan {
    /// Returns the approximate number of bytes of memory, including those shared with other plans.
    pub fn bytes(&self) -> usize {
        fn allocated<T>(vec: &Vec<T>) -> usize {
            vec.capacity() * size_of::<T>()
        }
        let term = |term: &PlanTerm| term.term.capacity() + allocated(&term.lists);
        let terms = allocated(&self.terms) + self.terms.iter().map(term).sum::<usize>();
        let words = self.missing.iter().map(|(_, word)| word.capacity()).sum::<usize>();
        let mask = self.mask.as_ref().map_or(0, |mask| mask.bytes());
        let tree = self.tree.as_ref().map_or(0, |tree| tree.bytes());
        let gather = self.gather.as_ref().map_or(0, |gather| gather.bytes());
        size_of::<Plan>() + terms + allocated(&self.missing) + words + mask + tree + gather
    }

    /// Returns the contribution of a static score, in units.
    #[inline]
    pub fn static_score(&self, score: f32) -> Score {
        (self.static_weight * score) as u32
    }

    /// Converts a score in units to a real number.
    pub fn real(&self, score: Score) -> f64 {
        f64::from(score) * libm::exp2(f64::from(-self.scale))
    }

    /// Returns the tree if it has to be evaluated, that is, if terms, mode and mask do not
    /// express the same.
    pub fn needed_tree(&self) -> Option<&PlanTree> {
        self.tree.as_deref().filter(|tree| !tree.is_additive)
    }

    /// Returns the words of the query that are in no live document, in any field.
    pub fn unknown_words(&self) -> Vec<&str> {
        let mut known: HashSet<&str> = self.terms.iter().map(|term| term.term.as_str()).collect();
        self.missing
            .iter()
            .map(|(_, word)| word.as_str())
            .filter(|word| known.insert(word))
            .collect()
    }

    /// Returns a lower bound on the number of live documents that match, from the statistics of
    /// single terms; 0 if no bound is known.
    pub fn least_matches(&self) -> u64 {
        if self.mask.is_some() {
            return 0;
        }
        let df = |number: usize| self.terms[number].df;
        match (self.needed_tree(), self.mode, self.terms.len()) {
            (Some(tree), ..) => tree.root.least_matches(&df),
            (None, Mode::Or, _) => (0..self.terms.len()).map(df).max().unwrap_or(0),
            (None, Mode::And, 1) if self.missing.is_empty() => df(0),
            (None, Mode::And | Mode::AndOr, _) => 0,
        }
    }

    /// Returns true if documents with any one of the terms match, as in an OR or an AND of one
    /// term.
    pub fn matches_any(&self) -> bool {
        self.mode == Mode::Or || self.terms.len() == 1 && !self.lacks_terms()
    }

    /// Returns true if a segment contains all terms.
    pub fn all_in(&self, segment: usize) -> bool {
        !self.lacks_terms() && self.terms.iter().all(|t| t.lists[segment].is_some())
    }

    /// Returns true if `And` has no matches because a term is in no document.
    pub fn lacks_terms(&self) -> bool {
        !self.missing.is_empty() || self.terms.is_empty()
    }
}

/// The smallest scale, at which every sum is small enough.
const LEAST_SCALE: i32 = -160;

/// The largest scale, at which a weight of 1 is half of the largest score.
const LARGEST_SCALE: i32 = 30;

/// Maximum number of terms for which comparing each with all earlier terms is faster than a
/// table.
const FEW_TERMS: usize = 16;

/// A planner of queries for one index and one ranking.
pub struct Planner {
    snapshot: Arc<Snapshot>,
    ranking: Ranking,
    fields: Vec<FieldRanking>,
    formulas: Formulas,
    /// Source of document frequencies, if they do not come from the index.
    collection: Option<Arc<CollectionStatistics>>,
    /// Cache of term lookups. A planner for a single plan has none, and neither has one with
    /// statistics of a collection.
    known: Option<KnownTerms>,
}

impl Planner {
    /// Creates a planner. Fails if the ranking, which applies to all text fields, does not suit
    /// the index.
    pub fn new(snapshot: Arc<Snapshot>, ranking: Ranking) -> Result<Self, ExecError> {
        Ok(Planner { known: Some(KnownTerms::new()), ..Self::for_one_plan(snapshot, ranking)? })
    }

    /// Creates a planner for a single plan, which does not cache term lookups.
    pub fn for_one_plan(snapshot: Arc<Snapshot>, ranking: Ranking) -> Result<Self, ExecError> {
        ranking.check(snapshot.manifest())?;
        let statistics = |field| snapshot.field_statistics(field);
        let fields = ranking.of_fields(&snapshot, statistics);
        let formulas = Formulas::new(fields.iter().map(|field| field.formula));
        Ok(Planner { snapshot, ranking, fields, formulas, collection: None, known: None })
    }

    /// Creates a planner for an index that holds a part of a collection's documents, with the
    /// statistics of the whole collection. Contributions, weights and scale are those of a single
    /// index of all documents. Also fails if the statistics cannot be those of a collection that
    /// contains this index.
    pub fn of_part(
        snapshot: Arc<Snapshot>,
        ranking: Ranking,
        collection: Arc<CollectionStatistics>,
    ) -> Result<Self, ExecError> {
        ranking.check(snapshot.manifest())?;
        collection.check(&snapshot)?;
        let statistics = |field| collection.fields[usize::from(field)];
        let fields = ranking.of_fields(&snapshot, statistics);
        let formulas = Formulas::new(fields.iter().map(|field| field.formula));
        let collection = Some(collection);
        Ok(Planner { snapshot, ranking, fields, formulas, collection, known: None })
    }

    /// Creates a planner with the ranking that suits the index. If the index has a schema, that
    /// ranking uses k1 and b of each field.
    pub fn suited(snapshot: Arc<Snapshot>) -> Result<Self, ExecError> {
        let ranking = Ranking::suited(snapshot.manifest());
        Self::new(snapshot, ranking)
    }

    /// Returns the formulas of all plans of this planner.
    pub fn formulas(&self) -> &Formulas {
        &self.formulas
    }

    /// Returns the name of the ranking, with a note if it is approximate.
    pub fn ranking_name(&self) -> String {
        let name = self.ranking.function.name();
        match self.formulas.is_approximate() {
            true => format!("{name}, quantized to 8 bits: approximate"),
            false => name.to_owned(),
        }
    }

    /// Returns true if the index is a part of a collection, whose other parts the planner does
    /// not know.
    pub(crate) fn is_of_part(&self) -> bool {
        self.collection.is_some()
    }

    /// Returns the snapshot that the planner makes plans for.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the schema of the index, if it has one.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.snapshot.manifest().schema.as_deref()
    }

    /// Plans a query.
    pub fn plan(&self, query: &Query, mode: Mode, k: usize) -> Result<Plan, ExecError> {
        self.plan_owned(query.clone(), mode, k)
    }

    /// Plans a query without copying its terms.
    pub fn plan_owned(&self, query: Query, mode: Mode, k: usize) -> Result<Plan, ExecError> {
        let query = self.distinct(query)?;
        let (mut terms, mut missing) = (Vec::with_capacity(query.len()), Vec::new());
        for QueryTerm { field, term, weight } in query {
            match self.lists(field, &term)? {
                Some(lists) => terms.push(self.term_of(lists, field, term, weight)),
                None => missing.push((field, term)),
            }
        }
        Ok(self.weighed(terms, missing, &[], 0, mode, k))
    }

    /// Returns a term with its lists and statistics, but no weight yet; `None` if it is in no
    /// live document.
    pub(crate) fn term(
        &self,
        field: u8,
        term: &str,
        query_weight: f64,
    ) -> Result<Option<PlanTerm>, ExecError> {
        let lists = self.lists(field, term)?;
        Ok(lists.map(|lists| self.term_of(lists, field, term.to_owned(), query_weight)))
    }

    /// Returns the entries of a term in the dictionaries of all segments, and the number of live
    /// documents that contain it; `None` if there are none.
    fn lists(&self, field: u8, term: &str) -> Result<Option<TermLists>, ExecError> {
        let key = self.snapshot.key(field, term);
        match &self.known {
            Some(known) => known.get(&key, || self.look_up(field, term, &key)),
            None => self.look_up(field, term, &key),
        }
    }

    fn look_up(&self, field: u8, term: &str, key: &[u8]) -> Result<Option<TermLists>, ExecError> {
        let segments = self.snapshot.segments();
        let (mut lists, mut df) = (Vec::new(), 0);
        for (number, segment) in segments.iter().enumerate() {
            let info = segment.dictionary().find(key)?;
            df += info.map_or(0, |info| u64::from(segment.live_df(&info)));
            // A term that is in no segment needs no memory.
            if info.is_some() && lists.is_empty() {
                lists.reserve_exact(segments.len());
                lists.resize(number, None);
            }
            if !lists.is_empty() || info.is_some() {
                lists.push(info);
            }
        }
        if let Some(collection) = &self.collection {
            df = collection.checked_frequency(field, term, df)?;
        }
        if df == 0 {
            return Ok(None);
        }
        // Other parts of the collection may have a term that this one lacks.
        lists.resize(segments.len(), None);
        Ok(Some((lists, df)))
    }

    fn term_of(
        &self,
        (lists, df): TermLists,
        field: u8,
        term: String,
        query_weight: f64,
    ) -> PlanTerm {
        // A forged file of deletions could imply a larger frequency; weights must not become
        // negative.
        let FieldRanking { statistics, function, .. } = &self.fields[usize::from(field)];
        let df = df.min(statistics.documents);
        let idf = function.idf(statistics.documents, df);
        PlanTerm { field, term, query_weight, df, idf, weight: 0.0, most: 0, lists }
    }

    /// Makes a plan of terms and sets their weights in units. Scores may also contain these
    /// constants, and the scale leaves `spare` units unused.
    pub(crate) fn weighed(
        &self,
        mut terms: Vec<PlanTerm>,
        missing: Vec<(u8, String)>,
        constants: &[f64],
        spare: u32,
        mode: Mode,
        k: usize,
    ) -> Plan {
        let vector_scale = self.snapshot.manifest().vector_scale;
        let real = |term: &PlanTerm| {
            let function = &self.fields[usize::from(term.field)].function;
            function.weight(term.idf, term.query_weight, vector_scale)
        };
        let mut reals: Vec<f64> = terms.iter().map(real).collect();
        if self.ranking.function.has_norm() {
            let norm = reals.iter().map(|w| w * w).sum::<f64>().sqrt();
            reals.iter_mut().filter(|_| norm > 0.0).for_each(|w| *w /= norm);
        }
        let fixed = self.ranking.static_weight;
        let more = |unit: f64| constants.iter().map(|c| (c * unit).floor()).sum::<f64>();
        let scale = self.scale(&terms, &reals, fixed, |unit| more(unit) + f64::from(spare));
        let unit = power_of_two(scale);
        for (term, real) in terms.iter_mut().zip(reals) {
            term.weight = (real * unit) as f32;
            term.most = self.formulas.of(term.field).most(term.weight) as u32;
        }
        let (formulas, static_weight) = (self.formulas.clone(), (fixed * unit) as f32);
        let snapshot = self.snapshot.id();
        Plan {
            snapshot,
            terms,
            missing,
            mode,
            k,
            count: false,
            mask: None,
            tree: None,
            gather: None,
            formulas,
            static_weight,
            scale,
        }
    }

    /// Returns the largest scale at which no sum can exceed [`MAX_SCORE`]. It depends only on the
    /// query and the statistics of the collection, never on how the index is divided into
    /// segments.
    fn scale(
        &self,
        terms: &[PlanTerm],
        reals: &[f64],
        fixed: f64,
        more: impl Fn(f64) -> f64,
    ) -> i32 {
        let max_static = self.fields[0].statistics.max_static;
        let fits = |scale: i32| {
            let unit = power_of_two(scale);
            let largest = |(term, real): (&PlanTerm, &f64)| {
                self.formulas.of(term.field).most((real * unit) as f32) as f64
            };
            let sum: f64 = terms.iter().zip(reals).map(largest).sum();
            let most = sum + f64::from((fixed * unit) as f32 * max_static) + more(unit);
            most <= f64::from(MAX_SCORE)
        };
        // A scale near this one would fit if there were only the weights.
        let sum: f64 = reals.iter().sum();
        largest_scale(exponent(f64::from(MAX_SCORE) / sum.max(1.0)), fits)
    }

    /// Merges equal terms, whose weights are added, in the order of their first occurrence.
    /// Checks weights and fields.
    fn distinct(&self, query: Query) -> Result<Vec<QueryTerm>, ExecError> {
        for QueryTerm { field, term, weight } in &query.terms {
            if !is_weight(*weight) {
                return Err(ExecError::Weight { term: term.clone(), weight: *weight });
            }
            if usize::from(*field) >= self.fields.len() {
                let (term, last) = (term.clone(), self.fields.len() - 1);
                return Err(ExecError::Field { term, field: *field, last });
            }
        }
        let mut terms = query.terms;
        match terms.len() {
            0..=FEW_TERMS => merge_few(&mut terms),
            _ => terms = merge_many(terms),
        }
        if terms.len() > MAX_QUERY_TERMS {
            return Err(ExecError::TooManyTerms(terms.len()));
        }
        Ok(terms)
    }
}

/// Merges equal terms by comparing each term with all terms before it.
fn merge_few(terms: &mut Vec<QueryTerm>) {
    let mut next = 1;
    while let Some(QueryTerm { field, term, weight }) = terms.get(next) {
        let same = |earlier: &QueryTerm| earlier.field == *field && earlier.term == *term;
        match terms[..next].iter().position(same) {
            Some(earlier) => {
                let weight = *weight;
                terms[earlier].weight += weight;
                terms.remove(next);
            }
            None => next += 1,
        }
    }
}

/// Merges equal terms with a table.
fn merge_many(terms: Vec<QueryTerm>) -> Vec<QueryTerm> {
    let mut places: HashMap<(u8, String), usize> = HashMap::with_capacity(terms.len());
    let mut merged: Vec<QueryTerm> = Vec::with_capacity(terms.len());
    for term in terms {
        match places.entry((term.field, term.term.clone())) {
            Entry::Occupied(place) => merged[*place.get()].weight += term.weight,
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(term);
            }
        }
    }
    merged
}

/// Returns the largest scale that fits. Sums grow with the scale, so the search may begin
/// anywhere.
fn largest_scale(guess: i32, fits: impl Fn(i32) -> bool) -> i32 {
    let mut scale = guess.clamp(LEAST_SCALE, LARGEST_SCALE);
    while scale < LARGEST_SCALE && fits(scale + 1) {
        scale += 1;
    }
    // Weights up to 1e9 times static scores up to 2^128 stay below 2^158.
    while scale > LEAST_SCALE && !fits(scale) {
        scale -= 1;
    }
    scale
}

/// Returns 2^`exponent`, exactly; it must be a normal number.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Returns the exponent of the largest power of two that is not above a normal positive number.
fn exponent(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_those_of_the_library() {
        for scale in LEAST_SCALE..=LARGEST_SCALE {
            assert_eq!(power_of_two(scale).to_bits(), libm::exp2(f64::from(scale)).to_bits());
            for within in [1.0, 1.5, 1.999_999_999] {
                assert_eq!(exponent(power_of_two(scale) * within), scale);
            }
        }
    }

    #[test]
    fn the_largest_scale_is_found_from_everywhere() {
        for largest in LEAST_SCALE..=LARGEST_SCALE {
            for guess in [-1000, LEAST_SCALE, -3, largest - 1, largest, largest + 1, 30, 1000] {
                assert_eq!(largest_scale(guess, |scale| scale <= largest), largest, "from {guess}");
            }
        }
        assert_eq!(largest_scale(0, |_| false), LEAST_SCALE);
    }

    #[test]
    fn repeated_terms_are_merged_alike_however_many_there_are() {
        let term = |i: usize| ((i % 3) as u8, format!("t{}", i * i % 7), 1.0 + i as f64);
        for len in 0..3 * FEW_TERMS {
            let mut few = Query::of_fields((0..len).map(term)).terms;
            let many = merge_many(few.clone());
            merge_few(&mut few);
            assert_eq!(few, many, "{len} terms");
            let distinct: HashSet<_> =
                (0..len).map(term).map(|(field, term, _)| (field, term)).collect();
            assert_eq!(few.len(), distinct.len(), "{len} terms");
            let sum: f64 = (0..len).map(|i| term(i).2).sum();
            assert_eq!(few.iter().map(|term| term.weight).sum::<f64>(), sum, "{len} terms");
        }
    }
}

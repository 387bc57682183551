//! Statistics of a collection whose documents are divided among several indexes.

use std::collections::HashMap;

use warpseek_index::{IndexError, Snapshot, Statistics};

use crate::error::ExecError;

/// The statistics of a whole collection, for plans of an index that holds a part of its documents.
///
/// Weights and the scale of a plan follow from the query and these alone. So every part scores its documents as one index of all of them would, and the best of all parts' hits are the best of the whole.
///
/// A term that the statistics do not have is an error and not one that no document has: a plan with a wrong weight would look like a right one. Terms in no document have a frequency of 0.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionStatistics {
    /// Of each text field; one if there is no schema.
    pub fields: Vec<Statistics>,
    /// By field: live documents that contain each term.
    terms: Vec<HashMap<String, u64>>,
}

impl CollectionStatistics {
    /// The statistics of a part's fields, without terms.
    pub fn of(snapshot: &Snapshot) -> Self {
        let fields = (0..).take(snapshot.text_fields());
        let fields: Vec<Statistics> =
            fields.map(|field| snapshot.field_statistics(field)).collect();
        let terms = vec![HashMap::new(); fields.len()];
        CollectionStatistics { fields, terms }
    }

    /// Statistics of fields, without terms.
    pub fn with_fields(fields: Vec<Statistics>) -> Self {
        let terms = vec![HashMap::new(); fields.len()];
        CollectionStatistics { fields, terms }
    }

    /// Adds the statistics of another part's fields. Fails if it has another number of fields.
    pub fn add_fields(&mut self, fields: &[Statistics]) -> Result<(), ExecError> {
        if fields.len() != self.fields.len() {
            let (known, given) = (self.fields.len(), fields.len());
            return Err(ExecError::Collection(format!(
                "a part has {given} text fields, and the others have {known}"
            )));
        }
        for (sum, part) in self.fields.iter_mut().zip(fields) {
            sum.documents += part.documents;
            sum.tokens += part.tokens;
            sum.max_static = sum.max_static.max(part.max_static);
        }
        Ok(())
    }

    /// Adds documents of another part that contain a term; 0 says that the part has none.
    pub fn add_term(&mut self, field: u8, term: &str, documents: u64) -> Result<(), ExecError> {
        let Some(terms) = self.terms.get_mut(usize::from(field)) else {
            let last = self.terms.len().saturating_sub(1);
            return Err(ExecError::Field { term: term.to_owned(), field, last });
        };
        match terms.get_mut(term) {
            Some(sum) => *sum += documents,
            None => {
                terms.insert(term.to_owned(), documents);
            }
        }
        Ok(())
    }

    /// Live documents of the collection that contain a term; none if that is not known.
    pub fn frequency(&self, field: u8, term: &str) -> Option<u64> {
        self.terms.get(usize::from(field))?.get(term).copied()
    }

    /// All terms, with their fields and frequencies, in no order.
    pub fn terms(&self) -> impl Iterator<Item = (u8, &str, u64)> {
        (0..).zip(&self.terms).flat_map(|(field, terms)| {
            terms.iter().map(move |(term, documents)| (field, term.as_str(), *documents))
        })
    }

    /// Checks that an index can be a part of the collection.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), ExecError> {
        let known = snapshot.text_fields();
        if self.fields.len() != known {
            let given = self.fields.len();
            return Err(ExecError::Collection(format!(
                "they are of {given} text fields, and the index has {known}"
            )));
        }
        // Its impacts have the mean length of the index in them.
        if snapshot.manifest().impacts.is_some() {
            return Err(ExecError::Collection(
                "the index is quantized with the mean length of its own documents; build it without `--quantize`".to_owned(),
            ));
        }
        for (field, all) in (0..).zip(&self.fields) {
            let own = snapshot.field_statistics(field);
            let less = all.documents < own.documents || all.tokens < own.tokens;
            let lower = !all.max_static.is_finite() || all.max_static < own.max_static;
            // A mean length needs documents.
            let impossible = all.documents == 0 && all.tokens > 0;
            if less || lower || impossible {
                return Err(ExecError::Collection(format!(
                    "text field {field} has fewer documents, fewer tokens or lower static scores in them than in the index; gather them again"
                )));
            }
        }
        Ok(())
    }

    /// The frequency of a term that is in `own` documents of a part.
    pub(crate) fn checked_frequency(
        &self,
        field: u8,
        term: &str,
        own: u64,
    ) -> Result<u64, ExecError> {
        match self.frequency(field, term) {
            Some(all) if all >= own => Ok(all),
            Some(all) => Err(ExecError::Collection(format!(
                "term `{term}` is in {all} documents of the collection, and in {own} of the index; gather them again"
            ))),
            None => Err(ExecError::Collection(format!("they do not have term `{term}`"))),
        }
    }
}

/// The frequencies of terms in one index, which [`CollectionStatistics::add_term`] takes.
pub fn frequencies<'a>(
    snapshot: &Snapshot,
    terms: impl IntoIterator<Item = (u8, &'a str)>,
) -> Result<Vec<u64>, IndexError> {
    let terms = terms.into_iter();
    terms.map(|(field, term)| snapshot.document_frequency(&snapshot.key(field, term))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpseek_testkit::{Doc, Fixture};

    use super::*;
    use crate::context::Context;
    use crate::engine::Engine;
    use crate::plan::{Mode, Planner};
    use crate::query::Query;
    use crate::ranking::Ranking;
    use crate::reference::Reference;

    fn fixture(texts: &[&str]) -> Arc<Snapshot> {
        let docs: Vec<Doc> =
            texts.iter().enumerate().map(|(i, text)| Doc::text(i, *text)).collect();
        Fixture::of(&docs).snapshot()
    }

    fn statistics(of: &[&Arc<Snapshot>], terms: &[&str]) -> CollectionStatistics {
        let mut sum = CollectionStatistics::of(of[0]);
        for other in &of[1..] {
            sum.add_fields(&CollectionStatistics::of(other).fields).unwrap();
        }
        for part in of {
            let found = frequencies(part, terms.iter().map(|term| (0, *term))).unwrap();
            for (term, n) in terms.iter().zip(found) {
                sum.add_term(0, term, n).unwrap();
            }
        }
        sum
    }

    #[test]
    fn a_part_plans_as_the_whole_does() {
        let parts = [fixture(&["apple pie", "apple"]), fixture(&["plum", "plum plum pie tart"])];
        let whole = fixture(&["apple pie", "apple", "plum", "plum plum pie tart"]);
        let terms = ["appl", "plum", "pie", "zebra"];
        let all = Arc::new(statistics(&[&parts[0], &parts[1]], &terms));
        assert_eq!(*all, statistics(&[&whole], &terms));
        let query = Query::of(terms.map(|term| (term, 1.0)));
        for mode in [Mode::Or, Mode::And] {
            let want = Planner::new(whole.clone(), Ranking::default()).unwrap();
            let want = want.plan(&query, mode, 10).unwrap();
            let mut hits = Vec::new();
            for (part, base) in parts.iter().zip([0, 2]) {
                let own = Planner::of_part(part.clone(), Ranking::default(), all.clone()).unwrap();
                let own = own.plan(&query, mode, 10).unwrap();
                assert_eq!((own.scale, &own.formulas), (want.scale, &want.formulas));
                assert_eq!(own.missing, want.missing);
                for (own, want) in own.terms.iter().zip(&want.terms) {
                    let same = (&own.term, own.df, own.weight.to_bits(), own.most);
                    assert_eq!(same, (&want.term, want.df, want.weight.to_bits(), want.most));
                }
                let engine = Reference::new(part.clone());
                let found = engine.search(&[&own], Context::single()).remove(0).unwrap().hits;
                hits.extend(
                    found.into_iter().map(|hit| warpseek_core::Hit { doc: hit.doc + base, ..hit }),
                );
            }
            hits.sort_unstable();
            let engine = Reference::new(whole.clone());
            let found = engine.search(&[&want], Context::single()).remove(0).unwrap();
            assert_eq!(hits, found.hits);
            assert_eq!(hits.is_empty(), mode == Mode::And);
        }
    }

    #[test]
    fn statistics_that_cannot_be_of_the_collection_are_refused() {
        let (part, other) = (fixture(&["apple pie", "apple"]), fixture(&["plum"]));
        let plan = |all: CollectionStatistics, term: &str| {
            let planner = Planner::of_part(part.clone(), Ranking::default(), Arc::new(all))?;
            planner.plan(&Query::of([(term, 1.0)]), Mode::Or, 10)
        };
        let all = statistics(&[&part, &other], &["appl"]);
        assert_eq!(plan(all.clone(), "appl").unwrap().terms[0].df, 2);
        // A term that they do not have is not one that no document has.
        assert!(
            matches!(plan(all, "plum"), Err(ExecError::Collection(what)) if what.contains("plum"))
        );
        assert!(plan(statistics(&[&other], &["appl"]), "appl").is_err());
        let mut few = CollectionStatistics::of(&part);
        few.add_term(0, "appl", 1).unwrap();
        assert!(plan(few, "appl").is_err());
        assert!(plan(CollectionStatistics::with_fields(Vec::new()), "appl").is_err());
        let mut forged = CollectionStatistics::of(&part);
        forged.fields[0].max_static = f32::NAN;
        assert!(plan(forged, "appl").is_err());
        assert!(CollectionStatistics::of(&part).add_term(1, "appl", 1).is_err());
        assert!(CollectionStatistics::of(&part).add_fields(&[]).is_err());
    }
}

//! Statistics of a collection whose documents are divided among several indexes.

use std::collections::HashMap;

use warpseek_index::{IndexError, Snapshot, Statistics};

use crate::error::ExecError;

/// Statistics of a whole collection, for planning queries on an index that holds only part of it.
///
/// The weights and the scale of a plan depend only on the query and these statistics. Each part
/// therefore scores its documents as a single index of the whole collection would, and the best
/// hits of all parts together are the best hits of the collection.
///
/// Planning a term without statistics is an error. Treating such a term as absent would give a
/// plan with wrong weights that looks like a correct one. Terms that are in no document have a
/// frequency of 0.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectionStatistics {
    /// Statistics of each text field; a single entry if there is no schema.
    pub fields: Vec<Statistics>,
    /// Number of live documents that contain each term, by field.
    terms: Vec<HashMap<String, u64>>,
}

impl CollectionStatistics {
    /// Returns the field statistics of one part, without terms.
    pub fn of(snapshot: &Snapshot) -> Self {
        let fields = (0..).take(snapshot.text_fields());
        let fields: Vec<Statistics> =
            fields.map(|field| snapshot.field_statistics(field)).collect();
        let terms = vec![HashMap::new(); fields.len()];
        CollectionStatistics { fields, terms }
    }

    /// Creates statistics from those of the text fields, without terms.
    pub fn with_fields(fields: Vec<Statistics>) -> Self {
        let terms = vec![HashMap::new(); fields.len()];
        CollectionStatistics { fields, terms }
    }

    /// Adds the field statistics of another part. Fails if its number of fields differs.
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

    /// Adds the number of documents of another part that contain a term; 0 states that it has
    /// none.
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

    /// Returns the number of live documents of the collection that contain a term, or `None` if
    /// it is not known.
    pub fn frequency(&self, field: u8, term: &str) -> Option<u64> {
        self.terms.get(usize::from(field))?.get(term).copied()
    }

    /// Returns all terms with their fields and frequencies, in no particular order.
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
                "they cover {given} text fields, but the index has {known}"
            )));
        }
        // The impacts were computed with the mean length of this index alone.
        if snapshot.manifest().impacts.is_some() {
            return Err(ExecError::Collection(
                "the index is quantized with the mean length of its own documents; build it without `--quantize`".to_owned(),
            ));
        }
        for (field, all) in (0..).zip(&self.fields) {
            let own = snapshot.field_statistics(field);
            let less = all.documents < own.documents || all.tokens < own.tokens;
            let lower = !all.max_static.is_finite() || all.max_static < own.max_static;
            // There is no mean length without documents.
            let impossible = all.documents == 0 && all.tokens > 0;
            if less || lower || impossible {
                return Err(ExecError::Collection(format!(
                    "they count fewer documents, fewer tokens or lower static scores in text field {field} than the index has; gather them again"
                )));
            }
        }
        Ok(())
    }

    /// Returns the frequency of a term that `own` documents of a part contain, after checking
    /// that it is at least `own`.
    pub(crate) fn checked_frequency(
        &self,
        field: u8,
        term: &str,
        own: u64,
    ) -> Result<u64, ExecError> {
        match self.frequency(field, term) {
            Some(all) if all >= own => Ok(all),
            Some(all) => Err(ExecError::Collection(format!(
                "they count {all} documents with term `{term}`, but the index alone has {own}; gather them again"
            ))),
            None => Err(ExecError::Collection(format!("they do not include term `{term}`"))),
        }
    }
}

/// Returns the frequencies of terms in one index, as [`CollectionStatistics::add_term`] takes
/// them.
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
    use crate::mode::Mode;
    use crate::plan::Planner;
    use crate::query::Query;
    use crate::ranking::Ranking;
    use crate::reference::Reference;

    fn fixture(texts: &[&str]) -> Arc<Snapshot> {
        let docs: Vec<Doc> =
            texts.iter().enumerate().map(|(i, text)| Doc::text(i, *text)).collect();
        Fixture::of(&docs).snapshot()
    }

    fn statistics(parts: &[&Arc<Snapshot>], terms: &[&str]) -> CollectionStatistics {
        let mut sum = CollectionStatistics::of(parts[0]);
        for other in &parts[1..] {
            sum.add_fields(&CollectionStatistics::of(other).fields).unwrap();
        }
        for part in parts {
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
        // A term without statistics is not the same as a term that no document contains.
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

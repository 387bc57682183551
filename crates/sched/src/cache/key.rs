//! The key of a plan in the result cache: everything that the answer depends on, except the order
//! of the terms.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use warpseek_exec::gather::Gather;
use warpseek_exec::query::PlanTree;
use warpseek_exec::{Formula, Mask, Plan, PlanTerm};
use warpseek_index::SnapshotId;

/// Everything that an answer depends on. Plans with equal keys differ at most in the order of
/// their terms.
///
/// Their answers have the same hits, bit for bit: a posting's contribution is an integer that
/// depends on the formula, the term's weight and the document, engines only add these integers, and
/// hits have a total order. So the order of terms changes neither scores nor ranks.
/// [`Answer::matches`](warpseek_exec::Answer::matches) is also equal if the plan requests it;
/// otherwise the engine decides whether to report it. [`Answer::work`](warpseek_exec::Answer::work)
/// describes the engine that computed the answer.
///
/// The converse does not hold. With the cosine ranking, or with weights that have to be added,
/// rounding may depend on the order of terms. A query whose terms are in another order then has
/// another key and is computed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Hash of the other fields. It is computed once, and compared first.
    pub(super) hash: u64,
    /// Snapshot of the plan. It determines documents, deletions and statistics, and thereby each
    /// term's `lists` and `df`.
    pub(super) snapshot: SnapshotId,
    /// Everything else, encoded unambiguously in one allocation that all copies share. It is
    /// compared as a whole, so that a hash collision never returns a wrong answer.
    pub(super) query: Arc<[u8]>,
    /// Mask of the documents that may be hits, if there is one; compared as a whole, too.
    pub(super) mask: Option<Arc<Mask>>,
    /// The query tree, unless the other fields determine it.
    pub(super) tree: Option<Arc<PlanTree>>,
    /// The sort order of hits, the position after which they start, and the requested counts, if
    /// any.
    pub(super) gather: Option<Arc<Gather>>,
}

impl Key {
    /// Returns the key of a plan.
    pub fn of(plan: &Plan) -> Self {
        // There is no `..` here, so that a new field of plans forces a decision on whether
        // answers depend on it.
        let Plan {
            snapshot,
            terms,
            missing,
            mode,
            k,
            count,
            mask,
            tree,
            gather,
            formulas,
            static_weight,
            scale,
        } = plan;
        // An additive tree adds nothing to the other fields.
        let tree = tree.as_ref().filter(|tree| !tree.is_additive);
        let mut query = Vec::with_capacity(64 + 40 * terms.len());
        // The matching documents, the number of hits, and whether all matches are counted.
        query.push(*mode as u8);
        query.push(u8::from(*count));
        query.extend((*k as u64).to_le_bytes());
        // Together with the terms' weights, the formulas are all that engines see of the ranking.
        // Numbers are compared by their bits. There is one formula per field of the snapshot.
        for formula in formulas.iter() {
            match formula {
                Formula::Saturation { fixed, by_length } => {
                    query.push(0);
                    query.extend(fixed.to_bits().to_le_bytes());
                    query.extend(by_length.to_bits().to_le_bytes());
                }
                Formula::Cosine => query.push(1),
                Formula::Linear => query.push(2),
                Formula::Quantized => query.push(3),
            }
        }
        query.extend(static_weight.to_bits().to_le_bytes());
        // The unit of scores: equal integers at another scale are other scores.
        query.extend(scale.to_le_bytes());
        let mut sorted: Vec<&PlanTerm> = terms.iter().collect();
        // A tree refers to its terms by number, so their order must stay.
        if tree.is_none() {
            sorted.sort_unstable_by(|a, b| (&a.term, a.field).cmp(&(&b.term, b.field)));
        }
        query.extend((sorted.len() as u32).to_le_bytes());
        for term in sorted {
            // The snapshot and the term determine `df` and `lists`, the formula and the weight
            // determine `most`, and engines do not read `idf`.
            let PlanTerm { field, term, query_weight, df: _, idf: _, weight, most: _, lists: _ } =
                term;
            query.push(*field);
            push_word(&mut query, term);
            // Scores depend on `weight` alone. The requested weight distinguishes queries whose
            // weights round to the same value.
            query.extend(query_weight.to_bits().to_le_bytes());
            query.extend(weight.to_bits().to_le_bytes());
        }
        // Missing terms matter: with one of them, AND has no hits.
        let mut missing: Vec<&(u8, String)> = missing.iter().collect();
        missing.sort_unstable();
        for (field, word) in missing {
            query.push(*field);
            push_word(&mut query, word);
        }
        query.extend(mask.as_ref().map_or(u64::MAX, |mask| mask.documents()).to_le_bytes());
        if let Some(gather) = gather {
            // `gather` is compared as a whole; adding it here gives the pages of a query
            // different hashes.
            query.extend(format!("{gather:?}").bytes());
        }
        let (mask, tree, gather) = (mask.clone(), tree.cloned(), gather.clone());
        Key { mask, tree, gather, ..Key::new(*snapshot, &query) }
    }

    /// Returns the key of a query that `query` encodes unambiguously and as a whole, with its
    /// conditions and sort order.
    pub fn new(snapshot: SnapshotId, query: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        (snapshot, query).hash(&mut hasher);
        let (hash, query) = (hasher.finish(), query.into());
        Key { hash, snapshot, query, mask: None, tree: None, gather: None }
    }

    /// Returns the snapshot of the plan.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }
}

/// Appends a word with its length, so that its end is unambiguous.
fn push_word(to: &mut Vec<u8>, word: &str) {
    to.extend((word.len() as u64).to_le_bytes());
    to.extend(word.as_bytes());
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The map hashes this again with a random seed, so that an attacker cannot choose queries
        // that share a bucket.
        state.write_u64(self.hash);
    }
}

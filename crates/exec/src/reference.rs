//! The reference: what every engine must return, in the plainest way.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_core::limits::BLOCK;
use warpseek_index::{Segment, Snapshot};

use crate::engine::{Answer, Engine, Work};
use crate::error::ExecError;
use crate::parallel::in_parallel;
use crate::plan::{Mode, Plan};

/// Reads every list of a query from end to end, adds up in a map, and sorts.
pub struct Reference {
    snapshot: Arc<Snapshot>,
    threads: usize,
}

impl Reference {
    /// For an index; queries are spread over the threads.
    pub fn new(snapshot: Arc<Snapshot>, threads: usize) -> Self {
        Reference { snapshot, threads }
    }

    fn answer(&self, plan: &Plan) -> Result<Answer, ExecError> {
        let mut work = Work::default();
        let (mut any, mut all) = (Vec::new(), Vec::new());
        for (number, segment) in self.snapshot.segments().iter().enumerate() {
            let ordinals = segment.documents().ordinals()?;
            for (place, (score, terms)) in sums(plan, number, segment, &mut work)? {
                let ordinal = ordinals.map_or(place, |o| o.get(place));
                let hit = Hit { doc: segment.base() + ordinal, score };
                any.push(hit);
                if terms == plan.terms.len() && !plan.lacks_terms() {
                    all.push(hit);
                }
            }
        }
        let mut hits = match plan.mode {
            Mode::Or => any,
            Mode::And => all,
            Mode::AndOr if all.len() < plan.k => any,
            Mode::AndOr => all,
        };
        let matches = Some(hits.len() as u64);
        hits.sort_unstable();
        hits.truncate(plan.k);
        Ok(Answer { hits, matches, work })
    }
}

/// Score and number of terms of every live document of the segment that has any.
fn sums(
    plan: &Plan,
    number: usize,
    segment: &Segment,
    work: &mut Work,
) -> Result<BTreeMap<u32, (u32, usize)>, ExecError> {
    let documents = segment.documents();
    let (lengths, norms, statics) =
        (documents.lengths()?, documents.norms()?, documents.statics()?);
    let mut sums = BTreeMap::new();
    for term in &plan.terms {
        let Some(info) = &term.lists[number] else { continue };
        let list = segment.list(info)?;
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            work.blocks_decoded += 1;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                if segment.is_deleted(doc) {
                    continue;
                }
                let factor = plan.formula.factor(lengths.get(doc), norms.get(doc));
                work.postings_scored += 1;
                let start = || (statics.map_or(0, |s| plan.static_score(s.get(doc))), 0);
                let (score, terms) = sums.entry(doc).or_insert_with(start);
                *score += plan.formula.contribution(term.weight, freq, factor);
                *terms += 1;
            }
        }
    }
    Ok(sums)
}

impl Engine for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    fn search(&self, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        in_parallel(plans, self.threads, || (), |(), plan| self.answer(plan))
    }
}

//! The choice between kernels that skip documents and kernels that score every posting, and its
//! costs.

use std::sync::Arc;
use std::time::Duration;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_exec::{
    ASKED_FOR, Candidate, Context, Formula, Load, Mode, Plan, Rates, batch_time, cheapest,
};
use warpseek_index::Segment;

use super::GpuEngine;
use crate::image::PRUNED_TERMS;
use crate::limits::FEW_TERMS;
use crate::round::Kind;

/// Names of the algorithms that the engine chooses from.
const PRUNED: &str = "pruned tiles";
const EXHAUSTIVE: &str = "tiles";

/// Costs on an H200 with `gov2` (3.74 million postings per query, docs/measurements/gpu.md). The
/// cost per query was measured in batches of thousands, less 2 us, an estimate of the part that
/// does not grow with the postings. The cost of a posting is that of a query of three terms. The
/// fixed cost of a batch was measured with a single query, the cost of hits with pruned tiles.
/// AND-then-OR counts as OR, although it seldom reaches its second part.
const PRUNED_OR: Rates = Rates::device(57_000.0, 2_000.0, 0.0007, 7.0);
const PRUNED_AND: Rates = Rates::device(46_000.0, 2_000.0, 0.0004, 2.4);
const TILES: Rates = Rates::device(83_000.0, 2_000.0, 0.0028, 7.0);

/// With OR and pruning, the cost of a posting grows with the number of terms to this power: the
/// bounds of many lists together seldom exclude a document. Measured with lines of the query log
/// joined (docs/measurements/gpu.md), 3, 6, 11 and 22 terms cost 0.0007, 0.0022, 0.0066 and 0.019
/// ns a posting, so that reading every posting is faster from some eight terms on.
const PRUNED_OR_GROWTH: f64 = 1.7;

/// Seconds to copy a byte of a list from main memory, and to make tiles of a posting.
const MISSING_BYTE: f64 = 1.0 / 20e9;
const MISSING_POSTING: f64 = 1.0 / 100e9;

impl GpuEngine {
    /// Returns the properties that the queries of one round share: mode, formula and kind of
    /// kernels.
    pub(super) fn group(&self, plan: &Plan) -> (Mode, Formula, Kind) {
        let kind = match plan.terms.len() {
            _ if self.is_pruned(plan) => Kind::Pruned,
            ..=FEW_TERMS => Kind::Tiles,
            _ => Kind::ManyTerms,
        };
        (plan.mode, plan.formulas.of(0), kind)
    }

    /// Returns the reason why the engine cannot answer a plan, or `None` if it can.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        // Kernels take as many terms as a plan can have.
        let too_many = plan.terms.len() > MAX_QUERY_TERMS;
        too_many.then_some("the query has more terms than a plan can have")
    }

    /// Returns the largest number of sparse lists that a plan has in any segment. A list is
    /// sparse if it has fewer postings than the segment has tiles. If the engine answers for only
    /// a part of the documents, it cannot tell which lists are sparse, so every list counts.
    pub fn sparse_lists(&self, plan: &Plan) -> usize {
        let sparse = |(number, segment): (usize, &Arc<Segment>)| {
            let tiles = segment.documents().count().div_ceil(1 << self.settings().tile_bits);
            let lists = plan.terms.iter().filter_map(|term| term.lists[number].as_ref());
            lists.filter(|list| self.within.is_some() || list.df < tiles).count()
        };
        self.snapshot.segments().iter().enumerate().map(sparse).max().unwrap_or(0)
    }

    fn is_pruned(&self, plan: &Plan) -> bool {
        let chosen = cheapest(&self.offers(plan), &Load::of(plan)).copied();
        chosen.is_some_and(|candidate| candidate.algorithm == PRUNED)
    }

    /// Returns the algorithms, with the cost of a plan for each.
    pub(super) fn offers(&self, plan: &Plan) -> [Candidate; 2] {
        let rates = match plan.mode {
            Mode::And => PRUNED_AND,
            Mode::Or | Mode::AndOr => {
                let growth = (plan.terms.len() as f64 / 3.0).max(1.0).powf(PRUNED_OR_GROWTH);
                Rates { posting: PRUNED_OR.posting * growth, ..PRUNED_OR }
            }
        };
        let pruned = match plan {
            _ if !self.settings().pruned => Err("pruning is disabled"),
            plan if plan.count => Err("matches are counted"),
            plan if plan.terms.len() > PRUNED_TERMS => Err("too many terms"),
            _ => Ok(rates),
        };
        let why = match pruned {
            Ok(_) => "it would take longer",
            Err(_) if !self.settings().pruned => ASKED_FOR,
            Err(_) if plan.count => "all matches are counted only if nothing is skipped",
            Err(_) => {
                "with this many lists, reading them is faster than looking documents up in them"
            }
        };
        [
            Candidate {
                algorithm: PRUNED,
                rates: pruned,
                why: "it skips documents that cannot become hits",
            },
            Candidate {
                algorithm: EXHAUSTIVE,
                rates: self.why_not(plan).map_or(Ok(TILES), Err),
                why,
            },
        ]
    }

    /// Returns the estimated time that plans take, including lists that must be copied or made
    /// first because they are not on the device as tiles.
    pub(super) fn estimate(&self, plans: &[&Plan], context: &Context) -> Duration {
        let (mut bytes, mut postings) = (0, 0);
        if !self.on_demand.is_empty() {
            // Tiles have the values of one formula.
            let mut left = plans.to_vec();
            while let Some(first) = left.first() {
                let formula = first.formulas.of(0);
                let (group, others): (Vec<&Plan>, Vec<&Plan>) =
                    left.into_iter().partition(|plan| plan.formulas.of(0) == formula);
                left = others;
                let lists = self.on_demand.like(formula);
                let more = lists.map_or((0, 0), |lists| lists.missing(&group, formula));
                (bytes, postings) = (bytes + more.0, postings + more.1);
            }
        }
        self.answer_time(plans, context) + Self::load_time((bytes, postings))
    }

    /// Returns the estimated time that plans take once their lists are on the device as tiles.
    pub(super) fn answer_time(&self, plans: &[&Plan], context: &Context) -> Duration {
        batch_time(plans.iter().copied(), context.threads(), |plan, load| {
            cheapest(&self.offers(plan), load)?.rates.ok()
        })
    }

    /// Returns the estimated time of copying hits to the host.
    pub(super) fn hit_time(hits: u64) -> Duration {
        Duration::from_nanos((hits as f64 * PRUNED_OR.hit) as u64)
    }

    /// Returns the estimated time of copying bytes and making tiles of postings.
    pub(super) fn load_time((bytes, postings): (u64, u64)) -> Duration {
        Duration::from_secs_f64(bytes as f64 * MISSING_BYTE + postings as f64 * MISSING_POSTING)
    }
}

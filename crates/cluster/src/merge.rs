//! The answer of all shards to a query.

use warpseek::plan::Plan;

use crate::coverage::{Coverage, MissingShard};
use crate::protocol;
use crate::request::{ClusterHit, ClusterResponse};
use crate::view::Epoch;

/// Returns the best k hits of all shards, ordered by descending score, then ascending shard and
/// document number, which is the order of the collection's documents. `parts` has the answers
/// with their shards in ascending order; `missing` lists the other shards.
pub(crate) fn merge(
    epoch: &Epoch,
    plan: &Plan,
    parts: &[(u32, &protocol::Answer)],
    missing: Vec<MissingShard>,
    whole_statistics: bool,
) -> ClusterResponse {
    let mut best: Vec<(u32, u32, u32, usize)> = Vec::new();
    for (part, (shard, answer)) in parts.iter().enumerate() {
        debug_assert!(part == 0 || parts[part - 1].0 < *shard);
        let hits = answer.documents.iter().zip(&answer.scores).enumerate();
        best.extend(hits.map(|(rank, (&document, &score))| (score, part as u32, document, rank)));
    }
    best.sort_unstable_by_key(|&(score, part, document, _)| {
        (std::cmp::Reverse(score), part, document)
    });
    best.truncate(plan.k);
    let hit = |&(units, part, ordinal, rank): &(u32, u32, u32, usize)| {
        let (shard, answer) = parts[part as usize];
        ClusterHit {
            id: answer.ids[rank].clone(),
            score: plan.real(units),
            units,
            shard,
            document: epoch.base(shard).map(|base| base + u64::from(ordinal)),
            ordinal,
        }
    };
    let partial = parts.iter().filter(|(_, answer)| !answer.complete);
    let shards = (0..).zip(&epoch.shards);
    let uncounted = shards.filter(|(_, shard)| shard.is_none()).map(|(number, _)| number);
    let coverage = Coverage {
        documents: epoch.shards.iter().flatten().map(|shard| shard.live).sum(),
        uncounted: uncounted.collect(),
        searched: parts.iter().map(|(_, answer)| answer.searched).sum(),
        shards: epoch.shards.len() as u32,
        missing,
        partial: partial.map(|(shard, _)| *shard).collect(),
        whole_statistics,
    };
    ClusterResponse {
        hits: best.iter().map(hit).collect(),
        matches: parts.iter().map(|(_, answer)| answer.matches).sum(),
        coverage,
        version: epoch.version,
    }
}

//! Hits of kernels, as hits of the search.

use warpseek_core::Hit;
use warpseek_exec::Coverage;
use warpseek_index::Segment;

use crate::collector::Collector;
use crate::kernels::ngram_look_up::HitView;
use crate::searcher::Answer;

/// Returns how many parts must be hits before others can be skipped. Several parts may belong to
/// one hit; in that case all are scored.
pub(super) fn enough_hits(segment: &Segment, k: usize) -> u32 {
    let enough = if segment.parts().are_documents() { k } else { usize::MAX };
    u32::try_from(enough).unwrap_or(u32::MAX)
}

/// Returns the best of all segments' hits.
pub(super) fn answer_of(mut hits: Vec<Hit>, k: usize) -> Answer {
    hits.sort_unstable();
    hits.truncate(k);
    Answer { hits, coverage: Coverage::Complete }
}

/// Returns the best of the hits that kernels found in a segment, which come in any order.
pub(super) fn best_of(segment: &Segment, found: &[HitView], k: usize, least: u32) -> Vec<Hit> {
    let mut found: Vec<_> = found.iter().map(|hit| (hit.part, hit.score)).collect();
    found.sort_unstable();
    let mut collector = Collector::new(k, least);
    found.into_iter().for_each(|(part, score)| collector.offer(segment, part, score));
    collector.into_hits(true)
}

/// Divides hits by query; there are `queries` queries.
pub(super) fn by_query(found: &[HitView], queries: usize) -> Vec<Vec<HitView>> {
    let mut counts = vec![0; queries];
    found.iter().for_each(|hit| counts[hit.query as usize] += 1);
    let mut split: Vec<Vec<HitView>> = counts.into_iter().map(Vec::with_capacity).collect();
    found.iter().for_each(|&hit| split[hit.query as usize].push(hit));
    split
}

//! Verification of candidates: they are compared with the query character by character, ranked by
//! edit distance, and dropped if they have too many errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpseek_core::{DocId, Hit};
use warpseek_exec::{Context, Coverage};
use warpseek_index::{Snapshot, StoreBlock};
use warpseek_ngram::distance::{Match, Pattern};
use warpseek_ngram::verify::{Pair, best_matches};
use warpseek_ngram::{Answer, GpuVerifier, NgramError, Query};

use super::alignment::{normal_of_json, read_document, write_normal};
use super::request::NgramRequest;
use super::response::{NgramHit, NgramResponse};
use crate::error::Result;

/// Number of candidates that a thread verifies at a time. Comparing several short texts together
/// is faster.
const VERIFIED_TOGETHER: usize = 16;

/// A request and its candidates.
pub(super) struct Answered<'a> {
    pub(super) request: &'a NgramRequest,
    pub(super) query: Query,
    pub(super) answer: Answer,
}

impl Answered<'_> {
    /// Verifies the candidates of this request alone, if it asks for verification.
    pub(super) fn finish(
        self,
        snapshot: &Arc<Snapshot>,
        context: &Context,
        start: Instant,
    ) -> Result<NgramResponse> {
        let Answered { request, query, answer } = self;
        let mut response = response(snapshot, query, answer.coverage);
        if request.verify {
            let pattern = Pattern::new(&response.query.grams.text);
            let groups: Vec<&[Hit]> = answer.hits.chunks(VERIFIED_TOGETHER).collect();
            let matched = context.pool().map(
                &groups,
                || (),
                |(), group| match context.is_over() {
                    true => Ok(None),
                    false => matches(&pattern, snapshot, group).map(Some),
                },
            );
            let mut verified: Vec<(Match, &Hit)> = Vec::with_capacity(answer.hits.len());
            for (group, matched) in groups.into_iter().zip(matched) {
                match matched? {
                    Some(matched) => verified.extend(matched.into_iter().zip(group)),
                    None => response.unverified += group.len(),
                }
            }
            rank(&mut response, verified, request);
        } else {
            response.matches = vec![None; answer.hits.len()];
            response.hits = answer.hits.iter().map(|hit| NgramHit::of(hit, None)).collect();
        }
        response.took = start.elapsed();
        Ok(response)
    }

    /// Creates the response from the best matches of all candidates.
    fn finish_with(
        self,
        matches: Vec<Match>,
        snapshot: &Arc<Snapshot>,
        start: Instant,
    ) -> NgramResponse {
        let Answered { request, query, answer } = self;
        let mut response = response(snapshot, query, answer.coverage);
        rank(&mut response, matches.into_iter().zip(&answer.hits).collect(), request);
        response.took = start.elapsed();
        response
    }
}

/// Creates a response without hits.
fn response(snapshot: &Arc<Snapshot>, query: Query, coverage: Coverage) -> NgramResponse {
    NgramResponse {
        snapshot: snapshot.clone(),
        query,
        hits: Vec::new(),
        matches: Vec::new(),
        coverage,
        unverified: 0,
        too_distant: 0,
        took: Duration::ZERO,
    }
}

/// Verifies the candidates of several requests without limits together, on a GPU if there is one.
pub(super) fn finish_many(
    answered: Vec<Result<Answered<'_>>>,
    gpu: Option<&GpuVerifier>,
    snapshot: &Arc<Snapshot>,
    context: &Context,
    start: Instant,
) -> Vec<Result<NgramResponse>> {
    let (mut queries, mut pairs) = (Vec::with_capacity(answered.len()), Vec::new());
    for (of_query, query) in answered.iter().zip(0..) {
        let to_verify = of_query.as_ref().ok().filter(|answered| answered.request.verify);
        queries.push(to_verify.map_or("", |answered| answered.query.grams.text.as_str()));
        let hits = to_verify.iter().flat_map(|answered| &answered.answer.hits);
        pairs.extend(hits.map(|hit| Pair { query, doc: hit.doc }));
    }
    let read = |docs: &[DocId]| read_texts(snapshot, docs);
    let found: std::result::Result<_, NgramError> = match gpu {
        Some(gpu) => gpu.best_matches(&queries, &pairs, &read, context),
        None => Ok(best_matches(&queries, &pairs, &read, context)),
    };
    let mut next = 0;
    let finish = |answered: Result<Answered<'_>>| {
        let answered = answered?;
        if !answered.request.verify {
            return answered.finish(snapshot, context, start);
        }
        let own = next..next + answered.answer.hits.len();
        next = own.end;
        let matches = &found.as_ref().map_err(NgramError::clone)?[own];
        match matches.iter().copied().collect() {
            Some(matches) => Ok(answered.finish_with(matches, snapshot, start)),
            // A document cannot be read. Verifying the request alone returns the reason.
            None => answered.finish(snapshot, context, start),
        }
    };
    answered.into_iter().map(finish).collect()
}

/// Ranks candidates by their distance to the query, and keeps the best of them.
fn rank(response: &mut NgramResponse, mut verified: Vec<(Match, &Hit)>, request: &NgramRequest) {
    if let Some(errors) = request.errors {
        let before = verified.len();
        verified.retain(|(matched, _)| matched.distance <= errors);
        response.too_distant = before - verified.len();
    }
    // Candidates arrive in the order of hits, which a stable sort keeps among equal distances.
    verified.sort_by_key(|(matched, _)| matched.distance);
    verified.truncate(request.k);
    let hit = |&(matched, hit): &(Match, &Hit)| NgramHit::of(hit, Some(matched.distance));
    response.hits = verified.iter().map(hit).collect();
    response.matches = verified.iter().map(|&(matched, _)| Some(matched)).collect();
}

/// Finds the best match of the query in each document.
fn matches(pattern: &Pattern, snapshot: &Snapshot, hits: &[Hit]) -> Result<Vec<Match>> {
    let mut texts = Vec::with_capacity(hits.len());
    for hit in hits {
        texts.push(read_document(snapshot, hit.doc, |title, text| {
            let mut normal = String::new();
            write_normal(title, text, &mut normal);
            normal
        })?);
    }
    Ok(pattern.best_matches(&texts))
}

/// Returns the normal forms of documents, whose numbers must be in ascending order, and `None`
/// for those that cannot be read. Neighbouring documents are compressed together and decompressed
/// once.
fn read_texts(snapshot: &Snapshot, docs: &[DocId]) -> Vec<Option<String>> {
    let scale = snapshot.manifest().vector_scale;
    // The present block, and the number of the first document of its segment.
    let mut block: Option<(DocId, StoreBlock)> = None;
    let mut read = |doc: DocId| {
        let (segment, ordinal) = snapshot.locate(doc)?;
        let base = segment.base();
        let is_there =
            |(own, block): &(DocId, StoreBlock)| *own == base && block.get(ordinal).is_some();
        if !block.as_ref().is_some_and(is_there) {
            block = Some((base, segment.store()?.block_of(ordinal).ok()?));
        }
        normal_of_json(block.as_ref()?.1.get(ordinal)?, scale).ok()
    };
    docs.iter().map(|&doc| read(doc)).collect()
}

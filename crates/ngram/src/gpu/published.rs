//! The published algorithms on a GPU, for comparison: list by list over all documents, one query
//! at a time, and all lists of a query for a bin of 256 documents at a time.
#![allow(unsafe_code)]

use std::cell::OnceCell;

use warpseek_exec::Context;

use super::hits::{answer_of, best_of, by_query};
use super::image::Image;
use super::plan::{SegmentPlan, window_of};
use super::workspace::Workspace;
use super::{GpuSearcher, answered, is_short, lock};
use crate::algorithm::Algorithm;
use crate::error::NgramError;
use crate::kernels::ngram_look_up::HitView;
use crate::kernels::ngram_published::{Counts, NgramPublished};
use crate::query::Query;
use crate::searcher::Answer;

/// Maximum number of n-grams of a query: counts have eight bits. The CPU answers queries with
/// more.
const MOST_LISTS: u32 = 255;

impl GpuSearcher {
    pub(super) fn search_as_published(
        &self,
        queries: &[Query],
        k: usize,
        algorithm: Algorithm,
        context: &Context,
    ) -> Vec<Result<Answer, NgramError>> {
        let workspace = lock(&self.workspaces[0]);
        let parts = self.most_parts().max(1);
        let too_long = queries.iter().any(|query| query.len() > MOST_LISTS);
        if self.settings.room < parts || too_long {
            return self.searcher.search_many(queries, k, algorithm, context);
        }
        // Only so many queries run at a time that their hits fit even if all parts are hits of
        // all of them.
        let at_a_time = match algorithm {
            Algorithm::Bins => ((self.settings.room / parts) as usize).min(self.settings.round),
            _ => 1,
        };
        // The first search compiles the kernels.
        let kernels = OnceCell::new();
        let search = |some: &[Query], images: &[Image]| {
            let kernels = match kernels.get() {
                Some(kernels) => kernels,
                None => {
                    let compiled = NgramPublished::new(&self.device)?;
                    kernels.get_or_init(|| compiled)
                }
            };
            self.search_some(kernels, some, images, (k, algorithm), &workspace)
        };
        let chunks = queries.chunks(at_a_time);
        let search = |some: &[Query]| match self.with_images(some, |images| search(some, images)) {
            Err(error) if is_short(&error) => {
                Ok(self.searcher.search_many(some, k, algorithm, context))
            }
            answers => answers,
        };
        chunks.flat_map(|some| answered(some, context, || search(some))).collect()
    }

    fn search_some(
        &self,
        kernels: &NgramPublished,
        queries: &[Query],
        images: &[Image],
        (k, algorithm): (usize, Algorithm),
        workspace: &Workspace,
    ) -> Result<Vec<Result<Answer, NgramError>>, NgramError> {
        let mut hits = vec![Vec::new(); queries.len()];
        for (segment, image) in self.searcher.snapshot().segments().iter().zip(images) {
            let found = match algorithm {
                Algorithm::Bins => bins(kernels, queries, image, workspace)?,
                _ => list_by_list(kernels, &queries[0], image, workspace)?,
            };
            let found = by_query(&found, queries.len());
            for ((hits, query), found) in hits.iter_mut().zip(queries).zip(found) {
                hits.append(&mut best_of(segment, &found, k, query.least));
            }
        }
        Ok(hits.into_iter().map(|hits| Ok(answer_of(hits, k))).collect())
    }
}

/// Finds the hits of a query in a segment, list by list.
fn list_by_list(
    kernels: &NgramPublished,
    query: &Query,
    image: &Image,
    workspace: &Workspace,
) -> Result<Vec<HitView>, NgramError> {
    let lists = image.lists_of(query);
    let Some(misses) = lists.len().checked_sub(query.least as usize) else {
        return Ok(Vec::new());
    };
    let counts = Counts::new(&workspace.stream, image.parts)?;
    let (view, window) = (image.view(), window_of(query));
    workspace.hits_of(|stream, hits| {
        for (list, i) in lists.iter().zip(0..) {
            let gathers = i <= misses;
            // SAFETY: the list is one of the image, which lives until the hits have arrived, as
            // do the counts.
            unsafe { kernels.count_list(stream, view, list.ordinal, window, gathers, &counts) }?;
            let minimum = (i + 1).saturating_sub(misses) as u32;
            if minimum > 1 {
                // SAFETY: as above.
                unsafe { kernels.prune(stream, minimum, &counts) }?;
            }
        }
        // SAFETY: as above.
        Ok(unsafe { kernels.collect(stream, &counts, hits) }?)
    })
}

/// Finds the hits of queries in a segment, in bins.
fn bins(
    kernels: &NgramPublished,
    queries: &[Query],
    image: &Image,
    workspace: &Workspace,
) -> Result<Vec<HitView>, NgramError> {
    let mut plan = SegmentPlan::default();
    for (number, query) in queries.iter().enumerate() {
        let lists = image.lists_of(query);
        // Otherwise there are no hits.
        if lists.len() >= query.least as usize {
            plan.push(number, image.query(query, &lists, query.least, 0), &lists);
        }
    }
    if plan.queries.is_empty() {
        return Ok(Vec::new());
    }
    let batch = workspace.send(image, &plan)?;
    let mut hits = workspace.hits_of(|stream, hits| {
        // SAFETY: the image lives until the hits have arrived; the plan names its lists.
        unsafe { kernels.bins(stream, &batch, hits) }
    })?;
    hits.iter_mut().for_each(|hit| hit.query = plan.numbers[hit.query as usize] as u32);
    Ok(hits)
}

//! The published algorithms on a GPU, for comparison: list by list over all documents, one query
//! at a time, and all lists of a query for a bin of 256 documents at a time.

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Grid};
use warpseek_exec::Context;
use warpseek_index::BIN;

use super::{
    DeviceHit, GpuSearcher, Image, SegmentPlan, Workspace, answer_of, answered, best_of, by_query,
    found_hits, is_short, lock, window_of,
};
use crate::algorithm::Algorithm;
use crate::error::NgramError;
use crate::kernels::ngram_published::SOURCE;
use crate::query::Query;
use crate::searcher::Answer;

/// Threads of a block. Must equal the kernels'.
const THREADS: u32 = 256;

/// Maximum number of n-grams of a query: counts have eight bits. The CPU answers queries with
/// more.
const MOST_LISTS: u32 = 255;

/// Words of the counts of a part.
const WORDS: usize = 8;

/// The buffers that the kernels write hits to. Must equal theirs, like the next structure.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Hits {
    hits: u64,
    found: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct AllCounts {
    words: u64,
    alive: u64,
}

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
        let search = |some: &[Query], images: &[Image]| {
            self.search_some(some, images, k, algorithm, &workspace)
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
        queries: &[Query],
        images: &[Image],
        k: usize,
        algorithm: Algorithm,
        workspace: &Workspace,
    ) -> Result<Vec<Result<Answer, NgramError>>, NgramError> {
        let mut hits = vec![Vec::new(); queries.len()];
        for (segment, image) in self.searcher.snapshot().segments().iter().zip(images) {
            let found = match algorithm {
                Algorithm::Bins => self.bins(queries, image, workspace)?,
                _ => self.list_by_list(&queries[0], image, workspace)?,
            };
            let found = by_query(&found, queries.len());
            for ((hits, query), found) in hits.iter_mut().zip(queries).zip(found) {
                hits.append(&mut best_of(segment, &found, k, query.least));
            }
        }
        Ok(hits.into_iter().map(|hits| Ok(answer_of(hits, k))).collect())
    }

    /// Finds the hits of a query in a segment, list by list.
    fn list_by_list(
        &self,
        query: &Query,
        image: &Image,
        workspace: &Workspace,
    ) -> Result<Vec<DeviceHit>, NgramError> {
        let lists = image.lists_of(query);
        let Some(misses) = lists.len().checked_sub(query.least as usize) else {
            return Ok(Vec::new());
        };
        let kernel = |name| self.device.kernel(&SOURCE, name);
        let (matches, prune) = (kernel("ngram_match")?, kernel("ngram_prune")?);
        let parts = image.parts;
        let words: Buffer<u32> = self.device.buffer(parts as usize * WORDS)?;
        let alive: Buffer<u8> = self.device.buffer(parts as usize)?;
        let counts = AllCounts { words: words.address(), alive: alive.address() };
        let stream = &workspace.stream;
        stream.zero(&alive)?;
        let grid = || Grid::new(self.device.info().multiprocessors * 8, THREADS);
        let window = window_of(query);
        for (list, i) in lists.iter().zip(0..) {
            let args = Args::new().value(image.on_device()).value(list.ordinal).value(window);
            let args = args.value(u32::from(i <= misses)).value(counts);
            // SAFETY: arguments are those of the kernel, whose structures equal ours; parts and
            // segments are those of the image.
            unsafe { stream.launch(&matches, grid(), &args) }?;
            let minimum = (i + 1).saturating_sub(misses) as u32;
            if minimum > 1 {
                let args = Args::new().value(parts).value(minimum).value(counts);
                // SAFETY: as above.
                unsafe { stream.launch(&prune, grid(), &args) }?;
            }
        }
        let args = Args::new().value(parts).value(counts).value(into(workspace)?);
        // SAFETY: as above, and the buffer of hits is large enough for all parts.
        unsafe { stream.launch(&kernel("ngram_collect")?, grid(), &args) }?;
        found_hits(workspace)
    }

    /// Finds the hits of queries in a segment, in bins.
    fn bins(
        &self,
        queries: &[Query],
        image: &Image,
        workspace: &Workspace,
    ) -> Result<Vec<DeviceHit>, NgramError> {
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
        let bins = image.parts.div_ceil(BIN as u32);
        let args = self.send(image, &plan, workspace)?.value(bins).value(into(workspace)?);
        let grid = Grid::new(bins * plan.queries.len() as u32, THREADS);
        let kernel = self.device.kernel(&SOURCE, "ngram_bins")?;
        // SAFETY: as above, and the buffer of hits is large enough for all parts as hits of every
        // query.
        unsafe { workspace.stream.launch(&kernel, grid, &args) }?;
        let mut hits = found_hits(workspace)?;
        hits.iter_mut().for_each(|hit| hit.query = plan.numbers[hit.query as usize] as u32);
        Ok(hits)
    }
}

/// Returns the buffers for hits, with their number set to 0.
fn into(workspace: &Workspace) -> Result<Hits, NgramError> {
    workspace.stream.zero(&workspace.counters)?;
    Ok(Hits { hits: workspace.hits.address(), found: workspace.counters.slice(1..).address() })
}

//! Queries whose work the CPU and the GPU share: one gathers candidates, the other prunes them.
//! Measurements use this to show when a hybrid is faster.

use warpseek_exec::Context;

use super::hits::{answer_of, best_of, enough_hits};
use super::image::Image;
use super::plan::SegmentPlan;
use super::{GpuSearcher, is_short, lock};
use crate::collector::Collector;
use crate::counting::{self, MOST_COUNTED};
use crate::error::NgramError;
use crate::kernels::map_lists::QueryView;
use crate::lists::Lists;
use crate::query::Query;
use crate::searcher::Answer;

/// The division of a query between CPU and GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// The CPU counts in how many of the shortest lists documents are; the GPU looks candidates
    /// up in the others and scores them.
    CpuGathers,
    /// The GPU gathers the candidates; the CPU prunes them.
    GpuGathers,
}

impl GpuSearcher {
    /// Returns the best `k` hits of a query whose work one CPU core and the GPU share as `division`
    /// says. In each segment one of them gathers candidates and the other prunes them; then the
    /// hits of all segments are merged. The CPU answers queries that are not worth dividing, or
    /// whose data do not fit on the device.
    pub fn search_divided(
        &self,
        query: &Query,
        k: usize,
        division: Division,
        context: &Context,
    ) -> Result<Answer, NgramError> {
        let misses = query.len().saturating_sub(query.least);
        if self.settings.room < self.most_parts() || misses >= MOST_COUNTED {
            return self.searcher.search(query, k, Default::default(), context);
        }
        let found = self.with_images(std::slice::from_ref(query), |images| {
            self.divide(query, k, division, images)
        });
        match found {
            Err(error) if is_short(&error) => {
                self.searcher.search(query, k, Default::default(), context)
            }
            found => found,
        }
    }

    fn divide(
        &self,
        query: &Query,
        k: usize,
        division: Division,
        images: &[Image],
    ) -> Result<Answer, NgramError> {
        let workspace = lock(&self.workspaces[0]);
        let stream = &workspace.stream;
        let mut hits = Vec::new();
        for (segment, image) in self.searcher.snapshot().segments().iter().zip(images) {
            let Some((on_gpu, own)) = image.plan(query, query.least) else { continue };
            let lists = Lists::open(segment, query).map_err(NgramError::from)?;
            let send = |query: QueryView| {
                let mut plan = SegmentPlan::default();
                plan.push(0, query, &own);
                workspace.send(image, &plan)
            };
            match division {
                Division::CpuGathers => {
                    let (candidates, counted) = counting::gather(&lists, query.least)?;
                    let batch = send(image.query(query, &own, query.least, counted))?;
                    let keys: Vec<u64> = candidates
                        .iter()
                        .map(|&(part, count)| u64::from(part) << 32 | u64::from(count))
                        .collect();
                    stream.upload(&keys, &workspace.keys.slice(..keys.len()))?;
                    stream.upload(&[[0, keys.len() as u32]], &workspace.rooms.slice(..1))?;
                    stream.zero(&workspace.of_query.slice(..1))?;
                    stream.zero(&workspace.counters)?;
                    let enough = enough_hits(segment, k);
                    let found = workspace.look_up(&self.look_up, &batch, 1, enough, u32::MAX)?;
                    hits.append(&mut best_of(segment, &found, k, query.least));
                }
                Division::GpuGathers => {
                    let (batch, range_bits) = (send(on_gpu)?, self.settings.range_bits);
                    workspace.count(&self.count, &batch, range_bits, image.parts)?;
                    let found = stream.download(&workspace.counters.slice(..1))?[0];
                    let mut keys = stream.download(&workspace.keys.slice(..found as usize))?;
                    // Blocks of threads write the candidates in any order.
                    keys.sort_unstable();
                    let candidates: Vec<(u32, u32)> =
                        keys.iter().map(|key| ((key >> 32) as u32, *key as u32 & 0xff)).collect();
                    let mut collector = Collector::new(k, query.least);
                    counting::prune(&lists, &candidates, on_gpu.counted, &mut collector)?;
                    hits.append(&mut collector.into_hits(true));
                }
            }
        }
        Ok(answer_of(hits, k))
    }
}

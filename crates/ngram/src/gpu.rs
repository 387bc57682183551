//! Searching on a GPU: batches of queries over an index that is resident there, in its compressed
//! form.
//!
//! The host looks n-grams up and decides how many lists are counted, as the CPU does
//! (`counting`), while the GPU works on other rounds. One kernel counts and finds candidates,
//! another one scores them, and the host sorts the hits. If a query has more candidates than a
//! query of a round may have, it is tried again with fewer misses: if that finds k hits, they are
//! the best k. If it does not, the query runs once more, alone, with all the memory for
//! candidates.

mod divided;
mod hits;
mod image;
mod plan;
mod published;
mod spelling;
mod texts;
mod verify;
mod workspace;

pub use divided::Division;
use hits::{answer_of, best_of, by_query, enough_hits};
use image::{Image, Tables};
use plan::{RoundPlan, SegmentPlan, Try};
pub use spelling::MOST_LETTERS;
pub use verify::{GpuVerifier, VerifyCounts, VerifySettings};
use workspace::Workspace;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek_codec::CodecId;
use warpseek_core::Hit;
use warpseek_cuda::{Device, Uploader};
use warpseek_exec::{Context, Coverage, Pool};
use warpseek_index::Segment;

use crate::algorithm::Algorithm;
use crate::error::NgramError;
use crate::kernels::ngram_count::NgramCount;
use crate::kernels::ngram_look_up::{HitView, NgramLookUp};
use crate::query::Query;
use crate::searcher::{Answer, Searcher};

/// Bytes of device memory per candidate of a round. A candidate takes 80 in all workspaces.
const MEMORY_PER_CANDIDATE: u64 = 256;

/// Number of parts per candidate that a query may have before it is tried with fewer misses.
const PARTS_PER_CANDIDATE: u32 = 64;

/// The sizes of rounds and ranges. Only tests need settings other than [`GpuSettings::USUAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSettings {
    /// Maximum number of queries of a round, at most 2^24. The limit is lower if `room` is less
    /// than `most_of_query` candidates for each of these queries.
    pub round: usize,
    /// Binary logarithm of the parts whose counters a block of threads keeps, 8 to 15.
    pub range_bits: u32,
    /// Maximum number of candidates of a round, which is lower on a device with little memory.
    pub room: u32,
    /// Maximum number of candidates of one query in a round of several; large segments raise the
    /// limit. The CPU answers a query that alone may have more candidates than `room`.
    pub most_of_query: u32,
}

impl GpuSettings {
    /// The usual settings.
    pub const USUAL: GpuSettings =
        GpuSettings { round: 1024, range_bits: 15, room: 1 << 26, most_of_query: 1 << 16 };
}

/// A searcher that answers queries on a GPU that holds the index. Threads that request one round
/// each at the same time take turns.
pub struct GpuSearcher {
    searcher: Searcher,
    device: Device,
    settings: GpuSettings,
    lists: Lists,
    /// Workspaces for rounds that run at the same time.
    workspaces: [Mutex<Workspace>; 4],
    count: NgramCount,
    look_up: NgramLookUp,
}

/// The location of lists.
enum Lists {
    /// All lists are on the device, by segment.
    Resident(Vec<Image>),
    /// Lists are copied with the queries that need them; the tables of the parts are on the
    /// device.
    OnDemand(Vec<Arc<Tables>>),
}

/// Queries that are answered together.
struct Round<'a> {
    queries: &'a [Query],
    k: usize,
    context: &'a Context,
    workspace: &'a Workspace,
    /// The lists of its queries, by segment.
    images: &'a [Image],
}

impl GpuSearcher {
    /// Copies the index to the device. If it does not fit there, lists are copied when queries
    /// need them, for as many queries at a time as fit.
    pub fn new(
        searcher: Searcher,
        device: Device,
        settings: GpuSettings,
    ) -> Result<Self, NgramError> {
        let codec = searcher.snapshot().manifest().codec;
        if !matches!(codec, CodecId::BitPack | CodecId::Rice) {
            return Err(NgramError::Codec(codec));
        }
        let most = u32::try_from(device.memory_limit() / MEMORY_PER_CANDIDATE).unwrap_or(u32::MAX);
        let room = settings.room.min(most).max(1);
        let parts = searcher.snapshot().segments().iter().map(|segment| segment.parts().count());
        let parts = parts.max().unwrap_or(0);
        let most_of_query = settings.most_of_query.max(parts / PARTS_PER_CANDIDATE).clamp(1, room);
        let round = settings.round.clamp(1, (room / most_of_query) as usize);
        let range_bits = settings.range_bits.clamp(8, 15);
        let settings = GpuSettings { round, range_bits, room, most_of_query };
        let ranges = NgramCount::ranges(parts, settings.range_bits).max(1);
        let workspace = || Workspace::new(&device, &settings, ranges).map(Mutex::new);
        // Workspaces are allocated before the lists, which take the rest.
        let workspaces = [workspace()?, workspace()?, workspace()?, workspace()?];
        let lists = match resident(&searcher, &device) {
            Err(error) if is_short(&error) => Lists::OnDemand(tables(&searcher, &device)?),
            images => Lists::Resident(images?),
        };
        Ok(GpuSearcher {
            count: NgramCount::new(&device)?,
            look_up: NgramLookUp::new(&device)?,
            workspaces,
            searcher,
            settings,
            lists,
            device,
        })
    }

    /// Returns the bytes of the index on the device.
    pub fn resident(&self) -> u64 {
        let bytes: usize = match &self.lists {
            Lists::Resident(images) => images.iter().map(Image::resident).sum(),
            Lists::OnDemand(tables) => tables.iter().map(|tables| tables.bytes()).sum(),
        };
        bytes as u64
    }

    /// Returns true if all lists are on the device; otherwise they are copied with the queries
    /// that need them.
    pub fn is_resident(&self) -> bool {
        matches!(self.lists, Lists::Resident(_))
    }

    /// Calls `use_images` with the lists of the queries.
    fn with_images<R>(
        &self,
        queries: &[Query],
        use_images: impl FnOnce(&[Image]) -> Result<R, NgramError>,
    ) -> Result<R, NgramError> {
        let tables = match &self.lists {
            Lists::Resident(images) => return use_images(images),
            Lists::OnDemand(tables) => tables,
        };
        let grams = queries.iter().flat_map(|query| query.grams.grams.iter());
        let mut grams: Vec<&[u8]> = grams.map(|gram| &gram[..]).collect();
        grams.sort_unstable();
        grams.dedup();
        let mut uploader = Uploader::new(&self.device)?;
        let segments = self.searcher.snapshot().segments();
        let images = segments.iter().zip(shares(&self.searcher)).zip(tables);
        let image = |((segment, share), tables): ((&Arc<Segment>, f64), &Arc<Tables>)| {
            let grams = grams.iter().copied();
            Image::of_grams(segment, tables, grams, share, &self.device, &mut uploader)
        };
        let images = images.map(image).collect::<Result<Vec<_>, _>>()?;
        use_images(&images)
    }

    /// Returns the name of the device.
    pub fn device_name(&self) -> &str {
        &self.device.info().name
    }

    /// Returns the best `k` hits of each query. Threads of the context look up n-grams, and answer
    /// the queries that the GPU cannot. If time runs out, queries of rounds that have not begun get
    /// empty answers that cover no documents.
    pub fn search_many(
        &self,
        queries: &[Query],
        k: usize,
        algorithm: Algorithm,
        context: &Context,
    ) -> Vec<Result<Answer, NgramError>> {
        if algorithm != Algorithm::Counting {
            return self.search_as_published(queries, k, algorithm, context);
        }
        let rounds: Vec<&[Query]> = queries.chunks(self.settings.round).collect();
        if let [round] = rounds[..] {
            return self.answer_round(round, k, context, &self.workspaces[0]);
        }
        // The host prepares and finishes rounds while the GPU works on others, and a round with
        // too little work for the whole GPU shares it.
        let (next, answered) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(rounds.len())));
        std::thread::scope(|scope| {
            for workspace in &self.workspaces {
                scope.spawn(|| {
                    while let Some(round) = rounds.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let answers = self.answer_round(round, k, context, workspace);
                        let first = round.as_ptr().addr();
                        lock(&answered).push((first, answers));
                    }
                });
            }
        });
        let mut answered = answered.into_inner().unwrap_or_else(PoisonError::into_inner);
        answered.sort_unstable_by_key(|(first, _)| *first);
        answered.into_iter().flat_map(|(_, answers)| answers).collect()
    }

    fn answer_round(
        &self,
        queries: &[Query],
        k: usize,
        context: &Context,
        workspace: &Mutex<Workspace>,
    ) -> Vec<Result<Answer, NgramError>> {
        answered(queries, context, || self.answer_some(queries, k, context, &lock(workspace)))
    }

    /// Answers queries together, or each half of them if the lists of all do not fit. The CPU
    /// answers a query whose lists alone do not fit.
    fn answer_some(
        &self,
        queries: &[Query],
        k: usize,
        context: &Context,
        workspace: &Workspace,
    ) -> Result<Vec<Result<Answer, NgramError>>, NgramError> {
        let answers = self.with_images(queries, |images| {
            self.search_round(&Round { queries, k, context, workspace, images })
        });
        match answers {
            Err(error) if is_short(&error) => match queries {
                [query] => Ok(vec![self.searcher.search(query, k, Algorithm::Counting, context)]),
                _ => {
                    let (some, others) = queries.split_at(queries.len() / 2);
                    let mut answers = self.answer_some(some, k, context, workspace)?;
                    answers.extend(self.answer_some(others, k, context, workspace)?);
                    Ok(answers)
                }
            },
            answers => answers,
        }
    }

    /// Returns the number of parts of the largest segment.
    fn most_parts(&self) -> u32 {
        let segments = self.searcher.snapshot().segments().iter();
        segments.map(|segment| segment.parts().count()).max().unwrap_or(0)
    }

    fn plan_round(&self, round: &Round<'_>, tries: &[Try]) -> RoundPlan {
        let &Round { queries, context, images, .. } = round;
        let mut plan = RoundPlan::default();
        for image in images {
            let planned = context.pool().map(
                tries,
                || (),
                |(), own| image.plan(&queries[own.number], own.least),
            );
            let mut own = SegmentPlan::default();
            for (planned, number) in planned.into_iter().zip(tries.iter().map(|own| own.number)) {
                match planned {
                    None => {}
                    Some((_, lists)) if lists.is_empty() => plan.by_cpu.push(number),
                    Some((query, lists)) => own.push(number, query, &lists),
                }
            }
            plan.segments.push(own);
        }
        plan
    }

    fn search_round(
        &self,
        round: &Round<'_>,
    ) -> Result<Vec<Result<Answer, NgramError>>, NgramError> {
        let &Round { queries, k, context, .. } = round;
        let mut hits: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        let most = self.settings.most_of_query;
        let first = |(number, query)| Try::first(number, query);
        let mut tries: Vec<Try> = queries.iter().enumerate().map(first).collect();
        let (mut alone, mut by_cpu) = (Vec::new(), Vec::new());
        while !tries.is_empty() {
            let mut plan = self.plan_round(round, &tries);
            by_cpu.append(&mut plan.by_cpu);
            let too_many = self.run(round, &plan, most, &mut hits)?;
            let mut again = Vec::new();
            for own in tries {
                let (i, query) = (own.number, &queries[own.number]);
                let too_few = hits[i].len() < k && own.least > query.least;
                if !too_many[i] && !too_few {
                    continue;
                }
                hits[i].clear();
                match own.next(too_many[i]) {
                    Ok(next) => again.push(next),
                    Err(last) => alone.push(last),
                }
            }
            tries = again;
        }
        // Only so many queries run at a time that all their possible candidates fit.
        let parts = self.most_parts();
        let at_a_time = ((self.settings.room / parts.max(1)) as usize).min(self.settings.round);
        if at_a_time == 0 {
            by_cpu.extend(alone.drain(..).map(|own| own.number));
        }
        while !alone.is_empty() {
            let mut again = Vec::new();
            for some in alone.chunks(at_a_time) {
                let plan = self.plan_round(round, some);
                by_cpu.extend(&plan.by_cpu);
                self.run(round, &plan, parts, &mut hits)?;
                for own in some {
                    let (i, least) = (own.number, queries[own.number].least);
                    if hits[i].len() < k && own.least > least {
                        hits[i].clear();
                        again.push(own.at(least));
                    }
                }
            }
            alone = again;
        }
        by_cpu.sort_unstable();
        by_cpu.dedup();
        let single = context.with_pool(Pool::shared(1));
        let by_cpu_found = context.pool().map(
            &by_cpu,
            || (),
            |(), &i| self.searcher.search(&queries[i], k, Algorithm::Counting, &single),
        );
        let mut answers: Vec<_> = hits.into_iter().map(|hits| Ok(answer_of(hits, k))).collect();
        by_cpu.into_iter().zip(by_cpu_found).for_each(|(i, answer)| answers[i] = answer);
        Ok(answers)
    }

    /// Adds the best `k` hits of each query in each segment; returns which queries have more than
    /// `most` candidates.
    fn run(
        &self,
        round: &Round<'_>,
        plan: &RoundPlan,
        most: u32,
        hits: &mut [Vec<Hit>],
    ) -> Result<Vec<bool>, NgramError> {
        let &Round { queries, k, context, workspace, images } = round;
        let mut too_many = vec![false; queries.len()];
        let segments = self.searcher.snapshot().segments().iter();
        for ((segment, image), plan) in segments.zip(images).zip(&plan.segments) {
            if plan.numbers.is_empty() {
                continue;
            }
            let enough = enough_hits(segment, k);
            let (found, of_query) = self.launch(image, plan, enough, most, workspace)?;
            let found = by_query(&found, plan.numbers.len());
            let found: Vec<_> = plan.numbers.iter().copied().zip(found).collect();
            let best = context.pool().map(
                &found,
                || (),
                |(), (i, found)| best_of(segment, found, k, queries[*i].least),
            );
            for ((mut best, &i), of_query) in best.into_iter().zip(&plan.numbers).zip(of_query) {
                match of_query > most {
                    true => too_many[i] = true,
                    false => hits[i].append(&mut best),
                }
            }
        }
        Ok(too_many)
    }

    /// Runs the kernels. Returns hits, among them the best `k` of each query, and the number of
    /// candidates of each query. The workspace must be able to hold `most_of_query` candidates of
    /// each.
    fn launch(
        &self,
        image: &Image,
        plan: &SegmentPlan,
        k: u32,
        most_of_query: u32,
        workspace: &Workspace,
    ) -> Result<(Vec<HitView>, Vec<u32>), NgramError> {
        let batch = workspace.send(image, plan)?;
        let range_bits = self.settings.range_bits;
        let ranges = workspace.count(&self.count, &batch, range_bits, most_of_query)?;
        let found = workspace.look_up(&self.look_up, &batch, ranges, k, most_of_query)?;
        let of_query = workspace.of_query.slice(..plan.queries.len());
        Ok((found, workspace.stream.download(&of_query)?))
    }
}

/// Returns the share of each segment in the parts of all.
fn shares(searcher: &Searcher) -> Vec<f64> {
    let parts = searcher.snapshot().segments().iter().map(|segment| segment.parts().count());
    let all: f64 = parts.clone().map(f64::from).sum();
    parts.map(|parts| f64::from(parts) / all.max(1.0)).collect()
}

/// Copies all lists of all segments to the device.
fn resident(searcher: &Searcher, device: &Device) -> Result<Vec<Image>, NgramError> {
    let mut uploader = Uploader::new(device)?;
    let segments = searcher.snapshot().segments().iter().zip(shares(searcher));
    segments.map(|(segment, share)| Image::new(segment, share, device, &mut uploader)).collect()
}

/// Copies the tables of the parts of all segments to the device.
fn tables(searcher: &Searcher, device: &Device) -> Result<Vec<Arc<Tables>>, NgramError> {
    let mut uploader = Uploader::new(device)?;
    let segments = searcher.snapshot().segments().iter();
    segments.map(|segment| Tables::load(segment, device, &mut uploader).map(Arc::new)).collect()
}

/// Returns true if the device had too little memory.
fn is_short(error: &NgramError) -> bool {
    matches!(error, NgramError::Device(error) if error.is_short())
}

/// Returns the results of `search`. If it fails, all queries have its error; if time is over,
/// they have answers that cover nothing.
fn answered(
    queries: &[Query],
    context: &Context,
    search: impl FnOnce() -> Result<Vec<Result<Answer, NgramError>>, NgramError>,
) -> Vec<Result<Answer, NgramError>> {
    if context.is_over() {
        let nothing = Answer { hits: Vec::new(), coverage: Coverage::NOTHING };
        return queries.iter().map(|_| Ok(nothing.clone())).collect();
    }
    search().unwrap_or_else(|error| queries.iter().map(|_| Err(error.clone())).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

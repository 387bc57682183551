//! Searching on a GPU: batches of queries over an index that is resident there, in its compressed
//! form.
//!
//! The host looks n-grams up and decides how many lists are counted, as the CPU does
//! (`counting`), while the GPU works on other rounds. One kernel counts and finds candidates,
//! another one scores them, and the host sorts the hits. If a query has more candidates than a
//! query of a round may have, it is tried again with fewer misses: if that finds k hits, they are
//! the best k. If it does not, the query runs once more, alone, with all the memory for
//! candidates.
#![allow(unsafe_code)]

mod divided;
mod image;
mod published;
mod spelling;
mod texts;
mod verify;

pub use divided::Division;
pub(crate) use image::MOST_GRAMS;
use image::{HostList, Image, Tables};
pub use spelling::MOST_LETTERS;
pub use verify::{GpuVerifier, VerifyCounts, VerifySettings};

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::{Pod, Zeroable};
use warpseek_codec::CodecId;
use warpseek_core::Hit;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Stream, Uploader};
use warpseek_exec::{Context, Coverage, Pool};
use warpseek_index::Segment;

use crate::algorithm::Algorithm;
use crate::collector::Collector;
use crate::counting::{Costs, MOST_COUNTED, choose};
use crate::error::NgramError;
use crate::kernels::{ngram_count, ngram_look_up};
use crate::query::Query;
use crate::searcher::{Answer, Searcher};

/// Threads of a block. Must equal the kernels'.
const COUNT_THREADS: u32 = 256;
/// Number of lists without bitmaps that are counted at a time. Must equal the kernel's.
const GROUPED: u32 = 7;
const LOOK_UP_THREADS: u32 = 128;

/// Number of scores of hits that are distinguished to find the k-th best. Must equal the
/// kernel's.
const LEVELS: usize = 32;

/// Bytes of device memory per candidate of a round. A candidate takes 80 in all workspaces.
const MEMORY_PER_CANDIDATE: u64 = 256;

/// Number of parts per candidate that a query may have before it is tried with fewer misses.
const PARTS_PER_CANDIDATE: u32 = 64;

/// Costs of kernels, in picoseconds on an H200. A candidate takes about 300; it is counted as ten
/// times that, since n-grams are not independent and there are more candidates than lengths of
/// lists predict. That factor is not tuned.
const ON_GPU: Costs = Costs { entry: 3.0, bin: 8.0, candidate: 3000.0 };

/// The amounts of work that are done at a time. The usual settings are right except for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSettings {
    /// Maximum number of queries of a round, at most 2^24. A round has fewer if not all of them
    /// could have the permitted number of candidates.
    pub round: usize,
    /// Binary logarithm of the parts whose counters a block of threads keeps, 8 to 15.
    pub range_bits: u32,
    /// Maximum number of candidates of a round, which is lower on a device with little memory.
    pub room: u32,
    /// Maximum number of candidates of a query that is one of many; a large segment allows more.
    /// The CPU answers a query if its candidates alone may exceed `room`.
    pub most_of_query: u32,
}

impl GpuSettings {
    /// The usual settings.
    pub const USUAL: GpuSettings =
        GpuSettings { round: 1024, range_bits: 15, room: 1 << 26, most_of_query: 1 << 16 };
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct DeviceQuery {
    first: u32,
    lists: u32,
    bitmaps: u32,
    dense: u32,
    counted: u32,
    enough: u32,
    least: u32,
    window: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Found {
    keys: u64,
    rooms: u64,
    count: u64,
    of_query: u64,
    most_of_query: u32,
    unused: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Hits {
    keys: u64,
    rooms: u64,
    of_query: u64,
    hits: u64,
    found: u64,
    levels: u64,
    bounds: u64,
    most_of_query: u32,
    k: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct DeviceHit {
    part: u32,
    query: u32,
    score: u32,
}

/// The memory that a round uses.
struct Workspace {
    stream: Stream,
    queries: Buffer<DeviceQuery>,
    /// The ordinals of the queries' lists. The buffer grows and is kept, as releasing memory
    /// would wait for all other rounds.
    ordinals: RefCell<Buffer<u32>>,
    keys: Buffer<u64>,
    hits: Buffer<DeviceHit>,
    of_query: Buffer<u32>,
    /// The position of the candidates, for each range and query.
    rooms: Buffer<[u32; 2]>,
    /// The hits at each level of scores, for each query.
    levels: Buffer<[u32; 2]>,
    /// The bound that k hits reach, for each query.
    bounds: Buffer<u64>,
    /// The numbers of candidates and hits.
    counters: Buffer<u32>,
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
    count: Kernel,
    look_up: Kernel,
}

/// The location of lists.
enum Lists {
    /// All lists are on the device, by segment.
    Resident(Vec<Image>),
    /// Lists are copied with the queries that need them; the tables of the parts are on the
    /// device.
    OnDemand(Vec<Arc<Tables>>),
}

/// The queries of a round that the GPU answers in a segment.
#[derive(Default)]
struct SegmentPlan {
    queries: Vec<DeviceQuery>,
    ordinals: Vec<u32>,
    /// The numbers of the queries in the round.
    numbers: Vec<usize>,
}

impl SegmentPlan {
    fn push(&mut self, number: usize, query: DeviceQuery, lists: &[HostList]) {
        self.queries.push(DeviceQuery { first: self.ordinals.len() as u32, ..query });
        self.ordinals.extend(lists.iter().map(|list| list.ordinal));
        self.numbers.push(number);
    }
}

/// The GPU's work in each segment for some queries of a round, and the numbers of the queries
/// that the CPU answers.
#[derive(Default)]
struct RoundPlan {
    segments: Vec<SegmentPlan>,
    by_cpu: Vec<usize>,
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

/// A query that is being tried: the score that hits must have, between one at which there were
/// too many candidates and one at which there were too few hits.
#[derive(Clone, Copy)]
struct Try {
    number: usize,
    too_many: u32,
    too_few: u32,
    least: u32,
}

impl Try {
    fn first(number: usize, query: &Query) -> Self {
        Try { number, too_many: query.least, too_few: query.len() + 1, least: query.least }
    }

    /// Returns the next score to try. If none is left, the error is the score for running the
    /// query alone.
    fn next(mut self, found_too_many: bool) -> Result<Self, Self> {
        match found_too_many {
            true => self.too_many = self.least,
            false => self.too_few = self.least,
        }
        self.least = self.too_many + (self.too_few - self.too_many) / 2;
        if self.least > self.too_many { Ok(self) } else { Err(self) }
    }
}

impl Image {
    /// Returns the plan for hits of at least this many n-grams, or `None` if there are none. A
    /// plan without lists is left to the CPU.
    fn plan(&self, query: &Query, least: u32) -> Option<(DeviceQuery, Vec<HostList>)> {
        let lists = self.lists_of(query);
        let misses = (lists.len() as u32).checked_sub(least)?;
        if misses >= MOST_COUNTED {
            return Some((DeviceQuery::default(), Vec::new()));
        }
        let lengths = lists.iter().map(|list| (list.df, list.df >= self.bitmaps_from));
        let counted = choose(lengths, self.parts, misses, &ON_GPU);
        Some((self.query(query, &lists, least, counted), lists))
    }

    /// Returns the lists of a query, shortest first.
    fn lists_of(&self, query: &Query) -> Vec<HostList> {
        let grams = query.grams.grams.iter();
        let mut lists: Vec<HostList> =
            grams.filter_map(|gram| self.by_gram.get(&gram[..]).copied()).collect();
        lists.sort_unstable_by_key(|list| (list.df, list.ordinal));
        lists
    }

    /// Creates the device's form of a query with this many counted lists.
    fn query(&self, query: &Query, lists: &[HostList], least: u32, counted: u32) -> DeviceQuery {
        DeviceQuery {
            first: 0,
            lists: lists.len() as u32,
            bitmaps: lists.partition_point(|list| list.df < self.bitmaps_from) as u32,
            dense: lists.partition_point(|list| !list.dense) as u32,
            counted,
            enough: (counted + least).saturating_sub(lists.len() as u32),
            least,
            window: window_of(query),
        }
    }
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
        let ranges = parts.div_ceil(1 << settings.range_bits).max(1);
        let workspace = || {
            Ok::<_, DeviceError>(Mutex::new(Workspace {
                stream: device.stream()?,
                queries: device.buffer(settings.round)?,
                ordinals: RefCell::new(device.buffer(1)?),
                keys: device.buffer(settings.room as usize)?,
                hits: device.buffer(settings.room as usize)?,
                of_query: device.buffer(settings.round)?,
                rooms: device.buffer(settings.round * ranges as usize)?,
                levels: device.buffer(settings.round * LEVELS)?,
                bounds: device.buffer(settings.round)?,
                counters: device.buffer(2)?,
            }))
        };
        // Workspaces are allocated before the lists, which take the rest.
        let workspaces = [workspace()?, workspace()?, workspace()?, workspace()?];
        let lists = match resident(&searcher, &device) {
            Err(error) if is_short(&error) => Lists::OnDemand(tables(&searcher, &device)?),
            images => Lists::Resident(images?),
        };
        Ok(GpuSearcher {
            count: device.kernel(&ngram_count::SOURCE, "ngram_count")?,
            look_up: device.kernel(&ngram_look_up::SOURCE, "ngram_look_up")?,
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

    /// Returns the best `k` hits of each query. Threads of the context look n-grams up, and
    /// answer the queries that the GPU gives up. If time runs out, queries of rounds that have
    /// not begun have empty answers that cover nothing.
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
                        again.push(Try { least, ..*own });
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
    ) -> Result<(Vec<DeviceHit>, Vec<u32>), NgramError> {
        let args = self.send(image, plan, workspace)?;
        let queries = plan.queries.len();
        let ranges = self.count(image, &args, queries, most_of_query, workspace)?;
        let found = self.look_up(&args, queries, ranges, k, most_of_query, workspace)?;
        Ok((found, workspace.stream.download(&workspace.of_query.slice(..queries))?))
    }

    /// Copies a plan, of at most as many queries as a round has; returns the first arguments of
    /// kernels.
    fn send(
        &self,
        image: &Image,
        plan: &SegmentPlan,
        workspace: &Workspace,
    ) -> Result<Args, NgramError> {
        let Workspace { stream, queries, ordinals, .. } = workspace;
        stream.upload(&plan.queries, &queries.slice(..plan.queries.len()))?;
        let mut ordinals = ordinals.borrow_mut();
        if ordinals.len() < plan.ordinals.len() {
            *ordinals = self.device.buffer(plan.ordinals.len().next_power_of_two())?;
        }
        stream.upload(&plan.ordinals, &ordinals.slice(..plan.ordinals.len()))?;
        Ok(Args::new().buffer(queries).buffer(&ordinals).value(image.on_device()))
    }

    /// Finds the candidates of this many queries; returns the number of ranges.
    fn count(
        &self,
        image: &Image,
        args: &Args,
        queries: usize,
        most_of_query: u32,
        workspace: &Workspace,
    ) -> Result<u32, NgramError> {
        let GpuSettings { range_bits, room, .. } = self.settings;
        assert!(queries as u64 * u64::from(most_of_query) <= u64::from(room));
        let Workspace { stream, keys, of_query, rooms, counters, .. } = workspace;
        let ranges = image.parts.div_ceil(1 << range_bits);
        stream.zero(&of_query.slice(..queries))?;
        stream.zero(&rooms.slice(..queries * ranges as usize))?;
        stream.zero(counters)?;
        let into = Found {
            keys: keys.address(),
            rooms: rooms.address(),
            count: counters.address(),
            of_query: of_query.address(),
            most_of_query,
            unused: 0,
        };
        let args = args.clone().value(range_bits).value(ranges).value(into);
        let shared = (GROUPED << range_bits) / 8;
        let grid = Grid::new(ranges * queries as u32, COUNT_THREADS).shared(shared);
        // SAFETY: arguments are those of the kernel, whose structures equal ours. The memory they
        // refer to lives as long as this searcher, and only this round uses the workspace.
        unsafe { stream.launch(&self.count, grid, &args) }?;
        Ok(ranges)
    }

    /// Scores the candidates that are in the workspace.
    fn look_up(
        &self,
        args: &Args,
        queries: usize,
        ranges: u32,
        k: u32,
        most_of_query: u32,
        workspace: &Workspace,
    ) -> Result<Vec<DeviceHit>, NgramError> {
        let Workspace { stream, keys, hits, of_query, rooms, levels, bounds, counters, .. } =
            workspace;
        stream.zero(&levels.slice(..queries * LEVELS))?;
        stream.zero(&bounds.slice(..queries))?;
        let into = Hits {
            keys: keys.address(),
            rooms: rooms.address(),
            of_query: of_query.address(),
            hits: hits.address(),
            found: counters.slice(1..).address(),
            levels: levels.address(),
            bounds: bounds.address(),
            most_of_query,
            k,
        };
        let args = args.clone().value(queries as u32).value(ranges).value(into);
        let blocks = self.device.info().multiprocessors * 16;
        // SAFETY: as in `count`; at most as many hits are written as there are candidates, and
        // `hits` is as long as `keys`.
        unsafe { stream.launch(&self.look_up, Grid::new(blocks, LOOK_UP_THREADS), &args) }?;
        found_hits(workspace)
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

/// Returns one bit for each of the adjacent segments that may contribute.
fn window_of(query: &Query) -> u32 {
    ((1u64 << query.grams.window) - 1) as u32
}

/// Returns how many parts must be hits before others can be skipped. Several parts may belong to
/// one hit; in that case all are scored.
fn enough_hits(segment: &Segment, k: usize) -> u32 {
    let enough = if segment.parts().are_documents() { k } else { usize::MAX };
    u32::try_from(enough).unwrap_or(u32::MAX)
}

/// Copies the hits that kernels found to the host.
fn found_hits(workspace: &Workspace) -> Result<Vec<DeviceHit>, NgramError> {
    let found = workspace.stream.download(&workspace.counters.slice(1..))?[0];
    Ok(workspace.stream.download(&workspace.hits.slice(..found as usize))?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the best of all segments' hits.
fn answer_of(mut hits: Vec<Hit>, k: usize) -> Answer {
    hits.sort_unstable();
    hits.truncate(k);
    Answer { hits, coverage: Coverage::Complete }
}

/// Returns the best of the hits that kernels found in a segment, which come in any order.
fn best_of(segment: &Segment, found: &[DeviceHit], k: usize, least: u32) -> Vec<Hit> {
    let mut found: Vec<_> = found.iter().map(|hit| (hit.part, hit.score)).collect();
    found.sort_unstable();
    let mut collector = Collector::new(k, least);
    found.into_iter().for_each(|(part, score)| collector.offer(segment, part, score));
    collector.into_hits(true)
}

/// Divides hits by query; there are `queries` queries.
fn by_query(found: &[DeviceHit], queries: usize) -> Vec<Vec<DeviceHit>> {
    let mut counts = vec![0; queries];
    found.iter().for_each(|hit| counts[hit.query as usize] += 1);
    let mut split: Vec<Vec<DeviceHit>> = counts.into_iter().map(Vec::with_capacity).collect();
    found.iter().for_each(|&hit| split[hit.query as usize].push(hit));
    split
}

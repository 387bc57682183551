//! Searching on a GPU: batches of queries over an index that is resident there, in its compressed form.
//!
//! The host looks n-grams up and decides how many lists are counted, as the CPU does (`counting`), while the GPU works on the round before. One kernel counts and finds candidates, another one scores them, and the host
//! sorts the hits. A query with more candidates than there is room for is tried again with fewer misses: if that finds k hits, they are the best k. If it does not, the CPU answers.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

use bytemuck::{Pod, Zeroable};
use rustc_hash::FxHashMap;
use warpseek_codec::CodecId;
use warpseek_core::Hit;
use warpseek_cuda::{Args, Buffer, Device, Grid, Kernel, Stream, Uploader};
use warpseek_exec::{Context, Coverage, Pool};
use warpseek_index::{MapList, MapListParts, Segment};

use crate::algorithm::Algorithm;
use crate::collector::Collector;
use crate::counting::{MOST_COUNTED, choose};
use crate::error::NgramError;
use crate::kernels::{ngram_count, ngram_look_up};
use crate::query::Query;
use crate::searcher::{Answer, Searcher};

/// Different n-grams of a segment that a GPU takes: it has a table of their lists.
pub(crate) const MOST_GRAMS: u64 = 1 << 24;

/// Threads of a block. Must equal the kernels'.
const COUNT_THREADS: u32 = 256;
const LOOK_UP_THREADS: u32 = 128;

/// Bytes of device memory for which there is room for a candidate, which takes 20.
const MEMORY_PER_CANDIDATE: u64 = 256;

/// Bytes that kernels may read behind the last list.
const PADDING: usize = 32;

/// How much is done at a time. The usual settings are right but for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuSettings {
    /// Queries of a round, at most 2^24.
    pub round: usize,
    /// Binary logarithm of the parts whose counters a block of threads keeps, 8 to 15.
    pub range_bits: u32,
    /// Candidates of a round. If all of its queries can have as many as they may, none is tried again because of others. A device with little memory gets less room.
    pub room: u32,
    /// Candidates of a query; one with more is answered by the CPU.
    pub most_of_query: u32,
}

impl GpuSettings {
    /// What is usual.
    pub const USUAL: GpuSettings =
        GpuSettings { round: 1024, range_bits: 15, room: 1 << 26, most_of_query: 1 << 16 };
}

/// A list on the device. Must equal `MapList` of the kernels, as the next ones equal theirs.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct DeviceList {
    bitmaps: u64,
    bases: u64,
    lasts: u64,
    ends: u64,
    payload: u64,
    end: u64,
    df: u32,
    form: u32,
    blocks: u32,
    part: u32,
    map: u32,
    unused: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct DeviceQuery {
    first: u32,
    lists: u32,
    dense: u32,
    counted: u32,
    enough: u32,
    least: u32,
    window: u32,
    unused: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct DeviceParts {
    segments: u64,
    count: u32,
    unused: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Found {
    keys: u64,
    count: u64,
    of_query: u64,
    failed: u64,
    room: u32,
    most_of_query: u32,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Hits {
    keys: u64,
    count: u64,
    of_query: u64,
    hits: u64,
    found: u64,
    failed: u64,
    room: u32,
    most_of_query: u32,
}

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct DeviceHit {
    part: u32,
    query: u32,
    score: u32,
}

/// A list as the host knows it.
#[derive(Clone, Copy)]
struct HostList {
    ordinal: u32,
    df: u32,
    dense: bool,
}

/// A segment on the device.
struct Image {
    bytes: Buffer<u8>,
    segments: Buffer<u8>,
    /// By ordinal of the n-gram.
    lists: Buffer<DeviceList>,
    /// By n-gram: a look-up here is faster than in the dictionary.
    by_gram: FxHashMap<Box<[u8]>, HostList>,
}

/// Memory that rounds use.
struct Workspace {
    stream: Stream,
    keys: Buffer<u64>,
    hits: Buffer<DeviceHit>,
    of_query: Buffer<u32>,
    /// Candidates, hits, and whether a list is malformed.
    counters: Buffer<u32>,
}

/// Answers queries on a GPU that holds the index. Threads that use it at the same time take turns.
pub struct GpuSearcher {
    searcher: Searcher,
    device: Device,
    settings: GpuSettings,
    images: Vec<Image>,
    workspace: Mutex<Workspace>,
    count: Kernel,
    look_up: Kernel,
}

/// The queries of a round that the GPU answers in a segment.
#[derive(Default)]
struct SegmentPlan {
    queries: Vec<DeviceQuery>,
    ordinals: Vec<u32>,
    /// Their numbers in the round.
    numbers: Vec<usize>,
}

/// What the GPU does in each segment for some queries of a round, and the numbers of the queries that the CPU answers.
#[derive(Default)]
struct RoundPlan {
    segments: Vec<SegmentPlan>,
    by_cpu: Vec<usize>,
}

/// A query that is tried: the score that hits must have, between one at which there were too many candidates and one at which there were too few hits.
#[derive(Clone, Copy)]
struct Try {
    number: usize,
    too_many: Option<u32>,
    too_few: u32,
    least: u32,
}

impl Try {
    fn first(number: usize, query: &Query) -> Self {
        Try { number, too_many: None, too_few: query.len() + 1, least: query.least }
    }

    /// The next score to try; `None` if none is left.
    fn next(mut self, found_too_many: bool) -> Option<Self> {
        match found_too_many {
            true => self.too_many = Some(self.least),
            false => self.too_few = self.least,
        }
        let too_many = self.too_many?;
        self.least = too_many + (self.too_few - too_many) / 2;
        (self.least > too_many).then_some(self)
    }
}

impl Image {
    fn new(
        segment: &Segment,
        device: &Device,
        uploader: &mut Uploader,
    ) -> Result<Self, NgramError> {
        let terms = u64::from(segment.dictionary().terms());
        if terms > MOST_GRAMS {
            return Err(NgramError::ManyGrams(terms));
        }
        let file = segment.postings_file().all()?;
        let bytes: Buffer<u8> = device.buffer(file.len() + PADDING)?;
        uploader.scatter(&bytes, 1, [(0, file), (file.len(), &[0; PADDING][..])])?;
        let segments = uploader.send(segment.parts().all_segments(0))?;
        let (mut lists, mut by_gram) = (Vec::new(), FxHashMap::default());
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            let list = segment.map_list(&info)?;
            let (ordinal, df, dense) = (info.ordinal, info.df, list.is_dense());
            by_gram.insert(terms.term().into(), HostList { ordinal, df, dense });
            lists.push(on_device(&list, file, bytes.address()));
        }
        let table = device.buffer(lists.len().max(1))?;
        uploader.finish()?;
        uploader.stream().upload(&lists, &table.slice(..lists.len()))?;
        Ok(Image { bytes, segments, lists: table, by_gram })
    }

    /// The plan for hits of at least this many n-grams; `None` if there are none. A plan without lists is left to the CPU.
    fn plan(&self, parts: u32, query: &Query, least: u32) -> Option<(DeviceQuery, Vec<HostList>)> {
        let grams = query.grams.grams.iter();
        let mut lists: Vec<HostList> =
            grams.filter_map(|gram| self.by_gram.get(&gram[..]).copied()).collect();
        lists.sort_unstable_by_key(|list| (list.df, list.ordinal));
        let misses = (lists.len() as u32).checked_sub(least)?;
        if misses >= MOST_COUNTED {
            return Some((DeviceQuery::default(), Vec::new()));
        }
        let lengths = lists.iter().map(|list| (list.df, list.dense));
        let counted = choose(lengths, parts, misses);
        let query = DeviceQuery {
            first: 0,
            lists: lists.len() as u32,
            dense: lists.partition_point(|list| !list.dense) as u32,
            counted,
            enough: counted - misses,
            least,
            window: ((1u64 << query.grams.window) - 1) as u32,
            unused: 0,
        };
        Some((query, lists))
    }
}

impl GpuSearcher {
    /// Copies the index to the device.
    pub fn new(
        searcher: Searcher,
        device: Device,
        settings: GpuSettings,
    ) -> Result<Self, NgramError> {
        let codec = searcher.snapshot().manifest().codec;
        if codec != CodecId::BitPack {
            return Err(NgramError::Codec(codec));
        }
        let mut uploader = Uploader::new(&device)?;
        let segments = searcher.snapshot().segments().iter();
        let images = segments
            .map(|segment| Image::new(segment, &device, &mut uploader))
            .collect::<Result<_, _>>()?;
        let most = u32::try_from(device.info().memory / MEMORY_PER_CANDIDATE).unwrap_or(u32::MAX);
        let settings = GpuSettings { room: settings.room.min(most), ..settings };
        let workspace = Workspace {
            stream: device.stream()?,
            keys: device.buffer(settings.room as usize)?,
            hits: device.buffer(settings.room as usize)?,
            of_query: device.buffer(settings.round)?,
            counters: device.buffer(3)?,
        };
        Ok(GpuSearcher {
            count: device.kernel(&ngram_count::SOURCE, "ngram_count")?,
            look_up: device.kernel(&ngram_look_up::SOURCE, "ngram_look_up")?,
            workspace: Mutex::new(workspace),
            searcher,
            settings,
            images,
            device,
        })
    }

    /// Bytes of the index on the device.
    pub fn resident(&self) -> u64 {
        let bytes =
            |image: &Image| image.bytes.bytes() + image.segments.bytes() + image.lists.bytes();
        self.images.iter().map(bytes).sum::<usize>() as u64
    }

    /// The name of the device.
    pub fn device_name(&self) -> &str {
        &self.device.info().name
    }

    /// The best `k` hits of each query. Threads of the context look n-grams up, and answer what the GPU gives up. If time runs out, queries of rounds that have not begun have empty answers that cover nothing.
    pub fn search_many(
        &self,
        queries: &[Query],
        k: usize,
        context: &Context,
    ) -> Vec<Result<Answer, NgramError>> {
        let rounds: Vec<&[Query]> = queries.chunks(self.settings.round).collect();
        let mut answers = Vec::with_capacity(queries.len());
        if let [round] = rounds[..] {
            let plan = self.plan_round(round, &first_tries(round), context);
            self.finish_round(round, plan, k, context, &mut answers);
            return answers;
        }
        // The next round is planned while the GPU works on this one.
        let (sender, receiver) = sync_channel(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sender = sender;
                for round in &rounds {
                    let plan = self.plan_round(round, &first_tries(round), context);
                    if sender.send(plan).is_err() {
                        return;
                    }
                }
            });
            for (round, plan) in rounds.iter().zip(receiver) {
                self.finish_round(round, plan, k, context, &mut answers);
            }
        });
        answers
    }

    fn plan_round(&self, queries: &[Query], tries: &[Try], context: &Context) -> RoundPlan {
        let mut plan = RoundPlan::default();
        for (segment, image) in self.searcher.snapshot().segments().iter().zip(&self.images) {
            let parts = segment.parts().count();
            let planned = context.pool().map(
                tries,
                || (),
                |(), own| image.plan(parts, &queries[own.number], own.least),
            );
            let mut own = SegmentPlan::default();
            for (planned, number) in planned.into_iter().zip(tries.iter().map(|own| own.number)) {
                let Some((mut query, lists)) = planned else { continue };
                if query.lists == 0 {
                    plan.by_cpu.push(number);
                    continue;
                }
                query.first = own.ordinals.len() as u32;
                own.queries.push(query);
                own.ordinals.extend(lists.iter().map(|list| list.ordinal));
                own.numbers.push(number);
            }
            plan.segments.push(own);
        }
        plan
    }

    fn finish_round(
        &self,
        queries: &[Query],
        plan: RoundPlan,
        k: usize,
        context: &Context,
        answers: &mut Vec<Result<Answer, NgramError>>,
    ) {
        if context.is_over() {
            let nothing = Answer { hits: Vec::new(), coverage: Coverage::NOTHING };
            answers.extend(queries.iter().map(|_| Ok(nothing.clone())));
            return;
        }
        match self.search_round(queries, plan, k, context) {
            Ok(found) => answers.extend(found),
            Err(error) => answers.extend(queries.iter().map(|_| Err(error.clone()))),
        }
    }

    fn search_round(
        &self,
        queries: &[Query],
        plan: RoundPlan,
        k: usize,
        context: &Context,
    ) -> Result<Vec<Result<Answer, NgramError>>, NgramError> {
        let mut hits: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        let (mut tries, mut plan, mut by_cpu) = (first_tries(queries), plan, Vec::new());
        loop {
            by_cpu.append(&mut plan.by_cpu);
            let mut too_many = vec![false; queries.len()];
            self.run(queries, &plan, k, &mut hits, &mut too_many)?;
            let mut again = Vec::new();
            for own in tries {
                let (i, query) = (own.number, &queries[own.number]);
                let too_few = hits[i].len() < k && own.least > query.least;
                if !too_many[i] && !too_few {
                    continue;
                }
                hits[i].clear();
                match own.next(too_many[i]) {
                    Some(next) => again.push(next),
                    None => by_cpu.push(i),
                }
            }
            if again.is_empty() {
                break;
            }
            plan = self.plan_round(queries, &again, context);
            tries = again;
        }
        by_cpu.sort_unstable();
        by_cpu.dedup();
        let single = context.with_pool(Pool::shared(1));
        let by_cpu_found = context.pool().map(
            &by_cpu,
            || (),
            |(), &i| self.searcher.search(&queries[i], k, Algorithm::Counting, &single),
        );
        let answer = |mut hits: Vec<Hit>| {
            hits.sort_unstable();
            hits.truncate(k);
            Ok(Answer { hits, coverage: Coverage::Complete })
        };
        let mut answers: Vec<_> = hits.into_iter().map(answer).collect();
        by_cpu.into_iter().zip(by_cpu_found).for_each(|(i, answer)| answers[i] = answer);
        Ok(answers)
    }

    /// Adds the best `k` hits of each query in each segment, and says which queries had too many candidates.
    fn run(
        &self,
        queries: &[Query],
        plan: &RoundPlan,
        k: usize,
        hits: &mut [Vec<Hit>],
        too_many: &mut [bool],
    ) -> Result<(), NgramError> {
        let segments = self.searcher.snapshot().segments().iter();
        for ((segment, image), plan) in segments.zip(&self.images).zip(&plan.segments) {
            if plan.numbers.is_empty() {
                continue;
            }
            let (found, of_query) = self.launch(segment, image, plan)?;
            let mut found_of: Vec<Vec<(u32, u32)>> = vec![Vec::new(); plan.numbers.len()];
            for hit in found {
                found_of[hit.query as usize].push((hit.part, hit.score));
            }
            for ((mut found, &i), of_query) in found_of.into_iter().zip(&plan.numbers).zip(of_query)
            {
                if of_query > self.settings.most_of_query {
                    too_many[i] = true;
                    continue;
                }
                // Kernels find them in any order.
                found.sort_unstable();
                let mut collector = Collector::new(k, queries[i].least);
                found.into_iter().for_each(|(part, score)| collector.offer(segment, part, score));
                hits[i].append(&mut collector.into_hits(true));
            }
        }
        Ok(())
    }

    /// Runs the kernels; returns all hits, and the candidates of each query.
    fn launch(
        &self,
        segment: &Segment,
        image: &Image,
        plan: &SegmentPlan,
    ) -> Result<(Vec<DeviceHit>, Vec<u32>), NgramError> {
        let workspace = self.workspace.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Workspace { stream, keys, hits, of_query, counters } = &*workspace;
        let of_query = of_query.slice(..plan.queries.len());
        let queries = self.device.upload(stream, &plan.queries)?;
        let ordinals = self.device.upload(stream, &plan.ordinals)?;
        stream.zero(&of_query)?;
        stream.zero(counters)?;
        let (count, found, failed) =
            (counters.slice(..1), counters.slice(1..2), counters.slice(2..));
        let (segments, parts) = (image.segments.address(), segment.parts().count());
        let GpuSettings { range_bits, room, most_of_query, .. } = self.settings;
        let ranges = parts.div_ceil(1 << range_bits);
        let common = || {
            let args = Args::new().buffer(&queries).buffer(&ordinals).buffer(&image.lists);
            args.value(DeviceParts { segments, count: parts, unused: 0 })
        };
        let into = Found {
            keys: keys.address(),
            count: count.address(),
            of_query: of_query.address(),
            failed: failed.address(),
            room,
            most_of_query,
        };
        let args = common().value(range_bits).value(ranges).value(into);
        let blocks = ranges * plan.queries.len() as u32;
        let grid = Grid::new(blocks, COUNT_THREADS).shared(1 << range_bits);
        // SAFETY: arguments are those of the kernel, whose structures equal ours. The memory they refer to lives as long as this searcher, and nobody else uses the workspace.
        unsafe { stream.launch(&self.count, grid, &args) }?;
        let into = Hits {
            keys: keys.address(),
            count: count.address(),
            of_query: of_query.address(),
            hits: hits.address(),
            found: found.address(),
            failed: failed.address(),
            room,
            most_of_query,
        };
        let blocks = self.device.info().multiprocessors * 16;
        // SAFETY: as above; at most as many hits are written as there are candidates, for which there is room.
        unsafe {
            stream.launch(&self.look_up, Grid::new(blocks, LOOK_UP_THREADS), &common().value(into))
        }?;
        let numbers = stream.download(counters)?;
        if numbers[2] != 0 {
            return Err(NgramError::Malformed);
        }
        let found = stream.download(&hits.slice(..numbers[1].min(room) as usize))?;
        Ok((found, stream.download(&of_query)?))
    }
}

fn first_tries(queries: &[Query]) -> Vec<Try> {
    queries.iter().enumerate().map(|(number, query)| Try::first(number, query)).collect()
}

/// A list whose file was copied to `base`.
fn on_device(list: &MapList<'_>, file: &[u8], base: u64) -> DeviceList {
    // Every part of a list lies in the file.
    let address = |part: &[u8]| base + (part.as_ptr().addr() - file.as_ptr().addr()) as u64;
    let mut found =
        DeviceList { df: list.df(), blocks: list.blocks() as u32, ..DeviceList::default() };
    let payload = match list.list_parts() {
        MapListParts::One { doc, map } => {
            (found.part, found.map) = (doc, map);
            return found;
        }
        MapListParts::Short(block) => {
            found.form = 1;
            block
        }
        MapListParts::Sparse { bases, lasts, ends, payload } => {
            found.form = 2;
            found.bases = address(bases.as_flattened());
            found.lasts = address(lasts.as_flattened());
            found.ends = address(ends.as_flattened());
            payload
        }
        MapListParts::Dense { bitmaps, bases, ends, payload } => {
            found.form = 3;
            found.bitmaps = address(bitmaps.as_flattened());
            found.bases = address(bases.as_flattened());
            found.ends = address(ends.as_flattened());
            payload
        }
    };
    found.payload = address(payload);
    found.end = found.payload + payload.len() as u64;
    found
}

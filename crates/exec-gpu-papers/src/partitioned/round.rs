//! One round: queries of one mode and formula, from plans to hits.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use warpseek_core::Hit;
use warpseek_exec::{Answer, Context, Formula, Mode, Plan, Work};

use super::runtime::Runtime;
use super::settings::{Batch, Partitioning};
use crate::SegmentLists;
use crate::kernels::merge_lists::{Lists, MergeLists};
use crate::kernels::partitioned::{
    self, ALL_TERMS, BLOCK_MAXIMA, Blocks, CURSOR_WORDS, EXHAUSTIVE, POLICY_WORDS, QueryForm,
    SHARED_TERMS, TermForm, WARP, WARPS, WORK_WORDS, shared_bytes,
};
use warpseek_cuda::{Buffer, Device, DeviceError, Event, Stream};
use warpseek_exec_gpu::workspace::{Growing, Input, Output};

/// Words of global memory that the cursors of a launch may take, unless it is one block.
const GLOBAL_WORDS: usize = 1 << 26;

/// Keys that the blocks of a launch may keep, unless it is one block.
const SLOT_KEYS: usize = 1 << 26;

/// Memory that rounds reuse.
#[derive(Default)]
pub(super) struct Workspace {
    input: Input,
    output: Output,
    results: Growing<u64>,
    lanes: Vec<Scratch>,
}

/// The memory that the work of one stream uses.
#[derive(Default)]
struct Scratch {
    slots: [GrowingLists; 2],
    keys: Growing<u64>,
    cursors: Growing<u32>,
}

#[derive(Default)]
struct GrowingLists {
    keys: Growing<u64>,
    counts: Growing<u32>,
}

impl GrowingLists {
    fn take(&mut self, device: &Device, lists: usize, stride: u32) -> Result<Lists, DeviceError> {
        let keys = self.keys.take(device, lists * stride as usize)?;
        Ok(Lists { keys, counts: self.counts.take(device, lists)?, stride })
    }
}

/// The queries of a round in one segment.
#[derive(Default)]
struct Part {
    queries: Vec<QueryForm>,
    terms: Vec<TermForm>,
}

/// The parts of the results' buffer, in words of eight bytes: thresholds, counters, numbers of
/// hits (half a word per query), keys.
struct Results {
    queries: usize,
    stride: u32,
    buffer: Buffer<u64>,
}

impl Results {
    fn counts_at(queries: usize) -> usize {
        queries * (POLICY_WORDS + WORK_WORDS)
    }

    fn keys_at(queries: usize) -> usize {
        Self::counts_at(queries) + queries.div_ceil(2)
    }

    fn words(&self) -> Buffer<u64> {
        self.buffer.slice(..self.queries * POLICY_WORDS)
    }

    fn work(&self) -> Buffer<u64> {
        self.buffer.slice(self.queries * POLICY_WORDS..Self::counts_at(self.queries))
    }

    /// Returns the hits of some queries.
    fn lists(&self, from: usize, to: usize) -> Lists {
        let counts: Buffer<u32> =
            self.buffer.slice(Self::counts_at(self.queries)..Self::keys_at(self.queries)).cast();
        let keys = self.buffer.slice(Self::keys_at(self.queries)..);
        let stride = self.stride as usize;
        Lists {
            keys: keys.slice(from * stride..to * stride),
            counts: counts.slice(from..to),
            stride: self.stride,
        }
    }
}

/// The input of kernels on the device.
struct Sent {
    input: Buffer<u8>,
    /// Queries and terms of each segment.
    parts: Vec<(Buffer<QueryForm>, Buffer<TermForm>)>,
    /// Number of keys to keep for each query.
    kept: Buffer<u32>,
}

struct Round<'a> {
    runtime: &'a Runtime,
    image: &'a [SegmentLists],
    plans: &'a [&'a Plan],
    parts: Vec<Part>,
    /// Number of warps of a block.
    warps: u32,
    sent: Sent,
    results: Results,
}

/// Answers the plans, as if they had this mode. Queries begin with the scores that other parts of
/// the search have found.
pub(super) fn run(
    runtime: &Runtime,
    image: &[SegmentLists],
    mode: Mode,
    plans: &[&Plan],
    context: &Context,
    workspace: &mut Workspace,
) -> Result<Vec<Answer>, DeviceError> {
    let docs: u64 = image.iter().map(|segment| u64::from(segment.documents.view().docs)).sum();
    // Kernels keep at least one hit, even if a plan needs only the number of matches.
    let ks: Vec<u32> = plans.iter().map(|p| (p.k as u64).clamp(1, docs.max(1)) as u32).collect();
    // If a document is found twice, its better score counts; there must be enough keys without
    // the other.
    let copies = if runtime.settings.is_approximate() { 2 } else { 1 };
    let kept: Vec<u32> = ks.iter().map(|k| k.saturating_mul(copies)).collect();
    let stride = kept.iter().copied().max().unwrap_or(1);
    let mut parts = parts(runtime, image, mode, plans, &ks, stride)?;
    if !runtime.settings.is_approximate() {
        for query in parts.iter_mut().flat_map(|part| &mut part.queries) {
            let floor = context.floor(plans[query.number as usize]);
            query.least = floor.map_or(0, |floor| floor.least_key());
        }
    }
    let warps = match runtime.settings.batch {
        Batch::Asynchronous => 1,
        Batch::Synchronous => give_warps(runtime, &mut parts),
    };
    let (device, stream) = (&runtime.device, &runtime.stream);
    let input = workspace.input.start();
    let ranges: Vec<_> =
        parts.iter().map(|part| (input.add(&part.queries), input.add(&part.terms))).collect();
    let kept_at = input.add(&kept);
    let input = input.send(device, stream)?;
    let ranges = ranges
        .into_iter()
        .map(|(queries, terms)| (input.slice(queries).cast(), input.slice(terms).cast()));
    let sent = Sent { parts: ranges.collect(), kept: input.slice(kept_at).cast(), input };
    let words = Results::keys_at(plans.len()) + plans.len() * stride as usize;
    let buffer = workspace.results.take(device, words)?;
    stream.zero(&buffer.slice(..Results::keys_at(plans.len())))?;
    let results = Results { queries: plans.len(), stride, buffer };
    let round = Round { runtime, image, plans, parts, warps, sent, results };
    let start = runtime.timed.load(Ordering::Relaxed).then(|| device.event()).transpose()?;
    if let Some(start) = &start {
        stream.record(start)?;
    }
    workspace.lanes.resize_with(runtime.streams.len(), Scratch::default);
    match runtime.settings.batch {
        Batch::Asynchronous => round.asynchronous(&mut workspace.lanes)?,
        Batch::Synchronous => round.synchronous(&mut workspace.lanes[0])?,
    }
    if let Some(start) = start {
        let end = device.event()?;
        stream.record(&end)?;
        end.synchronize()?;
        let time = end.since(&start)?.as_nanos() as u64;
        runtime.device_time.fetch_add(time, Ordering::Relaxed);
    }
    round.answers(&mut workspace.output)
}

/// Converts the plans to the form that kernels need.
fn parts(
    runtime: &Runtime,
    image: &[SegmentLists],
    mode: Mode,
    plans: &[&Plan],
    ks: &[u32],
    stride: u32,
) -> Result<Vec<Part>, DeviceError> {
    let multiprocessors = runtime.device.info().multiprocessors;
    let mut parts: Vec<Part> = image.iter().map(|_| Part::default()).collect();
    for (q, (plan, &k)) in plans.iter().zip(ks).enumerate() {
        let mut slots = 0;
        for (number, (segment, part)) in image.iter().zip(&mut parts).enumerate() {
            let first_term = part.terms.len();
            if mode != Mode::And || segment.has_all(number, plan) {
                part.terms.extend(segment.lists_of(number, plan).map(|(list, weight)| {
                    let most = Formula::units(weight, list.most);
                    TermForm { list, weight, most, unused: [0; 2] }
                }));
            }
            let terms = &mut part.terms[first_term..];
            // Among lists with the same maximum, the longer one is left out first.
            terms.sort_by_key(|term| (term.most, std::cmp::Reverse(term.list.df)));
            let longest = terms.iter().map(|term| term.list.df).max().unwrap_or(0);
            let shared = shared_bytes(k, terms.len());
            let resident = runtime.kernel.kernel().blocks_per_multiprocessor(WARP, shared)?.max(1);
            let words = match terms.len() {
                ..=SHARED_TERMS => 1,
                many => many * CURSOR_WORDS,
            };
            let most = (SLOT_KEYS / stride as usize).min(GLOBAL_WORDS / words);
            let (partitions, per_block) =
                runtime.settings.cut(longest, resident * multiprocessors, plans.len(), most);
            let all = if mode == Mode::And { ALL_TERMS } else { 0 };
            let exhaustive = if plan.count { EXHAUSTIVE } else { 0 };
            let known = terms.iter().all(|term| term.list.maxima != 0);
            let maxima = if runtime.settings.block_maxima && known { BLOCK_MAXIMA } else { 0 };
            let has_statics = segment.documents.view().statics != 0 && plan.static_weight > 0.0;
            let static_most = if has_statics { plan.static_score(runtime.max_static) } else { 0 };
            let query = QueryForm {
                first_term: first_term as u32,
                terms: terms.len() as u32,
                k,
                flags: all | exhaustive | maxima,
                partitions,
                per_block,
                first_slot: slots,
                number: q as u32,
                static_weight: plan.static_weight,
                static_most,
                least: 0,
            };
            slots += query.blocks();
            part.queries.push(query);
        }
    }
    Ok(parts)
}

/// Returns the largest k and number of terms.
fn largest(parts: &[Part]) -> (u32, u32) {
    let all = || parts.iter().flat_map(|part| &part.queries);
    let terms = all().map(|query| query.terms).max().unwrap_or(0);
    (all().map(|query| query.k).max().unwrap_or(1), terms)
}

/// Divides every query among the warps of a block, as many as fit in shared memory.
fn give_warps(runtime: &Runtime, parts: &mut [Part]) -> u32 {
    let (k, terms) = largest(parts);
    let room = runtime.kernel.kernel().max_shared() / shared_bytes(k, terms as usize);
    let warps = room.clamp(1, WARPS);
    let segments = parts.len() as u32;
    for (number, part) in (0..).zip(parts) {
        for query in &mut part.queries {
            query.partitions = warps;
            query.first_slot = (query.number * segments + number) * warps;
        }
    }
    warps
}

impl Round<'_> {
    /// Runs every query in a stream, with as many blocks as it is divided into.
    fn asynchronous(&self, lanes: &mut [Scratch]) -> Result<(), DeviceError> {
        let (device, main) = (&self.runtime.device, &self.runtime.stream);
        let ready = device.event()?;
        main.record(&ready)?;
        let streams = &self.runtime.streams[..self.runtime.streams.len().min(self.plans.len())];
        streams.iter().try_for_each(|stream| stream.wait(&ready))?;
        for q in 0..self.plans.len() {
            let lane = q % streams.len();
            self.query(q, &streams[lane], &mut lanes[lane])?;
        }
        let join = |stream: &Stream| -> Result<Event, DeviceError> {
            let done = device.event()?;
            stream.record(&done)?;
            main.wait(&done)?;
            Ok(done)
        };
        streams.iter().try_for_each(|stream| join(stream).map(drop))
    }

    fn query(&self, q: usize, stream: &Stream, scratch: &mut Scratch) -> Result<(), DeviceError> {
        let device = &self.runtime.device;
        let query_of = |part: &Part| part.queries[q];
        let slots: u32 = self.parts.iter().map(|part| query_of(part).blocks()).sum();
        let Scratch { slots: [first, second], keys, cursors } = scratch;
        let mut lists = first.take(device, slots.max(1) as usize, self.results.stride)?;
        for number in 0..self.parts.len() {
            let query = query_of(&self.parts[number]);
            let blocks = Blocks {
                first_query: q as u32,
                count: query.blocks(),
                whole: None,
                k: query.k,
                terms: query.terms,
            };
            self.launch(stream, number, &blocks, &lists, (&mut *keys, &mut *cursors))?;
        }
        let kept = self.sent.kept.slice(q..q + 1);
        let (mut left, mut to_second) = (slots, true);
        loop {
            let merged = MergeLists::left(left);
            let to = match merged {
                1 => self.results.lists(q, q + 1),
                _ if to_second => second.take(device, merged as usize, self.results.stride)?,
                _ => first.take(device, merged as usize, self.results.stride)?,
            };
            self.runtime.merge.launch(stream, &kept, left, &lists, &to)?;
            if merged == 1 {
                return Ok(());
            }
            (lists, left, to_second) = (to, merged, !to_second);
        }
    }

    /// Runs all queries in one launch per segment, with one block of threads per query, or in
    /// several launches if the cursors of all queries do not fit in memory.
    fn synchronous(&self, scratch: &mut Scratch) -> Result<(), DeviceError> {
        let (device, stream) = (&self.runtime.device, &self.runtime.stream);
        let (segments, queries) = (self.parts.len(), self.plans.len());
        let Scratch { slots: [first, second], keys, cursors } = scratch;
        let (k, terms) = largest(&self.parts);
        let warps = self.warps;
        let slots = warps as usize * segments;
        let mut lists = first.take(device, (queries * slots).max(1), self.results.stride)?;
        let words = match terms as usize {
            ..=SHARED_TERMS => 1,
            many => many * CURSOR_WORDS * warps as usize,
        };
        let at_once = (GLOBAL_WORDS / words).max(1);
        for number in 0..segments {
            for from in (0..queries).step_by(at_once) {
                let count = at_once.min(queries - from) as u32;
                let whole = Some(warps);
                let blocks = Blocks { first_query: from as u32, count, whole, k, terms };
                self.launch(stream, number, &blocks, &lists, (&mut *keys, &mut *cursors))?;
            }
        }
        let (mut left, mut to_second) = (slots as u32, true);
        loop {
            let merged = MergeLists::left(left);
            let to = match merged {
                1 => self.results.lists(0, queries),
                _ if to_second => {
                    second.take(device, queries * merged as usize, self.results.stride)?
                }
                _ => first.take(device, queries * merged as usize, self.results.stride)?,
            };
            self.runtime.merge.launch(stream, &self.sent.kept, left, &lists, &to)?;
            if merged == 1 {
                return Ok(());
            }
            (lists, left, to_second) = (to, merged, !to_second);
        }
    }

    /// Launches blocks of one query, of one warp each, or blocks of one query each.
    fn launch(
        &self,
        stream: &Stream,
        number: usize,
        blocks: &Blocks,
        lists: &Lists,
        (keys, cursors): (&mut Growing<u64>, &mut Growing<u32>),
    ) -> Result<(), DeviceError> {
        let (runtime, segment) = (self.runtime, &self.image[number]);
        let (device, settings) = (&runtime.device, &runtime.settings);
        let (queries, terms) = &self.sent.parts[number];
        let keys = blocks.global_keys().map(|len| keys.take(device, len)).transpose()?;
        let cursors = blocks.global_cursors().map(|len| cursors.take(device, len)).transpose()?;
        let homogeneous = settings.partitioning == Partitioning::Homogeneous;
        let input = partitioned::Input {
            segment: segment.documents.view(),
            values: segment.lists.values(),
            queries,
            terms,
            homogeneous: homogeneous && blocks.whole.is_none(),
            policy: settings.threshold as u32,
        };
        let output = partitioned::Output {
            words: &self.results.words(),
            work: &self.results.work(),
            lists,
            keys: keys.as_ref(),
            cursors: cursors.as_ref(),
        };
        // SAFETY: queries name existing terms, thresholds, counters and slots: `parts` counted
        // them. Terms are lists of this image, which keeps the memory that their addresses point
        // to, as the workspace does for keys and cursors. The stride is at least k.
        unsafe { runtime.kernel.launch(stream, &input, blocks, &output) }
    }

    fn answers(self, output: &mut Output) -> Result<Vec<Answer>, DeviceError> {
        let n = self.plans.len();
        let from = self.results.buffer.slice(n * POLICY_WORDS..);
        let words = output.receive(&self.runtime.device, &self.runtime.stream, &from)?;
        drop(self.sent.input);
        let (work, words) = words.split_at(n * WORK_WORDS);
        let (counts, keys) = words.split_at(n.div_ceil(2));
        let counts: &[u32] = bytemuck::cast_slice(counts);
        let stride = self.results.stride as usize;
        let mut seen = HashSet::new();
        let answers = self.plans.iter().enumerate().map(|(q, plan)| {
            let keys = &keys[q * stride..][..counts[q] as usize];
            let hits = keys.iter().map(|&key| Hit::from_key(key));
            let hits = if self.runtime.settings.is_approximate() {
                seen.clear();
                hits.filter(|hit| seen.insert(hit.doc)).take(plan.k).collect()
            } else {
                hits.take(plan.k).collect()
            };
            let &[postings_scored, blocks_decoded, matches, ref ruled_out @ ..] =
                &work[q * WORK_WORDS..][..WORK_WORDS]
            else {
                return Answer::default();
            };
            for (sum, &count) in self.runtime.ruled_out.iter().zip(ruled_out) {
                sum.fetch_add(count, Ordering::Relaxed);
            }
            let lists = self.parts.iter().flat_map(|part| {
                let query = &part.queries[q];
                &part.terms[query.first_term as usize..][..query.terms as usize]
            });
            let blocks: u64 = lists.map(|term| u64::from(term.list.blocks)).sum();
            let blocks_skipped = blocks.saturating_sub(blocks_decoded);
            let work = Work { postings_scored, blocks_decoded, blocks_skipped };
            let (matches, work) = (plan.count.then_some(matches), Some(work));
            Answer { hits, matches, work, ..Answer::default() }
        });
        Ok(answers.collect())
    }
}

//! AND on compressed lists (Ding 2009, section 8): the skip arrays select the blocks to decode,
//! the shortest list comes first, contributions are added up term by term, and the best k are
//! found by a tree of maxima.
#![allow(unsafe_code)]

mod memory;
mod round;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use warpseek_codec::CodecId;
use warpseek_core::Hit;
use warpseek_exec::{
    ASKED_FOR, Answer, Answers, Candidate, Context, Engine, ExecError, Formula, Formulas, Mode,
    Plan, Rates, Work, answer_supported, fail_all, only_formula,
};
use warpseek_index::{Snapshot, SnapshotId};

use crate::SegmentLists;
use crate::compressed::CODECS;
use crate::kernels::intersect::Intersect;
use crate::kernels::intersect_codec::FEW;
use crate::kernels::intersect_form::Candidates;
use memory::{RoundMemory, Workspace};
use round::{Round, wanted};
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::max_tree::{Best, MaxTree};
use warpseek_cuda::{Device, DeviceError, Event, Stream};
use warpseek_exec_gpu::failed;
use warpseek_exec_gpu::image::ImageCache;

/// Postings in a block.
const BLOCK: usize = 128;

/// Maximum number of candidates in a round, unless one query has more; each takes about 36 bytes.
const ROUND: usize = 1 << 25;

/// Maximum number of queries in a round; `ROUND_HITS` is the maximum number of hits for all of
/// them together.
const ROUND_QUERIES: usize = 1 << 14;
const ROUND_HITS: usize = 1 << 22;

/// Number of turns after which the host checks whether few candidates are left, so that one
/// launch can do the rest.
const LOOK: u32 = 16;

/// The phases into which the time of a round is divided.
pub const PHASES: [&str; 5] = [
    "decode the shortest list, find blocks of the second",
    "find blocks of others",
    "decode blocks, look up, score",
    "compact",
    "keys, best k",
];

/// Costs on an H200 (docs/measurements/gpu.md).
const RATES: Rates = Rates::device(115_000.0, 2_000.0, 0.0050, 7.0);

/// An engine that answers AND on a GPU from compressed lists.
pub struct IntersectEngine {
    snapshot: Arc<Snapshot>,
    device: Device,
    stream: Stream,
    codec: CodecId,
    kernels: Intersect,
    compact: Compact,
    tree: MaxTree,
    /// The documents that the engine answers for, if not all, by position counted over all
    /// segments.
    within: Option<Range<u32>>,
    image: ImageCache<SegmentLists>,
    workspace: Mutex<Workspace>,
    loaded: AtomicU64,
    timed: AtomicBool,
    /// Nanoseconds of each phase.
    times: [AtomicU64; PHASES.len()],
}

/// Results for one plan in a segment.
struct Part {
    keys: Vec<u64>,
    matches: u32,
    decoded: u32,
    blocks: u64,
}

impl IntersectEngine {
    /// Creates an engine for an index. Its lists are copied to the device in the form of a codec,
    /// with the first query or by [`IntersectEngine::load`]. Without a codec it uses the index's
    /// own, or bit packing if that one has no form on the device.
    pub fn new(
        snapshot: Arc<Snapshot>,
        device: Device,
        codec: Option<CodecId>,
    ) -> Result<Self, DeviceError> {
        let own = Some(snapshot.manifest().codec).filter(|own| CODECS.contains(own));
        let codec = codec.or(own).unwrap_or(CodecId::BitPack);
        Ok(IntersectEngine {
            kernels: Intersect::new(&device, codec)?,
            compact: Compact::new(&device)?,
            tree: MaxTree::new(&device)?,
            stream: device.stream()?,
            snapshot,
            device,
            codec,
            within: None,
            image: ImageCache::default(),
            workspace: Mutex::default(),
            loaded: AtomicU64::new(0),
            timed: AtomicBool::new(false),
            times: Default::default(),
        })
    }

    /// Restricts the engine to a range of documents, by position counted over all segments. Only
    /// their postings are copied to the device; other engines answer for the rest.
    pub fn within(self, docs: Range<u32>) -> Self {
        IntersectEngine { within: Some(docs), ..self }
    }

    /// Returns the codec of the lists.
    pub fn codec(&self) -> CodecId {
        self.codec
    }

    /// Returns the reason why the engine cannot answer a plan, or `None` if it can.
    pub fn why_not(&self, plan: &Plan) -> Option<&'static str> {
        (plan.mode != Mode::And).then_some("it answers AND alone")
    }

    /// Copies the index to the device; returns the bytes that its lists take there.
    pub fn load(&self, formulas: &Formulas, threads: usize) -> Result<u64, ExecError> {
        let formula = only_formula(self, formulas)?;
        Ok(self.image(formula, threads)?.iter().map(|segment| segment.lists.bytes()).sum())
    }

    /// Returns the number of postings copied so far, for progress displays.
    pub fn loaded(&self) -> &AtomicU64 {
        &self.loaded
    }

    /// Switches the timing of phases on or off.
    pub fn time_phases(&self, timed: bool) {
        self.timed.store(timed, Ordering::Relaxed);
    }

    /// Returns the times of [`PHASES`] since the last call, and resets them.
    pub fn take_phase_times(&self) -> [Duration; PHASES.len()] {
        std::array::from_fn(|i| Duration::from_nanos(self.times[i].swap(0, Ordering::Relaxed)))
    }

    fn image(&self, formula: Formula, threads: usize) -> Result<Arc<[SegmentLists]>, ExecError> {
        let (device, codec) = (&self.device, self.codec);
        self.image.get(formula, |_| {
            let (snapshot, loaded) = (&self.snapshot, &self.loaded);
            let within = self.within.as_ref();
            SegmentLists::load_all(device, snapshot, within, formula, codec, threads, loaded)
        })
    }

    /// Answers plans of one formula, chunk by chunk; once time is up, no further chunk begins.
    fn of_formula(&self, formula: Formula, plans: &[&Plan], context: &Context) -> Answers {
        let mut answers = Vec::with_capacity(plans.len());
        for chunk in plans.chunks(ROUND_QUERIES) {
            if context.is_over() {
                answers.extend(chunk.iter().map(|plan| Ok(Answer::nothing(plan))));
                continue;
            }
            match self.chunk(formula, chunk, context) {
                Ok(done) => answers.extend(done.into_iter().map(Ok)),
                Err(error) => answers.append(&mut fail_all(chunk, &error)),
            }
        }
        answers
    }

    fn chunk(
        &self,
        formula: Formula,
        plans: &[&Plan],
        context: &Context,
    ) -> Result<Vec<Answer>, ExecError> {
        let mut keys: Vec<Vec<u64>> = vec![Vec::new(); plans.len()];
        let mut matches = vec![0u64; plans.len()];
        let mut works = vec![Work::default(); plans.len()];
        let image = self.image(formula, context.threads())?;
        for (number, segment) in image.iter().enumerate() {
            let here = plans.iter().enumerate().filter(|(_, plan)| segment.has_all(number, plan));
            let here: Vec<(usize, &Plan)> = here.map(|(i, &plan)| (i, plan)).collect();
            let mut found = |i: usize, part: Part| {
                keys[i].extend(part.keys);
                matches[i] += u64::from(part.matches);
                works[i].blocks_decoded += u64::from(part.decoded);
                works[i].blocks_skipped += part.blocks - u64::from(part.decoded);
            };
            self.segment(number, segment, &here, &mut found).map_err(failed)?;
        }
        let answers = plans.iter().zip(keys).zip(matches).zip(works);
        let answer = |(((plan, mut keys), matches), work): (((&&Plan, Vec<u64>), u64), Work)| {
            // The keys of segments follow each other, each segment's best first.
            keys.sort_unstable_by(|a, b| b.cmp(a));
            let hits = keys.iter().take(plan.k).map(|&key| Hit::from_key(key)).collect();
            let matches = Some(matches).filter(|_| plan.count || plan.k > 0);
            let answer = Answer { hits, matches, work: Some(work), ..Answer::default() };
            context.publish(plan, &answer.hits);
            answer
        };
        Ok(answers.map(answer).collect())
    }

    /// Answers plans of one formula on one segment, round by round. `plans` have numbers, which
    /// are passed to `found`.
    fn segment(
        &self,
        number: usize,
        segment: &SegmentLists,
        plans: &[(usize, &Plan)],
        found: &mut impl FnMut(usize, Part),
    ) -> Result<(), DeviceError> {
        let mut rest = plans;
        while !rest.is_empty() {
            let mut round = Round::default();
            let mut taken = 0;
            while taken < rest.len().min(ROUND_QUERIES) {
                let plan = rest[taken].1;
                let most = round.most.max(wanted(plan, segment));
                if taken > 0 && (taken + 1) * most > ROUND_HITS {
                    break;
                }
                if !round.add(number, segment, plan, taken == 0) {
                    break;
                }
                taken += 1;
            }
            let (now, later) = rest.split_at(taken);
            let parts = self.round(segment, &round)?;
            now.iter().zip(parts).for_each(|(&(plan, _), part)| found(plan, part));
            rest = later;
        }
        Ok(())
    }

    fn round(&self, segment: &SegmentLists, round: &Round) -> Result<Vec<Part>, DeviceError> {
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let workspace = &mut *workspace;
        let memory = RoundMemory::new(&self.device, &self.stream, workspace, round)?;
        let mut clock = Clock::new(self)?;
        let candidates = self.turns(segment, round, &memory, &mut clock)?;
        self.best(segment, round, &memory, &candidates, workspace)?;
        clock.end(4)?;
        let results = &memory.results;
        let words = workspace.output.receive(&self.device, &self.stream, &results.buffer)?;
        clock.add_up()?;
        Ok(results.parts(words, round))
    }

    /// Intersects the lists of all queries, turn by turn. Returns the documents that all lists of
    /// their query contain.
    fn turns(
        &self,
        segment: &SegmentLists,
        round: &Round,
        memory: &RoundMemory,
        clock: &mut Clock<'_>,
    ) -> Result<Candidates, DeviceError> {
        let stream = &self.stream;
        let RoundMemory { queries, sets, starts, bits, .. } = memory;
        let mut candidates = sets[0].candidates(None);
        let values = segment.lists.values();
        let mut compacted = 0;
        let (mut turn, mut few) = (1, false);
        while turn < round.most_terms.max(2) {
            let tasks = memory.tasks(turn);
            // SAFETY: `Round::add` gave every query its blocks and terms, and lists belong to the
            // image, which `segment` keeps.
            unsafe {
                if few {
                    let last = &candidates;
                    self.kernels.codec.rest(stream, queries, turn, values, last, starts, bits)?;
                    turn = round.most_terms;
                    clock.end(2)?;
                } else if turn == 1 {
                    self.kernels.begin(stream, queries)?;
                    self.kernels.codec.first(stream, queries, values, &candidates, &tasks)?;
                    clock.end(0)?;
                } else {
                    self.kernels.find(stream, queries, turn, &candidates, &tasks)?;
                    clock.end(1)?;
                }
                if turn < round.most_terms {
                    self.kernels.codec.blocks(
                        stream,
                        queries,
                        turn,
                        values,
                        &candidates,
                        &tasks,
                    )?;
                    clock.end(2)?;
                }
            }
            compacted = 1 - compacted;
            let set = &sets[compacted];
            let arrays = [
                (&candidates.docs, &set.docs),
                (&candidates.scores, &set.scores),
                (&candidates.owners, &set.owners),
            ];
            let count = candidates.count.as_ref();
            self.compact.launch(stream, bits, count, &arrays, &set.scratch)?;
            clock.end(3)?;
            candidates = set.candidates(Some(set.scratch.slice(set.scratch.len() - 1..)));
            if turn.is_multiple_of(LOOK) && turn + 1 < round.most_terms {
                self.kernels.runs(stream, queries, &candidates, starts)?;
                let starts_now = stream.download(starts)?;
                few = starts_now.windows(2).all(|run| run[1] - run[0] <= FEW);
            }
            turn += 1;
        }
        Ok(candidates)
    }

    /// Writes the best keys of each query and the number of its matches to the results.
    fn best(
        &self,
        segment: &SegmentLists,
        round: &Round,
        memory: &RoundMemory,
        candidates: &Candidates,
        workspace: &mut Workspace,
    ) -> Result<(), DeviceError> {
        let (device, stream) = (&self.device, &self.stream);
        let RoundMemory { queries, results, starts, .. } = memory;
        // Blocks have been decoded, so the memory for tasks can be used for keys.
        let keys = &memory.tasks;
        let (view, matches) = (segment.documents.view(), results.matches());
        // SAFETY: as in `turns`.
        unsafe { self.kernels.keys(stream, view, queries, candidates, keys, &matches) }?;
        let (count, len, most) = (round.queries.len(), keys.len(), round.most);
        let out = Best { keys: results.keys(), count: results.counts() };
        if count == 1 {
            // The whole device works on one query.
            let scratch = workspace.select.take(device, MaxTree::scratch_len(len, most))?;
            self.tree.best(stream, keys, candidates.count.as_ref(), most, &out, &scratch)
        } else {
            let scratch = workspace.select.take(device, MaxTree::runs_scratch_len(count, most))?;
            self.kernels.runs(stream, queries, candidates, starts)?;
            self.tree.best_of_runs(stream, keys, starts, &memory.ks, most, &out, &scratch)
        }
    }
}

/// A clock for the phases, if timing was requested.
struct Clock<'a> {
    engine: &'a IntersectEngine,
    events: Option<Vec<(usize, Event)>>,
}

impl<'a> Clock<'a> {
    fn new(engine: &'a IntersectEngine) -> Result<Self, DeviceError> {
        let timed = engine.timed.load(Ordering::Relaxed);
        let mut clock = Clock { engine, events: timed.then(Vec::new) };
        clock.end(0)?;
        Ok(clock)
    }

    /// Ends a phase.
    fn end(&mut self, phase: usize) -> Result<(), DeviceError> {
        if let Some(events) = &mut self.events {
            let event = self.engine.device.event()?;
            self.engine.stream.record(&event)?;
            events.push((phase, event));
        }
        Ok(())
    }

    /// Adds up the times once all work has ended.
    fn add_up(self) -> Result<(), DeviceError> {
        let events = self.events.unwrap_or_default();
        for pair in events.windows(2) {
            let (phase, end) = &pair[1];
            let time = end.since(&pair[0].1)?.as_nanos() as u64;
            self.engine.times[*phase].fetch_add(time, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Engine for IntersectEngine {
    fn name(&self) -> &'static str {
        "intersect"
    }

    fn device(&self) -> String {
        self.device.info().name.clone()
    }

    fn snapshot(&self) -> SnapshotId {
        self.snapshot.id()
    }

    fn candidates(&self, plan: &Plan, _alone: bool, _context: &Context) -> Vec<Candidate> {
        let rates = self.why_not(plan).map_or(Ok(RATES), Err);
        vec![Candidate { algorithm: self.name(), rates, why: ASKED_FOR }]
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        self.load(formulas, context.threads()).map(|_| ())
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        answer_supported(self, plans, |plans| {
            let mut answers: Vec<Option<Result<Answer, ExecError>>> = vec![None; plans.len()];
            let mut left: Vec<usize> =
                (0..plans.len()).filter(|&i| plans[i].k > 0 || plans[i].count).collect();
            // A round takes as many turns as its longest query has terms.
            left.sort_by_key(|&i| plans[i].terms.len());
            while let Some(&first) = left.first() {
                let formula = plans[first].formulas.of(0);
                let (now, later): (Vec<usize>, Vec<usize>) =
                    left.into_iter().partition(|&i| plans[i].formulas.of(0) == formula);
                left = later;
                let chosen: Vec<&Plan> = now.iter().map(|&i| plans[i]).collect();
                for (i, answer) in now.into_iter().zip(self.of_formula(formula, &chosen, context)) {
                    answers[i] = Some(answer);
                }
            }
            let nothing = || Ok(Answer { work: Some(Work::default()), ..Answer::default() });
            answers.into_iter().map(|answer| answer.unwrap_or_else(nothing)).collect()
        })
    }
}

//! The device memory of a round, and its results.

use super::round::Round;
use super::{BLOCK, Part};
use crate::kernels::intersect_form::{Candidates, Queries, Tasks};
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::{Buffer, Device, DeviceError, Stream};
use warpseek_exec_gpu::workspace::{Growing, Input, Output};

/// Memory that rounds reuse.
#[derive(Default)]
pub(super) struct Workspace {
    input: Input,
    pub(super) output: Output,
    candidates: [[Growing<u32>; 4]; 2],
    tasks: Growing<u64>,
    bits: Growing<u32>,
    turns: Growing<u32>,
    reaches: Growing<u64>,
    starts: Growing<u32>,
    pub(super) select: Growing<u64>,
    results: Growing<u64>,
}

/// The memory of a round on the device.
pub(super) struct RoundMemory {
    pub(super) queries: Queries,
    /// Number of hits that each query needs.
    pub(super) ks: Buffer<u32>,
    pub(super) results: Results,
    /// Two sets of candidates, which take turns.
    pub(super) sets: [CandidateSet; 2],
    pub(super) tasks: Buffer<u64>,
    /// Bits that mark the candidates to keep.
    pub(super) bits: Buffer<u32>,
    /// Number of tasks of each turn.
    task_counts: Buffer<u32>,
    /// The position of the candidates of each query.
    pub(super) starts: Buffer<u32>,
}

/// Memory for candidates, and the scratch memory of compaction, which ends with their number.
pub(super) struct CandidateSet {
    pub(super) docs: Buffer<u32>,
    pub(super) scores: Buffer<u32>,
    pub(super) owners: Buffer<u32>,
    pub(super) scratch: Buffer<u32>,
}

impl CandidateSet {
    fn new(
        device: &Device,
        [docs, scores, owners, scratch]: &mut [Growing<u32>; 4],
        len: usize,
    ) -> Result<Self, DeviceError> {
        Ok(CandidateSet {
            docs: docs.take(device, len)?,
            scores: scores.take(device, len)?,
            owners: owners.take(device, len)?,
            scratch: scratch.take(device, Compact::scratch_len(len))?,
        })
    }

    /// Returns the candidates, all of them or as many as `count` says.
    pub(super) fn candidates(&self, count: Option<Buffer<u32>>) -> Candidates {
        let (docs, scores) = (self.docs.clone(), self.scores.clone());
        Candidates { docs, scores, owners: self.owners.clone(), count }
    }
}

impl RoundMemory {
    /// Copies the queries of a round to the device, and takes the memory that it needs.
    pub(super) fn new(
        device: &Device,
        stream: &Stream,
        workspace: &mut Workspace,
        round: &Round,
    ) -> Result<Self, DeviceError> {
        let count = round.queries.len();
        let len = round.blocks as usize * BLOCK;
        let input = workspace.input.start();
        let queries_at = input.add(&round.queries);
        let (terms_at, first_blocks_at) = (input.add(&round.terms), input.add(&round.first_blocks));
        let ks_at = input.add(&round.ks);
        let input = input.send(device, stream)?;
        let results =
            Results::new(workspace.results.take(device, Results::words(count, round.most))?, count);
        stream.zero(&results.matches())?;
        let queries = Queries {
            queries: input.slice(queries_at).cast(),
            first_blocks: input.slice(first_blocks_at).cast(),
            terms: input.slice(terms_at).cast(),
            reaches: workspace.reaches.take(device, count)?,
            decoded: results.decoded(),
        };
        let task_counts = workspace.turns.take(device, round.most_terms as usize + 1)?;
        stream.zero(&task_counts)?;
        let starts = workspace.starts.take(device, count + 1)?;
        let tasks = workspace.tasks.take(device, len)?;
        let bits = workspace.bits.take(device, len / 32)?;
        let [one, other] = &mut workspace.candidates;
        let sets = [CandidateSet::new(device, one, len)?, CandidateSet::new(device, other, len)?];
        let ks = input.slice(ks_at).cast();
        Ok(RoundMemory { queries, ks, results, sets, tasks, bits, task_counts, starts })
    }

    /// Returns the tasks of a turn.
    pub(super) fn tasks(&self, turn: u32) -> Tasks {
        Tasks {
            tasks: self.tasks.clone(),
            count: self.task_counts.slice(turn as usize..=turn as usize),
            bits: self.bits.clone(),
        }
    }
}

/// The parts of the results' buffer: blocks decoded, matches, numbers of keys (half a word per
/// query each), keys.
pub(super) struct Results {
    pub(super) buffer: Buffer<u64>,
    count: usize,
}

impl Results {
    fn words(count: usize, most: usize) -> usize {
        3 * count.div_ceil(2) + count * most
    }

    fn new(buffer: Buffer<u64>, count: usize) -> Self {
        Results { buffer, count }
    }

    fn part(&self, part: usize) -> Buffer<u32> {
        let words = self.count.div_ceil(2);
        self.buffer.slice(part * words..(part + 1) * words).cast()
    }

    fn decoded(&self) -> Buffer<u32> {
        self.part(0)
    }

    pub(super) fn matches(&self) -> Buffer<u32> {
        self.part(1)
    }

    pub(super) fn counts(&self) -> Buffer<u32> {
        self.part(2)
    }

    pub(super) fn keys(&self) -> Buffer<u64> {
        self.buffer.slice(3 * self.count.div_ceil(2)..)
    }

    pub(super) fn parts(&self, words: &[u64], round: &Round) -> Vec<Part> {
        let half = self.count.div_ceil(2);
        let numbers: [&[u32]; 3] =
            std::array::from_fn(|i| bytemuck::cast_slice(&words[i * half..(i + 1) * half]));
        let keys = &words[3 * half..];
        let part = |i: usize| Part {
            keys: keys[i * round.most..][..numbers[2][i] as usize].to_vec(),
            matches: numbers[1][i],
            decoded: numbers[0][i],
            blocks: round.all_blocks[i],
        };
        (0..self.count).map(part).collect()
    }
}

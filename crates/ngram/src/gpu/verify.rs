//! Verification on a GPU: the best match of each query in each of its candidates (`distance`),
//! for batches.
//!
//! Threads of the CPU read documents while the GPU compares those that were read before. Texts
//! stay on the device as long as they fit ([`Texts`]), so that a document that many queries find
//! is read and copied once. Rounds have as many pairs, and tables of as many queries, as fit in
//! memory.
#![allow(unsafe_code)]

use std::mem::size_of;
use std::sync::Mutex;

use bytemuck::{Pod, cast_slice};
use warpseek_core::DocId;
use warpseek_cuda::{Buffer, Device, DeviceError, Uploader};
use warpseek_exec::Context;

use super::spelling::{MOST_TABLE_BYTES, Spelling};
use super::texts::{ALIGNMENT, Text, Texts};
use super::{is_short, lock};
use crate::distance::Match;
use crate::error::NgramError;
use crate::kernels::ngram_verify::{MatchView, NgramVerify, PairView, Pairs, QueryView, RangeView};
use crate::verify::{Pair, READ_TOGETHER, ReadTexts, best_matches};

/// The divisor of the memory that is free when the first batch is verified: this part is used, and
/// lists of an index that is not resident need the rest.
const MEMORY_SHARE: u64 = 4;

/// Number of groups of documents that each thread reads before they are compared.
const READ_PER_THREAD: usize = 2;

/// The sizes of batches. Only tests need settings other than those of [`VerifySettings::within`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifySettings {
    /// Bytes of a chunk of texts, a multiple of 8 below 2^32. The CPU compares longer texts.
    pub chunk: usize,
    /// Maximum number of chunks.
    pub chunks: usize,
    /// Maximum number of pairs of a round.
    pub pairs: usize,
    /// Bytes of the tables of a round's queries.
    pub tables: usize,
    /// Minimum number of bytes of a text that are searched by one lane or group of lanes; longer
    /// texts are cut.
    pub range: u32,
}

impl VerifySettings {
    /// Returns suitable settings for this many bytes of device memory; at least about a megabyte
    /// is used.
    pub fn within(memory: u64) -> Self {
        let clamp = |bytes: u64, least: usize, most: usize| {
            usize::try_from(bytes).unwrap_or(most).clamp(least, most)
        };
        let texts = memory / 4 * 3;
        let chunk = clamp(texts / 8, 1 << 16, 64 << 20).next_multiple_of(ALIGNMENT);
        VerifySettings {
            chunk,
            chunks: clamp(texts / chunk as u64, 1, 1 << 16),
            pairs: clamp(memory / 1024, 1 << 10, 1 << 18),
            tables: clamp(memory / 16, MOST_TABLE_BYTES, 64 << 20),
            range: 4096,
        }
    }

    /// Returns the number of ranges that a round can hold: one of every pair, and all ranges of
    /// the longest text.
    fn ranges(&self) -> usize {
        self.pairs + self.chunk / self.range as usize + 1
    }
}

/// Counts of what was verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyCounts {
    /// Number of candidates that the GPU compared.
    pub on_gpu: u64,
    /// Number of candidates that the CPU compared: the query or the text is too long for the GPU,
    /// or the GPU has too little memory left.
    pub on_cpu: u64,
    /// Number of texts that were read and copied to the GPU.
    pub texts_read: u64,
    /// Number of candidates whose texts were on the GPU already.
    pub texts_kept: u64,
}

/// A verifier that finds best matches on a GPU, in documents of one snapshot. It allocates device
/// memory when it gets the first batch. Threads that call it at the same time take turns.
pub struct GpuVerifier {
    device: Device,
    settings: Option<VerifySettings>,
    state: Mutex<Option<State>>,
    counts: Mutex<VerifyCounts>,
}

impl GpuVerifier {
    /// Creates a verifier. Without settings, it derives them from the device memory that is
    /// available when it gets the first batch.
    pub fn new(device: &Device, settings: Option<VerifySettings>) -> Self {
        let (state, counts) = (Mutex::default(), Mutex::default());
        GpuVerifier { device: device.clone(), settings, state, counts }
    }

    /// Returns the counts since the verifier was created.
    pub fn counts(&self) -> VerifyCounts {
        *lock(&self.counts)
    }

    /// Finds the best match of the query in the document of each pair, like
    /// [`crate::verify::best_matches`], which compares the pairs that the GPU cannot.
    pub fn best_matches(
        &self,
        queries: &[&str],
        pairs: &[Pair],
        read: &ReadTexts<'_>,
        context: &Context,
    ) -> Result<Vec<Option<Match>>, NgramError> {
        let mut matches = vec![None; pairs.len()];
        let mut state = lock(&self.state);
        let spelt = context.pool().map(queries, || (), |(), query| Spelling::new(query));
        let batch = Batch { pairs, spelt: &spelt, read, context };
        let mut counts = VerifyCounts::default();
        let all = 0..pairs.len() as u32;
        let is_short_enough = |&i: &u32| spelt[pairs[i as usize].query as usize].is_some();
        let (mut on_gpu, mut on_cpu): (Vec<u32>, Vec<u32>) = all.partition(is_short_enough);
        on_gpu.sort_unstable_by_key(|&i| (pairs[i as usize].query, i));
        // A state that a failure has left unfinished is not used again.
        let own = match state.take() {
            Some(own) => Ok(own),
            None => self.start(),
        };
        match own {
            Ok(mut own) => {
                for round in own.rounds(&batch, &on_gpu) {
                    match own.run(&batch, round, &mut counts, &mut matches) {
                        Ok(mut left) => on_cpu.append(&mut left),
                        // Another user of the device may have taken the memory.
                        Err(error) if is_short(&error) => on_cpu.extend(round),
                        Err(error) => return Err(error),
                    }
                }
                *state = Some(own);
            }
            Err(error) if error.is_short() => on_cpu.append(&mut on_gpu),
            Err(error) => return Err(error.into()),
        }
        let others: Vec<Pair> = on_cpu.iter().map(|&i| pairs[i as usize]).collect();
        let found = best_matches(queries, &others, read, context);
        on_cpu.into_iter().zip(found).for_each(|(i, found)| matches[i as usize] = found);
        counts.on_cpu = others.len() as u64;
        let mut total = lock(&self.counts);
        total.on_gpu += counts.on_gpu;
        total.on_cpu += counts.on_cpu;
        total.texts_read += counts.texts_read;
        total.texts_kept += counts.texts_kept;
        Ok(matches)
    }

    fn start(&self) -> Result<State, DeviceError> {
        let settings = match self.settings {
            Some(settings) => settings,
            None => VerifySettings::within(self.device.available()? / MEMORY_SHARE),
        };
        State::new(&self.device, settings)
    }
}

/// The pairs to verify, and their queries.
struct Batch<'a> {
    pairs: &'a [Pair],
    spelt: &'a [Option<Spelling>],
    read: &'a ReadTexts<'a>,
    context: &'a Context,
}

impl Batch<'_> {
    fn doc(&self, pair: u32) -> DocId {
        self.pairs[pair as usize].doc
    }

    /// Returns the query of a pair that the GPU compares.
    fn query(&self, pair: u32) -> Option<&Spelling> {
        self.spelt[self.pairs[pair as usize].query as usize].as_ref()
    }
}

/// The memory and kernels of a verifier.
struct State {
    settings: VerifySettings,
    kernels: NgramVerify,
    /// The uploader, whose stream runs kernels, too: a text is therefore copied before it is
    /// searched, and searched before it is overwritten.
    uploader: Uploader,
    texts: Texts,
    tables: Buffer<u64>,
    queries: Buffer<QueryView>,
    pairs: Buffer<PairView>,
    ranges: Buffer<RangeView>,
    /// The least distance of each pair and the end of its match.
    best: Buffer<u64>,
    matches: Buffer<MatchView>,
}

/// A pair whose text has a place on the device.
struct Placed {
    /// The kernels that compare it.
    lanes_log: usize,
    /// Number of letters of the query.
    length: u32,
    pair: PairView,
}

impl State {
    fn new(device: &Device, settings: VerifySettings) -> Result<Self, DeviceError> {
        assert!(settings.pairs > 0 && settings.range > 0 && settings.tables >= MOST_TABLE_BYTES);
        Ok(State {
            settings,
            kernels: NgramVerify::new(device)?,
            uploader: Uploader::new(device)?,
            texts: Texts::new(device, settings.chunk, settings.chunks),
            tables: device.buffer(settings.tables / size_of::<u64>())?,
            queries: device.buffer(settings.pairs)?,
            pairs: device.buffer(settings.pairs)?,
            ranges: device.buffer(settings.ranges())?,
            best: device.buffer(settings.pairs)?,
            matches: device.buffer(settings.pairs)?,
        })
    }

    /// Cuts pairs, in the order of queries, into rounds.
    fn rounds<'a>(&self, batch: &Batch<'_>, order: &'a [u32]) -> Vec<&'a [u32]> {
        let (mut rounds, mut start, mut room) = (Vec::new(), 0, self.tables.len());
        for (i, &pair) in order.iter().enumerate() {
            let is_new = |before: u32| {
                batch.pairs[before as usize].query != batch.pairs[pair as usize].query
            };
            let table = batch.query(pair).map_or(0, Spelling::table_len);
            let needed = if i == start || is_new(order[i - 1]) { table } else { 0 };
            if i - start == self.settings.pairs || needed > room {
                rounds.push(&order[start..i]);
                (start, room) = (i, self.tables.len() - table);
            } else {
                room -= needed;
            }
        }
        rounds.extend((start < order.len()).then(|| &order[start..]));
        rounds
    }

    /// Compares the pairs of a round; returns those that it leaves to the CPU.
    fn run(
        &mut self,
        batch: &Batch<'_>,
        round: &[u32],
        counts: &mut VerifyCounts,
        matches: &mut [Option<Match>],
    ) -> Result<Vec<u32>, NgramError> {
        let numbers = self.send_queries(batch, round)?;
        let mut placing =
            Placing { round, numbers, placed: Vec::new(), left: Vec::new(), texts_read: 0 };
        let mut missing: Vec<(DocId, u32)> = Vec::new();
        for (&pair, number) in round.iter().zip(0..) {
            match self.texts.get(batch.doc(pair)) {
                Some(text) => placing.place(batch, number, text),
                None => missing.push((batch.doc(pair), number)),
            }
        }
        counts.texts_kept += placing.placed.len() as u64;
        missing.sort_unstable();
        let missing: Vec<&[(DocId, u32)]> = missing.chunk_by(|a, b| a.0 == b.0).collect();
        let mut compared = self.compare(&mut placing.placed)?;
        for wave in missing.chunks(READ_TOGETHER * READ_PER_THREAD * batch.context.threads()) {
            let docs: Vec<DocId> = wave.iter().map(|of_doc| of_doc[0].0).collect();
            let groups: Vec<&[DocId]> = docs.chunks(READ_TOGETHER).collect();
            let read = batch.context.pool().map(&groups, || (), |(), docs| (batch.read)(docs));
            let texts = read.into_iter().flatten();
            compared.append(&mut self.add_texts(batch, &mut placing, wave, texts)?);
        }
        let found = self.uploader.stream().download(&self.matches.slice(..round.len()))?;
        counts.texts_read += placing.texts_read;
        counts.on_gpu += compared.len() as u64;
        for number in compared {
            let MatchView { distance, start, end } = found[number as usize];
            let found = Match { distance, start: start as usize, end: end as usize };
            matches[round[number as usize] as usize] = Some(found);
        }
        Ok(placing.left)
    }

    /// Copies the tables of a round's queries; returns the number of each pair's query on the
    /// device.
    fn send_queries(&mut self, batch: &Batch<'_>, round: &[u32]) -> Result<Vec<u32>, NgramError> {
        let (mut tables, mut queries, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = None;
        for &pair in round {
            let query = batch.pairs[pair as usize].query;
            if let Some(spelling) = batch.query(pair).filter(|_| last != Some(query)) {
                let mut own = spelling.write(&mut tables);
                own.table = self.tables.address() + own.table * size_of::<u64>() as u64;
                own.letters = self.tables.address() + own.letters * size_of::<u64>() as u64;
                queries.push(own);
                last = Some(query);
            }
            numbers.push(queries.len() as u32 - 1);
        }
        let State { uploader, tables: to_tables, queries: to_queries, .. } = self;
        send(uploader, &tables, to_tables)?;
        send(uploader, &queries, to_queries)?;
        Ok(numbers)
    }

    /// Copies texts of documents, and compares those with pairs of the round; returns which were
    /// compared.
    fn add_texts(
        &mut self,
        batch: &Batch<'_>,
        placing: &mut Placing<'_>,
        docs: &[&[(DocId, u32)]],
        texts: impl Iterator<Item = Option<String>>,
    ) -> Result<Vec<u32>, NgramError> {
        let (mut compared, mut copied): (Vec<u32>, Vec<(usize, String)>) = Default::default();
        for (of_doc, text) in docs.iter().zip(texts) {
            let Some(text) = text else { continue };
            if !self.texts.takes(text.len()) {
                let round = placing.round;
                placing.left.extend(of_doc.iter().map(|(_, number)| round[*number as usize]));
                continue;
            }
            let (at, place) = loop {
                match self.texts.place(of_doc[0].0, &text) {
                    Some((place, at)) => break (at, place),
                    None => {
                        // Older texts may be dropped for this one.
                        self.copy_texts(&mut copied)?;
                        compared.append(&mut self.compare(&mut placing.placed)?);
                        self.texts.make_room()?;
                    }
                }
            };
            placing.texts_read += 1;
            of_doc.iter().for_each(|(_, number)| placing.place(batch, *number, place));
            copied.push((at, text));
        }
        self.copy_texts(&mut copied)?;
        compared.append(&mut self.compare(&mut placing.placed)?);
        Ok(compared)
    }

    /// Copies texts to the last chunk.
    fn copy_texts(&mut self, texts: &mut Vec<(usize, String)>) -> Result<(), DeviceError> {
        let Some(chunk) = self.texts.last() else { return Ok(()) };
        let pieces = texts.iter().map(|(at, text)| (*at, text.as_bytes()));
        self.uploader.scatter(chunk, ALIGNMENT, pieces)?;
        texts.clear();
        Ok(())
    }

    /// Launches kernels for pairs whose texts are on the device; returns their numbers.
    fn compare(&mut self, placed: &mut Vec<Placed>) -> Result<Vec<u32>, NgramError> {
        // Lanes of a warp should have the same query, and texts of about the same length.
        placed.sort_by_key(|p| {
            (p.lanes_log, u64::from(p.pair.query) << 32 | u64::from(p.pair.bytes))
        });
        for of_kernel in placed.chunk_by(|a, b| a.lanes_log == b.lanes_log) {
            let (mut pairs, mut ranges) = (Vec::new(), Vec::new());
            for placed in of_kernel {
                let own = ranges_of(&placed.pair, placed.length, self.settings.range);
                if pairs.len() == self.pairs.len() || ranges.len() + own.len() > self.ranges.len() {
                    self.launch(of_kernel[0].lanes_log, &pairs, &ranges)?;
                    (pairs, ranges) = Default::default();
                }
                let number = pairs.len() as u32;
                pairs.push(placed.pair);
                ranges.extend(own.map(|(from, to)| RangeView { pair: number, from, to }));
            }
            self.launch(of_kernel[0].lanes_log, &pairs, &ranges)?;
        }
        Ok(placed.drain(..).map(|placed| placed.pair.number).collect())
    }

    fn launch(
        &mut self,
        lanes_log: usize,
        pairs: &[PairView],
        ranges: &[RangeView],
    ) -> Result<(), DeviceError> {
        assert!(pairs.iter().all(|pair| (pair.number as usize) < self.matches.len()));
        let named = |range: &RangeView| (range.pair as usize) < pairs.len();
        assert!(ranges.iter().all(|range| named(range) && range.from < range.to));
        send(&mut self.uploader, pairs, &self.pairs)?;
        send(&mut self.uploader, ranges, &self.ranges)?;
        let stream = self.uploader.stream();
        let best = self.best.slice(..pairs.len());
        stream.fill(&best, u8::MAX)?;
        let to_compare = Pairs {
            lanes_log,
            queries: &self.queries,
            tables: &self.tables,
            pairs: &self.pairs.slice(..pairs.len()),
            best: &best,
        };
        // SAFETY: texts and tables live as long as this state, whose stream orders copies and
        // kernels; the pairs are of queries with this number of lanes, and a range lies in its
        // text.
        unsafe {
            self.kernels.search(stream, &to_compare, &self.ranges.slice(..ranges.len()))?;
            self.kernels.align(stream, &to_compare, &self.matches)
        }
    }
}

/// The pairs of a round that are not compared yet.
struct Placing<'a> {
    round: &'a [u32],
    /// The number of each pair's query on the device.
    numbers: Vec<u32>,
    placed: Vec<Placed>,
    /// Pairs whose texts are too long.
    left: Vec<u32>,
    texts_read: u64,
}

impl Placing<'_> {
    /// Records that the text of the pair with a number has a place.
    fn place(&mut self, batch: &Batch<'_>, number: u32, text: Text) {
        let Text { address, bytes, letters } = text;
        let Some(spelling) = batch.query(self.round[number as usize]) else { return };
        let query = self.numbers[number as usize];
        let pair = PairView { text: address, bytes, letters, query, number };
        let (lanes_log, length) = (spelling.lanes_log(), spelling.len() as u32);
        self.placed.push(Placed { lanes_log, length, pair });
    }
}

/// Returns the ranges of a text that are searched for a query of this length. Each is a part of
/// at least `bytes` bytes with the text before it that a match ending in the part may reach. That
/// is twice the query's length, since inserting the whole query costs its length (`distance`).
fn ranges_of(
    pair: &PairView,
    length: u32,
    bytes: u32,
) -> impl ExactSizeIterator<Item = (u32, u32)> + use<> {
    let (all, most) = (pair.bytes, if pair.bytes == pair.letters { 1 } else { 4 });
    // A range begins with the first letter that begins in it.
    let overlap = most * (2 * length + 1);
    let stride = bytes.max(2 * overlap);
    (0..all.div_ceil(stride)).map(move |i| {
        let start = i * stride;
        (start.saturating_sub(overlap), all.min(start.saturating_add(stride)))
    })
}

/// Copies values to the beginning of a buffer, which must be large enough.
fn send<T: Pod>(uploader: &mut Uploader, values: &[T], to: &Buffer<T>) -> Result<(), DeviceError> {
    let to = to.slice(..values.len()).cast::<u8>();
    uploader.scatter(&to, 1, [(0, cast_slice(values))])
}

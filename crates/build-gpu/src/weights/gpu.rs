//! Weights on a GPU. Kernels perform the eight steps on text in device memory; text that is too
//! large is counted in parts, which the host joins.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use bytemuck::{Pod, Zeroable};
use rayon::prelude::*;
use warpseek_cuda::kernels::load_balance::LoadBalance;
use warpseek_cuda::kernels::merge_sort::MergeSort;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Event, Grid, Kernel, Pinned, Stream};
use warpseek_dictionary::{DeviceDictionary, Dictionary};
use warpseek_exec::RankingFunction;
use warpseek_text::{END_OF_DOCUMENT, WordRules};

use super::parts::{Part, join, pieces_of};
use super::{NoWeights, Weigher, Weights};
use crate::kernels::find_words::FindWords;
use crate::kernels::{count_postings, number_words, string_sort, weigh};
use crate::worker::bits_for;

const THREADS: u32 = 256;
/// Maximum number of bytes of text that are counted at a time: positions have 31 bits.
const MOST_TEXT: usize = i32::MAX as usize;
/// Bytes of device memory per byte of text. Words of one letter take the most, about 40.
const MEMORY_A_BYTE: u64 = 48;
const LEAST_PART: usize = 1 << 10;

/// A step of the computation, with the numbers of (Wakatsuki 2016), or a copy before or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copying the text to the device.
    CopyIn,
    /// Starts of words, and their documents (1, 2).
    Words,
    /// Lengths of documents (3).
    Lengths,
    /// Ids from the dictionary.
    Ids,
    /// Sorting (4).
    Sort,
    /// Frequencies (5).
    Frequencies,
    /// Document frequencies, spread over postings (6, 7).
    DocumentFrequencies,
    /// Weights (8).
    Weights,
    /// Copying the result to the host.
    CopyOut,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 9] = [
        Step::CopyIn,
        Step::Words,
        Step::Lengths,
        Step::Ids,
        Step::Sort,
        Step::Frequencies,
        Step::DocumentFrequencies,
        Step::Weights,
        Step::CopyOut,
    ];

    /// Returns the name of the step in tables.
    pub fn name(self) -> &'static str {
        match self {
            Step::CopyIn => "copy in",
            Step::Words => "words (1, 2)",
            Step::Lengths => "lengths (3)",
            Step::Ids => "ids",
            Step::Sort => "sort (4)",
            Step::Frequencies => "tf (5)",
            Step::DocumentFrequencies => "df (6, 7)",
            Step::Weights => "weights (8)",
            Step::CopyOut => "copy out",
        }
    }
}

/// The time of each step on the device.
pub type Steps = Vec<(Step, Duration)>;

/// An error while weights are computed.
#[derive(Debug, thiserror::Error)]
pub enum WeighError {
    /// The ranking function has no weights.
    #[error(transparent)]
    Function(#[from] NoWeights),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Maximum number of words whose ids are found at once; they take 4 MB.
const MOST_KNOWN: u64 = 1 << 17;
/// Bytes of device memory per byte of these words.
const MEMORY_A_KNOWN_BYTE: u64 = 64;
/// Number of words from which one becomes known if its place is free; smaller texts are sampled
/// more closely.
const WORDS_A_SAMPLE: usize = 64;
const SAMPLES: usize = 4096;

/// The words of a text. Must equal `Words` of the kernels.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct TextWords {
    text: u64,
    starts: u64,
    known: u64,
    len: u32,
    padded: u32,
    count: u32,
    known_bits: u32,
}

/// A weigher that computes weights on a device. It keeps its memory between texts.
pub struct GpuWeigher {
    stream: Stream,
    copies: Stream,
    find: FindWords,
    radix_sort: RadixSort,
    merge_sort: MergeSort<u64>,
    runs: Runs,
    balance: LoadBalance,
    scan: Scan,
    number: Kernel,
    know: Kernel,
    string_keys: Kernel,
    string_flags: Kernel,
    string_numbers: Kernel,
    lengths: Kernel,
    postings: Kernel,
    weights: Kernel,
    keys: Kernel,
    classes: Buffer<u8>,
    dictionary: Option<DeviceDictionary>,
    /// Words whose ids are found at once; empty without a dictionary.
    known: Buffer<[u32; 8]>,
    room: HashMap<&'static str, Buffer<u8>>,
    docs_out: Option<Pinned<u32>>,
    weights_out: Option<Pinned<f32>>,
}

/// The text to weigh, in page-locked memory, from which copies are fast, or elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum HostText<'a> {
    /// The first bytes of page-locked memory.
    Pinned(&'a Pinned<u8>, usize),
    /// Any memory.
    Slice(&'a [u8]),
}

impl<'a> HostText<'a> {
    fn bytes(&self) -> Result<&'a [u8], DeviceError> {
        match *self {
            HostText::Pinned(pinned, len) => Ok(&pinned.read()?[..len]),
            HostText::Slice(bytes) => Ok(bytes),
        }
    }

    fn len(&self) -> usize {
        match self {
            HostText::Pinned(_, len) => *len,
            HostText::Slice(bytes) => bytes.len(),
        }
    }
}

/// The postings on the device, sorted by term.
struct Counted {
    words: u64,
    documents: u32,
    lengths: Buffer<u32>,
    list_terms: Buffer<u32>,
    list_starts: Buffer<u32>,
    docs: Buffer<u32>,
    freqs: Buffer<u32>,
}

/// A clock that measures steps on the device.
struct Clock {
    stream: Stream,
    begin: Event,
    steps: Vec<(Step, Event)>,
}

impl Clock {
    fn start(stream: &Stream) -> Result<Self, DeviceError> {
        let begin = stream.device().event()?;
        stream.record(&begin)?;
        Ok(Clock { stream: stream.clone(), begin, steps: Vec::new() })
    }

    /// Ends a step: all work since the previous step belongs to it.
    fn done(&mut self, step: Step) -> Result<(), DeviceError> {
        let event = self.stream.device().event()?;
        self.stream.record(&event)?;
        self.steps.push((step, event));
        Ok(())
    }

    fn stop(self) -> Result<Steps, DeviceError> {
        self.stream.synchronize()?;
        let mut before = &self.begin;
        let mut times = Steps::new();
        for (step, event) in &self.steps {
            times.push((*step, event.since(before)?));
            before = event;
        }
        Ok(times)
    }
}

impl GpuWeigher {
    /// Creates a weigher. With a dictionary, words are sorted by their ids; otherwise they are
    /// sorted as strings.
    pub fn new(device: &Device, dictionary: Option<&Dictionary>) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        let strings = |name| device.kernel(&string_sort::SOURCE, name);
        let weigh = |name| device.kernel(&weigh::SOURCE, name);
        let upload = |dictionary| DeviceDictionary::upload(device, &stream, dictionary);
        let room = device.available()? / MEMORY_A_KNOWN_BYTE / size_of::<[u32; 8]>() as u64;
        let most = 1 << room.clamp(2, MOST_KNOWN).ilog2();
        let known = device.buffer(if dictionary.is_some() { most } else { 0 })?;
        stream.zero(&known)?;
        Ok(GpuWeigher {
            known,
            copies: device.stream()?,
            find: FindWords::new(device)?,
            radix_sort: RadixSort::new(device)?,
            merge_sort: MergeSort::with_kernels(
                strings("string_sort_tiles")?,
                strings("string_sort_splits")?,
                strings("string_sort_merge")?,
            ),
            runs: Runs::new(device)?,
            balance: LoadBalance::new(device)?,
            scan: Scan::new(device)?,
            number: device.kernel(&number_words::SOURCE, "number_words")?,
            know: device.kernel(&number_words::SOURCE, "know_words")?,
            string_keys: strings("string_keys")?,
            string_flags: strings("string_flags")?,
            string_numbers: strings("string_numbers")?,
            lengths: weigh("weigh_lengths")?,
            postings: weigh("weigh_postings")?,
            weights: weigh("weigh_weights")?,
            keys: device.kernel(&count_postings::SOURCE, "keys_of_runs")?,
            classes: device.upload(&stream, &WordRules::of_words().classes)?,
            dictionary: dictionary.map(upload).transpose()?,
            room: HashMap::new(),
            docs_out: None,
            weights_out: None,
            stream,
        })
    }

    /// Returns device memory for this many values, which stays for the next text.
    fn room<T: Pod>(&mut self, name: &'static str, len: usize) -> Result<Buffer<T>, DeviceError> {
        let bytes = len * size_of::<T>();
        if self.room.get(name).is_none_or(|buffer| buffer.len() < bytes) {
            // The old buffer is freed first, so that both need not fit.
            self.room.remove(name);
            let buffer = self.stream.device().buffer(bytes.next_multiple_of(256))?;
            self.room.insert(name, buffer);
        }
        Ok(self.room[name].slice(..bytes).cast())
    }

    /// Computes the weights of a text (`WordText`). If it does not fit into the memory of the
    /// device, it is counted in parts, which the host joins.
    pub fn weigh(
        &mut self,
        text: HostText<'_>,
        function: RankingFunction,
    ) -> Result<(Weights<'_>, Steps), WeighError> {
        let most = self.stream.device().available()? + self.held();
        let most = usize::try_from(most / MEMORY_A_BYTE).unwrap_or(usize::MAX).max(LEAST_PART);
        if text.len() <= most.min(MOST_TEXT) {
            return self.weigh_whole(text, function);
        }
        self.weigh_parts(text.bytes()?, most.min(MOST_TEXT), function)
    }

    /// Returns the bytes of device memory that are kept for the next text.
    fn held(&self) -> u64 {
        self.room.values().map(|buffer| buffer.bytes() as u64).sum()
    }

    fn weigh_whole(
        &mut self,
        text: HostText<'_>,
        function: RankingFunction,
    ) -> Result<(Weights<'_>, Steps), WeighError> {
        let mut clock = Clock::start(&self.stream)?;
        let counted = self.count(text, &mut clock)?;
        let (stream, device) = (self.stream.clone(), self.stream.device().clone());
        let (count, lists) = (counted.docs.len(), counted.list_terms.len());
        // Documents are copied while their weights are computed.
        let ready = device.event()?;
        stream.record(&ready)?;
        self.copies.wait(&ready)?;
        let mut docs_out = pinned(&device, self.docs_out.take(), count)?;
        self.copies.copy_out(&counted.docs, &mut docs_out, 0)?;

        let weigher = Weigher::new(function, counted.documents, counted.words);
        let weigher = weigher.ok_or(NoWeights(function))?;
        // The host computes these weights while the device is still counting.
        let term_weight = |df: u32| if df == 0 { 0.0 } else { weigher.term(df) };
        let idfs: Vec<f32> = (0..=counted.documents).into_par_iter().map(term_weight).collect();
        let list_of = self.room("list of posting", count)?;
        self.balance.launch(&stream, &counted.list_starts.slice(..lists), None, None, &list_of)?;
        clock.done(Step::DocumentFrequencies)?;

        let idfs_on_device = self.room("idfs", idfs.len())?;
        stream.upload(&idfs, &idfs_on_device)?;
        let args = Args::new()
            .buffer(&list_of)
            .buffer(&counted.list_starts)
            .value(count as u32)
            .buffer(&counted.docs)
            .buffer(&counted.lengths)
            .buffer(&idfs_on_device)
            .value(weigher.saturation.fixed)
            .value(weigher.saturation.by_length)
            .buffer(&counted.freqs);
        // SAFETY: every posting has a list, a document with a length, and a number of documents
        // for which there is a weight.
        unsafe { self.launch(&self.weights, count, &args) }?;
        clock.done(Step::Weights)?;

        let mut weights_out = pinned(&device, self.weights_out.take(), count)?;
        stream.copy_out(&counted.freqs.cast::<f32>(), &mut weights_out, 0)?;
        let starts = stream.download(&counted.list_starts)?;
        let terms = stream.download(&counted.list_terms)?;
        self.copies.synchronize()?;
        clock.done(Step::CopyOut)?;
        let steps = clock.stop()?;
        let (docs, weights) =
            (self.docs_out.insert(docs_out), self.weights_out.insert(weights_out));
        let weights = Weights {
            words: counted.words,
            documents: counted.documents,
            terms: Cow::Owned(terms),
            starts: Cow::Owned(starts),
            docs: Cow::Borrowed(&docs.read()?[..count]),
            weights: Cow::Borrowed(&weights.read()?[..count]),
        };
        Ok((weights, steps))
    }

    /// Performs steps 1 to 6.
    fn count(&mut self, text: HostText<'_>, clock: &mut Clock) -> Result<Counted, DeviceError> {
        let stream = self.stream.clone();
        let len = text.len();
        let on_device = self.room::<u8>("text", FindWords::padded(len))?;
        match text {
            HostText::Pinned(pinned, len) => stream.copy_in(pinned, 0, &on_device.slice(..len))?,
            HostText::Slice(bytes) => stream.upload(bytes, &on_device.slice(..len))?,
        }
        clock.done(Step::CopyIn)?;

        let counted = self.find.count(&stream, &on_device, len, &self.classes)?;
        let (words, documents) = (counted.count as usize, counted.documents);
        let (starts, docs) = (self.room("starts", words)?, self.room("docs", words)?);
        let classes = self.classes.clone();
        self.find.write(&stream, &on_device, len, &classes, &counted, &starts, &docs)?;
        clock.done(Step::Words)?;

        let lengths = self.lengths(&docs, documents)?;
        clock.done(Step::Lengths)?;
        let text = (&on_device, len as u32);
        let (terms, docs, distinct) = match self.dictionary.clone() {
            Some(dictionary) => {
                let ids = self.ids(&dictionary, text, &starts)?;
                clock.done(Step::Ids)?;
                let (terms, docs) = self.sort_ids(&ids, &docs, dictionary.unknown())?;
                (terms, docs, None)
            }
            None => {
                let (terms, docs, distinct) = self.sort_strings(text, &starts, &docs)?;
                (terms, docs, Some(distinct))
            }
        };
        clock.done(Step::Sort)?;

        let run_starts = self.room("run starts", words + 1)?;
        let count = self.count_runs(&[&terms, &docs], words, &run_starts)?;
        let posting_terms = self.room::<u32>("posting terms", count)?;
        let posting_docs = self.room::<u32>("posting docs", count)?;
        let freqs = self.room::<u32>("frequencies", count)?;
        let args = Args::new()
            .buffer(&run_starts)
            .value(count as u32)
            .buffer(&terms)
            .buffer(&docs)
            .buffer(&posting_terms)
            .buffer(&posting_docs)
            .buffer(&freqs);
        // SAFETY: runs lie within the words, and there is one more start than runs.
        unsafe { self.launch(&self.postings, count, &args) }?;
        clock.done(Step::Frequencies)?;

        let list_starts = self.room("list starts", count + 1)?;
        let lists = self.count_runs(&[&posting_terms], count, &list_starts)?;
        let list_terms = match distinct {
            Some(distinct) => distinct.slice(..lists),
            None => {
                let list_terms = self.room("list terms", lists)?;
                let args = Args::new()
                    .buffer(&list_starts)
                    .value(lists as u32)
                    .buffer(&posting_terms)
                    .buffer(&list_terms);
                // SAFETY: lists lie within the postings.
                unsafe { self.launch(&self.keys, lists, &args) }?;
                list_terms
            }
        };
        let list_starts = list_starts.slice(..=lists);
        let words = words as u64;
        Ok(Counted {
            words,
            documents,
            lengths,
            list_terms,
            list_starts,
            docs: posting_docs,
            freqs,
        })
    }

    /// Counts the parts of the text one after another.
    fn weigh_parts(
        &mut self,
        text: &[u8],
        most: usize,
        function: RankingFunction,
    ) -> Result<(Weights<'_>, Steps), WeighError> {
        let mut parts = Vec::new();
        let mut steps = Steps::new();
        let (mut first_doc, mut offset) = (0, 0);
        for piece in pieces_of(text, most) {
            let mut clock = Clock::start(&self.stream)?;
            // Kernels need documents that end.
            let ended;
            let bytes = match piece.is_open {
                true => {
                    ended = [piece.bytes, &[END_OF_DOCUMENT]].concat();
                    &ended
                }
                false => piece.bytes,
            };
            let counted = self.count(HostText::Slice(bytes), &mut clock)?;
            first_doc -= u32::from(piece.continues);
            let stream = &self.stream;
            parts.push(Part {
                words: counted.words,
                first_doc,
                offset,
                lengths: stream.download(&counted.lengths)?,
                terms: stream.download(&counted.list_terms)?,
                starts: stream.download(&counted.list_starts)?,
                docs: stream.download(&counted.docs)?,
                freqs: stream.download(&counted.freqs)?,
            });
            first_doc += counted.documents;
            offset += piece.bytes.len();
            clock.done(Step::CopyOut)?;
            for (step, time) in clock.stop()? {
                match steps.iter_mut().find(|(known, _)| *known == step) {
                    Some((_, sum)) => *sum += time,
                    None => steps.push((step, time)),
                }
            }
        }
        let by_string = self.dictionary.is_none().then_some(text);
        Ok((join(&parts, by_string, function)?, steps))
    }

    /// # Safety
    /// The conditions of a launch apply.
    unsafe fn launch(&self, kernel: &Kernel, items: usize, args: &Args) -> Result<(), DeviceError> {
        if items == 0 {
            return Ok(());
        }
        // SAFETY: the caller ensures this.
        unsafe { self.stream.launch(kernel, Grid::over(items, THREADS), args) }
    }

    /// Finds runs and waits for their number.
    fn count_runs(
        &mut self,
        arrays: &[&Buffer<u32>],
        len: usize,
        starts: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        if len == 0 {
            self.stream.zero(&starts.slice(..1))?;
            return Ok(0);
        }
        let scratch = self.room("scratch of runs", Runs::scratch_len(len))?;
        self.runs.launch(&self.stream, arrays, len, starts, &scratch)?;
        Ok(self.stream.download(&Runs::count(&scratch))?[0] as usize)
    }

    /// Computes the length of each document.
    fn lengths(&mut self, docs: &Buffer<u32>, documents: u32) -> Result<Buffer<u32>, DeviceError> {
        let lengths = self.room("lengths", documents as usize)?;
        self.stream.zero(&lengths)?;
        let (len, most) = (docs.len(), documents as usize);
        if len == 0 {
            return Ok(lengths);
        }
        let starts = self.room::<u32>("starts of documents", most + 1)?;
        let scratch = self.room("scratch of runs", Runs::scratch_len(len))?;
        self.runs.launch(&self.stream, &[docs], len, &starts, &scratch)?;
        let args = Args::new()
            .buffer(&starts)
            .buffer(&Runs::count(&scratch))
            .buffer(docs)
            .buffer(&lengths);
        // SAFETY: there are at most as many runs as documents.
        unsafe { self.launch(&self.lengths, most, &args) }?;
        Ok(lengths)
    }

    fn ids(
        &mut self,
        dictionary: &DeviceDictionary,
        (text, len): (&Buffer<u8>, u32),
        starts: &Buffer<u32>,
    ) -> Result<Buffer<u32>, DeviceError> {
        let ids = self.room("ids", starts.len())?;
        let words = TextWords {
            text: text.address(),
            starts: starts.address(),
            known: self.known.address(),
            len,
            padded: text.len() as u32,
            count: starts.len() as u32,
            known_bits: self.known.len().ilog2(),
        };
        let args = || {
            let args = dictionary.add_to(Args::new()).value(words);
            args.keep(text).keep(starts).keep(&self.known)
        };
        // Small texts are sampled more closely.
        let step = (starts.len() / SAMPLES).clamp(1, WORDS_A_SAMPLE);
        // SAFETY: starts lie within the text, whose padding ends at a multiple of 16; a
        // dictionary on the device has been checked, and the number of known words is that of
        // `known_bits`.
        unsafe {
            self.launch(&self.know, starts.len().div_ceil(step), &args().value(step as u32))?;
            self.launch(&self.number, starts.len(), &args().buffer(&ids))?;
        }
        Ok(ids)
    }

    fn sort_ids(
        &mut self,
        ids: &Buffer<u32>,
        docs: &Buffer<u32>,
        unknown: u32,
    ) -> Result<(Buffer<u32>, Buffer<u32>), DeviceError> {
        let len = ids.len();
        if len == 0 {
            return Ok((ids.clone(), docs.clone()));
        }
        let (other_ids, other_docs) = (self.room("other ids", len)?, self.room("other docs", len)?);
        let scratch = self.room("scratch of sort", RadixSort::scratch_len(len))?;
        let (keys, values) = ([ids, &other_ids], [docs, &other_docs]);
        let bits = bits_for(unknown as usize + 1);
        let at = self.radix_sort.sort(&self.stream, keys, values, bits, &scratch)?;
        Ok((keys[at].clone(), values[at].clone()))
    }

    /// Sorts words. Returns terms by rank and documents in the order of words, and the position
    /// of each term in the text.
    #[allow(clippy::type_complexity)]
    fn sort_strings(
        &mut self,
        (text, text_len): (&Buffer<u8>, u32),
        starts: &Buffer<u32>,
        docs: &Buffer<u32>,
    ) -> Result<(Buffer<u32>, Buffer<u32>, Buffer<u32>), DeviceError> {
        let len = starts.len();
        let (keys, other_keys) = (self.room("keys", len)?, self.room("other keys", len)?);
        let (words, other_words) = (self.room("ids", len)?, self.room("other ids", len)?);
        let sorted_docs = self.room("other docs", len)?;
        let numbers = self.room("numbers", len)?;
        let distinct = self.room("distinct", len)?;
        if len == 0 {
            return Ok((numbers, sorted_docs, distinct));
        }
        let classes = self.classes.clone();
        let strings =
            |args: Args| args.buffer(text).value(text_len).buffer(&classes).buffer(starts);
        let args = strings(Args::new()).value(len as u32).buffer(&keys).buffer(&words);
        // SAFETY: starts lie within the text.
        unsafe { self.launch(&self.string_keys, len, &args) }?;
        let scratch = self.room("scratch of sort", MergeSort::<u64>::scratch_len(len))?;
        let (keys, words) = ([&keys, &other_keys], [&words, &other_words]);
        // SAFETY: the kernels are instances of the header's, and their comparison reads words by
        // their numbers, within the text.
        let at =
            unsafe { self.merge_sort.sort_with(&self.stream, keys, words, &scratch, strings) }?;
        // The flags use the memory of keys that are no longer needed.
        let (flags, before) = (
            keys[1 - at].cast::<u32>().slice(..len),
            keys[1 - at].cast::<u32>().slice(len..2 * len),
        );
        let args = Args::new().buffer(keys[at]).buffer(words[at]).value(len as u32);
        let args = strings(args).buffer(&flags);
        // SAFETY: as above; there is a flag for each word.
        unsafe { self.launch(&self.string_flags, len, &args) }?;
        let scratch = self.room("scratch of scan", Scan::scratch_len(len))?;
        self.scan.launch(&self.stream, &flags, &before, &scratch)?;
        let args = Args::new()
            .buffer(&flags)
            .buffer(&before)
            .buffer(words[at])
            .value(len as u32)
            .buffer(starts)
            .buffer(docs)
            .buffer(&numbers)
            .buffer(&sorted_docs)
            .buffer(&distinct);
        // SAFETY: the sorted words are a permutation, and numbers are below their number.
        unsafe { self.launch(&self.string_numbers, len, &args) }?;
        Ok((numbers, sorted_docs, distinct))
    }
}

/// Returns page-locked memory for at least this many values.
fn pinned<T: Pod>(
    device: &Device,
    old: Option<Pinned<T>>,
    len: usize,
) -> Result<Pinned<T>, DeviceError> {
    match old {
        Some(old) if old.len() >= len => Ok(old),
        _ => device.pinned(len),
    }
}

//! Weights on a GPU. Kernels perform the eight steps on text in device memory; text that is too
//! large is counted in parts, which the host joins.
#![allow(unsafe_code)]

mod map_reduce;

use std::borrow::Cow;
use std::collections::HashMap;

use bytemuck::Pod;
use warpseek_cuda::kernels::load_balance::LoadBalance;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Buffer, Device, DeviceError, Pinned, Stream};
use warpseek_dictionary::DeviceDictionary;
use warpseek_exec::RankingFunction;
use warpseek_text::{END_OF_DOCUMENT, WordRules};

use super::parts::{Part, join, pieces_of};
use super::steps::{DeviceClock as Clock, Step, Steps};
use super::{Method, NoWeights, Weigher, Weights};
use crate::kernels::count_postings::CountPostings;
use crate::kernels::find_words::FindWords;
use crate::kernels::map_reduce::MapReduce;
use crate::kernels::number_words::{KnownWord, NumberWords, TextWords};
use crate::kernels::string_sort::{Numbers, SortedWords as SortedStrings, StringSort, Strings};
use crate::kernels::weigh::{Lists, Postings, SortedWords, Weigh};
use crate::worker::bits_for;

/// Maximum number of bytes of text that are counted at a time: positions have 31 bits.
const MOST_TEXT: usize = i32::MAX as usize;
/// Bytes of device memory per byte of text. Words of one letter take the most, about 40.
const MEMORY_A_BYTE: u64 = 48;
const LEAST_PART: usize = 1 << 10;

/// An error while weights are computed.
#[derive(Debug, thiserror::Error)]
pub enum WeighError {
    /// The ranking function has no weights.
    #[error(transparent)]
    Function(#[from] NoWeights),
    /// The text is too large for MapReduce on this device.
    #[error(
        "MapReduce holds all words on the GPU at once, which permits {most} bytes of text, not {bytes}; the other methods count a larger text in parts"
    )]
    TextTooLarge {
        /// Number of bytes of the text.
        bytes: usize,
        /// Maximum number of bytes.
        most: usize,
    },
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

/// A weigher that computes weights on a device. It keeps its memory between texts.
pub struct GpuWeigher {
    stream: Stream,
    copies: Stream,
    find: FindWords,
    radix_sort: RadixSort,
    runs: Runs,
    balance: LoadBalance,
    scan: Scan,
    number: NumberWords,
    strings: StringSort,
    weigh: Weigh,
    count: CountPostings,
    classes: Buffer<u8>,
    dictionary: Option<DeviceDictionary>,
    /// The kernels of MapReduce, if that is the method.
    map_reduce: Option<MapReduce>,
    /// Words whose ids are found at once; empty without a dictionary.
    known: Buffer<KnownWord>,
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

impl GpuWeigher {
    /// Creates a weigher.
    pub fn new(device: &Device, method: Method<'_>) -> Result<Self, DeviceError> {
        let dictionary = match method {
            Method::Dictionary(dictionary) => Some(dictionary),
            Method::Strings | Method::MapReduce => None,
        };
        let map_reduce = match method {
            Method::MapReduce => Some(MapReduce::new(device)?),
            Method::Strings | Method::Dictionary(_) => None,
        };
        let stream = device.stream()?;
        let upload = |dictionary| DeviceDictionary::upload(device, &stream, dictionary);
        let room = device.available()? / MEMORY_A_KNOWN_BYTE / size_of::<KnownWord>() as u64;
        let most = 1 << room.clamp(2, MOST_KNOWN).ilog2();
        let known = device.buffer(if dictionary.is_some() { most } else { 0 })?;
        stream.zero(&known)?;
        Ok(GpuWeigher {
            known,
            copies: device.stream()?,
            find: FindWords::new(device)?,
            radix_sort: RadixSort::new(device)?,
            runs: Runs::new(device)?,
            balance: LoadBalance::new(device)?,
            scan: Scan::new(device)?,
            number: NumberWords::new(device)?,
            strings: StringSort::new(device)?,
            weigh: Weigh::new(device)?,
            count: CountPostings::new(device)?,
            classes: device.upload(&stream, &WordRules::of_words().classes)?,
            dictionary: dictionary.map(upload).transpose()?,
            map_reduce,
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
    /// device, it is counted in parts, which the host joins; MapReduce fails with
    /// [`WeighError::TextTooLarge`].
    pub fn weigh(
        &mut self,
        text: HostText<'_>,
        function: RankingFunction,
    ) -> Result<(Weights<'_>, Steps), WeighError> {
        let most = self.stream.device().available()? + self.held();
        let most = usize::try_from(most / MEMORY_A_BYTE).unwrap_or(usize::MAX).max(LEAST_PART);
        let most = most.min(MOST_TEXT);
        match (self.map_reduce.clone(), text.len()) {
            (Some(kernels), bytes) if bytes <= most => self.map_reduce(&kernels, text, function),
            (Some(_), bytes) => Err(WeighError::TextTooLarge { bytes, most }),
            (None, bytes) if bytes <= most => self.weigh_whole(text, function),
            (None, _) => self.weigh_parts(text.bytes()?, most, function),
        }
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
        let idfs = weigher.terms(counted.documents);
        let list_of = self.room("list of posting", count)?;
        self.balance.launch(&stream, &counted.list_starts.slice(..lists), None, None, &list_of)?;
        clock.done(Step::DocumentFrequencies)?;

        let idfs_on_device = self.room("idfs", idfs.len())?;
        stream.upload(&idfs, &idfs_on_device)?;
        let in_lists = Lists {
            list_of: &list_of,
            starts: &counted.list_starts,
            docs: &counted.docs,
            lengths: &counted.lengths,
            idfs: &idfs_on_device,
        };
        // SAFETY: every posting has a list, a document with a length, and a number of documents
        // for which there is a weight.
        unsafe { self.weigh.weights(&stream, &in_lists, weigher.saturation, &counted.freqs) }?;
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
        let sorted = SortedWords { runs: &run_starts, terms: &terms, docs: &docs };
        let postings = Postings { terms: &posting_terms, docs: &posting_docs, freqs: &freqs };
        // SAFETY: runs lie within the words.
        unsafe { self.weigh.postings(&stream, &sorted, &postings) }?;
        clock.done(Step::Frequencies)?;

        let list_starts = self.room("list starts", count + 1)?;
        let lists = self.count_runs(&[&posting_terms], count, &list_starts)?;
        let list_terms = match distinct {
            Some(distinct) => distinct.slice(..lists),
            None => {
                let list_terms = self.room("list terms", lists)?;
                // SAFETY: lists lie within the postings.
                unsafe { self.count.keys(&stream, &list_starts, &posting_terms, &list_terms) }?;
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
        let count = Runs::count(&scratch);
        // SAFETY: the runs are those of the documents, which are below `documents`.
        unsafe { self.weigh.lengths(&self.stream, &starts, &count, docs, &lengths) }?;
        Ok(lengths)
    }

    fn ids(
        &mut self,
        dictionary: &DeviceDictionary,
        (text, len): (&Buffer<u8>, u32),
        starts: &Buffer<u32>,
    ) -> Result<Buffer<u32>, DeviceError> {
        let ids = self.room("ids", starts.len())?;
        let words = TextWords { text, len, starts, known: &self.known };
        // Small texts are sampled more closely.
        let step = (starts.len() / SAMPLES).clamp(1, WORDS_A_SAMPLE);
        // SAFETY: starts lie within the text.
        unsafe {
            self.number.know(&self.stream, dictionary, &words, step)?;
            self.number.number(&self.stream, dictionary, &words, &ids)?;
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
        let stream = self.stream.clone();
        let strings = Strings { text, len: text_len, classes: &classes, starts };
        // SAFETY: starts lie within the text.
        unsafe { self.strings.keys(&stream, &strings, &keys, &words) }?;
        let scratch = self.room("scratch of sort", StringSort::scratch_len(len))?;
        let (keys, words) = ([&keys, &other_keys], [&words, &other_words]);
        // SAFETY: the keys are those of these strings.
        let at = unsafe { self.strings.sort(&stream, &strings, keys, words, &scratch) }?;
        // The flags use the memory of keys that are no longer needed.
        let (flags, before) = (
            keys[1 - at].cast::<u32>().slice(..len),
            keys[1 - at].cast::<u32>().slice(len..2 * len),
        );
        let sorted = SortedStrings { keys: keys[at], words: words[at] };
        // SAFETY: the words were sorted above.
        unsafe { self.strings.flags(&stream, &sorted, &strings, &flags) }?;
        let scratch = self.room("scratch of scan", Scan::scratch_len(len))?;
        self.scan.launch(&stream, &flags, &before, &scratch)?;
        let out = Numbers { numbers: &numbers, docs: &sorted_docs, term_starts: &distinct };
        let words = words[at];
        // SAFETY: the sorted words are a permutation.
        unsafe { self.strings.numbers(&stream, &flags, &before, words, starts, docs, &out) }?;
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

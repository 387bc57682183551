//! What the GPU does with a batch of text: words, terms, sorted occurrences, postings.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use rayon::prelude::*;
use warpseek_core::cosine;
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Pinned, Stream};
use warpseek_index::ListBatch;
use warpseek_text::{Analyzer, WordRules};

use crate::kernels::count_postings::SOURCE;
use crate::kernels::find_words::FindWords;
use crate::terms::{NO_TERM, Terms};
use crate::word_table::{Full, WordTable, Words};

const THREADS: u32 = 256;
/// Frequencies below this have their square in a table on the device; the host adds those of others, of which there are next to none.
const SQUARES: u32 = 1 << 16;
/// Bytes of page-locked memory through which results are copied. To lock memory takes longer than to copy.
const STAGE: usize = 64 << 20;

/// How a batch ended that did not fail.
pub(crate) enum Inverted {
    /// Lists, length and sum of squares of each document, and the postings of the lists on the device.
    Lists(ListBatch, Vec<(u32, u64)>, DevicePostings),
    /// The batch has too many words for the table.
    TooManyWords,
    /// Two words of the batch have the same hash.
    Collision,
}

/// Documents and frequencies of a batch on the device.
pub(crate) struct DevicePostings {
    pub(crate) docs: Buffer<u32>,
    pub(crate) freqs: Buffer<u32>,
}

impl DevicePostings {
    pub(crate) fn bytes(&self) -> usize {
        self.docs.bytes() + self.freqs.bytes()
    }
}

/// Kernels, and what stays on the device between batches.
pub(crate) struct Worker {
    stream: Stream,
    find: FindWords,
    compact: Compact,
    sort: RadixSort,
    runs: Runs,
    count: Kernel,
    keys: Kernel,
    analyzer: Analyzer,
    rules: WordRules,
    classes: Buffer<u8>,
    squares: Buffer<u64>,
    table: WordTable,
    /// Page-locked memory for copies from the device.
    stage: Mutex<Option<Pinned<u8>>>,
}

impl Worker {
    pub(crate) fn new(
        device: &Device,
        analyzer: Analyzer,
        memory: u64,
    ) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        let rules = WordRules::of(analyzer);
        let squares: Vec<u64> =
            (0..SQUARES).map(|f| if f == 0 { 0 } else { cosine::square(f) }).collect();
        Ok(Worker {
            find: FindWords::new(device)?,
            compact: Compact::new(device)?,
            sort: RadixSort::new(device)?,
            runs: Runs::new(device)?,
            count: device.kernel(&SOURCE, "count_postings")?,
            keys: device.kernel(&SOURCE, "keys_of_runs")?,
            classes: device.upload(&stream, &rules.classes)?,
            squares: device.upload(&stream, &squares)?,
            table: WordTable::new(device, memory / 4)?,
            stage: Mutex::default(),
            stream,
            analyzer,
            rules,
        })
    }

    /// Inverts flat text of documents, of which the first has number `first_doc`. If it does not succeed, nothing has changed but for what the table knows.
    pub(crate) fn invert(
        &mut self,
        text: &[u8],
        documents: u32,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let inverted = self.try_invert(text, documents, first_doc, terms);
        if inverted.is_err() {
            self.table.drop_words();
        }
        inverted
    }

    fn try_invert(
        &mut self,
        text: &[u8],
        documents: u32,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let stream = self.stream.clone();
        let device = stream.device();
        let on_device = device.buffer(FindWords::padded(text.len()))?;
        stream.upload(text, &on_device.slice(..text.len()))?;
        let counted = self.find.count(&stream, &on_device, text.len(), &self.classes)?;
        let count = counted.count as usize;
        let (starts, docs) = (device.buffer(count)?, device.buffer(count)?);
        self.find.write(
            &stream,
            &on_device,
            text.len(),
            &self.classes,
            &counted,
            &starts,
            &docs,
        )?;
        drop(counted);

        let words = Words {
            text: &on_device,
            len: text.len() as u32,
            starts: &starts,
            classes: &self.classes,
            lower: self.rules.lower,
        };
        let slots = device.buffer(count)?;
        let new = loop {
            match self.table.insert(&stream, &words, &slots)? {
                Ok(new) => break new,
                Err(Full::Grow) => _ = self.table.grow(&stream)?,
                Err(Full::Most) => {
                    self.table.clear(&stream)?;
                    return Ok(Inverted::TooManyWords);
                }
            }
        };
        let new = self.terms_of(&new, terms);
        let bits = device.buffer(count.div_ceil(32))?;
        if !self.table.terms(&stream, &words, &new, &slots, &bits)? {
            self.table.clear(&stream)?;
            return Ok(Inverted::Collision);
        }
        drop((starts, on_device));

        // Occurrences of terms, without words that are none.
        let scratch = device.buffer(Compact::scratch_len(count))?;
        let (term, doc) = (device.buffer(count)?, device.buffer(count)?);
        let mut kept = 0;
        if count > 0 {
            self.compact.launch(
                &stream,
                &bits,
                None,
                &[(&slots, &term), (&docs, &doc)],
                &scratch,
            )?;
            kept = stream.download(&scratch.slice(Compact::scratch_len(count) - 1..))?[0] as usize;
        }
        let keys = [&term.slice(..kept), &slots.slice(..kept)];
        let values = [&doc.slice(..kept), &docs.slice(..kept)];
        self.count(keys, values, documents, first_doc, terms.len())
    }

    /// The terms of words as they stand in flat text.
    fn terms_of(&self, words: &[Vec<u8>], terms: &mut Terms) -> Vec<u32> {
        let term = |word: &Vec<u8>| -> Option<String> {
            let mut read = Vec::new();
            let fits = self.rules.read_word(word, &mut read);
            let word = std::str::from_utf8(&read).ok().filter(|_| fits)?;
            self.analyzer.term(word).map(Cow::into_owned)
        };
        // Stemming takes long, so all threads take part.
        let stems: Vec<Option<String>> = words.par_iter().map(term).collect();
        let number = |stem: &Option<String>| match stem {
            Some(stem) => terms.number(stem.as_bytes()),
            None => NO_TERM,
        };
        stems.iter().map(number).collect()
    }

    /// Sorts occurrences (terms, and documents counted from 0) and counts them.
    fn count(
        &self,
        terms: [&Buffer<u32>; 2],
        docs: [&Buffer<u32>; 2],
        documents: u32,
        first_doc: u32,
        all_terms: usize,
    ) -> Result<Inverted, DeviceError> {
        let (stream, device) = (&self.stream, self.stream.device());
        let kept = terms[0].len();
        if kept == 0 {
            let lists = ListBatch { starts: vec![0], ..ListBatch::default() };
            let postings = DevicePostings { docs: device.buffer(0)?, freqs: device.buffer(0)? };
            return Ok(Inverted::Lists(lists, vec![(0, 0); documents as usize], postings));
        }
        let scratch = device.buffer(RadixSort::scratch_len(kept))?;
        let at = self.sort.sort(stream, terms, docs, bits_for(all_terms), &scratch)?;
        let (sorted, docs) = (terms[at], docs[at]);
        let starts = device.buffer(kept + 1)?;
        let count = self.runs(&[sorted, docs], kept, &starts)?;
        let new = || device.buffer::<u32>(count);
        let (posting_terms, posting_docs, freqs) = (new()?, new()?, new()?);
        let lengths = device.buffer::<u32>(documents as usize)?;
        let squares = device.buffer::<u64>(documents as usize)?;
        let most = device.buffer::<u32>(1)?;
        stream.zero(&lengths)?;
        stream.zero(&squares)?;
        stream.zero(&most)?;
        let args = Args::new()
            .buffer(&starts)
            .value(count as u32)
            .buffer(sorted)
            .buffer(docs)
            .value(first_doc)
            .buffer(&self.squares)
            .value(SQUARES)
            .buffer(&posting_terms)
            .buffer(&posting_docs)
            .buffer(&freqs)
            .buffer(&lengths)
            .buffer(&squares)
            .buffer(&most);
        // SAFETY: runs lie within the occurrences, and there is one more start than runs; documents are fewer than `documents`, which the text has.
        unsafe { stream.launch(&self.count, Grid::over(count, THREADS), &args) }?;
        let lists = self.runs(&[&posting_terms], count, &starts)?;
        let terms_of_lists = device.buffer(lists)?;
        let args = Args::new()
            .buffer(&starts)
            .value(lists as u32)
            .buffer(&posting_terms)
            .buffer(&terms_of_lists);
        // SAFETY: runs lie within the postings, and there is room for each.
        unsafe { stream.launch(&self.keys, Grid::over(lists, THREADS), &args) }?;
        let batch = ListBatch {
            terms: stream.download(&terms_of_lists)?,
            starts: stream.download(&starts.slice(..=lists))?,
            docs: self.fetch(&posting_docs)?,
            freqs: self.fetch(&freqs)?,
        };
        let lengths = stream.download(&lengths)?;
        let mut squares = stream.download(&squares)?;
        if stream.download(&most)?[0] > 0 {
            let high = batch.docs.iter().zip(&batch.freqs).filter(|(_, freq)| **freq >= SQUARES);
            for (&doc, &freq) in high {
                squares[(doc - first_doc) as usize] += cosine::square(freq);
            }
        }
        let facts = lengths.into_iter().zip(squares).collect();
        Ok(Inverted::Lists(batch, facts, DevicePostings { docs: posting_docs, freqs }))
    }

    /// Postings of a batch that the CPU has inverted, on the device.
    pub(crate) fn upload(&self, lists: &ListBatch) -> Result<DevicePostings, DeviceError> {
        let upload = |values: &[u32]| self.stream.device().upload(&self.stream, values);
        Ok(DevicePostings { docs: upload(&lists.docs)?, freqs: upload(&lists.freqs)? })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Copies values to the host. The copy to page-locked memory is fast, and all threads take part in moving them on.
    pub(crate) fn fetch<T: Pod + Send + Sync>(
        &self,
        from: &Buffer<T>,
    ) -> Result<Vec<T>, DeviceError> {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if stage.is_none() && from.bytes() >= STAGE / 64 {
            // Without page-locked memory, copies are only slower.
            *stage = self.stream.device().pinned(STAGE).ok();
        }
        let Some(stage) = stage.as_mut() else { return self.stream.download(from) };
        let mut values = Vec::with_capacity(from.len());
        let at_a_time = STAGE / size_of::<T>();
        for start in (0..from.len()).step_by(at_a_time) {
            let part = from.slice(start..from.len().min(start + at_a_time));
            self.stream.copy_out(&part.cast(), stage, 0)?;
            self.stream.synchronize()?;
            let copied: &[T] = bytemuck::cast_slice(&stage.read()?[..part.bytes()]);
            values.par_extend(copied.par_iter().copied());
        }
        Ok(values)
    }

    /// Writes where runs of equal values begin, and the end behind them; returns their number.
    fn runs(
        &self,
        arrays: &[&Buffer<u32>],
        len: usize,
        starts: &Buffer<u32>,
    ) -> Result<usize, DeviceError> {
        let scratch = self.stream.device().buffer(Runs::scratch_len(len))?;
        self.runs.launch(&self.stream, arrays, len, starts, &scratch)?;
        Ok(self.stream.download(&Runs::count(&scratch))?[0] as usize)
    }
}

/// Bits that tell this many numbers apart, at least 1.
pub(crate) fn bits_for(numbers: usize) -> u32 {
    (usize::BITS - numbers.saturating_sub(1).leading_zeros()).max(1)
}

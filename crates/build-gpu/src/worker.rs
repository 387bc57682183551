//! The GPU's work on a batch of text: words, terms, sorted occurrences, postings.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use rayon::prelude::*;
use warpseek_core::cosine;
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::{Buffer, Device, DeviceError, Pinned, Stream};
use warpseek_index::ListBatch;
use warpseek_text::{Analyzer, WordRules};

use crate::kernels::count_postings::{CountPostings, Occurrences, Postings, Sums};
use crate::kernels::find_words::FindWords;
use crate::kernels::word_table::Words;
use crate::terms::{NO_TERM, Terms};
use crate::word_table::{Full, WordTable};

/// Smallest frequency whose square is not in a table on the device. The host adds the squares of
/// these frequencies, which are very rare.
const SQUARES: u32 = 1 << 16;
/// Bytes of page-locked memory through which text and results are copied, twice. Locking memory
/// takes much longer than copying it, and blocks the device.
const STAGE: usize = 8 << 20;

/// The result of a batch that did not fail.
pub(crate) enum Inverted {
    Counted(Counted),
    /// The batch has too many words for the table.
    TooManyWords,
    /// Two words of the batch have the same hash.
    Collision,
}

/// A batch whose postings are only on the device so far.
pub(crate) struct Counted {
    /// Lists of the batch, without documents and frequencies.
    pub(crate) lists: ListBatch,
    /// Length and sum of squares of each document.
    pub(crate) facts: Vec<(u32, u64)>,
    pub(crate) postings: DevicePostings,
}

/// Documents and frequencies of a batch on the device.
#[derive(Clone)]
pub(crate) struct DevicePostings {
    pub(crate) docs: Buffer<u32>,
    pub(crate) freqs: Buffer<u32>,
}

/// Documents and frequencies of a batch on the host.
pub(crate) type HostPostings = (Vec<u32>, Vec<u32>);

impl DevicePostings {
    pub(crate) fn bytes(&self) -> usize {
        self.docs.bytes() + self.freqs.bytes()
    }
}

/// The kernels, and the data that stays on the device between batches.
pub(crate) struct Worker {
    stream: Stream,
    find: FindWords,
    compact: Compact,
    sort: RadixSort,
    runs: Runs,
    count: CountPostings,
    analyzer: Analyzer,
    rules: WordRules,
    classes: Buffer<u8>,
    squares: Buffer<u64>,
    table: WordTable,
    stages: Stages,
    pub(crate) fetcher: Arc<Fetcher>,
}

/// Page-locked memory for copies, or `None` if none is available, which only makes copies slower.
type Stages = Mutex<Option<[Pinned<u8>; 2]>>;

fn stages(device: &Device) -> Stages {
    let two = device.pinned(STAGE).and_then(|one| Ok([one, device.pinned(STAGE)?]));
    Mutex::new(two.ok())
}

/// A copier of values to the host, which works while the device processes the next batch.
pub(crate) struct Fetcher {
    stream: Stream,
    stages: Stages,
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
        let worker = Worker {
            find: FindWords::new(device)?,
            compact: Compact::new(device)?,
            sort: RadixSort::new(device)?,
            runs: Runs::new(device)?,
            count: CountPostings::new(device)?,
            classes: device.upload(&stream, &rules.classes)?,
            squares: device.upload(&stream, &squares)?,
            table: WordTable::new(device, memory / 4)?,
            stages: stages(device),
            fetcher: Arc::new(Fetcher { stream: device.stream()?, stages: stages(device) }),
            stream,
            analyzer,
            rules,
        };
        // Each batch needs about the same buffers as the one before.
        device.keep_freed(memory / 4);
        Ok(worker)
    }

    /// Inverts flat text of documents, the first of which has number `first_doc`. If it fails,
    /// nothing has changed except the words in the table.
    pub(crate) fn invert(
        &mut self,
        pieces: &[Vec<u8>],
        documents: u32,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let inverted = self.try_invert(pieces, documents, first_doc, terms);
        if inverted.is_err() {
            self.table.drop_words();
        }
        inverted
    }

    fn try_invert(
        &mut self,
        pieces: &[Vec<u8>],
        documents: u32,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let stream = self.stream.clone();
        let device = stream.device();
        let len = pieces.iter().map(Vec::len).sum();
        let on_device = device.buffer(FindWords::padded(len))?;
        self.upload_text(pieces, &on_device)?;
        let counted = self.find.count(&stream, &on_device, len, &self.classes)?;
        let count = counted.count as usize;
        let (starts, docs) = (device.buffer(count)?, device.buffer(count)?);
        self.find.write(&stream, &on_device, len, &self.classes, &counted, &starts, &docs)?;
        drop(counted);

        let words = Words {
            text: &on_device,
            len: len as u32,
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

        // These are the occurrences of terms, without words that have no term.
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

    /// Returns the terms of words in the form of flat text.
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
            let facts = vec![(0, 0); documents as usize];
            return Ok(Inverted::Counted(Counted { lists, facts, postings }));
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
        let occurrences = Occurrences { runs: &starts, terms: sorted, docs, first_doc };
        let postings = Postings { terms: &posting_terms, docs: &posting_docs, freqs: &freqs };
        let sums = Sums { lengths: &lengths, squares: &squares, most: &most };
        // SAFETY: runs lie within the occurrences; documents are fewer than `documents`, the
        // number of documents of the text.
        unsafe { self.count.count(stream, &occurrences, &self.squares, &postings, &sums) }?;
        let lists = self.runs(&[&posting_terms], count, &starts)?;
        let terms_of_lists = device.buffer(lists)?;
        // SAFETY: runs lie within the postings.
        unsafe { self.count.keys(stream, &starts, &posting_terms, &terms_of_lists) }?;
        let lists = ListBatch {
            terms: stream.download(&terms_of_lists)?,
            starts: stream.download(&starts.slice(..=lists))?,
            ..ListBatch::default()
        };
        let lengths = stream.download(&lengths)?;
        let mut squares = stream.download(&squares)?;
        let postings = DevicePostings { docs: posting_docs, freqs };
        if stream.download(&most)?[0] > 0 {
            let (docs, freqs) = self.fetcher.postings(&postings)?;
            for (doc, freq) in docs.into_iter().zip(freqs).filter(|pair| pair.1 >= SQUARES) {
                squares[(doc - first_doc) as usize] += cosine::square(freq);
            }
        }
        let facts = lengths.into_iter().zip(squares).collect();
        Ok(Inverted::Counted(Counted { lists, facts, postings }))
    }

    /// Copies the postings of a batch that the CPU has inverted to the device.
    pub(crate) fn upload(&self, lists: &ListBatch) -> Result<DevicePostings, DeviceError> {
        let upload = |values: &[u32]| self.stream.device().upload(&self.stream, values);
        Ok(DevicePostings { docs: upload(&lists.docs)?, freqs: upload(&lists.freqs)? })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Copies text to the device. All threads take part in copying it to page-locked memory; the
    /// copy to the device runs while they copy the next part.
    fn upload_text(&self, pieces: &[Vec<u8>], to: &Buffer<u8>) -> Result<(), DeviceError> {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = 0;
        for (number, part) in in_stages(pieces).iter().enumerate() {
            let end = at + part.iter().map(|piece| piece.len()).sum::<usize>();
            let on_device = to.slice(at..end);
            match stages.as_mut() {
                Some(stages) => {
                    let stage = &mut stages[number % 2];
                    copy_all(part, stage.write()?);
                    self.stream.copy_in(stage, 0, &on_device)?;
                }
                None => self.stream.upload(&part.concat(), &on_device)?,
            }
            at = end;
        }
        Ok(())
    }

    /// Writes the starts of runs of equal values, and the end of the last one; returns their
    /// number.
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

impl Fetcher {
    /// Copies documents and frequencies.
    pub(crate) fn postings(&self, postings: &DevicePostings) -> Result<HostPostings, DeviceError> {
        Ok((self.fetch(&postings.docs)?, self.fetch(&postings.freqs)?))
    }

    /// Copies values, all of which the device must have written. The device copies a part to
    /// page-locked memory while all threads move the previous part on.
    pub(crate) fn fetch<T: Pod + Send + Sync>(
        &self,
        from: &Buffer<T>,
    ) -> Result<Vec<T>, DeviceError> {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some([one, other]) = stages.as_mut() else { return self.stream.download(from) };
        let (mut now, mut next) = (one, other);
        let mut values = Vec::with_capacity(from.len());
        let at_a_time = STAGE / size_of::<T>();
        let part = |start: usize| from.slice(start..from.len().min(start + at_a_time));
        let mut start = 0;
        self.stream.copy_out(&part(start).cast(), now, 0)?;
        while start < from.len() {
            let (copied, after) = (part(start), start + at_a_time);
            if after < from.len() {
                self.stream.copy_out(&part(after).cast(), next, 0)?;
            }
            let copied: &[T] = bytemuck::cast_slice(&now.read()?[..copied.bytes()]);
            values.par_extend(copied.par_iter().copied());
            std::mem::swap(&mut now, &mut next);
            start = after;
        }
        Ok(values)
    }
}

/// Divides pieces of text where a stage is full.
fn in_stages(pieces: &[Vec<u8>]) -> Vec<Vec<&[u8]>> {
    let (mut stages, mut stage, mut room) = (Vec::new(), Vec::new(), STAGE);
    for mut piece in pieces.iter().map(Vec::as_slice) {
        while piece.len() > room {
            let (now, later) = piece.split_at(room);
            stage.push(now);
            stages.push(std::mem::take(&mut stage));
            (piece, room) = (later, STAGE);
        }
        room -= piece.len();
        stage.push(piece);
    }
    stages.push(stage);
    stages
}

/// Copies slices to consecutive places, in parallel.
fn copy_all(from: &[&[u8]], mut to: &mut [u8]) {
    let mut copies = Vec::with_capacity(from.len());
    for from in from {
        let (here, rest) = std::mem::take(&mut to).split_at_mut(from.len());
        copies.push((here, *from));
        to = rest;
    }
    copies.into_par_iter().for_each(|(to, from)| to.copy_from_slice(from));
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stream.device().keep_freed(0);
    }
}

/// Returns the number of bits that distinguish this many numbers, at least 1.
pub(crate) fn bits_for(numbers: usize) -> u32 {
    (usize::BITS - numbers.saturating_sub(1).leading_zeros()).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that all stages except the last are full, whatever the pieces are, and contain all
    /// bytes in order.
    #[test]
    fn text_is_divided_where_a_stage_is_full() {
        for lens in [vec![0], vec![STAGE], vec![1, STAGE], vec![5, 2 * STAGE + 3, 0, STAGE - 8]] {
            let pieces: Vec<Vec<u8>> = lens.iter().map(|&len| vec![len as u8; len]).collect();
            let stages = in_stages(&pieces);
            let full = |stage: &Vec<&[u8]>| stage.concat().len() == STAGE;
            assert!(stages[..stages.len() - 1].iter().all(full), "{lens:?}");
            assert!(stages[stages.len() - 1].concat().len() <= STAGE, "{lens:?}");
            assert!(stages.concat().concat() == pieces.concat(), "{lens:?}");
        }
    }
}

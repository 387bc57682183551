//! The GPU's work on a batch of text: words, terms, sorted occurrences, postings.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use rayon::prelude::*;
use warpseek_core::cosine;
use warpseek_cuda::kernels::compact::Compact;
use warpseek_cuda::kernels::radix_sort::RadixSort;
use warpseek_cuda::kernels::runs::Runs;
use warpseek_cuda::{Buffer, Device, DeviceError, Pinned, Stream};
use warpseek_index::{ListBatch, Values};
use warpseek_text::WordRules;

use crate::batch::Batch;
use crate::kernels::count_postings::{CountPostings, Occurrences, Postings, Sums};
use crate::kernels::find_words::FindWords;
use crate::kernels::token_values::{TokenValues, Tokens};
use crate::kernels::word_table::Words;
use crate::terms::{Analysis, NO_TERM, Terms};
use crate::word_table::{Full, NewWord, WordTable};

/// Smallest frequency whose square is not in a table on the device. The host adds the squares of
/// these frequencies, which are very rare.
const SQUARES: u32 = 1 << 16;
/// Bytes of page-locked memory through which text and results are copied, twice. Locking memory
/// takes much longer than copying it, and blocks the device.
const STAGE: usize = 8 << 20;

/// The result of a batch that did not fail.
pub(crate) enum Inverted {
    Counted(Box<Counted>),
    /// The batch has too many words for the table.
    TooManyWords,
    /// Two words of the batch have the same hash.
    Collision,
}

/// A batch whose postings are only on the device so far.
pub(crate) struct Counted {
    /// Lists of the batch, without documents and frequencies.
    pub(crate) lists: ListBatch,
    /// Length and sum of squares of each section.
    pub(crate) facts: Vec<(u32, u64)>,
    pub(crate) postings: DevicePostings,
    /// The positions of all postings, in their order, if words have positions.
    pub(crate) positions: Option<Buffer<u32>>,
}

/// Documents and frequencies of a batch on the device.
#[derive(Clone)]
pub(crate) struct DevicePostings {
    pub(crate) docs: Buffer<u32>,
    pub(crate) freqs: Buffer<u32>,
}

/// Documents, frequencies and positions of a batch on the host.
pub(crate) type HostPostings = (Vec<u32>, Vec<u32>, Vec<u32>);

/// Occurrences of terms, and buffers of the same length to sort them in.
struct Sorting<'a> {
    terms: [&'a Buffer<u32>; 2],
    sections: [&'a Buffer<u32>; 2],
    /// The values of tokens.
    values: Option<Buffer<u32>>,
}

/// Occurrences in the order of terms, then of sections.
struct Sorted<'a> {
    terms: &'a Buffer<u32>,
    sections: &'a Buffer<u32>,
    values: Option<Buffer<u32>>,
}

/// The documents of a batch.
#[derive(Clone, Copy)]
struct Range {
    documents: usize,
    first_doc: u32,
    kind: Values,
}

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
    values: TokenValues,
    analysis: Analysis,
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
        analysis: &Analysis,
        memory: u64,
    ) -> Result<Self, DeviceError> {
        let stream = device.stream()?;
        let rules = analysis.rules();
        let squares: Vec<u64> =
            (0..SQUARES).map(|f| if f == 0 { 0 } else { cosine::square(f) }).collect();
        let worker = Worker {
            find: FindWords::new(device)?,
            compact: Compact::new(device)?,
            sort: RadixSort::new(device)?,
            runs: Runs::new(device)?,
            count: CountPostings::new(device)?,
            values: TokenValues::new(device)?,
            classes: device.upload(&stream, &rules.classes)?,
            squares: device.upload(&stream, &squares)?,
            table: WordTable::new(device, memory / 4)?,
            stages: stages(device),
            fetcher: Arc::new(Fetcher { stream: device.stream()?, stages: stages(device) }),
            stream,
            analysis: analysis.clone(),
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
        batch: &Batch,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let inverted = self.try_invert(batch, first_doc, terms);
        if inverted.is_err() {
            self.table.drop_words();
        }
        inverted
    }

    fn try_invert(
        &mut self,
        batch: &Batch,
        first_doc: u32,
        terms: &mut Terms,
    ) -> Result<Inverted, DeviceError> {
        let kind = batch.rest.kind;
        let stream = self.stream.clone();
        let device = stream.device();
        let len = batch.bytes;
        let on_device = device.buffer(FindWords::padded(len))?;
        self.upload_text(&batch.pieces, &on_device)?;
        let counted = self.find.count(&stream, &on_device, len, &self.classes)?;
        let count = counted.count as usize;
        let (starts, sections) = (device.buffer(count)?, device.buffer(count)?);
        self.find.write(&stream, &on_device, len, &self.classes, &counted, &starts, &sections)?;
        drop(counted);
        let values = match kind {
            Values::None => None,
            _ => {
                assert_eq!(batch.rest.values.len(), count, "values of tokens");
                Some(device.upload(&stream, &batch.rest.values)?)
            }
        };

        let words = Words {
            text: &on_device,
            len: len as u32,
            starts: &starts,
            sections: &sections,
            fields: self.analysis.fields,
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
        let new = self.terms_of(kind, &new, terms);
        let bits = device.buffer(count.div_ceil(32))?;
        if !self.table.terms(&stream, &words, &new, &slots, &bits)? {
            self.table.clear(&stream)?;
            return Ok(Inverted::Collision);
        }
        drop((starts, on_device));

        // These are the occurrences of terms, without words that have no term.
        let scratch = device.buffer(Compact::scratch_len(count))?;
        let (term, section) = (device.buffer(count)?, device.buffer(count)?);
        let value = device.buffer(if values.is_some() { count } else { 0 })?;
        let mut kept = 0;
        if count > 0 {
            let mut arrays = vec![(&slots, &term), (&sections, &section)];
            arrays.extend(values.as_ref().map(|values| (values, &value)));
            self.compact.launch(&stream, &bits, None, &arrays, &scratch)?;
            kept = stream.download(&scratch.slice(Compact::scratch_len(count) - 1..))?[0] as usize;
        }
        let sorting = Sorting {
            terms: [&term.slice(..kept), &slots.slice(..kept)],
            sections: [&section.slice(..kept), &sections.slice(..kept)],
            values: values.map(|_| value.slice(..kept)),
        };
        let range = Range { documents: batch.documents(), first_doc, kind };
        self.count(sorting, range, terms.len())
    }

    /// Returns the terms of words in the form of flat text.
    fn terms_of(&self, kind: Values, words: &[NewWord], terms: &mut Terms) -> Vec<u32> {
        let term = |(field, word): &NewWord| -> Option<Vec<u8>> {
            let mut read = Vec::new();
            let fits = self.rules.read_word(word, &mut read);
            self.analysis.term(kind, *field, &read).filter(|_| fits)
        };
        // Stemming takes long, so all threads take part.
        let stems: Vec<Option<Vec<u8>>> = words.par_iter().map(term).collect();
        let number = |stem: &Option<Vec<u8>>| match stem {
            Some(stem) => terms.number(stem),
            None => NO_TERM,
        };
        stems.iter().map(number).collect()
    }

    /// Sorts occurrences, which are in the order of sections, by term.
    fn sort_occurrences<'a>(
        &self,
        sorting: Sorting<'a>,
        all_terms: usize,
    ) -> Result<Sorted<'a>, DeviceError> {
        let Sorting { terms, sections, values } = sorting;
        let (stream, device, kept) = (&self.stream, self.stream.device(), terms[0].len());
        let (bits, scratch) = (bits_for(all_terms), device.buffer(RadixSort::scratch_len(kept))?);
        let Some(values) = values else {
            let at = self.sort.sort(stream, terms, sections, bits, &scratch)?;
            return Ok(Sorted { terms: terms[at], sections: sections[at], values: None });
        };
        let (numbers, others) = (device.buffer(kept)?, device.buffer(kept)?);
        self.values.number(stream, &numbers)?;
        let numbers = [&numbers, &others];
        let at = self.sort.sort(stream, terms, numbers, bits, &scratch)?;
        // The numbers that the sort no longer needs make room for the values.
        let sorted = Tokens { docs: sections[1], values: numbers[1 - at] };
        let unsorted = Tokens { docs: sections[0], values: &values };
        // SAFETY: sorted numbers are a permutation of those of the tokens.
        unsafe { self.values.gather(stream, numbers[at], unsorted, sorted) }?;
        let values = Some(numbers[1 - at].clone());
        Ok(Sorted { terms: terms[at], sections: sections[1], values })
    }

    /// Sorts occurrences (terms, and sections counted from 0) and counts them.
    fn count(
        &self,
        sorting: Sorting<'_>,
        range: Range,
        all_terms: usize,
    ) -> Result<Inverted, DeviceError> {
        let (stream, device) = (&self.stream, self.stream.device());
        let Range { documents, first_doc, kind } = range;
        let (fields, kept) = (self.analysis.fields, sorting.terms[0].len());
        if kept == 0 {
            let lists = ListBatch { starts: vec![0], ..ListBatch::default() };
            let postings = DevicePostings { docs: device.buffer(0)?, freqs: device.buffer(0)? };
            let facts = vec![(0, 0); documents * fields];
            let counted = Counted { lists, facts, postings, positions: None };
            return Ok(Inverted::Counted(Box::new(counted)));
        }
        let Sorted { terms: sorted, sections, values } =
            self.sort_occurrences(sorting, all_terms)?;
        let starts = device.buffer(kept + 1)?;
        let count = self.runs(&[sorted, sections], kept, &starts)?;
        let new = || device.buffer::<u32>(count);
        let (posting_terms, posting_docs, freqs) = (new()?, new()?, new()?);
        let lengths = device.buffer::<u32>(documents * fields)?;
        let squares = device.buffer::<u64>(documents * fields)?;
        let most = device.buffer::<u32>(1)?;
        stream.zero(&lengths)?;
        stream.zero(&squares)?;
        stream.zero(&most)?;
        let occurrences = Occurrences { runs: &starts, terms: sorted, sections, fields, first_doc };
        let postings = Postings { terms: &posting_terms, docs: &posting_docs, freqs: &freqs };
        let sums = Sums { lengths: &lengths, squares: &squares, most: &most };
        // SAFETY: runs lie within the occurrences; sections are fewer than those of `documents`,
        // the number of documents of the text.
        unsafe { self.count.count(stream, &occurrences, &self.squares, &postings, &sums) }?;
        if let (Some(values), Values::Weights | Values::Maps) = (&values, kind) {
            let as_bits = kind == Values::Maps;
            // SAFETY: there are as many values as occurrences, in the same order.
            unsafe { self.values.combine(stream, &starts, values, as_bits, &freqs) }?;
        }
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
        // With several fields, there are no norms.
        if fields == 1 && stream.download(&most)?[0] > 0 {
            let (docs, freqs, _) = self.fetcher.postings(&postings, None)?;
            for (doc, freq) in docs.into_iter().zip(freqs).filter(|pair| pair.1 >= SQUARES) {
                squares[(doc - first_doc) as usize] += cosine::square(freq);
            }
        }
        let facts = lengths.into_iter().zip(squares).collect();
        let positions = values.filter(|_| kind == Values::Positions);
        Ok(Inverted::Counted(Box::new(Counted { lists, facts, postings, positions })))
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
    /// Copies documents and frequencies, and positions if there are any.
    pub(crate) fn postings(
        &self,
        postings: &DevicePostings,
        positions: Option<&Buffer<u32>>,
    ) -> Result<HostPostings, DeviceError> {
        let positions = positions.map_or(Ok(Vec::new()), |positions| self.fetch(positions))?;
        Ok((self.fetch(&postings.docs)?, self.fetch(&postings.freqs)?, positions))
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
    use std::sync::Arc;

    use warpseek_index::TextBatch;
    use warpseek_text::{Analyzer, END_OF_DOCUMENT, Schema, Scratch};

    use super::*;

    /// Tests that words of different fields do not have the same hash, which would leave every
    /// batch to the CPU: all words of three letters, in three fields.
    #[test]
    fn similar_words_of_several_fields_do_not_collide() {
        let fields = [r#"{"name": "a"}"#, r#"{"name": "b"}"#, r#"{"name": "c"}"#].join(",");
        let schema =
            Schema::parse(&format!(r#"{{"text": [{fields}]}}"#)).unwrap_or_else(|e| panic!("{e}"));
        let letters = || 'a'..='z';
        let words =
            letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| (a, b, c))));
        let words: String = words.map(|(a, b, c)| format!("{a}{b}{c} ")).collect();
        let mut documents = TextBatch { documents: 1, ..TextBatch::default() };
        for field in 0..3 {
            schema.analyzer(field).flatten(&mut Scratch::default(), &words, &mut documents.text);
            documents.text.push(END_OF_DOCUMENT);
        }
        let analysis =
            Analysis { analyzer: Analyzer::Plain, schema: Some(Arc::new(schema)), fields: 3 };
        // SAFETY: the emulator's own function.
        let device = unsafe { Device::emulated(warpseek_cuda_emulator::symbol, 0, None) };
        let device = device.unwrap_or_else(|error| panic!("{error}"));
        let mut worker = Worker::new(&device, &analysis, 1 << 30).unwrap_or_else(|e| panic!("{e}"));
        let inverted = worker.invert(&documents.into(), 0, &mut Terms::default());
        match inverted.unwrap_or_else(|error| panic!("{error}")) {
            Inverted::Counted(counted) => {
                let lengths: Vec<u32> = counted.facts.iter().map(|fact| fact.0).collect();
                assert!(lengths.iter().all(|&length| length > 17_000), "{lengths:?}");
            }
            Inverted::Collision => panic!("two words have the same hash"),
            Inverted::TooManyWords => panic!("the table is full"),
        }
    }

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

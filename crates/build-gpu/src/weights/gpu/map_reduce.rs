//! Weights by MapReduce on a GPU, in the manner of Mars: the method MRM of (Wakatsuki 2016).
//!
//! Map and reduce run twice each, to count their outputs and to write them; between them pairs
//! are sorted by their words, as strings, and grouped. A thread processes a whole document or a
//! whole term.

use rayon::prelude::*;

use super::*;
use crate::kernels::map_reduce::{Documents, Groups, MapReduce, Reduced};

impl GpuWeigher {
    /// Computes the weights of a text that fits on the device.
    pub(super) fn map_reduce(
        &mut self,
        kernels: &MapReduce,
        text: HostText<'_>,
        function: RankingFunction,
    ) -> Result<(Weights<'_>, Steps), WeighError> {
        let (stream, device) = (self.stream.clone(), self.stream.device().clone());
        let mut clock = Clock::start(&stream)?;
        // The host divides the input into the records of the map step, as that of Mars does.
        let split = starts_of_documents(text.bytes()?);
        let documents = split.len() - 1;
        let on_device = self.room::<u8>("text", FindWords::padded(text.len()))?;
        let starts = self.room("starts of documents", split.len())?;
        match text {
            HostText::Pinned(pinned, len) => stream.copy_in(pinned, 0, &on_device.slice(..len))?,
            HostText::Slice(bytes) => stream.upload(bytes, &on_device.slice(..bytes.len()))?,
        }
        stream.upload(&split, &starts)?;
        clock.done(Step::CopyIn)?;

        let input = Documents { text: &on_device, starts: &starts };
        let (lengths, places) = (self.room("lengths", documents)?, self.room("places", documents)?);
        // SAFETY: documents lie within the text, and each ends with a byte of its own.
        unsafe { kernels.map_count(&stream, &input, &lengths) }?;
        let words = self.places(&lengths, &places)?;
        let (keys, values) = (self.room("starts", words)?, self.room("docs", words)?);
        // SAFETY: as above; places are the sums of the lengths, of which there are `words`.
        unsafe { kernels.map_emit(&stream, &input, &places, (&keys, &values)) }?;
        clock.done(Step::Map)?;

        let (terms, docs, distinct) =
            self.sort_strings((&on_device, text.len() as u32), &keys, &values)?;
        let group_starts = self.room("run starts", words + 1)?;
        let lists = self.count_runs(&[&terms], words, &group_starts)?;
        let group_starts = group_starts.slice(..=lists);
        clock.done(Step::Shuffle)?;

        let weigher = Weigher::new(function, documents as u32, words as u64);
        let weigher = weigher.ok_or(NoWeights(function))?;
        let idfs = weigher.terms(documents as u32);
        let idfs_on_device = self.room("idfs", idfs.len())?;
        stream.upload(&idfs, &idfs_on_device)?;
        let groups = Groups { starts: &group_starts, docs: &docs };
        let list_starts = self.room("list starts", lists + 1)?;
        // SAFETY: groups are runs of the words.
        unsafe { kernels.reduce_count(&stream, &groups, &list_starts) }?;
        let count = self.places(&list_starts, &list_starts)?;
        let (docs, bits) = (self.room("posting docs", count)?, self.room("frequencies", count)?);
        let reduced = Reduced { starts: &list_starts, docs: &docs, weights: &bits };
        let of_documents = (&lengths, &idfs_on_device);
        let saturation = weigher.saturation;
        // SAFETY: as above; there is a weight for each number of documents, and a length for each
        // document.
        unsafe { kernels.reduce_emit(&stream, &groups, of_documents, saturation, &reduced) }?;
        clock.done(Step::Reduce)?;

        let mut docs_out = pinned(&device, self.docs_out.take(), count)?;
        let mut weights_out = pinned(&device, self.weights_out.take(), count)?;
        stream.copy_out(&docs, &mut docs_out, 0)?;
        stream.copy_out(&bits.cast::<f32>(), &mut weights_out, 0)?;
        let terms = stream.download(&distinct.slice(..lists))?;
        let starts = stream.download(&list_starts)?;
        clock.done(Step::CopyOut)?;
        let steps = clock.stop()?;
        let (docs, weights) =
            (self.docs_out.insert(docs_out), self.weights_out.insert(weights_out));
        let weights = Weights {
            words: words as u64,
            documents: documents as u32,
            terms: Cow::Owned(terms),
            starts: Cow::Owned(starts),
            docs: Cow::Borrowed(&docs.read()?[..count]),
            weights: Cow::Borrowed(&weights.read()?[..count]),
        };
        Ok((weights, steps))
    }

    /// Writes the place of each output, given the numbers of outputs; returns the sum of these.
    fn places(&mut self, counts: &Buffer<u32>, places: &Buffer<u32>) -> Result<usize, DeviceError> {
        if counts.is_empty() {
            return Ok(0);
        }
        let len = Scan::scratch_len(counts.len());
        let scratch = self.room("scratch of scan", len)?;
        self.scan.launch(&self.stream, counts, places, &scratch)?;
        Ok(self.stream.download(&scratch.slice(len - 1..len))?[0] as usize)
    }
}

/// Returns the start of each document, and the end of the last one.
fn starts_of_documents(text: &[u8]) -> Vec<u32> {
    /// Bytes that a thread processes at a time.
    const AT_A_TIME: usize = 1 << 20;
    let ends = text.par_chunks(AT_A_TIME).enumerate().flat_map_iter(|(number, chunk)| {
        let ends = chunk.iter().enumerate().filter(|(_, byte)| **byte == END_OF_DOCUMENT);
        ends.map(move |(at, _)| (number * AT_A_TIME + at + 1) as u32)
    });
    let mut starts = vec![0];
    starts.par_extend(ends);
    starts
}

//! Lengths of documents, frequencies and weights from sorted words.
#![allow(unsafe_code)]

use warpseek_core::saturation::Saturation;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{TYPES, WEIGHT};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "weigh", text: include_str!("kernel.cu"), headers: &[TYPES, WEIGHT] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct Weigh {
    lengths: Kernel,
    postings: Kernel,
    weights: Kernel,
}

/// Words, sorted and divided into runs of the same term and document.
pub(crate) struct SortedWords<'a> {
    /// The start of each run, and the end of the last one.
    pub(crate) runs: &'a Buffer<u32>,
    /// The term of each word.
    pub(crate) terms: &'a Buffer<u32>,
    /// The document of each word, counted from 0.
    pub(crate) docs: &'a Buffer<u32>,
}

/// The buffers that postings are written to, one for each run.
pub(crate) struct Postings<'a> {
    pub(crate) terms: &'a Buffer<u32>,
    pub(crate) docs: &'a Buffer<u32>,
    pub(crate) freqs: &'a Buffer<u32>,
}

/// Postings in lists, with the numbers that their weights are computed from.
pub(crate) struct Lists<'a> {
    /// The list of each posting.
    pub(crate) list_of: &'a Buffer<u32>,
    /// The start of each list, and the end of the last one.
    pub(crate) starts: &'a Buffer<u32>,
    /// The document of each posting.
    pub(crate) docs: &'a Buffer<u32>,
    /// The length of each document.
    pub(crate) lengths: &'a Buffer<u32>,
    /// The weight of a term by its number of documents.
    pub(crate) idfs: &'a Buffer<f32>,
}

impl Weigh {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(Weigh {
            lengths: device.kernel(&SOURCE, "weigh_lengths")?,
            postings: device.kernel(&SOURCE, "weigh_postings")?,
            weights: device.kernel(&SOURCE, "weigh_weights")?,
        })
    }

    /// Writes the length of each document that has words, from the runs of equal documents, of
    /// which there are `count`, a number in device memory.
    ///
    /// # Safety
    /// Runs must lie within `docs`, with the end of the last one behind their starts; documents
    /// must be below the number of lengths.
    ///
    /// # Panics
    /// Panics if there may be more runs than starts.
    pub(crate) unsafe fn lengths(
        &self,
        stream: &Stream,
        runs: &Buffer<u32>,
        count: &Buffer<u32>,
        docs: &Buffer<u32>,
        lengths: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let most = lengths.len();
        assert!(runs.len() > most, "starts of {most} runs");
        let args = Args::new().buffer(runs).buffer(&count.slice(..1)).buffer(docs).buffer(lengths);
        // SAFETY: there are at most as many runs as documents; the caller promises the rest.
        unsafe { stream.launch(&self.lengths, Grid::over(most, THREADS), &args) }
    }

    /// Writes a posting for each run.
    ///
    /// # Safety
    /// Runs must lie within the words.
    ///
    /// # Panics
    /// Panics if lengths differ, or if there is not one more start than postings.
    pub(crate) unsafe fn postings(
        &self,
        stream: &Stream,
        words: &SortedWords<'_>,
        postings: &Postings<'_>,
    ) -> Result<(), DeviceError> {
        let count = postings.terms.len();
        assert!(postings.docs.len() == count && postings.freqs.len() == count, "postings");
        assert!(words.runs.len() > count, "starts of {count} runs");
        assert_eq!(words.terms.len(), words.docs.len(), "words");
        let args = Args::new()
            .buffer(words.runs)
            .value(count as u32)
            .buffer(words.terms)
            .buffer(words.docs)
            .buffer(postings.terms)
            .buffer(postings.docs)
            .buffer(postings.freqs);
        // SAFETY: lengths were checked; the caller promises the rest.
        unsafe { stream.launch(&self.postings, Grid::over(count, THREADS), &args) }
    }

    /// Replaces the frequency of each posting by the bits of its weight.
    ///
    /// # Safety
    /// Every posting must have a list, a document with a length, and a number of documents for
    /// which there is a weight.
    ///
    /// # Panics
    /// Panics if there are not as many documents and lists of postings as frequencies.
    pub(crate) unsafe fn weights(
        &self,
        stream: &Stream,
        lists: &Lists<'_>,
        saturation: Saturation,
        freqs: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = freqs.len();
        assert!(lists.list_of.len() == count && lists.docs.len() == count, "postings");
        let args = Args::new()
            .buffer(lists.list_of)
            .buffer(lists.starts)
            .value(count as u32)
            .buffer(lists.docs)
            .buffer(lists.lengths)
            .buffer(lists.idfs)
            .value(saturation.fixed)
            .value(saturation.by_length)
            .buffer(freqs);
        // SAFETY: lengths were checked; the caller promises the rest.
        unsafe { stream.launch(&self.weights, Grid::over(count, THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
    }
}

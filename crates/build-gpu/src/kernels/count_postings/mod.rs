//! Postings from sorted occurrences of terms.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::TYPES;

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "count_postings", text: include_str!("kernel.cu"), headers: &[TYPES] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct CountPostings {
    count: Kernel,
    keys: Kernel,
}

/// Occurrences of terms, sorted and divided into runs of the same term and section.
pub(crate) struct Occurrences<'a> {
    /// The start of each run, and the end of the last one.
    pub(crate) runs: &'a Buffer<u32>,
    /// The term of each occurrence.
    pub(crate) terms: &'a Buffer<u32>,
    /// The section of each occurrence, counted from 0.
    pub(crate) sections: &'a Buffer<u32>,
    /// Number of sections of a document.
    pub(crate) fields: usize,
    /// The number that the first document gets.
    pub(crate) first_doc: u32,
}

/// The buffers that postings are written to, one for each run.
pub(crate) struct Postings<'a> {
    pub(crate) terms: &'a Buffer<u32>,
    pub(crate) docs: &'a Buffer<u32>,
    pub(crate) freqs: &'a Buffer<u32>,
}

/// The sums over sections, which must be 0 before.
pub(crate) struct Sums<'a> {
    /// The length of each section.
    pub(crate) lengths: &'a Buffer<u32>,
    /// The sum of squares of each section, without those that the table does not have.
    pub(crate) squares: &'a Buffer<u64>,
    /// The largest frequency whose square the table does not have.
    pub(crate) most: &'a Buffer<u32>,
}

impl CountPostings {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(CountPostings {
            count: device.kernel(&SOURCE, "count_postings")?,
            keys: device.kernel(&SOURCE, "keys_of_runs")?,
        })
    }

    /// Writes a posting for each run, and adds its frequency to the sums of its section.
    /// `squares` is the table of squares by frequency.
    ///
    /// # Safety
    /// Runs must lie within the occurrences, and sections must be below the number of sums.
    ///
    /// # Panics
    /// Panics if lengths differ, if there is not one more start than postings, or if there are no
    /// fields.
    pub(crate) unsafe fn count(
        &self,
        stream: &Stream,
        occurrences: &Occurrences<'_>,
        squares: &Buffer<u64>,
        postings: &Postings<'_>,
        sums: &Sums<'_>,
    ) -> Result<(), DeviceError> {
        let count = postings.terms.len();
        assert!(postings.docs.len() == count && postings.freqs.len() == count, "postings");
        assert!(occurrences.runs.len() > count, "starts of {count} runs");
        assert_eq!(occurrences.terms.len(), occurrences.sections.len(), "occurrences");
        assert!(occurrences.fields > 0, "documents without sections");
        assert_eq!(sums.lengths.len(), sums.squares.len(), "sums of sections");
        let args = Args::new()
            .buffer(occurrences.runs)
            .value(count as u32)
            .buffer(occurrences.terms)
            .buffer(occurrences.sections)
            .value(occurrences.fields as u32)
            .value(occurrences.first_doc)
            .buffer(squares)
            .value(squares.len() as u32)
            .buffer(postings.terms)
            .buffer(postings.docs)
            .buffer(postings.freqs)
            .buffer(sums.lengths)
            .buffer(sums.squares)
            .buffer(&sums.most.slice(..1));
        // SAFETY: lengths were checked; the caller promises the rest.
        unsafe { stream.launch(&self.count, Grid::over(count, THREADS), &args) }
    }

    /// Writes the key of each run of sorted keys; there are as many runs as elements of `out`.
    ///
    /// # Safety
    /// Runs must lie within the keys.
    ///
    /// # Panics
    /// Panics if there are fewer starts than runs.
    pub(crate) unsafe fn keys(
        &self,
        stream: &Stream,
        runs: &Buffer<u32>,
        keys: &Buffer<u32>,
        out: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = out.len();
        assert!(runs.len() >= count, "starts of {count} runs");
        let args = Args::new().buffer(runs).value(count as u32).buffer(keys).buffer(out);
        // SAFETY: as above.
        unsafe { stream.launch(&self.keys, Grid::over(count, THREADS), &args) }
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

//! Term weights by MapReduce: a thread for each document, then one for each term.
#![allow(unsafe_code)]

use warpseek_core::saturation::Saturation;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{TYPES, WEIGHT};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "map_reduce", text: include_str!("kernel.cu"), headers: &[TYPES, WEIGHT] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct MapReduce {
    map_count: Kernel,
    map_emit: Kernel,
    reduce_count: Kernel,
    reduce_emit: Kernel,
}

/// Documents, whose words end with newlines.
pub(crate) struct Documents<'a> {
    pub(crate) text: &'a Buffer<u8>,
    /// The start of each document, and the end of the last one. The last byte of a document only
    /// ends it.
    pub(crate) starts: &'a Buffer<u32>,
}

/// Documents, grouped by term.
pub(crate) struct Groups<'a> {
    /// The start of each group, and the end of the last one.
    pub(crate) starts: &'a Buffer<u32>,
    /// The documents, which ascend within a group. One that has a term several times occurs as
    /// often.
    pub(crate) docs: &'a Buffer<u32>,
}

/// The lists into which groups are reduced.
pub(crate) struct Reduced<'a> {
    /// The start of each list, and the end of the last one.
    pub(crate) starts: &'a Buffer<u32>,
    pub(crate) docs: &'a Buffer<u32>,
    /// The bits of the weights.
    pub(crate) weights: &'a Buffer<u32>,
}

impl MapReduce {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        let kernel = |name| device.kernel(&SOURCE, name);
        Ok(MapReduce {
            map_count: kernel("map_count")?,
            map_emit: kernel("map_emit")?,
            reduce_count: kernel("reduce_count")?,
            reduce_emit: kernel("reduce_emit")?,
        })
    }

    /// Writes the number of words of each document.
    ///
    /// # Safety
    /// Documents must lie within the text and have at least the byte that ends them.
    ///
    /// # Panics
    /// Panics if there is not one more start than lengths.
    pub(crate) unsafe fn map_count(
        &self,
        stream: &Stream,
        documents: &Documents<'_>,
        lengths: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = lengths.len();
        assert_eq!(documents.starts.len(), count + 1, "starts of {count} documents");
        let args = Args::new().buffer(documents.text).buffer(documents.starts);
        let args = args.value(count as u32).buffer(lengths);
        // SAFETY: there is a length for each document; the caller promises the rest.
        unsafe { stream.launch(&self.map_count, Grid::over(count, THREADS), &args) }
    }

    /// Writes a pair for each word of each document: the position of the word, and the document.
    ///
    /// # Safety
    /// As for [`MapReduce::map_count`]. The pairs of each document must begin at its place, and
    /// those of the last one must end with the pairs.
    ///
    /// # Panics
    /// Panics if lengths differ.
    pub(crate) unsafe fn map_emit(
        &self,
        stream: &Stream,
        documents: &Documents<'_>,
        places: &Buffer<u32>,
        (keys, values): (&Buffer<u32>, &Buffer<u32>),
    ) -> Result<(), DeviceError> {
        let count = places.len();
        assert_eq!(documents.starts.len(), count + 1, "starts of {count} documents");
        assert_eq!(keys.len(), values.len(), "pairs");
        let args = Args::new().buffer(documents.text).buffer(documents.starts);
        let args = args.value(count as u32).buffer(places).buffer(keys).buffer(values);
        // SAFETY: lengths were checked; the caller promises the rest.
        unsafe { stream.launch(&self.map_emit, Grid::over(count, THREADS), &args) }
    }

    /// Writes the number of distinct documents of each group, and 0 behind the last one.
    ///
    /// # Safety
    /// Groups must lie within the documents.
    ///
    /// # Panics
    /// Panics if there are not as many numbers as starts, or no starts.
    pub(crate) unsafe fn reduce_count(
        &self,
        stream: &Stream,
        groups: &Groups<'_>,
        dfs: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let starts = groups.starts.len();
        assert!(starts > 0 && dfs.len() == starts, "numbers of documents of {starts} groups");
        let args = Args::new().buffer(groups.starts).value((starts - 1) as u32);
        let args = args.buffer(groups.docs).buffer(dfs);
        // SAFETY: there is a number for each start; the caller promises the rest.
        unsafe { stream.launch(&self.reduce_count, Grid::over(starts, THREADS), &args) }
    }

    /// Writes the documents and weights of each group. `lengths` has the length of each document,
    /// and `idfs` the weight of a term by its number of documents.
    ///
    /// # Safety
    /// Groups must lie within the documents, which must have lengths; lists must begin where the
    /// sums of the numbers of [`MapReduce::reduce_count`] are, and end with the lists' documents;
    /// each number must have a weight.
    ///
    /// # Panics
    /// Panics if lengths differ, or if there are no starts.
    pub(crate) unsafe fn reduce_emit(
        &self,
        stream: &Stream,
        groups: &Groups<'_>,
        (lengths, idfs): (&Buffer<u32>, &Buffer<f32>),
        saturation: Saturation,
        reduced: &Reduced<'_>,
    ) -> Result<(), DeviceError> {
        let starts = groups.starts.len();
        assert!(starts > 0 && reduced.starts.len() == starts, "starts of {starts} groups");
        assert_eq!(reduced.docs.len(), reduced.weights.len(), "reduced postings");
        let args = Args::new()
            .buffer(groups.starts)
            .value((starts - 1) as u32)
            .buffer(groups.docs)
            .buffer(reduced.starts)
            .buffer(lengths)
            .buffer(idfs)
            .value(saturation.fixed)
            .value(saturation.by_length)
            .buffer(reduced.docs)
            .buffer(reduced.weights);
        // SAFETY: lengths were checked; the caller promises the rest.
        unsafe { stream.launch(&self.reduce_emit, Grid::over(starts - 1, THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::weights::END_OF_WORD;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
        assert_eq!(kernel.get("END_OF_WORD"), u64::from(END_OF_WORD));
    }
}

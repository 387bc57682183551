//! The published algorithms, list by list over all documents and bin by bin.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_index::BIN;

use super::common::{MAP_LISTS, SCAN, SLOTS, TYPES, WARP};
use super::map_lists::{ImageView, QueryBatch};
use super::ngram_look_up::HitView;

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "ngram_published",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, SLOTS, WARP, MAP_LISTS],
};

/// Threads of a block, which prune one part of a bin each. The test
/// `constants_equal_those_of_the_kernel` compares this constant and the next.
const THREADS: u32 = 256;
/// Words of the counts of a part.
const WORDS: usize = 8;

/// Number of blocks of threads for each multiprocessor, which share all parts.
const BLOCKS: u32 = 8;

/// The counts of all parts, and the flags of those that may still be hits.
pub(crate) struct Counts {
    words: Buffer<u32>,
    alive: Buffer<u8>,
}

impl Counts {
    /// Allocates counts for this many parts, none of which may be a hit yet.
    pub(crate) fn new(stream: &Stream, parts: u32) -> Result<Self, DeviceError> {
        let device = stream.device();
        let words = device.buffer(parts as usize * WORDS)?;
        let alive = device.buffer(parts as usize)?;
        stream.zero(&alive)?;
        Ok(Counts { words, alive })
    }

    fn parts(&self) -> usize {
        self.alive.len()
    }

    fn view(&self) -> CountsView {
        CountsView { words: self.words.address(), alive: self.alive.address() }
    }
}

/// The buffers that hits are written to.
pub(crate) struct Hits<'a> {
    /// The hits.
    pub(crate) hits: &'a Buffer<HitView>,
    /// The number of hits: 0 at the beginning.
    pub(crate) found: &'a Buffer<u32>,
}

impl Hits<'_> {
    fn view(&self, most: usize) -> HitsView {
        assert!(self.hits.len() >= most && !self.found.is_empty(), "space for {most} hits");
        HitsView { hits: self.hits.address(), found: self.found.address() }
    }
}

/// The kernels' `Hits`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct HitsView {
    hits: u64,
    found: u64,
}

/// The kernels' `AllCounts`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct CountsView {
    words: u64,
    alive: u64,
}

/// The kernels, ready to launch.
///
/// Kernels trust the addresses in an image, and those of counts and hits: their memory must stay
/// allocated until a kernel has ended.
#[derive(Debug, Clone)]
pub(crate) struct NgramPublished {
    matches: Kernel,
    prune: Kernel,
    collect: Kernel,
    bins: Kernel,
    blocks: u32,
}

impl NgramPublished {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(NgramPublished {
            matches: device.kernel(&SOURCE, "ngram_match")?,
            prune: device.kernel(&SOURCE, "ngram_prune")?,
            collect: device.kernel(&SOURCE, "ngram_collect")?,
            bins: device.kernel(&SOURCE, "ngram_bins")?,
            blocks: device.info().multiprocessors * BLOCKS,
        })
    }

    /// Counts the entries of a list. With `gathers`, its parts may become hits; otherwise only
    /// those that may be hits already are counted.
    ///
    /// # Safety
    /// See [`NgramPublished`]; the image must have a list with this ordinal.
    ///
    /// # Panics
    /// Panics if there are not counts for all parts of the image.
    pub(crate) unsafe fn count_list(
        &self,
        stream: &Stream,
        image: ImageView,
        ordinal: u32,
        window: u32,
        gathers: bool,
        counts: &Counts,
    ) -> Result<(), DeviceError> {
        assert_eq!(counts.parts(), image.parts as usize, "counts of parts");
        let args = Args::new()
            .value(image)
            .value(ordinal)
            .value(window)
            .value(u32::from(gathers))
            .value(counts.view());
        // SAFETY: there are counts for all parts; the caller promises the rest.
        unsafe { stream.launch(&self.matches, self.grid(), &args) }
    }

    /// Prunes the parts with a score below `minimum`.
    ///
    /// # Safety
    /// See [`NgramPublished`].
    pub(crate) unsafe fn prune(
        &self,
        stream: &Stream,
        minimum: u32,
        counts: &Counts,
    ) -> Result<(), DeviceError> {
        let parts = counts.parts() as u32;
        let args = Args::new().value(parts).value(minimum).value(counts.view());
        // SAFETY: as above.
        unsafe { stream.launch(&self.prune, self.grid(), &args) }
    }

    /// Writes the parts that are left as hits of query 0.
    ///
    /// # Safety
    /// See [`NgramPublished`].
    ///
    /// # Panics
    /// Panics if there may be more hits than fit.
    pub(crate) unsafe fn collect(
        &self,
        stream: &Stream,
        counts: &Counts,
        hits: &Hits<'_>,
    ) -> Result<(), DeviceError> {
        let parts = counts.parts();
        let args = Args::new().value(parts as u32).value(counts.view()).value(hits.view(parts));
        // SAFETY: there is space for all parts as hits; the caller promises the rest.
        unsafe { stream.launch(&self.collect, self.grid(), &args) }
    }

    /// Finds the hits of all queries of a batch, each bin in a block of threads.
    ///
    /// # Safety
    /// See [`NgramPublished`] and [`QueryBatch`].
    ///
    /// # Panics
    /// Panics if there may be more hits than fit.
    pub(crate) unsafe fn bins(
        &self,
        stream: &Stream,
        batch: &QueryBatch,
        hits: &Hits<'_>,
    ) -> Result<(), DeviceError> {
        let (queries, parts) = (batch.queries.len(), batch.image.parts);
        let bins = parts.div_ceil(BIN as u32);
        let args = batch.args().value(bins).value(hits.view(queries * parts as usize));
        // SAFETY: there is space for all parts as hits of every query; the caller promises the
        // rest.
        unsafe { stream.launch(&self.bins, Grid::new(bins * queries as u32, THREADS), &args) }
    }

    fn grid(&self) -> Grid {
        Grid::new(self.blocks, THREADS)
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
        assert_eq!(kernel.get("WORDS"), WORDS as u64);
        assert_eq!(kernel.get("BIN"), BIN as u64);
        assert_eq!(kernel.size_of("Hit"), size_of::<HitView>());
        assert_eq!(kernel.size_of("Hits"), size_of::<HitsView>());
        assert_eq!(kernel.size_of("AllCounts"), size_of::<CountsView>());
    }
}

//! Blocks of long lists in the codec `bitpack`, and the pairs that determine their bounds.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};
use warpseek_index::FRONT_PAIRS;

use super::common::{SCAN, SLOTS, TYPES, WARP};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "encode_blocks",
    text: include_str!("kernel.cu"),
    headers: &[SCAN, SLOTS, TYPES, WARP],
};

/// Number of blocks that a block of threads encodes. The test
/// `constants_equal_those_of_the_kernel` compares it.
const WARPS: usize = 4;

/// The words of a block's front: the number of pairs, the bits of the largest weight, and the
/// pairs.
pub(crate) type FrontWords = [u32; 2 + 2 * FRONT_PAIRS];

/// A block of a list, by the number of postings before it.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Start {
    /// Number of postings before the block.
    pub(crate) at: u32,
    /// 1 if it is the first block of its list, else 0.
    pub(crate) is_first: u32,
    /// The text field of the list.
    pub(crate) field: u32,
}

/// Lists in pieces, one for each batch of documents that has the term.
pub(crate) struct Lists<'a> {
    /// Number of postings before each piece, and the number of all.
    pub(crate) starts: &'a Buffer<u32>,
    /// The address of the documents of each piece.
    pub(crate) docs: &'a Buffer<u64>,
    /// The address of the frequencies of each piece.
    pub(crate) freqs: &'a Buffer<u64>,
    /// The blocks to encode.
    pub(crate) blocks: &'a Buffer<Start>,
}

/// The numbers that bounds are computed from.
pub(crate) struct Documents<'a> {
    /// Lengths of each document in all fields.
    pub(crate) lengths: &'a Buffer<u32>,
    /// Number of text fields.
    pub(crate) fields: usize,
    /// Norms by document.
    pub(crate) norms: &'a Buffer<f32>,
    /// The logarithm of each frequency, plus one.
    pub(crate) logs: &'a Buffer<f32>,
}

/// The kernel's `Lists`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct ListsView {
    starts: u64,
    docs: u64,
    freqs: u64,
    blocks: u64,
    pieces: u32,
    count: u32,
}

/// The kernel's `Documents`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct DocumentsView {
    lengths: u64,
    norms: u64,
    logs: u64,
    logs_len: u32,
    fields: u32,
}

impl Lists<'_> {
    fn view(&self) -> ListsView {
        let pieces = self.docs.len();
        assert!(self.freqs.len() == pieces && self.starts.len() == pieces + 1, "pieces of lists");
        ListsView {
            starts: self.starts.address(),
            docs: self.docs.address(),
            freqs: self.freqs.address(),
            blocks: self.blocks.address(),
            pieces: pieces as u32,
            count: self.blocks.len() as u32,
        }
    }
}

impl Documents<'_> {
    fn view(&self) -> DocumentsView {
        assert_eq!(self.lengths.len(), self.fields * self.norms.len(), "documents");
        DocumentsView {
            lengths: self.lengths.address(),
            norms: self.norms.address(),
            logs: self.logs.address(),
            logs_len: self.logs.len() as u32,
            fields: self.fields as u32,
        }
    }
}

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct EncodeBlocks {
    measure: Kernel,
    encode: Kernel,
}

impl EncodeBlocks {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(EncodeBlocks {
            measure: device.kernel(&SOURCE, "measure_blocks")?,
            encode: device.kernel(&SOURCE, "encode_blocks")?,
        })
    }

    /// Writes the number of bytes that each block takes.
    ///
    /// # Safety
    /// Blocks must lie within the pieces, and pieces within the memory at their addresses. All
    /// this memory must stay allocated until the kernel has ended.
    ///
    /// # Panics
    /// Panics if there are not as many sizes as blocks.
    pub(crate) unsafe fn measure(
        &self,
        stream: &Stream,
        lists: &Lists<'_>,
        sizes: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert_eq!(sizes.len(), lists.blocks.len(), "sizes of blocks");
        let args = Args::new().value(lists.view()).buffer(sizes);
        // SAFETY: there is a size for each block; the caller promises the rest.
        unsafe { stream.launch(&self.measure, grid(lists), &args) }
    }

    /// Writes each block where the one before it ends, and its front. `ends` are the sums of the
    /// sizes that were measured.
    ///
    /// # Safety
    /// The requirements of [`EncodeBlocks::measure`] apply. In addition, documents must have
    /// lengths and norms, and `bytes` must be as long as the last end.
    ///
    /// # Panics
    /// Panics if there are not as many ends and fronts as blocks.
    pub(crate) unsafe fn encode(
        &self,
        stream: &Stream,
        lists: &Lists<'_>,
        ends: &Buffer<u32>,
        documents: &Documents<'_>,
        bytes: &Buffer<u8>,
        fronts: &Buffer<FrontWords>,
    ) -> Result<(), DeviceError> {
        let count = lists.blocks.len();
        assert!(ends.len() == count && fronts.len() == count, "ends and fronts of blocks");
        let args = Args::new()
            .value(lists.view())
            .buffer(ends)
            .value(documents.view())
            .buffer(bytes)
            .buffer(fronts);
        // SAFETY: there is an end and a front for each block; the caller promises the rest.
        unsafe { stream.launch(&self.encode, grid(lists), &args) }
    }
}

fn grid(lists: &Lists<'_>) -> Grid {
    Grid::new(lists.blocks.len().div_ceil(WARPS) as u32, (WARPS * 32) as u32)
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("WARPS"), WARPS as u64);
        assert_eq!(kernel.get("PAIRS"), FRONT_PAIRS as u64);
        // The index computes the fronts of blocks with more pairs than there can be.
        assert!(kernel.get("TOO_MANY") > FRONT_PAIRS as u64);
        assert_eq!(kernel.size_of("Lists"), size_of::<ListsView>());
        assert_eq!(kernel.size_of("Documents"), size_of::<DocumentsView>());
        assert_eq!(kernel.size_of("Start"), size_of::<Start>());
        assert_eq!(kernel.size_of("Front"), size_of::<FrontWords>());
    }
}

//! Structures with the layout of `common/map_lists.cuh`: lists of a segment on a device, and
//! queries on them.

use bytemuck::{Pod, Zeroable};
use warpseek_cuda::{Args, Buffer};

/// Maximum number of different n-grams of a segment on a GPU, which has a table of their lists.
pub(crate) const MOST_GRAMS: u64 = 1 << 24;

/// Number of values in the `Samples` of a block or bin: eight for heads, eight for tails. The
/// test `constants_equal_those_of_the_header` compares this constant and the next ones.
const SAMPLES: usize = 16;

/// The forms of a list: one entry, one block without a directory, blocks, and bins with bitmaps.
pub(crate) const ONE: u32 = 0;
pub(crate) const SHORT: u32 = 1;
pub(crate) const SPARSE: u32 = 2;
pub(crate) const DENSE: u32 = 3;

/// The positions of some maps of a block or bin: the kernels' `Samples`.
pub(crate) type Samples = [u16; SAMPLES];

/// The position of the candidates of a query in one range, and their number: the kernels' `Room`.
pub(crate) type Room = [u32; 2];

/// A list: the kernels' `MapList`. Addresses of what its form does not have are 0.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ListView {
    pub(crate) bitmaps: u64,
    pub(crate) bases: u64,
    pub(crate) lasts: u64,
    pub(crate) ends: u64,
    pub(crate) payload: u64,
    pub(crate) end: u64,
    pub(crate) df: u32,
    pub(crate) form: u32,
    pub(crate) blocks: u32,
    pub(crate) first: u32,
    pub(crate) part: u32,
    pub(crate) map: u32,
}

/// A segment on the device: the kernels' `Image`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ImageView {
    pub(crate) lists: u64,
    pub(crate) file: u64,
    pub(crate) heads: u64,
    pub(crate) befores: u64,
    pub(crate) samples: u64,
    pub(crate) segments: u64,
    pub(crate) deleted: u64,
    pub(crate) codes: u64,
    pub(crate) widths: u64,
    pub(crate) parts: u32,
    pub(crate) rice: u32,
}

/// A query: the kernels' `Query`.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct QueryView {
    pub(crate) first: u32,
    pub(crate) lists: u32,
    pub(crate) bitmaps: u32,
    pub(crate) dense: u32,
    pub(crate) counted: u32,
    pub(crate) enough: u32,
    pub(crate) least: u32,
    pub(crate) window: u32,
}

/// Queries on the device, and the segment that they search.
///
/// Kernels trust the addresses in the image and the numbers of the queries: the memory of the
/// image must stay allocated until a kernel has ended, and every query must name ordinals that
/// exist, of lists of the image.
pub(crate) struct QueryBatch {
    /// The queries.
    pub(crate) queries: Buffer<QueryView>,
    /// The ordinals of the queries' lists.
    pub(crate) ordinals: Buffer<u32>,
    /// The segment.
    pub(crate) image: ImageView,
}

impl QueryBatch {
    /// Returns the arguments with which kernels begin.
    pub(super) fn args(&self) -> Args {
        Args::new().buffer(&self.queries).buffer(&self.ordinals).value(self.image)
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::ngram_directory::SOURCE;

    #[test]
    fn constants_equal_those_of_the_header() {
        let header = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(2 * header.get("SAMPLES"), SAMPLES as u64);
        for (name, form) in [("ONE", ONE), ("SHORT", SHORT), ("SPARSE", SPARSE), ("DENSE", DENSE)] {
            assert_eq!(header.get(name), u64::from(form), "{name}");
        }
        assert_eq!(header.size_of("Samples"), size_of::<Samples>());
        assert_eq!(header.size_of("Room"), size_of::<Room>());
        assert_eq!(header.size_of("MapList"), size_of::<ListView>());
        assert_eq!(header.size_of("Image"), size_of::<ImageView>());
        assert_eq!(header.size_of("Query"), size_of::<QueryView>());
    }
}

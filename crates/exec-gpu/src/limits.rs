//! Capacities of the kernels, each defined once. Plans are checked before anything is launched,
//! images before anything is copied.

use warpseek_cuda::{DeviceError, Kernel};

use crate::image::ImageError;
use crate::kernels::or_tiles;

/// Maximum number of documents in an image, over all segments. Kernels use 32 bits for the number
/// of postings of a list with padding, and for the number of documents rounded up to whole tiles.
/// The buffer in which a warp keeps the best k hits has up to 2^31 keys, of which 32 must be
/// free.
pub const MAX_DOCS: u64 = (1 << 31) - 64;

/// Maximum number of terms in a query whose cursors fit into shared memory and whose rough sums
/// always fit into 16 bits: with the largest unit, a term adds at most three units. Queries with
/// more terms use kernels that need neither.
pub const FEW_TERMS: usize = 4096;

/// Largest rough sum of `or_tiles`.
pub const TILE_SUM: u16 = or_tiles::LARGEST as u16;

/// Refuses an image with too many documents.
pub fn check_docs(docs: u64) -> Result<(), ImageError> {
    if docs > MAX_DOCS {
        return Err(ImageError::Documents { docs, most: MAX_DOCS });
    }
    Ok(())
}

/// Refuses more shared memory than a block of threads of the kernel can have.
pub fn check_shared(kernel: &Kernel, asked: u32) -> Result<(), DeviceError> {
    let most = kernel.max_shared();
    if asked > most {
        return Err(DeviceError::SharedMemory { kernel: kernel.name().to_owned(), asked, most });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::key_capacity;

    #[test]
    fn keys_and_tiles_of_the_largest_image_have_room() {
        assert!(check_docs(MAX_DOCS).is_ok() && check_docs(MAX_DOCS + 1).is_err());
        // A warp needs space for 32 keys in addition to the best k.
        let docs = MAX_DOCS as u32;
        assert!(key_capacity(docs) >= docs + 32);
        // A list of all documents in tiles of 32, each padded with three postings.
        let filled = u64::from(docs) + 3 * u64::from(docs.div_ceil(32));
        assert!(filled <= u64::from(u32::MAX));
        assert!(docs.checked_add(1 << 15).is_some());
    }
}

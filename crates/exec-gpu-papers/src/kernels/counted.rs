//! Kernels that answer queries and count the bytes that they move: each is a folder with a source
//! that includes `counted.cuh` and then the kernel's own source.

use super::common::{
    COUNTED, PRUNED_SINGLE_ITSELF, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP,
};
use warpseek_cuda::Source;
use warpseek_exec_gpu::kernels::{
    and_tiles, merge, or_tiles, pruned_batch_any_k, pruned_single, pruned_single_two_pass,
    pruned_tiles,
};

macro_rules! counted {
    ($($constant:ident: $kernel:ident,)*) => {
        $(
            #[doc = concat!("`", stringify!($kernel), "`, counted.")]
            pub const $constant: Source = Source {
                name: concat!("counted_", stringify!($kernel)),
                text: include_str!(concat!("counted_", stringify!($kernel), "/kernel.cu")),
                headers: &[
                    COUNTED,
                    TYPES,
                    SCAN,
                    TILES,
                    TOPK,
                    WARP,
                    PRUNED_TILES_ITSELF,
                    PRUNED_SINGLE_ITSELF,
                    (concat!("../", stringify!($kernel), "/kernel.cu"), $kernel::SOURCE.text),
                ],
            };
        )*
    };
}

counted! {
    AND_TILES: and_tiles,
    MERGE: merge,
    OR_TILES: or_tiles,
    PRUNED_SINGLE: pruned_single,
    PRUNED_BATCH_ANY_K: pruned_batch_any_k,
    PRUNED_TILES: pruned_tiles,
    PRUNED_SINGLE_TWO_PASS: pruned_single_two_pass,
}

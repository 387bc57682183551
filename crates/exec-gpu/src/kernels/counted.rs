//! Kernels of queries, with the bytes that they move: each is a folder with a source that includes `counted.cuh` and then the kernel's own.

use super::common::{
    COUNTED, PRUNED_ALONE_ITSELF, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP,
};
use super::{and_tiles, merge, or_tiles, pruned_alone, pruned_many, pruned_tiles, pruned_twice};
use crate::device::Source;

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
                    PRUNED_ALONE_ITSELF,
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
    PRUNED_ALONE: pruned_alone,
    PRUNED_MANY: pruned_many,
    PRUNED_TILES: pruned_tiles,
    PRUNED_TWICE: pruned_twice,
}

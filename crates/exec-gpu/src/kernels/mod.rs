//! Kernels: one folder each with the CUDA C++ (`kernel.cu`) and the functions that check arguments and launch (`mod.rs`).

pub mod and_tiles;
pub mod cohort;
pub mod compact;
pub mod copy;
pub mod counted;
pub mod decode;
pub mod intersect;
pub mod intersect_bitpack;
pub mod intersect_pfor;
pub mod intersect_rice;
pub mod max_tree;
pub mod maxscore;
pub mod merge;
pub mod merge_find;
pub mod merge_lists;
pub mod or_tiles;
pub mod pruned_alone;
pub mod pruned_many;
pub mod pruned_tiles;
pub mod pruned_twice;
pub mod scan;
pub mod wand;

use crate::device::Source;

/// Every source, for those who compile all of them.
pub const ALL: &[Source] = &[
    and_tiles::SOURCE,
    cohort::SOURCE,
    compact::SOURCE,
    copy::SOURCE,
    counted::AND_TILES,
    counted::MERGE,
    counted::OR_TILES,
    counted::PRUNED_ALONE,
    counted::PRUNED_MANY,
    counted::PRUNED_TILES,
    counted::PRUNED_TWICE,
    decode::SOURCE,
    intersect::SOURCE,
    intersect_bitpack::SOURCE,
    intersect_pfor::SOURCE,
    intersect_rice::SOURCE,
    max_tree::SOURCE,
    maxscore::SOURCE,
    merge::SOURCE,
    merge_find::SOURCE,
    merge_lists::SOURCE,
    or_tiles::SOURCE,
    pruned_alone::SOURCE,
    pruned_many::SOURCE,
    pruned_tiles::SOURCE,
    pruned_twice::SOURCE,
    scan::SOURCE,
    wand::SOURCE,
];

/// Headers that sources share, as (name, text).
pub mod common {
    use warpseek_codec::CodecId;

    /// Integer types, and the few words that differ between NVRTC and the emulator.
    pub const TYPES: (&str, &str) = ("types.cuh", include_str!("common/types.cuh"));
    /// For sources that count the bytes they move.
    pub const COUNTED: (&str, &str) = ("counted.cuh", include_str!("common/counted.cuh"));
    /// Sums, minima and maxima over a warp.
    pub const WARP: (&str, &str) = ("warp.cuh", include_str!("common/warp.cuh"));
    /// Prefix sums over warps and blocks.
    pub const SCAN: (&str, &str) = ("scan.cuh", include_str!("common/scan.cuh"));
    /// Searches in ascending numbers.
    pub const SEARCH: (&str, &str) = ("search.cuh", include_str!("common/search.cuh"));
    /// Lists, queries and work items over tiles of documents.
    pub const TILES: (&str, &str) = ("tiles.cuh", include_str!("common/tiles.cuh"));
    /// Pruning over tiles.
    pub const PRUNED_TILES_ITSELF: (&str, &str) =
        ("pruned_tiles.cuh", include_str!("common/pruned_tiles.cuh"));
    /// With all that it includes.
    pub const PRUNED_TILES: &[(&str, &str)] =
        &[TYPES, SCAN, TILES, TOPK, WARP, PRUNED_TILES_ITSELF];
    /// Of a query alone.
    pub const PRUNED_ALONE_ITSELF: (&str, &str) =
        ("pruned_alone.cuh", include_str!("common/pruned_alone.cuh"));
    /// With all that it includes.
    pub const PRUNED_ALONE: &[(&str, &str)] =
        &[TYPES, SCAN, TILES, TOPK, WARP, PRUNED_TILES_ITSELF, PRUNED_ALONE_ITSELF];
    /// The best keys of a block of threads.
    pub const TOPK: (&str, &str) = ("topk.cuh", include_str!("common/topk.cuh"));
    /// Lists in compressed form.
    pub const LISTS: (&str, &str) = ("lists.cuh", include_str!("common/lists.cuh"));
    /// Their codecs: bit packing,
    pub const CODEC_BITPACK: (&str, &str) =
        ("codec_bitpack.cuh", include_str!("common/codec_bitpack.cuh"));
    /// Rice,
    pub const CODEC_RICE: (&str, &str) = ("codec_rice.cuh", include_str!("common/codec_rice.cuh"));
    /// and PForDelta.
    pub const CODEC_PFOR: (&str, &str) = ("codec_pfor.cuh", include_str!("common/codec_pfor.cuh"));
    /// Intersection on lists of any codec.
    pub const INTERSECT: (&str, &str) = ("intersect.cuh", include_str!("common/intersect.cuh"));
    /// What a posting is worth.
    pub const VALUES: (&str, &str) = ("values.cuh", include_str!("common/values.cuh"));
    /// WAND and MaxScore but for what they differ in, with all that it includes, and the codecs for which there are kernels.
    pub const fn partitioned_headers(codecs: &'static str) -> [(&'static str, &'static str); 14] {
        [
            TYPES,
            SCAN,
            WARP,
            TILES,
            TOPK,
            LISTS,
            CODEC_BITPACK,
            CODEC_RICE,
            CODEC_PFOR,
            VALUES,
            ("partitioned_form.cuh", include_str!("common/partitioned_form.cuh")),
            ("partitioned_lists.cuh", include_str!("common/partitioned_lists.cuh")),
            ("partitioned.cuh", include_str!("common/partitioned.cuh")),
            ("partitioned_codecs.cuh", codecs),
        ]
    }

    /// With all codecs.
    pub const PARTITIONED: &[(&str, &str)] =
        &partitioned_headers(include_str!("common/partitioned_codecs.cuh"));

    /// With one, if the device has it.
    pub fn partitioned_for(codec: CodecId) -> &'static [(&'static str, &'static str)] {
        macro_rules! only {
            ($name:literal, $type:literal) => {{
                const TEXT: &str = concat!(
                    "#define PARTITIONED_KERNELS(name, Choice) PARTITIONED_KERNEL(name##_",
                    $name,
                    ", ",
                    $type,
                    ", Choice)\n"
                );
                const HEADERS: &[(&str, &str)] = &partitioned_headers(TEXT);
                HEADERS
            }};
        }
        match codec {
            CodecId::BitPack => only!("bitpack", "BitPack"),
            CodecId::Rice => only!("rice", "Rice"),
            CodecId::PFor0 => only!("pfor0", "PFor<0>"),
            CodecId::PFor => only!("pfor", "PFor<1>"),
            CodecId::PFor2 => only!("pfor2", "PFor<2>"),
            CodecId::PFor3 => only!("pfor3", "PFor<3>"),
            CodecId::PFor4 => only!("pfor4", "PFor<4>"),
            _ => PARTITIONED,
        }
    }
}

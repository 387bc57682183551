//! The kernels of this crate. Each has a folder with the CUDA C++ (`kernel.cu`) and the functions
//! that check arguments and launch it (`mod.rs`).

pub mod cohort;
pub mod counted;
pub mod decode;
pub mod intersect;
pub mod intersect_bitpack;
pub mod intersect_codec;
pub mod intersect_form;
pub mod intersect_pfor;
pub mod intersect_rice;
pub mod maxscore;
pub mod merge_lists;
pub(crate) mod partitioned;
pub mod wand;

use warpseek_cuda::Source;

/// Every source of this crate, for tools that compile all of them.
pub const ALL: &[Source] = &[
    cohort::SOURCE,
    counted::AND_TILES,
    counted::MERGE,
    counted::OR_TILES,
    counted::PRUNED_BATCH_ANY_K,
    counted::PRUNED_SINGLE,
    counted::PRUNED_SINGLE_TWO_PASS,
    counted::PRUNED_TILES,
    decode::SOURCE,
    intersect::SOURCE,
    intersect_bitpack::SOURCE,
    intersect_pfor::SOURCE,
    intersect_rice::SOURCE,
    maxscore::SOURCE,
    merge_lists::SOURCE,
    wand::SOURCE,
];

/// Headers that sources share, as (name, text).
pub mod common {
    use warpseek_codec::CodecId;
    pub use warpseek_cuda::kernels::common::SEARCH;
    pub use warpseek_exec_gpu::kernels::common::{
        FORMULA, PRUNED_SINGLE_ITSELF, PRUNED_TILES_ITSELF, SCAN, TILES, TOPK, TYPES, WARP,
    };

    /// The header of sources that count the bytes that they move.
    pub const COUNTED: (&str, &str) = ("counted.cuh", include_str!("common/counted.cuh"));
    /// Lists in compressed form.
    pub const LISTS: (&str, &str) = ("lists.cuh", include_str!("common/lists.cuh"));
    /// The codec for bit packing.
    pub const CODEC_BITPACK: (&str, &str) =
        ("codec_bitpack.cuh", include_str!("common/codec_bitpack.cuh"));
    /// The codec for Rice codes.
    pub const CODEC_RICE: (&str, &str) = ("codec_rice.cuh", include_str!("common/codec_rice.cuh"));
    /// The codec for PForDelta.
    pub const CODEC_PFOR: (&str, &str) = ("codec_pfor.cuh", include_str!("common/codec_pfor.cuh"));
    /// Intersection on lists of any codec.
    pub const INTERSECT: (&str, &str) = ("intersect.cuh", include_str!("common/intersect.cuh"));
    /// Tables for the values of postings.
    pub const VALUES: (&str, &str) = ("values.cuh", include_str!("common/values.cuh"));
    /// Returns the headers that WAND and MaxScore share, with everything that they include, and
    /// the codecs for which there are kernels.
    pub const fn partitioned_headers(codecs: &'static str) -> [(&'static str, &'static str); 15] {
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
            FORMULA,
            VALUES,
            ("partitioned_form.cuh", include_str!("common/partitioned_form.cuh")),
            ("partitioned_lists.cuh", include_str!("common/partitioned_lists.cuh")),
            ("partitioned.cuh", include_str!("common/partitioned.cuh")),
            ("partitioned_codecs.cuh", codecs),
        ]
    }

    /// The headers with all codecs.
    pub const PARTITIONED: &[(&str, &str)] =
        &partitioned_headers(include_str!("common/partitioned_codecs.cuh"));

    /// Returns the headers with one codec, if it has a form on the device.
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

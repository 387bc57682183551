//! Index building and term weights on the GPU.
//!
//! Workers on the CPU read records and make flat text (`warpseek_text::WordRules`). [`GpuInverters`] takes it in batches: a kernel finds the words, a table in
//! device memory tells distinct words from known ones, the host stems those that are new, and the occurrences of terms are sorted and counted. What comes out
//! are sorted lists, which the builder of `warpseek_index` merges and encodes as it does its own; so the index is the same, byte for byte. If all lists fit into
//! device memory, their full blocks are encoded there as well.

mod cpu;
mod encode;
mod inverter;
pub mod kernels;
mod postings;
mod terms;
pub mod weights;
mod word_table;
mod worker;

pub use inverter::{GpuInverters, OnFailure};

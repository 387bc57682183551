//! Index building and term weights on the GPU.
//!
//! Workers on the CPU read records and create flat text (`warpseek_text::WordRules`).
//! [`GpuInverters`] processes it in batches: a kernel finds the words, a table in device memory
//! distinguishes new words from known ones, the host stems the new ones, and the occurrences of
//! terms are sorted and counted. The results are sorted lists, which the builder of
//! `warpseek_index` merges and encodes like its own lists, so the index is the same, byte for
//! byte. If all lists fit into device memory, their full blocks are encoded there as well.

mod batch;
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

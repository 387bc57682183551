//! The engines that run on the CPU, one file an algorithm.
//!
//! Every algorithm answers OR over one segment at a time, keeping the best hits so far; [`CpuEngine`] does the rest: modes,
//! segments, threads. AND is `conjunction` for all, with the bounds that the algorithm knows of, but `block_conjunction` for `ranges`.

mod algorithm;
mod block_conjunction;
mod block_max_maxscore;
mod block_max_wand;
mod cohort;
mod collector;
mod conjunction;
mod count;
mod cursor;
mod daat;
mod engine;
mod factors;
mod maxima;
mod maxscore;
mod ranges;
mod segment;
mod simd;
mod stream;
mod taat;
mod wand;

pub use algorithm::Algorithm;
pub use engine::CpuEngine;

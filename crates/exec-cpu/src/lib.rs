//! The engines that run on the CPU, one file per algorithm.
//!
//! Every algorithm answers OR over one segment at a time and keeps the best hits so far;
//! [`CpuEngine`] does the rest: modes, segments and threads. Most algorithms share `conjunction`
//! for AND, with the bounds that the algorithm uses; windowed MaxScore, `cohort` and `decoded` use
//! `block_conjunction`, and `filtered` and `tree` have their own. All of them proceed by ranges
//! of documents and can stop at a deadline: they return how far they got, and everything before
//! that is done.

mod algorithm;
mod block_conjunction;
mod block_max_maxscore;
mod block_max_wand;
mod candidates;
mod cohort;
mod collector;
mod conjunction;
mod count;
mod cursor;
mod daat;
mod decoded;
mod engine;
mod factors;
mod filtered;
mod foresight;
mod formula_cache;
mod gather;
mod halt;
mod maxima;
mod maxscore;
mod pass;
mod phrase;
mod phrase_conjunction;
mod scorer;
mod scratch;
mod segment;
mod segment_set;
mod simd;
mod stream;
mod taat;
mod tops;
mod tree;
mod wand;
mod windowed_maxscore;

pub use algorithm::Algorithm;
pub use engine::CpuEngine;

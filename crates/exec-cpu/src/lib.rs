//! The engines that run on the CPU, one file an algorithm.

mod exhaustive;

pub use exhaustive::Exhaustive;

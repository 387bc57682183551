//! The parts that the command line and its benchmarks share: error messages and exit codes
//! ([`Failure`]), tables and numbers ([`terminal`]), progress bars ([`progress`]), Ctrl-C
//! ([`Interrupt`]), and options of several commands ([`options`]). Only this crate and its
//! callers print.

mod failure;
mod interrupt;
pub mod options;
pub mod progress;
pub mod terminal;

pub use failure::Failure;
pub use interrupt::Interrupt;

//! What programs on a terminal share, the command line and the benchmarks behind it: messages and exit codes ([`Failure`]), tables and numbers ([`terminal`]), progress ([`progress`]), Ctrl-C ([`Interrupt`])
//! and the options that several verbs have ([`options`]). Only here and in their callers is anything printed.

mod failure;
mod interrupt;
pub mod options;
pub mod progress;
pub mod terminal;

pub use failure::Failure;
pub use interrupt::Interrupt;

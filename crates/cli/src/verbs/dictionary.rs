//! `warpseek dictionary`: dictionaries of words. Each command has a file in `dictionary`.

mod build;
mod inspect;
mod lookup;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use warpseek_console::Failure;

/// Build dictionaries of words and look words up in them
///
/// A dictionary numbers its words in byte order from 0, so that words with the same prefix have
/// consecutive ids. All unknown words share the id after the last. `warpseek weights` can use a
/// dictionary to compute with ids instead of strings.
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek dictionary build docs.jsonl -o docs.dictionary     the words of documents
  warpseek dictionary inspect docs.dictionary
  warpseek dictionary lookup docs.dictionary apple pie        their ids
  warpseek dictionary lookup docs.dictionary --prefix app     words that start with app")]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands for dictionaries.
#[derive(Subcommand)]
enum Verb {
    Build(build::Options),
    Inspect(inspect::Options),
    Lookup(lookup::Options),
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    match &options.verb {
        Verb::Build(options) => build::run(options),
        Verb::Inspect(options) => inspect::run(options),
        Verb::Lookup(options) => lookup::run(options),
    }
}

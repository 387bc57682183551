mod build;
mod inspect;
mod lookup;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use warpseek_console::Failure;

/// Build dictionaries of words, and look words up in them
///
/// A dictionary gives each of its words an id, in byte order from 0, so that the words with one prefix have consecutive ids. All other words share the
/// id after the last. GPUs that compute with words instead of text read it.
#[derive(Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek dictionary build docs.jsonl -o docs.dictionary     the words of documents
  warpseek dictionary inspect docs.dictionary
  warpseek dictionary lookup docs.dictionary apple pie        their ids
  warpseek dictionary lookup docs.dictionary --prefix app     words that begin so")]
pub(crate) struct Options {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands for dictionaries; each has a file of its own.
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

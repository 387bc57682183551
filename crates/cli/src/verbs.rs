//! The commands, one file each. A file has the arguments, `Options`, and the function `run`.

pub(crate) mod add;
pub(crate) mod aggregate;
pub(crate) mod calibrate;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod devices;
pub(crate) mod dictionary;
pub(crate) mod eval;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod ngram;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod quickstart;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod synth;
pub(crate) mod verify;
pub(crate) mod weights;
pub(crate) mod write;

use std::process::ExitCode;

use crate::options::Verb;
use warpseek_console::Failure;

pub(crate) fn run(verb: Verb) -> Result<ExitCode, Failure> {
    match verb {
        Verb::Index(options) => index::run(&options),
        Verb::Schema(options) => schema::run(&options),
        Verb::Add(options) => add::run(&options),
        Verb::Delete(options) => delete::run(&options),
        Verb::Write(options) => write::run(&options),
        Verb::Merge(options) => merge::run(&options),
        Verb::Search(options) => search::run(&options),
        Verb::Run(options) => run::run(&options),
        Verb::Eval(options) => eval::run(&options),
        Verb::Ngram(options) => ngram::run(&options),
        Verb::Dictionary(options) => dictionary::run(&options),
        Verb::Bench(options) => warpseek_bench::run(&options),
        Verb::Plan(options) => plan::run(&options),
        Verb::Serve(options) => serve::run(&options),
        Verb::Cluster(options) => cluster::run(&options),
        Verb::Node(options) => node::run(&options),
        Verb::Aggregate(options) => aggregate::run(&options),
        Verb::Verify(options) => verify::run(&options),
        Verb::Inspect(options) => inspect::run(&options),
        Verb::Calibrate(options) => calibrate::run(&options),
        Verb::Devices(options) => devices::run(&options),
        Verb::Synth(options) => synth::run(&options),
        Verb::Quickstart(options) => quickstart::run(&options),
        Verb::Weights(options) => weights::run(&options),
        Verb::Completions(options) => completions::run(&options),
        Verb::Man(options) => man::run(&options),
    }
}

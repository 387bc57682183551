//! The root command: the list of commands, and help at two levels of detail.

use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use warpseek_console::Failure;

use crate::arguments::RESEARCH;
use crate::verbs;

/// Exact text search on CPUs and GPUs.
///
/// All engines and devices return the same hits, in the same order, with the same scores.
#[derive(Parser)]
#[command(name = "warpseek", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  warpseek quickstart                         try it on text from this machine
  warpseek index docs.jsonl -o idx            build an index
  warpseek search idx \"inverted index\"        search it
  warpseek run idx --queries q.tsv -o r.trec  answer a file of queries
  warpseek eval --qrels q.tsv --run r.trec    measure the quality of the answers
  warpseek ngram index docs.jsonl -o grams    build an index that finds misspelt phrases

Exit codes: 0 success, 1 failure, 2 invalid arguments or input, 130 interrupted.")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// The commands. Each has its file in `verbs`.
#[derive(Subcommand)]
enum Verb {
    Index(verbs::index::Options),
    Schema(verbs::schema::Options),
    Add(verbs::add::Options),
    Delete(verbs::delete::Options),
    Write(verbs::write::Options),
    Merge(verbs::merge::Options),
    Search(verbs::search::Options),
    Run(verbs::run::Options),
    Eval(verbs::eval::Options),
    Ngram(verbs::ngram::Options),
    Dictionary(verbs::dictionary::Options),
    Weights(verbs::weights::Options),
    Bench(warpseek_bench::Options),
    Plan(verbs::plan::Options),
    Reproduce(warpseek_reproduce::Options),
    Serve(verbs::serve::Options),
    Cluster(verbs::cluster::Options),
    Node(verbs::node::Options),
    Aggregate(verbs::aggregate::Options),
    Verify(verbs::verify::Options),
    Inspect(verbs::inspect::Options),
    Calibrate(verbs::calibrate::Options),
    Devices(verbs::devices::Options),
    Synth(verbs::synth::Options),
    Quickstart(verbs::quickstart::Options),
    Completions(verbs::completions::Options),
    Man(verbs::man::Options),
}

/// Parses the arguments of the process and runs their command. Exits if they are not valid, or if
/// they ask for help.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let matches = command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match cli.verb {
        Verb::Index(options) => verbs::index::run(&options),
        Verb::Schema(options) => verbs::schema::run(&options),
        Verb::Add(options) => verbs::add::run(&options),
        Verb::Delete(options) => verbs::delete::run(&options),
        Verb::Write(options) => verbs::write::run(&options),
        Verb::Merge(options) => verbs::merge::run(&options),
        Verb::Search(options) => verbs::search::run(&options),
        Verb::Run(options) => verbs::run::run(&options),
        Verb::Eval(options) => verbs::eval::run(&options),
        Verb::Ngram(options) => verbs::ngram::run(&options),
        Verb::Dictionary(options) => verbs::dictionary::run(&options),
        Verb::Bench(options) => warpseek_bench::run(&options),
        Verb::Plan(options) => verbs::plan::run(&options),
        Verb::Reproduce(options) => warpseek_reproduce::run(&options),
        Verb::Serve(options) => verbs::serve::run(&options),
        Verb::Cluster(options) => verbs::cluster::run(&options),
        Verb::Node(options) => verbs::node::run(&options),
        Verb::Aggregate(options) => verbs::aggregate::run(&options),
        Verb::Verify(options) => verbs::verify::run(&options),
        Verb::Inspect(options) => verbs::inspect::run(&options),
        Verb::Calibrate(options) => verbs::calibrate::run(&options),
        Verb::Devices(options) => verbs::devices::run(&options),
        Verb::Synth(options) => verbs::synth::run(&options),
        Verb::Quickstart(options) => verbs::quickstart::run(&options),
        Verb::Weights(options) => verbs::weights::run(&options),
        Verb::Completions(options) => verbs::completions::run(&options, &mut Cli::command()),
        Verb::Man(options) => verbs::man::run(&options, Cli::command()),
    }
}

/// Returns the command line parser. `-h` shows what most users need. `--help` shows all options in
/// the same compact layout, except the research settings: docs/reference/study-settings.md
/// describes those.
fn command() -> Command {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let is_help_verb = arguments.len() > 1 && arguments[0] == "help";
    match is_help_verb || arguments.iter().any(|argument| argument == "--help") {
        true => complete(Cli::command()),
        false => Cli::command(),
    }
}

/// Makes the help of a command and its subcommands complete. It shows all options in the short
/// layout, which has no blank lines between options.
fn complete(command: Command) -> Command {
    let about = command.get_long_about().or(command.get_about()).cloned();
    let after = command.get_after_long_help().or(command.get_after_help()).cloned();
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
    let command = command
        .disable_help_flag(true)
        .mut_args(|arg| {
            let hidden = arg.is_hide_set()
                || arg.get_help_heading() == Some(RESEARCH) && arg.get_id() != "algorithm";
            arg.hide_short_help(false).hide(hidden)
        })
        .arg(help.help("Print help (-h prints a shorter one)"))
        .mut_subcommands(complete);
    let command = match about {
        Some(about) => command.about(about),
        None => command,
    };
    match after {
        Some(after) => command.after_help(after),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definitions_are_valid() {
        Cli::command().debug_assert();
        complete(Cli::command()).debug_assert();
    }

    /// Checks that the short help has the options that most users need, that the long help has all
    /// except the research settings, and that both stay short.
    #[test]
    fn help_is_short_and_complete_help_is_not_long() {
        let help = |mut cli: Command, verb: &str| {
            let verb = cli.find_subcommand_mut(verb).map(|verb| verb.render_help().to_string());
            verb.unwrap_or_default()
        };
        for (verb, short_lines, long_lines) in [("search", 60, 120), ("run", 65, 125)] {
            let (short, long) = (help(Cli::command(), verb), help(complete(Cli::command()), verb));
            for heading in ["Query:", "Ranking:", "Device:", "Output:", "Examples:"] {
                assert!(short.contains(heading) && long.contains(heading), "{heading} in {short}");
            }
            assert!(!short.contains("--gpu-lists") && long.contains("--gpu-lists"), "{long}");
            let partition = "--partition <";
            assert!(!short.contains(partition) && !long.contains(partition), "{long}");
            assert!(
                long.contains("--algorithm") && long.contains("docs/reference/study-settings.md"),
                "{long}"
            );
            let lines = |help: &str| help.lines().count();
            assert!(lines(&short) <= short_lines, "{} lines: {short}", lines(&short));
            assert!(lines(&long) <= long_lines, "{} lines: {long}", lines(&long));
        }
    }
}

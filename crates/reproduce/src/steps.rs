//! The commands that make data and measure, in the order in which they run. All paths are
//! relative to the output directory, so that a reader can run a command there by hand.

/// The size of the data and the number of repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// As large as in the documents.
    Full,
    /// Ten minutes on two cores.
    Quick,
    /// Some seconds, for tests.
    Tiny,
}

impl Size {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Size::Full => "full",
            Size::Quick => "quick",
            Size::Tiny => "tiny",
        }
    }
}

/// What a command needs besides the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Gpu,
    /// Python with a library for sparse matrices. A failure of the command means that there is
    /// none.
    Library,
}

impl Needs {
    /// Describes what is missing.
    pub(crate) fn missing(self) -> &'static str {
        match self {
            Needs::Nothing => "nothing",
            Needs::Gpu => "needs a GPU",
            Needs::Library => "needs MKL or SciPy",
        }
    }
}

/// A command whose standard output is a report, or that makes data.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Arguments of `warpseek` that all sizes have, then those of each size.
    common: &'static str,
    sizes: [&'static str; 3],
    pub(crate) needs: Needs,
    /// Steps that make its data.
    pub(crate) after: &'static [&'static str],
    /// Files and directories that it makes; none if it measures.
    pub(crate) makes: &'static [&'static str],
}

impl Step {
    /// Returns the arguments of `warpseek`.
    pub(crate) fn arguments(&self, size: Size) -> Vec<&'static str> {
        let own = self.sizes[size as usize];
        self.common.split_whitespace().chain(own.split_whitespace()).collect()
    }

    /// Returns the command line.
    pub(crate) fn command(&self, size: Size) -> String {
        format!("warpseek {}", self.arguments(size).join(" "))
    }
}

/// Returns the step with this name.
pub(crate) fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// Returns the named steps and those that make their data, in the order in which they run.
pub(crate) fn with_data(names: &[&'static str]) -> Vec<&'static Step> {
    let mut wanted = names.to_vec();
    let mut at = 0;
    while at < wanted.len() {
        if let Some(step) = find(wanted[at]) {
            wanted.extend(step.after);
        }
        at += 1;
    }
    STEPS.iter().filter(|step| wanted.contains(&step.name)).collect()
}

/// Creates a step that makes data on the CPU.
const fn data(
    name: &'static str,
    common: &'static str,
    sizes: [&'static str; 3],
    after: &'static [&'static str],
    makes: &'static [&'static str],
) -> Step {
    Step { name, common, sizes, needs: Needs::Nothing, after, makes }
}

/// Creates a step that measures the CPU.
const fn cpu(
    name: &'static str,
    common: &'static str,
    sizes: [&'static str; 3],
    after: &'static [&'static str],
) -> Step {
    Step { name, common, sizes, needs: Needs::Nothing, after, makes: &[] }
}

/// Creates a step that measures a GPU.
const fn gpu(
    name: &'static str,
    common: &'static str,
    sizes: [&'static str; 3],
    after: &'static [&'static str],
) -> Step {
    Step { name, common, sizes, needs: Needs::Gpu, after, makes: &[] }
}

/// Creates a step that measures a library of another vendor.
const fn library(
    name: &'static str,
    common: &'static str,
    sizes: [&'static str; 3],
    after: &'static [&'static str],
) -> Step {
    Step { name, common, sizes, needs: Needs::Library, after, makes: &[] }
}

/// All steps.
const STEPS: &[Step] = &[
    data(
        "gov2",
        "synth --postings --preset gov2 -o data/gov2 --quiet",
        ["--queries 1024", "--docs 400000 --queries 1024", "--docs 3000 --queries 16"],
        &[],
        &["data/gov2", "data/gov2.queries.tsv"],
    ),
    data(
        "clueweb",
        "synth --postings --preset clueweb -o data/clueweb --quiet",
        ["--queries 500", "--docs 400000 --queries 100", "--docs 3000 --queries 8"],
        &[],
        &["data/clueweb", "data/clueweb.queries.tsv"],
    ),
    data(
        "abstracts",
        "synth --mu 5.0 --sigma 0.4 -o data/abstracts.jsonl --quiet",
        ["--docs 1600000", "--docs 20000", "--docs 400 --vocabulary 5000"],
        &[],
        &["data/abstracts.jsonl"],
    ),
    data(
        "abstracts-index",
        "ngram index data/abstracts.jsonl -o data/abstracts --quiet",
        ["", "", ""],
        &["abstracts"],
        &["data/abstracts"],
    ),
    data(
        "articles",
        "synth --mu 5.0 --sigma 0.4 --seed 1 -o data/articles.jsonl --quiet",
        ["--docs 4000000", "--docs 40000", "--docs 800 --vocabulary 5000"],
        &[],
        &["data/articles.jsonl"],
    ),
    data(
        "articles-index",
        "ngram index data/articles.jsonl -o data/articles --quiet",
        ["", "", ""],
        &["articles"],
        &["data/articles"],
    ),
    cpu("plan", "plan --json", ["", "", ""], &[]),
    gpu("devices-gpu", "devices --json", ["", "", ""], &[]),
    cpu(
        "codecs",
        "bench codecs --index data/gov2 --codecs rice,pfd,pfor0,pfor,pfor2,pfor3,pfor4 --json --quiet",
        ["", "--postings 500000 --rounds 3", "--postings 2000 --rounds 1"],
        &["gov2"],
    ),
    gpu(
        "codecs-gpu",
        "bench gpu --codecs --index data/gov2 --json",
        ["", "--postings 16777216 --rounds 3", "--postings 4096 --rounds 1"],
        &["gov2"],
    ),
    gpu(
        "intersect-gpu",
        "bench gpu --intersect --index data/gov2 --queries data/gov2.queries.tsv --json",
        ["", "--rounds 2", "--rounds 1"],
        &["gov2"],
    ),
    cpu(
        "queries",
        "bench queries --index data/gov2 --queries data/gov2.queries.tsv --algorithms auto,daat --modes and,or,and-or -k 10 --json --quiet",
        ["--rounds 2", "--rounds 2", "--rounds 1"],
        &["gov2"],
    ),
    gpu(
        "queries-gpu",
        "bench gpu --index data/gov2 --queries data/gov2.queries.tsv --modes and,or,and-or --kernels --json",
        ["", "--rounds 2", "--rounds 1"],
        &["gov2"],
    ),
    cpu(
        "load",
        "bench load --index data/gov2 --queries data/gov2.queries.tsv --mode and --deadlines 50,500 --configurations cpu --json --quiet",
        ["", "--seconds 0.3", "--seconds 0.05 --rates 20"],
        &["gov2"],
    ),
    gpu(
        "load-gpu",
        "bench load --index data/gov2 --queries data/gov2.queries.tsv --mode and --deadlines 50,500 --configurations gpu,better,both --json --quiet",
        ["", "--seconds 0.3", "--seconds 0.05 --rates 20"],
        &["gov2"],
    ),
    cpu(
        "ngram",
        "bench ngram --index data/abstracts --measure suite --lengths 7-75 --json --quiet",
        ["--phrases 1232", "--phrases 200", "--phrases 6"],
        &["abstracts-index"],
    ),
    gpu(
        "ngram-gpu",
        "bench ngram --index data/abstracts --measure suite --lengths 7-75 --cuda --json --quiet",
        ["--phrases 1232", "--phrases 200", "--phrases 6"],
        &["abstracts-index"],
    ),
    cpu(
        "ngram-long",
        "bench ngram --index data/articles --measure suite --lengths 8-110 --json --quiet",
        ["--phrases 2699", "--phrases 200", "--phrases 6"],
        &["articles-index"],
    ),
    gpu(
        "ngram-long-gpu",
        "bench ngram --index data/articles --measure suite --lengths 8-110 --cuda --json --quiet",
        ["--phrases 2699", "--phrases 200", "--phrases 6"],
        &["articles-index"],
    ),
    cpu(
        "pruning",
        "bench gpu --pruning --one-core --index data/clueweb --queries data/clueweb.queries.tsv --json",
        ["--full", "", ""],
        &["clueweb"],
    ),
    gpu(
        "pruning-gpu",
        "bench gpu --pruning --figures --index data/clueweb --queries data/clueweb.queries.tsv --json",
        ["--full --rounds 2", "--rounds 1", "--rounds 1"],
        &["clueweb"],
    ),
    cpu(
        "cohorts",
        "bench cohorts --index data/gov2 --queries data/gov2.queries.tsv --json --quiet",
        ["", COHORTS, TINY_COHORTS],
        &["gov2"],
    ),
    gpu(
        "cohorts-gpu",
        "bench cohorts --cuda --index data/gov2 --queries data/gov2.queries.tsv --json --quiet",
        ["", COHORTS, TINY_COHORTS],
        &["gov2"],
    ),
    cpu(
        "network",
        "bench cluster --indexes data/gov2 --queries data/gov2.queries.tsv -k 32 --cohort-size 1,256 --clients 512 --json --quiet",
        [
            "--rates 5120 --requests 5000",
            "--rates 1000 --requests 500",
            "--rates 100 --requests 20",
        ],
        &["gov2"],
    ),
    library(
        "spmm",
        "bench cohorts --index data/gov2 --queries data/gov2.queries.tsv --cohort 1 --tile 500000 --energy-seconds 0 --spmm --json --quiet",
        ["", "--rounds 1", "--sample 8 --rounds 1"],
        &["gov2"],
    ),
    cpu(
        "weights",
        "bench build --json --quiet",
        ["", "--sizes 2,4,6,8,10 --vocabulary 200000 --rounds 2", TINY_WEIGHTS],
        &[],
    ),
    gpu(
        "weights-gpu",
        "bench build --cuda --json --quiet",
        ["", "--sizes 2,4,6,8,10 --vocabulary 200000 --rounds 2", TINY_WEIGHTS],
        &[],
    ),
];

/// Fewer cohorts, and tiles that are smaller than the collection.
const COHORTS: &str =
    "--cohort 1,16,64,256,1024 --tile 100000,250000 --sample 256 --rounds 1 --energy-seconds 0.2";
const TINY_COHORTS: &str = "--cohort 1 --tile 100000 --sample 8 --rounds 1 --energy-seconds 0";

/// A single size, since texts have at least a megabyte.
const TINY_WEIGHTS: &str = "--sizes 1 --vocabulary 2000 --rounds 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_comes_before_what_needs_it() {
        let names = |steps: Vec<&Step>| steps.iter().map(|step| step.name).collect::<Vec<_>>();
        assert_eq!(names(with_data(&["ngram"])), ["abstracts", "abstracts-index", "ngram"]);
        for (at, step) in STEPS.iter().enumerate() {
            for &need in step.after {
                assert!(STEPS[..at].iter().any(|other| other.name == need), "{}", step.name);
            }
        }
        let command = find("plan").map(|step| step.command(Size::Full));
        assert_eq!(command.as_deref(), Some("warpseek plan --json"));
    }
}

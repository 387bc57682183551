//! Command-line arguments of the comparison.

use std::path::{Path, PathBuf};

use super::names::{DocumentOrder, Peer};

pub(super) const USAGE: &str = "\
usage: cargo xtask peers --corpus FILE --queries FILE[,FILE] [--corpus FILE --queries FILE]... [OPTIONS]

  --corpus FILE      JSONL with plain words in `text`; indexes are written next to it
  --queries FILES    logs of `id<TAB>words` for the preceding corpus
  --peers DIR        folder with the runners [../shared/peers]
  --home DIR         folder where the engines are installed [$PEERS_HOME]
  --ours NAMES       orders of our index: warpseek, warpseek-reorder [both]
  --engines NAMES    engines to compare with [tantivy,lucene,lucene10,lucene10bp,pisa,bm25s]
  --modes MODES      or, and [or,and]
  --k NUMBERS        numbers of hits [10,100,1000]
  --rounds N         number of rounds, in which the engines take turns [5]
  --reps N           passes over a log in each round, of which the best is reported [3]
  --cpu N            pin every measured process to this core
  --index-args ARGS  additional arguments for `warpseek index`, in one string
  --warpseek FILE    the warpseek program to measure [a dist build of this source tree]
  --json FILE        write all figures to this file, in addition to the tables on standard output

       cargo xtask peers --tables FILE[,FILE]    print the tables of such files";

/// A collection and the query logs for it.
#[derive(Debug, PartialEq)]
pub(super) struct Data {
    pub(super) corpus: PathBuf,
    pub(super) queries: Vec<PathBuf>,
}

impl Data {
    /// Returns the name of the collection's folder, as the runners do.
    pub(super) fn name(&self) -> String {
        let path = std::path::absolute(&self.corpus).unwrap_or_else(|_| self.corpus.clone());
        let folder = path.parent().and_then(Path::file_name);
        folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }
}

#[derive(Debug)]
pub(super) struct Options {
    pub(super) data: Vec<Data>,
    pub(super) peers: PathBuf,
    pub(super) home: PathBuf,
    pub(super) ours: Vec<DocumentOrder>,
    pub(super) engines: Vec<Peer>,
    pub(super) cpu: Option<String>,
    pub(super) modes: Vec<String>,
    pub(super) ks: Vec<usize>,
    pub(super) rounds: usize,
    pub(super) reps: usize,
    pub(super) index_args: Vec<String>,
    pub(super) warpseek: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut home = std::env::var_os("PEERS_HOME").map(PathBuf::from);
        let mut options = Options {
            data: Vec::new(),
            peers: PathBuf::from("../shared/peers"),
            home: PathBuf::new(),
            ours: DocumentOrder::ALL.to_vec(),
            engines: Peer::ALL.to_vec(),
            cpu: None,
            modes: vec!["or".to_owned(), "and".to_owned()],
            ks: vec![10, 100, 1000],
            rounds: 5,
            reps: 3,
            index_args: Vec::new(),
            warpseek: None,
            json: None,
        };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("`{name}` needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--corpus" => {
                    options.data.push(Data { corpus: value.into(), queries: Vec::new() });
                }
                "--queries" => {
                    let data =
                        options.data.last_mut().ok_or("--queries must come after its --corpus")?;
                    data.queries.extend(value.split(',').map(PathBuf::from));
                }
                "--peers" => options.peers = value.into(),
                "--home" => home = Some(value.into()),
                "--ours" => options.ours = list(&value, DocumentOrder::named)?,
                "--cpu" => {
                    value.parse::<u32>().map_err(|_| format!("`{value}` is not a core"))?;
                    options.cpu = Some(value);
                }
                "--engines" => options.engines = list(&value, Peer::named)?,
                "--modes" => options.modes = list(&value, mode)?,
                "--k" => options.ks = list(&value, number)?,
                "--rounds" => options.rounds = number(&value)?,
                "--reps" => options.reps = number(&value)?,
                "--index-args" => {
                    options.index_args = value.split_whitespace().map(str::to_owned).collect();
                }
                "--warpseek" => options.warpseek = Some(value.into()),
                "--json" => options.json = Some(value.into()),
                _ => return Err(format!("`{name}` is unknown\n\n{USAGE}")),
            }
        }
        options.home =
            home.ok_or("specify the folder of the engines with --home DIR or PEERS_HOME")?;
        if options.data.is_empty() {
            return Err(format!("nothing to compare: --corpus is missing\n\n{USAGE}"));
        }
        for data in &options.data {
            if data.queries.is_empty() {
                return Err(format!("{} has no --queries", data.corpus.display()));
            }
            // Check the files now, because runners build indexes next to the corpus, and a later
            // failure would waste that work.
            for file in data.queries.iter().chain([&data.corpus]) {
                std::fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?;
            }
        }
        Ok(options)
    }
}

fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(item).collect()
}

fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("`{text}` is not a positive number")),
    }
}

fn mode(text: &str) -> Result<String, String> {
    match text {
        "or" | "and" => Ok(text.to_owned()),
        _ => Err(format!("mode `{text}` is not one of or, and")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn query_logs_belong_to_the_preceding_corpus() {
        // Any two existing files.
        let line = "--home h --corpus Cargo.toml --queries src/main.rs,Cargo.toml --corpus src/peers.rs \
            --queries Cargo.toml --k 10,7 --modes and --engines pisa,lucene10bp --rounds 2 --index-args 1 --ours warpseek --cpu 1";
        let options = parse(line).unwrap();
        let logs: Vec<_> =
            options.data.iter().map(|d| (d.corpus.clone(), d.queries.len())).collect();
        assert_eq!(logs, [("Cargo.toml".into(), 2), ("src/peers.rs".into(), 1)]);
        assert_eq!((options.ks, options.modes), (vec![10, 7], vec!["and".to_owned()]));
        assert_eq!((options.engines, options.rounds), (vec![Peer::Pisa, Peer::Lucene10Bp], 2));
        assert_eq!((options.ours, options.cpu.as_deref()), (vec![DocumentOrder::Plain], Some("1")));
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (line, what) in [
            ("--home h", "nothing to compare"),
            ("--home h --queries Cargo.toml", "after its --corpus"),
            ("--home h --corpus Cargo.toml", "no --queries"),
            ("--home h --corpus Cargo.toml --queries none.tsv", "none.tsv"),
            ("--home h --k 10,x", "`x`"),
            ("--home h --rounds 0", "`0`"),
            ("--home h --modes xor", "`xor`"),
            ("--home h --engines grep", "`grep`"),
            ("--home h --ours theirs", "`theirs`"),
            ("--home h --cpu all", "`all`"),
            ("--home h --corpus", "`--corpus` needs"),
            ("--frob 1", "`--frob`"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}

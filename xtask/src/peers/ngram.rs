//! `cargo xtask peers --ngram`: compares approximate search with other engines, on misspelt
//! phrases from a corpus.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::engine::{output, program, sum_bytes};

pub(super) const USAGE: &str = "\
usage: cargo xtask peers --ngram --corpus FILE [OPTIONS]

  --corpus FILE      JSONL with `id`, `title` and `text`; indexes are written below target/peers
  --phrases N        number of phrases, each with 0 to 4 errors [200]
  --rounds N         number of rounds, in which the engines take turns; the best is reported [3]
  --engines NAMES    engines to compare with: tantivy (BM25 of 3-grams), sassy (scan) [tantivy,sassy]
  --warpseek FILE    the warpseek program to measure [a dist build of this source tree]
  --json FILE        write all figures to this file, in addition to the table";

struct Options {
    corpus: PathBuf,
    phrases: String,
    rounds: usize,
    engines: Vec<String>,
    warpseek: Option<PathBuf>,
    json: Option<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            corpus: PathBuf::new(),
            phrases: "200".to_owned(),
            rounds: 3,
            engines: vec!["tantivy".to_owned(), "sassy".to_owned()],
            warpseek: None,
            json: None,
        };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("`{name}` needs a value\n\n{USAGE}"))?;
            let number = || match value.parse::<usize>() {
                Ok(n) if n > 0 => Ok(n),
                _ => Err(format!("`{value}` is not a positive number")),
            };
            match name.as_str() {
                "--corpus" => options.corpus = value.into(),
                "--phrases" => options.phrases = number()?.to_string(),
                "--rounds" => options.rounds = number()?,
                "--engines" => options.engines = value.split(',').map(str::to_owned).collect(),
                "--warpseek" => options.warpseek = Some(value.into()),
                "--json" => options.json = Some(value.into()),
                _ => return Err(format!("`{name}` is unknown\n\n{USAGE}")),
            }
        }
        if options.corpus.as_os_str().is_empty() {
            return Err(format!("--corpus is missing\n\n{USAGE}"));
        }
        fs::metadata(&options.corpus).map_err(|e| format!("{}: {e}", options.corpus.display()))?;
        Ok(options)
    }
}

/// Results of an engine at a number of errors, the best of all rounds.
#[derive(Clone, Copy, Default)]
struct Figure {
    recall: f64,
    ms: f64,
}

/// Results by engine, then by number of errors.
type Figures = BTreeMap<String, BTreeMap<u64, Figure>>;

pub(super) fn run(args: impl Iterator<Item = String>) -> Result<(), String> {
    let options = Options::parse(args)?;
    let program = program(options.warpseek.as_deref())?;
    let target = PathBuf::from(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let home = target.join("peers");
    let name = options.corpus.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let ours = home.join(format!("{name}.warpseek"));
    let theirs = home.join(format!("{name}.tantivy"));
    let phrases = home.join(format!("{name}.phrases.jsonl"));
    fs::create_dir_all(&home).map_err(|e| format!("{}: {e}", home.display()))?;
    // The scan needs AVX2 at compile time, so all engines are compiled for the features of this
    // machine.
    let manifest = "xtask/ngram-peers/Cargo.toml";
    let build = ["build", "--release", "--locked", "--manifest-path", manifest, "--target-dir"];
    let folder = home.to_string_lossy().into_owned();
    let args: Vec<&str> = build.into_iter().chain([folder.as_str()]).collect();
    crate::cargo(&args, &[("RUSTFLAGS", "-C target-cpu=native")])?;
    let mut index = Command::new(&program);
    index.args(["ngram", "index", "--overwrite", "--quiet", "-o"]).arg(&ours).arg(&options.corpus);
    output(&mut index)?;
    let of_index = |name: &str| [".dict", ".post", ".docs"].iter().any(|end| name.ends_with(end));
    let mut bytes = BTreeMap::from([("warpseek".to_owned(), sum_bytes(&ours, of_index)?)]);
    // All indexes are rebuilt from the same documents.
    if theirs.exists() {
        fs::remove_dir_all(&theirs).map_err(|e| format!("{}: {e}", theirs.display()))?;
    }
    let mut figures = Figures::new();
    for round in 0..options.rounds {
        let mut bench = Command::new(&program);
        bench.args(["bench", "ngram", "--measure", "recall", "--json", "--quiet", "--phrases"]);
        bench.arg(&options.phrases).arg("--index").arg(&ours).arg("--save-phrases").arg(&phrases);
        add_ours(&mut figures, &output(&mut bench)?)?;
        for engine in &options.engines {
            // A scan takes long, and its time varies little.
            if engine == "sassy" && round > 0 {
                continue;
            }
            let mut runner = Command::new(home.join("release/ngram-peers"));
            runner.arg(engine).arg(&options.corpus).arg(&phrases).arg(&theirs);
            for line in output(&mut runner)?.lines() {
                let line: Value = serde_json::from_str(line).map_err(|e| format!("{line}: {e}"))?;
                add(&mut figures, engine, &line, "recall", "mean_ms");
                bytes.insert(engine.clone(), line["bytes"].as_u64().unwrap_or(0));
            }
        }
    }
    print!("{}", table(&figures, &bytes));
    println!("\nOne core, ten hits. pg_trgm is not among the engines; it needs a server.");
    if let Some(file) = &options.json {
        let figures: BTreeMap<_, Vec<Value>> = figures
            .into_iter()
            .map(|(engine, by_errors)| {
                let line = |(errors, f): (u64, Figure)| json!({ "errors": errors, "recall": f.recall, "mean_ms": f.ms });
                (engine, by_errors.into_iter().map(line).collect())
            })
            .collect();
        let text = json!({ "figures": figures, "bytes": bytes });
        fs::write(file, format!("{text:#}\n")).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Adds the report of `bench ngram`: with 12 misses and with 3 misses per error, each without and
/// with edit distances.
fn add_ours(figures: &mut Figures, report: &str) -> Result<(), String> {
    let report: Value = serde_json::from_str(report).map_err(|e| format!("`bench ngram`: {e}"))?;
    let lines = report["recall"].as_array().ok_or("`bench ngram` reports no recall")?;
    // The first half has 12 misses for any number of errors; with 4 errors the two halves are
    // equal.
    for (i, line) in lines.iter().enumerate() {
        let name = if i < lines.len() / 2 { "12 misses" } else { "3 an error" };
        add(figures, &format!("warpseek, {name}"), line, "recall", "mean_ms");
        add(figures, &format!("warpseek, {name}, verified"), line, "verified", "verified_ms");
    }
    Ok(())
}

fn add(figures: &mut Figures, engine: &str, line: &Value, recall: &str, ms: &str) {
    let errors = line["errors"].as_u64().unwrap_or(0);
    let recall = line[recall].as_f64().unwrap_or(0.0);
    let ms = line[ms].as_f64().unwrap_or(f64::INFINITY);
    let by_errors = figures.entry(engine.to_owned()).or_default();
    let known = by_errors.entry(errors).or_insert(Figure { recall, ms });
    known.ms = known.ms.min(ms);
}

fn mean_ms(by_errors: &BTreeMap<u64, Figure>) -> f64 {
    by_errors.values().map(|f| f.ms).sum::<f64>() / by_errors.len().max(1) as f64
}

fn table(figures: &Figures, bytes: &BTreeMap<String, u64>) -> String {
    let base = figures.get("tantivy").map(mean_ms);
    let mut out = String::from(
        "| engine | recall at 0 | 1 | 2 | 3 | 4 errors | mean ms | by tantivy's | index MB |\n|---|---|---|---|---|---|--:|--:|--:|\n",
    );
    for (engine, by_errors) in figures {
        let recall =
            |e: u64| by_errors.get(&e).map_or_else(String::new, |f| format!("{:.3}", f.recall));
        let recalls: Vec<String> = (0..=4).map(recall).collect();
        let ratio =
            base.map_or_else(String::new, |base| format!("{:.3}", mean_ms(by_errors) / base));
        let size = bytes.get(engine.split(',').next().unwrap_or_default());
        let size = size.map_or_else(String::new, |bytes| (bytes / 1_000_000).to_string());
        let (recalls, ms) = (recalls.join(" | "), mean_ms(by_errors));
        out += &format!("| {engine} | {recalls} | {ms:.3} | {ratio} | {size} |\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_round_counts() {
        let mut figures = Figures::new();
        for ms in [4.0, 2.0, 3.0] {
            let line = json!({ "errors": 1, "recall": 0.5, "mean_ms": ms });
            add(&mut figures, "tantivy", &line, "recall", "mean_ms");
            let line = json!({ "errors": 1, "recall": 0.75, "mean_ms": ms / 10.0 });
            add(&mut figures, "warpseek, 12 misses", &line, "recall", "mean_ms");
        }
        let bytes = BTreeMap::from([("warpseek".to_owned(), 5_000_000)]);
        let table = table(&figures, &bytes);
        assert!(table.contains("| tantivy |  | 0.500 |  |  |  | 2.000 | 1.000 |  |"), "{table}");
        let ours = "| warpseek, 12 misses |  | 0.750 |  |  |  | 0.200 | 0.100 | 5 |";
        assert!(table.contains(ours), "{table}");
    }

    #[test]
    fn options_are_checked() {
        let parse = |line: &str| Options::parse(line.split_whitespace().map(str::to_owned));
        assert!(parse("").is_err());
        assert!(parse("--corpus missing.jsonl").is_err());
        assert!(parse("--corpus Cargo.toml --rounds 0").is_err());
        let options = parse("--corpus Cargo.toml --rounds 2 --engines sassy").unwrap();
        assert_eq!((options.rounds, options.engines), (2, vec!["sassy".to_owned()]));
    }
}

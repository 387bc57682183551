//! `cargo xtask peers --prepare`: writes collections of five kinds with three query logs each, as
//! tokens that every engine sees alike.
//!
//! A token is a run of lower-case letters and digits. Query words that the collection lacks are
//! dropped, and so are repeated ones: some engines would drop them themselves, and others would
//! find nothing.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::engine;

pub(super) const USAGE: &str = "\
usage: cargo xtask peers --prepare DIR [OPTIONS]

Writes DIR/KIND/corpus.jsonl and DIR/KIND/queries_*.tsv, and lists the kinds for which a source is missing:
  rfc       passages: title and text              (--rfc)
  debian    package descriptions: title and text  (--debian)
  titles    very short documents: the titles of both
  whole     long documents: whole RFCs            (--rfc)
  syn400k   400,000 documents of independent words, by `warpseek synth`

  --rfc FILE         output of corpora/rfc.sh
  --debian FILE      output of corpora/debian-descriptions.sh
  --logs DIR         folder with query logs, one query per line [../shared/data/queries]
  --most N           number of queries from each log [400]
  --docs N           number of documents in syn400k [400000]
  --warpseek FILE    the warpseek program [a dist build of this source tree]";

/// Maximum length of a token; longer ones are dropped.
const LONGEST_TOKEN: usize = 64;

struct Options {
    dir: PathBuf,
    rfc: Option<PathBuf>,
    debian: Option<PathBuf>,
    logs: PathBuf,
    most: usize,
    docs: usize,
    warpseek: Option<PathBuf>,
}

pub(super) fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let mut options = Options {
        dir: args.next().ok_or_else(|| format!("--prepare needs a folder\n\n{USAGE}"))?.into(),
        rfc: None,
        debian: None,
        logs: PathBuf::from("../shared/data/queries"),
        most: 400,
        docs: 400_000,
        warpseek: None,
    };
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("`{name}` needs a value\n\n{USAGE}"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is not a number"));
        match name.as_str() {
            "--rfc" => options.rfc = Some(value.into()),
            "--debian" => options.debian = Some(value.into()),
            "--logs" => options.logs = value.into(),
            "--most" => options.most = number()?,
            "--docs" => options.docs = number()?,
            "--warpseek" => options.warpseek = Some(value.into()),
            _ => return Err(format!("`{name}` is unknown\n\n{USAGE}")),
        }
    }
    let logs = logs(&options.logs)?;
    let (rfc, debian) = (options.rfc.as_slice(), options.debian.as_slice());
    let both = [rfc, debian].concat();
    let kinds: [(&str, &[PathBuf], Walk, Part); 4] = [
        ("rfc", rfc, each, title_and_text),
        ("debian", debian, each, title_and_text),
        ("titles", &both, grouped, title),
        ("whole", rfc, grouped, title_and_text),
    ];
    for (kind, sources, walk, part) in kinds {
        if sources.is_empty() {
            eprintln!("{kind}: skipped, because no source was given");
            continue;
        }
        let dir = options.dir.join(kind);
        let mut corpus = Corpus::create(&dir)?;
        for source in sources {
            walk(source, &mut |document| corpus.add(&document.id, &part(&document)))?;
        }
        let (docs, words) = corpus.finish()?;
        for (name, queries) in &logs {
            write_log(&dir, name, queries, options.most, &words)?;
        }
        eprintln!("{kind}: {docs} documents, {} distinct words", words.len());
    }
    synthetic(&options)
}

/// A function that processes a document.
type Visit<'a> = dyn FnMut(Document) -> Result<(), String> + 'a;

/// A function that reads the documents of a file.
type Walk = fn(&Path, &mut Visit<'_>) -> Result<(), String>;

/// A function that returns the indexed text of a document.
type Part = fn(&Document) -> String;

fn title_and_text(document: &Document) -> String {
    format!("{} {}", document.title, document.text)
}

fn title(document: &Document) -> String {
    document.title.clone()
}

struct Document {
    id: String,
    title: String,
    text: String,
}

/// Reads each line as one document.
fn each(path: &Path, f: &mut Visit<'_>) -> Result<(), String> {
    let error = |what: String| format!("{}: {what}", path.display());
    let file = fs::File::open(path).map_err(|e| error(e.to_string()))?;
    for (i, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| error(e.to_string()))?;
        let value: Value =
            serde_json::from_str(&line).map_err(|e| error(format!("line {}: {e}", i + 1)))?;
        let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        f(Document { id: field("id"), title: field("title"), text: field("text") })?;
    }
    Ok(())
}

/// Reads documents whose passages are joined: consecutive lines with the same id up to `#`.
fn grouped(path: &Path, f: &mut Visit<'_>) -> Result<(), String> {
    let whole = |id: &str| id.split('#').next().unwrap_or_default().to_owned();
    let mut open: Option<Document> = None;
    each(path, &mut |document| {
        let id = whole(&document.id);
        match &mut open {
            Some(before) if before.id == id => {
                before.text.push(' ');
                before.text.push_str(&document.text);
                Ok(())
            }
            _ => match open.replace(Document { id, ..document }) {
                Some(before) => f(before),
                None => Ok(()),
            },
        }
    })?;
    open.map_or(Ok(()), f)
}

/// A collection that is being written.
struct Corpus {
    path: PathBuf,
    file: BufWriter<fs::File>,
    words: HashSet<String>,
    docs: usize,
}

impl Corpus {
    fn create(dir: &Path) -> Result<Self, String> {
        let path = dir.join("corpus.jsonl");
        let error = |e: std::io::Error| format!("{}: {e}", path.display());
        fs::create_dir_all(dir).map_err(error)?;
        let file = BufWriter::new(fs::File::create(&path).map_err(error)?);
        Ok(Corpus { path, file, words: HashSet::new(), docs: 0 })
    }

    /// Adds a document, unless it has no tokens.
    fn add(&mut self, id: &str, text: &str) -> Result<(), String> {
        let tokens = tokens(text);
        if tokens.is_empty() {
            return Ok(());
        }
        let id = id.replace(['"', '\\'], "");
        // The line has a fixed layout, because one of the runners parses it by hand.
        let line = format!("{{\"id\": \"{id}\", \"text\": \"{}\"}}\n", tokens.join(" "));
        self.file
            .write_all(line.as_bytes())
            .map_err(|e| format!("{}: {e}", self.path.display()))?;
        for token in tokens {
            if !self.words.contains(&token) {
                self.words.insert(token);
            }
        }
        self.docs += 1;
        Ok(())
    }

    /// Returns the number of documents and their distinct words.
    fn finish(mut self) -> Result<(usize, HashSet<String>), String> {
        self.file.flush().map_err(|e| format!("{}: {e}", self.path.display()))?;
        Ok((self.docs, self.words))
    }
}

fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let other = |c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit();
    let fits = |token: &&str| !token.is_empty() && token.len() <= LONGEST_TOKEN;
    lower.split(other).filter(fits).map(str::to_owned).collect()
}

/// Reads the logs of a folder: files `NAME.txt` with one query per line.
fn logs(dir: &Path) -> Result<Vec<(String, Vec<String>)>, String> {
    let error = |e: std::io::Error| format!("{}: {e}", dir.display());
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".txt"));
        let Some(name) = name.map(str::to_owned) else { continue };
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        logs.push((name, text.lines().map(str::to_owned).collect()));
    }
    logs.sort();
    match logs.is_empty() {
        true => Err(format!(
            "{} contains no query logs (*.txt); specify their folder with --logs",
            dir.display()
        )),
        false => Ok(logs),
    }
}

fn write_log(
    dir: &Path,
    name: &str,
    queries: &[String],
    most: usize,
    words: &HashSet<String>,
) -> Result<(), String> {
    let mut out = String::new();
    let known = queries.iter().enumerate().filter_map(|(i, query)| {
        let known = known_words(query, words);
        (!known.is_empty()).then(|| format!("q{i}\t{}\n", known.join(" ")))
    });
    out.extend(known.take(most));
    let path = dir.join(format!("queries_{name}.tsv"));
    fs::write(&path, out).map_err(|e| format!("{}: {e}", path.display()))
}

/// Returns the distinct words of a query that the collection has.
fn known_words(query: &str, words: &HashSet<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    tokens(query)
        .into_iter()
        .filter(|word| words.contains(word) && seen.insert(word.clone()))
        .collect()
}

/// Generates a collection without correlations, with three logs of queries for it: as drawn,
/// short ones, and long ones.
fn synthetic(options: &Options) -> Result<(), String> {
    let dir = options.dir.join("syn400k");
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let program = engine::program(options.warpseek.as_deref())?;
    let docs = options.docs.to_string();
    let synth = |more: &[&str], to: &Path| {
        let mut command = Command::new(&program);
        command.args(["synth", "--docs", &docs, "--quiet"]).args(more).arg("-o").arg(to);
        engine::output(&mut command)
    };
    let raw = dir.join("synth.jsonl");
    synth(&["--burst", "0"], &raw)?;
    let mut corpus = Corpus::create(&dir)?;
    each(&raw, &mut |document| corpus.add(&document.id, &document.text))?;
    let (docs, words) = corpus.finish()?;
    let drawn = dir.join("synth.tsv");
    synth(&["--queries", &(8 * options.most).to_string()], &drawn)?;
    let text = fs::read_to_string(&drawn).map_err(|e| format!("{}: {e}", drawn.display()))?;
    let query = |line: &str| line.split_once('\t').map_or(line, |(_, text)| text).to_owned();
    let queries: Vec<String> = text.lines().map(query).collect();
    let of_length = |words: RangeInclusive<usize>| -> Vec<String> {
        let fits = |query: &&String| words.contains(&query.split_whitespace().count());
        queries.iter().filter(fits).cloned().collect()
    };
    for (name, queries) in [
        ("main", of_length(1..=usize::MAX)),
        ("short", of_length(1..=2)),
        ("long", of_length(4..=usize::MAX)),
    ] {
        write_log(&dir, name, &queries, options.most, &words)?;
    }
    for file in [raw, drawn] {
        fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    eprintln!("syn400k: {docs} documents, {} distinct words", words.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_lower_case_letters_and_digits() {
        assert_eq!(tokens("The CAFÉ-2, x_1"), ["the", "caf", "2", "x", "1"]);
        assert_eq!(tokens(&"a".repeat(LONGEST_TOKEN + 1)), [] as [&str; 0]);
    }

    #[test]
    fn queries_keep_distinct_words_that_the_collection_has() {
        let words = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(known_words("B x A b", &words), ["b", "a"]);
    }

    #[test]
    fn passages_of_one_document_are_put_together() {
        let path = std::env::temp_dir().join(format!("warpseek-grouped-{}", std::process::id()));
        let lines = "{\"id\": \"r1#0\", \"title\": \"T\", \"text\": \"a\"}\n{\"id\": \"r1#1\", \"text\": \"b\"}\n{\"id\": \"r2#0\", \"text\": \"c\"}\n";
        fs::write(&path, lines).unwrap();
        let mut found = Vec::new();
        grouped(&path, &mut |document| {
            found.push((document.id.clone(), title_and_text(&document)));
            Ok(())
        })
        .unwrap();
        fs::remove_file(&path).unwrap();
        let expected = [("r1", "T a b"), ("r2", " c")];
        assert_eq!(found, expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    }
}

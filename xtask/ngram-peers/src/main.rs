//! Other engines for approximate search: BM25 over the 3-grams of a text (tantivy), and a scan
//! for the nearest match in all texts (sassy). They run on one core and return ten hits.
//!
//! Arguments: ENGINE CORPUS PHRASES DIR. CORPUS is JSONL with `id`, `title` and `text`; PHRASES
//! is JSONL with `doc`, `errors` and `text`. The program builds an index in DIR unless there is
//! one, and prints one line of JSON for each number of errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::{IndexRecordOption, STORED, Schema, STRING, TextFieldIndexing, TextOptions, Value as _};
use tantivy::tokenizer::{NgramTokenizer, TextAnalyzer};
use tantivy::{Index, IndexReader, TantivyDocument, Term, doc};

type Failure = Box<dyn std::error::Error>;

/// Number of hits per query.
const K: usize = 10;
/// Name of the tokenizer.
const GRAMS: &str = "3-grams";

struct Phrase {
    doc: String,
    errors: u64,
    text: String,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [engine, corpus, phrases, dir] = &args[..] else {
        return Err("arguments: tantivy|sassy CORPUS PHRASES DIR".into());
    };
    let phrases: Vec<Phrase> = lines(Path::new(phrases), |line| {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Phrase { doc: text("doc")?, errors: line["errors"].as_u64()?, text: normal(&text("text")?) })
    })?;
    let documents = || {
        lines(Path::new(corpus), |line| {
            let title = line["title"].as_str().unwrap_or_default();
            let text = normal(&format!("{title} {}", line["text"].as_str()?));
            Some((line["id"].as_str()?.to_owned(), text))
        })
    };
    match engine.as_str() {
        "tantivy" => {
            let engine = Tantivy::open(Path::new(dir), documents)?;
            measure("tantivy", engine.bytes(Path::new(dir))?, &phrases, |p| engine.search(&p.text))
        }
        "sassy" => {
            let documents = documents()?;
            let mut searcher = sassy::Searcher::<sassy::profiles::Ascii>::new_fwd().without_trace();
            measure("sassy", 0, &phrases, |phrase| {
                let pattern = phrase.text.as_bytes();
                let mut found: Vec<(i32, usize)> = Vec::new();
                for (number, (_, text)) in documents.iter().enumerate() {
                    let matches = searcher.search(pattern, &text.as_bytes(), phrase.errors as usize);
                    found.extend(matches.iter().map(|m| (m.cost as i32, number)).min());
                }
                found.sort_unstable();
                Ok(found.iter().take(K).map(|&(_, number)| documents[number].0.clone()).collect())
            })
        }
        other => Err(format!("unknown engine `{other}`; it must be tantivy or sassy").into()),
    }
}

/// Returns the text as lower-case letters and digits; anything else becomes one blank.
fn normal(text: &str) -> String {
    let letters: String = text.chars().flat_map(char::to_lowercase).collect();
    let words = letters.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Reads a file of JSON lines.
fn lines<T>(path: &Path, read: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>, Failure> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut all = Vec::new();
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        let value = serde_json::from_str(&line?)?;
        let item = read(&value);
        all.push(item.ok_or_else(|| format!("{}:{number}: a field is missing", path.display()))?);
    }
    Ok(all)
}

/// Searches all phrases, after some to warm up, and prints recall and times.
fn measure(
    engine: &str,
    bytes: u64,
    phrases: &[Phrase],
    mut search: impl FnMut(&Phrase) -> Result<Vec<String>, Failure>,
) -> Result<(), Failure> {
    for phrase in phrases.iter().take(10) {
        search(phrase)?;
    }
    let mut by_errors: BTreeMap<u64, (usize, usize, f64)> = BTreeMap::new();
    for phrase in phrases {
        let start = Instant::now();
        let hits = search(phrase)?;
        let took = start.elapsed().as_secs_f64() * 1e3;
        let (found, all, ms) = by_errors.entry(phrase.errors).or_default();
        *found += usize::from(hits.contains(&phrase.doc));
        *all += 1;
        *ms += took;
    }
    for (errors, (found, all, ms)) in by_errors {
        let (recall, mean_ms) = (found as f64 / all as f64, ms / all as f64);
        println!("{}", json!({"engine": engine, "errors": errors, "recall": recall, "mean_ms": mean_ms, "bytes": bytes}));
    }
    Ok(())
}

struct Tantivy {
    index: Index,
    reader: IndexReader,
}

impl Tantivy {
    fn open(
        dir: &Path,
        documents: impl Fn() -> Result<Vec<(String, String)>, Failure>,
    ) -> Result<Self, Failure> {
        let exists = dir.join("meta.json").exists();
        let index = match exists {
            true => Index::open_in_dir(dir)?,
            false => {
                std::fs::create_dir_all(dir)?;
                let mut schema = Schema::builder();
                let indexing = TextFieldIndexing::default()
                    .set_tokenizer(GRAMS)
                    .set_index_option(IndexRecordOption::WithFreqs);
                schema.add_text_field("id", STRING | STORED);
                schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
                Index::create_in_dir(dir, schema.build())?
            }
        };
        index.tokenizers().register(GRAMS, TextAnalyzer::from(NgramTokenizer::all_ngrams(3, 3)?));
        if !exists {
            let (id, text) = (index.schema().get_field("id")?, index.schema().get_field("text")?);
            let mut writer = index.writer_with_num_threads(1, 1 << 30)?;
            for (name, content) in documents()? {
                writer.add_document(doc!(id => name, text => format!(" {content} ")))?;
            }
            writer.commit()?;
            let segments = index.searchable_segment_ids()?;
            if segments.len() > 1 {
                writer.merge(&segments).wait()?;
            }
            writer.wait_merging_threads()?;
        }
        let reader = index.reader()?;
        Ok(Tantivy { index, reader })
    }

    fn search(&self, text: &str) -> Result<Vec<String>, Failure> {
        let field = self.index.schema().get_field("text")?;
        let letters: Vec<char> = format!(" {text} ").chars().collect();
        let grams: BTreeSet<String> = letters.windows(3).map(|gram| gram.iter().collect()).collect();
        let clause = |gram: String| -> (Occur, Box<dyn Query>) {
            let term = Term::from_field_text(field, &gram);
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
        };
        let query = BooleanQuery::new(grams.into_iter().map(clause).collect());
        let searcher = self.reader.searcher();
        let id = self.index.schema().get_field("id")?;
        let found = searcher.search(&query, &TopDocs::with_limit(K).order_by_score())?;
        let name = |address| -> Result<String, Failure> {
            let document: TantivyDocument = searcher.doc(address)?;
            let value = document.get_first(id).and_then(|value| value.as_str());
            Ok(value.unwrap_or_default().to_owned())
        };
        found.into_iter().map(|(_, address)| name(address)).collect()
    }

    /// Returns the bytes of the index without its stored fields.
    fn bytes(&self, dir: &Path) -> Result<u64, Failure> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.path().extension().is_none_or(|extension| extension != "store") {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes)
    }
}

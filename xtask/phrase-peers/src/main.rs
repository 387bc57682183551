//! Compares phrases of adjacent words in warpseek and in tantivy, on one thread: `phrase-peers
//! CORPUS QUERIES [K]`.
//!
//! The corpus has one JSON object per line with `id` and `text`, whose words are lower case and
//! separated by blanks; a line of queries has words, optionally after an id and a tab. The
//! phrases are all pairs of adjacent words, and all queries of three words or more. Both engines
//! have one segment of the same tokens, with k1 1.2 and b 0.75. The measured time covers the
//! construction of the query, the lookup of terms and the best k hits. The engines take turns,
//! and the time of a query is the best of five.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tantivy::collector::{Count, TopDocs};
use tantivy::indexer::NoMergePolicy;
use tantivy::query::PhraseQuery;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, Searcher, TantivyDocument, Term};
use warpseek_exec::query::{Node, Phrase};
use warpseek_exec::{Context, Engine, Planner, Ranking, RankingFunction};
use warpseek_exec_cpu::CpuEngine;
use warpseek_index::{BuildConfig, FilterCache, Progress, Snapshot, StoreMode, create};
use warpseek_text::Analyzer;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, queries, more @ ..] = &args[..] else {
        return Err("usage: phrase-peers CORPUS QUERIES [K]".into());
    };
    let k: usize = more.first().map_or(Ok(10), |k| k.parse())?;
    let phrases = phrases(queries)?;
    let home = tempfile::tempdir()?;

    let start = Instant::now();
    let tantivy = Tantivy::build(corpus, &home.path().join("tantivy"))?;
    report("tantivy", start, &home.path().join("tantivy"), |_| true)?;
    let build = |name: &str, positions: bool| -> Result<PathBuf> {
        let (dir, start) = (home.path().join(name), Instant::now());
        let (analyzer, store) = (Analyzer::Raw, StoreMode::Ids);
        let config =
            BuildConfig { threads: 1, analyzer, store, positions, ..BuildConfig::default() };
        create(&dir, &[PathBuf::from(corpus)], &config, false, &Progress::default())?;
        report(name, start, &dir, |_| true)?;
        report(&format!("{name}, lists alone"), start, &dir, |file| {
            ["dict", "post", "docs", "pos"].iter().any(|kind| file.ends_with(kind))
        })?;
        Ok(dir)
    };
    build("warpseek", false)?;
    let dir = build("warpseek with positions", true)?;
    let warpseek = Warpseek::open(&dir)?;

    let mut times = vec![[f64::INFINITY; 2]; phrases.len()];
    let mut matching = 0u64;
    for (i, phrase) in phrases.iter().enumerate() {
        let (ours, theirs) = (warpseek.count(phrase)?, tantivy.count(phrase)?);
        if ours != theirs {
            println!("{phrase:?}: {ours} matches, tantivy has {theirs}");
        }
        matching += u64::from(ours > 0);
        warpseek.search(phrase, k)?;
        tantivy.search(phrase, k)?;
        times[i] = [f64::INFINITY; 2];
    }
    for _ in 0..ROUNDS {
        for (phrase, best) in phrases.iter().zip(&mut times) {
            let start = Instant::now();
            warpseek.search(phrase, k)?;
            best[0] = best[0].min(start.elapsed().as_secs_f64() * 1e6);
        }
        for (phrase, best) in phrases.iter().zip(&mut times) {
            let start = Instant::now();
            tantivy.search(phrase, k)?;
            best[1] = best[1].min(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    println!("{} phrases, {matching} of them in documents, k = {k}", phrases.len());
    println!("| engine | mean us | median | p99 |\n|---|--:|--:|--:|");
    for (engine, name) in ["warpseek", "tantivy 0.27"].into_iter().enumerate() {
        let mut own: Vec<f64> = times.iter().map(|times| times[engine]).collect();
        own.sort_by(f64::total_cmp);
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        let at = |part: f64| own[((own.len() - 1) as f64 * part).round() as usize];
        println!("| {name} | {mean:.1} | {:.1} | {:.1} |", at(0.5), at(0.99));
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load average: {}", load.trim());
    Ok(())
}

fn report(name: &str, start: Instant, dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    let mut bytes = 0;
    for file in fs::read_dir(dir)? {
        let file = file?;
        if wanted(&file.file_name().to_string_lossy()) {
            bytes += file.metadata()?.len();
        }
    }
    println!("{name}: {:.1} s, {:.1} MB", start.elapsed().as_secs_f64(), bytes as f64 / 1e6);
    Ok(())
}

fn phrases(file: &str) -> Result<Vec<Vec<String>>> {
    let mut phrases = BTreeSet::new();
    for line in fs::read_to_string(file)?.lines() {
        let text = line.split_once('\t').map_or(line, |(_, text)| text);
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        phrases.extend(words.windows(2).map(<[String]>::to_vec));
        if words.len() > 2 {
            phrases.insert(words);
        }
    }
    Ok(phrases.into_iter().collect())
}

struct Warpseek {
    planner: Planner,
    engine: CpuEngine,
    cache: FilterCache,
    context: Context,
}

impl Warpseek {
    fn open(dir: &Path) -> Result<Self> {
        let snapshot = Arc::new(Snapshot::open(dir)?);
        let function = RankingFunction::Bm25 { k1: 1.2, b: 0.75 };
        let ranking = Ranking { function, static_weight: 0.0 };
        let planner = Planner::new(snapshot.clone(), ranking)?;
        let engine = CpuEngine::new(snapshot, None);
        let (cache, context) = (FilterCache::new(0), Context::new(1));
        Ok(Warpseek { planner, engine, cache, context })
    }

    fn answer(&self, words: &[String], k: usize, count: bool) -> Result<warpseek_exec::Answer> {
        let tree = Node::Phrase(Phrase::exact([], words.join(" ")));
        let mut plan = self.planner.plan_tree(&tree, None, None, k, &self.cache)?;
        plan.count = count;
        Ok(self.engine.search(&[&plan], &self.context).remove(0)?)
    }

    fn search(&self, words: &[String], k: usize) -> Result<usize> {
        Ok(self.answer(words, k, false)?.hits.len())
    }

    fn count(&self, words: &[String]) -> Result<u64> {
        Ok(self.answer(words, 1, true)?.matches.unwrap_or(0))
    }
}

struct Tantivy {
    searcher: Searcher,
    text: Field,
}

impl Tantivy {
    fn build(corpus: &str, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer("whitespace")
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let options = TextOptions::default().set_indexing_options(indexing);
        let text = schema.add_text_field("text", options);
        let index = Index::create_in_dir(dir, schema.build())?;
        let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, 1500 << 20)?;
        writer.set_merge_policy(Box::new(NoMergePolicy));
        for line in BufReader::new(fs::File::open(corpus)?).lines() {
            let value: serde_json::Value = serde_json::from_str(&line?)?;
            let mut document = TantivyDocument::default();
            document.add_text(text, value["text"].as_str().ok_or("a document without text")?);
            writer.add_document(document)?;
        }
        writer.commit()?;
        let ids = index.searchable_segment_ids()?;
        if ids.len() > 1 {
            writer.merge(&ids).wait()?;
        }
        writer.garbage_collect_files().wait()?;
        writer.wait_merging_threads()?;
        Ok(Tantivy { searcher: index.reader()?.searcher(), text })
    }

    fn query(&self, words: &[String]) -> PhraseQuery {
        PhraseQuery::new(words.iter().map(|w| Term::from_field_text(self.text, w)).collect())
    }

    fn search(&self, words: &[String], k: usize) -> Result<usize> {
        let top = TopDocs::with_limit(k).order_by_score();
        Ok(self.searcher.search(&self.query(words), &top)?.len())
    }

    fn count(&self, words: &[String]) -> Result<u64> {
        Ok(self.searcher.search(&self.query(words), &Count)? as u64)
    }
}

//! Refreshes a searcher while it answers requests, on a GPU if there is one, and prints the
//! longest search before, during and after the refresh.
//!
//!     cargo run --release -p warpseek --example refresh_while_searching
//!     cargo run --release -p warpseek --example refresh_while_searching -- \
//!         INDEX QUERIES DOCUMENTS.jsonl
//!
//! With arguments, the documents are added to the index, which keeps them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpseek::{DeviceChoice, Document, Index, Request, Searcher, SearcherOptions};

/// The end and the duration of each search.
type Times = Mutex<Vec<(Instant, Duration)>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (index, queries, documents) = match &arguments[..] {
        [index, queries, documents] => {
            let queries = std::fs::read_to_string(queries)?;
            let text = |line: &str| line.rsplit('\t').next().unwrap_or(line).to_owned();
            let queries = queries.lines().take(1000).map(text).collect();
            let documents = std::fs::read_to_string(documents)?;
            let document = |line: &str| -> Result<Document, serde_json::Error> {
                let fields: serde_json::Value = serde_json::from_str(line)?;
                let field = |name: &str| fields[name].as_str().unwrap_or("").to_owned();
                Ok(Document::new(field("id"), field("title"), field("text")))
            };
            let documents = documents.lines().map(document).collect::<Result<Vec<_>, _>>()?;
            (Index::at(index), queries, documents)
        }
        _ => {
            let index = Index::create(folder.path().join("notes"))?;
            let note =
                |i: usize| Document::new(i.to_string(), "", format!("note {i} of {}", i % 7));
            let mut writer = index.writer()?;
            (0..1000).try_for_each(|i| writer.add(note(i)))?;
            writer.commit()?;
            (index, vec!["note of 3".to_owned()], (1000..1010).map(note).collect())
        }
    };
    let options = SearcherOptions::new().device(DeviceChoice::Auto).gpu_from(0);
    let searcher = index.searcher_with(options)?;
    let start = Instant::now();
    searcher.prepare()?;
    println!("ready in {:.3} s", start.elapsed().as_secs_f64());

    let (times, ended) = (Times::default(), AtomicBool::new(false));
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        scope.spawn(|| keep_searching(&searcher, &queries, &times, &ended));
        // Searches end with this function, whatever happens in it.
        let refreshed = refresh(&index, &searcher, documents);
        ended.store(true, Ordering::Relaxed);
        let (before, after) = refreshed?;
        let times = times.lock().map_err(|error| error.to_string())?;
        let phase = |at: Instant| usize::from(at >= before) + usize::from(at >= after);
        for (number, name) in ["before", "during", "after"].into_iter().enumerate() {
            let in_phase = times.iter().filter(|(at, _)| phase(*at) == number);
            let mut took: Vec<Duration> = in_phase.map(|(_, took)| *took).collect();
            took.sort_unstable();
            let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or_default();
            let longest = took.last().copied().unwrap_or_default();
            println!("{name}: {} searches, median {:?}, longest {longest:?}", took.len(), at(50));
        }
        Ok(())
    })?;
    for gpu in searcher.gpu_status().residency {
        println!(
            "{}: {gpu}; {} bytes of lists were copied for the refresh",
            gpu.device, gpu.copied
        );
    }
    Ok(())
}

/// Searches again and again.
fn keep_searching(searcher: &Searcher, queries: &[String], times: &Times, ended: &AtomicBool) {
    for query in queries.iter().cycle() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let start = Instant::now();
        let found = searcher.search(&Request::new(query.as_str()));
        assert!(found.is_ok(), "{:?}", found.err());
        if let Ok(mut times) = times.lock() {
            times.push((Instant::now(), start.elapsed()));
        }
    }
}

/// Adds documents and refreshes the searcher. Returns the start and the end of the refresh.
fn refresh(
    index: &Index,
    searcher: &Searcher,
    documents: Vec<Document>,
) -> Result<(Instant, Instant), warpseek::Error> {
    std::thread::sleep(Duration::from_millis(200));
    let mut writer = index.writer()?;
    documents.into_iter().try_for_each(|document| writer.add(document))?;
    writer.commit()?;
    let before = Instant::now();
    searcher.refresh()?;
    let after = Instant::now();
    println!("refreshed in {:.3} s", (after - before).as_secs_f64());
    std::thread::sleep(Duration::from_millis(200));
    Ok((before, after))
}

//! Answers a batch of 10,000 queries and returns the hits as flat arrays: documents, scores, and
//! the position at which the hits of each query begin.
//!
//!     cargo run --release -p warpseek --example batch_arrays

use std::time::Instant;

use warpseek::{Document, Index, IndexOptions, Progress, Request};

const WORDS: [&str; 12] = [
    "apple", "pear", "plum", "cherry", "quince", "fig", "grape", "lemon", "lime", "melon", "peach",
    "mango",
];

/// Generates numbers that look random but are the same in each run.
fn mixed(i: usize) -> usize {
    let x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as usize
}

fn words(from: usize, n: usize) -> String {
    let word = |i: usize| WORDS[mixed(from * 31 + i) % WORDS.len()];
    (0..n).map(word).collect::<Vec<_>>().join(" ")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // Documents are generated during the build, so they need not all be in memory.
    let documents =
        (0..20_000).map(|i| Document::new(i.to_string(), "", words(i, 1 + mixed(i) % 20)));
    let options = IndexOptions::new();
    let dir = folder.path().join("fruit");
    let (index, report) =
        Index::build_from_documents(dir, documents, &options, &Progress::default())?;
    println!("{} documents, {} postings", report.documents, report.postings);

    let searcher = index.searcher()?;
    let requests: Vec<Request> =
        (0..10_000).map(|i| Request::new(words(i + 1_000_000, 1 + i % 4)).k(10)).collect();
    let start = Instant::now();
    let arrays = searcher.search_arrays(&requests);
    let rate = requests.len() as f64 / start.elapsed().as_secs_f64();
    println!("{} queries, {} hits, {rate:.0} queries/s", requests.len(), arrays.docs.len());

    assert!(arrays.errors.is_empty() && arrays.offsets.len() == requests.len() + 1);
    let first = arrays.range(0);
    println!(
        "first query: documents {:?}, scores {:?}",
        &arrays.docs[first.clone()],
        &arrays.scores[first]
    );
    // The batch returns the same hits as single searches.
    let alone = searcher.search(&requests[42])?;
    let docs: Vec<u32> = alone.hits().iter().map(|hit| hit.doc).collect();
    assert_eq!(arrays.docs[arrays.range(42)], docs);
    Ok(())
}

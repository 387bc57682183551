//! Compares filtered queries of this engine and of tantivy, in one process and on one thread,
//! taking turns.
//!
//! Arguments: CORPUS QUERIES DIR [ROUNDS [ALGORITHM]]. CORPUS is JSONL with `text`, whose words
//! are separated by blanks; QUERIES has `id<TAB>words`. The program builds its indexes in DIR
//! unless they exist. It prints a table with the mean time of a query for each share of the
//! documents that a filter admits, scattered at random. The time of a query is the best of the
//! rounds; a round runs each query on both engines in turn.

mod ours;
mod theirs;

use std::fs;
use std::path::Path;
use std::time::Instant;

pub type Failure = Box<dyn std::error::Error>;

/// Number of hits per query.
pub const K: usize = 10;
/// Denominator of `SHARES`.
const BUCKETS: u64 = 1000;
/// Shares of the documents that the filters admit, in units of 1 / `BUCKETS`. The last one means
/// no filter.
pub const SHARES: [u64; 6] = [1, 10, 100, 500, 900, BUCKETS];

/// Returns true if a filter admits a document, given by its number in the corpus. The documents
/// of a smaller share are also in the larger ones.
pub fn admits(share: u64, number: u64) -> bool {
    // A 64-bit finaliser puts neighbours into unrelated buckets.
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % BUCKETS < share
}

/// A query on either engine; hits are numbers in the corpus.
pub struct Case<'a> {
    pub words: &'a [String],
    pub and: bool,
    /// An index into `SHARES`.
    pub filter: usize,
}

#[derive(Clone, Copy)]
struct Best {
    ours: f64,
    theirs: f64,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (corpus, queries, dir, more) = match &args[..] {
        [corpus, queries, dir, more @ ..] if more.len() <= 2 => (corpus, queries, dir, more),
        _ => return Err("arguments: CORPUS QUERIES DIR [ROUNDS [ALGORITHM]]".into()),
    };
    let rounds: usize = more.first().map_or(Ok(5), |n| n.parse())?;
    let algorithm = more.get(1).map(|name| name.parse()).transpose()?;
    let (corpus, dir) = (Path::new(corpus), Path::new(dir));
    let queries: Vec<Vec<String>> = fs::read_to_string(queries)?
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(_, text)| text.split_whitespace().map(str::to_owned).collect())
        .collect();
    let ours = ours::Engine::open(corpus, &dir.join("warpseek"), algorithm)?;
    let theirs = theirs::Engine::open(corpus, &dir.join("tantivy"))?;
    println!("| mode | admitted | warpseek us | of unfiltered | tantivy us | of unfiltered | ratio | same hits |");
    println!("|---|---|---|---|---|---|---|---|");
    for and in [false, true] {
        // The shares take turns too, so that their ratios are measured in the same minutes.
        let mut best = vec![[Best { ours: f64::MAX, theirs: f64::MAX }; SHARES.len()]; queries.len()];
        let mut same = [(0, 0); SHARES.len()];
        for round in 0..=rounds {
            for (words, best) in queries.iter().zip(&mut best) {
                for (filter, best) in best.iter_mut().enumerate() {
                    let case = Case { words, and, filter };
                    // Each search runs twice, so that both engines have their data in the cache
                    // when they are timed.
                    let (our_hits, _) = timed(|| ours.search(&case))?;
                    let (_, our_time) = timed(|| ours.search(&case))?;
                    let (their_hits, _) = timed(|| theirs.search(&case))?;
                    let (_, their_time) = timed(|| theirs.search(&case))?;
                    if round == 0 {
                        if our_hits.len() != their_hits.len() {
                            return Err(format!("{words:?}: {our_hits:?}, {their_hits:?}").into());
                        }
                        let both = our_hits.iter().filter(|hit| their_hits.contains(hit)).count();
                        same[filter].0 += both;
                        same[filter].1 += our_hits.len();
                        continue;
                    }
                    best.ours = best.ours.min(our_time);
                    best.theirs = best.theirs.min(their_time);
                }
            }
        }
        let mean = |filter: usize, time: fn(&Best) -> f64| {
            best.iter().map(|best| time(&best[filter])).sum::<f64>() / best.len() as f64
        };
        let none = SHARES.len() - 1;
        for (filter, share) in SHARES.iter().enumerate() {
            let (us, them) = (mean(filter, |b| b.ours), mean(filter, |b| b.theirs));
            let (us_all, them_all) = (mean(none, |b| b.ours), mean(none, |b| b.theirs));
            let admitted = format!("{} %", *share as f64 * 100.0 / BUCKETS as f64);
            println!(
                "| {} | {} | {us:.1} | {:.2} | {them:.1} | {:.2} | {:.2} | {:.1} % |",
                if and { "AND" } else { "OR" },
                if filter == none { "no filter" } else { &admitted },
                us / us_all,
                them / them_all,
                us / them,
                100.0 * same[filter].0 as f64 / f64::max(1.0, same[filter].1 as f64),
            );
        }
    }
    Ok(())
}

/// Returns the result of a search and the microseconds that it takes.
fn timed<T>(search: impl FnOnce() -> Result<T, Failure>) -> Result<(T, f64), Failure> {
    let start = Instant::now();
    let found = search()?;
    Ok((found, start.elapsed().as_secs_f64() * 1e6))
}

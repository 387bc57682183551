//! Phrases of the summary lines of searches.

use warpseek::Searcher;
use warpseek_console::terminal::counted;

/// Returns an addition to the summary line if the ranking or the algorithm is approximate.
pub(crate) fn caution(searcher: &Searcher) -> String {
    let algorithm = match searcher.has_approximate_algorithm() {
        true => "; homogeneous partitions: approximate",
        false => "",
    };
    match searcher.snapshot().manifest().impacts {
        Some(_) => format!("; ranked by {}{algorithm}", searcher.ranking_name()),
        None => algorithm.to_owned(),
    }
}

/// Returns a phrase with the number of matching documents.
pub(crate) fn matching(n: u64) -> String {
    format!("{} {}", counted(n, "document"), if n == 1 { "matches" } else { "match" })
}

//! Times by the number of words of a query. Engines with equal means may differ there.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Number of words of the last group, which also contains longer queries.
pub(super) const MOST: usize = 6;

/// The queries of a log with the same number of words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    /// Number of words; [`MOST`] also means more.
    pub(super) words: usize,
    pub(super) queries: usize,
    pub(super) mean_us: f64,
}

/// Reads the groups of a log from a file of `id<TAB>microseconds` that a runner wrote.
pub(super) fn groups(queries: &Path, latencies: &Path) -> Result<Vec<Group>, String> {
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()));
    let (log, times) = (read(queries)?, read(latencies)?);
    let words: HashMap<&str, usize> = log
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(id, text)| (id, count(text)))
        .collect();
    let mut sums: BTreeMap<usize, (usize, f64)> = BTreeMap::new();
    for line in times.lines() {
        let parsed = line
            .split_once('\t')
            .and_then(|(id, time)| Some((*words.get(id)?, time.trim().parse::<f64>().ok()?)));
        let wrong = || {
            format!(
                "{}: expected the id of a query in the log and a time: {line}",
                latencies.display()
            )
        };
        let (words, time) = parsed.ok_or_else(wrong)?;
        let (queries, sum) = sums.entry(words).or_default();
        *queries += 1;
        *sum += time;
    }
    let group = |(words, (queries, sum))| Group { words, queries, mean_us: sum / queries as f64 };
    Ok(sums.into_iter().map(group).collect())
}

fn count(text: &str) -> usize {
    text.split_whitespace().count().min(MOST)
}

/// Returns the name of a group in tables.
pub(super) fn name(words: usize) -> String {
    if words == MOST { format!("{MOST}+") } else { words.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_grouped_by_their_words() {
        let dir = std::env::temp_dir().join(format!("warpseek-words-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let (log, times) = (dir.join("q.tsv"), dir.join("times"));
        fs::write(&log, "a\tone\nb\tone two\nc\tx\nd\t1 2 3 4 5 6 7\ne\t1 2 3 4 5 6\n").unwrap();
        fs::write(&times, "a\t1.0\nb\t2.5\nc\t3.0\nd\t8\ne\t4\n").unwrap();
        let found = groups(&log, &times).unwrap();
        let group = |words, queries, mean_us| Group { words, queries, mean_us };
        assert_eq!(found, [group(1, 2, 2.0), group(2, 1, 2.5), group(MOST, 2, 6.0)]);
        fs::write(&times, "z\t1.0\n").unwrap();
        assert!(groups(&log, &times).unwrap_err().contains("z\t1.0"));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((name(2), name(MOST)), ("2".to_owned(), "6+".to_owned()));
    }
}

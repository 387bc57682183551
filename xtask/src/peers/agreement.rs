//! Measures whether two engines find the same documents.
//!
//! Engines differ in the last bits of scores, in the precision of lengths, in the order of ties,
//! and some in the formula, so the result is a share and not a test.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Maximum relative distance of a score from the last hit's score that counts as a tie.
const TIE: f64 = 0.002;

#[derive(Serialize, Deserialize)]
pub(super) struct Agreement {
    pub(super) log: String,
    pub(super) mode: String,
    pub(super) engine: String,
    /// Share of the top ten that both engines return, averaged over queries.
    pub(super) overlap: f64,
    /// Share of the top ten if documents that tie with the last hit count as equally good.
    pub(super) with_ties: f64,
}

/// The documents (by ordinal in the corpus) and scores of each query, best first.
pub(super) type Hits = HashMap<String, Vec<(u64, f64)>>;

/// Returns the ordinal of each id in the corpus, by which the runners identify documents.
pub(super) fn ordinals(corpus: &Path) -> Result<HashMap<String, u64>, String> {
    #[derive(Deserialize)]
    struct Document {
        id: String,
    }
    let error = |what: String| format!("{}: {what}", corpus.display());
    let file = fs::File::open(corpus).map_err(|e| error(e.to_string()))?;
    let mut ordinals = HashMap::new();
    for (i, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|e| error(e.to_string()))?;
        let document: Document =
            serde_json::from_str(&line).map_err(|e| error(format!("line {}: {e}", i + 1)))?;
        ordinals.insert(document.id, i as u64);
    }
    Ok(ordinals)
}

/// Reads a TREC run: query, Q0, document, rank, score, tag.
pub(super) fn from_run(run: &str, ordinals: &HashMap<String, u64>) -> Result<Hits, String> {
    let mut hits = Hits::new();
    for line in run.lines() {
        let mut columns = line.split_ascii_whitespace();
        let hit = (|| {
            let (query, id) = (columns.next()?, columns.nth(1)?);
            Some((query, *ordinals.get(id)?, columns.nth(1)?.parse().ok()?))
        })();
        let (query, document, score) =
            hit.ok_or_else(|| format!("invalid line in our run: {line}"))?;
        hits.entry(query.to_owned()).or_default().push((document, score));
    }
    Ok(hits)
}

/// Reads the dump of a runner: query, rank, document, score.
pub(super) fn from_dump(file: &Path) -> Result<Hits, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut hits = Hits::new();
    for line in text.lines() {
        let mut columns = line.split('\t');
        let hit = (|| {
            let (query, document) = (columns.next()?, columns.nth(1)?.parse().ok()?);
            Some((query, document, columns.next()?.parse().ok()?))
        })();
        let (query, document, score) =
            hit.ok_or_else(|| format!("{}: invalid line: {line}", file.display()))?;
        hits.entry(query.to_owned()).or_default().push((document, score));
    }
    Ok(hits)
}

/// Returns the engines with dumps for a mode and k, sorted by name. The name of a dump is
/// `ENGINE[.ALGORITHM].MODE.K`.
pub(super) fn dumps(dir: &Path, mode: &str, k: usize) -> Result<Vec<(String, PathBuf)>, String> {
    let end = format!(".{mode}.{k}");
    let files = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut dumps: Vec<_> = files
        .flatten()
        .filter_map(|file| {
            let name = file.file_name();
            Some((name.to_str()?.strip_suffix(&end)?.replace('.', " "), file.path()))
        })
        .collect();
    dumps.sort();
    Ok(dumps)
}

/// Returns the mean shares over all queries for which at least one of the engines has hits,
/// without and with ties.
pub(super) fn overlap(ours: &Hits, theirs: &Hits) -> (f64, f64) {
    let queries: HashSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let (mut plain, mut tied) = (0.0, 0.0);
    for query in &queries {
        let (Some(a), Some(b)) = (ours.get(*query), theirs.get(*query)) else { continue };
        let known: HashSet<u64> = a.iter().map(|hit| hit.0).collect();
        let cutoff = b.last().map_or(0.0, |hit| hit.1);
        let most = a.len().max(b.len()) as f64;
        let shared = b.iter().filter(|hit| known.contains(&hit.0)).count();
        let close = |score: f64| score <= cutoff + cutoff.abs() * TIE;
        let as_good = b.iter().filter(|hit| known.contains(&hit.0) || close(hit.1)).count();
        plain += shared as f64 / most;
        tied += as_good as f64 / most;
    }
    let n = queries.len().max(1) as f64;
    (plain / n, tied / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(lists: &[(&str, &[(u64, f64)])]) -> Hits {
        lists.iter().map(|(q, hits)| ((*q).to_owned(), hits.to_vec())).collect()
    }

    #[test]
    fn shares_are_means_over_queries() {
        let ours = hits(&[("a", &[(1, 9.0), (2, 8.0)]), ("b", &[(5, 1.0)]), ("c", &[(7, 1.0)])]);
        let theirs = hits(&[("a", &[(1, 9.0), (3, 8.0)]), ("b", &[(5, 2.0)])]);
        // The shares are 1/2 for a, or 1 with the tie at the cutoff; 1 for b; and 0 for c.
        assert_eq!(overlap(&ours, &theirs), ((0.5 + 1.0) / 3.0, (1.0 + 1.0) / 3.0));
    }

    #[test]
    fn a_document_above_the_cutoff_is_not_a_tie() {
        let ours = hits(&[("a", &[(1, 9.0), (2, 8.0)])]);
        let theirs = hits(&[("a", &[(3, 9.0), (2, 8.0)])]);
        assert_eq!(overlap(&ours, &theirs), (0.5, 0.5));
    }

    #[test]
    fn a_shorter_list_does_not_agree_fully() {
        let ours = hits(&[("a", &[(1, 9.0), (2, 8.0), (3, 7.0), (4, 6.0)])]);
        let theirs = hits(&[("a", &[(1, 9.0), (2, 8.0)])]);
        assert_eq!(overlap(&ours, &theirs).0, 0.5);
    }

    #[test]
    fn runs_and_dumps_name_the_same_documents() {
        let ordinals = HashMap::from([("x".to_owned(), 0), ("y".to_owned(), 1)]);
        let run = "q1 Q0 y 1 2.5 tag\nq1 Q0 x 2 1.5 tag\n";
        let expected = hits(&[("q1", &[(1, 2.5), (0, 1.5)])]);
        assert_eq!(from_run(run, &ordinals).unwrap(), expected);
        assert!(from_run("q1 Q0 z 1 2.5 tag", &ordinals).unwrap_err().contains('z'));

        let dir = std::env::temp_dir().join(format!("xtask-dumps-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("pisa.maxscore.or.10"), "q1\t0\t1\t2.5\nq1\t1\t0\t1.5\n").unwrap();
        fs::write(dir.join("lucene.or.100"), "q1\t0\t\t2.5\n").unwrap();
        let found = dumps(&dir, "or", 10).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "pisa maxscore");
        assert_eq!(from_dump(&found[0].1).unwrap(), expected);
        assert!(from_dump(&dir.join("lucene.or.100")).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}

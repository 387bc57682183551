//! Verification of batches: the best match of each query in each of its candidates. A document
//! that several queries have in common is read once.

use warpseek_core::DocId;
use warpseek_exec::Context;

use crate::distance::{Match, Pattern};

/// Number of documents that a thread reads at a time. The store compresses neighbours together,
/// and several short texts are compared faster together.
pub(crate) const READ_TOGETHER: usize = 64;

/// A query, by its number in a batch, and a document that may match it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The query's number.
    pub query: u32,
    /// The document.
    pub doc: DocId,
}

/// A function that reads the normal forms of some documents, which differ and are in order. It
/// returns one for each, or `None` if the document cannot be read.
pub type ReadTexts<'a> = dyn Fn(&[DocId]) -> Vec<Option<String>> + Sync + 'a;

/// Finds the best match of the query in the document of each pair, on the CPU; the match is
/// `None` if the document cannot be read. Queries are in normal form.
pub fn best_matches(
    queries: &[&str],
    pairs: &[Pair],
    read: &ReadTexts<'_>,
    context: &Context,
) -> Vec<Option<Match>> {
    let mut patterns: Vec<Option<Pattern>> = vec![None; queries.len()];
    let mut used: Vec<usize> = pairs.iter().map(|pair| pair.query as usize).collect();
    used.sort_unstable();
    used.dedup();
    let made = context.pool().map(&used, || (), |(), &query| Pattern::new(queries[query]));
    used.into_iter().zip(made).for_each(|(query, pattern)| patterns[query] = Some(pattern));

    let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
    order.sort_unstable_by_key(|&i| (pairs[i as usize].doc, i));
    let groups = groups(&order, pairs);
    let found =
        context.pool().map(&groups, || (), |(), group| of_group(&patterns, pairs, group, read));
    let mut matches = vec![None; pairs.len()];
    for (i, found) in found.into_iter().flatten() {
        matches[i as usize] = found;
    }
    matches
}

/// Divides pairs, in the order of documents, into groups of as many documents as a thread reads
/// together.
fn groups<'a>(order: &'a [u32], pairs: &[Pair]) -> Vec<&'a [u32]> {
    let (mut groups, mut rest) = (Vec::new(), order);
    while !rest.is_empty() {
        let of_documents = rest.chunk_by(|&a, &b| pairs[a as usize].doc == pairs[b as usize].doc);
        let len = of_documents.take(READ_TOGETHER).map(<[u32]>::len).sum();
        let (group, others) = rest.split_at(len);
        groups.push(group);
        rest = others;
    }
    groups
}

/// Returns the matches of some pairs, which are in the order of documents.
fn of_group(
    patterns: &[Option<Pattern>],
    pairs: &[Pair],
    group: &[u32],
    read: &ReadTexts<'_>,
) -> Vec<(u32, Option<Match>)> {
    let mut docs: Vec<DocId> = group.iter().map(|&i| pairs[i as usize].doc).collect();
    docs.dedup();
    let texts = read(&docs);
    let text = |i: u32| {
        let at = docs.binary_search(&pairs[i as usize].doc).ok()?;
        texts.get(at)?.as_deref()
    };
    let mut by_query = group.to_vec();
    by_query.sort_unstable_by_key(|&i| (pairs[i as usize].query, i));
    let mut found = Vec::with_capacity(group.len());
    for of_query in by_query.chunk_by(|&a, &b| pairs[a as usize].query == pairs[b as usize].query) {
        let Some(pattern) = &patterns[pairs[of_query[0] as usize].query as usize] else { continue };
        let (numbers, texts): (Vec<u32>, Vec<&str>) =
            of_query.iter().filter_map(|&i| Some((i, text(i)?))).unzip();
        let matches = pattern.best_matches(&texts);
        found.extend(numbers.into_iter().zip(matches.into_iter().map(Some)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance::best_match;

    #[test]
    fn pairs_have_the_matches_of_their_queries_and_texts() {
        let text = |doc: DocId| format!("{} acid {} vinegar", "abc ".repeat(doc as usize % 5), doc);
        let read = |docs: &[DocId]| {
            assert!(docs.is_sorted_by(|a, b| a < b) && docs.len() <= READ_TOGETHER);
            docs.iter().map(|&doc| (doc % 11 != 3).then(|| text(doc))).collect()
        };
        let queries = ["acid 7", "bc acd", "", "unused", "vinegar 1 acid".repeat(20).leak()];
        let pairs: Vec<Pair> = (0..900u32)
            .map(|i| Pair { query: [0, 1, 2, 4][i as usize % 4], doc: i * 7919 % 301 })
            .collect();
        let want: Vec<Option<Match>> = pairs
            .iter()
            .map(|pair| {
                (pair.doc % 11 != 3)
                    .then(|| best_match(queries[pair.query as usize], &text(pair.doc)))
            })
            .collect();
        for threads in [1, 3] {
            let found = best_matches(&queries, &pairs, &read, &Context::new(threads));
            assert_eq!(found, want);
        }
        assert_eq!(best_matches(&[], &[], &read, &Context::new(2)), []);
    }
}

//! The forward index for bisection, which holds the terms of each document.

use crate::build::{ListSource, Merge, Part, Progress, ordered_map};
use crate::error::Result;

/// Minimum document frequency. Rarer terms are ignored, since they do not show which documents
/// are similar.
const LEAST_DF: u32 = 2;
/// Divisor of the number of documents that gives the maximum document frequency. More frequent
/// terms are ignored, since they occur everywhere.
const MOST_SHARE: usize = 2;
/// Number of a term that is left out.
const LEFT_OUT: u32 = u32::MAX;

/// Terms by document. Terms are numbered by descending frequency, so that the counters used most
/// lie close together.
pub(crate) struct Forward {
    starts: Vec<usize>,
    terms: Vec<u32>,
    /// Number of terms; all term numbers are smaller.
    pub(super) distinct: usize,
    /// Largest document frequency of a term.
    pub(super) most_df: usize,
}

impl Forward {
    /// Builds the forward index by reading the lists of all documents three times. If it would
    /// take more than `memory` bytes, the rarest terms are left out.
    pub(super) fn new<S: ListSource>(
        sources: impl Fn() -> Vec<S>,
        docs: usize,
        threads: usize,
        memory: usize,
        progress: &Progress,
    ) -> Result<Self> {
        let mut all = Vec::new();
        let mut merge = Merge::new(sources())?;
        while let Some(job) = merge.next_job()? {
            progress.check()?;
            let df =
                |parts: &[S::Part]| parts.iter().fold(0u32, |df, p| df.saturating_add(p.count()));
            all.extend(job.iter().map(|(_, parts)| df(parts)));
        }
        let room = memory.saturating_sub(docs * size_of::<usize>()) / size_of::<u32>();
        let (numbers, dfs) = number(&all, docs, room);

        let mut starts = vec![0usize; docs + 1];
        for_each_list(sources(), &numbers, threads, progress, |_, docs| {
            docs.iter().for_each(|&doc| starts[doc as usize + 1] += 1);
        })?;
        (0..docs).for_each(|doc| starts[doc + 1] += starts[doc]);
        let mut terms = vec![0; starts[docs]];
        // `starts[doc]` is the place of the next term. In the end it is the start of the next
        // document.
        for_each_list(sources(), &numbers, threads, progress, |term, docs| {
            for &doc in docs {
                let at = &mut starts[doc as usize];
                terms[*at] = term;
                *at += 1;
            }
        })?;
        starts.rotate_right(1);
        starts[0] = 0;
        let (distinct, most_df) = (dfs.len(), dfs.first().map_or(0, |&df| df as usize));
        Ok(Forward { starts, terms, distinct, most_df })
    }

    /// Returns the terms of a document.
    #[inline]
    pub(super) fn terms(&self, doc: u32) -> &[u32] {
        &self.terms[self.starts[doc as usize]..self.starts[doc as usize + 1]]
    }

    #[cfg(test)]
    pub(super) fn of(documents: &[Vec<u32>]) -> Self {
        let terms = documents.concat();
        let distinct = terms.iter().max().map_or(0, |&most| most as usize + 1);
        let mut starts = vec![0];
        starts.extend(documents.iter().scan(0, |end, terms| {
            *end += terms.len();
            Some(*end)
        }));
        Forward { starts, terms, distinct, most_df: documents.len() }
    }
}

/// Numbers the terms with these document frequencies. Returns the number of each term, or
/// [`LEFT_OUT`], and the frequencies by number. The lists of numbered terms have at most `room`
/// postings in total.
fn number(all: &[u32], docs: usize, mut room: usize) -> (Vec<u32>, Vec<u32>) {
    let useful = LEAST_DF..=(docs / MOST_SHARE) as u32;
    let mut kept: Vec<u32> =
        (0..all.len() as u32).filter(|&term| useful.contains(&all[term as usize])).collect();
    kept.sort_by_key(|&term| std::cmp::Reverse(all[term as usize]));
    let fits =
        kept.iter().take_while(|&&term| match room.checked_sub(all[term as usize] as usize) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        });
    let fits = fits.count();
    kept.truncate(fits);
    let mut numbers = vec![LEFT_OUT; all.len()];
    kept.iter().zip(0..).for_each(|(&term, number)| numbers[term as usize] = number);
    (numbers, kept.iter().map(|&term| all[term as usize]).collect())
}

/// Calls `f` with every list that has a number, in the order of terms.
fn for_each_list<S: ListSource>(
    sources: Vec<S>,
    numbers: &[u32],
    threads: usize,
    progress: &Progress,
    mut f: impl FnMut(u32, &[u32]),
) -> Result<()> {
    let (mut merge, mut rest) = (Merge::new(sources)?, numbers);
    ordered_map(
        threads,
        || {
            progress.check()?;
            let Some(job) = merge.next_job()? else { return Ok(None) };
            let numbered = rest.split_off(..job.len()).unwrap_or_default();
            let lists = job.into_iter().zip(numbered).filter(|&(_, &number)| number != LEFT_OUT);
            Ok(Some(lists.map(|((_, parts), &number)| (number, parts)).collect::<Vec<_>>()))
        },
        Vec::new,
        |postings, job| {
            let load = |(number, parts): (u32, Vec<S::Part>)| {
                postings.clear();
                parts.iter().try_for_each(|part| part.load(postings, None))?;
                Ok((number, postings.iter().map(|&(doc, _)| doc).collect::<Vec<u32>>()))
            };
            job.into_iter().map(load).collect::<Result<Vec<_>>>()
        },
        |lists| {
            lists.iter().for_each(|(number, docs)| f(*number, docs));
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_terms_first_and_the_rarest_left_out() {
        let all = [1, 5, 2, 50, 51, 5];
        assert_eq!(
            number(&all, 100, 1000),
            (vec![LEFT_OUT, 1, 3, 0, LEFT_OUT, 2], vec![50, 5, 5, 2])
        );
        assert_eq!(number(&all, 100, 55).1, [50, 5]);
        assert_eq!(number(&all, 100, 49).1, [0; 0]);
    }
}

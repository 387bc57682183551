//! A cache of terms that were looked up before. Queries repeat words, and a lookup in a
//! dictionary takes several times as long as one in a table.

use quick_cache::sync::Cache;
use warpseek_core::limits::MAX_TERM_BYTES;
use warpseek_index::TermInfo;

/// The entries of a term in the dictionaries of all segments, and the number of live documents
/// that contain it.
pub(crate) type TermLists = (Vec<Option<TermInfo>>, u64);

/// Maximum number of cached terms. The cache prefers terms that are looked up often.
const TERMS: usize = 1 << 14;

/// The results of term lookups in one snapshot, by the bytes of the term in dictionaries. A term
/// that is in no segment is cached as `None`.
pub(crate) struct KnownTerms(Cache<Box<[u8]>, Option<TermLists>>);

impl KnownTerms {
    pub(crate) fn new() -> Self {
        KnownTerms(Cache::new(TERMS))
    }

    /// Returns the cached result for a term, or calls `look_up` and caches its result.
    pub(crate) fn get<E>(
        &self,
        key: &[u8],
        look_up: impl FnOnce() -> Result<Option<TermLists>, E>,
    ) -> Result<Option<TermLists>, E> {
        // No dictionary has longer terms, and caching many of them would take much memory.
        if key.len() > MAX_TERM_BYTES {
            return look_up();
        }
        if let Some(known) = self.0.get(key) {
            return Ok(known);
        }
        // Two threads may look up the same term at the same time; they find the same result.
        let found = look_up()?;
        self.0.insert(key.into(), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_looked_up_once_and_failures_are_not_kept() {
        let (known, mut asked) = (KnownTerms::new(), Vec::new());
        for (term, found) in [("a", Ok(Some(2))), ("b", Ok(None)), ("c", Err("broken"))] {
            for _ in 0..3 {
                let lists = found.map(|df| df.map(|df| (vec![None], df)));
                let got = known.get(term.as_bytes(), || {
                    asked.push(term);
                    lists.clone()
                });
                assert_eq!(got, lists);
            }
        }
        assert_eq!(asked, ["a", "b", "c", "c", "c"]);
        for len in [MAX_TERM_BYTES, MAX_TERM_BYTES + 1] {
            let mut asked = 0;
            for _ in 0..2 {
                let none = known.get(&vec![b'x'; len], || {
                    asked += 1;
                    Ok::<_, ()>(None)
                });
                assert_eq!(none, Ok(None));
            }
            assert_eq!(asked, if len > MAX_TERM_BYTES { 2 } else { 1 });
        }
    }
}

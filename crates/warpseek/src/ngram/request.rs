//! Requests for approximate search.

use std::time::Duration;

use warpseek_exec::Cancel;
use warpseek_ngram::Misses;

/// A request for an approximate search.
///
/// ```
/// use std::time::Duration;
/// use warpseek::ngram::{Misses, NgramRequest};
///
/// let request = NgramRequest::new("acetylsalicilic acid")
///     .k(20)
///     .misses(Misses::Count(6))
///     .deadline(Duration::from_millis(50));
/// assert_eq!(request.k, 20);
/// assert_eq!(NgramRequest::new("acetylsalicilic acid").errors(2).allowed(), Misses::Errors(2));
/// ```
#[derive(Clone, Debug)]
pub struct NgramRequest {
    /// The text to search for.
    pub text: String,
    /// The number of the query's n-grams that a hit may lack. Default: as many as `errors` can
    /// affect, or [`Misses::Usual`] if `errors` is not set.
    pub misses: Option<Misses>,
    /// The number of wrong characters that a hit may have. Verified candidates with more are not
    /// hits. Default: no limit.
    pub errors: Option<u32>,
    /// The maximum number of hits. Default: 10.
    pub k: usize,
    /// True if the candidates with the best scores are to be compared with the query character by
    /// character, and ranked by edit distance. The index must store its documents. Default:
    /// false.
    pub verify: bool,
    /// The number of candidates to verify, if it is larger than `k`. Default: 100.
    pub candidates: usize,
    /// The time limit of the search, counted from its start. Default: none. When time is up, the
    /// response has the hits found so far.
    pub deadline: Option<Duration>,
    /// A token that cancels the search. Default: none.
    pub cancel: Option<Cancel>,
}

impl NgramRequest {
    /// Creates a request with the default settings.
    pub fn new(text: impl Into<String>) -> Self {
        NgramRequest {
            text: text.into(),
            misses: None,
            errors: None,
            k: 10,
            verify: false,
            candidates: 100,
            deadline: None,
            cancel: None,
        }
    }

    /// Sets the number of n-grams that a hit may lack.
    pub fn misses(self, misses: Misses) -> Self {
        NgramRequest { misses: Some(misses), ..self }
    }

    /// Sets the number of wrong characters that a hit may have. The limit is exact for verified
    /// hits. Others may have more wrong characters, but lack at most as many n-grams as this
    /// number of wrong characters can affect.
    pub fn errors(self, errors: u32) -> Self {
        NgramRequest { errors: Some(errors), ..self }
    }

    /// Sets the maximum number of hits.
    pub fn k(self, k: usize) -> Self {
        NgramRequest { k, ..self }
    }

    /// Sets whether candidates are verified and ranked by edit distance.
    pub fn verify(self, verify: bool) -> Self {
        NgramRequest { verify, ..self }
    }

    /// Sets the number of candidates to verify.
    pub fn candidates(self, candidates: usize) -> Self {
        NgramRequest { candidates, ..self }
    }

    /// Sets a time limit. A search that exceeds it returns a partial response; see
    /// [`NgramResponse::coverage`](crate::ngram::NgramResponse::coverage).
    pub fn deadline(self, time: Duration) -> Self {
        NgramRequest { deadline: Some(time), ..self }
    }

    /// Attaches a cancellation token. Cancelling it ends the search with a partial response.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        NgramRequest { cancel: Some(cancel), ..self }
    }

    /// Returns true if the search may have to stop early.
    pub(super) fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// Returns the number of candidates to find.
    pub(super) fn wanted(&self) -> usize {
        if self.verify { self.k.max(self.candidates) } else { self.k }
    }

    /// Returns the number of n-grams that a hit may lack.
    pub fn allowed(&self) -> Misses {
        self.misses.or(self.errors.map(Misses::Errors)).unwrap_or_default()
    }
}

use std::time::Duration;

use warpseek_exec::Cancel;
use warpseek_ngram::Misses;

/// An approximate search.
///
/// ```
/// use std::time::Duration;
/// use warpseek::{Misses, NgramRequest};
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
    /// What is searched for.
    pub text: String,
    /// How many of its n-grams a hit may lack. Default: as many as `errors` can spoil; without these, [`Misses::Usual`].
    pub misses: Option<Misses>,
    /// How many characters of a hit may be wrong: what is verified and has more of them is no hit. Default: any number.
    pub errors: Option<u32>,
    /// How many hits are wanted. Default: 10.
    pub k: usize,
    /// Whether the best candidates by score are compared with the query character by character, and ranked by edit distance. Default: no. It needs an index that stores its documents.
    pub verify: bool,
    /// How many candidates are verified, at least as many as hits are wanted. Default: 100.
    pub candidates: usize,
    /// How long the search may take, from when it is asked for. Default: as long as it needs. When the time is up the response has what was found by then.
    pub deadline: Option<Duration>,
    /// Stops the search when it is set. Default: nothing does.
    pub cancel: Option<Cancel>,
}

impl NgramRequest {
    /// With the defaults.
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

    /// With hits that lack this many n-grams at most.
    pub fn misses(self, misses: Misses) -> Self {
        NgramRequest { misses: Some(misses), ..self }
    }

    /// With hits that have this many wrong characters at most. Exactly this is what verified hits have; others may have more, but lack no more n-grams than this many wrong characters can spoil.
    pub fn errors(self, errors: u32) -> Self {
        NgramRequest { errors: Some(errors), ..self }
    }

    /// With this many hits.
    pub fn k(self, k: usize) -> Self {
        NgramRequest { k, ..self }
    }

    /// With edit distances, or without.
    pub fn verify(self, verify: bool) -> Self {
        NgramRequest { verify, ..self }
    }

    /// With this many candidates to verify.
    pub fn candidates(self, candidates: usize) -> Self {
        NgramRequest { candidates, ..self }
    }

    /// With this much time.
    pub fn deadline(self, time: Duration) -> Self {
        NgramRequest { deadline: Some(time), ..self }
    }

    /// Until somebody cancels.
    pub fn cancelled_by(self, cancel: Cancel) -> Self {
        NgramRequest { cancel: Some(cancel), ..self }
    }

    /// Whether it may have to stop early.
    pub(super) fn is_limited(&self) -> bool {
        self.deadline.is_some() || self.cancel.is_some()
    }

    /// How many hits it needs, those to verify included.
    pub(super) fn wanted(&self) -> usize {
        if self.verify { self.k.max(self.candidates) } else { self.k }
    }

    /// How many n-grams a hit may lack.
    pub fn allowed(&self) -> Misses {
        self.misses.or(self.errors.map(Misses::Errors)).unwrap_or_default()
    }
}

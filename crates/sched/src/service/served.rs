//! Answers to requests, and where they come from.

use std::time::Duration;

use warpseek_exec::{Answer, ExecError};

/// The reason why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceError {
    /// The request could not have been answered in time.
    #[error("refused: the request would have to wait for about {}", shown(wait))]
    Refused {
        /// Expected wait.
        wait: Duration,
    },
    /// The request was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The service is shutting down.
    #[error("the service has ended")]
    Closed,
    /// An engine failed, and no other could answer.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

fn shown(wait: &Duration) -> String {
    format!("{:.1} ms", wait.as_secs_f64() * 1e3)
}

/// An answer, and how it was computed.
#[derive(Clone, Debug)]
pub struct Served<T = Answer> {
    /// The answer. If the time was up, the answer is partial, as its coverage says.
    pub answer: Result<T, ServiceError>,
    /// Time until an engine began with the request.
    pub waited: Duration,
    /// Time from arrival to answer.
    pub took: Duration,
    /// True if the answer came after the deadline.
    pub late: bool,
    /// Number of the station that answered, if one did.
    pub station: Option<usize>,
    /// Number of requests that were answered in the same batch.
    pub batch: usize,
    /// True if the answer belongs to an equal request: it came from the cache, or was computed
    /// for another request at the same time.
    pub shared: bool,
}

impl<T> Served<T> {
    /// Converts the answer and keeps the rest.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Served<U> {
        let Served { answer, waited, took, late, station, batch, shared } = self;
        Served { answer: answer.map(form), waited, took, late, station, batch, shared }
    }
}

/// Origin of an answer.
#[derive(Clone, Copy, Default)]
pub(super) struct How {
    pub(super) station: Option<usize>,
    pub(super) batch: usize,
    pub(super) shared: bool,
}

/// Returns an answer for requests other than the one that it was computed for.
pub(super) fn for_others(answer: &Answer) -> Answer {
    Answer { work: None, ..answer.clone() }
}

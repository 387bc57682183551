//! A request that a service has accepted and not answered yet.

use std::sync::Arc;
use std::time::Instant;

use warpseek_exec::{Cancel, Engine, Plan};

use super::job::{Job, Nanos};
use super::served::Served;
use crate::cache::Key;

/// The function that receives the answer to a request.
pub(super) type Done = Box<dyn FnOnce(Served) + Send>;

/// A request that has no answer yet.
pub(super) struct Pending {
    pub(super) plan: Arc<Plan>,
    pub(super) engines: Arc<[Arc<dyn Engine>]>,
    pub(super) arrived: Instant,
    pub(super) deadline: Option<Instant>,
    /// Time at which engines stop, a little before the deadline.
    pub(super) stops: Option<Instant>,
    pub(super) done: Done,
    pub(super) cancel: Cancel,
    /// Time at which an engine began the request.
    pub(super) began: Option<Instant>,
    pub(super) job: Job,
    /// Expected wait at admission.
    pub(super) wait: Nanos,
    /// Key of the request in the cache, if there is a cache.
    pub(super) key: Option<Key>,
    /// True if the request waits for the answer to an equal request. Otherwise, others may wait
    /// for the answer to this one.
    pub(super) follows: bool,
    /// True if the only engine that can answer the request has failed it once, and gets it again.
    pub(super) again: bool,
}

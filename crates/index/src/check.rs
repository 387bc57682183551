//! Checks and reports: verification, the background scrub, and what an index contains.

pub(crate) mod inspect;
pub(crate) mod scrub;
pub(crate) mod verify;

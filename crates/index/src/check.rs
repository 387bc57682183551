//! Checks and reports: verification, the background scrub, and the contents of an index.

pub(crate) mod inspect;
pub(crate) mod scrub;
pub(crate) mod verify;

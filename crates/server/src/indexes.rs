//! The indexes that the server has open, their names and aliases, search contexts and snapshots.

pub(crate) mod aliases;
pub(crate) mod catalogue;
pub(crate) mod contexts;
pub(crate) mod files;
pub(crate) mod identity;
pub(crate) mod names;
pub(crate) mod ngrams;
pub(crate) mod open_index;
pub(crate) mod snapshots;
pub(crate) mod tasks;
pub(crate) mod verification;

//! Changes of an index: additions, updates, deletions, merges, and single writes with their log.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod live;
pub mod log;
pub(crate) mod merge;
pub(crate) mod settings;
pub(crate) mod static_field;
pub(crate) mod update;

//! The files of an index, one module for each page of docs/reference/formats, and what they share.

pub(crate) mod as_text;
pub(crate) mod attributes;
pub(crate) mod bits;
pub mod container;
pub(crate) mod damage;
pub(crate) mod deletes;
pub(crate) mod dictionary;
pub(crate) mod documents;
pub(crate) mod early_sync;
pub(crate) mod ids;
pub(crate) mod impacts;
pub(crate) mod length_table;
pub(crate) mod lengths;
pub(crate) mod manifest;
pub(crate) mod parts;
pub(crate) mod positions;
pub(crate) mod postings;
pub(crate) mod store;
pub(crate) mod throttle;

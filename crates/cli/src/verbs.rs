//! The commands, one file each. A file has the arguments, `Options`, and the function `run`.

pub(crate) mod add;
pub(crate) mod aggregate;
pub(crate) mod calibrate;
pub(crate) mod cluster;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod devices;
pub(crate) mod dictionary;
pub(crate) mod eval;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod ngram;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod quickstart;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod synth;
pub(crate) mod verify;
pub(crate) mod weights;
pub(crate) mod write;

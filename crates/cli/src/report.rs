//! Results as text for people and as JSON for programs.

pub(crate) mod build;
pub(crate) mod decision;
pub(crate) mod deletion;
mod explanation;
pub(crate) mod hits;
pub(crate) mod inspection;
pub(crate) mod phrases;
pub(crate) mod residency;
pub(crate) mod text;
pub(crate) mod verification;

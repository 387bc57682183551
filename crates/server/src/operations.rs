//! The operation of a server: settings, logs, metrics, load, and the description of the API.

pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod load;
pub(crate) mod log;
pub(crate) mod openapi;
pub(crate) mod telemetry;

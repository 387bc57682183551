//! HTTP itself, below every interface: connections, admission, keys, origins, requests and answers.

pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod call;
pub(crate) mod caller;
pub(crate) mod connections;
pub(crate) mod content_types;
pub(crate) mod costs;
pub(crate) mod direct;
pub(crate) mod exchange;
pub(crate) mod keys;
pub(crate) mod line;
pub(crate) mod native_routes;
pub(crate) mod origin;
pub(crate) mod params;

//! The HTTP interface of Elasticsearch: routes, mappings, the query language, searches and their
//! answers.

pub(crate) mod dates;
pub(crate) mod dsl;
pub(crate) mod mapping;
pub(crate) mod routes;
pub(crate) mod search;
pub(crate) mod unsupported;

//! Requests and their parts: words, query trees and the parser for query strings, rankings, sort
//! orders and facets.

mod request;

pub(crate) use request::limit_of;
pub use request::{QueryInput, Request};
pub use warpseek_exec::gather::{
    Facet, FacetCounts, MAX_FACET_NUMBERS, MAX_FACET_RANGES, MAX_FACET_VALUES, MAX_FACETS,
    MAX_SORT_KEYS, Missing, SortBy, SortKey, SortValue, SortValues, value_as_json,
};
pub use warpseek_exec::query::*;
pub use warpseek_exec::{Cancel, Limit, Mode, Ranking, RankingFunction, RankingParameters};
pub use warpseek_text::{FileQuery, QueryReader, TopicPart};

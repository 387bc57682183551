//! Conversion between messages and the types of the library. Everything received is validated
//! here.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use warpseek::index::Statistics;
use warpseek::plan::{CollectionStatistics, Plan};
use warpseek::query::{Query, QueryTerm, RankingParameters};
use warpseek::{Mode, QueryInput, Ranking, RankingFunction, Request, Searcher};

use crate::error::CohortError;
use crate::protocol::{self, Input};
use crate::request::ClusterRequest;

/// Maximum number of queries in one request to a node.
pub(crate) const MAX_QUERIES: usize = 1 << 12;

impl From<&Statistics> for protocol::FieldStatistics {
    fn from(statistics: &Statistics) -> Self {
        let Statistics { documents, tokens, max_static } = *statistics;
        protocol::FieldStatistics { documents, tokens, max_static: max_static.to_bits() }
    }
}

/// Converts the statistics of fields.
pub(crate) fn fields(fields: &[protocol::FieldStatistics]) -> Vec<Statistics> {
    let field = |field: &protocol::FieldStatistics| Statistics {
        documents: field.documents,
        tokens: field.tokens,
        max_static: f32::from_bits(field.max_static),
    };
    fields.iter().map(field).collect()
}

/// Returns the field number and the text of a term. Field numbers beyond the maximum are an
/// error.
pub(crate) fn term(term: &protocol::Term) -> Result<(u8, &str), Status> {
    let field = u8::try_from(term.field)
        .map_err(|_| Status::invalid_argument(format!("there is no text field {}", term.field)))?;
    Ok((field, &term.term))
}

/// Returns the statistics of the collection that a request contains.
pub(crate) fn collection(
    request: &protocol::SearchRequest,
) -> Result<CollectionStatistics, Status> {
    if request.terms.len() != request.documents.len() {
        return Err(Status::invalid_argument(
            "the request does not have one frequency for each term",
        ));
    }
    let mut all = CollectionStatistics::with_fields(fields(&request.fields));
    for (message, &documents) in request.terms.iter().zip(&request.documents) {
        let (field, term) = term(message)?;
        let added = all.add_term(field, term, documents);
        added.map_err(|error| Status::invalid_argument(error.to_string()))?;
    }
    Ok(all)
}

/// Converts a planned query to a message, in a mode that does not depend on other shards.
pub(crate) fn to_query(
    request: &ClusterRequest,
    mode: protocol::Mode,
    plan: &Plan,
) -> Result<protocol::Query, CohortError> {
    let input = match &request.query {
        QueryInput::Text(text) => Input::Text(text.clone()),
        QueryInput::Expression(text) => Input::Expression(text.clone()),
        QueryInput::Terms(query) => {
            let term = |term: &QueryTerm| protocol::Term {
                field: term.field.into(),
                term: term.term.clone(),
            };
            let terms = query.terms.iter().map(term).collect();
            let weights = query.terms.iter().map(|term| term.weight).collect();
            Input::Terms(protocol::Terms { terms, weights })
        }
        QueryInput::Tree(_) => return Err(CohortError::Unsupported("query trees")),
    };
    Ok(protocol::Query {
        input: Some(input),
        mode: mode.into(),
        // A shard has fewer documents than this.
        k: u32::try_from(request.k).unwrap_or(u32::MAX),
        count: request.count,
        count_to: request.count_to,
        ranking: request.ranking.as_ref().map(to_ranking),
        among: request.among.as_ref().map(|ids| protocol::Ids { ids: ids.to_vec() }),
        filter: request.filter.clone().unwrap_or_default(),
        scale: plan.scale,
    })
}

fn to_ranking(ranking: &Ranking) -> protocol::Ranking {
    let (k1, b) = match ranking.function.parameters() {
        RankingParameters::Saturation { k1, b } => (k1, b),
        RankingParameters::None => (0.0, 0.0),
    };
    let (function, static_weight) = (ranking.function.name().to_owned(), ranking.static_weight);
    protocol::Ranking { function, k1, b, static_weight }
}

fn ranking(message: &protocol::Ranking) -> Result<Ranking, Status> {
    let mut function: RankingFunction =
        message.function.parse().map_err(Status::invalid_argument)?;
    match function.parameters_mut() {
        RankingParameters::Saturation { k1, b } => (*k1, *b) = (message.k1, message.b),
        RankingParameters::None => {}
    }
    Ok(Ranking { function, static_weight: message.static_weight })
}

/// Converts the message of a query to a request for the shard's searcher.
pub(crate) fn request(
    query: &protocol::Query,
    searcher: &Searcher,
    collection: &Arc<CollectionStatistics>,
    deadline: Option<Duration>,
) -> Result<Request, Status> {
    let input = match &query.input {
        Some(Input::Text(text)) => QueryInput::Text(text.clone()),
        Some(Input::Expression(text)) => QueryInput::Expression(text.clone()),
        Some(Input::Terms(message)) => {
            if message.terms.len() != message.weights.len() {
                return Err(Status::invalid_argument(
                    "the query does not have one weight for each term",
                ));
            }
            let terms = message.terms.iter().zip(&message.weights);
            let terms = terms
                .map(|(message, &weight)| term(message).map(|(field, term)| (field, term, weight)));
            QueryInput::Terms(Query::of_fields(terms.collect::<Result<Vec<_>, _>>()?))
        }
        None => return Err(Status::invalid_argument("a query has no input")),
    };
    let mode = match query.mode() {
        protocol::Mode::Or => Mode::Or,
        protocol::Mode::And => Mode::And,
    };
    let filter = match query.filter.as_str() {
        "" => None,
        text => {
            let filter = searcher.parse(text);
            Some(Arc::new(filter.map_err(|error| Status::invalid_argument(error.to_string()))?))
        }
    };
    Ok(Request {
        k: query.k as usize,
        mode,
        count: query.count,
        count_to: query.count_to,
        ranking: query.ranking.as_ref().map(ranking).transpose()?,
        among: query.among.as_ref().map(|among| among.ids.as_slice().into()),
        filter,
        collection: Some(collection.clone()),
        deadline,
        ..Request::new(input)
    })
}

//! Indexes with several text fields, and searches in them.

use std::sync::Arc;

use proptest::prelude::*;
use warpseek_exec::{Query, QueryTerm, Ranking, RankingFunction};
use warpseek_index::BuildConfig;
use warpseek_text::Schema;

use crate::generator::{self, Case};
use crate::history::History;
use crate::random::Random;
use crate::search::Search;

/// The most fields that [`schema`] has.
pub const FIELDS: usize = 4;

/// A schema of the first so many of four text fields. Two of them are made of titles, which some documents do not have, and two of texts; each has parameters of
/// its own.
pub fn schema(fields: usize) -> Arc<Schema> {
    let all = [
        r#"{"name": "title", "analyzer": "plain", "k1": 1.2, "b": 0.75}"#,
        r#"{"name": "body", "source": "text"}"#,
        r#"{"name": "exact", "source": "text", "analyzer": "raw", "k1": 2.0, "b": 0.0}"#,
        r#"{"name": "heading", "source": "title", "k1": 0.3, "b": 1.0}"#,
    ];
    let json = format!(r#"{{"text": [{}]}}"#, all[..fields].join(", "));
    Arc::new(Schema::parse(&json).unwrap())
}

/// A random case with a schema.
#[derive(Clone, Copy, Debug)]
pub struct FieldCase {
    /// Documents and words.
    pub case: Case,
    /// Fields at the end of the history.
    pub fields: usize,
    /// Whether they come to the schema one by one, so that segments know different numbers of them.
    pub growing: bool,
}

/// Cases with one field to four.
pub fn field_cases() -> impl Strategy<Value = FieldCase> {
    (generator::cases(), 1..=FIELDS, any::<bool>()).prop_map(|(case, fields, growing)| {
        let case = Case { vectors: false, ..case };
        FieldCase { case, fields, growing }
    })
}

impl FieldCase {
    /// How the documents got into the index.
    pub fn history(self) -> History {
        self.case.history()
    }

    /// The configuration for an operation of the history.
    pub fn config(self, operation: usize) -> BuildConfig {
        let mut config = self.case.config(operation);
        let fields = if self.growing { self.fields.min(1 + operation) } else { self.fields };
        config.reader.schema = Some(schema(fields));
        // A schema has no norms.
        config.norms = false;
        config
    }

    /// Searches in all modes: for words in one field, in some, and in all, with the parameters of the fields or others.
    pub fn searches(self, count: usize) -> Vec<Search> {
        let mut random = Random::new(self.case.seed ^ 0x5eed);
        let searches = self.case.searches(count).into_iter();
        searches.map(|search| self.spread(search, &mut random)).collect()
    }

    fn spread(self, search: Search, random: &mut Random) -> Search {
        let (one, how) = (random.below(self.fields) as u8, random.below(3));
        let mut terms = Vec::new();
        for term in search.query.terms {
            match how {
                0 => terms.push(QueryTerm { field: one, ..term }),
                1 => terms.push(QueryTerm { field: random.below(self.fields) as u8, ..term }),
                _ => terms.extend(
                    (0..self.fields as u8).map(|field| QueryTerm { field, ..term.clone() }),
                ),
            }
        }
        let function = match search.ranking.function {
            RankingFunction::Cosine => RankingFunction::Bm25ByField,
            _ if random.one_in(2) => RankingFunction::Bm25ByField,
            function => function,
        };
        Search { query: Query { terms }, ranking: Ranking { function, ..search.ranking }, ..search }
    }
}

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

/// Maximum number of fields of [`schema`].
pub const FIELDS: usize = 4;

/// Returns a schema of the first `fields` of four text fields. Two of them are sourced from
/// titles, which some documents lack, and two from texts; each has different parameters.
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
    /// Number of fields at the end of the history.
    pub fields: usize,
    /// True if the fields join the schema one at a time, so that segments have different numbers
    /// of fields.
    pub growing: bool,
}

/// Generates cases with one to four fields.
pub fn field_cases() -> impl Strategy<Value = FieldCase> {
    (generator::cases(), 1..=FIELDS, any::<bool>()).prop_map(|(case, fields, growing)| {
        let case = Case { vectors: false, ..case };
        FieldCase { case, fields, growing }
    })
}

impl FieldCase {
    /// Returns the operations that fill the index.
    pub fn history(self) -> History {
        self.case.history()
    }

    /// Returns the configuration for an operation of the history.
    pub fn config(self, operation: usize) -> BuildConfig {
        let mut config = self.case.config(operation);
        let fields = if self.growing { self.fields.min(1 + operation) } else { self.fields };
        config.reader.schema = Some(schema(fields));
        // Norms exist only without a schema.
        config.norms = false;
        config
    }

    /// Returns searches in all modes: for words in one field, in some, and in all, with the
    /// parameters of the fields or with others.
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

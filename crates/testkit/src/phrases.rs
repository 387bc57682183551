//! Indexes with positions, whose texts contain few different words in any order, and phrases in
//! them.

use proptest::test_runner::{Config, TestRunner};
use warpseek_exec::query::Node;
use warpseek_index::BuildConfig;

use crate::conformance::{MakeEngine, check_trees};
use crate::document::Doc;
use crate::fields::{self, FieldCase};
use crate::fixture::Fixture;
use crate::generator::word;
use crate::history::{History, Operation};
use crate::random::Random;
use crate::trees::{Names, TreeSearch};

/// Number of random cases per run.
const CASES: u32 = 24;
/// Number of phrases per case.
const PHRASES: usize = 24;
/// Number of trees with phrases per case.
const TREES: usize = 24;

/// A random case with positions.
#[derive(Clone, Copy, Debug)]
pub struct PhraseCase {
    /// Documents and words.
    pub case: FieldCase,
    /// True if the index has a schema.
    pub has_schema: bool,
}

impl PhraseCase {
    fn random(self, purpose: u64) -> Random {
        Random::new(self.case.case.seed ^ purpose.wrapping_mul(0x9fb2_1c65_1e98_df25))
    }

    /// Returns the number of different words.
    pub fn vocabulary(self) -> usize {
        2 + self.random(1).below(8)
    }

    /// Returns the operations that fill the index; the words of each document are in random
    /// order.
    pub fn history(self) -> History {
        let (mut random, vocabulary) = (self.random(2), self.vocabulary());
        let mut mixed = |text: &str| {
            let mut words: Vec<String> = text
                .split_whitespace()
                .map(|w| word(w[1..].parse::<usize>().unwrap() % vocabulary))
                .collect();
            random.shuffle(&mut words);
            words.truncate(random.below(30));
            for _ in 0..random.below(3) {
                words.insert(random.below(words.len() + 1), "the".to_owned());
            }
            words.join(" ")
        };
        let mut history = self.case.history();
        for operation in &mut history.operations {
            if let Operation::Add(docs) = operation {
                docs.iter_mut().for_each(|doc: &mut Doc| {
                    (doc.title, doc.text) = (mixed(&doc.title), mixed(&doc.text));
                });
            }
        }
        history
    }

    /// Returns the configuration for an operation of the history.
    pub fn config(self, operation: usize) -> BuildConfig {
        let mut config = match self.has_schema {
            true => self.case.config(operation),
            false => self.case.case.config(operation),
        };
        let schema = config.reader.schema.take();
        config.reader.schema = schema.map(|schema| schema.with_positions().into());
        BuildConfig { positions: true, ..config }
    }

    /// Returns the names that phrases and trees may use in an index with this many text fields.
    pub fn names(self, text_fields: usize) -> Names {
        let mut words: Vec<String> = (0..self.vocabulary()).map(word).collect();
        words.extend(["the", "absent"].map(String::from));
        let names = fields::schema(text_fields);
        let fields = names.text().iter().map(|field| field.name.clone());
        Names {
            words,
            ids: (0..self.case.case.docs + 2).map(|id| format!("d{id}")).collect(),
            fields: fields.filter(|_| self.has_schema).collect(),
            filters: Vec::new(),
            phrases: true,
        }
    }
}

/// Generates cases with and without a schema.
pub fn phrase_cases() -> impl proptest::strategy::Strategy<Value = PhraseCase> {
    use proptest::prelude::*;
    (fields::field_cases(), any::<bool>())
        .prop_map(|(case, has_schema)| PhraseCase { case, has_schema })
}

/// Checks an engine with phrases and with trees that contain phrases.
pub fn check_phrases(make: impl MakeEngine) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&phrase_cases(), |case| {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let (snapshot, mut random) = (fixture.snapshot(), case.random(3));
        let names = case.names(snapshot.text_fields());
        let phrases = (0..PHRASES).map(|_| {
            let tree = Node::Phrase(names.phrase(&mut random));
            TreeSearch { tree, filter: None, k: *random.pick(&[1, 3, 10, usize::MAX]) }
        });
        let mut searches: Vec<TreeSearch> = phrases.collect();
        searches.extend(names.trees(&mut random, TREES));
        check_trees(&make, &format!("{case:?}"), &snapshot, &searches);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

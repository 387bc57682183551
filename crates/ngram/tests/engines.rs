//! All engines find what the definition says, in indexes on disk of every kind.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Alphabet, Indexed, best, cut};
use proptest::prelude::*;
use warpseek_exec::{Cancel, Context, Coverage};
use warpseek_ngram::{Algorithm, Misses, NgramError, Query, Searcher, oracle};
use warpseek_testkit::{Doc, Fixture, History, Operation, Random};
use warpseek_text::{GramConfig, Unit};

/// What a random case is made of.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    alphabet: usize,
    documents: usize,
    /// The most words of most documents.
    words: usize,
    /// Words of a document that is longer than the others; 0 for none.
    long: usize,
    grams: GramConfig,
    operations: usize,
}

fn grams() -> impl Strategy<Value = GramConfig> {
    let unit = prop_oneof![
        4 => (2u32..=8).prop_map(|n| (Unit::Char, n)),
        1 => Just((Unit::Char, 3)),
        1 => (1u32..=5).prop_map(|n| (Unit::Word, n)),
    ];
    let segment_words = prop_oneof![1u32..=3, Just(9), 1u32..=20];
    (unit, segment_words, any::<bool>()).prop_map(|((unit, n), segment_words, parts)| GramConfig {
        unit,
        n,
        segment_words,
        parts,
    })
}

fn case(
    documents: std::ops::Range<usize>,
    words: usize,
    long: usize,
) -> impl Strategy<Value = Case> {
    let alphabet = prop::sample::select(vec![2usize, 3, 5, 26, 27, 301, 10_000]);
    let long = prop_oneof![3 => Just(0), 1 => 1..=long];
    (any::<u64>(), alphabet, documents, 1..=words, long, grams(), 0usize..4).prop_map(
        |(seed, alphabet, documents, words, long, grams, operations)| {
            // Words of few letters make few n-grams of words.
            let alphabet = if grams.unit == Unit::Word { alphabet.min(5) } else { alphabet };
            Case { seed, alphabet, documents, words, long, grams, operations }
        },
    )
}

impl Case {
    fn history(&self, alphabet: &Alphabet, random: &mut Random) -> History {
        let text = |random: &mut Random| {
            let words = random.below(self.words + 1);
            alphabet.text(random, words)
        };
        // Some texts occur more than once, so that scores tie.
        let pool: Vec<String> = (0..1 + self.documents / 2).map(|_| text(random)).collect();
        let doc = |random: &mut Random, id: usize| {
            let text = if random.one_in(2) { random.pick(&pool).clone() } else { text(random) };
            let title = if random.one_in(5) { alphabet.text(random, 3) } else { String::new() };
            Doc { title, ..Doc::text(id, text) }
        };
        let mut docs: Vec<Doc> = (0..self.documents).map(|id| doc(random, id)).collect();
        if self.long > 0 && !docs.is_empty() {
            let at = random.below(docs.len());
            docs[at].text = alphabet.text(random, self.long);
        }
        let mut operations = vec![Operation::Add(docs)];
        for _ in 0..self.operations {
            let all = self.documents + 20;
            let some = |random: &mut Random, most: usize| -> Vec<usize> {
                let mut ids: Vec<usize> =
                    (0..random.below(most + 1)).map(|_| random.below(all)).collect();
                ids.sort_unstable();
                ids.dedup();
                ids
            };
            operations.push(match random.below(5) {
                0 => Operation::Merge,
                1 | 2 => Operation::Add(
                    some(random, 1 + self.documents / 3)
                        .into_iter()
                        .map(|id| doc(random, id))
                        .collect(),
                ),
                _ => Operation::Delete(
                    some(random, 1 + self.documents / 4).iter().map(|id| id.to_string()).collect(),
                ),
            });
        }
        History { operations }
    }

    /// Texts of queries: parts of documents with errors, others that need not occur, and hostile ones.
    fn queries(
        &self,
        indexed: &Indexed,
        alphabet: &Alphabet,
        random: &mut Random,
        n: usize,
    ) -> Vec<String> {
        (0..n)
            .map(|i| match i % 8 {
                0 => random.pick(&["", " ", "a", " \t._-\n", "一", "\u{fdfa}"]).to_string(),
                1 => {
                    let words = random.below(12);
                    alphabet.text(random, words)
                }
                _ if indexed.live.is_empty() => String::new(),
                _ => {
                    let words = [1, 3, 8, 20, 400][random.below(5)];
                    let part = cut(random, &random.clone().pick(&indexed.live).1, words);
                    let errors = random.below(5);
                    alphabet.misspell(random, &part, errors)
                }
            })
            .collect()
    }
}

fn misses(random: &mut Random) -> u32 {
    match random.below(8) {
        0 => 0,
        1 => [20, 100, 126, 127, 128, 300, u32::MAX][random.below(7)],
        _ => random.below(13) as u32,
    }
}

/// Compares all algorithms with the definition, alone and in batches, by one thread and two, to the end and stopped before.
fn check(indexed: &Indexed, texts: &[String], random: &mut Random) {
    let Indexed { searcher, .. } = indexed;
    let k = [1, 2, 10, usize::MAX][random.below(4)];
    let mut queries: Vec<Query> = Vec::new();
    let mut expected = Vec::new();
    for text in texts {
        let misses = misses(random);
        queries.push(searcher.query(text, Misses::Count(misses)).unwrap());
        expected.push(indexed.expected(text, misses));
    }
    for algorithm in Algorithm::ALL {
        for threads in [1, 2] {
            let context = Context::new(threads);
            for (i, query) in queries.iter().enumerate() {
                let answer = searcher.search(query, k, algorithm, &context).unwrap();
                let want = best(&expected[i], &Coverage::Complete, k);
                assert_eq!(
                    answer.hits, want,
                    "{algorithm}, {threads} threads, k {k}, {:?}: {query:?}",
                    texts[i]
                );
                assert!(answer.coverage.is_complete());
            }
            let together = searcher.search_many(&queries, k, algorithm, &context);
            for (answer, want) in together.into_iter().zip(&expected) {
                assert_eq!(answer.unwrap().hits, best(want, &Coverage::Complete, k));
            }
            for (i, query) in queries.iter().enumerate() {
                let cancel = Cancel::after(random.below(12) as u32);
                let context = Context::new(threads).cancelled_by(cancel);
                let answer = searcher.search(query, k, algorithm, &context).unwrap();
                let want = best(&expected[i], &answer.coverage, k);
                assert_eq!(
                    answer.hits, want,
                    "{algorithm} stopped: {:?} {query:?}",
                    answer.coverage
                );
            }
        }
    }
}

fn check_case(case: &Case, queries: usize) {
    let (alphabet, mut random) = (Alphabet::new(case.alphabet), Random::new(case.seed));
    let history = case.history(&alphabet, &mut random);
    let indexed = Indexed::after(&history, case.grams);
    let queries = case.queries(&indexed, &alphabet, &mut random, queries);
    check(&indexed, &queries, &mut random);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn few_documents(case in case(0..50, 120, 2000)) {
        check_case(&case, 16);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    /// Enough for lists of several blocks and bins.
    #[test]
    fn many_documents(case in case(1500..4000, 12, 1)) {
        check_case(&case, 8);
    }

    /// One document has up to 10^5 characters.
    #[test]
    fn long_documents(case in case(1..4, 2000, 20_000)) {
        check_case(&case, 8);
    }
}

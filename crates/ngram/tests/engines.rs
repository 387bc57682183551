//! Tests that all engines find the hits of the definition, in indexes on disk of every kind.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{Alphabet, Indexed, best, cut};
use proptest::prelude::*;
use warpseek_core::Hit;
use warpseek_exec::{Cancel, Context, Coverage};
use warpseek_ngram::{Algorithm, Misses, NgramError, Query, Searcher, oracle};
use warpseek_testkit::{Doc, Fixture, History, Operation, Random, file_bytes};
use warpseek_text::{GramConfig, Unit};

/// The parameters of a random case.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    alphabet: usize,
    documents: usize,
    /// Maximum number of words of most documents.
    words: usize,
    /// Number of words of a document that is longer than the others; 0 for none.
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
            // Words of few letters have few n-grams of words.
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
                0 | 1 => Operation::Merge,
                2 => Operation::Add(
                    some(random, 1 + self.documents / 3)
                        .into_iter()
                        .map(|id| doc(random, id))
                        .collect(),
                ),
                _ => Operation::Delete(
                    some(random, 1 + self.documents / 4).iter().map(ToString::to_string).collect(),
                ),
            });
        }
        History { operations }
    }

    /// Generates texts of queries: parts of documents with errors, others that need not occur,
    /// and hostile ones.
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
                    let text = &random.pick(&indexed.live).1;
                    let part = cut(random, text, words);
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

/// Compares all algorithms with the definition, alone and in batches, by one thread and two, to
/// the end and stopped before.
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
    /// Tests enough documents for lists of several blocks and bins.
    #[test]
    fn many_documents(case in case(1500..4000, 12, 1)) {
        check_case(&case, 8);
    }

    /// Tests one document of up to 10^5 characters.
    #[test]
    fn long_documents(case in case(1..4, 2000, 20_000)) {
        check_case(&case, 8);
    }

    /// Tests more parts than a bin has, some of which begin documents and others do not.
    #[test]
    fn many_parts(mut case in case(150..500, 400, 1)) {
        case.grams.parts = true;
        case.grams.segment_words = 1 + case.grams.segment_words % 2;
        check_case(&case, 6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_merge_makes_the_index_of_the_live_documents(mut case in case(1..300, 60, 2000)) {
        case.operations += 2;
        let (alphabet, mut random) = (Alphabet::new(case.alphabet), Random::new(case.seed));
        let mut history = case.history(&alphabet, &mut random);
        history.operations.push(Operation::Merge);
        let merged = Indexed::after(&history, case.grams);
        let fresh = Indexed::after(&History::of(history.live()), case.grams);
        prop_assert_eq!(files(&merged), files(&fresh));
    }
}

/// Returns the files of an index of one segment, by kind.
fn files(indexed: &Indexed) -> BTreeMap<&'static str, Vec<u8>> {
    let files = file_bytes(&indexed.fixture.dir());
    let of_kind = |kind| {
        let found: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(kind)).collect();
        assert!(found.len() <= 1, "more than one segment");
        Some((kind, found.first()?.1.clone()))
    };
    [".dict", ".post", ".docs", ".ids", ".del"].into_iter().filter_map(of_kind).collect()
}

/// Tests more documents than are counted at a time, and enough for two threads to share a query.
#[test]
fn very_many_documents() {
    let (alphabet, mut random) = (Alphabet::new(26), Random::new(1));
    let pool: Vec<String> = (0..400).map(|i| alphabet.text(&mut random, i % 9)).collect();
    let texts: Vec<String> = (0..140_000).map(|_| random.pick(&pool).clone()).collect();
    let mut operations = vec![Operation::Add(docs(texts))];
    operations.push(Operation::Delete((0..140_000).step_by(1001).map(|i| i.to_string()).collect()));
    let grams = GramConfig { segment_words: 2, ..GramConfig::default() };
    let indexed = Indexed::after(&History { operations }, grams);
    let queries: Vec<String> = (0..8)
        .map(|_| {
            let text = random.pick(&pool[200..]).clone();
            let words = cut(&mut random, &text, 4);
            alphabet.misspell(&mut random, &words, 1)
        })
        .collect();
    check(&indexed, &queries, &mut random);
    check(&indexed, &queries, &mut random);
}

/// Tests counters of bytes, which overflow at 128 and 256 n-grams.
#[test]
fn long_queries() {
    let (alphabet, mut random) = (Alphabet::new(300), Random::new(2));
    let long = alphabet.text(&mut random, 600);
    let texts = (0..40).map(|i| match i % 4 {
        0 => alphabet.misspell(&mut random, &long, i),
        1 => cut(&mut random, &long, 100),
        _ => alphabet.text(&mut random, 200),
    });
    let texts: Vec<String> = texts.collect();
    for (segment_words, parts) in [(1, true), (3, false), (9, false), (100, false)] {
        let grams = GramConfig { segment_words, parts, ..GramConfig::default() };
        let indexed = Indexed::of(texts.clone(), grams);
        for words in [20, 40, 60, 600] {
            let text: String = long.split_inclusive(' ').take(words).collect();
            let text = alphabet.misspell(&mut random, &text, 3);
            let n = indexed.searcher.query(&text, Misses::Count(0)).unwrap().len();
            assert!(words < 600 || n > 1000, "{n} n-grams");
            let all = indexed.expected(&text, u32::MAX);
            for misses in [0, 9, 126, 127, 128, 254, 255, 256, n - 1, n, n + 1] {
                let least = n.saturating_sub(misses).max(1);
                let want: Vec<Hit> = all.iter().filter(|hit| hit.score >= least).copied().collect();
                let query = indexed.searcher.query(&text, Misses::Count(misses)).unwrap();
                for algorithm in Algorithm::ALL {
                    for k in [1, 100] {
                        let found = indexed.searcher.search(&query, k, algorithm, &Context::new(1));
                        let want = best(&want, &Coverage::Complete, k);
                        assert_eq!(
                            found.unwrap().hits,
                            want,
                            "{algorithm}, {n} n-grams, {misses} misses"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn the_definition_in_one_call_is_the_same() {
    let (alphabet, mut random) = (Alphabet::new(5), Random::new(3));
    let texts: Vec<String> = (0..60).map(|i| alphabet.text(&mut random, i)).collect();
    let grams = GramConfig { n: 2, ..GramConfig::default() };
    let indexed = Indexed::of(texts.clone(), grams);
    for misses in 0..5 {
        let query = cut(&mut random, &texts[50], 6);
        let texts: Vec<&str> = indexed.live.iter().map(|live| live.1.as_str()).collect();
        assert_eq!(
            oracle::search(&query, &texts, misses, &grams),
            indexed.expected(&query, misses)
        );
    }
}

#[test]
fn queries_without_n_grams_find_nothing() {
    for (unit, n) in [(Unit::Char, 3), (Unit::Word, 2)] {
        let grams = GramConfig { unit, n, ..GramConfig::default() };
        let texts = ["a b c", "", "acid", " . "].map(str::to_owned);
        let Indexed { searcher, .. } = Indexed::of(texts, grams);
        for text in ["", " ", "\t\u{a0}.-_\n", "x", "\u{301}", "no"] {
            let query = searcher.query(text, Misses::Count(0)).unwrap();
            assert!(query.is_empty(), "{text:?}");
            for algorithm in Algorithm::ALL {
                let answer = searcher.search(&query, 10, algorithm, &Context::new(1)).unwrap();
                assert!(answer.hits.is_empty() && answer.coverage.is_complete());
            }
        }
    }
}

#[test]
fn titles_and_texts_are_one() {
    let doc = Doc { title: "Acetylsalicylic".into(), ..Doc::text(0, "ACID, daily") };
    let empty = Doc { title: "only a title".into(), ..Doc::text(1, "") };
    let indexed = Indexed::after(&History::of(vec![doc, empty]), GramConfig::default());
    for (text, want) in [("salicylic acid", Some(0)), ("a title", Some(1)), ("title acid", None)] {
        let query = indexed.searcher.query(text, Misses::Count(0)).unwrap();
        for algorithm in Algorithm::ALL {
            let answer = indexed.searcher.search(&query, 10, algorithm, &Context::new(1)).unwrap();
            assert_eq!(answer.hits.first().map(|hit| hit.doc), want, "{text}");
        }
    }
}

#[test]
fn misses_follow_from_shares_and_errors() {
    let grams = GramConfig::default();
    let least = |misses| Query::new("abcdefghijkl", misses, &grams).unwrap().least;
    assert_eq!(least(Misses::Count(3)), 7);
    assert_eq!(least(Misses::Count(u32::MAX)), 1);
    assert_eq!(least(Misses::Share(0.25)), 8);
    let letters: String = ('a'..='z').chain('α'..='ω').chain('а'..='я').collect();
    for (n, misses) in [(1, 0), (3, 2), (10, 6), (19, 12), (23, 15), (60, 15), (64, 16), (80, 20)] {
        let text: String = letters.chars().take(n + 2).collect();
        let query = Query::new(&text, Misses::default(), &grams).unwrap();
        assert_eq!((query.len(), query.least), (n as u32, (n - misses) as u32), "{n}");
    }
    assert_eq!(least(Misses::Share(1.0)), 1);
    assert_eq!(least(Misses::Errors(2)), 4);
    assert_eq!(least(Misses::Errors(u32::MAX)), 1);
    for share in [-0.1, 1.1, f64::NAN] {
        let refused = Query::new("abcdefghijkl", Misses::Share(share), &grams);
        assert!(matches!(refused, Err(NgramError::Misses(_))));
    }
}

#[test]
fn what_cannot_be_searched_is_refused() {
    let words = Fixture::of(&[Doc::text(0, "an index of words")]);
    assert!(matches!(Searcher::new(words.snapshot()), Err(NgramError::NotGrams)));
    let letters: String = ('一'..='龥').collect();
    let many: String =
        letters.chars().chain(letters.chars().rev()).chain(letters.chars().step_by(2)).collect();
    // These queries are just below and above the limit of different n-grams.
    let long = |n: usize| many.chars().cycle().take(n).collect::<String>();
    assert!(Query::new(&long(60_000), Misses::Count(0), &GramConfig::default()).is_ok());
    let pairs: String = (0..300).flat_map(|i| letters.chars().skip(i).step_by(i + 1)).collect();
    let refused = Query::new(&pairs, Misses::Count(0), &GramConfig::default());
    assert!(matches!(refused, Err(NgramError::TooManyGrams(n)) if n > 65_536));
}

/// Tests indexes without documents, or with deleted documents only.
#[test]
fn empty_indexes_have_no_hits() {
    let gone = Operation::Delete(vec!["0".into()]);
    let lost = History { operations: vec![Operation::Add(docs(["some text".to_owned()])), gone] };
    for history in [History::default(), lost] {
        let Indexed { searcher, .. } = Indexed::after(&history, GramConfig::default());
        let query = searcher.query("some text", Misses::Count(3)).unwrap();
        for algorithm in Algorithm::ALL {
            let answer = searcher.search(&query, 10, algorithm, &Context::new(2)).unwrap();
            assert!(answer.hits.is_empty() && answer.coverage.is_complete());
        }
    }
}

fn docs(texts: impl IntoIterator<Item = String>) -> Vec<Doc> {
    texts.into_iter().enumerate().map(|(i, text)| Doc::text(i, text)).collect()
}

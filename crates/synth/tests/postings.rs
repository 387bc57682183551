//! Lists have the requested statistics, and depend only on the settings and the seed.

use std::collections::{HashMap, HashSet};

use warpseek_synth::{
    PostingsConfig, PostingsGenerator, PostingsQueries, Preset, SynthError, word,
};

type List = Vec<(u32, u32)>;

fn config() -> PostingsConfig {
    PostingsConfig { terms: 20_000, queries: 2_000, ..Preset::Gov2.config().with_documents(40_000) }
}

fn generator(config: &PostingsConfig) -> PostingsGenerator {
    PostingsGenerator::new(config.clone(), 2).expect("a valid config")
}

fn lists(generator: &PostingsGenerator) -> Vec<List> {
    let list = |rank| {
        let mut list = Vec::new();
        generator.list(rank, &mut list);
        list
    };
    (0..generator.terms()).map(list).collect()
}

fn sizes(lists: &[List]) -> Vec<u32> {
    lists.iter().map(|list| list.len() as u32).collect()
}

#[test]
fn lists_are_the_same_for_any_number_of_threads_and_in_any_order() {
    let base = lists(&generator(&config()));
    for threads in [0, 1, 7, 100_000] {
        let other = PostingsGenerator::new(config(), threads).expect("a valid config");
        for rank in (0..other.terms()).rev().step_by(97) {
            let mut list = Vec::new();
            other.list(rank, &mut list);
            assert_eq!(list, base[rank as usize], "rank {rank}, {threads} threads");
        }
    }
    let other = generator(&PostingsConfig { seed: 1, ..config() });
    assert_ne!(lists(&other)[0], base[0]);
}

#[test]
fn lists_of_a_seed_never_change() {
    // Update this number if you change the model on purpose.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let generator = generator(&config());
    for rank in [0, 100, 5_000] {
        let mut list = Vec::new();
        generator.list(rank, &mut list);
        for (doc, freq) in list {
            hash = (hash ^ (u64::from(doc) << 32 | u64::from(freq))).wrapping_mul(0x100_0000_01b3);
        }
    }
    assert_eq!(hash, 111_579_859_651_444_257);
}

#[test]
fn lists_ascend_and_stay_within_the_documents() {
    let one = PostingsConfig { documents: 1, postings: 3, ..config() };
    let bare = PostingsConfig { scatter: 1.0, run: 0.0, ..config() };
    for config in [config(), one, bare] {
        for list in lists(&generator(&config)) {
            assert!(list.is_sorted_by(|a, b| a.0 < b.0));
            assert!(list.iter().all(|&(doc, freq)| u64::from(doc) < config.documents && freq > 0));
        }
    }
}

#[test]
fn postings_and_lengths_are_as_requested() {
    let config = config();
    let lists = lists(&generator(&config));
    let postings: usize = lists.iter().map(Vec::len).sum();
    let ratio = postings as f64 / config.postings as f64;
    assert!((0.95..1.05).contains(&ratio), "{postings}, not {}", config.postings);
    let mut lengths = vec![0_u32; config.documents as usize];
    lists.iter().flatten().for_each(|&(doc, freq)| lengths[doc as usize] += freq);
    let logs: Vec<f64> =
        lengths.iter().filter(|&&l| l > 0).map(|&l| libm::log(f64::from(l))).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|l| (l - mean) * (l - mean)).sum::<f64>() / logs.len() as f64;
    let sigma = libm::sqrt(variance);
    assert!((0.8..1.2).contains(&sigma), "{sigma}, not {}", config.sigma);
    // The logarithm of a log-normal variable is symmetric around its mean.
    let below = logs.iter().filter(|&&l| l < mean).count() as f64 / logs.len() as f64;
    assert!((0.45..0.55).contains(&below), "{below} of the lengths lie below the mean");
}

/// Returns the mean binary logarithm of gaps and the share of frequency 1, over lists that
/// contain one in 16 to 63 documents.
fn shape(config: &PostingsConfig) -> (f64, f64) {
    let (mut gaps, mut logs, mut postings, mut once) = (0.0, 0.0, 0.0, 0.0);
    for list in lists(&generator(config)) {
        if !(16..64).contains(&(config.documents as usize / list.len().max(1))) {
            continue;
        }
        for pair in list.windows(2) {
            gaps += 1.0;
            logs += libm::log2(f64::from(pair[1].0 - pair[0].0));
        }
        postings += list.len() as f64;
        once += list.iter().filter(|posting| posting.1 == 1).count() as f64;
    }
    (logs / gaps, once / postings)
}

#[test]
fn gaps_and_frequencies_are_like_those_of_a_real_index() {
    // docs/measurements/synth.md describes the real index: 2.75 bits and 75.5 %.
    let (gap, once) = shape(&Preset::Passages.config().with_documents(40_000));
    assert!((2.55..2.95).contains(&gap), "{gap}");
    assert!((0.73..0.80).contains(&once), "{once}");
    // Terms that do not cluster have geometric gaps, about 1.5 bits longer.
    let (gap, _) = shape(&PostingsConfig { scatter: 1.0, ..config() });
    assert!(gap > 3.8, "{gap}");
    let (_, once) = shape(&PostingsConfig { burst: 0.0, ..config() });
    assert_eq!(once, 1.0);
}

#[test]
fn queries_have_the_requested_mean_postings_and_related_terms() {
    let generator = generator(&config());
    let lists = lists(&generator);
    let log = PostingsQueries::new(&generator, &sizes(&lists));
    assert_eq!(log.queries.len(), 2_000);
    let wanted = 40_000.0 * 3.74 / 25.2;
    assert!((log.mean_postings / wanted - 1.0).abs() < 0.01, "{}", log.mean_postings);
    assert!((3.0..3.2).contains(&log.mean_terms), "{}", log.mean_terms);
    for query in &log.queries {
        let mut words: Vec<&str> = query.split(' ').collect();
        assert!((2..=6).contains(&words.len()), "{query}");
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), query.split(' ').count(), "{query}");
    }
    assert_eq!(log, PostingsQueries::new(&generator, &sizes(&lists)));

    // The first two terms of a query occur together more often than the first term of a query and
    // the second of the next.
    let ranks: HashMap<Vec<u8>, u32> = (0..generator.terms()).map(|r| (spell(r), r)).collect();
    let pairs: Vec<[&List; 2]> = log
        .queries
        .iter()
        .map(|query| {
            let mut words = query.split(' ').map(|word| &lists[ranks[word.as_bytes()] as usize]);
            [(); 2].map(|()| words.next().expect("two words"))
        })
        .collect();
    let together: f64 = pairs.iter().map(|[a, b]| closeness(a, b)).sum();
    let apart: f64 = pairs.windows(2).map(|pair| closeness(pair[0][0], pair[1][1])).sum();
    assert!(together > 1.2 * apart, "{together} with, {apart} without a topic");
}

/// Returns the number of common documents, divided by the number expected by chance.
fn closeness(a: &List, b: &List) -> f64 {
    let docs: HashSet<u32> = a.iter().map(|posting| posting.0).collect();
    let common = b.iter().filter(|posting| docs.contains(&posting.0)).count() as f64;
    common * 40_000.0 / (a.len() as f64 * b.len() as f64)
}

fn spell(rank: u32) -> Vec<u8> {
    let mut text = Vec::new();
    word(rank, &mut text);
    text
}

#[test]
fn a_log_can_be_made_with_one_nonempty_list_or_none() {
    let config = PostingsConfig { documents: 9, postings: 1, ..config() };
    let generator = generator(&config);
    let mut documents = vec![0; generator.terms() as usize];
    assert!(PostingsQueries::new(&generator, &documents).queries.iter().all(String::is_empty));
    documents[5] = 1;
    let log = PostingsQueries::new(&generator, &documents);
    assert!(log.queries.iter().all(|query| !query.is_empty() && !query.contains(' ')));
}

#[test]
fn settings_out_of_range_are_refused() {
    let field = |config: PostingsConfig| match config.validate() {
        Err(SynthError::Real { field, .. } | SynthError::Count { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(PostingsConfig { documents: 0, ..config() }), "documents");
    assert_eq!(field(PostingsConfig { documents: u64::MAX, ..config() }), "documents");
    assert_eq!(field(PostingsConfig { terms: 3, ..config() }), "terms");
    assert_eq!(field(PostingsConfig { postings: u64::MAX, ..config() }), "postings");
    assert_eq!(field(PostingsConfig { scatter: f64::NAN, ..config() }), "scatter");
    assert_eq!(field(PostingsConfig { query_shares: [0.0; 5], ..config() }), "query_shares");
}

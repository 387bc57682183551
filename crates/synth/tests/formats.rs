//! Formats can be read back, queries match their collection, and settings are checked.

use std::collections::HashSet;

use proptest::prelude::*;
use warpseek_synth::{
    QueryConfig, SynthError, TextConfig, TextFormat, TextGenerator, queries, word, write_document,
};

fn spelled(rank: u32) -> String {
    let mut out = Vec::new();
    word(rank, &mut out);
    String::from_utf8(out).expect("words are letters")
}

#[test]
fn each_word_is_a_line_and_each_document_ends_with_an_empty_one() {
    let mut out = Vec::new();
    write_document(TextFormat::Words, 0, &[3, 5], &mut out);
    write_document(TextFormat::Words, 1, &[3], &mut out);
    let (three, five) = (spelled(3), spelled(5));
    assert_eq!(String::from_utf8(out).unwrap(), format!("{three}\n{five}\n\n{three}\n\n"));
}

proptest! {
    #[test]
    fn jsonl_reads_back(ordinal: u64, ranks in prop::collection::vec(any::<u32>(), 0..20)) {
        let mut out = Vec::new();
        write_document(TextFormat::Jsonl, ordinal, &ranks, &mut out);
        prop_assert_eq!(out.iter().filter(|&&byte| byte == b'\n').count(), 1);
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let words: Vec<String> = ranks.iter().map(|&rank| spelled(rank)).collect();
        prop_assert_eq!(&line["id"], &format!("d{ordinal}"));
        prop_assert_eq!(&line["text"], &words.join(" "));
        prop_assert_eq!(&line["title"], &words[..words.len().min(6)].join(" "));
    }

    #[test]
    fn any_valid_config_makes_documents(
        vocabulary in 1_u64..=10_000_000,
        exponents in (0.0..4.0, 0.0..4.0),
        zipf_shift in 0.0..1e6,
        tail_rank in 1_u64..20_000_000,
        burst in 0.0..=1.0,
    ) {
        let config = TextConfig {
            vocabulary, zipf_shift, tail_rank, burst,
            zipf_exponent: exponents.0, tail_exponent: exponents.1,
            max_length: 500, ..TextConfig::default()
        };
        let generator = TextGenerator::new(config).unwrap();
        let mut ranks = Vec::new();
        for ordinal in [0, u64::MAX] {
            generator.document(ordinal, &mut ranks);
            prop_assert!((1..=500).contains(&ranks.len()));
            prop_assert!(ranks.iter().all(|&rank| u64::from(rank) < vocabulary));
        }
    }
}

#[test]
fn query_terms_are_distinct_in_the_band_and_from_one_document() {
    let text = TextConfig { seed: 9, documents: 50, ..TextConfig::default() };
    let config = QueryConfig { count: 200, ..QueryConfig::default() };
    let log = queries(&text, &config).unwrap();
    assert_eq!(log.len(), 200);

    let generator = TextGenerator::new(text).unwrap();
    let mut ranks = Vec::new();
    let documents: Vec<HashSet<String>> = (0..50)
        .map(|ordinal| {
            generator.document(ordinal, &mut ranks);
            ranks.iter().map(|&rank| spelled(rank)).collect()
        })
        .collect();
    let band: HashSet<String> = (config.first_rank..config.end_rank).map(spelled).collect();
    let mut lengths = HashSet::new();
    for query in &log {
        let terms: HashSet<String> = query.split(' ').map(String::from).collect();
        assert_eq!(terms.len(), query.split(' ').count(), "{query}");
        assert!(terms.is_subset(&band), "{query}");
        assert!(documents.iter().any(|document| terms.is_subset(document)), "{query}");
        lengths.insert(terms.len());
    }
    assert_eq!(lengths, HashSet::from([2, 3, 4, 5]));
}

#[test]
fn short_documents_still_get_queries() {
    let text = TextConfig { documents: 3, mu: 0.0, sigma: 0.0, ..TextConfig::default() };
    let config = QueryConfig { count: 20, min_terms: 4, max_terms: 4, ..QueryConfig::default() };
    let log = queries(&text, &config).unwrap();
    assert!(log.iter().all(|query| query.split(' ').collect::<HashSet<_>>().len() == 4));
}

#[test]
fn errors_name_the_bad_setting() {
    let good = TextConfig::default();
    let bad = [
        (TextConfig { vocabulary: 0, ..good.clone() }, "vocabulary"),
        (TextConfig { vocabulary: 10_000_001, ..good.clone() }, "vocabulary"),
        (TextConfig { mu: f64::NAN, ..good.clone() }, "mu"),
        (TextConfig { sigma: -0.1, ..good.clone() }, "sigma"),
        (TextConfig { zipf_exponent: f64::INFINITY, ..good.clone() }, "zipf_exponent"),
        (TextConfig { zipf_shift: -1.0, ..good.clone() }, "zipf_shift"),
        (TextConfig { tail_rank: 0, ..good.clone() }, "tail_rank"),
        (TextConfig { tail_exponent: 4.5, ..good.clone() }, "tail_exponent"),
        (TextConfig { burst: 1.1, ..good.clone() }, "burst"),
        (TextConfig { max_length: 0, ..good.clone() }, "max_length"),
    ];
    for (config, field) in bad {
        let error = TextGenerator::new(config).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{field} is ")), "{error}");
    }
    let error = TextConfig { burst: 1.1, ..good }.validate().unwrap_err();
    assert_eq!(error, SynthError::Real { field: "burst", value: 1.1, min: 0.0, max: 1.0 });
}

#[test]
fn errors_name_the_bad_query_setting() {
    let text = TextConfig::default();
    let good = QueryConfig::default();
    let fails =
        |text: &TextConfig, config: QueryConfig| queries(text, &config).unwrap_err().to_string();
    assert_eq!(
        fails(&text, QueryConfig { min_terms: 0, ..good.clone() }),
        "min_terms is 0, but it must be between 1 and 1024"
    );
    assert_eq!(
        fails(&text, QueryConfig { min_terms: 6, ..good.clone() }),
        "max_terms is 5, but it must be between 6 and 1024"
    );
    assert_eq!(
        fails(&text, QueryConfig { end_rank: 53, ..good.clone() }),
        "ranks 50 to 53 contain 3 words, but a query may need 5"
    );
    let tiny = TextConfig { vocabulary: 10, ..text.clone() };
    assert_eq!(
        fails(&tiny, good.clone()),
        "ranks 50 to 50000 contain 0 words, but a query may need 5"
    );
    let empty = TextConfig { documents: 0, ..text };
    assert!(fails(&empty, good).starts_with("documents is 0, "));
}

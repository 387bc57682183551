//! The text has the requested statistics.

use warpseek_synth::{TextConfig, TextFormat, TextGenerator, write_document};

/// The counts of (Wakatsuki 2016, table 1).
struct Counts {
    words: u64,
    pairs: u64,
    distinct: u64,
    bytes: u64,
    mean_log_length: f64,
    deviation_log_length: f64,
    /// The number of occurrences of each rank.
    occurrences: Vec<u32>,
}

fn count(config: &TextConfig) -> Counts {
    let generator = TextGenerator::new(config.clone()).expect("a valid config");
    let mut occurrences = vec![0_u32; config.vocabulary as usize];
    let (mut words, mut pairs, mut bytes) = (0, 0, 0);
    let (mut sum, mut squares) = (0.0, 0.0);
    let (mut ranks, mut out) = (Vec::new(), Vec::new());
    for ordinal in 0..config.documents {
        generator.document(ordinal, &mut ranks);
        out.clear();
        write_document(TextFormat::Words, ordinal, &ranks, &mut out);
        bytes += out.len() as u64;
        words += ranks.len() as u64;
        let log = libm::log(ranks.len() as f64);
        sum += log;
        squares += log * log;
        for &rank in &ranks {
            occurrences[rank as usize] += 1;
        }
        ranks.sort_unstable();
        ranks.dedup();
        pairs += ranks.len() as u64;
    }
    let documents = config.documents as f64;
    let mean_log_length = sum / documents;
    Counts {
        words,
        pairs,
        distinct: occurrences.iter().filter(|&&n| n > 0).count() as u64,
        bytes,
        mean_log_length,
        deviation_log_length: libm::sqrt(squares / documents - mean_log_length * mean_log_length),
        occurrences,
    }
}

fn assert_near(what: &str, got: f64, wanted: f64, tolerance: f64) {
    let off = (got / wanted - 1.0).abs();
    assert!(off < tolerance, "{what}: got {got}, wanted {wanted}, off by {off:.4}");
}

/// Tests the ratios of the first row, which do not depend on the number of documents, at a third
/// of that number.
#[test]
fn ratios_match_table_1() {
    let counts = count(&TextConfig { seed: 5, documents: 8_000, ..TextConfig::table1() });
    let words = counts.words as f64;
    assert_near("mean log length", counts.mean_log_length, 6.0, 0.01);
    assert_near("deviation of log length", counts.deviation_log_length, 1.1, 0.02);
    assert_near("words per document", words / 8_000.0, 17_881_505.0 / 24_411.0, 0.04);
    assert_near("pairs per word", counts.pairs as f64 / words, 11_029_756.0 / 17_881_505.0, 0.02);
    assert_near("bytes per word", counts.bytes as f64 / words, 100e6 / 17_881_505.0, 0.02);
    // The vocabulary growth of table 1, where the exponent of the number of words is 0.6145,
    // extrapolated to this size.
    let distinct = 447_663.0 * libm::pow(words / 17_881_505.0, 0.6145);
    assert_near("distinct words", counts.distinct as f64, distinct, 0.10);
}

#[test]
fn frequent_words_follow_the_law() {
    let counts = count(&TextConfig { seed: 6, documents: 3_000, ..TextConfig::table1() });
    let share = |rank: usize| f64::from(counts.occurrences[rank]) / counts.words as f64;
    assert_near("first word", share(0), 0.0419, 0.02);
    for rank in [1_usize, 3, 9, 49] {
        let law = libm::pow((rank as f64 + 2.0) / 2.0, -0.95);
        assert_near(&format!("rank {rank}"), share(rank) / share(0), law, 0.05);
    }
}

#[test]
fn burst_repeats_words_without_changing_their_frequencies() {
    let plain = TextConfig { seed: 7, documents: 1_000, burst: 0.0, ..TextConfig::default() };
    let counts: Vec<Counts> = [0.0, 0.3, 0.6]
        .iter()
        .map(|&burst| count(&TextConfig { burst, ..plain.clone() }))
        .collect();
    let tokens_per_pair: Vec<f64> =
        counts.iter().map(|counts| counts.words as f64 / counts.pairs as f64).collect();
    assert!(tokens_per_pair[1] > tokens_per_pair[0] * 1.15, "{tokens_per_pair:?}");
    assert!(tokens_per_pair[2] > tokens_per_pair[1] * 1.15, "{tokens_per_pair:?}");
    let head = |counts: &Counts| {
        let occurrences: u32 = counts.occurrences[..20].iter().sum();
        f64::from(occurrences) / counts.words as f64
    };
    assert_near("share of the first 20 words", head(&counts[1]), head(&counts[0]), 0.02);
}

//! The definition of a hit, by brute force over texts. It shares only the normal form of text
//! with the engines.

use std::collections::{BTreeSet, HashMap};

use warpseek_core::Hit;
use warpseek_text::{GramConfig, SEGMENTS, Unit, normalize};

fn normal(text: &str) -> String {
    let mut out = String::new();
    normalize(text, &mut out);
    out
}

/// Returns the n-grams of a text in their order: characters, or words joined by blanks.
fn grams(text: &str, config: &GramConfig) -> Vec<String> {
    let n = config.n as usize;
    match config.unit {
        Unit::Char => {
            let chars: Vec<char> = text.chars().collect();
            chars.windows(n).map(|gram| gram.iter().collect()).collect()
        }
        Unit::Word => {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            words.windows(n).map(|gram| gram.join(" ")).collect()
        }
    }
}

/// Returns the map of segments of each n-gram of a text in normal form.
fn maps(text: &str, config: &GramConfig) -> HashMap<String, u32> {
    let mut maps = HashMap::new();
    let words = text.split(' ').count() as u64;
    let segments = u64::from(SEGMENTS).min((words / u64::from(config.segment_words)).max(1));
    let padded = format!(" {text} ");
    let mut word = 0u64;
    for (start, gram) in grams(&padded, config).into_iter().enumerate() {
        if config.unit == Unit::Word {
            word = start as u64;
        }
        let next = config.unit == Unit::Char && start > 0 && gram.starts_with(' ');
        *maps.entry(gram).or_insert(0) |= 1 << (word * segments / words);
        word += u64::from(next);
    }
    maps
}

/// Returns the parts of a text in normal form.
fn parts(text: &str, config: &GramConfig) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let most = (SEGMENTS * 4 * config.segment_words) as usize;
    if !config.parts || words.len() <= most {
        return vec![text.to_owned()];
    }
    let stride = most - 128.min(most / 2);
    let mut parts = Vec::new();
    for start in (0..).step_by(stride) {
        let end = words.len().min(start + most);
        parts.push(words[start..end].join(" "));
        if end == words.len() {
            break;
        }
    }
    parts
}

/// Returns two numbers: the score of a text, and the number of n-grams of the query. The score is
/// the largest number of n-grams of the query that occur together in a window of adjacent segments,
/// which is as long as the query.
pub fn score(query: &str, text: &str, config: &GramConfig) -> (u32, u32) {
    let query = normal(query);
    let wanted: BTreeSet<String> = grams(&query, config).into_iter().collect();
    let blanks = query.matches(' ').count() as u32;
    let window = (1 + blanks.div_ceil(config.segment_words)).clamp(2, SEGMENTS);
    let mask = (1u64 << window) - 1;
    let mut best = 0;
    for part in parts(&normal(text), config) {
        let maps = maps(&part, config);
        for segment in 0..SEGMENTS {
            let found = wanted.iter().filter(|&gram| {
                u64::from(maps.get(gram).copied().unwrap_or(0)) >> segment & mask != 0
            });
            best = best.max(found.count() as u32);
        }
    }
    (best, wanted.len() as u32)
}

/// Returns all texts that lack at most `misses` of the query's n-grams, best first, then in their
/// order.
pub fn search<T: AsRef<str>>(
    query: &str,
    texts: &[T],
    misses: u32,
    config: &GramConfig,
) -> Vec<Hit> {
    let scored = texts.iter().zip(0..).filter_map(|(text, doc)| {
        let (score, all) = score(query, text.as_ref(), config);
        (score >= all.saturating_sub(misses).max(1)).then_some(Hit { doc, score })
    });
    let mut hits: Vec<Hit> = scored.collect();
    hits.sort();
    hits
}

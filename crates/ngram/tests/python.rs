//! Tests that the definition in Python (`ngram/oracle.py` in the shared directory next to the
//! repository), which shares no code with ours, gives the same hits.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::{Alphabet, Indexed, best, cut};
use serde_json::json;
use warpseek_core::Hit;
use warpseek_exec::{Context, Coverage};
use warpseek_ngram::{Algorithm, Misses, oracle};
use warpseek_testkit::skips::skipped;
use warpseek_testkit::{Random, collections};
use warpseek_text::GramConfig;

/// Reads n, the words of a segment, texts and queries, and prints the hits of each query. The
/// functions of the definition take n and the words of a segment as defaults, which are replaced
/// here.
const DRIVER: &str = "
import json, sys
sys.path.insert(0, sys.argv[1])
import oracle
case = json.load(sys.stdin)
n, words = case['n'], case['segment_words']
oracle.grams.__defaults__ = (n,)
oracle.maps.__defaults__ = (n, words)
oracle.score.__defaults__ = (words,)
json.dump([oracle.search(query, case['texts'], misses) for query, misses in case['queries']], sys.stdout)
";

/// Returns the hits that Python finds, or `None` if Python or the definition is missing, so that
/// the test is skipped.
fn by_python(
    grams: &GramConfig,
    texts: &[String],
    queries: &[(String, u32)],
) -> Option<Vec<Vec<Hit>>> {
    let dir = collections::shared().join("ngram");
    if !dir.join("oracle.py").exists() {
        skipped("the definition in Python", "../shared/ngram/oracle.py is not there");
        return None;
    }
    let case = json!({
        "n": grams.n,
        "segment_words": grams.segment_words,
        "texts": texts,
        "queries": queries,
    });
    let started = Command::new("python3")
        // The shared directory may not be writable.
        .args(["-B", "-c", DRIVER])
        .arg(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = started else {
        skipped("the definition in Python", "there is no python3 to run it");
        return None;
    };
    python.stdin.take().unwrap().write_all(case.to_string().as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let found: Vec<Vec<(u32, u32)>> = serde_json::from_slice(&output.stdout).unwrap();
    let hits = |hits: Vec<(u32, u32)>| hits.into_iter().map(|(score, doc)| Hit { doc, score });
    Some(found.into_iter().map(|found| hits(found).collect()).collect())
}

fn check(grams: GramConfig, texts: &[String], queries: &[(String, u32)]) {
    let Some(expected) = by_python(&grams, texts, queries) else { return };
    let indexed = Indexed::of(texts.iter().cloned(), grams);
    assert_eq!(expected.len(), queries.len());
    for ((text, misses), want) in queries.iter().zip(expected) {
        assert_eq!(oracle::search(text, texts, *misses, &grams), want, "{grams:?} {text:?}");
        let query = indexed.searcher.query(text, Misses::Count(*misses)).unwrap();
        for algorithm in Algorithm::ALL {
            for k in [3, usize::MAX] {
                let context = Context::new(1);
                let answer = indexed.searcher.search(&query, k, algorithm, &context).unwrap();
                assert_eq!(
                    answer.hits,
                    best(&want, &Coverage::Complete, k),
                    "{algorithm} {text:?}"
                );
            }
        }
    }
}

#[test]
fn random_texts_have_the_same_hits() {
    let mut random = Random::new(4);
    for (alphabet, n, segment_words) in
        [(2, 8, 9), (3, 4, 1), (5, 5, 3), (26, 3, 9), (26, 2, 20), (301, 3, 2), (10_000, 2, 9)]
    {
        let alphabet = Alphabet::new(alphabet);
        let words = |i: usize| [i, 2 * i, 10 * i][i % 3];
        let texts: Vec<String> = (0..40).map(|i| alphabet.text(&mut random, words(i))).collect();
        let mut queries: Vec<(String, u32)> =
            ["", " ", "a", "-_."].map(|query| (query.to_owned(), 3)).to_vec();
        for i in 0..12 {
            let text = random.pick(&texts).clone();
            let part = cut(&mut random, &text, [2, 6, 12, 40][i % 4]);
            let errors = random.below(4);
            queries.push((alphabet.misspell(&mut random, &part, errors), random.below(13) as u32));
        }
        let grams = GramConfig { n, segment_words, ..GramConfig::default() };
        check(grams, &texts, &queries);
    }
}

/// Tests characters that normalization changes, joins, splits or drops. All of them are older than
/// any Unicode tables in use.
#[test]
fn odd_characters_have_the_same_hits() {
    let texts = [
        "STRASSE Straße ﬁnden, ﬂach — naïve Café (cafe\u{301})",
        "Ａｃｅｔｙｌ－Ｓａｌｉｃｙｌ ① ② ½ x² ㎏ ℃ Ⅷ ﷺ",
        "İstanbul ıI ΣΊΣΥΦΟΣ Σίσυφος ſet ǆ ŉ ΐ",
        "東京タワー ｶﾞｷﾞ ﾊﾟ がぎ 大きい都市です。一二三",
        "हिन्दी में खोज ไทย ภาษา اللغة العربية עִבְרִית",
        "한국어 각 각 snake_case don't e-mail 3.14",
        "👩‍👩‍👧 emoji 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 \u{1f1e9}\u{1f1ea}",
        "\u{a0}\u{200b}\u{feff}\u{ad}hy\u{ad}phen \u{2028} \u{0}nul",
        "",
        "_ . \u{301}",
    ]
    .map(str::to_owned);
    let mut queries: Vec<(String, u32)> = texts.iter().map(|text| (text.clone(), 4)).collect();
    queries.extend(
        ["strasse", "acetyl salicyl", "ガギパ", "unicode 123", "ısta"].map(|q| (q.to_owned(), 2)),
    );
    for n in [2, 3, 5] {
        check(GramConfig { n, segment_words: 2, ..GramConfig::default() }, &texts, &queries);
    }
}

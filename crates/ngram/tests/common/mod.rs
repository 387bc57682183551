//! Random texts and queries, indexes of them on disk, and the hits of the definition.

// Not every test uses everything here.
#![allow(dead_code)]

use std::collections::HashMap;
use std::sync::Arc;

use warpseek_core::Hit;
use warpseek_exec::Coverage;
use warpseek_index::{BuildConfig, Progress, StoreMode, verify};
use warpseek_ngram::{Searcher, oracle};
use warpseek_testkit::{Doc, Fixture, History, Random, build_config};
use warpseek_text::{GramConfig, ReaderConfig};

/// The letters of texts, and the way words are divided.
pub(crate) struct Alphabet {
    letters: Vec<char>,
    blanks: &'static [&'static str],
}

impl Alphabet {
    /// Creates an alphabet of this many letters, of several scripts if they are many.
    pub(crate) fn new(size: usize) -> Self {
        let latin = 'a'..='z';
        let others = ('а'..='я').chain('α'..='ρ').chain('ぁ'..='ん').chain('一'..='龥');
        let letters: Vec<char> = match size {
            ..=26 => latin.take(size).collect(),
            27..=5000 => latin.chain(others).take(size).collect(),
            _ => ('一'..='龥').take(size).collect(),
        };
        let blanks: &[&str] =
            if size.is_multiple_of(2) { &[" "] } else { &[" ", " ", ", ", "-", "_\n"] };
        Alphabet { letters, blanks }
    }

    /// Generates a word. Letters at the start of the alphabet are frequent.
    pub(crate) fn word(&self, random: &mut Random) -> String {
        let letter = |random: &mut Random| {
            let limit = 1 + random.below(self.letters.len());
            self.letters[random.below(limit)]
        };
        (0..1 + random.below(8)).map(|_| letter(random)).collect()
    }

    /// Generates a text of this many words, with a few words repeated.
    pub(crate) fn text(&self, random: &mut Random, words: usize) -> String {
        let (mut text, mut known) = (String::new(), Vec::new());
        for _ in 0..words {
            if known.is_empty() || random.one_in(2) {
                known.push(self.word(random));
            }
            text += random.pick::<String>(&known);
            text += random.pick::<&str>(self.blanks);
        }
        text
    }

    /// Changes characters of a text: one is replaced, inserted or lost at a time.
    pub(crate) fn misspell(&self, random: &mut Random, text: &str, errors: usize) -> String {
        let mut chars: Vec<char> = text.chars().collect();
        for _ in 0..errors {
            let (at, letter) = (random.below(chars.len() + 1), *random.pick(&self.letters));
            match random.below(3) {
                0 => chars.insert(at, letter),
                1 if at < chars.len() => chars[at] = letter,
                _ if at < chars.len() => drop(chars.remove(at)),
                _ => {}
            }
        }
        chars.into_iter().collect()
    }
}

/// Returns a part of a text: whole words, or any characters.
pub(crate) fn cut(random: &mut Random, text: &str, words: usize) -> String {
    if random.one_in(4) {
        let chars: Vec<char> = text.chars().collect();
        let from = random.below(chars.len() + 1);
        return chars[from..].iter().take(5 * words).collect();
    }
    let all: Vec<&str> = text.split(' ').collect();
    let from = random.below(all.len());
    all[from..].iter().take(words).copied().collect::<Vec<_>>().join(" ")
}

/// An index of n-grams.
pub(crate) struct Indexed {
    pub(crate) fixture: Fixture,
    pub(crate) searcher: Searcher,
    pub(crate) grams: GramConfig,
    /// Live documents by ascending document id: the id, and title and text.
    pub(crate) live: Vec<(u32, String)>,
}

impl Indexed {
    /// Creates an index after all operations of a history, and checks that it is sound.
    pub(crate) fn after(history: &History, grams: GramConfig) -> Self {
        let (grams_of, store, reader) = (Some(grams), StoreMode::Ids, ReaderConfig::default());
        let config = BuildConfig { grams: grams_of, store, reader, ..build_config() };
        let fixture = Fixture::after(history, config);
        let found = verify(&fixture.dir(), &Progress::default()).unwrap();
        assert!(found.problems.is_empty(), "{:?}", found.problems);
        let snapshot = fixture.snapshot();
        let live = history.live().into_iter().map(|Doc { id, title, text, .. }| {
            let doc = snapshot.find_id(&id).unwrap().unwrap();
            (doc, format!("{title} {text}"))
        });
        let live: Vec<_> = live.collect();
        assert!(live.is_sorted_by(|a, b| a.0 < b.0));
        let searcher = Searcher::new(Arc::clone(&snapshot)).unwrap();
        Indexed { fixture, searcher, grams, live }
    }

    /// Creates an index of texts.
    pub(crate) fn of(texts: impl IntoIterator<Item = String>, grams: GramConfig) -> Self {
        let docs = texts.into_iter().enumerate().map(|(i, text)| Doc::text(i, text));
        Self::after(&History::of(docs.collect()), grams)
    }

    /// Returns all hits by the definition, best first. A text that occurs more than once is
    /// scored once.
    pub(crate) fn expected(&self, query: &str, misses: u32) -> Vec<Hit> {
        let mut scores: HashMap<&str, (u32, u32)> = HashMap::new();
        let mut hits: Vec<Hit> = Vec::new();
        for (doc, text) in &self.live {
            let (score, all) =
                *scores.entry(text).or_insert_with(|| oracle::score(query, text, &self.grams));
            if score >= all.saturating_sub(misses).max(1) {
                hits.push(Hit { doc: *doc, score });
            }
        }
        hits.sort();
        hits
    }
}

/// Returns the best `k` of the hits that are covered.
pub(crate) fn best(hits: &[Hit], coverage: &Coverage, k: usize) -> Vec<Hit> {
    hits.iter().filter(|hit| coverage.contains(hit.doc)).take(k).copied().collect()
}

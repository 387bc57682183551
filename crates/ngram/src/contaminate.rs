//! Contamination: the items of a test set that share n-grams with the documents of a training
//! corpus.
//!
//! An item has the n-grams that it would have as a document of an index, each counted once. The
//! corpus is either an index of n-grams ([`against_snapshot`]), whose lists contain the documents
//! that have them, or documents that are read once ([`against_reader`]); in that case the n-grams
//! of all items are in memory, and each document looks up its n-grams there. Both give the same
//! report.

mod lists;
mod rolling;
mod stream;

use std::cmp::Reverse;

use serde::Serialize;
use warpseek_index::{IndexError, OnError, Result};
use warpseek_text::{GramConfig, Reader};

pub use lists::against_snapshot;
pub use stream::against_reader;

/// Maximum number of reasons for skipping in a report.
const REASONS: usize = 10;

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum number of documents of the corpus that are named for each item. Default: 10.
    pub documents: usize,
    /// Number of worker threads. Default: one per core.
    pub threads: usize,
    /// The reaction to malformed records of the corpus. Default: stop.
    pub on_error: OnError,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            documents: 10,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            on_error: OnError::Stop,
        }
    }
}

/// An item of a test set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Item {
    id: String,
    title: String,
    text: String,
}

/// The items of a test set, in memory.
#[derive(Clone, Debug)]
pub struct TestSet {
    config: GramConfig,
    items: Vec<Item>,
}

impl TestSet {
    /// Creates a set without items, which will be compared by these n-grams.
    pub fn new(config: GramConfig) -> Result<Self> {
        config.check().map_err(|what| IndexError::Grams { what })?;
        // The borders of parts make no difference: parts overlap by more than an n-gram.
        Ok(TestSet { config: GramConfig { parts: false, ..config }, items: Vec::new() })
    }

    /// Adds an item. Ids need not be unique.
    pub fn push(&mut self, id: impl Into<String>, title: &str, text: &str) {
        let (id, title, text) = (id.into(), title.to_owned(), text.to_owned());
        self.items.push(Item { id, title, text });
    }

    /// Adds all documents of a reader. Returns the number of malformed records that were skipped.
    pub fn read(&mut self, mut reader: Reader, on_error: OnError) -> Result<u64> {
        let mut skipped = 0;
        while let Some(batch) = reader.next_batch()? {
            for i in 0..batch.len() {
                match batch.record(i) {
                    Ok(item) => self.push(item.id, &item.title, &item.text),
                    Err(error) if on_error == OnError::Stop => return Err(error.into()),
                    Err(_) => skipped += 1,
                }
            }
        }
        Ok(skipped)
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the configuration of the n-grams by which items are compared.
    pub fn config(&self) -> &GramConfig {
        &self.config
    }
}

/// A document of the corpus that shares n-grams with an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedDocument {
    /// The id of the document.
    pub id: String,
    /// Number of different n-grams of the item that the document has.
    pub shared: u32,
}

/// The results for an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ItemReport {
    /// The id of the item.
    pub id: String,
    /// Number of different n-grams of the item; 0 if it is too short to have one.
    pub ngrams: u32,
    /// Number of these n-grams that the corpus has.
    pub found: u32,
    /// The share of these n-grams that the corpus has, 0 to 1.
    pub share: f64,
    /// Number of documents of the corpus that share n-grams with the item.
    pub matching: u64,
    /// The documents that share the most n-grams, best first, then in the order of the corpus.
    pub documents: Vec<SharedDocument>,
}

impl ItemReport {
    fn new(id: &str, ngrams: u32, found: u32, best: Best) -> Self {
        let share = f64::from(found) / f64::from(ngrams.max(1));
        let document = |best: BestDocument| SharedDocument { id: best.id, shared: best.shared };
        let documents = best.documents.into_iter().map(document).collect();
        ItemReport { id: id.to_owned(), ngrams, found, share, matching: best.matching, documents }
    }
}

/// The results for all items.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contamination {
    /// The items, in the order of the test set.
    pub items: Vec<ItemReport>,
    /// Number of documents of the corpus.
    pub documents: u64,
    /// Number of malformed records of the corpus that were left out.
    pub skipped: u64,
    /// The reasons why the first of them were left out.
    pub reasons: Vec<String>,
}

/// Numbers of contaminated items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of items of the test set.
    pub items: u64,
    /// Number of items without an n-gram, about which nothing is known.
    pub too_short: u64,
    /// Number of items with at least one n-gram in the corpus.
    pub any: u64,
    /// Number of items with at least half of their n-grams in the corpus.
    pub half: u64,
    /// Number of items with at least four in five of their n-grams in the corpus.
    pub most: u64,
    /// Numbers of items that have n-grams, by the share of these in the corpus: first 0, then above
    /// 0 up to a tenth, above a tenth up to two tenths, and so on.
    pub histogram: [u64; 11],
}

impl Contamination {
    /// Counts items by the share of their n-grams that the corpus has.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary { items: self.items.len() as u64, ..Summary::default() };
        for item in &self.items {
            let (ngrams, found) = (u64::from(item.ngrams), u64::from(item.found));
            if ngrams == 0 {
                summary.too_short += 1;
                continue;
            }
            summary.any += u64::from(found > 0);
            summary.half += u64::from(found * 2 >= ngrams);
            summary.most += u64::from(found * 5 >= ngrams * 4);
            summary.histogram[(found * 10).div_ceil(ngrams) as usize] += 1;
        }
        summary
    }
}

/// The position of a document in the corpus.
type Order = (u64, u32);

/// A document that is among the best of an item so far.
#[derive(Clone, Debug)]
struct BestDocument {
    shared: u32,
    order: Order,
    id: String,
}

/// The best documents of an item. The order in which they are offered does not matter.
#[derive(Clone, Debug, Default)]
struct Best {
    documents: Vec<BestDocument>,
    matching: u64,
}

impl Best {
    /// Offers a document; `id` is called only if the document is kept.
    fn offer(
        &mut self,
        shared: u32,
        order: Order,
        most: usize,
        id: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        self.matching += 1;
        let key = (Reverse(shared), order);
        let at = self.documents.partition_point(|best| (Reverse(best.shared), best.order) < key);
        if at < most {
            self.documents.truncate(most - 1);
            self.documents.insert(at, BestDocument { shared, order, id: id()? });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::prelude::*;
    use warpseek_index::{BuildConfig, Progress, Snapshot, create_from_reader, delete};
    use warpseek_text::{OwnedDocument, Unit, normalize};

    use super::*;

    fn documents(texts: &[(String, String)]) -> Vec<OwnedDocument> {
        let document = |(i, (title, text)): (usize, &(String, String))| {
            OwnedDocument::new(format!("d{i}"), title.as_str(), text.as_str())
        };
        texts.iter().enumerate().map(document).collect()
    }

    fn reader(texts: &[(String, String)], batch: usize) -> Reader {
        let config = warpseek_text::ReaderConfig { batch_records: batch, ..Default::default() };
        Reader::of_documents(documents(texts), config).unwrap()
    }

    /// Returns the n-grams of a document by the definition.
    fn grams(config: GramConfig, title: &str, text: &str) -> BTreeSet<String> {
        let mut fields = [title, text].map(|field| {
            let mut normal = String::new();
            normalize(field, &mut normal);
            normal
        });
        fields.iter_mut().for_each(|field| field.push(' '));
        let normal = fields.concat();
        let words: Vec<&str> = normal.split(' ').filter(|word| !word.is_empty()).collect();
        let n = config.n as usize;
        match config.unit {
            _ if words.is_empty() => BTreeSet::new(),
            Unit::Word => words.windows(n).map(|gram| gram.join(" ")).collect(),
            Unit::Char => {
                let chars: Vec<char> = format!(" {} ", words.join(" ")).chars().collect();
                chars.windows(n).map(|gram| gram.iter().collect()).collect()
            }
        }
    }

    /// Computes the report by the definition.
    fn by_hand(
        config: GramConfig,
        items: &[String],
        texts: &[(String, String)],
        most: usize,
    ) -> Vec<ItemReport> {
        let grams = |title: &str, text: &str| grams(config, title, text);
        let corpus: Vec<_> = texts.iter().map(|(title, text)| grams(title, text)).collect();
        let report = |(i, item): (usize, &String)| {
            let own = grams("", item);
            let mut best = Best::default();
            for (doc, known) in corpus.iter().enumerate() {
                let shared = known.intersection(&own).count() as u32;
                if shared > 0 {
                    best.offer(shared, (0, doc as u32), most, || Ok(format!("d{doc}"))).unwrap();
                }
            }
            let found = own.iter().filter(|gram| corpus.iter().any(|known| known.contains(*gram)));
            ItemReport::new(&i.to_string(), own.len() as u32, found.count() as u32, best)
        };
        items.iter().enumerate().map(report).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn both_ways_are_what_the_definition_says(
            texts in proptest::collection::vec(
                ("([ab]{0,3}[ .]?){0,3}", "([abé東]{1,3}[ -]){0,90}"), 1..12),
            items in proptest::collection::vec("([abé東]{1,3} ){0,12}", 0..8),
            unit in prop_oneof![Just(Unit::Char), Just(Unit::Word)],
            n in 2u32..6,
            segment_words in 1u32..3,
            parts: bool,
            most in 0usize..4,
            batch in 1usize..5,
            threads in 1usize..4,
            gone in 0usize..12,
        ) {
            let config = GramConfig { unit, n, segment_words, parts };
            let mut set = TestSet::new(config).unwrap();
            items.iter().enumerate().for_each(|(i, text)| set.push(i.to_string(), "", text));
            let settings = Settings { documents: most, threads, ..Settings::default() };
            let progress = Progress::default();
            let streamed = against_reader(&set, reader(&texts, batch), &settings, &progress).unwrap();
            prop_assert_eq!(&streamed.items, &by_hand(config, &items, &texts, most));
            prop_assert_eq!(streamed.documents, texts.len() as u64);

            let dir = tempfile::tempdir().unwrap();
            let build = BuildConfig { grams: Some(config), threads: 1, ..BuildConfig::default() };
            create_from_reader(dir.path(), reader(&texts, 100), &build, true, &progress).unwrap();
            let indexed = |set: &TestSet| {
                let snapshot = Arc::new(Snapshot::open(dir.path()).unwrap());
                against_snapshot(set, &snapshot, &settings, &progress).unwrap()
            };
            prop_assert_eq!(indexed(&set), streamed);
            // A deleted document counts as if it had never been there; ids stay, and so does the
            // order of the others.
            delete(dir.path(), &[format!("d{gone}")], 1, &progress).unwrap();
            let mut left = texts.clone();
            if let Some(text) = left.get_mut(gone) {
                *text = Default::default();
            }
            prop_assert_eq!(indexed(&set).items, by_hand(config, &items, &left, most));
        }
    }

    #[test]
    fn items_are_counted_by_share() {
        let item = |ngrams, found| ItemReport::new("x", ngrams, found, Best::default());
        let items = vec![item(0, 0), item(10, 0), item(10, 1), item(10, 5), item(9, 4), item(7, 7)];
        let summary = Contamination { items, ..Contamination::default() }.summary();
        assert_eq!((summary.items, summary.too_short), (6, 1));
        assert_eq!((summary.any, summary.half, summary.most), (4, 2, 1));
        assert_eq!(summary.histogram, [1, 1, 0, 0, 0, 2, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn the_first_bad_record_is_reported_or_all_are_skipped() {
        let mut texts: Vec<_> = (0..50).map(|i| (String::new(), format!("a b c {i}"))).collect();
        texts[7].0 = "t".into();
        let bad = |batch: usize| {
            let mut documents = documents(&texts);
            documents[20].id = String::new();
            documents[30].static_score = Some(f64::NAN);
            let config = warpseek_text::ReaderConfig { batch_records: batch, ..Default::default() };
            Reader::of_documents(documents, config).unwrap()
        };
        let mut set =
            TestSet::new(GramConfig { n: 3, unit: Unit::Word, ..Default::default() }).unwrap();
        set.push("x", "", "A, b: c.");
        let progress = Progress::default();
        for (threads, batch) in [(1, 100), (3, 1), (3, 7)] {
            let stop = Settings { threads, ..Settings::default() };
            let error = against_reader(&set, bad(batch), &stop, &progress).unwrap_err();
            assert!(error.to_string().contains("21"), "{error}");
            let skip = Settings { on_error: OnError::Skip, ..stop };
            let report = against_reader(&set, bad(batch), &skip, &progress).unwrap();
            assert_eq!((report.documents, report.skipped), (48, 2));
            assert!(report.reasons[0].contains("21") && report.reasons[1].contains("31"));
            assert_eq!((report.items[0].found, report.items[0].matching), (1, 48));
            assert_eq!(report.items[0].documents[0].id, "d0");
        }
        progress.cancel();
        let cancelled = against_reader(&set, bad(1), &Settings::default(), &progress);
        assert!(matches!(cancelled, Err(IndexError::Cancelled)));
    }
}

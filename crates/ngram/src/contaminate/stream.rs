//! Comparison with a corpus that is read once, by all threads. The n-grams of the test set are in
//! memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hashbrown::HashTable;
use warpseek_index::{IndexError, OnError, Progress, Result};
use warpseek_text::{RawBatch, Reader};

use super::rolling::{Grams, key};
use super::{Best, Contamination, ItemReport, Order, REASONS, Settings, TestSet};

/// Maximum number of n-grams for each word of 64 bits of the filter. Each sets two bits, so about
/// one in a hundred others passes.
const GRAMS_PER_WORD: usize = 4;

/// Compares a test set with documents that are read once.
///
/// Ids of documents need not be unique. Depending on the settings, a record that cannot be read
/// stops the comparison, or is left out and counted.
pub fn against_reader(
    set: &TestSet,
    reader: Reader,
    settings: &Settings,
    progress: &Progress,
) -> Result<Contamination> {
    let stream = Stream {
        grams_of_items: ItemGrams::of(set),
        set,
        settings,
        progress,
        reader: Mutex::new((reader, 0)),
        best: std::iter::repeat_with(Mutex::default).take(set.len()).collect(),
        documents: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        outcome: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..settings.threads.max(1) {
            scope.spawn(|| stream.work());
        }
    });
    stream.finish()
}

/// The n-grams of a test set.
struct ItemGrams {
    /// A filter with the two bits of every n-gram's hash set. It is small enough for a cache,
    /// unlike the table.
    filter: Vec<u64>,
    /// Number of bits by which a hash is shifted to get its word of the filter.
    shift: u32,
    /// Numbers of n-grams by key.
    table: HashTable<u32>,
    keys: Vec<u128>,
    /// Flags that are set if the corpus has the n-gram.
    found: Vec<AtomicBool>,
    /// The items that have n-gram `i` are `items[starts[i]..starts[i + 1]]`.
    starts: Vec<usize>,
    items: Vec<u32>,
}

impl ItemGrams {
    fn of(set: &TestSet) -> Self {
        let (mut table, mut keys, mut hashes) = (HashTable::new(), Vec::new(), Vec::new());
        // The n-grams of all items, one item after the other, and the end of each item's n-grams.
        let (mut all, mut ends, mut own) = (Vec::new(), Vec::new(), Vec::new());
        let mut grams = Grams::new(set.config);
        for item in &set.items {
            let count = grams.read(&item.title, &item.text).len();
            for i in 0..count {
                let key = key(grams.gram(i));
                let same = |&i: &u32| keys[i as usize] == key;
                let entry = table.entry(key as u64, same, |&i: &u32| keys[i as usize] as u64);
                let number = *entry.or_insert(keys.len() as u32).get();
                if number as usize == keys.len() {
                    keys.push(key);
                    hashes.push(grams.hash(i));
                }
                own.push(number);
            }
            own.sort_unstable();
            own.dedup();
            all.append(&mut own);
            ends.push(all.len());
        }
        let mut starts = vec![0; keys.len() + 1];
        all.iter().for_each(|&gram| starts[gram as usize + 1] += 1);
        (0..keys.len()).for_each(|i| starts[i + 1] += starts[i]);
        let (mut next, mut items, mut start) = (starts.clone(), vec![0; all.len()], 0);
        for (&end, item) in ends.iter().zip(0..) {
            for &gram in &all[start..end] {
                items[next[gram as usize]] = item;
                next[gram as usize] += 1;
            }
            start = end;
        }
        let words = (keys.len() / GRAMS_PER_WORD).next_power_of_two().max(2);
        let mut grams_of_items = ItemGrams {
            filter: vec![0; words],
            shift: 64 - words.ilog2(),
            table,
            found: std::iter::repeat_with(AtomicBool::default).take(keys.len()).collect(),
            keys,
            starts,
            items,
        };
        for hash in hashes {
            grams_of_items.filter[(hash >> grams_of_items.shift) as usize] |= bits(hash);
        }
        grams_of_items
    }

    /// Returns true if an item may have an n-gram with this hash.
    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        !self.filter[(hash >> self.shift) as usize] & bits(hash) == 0
    }

    /// Returns the number of an n-gram that an item has.
    fn find(&self, gram: &str) -> Option<u32> {
        let key = key(gram);
        self.table.find(key as u64, |&i| self.keys[i as usize] == key).copied()
    }

    fn items_with(&self, gram: u32) -> &[u32] {
        &self.items[self.starts[gram as usize]..self.starts[gram as usize + 1]]
    }
}

/// Returns the bits of a hash within its word of the filter.
#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63)
}

struct Stream<'a> {
    grams_of_items: ItemGrams,
    set: &'a TestSet,
    settings: &'a Settings,
    progress: &'a Progress,
    /// The reader, with the number of the next batch.
    reader: Mutex<(Reader, u64)>,
    best: Vec<Mutex<Best>>,
    documents: AtomicU64,
    /// Set if no more batches are to be read.
    stop: AtomicBool,
    outcome: Mutex<Outcome>,
}

/// The records that were skipped, and the error that ended the comparison, if any.
#[derive(Default)]
struct Outcome {
    skipped: u64,
    /// The first reasons in the order of the input.
    reasons: Vec<(Order, String)>,
    failure: Option<(u64, IndexError)>,
}

/// The memory of a thread.
struct Worker {
    grams: Grams,
    /// The n-grams of a document that pass the filter.
    passed: Vec<u32>,
    /// Numbers of n-grams that a document has.
    found: Vec<u32>,
    /// The number of n-grams of each item that a document has; 0 between documents.
    counts: Vec<u32>,
    /// Items whose counts are not 0.
    touched: Vec<u32>,
}

impl Stream<'_> {
    fn work(&self) {
        let mut worker = Worker {
            grams: Grams::new(self.set.config),
            passed: Vec::new(),
            found: Vec::new(),
            counts: vec![0; self.set.len()],
            touched: Vec::new(),
        };
        // Batches before one that fails are processed to their end, so the first failure is
        // always the same one.
        while !self.stop.load(Ordering::Relaxed) {
            let (number, done) = match self.next_batch() {
                Ok(None) => return,
                Ok(Some((number, batch))) => (number, self.read(number, &batch, &mut worker)),
                Err((number, error)) => (number, Err(error)),
            };
            if let Err(error) = done {
                self.stop.store(true, Ordering::Relaxed);
                let failure = &mut self.outcome().failure;
                if failure.as_ref().is_none_or(|(known, _)| number < *known) {
                    *failure = Some((number, error));
                }
            }
        }
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_batch(&self) -> Result<Option<(u64, RawBatch)>, (u64, IndexError)> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, next) = &mut *reader;
        let batch = self.progress.check().and_then(|()| Ok(reader.next_batch()?));
        let read = reader.progress();
        self.progress.set_bytes(read.bytes_read, read.bytes_total);
        *next += 1;
        let number = *next - 1;
        batch.map(|batch| batch.map(|batch| (number, batch))).map_err(|error| (number, error))
    }

    fn read(&self, number: u64, batch: &RawBatch, worker: &mut Worker) -> Result<()> {
        let mut documents = 0;
        for i in 0..batch.len() {
            let order = (number, i as u32);
            match batch.record(i) {
                Ok(document) => {
                    documents += 1;
                    let (title, text) = (&*document.title, &*document.text);
                    worker.find(&self.grams_of_items, title, text);
                    self.report(worker, order, &document.id)?;
                }
                Err(error) if self.settings.on_error == OnError::Stop => return Err(error.into()),
                Err(error) => {
                    let mut outcome = self.outcome();
                    outcome.skipped += 1;
                    let reasons = &mut outcome.reasons;
                    let at = reasons.partition_point(|(known, _)| *known < order);
                    reasons.insert(at, (order, error.to_string()));
                    reasons.truncate(REASONS);
                }
            }
        }
        self.documents.fetch_add(documents, Ordering::Relaxed);
        self.progress.add_documents(documents);
        Ok(())
    }

    /// Offers a document to the items that it shares n-grams with.
    fn report(&self, worker: &mut Worker, order: Order, id: &str) -> Result<()> {
        for item in worker.touched.drain(..) {
            let shared = std::mem::take(&mut worker.counts[item as usize]);
            let best = &self.best[item as usize];
            let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
            best.offer(shared, order, self.settings.documents, || Ok(id.to_owned()))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Contamination> {
        let outcome = self.outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = outcome.failure {
            return Err(error);
        }
        let (mut ngrams, mut found) = (vec![0; self.set.len()], vec![0; self.set.len()]);
        for gram in 0..self.grams_of_items.keys.len() {
            let is_found = self.grams_of_items.found[gram].load(Ordering::Relaxed);
            for &item in self.grams_of_items.items_with(gram as u32) {
                ngrams[item as usize] += 1;
                found[item as usize] += u32::from(is_found);
            }
        }
        let best = self.best.into_iter().map(Mutex::into_inner);
        let best = best.map(|best| best.unwrap_or_else(PoisonError::into_inner));
        let counts = ngrams.into_iter().zip(found);
        let items = self.set.items.iter().zip(best).zip(counts);
        Ok(Contamination {
            items: items
                .map(|((item, best), (ngrams, found))| {
                    ItemReport::new(&item.id, ngrams, found, best)
                })
                .collect(),
            documents: self.documents.into_inner(),
            skipped: outcome.skipped,
            reasons: outcome.reasons.into_iter().map(|(_, reason)| reason).collect(),
        })
    }
}

impl Worker {
    /// Counts for each item the n-grams that a document has.
    fn find(&mut self, grams_of_items: &ItemGrams, title: &str, text: &str) {
        let Worker { grams, passed, found, counts, touched } = self;
        let hashes = grams.read(title, text);
        // There are no branches here, so that a core can wait for many words of the filter at a
        // time.
        passed.resize(hashes.len() + 1, 0);
        let mut count = 0;
        for (&hash, i) in hashes.iter().zip(0..) {
            passed[count] = i;
            count += usize::from(grams_of_items.may_have(hash));
        }
        found.clear();
        let passed = passed[..count].iter().map(|&i| grams.gram(i as usize));
        found.extend(passed.filter_map(|gram| grams_of_items.find(gram)));
        found.sort_unstable();
        found.dedup();
        for &gram in &*found {
            let known = &grams_of_items.found[gram as usize];
            // Most are known already, and reading does not take the line from other cores.
            if !known.load(Ordering::Relaxed) {
                known.store(true, Ordering::Relaxed);
            }
            for &item in grams_of_items.items_with(gram) {
                if counts[item as usize] == 0 {
                    touched.push(item);
                }
                counts[item as usize] += 1;
            }
        }
    }
}

//! Weights by MapReduce on all cores of the CPU, in the manner of Phoenix++: the method MRP of
//! (Wakatsuki 2016).
//!
//! Each thread maps documents into a hash table of its own, from words to the documents in which
//! they occur, once for each occurrence. The tables are divided by hash into the inputs of reduce
//! tasks, each of which joins the documents of a word, sorts them, counts them and weighs them.
//! At last the outputs of all tasks are merged in the order of words.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Number of reduce tasks per thread, so that a thread whose tasks are short can take others.
const TASKS_A_THREAD: usize = 4;
/// Number of lists that are copied at a time.
const LISTS: usize = 1 << 12;

/// A word with the documents in which it occurs.
struct Pairs {
    hash: u64,
    /// The position of the word in the text, the first one that is known.
    start: u32,
    docs: Vec<u32>,
}

/// A hash table from words to documents.
#[derive(Default)]
struct Container(HashTable<Pairs>);

impl Container {
    /// Returns the documents of a word.
    fn of(&mut self, text: &[u8], hash: u64, start: u32) -> &mut Pairs {
        let word = word_at(text, start as usize);
        let same =
            |pairs: &Pairs| pairs.hash == hash && word_at(text, pairs.start as usize) == word;
        let new = || Pairs { hash, start, docs: Vec::new() };
        self.0.entry(hash, same, |pairs| pairs.hash).or_insert_with(new).into_mut()
    }

    /// Divides the words among tasks by their hashes.
    fn divide(self, tasks: usize) -> Vec<Vec<Pairs>> {
        let mut divided: Vec<Vec<Pairs>> = (0..tasks).map(|_| Vec::new()).collect();
        // A table finds its places by the low bits of a hash, so the high bits divide it.
        let task = |hash: u64| ((u128::from(hash) * tasks as u128) >> 64) as usize;
        self.0.into_iter().for_each(|pairs| divided[task(pairs.hash)].push(pairs));
        divided
    }
}

/// The output of a reduce task: lists in the order of their words.
#[derive(Default)]
struct Reduced {
    terms: Vec<u32>,
    ends: Vec<u32>,
    docs: Vec<u32>,
    weights: Vec<f32>,
}

/// Computes weights on as many threads as the current pool of rayon has.
///
/// # Panics
/// Panics if the text has 2^32 bytes or more.
pub(super) fn map_reduce(
    text: &[u8],
    function: RankingFunction,
) -> Result<(Weights<'static>, Steps), NoWeights> {
    assert!(u32::try_from(text.len()).is_ok(), "text of {} bytes", text.len());
    let mut clock = Clock::start();
    let threads = rayon::current_num_threads();
    let (lengths, containers) = map(text, threads);
    let tasks = threads * TASKS_A_THREAD;
    let mut inputs: Vec<Vec<Vec<Pairs>>> = (0..tasks).map(|_| Vec::new()).collect();
    let divided: Vec<_> =
        containers.into_par_iter().map(|container| container.divide(tasks)).collect();
    for of_thread in divided {
        inputs.iter_mut().zip(of_thread).for_each(|(input, pairs)| input.push(pairs));
    }
    clock.done(Step::Map);

    // Lengths of all documents are known by now, and with them the mean, which the paper takes as
    // given.
    let words: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let documents = lengths.len() as u32;
    let weigher = Weigher::new(function, documents, words).ok_or(NoWeights(function))?;
    let reduced: Vec<Reduced> =
        inputs.into_par_iter().map(|input| reduce(text, input, &lengths, &weigher)).collect();
    clock.done(Step::Reduce);

    let mut weights = merge(text, &reduced);
    (weights.words, weights.documents) = (words, documents);
    clock.done(Step::Merge);
    Ok((weights, clock.stop()))
}

/// Maps all documents. Returns their lengths, and the container of each thread.
fn map(text: &[u8], threads: usize) -> (Vec<u32>, Vec<Container>) {
    let chunks = parts_of(text, CHUNK);
    let counts: Vec<usize> = chunks.par_iter().map(|chunk| documents(chunk).count()).collect();
    let mut all = 0;
    let firsts: Vec<usize> = counts.iter().map(|count| (all, all += count).0).collect();
    let (base, next) = (text.as_ptr() as usize, AtomicUsize::new(0));
    let mapped: Vec<(Vec<(usize, u32)>, Container)> = (0..threads)
        .into_par_iter()
        .with_max_len(1)
        .map(|_| {
            let (mut lengths, mut container) = (Vec::new(), Container::default());
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                let Some(chunk) = chunks.get(task) else { return (lengths, container) };
                for (doc, document) in (firsts[task]..).zip(documents(chunk)) {
                    let mut length = 0;
                    for word in words(document) {
                        let start = (word.as_ptr() as usize - base) as u32;
                        container.of(text, xxh3_64(word), start).docs.push(doc as u32);
                        length += 1;
                    }
                    lengths.push((doc, length));
                }
            }
        })
        .collect();
    let (mut lengths, mut containers) = (vec![0; all], Vec::new());
    for (of_thread, container) in mapped {
        of_thread.into_iter().for_each(|(doc, length)| lengths[doc] = length);
        containers.push(container);
    }
    (lengths, containers)
}

/// Reduces the words of a task, which come from all threads.
fn reduce(text: &[u8], input: Vec<Vec<Pairs>>, lengths: &[u32], weigher: &Weigher) -> Reduced {
    let mut joined = Container::default();
    for mut pairs in input.into_iter().flatten() {
        let same = joined.of(text, pairs.hash, pairs.start);
        same.start = same.start.min(pairs.start);
        same.docs.append(&mut pairs.docs);
    }
    let mut groups: Vec<Pairs> = joined.0.into_iter().collect();
    let word = |pairs: &Pairs| word_at(text, pairs.start as usize);
    groups.sort_unstable_by(|a, b| word(a).cmp(word(b)));
    let mut reduced = Reduced::default();
    for mut group in groups {
        group.docs.sort_unstable();
        let same = |a: &u32, b: &u32| a == b;
        let term_weight = weigher.term(group.docs.chunk_by(same).count() as u32);
        for of_doc in group.docs.chunk_by(same) {
            let factor = weigher.saturation.factor(lengths[of_doc[0] as usize]);
            reduced.docs.push(of_doc[0]);
            let value = saturation::value(of_doc.len() as u32, factor);
            reduced.weights.push(term_weight * value);
        }
        reduced.terms.push(group.start);
        reduced.ends.push(reduced.docs.len() as u32);
    }
    reduced
}

/// Merges the lists of all tasks in the order of their words.
fn merge(text: &[u8], reduced: &[Reduced]) -> Weights<'static> {
    let of_task =
        |task: usize| (0..reduced[task].terms.len() as u32).map(move |list| (task as u32, list));
    let mut order: Vec<(u32, u32)> = (0..reduced.len()).flat_map(of_task).collect();
    let word = |&(task, list): &(u32, u32)| {
        word_at(text, reduced[task as usize].terms[list as usize] as usize)
    };
    order.par_sort_unstable_by(|a, b| word(a).cmp(word(b)));
    let range = |&(task, list): &(u32, u32)| {
        let ends = &reduced[task as usize].ends;
        let start = list.checked_sub(1).map_or(0, |before| ends[before as usize]);
        start as usize..ends[list as usize] as usize
    };
    let mut starts = vec![0u32];
    for list in &order {
        starts.push(starts[starts.len() - 1] + range(list).len() as u32);
    }
    let count = starts[order.len()] as usize;
    let (mut docs, mut weights) = (vec![0; count], vec![0.0; count]);
    let (mut docs_left, mut weights_left) = (docs.as_mut_slice(), weights.as_mut_slice());
    let mut copies = Vec::new();
    for (number, lists) in order.chunks(LISTS).enumerate() {
        let first = number * LISTS;
        let len = (starts[first + lists.len()] - starts[first]) as usize;
        let (docs, more_docs) = std::mem::take(&mut docs_left).split_at_mut(len);
        let (weights, more) = std::mem::take(&mut weights_left).split_at_mut(len);
        (docs_left, weights_left) = (more_docs, more);
        copies.push((lists, docs, weights));
    }
    copies.into_par_iter().for_each(|(lists, docs, weights)| {
        let mut at = 0;
        for list in lists {
            let (from, range) = (&reduced[list.0 as usize], range(list));
            let to = at..at + range.len();
            at = to.end;
            docs[to.clone()].copy_from_slice(&from.docs[range.clone()]);
            weights[to].copy_from_slice(&from.weights[range]);
        }
    });
    let term = |&(task, list): &(u32, u32)| reduced[task as usize].terms[list as usize];
    Weights {
        terms: Cow::Owned(order.iter().map(term).collect()),
        starts: Cow::Owned(starts),
        docs: Cow::Owned(docs),
        weights: Cow::Owned(weights),
        ..Weights::default()
    }
}

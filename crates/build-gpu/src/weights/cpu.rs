//! Weights on all cores of the CPU.
//!
//! Each document is counted separately; then postings are divided by term into parts, each of
//! which is sorted by counting. Nothing is therefore compared, and every core has a separate part
//! of the memory.

mod map_reduce;

use std::borrow::Cow;

use hashbrown::HashTable;
use rayon::prelude::*;
use warpseek_core::saturation;
use warpseek_exec::RankingFunction;
use warpseek_text::END_OF_DOCUMENT;
use xxhash_rust::xxh3::xxh3_64;

use super::END_OF_WORD;
use super::parts::parts_of;
use super::steps::{HostClock as Clock, Step, Steps};
use super::{Method, NoWeights, Weigher, Weights, word_at};

/// Bytes of text that a thread processes at a time.
const CHUNK: usize = 1 << 20;
/// Number of terms of a part. Its counters stay in a core's cache.
const PART_TERMS: usize = 1 << 14;

/// A function that returns the number of a word's term.
type Number<'a> = dyn Fn(&[u8]) -> u32 + Sync + 'a;

/// A posting before sorting.
#[derive(Clone, Copy, Default)]
struct Posting {
    term: u32,
    doc: u32,
    freq: u32,
}

/// Computes weights by a ranking function of the BM25 family, on as many threads as the current
/// pool of rayon has.
///
/// # Panics
/// Panics if the text has 2^32 bytes or more and words are not looked up in a dictionary.
pub fn weigh_on_cpu(
    text: &[u8],
    method: Method<'_>,
    function: RankingFunction,
) -> Result<(Weights<'static>, Steps), NoWeights> {
    let chunks = parts_of(text, CHUNK);
    let mut clock = Clock::start();
    match method {
        Method::MapReduce => map_reduce::map_reduce(text, function),
        Method::Strings => {
            let vocabulary = Vocabulary::new(text, &chunks);
            clock.done(Step::Ids);
            let number = |word: &[u8]| vocabulary.rank(text, word);
            let mut weights =
                weigh_ids(&chunks, vocabulary.starts.len(), &number, function, &mut clock)?;
            let position = |term: &u32| vocabulary.starts[*term as usize];
            weights.terms = weights.terms.iter().map(position).collect();
            Ok((weights, clock.stop()))
        }
        Method::Dictionary(dictionary) => {
            let number = |word: &[u8]| dictionary.look_up(word).unwrap_or(dictionary.unknown());
            let terms = dictionary.len() as usize + 1;
            let weights = weigh_ids(&chunks, terms, &number, function, &mut clock)?;
            Ok((weights, clock.stop()))
        }
    }
}

/// Computes weights of terms whose numbers `number` returns. There are `terms` numbers.
fn weigh_ids(
    chunks: &[&[u8]],
    terms: usize,
    number: &Number<'_>,
    function: RankingFunction,
    clock: &mut Clock,
) -> Result<Weights<'static>, NoWeights> {
    // Steps 1 to 5, in chunks.
    let counted: Vec<Counted> = chunks
        .par_iter()
        .map_init(Memo::default, |memo, chunk| count(chunk, number, memo))
        .collect();
    clock.done(Step::Counts);
    let mut next = 0;
    let first = |chunk: &Counted| {
        next += chunk.lengths.len() as u32;
        next - chunk.lengths.len() as u32
    };
    let firsts: Vec<u32> = counted.iter().map(first).collect();
    let lengths: Vec<u32> =
        counted.iter().flat_map(|chunk| chunk.lengths.iter().copied()).collect();
    let words: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let documents = lengths.len() as u32;
    let weigher = Weigher::new(function, documents, words).ok_or(NoWeights(function))?;

    // Steps 6 to 8, in parts.
    let parts = terms.div_ceil(PART_TERMS).max(1);
    let divided: Vec<Vec<Vec<Posting>>> = counted
        .into_par_iter()
        .zip(firsts)
        .map(|(chunk, first)| divide(chunk, first, parts))
        .collect();
    let weighed: Vec<Part> = (0..parts)
        .into_par_iter()
        .map(|part| weigh(divided.iter().map(|chunk| &chunk[part]), part, &lengths, &weigher))
        .collect();
    clock.done(Step::Lists);
    let joined = join(weighed, words, documents);
    clock.done(Step::Merge);
    Ok(joined)
}

fn words(document: &[u8]) -> impl Iterator<Item = &[u8]> {
    document.split(|&byte| byte == END_OF_WORD).filter(|word| !word.is_empty())
}

fn documents(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    let chunk = chunk.strip_suffix(&[END_OF_DOCUMENT]);
    chunk.into_iter().flat_map(|chunk| chunk.split(|&byte| byte == END_OF_DOCUMENT))
}

/// The distinct words of a text.
struct Vocabulary {
    /// The position of each word, in the order of words.
    starts: Vec<u32>,
    /// The ranks of words by hash.
    ranks: HashTable<u32>,
}

impl Vocabulary {
    fn new(text: &[u8], chunks: &[&[u8]]) -> Self {
        assert!(u32::try_from(text.len()).is_ok(), "text of {} bytes", text.len());
        let base = text.as_ptr() as usize;
        let found: Vec<Vec<u32>> = chunks
            .par_chunks(16)
            .map(|chunks| {
                let mut seen: HashTable<u32> = HashTable::new();
                for word in chunks.iter().flat_map(|chunk| documents(chunk)).flat_map(words) {
                    let hash = xxh3_64(word);
                    if seen.find(hash, |&start| word_at(text, start as usize) == word).is_none() {
                        let start = (word.as_ptr() as usize - base) as u32;
                        let rehash = |&start: &u32| xxh3_64(word_at(text, start as usize));
                        seen.insert_unique(hash, start, rehash);
                    }
                }
                seen.into_iter().collect()
            })
            .collect();
        let mut starts: Vec<u32> = found.concat();
        let key = |&start: &u32| (word_at(text, start as usize), start);
        starts.par_sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        starts.dedup_by(|a, b| key(a).0 == key(b).0);
        let mut ranks = HashTable::with_capacity(starts.len());
        for (rank, start) in starts.iter().enumerate() {
            let hash = |&rank: &u32| xxh3_64(key(&starts[rank as usize]).0);
            ranks.insert_unique(xxh3_64(key(start).0), rank as u32, hash);
        }
        Vocabulary { starts, ranks }
    }

    fn rank(&self, text: &[u8], word: &[u8]) -> u32 {
        let same = |&rank: &u32| word_at(text, self.starts[rank as usize] as usize) == word;
        self.ranks.find(xxh3_64(word), same).copied().unwrap_or(u32::MAX)
    }
}

/// A cache of words for one thread: most words of a text are a few frequent ones, and the others
/// cost a look-up in a large table.
struct Memo {
    slots: Vec<Known>,
    ids: Vec<u32>,
}

/// A word of up to 15 bytes, padded with zeros, with its length behind them.
#[derive(Clone, Copy, Default)]
struct Known {
    word: u128,
    id: u32,
}

/// Binary logarithm of the number of slots of a memo, which fit into the second-level cache of a
/// core.
const MEMO_BITS: u32 = 15;

impl Default for Memo {
    fn default() -> Self {
        Memo { slots: vec![Known::default(); 1 << MEMO_BITS], ids: Vec::new() }
    }
}

impl Memo {
    #[inline]
    fn number(&mut self, word: &[u8], number: &Number<'_>) -> u32 {
        if word.len() > 15 {
            return number(word);
        }
        let mut key = [0; 16];
        key[..word.len()].copy_from_slice(word);
        key[15] = word.len() as u8;
        let key = u128::from_le_bytes(key);
        let folded = (key as u64 ^ (key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let known = &mut self.slots[(folded >> (64 - MEMO_BITS)) as usize];
        if known.word != key {
            *known = Known { word: key, id: number(word) };
        }
        known.id
    }
}

/// The postings of a chunk, document by document, and the lengths of its documents.
struct Counted {
    postings: Vec<Posting>,
    lengths: Vec<u32>,
}

fn count(chunk: &[u8], number: &Number<'_>, memo: &mut Memo) -> Counted {
    let (mut postings, mut lengths) = (Vec::with_capacity(chunk.len() / 8), Vec::new());
    let mut ids = std::mem::take(&mut memo.ids);
    for (doc, document) in documents(chunk).enumerate() {
        ids.clear();
        ids.extend(words(document).map(|word| memo.number(word, number)));
        ids.sort_unstable();
        let posting =
            |same: &[u32]| Posting { term: same[0], doc: doc as u32, freq: same.len() as u32 };
        postings.extend(ids.chunk_by(|a, b| a == b).map(posting));
        lengths.push(ids.len() as u32);
    }
    memo.ids = ids;
    Counted { postings, lengths }
}

/// Divides postings by part, still in the order of documents, which get their numbers in the
/// whole text.
fn divide(chunk: Counted, first: u32, parts: usize) -> Vec<Vec<Posting>> {
    let mut counts = vec![0; parts];
    for posting in &chunk.postings {
        counts[posting.term as usize / PART_TERMS] += 1;
    }
    let mut divided: Vec<Vec<Posting>> = counts.into_iter().map(Vec::with_capacity).collect();
    for posting in chunk.postings {
        let doc = posting.doc + first;
        divided[posting.term as usize / PART_TERMS].push(Posting { doc, ..posting });
    }
    divided
}

/// The lists of the terms of a part.
struct Part {
    terms: Vec<u32>,
    ends: Vec<u32>,
    docs: Vec<u32>,
    weights: Vec<f32>,
}

fn weigh<'a>(
    chunks: impl Iterator<Item = &'a Vec<Posting>> + Clone,
    part: usize,
    lengths: &[u32],
    weigher: &Weigher,
) -> Part {
    let first = (part * PART_TERMS) as u32;
    let mut next = vec![0u32; PART_TERMS + 1];
    let all = || chunks.clone().flatten();
    all().for_each(|posting| next[(posting.term - first) as usize + 1] += 1);
    let (mut terms, mut ends, mut term_weights) = (Vec::new(), Vec::new(), vec![0.0; PART_TERMS]);
    for i in 0..PART_TERMS {
        let df = next[i + 1];
        next[i + 1] += next[i];
        if df > 0 {
            terms.push(first + i as u32);
            ends.push(next[i + 1]);
            term_weights[i] = weigher.term(df);
        }
    }
    let count = next[PART_TERMS] as usize;
    let (mut docs, mut weights) = (vec![0; count], vec![0.0; count]);
    for posting in all() {
        let term = (posting.term - first) as usize;
        let at = next[term] as usize;
        next[term] += 1;
        docs[at] = posting.doc;
        let factor = weigher.saturation.factor(lengths[posting.doc as usize]);
        weights[at] = term_weights[term] * saturation::value(posting.freq, factor);
    }
    Part { terms, ends, docs, weights }
}

fn join(parts: Vec<Part>, words: u64, documents: u32) -> Weights<'static> {
    let count = parts.iter().map(|part| part.docs.len()).sum();
    let (mut terms, mut starts) = (Vec::new(), vec![0u32]);
    for part in &parts {
        let base = starts[starts.len() - 1];
        terms.extend(&part.terms);
        starts.extend(part.ends.iter().map(|end| base + end));
    }
    let (mut docs, mut weights) = (vec![0; count], vec![0.0; count]);
    let (mut docs_left, mut weights_left) = (docs.as_mut_slice(), weights.as_mut_slice());
    let mut copies = Vec::new();
    for part in &parts {
        let (docs, more_docs) = std::mem::take(&mut docs_left).split_at_mut(part.docs.len());
        let (weights, more) = std::mem::take(&mut weights_left).split_at_mut(part.docs.len());
        (docs_left, weights_left) = (more_docs, more);
        copies.push((part, docs, weights));
    }
    copies.into_par_iter().for_each(|(part, docs, weights)| {
        docs.copy_from_slice(&part.docs);
        weights.copy_from_slice(&part.weights);
    });
    Weights {
        words,
        documents,
        terms: Cow::Owned(terms),
        starts: Cow::Owned(starts),
        docs: Cow::Owned(docs),
        weights: Cow::Owned(weights),
    }
}

//! Builds a dictionary from words: sorts them if necessary, then creates the nodes breadth-first.

use std::cmp::Ordering;
use std::collections::VecDeque;

use warpseek_core::limits::MAX_TERM_BYTES;

use crate::layout::{Child, Node, Target, push_entry};
use crate::{Dictionary, DictionaryError, MAX_BUCKET_BYTES, MAX_WORDS, Result};

/// Default maximum number of words per bucket. Smaller buckets are faster to search, larger ones
/// take less space.
pub const DEFAULT_BUCKET_WORDS: u8 = 32;

impl Dictionary {
    /// Builds a dictionary from words in any order and ignores duplicates. Words in byte order
    /// need no sorting, and take less memory.
    pub fn build<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Result<Dictionary> {
        Self::build_with(words, DEFAULT_BUCKET_WORDS)
    }

    /// Builds a dictionary with at most `bucket_words` words per bucket. 0 counts as 1.
    pub fn build_with<W: AsRef<[u8]>>(
        words: impl IntoIterator<Item = W>,
        bucket_words: u8,
    ) -> Result<Dictionary> {
        let mut sorted = Words::default();
        for word in words {
            sorted.push(word.as_ref())?;
        }
        sorted.sort();
        Builder::new(&sorted, u32::from(bucket_words.max(1))).build()
    }
}

/// Many words in one allocation.
#[derive(Default)]
struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    out_of_order: bool,
    /// Number of words pushed, including ignored ones.
    pushed: u64,
}

impl Words {
    fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    fn push(&mut self, word: &[u8]) -> Result<()> {
        self.pushed += 1;
        if word.is_empty() || word.len() > MAX_TERM_BYTES {
            return Err(DictionaryError::WordLength { number: self.pushed, bytes: word.len() });
        }
        if let Some(last) = self.len().checked_sub(1) {
            match self.get(last).cmp(word) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(()),
                Ordering::Greater => self.out_of_order = true,
            }
        }
        if self.len() == MAX_WORDS {
            return Err(DictionaryError::TooManyWords);
        }
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    /// Sorts the words and removes duplicates.
    fn sort(&mut self) {
        if !self.out_of_order {
            return;
        }
        // The first 8 bytes decide most comparisons. They are stored next to the number, so that
        // a comparison seldom reads the word itself.
        let mut order: Vec<(u64, u32)> = (0..self.len()).map(|i| (key(self.get(i)), i)).collect();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| self.get(a.1).cmp(self.get(b.1))));
        let mut sorted = Words { bytes: Vec::with_capacity(self.bytes.len()), ..Words::default() };
        let mut last: &[u8] = &[];
        for &(_, number) in &order {
            let word = self.get(number);
            if word != last {
                sorted.bytes.extend_from_slice(word);
                sorted.ends.push(sorted.bytes.len());
                last = word;
            }
        }
        *self = sorted;
    }
}

/// Returns the first bytes of a word as a number with the same order.
fn key(word: &[u8]) -> u64 {
    let mut key = [0; 8];
    let len = word.len().min(8);
    key[..len].copy_from_slice(&word[..len]);
    u64::from_be_bytes(key)
}

/// A range of words that have their first `depth` bytes in common.
struct Range {
    start: u32,
    end: u32,
    depth: usize,
}

struct Builder<'a> {
    words: &'a Words,
    bucket_words: u32,
    /// Ranges of words of the nodes that have a number but have not been added yet.
    ahead: VecDeque<Range>,
    /// Number of nodes that have a number.
    numbered: u32,
    dictionary: Dictionary,
    heads: Vec<u8>,
    tails: Vec<u8>,
}

impl<'a> Builder<'a> {
    fn new(words: &'a Words, bucket_words: u32) -> Self {
        let root = Range { start: 0, end: words.len(), depth: 0 };
        let dictionary = Dictionary {
            words: words.len(),
            nodes: Vec::new(),
            children: Vec::new(),
            buckets: Vec::new(),
        };
        Builder {
            words,
            bucket_words,
            ahead: VecDeque::from([root]),
            numbered: 1,
            dictionary,
            heads: Vec::new(),
            tails: Vec::new(),
        }
    }

    fn build(mut self) -> Result<Dictionary> {
        while let Some(range) = self.ahead.pop_front() {
            self.add_node(&range)?;
        }
        self.dictionary.nodes.shrink_to_fit();
        self.dictionary.children.shrink_to_fit();
        self.dictionary.buckets.shrink_to_fit();
        Ok(self.dictionary)
    }

    fn add_node(&mut self, range: &Range) -> Result<()> {
        let Range { start, end, depth } = *range;
        // There are fewer children than words: a node has more than one word, and a bucket at
        // least one.
        let mut node =
            Node { first_child: self.dictionary.children.len() as u32, end, ..Node::default() };
        let mut next = start;
        // The word that equals the prefix, if there is one, comes first.
        if next < end && self.words.get(next).len() == depth {
            next += 1;
        }
        // Words of the preceding bytes that are not in a bucket yet.
        let mut waiting = next..next;
        while next < end {
            let byte = self.words.get(next)[depth];
            let after = self.end_of(byte, next, end, depth);
            let alone = after - next > self.bucket_words;
            if alone || after - waiting.start > self.bucket_words {
                self.add_bucket(waiting.clone(), depth)?;
                waiting = next..next;
            }
            if waiting.is_empty() {
                node.add(byte);
            }
            if alone {
                let target = Target::Node(self.numbered);
                self.numbered += 1;
                self.dictionary.children.push(Child::new(next, target));
                self.ahead.push_back(Range { start: next, end: after, depth: depth + 1 });
                waiting = after..after;
            } else {
                waiting.end = after;
            }
            next = after;
        }
        self.add_bucket(waiting, depth)?;
        self.dictionary.nodes.push(node);
        Ok(())
    }

    /// Returns the end of the words from `start` on that have this byte at `depth`. It gallops,
    /// since most runs are short.
    fn end_of(&self, byte: u8, start: u32, end: u32, depth: usize) -> u32 {
        let same = |number: u32| self.words.get(number)[depth] == byte;
        let (mut low, mut step) = (start, 1);
        while end - low > step && same(low + step) {
            low += step;
            step *= 2;
        }
        // The word at `low` has the byte, and the one at `high` does not.
        let mut high = end.min(low.saturating_add(step));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if same(middle) { low = middle } else { high = middle }
        }
        high
    }

    fn add_bucket(&mut self, words: std::ops::Range<u32>, depth: usize) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        self.heads.clear();
        self.tails.clear();
        let mut last: &[u8] = &[];
        for number in words.clone() {
            let word = &self.words.get(number)[depth..];
            let shared = word.iter().zip(last).take_while(|(a, b)| a == b).count();
            push_entry(shared, &word[shared..], &mut self.heads, &mut self.tails);
            last = word;
        }
        let start = self.dictionary.buckets.len();
        let bytes = 1 + self.heads.len() + self.tails.len();
        if start + bytes > MAX_BUCKET_BYTES as usize {
            return Err(DictionaryError::TooLarge);
        }
        self.dictionary.children.push(Child::new(words.start, Target::Bucket(start as u32)));
        self.dictionary.buckets.push(words.len() as u8);
        self.dictionary.buckets.extend_from_slice(&self.heads);
        self.dictionary.buckets.extend_from_slice(&self.tails);
        Ok(())
    }
}

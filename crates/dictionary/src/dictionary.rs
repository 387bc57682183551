//! A dictionary in memory: exact look-ups, prefixes, and the word of an id.

use std::ops::Range;

use crate::layout::{Bucket, Child, Node, Target};

/// A set of words with ids. The [crate] documentation describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dictionary {
    pub(crate) words: u32,
    /// Nodes of the trie, starting with the root. The children of a node are next to each other,
    /// and nodes are in the order of their parents.
    pub(crate) nodes: Vec<Node>,
    pub(crate) children: Vec<Child>,
    pub(crate) buckets: Vec<u8>,
}

/// The arrays of a dictionary, in the layout of the file and of the device.
#[derive(Clone, Copy, Debug)]
pub struct Sections<'a> {
    /// Inner nodes, [`Sections::NODE`] numbers each.
    pub nodes: &'a [u32],
    /// Children of nodes, [`Sections::CHILD`] numbers each.
    pub children: &'a [u32],
    /// Buckets of front-coded words.
    pub buckets: &'a [u8],
}

impl Sections<'_> {
    /// Number of integers per node.
    pub const NODE: usize = size_of::<Node>() / 4;
    /// Number of integers per child.
    pub const CHILD: usize = size_of::<Child>() / 4;
}

/// Numbers of the parts of a dictionary, and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of inner nodes.
    pub nodes: u64,
    /// Number of buckets.
    pub buckets: u64,
    /// Number of words that are the prefix of a node and therefore in no bucket.
    pub words_of_nodes: u64,
    /// Maximum number of nodes on the path to a word.
    pub depth: u32,
    /// Sum, over all words, of the number of nodes on the path to the word.
    pub steps: u64,
    /// Size of the nodes in bytes.
    pub node_bytes: u64,
    /// Size of the children in bytes.
    pub child_bytes: u64,
    /// Size of the buckets in bytes.
    pub bucket_bytes: u64,
}

impl Dictionary {
    /// Returns the number of words.
    pub fn len(&self) -> u32 {
        self.words
    }

    /// Returns true if the dictionary has no words.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Returns the id that all unknown words share on a device: the number of words.
    pub fn unknown(&self) -> u32 {
        self.words
    }

    /// Returns the size of the arrays in bytes, in memory as well as on a device.
    pub fn bytes(&self) -> u64 {
        let sections = self.sections();
        (size_of_val(sections.nodes) + size_of_val(sections.children) + sections.buckets.len())
            as u64
    }

    /// Returns the arrays, for a device.
    pub fn sections(&self) -> Sections<'_> {
        Sections {
            nodes: bytemuck::cast_slice(&self.nodes),
            children: bytemuck::cast_slice(&self.children),
            buckets: &self.buckets,
        }
    }

    /// Returns the id of a word, if the dictionary contains it.
    pub fn look_up(&self, word: &[u8]) -> Option<u32> {
        if word.is_empty() {
            return None;
        }
        match self.descend(word)? {
            Reached::Node { node, first } => self.is_word(node, first).then_some(first),
            Reached::Bucket { bucket, rest, first } => {
                let (number, exact) = bucket.seek(rest)?;
                exact.then_some(first + number)
            }
        }
    }

    /// Returns the ids of the words that begin with `prefix`; an empty range if there are none.
    pub fn prefix(&self, prefix: &[u8]) -> Range<u32> {
        match self.descend(prefix) {
            None => 0..0,
            Some(Reached::Node { node, first }) => first..self.nodes[node].end,
            Some(Reached::Bucket { bucket, rest, first }) => {
                let Some((number, _)) = bucket.seek(rest) else { return 0..0 };
                let after = bucket.entries().skip(number as usize + 1);
                let more = after.take_while(|entry| entry.shared >= rest.len()).count();
                first + number..first + number + 1 + more as u32
            }
        }
    }

    /// Returns the word with this id.
    pub fn word(&self, id: u32) -> Option<Vec<u8>> {
        if id >= self.words {
            return None;
        }
        let (mut node, mut first, mut word) = (0, 0, Vec::new());
        loop {
            if id == first && self.is_word(node, first) {
                return Some(word);
            }
            let children = self.children_of(node);
            let number = children.partition_point(|child| child.first <= id).checked_sub(1)?;
            let child = children[number];
            match child.target() {
                Target::Node(number_of_node) => {
                    word.push(self.nodes[node].byte_of(number as u32)?);
                    (node, first) = (number_of_node as usize, child.first);
                }
                Target::Bucket(start) => {
                    let depth = word.len();
                    for entry in self.bucket(start)?.entries().take((id - child.first) as usize + 1)
                    {
                        word.truncate(depth + entry.shared);
                        word.extend_from_slice(entry.tail);
                    }
                    return Some(word);
                }
            }
        }
    }

    /// Returns all words in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Vec<u8>> + '_ {
        // Every id below the number of words has a word.
        (0..self.words).map(|id| self.word(id).unwrap_or_default())
    }

    /// Counts the parts of the dictionary and their sizes.
    pub fn statistics(&self) -> Statistics {
        let sections = self.sections();
        let mut found = Statistics {
            nodes: self.nodes.len() as u64,
            buckets: (self.children.len() + 1 - self.nodes.len()) as u64,
            node_bytes: size_of_val(sections.nodes) as u64,
            child_bytes: size_of_val(sections.children) as u64,
            bucket_bytes: sections.buckets.len() as u64,
            ..Statistics::default()
        };
        // Parents come before their children.
        let mut at: Vec<(u32, u32)> = vec![(0, 0); self.nodes.len()];
        for node in 0..self.nodes.len() {
            let (first, depth) = at[node];
            found.depth = found.depth.max(depth + 1);
            found.steps += u64::from(self.nodes[node].end - first);
            found.words_of_nodes += u64::from(self.is_word(node, first));
            for child in self.children_of(node) {
                if let Target::Node(number) = child.target() {
                    at[number as usize] = (child.first, depth + 1);
                }
            }
        }
        found
    }

    /// Follows a string down to its end or to a bucket. Returns `None` if no word begins with it.
    #[inline]
    fn descend<'a>(&'a self, string: &'a [u8]) -> Option<Reached<'a>> {
        let (mut node, mut first) = (0, 0);
        for (depth, &byte) in string.iter().enumerate() {
            let (number, begins) = self.nodes[node].child_of(byte)?;
            let child = self.children[(self.nodes[node].first_child + number) as usize];
            match child.target() {
                Target::Bucket(start) => {
                    let bucket = self.bucket(start)?;
                    return Some(Reached::Bucket {
                        bucket,
                        rest: &string[depth..],
                        first: child.first,
                    });
                }
                // All words of a child that is a node begin with the same byte.
                Target::Node(_) if !begins => return None,
                Target::Node(number) => (node, first) = (number as usize, child.first),
            }
        }
        Some(Reached::Node { node, first })
    }

    /// Returns true if the prefix of a node is a word. `first` is the id of the node's first
    /// word: if the prefix is a word, it has that id, and the words of the children begin one
    /// later. The root's prefix is empty and never a word.
    pub(crate) fn is_word(&self, node: usize, first: u32) -> bool {
        self.children_of(node).first().is_some_and(|child| child.first != first)
    }

    pub(crate) fn children_of(&self, node: usize) -> &[Child] {
        let node = &self.nodes[node];
        let start = node.first_child as usize;
        &self.children[start..start + node.children() as usize]
    }

    #[inline]
    pub(crate) fn bucket(&self, start: u32) -> Option<Bucket<'_>> {
        Bucket::new(self.buckets.get(start as usize..)?)
    }
}

/// The part of the trie to which a string leads.
enum Reached<'a> {
    /// A node, at the end of the string. `first` is the id of its first word.
    Node { node: usize, first: u32 },
    /// A bucket with all words that begin with the string, if there are any. `rest` is the
    /// remaining part of the string, at least one byte.
    Bucket { bucket: Bucket<'a>, rest: &'a [u8], first: u32 },
}

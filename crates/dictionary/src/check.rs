//! Validates arrays from a file in one pass. Look-ups on validated arrays never leave an array,
//! always terminate, and find every word at its id.

use warpseek_core::limits::MAX_TERM_BYTES;

use crate::Dictionary;
use crate::layout::{Bucket, Node, Target};

/// The properties of a node that follow from the nodes before it.
#[derive(Clone, Copy)]
struct Expected {
    /// Id of the node's first word.
    first: u32,
    depth: u8,
}

/// Returns an error that describes the first problem found.
pub(crate) fn check(dictionary: &Dictionary) -> Result<(), String> {
    let Dictionary { words, nodes, children, buckets } = dictionary;
    if nodes.first().is_none_or(|root| root.end != *words) {
        return Err("the root does not contain all words".into());
    }
    // Nodes are in the order of their parents, so each one is known before its turn comes.
    let mut known = Vec::with_capacity(nodes.len());
    known.push(Expected { first: 0, depth: 0 });
    let (mut next_child, mut next_bucket) = (0, 0);
    for (number, node) in nodes.iter().enumerate() {
        let wrong = |what: &str| Err(format!("node {number} {what}"));
        let Some(&Expected { first, depth }) = known.get(number) else {
            return wrong("has no parent");
        };
        if node.before != counts(node) {
            return wrong("has wrong counts of children");
        }
        let own = next_child..next_child + node.children() as usize;
        if node.first_child as usize != own.start {
            return wrong("does not refer to the next children");
        }
        let Some(own) = children.get(own) else { return wrong("refers to missing children") };
        next_child += own.len();
        // The prefix of the node may be a word, which then comes before the words of the
        // children.
        let is_word = own.first().is_some_and(|child| child.first != first);
        if is_word && number == 0 {
            return wrong("has an empty word");
        }
        if own.is_empty() && number > 0 {
            return wrong("has no children");
        }
        let mut id = first + u32::from(is_word);
        let mut bytes = node.bytes().peekable();
        for child in own {
            let (Some(byte), before) = (bytes.next(), bytes.peek().copied()) else {
                return wrong("has more children than bytes");
            };
            if child.first != id {
                return wrong("has a child with a wrong first id");
            }
            id = match child.target() {
                Target::Node(target) => {
                    if target as usize != known.len() {
                        return wrong("does not refer to the next node");
                    }
                    let Some(child) = nodes.get(known.len()) else {
                        return wrong("refers to a missing node");
                    };
                    // Ids grow with each bucket, and the bytes of the file limit the number of
                    // buckets, so no sum overflows.
                    if child.end <= id || child.end > *words {
                        return wrong("has a child with a wrong number of words");
                    }
                    // A word of the child has at least one byte more.
                    if usize::from(depth) + 2 > MAX_TERM_BYTES {
                        return wrong("is too deep");
                    }
                    known.push(Expected { first: id, depth: depth + 1 });
                    child.end
                }
                Target::Bucket(start) => {
                    if start as usize != next_bucket {
                        return wrong("does not refer to the next bucket");
                    }
                    let bucket = buckets.get(next_bucket..).and_then(Bucket::new);
                    let longest = MAX_TERM_BYTES - usize::from(depth);
                    let len = bucket.and_then(|bucket| bucket_len(bucket, byte, before, longest));
                    let (Some(bucket), Some(len)) = (bucket, len) else {
                        return wrong("has a malformed bucket");
                    };
                    next_bucket += len;
                    match id.checked_add(bucket.len()).filter(|end| end <= words) {
                        Some(end) => end,
                        None => return wrong("has a bucket with too many words"),
                    }
                }
            };
        }
        if id != node.end {
            return wrong("has a wrong number of words");
        }
    }
    if known.len() != nodes.len() || next_child != children.len() || next_bucket != buckets.len() {
        return Err("some nodes, children or buckets are not part of the trie".into());
    }
    Ok(())
}

fn counts(node: &Node) -> [u8; 8] {
    let mut sum = 0;
    node.starts.map(|bits| {
        let before = sum;
        // At most 7 * 32 bits come before the last element; the sum after that element is not
        // returned.
        sum = u8::wrapping_add(sum, bits.count_ones() as u8);
        before
    })
}

/// Returns the length of a bucket if it is valid: its words are in order, the first begins with
/// `byte`, all begin with a byte below `before`, and none is longer than `longest`.
fn bucket_len(bucket: Bucket<'_>, byte: u8, before: Option<u8>, longest: usize) -> Option<usize> {
    let mut last: Vec<u8> = Vec::with_capacity(longest);
    let mut entries = bucket.entries();
    let mut tail_bytes = entries.rest().len();
    for number in 0..bucket.len() {
        let entry = entries.next()?;
        let in_order = match last.get(entry.shared) {
            Some(&last) => entry.tail[0] > last,
            // The whole word before is the common prefix of the two.
            None => entry.shared == last.len() && number > 0,
        };
        if number == 0 && (entry.shared != 0 || entry.tail[0] != byte) || number > 0 && !in_order {
            return None;
        }
        last.truncate(entry.shared);
        last.extend_from_slice(entry.tail);
        if last.len() > longest {
            return None;
        }
    }
    tail_bytes -= entries.rest().len();
    // Words are in order, so the last one has the greatest first byte. A bucket has at least one
    // word.
    let last = *last.first()?;
    before.is_none_or(|before| last < before).then_some(bucket.head_bytes() + tail_bytes)
}

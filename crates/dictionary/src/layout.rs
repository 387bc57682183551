//! The arrays of a dictionary: nodes, children and buckets (docs/format/words.md). They are the same in memory, in the file and on the device.

use bytemuck::{Pod, Zeroable};

/// An inner node of the trie: a prefix that more words have than a bucket takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Node {
    /// A bit per byte that may follow the prefix: whether a child begins with it. A child has the words from its byte up to the next child's.
    pub(crate) starts: [u32; 8],
    /// For each element of `starts`, the bits set in the elements before it.
    pub(crate) before: [u8; 8],
    /// The number of its first child; the others follow.
    pub(crate) first_child: u32,
    /// One past the last id of the words with this prefix.
    pub(crate) end: u32,
}

impl Node {
    /// The child that has words with this byte, if any does, counted from the first; and whether it begins with it.
    #[inline]
    pub(crate) fn child_of(&self, byte: u8) -> Option<(u32, bool)> {
        let (element, bit) = (usize::from(byte / 32), byte % 32);
        // All bits up to this one.
        let starts = self.starts[element] & (u32::MAX >> (31 - bit));
        let upto = u32::from(self.before[element]) + starts.count_ones();
        Some((upto.checked_sub(1)?, starts >> bit == 1))
    }

    /// Number of children.
    pub(crate) fn children(&self) -> u32 {
        u32::from(self.before[7]) + self.starts[7].count_ones()
    }

    /// The byte with which child `number`, counted from the first, begins.
    pub(crate) fn byte_of(&self, number: u32) -> Option<u8> {
        self.bytes().nth(number as usize)
    }

    /// The bytes with which children begin.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255u8).filter(|&byte| self.starts[usize::from(byte / 32)] >> (byte % 32) & 1 == 1)
    }

    /// Lets another child begin with a byte. Bytes come in ascending order.
    pub(crate) fn add(&mut self, byte: u8) {
        self.starts[usize::from(byte / 32)] |= 1 << (byte % 32);
        for before in self.before.iter_mut().skip(usize::from(byte / 32) + 1) {
            // At most 7 * 32 bits are before an element.
            *before += 1;
        }
    }
}

/// A child of a node: another node, or a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Child {
    /// The id of its first word.
    pub(crate) first: u32,
    /// Where the bucket begins, or the number of the node with [`INNER`] added.
    target: u32,
}

/// The bit that tells numbers of nodes from positions of buckets.
const INNER: u32 = 1 << 31;

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The number of a node.
    Node(u32),
    /// Where a bucket begins.
    Bucket(u32),
}

impl Child {
    pub(crate) fn new(first: u32, target: Target) -> Self {
        let target = match target {
            Target::Node(number) => number | INNER,
            Target::Bucket(start) => start,
        };
        Child { first, target }
    }

    #[inline]
    pub(crate) fn target(self) -> Target {
        if self.target & INNER == 0 {
            Target::Bucket(self.target)
        } else {
            Target::Node(self.target & !INNER)
        }
    }
}

/// A length in four bits that stands for itself below this value; this value says that a byte with the length follows.
pub(crate) const ESCAPE: u8 = 15;

/// A run of sorted words, without the prefix of the node above, front-coded: the heads of all words, then their tails.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    heads: &'a [u8],
    tails: &'a [u8],
}

/// What differs between a word of a bucket and the word before.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// How many bytes the two have in common.
    pub(crate) shared: usize,
    /// The bytes after these, at least one.
    pub(crate) tail: &'a [u8],
}

impl<'a> Bucket<'a> {
    /// The bucket at the beginning of some bytes. `None`, if the bytes end before its heads do.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (&count, rest) = bytes.split_first()?;
        let (heads, tails) = rest.split_at_checked(usize::from(count))?;
        Some(Bucket { heads, tails })
    }

    /// Number of words.
    pub(crate) fn len(self) -> u32 {
        self.heads.len() as u32
    }

    /// Bytes that are not of the tails.
    pub(crate) fn head_bytes(self) -> usize {
        1 + self.heads.len()
    }

    /// Its words in order. Ends early if the bytes do, which those of a valid bucket never do.
    #[inline]
    pub(crate) fn entries(self) -> Entries<'a> {
        Entries { heads: self.heads, tails: self.tails }
    }

    /// The first word that begins with `wanted`, which is not empty: its number in the bucket, and whether it has no further bytes.
    #[inline]
    pub(crate) fn seek(self, wanted: &[u8]) -> Option<(u32, bool)> {
        // How many bytes of the last word looked at are those of `wanted`, which is greater than that word.
        let mut matched = 0;
        for (number, Entry { shared, tail }) in (0..).zip(self.entries()) {
            // It differs from the word before only after the byte at which that was found to be smaller.
            if shared > matched {
                continue;
            }
            // It is greater than the word before within the bytes that are those of `wanted`.
            if shared < matched {
                return None;
            }
            let rest = &wanted[matched..];
            let same = tail.iter().zip(rest).take_while(|(a, b)| a == b).count();
            if same == rest.len() {
                return Some((number, same == tail.len()));
            }
            if same < tail.len() && rest[same] < tail[same] {
                return None;
            }
            matched += same;
        }
        None
    }
}

/// See [`Bucket::entries`].
pub(crate) struct Entries<'a> {
    heads: &'a [u8],
    tails: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Bytes after the last entry returned.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.tails
    }

    fn length(&mut self, bits: u8) -> Option<usize> {
        if bits < ESCAPE {
            return Some(usize::from(bits));
        }
        let (&length, rest) = self.tails.split_first()?;
        self.tails = rest;
        Some(usize::from(length))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let (&head, heads) = self.heads.split_first()?;
        self.heads = heads;
        let shared = self.length(head >> 4)?;
        // A tail has at least one byte, so that is not counted.
        let further = self.length(head & 15)?;
        let (tail, rest) = self.tails.split_at_checked(further + 1)?;
        self.tails = rest;
        Some(Entry { shared, tail })
    }
}

/// Appends the head of a word to `heads`, and the rest to `tails`.
pub(crate) fn push_entry(shared: usize, tail: &[u8], heads: &mut Vec<u8>, tails: &mut Vec<u8>) {
    let mut half = |length: usize| {
        if length < usize::from(ESCAPE) {
            return length as u8;
        }
        // Words have at most 255 bytes.
        tails.push(length as u8);
        ESCAPE
    };
    let head = half(shared) << 4 | half(tail.len() - 1);
    heads.push(head);
    tails.extend_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_with_the_bytes() {
        for bytes in [
            vec![],
            vec![0],
            vec![255],
            vec![0, 31, 32, 33, 97, 200, 255],
            (0..=255).collect::<Vec<u8>>(),
        ] {
            let mut node = Node::default();
            bytes.iter().for_each(|&byte| node.add(byte));
            assert_eq!(node.bytes().collect::<Vec<_>>(), bytes);
            assert_eq!(node.children() as usize, bytes.len());
            for byte in 0..=255 {
                let upto = bytes.iter().filter(|&&b| b <= byte).count();
                let want = (upto > 0).then(|| (upto as u32 - 1, bytes.contains(&byte)));
                assert_eq!(node.child_of(byte), want, "{byte} in {bytes:?}");
            }
        }
    }
}

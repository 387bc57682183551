//! The arrays of a dictionary: nodes, children and buckets (docs/reference/formats/words.md). Their
//! layout is the same in memory, in the file and on the device.

use bytemuck::{Pod, Zeroable};

/// An inner node of the trie: a prefix with more words than a bucket may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Node {
    /// Bit set of the bytes with which children begin. A child has the words from its byte up to
    /// the next child's.
    pub(crate) starts: [u32; 8],
    /// Number of bits set in the elements of `starts` before each element.
    pub(crate) before: [u8; 8],
    /// Number of the first child; the others follow.
    pub(crate) first_child: u32,
    /// End of the range of ids of the words with this prefix.
    pub(crate) end: u32,
}

impl Node {
    /// Returns the number of the child that may have words with this byte, relative to the first
    /// child, and true if the child begins with this byte. Returns `None` if all children begin
    /// later.
    #[inline]
    pub(crate) fn child_of(&self, byte: u8) -> Option<(u32, bool)> {
        let (element, bit) = (usize::from(byte / 32), byte % 32);
        // Keep all bits up to this one.
        let starts = self.starts[element] & (u32::MAX >> (31 - bit));
        let upto = u32::from(self.before[element]) + starts.count_ones();
        Some((upto.checked_sub(1)?, starts >> bit == 1))
    }

    /// Returns the number of children.
    pub(crate) fn children(&self) -> u32 {
        u32::from(self.before[7]) + self.starts[7].count_ones()
    }

    /// Returns the byte with which child `number`, relative to the first, begins.
    pub(crate) fn byte_of(&self, number: u32) -> Option<u8> {
        self.bytes().nth(number as usize)
    }

    /// Returns the bytes with which children begin.
    pub(crate) fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255u8).filter(|&byte| self.starts[usize::from(byte / 32)] >> (byte % 32) & 1 == 1)
    }

    /// Adds a child that begins with this byte. Bytes must be added in ascending order.
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
    /// Id of the first word.
    pub(crate) first: u32,
    /// Start of the bucket, or the number of the node with [`INNER`] added.
    target: u32,
}

/// Bit that distinguishes numbers of nodes from positions of buckets.
const INNER: u32 = 1 << 31;

/// The decoded target of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Number of a node.
    Node(u32),
    /// Position at which a bucket begins.
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

/// Value of a four-bit length that says that a byte with the length follows. Smaller values are
/// the length itself.
pub(crate) const ESCAPE: u8 = 15;

/// A run of sorted words without the prefix of the node above, front-coded: the heads of all
/// words, then their tails.
#[derive(Clone, Copy)]
pub(crate) struct Bucket<'a> {
    heads: &'a [u8],
    tails: &'a [u8],
}

/// The difference between a word of a bucket and the word before it.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// Number of bytes that the two words have in common.
    pub(crate) shared: usize,
    /// Bytes of the word after the common ones, at least one.
    pub(crate) tail: &'a [u8],
}

impl<'a> Bucket<'a> {
    /// Reads the bucket at the beginning of `bytes`. Returns `None` if the bytes end before its
    /// heads do.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let (&count, rest) = bytes.split_first()?;
        let (heads, tails) = rest.split_at_checked(usize::from(count))?;
        Some(Bucket { heads, tails })
    }

    /// Returns the number of words.
    pub(crate) fn len(self) -> u32 {
        self.heads.len() as u32
    }

    /// Returns the number of bytes before the tails.
    pub(crate) fn head_bytes(self) -> usize {
        1 + self.heads.len()
    }

    /// Returns the words in order. The iterator ends early if the bytes do, which never happens
    /// in a valid bucket.
    #[inline]
    pub(crate) fn entries(self) -> Entries<'a> {
        Entries { heads: self.heads, tails: self.tails }
    }

    /// Finds the first word that begins with `wanted`, which must not be empty. Returns the
    /// number of the word in the bucket, and true if the word equals `wanted`.
    #[inline]
    pub(crate) fn seek(self, wanted: &[u8]) -> Option<(u32, bool)> {
        // Length of the common prefix of `wanted` and the last word compared, which is smaller
        // than `wanted`.
        let mut matched = 0;
        for (number, Entry { shared, tail }) in (0..).zip(self.entries()) {
            // The word differs from the one before only after the byte that made that one smaller
            // than `wanted`, so it is smaller, too.
            if shared > matched {
                continue;
            }
            // The word is greater than the one before within the bytes that matched `wanted`, so
            // it is greater than `wanted`.
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

/// The iterator of [`Bucket::entries`].
pub(crate) struct Entries<'a> {
    heads: &'a [u8],
    tails: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Returns the bytes after the last entry returned.
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
        // The length is stored less one, since a tail has at least one byte.
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

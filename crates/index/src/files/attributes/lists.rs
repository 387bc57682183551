//! The list of a keyword, which holds the documents that have it
//! (docs/reference/formats/attributes.md).

use warpseek_codec::varint::{self, Cursor};

use crate::files::bits::{self, Present};
use crate::files::deletes::DocSet;

/// Returns true if a list of `df` documents is a bitmap. Each difference takes at least one byte,
/// so a bitmap is at most twice as long.
fn is_bitmap(df: u32, documents: u32) -> bool {
    u64::from(df) * 16 >= u64::from(documents)
}

/// Appends a list of documents, which must ascend.
pub(super) fn encode(out: &mut Vec<u8>, docs: &[u32], documents: u32) {
    varint::write(out, docs.len() as u64);
    if is_bitmap(docs.len() as u32, documents) {
        return bits::write_set(out, documents, docs.iter().copied());
    }
    let mut next = 0;
    for &doc in docs {
        varint::write(out, u64::from(doc - next));
        next = doc + 1;
    }
}

/// Returns the number of documents of a list, or `None` if it is malformed.
pub(super) fn df(bytes: &[u8], documents: u32) -> Option<u32> {
    Cursor::new(bytes).varint32().filter(|df| (1..=documents).contains(df))
}

/// Adds the documents of a list to `out`, or returns `None` if the list is malformed.
pub(super) fn decode_into(bytes: &[u8], documents: u32, out: &mut DocSet) -> Option<()> {
    let df = df(bytes, documents)?;
    let mut cursor = Cursor::new(bytes);
    cursor.varint32()?;
    if is_bitmap(df, documents) {
        let (words, []) = cursor.rest().as_chunks() else { return None };
        if words.len() != (documents as usize).div_ceil(64) {
            return None;
        }
        let set = Present::new(documents, Some(words));
        // If bits after the last document were set, there would be more bits than documents.
        let bits: u64 =
            words.iter().map(|&word| u64::from(u64::from_le_bytes(word).count_ones())).sum();
        if (set.count(), bits) != (df.into(), df.into()) {
            return None;
        }
        set.all_into(out);
        return Some(());
    }
    let mut next = 0;
    for _ in 0..df {
        let doc = cursor.varint()?.checked_add(next).filter(|&doc| doc < u64::from(documents))?;
        out.insert(doc as u32);
        next = doc + 1;
    }
    cursor.rest().is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lists(documents in 1u32..2000, one_in in 1u32..60, seed: u32) {
            let mut docs: Vec<u32> =
                (0..documents).filter(|d| d.wrapping_mul(seed | 1).wrapping_add(seed) % one_in == 0).collect();
            if docs.is_empty() {
                docs.push(documents - 1);
            }
            let mut bytes = Vec::new();
            encode(&mut bytes, &docs, documents);
            let mut set = DocSet::new(documents);
            decode_into(&bytes, documents, &mut set).unwrap();
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), &docs[..]);
            prop_assert_eq!(df(&bytes, documents), Some(docs.len() as u32));
            for len in 0..bytes.len() {
                prop_assert!(decode_into(&bytes[..len], documents, &mut set.clone()).is_none());
            }
            bytes.push(0);
            prop_assert!(decode_into(&bytes, documents, &mut set).is_none());
        }
    }

    #[test]
    fn forged_lists_are_refused() {
        let refused = |bytes: &[u8], documents| {
            let mut set = DocSet::new(documents);
            decode_into(bytes, documents, &mut set).is_none()
        };
        assert!(!refused(&[1, 99], 100) && refused(&[1, 100], 100), "document 100 of 100");
        assert!(!refused(&[2, 5, 0], 100) && refused(&[2, 5, 94], 100), "second one past the end");
        assert!(refused(&[0], 100), "no documents");
        assert!(refused(&[200, 1], 100), "more documents than there are");
        let bitmap = |df, bits: u64| [&[df], &bits.to_le_bytes()[..]].concat();
        assert!(!refused(&bitmap(2, 3), 10));
        assert!(refused(&bitmap(3, 3), 10), "another number of bits");
        assert!(refused(&bitmap(2, 1 << 10 | 1), 10), "a bit past the end");
    }
}

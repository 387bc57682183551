//! Bins of a dense list: bitmaps of 256 documents, with the maps of these documents.

use warpseek_codec::CodecError;

use crate::files::postings::map_code::Maps;

/// Number of documents of a bin.
pub const BIN: usize = 256;

/// Widths in bits of the heads of maps (docs/reference/formats/ngrams.md) in a bin of 256 parts.
///
/// For each 64 parts there are three words: the lowest bits of all widths, the middle ones and
/// the highest. Counting bits thus adds up the widths of a subset of the parts.
pub(crate) type HeadWidths = [[u64; 3]; BIN / 64];

/// Size of a bin's bitmap in bytes.
pub(super) const BITMAP: usize = BIN / 8;

/// Returns true if a bitmap contains a document, given by its number in the bin.
#[inline]
pub(super) fn is_set(bitmap: &[u8; BITMAP], doc: usize) -> bool {
    bitmap[doc / 8] >> (doc % 8) & 1 == 1
}

#[inline]
pub(super) fn words(bitmap: &[u8; BITMAP]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bitmap.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// Returns the total width of the heads of these documents of a bin.
#[inline]
fn bits_of_heads(docs: &[u64; 4], widths: &HeadWidths) -> usize {
    let of_word = |(word, planes): (&u64, &[u64; 3])| {
        let count = |plane: usize| (word & planes[plane]).count_ones();
        count(0) + 2 * count(1) + 4 * count(2)
    };
    docs.iter().zip(widths).map(of_word).sum::<u32>() as usize
}

/// Defines a function that counts bits with the CPU's `popcnt` instruction, if it has one.
macro_rules! by_popcnt {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block) => {
        $(#[$meta])*
        #[inline]
        pub(super) fn $name($($arg: $type),*) -> $result {
            #[inline(always)]
            fn anywhere($($arg: $type),*) -> $result $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "popcnt")]
                fn by_popcnt($($arg: $type),*) -> $result {
                    anywhere($($arg),*)
                }
                if is_x86_feature_detected!("popcnt") {
                    // SAFETY: the check above ensures that the CPU supports `popcnt`.
                    #[allow(unsafe_code)]
                    return unsafe { by_popcnt($($arg),*) };
                }
            }
            anywhere($($arg),*)
        }
    };
}

by_popcnt! {
    /// Reads the head of a document in a bin, given by its number there, and returns the map if
    /// the head names its only segment. `widths` are the widths of heads in the bin, and `own` is
    /// the document's number of segments.
    fn single_in_bin(
        bitmap: &[u8; BITMAP],
        maps: &[u8],
        doc: usize,
        widths: &HeadWidths,
        own: u8,
    ) -> Result<Option<u32>, CodecError> {
        let words = words(bitmap);
        let n = words.iter().map(|word| word.count_ones() as usize).sum();
        let before = bits_of_heads(&before(&words, doc), widths);
        Ok(Maps::new(maps, n)?.single(before, own))
    }
}

/// Returns the documents of a bin before one of them.
#[inline]
fn before(words: &[u64; 4], doc: usize) -> [u64; 4] {
    let mut before = *words;
    before[doc / 64] &= (1 << (doc % 64)) - 1;
    before[doc / 64 + 1..].fill(0);
    before
}

by_popcnt! {
    /// Reads the map of a document in a bin, given by its number there. `widths` are the widths
    /// of heads, and `segments` the numbers of segments, of the bin's documents.
    fn map_in_bin(
        bitmap: &[u8; BITMAP],
        maps: &[u8],
        doc: usize,
        widths: &HeadWidths,
        segments: &[u8],
    ) -> Result<u32, CodecError> {
        let words = words(bitmap);
        let (mut at, bit, before) = (doc / 64, doc % 64, before(&words, doc));
        let count = |words: &[u64; 4]| words.iter().map(|word| word.count_ones() as usize).sum();
        let maps = Maps::new(maps, count(&words))?;
        let mut word = words[at] & (u64::MAX >> (63 - bit));
        let segments = std::iter::from_fn(|| {
            while word == 0 {
                at = at.checked_sub(1)?;
                word = words[at];
            }
            let top = 63 - word.leading_zeros() as usize;
            word ^= 1 << top;
            segments.get(at * 64 + top).copied()
        });
        let all = || bits_of_heads(&words, widths);
        Ok(maps.get(count(&before), bits_of_heads(&before, widths), all, segments))
    }
}

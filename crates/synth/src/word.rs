//! The spelling of a rank: a bijection from ranks to lower-case words of alternating consonants and
//! vowels, computed without a table.
//!
//! Ranks are divided into classes by word length, and frequent ranks are short. With these class
//! sizes, the mean length of a word in running text is 4.6 letters, as (Wakatsuki 2016, table 1)
//! implies (5.6 bytes per word including its line feed). Within a class, a modular multiplication
//! scatters neighbouring ranks over the alphabet. Otherwise dictionary order would be frequency
//! order, which would make a sorted dictionary unrealistically easy.

const VOWELS: &[u8; 5] = b"aeiou";
const CONSONANTS: &[u8; 21] = b"tnrslhdcmfpgbvkwyjxqz";

/// A prime, and therefore coprime to the capacity of every class that it does not divide. It is
/// below 2^32, so that its product with a rank fits into 64 bits.
const SCATTER: u64 = 2_654_435_761;

/// Words of the same length.
#[derive(Debug)]
struct Class {
    letters: u32,
    /// The first rank after the class.
    end: u64,
    /// The number of words that begin with a consonant.
    consonant_first: u64,
    /// The number of all alternating words of this length.
    capacity: u64,
}

const fn class(letters: u32, end: u64) -> Class {
    let (more, fewer) = (letters.div_ceil(2), letters / 2);
    let consonant_first = 21_u64.pow(more) * 5_u64.pow(fewer);
    let vowel_first = 5_u64.pow(more) * 21_u64.pow(fewer);
    Class { letters, end, consonant_first, capacity: consonant_first + vowel_first }
}

const CLASSES: [Class; 8] = [
    class(2, 20),
    class(3, 80),
    class(4, 260),
    class(5, 950),
    class(6, 3_700),
    class(7, 16_000),
    class(8, 200_000),
    class(9, 1_000_000_000),
];

/// The rest of the 32-bit ranks.
const LAST_CLASS: Class = class(10, 1 << 32);

/// Appends the word for a rank, where 0 is the most frequent one. Words consist of the letters a to
/// z and are distinct for distinct ranks. Some of them are English words, which an analyzer with
/// stemming or stop words may merge or drop.
pub fn word(rank: u32, out: &mut Vec<u8>) {
    let rank = u64::from(rank);
    let mut start = 0;
    let mut class = &LAST_CLASS;
    for candidate in &CLASSES {
        if rank < candidate.end {
            class = candidate;
            break;
        }
        start = candidate.end;
    }
    let code = (rank - start) * SCATTER % class.capacity;
    if code < class.consonant_first {
        spell(code, class.letters, false, out);
    } else {
        spell(code - class.consonant_first, class.letters, true, out);
    }
}

/// Writes the digits of `code`, alternating between base 21 and base 5.
fn spell(mut code: u64, letters: u32, vowel_first: bool, out: &mut Vec<u8>) {
    let mut vowel = vowel_first;
    for _ in 0..letters {
        if vowel {
            out.push(VOWELS[(code % 5) as usize]);
            code /= 5;
        } else {
            out.push(CONSONANTS[(code % 21) as usize]);
            code /= 21;
        }
        vowel = !vowel;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_injective() {
        let mut start = 0;
        for class in CLASSES.iter().chain([&LAST_CLASS]) {
            assert!(class.end - start <= class.capacity, "{class:?}");
            assert_ne!(class.capacity % SCATTER, 0, "{class:?}");
            start = class.end;
        }
    }

    #[test]
    fn words_are_distinct_and_never_shorter_than_more_frequent_ones() {
        const RANKS: u32 = 2_000_000;
        let mut packed = Vec::with_capacity(RANKS as usize);
        let mut text = Vec::new();
        let mut length = 0;
        for rank in 0..RANKS {
            text.clear();
            word(rank, &mut text);
            assert!(text.iter().all(u8::is_ascii_lowercase));
            assert!(text.len() >= length);
            length = text.len();
            packed.push(text.iter().fold(0_u64, |key, &byte| key * 32 + u64::from(byte & 31)));
        }
        packed.sort_unstable();
        packed.dedup();
        assert_eq!(packed.len(), RANKS as usize);
    }

    #[test]
    fn extreme_ranks_have_a_spelling() {
        let spelled = |rank| {
            let mut text = Vec::new();
            word(rank, &mut text);
            text
        };
        assert_eq!(spelled(0).len(), 2);
        assert_eq!(spelled(999_999_999).len(), 9);
        assert_eq!(spelled(u32::MAX).len(), 10);
    }
}

//! Snowball's English stemmer ("Porter 2") for ASCII words, without allocation.
//!
//! `rust-stemmers` remains the reference, and stems all other words. Its generated code copies
//! the string at every change, which takes longer than all other steps of analyzing a query's
//! word. The rules here are those of the published algorithm,
//! <https://snowballstem.org/algorithms/english/stemmer.html>; tests compare both.
//!
//! Suffixes are compared as integers: the last eight bytes of the word form one, and a suffix is
//! a value under a mask. Vowels are the bits of another integer, so that there is no loop over
//! letters whose end the CPU cannot predict.

use std::borrow::Cow;

/// Maximum length of a word in bytes; longer ones are left to `rust-stemmers`.
const LONGEST: usize = 56;

/// Position of a word in its buffer. Zeros precede it, so that its last eight bytes can always be
/// read.
const START: usize = 8;

/// Class of each byte, a set of the bits below.
const CLASS: [u8; 256] = classes();

const VOWEL: u8 = 1;
const Y: u8 = 2;
/// Class of bytes whose words are left to `rust-stemmers`.
const OTHER: u8 = 4;

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a' | b'e' | b'i' | b'o' | b'u' => VOWEL,
            b'y' => VOWEL | Y,
            b'A'..=b'Z' | 0x80..=0xff => OTHER,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// Words with irregular stems.
const EXCEPTIONS: [(&str, &str); 18] = [
    ("andes", "andes"),
    ("atlas", "atlas"),
    ("bias", "bias"),
    ("cosmos", "cosmos"),
    ("dying", "die"),
    ("early", "earli"),
    ("gently", "gentl"),
    ("howe", "howe"),
    ("idly", "idl"),
    ("lying", "lie"),
    ("news", "news"),
    ("only", "onli"),
    ("singly", "singl"),
    ("skies", "sky"),
    ("skis", "ski"),
    ("sky", "sky"),
    ("tying", "tie"),
    ("ugly", "ugli"),
];

/// Last eight bytes of each exception.
const EXCEPTION_TAILS: [u64; 18] = {
    let (mut tails, mut i) = ([0; 18], 0);
    while i < 18 {
        tails[i] = suffix(EXCEPTIONS[i].0.as_bytes()).value;
        i += 1;
    }
    tails
};

/// Last eight bytes of the words that stay unchanged after the first step.
const INVARIANT: [u64; 8] = [
    suffix(b"canning").value,
    suffix(b"earring").value,
    suffix(b"exceed").value,
    suffix(b"herring").value,
    suffix(b"inning").value,
    suffix(b"outing").value,
    suffix(b"proceed").value,
    suffix(b"succeed").value,
];

/// Beginnings of words after which the first region begins.
const BEGINNINGS: [&[u8]; 3] = [b"gener", b"arsen", b"commun"];

/// A suffix, as a value of a word's last eight bytes under a mask.
struct Suffix {
    value: u64,
    mask: u64,
    len: usize,
}

const fn suffix(text: &[u8]) -> Suffix {
    let (mut value, mut mask, mut i) = (0u64, 0u64, 0);
    while i < text.len() {
        value = value << 8 | text[i] as u64;
        mask = mask << 8 | 0xff;
        i += 1;
    }
    Suffix { value, mask, len: text.len() }
}

/// A condition on what precedes a suffix.
enum Before {
    Anything,
    L,
    ValidLi,
    SOrT,
    /// The suffix must be in the second region rather than the first.
    SecondRegion,
}

/// A rule: a suffix, the condition on what precedes it, and its replacement.
struct Rule(Suffix, Before, &'static [u8]);

const fn rule(text: &'static [u8], with: &'static [u8]) -> Rule {
    Rule(suffix(text), Before::Anything, with)
}

// The functions below return the rules of the later steps, by the last letter of a word. Of two
// suffixes that a word may both have, the longer one comes first, since only it counts.

fn step_2(last: u8) -> &'static [Rule] {
    const I: [Rule; 14] = [
        rule(b"biliti", b"ble"),
        rule(b"aliti", b"al"),
        rule(b"iviti", b"ive"),
        rule(b"lessli", b"less"),
        rule(b"fulli", b"ful"),
        rule(b"ousli", b"ous"),
        rule(b"entli", b"ent"),
        rule(b"alli", b"al"),
        rule(b"abli", b"able"),
        rule(b"bli", b"ble"),
        rule(b"anci", b"ance"),
        rule(b"enci", b"ence"),
        Rule(suffix(b"ogi"), Before::L, b"og"),
        Rule(suffix(b"li"), Before::ValidLi, b""),
    ];
    const L: [Rule; 2] = [rule(b"ational", b"ate"), rule(b"tional", b"tion")];
    const M: [Rule; 1] = [rule(b"alism", b"al")];
    const N: [Rule; 2] = [rule(b"ization", b"ize"), rule(b"ation", b"ate")];
    const R: [Rule; 2] = [rule(b"ator", b"ate"), rule(b"izer", b"ize")];
    const S: [Rule; 3] =
        [rule(b"iveness", b"ive"), rule(b"fulness", b"ful"), rule(b"ousness", b"ous")];
    match last {
        b'i' => &I,
        b'l' => &L,
        b'm' => &M,
        b'n' => &N,
        b'r' => &R,
        b's' => &S,
        _ => &[],
    }
}

fn step_3(last: u8) -> &'static [Rule] {
    const E: [Rule; 3] = [
        rule(b"alize", b"al"),
        rule(b"icate", b"ic"),
        Rule(suffix(b"ative"), Before::SecondRegion, b""),
    ];
    const I: [Rule; 1] = [rule(b"iciti", b"ic")];
    const L: [Rule; 4] = [
        rule(b"ational", b"ate"),
        rule(b"tional", b"tion"),
        rule(b"ical", b"ic"),
        rule(b"ful", b""),
    ];
    const S: [Rule; 1] = [rule(b"ness", b"")];
    match last {
        b'e' => &E,
        b'i' => &I,
        b'l' => &L,
        b's' => &S,
        _ => &[],
    }
}

fn step_4(last: u8) -> &'static [Rule] {
    const C: [Rule; 1] = [rule(b"ic", b"")];
    const E: [Rule; 7] = [
        rule(b"ance", b""),
        rule(b"ence", b""),
        rule(b"able", b""),
        rule(b"ible", b""),
        rule(b"ate", b""),
        rule(b"ive", b""),
        rule(b"ize", b""),
    ];
    const I: [Rule; 1] = [rule(b"iti", b"")];
    const L: [Rule; 1] = [rule(b"al", b"")];
    const M: [Rule; 1] = [rule(b"ism", b"")];
    const N: [Rule; 1] = [Rule(suffix(b"ion"), Before::SOrT, b"")];
    const R: [Rule; 1] = [rule(b"er", b"")];
    const S: [Rule; 1] = [rule(b"ous", b"")];
    const T: [Rule; 4] =
        [rule(b"ement", b""), rule(b"ment", b""), rule(b"ent", b""), rule(b"ant", b"")];
    match last {
        b'c' => &C,
        b'e' => &E,
        b'i' => &I,
        b'l' => &L,
        b'm' => &M,
        b'n' => &N,
        b'r' => &R,
        b's' => &S,
        b't' => &T,
        _ => &[],
    }
}

/// Returns the stem of a word of ASCII characters without capitals; `None` for other words and
/// for very long ones.
pub(super) fn stem(word: &str) -> Option<Cow<'_, str>> {
    if word.len() > LONGEST {
        return None;
    }
    let mut stem = Stem::new(word.as_bytes())?;
    if word.len() < 3 {
        return Some(Cow::Borrowed(word));
    }
    // Exceptions are short and end in one of these letters, so few words need a look-up.
    if word.len() <= 6
        && matches!(stem.back(1), b'e' | b'g' | b's' | b'y')
        && let Some(at) = EXCEPTION_TAILS.iter().position(|&tail| tail == stem.tail())
        && !stem.changed
    {
        return Some(Cow::Borrowed(EXCEPTIONS[at].1));
    }
    stem.possessive();
    stem.step_1a();
    if !matches!(stem.back(1), b'd' | b'g') || !INVARIANT.contains(&stem.tail()) {
        stem.step_1b();
        stem.step_1c();
        stem.replace(step_2, stem.first);
        stem.replace(step_3, stem.first);
        stem.replace(step_4, stem.second);
        stem.step_5();
    }
    stem.finish(word)
}

/// A word that is being stemmed.
struct Stem {
    bytes: [u8; START + LONGEST],
    end: usize,
    /// Bit set of the vowels by index in the word. A `y` at the beginning or after a vowel is not
    /// a vowel. Bits after the end of the word have no meaning.
    vowels: u64,
    /// Position at which the first region begins. Most suffixes must lie in a region.
    first: usize,
    /// Position at which the second region begins.
    second: usize,
    /// True if the stem may not be a prefix of the word.
    changed: bool,
}

impl Stem {
    /// Prepares a word. Returns `None` if it has bytes of class [`OTHER`].
    fn new(word: &[u8]) -> Option<Self> {
        let (mut vowels, mut ys, mut all) = (0u64, 0u64, 0);
        let changed = word.first() == Some(&b'\'');
        let word = &word[usize::from(changed)..];
        for (i, &byte) in word.iter().enumerate() {
            let class = CLASS[usize::from(byte)];
            vowels |= u64::from(class & VOWEL) << i;
            ys |= u64::from(class & Y != 0) << i;
            all |= class;
        }
        if all & OTHER != 0 {
            return None;
        }
        while ys != 0 {
            let y = ys & ys.wrapping_neg();
            if y == 1 || vowels & y >> 1 != 0 {
                vowels &= !y;
            }
            ys ^= y;
        }
        let mut bytes = [0; START + LONGEST];
        let end = START + word.len();
        bytes[START..end].copy_from_slice(word);
        let mut stem = Stem { bytes, end, vowels, first: 0, second: 0, changed };
        stem.first = match BEGINNINGS.iter().find(|beginning| word.starts_with(beginning)) {
            Some(beginning) => START + beginning.len(),
            None => stem.region(START),
        };
        stem.second = stem.region(stem.first);
        Some(stem)
    }

    fn all(&self) -> &[u8] {
        &self.bytes[START..self.end]
    }

    /// Returns true if the byte at an index of the buffer is a vowel. The byte must be part of
    /// the word.
    fn is_vowel(&self, at: usize) -> bool {
        self.vowels >> (at - START) & 1 != 0
    }

    /// Returns the start of the region after the first consonant that follows a vowel.
    fn region(&self, from: usize) -> usize {
        // The bits after the word count as consonants.
        let vowels = self.vowels & (!0 << (from - START));
        let consonants = !self.vowels & (!0u64).checked_shl(vowels.trailing_zeros()).unwrap_or(0);
        self.end.min(START + consonants.trailing_zeros() as usize + 1)
    }

    /// Returns the last eight bytes.
    fn tail(&self) -> u64 {
        let mut tail = [0; 8];
        tail.copy_from_slice(&self.bytes[self.end - 8..self.end]);
        u64::from_be_bytes(tail)
    }

    fn ends(&self, text: &Suffix) -> bool {
        self.tail() & text.mask == text.value
    }

    /// Returns the byte this far before the end; 0 before the word.
    fn back(&self, n: usize) -> u8 {
        self.bytes[self.end - n]
    }

    fn len(&self) -> usize {
        self.end - START
    }

    /// Writes bytes at an index of the buffer, and ends the word after them.
    fn put(&mut self, at: usize, with: &[u8]) {
        self.vowels &= !(!0 << (at - START));
        for (i, &byte) in (at - START..).zip(with) {
            self.bytes[START + i] = byte;
            self.vowels |= u64::from(CLASS[usize::from(byte)] & VOWEL) << i;
        }
        self.end = at + with.len();
        self.changed = true;
    }

    /// Returns true if there is a vowel before an index of the buffer.
    fn has_vowel_before(&self, end: usize) -> bool {
        self.vowels & !(!0 << end.saturating_sub(START)) != 0
    }

    /// Returns true if the word up to `end` ends in a short syllable.
    fn is_short_at(&self, end: usize) -> bool {
        let len = end - START;
        if len < 2 || self.is_vowel(end - 1) || !self.is_vowel(end - 2) {
            return false;
        }
        // A `y` that is a consonant does not close a syllable; neither do `w` and `x`.
        len == 2 || !self.is_vowel(end - 3) && !matches!(self.bytes[end - 1], b'w' | b'x' | b'y')
    }

    fn possessive(&mut self) {
        const ENDINGS: [Suffix; 3] = [suffix(b"'s'"), suffix(b"'s"), suffix(b"'")];
        if let Some(ending) = ENDINGS.iter().find(|ending| self.ends(ending)) {
            self.end -= ending.len;
        }
    }

    /// Removes plurals.
    fn step_1a(&mut self) {
        const SSES: Suffix = suffix(b"sses");
        const IES: Suffix = suffix(b"ies");
        const IED: Suffix = suffix(b"ied");
        if self.ends(&SSES) {
            self.end -= 2;
        } else if self.ends(&IES) || self.ends(&IED) {
            self.end -= if self.len() > 4 { 2 } else { 1 };
        } else if self.back(1) == b's'
            && !matches!(self.back(2), b's' | b'u')
            && self.has_vowel_before(self.end - 2)
        {
            self.end -= 1;
        }
    }

    /// Removes past tenses and participles.
    fn step_1b(&mut self) {
        const EED: [Suffix; 2] = [suffix(b"eedly"), suffix(b"eed")];
        const ED: [Suffix; 4] = [suffix(b"ingly"), suffix(b"edly"), suffix(b"ing"), suffix(b"ed")];
        const NEED_E: [Suffix; 3] = [suffix(b"at"), suffix(b"bl"), suffix(b"iz")];
        if !matches!(self.back(1), b'd' | b'g' | b'y') {
            return;
        }
        if let Some(eed) = EED.iter().find(|eed| self.ends(eed)) {
            if self.end - eed.len >= self.first {
                self.end -= eed.len - 2;
            }
            return;
        }
        let Some(ed) = ED.iter().find(|ed| self.ends(ed)) else { return };
        if !self.has_vowel_before(self.end - ed.len) {
            return;
        }
        self.end -= ed.len;
        let last = self.back(1);
        if NEED_E.iter().any(|ending| self.ends(ending)) {
            self.put(self.end, b"e");
        } else if last == self.back(2)
            && matches!(last, b'b' | b'd' | b'f' | b'g' | b'm' | b'n' | b'p' | b'r' | b't')
        {
            self.end -= 1;
        } else if self.end == self.first && self.is_short_at(self.end) {
            self.put(self.end, b"e");
        }
    }

    /// Replaces a final `y` after a consonant.
    fn step_1c(&mut self) {
        if self.back(1) == b'y' && self.len() > 2 && !self.is_vowel(self.end - 2) {
            self.put(self.end - 1, b"i");
        }
    }

    /// Applies the rule of the longest suffix that the word has, if the suffix is in the region
    /// and the rule's condition holds.
    fn replace(&mut self, rules: fn(u8) -> &'static [Rule], region: usize) {
        let tail = self.tail();
        let found =
            rules(self.back(1)).iter().find(|Rule(text, ..)| tail & text.mask == text.value);
        let Some(Rule(text, before, with)) = found else { return };
        let at = self.end - text.len;
        let last = self.bytes[at - 1];
        let fits = match before {
            Before::Anything => true,
            Before::L => last == b'l',
            Before::ValidLi => {
                matches!(last, b'c' | b'd' | b'e' | b'g' | b'h' | b'k' | b'm' | b'n' | b'r' | b't')
            }
            Before::SOrT => matches!(last, b's' | b't'),
            Before::SecondRegion => at >= self.second,
        };
        if at >= region && fits {
            match with {
                [] => self.end = at,
                _ => self.put(at, with),
            }
        }
    }

    /// Removes a final `e`, or one of two final `l`.
    fn step_5(&mut self) {
        let at = self.end - 1;
        let gone = match self.bytes[at] {
            b'e' => at >= self.second || at >= self.first && !self.is_short_at(at),
            b'l' => at >= self.second && self.bytes[at - 1] == b'l',
            _ => false,
        };
        if gone {
            self.end = at;
        }
    }

    /// Returns the stem, borrowing from the word if it is a prefix of it.
    fn finish(self, word: &str) -> Option<Cow<'_, str>> {
        match !self.changed || word.as_bytes().starts_with(self.all()) {
            true => Some(Cow::Borrowed(&word[..self.len()])),
            false => Some(Cow::Owned(std::str::from_utf8(self.all()).ok()?.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rust_stemmers::{Algorithm, Stemmer};

    use super::*;

    fn same(word: &str) {
        let expected = Stemmer::create(Algorithm::English).stem(word);
        assert_eq!(stem(word).as_deref(), Some(&*expected), "{word:?}");
    }

    /// Tests every rule after short and long beginnings, with and without vowels.
    #[test]
    fn every_suffix_after_many_beginnings() {
        let suffixes = "ational tional ization ation ator izer alism iveness fulness ousness biliti aliti iviti lessli \
            fulli ousli entli alli abli bli anci enci ogi logi li cli eli ali alize icate iciti ical ness ful ative ement \
            ment ent ant ance ence able ible ate ive ize iti ism ous al er ic ion sion tion e l ll le y ay sses ies ied us \
            ss s ed ing eed eedly ingly edly bbed atly izing bling atting 's ' 's' ly ty yy";
        let beginnings = "b be a ab y ya by gener commun arsen hop hopp rel relat condit exc succ proc inn out cann her earr \
            hoppi sky aye boy syzyg trou multi 'b 'y oo x bow box yY x1 3.14 a_b di-v";
        for beginning in beginnings.split_whitespace().filter(|word| !word.contains('Y')) {
            same(beginning);
            for suffix in suffixes.split_whitespace() {
                same(suffix);
                same(&format!("{beginning}{suffix}"));
                for second in suffixes.split_whitespace() {
                    same(&format!("{beginning}{suffix}{second}"));
                }
            }
        }
    }

    #[test]
    fn exceptions_are_sorted_and_short() {
        assert!(EXCEPTIONS.is_sorted() && EXCEPTIONS.iter().all(|(word, _)| word.len() <= 6));
        assert!(EXCEPTIONS.iter().all(|(word, _)| word.ends_with(['e', 'g', 's', 'y'])));
        assert!(INVARIANT.iter().all(|tail| matches!(tail.to_le_bytes()[0], b'd' | b'g')));
        EXCEPTIONS.iter().for_each(|(word, _)| same(word));
        EXCEPTIONS.iter().for_each(|(word, _)| same(&format!("'{word}")));
        for word in INVARIANT.map(u64::to_be_bytes) {
            same(std::str::from_utf8(&word).unwrap().trim_start_matches('\0'));
        }
    }

    #[test]
    fn other_words_are_left_to_the_definition() {
        let longest = "ab".repeat(LONGEST / 2);
        same(&longest);
        for word in [longest + "a", "Running".to_owned(), "cafés".to_owned(), "don’t".to_owned()]
        {
            assert_eq!(stem(&word), None, "{word:?}");
        }
    }

    #[test]
    fn stems_are_parts_of_words_where_they_can_be() {
        for (word, is_part) in [("running", true), ("happy", false), ("yes", true)] {
            assert_eq!(matches!(stem(word), Some(Cow::Borrowed(_))), is_part, "{word}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn stems_are_those_of_the_definition(
            word in "[aeiouybcdlmnrst']{0,7}(ing|ed|s|ly|y|li|ate|ion|e|l|ous|ness|ful|iz|ic|al|'s){0,4}|[a-z0-9'._]{0,14}"
        ) {
            same(&word);
        }
    }
}

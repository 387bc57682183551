//! Phrases from documents, with errors like those of scanners and typists: confused,
//! neighbouring, lost and doubled letters, words run together and split.

use warpseek_ngram::distance::best_match;

use crate::random::Random;

/// Letters and digits that scanners of printed text confuse.
const CONFUSED: [(u8, &[u8]); 36] = [
    (b'e', b"co"),
    (b'c', b"eo"),
    (b'o', b"ec0"),
    (b'a', b"eos"),
    (b'n', b"uhr"),
    (b'u', b"nv"),
    (b'h', b"bn"),
    (b'b', b"h6"),
    (b'l', b"1itf"),
    (b'i', b"l1jt"),
    (b't', b"lfir"),
    (b'f', b"ts"),
    (b's', b"fa5"),
    (b'r', b"nti"),
    (b'm', b"n"),
    (b'v', b"yu"),
    (b'y', b"v"),
    (b'g', b"q9"),
    (b'q', b"g"),
    (b'd', b"lcb"),
    (b'w', b"v"),
    (b'k', b"h"),
    (b'p', b"n"),
    (b'0', b"o"),
    (b'1', b"li"),
    (b'5', b"s"),
    (b'8', b"3"),
    (b'3', b"8"),
    (b'x', b"z"),
    (b'z', b"x"),
    (b'j', b"i"),
    (b'6', b"b"),
    (b'9', b"g"),
    (b'4', b"a"),
    (b'2', b"z"),
    (b'7', b"1"),
];

/// The neighbours of each letter on a keyboard, from a to z.
const NEIGHBOURS: [&[u8]; 26] = [
    b"sqz", b"vng", b"xdv", b"sfe", b"wrd", b"dgr", b"fht", b"gjy", b"uok", b"hki", b"jli", b"kop",
    b"nk", b"bmh", b"ipl", b"ol", b"wa", b"etf", b"adw", b"ryg", b"yij", b"cbf", b"qes", b"zcs",
    b"tuh", b"xa",
];

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

fn confused(c: u8) -> &'static [u8] {
    CONFUSED.iter().find(|(from, _)| *from == c).map_or(LETTERS, |(_, to)| to)
}

fn neighbours(c: u8) -> &'static [u8] {
    if c.is_ascii_lowercase() { NEIGHBOURS[usize::from(c - b'a')] } else { LETTERS }
}

/// Adds one error at a random position; returns `None` if no error is possible there.
fn misspell(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let (at, chance) = (random.below(text.len()), random.unit());
    let (before, c, after) = (&text[..at], text[at], &text[at + 1..]);
    let put = |middle: &[u8]| Some([before, middle, after].concat());
    match c {
        // Words are run together at half the rate of other errors.
        b' ' if random.unit() < 0.5 => put(b""),
        b' ' => None,
        _ if chance < 0.45 => put(&[random.pick(confused(c))]),
        _ if chance < 0.60 => put(&[random.pick(neighbours(c))]),
        _ if chance < 0.78 => put(b""),
        _ if chance < 0.94 => {
            let extra = if random.below(4) == 0 { c } else { random.pick(neighbours(c)) };
            put(&[extra, c])
        }
        _ if at > 0 && text[at - 1] != b' ' => put(&[b' ', c]),
        _ => None,
    }
}

/// Returns the phrase with 0, 1, 2... errors, each text with one error more than the previous
/// one; `None` if the phrase cannot have so many errors.
pub(crate) fn misspellings(
    phrase: &str,
    errors: usize,
    random: &mut Random,
) -> Option<Vec<String>> {
    let mut all = vec![phrase.to_owned()];
    for error in 1..=errors {
        let last = all[error - 1].clone();
        let next = (0..200).find_map(|_| {
            let text = String::from_utf8(misspell(last.as_bytes(), random)?).ok()?;
            let clean = !text.contains("  ") && text.trim() == text;
            // Errors may undo each other, so the number of errors is checked.
            (clean && edit_distance(phrase, &text) == error as u32).then_some(text)
        });
        all.push(next?);
    }
    Some(all)
}

/// Returns the edit distance between two whole texts. `best_match` finds the best position of one
/// text in the other; marks at both ends force it to cover the whole text.
fn edit_distance(a: &str, b: &str) -> u32 {
    let longest = a.len().max(b.len()) + 1;
    let mark = |text: &str| format!("{}{text}{}", "\u{1}".repeat(longest), "\u{2}".repeat(longest));
    best_match(&mark(a), &mark(b)).distance
}

/// Returns the words `from..from + count` of a text, or `None` if there are fewer or one is not
/// ASCII.
pub(crate) fn words(text: &str, from: usize, count: usize) -> Option<String> {
    let words: Vec<&str> = text.split_ascii_whitespace().skip(from).take(count).collect();
    let phrase = words.join(" ");
    (words.len() == count && phrase.is_ascii()).then_some(phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_as_many_errors_as_it_says() {
        let phrase = "the treatment with acetylsalicylic acid";
        let mut random = Random(7);
        for _ in 0..20 {
            let all = misspellings(phrase, 4, &mut random).unwrap();
            assert_eq!(all.len(), 5);
            for (errors, text) in all.iter().enumerate() {
                assert_eq!(edit_distance(phrase, text), errors as u32, "{text}");
            }
        }
    }

    #[test]
    fn distances_are_of_whole_texts() {
        assert_eq!(edit_distance("abc", "xabc"), 1);
        assert_eq!(edit_distance("abc", "abcde"), 2);
        assert_eq!(edit_distance("", "ab"), 2);
    }

    #[test]
    fn phrases_are_whole_words() {
        assert_eq!(words(" a  bc d", 1, 2).as_deref(), Some("bc d"));
        assert_eq!(words("a b", 1, 2), None);
        assert_eq!(words("a é", 0, 2), None);
    }
}

//! The edit distance of a whole query to its best match in a text, by the bit-parallel algorithm
//! of Myers 1999.
//!
//! A column of the table of distances, one row for each character of the query and one column for
//! each of the text, is kept as differences between rows, one bit each. Up to four words of 64
//! rows go through the text together; the rows of a longer query follow strip by strip, and need
//! only the differences between columns that the strip above left. Memory is therefore linear in
//! both lengths. The search runs forward to find the end of the match, then backward from there
//! to find its start.

/// The best match of a query in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Match {
    /// The minimum number of characters to insert, delete or replace in the match to turn it into
    /// the query.
    pub distance: u32,
    /// The start of the match, in characters.
    pub start: usize,
    /// The end of the match, in characters.
    pub end: usize,
}

/// Finds the best match of a query in a text. See [`Pattern::best_match`]; to match a query with
/// many texts, create a [`Pattern`].
pub fn best_match(query: &str, text: &str) -> Match {
    Pattern::new(query).best_match(text)
}

/// Number of words of 64 rows that go through the text together. A word needs the one above it
/// and its previous step, so a core works on several at a time.
const STRIP: usize = 4;

/// Number of texts, or ranges of a text, that a query of one word goes through at the same time,
/// for the same reason.
const LANES: usize = 4;

/// A query, ready to be matched with texts.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// The spelling for texts of ASCII, whose letters are their bytes.
    ascii: Spelling<u8>,
    /// The spelling for other texts, by the numbers of letters.
    others: Spelling<u32>,
    numbers: Numbers,
}

impl Pattern {
    /// Creates a pattern for a query.
    pub fn new(query: &str) -> Self {
        let mut numbers = Numbers::default();
        // No text of ASCII has the byte that replaces all other characters.
        let bytes = query.chars().map(|c| if c.is_ascii() { c as u8 } else { u8::MAX }).collect();
        let others = query.chars().map(|c| numbers.number_or_new(c)).collect();
        let others = Spelling::new(others, numbers.last as usize + 1);
        Pattern { ascii: Spelling::new(bytes, 256), others, numbers }
    }

    /// Finds the best match in a text. Of all matches with the least distance it is the one that
    /// ends first, and of these the shortest. It therefore begins and ends with characters that
    /// agree, and it is empty, at 0, if no character does.
    pub fn best_match(&self, text: &str) -> Match {
        match text.is_ascii() {
            true => self.ascii.best_match(text.as_bytes()),
            false => self.others.best_match(&self.numbers.of(text)),
        }
    }

    /// Finds the best match in each of many texts. The results are those of
    /// [`Pattern::best_match`], but many short texts together are faster.
    pub fn best_matches<T: AsRef<str>>(&self, texts: &[T]) -> Vec<Match> {
        let mut matches = vec![Match::default(); texts.len()];
        let (mut ascii, mut others) = (Vec::new(), Vec::new());
        for (i, text) in texts.iter().map(AsRef::as_ref).enumerate() {
            match text.is_ascii() {
                true => ascii.push((i, text.as_bytes().to_vec())),
                false => others.push((i, self.numbers.of(text))),
            }
        }
        self.ascii.best_matches(ascii, &mut matches);
        self.others.best_matches(others, &mut matches);
        matches
    }
}

/// A representation of letters.
trait Letter: Copy {
    /// A letter that the query does not have.
    const NONE: Self;

    fn index(self) -> usize;
}

impl Letter for u8 {
    const NONE: Self = 0x80;

    #[inline]
    fn index(self) -> usize {
        usize::from(self)
    }
}

impl Letter for u32 {
    const NONE: Self = 0;

    #[inline]
    fn index(self) -> usize {
        self as usize
    }
}

/// The letters of a query, forward and backward.
#[derive(Clone, Debug)]
struct Spelling<L> {
    forward: Vec<L>,
    backward: Vec<L>,
    /// Upper limit of the indexes of letters.
    limit: usize,
}

impl<L: Letter> Spelling<L> {
    fn new(forward: Vec<L>, limit: usize) -> Self {
        Spelling { backward: forward.iter().rev().copied().collect(), forward, limit }
    }

    fn has_one_word(&self) -> bool {
        (1..=64).contains(&self.forward.len())
    }

    fn best_match(&self, text: &[L]) -> Match {
        // Ranges overlap, which must not cost more than they save.
        let (distance, end) = match self.has_one_word() && text.len() > 4 * self.forward.len() {
            true => self.search_ranges(text),
            false => self.search(&self.forward, text, Step::EVEN, 0),
        };
        let before = self.before(text, distance, end);
        let (_, length) = self.search(&self.backward, &before, Step::UP, distance);
        Match { distance, start: end - length, end }
    }

    /// Matches texts, which come with their indexes in `matches`.
    fn best_matches(&self, texts: Vec<(usize, Vec<L>)>, matches: &mut [Match]) {
        let is_short =
            |text: &(usize, Vec<L>)| self.has_one_word() && text.1.len() <= 64 * self.forward.len();
        let (mut short, long): (Vec<_>, Vec<_>) = texts.into_iter().partition(is_short);
        long.iter().for_each(|(i, text)| matches[*i] = self.best_match(text));
        // Texts of a group should have about the same length, since the longest determines how
        // long it takes.
        short.sort_unstable_by_key(|(_, text)| text.len());
        let forward = self.masks(&self.forward, 0, Step::EVEN);
        let backward = self.masks(&self.backward, 0, Step::UP);
        for group in short.chunks_mut(LANES) {
            let mut texts: [Vec<L>; LANES] = Default::default();
            for (lane, (_, text)) in texts.iter_mut().zip(&mut *group) {
                *lane = std::mem::take(text);
            }
            let ends = self.search_lanes(&forward, texts.each_mut(), Step::EVEN);
            let mut before: [Vec<L>; LANES] =
                std::array::from_fn(|i| self.before(&texts[i], ends[i].0, ends[i].1));
            let found = self.search_lanes(&backward, before.each_mut(), Step::UP);
            for (((i, _), (distance, end)), (_, length)) in group.iter().zip(ends).zip(found) {
                matches[*i] = Match { distance, start: end - length, end };
            }
        }
    }

    /// Returns the letters before the end of a match, backward, as far as it can reach. From
    /// there the match begins at once, so distances above the first row go up by one with each
    /// column.
    fn before(&self, text: &[L], distance: u32, end: usize) -> Vec<L> {
        let start = end.saturating_sub(self.forward.len() + distance as usize);
        text[start..end].iter().rev().copied().collect()
    }

    /// Computes, for each letter, the rows of words `from..from + N` of the query that have it.
    /// The query ends with the last row of its last word. Rows before it, in the first word, all
    /// equal the one above the first row: if that stays even they match any letter, and if it
    /// goes up they match none.
    fn masks<const N: usize>(&self, query: &[L], from: usize, above: Step) -> Vec<[u64; N]> {
        let mut empty = [0; N];
        if from == 0 && above.up == 0 {
            empty[0] = !first_rows(query.len()).up;
        }
        let mut masks = vec![empty; self.limit];
        let rows = (padding(query.len())..).zip(query);
        for (row, letter) in
            rows.skip_while(|row| row.0 < 64 * from).take_while(|row| row.0 < 64 * (from + N))
        {
            masks[letter.index()][row / 64 - from] |= 1 << (row % 64);
        }
        masks
    }

    /// Returns the least distance of a query, and the first column with it, from 0 (before the
    /// text) on. `above` is the difference between columns above the first row. The search stops
    /// at a column whose distance is at most `enough`.
    fn search(&self, query: &[L], text: &[L], above: Step, enough: u32) -> (u32, usize) {
        let mut best = Best::new(query.len());
        let mut steps = vec![above.packed(); text.len()];
        let words = query.len().div_ceil(64);
        for from in (0..words).step_by(STRIP) {
            let last = (from + STRIP >= words).then_some((&mut best, enough));
            let strip = match words - from {
                1 => Self::strip::<1>,
                2 => Self::strip::<2>,
                3 => Self::strip::<3>,
                _ => Self::strip::<STRIP>,
            };
            strip(self, query, from, text, above, &mut steps, last);
        }
        (best.distance, best.column)
    }

    /// Searches a long text forward for a query of one word. A match has at most twice the length
    /// of the query, since inserting the whole query costs its length. Ranges overlap by that
    /// length, so the distance at an end is exact in one of them, and not too low in the others.
    fn search_ranges(&self, text: &[L]) -> (u32, usize) {
        let overlap = 2 * self.forward.len();
        let stride = (text.len() - overlap).div_ceil(LANES);
        let length = stride + overlap;
        let starts: [usize; LANES] = std::array::from_fn(|i| (i * stride).min(text.len() - length));
        let ranges = starts.map(|start| &text[start..start + length]);
        let found = lanes(
            &self.masks(&self.forward, 0, Step::EVEN),
            ranges,
            self.forward.len(),
            Step::EVEN,
        );
        // In a range without any letter of the query, the best match is the empty one before the
        // text.
        let ends = found.into_iter().zip(starts).map(|((distance, column), start)| {
            (distance, if column == 0 { 0 } else { start + column })
        });
        ends.min().unwrap_or_default()
    }

    /// Searches several texts at once. Shorter texts are padded with letters that the query does
    /// not have, which never lower a distance.
    fn search_lanes(
        &self,
        masks: &[[u64; 1]],
        texts: [&mut Vec<L>; LANES],
        above: Step,
    ) -> [(u32, usize); LANES] {
        let length = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let texts = texts.map(|text| {
            text.resize(length, L::NONE);
            text.as_slice()
        });
        lanes(masks, texts, self.forward.len(), above)
    }

    /// Moves words `from..from + N` of a query through the text. `steps` has the steps above
    /// them, and then those of their last row; or, if `last` is given, the distances of the last
    /// row are compared with the best.
    fn strip<const N: usize>(
        &self,
        query: &[L],
        from: usize,
        text: &[L],
        above: Step,
        steps: &mut [u8],
        mut last: Option<(&mut Best, u32)>,
    ) {
        let masks = self.masks::<N>(query, from, above);
        let mut words = [Rows::ALL; N];
        if from == 0 {
            words[0] = first_rows(query.len());
        }
        for (column, (letter, slot)) in text.iter().zip(steps).enumerate() {
            let mut step = Step::of_packed(*slot);
            for (word, same) in words.iter_mut().zip(masks[letter.index()]) {
                step = word.advance(same, step);
            }
            let Some((best, enough)) = &mut last else {
                *slot = step.packed();
                continue;
            };
            best.current = best.current + step.up as u32 - step.down as u32;
            if best.current < best.distance {
                (best.distance, best.column) = (best.current, column + 1);
                if best.distance <= *enough {
                    return;
                }
            }
        }
    }
}

/// The least distance so far.
struct Best {
    current: u32,
    distance: u32,
    column: usize,
}

impl Best {
    /// Starts before the text, where the whole query is missing.
    fn new(query: usize) -> Self {
        Best { current: query as u32, distance: query as u32, column: 0 }
    }
}

/// The difference between the distances of two columns in one row: `up` and `down` are 0 or 1,
/// and at most one of them is 1.
#[derive(Clone, Copy)]
struct Step {
    up: u64,
    down: u64,
}

impl Step {
    const EVEN: Step = Step { up: 0, down: 0 };
    const UP: Step = Step { up: 1, down: 0 };

    fn packed(self) -> u8 {
        (self.up | self.down << 1) as u8
    }

    fn of_packed(step: u8) -> Self {
        Step { up: u64::from(step & 1), down: u64::from(step >> 1) }
    }
}

/// The differences between the rows of a column, 64 of them: the bits of `up` are set where the
/// distance is higher by one than in the row above, those of `down` where it is lower.
#[derive(Clone, Copy)]
struct Rows {
    up: u64,
    down: u64,
}

impl Rows {
    /// The rows before the text, each of which lacks one character more than the one above.
    const ALL: Rows = Rows { up: u64::MAX, down: 0 };

    /// Advances by a column (Myers 1999, section 4). `same` has the rows whose character is that
    /// of the text. Returns the step from one column to the next in the last row.
    #[inline(always)]
    fn advance(&mut self, same: u64, above: Step) -> Step {
        let level = same | self.down;
        let same = same | above.down;
        let carried = ((same & self.up).wrapping_add(self.up) ^ self.up) | same;
        let steps = Step { up: self.down | !(carried | self.up), down: self.up & carried };
        let (up, down) = (steps.up << 1 | above.up, steps.down << 1 | above.down);
        *self = Rows { up: down | !(level | up), down: up & level };
        Step { up: steps.up >> 63, down: steps.down >> 63 }
    }
}

/// Returns the number of rows of the first word that lie before a query of this length.
fn padding(query: usize) -> usize {
    64 * query.div_ceil(64) - query
}

/// Returns the first word of a query of this length, before the text.
fn first_rows(query: usize) -> Rows {
    Rows { up: Rows::ALL.up << padding(query), down: 0 }
}

/// Moves a query of at most 64 rows through texts of one length at the same time. Returns the
/// least distance of each, and the first column with it.
fn lanes<L: Letter>(
    masks: &[[u64; 1]],
    texts: [&[L]; LANES],
    query: usize,
    above: Step,
) -> [(u32, usize); LANES] {
    let length = texts[0].len();
    let texts = texts.map(|text| &text[..length]);
    let first = first_rows(query);
    let (mut up, mut down) = ([first.up; LANES], [first.down; LANES]);
    // Difference between the best distance so far and the current one; negative if the current
    // one is higher.
    let mut gained = [0i32; LANES];
    let mut best = [(query as u32, 0); LANES];
    for column in 0..length {
        let same: [u64; LANES] = std::array::from_fn(|i| masks[texts[i][column].index()][0]);
        let mut steps = [Step::EVEN; LANES];
        for i in 0..LANES {
            let mut rows = Rows { up: up[i], down: down[i] };
            steps[i] = rows.advance(same[i], above);
            (up[i], down[i]) = (rows.up, rows.down);
        }
        for i in 0..LANES {
            gained[i] += steps[i].down as i32 - steps[i].up as i32;
        }
        // The distance seldom falls, so one branch costs less than checking each lane.
        if gained.iter().any(|&gained| gained > 0) {
            for i in 0..LANES {
                if gained[i] > 0 {
                    best[i] = (best[i].0 - 1, column + 1);
                    gained[i] = 0;
                }
            }
        }
    }
    best
}

/// Number of letters of a page of [`Numbers`].
const PAGE: usize = 256;

/// The numbers of the letters of a query, from 1 on; all others are 0.
#[derive(Clone, Debug)]
struct Numbers {
    /// The page of each range of letters; those without letters share page 0.
    pages: Vec<u16>,
    numbers: Vec<[u32; PAGE]>,
    last: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        let pages = vec![0; char::MAX as usize / PAGE + 1];
        Numbers { pages, numbers: vec![[0; PAGE]], last: 0 }
    }
}

impl Numbers {
    fn number_or_new(&mut self, c: char) -> u32 {
        let page = &mut self.pages[c as usize / PAGE];
        if *page == 0 {
            *page = self.numbers.len() as u16;
            self.numbers.push([0; PAGE]);
        }
        let number = &mut self.numbers[usize::from(*page)][c as usize % PAGE];
        if *number == 0 {
            self.last += 1;
            *number = self.last;
        }
        *number
    }

    fn of(&self, text: &str) -> Vec<u32> {
        let number = |c: char| {
            let page = self.pages[c as usize / PAGE];
            self.numbers[usize::from(page)][c as usize % PAGE]
        };
        text.chars().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the match by the definition: the whole table of distances, with the latest start
    /// of each entry beside it.
    fn by_table(query: &str, text: &str) -> Match {
        let (query, text): (Vec<char>, Vec<char>) =
            (query.chars().collect(), text.chars().collect());
        // Each row of the column has the distance, and the latest start of a match with it,
        // negated so that the least pair is the best.
        let mut column: Vec<(u32, i64)> = (0..=query.len() as u32).map(|row| (row, 0)).collect();
        let mut best = (column[query.len()], 0);
        for (end, c) in text.iter().enumerate() {
            let mut before = column[0];
            column[0] = (0, -(end as i64 + 1));
            for row in 1..=query.len() {
                let plus = |(distance, start): (u32, i64), more| (distance + more, start);
                let replaced = plus(before, u32::from(query[row - 1] != *c));
                before = column[row];
                column[row] = replaced.min(plus(column[row], 1)).min(plus(column[row - 1], 1));
            }
            if column[query.len()].0 < best.0.0 {
                best = (column[query.len()], end + 1);
            }
        }
        let ((distance, start), end) = best;
        Match { distance, start: -start as usize, end }
    }

    /// Generates a query and a text in which it may occur with errors.
    fn pair() -> impl Strategy<Value = (String, String)> {
        let letter = |n: u32, i: u32| match n {
            ..=26 => char::from(b'a' + (i % n) as u8),
            // The letters are a mixture of ASCII, letters of two bytes, and ideographs.
            _ => char::from_u32([0x21, 0xc0, 0x4e00][i as usize % 3] + i % n / 3).unwrap_or('x'),
        };
        let letters = |most| proptest::collection::vec(any::<u32>(), 0..=most);
        let edits = proptest::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 0..20);
        let alphabet = prop_oneof![2u32..=4, Just(26), 100u32..=1000];
        let lengths =
            prop_oneof![Just((8, 30)), Just((70, 300)), Just((300, 300)), Just((20, 1500))];
        (alphabet, lengths).prop_flat_map(move |(n, (query, text))| {
            let whole =
                (letters(query), letters(text), edits.clone(), any::<prop::sample::Index>());
            whole.prop_map(move |(query, text, edits, at)| {
                let spell = |all: &[u32]| all.iter().map(|&i| letter(n, i)).collect::<Vec<char>>();
                let (query, mut text) = (spell(&query), spell(&text));
                if edits.len() % 4 > 0 {
                    let mut wrong = query.clone();
                    for (at, what) in &edits {
                        let at = at.index(wrong.len() + 1);
                        match what % 3 {
                            0 => wrong.insert(at, letter(n, *what)),
                            1 if at < wrong.len() => drop(wrong.remove(at)),
                            _ if at < wrong.len() => wrong[at] = letter(n, *what),
                            _ => {}
                        }
                    }
                    let at = at.index(text.len() + 1);
                    text.splice(at..at, wrong);
                }
                (query.into_iter().collect(), text.into_iter().collect())
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn a_match_is_that_of_the_table((query, text) in pair()) {
            prop_assert_eq!(best_match(&query, &text), by_table(&query, &text));
        }

        #[test]
        fn many_texts_are_as_one(pairs in proptest::collection::vec(pair(), 0..12)) {
            let query = pairs.first().map_or("", |pair| &pair.0);
            let texts: Vec<&str> = pairs.iter().map(|pair| pair.1.as_str()).collect();
            let pattern = Pattern::new(query);
            let one_by_one: Vec<Match> = texts.iter().map(|text| pattern.best_match(text)).collect();
            prop_assert_eq!(pattern.best_matches(&texts), one_by_one);
        }
    }

    #[test]
    fn the_first_end_and_the_latest_start_win() {
        for (query, text, distance, range) in [
            ("", "", 0, 0..0),
            ("", "abc", 0, 0..0),
            ("abc", "", 3, 0..0),
            ("abc", "xyz", 3, 0..0),
            ("abc", "xyz abc abc", 0, 4..7),
            ("abc", "xbc abx", 1, 1..3),
            ("aab", "aaaab", 0, 2..5),
            ("東京タワー", "これは東京タヮーです", 1, 3..8),
            ("strasse", "große straße", 2, 6..12),
        ] {
            let found = best_match(query, text);
            assert_eq!(
                found,
                Match { distance, start: range.start, end: range.end },
                "{query:?} in {text:?}"
            );
        }
    }

    #[test]
    fn long_queries_and_texts_are_found() {
        let letter = |i: usize| char::from(b'a' + (i * i / 7 % 26) as u8);
        let text: String = (0..20_000).map(letter).collect();
        for (start, end) in
            [(0, 63), (7000, 7064), (9000, 9065), (300, 3000), (0, 20_000), (19_900, 20_000)]
        {
            let mut query: Vec<char> = text.chars().skip(start).take(end - start).collect();
            let found = Pattern::new(&query.iter().collect::<String>()).best_match(&text);
            assert_eq!(found.distance, 0);
            assert_eq!(&text[found.start..found.end], &text[start..end]);
            query[30] = 'É';
            query.remove(40);
            assert_eq!(best_match(&query.iter().collect::<String>(), &text).distance, 2);
        }
    }
}

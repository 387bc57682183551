//! A query in the form that the kernels of verification need: the set of its rows for each
//! letter.

use crate::kernels::ngram_verify::QueryView;

/// Number of rows of the table of distances in a lane.
const ROWS: usize = 64;
/// Maximum number of lanes of a query: a warp.
const MOST_LANES: usize = 32;
/// Maximum number of letters of a query that is compared on a GPU; the CPU compares longer ones.
pub const MOST_LETTERS: usize = ROWS * MOST_LANES;
/// Number of letters of ASCII, which have the first rows of a query's table. The next row is for
/// all letters that the query does not have. The test `constants_equal_those_of_the_kernel`
/// compares this constant and the next.
const ABSENT: u32 = 128;
const HASH: u32 = 0x9e37_79b1;

/// Bytes of the largest tables, which are those of a query of maximum length whose letters are
/// all different and not ASCII.
pub(super) const MOST_TABLE_BYTES: usize = 8
    * ((ABSENT as usize + 1 + MOST_LETTERS) * MOST_LANES
        + (2 * (MOST_LETTERS + 1)).next_power_of_two());

/// The letters of a query.
pub(super) struct Spelling {
    /// The row of the table of each letter.
    rows: Vec<u32>,
    /// Different letters that are not ASCII, in order.
    others: Vec<u32>,
}

impl Spelling {
    /// Returns `None` if the query has more than [`MOST_LETTERS`].
    pub(super) fn new(query: &str) -> Option<Self> {
        let letters: Vec<u32> = query.chars().take(MOST_LETTERS + 1).map(u32::from).collect();
        if letters.len() > MOST_LETTERS {
            return None;
        }
        let mut others: Vec<u32> = letters.iter().copied().filter(|&c| c >= ABSENT).collect();
        others.sort_unstable();
        others.dedup();
        let row = |&c: &u32| match others.binary_search(&c) {
            Ok(at) => ABSENT + 1 + at as u32,
            Err(_) => c,
        };
        Some(Spelling { rows: letters.iter().map(row).collect(), others })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the binary logarithm, 0 to 5, of the number of lanes that share the query.
    pub(super) fn lanes_log(&self) -> usize {
        self.len().div_ceil(ROWS).max(1).next_power_of_two().ilog2() as usize
    }

    fn slots(&self) -> usize {
        (2 * (self.others.len() + 1)).next_power_of_two()
    }

    /// Returns the number of values that [`Self::write`] appends.
    pub(super) fn table_len(&self) -> usize {
        ((ABSENT as usize + 1 + self.others.len()) << self.lanes_log()) + self.slots()
    }

    /// Appends the table of rows by letter and the slots of other letters. Returns the query,
    /// whose addresses are indexes in `out`.
    pub(super) fn write(&self, out: &mut Vec<u64>) -> QueryView {
        let lanes = 1 << self.lanes_log();
        let padding = ROWS * lanes - self.len();
        // Rows before the query match any letter, so that they equal the one above the first.
        let empty = |lane: usize| match padding.saturating_sub(ROWS * lane) {
            ROWS.. => u64::MAX,
            rows => (1 << rows) - 1,
        };
        let table = out.len();
        for _ in 0..ABSENT as usize + 1 + self.others.len() {
            out.extend((0..lanes).map(empty));
        }
        for (at, &row) in (padding..).zip(&self.rows) {
            out[table + row as usize * lanes + at / ROWS] |= 1 << (at % ROWS);
        }
        let (letters, slots) = (out.len(), self.slots());
        let shift = 32 - slots.ilog2();
        out.resize(letters + slots, 0);
        for (&letter, row) in self.others.iter().zip(ABSENT + 1..) {
            let mut slot = (letter.wrapping_mul(HASH) >> shift) as usize;
            while out[letters + slot] != 0 {
                slot = (slot + 1) % slots;
            }
            out[letters + slot] = u64::from(letter) << 32 | u64::from(row);
        }
        let length = self.len() as u32;
        QueryView { table: table as u64, letters: letters as u64, shift, length }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::ngram_verify::SOURCE;

    #[test]
    fn tables_are_as_long_as_they_say() {
        let letters = |n: u32| (0..n).map(|i| char::from_u32(0x4e00 + i).unwrap()).collect();
        let queries: [String; 6] =
            [String::new(), "a".into(), "naïve".into(), letters(64), letters(65), letters(2048)];
        for (query, lanes) in queries.iter().zip([0, 0, 0, 0, 1, 5]) {
            let spelling = Spelling::new(query).unwrap();
            assert_eq!(spelling.lanes_log(), lanes);
            let mut out = vec![7; 3];
            let written = spelling.write(&mut out);
            assert_eq!(out.len(), 3 + spelling.table_len());
            assert!(8 * spelling.table_len() <= MOST_TABLE_BYTES);
            // Every letter is in the row that its slot names, and some slot is free, so that a
            // search for any other letter ends.
            let slots = &out[written.letters as usize..];
            assert!(slots.contains(&0) && slots.len() == 1 << (32 - written.shift));
        }
        assert_eq!(8 * Spelling::new(&queries[5]).unwrap().table_len(), MOST_TABLE_BYTES);
        let one_more: String = letters(2049);
        assert!(Spelling::new(&one_more).is_none());
    }

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("ABSENT"), u64::from(ABSENT));
        assert_eq!(kernel.get("HASH"), u64::from(HASH));
    }
}

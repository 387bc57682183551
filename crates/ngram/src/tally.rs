//! A tally of n-grams for each segment of a document: the number of those that occur in it or in
//! the segments behind it that belong to its window.

/// A table of eight bytes for each index: a byte is 1 if the index has the corresponding bit.
pub(crate) const SPREAD: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[byte] |= 1 << (8 * bit);
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// A count for each of 32 windows.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    window: u32,
    /// Counts of one byte each.
    low: [u8; 32],
    /// Number of n-grams in `low`, at most 255.
    in_low: u32,
    /// The counts that did not fit in `low`.
    high: Option<Box<[u32; 32]>>,
}

impl Tally {
    /// Creates a tally for windows of this many segments, 1 to 32.
    pub(crate) fn new(window: u32) -> Self {
        Tally { window, low: [0; 32], in_low: 0, high: None }
    }

    /// Counts an n-gram that occurs in these segments.
    #[inline]
    pub(crate) fn add(&mut self, map: u32) {
        if self.in_low == 255 {
            self.flush();
        }
        self.in_low += 1;
        let starts = widen(map, self.window);
        let counts = self.low.as_chunks_mut::<8>().0;
        for (counts, byte) in counts.iter_mut().zip(starts.to_le_bytes()) {
            *counts = (u64::from_le_bytes(*counts) + SPREAD[usize::from(byte)]).to_le_bytes();
        }
    }

    #[cold]
    fn flush(&mut self) {
        let high = self.high.get_or_insert_default();
        high.iter_mut().zip(self.low).for_each(|(high, low)| *high += u32::from(low));
        (self.low, self.in_low) = ([0; 32], 0);
    }

    /// Returns the highest count.
    #[inline]
    pub(crate) fn max(&self) -> u32 {
        match &self.high {
            // Compilers vectorise this.
            None => u32::from(self.low.iter().fold(0, |max, &low| low.max(max))),
            Some(high) => {
                let counts = high.iter().zip(self.low).map(|(high, low)| high + u32::from(low));
                counts.max().unwrap_or(0)
            }
        }
    }
}

/// Returns the segments at which a window of this many segments starts that reaches one that is
/// set.
#[inline]
fn widen(map: u32, window: u32) -> u32 {
    let (mut wide, mut reach) = (map, 1);
    while reach < window {
        let step = reach.min(window - reach);
        wide |= wide >> step;
        reach += step;
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_are_those_of_each_window(
            maps in proptest::collection::vec(any::<u32>(), 0..900),
            window in 1u32..=32,
        ) {
            let mask = (1u64 << window) - 1;
            let count = |s: u32| maps.iter().filter(|&&m| u64::from(m) >> s & mask != 0).count();
            let mut tally = Tally::new(window);
            maps.iter().for_each(|&map| tally.add(map));
            prop_assert_eq!(tally.max(), (0..32).map(count).max().unwrap_or(0) as u32);
        }
    }
}

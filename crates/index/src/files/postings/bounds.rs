//! Bounds: data from which the maximum score of a posting is computed, for any ranking function
//! that grows with frequency and does not grow with document length.

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::cosine;

/// Maximum number of pairs. If there are more, some are joined.
pub const MAX_PAIRS: usize = 8;

/// Minimum number of postings of a list with bounds. Scoring fewer postings takes no longer than
/// reading bounds.
pub(super) const FEWEST_BOUNDED: u32 = 16;

/// Limit of the frequency in the first byte; from here on it continues in a varint.
const FIRST_FREQ: u32 = 15;
/// Limit of a frequency step in the byte of a pair; from here on it continues in a varint.
const FREQ_STEP: u32 = 7;
/// Limit of a length step in the byte of a pair; from here on it continues in a varint.
const LENGTH_STEP: u32 = 31;

/// Flag in the first byte that announces a cosine weight.
const HAS_COSINE: u8 = 0x80;

/// The dominating (frequency, length) pairs of a list or block, ascending in both, and the
/// largest cosine weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pairs: Vec<(u32, u32)>,
    cosine: u8,
}

impl Bounds {
    /// Returns the pairs. For every posting there is a pair with at least its frequency and at
    /// most its length.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Returns an upper bound of the postings' cosine weights. It is 1, which no weight exceeds,
    /// if the index keeps no norms.
    pub fn cosine(&self) -> f32 {
        f32::from(self.cosine) / 255.0
    }

    /// Returns the largest frequency.
    pub fn max_freq(&self) -> u32 {
        self.pairs.last().map_or(0, |p| p.0)
    }

    /// Returns true if the posting is within the bounds, for `verify`.
    pub fn covers(&self, freq: u32, length: u32, norm: f32) -> bool {
        self.pairs.iter().any(|&(f, l)| freq <= f && length >= l)
            && cosine::weight(cosine::log_tf(freq), norm) <= self.cosine()
    }

    /// Creates bounds from pairs, given by frequency, none of which dominates another, and the
    /// largest cosine weight.
    pub(super) fn of_front(pairs: impl Iterator<Item = (u32, u32)>, cosine: f32) -> Self {
        let mut bounds = Bounds { pairs: pairs.collect(), cosine: 0 };
        bounds.add_cosine(cosine);
        bounds
    }

    /// Extends the bounds to a posting.
    #[inline]
    pub(crate) fn add(&mut self, freq: u32, length: u32) {
        if self.pairs.iter().any(|&(f, l)| freq <= f && length >= l) {
            return;
        }
        self.pairs.retain(|&(f, l)| !(f <= freq && l >= length));
        let at = self.pairs.partition_point(|&(f, _)| f < freq);
        self.pairs.insert(at, (freq, length));
    }

    /// Extends the bounds to a cosine weight, rounded up to the smallest byte whose value is not
    /// below it.
    #[inline]
    pub(crate) fn add_cosine(&mut self, weight: f32) {
        if weight >= 1.0 {
            self.cosine = u8::MAX;
        }
        while self.cosine() < weight && self.cosine < u8::MAX {
            self.cosine += 1;
        }
    }

    /// Extends the bounds to all postings of other bounds.
    pub(crate) fn merge(&mut self, other: &Bounds) {
        other.pairs.iter().for_each(|&(f, l)| self.add(f, l));
        self.cosine = self.cosine.max(other.cosine);
    }

    /// Joins neighbours, nearest first, until at most `most` pairs are left. `most` is at most
    /// [`MAX_PAIRS`].
    pub(crate) fn shrink(&mut self, most: usize) {
        while self.pairs.len() > most {
            let cost = |w: &[(u32, u32)]| {
                let ratio = |a: u32, b: u32| (f64::from(b) + 1.0) / (f64::from(a) + 1.0);
                ratio(w[0].0, w[1].0) * ratio(w[0].1, w[1].1)
            };
            let costs = self.pairs.windows(2).map(cost);
            let nearest = costs.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |c| c.0);
            self.pairs[nearest].0 = self.pairs[nearest + 1].0;
            self.pairs.remove(nearest + 1);
        }
    }

    /// Appends bounds that cover at least one posting.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let Some(&(mut freq, mut length)) = self.pairs.first() else { return };
        let has_cosine = self.cosine < u8::MAX;
        let above = (freq - 1).min(FIRST_FREQ);
        let flag = if has_cosine { HAS_COSINE } else { 0 };
        out.push((self.pairs.len() - 1) as u8 | (above as u8) << 3 | flag);
        if above == FIRST_FREQ {
            varint::write(out, u64::from(freq - 1 - FIRST_FREQ));
        }
        if has_cosine {
            out.push(self.cosine);
        }
        varint::write(out, u64::from(length));
        for &(f, l) in &self.pairs[1..] {
            let steps = [f - freq - 1, l - length - 1];
            let first = [steps[0].min(FREQ_STEP), steps[1].min(LENGTH_STEP)];
            out.push((first[0] | first[1] << 3) as u8);
            for (step, limit) in steps.into_iter().zip([FREQ_STEP, LENGTH_STEP]) {
                if step >= limit {
                    varint::write(out, u64::from(step - limit));
                }
            }
            (freq, length) = (f, l);
        }
    }

    /// Reads bounds, or returns `None` if they are malformed.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let first = cursor.byte()?;
        let count = usize::from(first & 7) + 1;
        let mut above = u32::from(first >> 3 & 15);
        if above == FIRST_FREQ {
            above = above.checked_add(cursor.varint32()?)?;
        }
        let cosine = if first & HAS_COSINE == 0 { u8::MAX } else { cursor.byte()? };
        let (mut freq, mut length) = (above.checked_add(1)?, cursor.varint32()?);
        let mut pairs = Vec::with_capacity(count);
        pairs.push((freq, length));
        for _ in 1..count {
            let byte = u32::from(cursor.byte()?);
            let mut steps = [byte & 7, byte >> 3];
            for (step, limit) in steps.iter_mut().zip([FREQ_STEP, LENGTH_STEP]) {
                if *step == limit {
                    *step = step.checked_add(cursor.varint32()?)?;
                }
            }
            freq = freq.checked_add(steps[0])?.checked_add(1)?;
            length = length.checked_add(steps[1])?.checked_add(1)?;
            pairs.push((freq, length));
        }
        Some(Bounds { pairs, cosine })
    }

    /// Reads bounds of format version 1 or 2, or returns `None` if they are malformed.
    pub(crate) fn read_bytes(cursor: &mut Cursor<'_>) -> Option<Self> {
        let count = usize::from(cursor.byte()?);
        let cosine = cursor.byte()?;
        if !(1..=MAX_PAIRS).contains(&count) {
            return None;
        }
        let (mut freq, mut length) = (0u32, 0u32);
        let mut pairs = Vec::with_capacity(count);
        for i in 0..count {
            let less = u32::from(i > 0);
            freq = freq.checked_add(cursor.varint32()?)?.checked_add(less)?;
            length = length.checked_add(cursor.varint32()?)?.checked_add(less)?;
            pairs.push((freq, length));
        }
        (pairs[0].0 > 0).then_some(Bounds { pairs, cosine })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cover_every_posting_before_and_after_shrinking(
            postings in proptest::collection::vec(
                prop_oneof![(1u32..20, 1u32..200), (1u32..200, 1u32..5000), (1u32.., 1u32..)],
                1..300,
            ),
            norms: bool,
        ) {
            let norm = |l: u32| (l as f32).sqrt();
            let mut bounds = Bounds::default();
            for &(f, l) in &postings {
                bounds.add(f, l);
                let weight = cosine::weight(cosine::log_tf(f), norm(l));
                bounds.add_cosine(if norms { weight } else { f32::INFINITY });
            }
            let exact = bounds.clone();
            bounds.shrink(MAX_PAIRS);
            for &(f, l) in &postings {
                prop_assert!(exact.covers(f, l, norm(l)));
                prop_assert!(bounds.covers(f, l, norm(l)));
            }
            prop_assert_eq!(bounds.max_freq(), postings.iter().map(|p| p.0).max().unwrap());
            prop_assert_eq!(bounds.pairs()[0].1, postings.iter().map(|p| p.1).min().unwrap());
            prop_assert!(bounds.pairs().is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            prop_assert!(bounds.pairs().len() <= MAX_PAIRS);
            // Before shrinking, every pair is a posting, so the bounds are as tight as possible.
            prop_assert!(exact.pairs().iter().all(|p| postings.contains(p)));
            let mut bytes = Vec::new();
            bounds.write(&mut bytes);
            prop_assert_eq!(Bounds::read(&mut Cursor::new(&bytes)), Some(bounds));
            for end in 0..bytes.len() {
                prop_assert_eq!(Bounds::read(&mut Cursor::new(&bytes[..end])), None);
            }
        }
    }

    #[test]
    fn few_bytes_suffice_for_small_numbers() {
        let bounds = |pairs: &[(u32, u32)], cosine| {
            let (mut bytes, pairs) = (Vec::new(), pairs.to_vec());
            Bounds { pairs, cosine }.write(&mut bytes);
            bytes
        };
        assert_eq!(bounds(&[(1, 100), (3, 120), (9, 130)], 255), [2, 100, 1 | 19 << 3, 5 | 9 << 3]);
        assert_eq!(bounds(&[(1, 100)], 254), [0x80, 254, 100]);
        assert_eq!(bounds(&[(15, 0), (22, 31)], 255), [1 | 14 << 3, 0, 6 | 30 << 3]);
        assert_eq!(bounds(&[(16, 0), (24, 32)], 255), [1 | 15 << 3, 0, 0, 7 | 31 << 3, 0, 0]);
    }

    /// Numbers above 32 bits, and pairs that do not ascend, are refused.
    #[test]
    fn forged_bounds_are_refused() {
        let most = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let read = |bytes: &[u8]| Bounds::read(&mut Cursor::new(bytes)).is_some();
        assert!(!read(&[&[15 << 3][..], &most, &[1]].concat()), "first frequency");
        assert!(!read(&[&[1, 9, 7][..], &most].concat()), "frequency");
        assert!(!read(&[&[1, 9, 31 << 3][..], &most].concat()), "length");
        assert!(!read(&[]) && !read(&[7, 1, 0, 0, 0, 0, 0, 0]), "cut short");
        let old = |bytes: &[u8]| Bounds::read_bytes(&mut Cursor::new(bytes)).is_some();
        assert!(old(&[2, 9, 1, 4, 0, 0]) && !old(&[0, 9]) && !old(&[9, 9]) && !old(&[1, 9, 0, 4]));
    }
}

//! Bounds: data from which the maximum score of a posting is computed, for any ranking function
//! that grows with frequency and does not grow with document length.

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::cosine;

/// The maximum number of pairs; if there are more, some are joined.
pub const MAX_PAIRS: usize = 8;

/// Dominating (frequency, length) pairs of a list or block, ascending in both, and the largest
/// cosine weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pairs: Vec<(u32, u32)>,
    cosine: u8,
}

impl Bounds {
    /// The pairs: every posting has at most the frequency and at least the length of one of them.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Every posting's cosine weight is at most this.
    pub fn cosine(&self) -> f32 {
        f32::from(self.cosine) / 255.0
    }

    /// The largest frequency.
    pub fn max_freq(&self) -> u32 {
        self.pairs.last().map_or(0, |p| p.0)
    }

    /// Whether the posting is within bounds; for `verify`.
    pub fn covers(&self, freq: u32, length: u32, norm: f32) -> bool {
        self.pairs.iter().any(|&(f, l)| freq <= f && length >= l)
            && cosine::weight(cosine::log_tf(freq), norm) <= self.cosine()
    }

    /// Bounds of postings, given the pairs of which none is within another one, by frequency.
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

    /// Extends the bounds to a cosine weight, rounded up to the smallest byte whose value is not below it.
    #[inline]
    pub(crate) fn add_cosine(&mut self, weight: f32) {
        while self.cosine() < weight && self.cosine < u8::MAX {
            self.cosine += 1;
        }
    }

    /// Extends the bounds to all postings of other bounds.
    pub(crate) fn merge(&mut self, other: &Bounds) {
        other.pairs.iter().for_each(|&(f, l)| self.add(f, l));
        self.cosine = self.cosine.max(other.cosine);
    }

    /// Joins neighbours, those nearest to each other first, until at most `most` are left, which is at most [`MAX_PAIRS`].
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

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend([self.pairs.len() as u8, self.cosine]);
        let (mut freq, mut length) = (0, 0);
        for (i, &(f, l)) in self.pairs.iter().enumerate() {
            let less = u32::from(i > 0);
            varint::write(out, u64::from(f - freq - less));
            varint::write(out, u64::from(l - length - less));
            (freq, length) = (f, l);
        }
    }

    /// Reads one; `None` if malformed.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
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
            postings in proptest::collection::vec((1u32..200, 1u32..5000), 1..300),
        ) {
            let norm = |l: u32| (l as f32).sqrt();
            let mut bounds = Bounds::default();
            for &(f, l) in &postings {
                bounds.add(f, l);
                bounds.add_cosine(cosine::weight(cosine::log_tf(f), norm(l)));
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
            // Before shrinking every pair is a posting: nothing is bounded more loosely than need be.
            prop_assert!(exact.pairs().iter().all(|p| postings.contains(p)));
            let mut bytes = Vec::new();
            bounds.write(&mut bytes);
            prop_assert_eq!(Bounds::read(&mut Cursor::new(&bytes)), Some(bounds));
        }
    }
}

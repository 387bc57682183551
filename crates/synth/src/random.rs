//! Seeded random numbers: xoshiro256++ (Blackman and Vigna 2021), seeded with SplitMix64 (Steele,
//! Lea and Flood 2014). The generator is written here rather than taken from a crate, because a
//! seed guarantees the bytes of a collection, and a dependency might change its streams.

/// Increment of SplitMix64, the golden ratio in 64 bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of a stream. Streams of the same seed never share numbers across purposes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The length and words of a document.
    Document = 1,
    /// The terms of a query.
    Query = 2,
    /// The length and topic of a site.
    Site = 3,
    /// The sizes of a site's documents.
    Size = 4,
    /// The properties of a term.
    Term = 5,
    /// The postings of a list.
    List = 6,
    /// A query for generated lists.
    ListQuery = 7,
}

/// Applies the output function of SplitMix64, a bijection.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates the stream for one ordinal of a purpose, for example one document or query.
    pub(crate) fn stream(seed: u64, purpose: Purpose, ordinal: u64) -> Self {
        // The key is bijective in the ordinal, so no two ordinals of a seed and purpose share a
        // stream.
        let base = mix(mix(seed.wrapping_add(GOLDEN)).wrapping_add(purpose as u64));
        Self::from_key(mix(base.wrapping_add(ordinal)))
    }

    fn from_key(mut key: u64) -> Self {
        let state = [(); 4].map(|()| {
            key = key.wrapping_add(GOLDEN);
            mix(key)
        });
        Self { state }
    }

    /// Returns the next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Returns a multiple of 2^-53 in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.bits() >> 11) as f64 * STEP
    }

    /// Returns a uniformly distributed integer below `bound` (Lemire 2019, section 4), or 0 if
    /// `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            let low = product as u64;
            // The remainder is smaller than the bound, so most draws skip the division.
            if low >= bound || low >= bound.wrapping_neg().checked_rem(bound).unwrap_or(0) {
                return (product >> 64) as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_and_xoshiro_produce_the_published_numbers() {
        // SplitMix64 from state 0.
        let started = Random::from_key(0).state;
        assert_eq!(started[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(started[1], 0x6e78_9e6a_a1b9_65f4);
        // xoshiro256++ from state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.bits()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut random = Random::stream(1, Purpose::Document, 0);
        let mut seen = [0_u32; 7];
        for _ in 0..70_000 {
            seen[random.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
        assert_eq!(random.below(1), 0);
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_ordinal() {
        let first = |seed, purpose, ordinal| Random::stream(seed, purpose, ordinal).bits();
        let base = first(1, Purpose::Document, 1);
        assert_ne!(base, first(2, Purpose::Document, 1));
        assert_ne!(base, first(1, Purpose::Query, 1));
        assert_ne!(base, first(1, Purpose::Document, 2));
    }
}

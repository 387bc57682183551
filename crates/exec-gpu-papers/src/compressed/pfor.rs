//! PForDelta with one width b for a list (Ding 2009, section 6.2): the low b bits of every number
//! are in slots. Numbers that do not fit, the exceptions, are in two arrays: their positions, and
//! their bits above b, less one, the *overflows*. Positions are one bit per number, beside the
//! slots of a block, and counts, so that a lane finds its overflows without its neighbours.
//! Overflows are one array for the list and are encoded in the same way in turn, as many levels
//! deep as requested; those of the last level are numbers of one width. Exceptions among
//! overflows are kept few, because they cost time on the device: only runs of 128 overflows that
//! have any exceptions have bits for them.
//!
//! All blocks but the last take the same number of units: bits and slots of gaps, then those of
//! frequencies. A head is two words, the first document and the tally of gaps. Nodes 0 and 1 are
//! gaps and frequencies; the overflows of each follow, one node per level.

use warpseek_core::limits::BLOCK;

use super::form::{Node, Unit};
use super::units::{low, pack, pack_string, width};
use super::{Block, Coded};

/// Blocks per group. The test `constants_equal_those_of_the_kernel` compares this constant and the
/// next three.
const GROUP: usize = 8;
const TALLY_BEFORE: u32 = 22;
const TALLY_SLOW: u32 = 1 << 21;
const TALLY_BITS: u32 = 7;

/// Maximum width of overflows of which four fit into one window of 32 bits.
const WINDOW_WIDTH: u32 = 8;

/// Bits per number that positions take: one bit per number, a tally per block, a word per group.
const POSITION_BITS: f64 = 1.0 + (32.0 + 32.0 / GROUP as f64) / BLOCK as f64;

pub(super) fn encode(blocks: &[Block<'_>], levels: u32) -> Coded {
    let mut coded = Coded { nodes: vec![Node::default(); 2], ..Coded::default() };
    let gaps = Numbers::new(blocks.iter().map(|block| block.gaps), levels);
    let freqs = Numbers::new(blocks.iter().map(|block| block.freqs), levels);
    for (number, block) in blocks.iter().enumerate() {
        let at = coded.units.len();
        gaps.push_block(number, block.gaps, &mut coded.units);
        coded.doc_units += coded.units.len() - at;
        freqs.push_block(number, block.freqs, &mut coded.units);
    }
    let at = coded.units.len();
    let tallies = coded.arrays(0, &gaps, levels);
    coded.doc_units += coded.units.len() - at;
    let heads = blocks.iter().enumerate();
    coded.heads = heads.flat_map(|(i, block)| [block.first, tallies[i]]).collect();
    let tallies = coded.arrays(1, &freqs, levels);
    coded.nodes[1].fields[3] = coded.units.len() as u32;
    pack_string(&tallies, 32, &mut coded.units);
    coded
}

/// The gaps or the frequencies of a list.
struct Numbers {
    width: u32,
    overflows: Vec<u32>,
    /// Bits that mark exceptions, one per number, for each block. Blocks contain them only if
    /// there are exceptions.
    flags: Vec<Unit>,
}

impl Numbers {
    fn new<'a>(blocks: impl Iterator<Item = &'a [u32]> + Clone, levels: u32) -> Self {
        let width = best(blocks.clone().flatten(), levels);
        let (mut overflows, mut flags) = (Vec::new(), Vec::new());
        for block in blocks {
            let (positions, above) = exceptions(block, width);
            flags.push(bits(&positions));
            overflows.extend(above);
        }
        Numbers { width, overflows, flags }
    }

    fn push_block(&self, number: usize, values: &[u32], units: &mut Vec<Unit>) {
        if !self.overflows.is_empty() {
            units.push(self.flags[number]);
        }
        let lows: Vec<u32> = values.iter().map(|&value| low(value, self.width)).collect();
        pack(&lows, self.width, units);
    }
}

impl Coded {
    /// Appends the arrays outside of blocks as a node, and the nodes of its overflows; returns
    /// the tallies.
    fn arrays(&mut self, node: usize, numbers: &Numbers, levels: u32) -> Vec<u32> {
        let flagged = u32::from(!numbers.overflows.is_empty());
        self.nodes[node].fields = [numbers.width, flagged, self.units.len() as u32, 0];
        let (mut groups, mut tallies, mut counts) = (Vec::new(), Vec::new(), vec![0]);
        for (block, flags) in numbers.flags.iter().enumerate() {
            let (count, group) = (counts[block], block / GROUP * GROUP);
            if block == group {
                groups.push(count);
            }
            let [first, second, third, last] = flags.map(u32::count_ones);
            let quarters = [first, first + second, first + second + third];
            let quarters = (0..).zip(quarters).map(|(i, before)| before << (TALLY_BITS * i));
            tallies.push((count - counts[group]) << TALLY_BEFORE | quarters.sum::<u32>());
            counts.push(count + first + second + third + last);
        }
        pack_string(&groups, 32, &mut self.units);
        let first = self.nodes.len();
        self.nodes.resize(first + levels as usize + 1, Node::default());
        let deep = self.overflows(first, &numbers.overflows, levels);
        let width = self.nodes[first].fields[1];
        // The device counts the bits of windows in 32 bits.
        let bits = numbers.overflows.len() as u64 * u64::from(width);
        let wide = width > WINDOW_WIDTH || bits > u64::from(u32::MAX);
        for (tally, range) in tallies.iter_mut().zip(counts.windows(2)) {
            let next = deep.partition_point(|&position| position < range[0]);
            if wide || deep.get(next).is_some_and(|&position| position < range[1]) {
                *tally |= TALLY_SLOW;
            }
        }
        tallies
    }

    /// Appends overflows, and returns the positions of their exceptions.
    fn overflows(&mut self, node: usize, values: &[u32], levels: u32) -> Vec<u32> {
        let b = best_of_overflows(values, levels);
        let lows: Vec<u32> = values.iter().map(|&value| low(value, b)).collect();
        self.nodes[node].fields = [self.units.len() as u32, b, 0, 0];
        pack_string(&lows, b, &mut self.units);
        let (positions, above) = exceptions(values, b);
        if positions.is_empty() {
            return positions;
        }
        // The word of a run is the position, in words, of the run's count and bits.
        self.nodes[node].fields[2] = self.units.len() as u32;
        let mut runs = vec![0; values.len().div_ceil(BLOCK)];
        let mut before = 0;
        for of_run in positions.chunk_by(|&a, &b| a / BLOCK as u32 == b / BLOCK as u32) {
            let run = of_run[0] as usize / BLOCK;
            runs[run] = runs.len() as u32;
            runs.push(before);
            runs.extend(bits(
                &of_run.iter().map(|position| position % BLOCK as u32).collect::<Vec<_>>(),
            ));
            before += of_run.len() as u32;
        }
        pack_string(&runs, 32, &mut self.units);
        self.overflows(node + 1, &above, levels - 1);
        positions
    }
}

/// Returns the positions of the numbers wider than `width`, and their bits above it, less one.
fn exceptions(values: &[u32], width: u32) -> (Vec<u32>, Vec<u32>) {
    let above = values.iter().map(|&value| (u64::from(value) >> width) as u32);
    (0..).zip(above).filter(|&(_, above)| above > 0).map(|(i, above)| (i, above - 1)).unzip()
}

/// Returns a unit with the bits of these positions, below 128, set.
fn bits(positions: &[u32]) -> Unit {
    let mut bits = Unit::default();
    positions.iter().for_each(|position| bits[*position as usize / 32] |= 1 << (position % 32));
    bits
}

/// The number of values of each width in bits.
type Widths = [f64; 33];

fn widths<'a>(values: impl Iterator<Item = &'a u32>) -> Widths {
    let mut of_width = [0.0; 33];
    values.for_each(|value| of_width[(32 - value.leading_zeros()) as usize] += 1.0);
    of_width
}

fn widest(widths: &Widths) -> usize {
    widths.iter().rposition(|&count| count > 0.0).unwrap_or(0)
}

/// Estimates the widths of the overflows for a width: one in 2^(k-1) of the numbers of k bits is
/// a power of two, which has one bit less after one is subtracted.
fn above(widths: &Widths, width: usize) -> Widths {
    let mut above = [0.0; 33];
    for (k, &count) in (1..).zip(&widths[width + 1..]) {
        let powers = count / f64::from(1u32 << (k - 1));
        above[k] += count - powers;
        above[k - 1] += powers;
    }
    above
}

/// Returns the width that takes approximately the fewest bits.
fn best<'a>(values: impl Iterator<Item = &'a u32>, levels: u32) -> u32 {
    let widths = widths(values);
    let (n, widest) = (widths.iter().sum::<f64>(), widest(&widths));
    let bits = |b: usize| match b {
        b if b == widest => n * b as f64,
        b => n * (b as f64 + POSITION_BITS) + overflow_width(&above(&widths, b), levels).1,
    };
    (0..=widest).rev().min_by(|&a, &b| bits(a).total_cmp(&bits(b))).unwrap_or(0) as u32
}

fn best_of_overflows(values: &[u32], levels: u32) -> u32 {
    match levels {
        0 => width(values),
        _ => overflow_width(&widths(values.iter()), levels).0 as u32,
    }
}

/// Returns the best width for overflows, and the bits they take.
fn overflow_width(widths: &Widths, levels: u32) -> (usize, f64) {
    /// Number of bits that an exception counts for in addition to its own, because of the time it
    /// takes.
    const TIME: f64 = 256.0;
    let (n, widest) = (widths.iter().sum::<f64>(), widest(widths));
    let slots = |w: usize| n * w as f64;
    let bits = |w: usize| {
        let above: f64 = (1..).zip(&widths[w + 1..]).map(|(k, count)| f64::from(k) * count).sum();
        let exceptions: f64 = widths[w + 1..].iter().sum();
        let told = n / BLOCK as f64 + 5.0 * exceptions.min(n / BLOCK as f64);
        slots(w) + 32.0 * told + above + TIME * exceptions
    };
    let all = (widest, slots(widest));
    let fewer = (0..if levels == 0 { 0 } else { widest }).map(|w| (w, bits(w)));
    fewer.fold(all, |best, other| if other.1 < best.1 { other } else { best })
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::common::{CODEC_PFOR, LISTS};

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let codec = KernelConstants::of(CODEC_PFOR.1, &[LISTS]);
        assert_eq!(codec.get("BLOCK_LEN"), BLOCK as u64);
        assert_eq!(codec.get("GROUP"), GROUP as u64);
        assert_eq!(codec.get("TALLY_BEFORE"), u64::from(TALLY_BEFORE));
        assert_eq!(codec.get("TALLY_SLOW"), u64::from(TALLY_SLOW));
        assert_eq!(codec.get("TALLY_BITS"), u64::from(TALLY_BITS));
    }

    #[test]
    fn widths_leave_few_out() {
        let mixed: Vec<u32> = (0..1000).map(|i| if i % 20 == 0 { 900 } else { 31 }).collect();
        assert_eq!([0, 1, 4].map(|levels| best(mixed.iter(), levels)), [5; 3]);
        let (same, none) = (vec![31; 1000], vec![0; 1000]);
        assert_eq!((best(same.iter(), 1), best(none.iter(), 1), best([].iter(), 1)), (5, 0, 0));
        // Gaps of a random list: one in four is an exception, and hardly any of those has an
        // exception itself.
        let gap = |i: u32| (-50.0 * (1.0 - f64::from(i) / 10_000.0).ln()) as u32;
        let gaps: Vec<u32> = (0..10_000).map(gap).collect();
        assert_eq!((best(gaps.iter(), 0), best(gaps.iter(), 1)), (6, 6));
        let (_, above) = exceptions(&gaps, 6);
        assert_eq!((above.len(), best_of_overflows(&above, 1)), (2780, 3));
        // One number much wider than the others does not change the width.
        let mut spread = above;
        spread[7] = u32::MAX;
        assert_eq!([0, 1].map(|levels| best_of_overflows(&spread, levels)), [32, 3]);
    }
    /// Tests that random lists among 25.2 million documents take fewer bits to decode all
    /// documents than an earlier layout did.
    #[test]
    fn random_lists_stay_small_and_easy() {
        for (df, most) in [(8_000, 14.58), (512_000, 8.49)] {
            let mut state = 88_172_645_463_325_252_u64;
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let step = (1.0 - f64::from(df) / 25_200_000.0).ln();
            let gaps: Vec<u32> = (0..df).map(|_| ((1.0 - next()).ln() / step) as u32).collect();
            let freqs = [0; BLOCK];
            let block = |gaps| Block { first: 0, gaps, freqs: &freqs };
            let blocks: Vec<Block<'_>> =
                gaps.as_chunks::<BLOCK>().0.iter().map(|g| block(g)).collect();
            for levels in 1..=4 {
                let coded = encode(&blocks, levels);
                let bits = 128 * coded.doc_units + 32 * coded.heads.len();
                assert!((bits as f64) < most * f64::from(df), "{bits} bits for {df} documents");
                let tallies = coded.heads.iter().skip(1).step_by(2);
                let slow = tallies.filter(|&tally| tally & TALLY_SLOW != 0).count();
                assert!(1000 * slow < blocks.len(), "{slow} of {}", blocks.len());
            }
        }
    }
}

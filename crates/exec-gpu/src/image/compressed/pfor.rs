//! PForDelta with one width b for a list: the low b bits of every number in slots, and what does not fit, the exceptions, in two
//! arrays for the list: gaps between their places within a block, and their bits above b. The arrays are coded the same way in turn, as
//! many levels deep as asked for, in runs of 128 numbers in place of blocks; the last are numbers of one width.
//!
//! `shape`: exceptions among the gaps before the block; `more`: among the frequencies. Nodes 0 and 1 are the gaps and the frequencies.

use warpseek_core::limits::BLOCK;

use super::form::{BlockHead, Node};
use super::units::{low, pack, pack_string, width};
use super::{Block, Coded};

pub(super) fn encode(blocks: &[Block<'_>], levels: u32) -> Coded {
    let mut coded = Coded { nodes: vec![Node::default(); 2], ..Coded::default() };
    let all = |part: fn(&Block<'_>) -> Vec<u32>| blocks.iter().flat_map(part).collect::<Vec<_>>();
    let (gaps, freqs) = (all(|block| block.gaps.to_vec()), all(|block| block.freqs.to_vec()));
    let (b, c) = (best(&gaps, levels), best(&freqs, levels));
    let lows = |values: &[u32], b: u32| -> Vec<u32> { values.iter().map(|&v| low(v, b)).collect() };
    for block in blocks {
        let at = coded.units.len();
        pack(&lows(block.gaps, b), b, &mut coded.units);
        coded.doc_units += coded.units.len() - at;
        pack(&lows(block.freqs, c), c, &mut coded.units);
        coded.heads.push(BlockHead { first: block.first, at: at as u32, shape: 0, more: 0 });
    }
    coded.heads.push(BlockHead::default());
    let at = coded.units.len();
    let starts = coded.exceptions(0, &gaps, b, levels);
    coded.doc_units += coded.units.len() - at;
    coded.nodes[0].starts = starts.last().copied().unwrap_or(0);
    coded.heads.iter_mut().zip(starts).for_each(|(head, start)| head.shape = start);
    let starts = coded.exceptions(1, &freqs, c, levels);
    coded.nodes[1].starts = starts.last().copied().unwrap_or(0);
    coded.heads.iter_mut().zip(starts).for_each(|(head, start)| head.more = start);
    coded
}

impl Coded {
    /// Appends the exceptions of numbers at a width as children of a node, and returns how many come before each run, and in all; nothing where there are none.
    fn exceptions(&mut self, node: usize, values: &[u32], width: u32, levels: u32) -> Vec<u32> {
        self.nodes[node].width = width;
        let (mut starts, mut offsets, mut overflows) = (vec![0], Vec::new(), Vec::new());
        for run in values.chunks(BLOCK) {
            let mut next = 0;
            for (place, &value) in (0..).zip(run) {
                let above = (u64::from(value) >> width) as u32;
                if above > 0 {
                    offsets.push(place - next);
                    overflows.push(above - 1);
                    next = place + 1;
                }
            }
            starts.push(offsets.len() as u32);
        }
        if offsets.is_empty() {
            return Vec::new();
        }
        let children = self.nodes.len();
        self.nodes.extend([Node::default(); 2]);
        self.nodes[node].children = children as u32;
        self.array(children, &offsets, levels);
        self.array(children + 1, &overflows, levels);
        starts
    }

    /// Appends an array of exceptions.
    fn array(&mut self, node: usize, values: &[u32], levels: u32) {
        let b = if levels == 0 { width(values) } else { best(values, levels - 1) };
        let lows: Vec<u32> = values.iter().map(|&value| low(value, b)).collect();
        self.nodes[node].slots = self.units.len() as u32;
        pack_string(&lows, b, &mut self.units);
        self.nodes[node].width = b;
        if levels > 0 {
            let starts = self.exceptions(node, values, b, levels - 1);
            self.nodes[node].starts = self.units.len() as u32;
            pack_string(&starts, 32, &mut self.units);
        }
    }
}

/// The width with the fewest bits, nearly, from how many numbers have how many bits; at most half of the numbers are exceptions. With levels to come an
/// exception is taken to cost its own bits, those of a mean gap, and five for what widths leave unused; without them those of the largest.
fn best(values: &[u32], levels: u32) -> u32 {
    let mut of_width = [0usize; 33];
    values.iter().for_each(|value| of_width[(32 - value.leading_zeros()) as usize] += 1);
    let (n, widest) = (values.len() as f64, width(values));
    let (mut best, mut fewest) = (widest, n * f64::from(widest));
    let (mut count, mut bits) = (0, 0);
    for b in (0..widest).rev() {
        count += of_width[b as usize + 1];
        if 2 * count > values.len() {
            break;
        }
        // One bit more for each exception so far.
        bits += count;
        let exceptions = count as f64;
        let each = match levels {
            0 => exceptions * (7.0 + f64::from(widest - b)),
            _ => bits as f64 + exceptions * (5.0 + (n / exceptions.max(1.0)).log2()),
        };
        let all = n * f64::from(b) + each;
        if all < fewest {
            (best, fewest) = (b, all);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_leave_few_out() {
        let mixed: Vec<u32> = (0..1000).map(|i| if i % 20 == 0 { 900 } else { 31 }).collect();
        assert_eq!([0, 1, 4].map(|levels| best(&mixed, levels)), [5; 3]);
        let (same, none) = (vec![31; 1000], vec![0; 1000]);
        assert_eq!((best(&same, 1), best(&none, 1), best(&[], 1)), (5, 0, 0));
        // Numbers as far apart as gaps of a random list: one in thirteen is an exception, as one bit less costs more than one bit a number.
        let gap = |i: u32| (-50.0 * (1.0 - f64::from(i) / 1000.0).ln()) as u32;
        let gaps: Vec<u32> = (0..1000).map(gap).collect();
        assert_eq!((best(&gaps, 0), best(&gaps, 1)), (7, 7));
        let half: Vec<u32> = (0..1000).map(|i| if i % 2 == 0 { u32::MAX } else { 0 }).collect();
        assert!([0, 32].contains(&best(&half, 4)));
    }
}

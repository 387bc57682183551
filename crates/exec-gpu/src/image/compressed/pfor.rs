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

/// The width with the fewest bits, nearly: from how many numbers have how many bits. With levels to come an exception is taken to cost its own bits
/// and those of a mean gap, without them those of the largest.
fn best(values: &[u32], levels: u32) -> u32 {
    let mut of_width = [0u64; 33];
    values.iter().for_each(|value| of_width[(32 - value.leading_zeros()) as usize] += 1);
    let (n, widest) = (values.len() as f64, width(values));
    let (mut best, mut fewest) = (widest, n * f64::from(widest));
    let (mut count, mut bits) = (0u64, 0u64);
    for b in (0..widest).rev() {
        count += of_width[b as usize + 1];
        // One bit more for each exception so far.
        bits += count;
        let exceptions = count as f64;
        let each = match levels {
            0 => exceptions * (7.0 + f64::from(widest - b)),
            _ => bits as f64 + exceptions * (2.0 + (n / exceptions.max(1.0)).log2()),
        };
        let all = n * f64::from(b) + each;
        if all < fewest {
            (best, fewest) = (b, all);
        }
    }
    best
}

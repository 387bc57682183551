//! Parallel Merge Find and its recursive form (Ding 2009, section 7), on uncompressed lists.
#![allow(unsafe_code)]

use super::common::{SEARCH, TYPES};
use super::compact::Compact;
use crate::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// CUDA source of the kernels.
pub const SOURCE: Source =
    Source { name: "merge_find", text: include_str!("kernel.cu"), headers: &[TYPES, SEARCH] };

/// Maximum number of levels of splitters: as many as the paper tries.
pub const MAX_LEVELS: u32 = 4;

const THREADS: u32 = 256;
/// Number of values that a thread searches for at a time.
const AT_ONCE: usize = SOURCE.constant("AT_ONCE") as usize;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct MergeFind {
    splitters: Kernel,
    matches: Kernel,
    compact: Compact,
}

impl MergeFind {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(MergeFind {
            splitters: device.kernel(&SOURCE, "merge_find_splitters")?,
            matches: device.kernel(&SOURCE, "merge_find_matches")?,
            compact: Compact::new(device)?,
        })
    }

    /// Returns the minimum length of `scratch` for this many numbers in the shorter list.
    pub fn scratch_len(shorter: usize) -> usize {
        // Positions, of which each level has at most half as many as the next finer one; bits;
        // then compaction.
        shorter + shorter.div_ceil(32) + MAX_LEVELS as usize + Compact::scratch_len(shorter)
    }

    /// Writes the numbers that both lists contain to the front of `out`, which is as long as the
    /// shorter list; the last of the first `scratch_len` values of `scratch` becomes their count.
    /// Both lists ascend strictly. The search for every number is preceded by `levels` of
    /// splitters, which are numbers of the shorter list chosen such that every level divides it
    /// by the same factor.
    ///
    /// # Panics
    /// Panics if there are more than [`MAX_LEVELS`] levels, or if `out` or `scratch` is too short.
    pub fn intersect(
        &self,
        stream: &Stream,
        shorter: &Buffer<u32>,
        longer: &Buffer<u32>,
        levels: u32,
        out: &Buffer<u32>,
        scratch: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!(levels <= MAX_LEVELS, "{levels} levels; at most {MAX_LEVELS} are possible");
        let (m, n) = (shorter.len(), longer.len());
        assert!(m.max(n) <= i32::MAX as usize, "lists are too long");
        assert_eq!(out.len(), m, "length of an intersection");
        let split = m + MAX_LEVELS as usize;
        let (positions, rest) =
            (scratch.slice(..split), scratch.slice(split..Self::scratch_len(m)));
        let (bits, rest) = (rest.slice(..m.div_ceil(32)), rest.slice(m.div_ceil(32)..));
        let fan_out = fan_out(m, levels);
        let mut known = Splitters { positions: positions.slice(..0), step: 1 };
        let mut at = 0;
        for level in (1..=levels).rev() {
            let step = fan_out.pow(level);
            let len = m.div_ceil(step);
            let found = positions.slice(at..at + len);
            at += len;
            let args = Args::new()
                .buffer(shorter)
                .value(m as u32)
                .value(step as u32)
                .buffer(longer)
                .value(n as u32)
                .buffer(&known.positions)
                .value(known.positions.len() as u32)
                .value(known.step as u32)
                .buffer(&found);
            // SAFETY: the buffer has an element for the position of every `step`th number of `m`,
            // and the coarser splitters cover all of them.
            unsafe { stream.launch(&self.splitters, Grid::over(len, THREADS), &args) }?;
            known = Splitters { positions: found, step };
        }
        let args = Args::new()
            .buffer(shorter)
            .value(m as u32)
            .buffer(longer)
            .value(n as u32)
            .buffer(&known.positions)
            .value(known.positions.len() as u32)
            .value(known.step as u32)
            .buffer(&bits);
        // SAFETY: there is a bit for each number, and the splitters cover all of them.
        unsafe { stream.launch(&self.matches, Grid::over(m.div_ceil(AT_ONCE), THREADS), &args) }?;
        self.compact.launch(stream, &bits, None, &[(shorter, out)], &rest)
    }
}

struct Splitters {
    positions: Buffer<u32>,
    step: usize,
}

/// Returns the number of splitters of one level between two of the next coarser level, such that
/// the levels and the last search divide `m` evenly. It is at least two.
fn fan_out(m: usize, levels: u32) -> usize {
    let mut fan_out = 2usize;
    while fan_out.pow(levels + 1) < m {
        fan_out *= 2;
    }
    fan_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_divide_evenly() {
        assert_eq!(
            [0, 1, 2, 3, 4].map(|l| fan_out(1 << 24, l)),
            [1 << 24, 1 << 12, 1 << 8, 64, 32]
        );
        assert_eq!([0, 1, 4].map(|l| fan_out(0, l)), [2; 3]);
        // The coarsest level has at most as many splitters as one part has numbers.
        for m in [1usize, 5000, 12345, 1 << 30] {
            for l in 1..=MAX_LEVELS {
                assert!(m.div_ceil(fan_out(m, l).pow(l)) <= fan_out(m, l));
            }
        }
    }
}

//! Helpers for tests that kill processes: settings, states of a directory, and random numbers.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::names;

pub(crate) const SIGKILL: i32 = 9;

/// Returns a number from an environment variable.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// The contents of the directory of the index.
pub(crate) struct Sighting {
    pub(crate) names: BTreeSet<String>,
    /// Distinguishes one manifest from the next.
    pub(crate) manifest: Option<u64>,
}

impl Sighting {
    pub(crate) fn of(dir: &Path) -> Self {
        let manifest = fs::metadata(dir.join("manifest")).ok().map(|m| m.ino());
        Sighting { names: names(dir).into_iter().collect(), manifest }
    }
}

/// A random number generator, SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a separate generator, whose use does not affect the numbers of this one.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }
}

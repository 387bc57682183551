//! The device memory of a round, and the results that go to the host.

use warpseek_cuda::{Buffer, Device, DeviceError, Stream};

use super::{Pass, WARP};
use crate::kernels::merge::BestKeys;
use crate::workspace::Workspace;

/// Maximum number of words of results that the device writes to host memory itself. For few hits,
/// a copy is not worth its start-up time.
const DIRECT_WORDS: usize = 1 << 12;

/// The state that is 0 at the start of a pass. It is a part of the input, in words of eight
/// bytes: thresholds (one word per query), histograms (half a word per lane), and numbers of keys
/// found (half a word per query).
pub struct State {
    /// Number of queries.
    pub queries: usize,
    /// All parts, one after another.
    pub words: Buffer<u64>,
}

impl State {
    /// Returns the number of words in the state of this many queries.
    pub fn words(queries: usize) -> usize {
        Self::found_at(queries) + queries.div_ceil(2)
    }

    /// Returns the index of the first word with numbers of keys found.
    fn found_at(queries: usize) -> usize {
        queries + queries * WARP as usize / 2
    }

    /// Returns the thresholds: one key per query.
    pub fn thresholds(&self) -> Buffer<u64> {
        self.words.slice(..self.queries)
    }

    /// Returns the histograms: one bin per lane and query.
    pub fn histograms(&self) -> Buffer<u32> {
        self.words.slice(self.queries..Self::found_at(self.queries)).cast()
    }

    /// Returns the numbers of keys found, one per query.
    pub fn found(&self) -> Buffer<u32> {
        self.words.slice(Self::found_at(self.queries)..).cast()
    }
}

/// The results that go to the host, in words of eight bytes: matches of OR and matches of AND
/// (one word per query each), counts of hits (half a word per query), and keys.
pub struct Results {
    queries: usize,
    stride: u32,
    /// Results on the device; `None` if there are few hits, which the device writes to host
    /// memory itself.
    buffer: Option<Buffer<u64>>,
    address: u64,
}

impl Results {
    fn words(queries: usize, stride: u32) -> usize {
        Self::keys_at(queries) + queries * stride as usize
    }

    fn keys_at(queries: usize) -> usize {
        2 * queries + queries.div_ceil(2)
    }

    /// Reserves space for `stride` hits per query. Few hits go directly to host memory, unless
    /// matches are counted; otherwise the results are on the device.
    pub fn new(
        device: &Device,
        workspace: &mut Workspace,
        queries: usize,
        stride: u32,
        counts_matches: bool,
    ) -> Result<Self, DeviceError> {
        let words = Self::words(queries, stride);
        if !counts_matches && words <= DIRECT_WORDS {
            let address = workspace.output.room(device, words)?;
            return Ok(Results { queries, stride, buffer: None, address });
        }
        let buffer = workspace.results.take(device, words)?;
        workspace.stream.zero(&buffer.slice(..2 * queries))?;
        let address = buffer.address();
        Ok(Results { queries, stride, buffer: Some(buffer), address })
    }

    /// Returns the address of the number of matches of each query in a pass.
    pub fn matches(&self, pass: Pass) -> u64 {
        let part = if pass == Pass::Or { 0 } else { 1 };
        self.address + 8 * (part * self.queries) as u64
    }

    /// Returns the address of the number of hits of each query.
    pub fn counts(&self) -> u64 {
        self.address + 8 * (2 * self.queries) as u64
    }

    /// Returns the address of the keys of hits.
    pub fn keys(&self) -> u64 {
        self.address + 8 * Self::keys_at(self.queries) as u64
    }

    /// Returns the addresses of the keys of hits and of their numbers.
    pub(super) fn best(&self) -> BestKeys {
        BestKeys { keys: self.keys(), counts: self.counts() }
    }

    /// Waits for the number of hits of each query so far.
    ///
    /// # Panics
    /// Panics if the results are not on the device, where they are if matches are counted.
    pub(super) fn found(&self, stream: &Stream) -> Result<Vec<u32>, DeviceError> {
        let buffer = self.buffer.as_ref().expect("results with counts are on the device");
        let counts = buffer.slice(2 * self.queries..Self::keys_at(self.queries)).cast::<u32>();
        stream.download(&counts.slice(..self.queries))
    }

    /// Waits for the results and returns their words.
    pub fn receive<'a>(
        &self,
        device: &Device,
        workspace: &'a mut Workspace,
    ) -> Result<&'a [u64], DeviceError> {
        match &self.buffer {
            Some(buffer) => workspace.output.receive(device, &workspace.stream, buffer),
            None => {
                workspace.stream.synchronize()?;
                workspace.output.read(Self::words(self.queries, self.stride))
            }
        }
    }
}

/// Reserves memory for the best keys of each query that is the same in every call of a round.
pub(super) fn reserve_best(
    workspace: &mut Workspace,
    device: &Device,
    queries: usize,
    stride: u32,
) -> Result<BestKeys, DeviceError> {
    let counts = queries.div_ceil(2);
    let words = workspace.best.take(device, counts + queries * stride as usize)?;
    Ok(BestKeys { counts: words.address(), keys: words.slice(counts..).address() })
}

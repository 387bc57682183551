//! What a round has in the device's memory, and what goes to the host.

use super::{Pass, WARP};
use crate::engine::GpuEngine;
use crate::workspace::Workspace;
use warpseek_cuda::{Buffer, Device, DeviceError};

/// Words of results that the device writes to the host's memory itself: a copy has its own start, which few hits are not worth.
const DIRECT_WORDS: usize = 1 << 12;

/// What a pass begins with at 0: parts of the input, in words of eight bytes. Thresholds (a word a query), histograms (half a word a lane), keys found (half a
/// word).
pub struct State {
    pub queries: usize,
    pub words: Buffer<u64>,
}

impl State {
    pub fn words(queries: usize) -> usize {
        Self::found_at(queries) + queries.div_ceil(2)
    }

    pub fn found_at(queries: usize) -> usize {
        queries + queries * WARP as usize / 2
    }

    pub fn thresholds(&self) -> Buffer<u64> {
        self.words.slice(..self.queries)
    }

    pub fn histograms(&self) -> Buffer<u32> {
        self.words.slice(self.queries..Self::found_at(self.queries)).cast()
    }

    pub fn found(&self) -> Buffer<u32> {
        self.words.slice(Self::found_at(self.queries)..).cast()
    }
}

/// What goes to the host, in words of eight bytes: matches of OR, matches of AND (a word a query each), counts of hits (half a word), keys.
pub struct Results {
    queries: usize,
    stride: u32,
    /// None if hits are few: the device then writes them to the host's memory itself.
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

    /// For matches to be counted in; on the device, if they are.
    pub fn new(
        engine: &GpuEngine,
        workspace: &mut Workspace,
        queries: usize,
        stride: u32,
        counts_matches: bool,
    ) -> Result<Self, DeviceError> {
        let words = Self::words(queries, stride);
        if !counts_matches && words <= DIRECT_WORDS {
            let address = workspace.output.room(&engine.device, words)?;
            return Ok(Results { queries, stride, buffer: None, address });
        }
        let buffer = workspace.results.take(&engine.device, words)?;
        workspace.stream.zero(&buffer.slice(..2 * queries))?;
        let address = buffer.address();
        Ok(Results { queries, stride, buffer: Some(buffer), address })
    }

    pub fn matches(&self, pass: Pass) -> u64 {
        let part = if pass == Pass::Or { 0 } else { 1 };
        self.address + 8 * (part * self.queries) as u64
    }

    pub fn counts(&self) -> u64 {
        self.address + 8 * (2 * self.queries) as u64
    }

    pub fn keys(&self) -> u64 {
        self.address + 8 * Self::keys_at(self.queries) as u64
    }

    /// Waits for them.
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

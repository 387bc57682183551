//! The memory for the tiles of rounds, in two halves.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use warpseek_cuda::{Buffer, Device, DeviceError};

use super::hurry::{Hurry, RETRY};
use super::lock;
use crate::image::error::ImageError;

/// Memory that is lent to rounds. A large round uses all of it, so that it has few slices. Two
/// small rounds use half of it each: one is prepared while the other is answered.
pub(super) struct Scratch {
    all: Buffer<u8>,
    half: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: [bool; 2],
    /// Number of rounds that wait for all of it. Until they have had it, nothing is lent to small
    /// rounds.
    want_all: u32,
}

/// The part of the memory that a round uses.
pub(super) struct ScratchPart {
    pub(super) memory: Buffer<u8>,
    halves: Range<usize>,
}

impl Scratch {
    /// Allocates about this many bytes, in halves of a multiple of 256 bytes.
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        let half = (bytes / 2).next_multiple_of(256) as usize;
        let state = Mutex::new(State { free: [true; 2], want_all: 0 });
        Ok(Scratch { all: device.buffer(2 * half)?, half, state, returned: Condvar::new() })
    }

    /// Returns the number of bytes that a round uses.
    pub(super) fn bytes(&self, large: bool) -> u64 {
        let halves = if large { 2 } else { 1 };
        halves * self.half as u64
    }

    /// Waits until other rounds have returned enough memory, and takes it. Fails if the round has
    /// to stop before.
    pub(super) fn take(
        &self,
        large: bool,
        hurry: Option<Hurry<'_>>,
    ) -> Result<ScratchPart, ImageError> {
        let mut state = lock(&self.state);
        state.want_all += u32::from(large);
        loop {
            let halves = match (large, state.free) {
                (true, [true, true]) => Some(0..2),
                (false, [true, _]) if state.want_all == 0 => Some(0..1),
                (false, [_, true]) if state.want_all == 0 => Some(1..2),
                _ => None,
            };
            if let Some(halves) = halves {
                state.want_all -= u32::from(large);
                state.free[halves.clone()].fill(false);
                let memory = self.all.slice(halves.start * self.half..halves.end * self.half);
                return Ok(ScratchPart { memory, halves });
            }
            let Some(hurry) = hurry else {
                state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if let Err(stopped) = hurry.check() {
                state.want_all -= u32::from(large);
                self.returned.notify_all();
                return Err(stopped);
            }
            let waited = self.returned.wait_timeout(state, RETRY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn give_back(&self, part: &ScratchPart) {
        lock(&self.state).free[part.halves.clone()].fill(true);
        self.returned.notify_all();
    }
}

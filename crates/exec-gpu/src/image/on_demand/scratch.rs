//! The memory for tiles that are made for rounds.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use warpseek_cuda::{Buffer, Device, DeviceError};

use super::lock;

/// A large round has all of it, so that it has few slices. Of two small ones each has a half: one is prepared while the other is answered.
pub(super) struct Scratch {
    all: Buffer<u8>,
    half: usize,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    free: [bool; 2],
    /// Rounds that wait for all of it. Nothing is lent before they had it.
    want_all: u32,
}

/// What a round has.
pub(super) struct Lent {
    pub(super) memory: Buffer<u8>,
    halves: Range<usize>,
}

impl Scratch {
    /// This many bytes, which begin at multiples of 256 in both halves.
    pub(super) fn new(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        let half = (bytes / 2).next_multiple_of(256) as usize;
        let state = Mutex::new(State { free: [true; 2], want_all: 0 });
        Ok(Scratch { all: device.buffer(2 * half)?, half, state, returned: Condvar::new() })
    }

    /// Bytes that a round has.
    pub(super) fn bytes(&self, large: bool) -> u64 {
        let halves = if large { 2 } else { 1 };
        halves * self.half as u64
    }

    /// Waits until other rounds return what a round may have.
    pub(super) fn take(&self, large: bool) -> Lent {
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
                return Lent { memory, halves };
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn give_back(&self, lent: &Lent) {
        lock(&self.state).free[lent.halves.clone()].fill(true);
        self.returned.notify_all();
    }
}

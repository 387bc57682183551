//! The scalar version. CPUs with vector code use it only for what the vector code does not cover.
#![cfg_attr(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(test)), allow(dead_code))]

use warpseek_core::limits::BLOCK;

use super::Ones;
use crate::slots::window;

pub(super) fn ones_of_block(bytes: &[u8], out: &mut Ones) -> usize {
    let mut found = 0;
    for (bytes, first) in bytes.chunks(8).zip((0..).step_by(64)) {
        let mut word = window(bytes);
        while word != 0 {
            out[found] = first + word.trailing_zeros() as u16;
            word &= word - 1;
            found += 1;
        }
        if found >= BLOCK {
            break;
        }
    }
    found
}

/// Decodes one row of four values at a time.
fn rows<const W: usize>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    let (words, _) = bytes[..16 * W].as_chunks::<4>();
    let (rows, _) = words.as_chunks::<4>();
    for (row, slots) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (word, shift) = (row * W / 32, row * W % 32);
        for lane in 0..4 {
            let mut value = u32::from_le_bytes(rows[word][lane]) >> shift;
            if shift + W > 32 {
                value |= u32::from_le_bytes(rows[word + 1][lane]) << (32 - shift);
            }
            slots[lane] = value & (u32::MAX >> (32 - W));
        }
    }
}

pub(super) fn docs<const W: usize>(bytes: &[u8], prev: u32, out: &mut [u32; BLOCK]) {
    rows::<W>(bytes, out);
    add_up(prev, out);
}

pub(super) fn add_up(prev: u32, out: &mut [u32; BLOCK]) {
    let mut last = prev;
    for slot in out {
        last = last.wrapping_add(*slot).wrapping_add(1);
        *slot = last;
    }
}

pub(super) fn values<const W: usize, const PLUS: u32>(bytes: &[u8], out: &mut [u32; BLOCK]) {
    rows::<W>(bytes, out);
    out.iter_mut().for_each(|slot| *slot = slot.wrapping_add(PLUS));
}

//! Moves items to the windows of a piece, for rounds that are answered in pieces.
#![allow(unsafe_code)]

use std::ops::Range;

use warpseek_cuda::{Args, Buffer, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{SCAN, TILES, TYPES, WARP};
use crate::image::Item;

/// CUDA source of the kernel.
pub const SOURCE: Source = Source {
    name: "move_items",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, TILES],
};

const THREADS: u32 = SOURCE.constant("THREADS");

/// Moves items that share `windows` windows, at least one, to the windows `to`, and writes them to
/// `moved`.
///
/// # Panics
/// Panics if `moved` has another length, or if there are no windows.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &Kernel,
    (items, windows): (&Buffer<Item>, u32),
    moved: &Buffer<Item>,
    to: Range<u32>,
) -> Result<(), DeviceError> {
    assert!(items.len() == moved.len() && windows > 0, "{} items", items.len());
    let args = Args::new()
        .buffer(items)
        .buffer(moved)
        .value(items.len() as u32)
        .value(windows)
        .value(to.start)
        .value(to.end - to.start);
    // SAFETY: the arguments match the kernel's parameters, and both buffers have this many items.
    unsafe { stream.launch(kernel, Grid::over(items.len(), THREADS), &args) }
}

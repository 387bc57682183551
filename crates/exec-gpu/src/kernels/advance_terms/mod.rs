//! Advances terms from one slice of documents to the next, for lists that stay as a whole.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{SCAN, TILES, TYPES, WARP};
use crate::image::TermView;

/// CUDA source of the kernel.
pub const SOURCE: Source = Source {
    name: "advance_terms",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, TILES],
};

const THREADS: u32 = SOURCE.constant("THREADS");

/// Advances terms to a slice that begins this many tiles of 2^`bits` documents later.
pub(crate) fn launch(
    stream: &Stream,
    kernel: &Kernel,
    terms: &Buffer<TermView>,
    tiles: u32,
    bits: u32,
) -> Result<(), DeviceError> {
    let args = Args::new().buffer(terms).value(terms.len() as u32).value(tiles).value(bits);
    // SAFETY: the arguments match the kernel's parameters, and the buffer has this many terms.
    unsafe { stream.launch(kernel, Grid::over(terms.len(), THREADS), &args) }
}

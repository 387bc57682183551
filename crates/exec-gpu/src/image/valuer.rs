//! Tables from which kernels compute the values of postings (`kernels/common/valuer.cuh`).

use std::sync::{Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};
use warpseek_core::cosine::log_tf;
use warpseek_cuda::{Buffer, Device, Uploader};
use warpseek_exec::Formula;
use warpseek_index::Segment;

use super::error::ImageError;
use crate::kernels::formula_number;

/// Number of frequencies that have a logarithm on the device at first, and at most.
const LOGS: u32 = 1 << 16;
const MOST_LOGS: u32 = 1 << 28;

/// A view for kernels, with the layout of the kernel's `Valuer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct ValuerView {
    lengths: u64,
    norms: u64,
    logs: u64,
    log_count: u32,
    width: u32,
    formula: u32,
    fixed: f32,
    by_length: f32,
    most: f32,
}

/// The tables of a segment's documents from which values are computed, for any formula.
pub(crate) struct Valuer {
    lengths: Buffer<u8>,
    width: u32,
    /// Tables for cosine, copied when a formula first needs them.
    cosine: Mutex<Option<Cosine>>,
}

#[derive(Clone)]
struct Cosine {
    norms: Buffer<u8>,
    logs: Buffer<u8>,
}

/// A view for one formula, with the memory that its addresses point to.
pub(crate) struct Valuing {
    pub(crate) view: ValuerView,
    _kept: Option<Cosine>,
}

impl Valuer {
    pub(crate) fn load(device: &Device, segment: &Segment) -> Result<Self, ImageError> {
        let lengths = segment.documents().lengths()?;
        let (bytes, width) = lengths.bytes();
        Ok(Valuer { lengths: send(device, bytes)?, width, cosine: Mutex::default() })
    }

    /// Returns the view for a formula. For cosine, logarithms reach at least up to this
    /// frequency.
    pub(crate) fn of(
        &self,
        device: &Device,
        segment: &Segment,
        formula: Formula,
        freq: u32,
    ) -> Result<Valuing, ImageError> {
        let mut view = ValuerView {
            lengths: self.lengths.address(),
            width: self.width,
            formula: formula_number(formula),
            most: largest_value(formula),
            ..ValuerView::default()
        };
        let mut kept = None;
        match formula {
            Formula::Saturation { fixed, by_length } => {
                (view.fixed, view.by_length) = (fixed, by_length);
            }
            Formula::Cosine => {
                let cosine = self.cosine(device, segment, freq)?;
                (view.norms, view.logs) = (cosine.norms.address(), cosine.logs.address());
                view.log_count = (cosine.logs.len() / size_of::<f32>()) as u32;
                kept = Some(cosine);
            }
            Formula::Linear | Formula::Quantized => {}
        }
        Ok(Valuing { view, _kept: kept })
    }

    fn cosine(&self, device: &Device, segment: &Segment, freq: u32) -> Result<Cosine, ImageError> {
        if freq >= MOST_LOGS {
            return Err(ImageError::Frequency { freq, most: MOST_LOGS - 1 });
        }
        let mut cosine = self.cosine.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |cosine: &&Cosine| cosine.logs.len() / size_of::<f32>() > freq as usize;
        if let Some(cosine) = cosine.as_ref().filter(has) {
            return Ok(cosine.clone());
        }
        let norms = match cosine.take() {
            Some(cosine) => cosine.norms,
            None => send(device, segment.norms()?.bytes())?,
        };
        let count = (freq + 1).next_power_of_two().max(LOGS);
        let logs: Vec<f32> = (0..count).map(|freq| log_tf(freq.max(1))).collect();
        let logs = send(device, bytemuck::cast_slice(&logs))?;
        Ok(cosine.insert(Cosine { norms, logs }).clone())
    }
}

/// Copies bytes to the device and waits.
fn send(device: &Device, bytes: &[u8]) -> Result<Buffer<u8>, ImageError> {
    let mut uploader = Uploader::new(device)?;
    let buffer = uploader.send(bytes)?;
    uploader.finish()?;
    Ok(buffer)
}

/// Returns the largest value that the formula can give.
pub fn largest_value(formula: Formula) -> f32 {
    // A posting with weight 1 contributes the value, rounded down, plus one.
    (formula.most(1.0) - 1) as f32
}

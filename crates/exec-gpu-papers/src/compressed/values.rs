//! The tables from which the device computes the value of a posting with the bits of
//! `Formula::value`.
//!
//! Divisions and products follow IEEE 754 on both sides. Logarithms do not, so the host computes
//! those of all frequencies that occur.

use std::collections::BTreeSet;

use warpseek_core::cosine::log_tf;
use warpseek_exec::Formula;

use super::form::Values;
use warpseek_cuda::{Buffer, Device, DeviceError, Uploader};
use warpseek_exec_gpu::image::send;
use warpseek_exec_gpu::kernels::formula_number;

/// Smallest frequency that is not in the table of small frequencies. The test
/// `constants_equal_those_of_the_kernel` compares it.
const SMALL: u32 = 4096;

/// The large frequencies of a segment.
#[derive(Debug, Default)]
pub(super) struct Frequencies(BTreeSet<u32>);

impl Frequencies {
    /// Adds the large frequencies of a list.
    pub(super) fn see(&mut self, freqs: &[u32]) {
        self.0.extend(freqs.iter().filter(|&&freq| freq >= SMALL));
    }

    pub(super) fn join(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}

/// The tables on the device.
#[derive(Debug)]
pub struct ValueTables {
    view: Values,
    docs: usize,
    large: Vec<u32>,
    kept: Vec<Buffer<u8>>,
}

impl ValueTables {
    /// Creates tables for documents with these factors. Frequencies of at least [`SMALL`] that
    /// are not in `frequencies` must not be looked up.
    pub(super) fn new(
        device: &Device,
        formula: Formula,
        factors: &[f32],
        frequencies: &Frequencies,
    ) -> Result<Self, DeviceError> {
        let (mut view, mut kept) = (Values::default(), Vec::new());
        let mut uploader = Uploader::new(device)?;
        view.formula = formula_number(formula);
        let mut address = |bytes: &[u8]| -> Result<u64, DeviceError> {
            let (buffer, address) = send(&mut uploader, bytes)?;
            kept.extend(buffer);
            Ok(address)
        };
        let large: Vec<u32> = frequencies.0.iter().copied().collect();
        view.factors = address(bytemuck::cast_slice(factors))?;
        if formula == Formula::Cosine {
            let logs: Vec<f32> = (0..SMALL).map(|freq| log_tf(freq.max(1))).collect();
            let large_logs: Vec<f32> = large.iter().map(|&freq| log_tf(freq)).collect();
            view.logs = address(bytemuck::cast_slice(&logs))?;
            view.large = address(bytemuck::cast_slice(&large))?;
            view.large_logs = address(bytemuck::cast_slice(&large_logs))?;
            view.large_count = large.len() as u32;
        }
        uploader.finish()?;
        Ok(ValueTables { view, docs: factors.len(), large, kept })
    }

    /// Creates tables in which these frequencies can be looked up.
    pub fn for_frequencies(
        device: &Device,
        formula: Formula,
        factors: &[f32],
        freqs: &[u32],
    ) -> Result<Self, DeviceError> {
        let mut frequencies = Frequencies::default();
        frequencies.see(freqs);
        Self::new(device, formula, factors, &frequencies)
    }

    /// Panics if a document or frequency is not in the tables.
    pub(crate) fn check(&self, docs: &[u32], freqs: &[u32]) {
        assert!(docs.iter().all(|&doc| (doc as usize) < self.docs), "a document has no factor");
        let known = |freq: &u32| *freq < SMALL || self.large.binary_search(freq).is_ok();
        assert!(self.view.logs == 0 || freqs.iter().all(known), "a frequency has no logarithm");
    }

    /// Returns the view for kernels.
    pub fn view(&self) -> Values {
        self.view
    }

    /// Returns the bytes that the tables take on the device.
    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|buffer| buffer.bytes() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;
    use crate::kernels::decode::SOURCE;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("SMALL_FREQ"), u64::from(SMALL));
        assert_eq!(kernel.size_of("Values"), size_of::<Values>());
    }
}

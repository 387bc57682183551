//! Values of tokens, which follow their tokens when these are sorted.
#![allow(unsafe_code)]

use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::TYPES;

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "token_values", text: include_str!("kernel.cu"), headers: &[TYPES] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares it.
const THREADS: u32 = 256;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub(crate) struct TokenValues {
    number: Kernel,
    gather: Kernel,
    combine: Kernel,
}

/// The documents and the values of tokens.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    pub(crate) docs: &'a Buffer<u32>,
    pub(crate) values: &'a Buffer<u32>,
}

impl TokenValues {
    /// Compiles the kernels.
    pub(crate) fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(TokenValues {
            number: device.kernel(&SOURCE, "number_tokens")?,
            gather: device.kernel(&SOURCE, "gather_tokens")?,
            combine: device.kernel(&SOURCE, "combine_values")?,
        })
    }

    /// Writes the number of each token.
    pub(crate) fn number(&self, stream: &Stream, tokens: &Buffer<u32>) -> Result<(), DeviceError> {
        let count = tokens.len();
        let args = Args::new().value(count as u32).buffer(tokens);
        // SAFETY: the kernel writes `count` numbers.
        unsafe { stream.launch(&self.number, Grid::over(count, THREADS), &args) }
    }

    /// Writes documents and values in the order of sorted tokens.
    ///
    /// # Safety
    /// Tokens must be below the number of documents and of values.
    ///
    /// # Panics
    /// Panics if there are not as many outputs as tokens.
    pub(crate) unsafe fn gather(
        &self,
        stream: &Stream,
        tokens: &Buffer<u32>,
        from: Tokens<'_>,
        to: Tokens<'_>,
    ) -> Result<(), DeviceError> {
        let count = tokens.len();
        assert!(to.docs.len() == count && to.values.len() == count, "{count} sorted tokens");
        let args = Args::new().buffer(tokens).value(count as u32).buffer(from.docs);
        let args = args.buffer(from.values).buffer(to.docs).buffer(to.values);
        // SAFETY: there is an output for each token; the caller promises the rest.
        unsafe { stream.launch(&self.gather, Grid::over(count, THREADS), &args) }
    }

    /// Writes a number for each run of values: the union of their bits if `as_bits`, or else their
    /// sum, at most the largest number.
    ///
    /// # Safety
    /// Runs must lie within the values.
    ///
    /// # Panics
    /// Panics if there is not one more start than outputs.
    pub(crate) unsafe fn combine(
        &self,
        stream: &Stream,
        runs: &Buffer<u32>,
        values: &Buffer<u32>,
        as_bits: bool,
        out: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = out.len();
        assert!(runs.len() > count, "starts of {count} runs");
        let args = Args::new().buffer(runs).value(count as u32).buffer(values);
        let args = args.value(u32::from(as_bits)).buffer(out);
        // SAFETY: there is an output for each run; the caller promises the rest.
        unsafe { stream.launch(&self.combine, Grid::over(count, THREADS), &args) }
    }
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::KernelConstants;

    use super::*;

    #[test]
    fn constants_equal_those_of_the_kernel() {
        let kernel = KernelConstants::of(SOURCE.text, SOURCE.headers);
        assert_eq!(kernel.get("THREADS"), u64::from(THREADS));
    }
}

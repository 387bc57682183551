//! Decodes whole lists, for tests and benchmarks.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use warpseek_codec::CodecId;

use super::common::{
    CODEC_BITPACK, CODEC_PFOR, CODEC_RICE, FORMULA, LISTS, SCAN, TYPES, VALUES, WARP,
};
use crate::compressed::{CompressedList, CompressedLists, ValueTables};
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

/// The source of the kernels.
pub const SOURCE: Source = Source {
    name: "decode",
    text: include_str!("kernel.cu"),
    headers: &[TYPES, SCAN, WARP, LISTS, CODEC_BITPACK, CODEC_RICE, CODEC_PFOR, FORMULA, VALUES],
};

const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;

/// Postings in a block.
const BLOCK: usize = warpseek_core::limits::BLOCK;

/// The parts of postings to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Gaps less one, without the prefix sum; only `pfor` has it.
    Gaps,
    /// Documents.
    Docs,
    /// Documents and frequencies.
    Both,
}

/// Blocks that a warp decodes, one after another.
const RUN: u32 = 32;

/// The layout of the kernel.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Run {
    list: u32,
    begin: u32,
    end: u32,
    out: u32,
}

/// Lists to decode, divided into runs.
pub struct Work {
    codec: CodecId,
    lists: Buffer<CompressedList>,
    runs: Buffer<Run>,
    /// The memory of the lists.
    _kept: Vec<Buffer<u8>>,
    /// Number of blocks in total.
    blocks: usize,
}

impl Work {
    /// Creates the work for some lists, in this order.
    ///
    /// # Panics
    /// Panics if there is no such list.
    pub fn new(
        device: &Device,
        stream: &Stream,
        lists: &CompressedLists,
        which: impl IntoIterator<Item = usize>,
    ) -> Result<Self, DeviceError> {
        let chosen: Vec<CompressedList> =
            which.into_iter().map(|list| lists.lists()[list]).collect();
        let (mut runs, mut blocks) = (Vec::new(), 0u32);
        for (number, list) in (0..).zip(&chosen) {
            for begin in (0..list.blocks).step_by(RUN as usize) {
                let end = (begin + RUN).min(list.blocks);
                runs.push(Run { list: number, begin, end, out: blocks + begin });
            }
            blocks += list.blocks;
        }
        Ok(Work {
            codec: lists.codec(),
            lists: device.upload(stream, &chosen)?,
            runs: device.upload(stream, &runs)?,
            _kept: lists.kept().to_vec(),
            blocks: blocks as usize,
        })
    }

    /// Returns the number of runs, each of which has a sum.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Returns the number of decoded numbers: the blocks of a list are consecutive, and the last
    /// one is padded.
    pub fn numbers(&self) -> usize {
        self.blocks * BLOCK
    }
}

/// The kernels of one codec, ready to launch.
#[derive(Debug, Clone)]
pub struct Decode {
    codec: CodecId,
    gaps: Option<Kernel>,
    docs: Kernel,
    both: Kernel,
    write: Kernel,
    fetch: Kernel,
}

impl Decode {
    /// Compiles the kernels.
    pub fn new(device: &Device, codec: CodecId) -> Result<Self, DeviceError> {
        let kernel = |what: &str| device.kernel(&SOURCE, &format!("{what}_{codec}"));
        Ok(Decode {
            codec,
            gaps: if codec == CodecId::PFor { Some(kernel("gaps")?) } else { None },
            docs: kernel("docs")?,
            both: kernel("both")?,
            write: kernel("write")?,
            fetch: kernel("fetch")?,
        })
    }

    /// Keeps only the sum of each run, modulo 2^32. After the end of a list, documents and gaps
    /// are `u32::MAX` and frequencies 0.
    ///
    /// # Panics
    /// Panics if the lists have another codec or if `sums` is shorter than the number of runs, as
    /// the other launches do; or if there is no such kernel.
    pub fn sums(
        &self,
        stream: &Stream,
        work: &Work,
        what: What,
        sums: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!(sums.len() >= work.runs(), "{} sums for {} runs", sums.len(), work.runs());
        let kernel = match (what, &self.gaps) {
            (What::Gaps, Some(gaps)) => gaps,
            (What::Gaps, None) => panic!("there are no gaps of {}", self.codec),
            (What::Docs, _) => &self.docs,
            (What::Both, _) => &self.both,
        };
        let args = self.args(work).buffer(sums);
        // SAFETY: addresses in lists point to memory that `work` keeps; a run writes its own sum,
        // and `sums` is long enough.
        unsafe { stream.launch(kernel, grid(work), &args) }
    }

    /// Writes documents and frequencies, block by block.
    pub fn write(
        &self,
        stream: &Stream,
        work: &Work,
        docs: &Buffer<u32>,
        freqs: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let least = docs.len().min(freqs.len());
        assert!(least >= work.numbers(), "space for {least} of {} numbers", work.numbers());
        let args = self.args(work).buffer(docs).buffer(freqs);
        // SAFETY: as above; runs write their own blocks.
        unsafe { stream.launch(&self.write, grid(work), &args) }
    }

    /// Writes frequencies, each fetched separately.
    pub fn fetch(
        &self,
        stream: &Stream,
        work: &Work,
        freqs: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        assert!(freqs.len() >= work.numbers(), "space for {} numbers", work.numbers());
        let args = self.args(work).buffer(freqs);
        // SAFETY: as above.
        unsafe { stream.launch(&self.fetch, grid(work), &args) }
    }

    fn args(&self, work: &Work) -> Args {
        assert_eq!(self.codec, work.codec, "the codec of the lists");
        Args::new().buffer(&work.lists).buffer(&work.runs).value(work.runs() as u32)
    }
}

fn grid(work: &Work) -> Grid {
    Grid::new((work.runs() as u32).div_ceil(WARPS), THREADS)
}

/// Computes the bits of postings' values on the device by a formula.
///
/// # Panics
/// Panics if there are not as many frequencies as documents.
pub fn posting_values(
    device: &Device,
    stream: &Stream,
    tables: &ValueTables,
    docs: &[u32],
    freqs: &[u32],
) -> Result<Vec<u32>, DeviceError> {
    assert_eq!(docs.len(), freqs.len(), "documents and frequencies");
    tables.check(docs, freqs);
    let kernel = device.kernel(&SOURCE, "posting_values")?;
    let count = docs.len();
    let (docs, freqs) = (device.upload(stream, docs)?, device.upload(stream, freqs)?);
    let bits = device.buffer::<u32>(count)?;
    let args = Args::new().value(tables.view()).buffer(&docs).buffer(&freqs).buffer(&bits);
    // SAFETY: all three have `count` values; the tables were checked to have each document and
    // frequency, and outlive the download.
    unsafe { stream.launch(&kernel, Grid::over(count, THREADS), &args.value(count as u32))? };
    stream.download(&bits)
}

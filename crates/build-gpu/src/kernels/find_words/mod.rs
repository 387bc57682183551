//! Kernels that find the starts of words in flat text, and the document of each.
#![allow(unsafe_code)]

use warpseek_cuda::kernels::scan::Scan;
use warpseek_cuda::{Args, Buffer, Device, DeviceError, Grid, Kernel, Source, Stream};

use super::common::{SCAN, TYPES, WORDS};

/// The source of the kernels.
pub const SOURCE: Source =
    Source { name: "find_words", text: include_str!("kernel.cu"), headers: &[TYPES, SCAN, WORDS] };

/// Threads of a block. The test `constants_equal_those_of_the_kernel` compares this constant and
/// the next.
const THREADS: u32 = 256;
const PER_THREAD: usize = 16;
const TILE: usize = THREADS as usize * PER_THREAD;

/// The kernels, ready to launch.
#[derive(Debug, Clone)]
pub struct FindWords {
    count: Kernel,
    write: Kernel,
    scan: Scan,
}

/// The numbers of words and documents before each tile of a text, and in the whole text.
pub struct Counted {
    words_before: Buffer<u32>,
    documents_before: Buffer<u32>,
    /// Number of words of the text.
    pub count: u32,
    /// Number of documents that end in the text.
    pub documents: u32,
}

impl FindWords {
    /// Compiles the kernels.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Ok(FindWords {
            count: device.kernel(&SOURCE, "find_words_count")?,
            write: device.kernel(&SOURCE, "find_words_write")?,
            scan: Scan::new(device)?,
        })
    }

    /// Returns the length of a buffer for this many bytes of text: kernels read 16 bytes at a
    /// time.
    pub fn padded(bytes: usize) -> usize {
        bytes.next_multiple_of(PER_THREAD)
    }

    /// Counts the words of the first `len` bytes of `text` and waits for the number.
    ///
    /// # Panics
    /// Panics if `text` is not padded, or has 2^31 bytes or more.
    pub fn count(
        &self,
        stream: &Stream,
        text: &Buffer<u8>,
        len: usize,
        classes: &Buffer<u8>,
    ) -> Result<Counted, DeviceError> {
        assert!(text.len() >= Self::padded(len) && len <= i32::MAX as usize, "text of {len} bytes");
        assert_eq!(classes.len(), 256, "classes of bytes");
        let (device, tiles) = (stream.device(), len.div_ceil(TILE));
        let (words, documents) = (device.buffer(tiles)?, device.buffer(tiles)?);
        if tiles == 0 {
            return Ok(Counted {
                words_before: words,
                documents_before: documents,
                count: 0,
                documents: 0,
            });
        }
        let args = Args::new()
            .buffer(text)
            .value(len as u32)
            .buffer(classes)
            .buffer(&words)
            .buffer(&documents);
        // SAFETY: tiles cover the text, which is padded; there is a count for each tile.
        unsafe { stream.launch(&self.count, Grid::new(tiles as u32, THREADS), &args) }?;
        let len = Scan::scratch_len(tiles);
        let scratch = device.buffer(2 * len)?;
        let sums = [scratch.slice(..len), scratch.slice(len..)];
        self.scan.launch(stream, &words, &words, &sums[0])?;
        self.scan.launch(stream, &documents, &documents, &sums[1])?;
        let count = stream.download(&sums[0].slice(len - 1..))?[0];
        let ended = stream.download(&sums[1].slice(len - 1..))?[0];
        Ok(Counted { words_before: words, documents_before: documents, count, documents: ended })
    }

    /// Writes the start of each word, and its document, counted from 0.
    ///
    /// # Panics
    /// Panics if a buffer is too short.
    #[allow(clippy::too_many_arguments)]
    pub fn write(
        &self,
        stream: &Stream,
        text: &Buffer<u8>,
        len: usize,
        classes: &Buffer<u8>,
        counted: &Counted,
        starts: &Buffer<u32>,
        docs: &Buffer<u32>,
    ) -> Result<(), DeviceError> {
        let count = counted.count as usize;
        assert!(
            starts.len() >= count && docs.len() >= count,
            "starts and documents of {count} words"
        );
        let args = Args::new()
            .buffer(text)
            .value(len as u32)
            .buffer(classes)
            .buffer(&counted.words_before)
            .buffer(&counted.documents_before)
            .value(counted.count)
            .buffer(starts)
            .buffer(docs);
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as for counting; no more than `count` words are written.
        unsafe { stream.launch(&self.write, Grid::new(len.div_ceil(TILE) as u32, THREADS), &args) }
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
        assert_eq!(kernel.get("PER_THREAD"), PER_THREAD as u64);
    }
}

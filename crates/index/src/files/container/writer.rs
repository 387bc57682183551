//! A writer of files in containers.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::{Kind, PAGE, VERSION, seal};
use crate::error::{IndexError, Result};
use crate::files::early_sync::EarlySync;
use crate::files::throttle::Throttle;

/// A writer of one file, with page checksums and seal, to disk or to memory.
pub struct SealedWriter {
    path: PathBuf,
    sink: Sink,
    kind: Kind,
    version: u32,
    page: Vec<u8>,
    sums: Vec<u8>,
    len: u64,
    throttle: Option<Arc<Throttle>>,
}

enum Sink {
    File(EarlySync),
    Memory(Vec<u8>),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Memory(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
        }
    }
}

/// A completed file.
pub struct Sealed {
    /// The seal, which the manifest records to identify the file.
    pub seal: u64,
    /// The bytes of the file, if it was written to memory.
    pub bytes: Option<Vec<u8>>,
}

impl SealedWriter {
    /// Creates a file, replacing one that a crash left behind.
    pub fn create(path: &Path, kind: Kind) -> Result<Self> {
        let file = File::create(path).map_err(IndexError::io(path))?;
        Self::new(path, kind, Sink::File(EarlySync::new(file)))
    }

    /// Starts a file in memory; errors give `name` as the path.
    pub fn in_memory(name: &str, kind: Kind) -> Result<Self> {
        Self::new(Path::new(name), kind, Sink::Memory(Vec::new()))
    }

    fn new(path: &Path, kind: Kind, mut sink: Sink) -> Result<Self> {
        sink.write(&kind.header()).map_err(IndexError::io(path))?;
        let (path, page) = (path.to_owned(), Vec::with_capacity(PAGE));
        let (version, throttle) = (VERSION, None);
        Ok(SealedWriter { path, sink, kind, version, page, sums: Vec::new(), len: 0, throttle })
    }

    /// Sets the version recorded in the file, one of [`VERSIONS`](super::VERSIONS). The writer does
    /// not check that the contents match it.
    pub fn with_version(self, version: u32) -> Self {
        SealedWriter { version, ..self }
    }

    /// Limits the speed of writing.
    pub(crate) fn throttled(self, throttle: Option<Arc<Throttle>>) -> Self {
        SealedWriter { throttle, ..self }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of bytes written to the body so far.
    pub fn body_len(&self) -> u64 {
        self.len
    }

    /// Appends to the body.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.len += bytes.len() as u64;
        if !self.page.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - self.page.len()));
            self.page.extend_from_slice(now);
            if self.page.len() == PAGE {
                self.flush_page()?;
            }
            bytes = later;
        }
        // Whole pages are written without a copy.
        let (whole, rest) = bytes.split_at(bytes.len() / PAGE * PAGE);
        for page in whole.chunks_exact(PAGE) {
            self.sums.extend(xxh3_64(page).to_le_bytes());
        }
        self.write_out(whole)?;
        self.page.extend_from_slice(rest);
        Ok(())
    }

    fn write_out(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(throttle) = &self.throttle {
            throttle.wait_for(bytes.len() as u64);
        }
        self.sink.write(bytes).map_err(IndexError::io(&self.path))
    }

    fn flush_page(&mut self) -> Result<()> {
        let mut page = std::mem::take(&mut self.page);
        self.sums.extend(xxh3_64(&page).to_le_bytes());
        self.write_out(&page)?;
        page.clear();
        self.page = page;
        Ok(())
    }

    /// Completes the file. A file on disk is synced.
    pub fn finish(mut self) -> Result<Sealed> {
        if !self.page.is_empty() {
            self.flush_page()?;
        }
        let (tail, seal) = tail(self.kind, self.version, std::mem::take(&mut self.sums), self.len);
        let path = &self.path;
        self.sink.write(&tail).map_err(IndexError::io(path))?;
        let bytes = match self.sink {
            Sink::Memory(bytes) => Some(bytes),
            Sink::File(file) => {
                file.finish().map_err(IndexError::io(path))?;
                None
            }
        };
        Ok(Sealed { seal, bytes })
    }
}

/// Returns everything that follows the body, and the seal it contains.
fn tail(kind: Kind, version: u32, mut sums: Vec<u8>, len: u64) -> (Vec<u8>, u64) {
    sums.extend(len.to_le_bytes());
    sums.extend(version.to_le_bytes());
    sums.extend([0; 4]);
    let seal = seal(&kind.header(), &sums);
    sums.extend(seal.to_le_bytes());
    (sums, seal)
}

/// Builds a whole file in memory, for small files and for tests.
pub fn seal_bytes(kind: Kind, body: &[u8]) -> Vec<u8> {
    seal_bytes_as(kind, VERSION, body)
}

/// Builds a whole file of a given format version in memory.
pub fn seal_bytes_as(kind: Kind, version: u32, body: &[u8]) -> Vec<u8> {
    let mut file = kind.header().to_vec();
    file.extend_from_slice(body);
    let sums = body.chunks(PAGE).flat_map(|page| xxh3_64(page).to_le_bytes()).collect();
    file.extend(tail(kind, version, sums, body.len() as u64).0);
    file
}

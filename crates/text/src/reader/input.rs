//! An open input: decompressed, without byte order mark, read in chunks, line by line or as a
//! whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use super::chunk::{Chunk, Limits, capacity_for, without_terminator};
use super::read_ahead::ReadAhead;
use super::signature::{BOM, Compression, KIND, MAGIC, foreign};
use super::source::Source;
use crate::TextError;

const BUFFER: usize = 128 << 10;

/// A source being read. The limits bound everything that it appends to a buffer, however large
/// the compressed data becomes.
pub(super) struct Input {
    reader: Box<dyn BufRead + Send>,
    /// Replacement of `reader` if records are lines and the file is large and not compressed.
    ahead: Option<ReadAhead>,
    compressed: bool,
    /// Description of the file if it is not text, with advice.
    pub(super) foreign: Option<&'static str>,
    /// True if a chunk has been read.
    begun: bool,
    pub(super) limits: Limits,
    pub(super) source: Arc<Source>,
    /// Number of lines read so far, which is the number of the last line.
    pub(super) line: u64,
    /// Number of records cut so far, which is the ordinal of the next record.
    pub(super) records: u64,
}

impl Input {
    /// Opens `source`; `bytes_read` counts the bytes taken from the file itself.
    pub(super) fn open(
        source: Arc<Source>,
        limits: Limits,
        bytes_read: &Arc<AtomicU64>,
    ) -> Result<Self, TextError> {
        let raw: Box<dyn Read + Send> = match &source.path {
            None => Box::new(io::stdin()),
            Some(path) => {
                let file = File::open(path).map_err(|error| failure(&source, false, error))?;
                let len = source.size.filter(|_| source.format.is_lines());
                let ahead = len.and_then(|len| ReadAhead::of(&file, len, limits, bytes_read));
                if let Some(ahead) = ahead {
                    return Ok(Self::ahead(ahead, source, limits));
                }
                Box::new(file)
            }
        };
        let counted = CountingReader { inner: raw, bytes: Arc::clone(bytes_read) };
        Self::over(counted, source, limits)
    }

    /// Creates an input that gets its chunks from `ahead`.
    pub(super) fn ahead(ahead: ReadAhead, source: Arc<Source>, limits: Limits) -> Self {
        Self { ahead: Some(ahead), ..Self::new(Box::new(io::empty()), false, source, limits) }
    }

    /// Creates an input that reads from `raw`, which need not be the file that `source` names.
    pub(super) fn over(
        raw: impl Read + Send + 'static,
        source: Arc<Source>,
        limits: Limits,
    ) -> Result<Self, TextError> {
        let mut raw = BufReader::with_capacity(BUFFER, raw);
        let magic = prefix(&mut raw, MAGIC).map_err(|error| failure(&source, false, error))?;
        let compression = Compression::of(&magic);
        let raw = Cursor::new(magic).chain(raw);
        let compressed = compression.is_some();
        let plain: io::Result<Box<dyn BufRead + Send>> = match compression {
            None => Ok(Box::new(raw)),
            Some(Compression::Gzip) => {
                Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw))))
            }
            Some(Compression::Zstd) => zstd::stream::read::Decoder::with_buffer(raw)
                .map(|zstd| Box::new(BufReader::with_capacity(BUFFER, zstd)) as _),
        };
        let fail = |error| failure(&source, compressed, error);
        let mut reader = plain.map_err(fail)?;
        let mut start = prefix(&mut reader, KIND).map_err(fail)?;
        let foreign = foreign(&start);
        if start.starts_with(BOM) {
            start.drain(..BOM.len());
        }
        reader = Box::new(Cursor::new(start).chain(reader));
        Ok(Self { foreign, ..Self::new(reader, compressed, source, limits) })
    }

    fn new(
        reader: Box<dyn BufRead + Send>,
        compressed: bool,
        source: Arc<Source>,
        limits: Limits,
    ) -> Self {
        let (ahead, foreign, begun, line, records) = (None, None, false, 0, 0);
        Self { reader, ahead, compressed, foreign, begun, limits, source, line, records }
    }

    /// Appends the next line with its terminator to `out`; returns false at the end of the input.
    /// The line belongs to a record that started on line `first` and has `used` bytes already.
    pub(super) fn read_line(
        &mut self,
        out: &mut Vec<u8>,
        used: usize,
        first: u64,
    ) -> Result<bool, TextError> {
        let start = out.len();
        let room = self.limits.line.saturating_sub(used);
        // Allow two more bytes for CR and LF, which do not count towards the limit.
        let limit = u64::try_from(room.saturating_add(2)).unwrap_or(u64::MAX);
        let read = self.reader.by_ref().take(limit).read_until(b'\n', out);
        if read.map_err(|error| self.failure(error))? == 0 {
            return Ok(false);
        }
        self.line += 1;
        if without_terminator(&out[start..]).len() > room {
            return Err(self.too_long(Some(first)));
        }
        Ok(true)
    }

    /// Returns bytes that are next and not yet [consumed](Self::consume); none at the end of the
    /// input.
    pub(super) fn peek(&mut self) -> Result<&[u8], TextError> {
        let (source, compressed) = (&self.source, self.compressed);
        self.reader.fill_buf().map_err(|error| failure(source, compressed, error))
    }

    /// Returns the beginning of the next line, at most `most` bytes, without consuming it.
    pub(super) fn first_line(&mut self, most: usize) -> Result<Vec<u8>, TextError> {
        let (source, compressed, mut line) = (&self.source, self.compressed, Vec::new());
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let read = self.reader.by_ref().take(most).read_until(b'\n', &mut line);
        read.map_err(|error| failure(source, compressed, error))?;
        let rest = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = Box::new(Cursor::new(line.clone()).chain(rest));
        Ok(line)
    }

    /// Consumes this many bytes.
    pub(super) fn consume(&mut self, bytes: usize) {
        self.reader.consume(bytes);
    }

    /// Returns the next bytes, cut into lines; `None` at the end of the input. It does not add
    /// their lines to `line`.
    pub(super) fn next_chunk(&mut self) -> Result<Option<Chunk>, TextError> {
        let chunk = match &mut self.ahead {
            Some(ahead) => ahead.next(),
            None => self.read_chunk(),
        };
        chunk.map_err(|error| self.failure(error))
    }

    fn read_chunk(&mut self) -> io::Result<Option<Chunk>> {
        let size = self.limits.chunk;
        // A file that is much smaller than a chunk needs less memory.
        let len = self.source.size.and_then(|len| usize::try_from(len).ok()).unwrap_or(size);
        let mut bytes = Vec::with_capacity(capacity_for(len.min(size)));
        if self.reader.by_ref().take(size as u64).read_to_end(&mut bytes)? == 0 {
            return Ok(None);
        }
        let first = !std::mem::replace(&mut self.begun, true);
        Ok(Some(Chunk::cut(bytes, first, self.limits)))
    }

    /// Appends the rest of the input to `out`.
    pub(super) fn read_all(&mut self, out: &mut Vec<u8>) -> Result<(), TextError> {
        let limit = u64::try_from(self.limits.line.saturating_add(1)).unwrap_or(u64::MAX);
        let read = self.reader.by_ref().take(limit).read_to_end(out);
        if read.map_err(|error| self.failure(error))? > self.limits.line {
            return Err(self.too_long(None));
        }
        Ok(())
    }

    pub(super) fn too_long(&self, line: Option<u64>) -> TextError {
        TextError::RecordTooLong { location: self.source.location(line), limit: self.limits.line }
    }

    fn failure(&self, error: io::Error) -> TextError {
        failure(&self.source, self.compressed, error)
    }
}

/// Converts an error of reading. Decompressors report damage as I/O errors of many kinds, but
/// unlike them, a failure of the disk has a system error number.
fn failure(source: &Source, compressed: bool, error: io::Error) -> TextError {
    let path = source.error_path();
    if compressed && error.raw_os_error().is_none() {
        TextError::CorruptCompression { path, reason: error.to_string() }
    } else {
        TextError::Io { path, source: error }
    }
}

/// Reads the first `len` bytes, fewer only at the end of the input.
fn prefix(reader: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    reader.by_ref().take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A reader that counts the bytes read from the file itself, so that progress compares with the
/// file's size.
struct CountingReader<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

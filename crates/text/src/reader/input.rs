//! One open input: decompressed, without byte order mark, read line by line or whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use super::source::Source;
use crate::TextError;

const BUFFER: usize = 128 << 10;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A source being read. Whatever it appends to a buffer is bounded by `max_record`, however much the
/// compressed bytes unfold to.
pub(super) struct Input {
    reader: Box<dyn BufRead + Send>,
    compressed: bool,
    max_record: usize,
    /// Bytes that were read and not yet taken by `read_lines`, from `taken` on.
    ahead: Vec<u8>,
    taken: usize,
    pub(super) source: Arc<Source>,
    /// Lines read so far, so the number of the last line read.
    pub(super) line: u64,
    /// Records cut so far; the next record's ordinal.
    pub(super) records: u64,
}

impl Input {
    /// Opens `source`; `bytes_read` counts the bytes taken from the file itself.
    pub(super) fn open(
        source: Arc<Source>,
        max_record: usize,
        bytes_read: &Arc<AtomicU64>,
    ) -> Result<Self, TextError> {
        let opened = match &source.path {
            None => Ok(Box::new(io::stdin()) as Box<dyn Read + Send>),
            Some(path) => File::open(path).map(|file| Box::new(file) as Box<dyn Read + Send>),
        };
        let raw = opened.map_err(|error| failure(&source, false, error))?;
        let counted = Counted { inner: raw, bytes: Arc::clone(bytes_read) };
        Self::over(counted, source, max_record)
    }

    /// Reads from `raw`, which need not be the file that `source` names.
    pub(super) fn over(
        raw: impl Read + Send + 'static,
        source: Arc<Source>,
        max_record: usize,
    ) -> Result<Self, TextError> {
        let mut raw = BufReader::with_capacity(BUFFER, raw);
        let magic = prefix(&mut raw, 4).map_err(|error| failure(&source, false, error))?;
        let compression = Compression::of(&magic);
        let raw = Cursor::new(magic).chain(raw);
        let compressed = compression != Compression::None;
        let plain: io::Result<Box<dyn BufRead + Send>> = match compression {
            Compression::None => Ok(Box::new(raw)),
            Compression::Gzip => {
                Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw))))
            }
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(raw)
                .map(|zstd| Box::new(BufReader::with_capacity(BUFFER, zstd)) as _),
        };
        let fail = |error| failure(&source, compressed, error);
        let mut reader = plain.map_err(fail)?;
        let start = prefix(&mut reader, BOM.len()).map_err(fail)?;
        if start != BOM {
            reader = Box::new(Cursor::new(start).chain(reader));
        }
        let (ahead, taken) = (Vec::new(), 0);
        Ok(Self { reader, compressed, max_record, ahead, taken, source, line: 0, records: 0 })
    }

    /// Appends the next line with its terminator to `out`; `false` at the end of the input. The line
    /// belongs to a record that started on line `first` and holds `used` bytes already.
    pub(super) fn read_line(
        &mut self,
        out: &mut Vec<u8>,
        used: usize,
        first: u64,
    ) -> Result<bool, TextError> {
        let start = out.len();
        let room = self.max_record.saturating_sub(used);
        // Two bytes more for CR and LF, which do not count against the limit.
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

    /// Appends whole lines with their terminators, at least one and at most `most`, and about `bytes` bytes; `false` at the end of the input. Their number is not added to `line`. A line that is longer than a
    /// record may be need not be whole.
    pub(super) fn read_lines(
        &mut self,
        out: &mut Vec<u8>,
        most: usize,
        bytes: usize,
    ) -> Result<bool, TextError> {
        let start = out.len();
        let ahead = &self.ahead[self.taken..];
        let within = &ahead[..ahead.len().min(bytes)];
        if let Some(end) = end_of_lines(within, most).or_else(|| end_of_lines(ahead, 1)) {
            out.extend_from_slice(&ahead[..end]);
            self.taken += end;
            return Ok(true);
        }
        out.extend_from_slice(ahead);
        self.ahead.clear();
        self.taken = 0;
        let mut searched = start;
        loop {
            if let Some(end) = end_of_lines(&out[searched..], most) {
                let end = searched + end;
                self.ahead.extend_from_slice(&out[end..]);
                out.truncate(end);
                return Ok(true);
            }
            searched = out.len();
            if searched - start > self.max_record.saturating_add(2) {
                return Ok(true);
            }
            let limit = bytes.saturating_sub(searched - start).max(BUFFER) as u64;
            let read = self.reader.by_ref().take(limit).read_to_end(out);
            if read.map_err(|error| self.failure(error))? == 0 {
                return Ok(out.len() > start);
            }
        }
    }

    /// Refuses a line that is longer than a record may be. It counts as read.
    pub(super) fn check_line(&mut self, line: &[u8]) -> Result<(), TextError> {
        self.line += 1;
        match line.len() > self.max_record {
            true => Err(self.too_long(Some(self.line))),
            false => Ok(()),
        }
    }

    /// Appends everything that is left to `out`.
    pub(super) fn read_all(&mut self, out: &mut Vec<u8>) -> Result<(), TextError> {
        let limit = u64::try_from(self.max_record.saturating_add(1)).unwrap_or(u64::MAX);
        let read = self.reader.by_ref().take(limit).read_to_end(out);
        if read.map_err(|error| self.failure(error))? > self.max_record {
            return Err(self.too_long(None));
        }
        Ok(())
    }

    fn too_long(&self, line: Option<u64>) -> TextError {
        TextError::RecordTooLong { location: self.source.location(line), limit: self.max_record }
    }

    fn failure(&self, error: io::Error) -> TextError {
        failure(&self.source, self.compressed, error)
    }
}

/// Where the last of at most `most` whole lines ends; `None` if there is no whole one.
fn end_of_lines(bytes: &[u8], most: usize) -> Option<usize> {
    let nth = memchr::memchr_iter(b'\n', bytes).nth(most.max(1) - 1);
    nth.or_else(|| memchr::memrchr(b'\n', bytes)).map(|at| at + 1)
}

/// A line less LF or CR LF.
pub(super) fn without_terminator(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Decompressors report damage as I/O errors of many kinds; what sets a failure of the disk apart is
/// that it carries a system error number.
fn failure(source: &Source, compressed: bool, error: io::Error) -> TextError {
    let path = source.error_path();
    if compressed && error.raw_os_error().is_none() {
        TextError::CorruptCompression { path, reason: error.to_string() }
    } else {
        TextError::Io { path, source: error }
    }
}

/// The first `len` bytes, fewer only at the end of the input.
fn prefix(reader: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    reader.by_ref().take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[derive(PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// By magic bytes, because names lie and standard input has none. Parallel zstd tools begin with
    /// a skippable frame, whose magic has sixteen forms.
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Counts the bytes read from the file itself, so that progress compares with the file's size.
struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

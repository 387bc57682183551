//! Chunks: parts of an input, cut into lines by the thread that has read them.

use std::collections::VecDeque;

use super::config::ReaderConfig;

/// Size limits of chunks, and of the pieces that they are cut into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Number of bytes in a chunk; the last one may have fewer.
    pub(super) chunk: usize,
    /// Maximum length of a line ([`ReaderConfig::max_record`]).
    pub(super) line: usize,
    /// Maximum number of bytes in a batch ([`ReaderConfig::batch_bytes`]).
    pub(super) bytes: usize,
    /// Maximum number of records in a batch ([`ReaderConfig::batch_records`], but at least one).
    pub(super) records: usize,
}

impl Limits {
    /// Returns the limits of a configuration. A chunk is about as large as a batch: small ones
    /// cost calls, large ones memory.
    pub(super) fn of(config: &ReaderConfig) -> Self {
        Self {
            chunk: config.batch_bytes.clamp(128 << 10, 4 << 20),
            line: config.max_record,
            bytes: config.batch_bytes,
            records: config.batch_records.max(1),
        }
    }

    /// Returns true if a line must be kept. Blank lines are not records, but even they must not
    /// be too long.
    pub(super) fn matters(self, line: &[u8]) -> bool {
        line.len() > self.line || !line.iter().all(u8::is_ascii_whitespace)
    }
}

/// Returns the capacity for `len` bytes, so that the end of a line can usually be appended
/// without moving them.
pub(super) fn capacity_for(len: usize) -> usize {
    len + len / 8
}

/// A part of an input, cut into lines.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Pieces of the chunk, at least one. The first starts with the end of a line that began
    /// before the chunk; in the last, a line may begin that ends after the chunk.
    pub(super) pieces: Vec<Piece>,
    /// Length of the line end at the start of the chunk, with its terminator; all bytes if no
    /// line ends in the chunk.
    head: usize,
    /// Position in the last piece at which the unfinished line begins.
    pub(super) tail: usize,
    /// Number of whole lines, including blank ones.
    pub(super) lines: u64,
}

/// A part of a chunk that fits into a batch, with its lines that become records or are too long
/// for one.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: Vec<Line>,
    /// Number of lines of the input before the piece's first line.
    pub(super) before: u64,
}

/// The place of a line in a piece, without its terminator.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Number of the line, counted from 1 after the `before` lines of its piece.
    pub(super) number: u64,
}

impl Chunk {
    /// Cuts `bytes` into lines. `first` must be false if they may start within a line.
    pub(super) fn cut(bytes: Vec<u8>, first: bool, limits: Limits) -> Self {
        let mut ends = memchr::memchr_iter(b'\n', &bytes).map(|at| at + 1);
        let head = if first { 0 } else { ends.next().unwrap_or(bytes.len()) };
        let (mut found, mut start, mut lines) = (Vec::new(), head, 0);
        for next in ends {
            let line = without_terminator(&bytes[start..next]);
            lines += 1;
            if limits.matters(line) {
                found.push(Line { start, end: start + line.len(), number: lines });
            }
            start = next;
        }
        let (pieces, tail) = divide(bytes, found, start, limits);
        Self { pieces, head, tail, lines }
    }

    /// Returns the line end at the start of the chunk, with its terminator.
    pub(super) fn head(&self) -> &[u8] {
        &self.pieces[0].bytes[..self.head]
    }
}

/// Divides the lines of a chunk into pieces that fit into batches, with about equally many lines
/// each: a small rest would make a small batch.
fn divide(
    mut bytes: Vec<u8>,
    mut lines: Vec<Line>,
    mut tail: usize,
    limits: Limits,
) -> (Vec<Piece>, usize) {
    let share = lines.len().div_ceil(lines.len().div_ceil(limits.records).max(1));
    let (mut firsts, mut first) = (Vec::new(), 0);
    for (i, line) in lines.iter().enumerate() {
        if i - first >= share || i > first && line.start - lines[first].start >= limits.bytes {
            firsts.push(i);
            first = i;
        }
    }
    // Go from the last piece to the first, so that each byte is moved at most once.
    let mut pieces = VecDeque::with_capacity(firsts.len() + 1);
    for first in firsts.into_iter().rev() {
        let mut own = lines.split_off(first);
        let gone = own[0].start;
        for line in &mut own {
            line.start -= gone;
            line.end -= gone;
        }
        let mut moved = Vec::with_capacity(capacity_for(bytes.len() - gone));
        moved.extend_from_slice(&bytes[gone..]);
        bytes.truncate(gone);
        if pieces.is_empty() {
            tail -= gone;
        }
        pieces.push_front(Piece { bytes: moved, lines: own, before: 0 });
    }
    pieces.push_front(Piece { bytes, lines, before: 0 });
    (pieces.into(), tail)
}

/// Returns a line without LF or CR LF.
pub(super) fn without_terminator(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

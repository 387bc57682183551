//! Formats whose records are lines: moves lines from chunks of an input into batches.
//!
//! The thread that has read a chunk also cuts it into lines, in one pass. The bytes of a chunk
//! become those of a batch without a copy, except for the line that crosses into the next chunk:
//! its end is appended to the piece with its beginning, and the original bytes of that end stay
//! unused.

use std::collections::VecDeque;

use super::batch::RawBatch;
use super::config::ReaderConfig;
use super::input::{Input, without_terminator};
use crate::TextError;

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
    fn matters(self, line: &[u8]) -> bool {
        line.len() > self.line || !line.iter().all(u8::is_ascii_whitespace)
    }
}

/// Returns the capacity for `len` bytes, so that the end of a line can usually be appended
/// without moving them.
pub(super) fn with_room(len: usize) -> usize {
    len + len / 8
}

/// A part of an input, cut into lines.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Pieces of the chunk, at least one. The first starts with the end of a line that began
    /// before the chunk; in the last, a line may begin that ends after the chunk.
    pieces: Vec<Piece>,
    /// Length of the line end at the start of the chunk, with its terminator; all bytes if no
    /// line ends in the chunk.
    head: usize,
    /// Position in the last piece at which the unfinished line begins.
    tail: usize,
    /// Number of whole lines, including blank ones.
    lines: u64,
}

/// A part of a chunk that fits into a batch, with its lines that become records or are too long
/// for one.
#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// Number of lines of the input before the piece's first line.
    before: u64,
}

#[derive(Debug)]
struct Line {
    start: usize,
    end: usize,
    /// Line number, counted from 1.
    number: u64,
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

    fn head(&self) -> &[u8] {
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
        let mut moved = Vec::with_capacity(with_room(bytes.len() - gone));
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

/// The state of moving lines from an input to batches.
#[derive(Default)]
pub(super) struct Cutter {
    /// Pieces to move into batches next.
    ready: VecDeque<Piece>,
    /// The last piece of the current chunk, and the position of its unfinished line, which the
    /// next chunk continues.
    open: Option<(Piece, usize)>,
}

impl Cutter {
    /// Moves the lines of the next piece to the batch. If they do not fit, it closes the batch.
    pub(super) fn cut(
        &mut self,
        input: &mut Input,
        batch: &mut RawBatch,
    ) -> Result<bool, TextError> {
        let Some(piece) = self.next(input)? else { return Ok(false) };
        let (Some(first), Some(last)) = (piece.lines.first(), piece.lines.last()) else {
            return Ok(true);
        };
        let used = first.start..last.end;
        if !batch.has_room(piece.lines.len(), used.len()) {
            self.ready.push_front(piece);
            batch.close();
            return Ok(true);
        }
        let (at, gone) = match batch.is_empty() {
            true => {
                batch.bytes = piece.bytes;
                (0, 0)
            }
            false => {
                let at = batch.bytes.len();
                batch.bytes.extend_from_slice(&piece.bytes[used.clone()]);
                (at, used.start)
            }
        };
        for Line { start, end, number } in piece.lines {
            let number = piece.before + number;
            if end - start > input.limits.line {
                return Err(input.too_long(Some(number)));
            }
            batch.push(input, at + start - gone, at + end - gone, Some(number));
        }
        Ok(true)
    }

    fn next(&mut self, input: &mut Input) -> Result<Option<Piece>, TextError> {
        while self.ready.is_empty() && self.advance(input)? {}
        Ok(self.ready.pop_front())
    }

    /// Takes the next chunk; returns false at the end of the input.
    fn advance(&mut self, input: &mut Input) -> Result<bool, TextError> {
        let chunk = input.next_chunk()?;
        if let Some((mut piece, tail)) = self.open.take() {
            if let Some(chunk) = &chunk {
                piece.bytes.extend_from_slice(chunk.head());
                if !chunk.head().ends_with(b"\n") {
                    // Allow one more byte for the CR of an incomplete CR LF.
                    match piece.bytes.len() - tail > input.limits.line.saturating_add(1) {
                        // The line is rejected after the lines before it have gone into batches.
                        true => self.finish(piece, tail, input),
                        false => self.open = Some((piece, tail)),
                    }
                    return Ok(true);
                }
            }
            self.finish(piece, tail, input);
        }
        let Some(Chunk { mut pieces, tail, lines, .. }) = chunk else { return Ok(false) };
        for piece in &mut pieces {
            piece.before = input.line;
        }
        input.line += lines;
        self.open = pieces.pop().map(|last| (last, tail));
        self.ready.extend(pieces);
        Ok(true)
    }

    /// Adds the line that begins at `tail`, which is now complete, unless it is the empty one at
    /// the end of the input.
    fn finish(&mut self, mut piece: Piece, tail: usize, input: &mut Input) {
        let line = without_terminator(&piece.bytes[tail..]);
        let (len, matters) = (line.len(), input.limits.matters(line));
        input.line += u64::from(piece.bytes.len() > tail);
        if matters {
            let Limits { records, bytes, .. } = input.limits;
            let full = piece.lines.len() >= records
                || piece.lines.first().is_some_and(|first| tail - first.start >= bytes);
            let mut start = tail;
            if full {
                let rest = Piece { bytes: piece.bytes.split_off(tail), ..Piece::default() };
                self.ready.push_back(std::mem::replace(&mut piece, rest));
                start = 0;
            }
            let number = input.line - piece.before;
            piece.lines.push(Line { start, end: start + len, number });
        }
        self.ready.push_back(piece);
    }
}

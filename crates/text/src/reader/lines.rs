//! Formats whose records are lines: moves lines from chunks of an input into batches.
//!
//! The thread that has read a chunk also cuts it into lines, in one pass. The bytes of a chunk
//! become those of a batch without a copy, except for the line that crosses into the next chunk:
//! its end is appended to the piece with its beginning, and the original bytes of that end stay
//! unused.

use std::collections::VecDeque;

use super::batch::RawBatch;
use super::chunk::{Chunk, Limits, Line, Piece, without_terminator};
use super::input::Input;
use crate::TextError;

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
        if !batch.fits(piece.lines.len(), used.len()) {
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

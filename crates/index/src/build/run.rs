//! Sorted runs on disk: what an inverter spilled.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use warpseek_codec::varint::{self, Cursor};

use super::invert::{Inverter, next_posting};
use super::sources::{ListSource, Part};
use crate::container::map;
use crate::error::{IndexError, Result};

/// Writes all that the inverter holds to `path` and empties it; returns the number of terms.
pub(super) fn spill(inverter: &mut Inverter, path: &Path) -> Result<u64> {
    let io = |source| IndexError::Io { path: path.to_owned(), source };
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io)?);
    let (mut head, mut terms) = (Vec::new(), 0);
    inverter.drain(|term, count, postings| {
        head.clear();
        varint::write(&mut head, term.len() as u64);
        head.extend_from_slice(term);
        varint::write(&mut head, u64::from(count));
        varint::write(&mut head, postings.len() as u64);
        terms += 1;
        file.write_all(&head).and_then(|()| file.write_all(postings)).map_err(io)
    })?;
    file.flush().map_err(io)?;
    Ok(terms)
}

/// A run, mapped.
pub(super) struct Run {
    path: PathBuf,
    bytes: Mmap,
}

impl Run {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Run { path: path.to_owned(), bytes: map(path)? })
    }

    pub(super) fn source(&self) -> RunSource<'_> {
        RunSource { run: self, cursor: Cursor::new(&self.bytes), term: &[], list: (&[], 0) }
    }
}

/// The lists of a run, in term order.
pub(super) struct RunSource<'a> {
    run: &'a Run,
    cursor: Cursor<'a>,
    term: &'a [u8],
    list: (&'a [u8], u32),
}

impl<'a> RunSource<'a> {
    fn step(&mut self) -> Option<()> {
        let len = self.cursor.varint()? as usize;
        self.term = self.cursor.take(len)?;
        let count = self.cursor.varint32()?;
        let len = self.cursor.varint()? as usize;
        self.list = (self.cursor.take(len)?, count);
        Some(())
    }
}

impl<'a> ListSource for RunSource<'a> {
    type Part = RunPart<'a>;

    fn advance(&mut self) -> Result<bool> {
        if self.cursor.rest().is_empty() {
            return Ok(false);
        }
        self.step().ok_or_else(|| IndexError::corrupt(&self.run.path, "the run is malformed"))?;
        Ok(true)
    }

    fn term(&self) -> &[u8] {
        self.term
    }

    fn part(&self) -> RunPart<'a> {
        RunPart { run: self.run, postings: self.list.0, count: self.list.1 }
    }
}

/// One list of a run.
pub(super) struct RunPart<'a> {
    run: &'a Run,
    postings: &'a [u8],
    count: u32,
}

impl Part for RunPart<'_> {
    fn weight(&self) -> usize {
        self.postings.len()
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn load(&self, out: &mut Vec<(u32, u32)>) -> Result<()> {
        let mut cursor = Cursor::new(self.postings);
        let mut doc = 0u32;
        out.reserve(self.count as usize);
        for _ in 0..self.count {
            match next_posting(&mut cursor, &mut doc) {
                Some(posting) => out.push(posting),
                None => return Err(IndexError::corrupt(&self.run.path, "the run is malformed")),
            }
        }
        Ok(())
    }
}

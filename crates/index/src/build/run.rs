//! Sorted runs of postings, which inverters spill to disk or keep in memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use warpseek_codec::varint::{self, Cursor};

use super::invert::{Inverter, next_posting};
use super::sorted::SortedLists;
use super::sources::{ListSource, Part};
use crate::error::{IndexError, Result};
use crate::files::container::map;

/// The path that errors give for a run in memory.
const IN_MEMORY: &str = "a run in memory";

/// Writes everything that the inverter holds to `path` and empties it. Returns the number of
/// terms.
pub(super) fn spill(inverter: &mut Inverter, path: &Path) -> Result<u64> {
    let mut writer = RunWriter::create(path)?;
    inverter
        .drain(|term, count, postings, positions| writer.add(term, count, postings, positions))?;
    writer.finish()
}

/// Empties the inverter into a run in memory.
pub(super) fn run_of(inverter: &mut Inverter) -> Result<Run> {
    let mut writer = RunWriter::new(Path::new(IN_MEMORY), Vec::new());
    inverter
        .drain(|term, count, postings, positions| writer.add(term, count, postings, positions))?;
    Ok(Run(Storage::Bytes(writer.out)))
}

/// A writer of a run, to which terms are added in order.
pub(super) struct RunWriter<'a, W> {
    path: &'a Path,
    out: W,
    head: Vec<u8>,
    terms: u64,
}

impl<'a> RunWriter<'a, BufWriter<File>> {
    pub(super) fn create(path: &'a Path) -> Result<Self> {
        let file = File::create(path).map_err(IndexError::io(path))?;
        Ok(Self::new(path, BufWriter::with_capacity(1 << 20, file)))
    }
}

impl<'a, W: Write> RunWriter<'a, W> {
    fn new(path: &'a Path, out: W) -> Self {
        RunWriter { path, out, head: Vec::new(), terms: 0 }
    }

    /// Adds a term with its number of postings, their bytes, and the bytes of their positions, if
    /// there are any.
    pub(super) fn add(
        &mut self,
        term: &[u8],
        count: u32,
        postings: &[u8],
        positions: &[u8],
    ) -> Result<()> {
        self.head.clear();
        varint::write(&mut self.head, term.len() as u64);
        self.head.extend_from_slice(term);
        varint::write(&mut self.head, u64::from(count));
        varint::write(&mut self.head, postings.len() as u64);
        varint::write(&mut self.head, positions.len() as u64);
        self.terms += 1;
        let mut parts = [&self.head, postings, positions].into_iter();
        let written = parts.try_for_each(|part| self.out.write_all(part));
        written.map_err(IndexError::io(self.path))
    }

    /// Completes the run and returns the number of terms.
    pub(super) fn finish(mut self) -> Result<u64> {
        self.out.flush().map_err(IndexError::io(self.path))?;
        Ok(self.terms)
    }
}

/// A run that is mapped or in memory.
pub(super) struct Run(Storage);

enum Storage {
    Disk {
        path: PathBuf,
        bytes: Mmap,
    },
    /// The bytes of a written run, in memory.
    Bytes(Vec<u8>),
    Memory(SortedLists),
}

impl Run {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Run(Storage::Disk { path: path.to_owned(), bytes: map(path)? }))
    }

    pub(super) fn in_memory(lists: SortedLists) -> Self {
        Run(Storage::Memory(lists))
    }

    /// Returns the number of terms of lists in memory, and 0 for a written run, whose terms were
    /// counted when it was written.
    pub(super) fn terms(&self) -> u64 {
        match &self.0 {
            Storage::Disk { .. } | Storage::Bytes(_) => 0,
            Storage::Memory(lists) => lists.terms() as u64,
        }
    }

    /// Returns the lists of the run, if they are in memory.
    pub(super) fn lists(&self) -> Option<&SortedLists> {
        match &self.0 {
            Storage::Disk { .. } | Storage::Bytes(_) => None,
            Storage::Memory(lists) => Some(lists),
        }
    }

    pub(super) fn source(&self) -> RunSource<'_> {
        let written = |path, bytes| RunSource::Written {
            path,
            cursor: Cursor::new(bytes),
            term: &[],
            list: RunList::default(),
        };
        match &self.0 {
            Storage::Disk { path, bytes } => written(path, bytes),
            Storage::Bytes(bytes) => written(Path::new(IN_MEMORY), bytes),
            Storage::Memory(lists) => RunSource::Memory { lists, next: 0 },
        }
    }
}

/// A source of the lists of a run, in term order.
pub(super) enum RunSource<'a> {
    Written { path: &'a Path, cursor: Cursor<'a>, term: &'a [u8], list: RunList<'a> },
    Memory { lists: &'a SortedLists, next: usize },
}

/// The bytes of a list's postings and positions, and the number of postings.
#[derive(Clone, Copy, Default)]
pub(super) struct RunList<'a> {
    postings: &'a [u8],
    positions: &'a [u8],
    count: u32,
}

/// Reads the next term and its list.
fn step<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a [u8], RunList<'a>)> {
    let len = cursor.varint()? as usize;
    let term = cursor.take(len)?;
    let count = cursor.varint32()?;
    let (postings, positions) = (cursor.varint()? as usize, cursor.varint()? as usize);
    let (postings, positions) = (cursor.take(postings)?, cursor.take(positions)?);
    Some((term, RunList { postings, positions, count }))
}

impl<'a> ListSource for RunSource<'a> {
    type Part = RunPart<'a>;

    fn advance(&mut self) -> Result<bool> {
        match self {
            RunSource::Written { path, cursor, term, list } => {
                if cursor.rest().is_empty() {
                    return Ok(false);
                }
                let next = step(cursor);
                (*term, *list) =
                    next.ok_or_else(|| IndexError::corrupt(path, "the run is malformed"))?;
                Ok(true)
            }
            RunSource::Memory { lists, next } => {
                *next += 1;
                Ok(*next <= lists.terms())
            }
        }
    }

    fn term(&self) -> &[u8] {
        match self {
            RunSource::Written { term, .. } => term,
            RunSource::Memory { lists, next } => lists.term(next - 1),
        }
    }

    fn part(&self) -> RunPart<'a> {
        match *self {
            RunSource::Written { path, list, .. } => RunPart::Written { path, list },
            RunSource::Memory { lists, next } => RunPart::Memory { lists, rank: next - 1 },
        }
    }
}

/// A list of a run.
pub(super) enum RunPart<'a> {
    Written { path: &'a Path, list: RunList<'a> },
    Memory { lists: &'a SortedLists, rank: usize },
}

impl Part for RunPart<'_> {
    fn weight(&self) -> usize {
        match self {
            RunPart::Written { list, .. } => list.postings.len() + list.positions.len(),
            // Approximately the size that they would have on disk.
            RunPart::Memory { lists, rank } => 2 * lists.count(*rank),
        }
    }

    fn count(&self) -> u32 {
        match self {
            RunPart::Written { list, .. } => list.count,
            RunPart::Memory { lists, rank } => lists.count(*rank) as u32,
        }
    }

    fn load(&self, out: &mut Vec<(u32, u32)>, positions: Option<&mut Vec<u32>>) -> Result<()> {
        match *self {
            RunPart::Memory { lists, rank } => {
                lists.load(rank, out);
                if let Some(positions) = positions {
                    lists.load_positions(rank, positions);
                }
            }
            RunPart::Written { path, list: RunList { postings, positions: bytes, count } } => {
                let malformed = || IndexError::corrupt(path, "the run is malformed");
                if let Some(positions) = positions {
                    let mut cursor = Cursor::new(bytes);
                    while !cursor.rest().is_empty() {
                        positions.push(cursor.varint32().ok_or_else(malformed)?);
                    }
                }
                let mut cursor = Cursor::new(postings);
                let mut doc = 0u32;
                out.reserve(count as usize);
                for _ in 0..count {
                    match next_posting(&mut cursor, &mut doc) {
                        Some(posting) => out.push(posting),
                        None => return Err(malformed()),
                    }
                }
            }
        }
        Ok(())
    }
}

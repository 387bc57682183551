//! Lengths, norms and static scores (docs/format/documents.md).

use warpseek_codec::varint::Cursor;
use warpseek_core::limits::MAX_DOCS;

use crate::container::{SealedFile, SealedWriter};
use crate::error::Result;

const HEADER: u64 = 24;

/// The table while a segment is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentTable {
    pub(crate) lengths: Vec<u32>,
    pub(crate) norms: Vec<f32>,
    pub(crate) statics: Vec<f32>,
}

impl DocumentTable {
    pub(crate) fn tokens(&self) -> u64 {
        self.lengths.iter().map(|&l| u64::from(l)).sum()
    }

    /// Writes the file and returns its seal.
    pub(crate) fn write(&self, mut file: SealedWriter) -> Result<u64> {
        let width = match self.lengths.iter().max() {
            None | Some(..=0xff) => 1,
            Some(..=0xffff) => 2,
            Some(_) => 4,
        };
        let has_statics = self.statics.iter().any(|&s| s != 0.0);
        file.write(&(self.lengths.len() as u64).to_le_bytes())?;
        file.write(&self.tokens().to_le_bytes())?;
        file.write(&[width as u8, u8::from(has_statics), 0, 0, 0, 0, 0, 0])?;
        for length in &self.lengths {
            file.write(&length.to_le_bytes()[..width])?;
        }
        let padding = file.body_len().next_multiple_of(4) - file.body_len();
        file.write(&[0; 3][..padding as usize])?;
        for norm in &self.norms {
            file.write(&norm.to_le_bytes())?;
        }
        for score in self.statics.iter().filter(|_| has_statics) {
            file.write(&score.to_le_bytes())?;
        }
        file.finish()
    }
}

/// The lengths of a segment's documents, at the width they are kept in.
#[derive(Clone, Copy, Debug)]
pub enum Lengths<'a> {
    /// One byte each.
    U8(&'a [u8]),
    /// Two bytes each, little endian.
    U16(&'a [[u8; 2]]),
    /// Four bytes each, little endian.
    U32(&'a [[u8; 4]]),
}

impl Lengths<'_> {
    /// Length of a document of the segment.
    #[inline]
    pub fn get(&self, doc: u32) -> u32 {
        match self {
            Lengths::U8(lengths) => u32::from(lengths[doc as usize]),
            Lengths::U16(lengths) => u32::from(u16::from_le_bytes(lengths[doc as usize])),
            Lengths::U32(lengths) => u32::from_le_bytes(lengths[doc as usize]),
        }
    }
}

/// One number a document.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'a>(&'a [[u8; 4]]);

impl Floats<'_> {
    /// The number of a document of the segment.
    #[inline]
    pub fn get(&self, doc: u32) -> f32 {
        f32::from_le_bytes(self.0[doc as usize])
    }
}

/// The table on disk.
pub struct Documents {
    file: SealedFile,
    count: u32,
    tokens: u64,
    width: u8,
    has_statics: bool,
}

impl Documents {
    /// Checks the layout and every page: engines read this table without asking.
    pub fn new(file: SealedFile) -> Result<Self> {
        let mut header = Cursor::new(file.all()?);
        let (Some(count), Some(tokens), Some(flags)) = (header.u64(), header.u64(), header.u64())
        else {
            return Err(file.corrupt("it has no room for its header"));
        };
        let [width, statics, padding @ ..] = flags.to_le_bytes();
        if !matches!(width, 1 | 2 | 4) || statics > 1 || padding != [0; 6] {
            return Err(file.corrupt("its header is malformed"));
        }
        if count > MAX_DOCS {
            return Err(file.corrupt(format!("{count} documents are too many")));
        }
        let lengths = (HEADER + count * u64::from(width)).next_multiple_of(4);
        if file.body_len() != lengths + 4 * count * (1 + u64::from(statics)) {
            return Err(file.corrupt("its size is not that of its tables"));
        }
        Ok(Documents { file, count: count as u32, tokens, width, has_statics: statics == 1 })
    }

    /// The file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Number of documents, deleted ones included.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Sum of all lengths.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Lengths of all documents.
    pub fn lengths(&self) -> Result<Lengths<'_>> {
        let bytes = self.file.bytes(HEADER, u64::from(self.count) * u64::from(self.width))?;
        Ok(match self.width {
            1 => Lengths::U8(bytes),
            2 => Lengths::U16(bytes.as_chunks().0),
            _ => Lengths::U32(bytes.as_chunks().0),
        })
    }

    /// Norms of all documents.
    pub fn norms(&self) -> Result<Floats<'_>> {
        self.floats(0)
    }

    /// Static scores of all documents, if they have any.
    pub fn statics(&self) -> Result<Option<Floats<'_>>> {
        self.has_statics.then(|| self.floats(1)).transpose()
    }

    fn floats(&self, table: u64) -> Result<Floats<'_>> {
        let count = u64::from(self.count);
        let start = (HEADER + count * u64::from(self.width)).next_multiple_of(4);
        Ok(Floats(self.file.bytes(start + 4 * count * table, 4 * count)?.as_chunks().0))
    }
}

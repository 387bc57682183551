//! Document attributes in columns, for filters, sorting, counts and display.
//!
//! A column holds the values of one attribute by position (docs/reference/formats/attributes.md).
//! Numbers are packed into as few bits as they need. Keywords are numbered in sorted order, so
//! that two keywords of a segment compare by ordinal, and each keyword has the list of its
//! documents.
//!
//! Bytes are checked as they are read. Opening a file checks its directory, opening a column
//! checks the sizes of its tables, and reading a table returns an error if its contents cannot be
//! relied upon. A forged table may yield wrong numbers and ordinals, but never ones that are out
//! of range.

mod cache;
mod dictionary;
mod filter;
mod filter_key;
mod keywords;
mod lists;
mod merge;
mod numbers;
#[cfg(test)]
mod tests;
mod value;
mod write;

use warpseek_codec::varint::Cursor;

use crate::error::Result;
use crate::files::bits::Section;
use crate::files::container::SealedFile;
use crate::files::deletes::DocSet;

pub use cache::{FilterCache, FilterCacheUsage};
pub use filter::Filter;
pub use keywords::{KeywordOrdinals, Keywords};
pub use merge::{AttributesSource, merge_attributes};
pub use numbers::Numbers;
pub use value::AttributeValue;
pub use warpseek_text::{AttributeKind, MAX_KEYWORD_BYTES};
pub use write::AttributesWriter;

const ENTRY: u64 = 24;
const FOOTER: u64 = 8;

/// The columns of a segment.
pub struct Attributes {
    file: SealedFile,
    documents: u32,
    columns: Vec<Entry>,
}

struct Entry {
    number: u16,
    kind: AttributeKind,
    start: u64,
    len: u64,
}

impl Attributes {
    /// Opens the columns of a segment of `documents` documents and checks their directory.
    pub fn new(file: SealedFile, documents: u32) -> Result<Self> {
        let len = file.body_len();
        let mut footer = Cursor::new(file.bytes(len.saturating_sub(FOOTER), FOOTER.min(len))?);
        let (Some(counted), Some(columns)) = (footer.u32(), footer.u32()) else {
            return Err(file.corrupt("it is too short for its counts"));
        };
        if counted != documents {
            return Err(file.corrupt(format!("it has {counted} documents, not {documents}")));
        }
        let Some(data) = len.checked_sub(FOOTER + ENTRY * u64::from(columns)) else {
            return Err(file.corrupt("it is too short for its directory"));
        };
        let columns = read_directory(file.bytes(data, ENTRY * u64::from(columns))?, data)
            .ok_or_else(|| file.corrupt("its directory is malformed"))?;
        Ok(Attributes { file, documents, columns })
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the number of documents of the segment.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Iterates over the attributes that documents of the segment have, by ascending number.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (u16, AttributeKind)> + '_ {
        self.columns.iter().map(|entry| (entry.number, entry.kind))
    }

    /// Opens the column of an attribute, or returns `None` if no document has a value.
    pub fn column(&self, number: u16) -> Result<Option<Column<'_>>> {
        let found = self.columns.binary_search_by_key(&number, |entry| entry.number);
        found.ok().map(|i| self.open(&self.columns[i])).transpose()
    }

    /// Returns the size in bytes of an attribute's column, or 0 if no document has a value.
    pub fn column_len(&self, number: u16) -> u64 {
        self.columns.iter().find(|entry| entry.number == number).map_or(0, |entry| entry.len)
    }

    fn open(&self, entry: &Entry) -> Result<Column<'_>> {
        let section = Section::new(&self.file, entry.start, entry.len);
        Ok(match entry.kind {
            AttributeKind::Keyword => {
                Column::Keywords(Keywords::new(&self.file, section, self.documents)?)
            }
            kind => Column::Numbers(Numbers::new(&self.file, section, kind, self.documents)?),
        })
    }

    /// Checks every byte: each column must equal the encoding of its values.
    pub fn verify(&self) -> Result<()> {
        for entry in &self.columns {
            let again = match self.open(entry)? {
                Column::Numbers(column) => {
                    numbers::encode(&column.pairs().collect::<Vec<_>>(), self.documents)
                }
                Column::Keywords(column) => column.encode_again()?,
            };
            if again != self.file.bytes(entry.start, entry.len)? {
                let number = entry.number;
                return Err(self.file.corrupt(format!("the tables of column {number} disagree")));
            }
        }
        Ok(())
    }
}

/// Reads the entries of columns that fill `data` bytes.
fn read_directory(bytes: &[u8], data: u64) -> Option<Vec<Entry>> {
    let (mut columns, mut end) = (Vec::<Entry>::new(), 0u64);
    for bytes in bytes.as_chunks::<{ ENTRY as usize }>().0 {
        let mut cursor = Cursor::new(bytes);
        let [low, high, kind, zero @ ..] = cursor.u64()?.to_le_bytes();
        let number = u16::from_le_bytes([low, high]);
        let (start, len) = (cursor.u64()?, cursor.u64()?);
        let ascends = columns.last().is_none_or(|last| last.number < number);
        if !ascends || zero != [0; 5] || start != end || len % 8 != 0 {
            return None;
        }
        end = end.checked_add(len).filter(|&end| end <= data)?;
        columns.push(Entry { number, kind: value::kind_of(kind)?, start, len });
    }
    (end == data).then_some(columns)
}

/// The values of one attribute.
#[derive(Clone, Copy)]
pub enum Column<'a> {
    /// Integers, floats, booleans or dates.
    Numbers(Numbers<'a>),
    /// Keywords.
    Keywords(Keywords<'a>),
}

impl Column<'_> {
    /// Returns the type of the values.
    pub fn kind(&self) -> AttributeKind {
        match self {
            Column::Numbers(column) => column.kind(),
            Column::Keywords(_) => AttributeKind::Keyword,
        }
    }

    /// Returns true if a document has a value.
    pub fn has(&self, doc: u32) -> bool {
        match self {
            Column::Numbers(column) => column.has(doc),
            Column::Keywords(column) => column.has(doc),
        }
    }

    /// Returns the values of a document: none, one, or its keywords in sorted order.
    pub fn values(&self, doc: u32) -> Result<Vec<AttributeValue>> {
        match self {
            Column::Numbers(column) => {
                let value = column.key(doc).and_then(|key| column.kind().value_of_key(key));
                Ok(value.into_iter().collect())
            }
            Column::Keywords(column) => {
                let ordinals = column.ordinals()?;
                let values = ordinals
                    .of(doc)
                    .map(|o| column.value(o).map(|value| AttributeValue::Keyword(value.into())));
                values.collect()
            }
        }
    }

    /// Adds the documents with a value to `out`.
    pub fn exists_into(&self, out: &mut DocSet) {
        match self {
            Column::Numbers(column) => column.exists_into(out),
            Column::Keywords(column) => column.exists_into(out),
        }
    }
}

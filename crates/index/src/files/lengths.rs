//! Lengths of documents in all text fields except the first (docs/reference/formats/fields.md).

use warpseek_codec::varint::Cursor;

use crate::error::Result;
use crate::files::container::{COMPACT, Sealed, SealedFile, SealedWriter};
use crate::files::length_table::{self, LengthTable, Lengths, width_of};

const HEADER: u64 = 24;

/// Writes the file. Each field has the lengths of all documents.
pub(crate) fn write_lengths(fields: &[Vec<u32>], mut file: SealedWriter) -> Result<Sealed> {
    let mut table = Vec::new();
    for lengths in fields {
        table.clear();
        length_table::write(&mut table, lengths, [0; 3]);
        file.write(&table)?;
    }
    file.finish()
}

/// The tables of lengths on disk.
pub struct FieldLengths {
    file: SealedFile,
    fields: Vec<Table>,
}

/// The lengths in one field.
enum Table {
    /// Location of the lengths in the file, and their width in bytes.
    Bytes { start: u64, len: u64, width: u8 },
    /// Lengths that are packed in the file and unpacked here.
    Packed(LengthTable),
}

impl FieldLengths {
    /// Opens the tables of a segment with `documents` documents and `fields` text fields besides
    /// the first. Checks the layout and every page, since engines read these tables without
    /// further checks.
    pub fn new(file: SealedFile, documents: u32, fields: usize) -> Result<Self> {
        let tables = match file.version() >= COMPACT {
            true => read_packed(file.all()?, documents, fields),
            false => read_tables(file.all()?, u64::from(documents), fields),
        };
        match tables {
            Some(fields) => Ok(FieldLengths { file, fields }),
            None => Err(file.corrupt("its tables are malformed")),
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the lengths in a field, of which 1 is the first here, or `None` if the segment
    /// does not know the field.
    pub fn get(&self, field: u8) -> Result<Option<Lengths<'_>>> {
        let table = usize::from(field).checked_sub(1).and_then(|i| self.fields.get(i));
        match table {
            None => Ok(None),
            Some(Table::Packed(table)) => Ok(Some(table.view())),
            Some(&Table::Bytes { start, len, width }) => {
                Ok(Some(Lengths::new(self.file.bytes(start, len)?, width)))
            }
        }
    }
}

fn read_packed(body: &[u8], documents: u32, fields: usize) -> Option<Vec<Table>> {
    let (mut tables, mut cursor) = (Vec::new(), Cursor::new(body));
    for _ in 0..fields {
        let table = length_table::read(&mut cursor)?;
        if table.count != documents || table.flags != [0; 3] {
            return None;
        }
        tables.push(Table::Packed(table.lengths));
    }
    cursor.rest().is_empty().then_some(tables)
}

/// Reads the tables of versions 1 and 2, whose lengths have whole bytes.
fn read_tables(body: &[u8], documents: u64, fields: usize) -> Option<Vec<Table>> {
    let (mut tables, mut start) = (Vec::new(), 0u64);
    for _ in 0..fields {
        let header = body.get(start as usize..)?.get(..HEADER as usize)?;
        let mut header = Cursor::new(header);
        let (counted, tokens, width) = (header.u64()?, header.u64()?, header.u64()?);
        // The width occupies a whole word, whose other bytes are zero.
        if counted != documents || !matches!(width, 1 | 2 | 4) {
            return None;
        }
        let (at, len) = (start + HEADER, documents * width);
        let end = (at + len).next_multiple_of(8);
        let bytes = body.get(at as usize..end as usize)?;
        let (bytes, padding) = bytes.split_at(len as usize);
        let lengths = Lengths::new(bytes, width as u8);
        let (sum, largest) = lengths
            .iter()
            .fold((0, 0), |(sum, largest), length| (sum + u64::from(length), length.max(largest)));
        if sum != tokens
            || width_of(largest) as u64 != width
            || padding.iter().any(|&byte| byte != 0)
        {
            return None;
        }
        tables.push(Table::Bytes { start: at, len, width: width as u8 });
        start = end;
    }
    (start == body.len() as u64).then_some(tables)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::files::container::{Kind, seal_bytes, seal_bytes_as};

    fn body(fields: &[Vec<u32>]) -> Vec<u8> {
        let file = SealedWriter::in_memory("l", Kind::Lengths).unwrap();
        let bytes = write_lengths(fields, file).unwrap().bytes.unwrap();
        SealedFile::from_bytes("l", Kind::Lengths, bytes).unwrap().all().unwrap().to_vec()
    }

    fn open(body: &[u8], documents: u32, fields: usize) -> Result<FieldLengths> {
        let bytes = seal_bytes(Kind::Lengths, body);
        let file = SealedFile::from_bytes("l", Kind::Lengths, bytes).unwrap();
        FieldLengths::new(file, documents, fields)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            fields in (0usize..40).prop_flat_map(|n| {
                let length = prop_oneof![0u32..3, 250u32..260, 65_530u32..65_540, any::<u32>()];
                proptest::collection::vec(proptest::collection::vec(length, n), 1..5)
            }),
        ) {
            let n = fields[0].len() as u32;
            let read = open(&body(&fields), n, fields.len()).unwrap();
            for (field, lengths) in (1..).zip(&fields) {
                let found = read.get(field).unwrap().unwrap();
                prop_assert_eq!(found.count(), lengths.len());
                prop_assert!((0..n).all(|doc| found.get(doc) == lengths[doc as usize]));
            }
            prop_assert!(read.get(0).unwrap().is_none());
            prop_assert!(read.get(fields.len() as u8 + 1).unwrap().is_none());
        }
    }

    #[test]
    fn forged_bytes_are_refused() {
        let good = body(&[vec![1, 2, 300], vec![0, 7, 9]]);
        assert!(open(&good, 3, 2).is_ok());
        for (documents, fields) in [(2, 2), (4, 2), (3, 1), (3, 3)] {
            assert!(open(&good, documents, fields).is_err());
        }
        for at in 0..good.len() {
            assert!(open(&good[..at], 3, 2).is_err(), "cut at {at}");
        }
        // The header determines what follows, and the sum reveals changes of single lengths. Bits
        // after the last length have no meaning.
        for at in (0..24).chain([24]) {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(open(&bad, 3, 2).is_err(), "byte {at}");
        }
    }

    /// Lengths of versions 1 and 2 have whole bytes and determine every other byte.
    #[test]
    fn forged_lengths_of_whole_bytes_are_refused() {
        let table = |lengths: &[u8], width: u64, tokens: u64| {
            let mut table = [3, tokens, width].map(u64::to_le_bytes).concat();
            table.extend(lengths);
            table.resize(table.len().next_multiple_of(8), 0);
            table
        };
        let good = [table(&[1, 0, 2, 0, 44, 1], 2, 303), table(&[0, 7, 9], 1, 16)].concat();
        let open = |body: &[u8], documents: u32, fields: usize| {
            let bytes = seal_bytes_as(Kind::Lengths, 2, body);
            let file = SealedFile::from_bytes("l", Kind::Lengths, bytes).unwrap();
            FieldLengths::new(file, documents, fields)
        };
        let read = open(&good, 3, 2).unwrap();
        assert!(read.get(1).unwrap().unwrap().iter().eq([1, 2, 300]));
        assert!(read.get(2).unwrap().unwrap().iter().eq([0, 7, 9]));
        for (documents, fields) in [(2, 2), (4, 2), (3, 1), (3, 3)] {
            assert!(open(&good, documents, fields).is_err());
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(open(&bad, 3, 2).is_err(), "byte {at}");
            assert!(open(&good[..at], 3, 2).is_err(), "cut at {at}");
        }
    }
}

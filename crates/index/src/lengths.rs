//! The lengths of documents in text fields but the first (docs/format/fields.md).

use warpseek_codec::varint::Cursor;

use crate::container::{Sealed, SealedFile, SealedWriter};
use crate::documents::{Lengths, tokens_of, width_of};
use crate::error::Result;

const HEADER: u64 = 24;

/// Writes the file; each field has the lengths of all documents.
pub(crate) fn write_lengths(fields: &[Vec<u32>], mut file: SealedWriter) -> Result<Sealed> {
    for lengths in fields {
        let width = width_of(lengths.iter().copied().max().unwrap_or(0));
        file.write(&(lengths.len() as u64).to_le_bytes())?;
        file.write(&tokens_of(lengths).to_le_bytes())?;
        file.write(&[width as u8, 0, 0, 0, 0, 0, 0, 0])?;
        for length in lengths {
            file.write(&length.to_le_bytes()[..width])?;
        }
        let padding = file.body_len().next_multiple_of(8) - file.body_len();
        file.write(&[0; 7][..padding as usize])?;
    }
    file.finish()
}

/// The tables on disk.
pub struct FieldLengths {
    file: SealedFile,
    fields: Vec<Table>,
}

/// Where the lengths in a field are.
struct Table {
    start: u64,
    len: u64,
    width: u8,
}

impl FieldLengths {
    /// Checks the layout and every page, since engines read these tables without further checks. The segment has `documents` documents, and `fields` text fields from 1 on.
    pub fn new(file: SealedFile, documents: u32, fields: usize) -> Result<Self> {
        let tables = read_tables(file.all()?, u64::from(documents), fields);
        match tables {
            Some(fields) => Ok(FieldLengths { file, fields }),
            None => Err(file.corrupt("its tables are malformed")),
        }
    }

    /// The file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Lengths in a field, of which 1 is the first here; `None` if the segment does not know it.
    pub fn get(&self, field: u8) -> Result<Option<Lengths<'_>>> {
        let table = usize::from(field).checked_sub(1).and_then(|i| self.fields.get(i));
        let Some(table) = table else { return Ok(None) };
        Ok(Some(Lengths::new(self.file.bytes(table.start, table.len)?, table.width)))
    }
}

fn read_tables(body: &[u8], documents: u64, fields: usize) -> Option<Vec<Table>> {
    let (mut tables, mut start) = (Vec::new(), 0u64);
    for _ in 0..fields {
        let header = body.get(start as usize..)?.get(..HEADER as usize)?;
        let mut header = Cursor::new(header);
        let (counted, tokens, width) = (header.u64()?, header.u64()?, header.u64()?);
        // The other bytes of the word are zero.
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
        tables.push(Table { start: at, len, width: width as u8 });
        start = end;
    }
    (start == body.len() as u64).then_some(tables)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::container::{Kind, seal_bytes};

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

    /// Every byte but those of lengths is determined by them, and the sum finds most changes of these.
    #[test]
    fn forged_bytes_are_refused() {
        let good = body(&[vec![1, 2, 300], vec![0, 7, 9]]);
        assert!(open(&good, 3, 2).is_ok());
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

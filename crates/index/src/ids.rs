//! External ids, both ways (docs/format/documents.md).

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::{MAX_DOCS, MAX_ID_BYTES};
use xxhash_rust::xxh3::xxh3_64;

use crate::container::{Sealed, SealedFile, SealedWriter};
use crate::error::Result;

const BLOCK_IDS: usize = 16;

/// Writes ids in document order.
pub(crate) struct IdsWriter {
    file: SealedWriter,
    starts: Vec<u8>,
    hashes: Vec<u64>,
    last: Vec<u8>,
    entry: Vec<u8>,
}

impl IdsWriter {
    pub(crate) fn new(file: SealedWriter) -> Self {
        let (starts, hashes, last, entry) = Default::default();
        IdsWriter { file, starts, hashes, last, entry }
    }

    pub(crate) fn add(&mut self, id: &str) -> Result<()> {
        let id = id.as_bytes();
        let mut shared = 0;
        if self.hashes.len().is_multiple_of(BLOCK_IDS) {
            self.starts.extend(self.file.body_len().to_le_bytes());
        } else {
            shared = id.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        }
        self.entry.clear();
        varint::write(&mut self.entry, shared as u64);
        varint::write(&mut self.entry, (id.len() - shared) as u64);
        self.entry.extend_from_slice(&id[shared..]);
        self.file.write(&self.entry)?;
        self.last.clear();
        self.last.extend_from_slice(id);
        self.hashes.push(xxh3_64(id));
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<Sealed> {
        self.starts.extend(self.file.body_len().to_le_bytes());
        self.file.write(&self.starts)?;
        let mut order: Vec<u32> = (0..self.hashes.len() as u32).collect();
        order.sort_unstable_by_key(|&doc| (self.hashes[doc as usize], doc));
        for doc in order {
            self.file.write(&doc.to_le_bytes())?;
        }
        self.file.write(&(self.hashes.len() as u64).to_le_bytes())?;
        self.file.finish()
    }
}

/// Ids on disk.
pub struct Ids {
    file: SealedFile,
    count: u32,
    data_len: u64,
    order_at: u64,
}

impl Ids {
    /// Checks the layout; blocks are checked as they are read.
    pub fn new(file: SealedFile) -> Result<Self> {
        let len = file.body_len();
        let tail = file.bytes(len.saturating_sub(8), 8.min(len))?;
        let Some(count) = Cursor::new(tail).u64().filter(|&n| n <= MAX_DOCS) else {
            return Err(file.corrupt("its count is malformed"));
        };
        let blocks = count.div_ceil(BLOCK_IDS as u64);
        let tables = 8 * (blocks + 1) + 4 * count + 8;
        let Some(data_len) = len.checked_sub(tables) else {
            return Err(file.corrupt("it has no room for its tables"));
        };
        let order_at = data_len + 8 * (blocks + 1);
        Ok(Ids { file, count: count as u32, data_len, order_at })
    }

    /// The file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Number of documents.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The external id of the document with an ordinal.
    pub fn get(&self, doc: u32) -> Result<String> {
        let mut id = Vec::new();
        self.read(doc, &mut id)?;
        String::from_utf8(id).map_err(|_| self.file.corrupt(format!("id of {doc} is not UTF-8")))
    }

    fn read(&self, doc: u32, id: &mut Vec<u8>) -> Result<()> {
        // The first id of a block must not take its prefix from an id that was read earlier.
        id.clear();
        if doc >= self.count {
            return Err(self.file.corrupt(format!("it has no document {doc}")));
        }
        let block = u64::from(doc) / BLOCK_IDS as u64;
        let table = self.file.bytes(self.data_len + 8 * block, 16)?;
        let mut table = Cursor::new(table);
        let (start, end) = (table.u64().unwrap_or(0), table.u64().unwrap_or(0));
        if start > end || end > self.data_len {
            return Err(self.file.corrupt(format!("block {block} lies outside of its data")));
        }
        let mut cursor = Cursor::new(self.file.bytes(start, end - start)?);
        for _ in 0..=doc as usize % BLOCK_IDS {
            step(&mut cursor, id)
                .ok_or_else(|| self.file.corrupt(format!("block {block} is malformed")))?;
        }
        Ok(())
    }

    /// The ordinals of the documents with this id, ascending. All but the last of them are deleted.
    pub fn find(&self, id: &str) -> Result<Vec<u32>> {
        let wanted = xxh3_64(id.as_bytes());
        let mut buffer = Vec::new();
        let mut probe = |rank: u32| -> Result<(u32, u64, bool)> {
            let mut doc = [0; 4];
            doc.copy_from_slice(self.file.bytes(self.order_at + 4 * u64::from(rank), 4)?);
            let doc = u32::from_le_bytes(doc);
            self.read(doc, &mut buffer)?;
            Ok((doc, xxh3_64(&buffer), buffer == id.as_bytes()))
        };
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if probe(middle)?.1 < wanted { low = middle + 1 } else { high = middle }
        }
        let mut found = Vec::new();
        for rank in low..self.count {
            let (doc, hash, same) = probe(rank)?;
            if hash != wanted {
                break;
            }
            if same {
                found.push(doc);
            }
        }
        Ok(found)
    }

    /// Checks that the sorted order is complete and in order; for `verify`.
    pub(crate) fn verify_order(&self) -> Result<()> {
        let order = self.file.bytes(self.order_at, 4 * u64::from(self.count))?;
        let (mut last, mut buffer) = (None, Vec::new());
        for &doc in order.as_chunks::<4>().0 {
            let doc = u32::from_le_bytes(doc);
            self.read(doc, &mut buffer)?;
            let this = Some((xxh3_64(&buffer), doc));
            if this <= last {
                return Err(self.file.corrupt(format!("document {doc} is out of order")));
            }
            last = this;
        }
        Ok(())
    }
}

fn step(cursor: &mut Cursor<'_>, id: &mut Vec<u8>) -> Option<()> {
    let shared = usize::try_from(cursor.varint()?).ok()?;
    let rest = usize::try_from(cursor.varint()?).ok()?;
    if shared > id.len() || rest > MAX_ID_BYTES {
        return None;
    }
    id.truncate(shared);
    id.extend_from_slice(cursor.take(rest)?);
    (1..=MAX_ID_BYTES).contains(&id.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{Kind, seal_bytes};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways(ids in proptest::collection::hash_set("[ab#0-9]{1,9}|\\PC{1,20}", 0..120)) {
            let ids: Vec<_> = ids.into_iter().collect();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("i");
            let mut writer = IdsWriter::new(SealedWriter::create(&path, Kind::Ids).unwrap());
            ids.iter().for_each(|id| writer.add(id).unwrap());
            writer.finish().unwrap();
            let read = Ids::new(SealedFile::open(&path, Kind::Ids).unwrap()).unwrap();
            for (doc, id) in ids.iter().enumerate() {
                prop_assert_eq!(&read.get(doc as u32).unwrap(), id);
                prop_assert_eq!(read.find(id).unwrap(), vec![doc as u32]);
            }
            prop_assert!(read.get(ids.len() as u32).is_err());
            prop_assert!(read.find("\x01absent").unwrap().is_empty());
            read.verify_order().unwrap();
        }
    }

    #[test]
    fn a_forged_first_id_borrows_from_no_other_block() {
        // Sixteen ids in the first block; the only one of the second claims a byte of an id before it.
        let mut body: Vec<u8> = (b'a'..b'q').flat_map(|id| [0, 1, id]).collect();
        body.extend([1, 1, b'z']);
        for start in [0u64, 48, 51] {
            body.extend(start.to_le_bytes());
        }
        (0..17u32).for_each(|doc| body.extend(doc.to_le_bytes()));
        body.extend(17u64.to_le_bytes());
        let file = SealedFile::from_bytes("i", Kind::Ids, seal_bytes(Kind::Ids, &body)).unwrap();
        let ids = Ids::new(file).unwrap();
        assert_eq!(ids.get(15).unwrap(), "p");
        assert!(ids.get(16).is_err());
        let mut buffer = b"p".to_vec();
        assert!(ids.read(16, &mut buffer).is_err());
    }
}

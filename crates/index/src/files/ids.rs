//! External ids, with lookups in both directions (docs/reference/formats/documents.md).

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::{MAX_DOCS, MAX_ID_BYTES};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Result;
use crate::files::bits::{self, Table};
use crate::files::container::{COMPACT, Sealed, SealedFile, SealedWriter};
use crate::files::documents::ordinal_width;

const BLOCK_IDS: usize = 16;

/// A writer of ids, which are added in document order.
pub(crate) struct IdsWriter {
    file: SealedWriter,
    starts: Vec<u64>,
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
            self.starts.push(self.file.body_len());
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
        let data_len = self.file.body_len();
        self.starts.push(data_len);
        let mut order: Vec<u32> = (0..self.hashes.len() as u32).collect();
        order.sort_unstable_by_key(|&doc| (self.hashes[doc as usize], doc));
        let (width, mut tables) = (ordinal_width(order.len() as u64), Vec::new());
        bits::write(&mut tables, bits::width_of(data_len), self.starts.iter().copied());
        bits::write(&mut tables, width, order.iter().map(|&doc| u64::from(doc)));
        for number in [data_len, order.len() as u64] {
            tables.extend(number.to_le_bytes());
        }
        self.file.write(&tables)?;
        self.file.finish()
    }
}

/// A file of external ids.
pub struct Ids {
    file: SealedFile,
    count: u32,
    data_len: u64,
    /// Starts of the blocks, followed by the end of the last one.
    starts: Table,
    /// Ordinals sorted by the hash of their ids.
    order: Table,
}

impl Ids {
    /// Opens a file of ids and checks its layout. Blocks are checked as they are read.
    pub fn new(file: SealedFile) -> Result<Self> {
        let len = file.body_len();
        let tail = file.bytes(len.saturating_sub(8), 8.min(len))?;
        let Some(count) = Cursor::new(tail).u64().filter(|&n| n <= MAX_DOCS) else {
            return Err(file.corrupt("its count is malformed"));
        };
        let placed = match file.version() >= COMPACT {
            true => {
                let tail = file.bytes(len.saturating_sub(16), 8.min(len))?;
                Cursor::new(tail).u64().and_then(|data_len| place(len, data_len, count))
            }
            false => place_words(len, count),
        };
        let Some((data_len, starts, order)) = placed else {
            return Err(file.corrupt("its size does not match its tables"));
        };
        Ok(Ids { file, count: count as u32, data_len, starts, order })
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the number of documents.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the external id of the document with this ordinal.
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
        let (start, end) =
            (self.starts.get(&self.file, block)?, self.starts.get(&self.file, block + 1)?);
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

    /// Returns the ordinal at a rank of the sorted order. The rank must be below [`Ids::count`].
    fn sorted(&self, rank: u32) -> Result<u32> {
        self.order.get(&self.file, rank.into()).map(|ordinal| ordinal as u32)
    }

    /// Returns the ordinals of the documents with this id, in ascending order. All except the
    /// last one are deleted.
    pub fn find(&self, id: &str) -> Result<Vec<u32>> {
        let wanted = xxh3_64(id.as_bytes());
        let mut buffer = Vec::new();
        let mut probe = |rank: u32| -> Result<(u32, u64, bool)> {
            let doc = self.sorted(rank)?;
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

    /// Checks that the sorted order is complete and in order, for `verify`.
    pub(crate) fn verify_order(&self) -> Result<()> {
        let (mut last, mut buffer) = (None, Vec::new());
        for rank in 0..self.count {
            let doc = self.sorted(rank)?;
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

/// Locates the tables of a file of `len` bytes, which must fill it together with the data;
/// returns `None` if they do not.
fn place(len: u64, data_len: u64, count: u64) -> Option<(u64, Table, Table)> {
    let starts = Table { at: data_len, width: bits::width_of(data_len) };
    let blocks = count.div_ceil(BLOCK_IDS as u64);
    let order = Table { at: starts.end(blocks + 1)?, width: ordinal_width(count) };
    let end = order.end(count)?.checked_add(16)?;
    (end == len).then_some((data_len, starts, order))
}

/// Locates the tables of versions 1 and 2, whose numbers have 8 and 4 bytes. The data occupies
/// the rest.
fn place_words(len: u64, count: u64) -> Option<(u64, Table, Table)> {
    let blocks = count.div_ceil(BLOCK_IDS as u64);
    let starts = 8 * (blocks + 1);
    let at = len.checked_sub(starts + 4 * count + 8)?;
    let order = Table { at: at + starts, width: 32 };
    Some((at, Table { at, width: 64 }, order))
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
    use crate::files::container::{Kind, seal_bytes_as};
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

    /// Counts and lengths must match the tables, and a start that lies outside of the data is
    /// found when it is read.
    #[test]
    fn forged_tables_are_refused() {
        let mut writer = IdsWriter::new(SealedWriter::in_memory("i", Kind::Ids).unwrap());
        (0..40).for_each(|id| writer.add(&format!("id-{id}")).unwrap());
        let file = writer.finish().unwrap().bytes.unwrap();
        let file = SealedFile::from_bytes("i", Kind::Ids, file).unwrap();
        let good = file.all().unwrap();
        let open = |body: &[u8]| {
            let bytes = seal_bytes_as(Kind::Ids, 3, body);
            Ids::new(SealedFile::from_bytes("i", Kind::Ids, bytes).unwrap())
        };
        let data_len = open(good).unwrap().data_len as usize;
        for at in good.len() - 16..good.len() {
            let mut bad = good.to_vec();
            bad[at] ^= 0x40;
            assert!(open(&bad).is_err(), "byte {at}");
        }
        for end in 0..good.len() {
            assert!(open(&good[..end]).is_err(), "cut at {end}");
        }
        let mut bad = good.to_vec();
        bad[data_len + 1..data_len + 4].fill(0xff);
        assert!(open(&bad).unwrap().get(20).is_err());
    }

    #[test]
    fn a_forged_first_id_borrows_from_no_other_block() {
        // Sixteen ids in the first block. The only id of the second block claims a byte of its
        // predecessor.
        let mut body: Vec<u8> = (b'a'..b'q').flat_map(|id| [0, 1, id]).collect();
        body.extend([1, 1, b'z']);
        for version in [1, 3] {
            let mut body = body.clone();
            if version == 1 {
                [0u64, 48, 51].iter().for_each(|start| body.extend(start.to_le_bytes()));
                (0..17u32).for_each(|doc| body.extend(doc.to_le_bytes()));
            } else {
                bits::write(&mut body, 6, [0, 48, 51]);
                bits::write(&mut body, 5, 0..17);
                body.extend(51u64.to_le_bytes());
            }
            body.extend(17u64.to_le_bytes());
            let bytes = seal_bytes_as(Kind::Ids, version, &body);
            let ids = Ids::new(SealedFile::from_bytes("i", Kind::Ids, bytes).unwrap()).unwrap();
            assert_eq!(ids.get(15).unwrap(), "p");
            assert!((0..17).all(|rank| ids.sorted(rank).unwrap() == rank));
            assert!(ids.get(16).is_err());
            let mut buffer = b"p".to_vec();
            assert!(ids.read(16, &mut buffer).is_err());
        }
    }
}

//! The store of documents in compressed blocks (docs/reference/formats/documents.md).

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use warpseek_codec::varint::Cursor;
use warpseek_core::limits::MAX_DOCS;
use zstd::zstd_safe;

use crate::error::{IndexError, Result};
use crate::files::container::{Sealed, SealedFile, SealedWriter};

/// Size in bytes of documents at which a block is closed.
///
/// Displaying ten hits decompresses up to ten blocks. With blocks of 64 KiB that took longer than
/// the search; with 16 KiB, the store is an eighth larger.
const BLOCK_BYTES: usize = 16 << 10;
/// Total size in bytes of the decompressed blocks that a process caches, over all stores.
const CACHE_BYTES: u64 = 64 << 20;
/// Maximum size of a decompressed block, a little more than the largest document.
const MAX_BLOCK_BYTES: u64 = 2 << 30;
const LEVEL: i32 = 3;

/// Consecutive documents, compressed. Workers produce chunks, and one writer appends them in
/// order.
#[derive(Default)]
pub(crate) struct StoreChunk {
    blocks: Vec<CompressedBlock>,
    /// The last block, which is still open.
    last: RawBlock,
}

impl StoreChunk {
    /// Adds a document, which `write` appends to the buffer passed to it.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.last.add(write);
        if self.last.is_full() { self.close() } else { Ok(()) }
    }

    /// Closes the last block.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        if !self.last.is_empty() {
            self.blocks.push(std::mem::take(&mut self.last).compress()?);
        }
        Ok(())
    }
}

/// The uncompressed documents of a block.
#[derive(Default)]
pub(crate) struct RawBlock {
    lengths: Vec<u8>,
    documents: Vec<u8>,
}

/// A compressed block.
pub(crate) struct CompressedBlock {
    bytes: Vec<u8>,
    documents: u32,
}

impl RawBlock {
    /// Adds a document, which `write` appends to the buffer passed to it.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.documents.len();
        write(&mut self.documents);
        self.lengths.extend(((self.documents.len() - before) as u32).to_le_bytes());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns true if the block should not get further documents.
    pub(crate) fn is_full(&self) -> bool {
        self.documents.len() >= BLOCK_BYTES
    }

    pub(crate) fn compress(mut self) -> io::Result<CompressedBlock> {
        let documents = (self.lengths.len() / 4) as u32;
        self.lengths.append(&mut self.documents);
        Ok(CompressedBlock { bytes: zstd::bulk::compress(&self.lengths, LEVEL)?, documents })
    }
}

/// A writer of the store.
pub(crate) struct StoreWriter {
    file: SealedWriter,
    firsts: Vec<u8>,
    starts: Vec<u8>,
    documents: u64,
}

impl StoreWriter {
    pub(crate) fn new(file: SealedWriter) -> Self {
        StoreWriter { file, firsts: Vec::new(), starts: Vec::new(), documents: 0 }
    }

    /// Closes a chunk and appends its blocks.
    pub(crate) fn append(&mut self, chunk: &mut StoreChunk) -> Result<()> {
        chunk.close().map_err(IndexError::io(self.file.path()))?;
        chunk.blocks.drain(..).try_for_each(|block| self.append_compressed(&block))
    }

    /// Appends a block.
    pub(crate) fn append_compressed(&mut self, block: &CompressedBlock) -> Result<()> {
        self.append_block(&block.bytes, block.documents)
    }

    /// Appends the bytes of a compressed block of `count` documents.
    pub(crate) fn append_block(&mut self, block: &[u8], count: u32) -> Result<()> {
        self.firsts.extend((self.documents as u32).to_le_bytes());
        self.starts.extend(self.file.body_len().to_le_bytes());
        self.documents += u64::from(count);
        self.file.write(block)
    }

    /// Completes the file.
    pub(crate) fn finish(mut self) -> Result<Sealed> {
        let blocks = self.firsts.len() as u64 / 4;
        self.starts.extend(self.file.body_len().to_le_bytes());
        self.file.write(&self.firsts)?;
        self.file.write(&self.starts)?;
        self.file.write(&self.documents.to_le_bytes())?;
        self.file.write(&blocks.to_le_bytes())?;
        self.file.finish()
    }
}

/// Recently used blocks, by store and number of block.
static CACHED_BLOCKS: LazyLock<Cache<(u64, u64), Arc<StoreBlock>, BlockBytes>> =
    LazyLock::new(|| {
        Cache::with_weighter((CACHE_BYTES / BLOCK_BYTES as u64) as usize, CACHE_BYTES, BlockBytes)
    });

#[derive(Clone)]
struct BlockBytes;

impl Weighter<(u64, u64), Arc<StoreBlock>> for BlockBytes {
    fn weight(&self, _: &(u64, u64), block: &Arc<StoreBlock>) -> u64 {
        (block.bytes.len() + 8 * block.starts.len() + 128) as u64
    }
}

thread_local! {
    /// Decompression context, kept because creating one takes longer than decompressing a block.
    static DECOMPRESSION: RefCell<zstd_safe::DCtx<'static>> = RefCell::new(zstd_safe::DCtx::create());
}

/// A store on disk.
pub struct Store {
    /// Number that is different for each store that a process opens.
    number: u64,
    file: SealedFile,
    documents: u32,
    blocks: u64,
    data_len: u64,
}

impl Store {
    /// Opens a store and checks its layout. Blocks are checked as they are read.
    pub fn new(file: SealedFile) -> Result<Self> {
        let len = file.body_len();
        let mut tail = Cursor::new(file.bytes(len.saturating_sub(16), 16.min(len))?);
        let (Some(documents), Some(blocks)) = (tail.u64(), tail.u64()) else {
            return Err(file.corrupt("it is too short for its counts"));
        };
        if documents > MAX_DOCS || blocks > documents || (blocks == 0 && documents > 0) {
            return Err(file.corrupt("its counts are malformed"));
        }
        let Some(data_len) = len.checked_sub(16 + 8 + 12 * blocks) else {
            return Err(file.corrupt("it is too short for its tables"));
        };
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Ok(Store { number, file, documents: documents as u32, blocks, data_len })
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the number of documents.
    pub fn count(&self) -> u32 {
        self.documents
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the first document of a block, or the number of documents for the block after the
    /// last.
    pub(crate) fn first(&self, block: u64) -> Result<u32> {
        if block == self.blocks {
            return Ok(self.documents);
        }
        let mut first = [0; 4];
        first.copy_from_slice(self.file.bytes(self.data_len + 4 * block, 4)?);
        let first = u32::from_le_bytes(first);
        if first >= self.documents || (first == 0) != (block == 0) {
            return Err(self.file.corrupt(format!("block {block} begins at document {first}")));
        }
        Ok(first)
    }

    /// Returns a block's compressed bytes.
    pub(crate) fn raw_block(&self, block: u64) -> Result<&[u8]> {
        let at = self.data_len + 4 * self.blocks + 8 * block;
        let mut span = Cursor::new(self.file.bytes(at, 16)?);
        let (start, end) = (span.u64().unwrap_or(0), span.u64().unwrap_or(0));
        if start > end || end > self.data_len {
            return Err(self.file.corrupt(format!("block {block} lies outside of its data")));
        }
        self.file.bytes(start, end - start)
    }

    /// Decompresses a block.
    pub fn block(&self, block: u64) -> Result<StoreBlock> {
        let (first, next) = (self.first(block)?, self.first(block + 1)?);
        let Some(count) = next.checked_sub(first).filter(|&n| n > 0) else {
            return Err(self.file.corrupt(format!("block {block} has no documents")));
        };
        let compressed = self.raw_block(block)?;
        DECOMPRESSION.with_borrow_mut(|context| {
            // An error in an earlier block may have left the context in the middle of a frame.
            let _ = context.reset(zstd_safe::ResetDirective::SessionOnly);
            let decoder = zstd::Decoder::with_context(compressed, context);
            self.decompressed(block, (first, count), decoder)
        })
    }

    fn decompressed(
        &self,
        block: u64,
        (first, count): (u32, u32),
        mut decoder: zstd::Decoder<'_, &[u8]>,
    ) -> Result<StoreBlock> {
        let bad = |what: &str| self.file.corrupt(format!("block {block} {what}"));
        let mut bytes = Vec::new();
        // A few bytes can decompress to very many, so the lengths are read first and limit the
        // rest.
        let mut read = |bytes: &mut Vec<u8>, limit: u64| {
            let read = decoder.by_ref().take(limit).read_to_end(bytes);
            read.map_err(|_| bad("does not decompress"))
        };
        let table = 4 * u64::from(count);
        read(&mut bytes, table.min(MAX_BLOCK_BYTES))?;
        if bytes.len() as u64 != table {
            return Err(bad("is cut short"));
        }
        let (mut starts, mut end) = (vec![bytes.len()], table);
        for &length in bytes.as_chunks::<4>().0 {
            end += u64::from(u32::from_le_bytes(length));
            if end > MAX_BLOCK_BYTES {
                return Err(bad("is too large"));
            }
            starts.push(end as usize);
        }
        read(&mut bytes, end - table + 1)?;
        if bytes.len() as u64 != end {
            return Err(bad("is not as long as its documents"));
        }
        Ok(StoreBlock { first, starts, bytes })
    }

    /// Decompresses the block that contains a document.
    pub fn block_of(&self, doc: u32) -> Result<StoreBlock> {
        self.block(self.find(doc)?)
    }

    /// Returns the number of the block that contains a document.
    fn find(&self, doc: u32) -> Result<u64> {
        let (mut low, mut high) = (0, self.blocks);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.first(middle)? <= doc { low = middle } else { high = middle }
        }
        if doc >= self.documents {
            return Err(self.file.corrupt(format!("it has no document {doc}")));
        }
        Ok(low)
    }

    /// Returns the stored JSON of the document with this ordinal. Its block is cached for later
    /// requests.
    pub fn get(&self, doc: u32) -> Result<Vec<u8>> {
        let number = self.find(doc)?;
        let load = || self.block(number).map(Arc::new);
        let block = CACHED_BLOCKS.get_or_insert_with(&(self.number, number), load)?;
        let json = block.get(doc).map(<[u8]>::to_vec);
        json.ok_or_else(|| self.file.corrupt(format!("it has no document {doc}")))
    }
}

/// The documents of one decompressed block.
pub struct StoreBlock {
    first: u32,
    starts: Vec<usize>,
    bytes: Vec<u8>,
}

impl StoreBlock {
    /// Returns the JSON of a document, or `None` if it is not in this block.
    pub fn get(&self, doc: u32) -> Option<&[u8]> {
        let i = doc.checked_sub(self.first)? as usize;
        Some(&self.bytes[*self.starts.get(i)?..*self.starts.get(i + 1)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::{Kind, seal_bytes};

    #[test]
    fn documents_come_back() {
        let dir = tempfile::tempdir().unwrap();
        for count in [0usize, 1, 1000] {
            let path = dir.path().join("s");
            let mut writer = StoreWriter::new(SealedWriter::create(&path, Kind::Store).unwrap());
            let document = |i: usize| vec![b'a' + (i % 26) as u8; i * 7 % 900];
            for part in (0..count).collect::<Vec<_>>().chunks(300) {
                let mut chunk = StoreChunk::default();
                part.iter().for_each(|&i| chunk.add(|out| out.extend(document(i))).unwrap());
                writer.append(&mut chunk).unwrap();
            }
            writer.finish().unwrap();
            let store = Store::new(SealedFile::open(&path, Kind::Store).unwrap()).unwrap();
            assert_eq!(store.count() as usize, count);
            for i in 0..count {
                assert_eq!(store.get(i as u32).unwrap(), document(i));
            }
            assert!(store.get(count as u32).is_err());
        }
    }

    /// Builds a store of two blocks with one document each; `firsts` is the table of first
    /// documents.
    fn forged(first_block: &[u8], firsts: [u32; 2], documents: u64) -> Store {
        let second = zstd::bulk::compress(&[1, 0, 0, 0, b'b'], LEVEL).unwrap();
        let mut body = [first_block, &second].concat();
        let end = body.len() as u64;
        firsts.iter().for_each(|first| body.extend(first.to_le_bytes()));
        for number in [0, first_block.len() as u64, end, documents, 2] {
            body.extend(number.to_le_bytes());
        }
        let bytes = seal_bytes(Kind::Store, &body);
        Store::new(SealedFile::from_bytes("s", Kind::Store, bytes).unwrap()).unwrap()
    }

    #[test]
    fn forged_first_documents_are_refused() {
        let block = zstd::bulk::compress(&[1, 0, 0, 0, b'a'], LEVEL).unwrap();
        let store = forged(&block, [0, 1], 2);
        assert_eq!((store.get(0).unwrap(), store.get(1).unwrap()), (b"a".to_vec(), b"b".to_vec()));
        for (firsts, documents) in [([1, 2], 3), ([0, 0], 2), ([0, 2], 2), ([0, u32::MAX], 2)] {
            let store = forged(&block, firsts, documents);
            assert!((0..3).any(|block| store.first(block).is_err()), "{firsts:?}");
        }
    }

    #[test]
    fn a_block_is_decompressed_only_as_far_as_its_lengths_say() {
        let mut block = vec![0; 64 << 20];
        block[0] = 1;
        let store = forged(&zstd::bulk::compress(&block, LEVEL).unwrap(), [0, 1], 2);
        let error = store.block(0).err().unwrap().to_string();
        assert!(error.contains("not as long as its documents"), "{error}");
        block[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let store = forged(&zstd::bulk::compress(&block, LEVEL).unwrap(), [0, 1], 2);
        let error = store.block(0).err().unwrap().to_string();
        assert!(error.contains("too large"), "{error}");
    }
}

//! The container around every file (docs/reference/formats/README.md).
//!
//! A file consists of a header with magic and kind, the body in pages of 64 KiB, a checksum for
//! each page, and a footer that ends with the seal: a hash of header, checksums and footer.

mod writer;

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::ops::{Deref, Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{IndexError, Result};
use crate::files::damage::Watch;

pub use writer::{Sealed, SealedWriter, seal_bytes, seal_bytes_as};

/// Format versions that this program reads.
pub const VERSIONS: RangeInclusive<u32> = 1..=VERSION;

/// Format version that this program writes.
pub const VERSION: u32 = 3;

/// First version whose lengths, ordinals, bounds and dictionaries are packed more tightly.
pub(crate) const COMPACT: u32 = 3;

const MAGIC: &[u8; 8] = b"WARPSEEK";
const PAGE: usize = 1 << 16;
const HEADER: usize = 16;
const FOOTER: usize = 24;

/// The contents of a file. The name of the kind is recorded in the file and is also its
/// extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The segments that make up the index, and its settings.
    Manifest,
    /// The dictionary, which maps terms to lists.
    Dict,
    /// The posting lists.
    Post,
    /// Lengths, norms and static scores of documents.
    Docs,
    /// External ids of documents.
    Ids,
    /// The stored documents.
    Store,
    /// Lengths of all text fields except the first.
    Lengths,
    /// Columns of attributes.
    Attributes,
    /// Positions of words.
    Positions,
    /// Deleted documents.
    Deletes,
}

impl Kind {
    /// Kinds of a segment's own files, in the order in which they are written.
    pub const SEGMENT: [Kind; 8] = [
        Kind::Dict,
        Kind::Post,
        Kind::Docs,
        Kind::Ids,
        Kind::Store,
        Kind::Lengths,
        Kind::Attributes,
        Kind::Positions,
    ];

    /// Returns the name of the kind in the file and in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Manifest => "manifest",
            Kind::Dict => "dict",
            Kind::Post => "post",
            Kind::Docs => "docs",
            Kind::Ids => "ids",
            Kind::Store => "store",
            Kind::Lengths => "lengths",
            Kind::Attributes => "attrs",
            Kind::Positions => "pos",
            Kind::Deletes => "deletes",
        }
    }

    fn header(self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..8 + self.name().len()].copy_from_slice(self.name().as_bytes());
        header
    }
}

/// Returns the hash that ends a file.
fn seal(header: &[u8], sums_and_footer: &[u8]) -> u64 {
    xxh3_64(&[header, sums_and_footer].concat())
}

enum Backing {
    Map(memmap2::Mmap, Option<Inode>),
    Memory(Vec<u8>),
}

/// Device and inode of a file on disk. They distinguish it from another file that now has its
/// name.
type Inode = (u64, u64);

impl Deref for Backing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Backing::Map(map, _) => map,
            Backing::Memory(bytes) => bytes,
        }
    }
}

/// Maps a complete file.
#[allow(unsafe_code)]
pub(crate) fn map(path: &Path) -> Result<memmap2::Mmap> {
    let file = File::open(path).map_err(IndexError::io(path))?;
    // SAFETY: the files of an index are never written again once they are complete. Writers
    // create new files under new names and remove old ones whole, which leaves a mapping intact.
    // Programs that cannot rule out truncation by others open the index without mapping its files
    // (`OpenOptions`).
    unsafe { memmap2::Mmap::map(&file) }.map_err(IndexError::io(path))
}

/// Returns the device and inode of a file, on systems that have them.
fn inode(found: io::Result<Metadata>) -> Option<Inode> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        found.ok().map(|found| (found.dev(), found.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        None
    }
}

/// A complete file.
///
/// The checksum of a page is verified when the page is first read, and again at the next read
/// after [`forget`](Self::forget).
pub struct SealedFile {
    path: PathBuf,
    bytes: Backing,
    version: u32,
    len: u64,
    seal: u64,
    /// A bit per page, set once its checksum has been verified.
    sound: Box<[AtomicU64]>,
    /// The record of the first damage found in this file or in another file of its segment.
    watch: Arc<Watch>,
}

impl SealedFile {
    /// Maps the file and checks everything except the pages.
    pub fn open(path: &Path, kind: Kind) -> Result<Self> {
        let map = map(path)?;
        let inode = inode(std::fs::metadata(path));
        Self::new(path, kind, Backing::Map(map, inode))
    }

    /// Reads the file into memory, so that later changes to the file have no effect, and
    /// otherwise does the same as [`open`](Self::open). Refuses a file of more than `limit`
    /// bytes.
    pub fn read(path: &Path, kind: Kind, limit: u64) -> Result<Self> {
        let (mut bytes, file) = (Vec::new(), File::open(path).map_err(IndexError::io(path))?);
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        if read.map_err(IndexError::io(path))? as u64 > limit {
            return Err(IndexError::corrupt(path, format!("it has more than {limit} bytes")));
        }
        Self::new(path, kind, Backing::Memory(bytes))
    }

    /// Opens a file whose bytes are in memory. Errors give `name` as the path.
    pub fn from_bytes(name: &str, kind: Kind, bytes: Vec<u8>) -> Result<Self> {
        Self::new(Path::new(name), kind, Backing::Memory(bytes))
    }

    fn new(path: &Path, kind: Kind, bytes: Backing) -> Result<Self> {
        let corrupt = |what: &str| Err(IndexError::corrupt(path, what));
        if bytes.len() < HEADER + FOOTER {
            return corrupt("it is cut short");
        }
        if &bytes[..8] != MAGIC {
            return corrupt("it does not begin as a warpseek file");
        }
        let footer = bytes.len() - FOOTER;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let version = word(footer + 8) as u32;
        if version > *VERSIONS.end() && word(footer + 8) >> 32 == 0 && version < 1 << 16 {
            return Err(IndexError::Version {
                path: path.to_owned(),
                found: version,
                known: *VERSIONS.end(),
            });
        }
        if bytes[..HEADER] != kind.header() {
            return corrupt(&format!("it is not a `{}` file", kind.name()));
        }
        let len = word(footer);
        let pages = len.div_ceil(PAGE as u64);
        let expected = pages
            .checked_mul(8)
            .and_then(|sums| sums.checked_add(len))
            .and_then(|sum| sum.checked_add((HEADER + FOOTER) as u64));
        if expected != Some(bytes.len() as u64) {
            return corrupt("its size is not what it says");
        }
        let seal_at = bytes.len() - 8;
        if seal(&bytes[..HEADER], &bytes[HEADER + len as usize..seal_at]) != word(seal_at) {
            return corrupt("its seal does not match");
        }
        if !VERSIONS.contains(&version) {
            return corrupt(&format!("format version {version} does not exist"));
        }
        let seal = word(seal_at);
        let sound = (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let watch = Arc::default();
        Ok(SealedFile { path: path.to_owned(), bytes, version, len, seal, sound, watch })
    }

    /// Reports damage of this file to `watch` from now on.
    pub(crate) fn watched_by(self, watch: &Arc<Watch>) -> Self {
        SealedFile { watch: watch.clone(), ..self }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format version of the file.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Returns the length of the body in bytes.
    pub fn body_len(&self) -> u64 {
        self.len
    }

    /// Returns the length of the whole file in bytes.
    pub fn file_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the seal, which the manifest records to identify the file.
    pub fn seal(&self) -> u64 {
        self.seal
    }

    /// Copies the file to `path`, replacing a file that a crash left there, and syncs the copy.
    /// Pages are not verified: the copy of a damaged file has the same damage.
    pub fn copy_to(&self, path: &Path) -> Result<()> {
        let copy = || {
            let mut file = File::create(path)?;
            file.write_all(&self.bytes)?;
            file.sync_all()
        };
        copy().map_err(IndexError::io(path))
    }

    /// Returns `len` bytes of the body from `start`, after verifying the pages that hold them.
    #[inline]
    pub fn bytes(&self, start: u64, len: u64) -> Result<&[u8]> {
        let end = start.checked_add(len).filter(|&end| end <= self.len);
        let Some(end) = end else {
            return Err(self.corrupt(format!("{len} bytes at {start} lie outside of it")));
        };
        if start < end {
            self.check_pages(start as usize / PAGE, (end - 1) as usize / PAGE)?;
        }
        Ok(&self.body()[start as usize..end as usize])
    }

    /// Returns bytes of the body without verifying their pages. Before the caller relies on a
    /// part of the result, it must request that part through [`bytes`](Self::bytes).
    pub(crate) fn unchecked(&self, start: u64, len: u64) -> Result<&[u8]> {
        match start.checked_add(len).filter(|&end| end <= self.len) {
            Some(end) => Ok(&self.body()[start as usize..end as usize]),
            None => Err(self.corrupt(format!("{len} bytes at {start} lie outside of it"))),
        }
    }

    /// Returns the whole body, after verifying all pages.
    pub fn all(&self) -> Result<&[u8]> {
        self.bytes(0, self.len)
    }

    /// Returns the number of pages of the body, each of which has a checksum.
    pub fn pages(&self) -> u64 {
        self.len.div_ceil(PAGE as u64)
    }

    /// Bytes of a page; the last page of a file may be shorter.
    pub const PAGE_BYTES: u64 = PAGE as u64;

    /// Forgets that some pages were verified, so that they are verified again at the next read.
    pub fn forget(&self, pages: Range<u64>) {
        let mut page = pages.start;
        let end = pages.end.min(self.pages());
        while page < end {
            let (word, first) = ((page / 64) as usize, page % 64);
            let count = (64 - first).min(end - page);
            let bits = (u64::MAX >> (64 - count)) << first;
            self.sound[word].fetch_and(!bits, Ordering::Relaxed);
            page += count;
        }
    }

    /// Verifies a page, even if it was verified before.
    ///
    /// # Panics
    /// Panics if there is no such page.
    pub fn verify_page(&self, page: u64) -> Result<()> {
        assert!(page < self.pages(), "page {page} of {}", self.pages());
        self.check_page(page as usize)
    }

    /// Verifies that the file is as long as when it was opened and that its seal, which covers
    /// the checksums of pages, has not changed.
    ///
    /// Call it before pages of a mapped file are read again: the operating system ends a process
    /// that reads beyond the end of a file.
    pub fn verify_frame(&self) -> Result<()> {
        if let Backing::Map(map, opened) = &self.bytes {
            let found = std::fs::metadata(&self.path);
            let len = found.as_ref().map_or(0, Metadata::len);
            // A file that was removed or replaced remains intact under its mapping.
            if opened.is_some() && inode(found) == *opened && len < map.len() as u64 {
                let what =
                    format!("it was cut from {} to {len} bytes while it was open", map.len());
                return Err(self.damaged(what));
            }
        }
        let seal_at = self.bytes.len() - 8;
        let sealed = seal(&self.bytes[..HEADER], &self.bytes[HEADER + self.len as usize..seal_at]);
        match sealed == self.seal && self.bytes[seal_at..] == self.seal.to_le_bytes() {
            true => Ok(()),
            false => Err(self.damaged("its seal has changed while it was open".into())),
        }
    }

    /// Records damage and returns the error.
    fn damaged(&self, what: String) -> IndexError {
        self.watch.found(&self.path, &what);
        self.corrupt(what)
    }

    /// Creates an error about this file.
    pub fn corrupt(&self, what: impl Into<String>) -> IndexError {
        IndexError::corrupt(&self.path, what)
    }

    fn body(&self) -> &[u8] {
        &self.bytes[HEADER..HEADER + self.len as usize]
    }

    #[inline]
    fn check_pages(&self, first: usize, last: usize) -> Result<()> {
        for page in first..=last {
            if self.sound[page / 64].load(Ordering::Relaxed) >> (page % 64) & 1 == 0 {
                self.check_page(page)?;
            }
        }
        Ok(())
    }

    #[cold]
    fn check_page(&self, page: usize) -> Result<()> {
        let body = self.body();
        let sum_at = HEADER + body.len() + 8 * page;
        let sum = xxh3_64(&body[page * PAGE..body.len().min((page + 1) * PAGE)]);
        if self.bytes[sum_at..sum_at + 8] != sum.to_le_bytes() {
            self.sound[page / 64].fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
            let from = page * PAGE;
            let what = format!("checksum of the 64 KiB from byte {from} (page {page}) is wrong");
            return Err(self.damaged(what));
        }
        self.sound[page / 64].fetch_or(1 << (page % 64), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 % 251) as u8).collect()
    }

    #[test]
    fn file_and_memory_agree() {
        let dir = tempfile::tempdir().unwrap();
        for len in [0, 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE + 17] {
            let path = dir.path().join(len.to_string());
            let mut writer = SealedWriter::create(&path, Kind::Post).unwrap();
            for chunk in body(len).chunks(1000) {
                writer.write(chunk).unwrap();
            }
            let Sealed { seal, bytes: None } = writer.finish().unwrap() else {
                panic!("a file on disk is not kept in memory");
            };
            let whole = seal_bytes(Kind::Post, &body(len));
            assert_eq!(std::fs::read(&path).unwrap(), whole);
            let mut writer = SealedWriter::in_memory("x", Kind::Post).unwrap();
            body(len).chunks(777).for_each(|chunk| writer.write(chunk).unwrap());
            let sealed = writer.finish().unwrap();
            assert_eq!((sealed.seal, sealed.bytes.as_ref()), (seal, Some(&whole)));
            let kept = SealedFile::from_bytes("x", Kind::Post, whole.clone()).unwrap();
            let copy = dir.path().join("copy");
            std::fs::write(&copy, [9; 1000]).unwrap();
            kept.copy_to(&copy).unwrap();
            assert_eq!(std::fs::read(&copy).unwrap(), whole);
            let file = SealedFile::open(&path, Kind::Post).unwrap();
            assert_eq!((file.all().unwrap(), file.seal()), (&body(len)[..], seal));
            let size = file.file_len();
            let copy = SealedFile::read(&path, Kind::Post, size).unwrap();
            assert_eq!((copy.all().unwrap(), copy.seal()), (&body(len)[..], seal));
            let error = SealedFile::read(&path, Kind::Post, size - 1).err().unwrap().to_string();
            assert!(error.contains("more than"), "{error}");
            assert!(file.bytes(1, len as u64).is_err());
            assert!(file.bytes(u64::MAX, 2).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let good = seal_bytes(Kind::Dict, &body(300));
        let read = |bytes| {
            SealedFile::from_bytes("f", Kind::Dict, bytes).and_then(|f| f.all().map(<[u8]>::to_vec))
        };
        assert_eq!(read(good.clone()).unwrap(), body(300));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(read(bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(read(good[..len].to_vec()).is_err(), "cut to {len}");
        }
        assert!(SealedFile::from_bytes("f", Kind::Post, good).is_err());
    }

    #[test]
    fn each_version_is_recorded_and_sealed() {
        let read = |bytes| SealedFile::from_bytes("f", Kind::Post, bytes);
        for version in VERSIONS {
            let whole = seal_bytes_as(Kind::Post, version, &body(300));
            let mut writer =
                SealedWriter::in_memory("f", Kind::Post).unwrap().with_version(version);
            writer.write(&body(300)).unwrap();
            assert_eq!(writer.finish().unwrap().bytes.as_ref(), Some(&whole));
            assert_eq!(read(whole).unwrap().version(), version);
        }
        assert_eq!(seal_bytes(Kind::Post, &body(3)), seal_bytes_as(Kind::Post, VERSION, &body(3)));
        assert!(read(seal_bytes_as(Kind::Post, 0, &body(3))).is_err());
        let newer = read(seal_bytes_as(Kind::Post, VERSION + 1, &body(3))).err().unwrap();
        assert!(matches!(newer, IndexError::Version { found: 4, known: 3, .. }), "{newer}");
    }

    #[test]
    fn damage_is_found_only_where_it_is() {
        let mut bytes = seal_bytes(Kind::Post, &body(3 * PAGE));
        bytes[HEADER + PAGE + 5] ^= 1;
        let file = SealedFile::from_bytes("f", Kind::Post, bytes).unwrap();
        assert!(file.bytes(0, PAGE as u64).is_ok());
        assert!(file.bytes(2 * PAGE as u64, 10).is_ok());
        assert!(file.bytes(PAGE as u64 - 1, 2).is_err());
    }

    #[test]
    fn damage_after_a_page_was_verified_is_found_when_it_is_verified_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let good = seal_bytes(Kind::Post, &body(200 * PAGE + 5));
        std::fs::write(&path, &good).unwrap();
        let write_at = |at: usize, bytes: &[u8]| {
            use std::io::{Seek, SeekFrom};
            let mut file = File::options().write(true).open(&path).unwrap();
            file.seek(SeekFrom::Start(at as u64)).unwrap();
            file.write_all(bytes).unwrap();
        };
        for page in [0, 63, 64, 127, 200] {
            std::fs::write(&path, &good).unwrap();
            let file = SealedFile::open(&path, Kind::Post).unwrap();
            assert_eq!(file.pages(), 201);
            file.all().unwrap();
            let at = HEADER + page * PAGE;
            write_at(at, &[good[at] ^ 1]);
            // The page was verified before, and the change has not been noticed.
            assert!(file.bytes((page * PAGE) as u64, 1).is_ok());
            // Other pages are forgotten; this one still counts as verified.
            let page = page as u64;
            file.forget(0..page);
            file.forget(page + 1..u64::MAX);
            assert!(file.all().is_ok() && file.watch.damage().is_none(), "page {page}");
            file.forget(page..page + 1);
            let error = file.all().unwrap_err().to_string();
            assert!(error.contains(&format!("(page {page})")), "{error}");
            assert_eq!(file.watch.damage().unwrap().file, path);
            assert!(file.verify_page(page).is_err() && file.verify_frame().is_ok());
        }
    }

    #[test]
    fn a_file_that_is_cut_or_has_other_sums_while_it_is_open_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let good = seal_bytes(Kind::Post, &body(3 * PAGE));
        let open = || {
            std::fs::write(&path, &good).unwrap();
            let file = SealedFile::open(&path, Kind::Post).unwrap();
            assert!(file.verify_frame().is_ok());
            file
        };
        let file = open();
        File::options().write(true).open(&path).unwrap().set_len(PAGE as u64).unwrap();
        let error = file.verify_frame().unwrap_err().to_string();
        assert!(error.contains("was cut from"), "{error}");
        drop(file);
        // A file that was replaced or removed is another file.
        let file = open();
        std::fs::remove_file(&path).unwrap();
        assert!(file.verify_frame().is_ok());
        std::fs::write(&path, b"other").unwrap();
        assert!(file.verify_frame().is_ok() && file.all().is_ok());
        drop(file);
        let mut bytes = good.clone();
        *bytes.last_mut().unwrap() ^= 1;
        let file = open();
        std::fs::write(&path, &bytes).unwrap();
        assert!(file.verify_frame().is_err());
    }
}

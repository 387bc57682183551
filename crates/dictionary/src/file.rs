//! The file of a dictionary: a header with a checksum, then the arrays
//! (docs/reference/formats/words.md).

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use crate::check::check;
use crate::layout::{Child, Node};
use crate::{Dictionary, DictionaryError, MAX_BUCKET_BYTES, MAX_WORDS, Result};

/// Format version that this program writes and reads.
pub const VERSION: u32 = 1;

/// Magic number. It shares its prefix with the files of an index, but has a kind that no file of
/// an index has.
const MAGIC: &[u8; 16] = b"WARPSEEKwords\0\0\0";

/// Number of bytes before the arrays: magic, version, four counts, 4 bytes of zero, checksum.
const HEADER: usize = 48;
const SUM_AT: usize = HEADER - 8;

impl Dictionary {
    /// Writes the dictionary to a file, replacing an existing one. The dictionary is written to a
    /// temporary file that is then renamed, so the file is either complete or unchanged.
    pub fn write(&self, path: &Path) -> Result<()> {
        let io = || DictionaryError::io(path);
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut new = tempfile::Builder::new();
        readable_by_others(&mut new);
        let new = new.prefix(".words-").tempfile_in(dir).map_err(io())?;
        let mut out = BufWriter::with_capacity(1 << 20, new.as_file());
        self.write_to(&mut out).and_then(|()| out.flush()).map_err(io())?;
        drop(out);
        new.as_file().sync_all().map_err(io())?;
        new.persist(path).map_err(|e| io()(e.error))?;
        // The new name is durable only after the directory has been synced.
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io())
    }

    /// Returns the contents of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.bytes() as usize);
        // Writing to memory cannot fail.
        let _ = self.write_to(&mut bytes);
        bytes
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        let counts = [self.nodes.len(), self.children.len(), self.buckets.len()];
        let mut header = MAGIC.to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(self.words.to_le_bytes());
        for count in counts {
            // The builder and the reader ensure that all counts fit into 31 bits.
            header.extend((count as u32).to_le_bytes());
        }
        header.resize(SUM_AT, 0);
        let mut hash = Xxh3::new();
        hash.update(&header);
        self.each_part(|bytes| {
            hash.update(bytes);
            Ok(())
        })?;
        out.write_all(&header)?;
        out.write_all(&hash.digest().to_le_bytes())?;
        self.each_part(|bytes| out.write_all(bytes))
    }

    /// Calls `each` with the arrays as little-endian bytes, part by part.
    fn each_part(&self, mut each: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        let sections = self.sections();
        let mut bytes = Vec::new();
        for numbers in
            [sections.nodes, sections.children].into_iter().flat_map(|s| s.chunks(1 << 14))
        {
            bytes.clear();
            bytes.extend(numbers_to_le(numbers));
            each(&bytes)?;
        }
        each(sections.buckets)
    }

    /// Reads a file and validates all of it, so that look-ups need no checks.
    ///
    /// The file is not memory-mapped, so its checked contents cannot change later.
    pub fn open(path: &Path) -> Result<Dictionary> {
        let io = || DictionaryError::io(path);
        let mut file = File::open(path).map_err(io())?;
        let mut bytes = Vec::new();
        (&mut file).take(HEADER as u64).read_to_end(&mut bytes).map_err(io())?;
        let header = Header::read(path, &bytes)?;
        // Reading one byte more than expected detects a file that is too long. A file that merely
        // claims to be long takes no memory.
        file.take(header.arrays() + 1).read_to_end(&mut bytes).map_err(io())?;
        header.dictionary(path, &bytes)
    }

    /// Reads a dictionary from the contents of a file, as [`open`](Self::open) does. Errors give
    /// `name` as its path.
    pub fn from_bytes(name: &Path, bytes: &[u8]) -> Result<Dictionary> {
        Header::read(name, bytes)?.dictionary(name, bytes)
    }
}

struct Header {
    words: u32,
    nodes: u64,
    children: u64,
    buckets: u64,
    sum: [u8; 8],
}

impl Header {
    fn read(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |what: &str| Err(DictionaryError::damaged(path, what));
        if !bytes.starts_with(&MAGIC[..bytes.len().min(MAGIC.len())]) || bytes.is_empty() {
            return Err(DictionaryError::NotADictionary { path: path.to_owned() });
        }
        let Some(header) = bytes.first_chunk::<HEADER>() else { return damaged("it is truncated") };
        let (mut numbers, mut sum) = ([0; 6], [0; 8]);
        for (number, bytes) in numbers.iter_mut().zip(header[MAGIC.len()..].as_chunks().0) {
            *number = u32::from_le_bytes(*bytes);
        }
        sum.copy_from_slice(&header[SUM_AT..]);
        let [version, words, nodes, children, buckets, zero] = numbers;
        // A version this large is more likely damage than a later version.
        if version > VERSION && version < 1 << 16 {
            return Err(DictionaryError::Version {
                path: path.to_owned(),
                found: version,
                known: VERSION,
            });
        }
        if version != VERSION || zero != 0 {
            return damaged("its header is malformed");
        }
        if words > MAX_WORDS || buckets > MAX_BUCKET_BYTES {
            return damaged("its header exceeds the maximum size of a dictionary");
        }
        Ok(Header {
            words,
            nodes: nodes.into(),
            children: children.into(),
            buckets: buckets.into(),
            sum,
        })
    }

    /// Returns the size of all arrays in bytes, at most 60 * 2^32.
    fn arrays(&self) -> u64 {
        self.nodes * size_of::<Node>() as u64
            + self.children * size_of::<Child>() as u64
            + self.buckets
    }

    fn dictionary(&self, path: &Path, bytes: &[u8]) -> Result<Dictionary> {
        let damaged = |what: &str| Err(DictionaryError::damaged(path, what));
        let arrays = &bytes[HEADER..];
        if arrays.len() as u64 != self.arrays() {
            return damaged("its size does not match its header");
        }
        let mut hash = Xxh3::new();
        hash.update(&bytes[..SUM_AT]);
        hash.update(arrays);
        if hash.digest().to_le_bytes() != self.sum {
            return damaged("its checksum is wrong");
        }
        let (nodes, rest) = arrays.split_at(self.nodes as usize * size_of::<Node>());
        let (children, buckets) = rest.split_at(self.children as usize * size_of::<Child>());
        let (mut nodes_read, mut children_read) = (
            vec![Node::default(); self.nodes as usize],
            vec![Child::default(); self.children as usize],
        );
        numbers_from_le(nodes, bytemuck::cast_slice_mut(&mut nodes_read));
        numbers_from_le(children, bytemuck::cast_slice_mut(&mut children_read));
        let dictionary = Dictionary {
            words: self.words,
            nodes: nodes_read,
            children: children_read,
            buckets: buckets.to_vec(),
        };
        match check(&dictionary) {
            Ok(()) => Ok(dictionary),
            Err(what) => damaged(&what),
        }
    }
}

fn numbers_to_le(numbers: &[u32]) -> impl Iterator<Item = u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes())
}

fn numbers_from_le(bytes: &[u8], numbers: &mut [u32]) {
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = u32::from_le_bytes(*bytes);
    }
}

/// Lets other users read the dictionary like any other file. By default, only the owner can read
/// a temporary file.
fn readable_by_others(builder: &mut tempfile::Builder<'_, '_>) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
}

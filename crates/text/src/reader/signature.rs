//! Recognises compression and files that are not text by their first bytes.

/// The byte order mark of UTF-8.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";
/// Number of bytes that identify the kind of a file.
pub(super) const KIND: usize = 8;
/// Number of bytes that identify the compression.
pub(super) const MAGIC: usize = 4;

/// Describes a file that begins like this if it is not readable text, with advice.
pub(super) fn foreign(start: &[u8]) -> Option<&'static str> {
    match start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("text in UTF-16; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)")
        }
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("a PDF file; extract its text (pdftotext)"),
        [b'P', b'K', 3, 4, ..] => Some("a ZIP archive, as office documents are; unpack it"),
        [b'P', b'A', b'R', b'1', ..] => Some("a Parquet file; read it with --format parquet"),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => {
            Some("compressed with bzip2; only gzip and zstd are read, so decompress it")
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Some("compressed with xz; only gzip and zstd are read, so decompress it")
        }
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] => Some("an image; remove it"),
        [0x7f, b'E', b'L', b'F', ..] => Some("a program; remove it"),
        // UTF-16 without a byte order mark begins like this, and so do other binary files.
        [_, 0, _, 0, ..] | [0, _, 0, _, ..] => {
            Some("a binary file, or text in UTF-16; convert it to UTF-8")
        }
        _ => None,
    }
}

/// The compression of a file.
pub(super) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// Recognises the compression by magic bytes, because names may be wrong and standard input
    /// has none. Parallel zstd tools begin with a skippable frame, whose magic has sixteen forms.
    pub(super) fn of(magic: &[u8]) -> Option<Self> {
        match magic {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }
}

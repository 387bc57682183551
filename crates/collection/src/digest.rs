//! SHA-256 checksums of files. Others may be able to write to a remote store, so a checksum that
//! only detects accidents would not be enough.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::error::{CollectionError, Result};

/// Number of bytes of a file that are read at once.
const CHUNK: usize = 8 << 20;

/// A checksum that is being computed.
pub(crate) struct Digest(Context);

impl Digest {
    pub(crate) fn new() -> Self {
        Digest(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum in hexadecimal.
    pub(crate) fn finish(self) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.0.finish().as_ref() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Adds all bytes of a file, and returns their number.
    pub(crate) fn update_from(&mut self, path: &Path) -> Result<u64> {
        let mut file = File::open(path).map_err(CollectionError::io(path))?;
        let (mut chunk, mut bytes) = (vec![0; CHUNK], 0);
        loop {
            let read = match file.read(&mut chunk) {
                Ok(0) => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(CollectionError::io(path))?,
            };
            self.update(&chunk[..read]);
            bytes += read as u64;
        }
    }
}

/// Returns true if the text has the form of a checksum.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha256() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let mut digest = Digest::new();
        assert_eq!(digest.update_from(&path).unwrap(), 3);
        // Example with one block from FIPS 180-4.
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.finish(), known);
        assert!(is_digest(known) && !is_digest("") && !is_digest(&known.to_uppercase()));
    }
}

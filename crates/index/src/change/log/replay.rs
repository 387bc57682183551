//! Replaying a log, also after a crash.

use std::path::Path;

use super::record::{HEAD, HEADER, Item, Record, VERSION, header, parse, split, synced_by_head};
use crate::error::{IndexError, Result};

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Sequence number after that of the last record.
    pub next: u64,
    /// Length of the log up to the end of its last record. Bytes after it were left by a crash.
    pub end: u64,
}

/// Calls `each` with the records of a log in order. `bytes` is the whole file, `path` is for
/// errors, and `first` is the sequence number of the first record.
pub fn replay_bytes(
    path: &Path,
    bytes: &[u8],
    first: u64,
    mut each: impl FnMut(Record<'_>) -> Result<()>,
) -> Result<Replayed> {
    if !has_header(path, bytes)? {
        return Ok(Replayed { next: first, end: 0 });
    }
    let (mut left, mut next) = (&bytes[HEADER..], first);
    loop {
        let at = bytes.len() - left.len();
        let Some(rest) = split(&mut left) else {
            if was_synced(bytes, at) {
                let what = format!("its record {next} at byte {at} is malformed");
                return Err(IndexError::corrupt(path, what));
            }
            return Ok(Replayed { next, end: at as u64 });
        };
        let item = parse(rest).filter(|item| item.sequence() == next);
        match item {
            Some(Item::Head { synced, .. }) if synced <= at as u64 => {}
            Some(Item::Record(record)) => {
                each(record)?;
                // Sequence numbers cannot run out: no disk holds that many records.
                next = next.saturating_add(1);
            }
            _ => {
                let what = format!("the record at byte {at} is not record {next}");
                return Err(IndexError::corrupt(path, what));
            }
        }
    }
}

/// Returns true if a log has its header, and false if its creation was interrupted. Any other
/// file is an error.
fn has_header(path: &Path, bytes: &[u8]) -> Result<bool> {
    let expected = header();
    if bytes.starts_with(&expected) || expected.starts_with(bytes) {
        return Ok(bytes.len() >= HEADER);
    }
    if let Some(&[a, b, 0, 0]) = bytes.get(16..20)
        && bytes[..16] == expected[..16]
        && u32::from(u16::from_le_bytes([a, b])) > VERSION
    {
        let found = u32::from(u16::from_le_bytes([a, b]));
        return Err(IndexError::Version { path: path.to_owned(), found, known: VERSION });
    }
    Err(IndexError::corrupt(path, "it does not begin as a log"))
}

/// Returns true if the head of a later batch shows that the unreadable bytes at offset `at` had
/// been on stable storage. Those bytes do not say where the next record begins, so every offset
/// is tried.
fn was_synced(bytes: &[u8], at: usize) -> bool {
    let last = bytes.len().saturating_sub(HEAD);
    (at..=last).any(|later| {
        let synced = synced_by_head(&bytes[later..]);
        synced.is_some_and(|synced| (at as u64) < synced && synced <= later as u64)
    })
}

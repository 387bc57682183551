//! The binary format of a log: header, heads of batches, records (docs/reference/formats/log.md).

use warpseek_codec::varint::{self, Cursor};
use warpseek_core::limits::MAX_ID_BYTES;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{IndexError, Result};

/// Maximum length of a document in bytes, as JSON.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// Version of the format of logs.
pub(super) const VERSION: u32 = 1;

/// Length of the header of a log.
pub(super) const HEADER: usize = 24;

/// Length of the part of a record before the bytes that its checksum covers.
pub(super) const PREFIX: usize = 12;

/// Length of the head of a batch.
pub(super) const HEAD: usize = PREFIX + HEAD_REST;
const HEAD_REST: usize = 17;

/// Maximum length of a record without its [`PREFIX`]: sequence number, kind, length of the id,
/// id, document.
const MAX_REST: usize = 8 + 1 + 2 + MAX_ID_BYTES + MAX_DOCUMENT_BYTES;

const BATCH: u8 = 0;
const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Returns the header of every log.
pub(super) fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(b"WARPSEEK");
    header[8..11].copy_from_slice(b"log");
    header[16..20].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// The operation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Adds a document, or replaces the one with the same id.
    Put {
        /// Id of the document.
        id: &'a str,
        /// The document as JSON, which the log keeps verbatim.
        document: &'a [u8],
    },
    /// Removes the document with this id, if there is one.
    Delete {
        /// Id of the document.
        id: &'a str,
    },
}

impl<'a> Operation<'a> {
    /// Returns the id of the document.
    pub fn id(&self) -> &'a str {
        match self {
            Operation::Put { id, .. } | Operation::Delete { id } => id,
        }
    }

    /// Refuses operations that exceed a limit.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |what: String| Err(IndexError::Refused { what });
        match (self.id().len(), self) {
            (0, _) => refuse("the id is empty; give each document an id".into()),
            (len, _) if len > MAX_ID_BYTES => {
                refuse(format!("the id has {len} bytes, the limit is {MAX_ID_BYTES}; shorten it"))
            }
            (_, Operation::Put { id, document }) if document.len() > MAX_DOCUMENT_BYTES => {
                let len = document.len();
                refuse(format!(
                    "document `{id}` has {len} bytes, the limit is {MAX_DOCUMENT_BYTES}; split it"
                ))
            }
            _ => Ok(()),
        }
    }
}

/// A record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Sequence number: one more than that of the preceding record.
    pub sequence: u64,
    /// The operation.
    pub operation: Operation<'a>,
}

impl Record<'_> {
    /// Appends the record to a batch. The operation must be within the limits.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; PREFIX]);
        out.extend(self.sequence.to_le_bytes());
        let (kind, document) = match self.operation {
            Operation::Put { document, .. } => (PUT, document),
            Operation::Delete { .. } => (DELETE, &[][..]),
        };
        let id = self.operation.id();
        out.push(kind);
        varint::write(out, id.len() as u64);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(document);
        seal(&mut out[start..]);
    }
}

/// Fills in the head of a batch, for which its first bytes are reserved.
pub(super) fn fill_head(batch: &mut [u8], first: u64, synced: u64) {
    let head = &mut batch[..HEAD];
    head[PREFIX..][..8].copy_from_slice(&first.to_le_bytes());
    head[PREFIX + 8] = BATCH;
    head[PREFIX + 9..].copy_from_slice(&synced.to_le_bytes());
    seal(head);
}

/// Fills in the length and the checksum of a record.
fn seal(record: &mut [u8]) {
    let (prefix, rest) = record.split_at_mut(PREFIX);
    prefix[..4].copy_from_slice(&(rest.len() as u32).to_le_bytes());
    prefix[4..].copy_from_slice(&xxh3_64(rest).to_le_bytes());
}

/// An item of a log after the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// The head of a batch.
    Head {
        /// Sequence number of the batch's first record.
        sequence: u64,
        /// Offset before which everything was on stable storage when the batch was written.
        synced: u64,
    },
    Record(Record<'a>),
}

impl Item<'_> {
    pub(super) fn sequence(&self) -> u64 {
        match self {
            Item::Head { sequence, .. } | Item::Record(Record { sequence, .. }) => *sequence,
        }
    }
}

/// Splits the first record off `bytes` and returns the bytes that its checksum covers, or `None`
/// if it is incomplete or its checksum is wrong.
pub(super) fn split<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut cursor = Cursor::new(bytes);
    let (len, sum) = (cursor.u32()? as usize, cursor.u64()?);
    if len > MAX_REST {
        return None;
    }
    let rest = cursor.take(len).filter(|rest| xxh3_64(rest) == sum)?;
    *bytes = cursor.rest();
    Some(rest)
}

/// Parses the bytes returned by [`split`], or returns `None` if no log can contain them.
pub(super) fn parse(rest: &[u8]) -> Option<Item<'_>> {
    let mut cursor = Cursor::new(rest);
    let (sequence, kind) = (cursor.u64()?, cursor.byte()?);
    if kind == BATCH {
        let synced = cursor.u64()?;
        return cursor.rest().is_empty().then_some(Item::Head { sequence, synced });
    }
    let len = cursor.varint32()? as usize;
    let id = std::str::from_utf8(cursor.take(len)?).ok()?;
    let operation = match kind {
        PUT => Operation::Put { id, document: cursor.rest() },
        DELETE if cursor.rest().is_empty() => Operation::Delete { id },
        _ => return None,
    };
    operation.check().ok()?;
    Some(Item::Record(Record { sequence, operation }))
}

/// Returns the offset before which everything was synced, if `bytes` begins with the head of a
/// batch.
pub(super) fn synced_by_head(mut bytes: &[u8]) -> Option<u64> {
    // Most bytes are not the beginning of a head, and their length field shows it without a
    // checksum.
    if bytes.get(..4)? != (HEAD_REST as u32).to_le_bytes() {
        return None;
    }
    match parse(split(&mut bytes)?)? {
        Item::Head { synced, .. } => Some(synced),
        Item::Record(_) => None,
    }
}

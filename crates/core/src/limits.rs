//! Limits, each defined once for readers, writers and engines alike.

/// The number of postings in a full block.
pub const BLOCK: usize = 128;

/// An id that no document has. Cursors use it to mean "past the end".
pub const NO_DOC: u32 = u32::MAX;

/// The largest number of documents in an index. Ids run from 0 to 2^32 - 2.
pub const MAX_DOCS: u64 = NO_DOC as u64;

/// The longest term, in bytes. Longer words are not indexed.
pub const MAX_TERM_BYTES: usize = 255;

/// The longest external id, in bytes.
pub const MAX_ID_BYTES: usize = 1024;

/// The largest number of distinct terms in one query.
pub const MAX_QUERY_TERMS: usize = 65_536;

/// The largest number of shards of a collection.
pub const MAX_SHARDS: u32 = 65_536;

/// The largest weight of a token in a vector document, after scaling.
pub const MAX_IMPACT: u32 = 65_535;

/// The largest score of a document. It has 31 bits so that signed and unsigned vector
/// instructions agree on conversions and comparisons.
pub const MAX_SCORE: u32 = (1 << 31) - 1;

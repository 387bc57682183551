//! Limits, each stated once for readers, writers and engines alike.

/// Postings in a full block.
pub const BLOCK: usize = 128;

/// No document has this id; cursors use it for "past the end".
pub const NO_DOC: u32 = u32::MAX;

/// Most documents an index can hold: ids run from 0 to 2^32 - 2.
pub const MAX_DOCS: u64 = NO_DOC as u64;

/// Longest term in bytes. Longer words are not indexed.
pub const MAX_TERM_BYTES: usize = 255;

/// Longest external id in bytes.
pub const MAX_ID_BYTES: usize = 1024;

/// Most distinct terms in one query.
pub const MAX_QUERY_TERMS: usize = 65_536;

/// Largest weight of a token in a vector document, after scaling.
pub const MAX_IMPACT: u32 = 65_535;

/// Largest score of a document. Thirty-one bits, so that signed and unsigned vector
/// instructions agree on conversions and comparisons.
pub const MAX_SCORE: u32 = (1 << 31) - 1;

//! The bodies of the fuzz targets: each takes any bytes and panics where a promise is broken.
//!
//! The parsers behind a checksum get the bytes as the body of a sealed file, so that they are reached.

mod files;
mod readers;
mod words;

pub use files::{container, deletes, dictionary, documents, ids, manifest, postings, store};
pub use readers::{reader_jsonl, reader_trec, reader_tree, reader_tsv, reader_words};
pub use words::{analysis, query};

/// The first `N` bytes as numbers of a target's own; the rest is its input.
fn split<const N: usize>(data: &[u8]) -> Option<([u8; N], &[u8])> {
    data.split_first_chunk().map(|(head, rest)| (*head, rest))
}

//! The code of the fuzz targets. Each function takes any bytes and panics if a guarantee is
//! broken.
//!
//! Parsers of checksummed files get the bytes as the body of a sealed file, so that the fuzzer
//! can reach them.

mod files;
mod readers;
mod requests;
mod words;

pub use files::{
    attributes, container, deletes, dictionary, documents, ids, lengths, log, manifest, map_list,
    positions, postings, store, words,
};
pub use readers::{
    queries, reader_csv, reader_jsonl, reader_parquet, reader_trec, reader_tree, reader_tsv,
    reader_words,
};
pub use requests::{host, request_body, request_lines, request_options};
pub use words::{analysis, chain, normalize, query, query_syntax, schema};

/// Splits off the first `N` bytes, which a target uses as parameters; the rest is its input.
fn split<const N: usize>(data: &[u8]) -> Option<([u8; N], &[u8])> {
    data.split_first_chunk().map(|(head, rest)| (*head, rest))
}

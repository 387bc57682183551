//! Settings of the terms of an index.

use clap::Args;
use warpseek::Analyzer;
use warpseek::options::CodecId;
use warpseek_console::options::named;

/// Settings of terms, for `index`, `cluster build` and `cluster cut`.
#[derive(Args)]
#[command(next_help_heading = "Index")]
pub(crate) struct Terms {
    /// Analyzer that splits the text of documents and queries into terms
    #[arg(long, value_parser = named::<Analyzer>(Analyzer::NAMES.to_vec()), default_value = "english",
        conflicts_with = "schema")]
    pub(crate) analyzer: Analyzer,
    /// Compression of postings: bitpack is the fastest, rice the smallest
    #[arg(long, value_name = "NAME", default_value = "bitpack",
        value_parser = named::<CodecId>(CodecId::names()))]
    pub(crate) codec: CodecId,
}

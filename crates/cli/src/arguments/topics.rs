//! The parts of TREC topics that form a query.

use clap::Args;
use warpseek::query::TopicPart;
use warpseek_console::options::named;

/// The parts of TREC topics that form a query, for commands that read files of queries.
#[derive(Args, Clone, Default)]
pub(crate) struct Topics {
    /// Parts of TREC topics that are the query, e.g. title or title,desc [default: title]
    #[arg(long, value_name = "PART,...", value_delimiter = ',', help_heading = "Query",
        value_parser = named::<TopicPart>(TopicPart::NAMES.to_vec()))]
    pub(crate) topic_field: Vec<TopicPart>,
}

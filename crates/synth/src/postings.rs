//! Posting lists straight from the statistics of a collection, without text.
//!
//! Documents lie in sites (a web site, the chapters of a book: neighbours on the axis of documents), and each site has a topic.
//! A term is active in some sites, more often in those of its home topic, and each active site has an
//! intensity of its own; inside it, documents have the term in proportion to their size. So gaps are short inside an active
//! site and long between them, documents of a topic share terms, and long documents have more terms
//! and higher frequencies. The sizes of documents are log-normal, their lengths follow from their postings.
//!
//! * `config`: presets and settings; `axis`: documents, sites, topics
//! * `law`: how many documents a term is in; `term`: how its postings gather; `list`: the draw of a list
//! * `log`: queries that go with the lists
//!
//! Each list has its own random stream: lists are made in any order, on any number of threads, and as often as needed.

mod axis;
mod config;
mod law;
mod list;
mod log;
mod term;

pub use config::{PostingsConfig, Preset};
pub use list::PostingsGenerator;
pub use log::PostingsQueries;

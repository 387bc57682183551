//! Posting lists generated directly from the statistics of a collection, without text.
//!
//! Documents belong to sites (a web site, or the chapters of a book), which are ranges of
//! consecutive documents, and each site has a topic. A term is active in some sites, more often in
//! those of its home topic, and has its own intensity in each active site; within the site, a
//! document contains the term with a probability that grows with its size. So gaps are short inside
//! an active site and long between active sites, documents of the same topic share terms, and long
//! documents have more terms and higher frequencies. The sizes of documents are log-normal; their
//! lengths follow from their postings.
//!
//! * `config`: presets and settings; `axis`: documents, sites and topics
//! * `law`: how many documents contain a term; `term`: how its postings cluster; `list`: drawing a
//!   list
//! * `log`: queries that match the lists
//!
//! Each list has its own random stream, so lists can be generated in any order, on any number of
//! threads, and repeatedly.

mod axis;
mod config;
mod law;
mod list;
mod log;
mod term;

pub use config::{PostingsConfig, Preset};
pub use list::PostingsGenerator;
pub use log::PostingsQueries;

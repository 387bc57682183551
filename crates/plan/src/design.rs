//! The work of one node of a cluster, as an input file describes it.

use crate::number::{Cohort, Documents, Millis, Rate};

/// The work of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Design {
    /// A row of the paper's table 2: the node searches these documents for a cohort within the
    /// deadline.
    Cohorts {
        /// C, the number of queries of a cohort.
        cohort: Cohort,
        /// Number of documents that the CPU searches, if any.
        cpu: Option<Documents>,
        /// Number of documents that the accelerator searches, if any.
        accelerator: Option<Documents>,
    },
    /// A node that was measured at one size of index and rate.
    ///
    /// A node with s times as many documents is assumed to answer 1/s as many queries, each in s
    /// times the time. For engines that skip documents this overestimates the time, so the plan
    /// is on the safe side.
    Measured {
        /// Number of queries per second that were answered in time.
        rate: Rate,
        /// Number of documents of the index.
        documents: Documents,
        /// The time within which nearly all queries were answered.
        latency: Millis,
        /// Number of documents that fit into the node's memory.
        memory: Documents,
    },
}

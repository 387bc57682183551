//! What an engine knows about the work of a query before it runs.

/// The work that an engine foresees for a plan, from lists that it has searched before. It is an
/// input of cost models, which learn how it relates to times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foresight {
    /// Number of postings in the lists that a document must be in to exceed the threshold that
    /// the search starts with.
    pub essential: u64,
}

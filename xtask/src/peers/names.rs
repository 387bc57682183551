//! The engines that take part in a comparison, by name.

use super::{REORDERED, REORDERED_PEER, US};

/// The order of the documents in our index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DocumentOrder {
    /// The order of addition.
    Plain,
    /// The order of graph bisection.
    Reordered,
}

impl DocumentOrder {
    pub(super) const ALL: [DocumentOrder; 2] = [DocumentOrder::Plain, DocumentOrder::Reordered];

    pub(super) fn name(self) -> &'static str {
        match self {
            DocumentOrder::Plain => US,
            DocumentOrder::Reordered => REORDERED,
        }
    }

    pub(super) fn named(name: &str) -> Result<DocumentOrder, String> {
        let names = DocumentOrder::ALL.map(DocumentOrder::name).join(", ");
        let found = DocumentOrder::ALL.into_iter().find(|order| order.name() == name);
        found.ok_or_else(|| format!("`{name}` is not one of {names}"))
    }
}

/// An engine to compare with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Peer {
    Tantivy,
    /// Lucene 9.
    Lucene,
    Lucene10,
    /// Lucene 10 with documents in the order of its graph bisection.
    Lucene10Bp,
    Pisa,
    Bm25s,
}

impl Peer {
    pub(super) const ALL: [Peer; 6] =
        [Peer::Tantivy, Peer::Lucene, Peer::Lucene10, Peer::Lucene10Bp, Peer::Pisa, Peer::Bm25s];

    pub(super) fn name(self) -> &'static str {
        match self {
            Peer::Tantivy => "tantivy",
            Peer::Lucene => "lucene",
            Peer::Lucene10 => "lucene10",
            Peer::Lucene10Bp => REORDERED_PEER,
            Peer::Pisa => "pisa",
            Peer::Bm25s => "bm25s",
        }
    }

    pub(super) fn named(name: &str) -> Result<Peer, String> {
        let names = Peer::ALL.map(Peer::name).join(", ");
        let found = Peer::ALL.into_iter().find(|p| p.name() == name);
        found.ok_or_else(|| format!("engine `{name}` is not one of {names}"))
    }

    pub(super) fn supports(self, mode: &str) -> bool {
        self != Peer::Bm25s || mode == "or"
    }

    /// Returns true if the engine can return the exact number of matches; its runner may still
    /// lack support for that.
    pub(super) fn counts(self) -> bool {
        matches!(self, Peer::Tantivy | Peer::Lucene)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_run_only_in_modes_they_support() {
        assert!(Peer::Bm25s.supports("or") && !Peer::Bm25s.supports("and"));
        assert!(Peer::Lucene10Bp.supports("and"));
    }
}

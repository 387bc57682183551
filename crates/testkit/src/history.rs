//! Histories of an index: builds, updates, deletions and merges, and the documents that they leave.

use crate::document::Doc;

/// A change to an index.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Adds documents, which replace existing documents with the same id.
    Add(Vec<Doc>),
    /// Deletes documents.
    Delete(Vec<String>),
    /// Merges all segments into one.
    Merge,
}

/// All operations on an index; the first one creates it.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The operations, oldest first.
    pub operations: Vec<Operation>,
}

impl History {
    /// A history with a single build.
    pub fn of(docs: Vec<Doc>) -> Self {
        History { operations: vec![Operation::Add(docs)] }
    }

    /// The documents that are live at the end, in index order. An updated document is at the
    /// position of its newest version.
    pub fn live(&self) -> Vec<Doc> {
        let mut live: Vec<Doc> = Vec::new();
        for operation in &self.operations {
            match operation {
                Operation::Add(docs) => {
                    live.retain(|old| docs.iter().all(|new| new.id != old.id));
                    live.extend(docs.iter().cloned());
                }
                Operation::Delete(ids) => live.retain(|doc| !ids.contains(&doc.id)),
                Operation::Merge => {}
            }
        }
        live
    }
}

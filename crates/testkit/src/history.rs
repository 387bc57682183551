use crate::document::Doc;

/// One change of an index.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Documents come in; those whose id is there replace the ones there.
    Add(Vec<Doc>),
    /// Documents go.
    Delete(Vec<String>),
    /// All segments become one.
    Merge,
}

/// What an index went through; the first operation makes it.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The operations, oldest first.
    pub operations: Vec<Operation>,
}

impl History {
    /// One build.
    pub fn of(docs: Vec<Doc>) -> Self {
        History { operations: vec![Operation::Add(docs)] }
    }

    /// The documents that are live at the end, in the order of the index: a replaced document takes the
    /// place of its newest version.
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

//! Collecting the values of documents and writing them as columns.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use warpseek_text::{AttributeKind, AttributeValue};

use super::value::code;
use super::{keywords, numbers};
use crate::error::{IndexError, Result};
use crate::files::container::{Sealed, SealedWriter};

/// Assumed size in memory of a keyword, besides its entry in a table.
const KEYWORD_BYTES: usize = 32;

/// The columns of a segment that is being built, document by document.
#[derive(Default)]
pub struct AttributesWriter {
    documents: u32,
    columns: BTreeMap<u16, NewColumn>,
}

impl AttributesWriter {
    /// Adds the next document with its values, as pairs of an attribute's number and a value. An
    /// attribute may have several keywords; repetitions are ignored. If a value is refused, the
    /// document is not added.
    pub fn push(&mut self, values: &[(u16, AttributeValue<'_>)]) -> Result<()> {
        for (i, (number, value)) in values.iter().enumerate() {
            let refuse = |what| Err(IndexError::Attribute { column: *number, what });
            if let Some(flaw) = value.flaw() {
                return refuse(flaw);
            }
            let mut before =
                values[..i].iter().filter(|(other, _)| other == number).map(|v| v.1.kind());
            let known = self.columns.get(number).map(|column| column.kind);
            if let Some(kind) =
                known.or_else(|| before.clone().next()).filter(|&kind| kind != value.kind())
            {
                return refuse(format!(
                    "{} among values of kind {}",
                    value.kind().name(),
                    kind.name()
                ));
            }
            if value.kind() != AttributeKind::Keyword && before.next().is_some() {
                return refuse(format!(
                    "a document has two values of kind {}",
                    value.kind().name()
                ));
            }
        }
        for (number, value) in values {
            let column = match self.columns.entry(*number) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(NewColumn::new(value.kind())),
            };
            column.add(self.documents, value);
        }
        self.documents += 1;
        Ok(())
    }

    /// Returns the number of documents so far.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Returns the approximate memory in use, in bytes.
    pub fn memory(&self) -> usize {
        self.columns.values().map(NewColumn::memory).sum()
    }

    /// Writes the file. In a reordered segment, `positions` has the position of each document.
    pub fn write(self, positions: Option<&[u32]>, file: SealedWriter) -> Result<Sealed> {
        let mut out = ColumnsFile::new(file, self.documents);
        for (number, column) in self.columns {
            out.add(number, column, positions)?;
        }
        out.finish()
    }
}

/// A column that is being built: pairs of a document and a value, in any order.
pub(super) struct NewColumn {
    pub(super) kind: AttributeKind,
    pairs: Pairs,
}

enum Pairs {
    Numbers(Vec<(u32, i64)>),
    /// Documents with the number of a value, and the numbers of values in the order in which they
    /// were first seen.
    Keywords(Vec<(u32, u32)>, HashMap<Box<str>, u32>),
}

impl NewColumn {
    pub(super) fn new(kind: AttributeKind) -> Self {
        let pairs = match kind {
            AttributeKind::Keyword => Pairs::Keywords(Vec::new(), HashMap::default()),
            _ => Pairs::Numbers(Vec::new()),
        };
        NewColumn { kind, pairs }
    }

    /// Adds a value of the column's kind.
    fn add(&mut self, doc: u32, value: &AttributeValue<'_>) {
        match value {
            AttributeValue::Keyword(value) => {
                let value = self.intern(value);
                self.add_keyword(doc, value);
            }
            value => value.key().into_iter().for_each(|key| self.add_key(doc, key)),
        }
    }

    /// Adds a value that is not a keyword, by its key.
    pub(super) fn add_key(&mut self, doc: u32, key: i64) {
        if let Pairs::Numbers(pairs) = &mut self.pairs {
            pairs.push((doc, key));
        }
    }

    /// Adds a keyword by the number that [`intern`](Self::intern) gave it.
    pub(super) fn add_keyword(&mut self, doc: u32, value: u32) {
        if let Pairs::Keywords(pairs, _) = &mut self.pairs {
            pairs.push((doc, value));
        }
    }

    /// Returns the number of a keyword, assigning the next one to a new keyword.
    pub(super) fn intern(&mut self, value: &str) -> u32 {
        let Pairs::Keywords(_, numbers) = &mut self.pairs else { return 0 };
        if let Some(&number) = numbers.get(value) {
            return number;
        }
        let next = numbers.len() as u32;
        numbers.insert(value.into(), next);
        next
    }

    fn memory(&self) -> usize {
        match &self.pairs {
            Pairs::Numbers(pairs) => pairs.capacity() * size_of::<(u32, i64)>(),
            Pairs::Keywords(pairs, numbers) => {
                let entry = size_of::<(Box<str>, u32)>() + KEYWORD_BYTES;
                pairs.capacity() * size_of::<(u32, u32)>() + numbers.capacity() * entry
            }
        }
    }

    fn is_empty(&self) -> bool {
        match &self.pairs {
            Pairs::Numbers(pairs) => pairs.is_empty(),
            Pairs::Keywords(pairs, _) => pairs.is_empty(),
        }
    }

    fn encode(self, documents: u32, positions: Option<&[u32]>) -> Vec<u8> {
        let position = |doc: u32| positions.map_or(doc, |positions| positions[doc as usize]);
        match self.pairs {
            Pairs::Numbers(mut pairs) => {
                pairs.iter_mut().for_each(|pair| pair.0 = position(pair.0));
                pairs.sort_unstable();
                numbers::encode(&pairs, documents)
            }
            Pairs::Keywords(mut pairs, numbers) => {
                let mut values: Vec<(&str, u32)> =
                    numbers.iter().map(|(value, &number)| (&**value, number)).collect();
                values.sort_unstable();
                let mut ordinals = vec![0; values.len()];
                (0..)
                    .zip(&values)
                    .for_each(|(ordinal, value)| ordinals[value.1 as usize] = ordinal);
                for (doc, value) in &mut pairs {
                    (*doc, *value) = (position(*doc), ordinals[*value as usize]);
                }
                pairs.sort_unstable();
                pairs.dedup();
                let values: Vec<&str> = values.iter().map(|value| value.0).collect();
                keywords::encode(&pairs, &values, documents)
            }
        }
    }
}

/// A writer of the file, to which columns are added one after the other.
pub(super) struct ColumnsFile {
    file: SealedWriter,
    documents: u32,
    directory: Vec<u8>,
    columns: u32,
}

impl ColumnsFile {
    pub(super) fn new(file: SealedWriter, documents: u32) -> Self {
        ColumnsFile { file, documents, directory: Vec::new(), columns: 0 }
    }

    /// Adds a column, whose number must be larger than all earlier ones. A column without values
    /// is left out.
    pub(super) fn add(
        &mut self,
        number: u16,
        column: NewColumn,
        positions: Option<&[u32]>,
    ) -> Result<()> {
        if column.is_empty() {
            return Ok(());
        }
        let kind = code(column.kind);
        let (start, bytes) = (self.file.body_len(), column.encode(self.documents, positions));
        let [low, high] = number.to_le_bytes();
        self.directory.extend([low, high, kind, 0, 0, 0, 0, 0]);
        self.directory.extend(start.to_le_bytes());
        self.directory.extend((bytes.len() as u64).to_le_bytes());
        self.columns += 1;
        self.file.write(&bytes)
    }

    /// Completes the file.
    pub(super) fn finish(mut self) -> Result<Sealed> {
        self.file.write(&self.directory)?;
        self.file.write(&self.documents.to_le_bytes())?;
        self.file.write(&self.columns.to_le_bytes())?;
        self.file.finish()
    }
}

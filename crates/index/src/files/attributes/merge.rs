//! Merging the columns of several segments, without the deleted documents.

use std::collections::BTreeMap;

use super::write::{ColumnsFile, NewColumn};
use super::{AttributeKind, Attributes, Column, Keywords};
use crate::error::Result;
use crate::files::container::{Sealed, SealedWriter};

/// A segment whose columns are merged.
pub struct AttributesSource<'a> {
    /// Columns of the segment; `None` if it has no file of attributes.
    pub attributes: Option<&'a Attributes>,
    /// Ordinals and positions of the segment's live documents, in their order in the new segment.
    pub live: &'a [(u32, u32)],
}

/// Writes the columns of the merged segment. The file has the same bytes as one built from the
/// live documents.
///
/// If the new segment is reordered, `positions` has the position of each of its documents. Only
/// one column is in memory at a time.
pub fn merge_attributes(
    sources: &[AttributesSource<'_>],
    positions: Option<&[u32]>,
    file: SealedWriter,
) -> Result<Sealed> {
    let documents: usize = sources.iter().map(|source| source.live.len()).sum();
    let mut out = ColumnsFile::new(file, documents as u32);
    for (number, kind) in kinds(sources)? {
        let (mut merged, mut first) = (NewColumn::new(kind), 0);
        for AttributesSource { attributes, live } in sources {
            let column =
                attributes.map(|attributes| attributes.column(number)).transpose()?.flatten();
            let documents = (first..).zip(live.iter().map(|&(_, position)| position));
            match column {
                Some(Column::Numbers(column)) => {
                    let keys =
                        documents.filter_map(|(doc, position)| Some((doc, column.key(position)?)));
                    keys.for_each(|(doc, key)| merged.add_key(doc, key));
                }
                Some(Column::Keywords(column)) => add_keywords(&column, documents, &mut merged)?,
                None => {}
            }
            first += live.len() as u32;
        }
        out.add(number, merged, positions)?;
    }
    out.finish()
}

/// Returns the columns of the sources with their kinds, on which all sources must agree.
fn kinds(sources: &[AttributesSource<'_>]) -> Result<BTreeMap<u16, AttributeKind>> {
    let mut kinds = BTreeMap::new();
    for attributes in sources.iter().filter_map(|source| source.attributes) {
        for (number, kind) in attributes.columns() {
            let known = *kinds.entry(number).or_insert(kind);
            if known != kind {
                let (kind, known) = (kind.name(), known.name());
                let what =
                    format!("column {number} is of kind {kind}, in other segments of kind {known}");
                return Err(attributes.file().corrupt(what));
            }
        }
    }
    Ok(kinds)
}

fn add_keywords(
    column: &Keywords<'_>,
    documents: impl Iterator<Item = (u32, u32)>,
    merged: &mut NewColumn,
) -> Result<()> {
    const UNUSED: u32 = u32::MAX;
    let ordinals = column.ordinals()?;
    let pairs: Vec<(u32, u32)> = documents
        .flat_map(|(doc, position)| ordinals.of(position).map(move |o| (doc, o)))
        .collect();
    // Values that only deleted documents had must not get into the new dictionary.
    let mut numbers = vec![UNUSED; column.values() as usize];
    pairs.iter().for_each(|&(_, ordinal)| numbers[ordinal as usize] = 0);
    column.for_each_value(|ordinal, value| {
        let number = &mut numbers[ordinal as usize];
        if *number != UNUSED {
            *number = merged.intern(&value);
        }
        Ok(())
    })?;
    pairs.iter().for_each(|&(doc, ordinal)| merged.add_keyword(doc, numbers[ordinal as usize]));
    Ok(())
}

//! Inspection of an index: sizes by part, bits per posting, lengths of lists.

use std::path::Path;

use serde::Serialize;
use warpseek_text::Attribute;

use crate::error::Result;
use crate::files::attributes::{AttributeKind, Column};
use crate::files::container::Kind;
use crate::files::deletes::DocSet;
use crate::files::manifest::Manifest;
use crate::snapshot::{Snapshot, Statistics};

/// Sizes in bytes by part.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct PartSizes {
    /// The dictionary of terms.
    pub dictionary: u64,
    /// Documents and frequencies in lists.
    pub payload: u64,
    /// Skip arrays, bounds and block lengths.
    pub skips_and_bounds: u64,
    /// Lengths, norms, static scores and ordinals of documents.
    pub documents: u64,
    /// Columns of attributes.
    pub attributes: u64,
    /// Positions of words.
    #[serde(skip_serializing_if = "is_zero")]
    pub positions: u64,
    /// External ids.
    pub ids: u64,
    /// The stored documents.
    pub store: u64,
    /// Deletions.
    pub deletes: u64,
}

impl PartSizes {
    /// Returns the size of all parts.
    pub fn total(&self) -> u64 {
        self.searchable() + self.attributes + self.positions + self.ids + self.store + self.deletes
    }

    /// Returns the size of the parts that a search without filters and phrases reads: all except
    /// attributes, positions, ids, store and deletions.
    pub fn searchable(&self) -> u64 {
        self.dictionary + self.payload + self.skips_and_bounds + self.documents
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// A text field of an index with a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FieldInspection {
    /// Name of the field.
    pub name: String,
    /// Live documents with at least one token in the field.
    pub documents: u64,
    /// Tokens of live documents in the field.
    pub tokens: u64,
    /// Terms of the field, summed over segments.
    pub terms: u64,
    /// Postings of the field, those of deleted documents included.
    pub postings: u64,
}

/// An attribute of an index with a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttributeInspection {
    /// Name of the attribute.
    pub name: String,
    /// Type of the attribute.
    #[serde(rename = "type")]
    pub kind: AttributeKind,
    /// Live documents with a value.
    pub documents: u64,
    /// Distinct values of a keyword, summed over segments and including values that only deleted
    /// documents have; `None` for other types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<u64>,
    /// Size of the attribute's columns in bytes.
    pub bytes: u64,
}

/// The result of [`inspect`].
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The manifest.
    pub manifest: Manifest,
    /// Live documents.
    pub documents: u64,
    /// Deleted documents that still take up space.
    pub deleted: u64,
    /// Tokens of live documents.
    pub tokens: u64,
    /// Terms, summed over segments.
    pub terms: u64,
    /// Postings, those of deleted documents included.
    pub postings: u64,
    /// The text fields; empty without a schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldInspection>,
    /// The attributes; empty without a schema.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<AttributeInspection>,
    /// Numbers of the segments whose documents are not in the order of the input.
    pub reordered: Vec<u64>,
    /// Sizes in bytes by part.
    pub sizes: PartSizes,
    /// Mean number of bits per posting for its document, without skip arrays and bounds.
    pub bits_per_doc: f64,
    /// Mean number of bits per posting for its frequency.
    pub bits_per_freq: f64,
    /// Lists and postings by length of list: entry i counts lists of 2^i to 2^(i+1) - 1 postings.
    pub histogram: Vec<(u64, u64)>,
}

/// Inspects the index in `dir`. Reads every list.
pub fn inspect(dir: &Path) -> Result<Inspection> {
    let snapshot = Snapshot::open(dir)?;
    let statistics = snapshot.statistics();
    let manifest = snapshot.manifest().clone();
    let all: u64 = manifest.segments.iter().map(|s| s.documents).sum();
    let mut found = Inspection {
        documents: statistics.documents,
        deleted: all - statistics.documents,
        tokens: statistics.tokens,
        terms: manifest.segments.iter().map(|s| s.terms).sum(),
        postings: manifest.segments.iter().map(|s| s.postings).sum(),
        fields: fields_of(&snapshot),
        attributes: attributes_of(&snapshot)?,
        manifest,
        reordered: Vec::new(),
        sizes: PartSizes::default(),
        bits_per_doc: 0.0,
        bits_per_freq: 0.0,
        histogram: Vec::new(),
    };
    let (mut doc_bits, mut freq_bits) = (0u64, 0u64);
    for segment in snapshot.segments() {
        for (kind, file) in segment.files() {
            let len = file.file_len();
            match kind {
                Kind::Docs | Kind::Lengths => found.sizes.documents += len,
                Kind::Attributes => found.sizes.attributes += len,
                Kind::Positions => found.sizes.positions += len,
                Kind::Ids => found.sizes.ids += len,
                Kind::Store => found.sizes.store += len,
                Kind::Dict => found.sizes.dictionary += len,
                // Lists are divided below; a segment has no own files of the other kinds.
                Kind::Post | Kind::Manifest | Kind::Deletes => {}
            }
        }
        if segment.documents().ordinals()?.is_some() {
            found.reordered.push(segment.number());
        }
        let mut payload = 0;
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            let bucket = info.df.ilog2() as usize;
            if found.histogram.len() <= bucket {
                found.histogram.resize(bucket + 1, (0, 0));
            }
            found.histogram[bucket].0 += 1;
            found.histogram[bucket].1 += u64::from(info.df);
            let (field, _) = segment.named(terms.term());
            if let Some(field) = found.fields.get_mut(usize::from(field)) {
                field.terms += 1;
                field.postings += u64::from(info.df);
            }
            if segment.grams().is_some() {
                let list = segment.map_list(&info)?;
                let before = (doc_bits, freq_bits);
                for block in 0..list.blocks() {
                    let (docs, maps) =
                        list.block_bytes(block).map_err(|what| segment.bad_list(&info, what))?;
                    doc_bits += 8 * docs as u64;
                    freq_bits += 8 * maps as u64;
                }
                payload += (doc_bits - before.0 + freq_bits - before.1) / 8;
                continue;
            }
            let list = segment.list(&info)?;
            payload += if info.df == 1 { info.len } else { list.payload_len() as u64 };
            let (docs, freqs) = list.shared_bytes();
            doc_bits += 8 * docs as u64;
            freq_bits += 8 * freqs as u64;
            for block in 0..list.blocks() {
                let (docs, freqs) =
                    list.block_bytes(block).map_err(|what| segment.bad_list(&info, what))?;
                doc_bits += 8 * docs as u64;
                freq_bits += 8 * freqs as u64;
            }
        }
        found.sizes.payload += payload;
        found.sizes.skips_and_bounds += segment.postings_file().file_len().saturating_sub(payload);
    }
    for entry in &found.manifest.segments {
        if let Some(deletes) = &entry.deletes {
            let name = crate::files::manifest::deletes_name(entry.number, deletes.generation);
            found.sizes.deletes += dir.join(name).metadata().map_or(0, |m| m.len());
        }
    }
    let postings = found.postings.max(1) as f64;
    found.bits_per_doc = doc_bits as f64 / postings;
    found.bits_per_freq = freq_bits as f64 / postings;
    Ok(found)
}

/// Returns the text fields with their counts from the manifest.
fn fields_of(snapshot: &Snapshot) -> Vec<FieldInspection> {
    let Some(schema) = &snapshot.manifest().schema else { return Vec::new() };
    let fields = (0..).zip(schema.text()).map(|(number, field)| {
        let Statistics { documents, tokens, .. } = snapshot.field_statistics(number);
        FieldInspection { name: field.name.clone(), documents, tokens, ..Default::default() }
    });
    fields.collect()
}

fn attributes_of(snapshot: &Snapshot) -> Result<Vec<AttributeInspection>> {
    let Some(schema) = &snapshot.manifest().schema else { return Ok(Vec::new()) };
    let inspect = |(number, attribute): (u16, &Attribute)| {
        let (name, kind) = (attribute.name.clone(), attribute.kind);
        let values = (kind == AttributeKind::Keyword).then_some(0);
        let mut found = AttributeInspection { name, kind, documents: 0, values, bytes: 0 };
        for segment in snapshot.segments() {
            let Some(attributes) = segment.attributes() else { continue };
            let Some(column) = attributes.column(number)? else { continue };
            let mut with_value = DocSet::new(segment.documents().count());
            column.exists_into(&mut with_value);
            if let Some(deletes) = segment.deletes() {
                with_value.and_not_assign(&deletes.docs);
            }
            found.documents += with_value.len();
            found.bytes += attributes.column_len(number);
            if let (Column::Keywords(column), Some(values)) = (column, &mut found.values) {
                *values += u64::from(column.values());
            }
        }
        Ok(found)
    };
    (0..).zip(schema.attributes()).map(inspect).collect()
}

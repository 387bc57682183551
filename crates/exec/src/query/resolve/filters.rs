//! Resolves filters to the sets of documents that they admit.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use warpseek_index::{DocSet, Filter as ColumnFilter, FilterCache, Segment, Snapshot};
use warpseek_text::{AttributeKind, FieldId, Schema};

use crate::error::ExecError;
use crate::limit::Ticker;
use crate::mask::Mask;
use crate::query::fields::{self, attribute, read};
use crate::query::limits::MAX_TREE_SET_BYTES;
use crate::query::plan_node::PlanNode;
use crate::query::tree::Filter;

/// The filters of a query, each evaluated once.
pub(super) struct Filters<'a> {
    snapshot: &'a Snapshot,
    schema: Option<&'a Schema>,
    cache: &'a FilterCache,
    /// The sets of documents that attribute filters admit, by the filters' keys.
    sets: HashMap<Arc<[u8]>, PlanNode>,
    /// The sets of documents that have terms in a text field.
    having: HashMap<u8, PlanNode>,
}

impl<'a> Filters<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, cache: &'a FilterCache) -> Self {
        let schema = snapshot.manifest().schema.as_deref();
        Filters { snapshot, schema, cache, sets: HashMap::new(), having: HashMap::new() }
    }

    /// Fails if another set would need too much memory together with the existing ones.
    fn check_sets(&self) -> Result<(), ExecError> {
        let bytes = u64::from(self.snapshot.doc_limit()).div_ceil(8);
        let sets = (self.sets.len() + self.having.len()) as u64 + 1;
        match sets * bytes <= MAX_TREE_SET_BYTES {
            true => Ok(()),
            false => Err(ExecError::Tree(format!(
                "its filters need more than {MAX_TREE_SET_BYTES} bytes, one bit for each document and filter; use fewer different filters"
            ))),
        }
    }

    /// Returns a node of the documents that a filter admits.
    pub(super) fn resolve(
        &mut self,
        filter: &Filter,
        ticker: &mut Ticker<'_>,
    ) -> Result<PlanNode, ExecError> {
        let filter = match filter {
            Filter::Ids(ids) => {
                let mask = Mask::of_ids_in_time(self.snapshot, ids, ticker)?;
                return Ok(PlanNode::Set(Arc::new(mask)));
            }
            Filter::Terms { field, values } => {
                let (column, kind) = attribute(self.schema, field)?;
                let values = values.iter().map(|value| read(field, kind, value));
                ColumnFilter::Terms { column, values: values.collect::<Result<_, _>>()? }
            }
            Filter::Prefix { field, prefix } => {
                let (column, kind) = attribute(self.schema, field)?;
                if kind != AttributeKind::Keyword {
                    return Err(ExecError::Prefix { name: field.clone() });
                }
                ColumnFilter::Prefix { column, prefix: prefix.clone() }
            }
            Filter::Range { field, from, to } => {
                let (column, kind) = attribute(self.schema, field)?;
                let bound = |bound: &Bound<String>| {
                    Ok::<_, ExecError>(match bound {
                        Bound::Included(value) => Bound::Included(read(field, kind, value)?),
                        Bound::Excluded(value) => Bound::Excluded(read(field, kind, value)?),
                        Bound::Unbounded => Bound::Unbounded,
                    })
                };
                let (from, to) = (bound(from)?, bound(to)?);
                ColumnFilter::Range { column, from, to }
            }
            Filter::Exists { field } => match fields::field(self.schema, field)? {
                FieldId::Attribute(column) => ColumnFilter::Exists { column },
                FieldId::Text(number) => return self.having_terms(number, ticker),
            },
        };
        let key = filter.key();
        if let Some(known) = self.sets.get(&key) {
            return Ok(known.clone());
        }
        self.check_sets()?;
        let cache = self.cache;
        let set = |segment: &Arc<Segment>| {
            let documents = segment.documents().count();
            let mut make = |attributes| {
                let mut stops = |documents: usize| ticker.must_stop(documents.div_ceil(64));
                let made = filter.bits_in_time(attributes, documents, &mut stops)?;
                made.ok_or(ExecError::Stopped)
            };
            match segment.attributes() {
                None => Ok(Arc::new(make(None)?)),
                Some(attributes) => {
                    cache.get(attributes.file().seal(), &key, || make(Some(attributes)))
                }
            }
        };
        let sets = self.snapshot.segments().iter().map(set);
        let sets = sets.collect::<Result<_, ExecError>>()?;
        let node = PlanNode::Set(Arc::new(Mask::shared(self.snapshot, sets)));
        self.sets.insert(key, node.clone());
        Ok(node)
    }

    /// Returns the documents that have a term in a field.
    fn having_terms(&mut self, field: u8, ticker: &mut Ticker<'_>) -> Result<PlanNode, ExecError> {
        if let Some(known) = self.having.get(&field) {
            return Ok(known.clone());
        }
        self.check_sets()?;
        let mut sets = Vec::new();
        for segment in self.snapshot.segments() {
            let lengths = segment.lengths(field)?;
            let mut set = DocSet::new(segment.documents().count());
            for doc in 0..segment.documents().count() {
                if ticker.must_stop(1) {
                    return Err(ExecError::Stopped);
                }
                if lengths.get(doc) > 0 {
                    set.insert(doc);
                }
            }
            sets.push(set);
        }
        let node = PlanNode::Set(Arc::new(Mask::new(self.snapshot, sets)));
        self.having.insert(field, node.clone());
        Ok(node)
    }
}

//! Orders of hits, and the values that place a hit in one.

use std::cmp::Ordering;

use warpseek_core::DocId;
use warpseek_text::{AttributeKind, AttributeValue};

/// The most keys of an order.
pub const MAX_SORT_KEYS: usize = 8;

/// A key that hits are sorted by.
///
/// ```
/// use warpseek_exec::gather::{Missing, SortKey};
///
/// // The newest first, undated ones before them; of one year the best first.
/// let order = [SortKey::descending("year").missing(Missing::First), SortKey::score()];
/// assert!(order[1].descending);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// What is compared.
    pub by: SortBy,
    /// Whether the largest comes first.
    pub descending: bool,
    /// Where documents without a value are, whatever the direction.
    pub missing: Missing,
}

/// What a [`SortKey`] compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// The score.
    Score,
    /// The document's id, which is the order in which documents were added.
    Document,
    /// The value of an attribute. Keywords are compared by their bytes. Of several values, the smallest counts in ascending order and the largest in descending order.
    Attribute(String),
}

/// Where documents without a value are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// Before all others.
    First,
    /// After all others.
    #[default]
    Last,
}

impl SortKey {
    /// By score, the best first.
    pub fn score() -> Self {
        SortKey { by: SortBy::Score, descending: true, missing: Missing::Last }
    }

    /// By document id, the first first.
    pub fn document() -> Self {
        SortKey { by: SortBy::Document, descending: false, missing: Missing::Last }
    }

    /// By an attribute, the smallest first.
    pub fn ascending(field: impl Into<String>) -> Self {
        let by = SortBy::Attribute(field.into());
        SortKey { by, descending: false, missing: Missing::Last }
    }

    /// By an attribute, the largest first.
    pub fn descending(field: impl Into<String>) -> Self {
        SortKey { descending: true, ..Self::ascending(field) }
    }

    /// With documents without a value at this end.
    pub fn missing(self, missing: Missing) -> Self {
        SortKey { missing, ..self }
    }
}

/// A key of the order of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// What is compared.
    pub by: PlanBy,
    /// Whether the largest comes first.
    pub descending: bool,
    /// Where documents without a value are.
    pub missing: Missing,
}

/// What a [`PlanKey`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanBy {
    /// The score.
    Score,
    /// The document's id.
    Document,
    /// An attribute.
    Attribute {
        /// Its number in the schema.
        column: u16,
        /// Its type.
        kind: AttributeKind,
    },
}

/// The value of a hit for a key.
#[derive(Clone, Debug, PartialEq)]
pub enum SortValue {
    /// The document has none.
    Missing,
    /// The score as a number. It has all bits of the integer that it is inside of the query.
    Score(f64),
    /// The document's id.
    Document(DocId),
    /// The value of an attribute.
    Value(AttributeValue<'static>),
}

impl SortValue {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let heap = match self {
            SortValue::Value(AttributeValue::Keyword(text)) => text.len(),
            _ => 0,
        };
        size_of::<SortValue>() + heap
    }

    /// Compares values of one key. Those of different types are never compared: plans are checked.
    fn cmp(&self, other: &SortValue) -> Ordering {
        match (self, other) {
            (SortValue::Score(a), SortValue::Score(b)) => a.total_cmp(b),
            (SortValue::Document(a), SortValue::Document(b)) => a.cmp(b),
            (SortValue::Value(a), SortValue::Value(b)) => match (a.as_keyword(), b.as_keyword()) {
                (Some(a), Some(b)) => a.cmp(b),
                _ => a.key().cmp(&b.key()),
            },
            _ => Ordering::Equal,
        }
    }
}

/// A place in an order: the values of a hit, from which a later request continues.
///
/// It is exact over one snapshot. After a refresh, documents may have other scores, and merges may give them other ids.
#[derive(Clone, Debug, PartialEq)]
pub struct SortValues {
    /// A value for each key of the order; for the plain order the score.
    pub values: Vec<SortValue>,
    /// The document. Without it, the place is behind all documents with these values.
    pub doc: Option<DocId>,
}

/// Numbers in it are never NaN.
impl Eq for SortValues {}

impl SortValues {
    /// Whether a hit with these values comes after this place.
    pub(crate) fn is_before(&self, order: &[PlanKey], values: &[SortValue], doc: DocId) -> bool {
        match compare(order, &self.values, values) {
            Ordering::Less => true,
            Ordering::Equal => self.doc.is_some_and(|own| own < doc),
            Ordering::Greater => false,
        }
    }
}

/// Compares the values of two documents by all keys: `Less` is the one that comes first. This is the definition.
pub fn compare(order: &[PlanKey], a: &[SortValue], b: &[SortValue]) -> Ordering {
    let by_key = order.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| {
        let missing = |value: &SortValue| *value == SortValue::Missing;
        match (missing(a), missing(b), key.missing) {
            (true, true, _) => Ordering::Equal,
            (true, false, Missing::First) | (false, true, Missing::Last) => Ordering::Less,
            (true, false, Missing::Last) | (false, true, Missing::First) => Ordering::Greater,
            (false, false, _) if key.descending => b.cmp(a),
            (false, false, _) => a.cmp(b),
        }
    });
    by_key.fold(Ordering::Equal, Ordering::then)
}

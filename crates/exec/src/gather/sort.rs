//! Orders of hits, and the values that determine the place of a hit in an order.

use std::cmp::Ordering;

use warpseek_core::DocId;
use warpseek_text::{AttributeKind, AttributeValue};

/// Maximum number of keys of an order.
pub const MAX_SORT_KEYS: usize = 8;

/// A key that hits are sorted by.
///
/// ```
/// use warpseek_exec::gather::{Missing, SortKey};
///
/// // The newest first, but documents without a year before them; within a year the best first.
/// let order = [SortKey::descending("year").missing(Missing::First), SortKey::score()];
/// assert!(order[1].descending);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// The compared values.
    pub by: SortBy,
    /// True if the largest value comes first.
    pub descending: bool,
    /// The place of documents without a value, in either direction.
    pub missing: Missing,
}

/// The values that a [`SortKey`] compares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SortBy {
    /// The score.
    Score,
    /// The document's id, which reflects the order in which documents were added.
    Document,
    /// The value of an attribute. Keywords are compared by their bytes. A document with several
    /// values is sorted by its smallest value in ascending order and by its largest in descending
    /// order.
    Attribute(String),
}

/// The place of documents without a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// Before all others.
    First,
    /// After all others.
    #[default]
    Last,
}

impl SortKey {
    /// Sorts by score, the best first.
    pub fn score() -> Self {
        SortKey { by: SortBy::Score, descending: true, missing: Missing::Last }
    }

    /// Sorts by document id, the smallest first.
    pub fn document() -> Self {
        SortKey { by: SortBy::Document, descending: false, missing: Missing::Last }
    }

    /// Sorts by an attribute, the smallest value first.
    pub fn ascending(field: impl Into<String>) -> Self {
        let by = SortBy::Attribute(field.into());
        SortKey { by, descending: false, missing: Missing::Last }
    }

    /// Sorts by an attribute, the largest value first.
    pub fn descending(field: impl Into<String>) -> Self {
        SortKey { descending: true, ..Self::ascending(field) }
    }

    /// Sets the place of documents without a value.
    pub fn missing(self, missing: Missing) -> Self {
        SortKey { missing, ..self }
    }
}

/// A key of the order of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanKey {
    /// The compared values.
    pub by: PlanBy,
    /// True if the largest value comes first.
    pub descending: bool,
    /// The place of documents without a value.
    pub missing: Missing,
}

/// The values that a [`PlanKey`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanBy {
    /// The score.
    Score,
    /// The document's id.
    Document,
    /// An attribute.
    Attribute {
        /// Number of the attribute in the schema.
        column: u16,
        /// Type of the attribute.
        kind: AttributeKind,
    },
}

/// The value of a hit for a key.
#[derive(Clone, Debug, PartialEq)]
pub enum SortValue {
    /// The document has no value.
    Missing,
    /// The score as a number, which represents the integer score of the plan exactly.
    Score(f64),
    /// The document's id.
    Document(DocId),
    /// The value of an attribute.
    Value(AttributeValue<'static>),
}

impl SortValue {
    /// Returns the number of bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let heap = match self {
            SortValue::Value(AttributeValue::Keyword(text)) => text.len(),
            _ => 0,
        };
        size_of::<SortValue>() + heap
    }

    /// Compares values of one key. Values of different types are never compared, because plans
    /// are checked.
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

/// A place in an order: the values of a hit, after which a later request continues.
///
/// The place is only exact within one snapshot. After a refresh, documents may have other scores,
/// and merges may give them other ids.
#[derive(Clone, Debug, PartialEq)]
pub struct SortValues {
    /// A value for each key of the order; in the default order, the score.
    pub values: Vec<SortValue>,
    /// The document. Without it, the place is after all documents with these values.
    pub doc: Option<DocId>,
}

/// The numbers in it are never NaN.
impl Eq for SortValues {}

impl SortValues {
    /// Returns true if a hit with these values comes after this place.
    pub(crate) fn is_before(&self, order: &[PlanKey], values: &[SortValue], doc: DocId) -> bool {
        match compare(order, &self.values, values) {
            Ordering::Less => true,
            Ordering::Equal => self.doc.is_some_and(|own| own < doc),
            Ordering::Greater => false,
        }
    }
}

/// Compares the values of two documents by all keys; `Less` means that the first document comes
/// first. This is the definition of the order.
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

//! Sets of documents that may be hits.

use std::sync::Arc;

use warpseek_index::{DocSet, Segment, Snapshot, SnapshotId};

use crate::error::ExecError;
use crate::limit::{LOOKUP_COST, Ticker};

/// The documents of a snapshot that may be hits: a set for each segment, without deleted
/// documents. Statistics, and therefore scores, do not depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The snapshot that positions and deletions refer to.
    snapshot: SnapshotId,
    segments: Vec<Arc<DocSet>>,
}

impl Mask {
    /// Creates a mask of these positions in each segment, and removes deleted documents from it.
    ///
    /// # Panics
    /// Panics if there is not one set for each segment, or if a set is not for as many documents
    /// as the segment has.
    pub fn new(snapshot: &Snapshot, sets: Vec<DocSet>) -> Self {
        assert_eq!(sets.len(), snapshot.segments().len(), "sets and segments");
        let live = |(mut set, segment): (DocSet, &Arc<Segment>)| {
            let words = (segment.documents().count() as usize).div_ceil(64);
            assert_eq!(set.words().len(), words, "documents of a segment");
            if let Some(deletes) = segment.deletes() {
                set.and_not_assign(&deletes.docs);
            }
            Arc::new(set)
        };
        let segments = sets.into_iter().zip(snapshot.segments()).map(live).collect();
        Mask { snapshot: snapshot.id(), segments }
    }

    /// Creates a mask like [`Mask::new`], from shared sets, which are only copied if documents
    /// were deleted.
    pub(crate) fn shared(snapshot: &Snapshot, sets: Vec<Arc<DocSet>>) -> Self {
        let live = |(mut set, segment): (Arc<DocSet>, &Arc<Segment>)| {
            if let Some(deletes) = segment.deletes() {
                Arc::make_mut(&mut set).and_not_assign(&deletes.docs);
            }
            set
        };
        let segments = sets.into_iter().zip(snapshot.segments()).map(live).collect();
        Mask { snapshot: snapshot.id(), segments }
    }

    /// Returns the documents that are in both masks.
    ///
    /// # Panics
    /// Panics if the masks are not of the same snapshot.
    pub fn and(&self, other: &Mask) -> Self {
        assert_eq!(self.snapshot, other.snapshot, "masks of one snapshot");
        let both = |(a, b): (&Arc<DocSet>, &Arc<DocSet>)| {
            let mut set = (**a).clone();
            set.and_assign(b);
            Arc::new(set)
        };
        let segments = self.segments.iter().zip(&other.segments).map(both).collect();
        Mask { snapshot: self.snapshot, segments }
    }

    /// Creates a mask of the live documents with these ids. Unknown ids are ignored.
    pub fn of_ids<I: AsRef<str>>(
        snapshot: &Snapshot,
        ids: impl IntoIterator<Item = I>,
    ) -> Result<Self, ExecError> {
        Self::of_ids_in_time(snapshot, ids, &mut Ticker::unlimited())
    }

    /// Creates a mask like [`Mask::of_ids`], but fails with [`ExecError::Stopped`] if the ticker
    /// signals to stop.
    pub fn of_ids_in_time<I: AsRef<str>>(
        snapshot: &Snapshot,
        ids: impl IntoIterator<Item = I>,
        ticker: &mut Ticker<'_>,
    ) -> Result<Self, ExecError> {
        let segments = snapshot.segments();
        let empty = |segment: &Arc<Segment>| DocSet::new(segment.documents().count());
        let mut sets: Vec<DocSet> = segments.iter().map(empty).collect();
        for id in ids {
            if ticker.must_stop(LOOKUP_COST * segments.len()) {
                return Err(ExecError::Stopped);
            }
            let Some(doc) = snapshot.find_id(id.as_ref())? else { continue };
            let number = segments.partition_point(|segment| segment.base() <= doc) - 1;
            let ordinal = doc - segments[number].base();
            sets[number].insert(segments[number].documents().position(ordinal)?);
        }
        Ok(Mask::new(snapshot, sets))
    }

    /// Returns the number of bytes of memory.
    pub fn bytes(&self) -> usize {
        self.segments.iter().map(|set| 8 * set.words().len()).sum()
    }

    /// Returns the snapshot that the mask is for. Engines reject plans of other snapshots with
    /// this mask.
    pub fn snapshot(&self) -> SnapshotId {
        self.snapshot
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns the documents of a segment, by position.
    pub fn segment(&self, number: usize) -> &DocSet {
        &self.segments[number]
    }

    /// Returns true if no document may be a hit.
    pub fn is_empty(&self) -> bool {
        self.segments.iter().all(|set| set.is_empty())
    }

    /// Returns the number of documents that may be hits.
    pub fn documents(&self) -> u64 {
        self.segments.iter().map(|set| set.len()).sum()
    }
}

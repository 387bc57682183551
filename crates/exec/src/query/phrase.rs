//! Phrases of plans: terms that stand in a document as they stand in the query.

use warpseek_core::limits::BLOCK;
use warpseek_index::{DocSet, PositionReader, Segment, TermInfo};

use super::plan_node::listed;
use crate::error::ExecError;

/// Documents whose positions are in memory at a time.
const AT_A_TIME: usize = 1024;

/// A phrase, with its terms looked up. It adds nothing to scores.
///
/// A document has the phrase if each of its slots can be given a position of the slot's term in the document, no two slots the same position of one term, so that the differences between
/// the positions and the offsets of the slots are all the same; with a slop, so that the largest of them is larger than the smallest by the slop at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPhrase {
    /// Its different terms, with the number of their text field.
    pub terms: Vec<(u8, String)>,
    /// Their entries in each segment's dictionary.
    pub lists: Vec<Vec<Option<TermInfo>>>,
    /// Each word of the phrase: the number of its term above, and how far it is from the first word. Offsets ascend.
    pub slots: Vec<(usize, u32)>,
    /// How far words may be from where they should be.
    pub slop: u32,
}

impl PlanPhrase {
    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|lists| size_of_val(lists.as_slice())).sum();
        lists + size_of_val(self.slots.as_slice())
    }

    /// Whether a document with these positions of each term has the phrase; positions ascend.
    ///
    /// The smallest difference is that of some slot and position. If it is this one, every slot wants a position from here to the slop after; of the slots of one term, which all want as many, the first
    /// takes the first that there is, since a later one can only be of use to those after it.
    pub fn is_met<P: AsRef<[u32]>>(&self, positions: &[P]) -> bool {
        self.slots.iter().any(|&(term, offset)| {
            let differences = positions[term].as_ref().iter();
            let mut differences = differences.map(|&p| i64::from(p) - i64::from(offset));
            differences.any(|smallest| self.is_met_from(smallest, positions))
        })
    }

    fn is_met_from<P: AsRef<[u32]>>(&self, smallest: i64, positions: &[P]) -> bool {
        (0..positions.len()).all(|number| {
            let (positions, mut free) = (positions[number].as_ref(), 0);
            let mut own = self.slots.iter().filter(|slot| slot.0 == number);
            own.all(|&(_, offset)| {
                let from = smallest + i64::from(offset);
                free += positions[free..].partition_point(|&p| i64::from(p) < from);
                let found = positions.get(free);
                free = positions.len().min(free + 1);
                found.is_some_and(|&p| i64::from(p) - from <= i64::from(self.slop))
            })
        })
    }

    /// The documents of a segment that have the phrase, by position. Deleted ones may be among them.
    pub(crate) fn documents(&self, segment: &Segment, number: usize) -> Result<DocSet, ExecError> {
        self.documents_of(segment, number, DocSet::full(segment.documents().count()))
    }

    /// Whether the document at a position of a segment has the phrase.
    pub(crate) fn is_in(
        &self,
        segment: &Segment,
        number: usize,
        position: u32,
    ) -> Result<bool, ExecError> {
        let mut only = DocSet::new(segment.documents().count());
        only.insert(position);
        Ok(!self.documents_of(segment, number, only)?.is_empty())
    }

    fn documents_of(
        &self,
        segment: &Segment,
        number: usize,
        mut having: DocSet,
    ) -> Result<DocSet, ExecError> {
        let none = DocSet::new(segment.documents().count());
        let infos: Option<Vec<&TermInfo>> =
            self.lists.iter().map(|lists| lists[number].as_ref()).collect();
        let Some(infos) = infos else { return Ok(none) };
        for info in &infos {
            having.and_assign(&listed(segment, Some(info))?);
        }
        let documents: Vec<u32> = having.iter().collect();
        let mut met = none;
        for documents in documents.chunks(AT_A_TIME) {
            let places = infos.iter().map(|info| positions_of(segment, info, documents));
            let places = places.collect::<Result<Vec<_>, _>>()?;
            for (i, &document) in documents.iter().enumerate() {
                let positions: Vec<&[u32]> = places.iter().map(|of_term| &of_term[i][..]).collect();
                if self.is_met(&positions) {
                    met.insert(document);
                }
            }
        }
        Ok(met)
    }
}

/// The positions of a term in documents that all have it; documents ascend.
fn positions_of(
    segment: &Segment,
    info: &TermInfo,
    documents: &[u32],
) -> Result<Vec<Vec<u32>>, ExecError> {
    let mut found = Vec::with_capacity(documents.len());
    let Some(positions) = segment.positions(info)? else { return Err(ExecError::NoPositions) };
    let (list, mut reader) = (segment.list(info)?, PositionReader::new(positions));
    let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
    let first = documents.first().map_or(list.blocks(), |&doc| list.block_for(doc));
    for block in first..list.blocks() {
        let Some(&wanted) = documents.get(found.len()) else { break };
        if wanted > list.block_max_doc(block) {
            continue;
        }
        let n = list
            .decode_docs(block, &mut docs)
            .and_then(|_| list.decode_freqs(block, &mut freqs))
            .map_err(|what| segment.bad_list(info, what))?;
        for (i, doc) in docs[..n].iter().enumerate() {
            if documents.get(found.len()) == Some(doc) {
                let mut own = Vec::new();
                reader.read(block, &freqs[..n], i, &mut own)?;
                found.push(own);
            }
        }
    }
    match found.len() == documents.len() {
        true => Ok(found),
        // The list was different before.
        false => Err(segment.bad_list(info, "it lacks documents").into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries all choices of positions.
    fn by_trying(phrase: &PlanPhrase, positions: &[Vec<u32>], chosen: &mut Vec<u32>) -> bool {
        let Some(&(term, _)) = phrase.slots.get(chosen.len()) else {
            let slots = phrase.slots.iter().zip(&*chosen);
            let differences: Vec<i64> =
                slots.map(|(slot, &p)| i64::from(p) - i64::from(slot.1)).collect();
            let (least, most) = (differences.iter().min(), differences.iter().max());
            return most.unwrap() - least.unwrap() <= i64::from(phrase.slop);
        };
        positions[term].iter().any(|&position| {
            let slots = phrase.slots.iter().zip(&*chosen);
            if slots.clone().any(|(slot, &p)| slot.0 == term && p == position) {
                return false;
            }
            chosen.push(position);
            let met = by_trying(phrase, positions, chosen);
            chosen.pop();
            met
        })
    }

    proptest! {
        #[test]
        fn all_choices_are_considered(
            slots in proptest::collection::vec((0usize..3, 0u32..3), 1..5),
            positions in proptest::collection::vec(proptest::collection::btree_set(0u32..12, 0..5), 3),
            slop in 0u32..5,
        ) {
            let mut offset = 0;
            let slots = slots.into_iter().map(|(term, gap)| {
                offset += gap;
                (term, offset)
            });
            let slots = slots.collect();
            let phrase = PlanPhrase { terms: Vec::new(), lists: Vec::new(), slots, slop };
            let positions: Vec<Vec<u32>> =
                positions.into_iter().map(|set| set.into_iter().collect()).collect();
            prop_assert_eq!(phrase.is_met(&positions), by_trying(&phrase, &positions, &mut Vec::new()));
        }
    }
}

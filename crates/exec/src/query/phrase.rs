//! Phrases of plans: terms that stand in a document as they stand in the query.

use warpseek_core::limits::BLOCK;
use warpseek_index::{DocSet, PositionReader, Segment, TermInfo};

use super::plan_node::listed;
use crate::error::ExecError;
use crate::limit::Ticker;

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

    /// Whether a document with these positions of each term has the phrase; positions ascend. `None` if the ticker says that
    /// it is time to stop.
    pub fn is_met<P: AsRef<[u32]>>(
        &self,
        positions: &[P],
        starts: &mut Starts,
        ticker: &mut Ticker<'_>,
    ) -> Option<bool> {
        starts.begin();
        for (number, positions) in positions.iter().enumerate() {
            let offsets = self.slots.iter().filter(|slot| slot.0 == number).map(|slot| slot.1);
            if !starts.keep(positions.as_ref(), offsets, self.slop, ticker)? {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The documents of a segment that have the phrase, by position. Deleted ones may be among them.
    pub(crate) fn documents(
        &self,
        segment: &Segment,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<DocSet, ExecError> {
        let mut met = DocSet::new(segment.documents().count());
        let Some(infos) = self.infos(number) else { return Ok(met) };
        let mut having = DocSet::full(segment.documents().count());
        for info in &infos {
            having.and_assign(&listed(segment, Some(info), ticker)?);
        }
        let (documents, mut starts): (Vec<u32>, _) = (having.iter().collect(), Starts::default());
        for documents in documents.chunks(AT_A_TIME) {
            let places = infos.iter().map(|info| positions_of(segment, info, documents, ticker));
            let places = places.collect::<Result<Vec<_>, _>>()?;
            for (i, &document) in documents.iter().enumerate() {
                let positions: Vec<&[u32]> = places.iter().map(|of_term| &of_term[i][..]).collect();
                let is_met = self.is_met(&positions, &mut starts, ticker);
                if is_met.ok_or(ExecError::Stopped)? {
                    met.insert(document);
                }
            }
        }
        Ok(met)
    }

    /// Whether the document at a position of a segment has the phrase.
    pub(crate) fn is_in(
        &self,
        segment: &Segment,
        number: usize,
        position: u32,
    ) -> Result<bool, ExecError> {
        let (Some(infos), mut ticker) = (self.infos(number), Ticker::unlimited()) else {
            return Ok(false);
        };
        let mut places = Vec::with_capacity(infos.len());
        for info in infos {
            let list = segment.list(info)?;
            let (block, mut docs) = (list.block_for(position), [0; BLOCK]);
            if block == list.blocks() {
                return Ok(false);
            }
            let decoded = list.decode_docs(block, &mut docs);
            let n = decoded.map_err(|what| segment.bad_list(info, what))?;
            if docs[..n].binary_search(&position).is_err() {
                return Ok(false);
            }
            places.extend(positions_of(segment, info, &[position], &mut ticker)?);
        }
        Ok(self.is_met(&places, &mut Starts::default(), &mut ticker) == Some(true))
    }

    /// The entries of its terms in a segment; none if the segment lacks one.
    fn infos(&self, number: usize) -> Option<Vec<&TermInfo>> {
        self.lists.iter().map(|lists| lists[number].as_ref()).collect()
    }
}

/// Where a phrase may begin in a document, and the memory to find that out.
///
/// A start is a number to which the difference between a slot's position and its offset is equal, or larger by the slop at
/// most. A document has the phrase if there is a start from which every slot has a position, and slots of one term different
/// ones. From a given start, each slot of a term takes the first position that it may have and that those before it left,
/// since slots ascend by their offsets and all have as much room: a later position could only be of use to a later slot.
///
/// So the starts with which a slot takes a certain position or an earlier one end at a certain number, and these numbers
/// follow from those of the slot before, one for each position. Each slot leaves ranges of starts, and what is left of all of
/// them is the answer. The work for a slot is a pass over the positions of its term and over the ranges that are left, which are
/// fewer than the positions of the document and the offsets of the phrase: all of it is bounded by words times positions.
#[derive(Debug, Default)]
pub struct Starts {
    /// The first and last of each range that is left, ascending and apart.
    left: Vec<(i64, i64)>,
    /// Where the next ones are put together.
    next: Vec<(i64, i64)>,
    /// For each position, the last start with which the slot at hand takes it or an earlier one.
    last: Vec<i64>,
}

impl Starts {
    /// A new document, in which the phrase may begin anywhere.
    pub fn begin(&mut self) {
        self.left.clear();
        self.left.push((i64::MIN, i64::MAX));
    }

    /// Keeps the starts from which all slots of a term, whose offsets ascend, have different positions of these, which ascend
    /// too; false if there is none. `None` if the ticker says that it is time to stop.
    pub fn keep(
        &mut self,
        positions: &[u32],
        offsets: impl IntoIterator<Item = u32>,
        slop: u32,
        ticker: &mut Ticker<'_>,
    ) -> Option<bool> {
        self.last.clear();
        for (slot, offset) in offsets.into_iter().map(i64::from).enumerate() {
            if ticker.must_stop(positions.len() + self.left.len()) {
                return None;
            }
            // The slots before it need a position each.
            let Some(own) = positions.get(slot..) else { return Some(false) };
            let first = |&position: &u32| i64::from(position) - offset;
            if slot == 0 {
                self.last.extend(own.iter().map(first));
            } else {
                // If it takes a position, the slot before takes an earlier one.
                self.last.truncate(own.len());
                let last = self.last.iter_mut().zip(own);
                last.for_each(|(last, position)| *last = first(position).min(*last));
            }
            self.meet(own, offset + i64::from(slop));
            if self.left.is_empty() {
                return Some(false);
            }
        }
        Some(true)
    }

    /// Keeps the starts with which the slot at hand takes a position that is no farther from them than this.
    fn meet(&mut self, positions: &[u32], farthest: i64) {
        let Starts { left, next, last } = self;
        next.clear();
        // What each position allows is put together to ranges first: where positions are dense there are few.
        let (mut at, mut own, mut before) = (0, None, i64::MIN);
        for (&position, &last) in positions.iter().zip(&*last) {
            let first = (i64::from(position) - farthest).max(before);
            before = last + 1;
            if first > last {
                continue;
            }
            match &mut own {
                Some((_, to)) if *to + 1 == first => *to = last,
                own => {
                    if let Some(range) = own.replace((first, last)) {
                        intersect(left, &mut at, range, next);
                    }
                }
            }
        }
        if let Some(range) = own {
            intersect(left, &mut at, range, next);
        }
        std::mem::swap(left, next);
    }
}

/// Adds what a range has in common with those of a list from `at` on, which moves on to the first that may go on behind it.
fn intersect(
    left: &[(i64, i64)],
    at: &mut usize,
    (from, to): (i64, i64),
    out: &mut Vec<(i64, i64)>,
) {
    while let Some(range) = left.get(*at).filter(|range| range.0 <= to) {
        if range.1 >= from {
            out.push((range.0.max(from), range.1.min(to)));
        }
        if range.1 > to {
            break;
        }
        *at += 1;
    }
}

/// The positions of a term in documents that all have it; documents ascend.
fn positions_of(
    segment: &Segment,
    info: &TermInfo,
    documents: &[u32],
    ticker: &mut Ticker<'_>,
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
                if ticker.must_stop(freqs[i] as usize) {
                    return Err(ExecError::Stopped);
                }
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
    use crate::limit::{Cancel, Limit};

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
            let mut starts = Starts::default();
            // Memory is used again.
            starts.left.extend([(3, 4), (7, 9)]);
            let met = phrase.is_met(&positions, &mut starts, &mut Ticker::unlimited());
            prop_assert_eq!(met, Some(by_trying(&phrase, &positions, &mut Vec::new())));
            prop_assert_eq!(met, Some(by_starts(&phrase, &positions)));
        }

        /// Long documents of few words, with phrases that repeat them.
        #[test]
        fn repeated_words_of_long_documents(
            words in proptest::collection::vec(0usize..3, 2..60),
            document in proptest::collection::vec(0usize..4, 0..400),
            slop in 0u32..40,
            distance in 1u32..8,
        ) {
            let slots = (0..).map(|i| i * distance).zip(&words).map(|(at, word)| (*word, at)).collect();
            let phrase = PlanPhrase { terms: Vec::new(), lists: Vec::new(), slots, slop };
            let positions: Vec<Vec<u32>> = (0..3)
                .map(|word| (0..).zip(&document).filter(|(_, w)| **w == word).map(|(at, _)| at).collect())
                .collect();
            let met = phrase.is_met(&positions, &mut Starts::default(), &mut Ticker::unlimited());
            prop_assert_eq!(met, Some(by_starts(&phrase, &positions)));
        }
    }

    /// Tries all starts that there can be; from each, every slot takes the first position that it may have.
    fn by_starts(phrase: &PlanPhrase, positions: &[Vec<u32>]) -> bool {
        let slots = phrase.slots.iter();
        let starts = slots.flat_map(|&(term, offset)| {
            positions[term].iter().map(move |&p| i64::from(p) - i64::from(offset))
        });
        starts.into_iter().any(|start| {
            (0..positions.len()).all(|term| {
                let mut next = 0;
                phrase.slots.iter().filter(|slot| slot.0 == term).all(|&(_, offset)| {
                    let from = start + i64::from(offset);
                    let free = (next..positions[term].len())
                        .find(|&i| i64::from(positions[term][i]) >= from);
                    next = free.map_or(usize::MAX, |i| i + 1);
                    free.is_some_and(|i| {
                        i64::from(positions[term][i]) - from <= i64::from(phrase.slop)
                    })
                })
            })
        })
    }

    /// A word a hundred times in a phrase, over a document of a million words: looked for from each of a hundred million starts, this would take hours.
    #[test]
    fn work_is_bounded_by_words_times_positions() {
        let slots: Vec<(usize, u32)> = (0..100).map(|i| (0, 2 * i)).collect();
        let phrase = PlanPhrase { terms: Vec::new(), lists: Vec::new(), slots, slop: 5 };
        let positions: Vec<u32> = (0..1_000_000).filter(|at| at % 1500 != 0).collect();
        let (mut starts, limit) = (Starts::default(), Limit::none().cancelled_by(Cancel::new()));
        let met = phrase.is_met(&[&positions], &mut starts, &mut limit.ticker());
        assert_eq!(met, Some(true));
        let sparse: Vec<u32> = (0..1_000_000).step_by(9).collect();
        assert_eq!(phrase.is_met(&[&sparse], &mut starts, &mut limit.ticker()), Some(false));
    }

    #[test]
    fn it_stops_between_two_words() {
        let slots: Vec<(usize, u32)> = (0..100).map(|i| (0, i)).collect();
        let phrase = PlanPhrase { terms: Vec::new(), lists: Vec::new(), slots, slop: 1 };
        let positions: Vec<u32> = (0..500).collect();
        let met = |looks: u32| {
            let limit = Limit::none().cancelled_by(Cancel::after(looks));
            phrase.is_met(&[&positions], &mut Starts::default(), &mut limit.ticker())
        };
        assert_eq!((met(0), met(1), met(99), met(100)), (None, None, None, Some(true)));
    }
}

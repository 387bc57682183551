//! Phrases of plans: terms at certain distances from each other in a document.

use warpseek_core::limits::BLOCK;
use warpseek_index::{DocSet, PositionReader, Segment, TermInfo};

use super::list::listed;
use crate::error::ExecError;
use crate::limit::Ticker;

/// Number of documents whose positions are in memory at a time.
const AT_A_TIME: usize = 1024;

/// A phrase with its terms looked up. It adds nothing to scores.
///
/// A document has the phrase if every slot can be given a position of its term in the document,
/// different slots of one term different positions, such that the differences between the
/// positions and the offsets of the slots are all equal. With a slop, the largest difference may
/// exceed the smallest by at most the slop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanPhrase {
    /// The different terms of the phrase, with the number of their text field.
    pub terms: Vec<(u8, String)>,
    /// The terms' entries in each segment's dictionary.
    pub lists: Vec<Vec<Option<TermInfo>>>,
    /// The words of the phrase: for each, the index of its term in `terms` and its distance from
    /// the first word. Offsets ascend.
    pub slots: Vec<(usize, u32)>,
    /// Maximum distance of words from their place in the phrase.
    pub slop: u32,
}

impl PlanPhrase {
    /// Returns the approximate number of bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|lists| size_of_val(lists.as_slice())).sum();
        lists + size_of_val(self.slots.as_slice())
    }

    /// Returns true if a document with these ascending positions of each term has the phrase;
    /// `None` if the ticker signals to stop.
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

    /// Returns the documents of a segment that have the phrase, by position. Deleted documents
    /// may be among them.
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

    /// Returns true if the document at a position of a segment has the phrase.
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

    /// Returns the entries of the terms in a segment; `None` if the segment lacks one of them.
    fn infos(&self, number: usize) -> Option<Vec<&TermInfo>> {
        self.lists.iter().map(|lists| lists[number].as_ref()).collect()
    }
}

/// The possible starts of a phrase in a document, and the memory to compute them.
///
/// A start is a number s such that every slot has a position in the document whose difference to
/// the slot's offset is between s and s + slop, with different positions for different slots of
/// one term. A document has the phrase if there is a start. For a given start, each slot of a
/// term can take the first position that is late enough and not taken by an earlier slot of the
/// term. Since slots ascend by their offsets and all have the same slop, a later position could
/// only be useful to a later slot.
///
/// The starts for which a slot takes a certain position or an earlier one therefore end at a
/// certain number, and these numbers follow from those of the slot before, one for each position.
/// Each slot admits ranges of starts, and the intersection of the ranges of all slots is the set
/// of starts. The work for a slot is one pass over the positions of its term and over the
/// remaining ranges, which are fewer than the positions of the document and the offsets of the
/// phrase. The total work is bounded by the number of words times the number of positions.
#[derive(Debug, Default)]
pub struct Starts {
    /// The first and last start of each remaining range; the ranges are ascending and not
    /// adjacent.
    left: Vec<(i64, i64)>,
    /// Buffer in which the next ranges are collected.
    next: Vec<(i64, i64)>,
    /// The last start, for each position, for which the current slot takes that position or an
    /// earlier one.
    last: Vec<i64>,
}

impl Starts {
    /// Begins a new document, in which the phrase may start anywhere.
    pub fn begin(&mut self) {
        self.left.clear();
        self.left.push((i64::MIN, i64::MAX));
    }

    /// Keeps the starts for which all slots of a term have different positions. Both `positions`
    /// and the `offsets` of the slots ascend. Returns false if no start is left, and `None` if
    /// the ticker signals to stop.
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
            // The earlier slots of the term need a position each.
            let Some(own) = positions.get(slot..) else { return Some(false) };
            let first = |&position: &u32| i64::from(position) - offset;
            if slot == 0 {
                self.last.extend(own.iter().map(first));
            } else {
                // If this slot takes a position, the slot before it takes an earlier one.
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

    /// Keeps the starts for which the current slot takes a position that is at most `farthest`
    /// after the start.
    fn meet(&mut self, positions: &[u32], farthest: i64) {
        let Starts { left, next, last } = self;
        next.clear();
        // The ranges of single positions are joined first: where positions are dense, few ranges
        // result.
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

/// Adds the intersection of a range with the ranges of a list from `at` on. Advances `at` to the
/// first range that may extend beyond the given one.
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

/// Returns the positions of a term in documents that all contain it; the documents ascend.
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
        // An earlier read of the list found these documents.
        false => Err(segment.bad_list(info, "it lacks documents").into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::{Cancel, Limit};

    /// Returns true if some choice of positions forms the phrase, by trying all of them.
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
            // The memory has been used before.
            starts.left.extend([(3, 4), (7, 9)]);
            let met = phrase.is_met(&positions, &mut starts, &mut Ticker::unlimited());
            prop_assert_eq!(met, Some(by_trying(&phrase, &positions, &mut Vec::new())));
            prop_assert_eq!(met, Some(by_starts(&phrase, &positions)));
        }

        /// Tests long documents of few words, with phrases that repeat words.
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

    /// Returns true if there is a start, by trying all possible ones; for each, every slot takes
    /// the first position that it may take.
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

    /// Tests a phrase of the same word a hundred times on a document of a million words. Trying
    /// each of a hundred million starts would take hours.
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

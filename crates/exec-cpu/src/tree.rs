//! Query trees, a window of documents at a time: each part of the tree gives the documents of the
//! window that match it, as bits, and their scores.
//!
//! A part is evaluated only for documents that the parts before it have not excluded, so lists are
//! not decoded where all documents are excluded. Documents that are deleted or not in the plan's
//! mask are excluded from the start. Unless matches are counted, a window is skipped if the maxima
//! of its blocks show that no document in it can become a hit.

use std::ops::Range;

use warpseek_core::Score;
use warpseek_core::limits::BLOCK;
use warpseek_exec::query::{Group, PlanNode, PlanTree, best_score};
use warpseek_exec::{ExecError, Formula, Plan, Ticker, Work};
use warpseek_index::{List, ListError, TermInfo};

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::halt::Halt;
use crate::maxima::{Maxima, MaximaCache};
use crate::phrase::Phrase;
use crate::scorer::Scorer;
use crate::segment::SegmentQuery;
use crate::stream::find_block;

/// Documents of a window. The scores of a part take 32 KiB, so that those of a few parts stay in
/// the cache.
pub(crate) const WINDOW: u32 = 1 << 13;
pub(crate) const WORDS: usize = WINDOW as usize / 64;

/// Returns the amount that is added to scores during the search: documents may match a tree with
/// a score of 0, which the collector would treat as no match.
pub(crate) fn lift(plan: &Plan) -> Score {
    u32::from(plan.needed_tree().is_some())
}

/// Returns the tree that is equivalent to the terms of a flat plan, with AND (`all`) or OR.
pub(crate) fn flat(plan: &Plan, all: bool) -> PlanNode {
    let terms = (0..plan.terms.len()).map(PlanNode::Term).collect();
    PlanNode::Group(match all {
        true => Group { must: terms, ..Group::default() },
        false => Group { should: terms, least: 1, ..Group::default() },
    })
}

/// Returns the tree to evaluate for a plan: its own tree, or the flat one.
pub(crate) fn root<'a>(plan: &'a Plan, flat: &'a PlanNode) -> (&'a PlanNode, Option<&'a PlanTree>) {
    let tree = plan.needed_tree();
    (tree.map_or(flat, |tree| &tree.root), tree)
}

/// A set of documents of a window.
pub(crate) type Bits = [u64; WORDS];

/// The documents of a window that match a part of the tree, and their scores. Scores of other
/// documents are undefined.
pub(crate) struct Values {
    pub(crate) bits: Box<Bits>,
    pub(crate) scores: Vec<Score>,
}

/// Memory that is reused from part to part and from query to query.
#[derive(Default)]
pub(crate) struct Scratch {
    free: Vec<Values>,
}

impl Scratch {
    fn take(&mut self) -> Values {
        let mut values = self
            .free
            .pop()
            .unwrap_or_else(|| Values { bits: Box::new([0; WORDS]), scores: Vec::new() });
        values.bits.fill(0);
        values.scores.clear();
        values.scores.resize(WINDOW as usize, 0);
        values
    }

    pub(crate) fn give_back(&mut self, values: Values) {
        self.free.push(values);
    }
}

/// The tree of a query on one segment.
pub(crate) struct Tree<'a> {
    root: &'a PlanNode,
    lists: &'a [Vec<Option<TermInfo>>],
    terms: Vec<Option<Leaf<'a>>>,
    words: Vec<Option<Leaf<'a>>>,
    phrases: Vec<Option<Phrase<'a>>>,
}

impl<'a> Tree<'a> {
    /// Opens the lists of a plan's tree, or of a tree that has no words and phrases. Without
    /// `scored`, all scores are 0.
    pub(crate) fn open(
        query: &SegmentQuery<'a>,
        root: &'a PlanNode,
        tree: Option<&'a PlanTree>,
        scored: bool,
        cache: &MaximaCache,
        ticker: &mut Ticker<'_>,
    ) -> Result<Self, Halt> {
        let number = query.number();
        let all = query.plan.count || query.plan.gather.is_some();
        let pruning = if all { Pruning::None } else { Pruning::Blocks };
        let mut opened =
            query.lists(pruning, cache, ticker, |list, weight, scorer, most, maxima| Leaf {
                weight,
                scorer: scored.then_some(scorer),
                most,
                maxima,
                ..Leaf::new(list)
            })?;
        let mut opened = opened.drain(..);
        let of_segment = |lists: &[Option<TermInfo>]| lists[number].is_some();
        let terms = query.plan.terms.iter().map(|term| match of_segment(&term.lists) {
            true => opened.next(),
            false => None,
        });
        let terms = terms.collect();
        let word = |lists: &Vec<Option<TermInfo>>| match &lists[number] {
            Some(info) => Ok(Some(Leaf::new(query.segment.list(info)?))),
            None => Ok(None),
        };
        let lists = tree.map_or(&[][..], |tree| &tree.words);
        let words = lists.iter().map(word).collect::<Result<_, ExecError>>()?;
        let phrases = tree.map_or(&[][..], |tree| &tree.phrases).iter();
        let phrases = phrases.map(|phrase| Phrase::open(query.segment, number, phrase));
        let phrases = phrases.collect::<Result<_, ExecError>>()?;
        Ok(Tree { root, lists, terms, words, phrases })
    }

    /// Returns, for each list, how many blocks were decoded and how many there are.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let leaves = self.terms.iter().chain(&self.words).flatten();
        let lists = leaves.map(|leaf| (leaf.decoded, leaf.list.blocks() as u64));
        lists.chain(self.phrases.iter().flatten().flat_map(Phrase::blocks))
    }
}

impl Tree<'_> {
    /// Returns true if a document of a range may match with a score that is high enough, or must
    /// be counted.
    fn may_have_hits(
        &mut self,
        query: &SegmentQuery<'_>,
        docs: Range<u32>,
        collector: &Collector,
    ) -> bool {
        if query.plan.count {
            return true;
        }
        let Tree { root, terms, words, phrases, .. } = self;
        let most = most_over(root, terms, words, phrases, &docs);
        let fixed = u64::from(lift(query.plan)) + u64::from(query.static_most);
        most.is_some_and(|most| u64::from(most) + fixed > u64::from(collector.threshold()))
    }
}

/// Returns the most that a document of a range scores, or `None` if none of them matches. Scores
/// never decrease when those of parts increase. As with scores, sums cannot overflow: the scale
/// of the plan is chosen by the most that its terms contribute.
fn most_over(
    node: &PlanNode,
    terms: &mut [Option<Leaf<'_>>],
    words: &mut [Option<Leaf<'_>>],
    phrases: &mut [Option<Phrase<'_>>],
    docs: &Range<u32>,
) -> Option<Score> {
    let mut most = |node: &PlanNode| most_over(node, terms, words, phrases, docs);
    match node {
        PlanNode::Term(number) => terms[*number].as_mut()?.most_over(docs),
        PlanNode::Word(number) => words[*number].as_mut()?.most_over(docs),
        PlanNode::Phrase(number) => phrases[*number].as_mut()?.may_be_in(docs).then_some(0),
        PlanNode::Group(Group { must, should, filter, least, .. }) => {
            for node in filter {
                most(node)?;
            }
            let mut sum = 0;
            for node in must {
                sum += most(node)?;
            }
            let mut matching = 0;
            for score in should.iter().filter_map(most) {
                (sum, matching) = (sum + score, matching + 1);
            }
            (matching >= *least).then_some(sum)
        }
        PlanNode::Best { of: parts, tie } => {
            let scores: Vec<Score> = parts.iter().filter_map(most).collect();
            let largest = *scores.iter().max()?;
            Some(best_score(largest, scores.iter().sum(), *tie))
        }
        PlanNode::Constant { filter, score, .. } => most(filter).map(|_| *score),
        PlanNode::Set(_) | PlanNode::Everything => Some(0),
        PlanNode::Nothing => None,
    }
}

/// Offers the matches in a range of documents that may become hits, or all matches if they are
/// counted, with [`lift`] added to their scores. Returns the end of what was searched.
pub(crate) fn search(
    query: &SegmentQuery<'_>,
    tree: &mut Tree<'_>,
    docs: Range<u32>,
    ticker: &mut Ticker<'_>,
    scratch: &mut Scratch,
    collector: &mut Collector,
    work: &mut Work,
) -> Result<u32, Halt> {
    let (mut from, mut live) = (docs.start, Box::new([0; WORDS]));
    let lift = lift(query.plan);
    while from < docs.end {
        if ticker.must_stop(WORDS) {
            return Ok(from);
        }
        let to = docs.end.min(from.saturating_add(WINDOW));
        if tree.may_have_hits(query, from..to, collector) && query.admitted(from..to, &mut live[..])
        {
            let values = match matches(query, tree, from, &live, scratch, work, ticker) {
                Ok(values) => values,
                // Everything before the window is done.
                Err(Halt::Stop) => return Ok(from),
                Err(failed) => return Err(failed),
            };
            for_each(&values.bits, |at| {
                query.offer(from + at as u32, values.scores[at] + lift, collector);
            });
            scratch.give_back(values);
        }
        from = to;
    }
    Ok(docs.end)
}

/// Returns which of some documents of the window from `from` on match, and their scores.
pub(crate) fn matches(
    query: &SegmentQuery<'_>,
    tree: &mut Tree<'_>,
    from: u32,
    live: &Bits,
    scratch: &mut Scratch,
    work: &mut Work,
    ticker: &mut Ticker<'_>,
) -> Result<Values, Halt> {
    let Tree { root, lists, terms, words, phrases } = tree;
    Window { query, lists, terms, words, phrases, from, scratch, work, ticker }.values(root, live)
}

/// A window of documents that a tree is evaluated for.
struct Window<'w, 'q, 'a, 't> {
    query: &'w SegmentQuery<'q>,
    lists: &'w [Vec<Option<TermInfo>>],
    terms: &'w mut [Option<Leaf<'a>>],
    words: &'w mut [Option<Leaf<'a>>],
    phrases: &'w mut [Option<Phrase<'a>>],
    from: u32,
    scratch: &'w mut Scratch,
    work: &'w mut Work,
    ticker: &'w mut Ticker<'t>,
}

impl Window<'_, '_, '_, '_> {
    /// Returns which of the documents `within` match a part, and their scores.
    fn values(&mut self, node: &PlanNode, within: &Bits) -> Result<Values, Halt> {
        if self.ticker.must_stop(WORDS) {
            return Err(Halt::Stop);
        }
        let mut out = self.scratch.take();
        match node {
            PlanNode::Term(number) => {
                if let Some(leaf) = &mut self.terms[*number] {
                    let list = &self.query.plan.terms[*number].lists;
                    let filled = leaf.fill(self.from, within, &mut out, self.work, self.ticker);
                    self.check_filled(list, filled)?;
                }
            }
            PlanNode::Word(number) => {
                if let Some(leaf) = &mut self.words[*number] {
                    let filled = leaf.fill(self.from, within, &mut out, self.work, self.ticker);
                    self.check_filled(&self.lists[*number], filled)?;
                }
            }
            PlanNode::Phrase(number) => {
                if let Some(phrase) = &mut self.phrases[*number] {
                    let (from, to) = (self.from, self.from.saturating_add(WINDOW));
                    let wanted = |first, last| has_any(within, first - from, last - from);
                    let found = |doc| {
                        let at = (doc - from) as usize;
                        out.bits[at / 64] |= 1 << (at % 64);
                    };
                    self.work.postings_scored +=
                        phrase.for_each(from, to, self.ticker, wanted, found)?;
                }
            }
            PlanNode::Set(set) => {
                let set = set.segment(self.query.number());
                for (i, word) in out.bits.iter_mut().enumerate() {
                    if within[i] != 0 {
                        *word = within[i] & set.word_at(self.from + 64 * i as u32);
                    }
                }
            }
            PlanNode::Group(group) => self.group(group, within, &mut out)?,
            PlanNode::Best { of: parts, tie } => self.best(parts, *tie, within, &mut out)?,
            PlanNode::Constant { filter, score, .. } => {
                let found = self.values(filter, within)?;
                *out.bits = *found.bits;
                out.scores.fill(*score);
                self.scratch.give_back(found);
            }
            PlanNode::Everything => *out.bits = *within,
            PlanNode::Nothing => {}
        }
        Ok(out)
    }

    /// Fails if a list could not be read, or if its leaf had to stop.
    fn check_filled(
        &self,
        lists: &[Option<TermInfo>],
        filled: Result<bool, ListError>,
    ) -> Result<(), Halt> {
        match filled.map_err(|what| self.broken(lists, what))? {
            true => Ok(()),
            false => Err(Halt::Stop),
        }
    }

    fn broken(&self, lists: &[Option<TermInfo>], what: ListError) -> ExecError {
        match &lists[self.query.number()] {
            Some(info) => self.query.segment.bad_list(info, what).into(),
            None => self.query.broken(what),
        }
    }

    fn group(&mut self, group: &Group, within: &Bits, out: &mut Values) -> Result<(), Halt> {
        let Group { must, should, must_not, filter, least } = group;
        *out.bits = *within;
        for (i, node) in filter.iter().chain(must).enumerate() {
            if is_empty(&out.bits) {
                return Ok(());
            }
            let found = self.values(node, &out.bits)?;
            *out.bits = *found.bits;
            if i >= filter.len() {
                add(&found, &mut out.scores);
            }
            self.scratch.give_back(found);
        }
        for node in must_not {
            if is_empty(&out.bits) {
                return Ok(());
            }
            let found = self.values(node, &out.bits)?;
            out.bits.iter_mut().zip(&*found.bits).for_each(|(word, not)| *word &= !not);
            self.scratch.give_back(found);
        }
        if *least > should.len() {
            out.bits.fill(0);
        }
        if should.is_empty() || is_empty(&out.bits) {
            return Ok(());
        }
        // Number of parts that matched a document: bits if one suffices, numbers otherwise.
        let mut counts = self.scratch.take();
        for node in should {
            let found = self.values(node, &out.bits)?;
            add(&found, &mut out.scores);
            match least {
                0 => {}
                1 => counts.bits.iter_mut().zip(&*found.bits).for_each(|(any, one)| *any |= one),
                _ => for_each(&found.bits, |at| counts.scores[at] += 1),
            }
            self.scratch.give_back(found);
        }
        match *least {
            0 => {}
            1 => *out.bits = *counts.bits,
            least => {
                let before = out.bits.clone();
                for_each(&before, |at| {
                    if (counts.scores[at] as usize) < least {
                        out.bits[at / 64] &= !(1 << (at % 64));
                    }
                });
            }
        }
        self.scratch.give_back(counts);
        Ok(())
    }

    fn best(
        &mut self,
        parts: &[PlanNode],
        tie: u32,
        within: &Bits,
        out: &mut Values,
    ) -> Result<(), Halt> {
        let mut sums = self.scratch.take();
        for node in parts {
            let found = self.values(node, within)?;
            add(&found, &mut sums.scores);
            for_each(&found.bits, |at| out.scores[at] = out.scores[at].max(found.scores[at]));
            out.bits.iter_mut().zip(&*found.bits).for_each(|(any, one)| *any |= one);
            self.scratch.give_back(found);
        }
        let (bits, scores) = (&out.bits, &mut out.scores);
        for_each(bits, |at| scores[at] = best_score(scores[at], sums.scores[at], tie));
        self.scratch.give_back(sums);
        Ok(())
    }
}

/// A list that is read window by window.
struct Leaf<'a> {
    list: List<'a>,
    weight: f32,
    /// The scorer, or `None` for words that add nothing to scores.
    scorer: Option<Scorer>,
    /// The most that a posting contributes; `maxima` has the largest values by block, before the
    /// weight.
    most: Score,
    maxima: Maxima,
    /// The first block that may have documents of this window or a later one.
    block: usize,
    /// The decoded block, or `usize::MAX` before the first.
    loaded: usize,
    len: usize,
    decoded: u64,
    docs: [u32; BLOCK],
    scores: [Score; BLOCK],
}

impl<'a> Leaf<'a> {
    /// Creates a leaf that adds nothing to scores.
    fn new(list: List<'a>) -> Self {
        Leaf {
            list,
            weight: 0.0,
            scorer: None,
            most: 0,
            maxima: Maxima::default(),
            block: 0,
            loaded: usize::MAX,
            len: 0,
            decoded: 0,
            docs: [0; BLOCK],
            scores: [0; BLOCK],
        }
    }

    /// Returns the most that the list contributes to a document of a range, or `None` if it
    /// contains none of them.
    fn most_over(&mut self, docs: &Range<u32>) -> Option<Score> {
        self.block = find_block(&self.list, self.block, docs.start);
        let (mut most, mut any) = (0f32, false);
        for block in self.block..self.list.blocks() {
            if block > 0 && self.list.block_max_doc(block - 1) >= docs.end - 1 {
                break;
            }
            any = true;
            match self.maxima.get(block) {
                Some(&max) => most = most.max(max),
                None => return Some(self.most),
            }
        }
        any.then(|| if self.scorer.is_some() { Formula::units(self.weight, most) } else { 0 })
    }

    /// Adds the documents of the list that are among `within` to `out`; returns false if it had
    /// to stop.
    fn fill(
        &mut self,
        from: u32,
        within: &Bits,
        out: &mut Values,
        work: &mut Work,
        ticker: &mut Ticker<'_>,
    ) -> Result<bool, ListError> {
        let to = from.saturating_add(WINDOW);
        self.block = find_block(&self.list, self.block, from);
        for block in self.block..self.list.blocks() {
            let first = if block == 0 { 0 } else { self.list.block_max_doc(block - 1) + 1 };
            if first >= to {
                break;
            }
            let last = self.list.block_max_doc(block).min(to - 1);
            if !has_any(within, first.max(from) - from, last - from) {
                continue;
            }
            if self.loaded != block {
                if ticker.must_stop(BLOCK) {
                    return Ok(false);
                }
                self.load(block, work)?;
            }
            let docs = &self.docs[..self.len];
            let start = docs.partition_point(|&doc| doc < from);
            let end = start + docs[start..].partition_point(|&doc| doc < to);
            for (&doc, &score) in docs[start..end].iter().zip(&self.scores[start..end]) {
                let at = (doc - from) as usize;
                let bit = within[at / 64] & (1 << (at % 64));
                out.bits[at / 64] |= bit;
                if bit != 0 {
                    out.scores[at] = score;
                }
            }
        }
        Ok(true)
    }

    fn load(&mut self, block: usize, work: &mut Work) -> Result<(), ListError> {
        // If decoding fails halfway, no block counts as loaded.
        self.loaded = usize::MAX;
        self.len = self.list.decode_docs(block, &mut self.docs)?;
        self.decoded += 1;
        if let Some(scorer) = &self.scorer {
            let mut freqs = [0; BLOCK];
            self.list.decode_freqs(block, &mut freqs)?;
            let (docs, freqs) = (&self.docs[..self.len], &freqs[..self.len]);
            scorer.score_block(self.weight, docs, freqs, &mut self.scores[..self.len]);
            work.postings_scored += self.len as u64;
        }
        self.loaded = block;
        Ok(())
    }
}

fn is_empty(bits: &Bits) -> bool {
    bits.iter().all(|&word| word == 0)
}

/// Returns true if any bit from `first` to `last` is set, the last included.
fn has_any(bits: &Bits, first: u32, last: u32) -> bool {
    let (low, high) = (first as usize / 64, last as usize / 64);
    let after = u64::MAX << (first % 64);
    let before = u64::MAX >> (63 - last % 64);
    if low == high {
        return bits[low] & after & before != 0;
    }
    bits[low] & after != 0
        || bits[low + 1..high].iter().any(|&word| word != 0)
        || bits[high] & before != 0
}

/// Adds the scores of the documents found.
fn add(found: &Values, scores: &mut [Score]) {
    for_each(&found.bits, |at| scores[at] += found.scores[at]);
}

/// Calls `f` with the indexes of the set bits, in ascending order.
pub(crate) fn for_each(bits: &Bits, mut f: impl FnMut(usize)) {
    for (i, &word) in bits.iter().enumerate() {
        let mut left = word;
        while left != 0 {
            f(64 * i + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits() {
        let mut bits = [0; WORDS];
        for at in [5, 64, 300, WINDOW as usize - 1] {
            bits[at / 64] |= 1 << (at % 64);
        }
        for first in [0, 4, 5, 6, 63, 64, 65, 299, 300, 301, WINDOW - 1] {
            for last in [first, first + 1, first + 63, first + 64, first + 200, WINDOW - 1] {
                let last = last.min(WINDOW - 1);
                let mut expected = false;
                for_each(&bits, |at| expected |= (first..=last).contains(&(at as u32)));
                assert_eq!(has_any(&bits, first, last), expected, "{first} to {last}");
            }
        }
    }
}

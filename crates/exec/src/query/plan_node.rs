//! Query trees of plans: terms are looked up, weights are applied to the terms, and numbers are
//! integers.

use std::sync::Arc;

use warpseek_core::Score;
use warpseek_index::{DocSet, Snapshot, TermInfo};

use super::list::listed;
use super::phrase::PlanPhrase;
use crate::error::ExecError;
use crate::limit::Ticker;
use crate::mask::Mask;

/// A query tree, with the lists of the words and phrases that it only tests for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanTree {
    /// The root of the tree. The tree does not change after planning.
    pub root: PlanNode,
    /// Words that documents must or must not have, without adding to scores: their entries in
    /// each segment's dictionary.
    pub words: Vec<Vec<Option<TermInfo>>>,
    /// Phrases that documents must or must not have.
    pub phrases: Vec<PlanPhrase>,
    /// True if the terms, the mode and the mask of the plan express the same, so that engines can
    /// ignore the tree.
    pub is_additive: bool,
}

/// The numbers in it are never NaN.
impl Eq for PlanTree {}

impl PlanTree {
    /// Returns the approximate number of bytes of memory.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.words.iter().map(|lists| size_of_val(lists.as_slice())).sum();
        let phrases: usize = self.phrases.iter().map(PlanPhrase::bytes).sum();
        lists + phrases + self.root.bytes()
    }
}

/// A part of the query tree of a plan. A document either matches with a score in units, or does
/// not match.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanNode {
    /// Matches documents with the term of the plan with this number. Each term is in the tree
    /// once.
    Term(usize),
    /// Matches documents with the word of [`PlanTree::words`] with this number, with a score of
    /// 0.
    Word(usize),
    /// Matches documents with the phrase of [`PlanTree::phrases`] with this number, with a score
    /// of 0.
    Phrase(usize),
    /// Matches the documents in the set, with a score of 0.
    Set(Arc<Mask>),
    /// Combines several nodes.
    Group(Group),
    /// Matches documents that match any of these nodes. The score is the largest, plus the sum of
    /// the others times `tie` / 65536, rounded down.
    Best {
        /// The nodes.
        of: Vec<PlanNode>,
        /// The tie breaker.
        tie: u32,
    },
    /// Matches the same documents as `filter`, with another score.
    Constant {
        /// The node that determines which documents match.
        filter: Box<PlanNode>,
        /// The score as a number.
        real: f64,
        /// The score in units, rounded down.
        score: Score,
    },
    /// Matches every document, with a score of 0.
    Everything,
    /// Matches no document.
    Nothing,
}

/// Several nodes combined. A document matches if it matches all of `must` and `filter`, at least
/// `least` of `should`, and none of `must_not`. The score is the sum of the scores of the nodes
/// in `must` and `should` that match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// Nodes that must all match; they add to the score.
    pub must: Vec<PlanNode>,
    /// Nodes that add to the score if they match.
    pub should: Vec<PlanNode>,
    /// Nodes of which none may match.
    pub must_not: Vec<PlanNode>,
    /// Nodes that must all match; they add nothing to the score.
    pub filter: Vec<PlanNode>,
    /// Minimum number of nodes in `should` that must match.
    pub least: usize,
}

/// The properties of one document that a tree refers to.
pub(crate) struct Facts<'a> {
    /// Returns the contribution of a term of the plan if the document has the term.
    pub(crate) term: &'a dyn Fn(usize) -> Option<Score>,
    /// Returns true if the document has a word.
    pub(crate) word: &'a dyn Fn(usize) -> bool,
    /// Returns true if the document has a phrase.
    pub(crate) phrase: &'a dyn Fn(usize) -> bool,
    /// Returns true if the document is in a set.
    pub(crate) set: &'a dyn Fn(&Mask) -> bool,
}

/// The denominator of tie breakers.
pub(crate) const TIE: f64 = 65_536.0;

/// Returns the score of the best of several nodes, plus the others' multiplied by the tie breaker
/// and rounded down, so the score never exceeds the sum.
#[inline]
pub fn best_score(largest: Score, sum: Score, tie: u32) -> Score {
    largest + ((u64::from(sum - largest) * u64::from(tie)) >> 16) as Score
}

impl PlanNode {
    /// Returns a lower bound on the number of matching documents, given the number of documents
    /// that have each term.
    pub(crate) fn least_matches(&self, df: &dyn Fn(usize) -> u64) -> u64 {
        let most =
            |nodes: &[PlanNode]| nodes.iter().map(|n| n.least_matches(df)).max().unwrap_or(0);
        match self {
            PlanNode::Term(number) => df(*number),
            PlanNode::Best { of, .. } => most(of),
            PlanNode::Constant { filter, .. } => filter.least_matches(df),
            PlanNode::Group(Group { must, should, must_not, filter, least })
                if must_not.is_empty() && filter.is_empty() =>
            {
                match (must.as_slice(), least) {
                    ([], 1) => most(should),
                    ([only], 0) => only.least_matches(df),
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    /// Returns the score of a document; `None` if it does not match. This is the definition of
    /// matches and scores.
    pub(crate) fn evaluate(&self, facts: &Facts<'_>) -> Option<Score> {
        match self {
            PlanNode::Term(number) => (facts.term)(*number),
            PlanNode::Word(number) => (facts.word)(*number).then_some(0),
            PlanNode::Phrase(number) => (facts.phrase)(*number).then_some(0),
            PlanNode::Set(set) => (facts.set)(set).then_some(0),
            PlanNode::Group(Group { must, should, must_not, filter, least }) => {
                let matches = |node: &PlanNode| node.evaluate(facts).is_some();
                if must_not.iter().any(matches) || !filter.iter().all(matches) {
                    return None;
                }
                let must: Option<Vec<Score>> = must.iter().map(|n| n.evaluate(facts)).collect();
                let should: Vec<Score> = should.iter().filter_map(|n| n.evaluate(facts)).collect();
                let sum = must?.iter().chain(&should).sum();
                (should.len() >= *least).then_some(sum)
            }
            PlanNode::Best { of, tie } => {
                let scores: Vec<Score> = of.iter().filter_map(|n| n.evaluate(facts)).collect();
                let largest = *scores.iter().max()?;
                Some(best_score(largest, scores.iter().sum(), *tie))
            }
            PlanNode::Constant { filter, score, .. } => filter.evaluate(facts).map(|_| *score),
            PlanNode::Everything => Some(0),
            PlanNode::Nothing => None,
        }
    }

    /// Calls `f` with every node, beginning with the root.
    pub(crate) fn visit(&mut self, f: &mut impl FnMut(&mut PlanNode)) {
        f(self);
        match self {
            PlanNode::Group(Group { must, should, must_not, filter, .. }) => {
                let all = [must, should, must_not, filter].into_iter().flatten();
                all.for_each(|node| node.visit(f));
            }
            PlanNode::Best { of, .. } => of.iter_mut().for_each(|node| node.visit(f)),
            PlanNode::Constant { filter, .. } => filter.visit(f),
            PlanNode::Term(_)
            | PlanNode::Word(_)
            | PlanNode::Phrase(_)
            | PlanNode::Set(_)
            | PlanNode::Everything
            | PlanNode::Nothing => {}
        }
    }

    fn bytes(&self) -> usize {
        let all = |nodes: &[PlanNode]| nodes.iter().map(PlanNode::bytes).sum::<usize>();
        size_of::<PlanNode>()
            + match self {
                PlanNode::Group(Group { must, should, must_not, filter, .. }) => {
                    all(must) + all(should) + all(must_not) + all(filter)
                }
                PlanNode::Best { of, .. } => all(of),
                PlanNode::Constant { filter, .. } => filter.bytes(),
                PlanNode::Set(mask) => mask.bytes(),
                PlanNode::Term(_)
                | PlanNode::Word(_)
                | PlanNode::Phrase(_)
                | PlanNode::Everything
                | PlanNode::Nothing => 0,
            }
    }

    /// Returns true if the node matches without adding to scores.
    pub(crate) fn is_condition(&self) -> bool {
        matches!(
            self,
            PlanNode::Word(_) | PlanNode::Phrase(_) | PlanNode::Set(_) | PlanNode::Everything
        )
    }
}

/// The lists that a tree refers to, for finding all matches in a segment.
pub(crate) struct Matches<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// The lists of each term of the plan.
    pub(crate) terms: &'a [&'a [Option<TermInfo>]],
    /// The lists of each word.
    pub(crate) words: &'a [Vec<Option<TermInfo>>],
    pub(crate) phrases: &'a [PlanPhrase],
}

impl Matches<'_> {
    /// Returns the documents of a segment that match a node, by position. Deleted documents may
    /// be among them.
    pub(crate) fn of(
        &self,
        node: &PlanNode,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<DocSet, ExecError> {
        let segment = &self.snapshot.segments()[number];
        let documents = segment.documents().count();
        if ticker.must_stop(documents as usize / 64) {
            return Err(ExecError::Stopped);
        }
        match node {
            PlanNode::Term(term) => listed(segment, self.terms[*term][number].as_ref(), ticker),
            PlanNode::Word(word) => listed(segment, self.words[*word][number].as_ref(), ticker),
            PlanNode::Phrase(phrase) => self.phrases[*phrase].documents(segment, number, ticker),
            PlanNode::Set(set) => Ok(set.segment(number).clone()),
            PlanNode::Group(group) => {
                let mut set = DocSet::full(documents);
                for node in group.filter.iter().chain(&group.must) {
                    if set.is_empty() {
                        return Ok(set);
                    }
                    set.and_assign(&self.of(node, number, ticker)?);
                }
                if group.least > 0 {
                    set.and_assign(&self.at_least(&group.should, group.least, number, ticker)?);
                }
                if !set.is_empty() {
                    set.and_not_assign(&self.at_least(&group.must_not, 1, number, ticker)?);
                }
                Ok(set)
            }
            PlanNode::Best { of, .. } => self.at_least(of, 1, number, ticker),
            PlanNode::Constant { filter, .. } => self.of(filter, number, ticker),
            PlanNode::Everything => Ok(DocSet::full(documents)),
            PlanNode::Nothing => Ok(DocSet::new(documents)),
        }
    }

    /// Returns the documents of a segment that match at least this many of the nodes.
    pub(crate) fn at_least(
        &self,
        nodes: &[PlanNode],
        least: usize,
        number: usize,
        ticker: &mut Ticker<'_>,
    ) -> Result<DocSet, ExecError> {
        let documents = self.snapshot.segments()[number].documents().count();
        if least == 1 {
            let mut set = DocSet::new(documents);
            for node in nodes {
                set.or_assign(&self.of(node, number, ticker)?);
            }
            return Ok(set);
        }
        let mut counts = vec![0u32; documents as usize];
        for node in nodes {
            self.of(node, number, ticker)?.iter().for_each(|doc| counts[doc as usize] += 1);
        }
        let mut set = DocSet::new(documents);
        for (doc, &count) in (0..).zip(&counts) {
            if count as usize >= least {
                set.insert(doc);
            }
        }
        Ok(set)
    }
}

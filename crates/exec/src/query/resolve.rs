//! Resolution of a query tree to the tree of a plan: looks up fields and terms, parses values,
//! and applies weights to the terms.

mod filters;
mod groups;
mod phrases;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use warpseek_index::{FilterCache, Snapshot, TermInfo};
use warpseek_text::{FieldId, Schema};

use self::filters::Filters;
use super::limits::MAX_WEIGHT;
use super::phrase::PlanPhrase;
use super::plan_node::{Group, Matches, PlanNode, PlanTree, TIE};
use super::reduce::reduce;
use super::tree::{Bool, Node};
use super::{boosts, fields};
use crate::error::ExecError;
use crate::limit::{Limit, Ticker};
use crate::mask::Mask;
use crate::mode::Mode;
use crate::plan::{Plan, PlanTerm, Planner};

/// The state of resolving a query tree.
pub(super) struct Resolver<'a> {
    planner: &'a Planner,
    snapshot: &'a Snapshot,
    schema: Option<&'a Schema>,
    /// True if the index has all documents that count, so that a filter that admits none of them
    /// matches nothing.
    is_whole: bool,
    ticker: Ticker<'a>,
    /// The terms that add to scores.
    terms: Vec<PlanTerm>,
    /// The boost of each term, regardless of how often the text contains it.
    boosts: Vec<f64>,
    /// The node of each word that is only tested for, by field and word.
    known: HashMap<(u8, String), PlanNode>,
    words: Vec<Vec<Option<TermInfo>>>,
    phrases: Vec<PlanPhrase>,
    missing: Vec<(u8, String)>,
    /// The entries of `missing`, for lookup.
    is_missing: HashSet<(u8, String)>,
    filters: Filters<'a>,
}

impl<'a> Resolver<'a> {
    /// Begins to resolve a tree. `is_whole` is set if the index has all documents that count.
    pub(super) fn new(
        planner: &'a Planner,
        limit: &'a Limit,
        cache: &'a FilterCache,
        is_whole: bool,
    ) -> Self {
        let snapshot = planner.snapshot();
        Resolver {
            planner,
            snapshot,
            schema: snapshot.manifest().schema.as_deref(),
            is_whole,
            ticker: limit.ticker(),
            terms: Vec::new(),
            boosts: Vec::new(),
            known: HashMap::new(),
            words: Vec::new(),
            phrases: Vec::new(),
            missing: Vec::new(),
            is_missing: HashSet::new(),
            filters: Filters::new(snapshot, cache),
        }
    }

    /// Plans a tree. Hits must also match `filter` and be in `among`, if given.
    pub(super) fn plan(
        mut self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
    ) -> Result<Plan, ExecError> {
        let root = self.node(tree, 1.0, true)?.unwrap_or(PlanNode::Nothing);
        let mut restricted = Group { must: vec![root], ..Group::default() };
        if let Some(filter) = filter {
            filter.check()?;
            let filter = self.node(filter, 1.0, false)?;
            restricted.filter.push(filter.unwrap_or(PlanNode::Nothing));
        }
        restricted.filter.extend(among.map(|mask| PlanNode::Set(mask.clone())));
        let root = self.group(restricted);
        self.finish(root, k)
    }

    /// Returns the documents that match a tree.
    pub(super) fn matching(mut self, tree: &Node) -> Result<Mask, ExecError> {
        let root = self.node(tree, 1.0, false)?.unwrap_or(PlanNode::Nothing);
        if let PlanNode::Set(mask) = root {
            return Ok(Arc::unwrap_or_clone(mask));
        }
        let (snapshot, ticker) = (self.snapshot, &mut self.ticker);
        let (words, phrases) = (&self.words[..], &self.phrases[..]);
        let matches = Matches { snapshot, terms: &[], words, phrases };
        let sets = (0..snapshot.segments().len()).map(|number| matches.of(&root, number, ticker));
        Ok(Mask::new(snapshot, sets.collect::<Result<_, _>>()?))
    }

    /// Resolves a node. With `scored`, scores are multiplied by `weight`; otherwise the node only
    /// matches. Returns `None` if the node has texts but no terms, and therefore neither matches
    /// nor excludes anything.
    fn node(
        &mut self,
        node: &Node,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        Ok(Some(match node {
            Node::Words(words) => return self.words(words, weight, scored),
            Node::Phrase(phrase) => return self.phrase(phrase, weight, scored),
            Node::Term { field, term } => {
                let field = self.text_field(field)?;
                self.leaf(field, term.clone(), weight, 1.0, scored)?
            }
            Node::Bool(query) => return self.bool(query, weight, scored),
            Node::Best { of, tie_breaker } => {
                let found = self.nodes(of, weight, scored, None)?;
                if found.is_empty() && !of.is_empty() {
                    return Ok(None);
                }
                self.best(found, *tie_breaker, scored)
            }
            Node::Constant { filter, score } => {
                let Some(filter) = self.node(filter, 1.0, false)? else { return Ok(None) };
                match scored {
                    true => constant(filter, score * weight)?,
                    false => filter,
                }
            }
            Node::Filter(filter) => match self.filters.resolve(filter, &mut self.ticker)? {
                PlanNode::Set(set) if self.is_whole && set.is_empty() => PlanNode::Nothing,
                node => node,
            },
            Node::All if scored => constant(PlanNode::Everything, weight)?,
            Node::All => PlanNode::Everything,
            Node::Nothing => PlanNode::Nothing,
            Node::Boost(node, by) => return self.node(node, weight * by, scored),
            Node::IfEmpty { of, then } => match self.node(of, weight, scored)? {
                None => return self.node(then, weight, scored),
                found => return Ok(found),
            },
        }))
    }

    /// Resolves nodes in their order. Nodes without terms, which resolve to `None`, are replaced
    /// by `empty` or left out.
    fn nodes(
        &mut self,
        nodes: &[Node],
        weight: f64,
        scored: bool,
        empty: Option<PlanNode>,
    ) -> Result<Vec<PlanNode>, ExecError> {
        let found = |node| Ok(self.node(node, weight, scored)?.or_else(|| empty.clone()));
        nodes.iter().map(found).filter_map(Result::transpose).collect()
    }

    fn bool(
        &mut self,
        query: &Bool,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        let Bool { must, should, must_not, filter, least, skip_empty } = query;
        if must.is_empty() && should.is_empty() && must_not.is_empty() && filter.is_empty() {
            return self.node(&Node::All, weight, scored);
        }
        let empty = || (!skip_empty).then_some(PlanNode::Nothing);
        let mut group = Group {
            must: self.nodes(must, weight, scored, empty())?,
            should: self.nodes(should, weight, scored, empty())?,
            must_not: self.nodes(must_not, 1.0, false, empty())?,
            filter: self.nodes(filter, 1.0, false, empty())?,
            least: 0,
        };
        let required = !group.must.is_empty() || !group.filter.is_empty();
        if !required && group.should.is_empty() && group.must_not.is_empty() {
            return Ok(None);
        }
        let usual = usize::from(!required && !group.should.is_empty());
        group.least = least.as_ref().map_or(0, |least| least.of(group.should.len())).max(usual);
        Ok(Some(self.group(group)))
    }

    fn best(&mut self, parts: Vec<PlanNode>, tie_breaker: f64, scored: bool) -> PlanNode {
        let mut parts: Vec<PlanNode> =
            parts.into_iter().filter(|node| *node != PlanNode::Nothing).collect();
        let tie = (tie_breaker * TIE).round() as u32;
        match (parts.len(), scored) {
            (0, _) => PlanNode::Nothing,
            (1, _) => parts.remove(0),
            (_, false) => PlanNode::Group(Group { should: parts, least: 1, ..Group::default() }),
            // If the scores of all others count fully, the score is the sum.
            (_, true) if f64::from(tie) == TIE => {
                self.group(Group { should: parts, least: 1, ..Group::default() })
            }
            (_, true) => PlanNode::Best { of: parts, tie },
        }
    }

    fn text_field(&self, name: &str) -> Result<u8, ExecError> {
        match fields::field(self.schema, name)? {
            FieldId::Text(number) => Ok(number),
            FieldId::Attribute(_) => Err(ExecError::NotText { name: name.to_owned() }),
        }
    }

    /// Creates the plan of the resolved tree.
    fn finish(mut self, mut root: PlanNode, k: usize) -> Result<Plan, ExecError> {
        // Terms that were merged, or that belong to parts that cannot match, are left out.
        let (mut old, mut constants, mut has_phrase) = (Vec::new(), Vec::new(), false);
        root.visit(&mut |node| match node {
            PlanNode::Term(number) => {
                old.push(*number);
                *number = old.len() - 1;
            }
            PlanNode::Constant { real, .. } => constants.push(*real),
            PlanNode::Phrase(_) => has_phrase = true,
            _ => {}
        });
        boosts::check(
            old.iter().map(|&number| self.boosts[number]).chain(constants.iter().copied()),
        )?;
        let named = |&number: &usize| (self.terms[number].field, self.terms[number].term.as_str());
        let distinct = old.iter().map(named).collect::<HashSet<_>>().len() == old.len();
        let terms: Vec<PlanTerm> = old.iter().map(|&number| self.terms[number].clone()).collect();
        // A tree with phrases is not additive, so that the engine finds the phrases, within its
        // deadline, rather than the planner for a mask.
        let is_sum = distinct && !has_phrase && root.is_additive();
        let is_additive = root == PlanNode::Nothing || is_sum;
        let (mut mode, mut mask) = (Mode::Or, None);
        if is_additive {
            let lists: Vec<&[Option<TermInfo>]> =
                terms.iter().map(|t| t.lists.as_slice()).collect();
            let (words, phrases) = (&self.words[..], &self.phrases[..]);
            let matches = Matches { snapshot: self.snapshot, terms: &lists, words, phrases };
            let flat = reduce(&root, !self.missing.is_empty(), &matches, &mut self.ticker)?;
            (mode, mask) = (flat.mode, flat.mask.map(Arc::new));
        }
        let missing = std::mem::take(&mut self.missing);
        // A tree engine uses a score of 0 for documents that do not match.
        let spare = u32::from(!is_additive);
        let plan = self.planner.weighed(terms, missing, &constants, spare, mode, k);
        let unit = libm::exp2(f64::from(plan.scale));
        root.visit(&mut |node| {
            if let PlanNode::Constant { real, score, .. } = node {
                *score = (*real * unit) as u32;
            }
        });
        let tree = PlanTree { root, words: self.words, phrases: self.phrases, is_additive };
        Ok(Plan { mask, tree: Some(Arc::new(tree)), ..plan })
    }
}

fn constant(filter: PlanNode, real: f64) -> Result<PlanNode, ExecError> {
    if !(0.0..=MAX_WEIGHT).contains(&real) {
        let expected = format!("up to {MAX_WEIGHT:e}, weights included");
        return Err(ExecError::Parameter { name: "score", value: real, expected });
    }
    Ok(match filter {
        PlanNode::Nothing => PlanNode::Nothing,
        filter => PlanNode::Constant { filter: Box::new(filter), real, score: 0 },
    })
}

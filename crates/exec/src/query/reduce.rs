//! Reduction of query trees to flat plans. A tree whose scores are sums is answered as a flat
//! plan, with a mask for the other conditions.
//!
//! A tree is *additive* if the score of every matching document is the sum of the contributions
//! of all terms of the tree that the document contains. The tree is then equivalent to an OR over
//! the terms, restricted to the matching documents, which every engine can answer. The reduction
//! depends only on the query and the terms of the index, never on the engine or the device.

use warpseek_index::DocSet;

use super::plan_node::{Group, Matches, PlanNode};
use crate::error::ExecError;
use crate::limit::Ticker;
use crate::mask::Mask;
use crate::mode::Mode;

/// The flat plan of a tree, over all its terms.
pub(super) struct Flat {
    pub(super) mode: Mode,
    /// The documents that may be hits, if not all documents that match in this mode may.
    pub(super) mask: Option<Mask>,
}

impl PlanNode {
    /// Returns true if the node matches exactly the documents that contain one of its terms, and
    /// scores the sum of the terms that a document contains.
    fn is_sum(&self) -> bool {
        match self {
            PlanNode::Term(_) => true,
            PlanNode::Group(Group { must, should, must_not, filter, least }) => {
                let only_should = must.is_empty() && must_not.is_empty() && filter.is_empty();
                only_should && *least == 1 && should.iter().all(PlanNode::is_sum)
            }
            _ => false,
        }
    }

    /// Returns true if every matching document contains one of the terms, and its score is the
    /// sum of the terms that it contains.
    pub(super) fn is_additive(&self) -> bool {
        match self {
            PlanNode::Term(_) => true,
            PlanNode::Group(Group { must, should, least, .. }) => {
                // A part of `should` that does not match must not contain terms that the document
                // has, since these would add to the sum. A part of `must` always matches.
                let sums =
                    must.iter().all(PlanNode::is_additive) && should.iter().all(PlanNode::is_sum);
                sums && (!must.is_empty() || *least > 0)
            }
            _ => false,
        }
    }

    /// Collects the conditions that a document with one of the terms must meet to match. Sets
    /// `all` if the document must have all terms, for which there is the mode AND.
    fn conditions<'a>(&'a self, all: &mut bool, out: &mut Vec<Condition<'a>>) {
        let PlanNode::Group(Group { must, should, must_not, filter, least }) = self else { return };
        out.extend(filter.iter().map(Condition::Is));
        out.extend(must_not.iter().map(Condition::IsNot));
        let terms = must.iter().all(|node| matches!(node, PlanNode::Term(_)));
        match (must.as_slice(), should.as_slice()) {
            // The plan finds the documents with one of the terms anyway.
            ([], _) if *least <= 1 => {}
            ([only], []) => only.conditions(all, out),
            (_, []) if terms => *all = true,
            _ => {
                out.extend(must.iter().map(Condition::Is));
                if *least > 0 {
                    out.push(Condition::AtLeast(should, *least));
                }
            }
        }
    }
}

enum Condition<'a> {
    Is(&'a PlanNode),
    IsNot(&'a PlanNode),
    AtLeast(&'a [PlanNode], usize),
}

/// Returns the flat plan of an additive tree. `no_mode_and` forbids the mode AND, as required for
/// a plan with missing terms.
pub(super) fn reduce(
    root: &PlanNode,
    no_mode_and: bool,
    matches: &Matches<'_>,
    ticker: &mut Ticker<'_>,
) -> Result<Flat, ExecError> {
    let (mut all, mut conditions) = (false, Vec::new());
    root.conditions(&mut all, &mut conditions);
    if all && no_mode_and {
        (all, conditions) = (false, vec![Condition::Is(root)]);
    }
    let mode = if all { Mode::And } else { Mode::Or };
    if conditions.is_empty() {
        return Ok(Flat { mode, mask: None });
    }
    let segments = matches.snapshot.segments();
    let mut sets = Vec::with_capacity(segments.len());
    for (number, segment) in segments.iter().enumerate() {
        let mut set = DocSet::full(segment.documents().count());
        for condition in &conditions {
            if set.is_empty() {
                break;
            }
            match condition {
                Condition::Is(node) => set.and_assign(&matches.of(node, number, ticker)?),
                Condition::IsNot(node) => set.and_not_assign(&matches.of(node, number, ticker)?),
                Condition::AtLeast(nodes, least) => {
                    set.and_assign(&matches.at_least(nodes, *least, number, ticker)?);
                }
            }
        }
        sets.push(set);
    }
    Ok(Flat { mode, mask: Some(Mask::new(matches.snapshot, sets)) })
}

//! Trees that are sums: they are answered as flat plans, with a mask for what else must hold.
//!
//! A tree is *additive* if the score of every document that matches it is the sum of what all its terms contribute that the document has. Then an OR over the terms, restricted to the documents that match, is the same query, and every engine can
//! answer it. What reduces follows from the query and the terms that the index has, never from the engine or the device.

use warpseek_index::DocSet;

use super::plan_node::{Group, Matches, PlanNode};
use crate::error::ExecError;
use crate::limit::Ticker;
use crate::mask::Mask;
use crate::plan::Mode;

/// A tree as a flat plan over all its terms.
pub(super) struct Flat {
    pub(super) mode: Mode,
    /// The documents that may be hits, if not all that the mode finds.
    pub(super) mask: Option<Mask>,
}

impl PlanNode {
    /// Whether it matches exactly the documents that have one of its terms, with the sum of those that they have.
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

    /// Whether every document that matches has one of its terms, and the score is the sum of those that it has.
    pub(super) fn is_additive(&self) -> bool {
        match self {
            PlanNode::Term(_) => true,
            PlanNode::Group(Group { must, should, least, .. }) => {
                // What a part of `should` that does not match would add must be nothing; what a part of `must` adds is
                // certain.
                let sums =
                    must.iter().all(PlanNode::is_additive) && should.iter().all(PlanNode::is_sum);
                sums && (!must.is_empty() || *least > 0)
            }
            _ => false,
        }
    }

    /// What a document with one of the terms must have besides. `all` is set if it must have all terms, which is a mode of its own.
    fn conditions<'a>(&'a self, all: &mut bool, out: &mut Vec<Condition<'a>>) {
        let PlanNode::Group(Group { must, should, must_not, filter, least }) = self else { return };
        out.extend(filter.iter().map(Condition::Is));
        out.extend(must_not.iter().map(Condition::IsNot));
        let terms = must.iter().all(|node| matches!(node, PlanNode::Term(_)));
        match (must.as_slice(), should.as_slice()) {
            // Documents with one of the terms are what the plan finds anyway.
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

/// The flat plan of an additive tree. `no_mode_and` forbids the mode AND, as a plan with missing terms must.
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
                Condition::AtLeast(of, least) => {
                    set.and_assign(&matches.at_least(of, *least, number, ticker)?);
                }
            }
        }
        sets.push(set);
    }
    Ok(Flat { mode, mask: Some(Mask::new(matches.snapshot, sets)) })
}

//! Simplifies groups of nodes.

use std::collections::HashMap;

use super::Resolver;
use crate::query::plan_node::{Group, PlanNode};

impl Resolver<'_> {
    /// Simplifies a group.
    pub(super) fn group(&mut self, group: Group) -> PlanNode {
        let Group { must, should, mut must_not, mut filter, mut least } = group;
        let mut required = Vec::with_capacity(must.len());
        for node in must {
            match node {
                // A required group without alternatives can be merged into this group.
                PlanNode::Group(inner) if inner.should.is_empty() => {
                    required.extend(inner.must);
                    filter.extend(inner.filter);
                    must_not.extend(inner.must_not);
                }
                node if node.is_condition() => filter.push(node),
                node => required.push(node),
            }
        }
        let mut should: Vec<PlanNode> =
            should.into_iter().filter(|node| *node != PlanNode::Nothing).collect();
        must_not.retain(|node| *node != PlanNode::Nothing);
        filter.retain(|node| *node != PlanNode::Everything);
        let never = required.contains(&PlanNode::Nothing)
            || filter.contains(&PlanNode::Nothing)
            || must_not.contains(&PlanNode::Everything)
            || least > should.len();
        if never {
            return PlanNode::Nothing;
        }
        if least <= 1 {
            should = self.merged(should);
        }
        if least > 0 && least == should.len() {
            least = 0;
            for node in should.drain(..) {
                match node.is_condition() {
                    true => filter.push(node),
                    false => required.push(node),
                }
            }
            filter.retain(|node| *node != PlanNode::Everything);
        }
        let others = should.len() + must_not.len() + filter.len();
        match (required.as_slice(), others) {
            ([], 0) => PlanNode::Everything,
            ([_], 0) => required.remove(0),
            _ => PlanNode::Group(Group { must: required, should, must_not, filter, least }),
        }
    }

    /// Merges nested alternatives into one list. A term that occurs twice becomes one term with
    /// the sum of the weights, as in a query of words.
    fn merged(&mut self, should: Vec<PlanNode>) -> Vec<PlanNode> {
        let mut flat = Vec::with_capacity(should.len());
        for node in should {
            match node {
                PlanNode::Group(Group { must, should, must_not, filter, least: 1 })
                    if must.is_empty() && must_not.is_empty() && filter.is_empty() =>
                {
                    flat.extend(should);
                }
                node => flat.push(node),
            }
        }
        let mut first: HashMap<(u8, &str), usize> = HashMap::new();
        let mut again: Vec<(usize, usize)> = Vec::new();
        flat.retain(|node| {
            let PlanNode::Term(number) = node else { return true };
            let term = &self.terms[*number];
            let kept = *first.entry((term.field, &term.term)).or_insert(*number);
            if kept != *number {
                again.push((kept, *number));
            }
            kept == *number
        });
        for (kept, number) in again {
            let weight = self.terms[number].query_weight;
            self.terms[kept].query_weight += weight;
            self.boosts[kept] = self.boosts[kept].max(self.boosts[number]);
        }
        flat
    }
}

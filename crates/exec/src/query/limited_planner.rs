//! Planning of query trees, with or without a time limit.

use std::sync::Arc;

use warpseek_index::FilterCache;

use super::resolve::Resolver;
use super::tree::Node;
use crate::error::ExecError;
use crate::limit::Limit;
use crate::mask::Mask;
use crate::plan::{Plan, Planner};

impl Planner {
    /// Plans a query tree. Hits must also match `filter` and be in `among`, if given; neither
    /// changes a score. The documents that attribute filters admit are cached.
    ///
    /// Parts of the tree that cannot match any document, because no document has their word or
    /// value, have no influence on the scale of scores. With statistics of a collection this only
    /// holds for words, because an index does not know the values of the other parts.
    pub fn plan_tree(
        &self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
        cache: &FilterCache,
    ) -> Result<Plan, ExecError> {
        self.limited(&Limit::none()).plan_tree(tree, filter, among, k, cache)
    }

    /// Plans a query tree that may also be planned for other parts of a collection. The plan has
    /// the same scale in each part and in a single index of all documents, so scores have the
    /// same bits: the planner does not take into account whether any document has a value.
    pub fn plan_expression(
        &self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
        cache: &FilterCache,
    ) -> Result<Plan, ExecError> {
        self.limited(&Limit::none()).plan_expression(tree, filter, among, k, cache)
    }

    /// Returns the documents that match a tree, whatever their scores.
    pub fn matching(&self, tree: &Node, cache: &FilterCache) -> Result<Mask, ExecError> {
        self.limited(&Limit::none()).matching(tree, cache)
    }

    /// Returns this planner with a time limit for a request. Filters, including phrases in them,
    /// are evaluated during planning and fail with [`ExecError::Stopped`] when the time is up.
    pub fn limited<'a>(&'a self, limit: &'a Limit) -> LimitedPlanner<'a> {
        LimitedPlanner { planner: self, limit }
    }
}

/// A planner of query trees with a time limit.
#[derive(Clone, Copy)]
pub struct LimitedPlanner<'a> {
    planner: &'a Planner,
    limit: &'a Limit,
}

impl LimitedPlanner<'_> {
    /// Plans a query tree like [`Planner::plan_tree`].
    pub fn plan_tree(
        &self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
        cache: &FilterCache,
    ) -> Result<Plan, ExecError> {
        self.plan_of(tree, filter, among, k, cache, !self.planner.is_of_part())
    }

    /// Plans a query tree like [`Planner::plan_expression`].
    pub fn plan_expression(
        &self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
        cache: &FilterCache,
    ) -> Result<Plan, ExecError> {
        self.plan_of(tree, filter, among, k, cache, false)
    }

    fn plan_of(
        &self,
        tree: &Node,
        filter: Option<&Node>,
        among: Option<&Arc<Mask>>,
        k: usize,
        cache: &FilterCache,
        is_whole: bool,
    ) -> Result<Plan, ExecError> {
        tree.check()?;
        if among.is_some_and(|mask| mask.snapshot() != self.planner.snapshot().id()) {
            return Err(ExecError::OtherSnapshot);
        }
        Resolver::new(self.planner, self.limit, cache, is_whole).plan(tree, filter, among, k)
    }

    /// Returns the matching documents like [`Planner::matching`].
    pub fn matching(&self, tree: &Node, cache: &FilterCache) -> Result<Mask, ExecError> {
        tree.check()?;
        Resolver::new(self.planner, self.limit, cache, false).matching(tree)
    }
}

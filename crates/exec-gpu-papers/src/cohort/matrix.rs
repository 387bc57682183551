//! A cohort in the form that the kernel needs: queries in an order in which neighbours share
//! lists, in groups, with the contribution of each list of a group to each of its queries.

use std::cmp::Reverse;
use std::ops::Range;

use warpseek_exec::Plan;

use warpseek_cuda::DeviceError;

use crate::kernels::cohort::{EntryView, GroupView, ListView, MemberView};
use warpseek_exec_gpu::image::{Item, QueryView, SegmentImage, largest_value};
use warpseek_exec_gpu::round::{Pass, Round, histogram_shift, rough_shift, rough_weight};

/// Maximum number of terms that the queries of a group have together, unless the group is one
/// query.
pub(super) const GROUP_TERMS: usize = 512;

/// Maximum value of sums, which have 15 bits below the bit that marks a candidate. That is enough
/// for about 10,922 terms with OR, and for 32,767 with AND, for which each term adds one.
const SUM: u16 = (1 << 15) - 1;

/// Binary logarithm of a rough unit that is so large that every contribution is one unit.
const ONE_EACH: u32 = 31;

/// The input of a launch for one segment.
#[derive(Default)]
pub(super) struct Launch {
    pub(super) groups: Vec<GroupView>,
    pub(super) lists: Vec<ListView>,
    pub(super) entries: Vec<EntryView>,
    pub(super) queries: Vec<QueryView>,
    pub(super) members: Vec<MemberView>,
    pub(super) items: Vec<Item>,
    /// Maximum number of sparse lists of a group.
    pub(super) sparse: u32,
}

/// Returns an order in which queries that share long lists are neighbours.
pub(super) fn order(plans: &[&Plan]) -> Vec<usize> {
    let longest_first = |plan: &Plan| {
        let mut lists: Vec<_> =
            plan.terms.iter().map(|term| (Reverse(term.df), term.term.clone())).collect();
        lists.sort_unstable();
        lists
    };
    let mut order: Vec<usize> = (0..plans.len()).collect();
    order.sort_by_cached_key(|&i| longest_first(plans[i]));
    order
}

/// Divides plans into groups of `most` queries, or fewer if they have very many terms.
pub(super) fn groups(plans: &[&Plan], most: usize) -> Vec<Range<usize>> {
    let (mut groups, mut from, mut terms) = (Vec::new(), 0, 0);
    for (i, plan) in plans.iter().enumerate() {
        let full = i - from == most || terms + plan.terms.len() > GROUP_TERMS;
        if i > from && full {
            groups.push(from..i);
            (from, terms) = (i, 0);
        }
        terms += plan.terms.len();
    }
    if from < plans.len() {
        groups.push(from..plans.len());
    }
    groups
}

/// Returns the binary logarithm of the units in a rough unit such that no sum of a plan's terms
/// exceeds [`SUM`], or `None` if there is no such unit.
pub(super) fn shift(plan: &Plan, most_value: f32, pass: Pass) -> Option<u32> {
    match pass {
        Pass::And => (plan.terms.len() <= usize::from(SUM)).then_some(ONE_EACH),
        Pass::Or => rough_shift(plan, most_value, SUM),
    }
}

/// The cohort as a matrix: the contributions of each list to each query.
pub(super) struct Matrix<'a> {
    plans: &'a [&'a Plan],
    ks: &'a [u32],
    pass: Pass,
    most_value: f32,
    max_static: f32,
    leasts: Vec<u64>,
    shifts: Vec<u32>,
}

impl<'a> Matrix<'a> {
    pub(super) fn new(
        round: &Round<'a>,
        image: &[SegmentImage],
        pass: Pass,
        max_static: f32,
    ) -> Result<Self, DeviceError> {
        let (plans, ks) = (round.plans, round.ks);
        let most_value = plans.first().map_or(1.0, |plan| largest_value(plan.formulas.of(0)));
        let leasts = (0..plans.len()).map(|query| round.least(image, query, pass)).collect();
        // This cannot happen, since plans were checked before.
        let too_many = || DeviceError::Launch {
            kernel: "cohort".to_owned(),
            problem: "its sums cannot hold so many terms".to_owned(),
        };
        let shift = |plan: &&Plan| shift(plan, most_value, pass).ok_or_else(too_many);
        let shifts = plans.iter().map(shift).collect::<Result<_, _>>()?;
        Ok(Matrix { plans, ks, pass, most_value, max_static, leasts, shifts })
    }

    /// Adds a group of queries to the launch on a segment.
    pub(super) fn group(
        &self,
        number: usize,
        segment: &SegmentImage,
        queries: Range<usize>,
        launch: &mut Launch,
    ) {
        // Uses are every list of every query: sparse lists first, then by list, so that queries
        // that share a list are neighbours.
        let mut uses = Vec::new();
        for query in queries.clone() {
            let plan = self.plans[query];
            let lists = plan.terms.iter().filter_map(|term| {
                let info = term.lists[number].as_ref()?;
                let list = segment.term(info, term.weight)?;
                Some((list.starts != 0, info.ordinal, query, list))
            });
            let first = uses.len();
            uses.extend(lists);
            // The image may hold only a part of the segment's documents, which lacks a term that
            // others contain.
            if self.pass == Pass::And && uses.len() - first < plan.terms.len() + plan.missing.len()
            {
                uses.truncate(first);
            }
        }
        uses.sort_unstable_by_key(|&(dense, ordinal, query, _)| (dense, ordinal, query));
        let mut members = vec![Vec::new(); queries.len()];
        let (first_list, mut sparse) = (launch.lists.len(), 0);
        for same in uses.chunk_by(|a, b| a.1 == b.1) {
            let (dense, _, _, list) = same[0];
            let first_entry = launch.entries.len();
            for &(_, _, query, list) in same {
                let (pair, half) = ((query - queries.start) / 2, (query - queries.start) % 2);
                if launch.entries[first_entry..].last().is_none_or(|e| e.pair != pair as u32) {
                    launch.entries.push(EntryView { pair: pair as u32, ..EntryView::default() });
                }
                let (rough, addend) = match self.pass {
                    Pass::And => (0, 1),
                    Pass::Or => (rough_weight(list.weight, self.most_value, self.shifts[query]), 2),
                };
                if let Some(entry) = launch.entries.last_mut() {
                    entry.rough_weights[half] = rough;
                    entry.addend |= addend << (16 * half);
                    entry.weights[half] = list.weight;
                    entry.shifts[half] = self.shifts[query];
                }
                let number = (launch.lists.len() - first_list) as u32;
                members[query - queries.start]
                    .push(MemberView { list: number, weight: list.weight });
            }
            sparse += u32::from(!dense);
            launch.lists.push(ListView {
                docs: list.docs,
                values: list.values,
                roughs: list.roughs,
                starts: list.starts,
                count: list.count,
                first_entry: first_entry as u32,
                entries: (launch.entries.len() - first_entry) as u32,
                unused: 0,
            });
        }
        launch.sparse = launch.sparse.max(sparse);
        launch.groups.push(GroupView {
            first_list: first_list as u32,
            sparse,
            lists: (launch.lists.len() - first_list) as u32,
            first_query: queries.start as u32,
            queries: queries.len() as u32,
            unused: [0; 3],
        });
        for (query, lists) in queries.zip(members) {
            launch.queries.push(self.query(query, launch.members.len(), lists.len()));
            launch.members.extend(lists);
        }
    }

    fn query(&self, query: usize, first_term: usize, terms: usize) -> QueryView {
        let plan = self.plans[query];
        let static_most = plan.static_score(self.max_static);
        let low = (self.leasts[query] >> 32) as u32;
        QueryView {
            first_term: first_term as u32,
            terms: terms as u32,
            k: self.ks[query],
            least: self.leasts[query],
            static_weight: plan.static_weight,
            static_most,
            count: u32::from(plan.count),
            rough_shift: self.shifts[query],
            all: u32::from(self.pass == Pass::And),
            low,
            low_shift: histogram_shift(plan, low, static_most),
            ..QueryView::default()
        }
    }
}

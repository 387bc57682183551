//! Resolution of a query tree to the tree of a plan: looks up fields and terms, parses values,
//! and applies weights to the terms.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::{
    Content, DocSet, Filter as ColumnFilter, FilterCache, Segment, Snapshot, TermInfo,
};
use warpseek_text::{AttributeKind, FieldAnalyzer, FieldId, Schema};

use super::boosts;
use super::fields::{self, read};
use super::phrase::PlanPhrase;
use super::plan_node::{Group, Matches, PlanNode, PlanTree, TIE};
use super::reduce::reduce;
use super::tree::{
    Across, Bool, Filter, MAX_TREE_SET_BYTES, Node, Operator, Phrase, Words, is_weight,
};
use crate::error::ExecError;
use crate::limit::{Limit, Ticker};
use crate::mask::Mask;
use crate::plan::{Mode, Plan, PlanTerm, Planner};

/// Cost of looking up a word in a dictionary, or an id, in postings.
pub(crate) const LOOKUP_COST: usize = 256;

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

    /// Plans a query tree that other parts of a collection may be asked for as well. The plan has
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
        let mut resolver = Resolver { is_whole, ..Resolver::new(self, cache) };
        let root = resolver.node(tree, 1.0, true)?.unwrap_or(PlanNode::Nothing);
        let mut restricted = Group { must: vec![root], ..Group::default() };
        if let Some(filter) = filter {
            filter.check()?;
            let filter = resolver.node(filter, 1.0, false)?;
            restricted.filter.push(filter.unwrap_or(PlanNode::Nothing));
        }
        restricted.filter.extend(among.map(|mask| PlanNode::Set(mask.clone())));
        let root = resolver.group(restricted);
        resolver.finish(root, k)
    }

    /// Returns the matching documents like [`Planner::matching`].
    pub fn matching(&self, tree: &Node, cache: &FilterCache) -> Result<Mask, ExecError> {
        tree.check()?;
        let mut resolver = Resolver::new(self, cache);
        let root = resolver.node(tree, 1.0, false)?.unwrap_or(PlanNode::Nothing);
        if let PlanNode::Set(mask) = root {
            return Ok(Arc::unwrap_or_clone(mask));
        }
        let (snapshot, mut ticker) = (self.planner.snapshot(), self.limit.ticker());
        let (words, phrases) = (&resolver.words[..], &resolver.phrases[..]);
        let matches = Matches { snapshot, terms: &[], words, phrases };
        let sets =
            (0..snapshot.segments().len()).map(|number| matches.of(&root, number, &mut ticker));
        Ok(Mask::new(snapshot, sets.collect::<Result<_, _>>()?))
    }
}

struct Resolver<'a> {
    planner: &'a Planner,
    snapshot: &'a Snapshot,
    schema: Option<&'a Schema>,
    cache: &'a FilterCache,
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
    /// The sets of documents that attribute filters admit, by the filters' keys. `having` holds
    /// the sets of documents that have terms in a text field.
    sets: HashMap<Arc<[u8]>, PlanNode>,
    having: HashMap<u8, PlanNode>,
}

impl<'a> Resolver<'a> {
    fn new(limited: &LimitedPlanner<'a>, cache: &'a FilterCache) -> Self {
        let LimitedPlanner { planner, limit } = *limited;
        let snapshot = planner.snapshot();
        Resolver {
            planner,
            snapshot,
            schema: snapshot.manifest().schema.as_deref(),
            cache,
            is_whole: false,
            ticker: limit.ticker(),
            terms: Vec::new(),
            boosts: Vec::new(),
            known: HashMap::new(),
            words: Vec::new(),
            phrases: Vec::new(),
            missing: Vec::new(),
            is_missing: HashSet::new(),
            sets: HashMap::new(),
            having: HashMap::new(),
        }
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
            Node::Filter(filter) => match self.filter(filter)? {
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

    /// Simplifies a group.
    fn group(&mut self, group: Group) -> PlanNode {
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

    fn words(
        &mut self,
        words: &Words,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        let fields: Vec<(u8, f64)> = match (words.fields.as_slice(), self.schema) {
            ([], Some(schema)) => {
                (0..schema.text().len() as u8).map(|field| (field, 1.0)).collect()
            }
            ([], None) => vec![(0, 1.0)],
            (fields, _) => {
                let field = |(name, weight): &(String, f64)| Ok((self.text_field(name)?, *weight));
                fields.iter().map(field).collect::<Result<_, ExecError>>()?
            }
        };
        let mut parts = Vec::new();
        match words.across {
            Across::Cross { tie_breaker } => {
                for word in words.text.split_whitespace() {
                    let mut of_fields = Vec::new();
                    for &(field, by) in &fields {
                        let terms = distinct(self.terms_of(field, word));
                        let leaves = self.leaves(field, terms, weight * by, scored)?;
                        if !leaves.is_empty() {
                            let any = Group { should: leaves, least: 1, ..Group::default() };
                            of_fields.push(self.group(any));
                        }
                    }
                    if !of_fields.is_empty() {
                        parts.push(self.best(of_fields, tie_breaker, scored));
                    }
                }
                let counted = self.counted(parts, words);
                return Ok(counted);
            }
            Across::Most | Across::Best { .. } => {
                for &(field, by) in &fields {
                    let part = self.words_in(field, words, weight * by, scored)?;
                    parts.extend(part);
                }
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        Ok(Some(match words.across {
            Across::Best { tie_breaker } => self.best(parts, tie_breaker, scored),
            _ => self.group(Group { should: parts, least: 1, ..Group::default() }),
        }))
    }

    fn phrase(
        &mut self,
        phrase: &Phrase,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        let positioned = self.snapshot.manifest().positioned();
        let mut fields: Vec<(u8, f64)> = Vec::new();
        for (name, by) in &phrase.fields {
            let field = self.text_field(name)?;
            if !positioned[usize::from(field)] {
                return Err(ExecError::NoPositionsOf { name: name.clone() });
            }
            fields.push((field, *by));
        }
        if phrase.fields.is_empty() {
            let having = (0..).zip(&positioned).filter(|(_, has)| **has);
            fields = having.map(|(field, _)| (field, 1.0)).collect();
            if fields.is_empty() {
                return Err(ExecError::NoPositions);
            }
        }
        let mut parts = Vec::new();
        for (field, by) in fields {
            let found = self.phrase_in(field, phrase, weight * by, scored)?;
            parts.extend(found);
        }
        let some = !parts.is_empty();
        Ok(some.then(|| self.group(Group { should: parts, least: 1, ..Group::default() })))
    }

    /// Resolves a phrase in a field; `None` if it has no terms.
    fn phrase_in(
        &mut self,
        field: u8,
        phrase: &Phrase,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        let words = match self.schema {
            Some(schema) => schema.analyzer(field).terms(&phrase.text),
            None => FieldAnalyzer::from(self.snapshot.manifest().analyzer).terms(&phrase.text),
        };
        let Some(&(_, first)) = words.first() else { return Ok(None) };
        let slots = words.len() + self.phrases.iter().map(|p| p.slots.len()).sum::<usize>();
        if slots > MAX_QUERY_TERMS {
            return Err(ExecError::TooManyTerms(slots));
        }
        let mut found = PlanPhrase {
            terms: Vec::new(),
            lists: Vec::new(),
            slots: Vec::with_capacity(words.len()),
            slop: phrase.slop,
        };
        let (mut numbers, mut times) = (HashMap::new(), Vec::new());
        for (term, position) in words {
            let number = *numbers.entry(term.clone()).or_insert(times.len());
            if number == times.len() {
                times.push(0.0);
                found.terms.push((field, term));
            }
            times[number] += 1.0;
            found.slots.push((number, position - first));
        }
        let (mut leaves, mut absent) = (Vec::new(), false);
        for ((_, term), times) in found.terms.iter().zip(&times) {
            let leaf = self.leaf(field, term.clone(), weight, *times, scored)?;
            match leaf {
                PlanNode::Term(number) => found.lists.push(self.terms[number].lists.clone()),
                PlanNode::Word(number) => found.lists.push(self.words[number].clone()),
                _ => absent = true,
            }
            leaves.push(leaf);
        }
        if absent {
            return Ok(Some(PlanNode::Nothing));
        }
        if found.slots.len() == 1 {
            return Ok(leaves.pop());
        }
        self.phrases.push(found);
        let condition = PlanNode::Phrase(self.phrases.len() - 1);
        Ok(Some(match scored {
            true => {
                let filter = vec![condition];
                PlanNode::Group(Group { must: leaves, filter, ..Group::default() })
            }
            false => condition,
        }))
    }

    /// Requires as many of the parts as the words' operator demands; `None` if there are no
    /// parts.
    fn counted(&mut self, parts: Vec<PlanNode>, words: &Words) -> Option<PlanNode> {
        let least = wanted(words, parts.len());
        let some = !parts.is_empty();
        some.then(|| self.group(Group { should: parts, least, ..Group::default() }))
    }

    /// Resolves words in one field; `None` if they have no terms.
    ///
    /// A term that occurs several times becomes one term with a larger weight, except where only
    /// some of the terms must match, because each occurrence counts there.
    fn words_in(
        &mut self,
        field: u8,
        words: &Words,
        weight: f64,
        scored: bool,
    ) -> Result<Option<PlanNode>, ExecError> {
        let terms = self.terms_of(field, &words.text);
        let all = terms.len();
        let least = wanted(words, all);
        let each = distinct(terms.iter().cloned());
        let (terms, least) = match least {
            _ if all == 0 => return Ok(None),
            1 => (each, 1),
            n if n == all => (each.clone(), each.len()),
            n => (each.into_iter().flat_map(|(term, times)| copies(term, times, n)).collect(), n),
        };
        let should = self.leaves(field, terms, weight, scored)?;
        Ok(Some(self.group(Group { should, least, ..Group::default() })))
    }

    /// Returns the terms of a text in their order.
    fn terms_of(&self, field: u8, text: &str) -> Vec<String> {
        match self.schema {
            Some(schema) => schema.analyzer(field).terms(text).into_iter().map(|t| t.0).collect(),
            None if self.snapshot.manifest().content == Content::Vector => {
                text.split_whitespace().map(str::to_owned).collect()
            }
            None => self.snapshot.manifest().analyzer.terms(text),
        }
    }

    /// Resolves terms, each given with its number of occurrences.
    fn leaves(
        &mut self,
        field: u8,
        terms: Vec<(String, f64)>,
        weight: f64,
        scored: bool,
    ) -> Result<Vec<PlanNode>, ExecError> {
        let leaf = |(term, times)| self.leaf(field, term, weight, times, scored);
        terms.into_iter().map(leaf).collect()
    }

    /// Resolves a term that occurs this many times in the text, each time with this boost.
    fn leaf(
        &mut self,
        field: u8,
        term: String,
        boost: f64,
        times: f64,
        scored: bool,
    ) -> Result<PlanNode, ExecError> {
        let weight = boost * times;
        if !is_weight(weight) {
            return Err(ExecError::Weight { term, weight });
        }
        let terms = self.terms.len() + self.words.len() + self.missing.len();
        if terms >= MAX_QUERY_TERMS {
            return Err(ExecError::TooManyTerms(terms + 1));
        }
        if !scored && let Some(node) = self.known.get(&(field, term.clone())) {
            return Ok(node.clone());
        }
        // The term is looked up in the dictionary of each segment.
        if self.ticker.must_stop(LOOKUP_COST * self.snapshot.segments().len()) {
            return Err(ExecError::Stopped);
        }
        let Some(found) = self.planner.term(field, &term, weight)? else {
            let missing = (field, term);
            if self.is_missing.insert(missing.clone()) {
                self.missing.push(missing);
            }
            return Ok(PlanNode::Nothing);
        };
        Ok(match scored {
            true => {
                self.terms.push(found);
                self.boosts.push(boost);
                PlanNode::Term(self.terms.len() - 1)
            }
            false => {
                self.words.push(found.lists);
                let node = PlanNode::Word(self.words.len() - 1);
                self.known.insert((field, term), node.clone());
                node
            }
        })
    }

    fn field(&self, name: &str) -> Result<FieldId, ExecError> {
        fields::field(self.schema, name)
    }

    fn text_field(&self, name: &str) -> Result<u8, ExecError> {
        match self.field(name)? {
            FieldId::Text(number) => Ok(number),
            FieldId::Attribute(_) => Err(ExecError::NotText { name: name.to_owned() }),
        }
    }

    fn attribute(&self, name: &str) -> Result<(u16, AttributeKind), ExecError> {
        fields::attribute(self.schema, name)
    }

    /// Fails if another set would need too much memory together with the existing ones.
    fn check_sets(&self) -> Result<(), ExecError> {
        let bytes = u64::from(self.snapshot.doc_limit()).div_ceil(8);
        let sets = (self.sets.len() + self.having.len()) as u64 + 1;
        match sets * bytes <= MAX_TREE_SET_BYTES {
            true => Ok(()),
            false => Err(ExecError::Tree(format!(
                "its filters need more than {MAX_TREE_SET_BYTES} bytes, one bit for each document and filter; use fewer different filters"
            ))),
        }
    }

    fn filter(&mut self, filter: &Filter) -> Result<PlanNode, ExecError> {
        let filter = match filter {
            Filter::Ids(ids) => {
                let mask = Mask::of_ids_in_time(self.snapshot, ids, &mut self.ticker)?;
                return Ok(PlanNode::Set(Arc::new(mask)));
            }
            Filter::Terms { field, values } => {
                let (column, kind) = self.attribute(field)?;
                let values = values.iter().map(|value| read(field, kind, value));
                ColumnFilter::Terms { column, values: values.collect::<Result<_, _>>()? }
            }
            Filter::Prefix { field, prefix } => {
                let (column, kind) = self.attribute(field)?;
                if kind != AttributeKind::Keyword {
                    return Err(ExecError::Prefix { name: field.clone() });
                }
                ColumnFilter::Prefix { column, prefix: prefix.clone() }
            }
            Filter::Range { field, from, to } => {
                let (column, kind) = self.attribute(field)?;
                let bound = |bound: &Bound<String>| {
                    Ok::<_, ExecError>(match bound {
                        Bound::Included(value) => Bound::Included(read(field, kind, value)?),
                        Bound::Excluded(value) => Bound::Excluded(read(field, kind, value)?),
                        Bound::Unbounded => Bound::Unbounded,
                    })
                };
                let (from, to) = (bound(from)?, bound(to)?);
                ColumnFilter::Range { column, from, to }
            }
            Filter::Exists { field } => match self.field(field)? {
                FieldId::Attribute(column) => ColumnFilter::Exists { column },
                FieldId::Text(number) => return self.has_terms(number),
            },
        };
        let key = filter.key();
        if let Some(known) = self.sets.get(&key) {
            return Ok(known.clone());
        }
        self.check_sets()?;
        let (cache, ticker) = (self.cache, &mut self.ticker);
        let set = |segment: &Arc<Segment>| {
            let documents = segment.documents().count();
            let mut make = |attributes| {
                let mut stops = |documents: usize| ticker.must_stop(documents.div_ceil(64));
                let made = filter.bits_in_time(attributes, documents, &mut stops)?;
                made.ok_or(ExecError::Stopped)
            };
            match segment.attributes() {
                None => Ok(Arc::new(make(None)?)),
                Some(attributes) => {
                    cache.get(attributes.file().seal(), &key, || make(Some(attributes)))
                }
            }
        };
        let sets = self.snapshot.segments().iter().map(set);
        let sets = sets.collect::<Result<_, ExecError>>()?;
        let node = PlanNode::Set(Arc::new(Mask::shared(self.snapshot, sets)));
        self.sets.insert(key, node.clone());
        Ok(node)
    }

    /// Returns the documents that have a term in a field.
    fn has_terms(&mut self, field: u8) -> Result<PlanNode, ExecError> {
        if let Some(known) = self.having.get(&field) {
            return Ok(known.clone());
        }
        self.check_sets()?;
        let mut sets = Vec::new();
        for segment in self.snapshot.segments() {
            let lengths = segment.lengths(field)?;
            let mut set = DocSet::new(segment.documents().count());
            for doc in 0..segment.documents().count() {
                if self.ticker.must_stop(1) {
                    return Err(ExecError::Stopped);
                }
                if lengths.get(doc) > 0 {
                    set.insert(doc);
                }
            }
            sets.push(set);
        }
        let node = PlanNode::Set(Arc::new(Mask::new(self.snapshot, sets)));
        self.having.insert(field, node.clone());
        Ok(node)
    }

    /// Makes the plan of the resolved tree.
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

/// Returns the number of words that must match, of `all` words.
fn wanted(words: &Words, all: usize) -> usize {
    match (words.operator, &words.least) {
        (Operator::And, _) => all,
        (Operator::Or, Some(least)) => least.of(all).max(1),
        (Operator::Or, None) => 1,
    }
}

/// Splits a term that occurs several times into terms of which each counts towards the minimum
/// number that must match. More copies than that number would make no difference to it.
fn copies(term: String, times: f64, least: usize) -> impl Iterator<Item = (String, f64)> {
    let count = (times as usize).clamp(1, least.max(1));
    let rest = times - (count - 1) as f64;
    (0..count).map(move |i| (term.clone(), if i == 0 { rest } else { 1.0 }))
}

/// Returns the different terms, each with its number of occurrences.
fn distinct(terms: impl IntoIterator<Item = String>) -> Vec<(String, f64)> {
    let (mut found, mut places): (Vec<(String, f64)>, HashMap<String, usize>) = Default::default();
    for term in terms {
        match places.get(&term) {
            Some(&place) => found[place].1 += 1.0,
            None => {
                places.insert(term.clone(), found.len());
                found.push((term, 1.0));
            }
        }
    }
    found
}

fn constant(filter: PlanNode, real: f64) -> Result<PlanNode, ExecError> {
    let expected = "up to 1e9, weights included";
    if !(0.0..=1e9).contains(&real) {
        return Err(ExecError::Parameter { name: "score", value: real, expected });
    }
    Ok(match filter {
        PlanNode::Nothing => PlanNode::Nothing,
        filter => PlanNode::Constant { filter: Box::new(filter), real, score: 0 },
    })
}

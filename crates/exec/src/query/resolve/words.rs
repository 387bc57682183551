//! Resolves words: analyzes texts and looks up their terms.

use std::collections::HashMap;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_index::Content;

use super::Resolver;
use crate::error::ExecError;
use crate::limit::LOOKUP_COST;
use crate::query::limits::is_weight;
use crate::query::plan_node::{Group, PlanNode};
use crate::query::tree::{Across, Operator, Words};

impl Resolver<'_> {
    /// Resolves words; `None` if they have no terms.
    pub(super) fn words(
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
    pub(super) fn leaf(
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

//! Resolves phrases.

use std::collections::HashMap;

use warpseek_core::limits::MAX_QUERY_TERMS;
use warpseek_text::FieldAnalyzer;

use super::Resolver;
use crate::error::ExecError;
use crate::query::phrase::PlanPhrase;
use crate::query::plan_node::{Group, PlanNode};
use crate::query::tree::Phrase;

impl Resolver<'_> {
    /// Resolves a phrase; `None` if it has no terms.
    pub(super) fn phrase(
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
}

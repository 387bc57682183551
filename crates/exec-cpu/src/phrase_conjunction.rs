//! AND with phrases: like `conjunction`, and positions are checked for documents that are in all
//! lists and may become hits.
//!
//! This algorithm answers trees that require all of their terms, phrases of these terms, and
//! sets. When the positions of a document are needed, the cursors are already on it, so no list
//! is read twice.

use std::ops::Range;

use warpseek_core::limits::NO_DOC;
use warpseek_exec::query::{Group, PlanNode, PlanPhrase, PlanTree};
use warpseek_exec::{Plan, Ticker, Work};
use warpseek_index::{DocSet, PositionReader};

use crate::algorithm::Pruning;
use crate::collector::Collector;
use crate::cursor::Cursor;
use crate::halt::Halt;
use crate::maxima::MaximaCache;
use crate::phrase::{Matcher, POSITIONS_COST, reader};
use crate::segment::{SegmentQuery, account};
use crate::tree::lift;

/// All terms of a plan, with phrases and sets.
pub(crate) struct PhraseConjunction<'a> {
    phrases: Vec<&'a PlanPhrase>,
    /// The number in the plan of each term of each phrase.
    terms: Vec<Vec<usize>>,
    filter: &'a [PlanNode],
}

impl<'a> PhraseConjunction<'a> {
    /// Returns `None` if the tree has any other shape.
    pub(crate) fn of(plan: &Plan, tree: &'a PlanTree) -> Option<Self> {
        let PlanNode::Group(Group { must, should, must_not, filter, .. }) = &tree.root else {
            return None;
        };
        let is_term = |node: &PlanNode| matches!(node, PlanNode::Term(_));
        // Each term of the plan is in the tree once.
        let all = must.len() == plan.terms.len() && must.iter().all(is_term);
        if !all || !should.is_empty() || !must_not.is_empty() {
            return None;
        }
        let (mut phrases, mut terms) = (Vec::new(), Vec::new());
        for node in filter {
            match node {
                PlanNode::Set(_) => {}
                PlanNode::Phrase(number) => {
                    let phrase = &tree.phrases[*number];
                    let same = |(field, term): &(u8, String)| {
                        plan.terms.iter().position(|t| t.field == *field && t.term == *term)
                    };
                    terms.push(phrase.terms.iter().map(same).collect::<Option<_>>()?);
                    phrases.push(phrase);
                }
                _ => return None,
            }
        }
        (!phrases.is_empty()).then_some(PhraseConjunction { phrases, terms, filter })
    }

    /// Offers all documents of a range that match and can become hits or, if matches are counted,
    /// all that match. Returns the end of what was searched.
    pub(crate) fn search(
        &self,
        query: &SegmentQuery<'a>,
        maxima: &MaximaCache,
        docs: Range<u32>,
        ticker: &mut Ticker<'_>,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, Halt> {
        let number = query.number();
        if query.terms().count() < query.plan.terms.len() {
            return Ok(docs.end);
        }
        let mut readers = Vec::new();
        for (info, ..) in query.terms() {
            readers.push(reader(query.segment, info)?);
        }
        let mut cursors: Vec<Placed<'_>> = query
            .cursors(Pruning::Blocks, maxima, ticker)?
            .into_iter()
            .zip(readers)
            .enumerate()
            .map(|(term, (cursor, reader))| Placed { term, cursor, reader })
            .collect();
        cursors.sort_by_key(|placed| placed.cursor.df());
        let mut at = vec![0; cursors.len()];
        for (i, placed) in cursors.iter().enumerate() {
            at[placed.term] = i;
        }
        let phrases = self.phrases.iter().zip(&self.terms).map(|(phrase, terms)| {
            let cursor = |term: usize| at[terms[term]];
            let mut order: Vec<usize> = (0..terms.len()).collect();
            order.sort_by_key(|&term| cursor(term));
            let cursors = order.iter().map(|&term| cursor(term)).collect();
            (Matcher::new(phrase, order), cursors)
        });
        let sets = self.filter.iter().filter_map(|node| match node {
            PlanNode::Set(mask) => Some(mask.segment(number)),
            _ => None,
        });
        let mut pass =
            Pass { query, cursors, phrases: phrases.collect(), sets: sets.collect(), checked: 0 };
        let end = pass.search(docs, ticker, collector, work)?;
        account(pass.cursors.iter().map(|c| (c.cursor.decoded, c.cursor.blocks())), work);
        Ok(end)
    }
}

/// A list with its positions.
struct Placed<'a> {
    /// The number of its term in the plan.
    term: usize,
    cursor: Cursor<'a>,
    reader: PositionReader<'a>,
}

struct Pass<'p, 'a> {
    query: &'p SegmentQuery<'a>,
    /// The cursors, shortest list first.
    cursors: Vec<Placed<'a>>,
    /// Each phrase, with the cursors of its terms in the order in which they are read.
    phrases: Vec<(Matcher<'a>, Vec<usize>)>,
    sets: Vec<&'a DocSet>,
    /// Number of postings whose positions were read.
    checked: usize,
}

impl Pass<'_, '_> {
    fn search(
        &mut self,
        docs: Range<u32>,
        ticker: &mut Ticker<'_>,
        collector: &mut Collector,
        work: &mut Work,
    ) -> Result<u32, Halt> {
        let (query, counts) = (self.query, self.query.plan.count);
        let broken = |what| Halt::from(query.broken(what));
        let fixed = u64::from(query.static_most) + u64::from(lift(query.plan));
        let lists = self.cursors.len();
        let mut doc = self.cursors[0].cursor.enter(docs.start).map_err(broken)?;
        // The last document that the block maxima hold for.
        let mut known = None;
        'documents: while doc < docs.end {
            let cost = lists + POSITIONS_COST * std::mem::take(&mut self.checked);
            if ticker.must_stop(cost) {
                return Ok(doc);
            }
            if !counts && known.is_none_or(|end| doc > end) {
                let (mut sum, mut end) = (fixed, NO_DOC - 1);
                for placed in &mut self.cursors {
                    let (most, until) = placed.cursor.peek(doc);
                    sum += u64::from(most);
                    end = end.min(until);
                }
                if sum <= u64::from(collector.threshold()) {
                    doc = self.cursors[0].cursor.seek(end.max(doc) + 1).map_err(broken)?;
                    continue;
                }
                // The threshold may rise before the end; then a few documents are scored
                // needlessly.
                known = Some(end);
            }
            for i in 1..lists {
                let found = self.cursors[i].cursor.seek(doc).map_err(broken)?;
                if found == NO_DOC {
                    return Ok(docs.end);
                }
                if found != doc {
                    doc = self.cursors[0].cursor.seek(found).map_err(broken)?;
                    continue 'documents;
                }
            }
            if query.admits(doc) && self.sets.iter().all(|set| set.contains(doc)) {
                let mut sum = 0;
                for placed in &mut self.cursors {
                    sum += placed.cursor.score().map_err(broken)?;
                }
                work.postings_scored += lists as u64;
                let hopeful = u64::from(sum) + fixed > u64::from(collector.threshold());
                if hopeful || counts {
                    match self.has_phrases(ticker) {
                        Ok(true) => query.offer(doc, sum + lift(query.plan), collector),
                        Ok(false) => {}
                        // Everything before the document is done.
                        Err(Halt::Stop) => return Ok(doc),
                        Err(failed) => return Err(failed),
                    }
                }
            }
            doc = self.cursors[0].cursor.next().map_err(broken)?;
        }
        Ok(docs.end)
    }

    /// Returns true if the document that all cursors are on contains all phrases.
    fn has_phrases(&mut self, ticker: &mut Ticker<'_>) -> Result<bool, Halt> {
        let Pass { query, cursors, phrases, checked, .. } = self;
        for (matcher, of_phrase) in phrases {
            let met = matcher.is_met(ticker, |i, out| {
                let Placed { cursor, reader, .. } = &mut cursors[of_phrase[i]];
                let (block, freqs, at) = cursor.place().map_err(|what| query.broken(what))?;
                *checked += 1;
                Ok(reader.read(block, freqs, at, out)?)
            })?;
            if !met {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

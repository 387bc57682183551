//! Deduplication of plans: a query that occurs several times in a batch is answered once. Several
//! attempts at one question often begin with the same query, and logs repeat popular ones.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};
use warpseek_exec::{Answer, Answers, ExecError, Plan, Work};

/// The distinct plans of a batch, in the order of their first occurrence, and for each plan of
/// the batch its position among them.
pub(crate) struct Repeats<'a> {
    pub(crate) distinct: Vec<&'a Plan>,
    places: Vec<usize>,
}

impl<'a> Repeats<'a> {
    pub(crate) fn of(plans: &[&'a Plan]) -> Self {
        let mut distinct: Vec<&Plan> = Vec::with_capacity(plans.len());
        let mut known = FxHashMap::default();
        known.reserve(plans.len());
        let place = |&plan: &&'a Plan| {
            let place = *known.entry(hash(plan)).or_insert(distinct.len());
            match distinct.get(place) {
                Some(&known) if known == plan => place,
                // A new plan. If its hash equals that of another plan, it is answered each time
                // it occurs.
                _ => {
                    distinct.push(plan);
                    distinct.len() - 1
                }
            }
        };
        let places = plans.iter().map(place).collect();
        Repeats { distinct, places }
    }

    /// Returns, for each plan of the batch, its position among the distinct plans.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().copied()
    }

    /// Gives every plan of the batch the answer to its distinct plan. Only its first occurrence
    /// took work.
    pub(crate) fn spread(self, answers: Answers) -> Answers {
        if self.places.len() == self.distinct.len() {
            return answers;
        }
        let mut spread: Answers = Vec::with_capacity(self.places.len());
        let (mut answers, mut firsts) = (answers.into_iter(), Vec::new());
        for place in self.places {
            let answer = match firsts.get(place) {
                Some(&first) => repeated(&spread[first]),
                None => {
                    firsts.push(spread.len());
                    answers.next().unwrap_or(Err(ExecError::NoAnswer))
                }
            };
            spread.push(answer);
        }
        spread
    }
}

fn repeated(answer: &Result<Answer, ExecError>) -> Result<Answer, ExecError> {
    let mut answer = answer.clone()?;
    answer.work = answer.work.map(|_| Work::default());
    Ok(answer)
}

/// Hashes the properties in which distinct plans usually differ: words, and the number of
/// documents that a filter admits.
fn hash(plan: &Plan) -> u64 {
    let mut hasher = FxHasher::default();
    (plan.k, plan.mode, plan.count, &plan.missing).hash(&mut hasher);
    plan.mask.as_ref().map(|mask| mask.documents()).hash(&mut hasher);
    for term in &plan.terms {
        (term.field, term.df, term.query_weight.to_bits()).hash(&mut hasher);
        term.term.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use warpseek_core::Hit;
    use warpseek_exec::Mode;
    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::*;

    #[test]
    fn equal_plans_share_an_answer_and_others_do_not() {
        let fixture = Fixture::of(&[Doc::text(0, "a1 a2"), Doc::text(1, "a2")]);
        let search = |words: &[&str], k| Search { k, ..Search::of(words) };
        let all = Search { mode: Mode::And, ..search(&["a1", "a2"], 10) };
        let searches = [
            search(&["a1"], 10),
            search(&["a1", "a2"], 10),
            search(&["a1"], 10),
            search(&["a1"], 11),
            all,
            search(&["a1", "a2"], 10),
            search(&["a2"], 10),
            search(&["absent"], 10),
            search(&["missing"], 10),
        ];
        let mut plans = plans(&fixture.snapshot(), &searches);
        // A plan that differs only in a property that is not part of its hash.
        plans.push(plans[0].clone());
        plans[9].static_weight = 1.0;
        plans.push(plans[9].clone());
        let refs: Vec<&Plan> = plans.iter().collect();
        let repeats = Repeats::of(&refs);
        assert_eq!(repeats.places, [0, 1, 0, 2, 3, 1, 4, 5, 6, 7, 8]);
        let number = |doc| {
            let (hits, work) =
                (vec![Hit { doc, score: 1 }], Some(Work { postings_scored: 3, ..Work::default() }));
            Ok(Answer { hits, work, ..Answer::default() })
        };
        let mut answers: Answers = (0..9).map(number).collect();
        answers[1] = Err(ExecError::NoAnswer);
        let spread = repeats.spread(answers);
        let docs: Vec<_> = spread.iter().map(|a| a.as_ref().ok().map(|a| a.hits[0].doc)).collect();
        let expected = [0, 1, 0, 2, 3, 1, 4, 5, 6, 7, 8].map(|n| (n != 1).then_some(n));
        assert_eq!(docs, expected);
        let work = |i: usize| spread[i].as_ref().unwrap().work.unwrap().postings_scored;
        assert_eq!((work(0), work(2)), (3, 0));
    }
}

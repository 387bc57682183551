//! Division by queries: every engine has all documents and answers a part of a batch.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpseek_exec::{
    Answer, Answers, Candidate, Choice, Context, Engine, Estimate, ExecError, Fault, Formulas,
    Load, Plan, Takes, at_once,
};
use warpseek_index::SnapshotId;

use crate::helper::{Errand, Helper};
use crate::measure::{self, WORTH};
use crate::speed::{LEAST, Speed, back, is_whole, portion, share, together};

/// Several engines, each of which can answer for all documents. Each engine takes most of its
/// share of a batch, in proportion to its speed; the rest goes in smaller pieces to engines that
/// are free.
///
/// A helper takes the shortest queries, as many as it is expected to finish while the engines
/// answer the others. The engines do not wait for the helper: when they are done, they answer the
/// queries that it has not begun, and also those in progress if the helper takes longer than they
/// would.
///
/// If the device of an engine fails, the engine takes no more queries of the batch; the queries
/// that it could not answer get its error.
pub struct ByQueries {
    engines: Vec<Box<dyn Engine>>,
    speeds: Mutex<Vec<Speed>>,
    helper: Option<Helper>,
    helped: Arc<AtomicU64>,
    probes: Vec<Plan>,
}

/// Maximum number of queries in a batch that measures an engine.
const PROBES: usize = 1 << 12;

/// The helper's part of a batch.
struct Help<'a> {
    helper: &'a Helper,
    errand: Errand,
    /// Numbers of the helper's queries in the batch, in the order of the errand.
    queries: Vec<usize>,
    /// Load of all other queries.
    others: Load,
}

impl ByQueries {
    /// Combines engines of the same snapshot, at least one, with initial estimates of their
    /// speed. Searches refine the estimates.
    pub fn new(engines: Vec<(Box<dyn Engine>, Speed)>) -> Self {
        assert!(!engines.is_empty(), "at least one engine is required");
        let (engines, speeds) = engines.into_iter().unzip();
        let (speeds, helper) = (Mutex::new(speeds), None);
        ByQueries { engines, speeds, helper, helped: Arc::default(), probes: Vec::new() }
    }

    /// Adds a helper.
    pub fn helped_by(self, engine: Arc<dyn Engine>, speed: Speed) -> Self {
        ByQueries { helper: Some(Helper::new(engine, speed)), ..self }
    }

    /// Adds representative queries. [`Engine::prepare`] measures the speed of all engines with
    /// them.
    pub fn measured_by(self, probes: Vec<Plan>) -> Self {
        ByQueries { probes, ..self }
    }

    fn measure(&self, context: &Context) -> Result<(), ExecError> {
        for (i, engine) in self.engines.iter().enumerate() {
            let (load, took) = measure::batch(&**engine, &self.probes, PROBES, context)?;
            self.speeds()[i].guess(&load, took);
        }
        if let Some(helper) = &self.helper {
            // Measure as many as the helper answers at once, and more if that does not take long.
            let few = self.probes.len().min(helper.speed().at_once());
            let context = &helper.context(context);
            let (load, took) =
                measure::batch(helper.engine(), &self.probes[..few], PROBES, context)?;
            helper.speed().guess(&load, took);
        }
        Ok(())
    }

    /// Returns the counter of queries that the helper answered in time.
    pub fn helped(&self) -> Arc<AtomicU64> {
        self.helped.clone()
    }

    fn speeds(&self) -> MutexGuard<'_, Vec<Speed>> {
        self.speeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the engine that is fastest for this load.
    fn fastest(&self, load: &Load) -> usize {
        let speeds = self.speeds();
        let time = |i: &usize| speeds[*i].time(load);
        (0..speeds.len()).min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(0)
    }

    /// Returns the engine that answers a small batch: the fastest one, or the helper if it is as
    /// fast.
    fn one(&self, plans: &[&Plan], context: &Context) -> (&dyn Engine, Context) {
        let load = Load::sum(plans.iter().copied());
        let fastest = self.fastest(&load);
        let time = self.speeds()[fastest].time(&load);
        match &self.helper {
            Some(helper) if helper.speed().time(&load) <= time => {
                (helper.engine(), helper.context(context))
            }
            _ => (&*self.engines[fastest], context.clone()),
        }
    }

    /// Starts the helper on its share of a batch. Returns `None` if it has no share.
    fn help(&self, plans: &[&Plan], context: &Context) -> Option<Help<'_>> {
        let helper = self.helper.as_ref().filter(|helper| helper.is_free())?;
        let loads: Vec<Load> = plans.iter().map(|plan| Load::of(plan)).collect();
        let batch = loads.iter().copied().sum();
        let (mut speed, speeds) = (helper.speed(), self.speeds().clone());
        // Dividing the batch would take longer than the help saves.
        if speed.time(&batch) * WORTH > together(&speeds, &batch) {
            speed.forget();
            return None;
        }
        let share_of = |few: usize| {
            let mut queries = shortest(&loads, few);
            let short: Vec<Load> = queries.iter().map(|&i| loads[i]).collect();
            queries.truncate(share(&short, batch, &speed, &speeds));
            queries
        };
        let few = (plans.len() / FEW).max(2 * speed.at_once());
        let mut queries = share_of(few);
        if queries.len() == few {
            queries = share_of(plans.len());
        }
        if queries.is_empty() {
            speed.forget();
            return None;
        }
        let mut others = batch;
        queries.iter().for_each(|&i| others -= loads[i]);
        drop(speed);
        queries.reverse();
        let errand = helper.start(queries.iter().map(|&i| plans[i].clone()).collect(), context);
        Some(Help { helper, errand, queries, others })
    }

    /// Searches with one engine, and learns its speed from that.
    fn ask(&self, engine: usize, plans: &[&Plan], load: Load, context: &Context) -> Answers {
        let start = Instant::now();
        let answers = self.engines[engine].search(plans, context);
        if plans.len() >= LEAST && is_whole(&answers) {
            self.speeds()[engine].learn(&load, start.elapsed());
        }
        answers
    }

    /// Answers a batch with all engines except the helper.
    fn shared(&self, plans: &[&Plan], batch: Load, context: &Context) -> Answers {
        if let [_] = &self.engines[..] {
            return self.ask(0, plans, batch, context);
        }
        let left = Mutex::new(0..plans.len());
        let left = || left.lock().unwrap_or_else(PoisonError::into_inner);
        let take = |engine: usize, first: bool| -> Range<usize> {
            let mut left = left();
            let n = portion(&self.speeds(), engine, &batch, left.len(), first);
            let taken = left.start..left.start + n;
            left.start = taken.end;
            taken
        };
        let numbers: Vec<usize> = (0..self.engines.len()).collect();
        let done = at_once(&numbers, |&engine| {
            let (mut done, mut taken) = (Vec::new(), take(engine, true));
            while !taken.is_empty() {
                let piece = &plans[taken.clone()];
                let load = Load::sum(piece.iter().copied());
                let answers = self.ask(engine, piece, load, context);
                let lost = answers.iter().any(is_lost);
                done.push((taken.start, answers));
                if lost {
                    break;
                }
                taken = take(engine, false);
            }
            done
        });
        let mut answers: Answers = plans.iter().map(|_| Err(ExecError::NoAnswer)).collect();
        for (start, piece) in done.into_iter().flatten() {
            for (slot, answer) in answers[start..].iter_mut().zip(piece) {
                *slot = answer;
            }
        }
        // Queries that no engine was left to take get the error that stopped the engines.
        let none = left().clone();
        if let Some(Err(error)) = answers[..none.start].iter().find(|answer| is_lost(answer)) {
            let error = error.clone();
            answers[none].iter_mut().for_each(|answer| *answer = Err(error.clone()));
        }
        answers
    }

    /// Answers a batch with the engines and the helper. The engines first answer all queries that
    /// the helper did not get, then those that it has not finished.
    fn with_help(&self, plans: &[&Plan], help: &Help<'_>, context: &Context) -> Answers {
        let Help { helper, errand, queries, others } = help;
        let mut answers: Vec<Option<Result<Answer, ExecError>>> = vec![None; plans.len()];
        let mut answer = |which: &[usize], load: Load| {
            let some: Vec<&Plan> = which.iter().map(|&i| plans[i]).collect();
            for (&i, answer) in which.iter().zip(self.shared(&some, load, context)) {
                answers[i] = Some(answer);
            }
        };
        let mut given = vec![false; plans.len()];
        queries.iter().for_each(|&i| given[i] = true);
        let rest: Vec<usize> = (0..plans.len()).filter(|&i| !given[i]).collect();
        answer(&rest, *others);
        let patience =
            |load: &Load| Duration::from_nanos(together(&self.speeds(), load).min(1e18) as u64);
        let load = |which: &[usize]| Load::sum(which.iter().map(|&i| plans[i]));
        let how_many = |left: &[Load]| back(left, &helper.speed(), &self.speeds());
        loop {
            let back = &queries[errand.take_back(how_many)];
            if back.is_empty() {
                break;
            }
            answer(back, load(back));
        }
        let late = &queries[errand.late(patience)];
        if !late.is_empty() {
            answer(late, load(late));
        }
        for (start, done) in errand.answers() {
            for (&i, answer) in queries[start..].iter().zip(done) {
                // The helper may have answered queries that the engines have answered, too: both
                // answers are equal. The engines answer the queries that the helper failed.
                if answers[i].is_none() && answer.is_ok() {
                    answers[i] = Some(answer);
                    self.helped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let failed: Vec<usize> = (0..plans.len()).filter(|&i| answers[i].is_none()).collect();
        if !failed.is_empty() {
            let some: Vec<&Plan> = failed.iter().map(|&i| plans[i]).collect();
            for (&i, answer) in failed.iter().zip(self.shared(&some, load(&failed), context)) {
                answers[i] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Err(ExecError::NoAnswer))).collect()
    }
}

/// Returns true if the device failed, so that the engine answers no more queries.
fn is_lost(answer: &Result<Answer, ExecError>) -> bool {
    let fault = answer.as_ref().err().and_then(ExecError::fault);
    matches!(fault, Some(Fault::Device | Fault::Setup))
}

/// Reciprocal of the part of a batch that a helper usually gets at most. Sorting the whole batch
/// would keep a GPU waiting.
const FEW: usize = 8;

/// Returns the `n` shortest queries, shortest first.
fn shortest(loads: &[Load], n: usize) -> Vec<usize> {
    let mut queries: Vec<(u64, usize)> = loads.iter().map(|load| load.effort).zip(0..).collect();
    if n < queries.len() {
        queries.select_nth_unstable(n);
        queries.truncate(n);
    }
    queries.sort_unstable();
    queries.into_iter().map(|(_, i)| i).collect()
}

impl Engine for ByQueries {
    fn name(&self) -> &'static str {
        "by queries"
    }

    fn device(&self) -> String {
        let helper = self.helper.iter().map(|helper| helper.engine().device());
        let devices: Vec<String> =
            self.engines.iter().map(|engine| engine.device()).chain(helper).collect();
        devices.join(" or ")
    }

    fn snapshot(&self) -> SnapshotId {
        self.engines[0].snapshot()
    }

    fn candidates(&self, plan: &Plan, alone: bool, context: &Context) -> Vec<Candidate> {
        self.engines[0].candidates(plan, alone, context)
    }

    fn takes(&self) -> Takes {
        self.engines.iter().map(|engine| engine.takes()).fold(Takes::ALL, Takes::and)
    }

    fn supports(&self, plan: &Plan) -> Result<(), &'static str> {
        self.engines.iter().try_for_each(|engine| engine.supports(plan))
    }

    /// Estimates the time of all engines together.
    fn estimate(&self, plans: &[&Plan], context: &Context) -> Estimate {
        let all: Vec<_> = self.engines.iter().map(|e| e.estimate(plans, context)).collect();
        let rates: f64 = all.iter().map(|e| 1.0 / e.time.as_secs_f64().max(1e-12)).sum();
        let time = Duration::from_secs_f64(1.0 / rates);
        Estimate { time, ..all.into_iter().next().unwrap_or_default() }
    }

    fn prepare(&self, formulas: &Formulas, context: &Context) -> Result<(), ExecError> {
        let helper = self.helper.iter().map(Helper::engine);
        let engines: Vec<_> = self.engines.iter().map(|engine| &**engine).chain(helper).collect();
        at_once(&engines, |engine| engine.prepare(formulas, context))
            .into_iter()
            .collect::<Result<(), _>>()?;
        self.measure(context)
    }

    fn explain(&self, plans: &[&Plan], context: &Context) -> Vec<Choice> {
        if plans.len() <= LEAST {
            let (engine, context) = self.one(plans, context);
            return engine.explain(plans, &context);
        }
        let helper = self.helper.iter().map(|helper| helper.engine().explain(plans, context));
        let engines = self.engines.iter().map(|engine| engine.explain(plans, context));
        let all: Vec<_> = engines.chain(helper).collect();
        let join = |i: usize, field: fn(&Choice) -> &str| {
            let words: Vec<&str> = all.iter().map(|engine| field(&engine[i])).collect();
            words.join(" or ")
        };
        let who = match self.helper {
            Some(_) => "the last device takes as many short queries as it can answer in time",
            None => "each device answers a part of the queries",
        };
        let choice = |i| Choice {
            device: join(i, |c| &c.device),
            algorithm: join(i, |c| &c.algorithm),
            why: format!("{who}: {}", join(i, |c| &c.why)),
        };
        (0..plans.len()).map(choice).collect()
    }

    fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
        if plans.len() <= LEAST {
            let (engine, context) = self.one(plans, context);
            return engine.search(plans, &context);
        }
        match self.help(plans, context) {
            Some(help) => self.with_help(plans, &help, context),
            None => self.shared(plans, Load::sum(plans.iter().copied()), context),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Condvar, LazyLock};

    use warpseek_core::Hit;
    use warpseek_exec::{Cancel, Coverage, Rates, fail_all};
    use warpseek_testkit::{Doc, Fixture, Search, answers, plans};

    use super::*;

    fn ask(engine: &ByQueries, plans: &[Plan]) -> Result<Vec<Answer>, ExecError> {
        answers(engine, plans, 1)
    }

    /// A plan for the snapshot of all engines in these tests.
    static PLAN: LazyLock<Plan> = LazyLock::new(|| {
        let fixture = Fixture::of(&[Doc::text(0, "a1 a2")]);
        plans(&fixture.snapshot(), &[Search::of(&["a1"])]).remove(0)
    });

    /// Returns queries, longest first, that differ in k, so that an answer identifies its query.
    fn queries(n: usize) -> Vec<Plan> {
        let mut plans: Vec<Plan> = (0..n).map(|k| Plan { k, ..PLAN.clone() }).collect();
        plans.iter_mut().rev().zip(1..).for_each(|(plan, df)| plan.terms[0].df = df);
        plans
    }

    /// Returns an answer with one hit: the query's k, and the number of the engine as its score.
    fn answer(plan: &Plan, who: u32) -> Answer {
        let hits = vec![Hit { doc: plan.k as u32, score: who }];
        Answer { hits, ..Answer::default() }
    }

    /// A fake engine that identifies itself. It waits before each piece except the first ones
    /// until it is released, fails in a given piece, and answers nothing after the deadline.
    #[derive(Clone)]
    struct Fake(Arc<State>);

    #[derive(Default)]
    struct State {
        who: u32,
        stops_after: Option<usize>,
        fails_at: Option<usize>,
        pieces: Mutex<Vec<usize>>,
        first: Mutex<Option<usize>>,
        go: (Mutex<bool>, Condvar),
    }

    impl Fake {
        fn let_go(&self) {
            *self.0.go.0.lock().unwrap() = true;
            self.0.go.1.notify_all();
        }

        fn pieces(&self) -> Vec<usize> {
            self.0.pieces.lock().unwrap().clone()
        }
    }

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn snapshot(&self) -> SnapshotId {
            PLAN.snapshot
        }
        fn candidates(&self, _: &Plan, _: bool, _: &Context) -> Vec<Candidate> {
            vec![Candidate { algorithm: "fake", rates: Ok(cost(1e3)), why: "asked for" }]
        }
        fn search(&self, plans: &[&Plan], context: &Context) -> Answers {
            let piece = self.pieces().len();
            self.0.pieces.lock().unwrap().push(plans.len());
            self.0.first.lock().unwrap().get_or_insert(plans[0].k);
            if self.0.stops_after.is_some_and(|pieces| piece >= pieces) {
                let gone = self.0.go.0.lock().unwrap();
                drop(self.0.go.1.wait_while(gone, |gone| !*gone).unwrap());
            }
            if self.0.fails_at == Some(piece) {
                let source = Arc::new(std::io::Error::other("the device is broken"));
                return fail_all(plans, &ExecError::Device { fault: Fault::Device, source });
            }
            let answer = |plan: &&Plan| match context.is_over() {
                true => Answer::nothing(plan),
                false => answer(plan, self.0.who),
            };
            plans.iter().map(answer).map(Ok).collect()
        }
    }

    fn fake(who: u32, stops_after: Option<usize>, fails_at: Option<usize>) -> Fake {
        Fake(Arc::new(State { who, stops_after, fails_at, ..State::default() }))
    }

    fn cost(query: f64) -> Rates {
        Rates::device(0.0, query, 0.0, 0.0)
    }

    /// Combines an engine that takes 1 us per query with a helper that takes `query`.
    fn helped(engine: &Fake, helper: &Fake, query: f64) -> ByQueries {
        ByQueries::new(vec![(Box::new(engine.clone()), Speed::new(cost(1e3), 1))])
            .helped_by(Arc::new(helper.clone()), Speed::new(Rates::thread(query, 0.0), 1))
    }

    /// Returns the engine of each answer; checks that the answers are in order.
    fn who(answers: &[Answer]) -> Vec<u32> {
        assert!(answers.iter().enumerate().all(|(i, a)| a.hits[0].doc == i as u32), "out of order");
        answers.iter().map(|answer| answer.hits[0].score).collect()
    }

    #[test]
    fn engines_do_not_wait_for_a_helper_that_never_finishes() {
        let plans = queries(1000);
        for stops_after in [0, 1, 2] {
            let (engine, helper) = (fake(1, None, None), fake(2, Some(stops_after), None));
            let both = helped(&engine, &helper, 1e3);
            for _ in 0..3 {
                let by = who(&ask(&both, &plans).unwrap());
                let its = by.iter().filter(|&&who| who == 2).count();
                // The number that the helper has time for varies; those that it is stuck with do
                // not count.
                assert!(its < 500 && (stops_after > 0 || its == 0), "{its}");
            }
            // While it was late, it got no further queries, and it does not continue with those
            // that were taken back.
            helper.let_go();
            wait_for_helper(&both);
            assert!(helper.pieces().len() <= stops_after + 1, "{:?}", helper.pieces());
        }
    }

    #[test]
    fn the_later_duplicate_is_discarded() {
        let plans = queries(1000);
        let (engine, helper) = (fake(1, Some(0), None), fake(2, Some(0), None));
        let both = helped(&engine, &helper, 1e3);
        let by = std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&both, &plans).unwrap());
            while helper.pieces().is_empty() {
                std::thread::yield_now();
            }
            engine.let_go();
            who(&asked.join().unwrap())
        });
        assert_eq!(by, vec![1; 1000]);
        // The engine's own queries, those that the helper had not begun, and those that were
        // late.
        let pieces = engine.pieces();
        assert_eq!((pieces[0], pieces.last(), pieces.iter().sum()), (500, Some(&125), 1000));
        helper.let_go();
    }

    #[test]
    fn a_helper_that_is_in_time_answers_its_share() {
        let plans = queries(1000);
        let (engine, helper) = (fake(1, Some(0), None), fake(2, None, None));
        let both = helped(&engine, &helper, 1e3);
        let by = std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&both, &plans).unwrap());
            // Hold the engine until the helper has finished its share.
            while helper.pieces().iter().sum::<usize>() < 500 {
                std::thread::yield_now();
            }
            engine.let_go();
            who(&asked.join().unwrap())
        });
        // All pieces of the helper except the last one are certainly in time.
        let its = by.iter().filter(|&&who| who == 2).count();
        assert!((499..=500).contains(&its), "{its}: {:?}", helper.pieces());
        // The helper has the shortest half of the queries, and starts with the longest of them.
        assert_eq!((&by[..500], *helper.0.first.lock().unwrap()), (&[1; 500][..], Some(500)));
        assert_eq!(both.helped().load(Ordering::Relaxed), its as u64);
        let pieces = helper.pieces();
        assert!(pieces[0] == 125 && pieces.windows(2).all(|p| p[0] >= p[1]), "{pieces:?}");
    }

    #[test]
    fn a_helper_that_is_too_slow_is_not_asked() {
        let (engine, helper) = (fake(1, None, None), fake(2, None, None));
        let both = helped(&engine, &helper, 2e6);
        assert_eq!(who(&ask(&both, &queries(1000)).unwrap()), vec![1; 1000]);
        assert_eq!((engine.pieces(), helper.pieces()), (vec![1000], vec![]));
        // A helper that is not quite as slow gets queries, or the engine takes them back.
        let (engine, helper) = (fake(1, None, None), fake(2, None, None));
        ask(&helped(&engine, &helper, 4e4), &queries(1000)).unwrap();
        assert!(helper.pieces().len() + engine.pieces().len() > 1);
    }

    #[test]
    fn engines_are_measured_when_prepared() {
        let plans = queries(100);
        let (engine, helper) = (fake(1, None, None), fake(2, None, None));
        let both = helped(&engine, &helper, 1e3).measured_by(plans[..9].to_vec());
        both.prepare(&plans[0].formulas, &Context::new(1)).unwrap();
        assert_eq!((&engine.pieces()[..3], helper.pieces()[0]), (&[9, 9, 18][..], 1));
        who(&ask(&both, &plans).unwrap());
        // An engine that fails in preparation makes preparation fail.
        let (engine, helper) = (fake(1, None, Some(0)), fake(2, None, None));
        let both = helped(&engine, &helper, 1e3).measured_by(plans);
        assert!(both.prepare(&both.probes[0].formulas, &Context::new(1)).is_err());
    }

    #[test]
    fn the_shortest_queries_are_selected_in_order() {
        let load = |effort| Load { effort, ..Load::default() };
        let loads = [5, 1, 9, 1, 7].map(load);
        for n in 0..=5 {
            assert_eq!(shortest(&loads, n), [1, 3, 0, 4, 2][..n]);
        }
    }

    #[test]
    fn small_batches_go_to_the_fastest_engine() {
        for (query, by) in [(500.0, 2), (2000.0, 1)] {
            let (engine, helper) = (fake(1, None, None), fake(2, None, None));
            let both = helped(&engine, &helper, query);
            assert_eq!(who(&ask(&both, &queries(LEAST)).unwrap()), vec![by; LEAST]);
        }
    }

    /// Returns the engine of each answer, 0 for errors.
    fn each(both: &ByQueries, plans: &[Plan]) -> Vec<u32> {
        let plans: Vec<&Plan> = plans.iter().collect();
        let answers = both.search(&plans, &Context::new(1));
        assert_eq!(answers.len(), plans.len());
        answers.iter().map(|answer| answer.as_ref().map_or(0, |a| a.hits[0].score)).collect()
    }

    #[test]
    fn an_engines_failure_fails_its_queries_and_a_helpers_failure_is_made_up_for() {
        let plans = queries(1000);
        let (engine, helper) = (fake(1, None, Some(0)), fake(2, Some(0), None));
        let both = helped(&engine, &helper, 1e3);
        let by = each(&both, &plans);
        assert_eq!(by[..500], [0; 500], "the engine's own");
        assert!(by[500..].iter().all(|&who| who == 1), "what it took back later");
        helper.let_go();
        let (engine, helper) = (fake(1, Some(0), None), fake(2, None, Some(0)));
        let both = helped(&engine, &helper, 1e3);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&both, &plans).unwrap());
            while helper.pieces().is_empty() {
                std::thread::yield_now();
            }
            engine.let_go();
            who(&asked.join().unwrap());
        });
    }

    #[test]
    fn if_one_engine_fails_the_others_take_the_rest() {
        // The working engine waits until the broken one has got its first piece.
        let (whole, broken) = (fake(1, Some(0), None), fake(2, None, Some(0)));
        let engines = [&whole, &broken]
            .map(|engine| (Box::new(engine.clone()) as Box<dyn Engine>, Speed::new(cost(1e3), 1)));
        let (both, plans) = (ByQueries::new(engines.into()), queries(8000));
        let by = std::thread::scope(|scope| {
            let asked = scope.spawn(|| each(&both, &plans));
            while broken.pieces().is_empty() {
                std::thread::yield_now();
            }
            whole.let_go();
            asked.join().unwrap()
        });
        assert_eq!(broken.pieces().len(), 1, "it is not asked again");
        assert_eq!(by.iter().filter(|&&who| who == 0).count(), broken.pieces()[0]);
        // If all engines fail, every query still has a result.
        let (one, two) = (fake(1, None, Some(0)), fake(2, None, Some(0)));
        let engines = [&one, &two]
            .map(|engine| (Box::new(engine.clone()) as Box<dyn Engine>, Speed::new(cost(1e3), 1)));
        let both = ByQueries::new(engines.into());
        let plans: Vec<&Plan> = plans.iter().collect();
        for answer in both.search(&plans, &Context::new(1)) {
            assert!(matches!(answer, Err(ExecError::Device { .. })), "{answer:?}");
        }
    }

    /// Returns the expected times per query of the engine and of the helper.
    fn expectations(both: &ByQueries) -> (f64, f64) {
        let load = Load::of(&PLAN);
        (both.speeds()[0].time(&load), both.helper.as_ref().unwrap().speed().time(&load))
    }

    fn wait_for_helper(both: &ByQueries) {
        while !both.helper.as_ref().unwrap().is_free() {
            std::thread::yield_now();
        }
    }

    /// Searches that stopped early or failed look fast, so speeds must not be learned from them.
    #[test]
    fn speeds_are_learned_from_complete_searches_only() {
        let plans = queries(1000);
        let plans: Vec<&Plan> = plans.iter().collect();
        let (engine, helper) = (fake(1, Some(0), None), fake(2, None, None));
        let both = helped(&engine, &helper, 1e3);
        let before = expectations(&both);
        let cancel = Cancel::new();
        cancel.set();
        let context = Context::new(1).cancelled_by(cancel);
        let answers = std::thread::scope(|scope| {
            let asked = scope.spawn(|| both.search(&plans, &context));
            while helper.pieces().is_empty() {
                std::thread::yield_now();
            }
            engine.let_go();
            asked.join().unwrap()
        });
        assert_eq!(answers.len(), plans.len());
        assert!(answers.into_iter().all(|answer| answer.unwrap().coverage == Coverage::NOTHING));
        wait_for_helper(&both);
        assert_eq!(expectations(&both), before);
        // The first piece of each engine fails; then both wait.
        let (engine, helper) = (fake(1, Some(0), Some(0)), fake(2, Some(1), Some(0)));
        let both = helped(&engine, &helper, 1e3);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| both.search(&plans, &Context::new(1)));
            while helper.pieces().len() < 2 {
                std::thread::yield_now();
            }
            assert_eq!(expectations(&both), before);
            engine.let_go();
            helper.let_go();
            asked.join().unwrap();
        });
        assert_ne!(expectations(&both).0, before.0, "later pieces were answered");
    }

    #[test]
    fn engines_take_shares_in_proportion_to_their_speed() {
        let (slow, fast) = (fake(1, Some(0), None), fake(2, Some(0), None));
        let engines = [(&slow, 3e3), (&fast, 1e3)];
        let engines = engines.map(|(engine, query)| {
            (Box::new(engine.clone()) as Box<dyn Engine>, Speed::new(cost(query), 1))
        });
        let (both, plans) = (ByQueries::new(engines.into()), queries(8000));
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(&both, &plans).unwrap());
            while slow.pieces().is_empty() || fast.pieces().is_empty() {
                std::thread::yield_now();
            }
            slow.let_go();
            fast.let_go();
            who(&asked.join().unwrap());
        });
        // Each engine's first piece is seven eighths of its share of the batch, whichever starts
        // first.
        assert_eq!((slow.pieces()[0], fast.pieces()[0]), (1750, 5250));
        assert_eq!(slow.pieces().iter().chain(&fast.pieces()).sum::<usize>(), 8000);
    }
}

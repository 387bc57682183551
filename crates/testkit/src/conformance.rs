//! The suite that every engine must pass: its hits equal those of the reference in documents, order
//! and score bits, and so do the counts of matches where requested, whatever the batch and the
//! number of threads.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use proptest::test_runner::{Config, TestRunner};
use warpseek_exec::{
    Answer, Cancel, Context, Coverage, Engine, ExecError, Mask, Mode, Plan, Planner, Query,
    Ranking, Reference,
};
use warpseek_index::{DocSet, FilterCache, Progress, Snapshot, create};

use crate::cases::{fixed_cases, most_terms};
use crate::collections;
use crate::fields;
use crate::fixture::{Fixture, build_config, orders};
use crate::generator;
use crate::random::Random;
use crate::rankings::text_rankings;
use crate::search::{Search, answers, expected, plans};
use crate::skips::elsewhere;
use crate::trees::TreeSearch;

/// Number of random cases per run.
const CASES: u32 = 24;
/// Number of random cases with a schema.
const FIELD_CASES: u32 = 12;
/// Number of searches per case.
const SEARCHES: usize = 40;
/// Number of query trees per case.
const TREES: usize = 24;

/// Creates an engine for a snapshot with the given number of threads.
pub trait MakeEngine: Fn(Arc<Snapshot>, usize) -> Box<dyn Engine> {}

impl<F: Fn(Arc<Snapshot>, usize) -> Box<dyn Engine>> MakeEngine for F {}

/// Generates the suite for an engine: `conformance!(name, |snapshot, threads| ...)`.
#[macro_export]
macro_rules! conformance {
    ($name:ident, $make:expr) => {
        $crate::conformance!($name, $make, {
            #[test]
            fn shared_collections() {
                $crate::conformance::check_collections($make);
            }
        });
    };
    // Engines that are slow on the emulator skip the collections there.
    ($name:ident, $make:expr, cases alone) => {
        $crate::conformance!($name, $make, {});
    };
    // Slow engines that differ little divide the cases among themselves on the emulator.
    ($name:ident, $make:expr, part $part:literal of $parts:literal) => {
        $crate::conformance!($name, $make, $crate::conformance::part_of($part, $parts), {});
    };
    ($name:ident, $make:expr, { $($more:item)* }) => {
        $crate::conformance!($name, $make, $crate::conformance::part_of(1, 1), { $($more)* });
    };
    ($name:ident, $make:expr, $part:expr, { $($more:item)* }) => {
        mod $name {
            use super::*;

            #[test]
            fn fixed_cases() {
                $crate::conformance::check_fixed_cases($make, $part);
            }

            #[test]
            fn random_cases() {
                $crate::conformance::check_random_cases($make, $part);
            }

            #[test]
            fn most_terms() {
                $crate::conformance::check_most_terms($make, $part);
            }

            #[test]
            fn fields() {
                $crate::conformance::check_fields($make, $part);
            }

            $($more)*
        }
    };
}

/// Runs the whole suite.
pub fn check_engine(make: impl MakeEngine) {
    check_fixed_cases(&make, part_of(1, 1));
    check_random_cases(&make, part_of(1, 1));
    check_most_terms(&make, part_of(1, 1));
    check_fields(&make, part_of(1, 1));
    check_collections(&make);
}

/// Checks edge cases: list lengths around the block size, ties, many terms, empty indexes,
/// deletions, segments, static scores and vectors. Each case also runs with reordered documents.
pub fn check_fixed_cases(make: impl MakeEngine, (part, parts): Part) {
    let [by_input, by_text, ..] = orders();
    let mut number = 0;
    for (order, config) in [("", by_input), (" by text", by_text)] {
        for case in fixed_cases(&config) {
            number += 1;
            if number % parts != part % parts {
                continue;
            }
            let name = format!("{}{order}", case.name);
            check_snapshot(&make, &name, &case.fixture.snapshot(), &case.searches);
        }
    }
}

/// Checks queries with the maximum number of terms. An engine that has not enough memory for them
/// must return an error; the suite reports such an engine, and a slow engine that skips the
/// check, by name.
#[track_caller]
pub fn check_most_terms(make: impl MakeEngine, (_, parts): Part) {
    let (fixture, searches) = most_terms();
    let snapshot = fixture.snapshot();
    if parts > 1 {
        let name = make(snapshot, 1).name();
        return elsewhere(
            format!("{name}, most terms"),
            "it takes too long for a part of the cases",
        );
    }
    let plans = plans(&snapshot, &searches);
    let expected = expected(&snapshot, &plans);
    for threads in [1, 3] {
        let (engine, name) = (make(snapshot.clone(), threads), "most terms");
        let case = Case { engine: &*engine, name, threads, searches: &searches };
        for (i, plan) in plans.iter().enumerate() {
            let answer = engine.search(&[plan], &Context::new(threads)).remove(0);
            case.compare("alone", i, plan, &answer, &expected[i]);
        }
    }
}

/// Checks random corpora with random histories, codecs and document orders.
pub fn check_random_cases(make: impl MakeEngine, (_, parts): Part) {
    let cases = CASES.div_ceil(parts);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&generator::cases(), |case| {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let name = format!("{case:?}");
        let snapshot = fixture.snapshot();
        check_snapshot(&make, &name, &snapshot, &case.searches(SEARCHES));
        check_trees(&make, &name, &snapshot, &case.trees(TREES));
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Checks random corpora with one to four text fields. An engine without support for fields must
/// answer with one field and refuse more.
pub fn check_fields(make: impl MakeEngine, (_, parts): Part) {
    let cases = FIELD_CASES.div_ceil(parts);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&fields::field_cases(), |case| {
        let fixture = Fixture::after_each(&case.history(), |number| case.config(number));
        let (snapshot, searches) = (fixture.snapshot(), case.searches(SEARCHES / 2));
        // A history may end before all fields are in the schema.
        let several = snapshot.text_fields() > 1;
        if several && !make(snapshot.clone(), 1).takes().fields {
            let engine = make(snapshot.clone(), 1);
            let plans = Planner::suited(snapshot.clone()).unwrap();
            let plan = plans.plan(&Query::of_fields([(1, "w0", 1.0)]), Mode::Or, 1).unwrap();
            let answer = engine.search(&[&plan], &Context::new(1)).remove(0);
            assert!(matches!(answer, Err(ExecError::Unsupported { .. })), "{answer:?}");
            let prepared = engine.prepare(&plan.formulas, &Context::new(1));
            assert!(prepared.is_ok() || matches!(prepared, Err(ExecError::Unsupported { .. })));
            return Ok(());
        }
        let known = |search: &Search| {
            search.query.terms.iter().all(|t| usize::from(t.field) < snapshot.text_fields())
        };
        let searches: Vec<Search> = searches.into_iter().filter(known).collect();
        check_snapshot(&make, &format!("{case:?}"), &snapshot, &searches);
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The part of the cases to run, counted from 1, and the number of parts.
pub type Part = (u32, u32);

/// Returns the given part, or all cases when testing on a device. The environment variable
/// WARPSEEK_TEST_PART overrides it for tools under which the whole suite takes too long: 2/5 is the
/// second of five parts.
pub fn part_of(part: u32, parts: u32) -> Part {
    let Ok(text) = std::env::var("WARPSEEK_TEST_PART") else {
        let on_device = std::env::var_os("WARPSEEK_TEST_DEVICE").is_some();
        return if on_device { (1, 1) } else { (part, parts) };
    };
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((i, n)) if (1..=n).contains(&i) => (i, n),
        _ => panic!("WARPSEEK_TEST_PART is `{text}`; it must have the form 2/5"),
    }
}

/// Checks the shared collections with all their queries.
#[track_caller]
pub fn check_collections(make: impl MakeEngine) {
    let rankings = text_rankings();
    for collection in collections::present() {
        let fixture = Fixture::empty(build_config());
        let (config, progress) = (fixture.config(), Progress::default());
        create(&fixture.dir(), &[collection.corpus()], config, false, &progress).unwrap();
        let snapshot = fixture.snapshot();
        let manifest = snapshot.manifest();
        let mut searches = Vec::new();
        for (i, (_, text)) in collection.queries().iter().enumerate() {
            let query = Query::parse(text, manifest.analyzer, manifest.content).unwrap();
            let (k, ranking) = ([10, 1, 1000][i % 3], rankings[i % rankings.len()]);
            for mode in [Mode::Or, Mode::And, Mode::AndOr] {
                searches.push(Search { query: query.clone(), mode, k, ranking });
            }
        }
        check_snapshot(&make, collection.name, &snapshot, &searches);
    }
}

/// Runs searches on one snapshot, in one batch and one at a time, with one thread and with three,
/// each once with its matches counted and once without. Plans that the engine refuses are
/// reported by name. Then the searches are stopped at many moments; the answers must be exact
/// over what they cover. If the engine supports masks, all of this is repeated with a mask for
/// most of the searches.
pub fn check_snapshot(
    make: &impl MakeEngine,
    name: &str,
    snapshot: &Arc<Snapshot>,
    searches: &[Search],
) {
    let mut plans = plans(snapshot, searches);
    check_plans(make, name, snapshot, searches, plans.clone());
    let masks = masks(snapshot);
    for (i, plan) in plans.iter_mut().enumerate() {
        plan.mask = masks.get(i % (masks.len() + 1)).cloned();
    }
    let engine = make(snapshot.clone(), 1);
    if engine.takes().masks {
        // The device may be a slow emulator, so only some of the searches run on it, with all
        // kinds of masks.
        let step = if engine.device() == "CPU" { 1 } else { MASKED_ON_DEVICE };
        let searches: Vec<Search> = searches.iter().step_by(step).cloned().collect();
        let plans = plans.into_iter().step_by(step).collect();
        return check_plans(make, &format!("{name}, masked"), snapshot, &searches, plans);
    }
    let masked = plans.iter().find(|plan| plan.mask.is_some());
    let answer = masked.map(|plan| engine.search(&[plan], &Context::new(1)).remove(0));
    assert!(matches!(answer, None | Some(Err(ExecError::Unsupported { .. }))), "{name}");
}

/// Step of the searches that are repeated with a mask on a device. It has no factor in common
/// with 11, the length of the cycle of ten masks and none.
const MASKED_ON_DEVICE: usize = 5;

/// Step of the trees that are checked on a device, which refuses most others.
const TREES_ON_DEVICE: usize = 3;

/// Checks query trees like [`check_snapshot`]. Every engine answers the trees that are sums, and
/// engines that support trees answer the others.
pub fn check_trees(
    make: &impl MakeEngine,
    name: &str,
    snapshot: &Arc<Snapshot>,
    trees: &[TreeSearch],
) {
    let ranking = Ranking::suited(snapshot.manifest());
    let planner = Planner::new(snapshot.clone(), ranking).unwrap();
    let cache = FilterCache::new(1 << 20);
    let plan = |search: &TreeSearch| {
        planner.plan_tree(&search.tree, search.filter.as_ref(), None, search.k, &cache).unwrap()
    };
    let on_device = make(snapshot.clone(), 1).device() != "CPU";
    let trees: Vec<&TreeSearch> =
        trees.iter().step_by(if on_device { TREES_ON_DEVICE } else { 1 }).collect();
    let plans: Vec<Plan> = trees.iter().copied().map(plan).collect();
    // Failures show the descriptions of the trees as terms.
    let shown: Vec<Search> = trees.iter().map(|tree| Search::of(&[&format!("{tree:?}")])).collect();
    check_plans(make, &format!("{name}, trees"), snapshot, &shown, plans);
}

/// Returns masks: half of the documents, none, few, all, one, stretches, and all but a few.
fn masks(snapshot: &Snapshot) -> Vec<Arc<Mask>> {
    let mut random = Random::new(7);
    let mut mask = |admits: &mut dyn FnMut(u32, &mut Random) -> bool| {
        let sets = snapshot.segments().iter().map(|segment| {
            let mut set = DocSet::new(segment.documents().count());
            for doc in 0..segment.documents().count() {
                if admits(doc, &mut random) {
                    set.insert(doc);
                }
            }
            set
        });
        Arc::new(Mask::new(snapshot, sets.collect()))
    };
    vec![
        mask(&mut |_, random| random.one_in(2)),
        mask(&mut |_, _| false),
        mask(&mut |_, random| random.one_in(10)),
        mask(&mut |_, _| true),
        mask(&mut |doc, _| doc == 3),
        mask(&mut |doc, _| doc / 70 % 3 == 1),
        mask(&mut |_, random| !random.one_in(50)),
        mask(&mut |_, random| random.one_in(200)),
        mask(&mut |_, random| random.one_in(100)),
        mask(&mut |_, random| random.one_in(1000)),
    ]
}

fn check_plans(
    make: &impl MakeEngine,
    name: &str,
    snapshot: &Arc<Snapshot>,
    searches: &[Search],
    mut plans: Vec<Plan>,
) {
    let expected = expected(snapshot, &plans);
    for threads in [1, 3] {
        let engine = make(snapshot.clone(), threads);
        let context = Context::new(threads);
        let case = Case { engine: &*engine, name, threads, searches };
        for (i, plan) in plans.iter_mut().enumerate() {
            plan.count = i.is_multiple_of(2);
        }
        let answers = engine.search(&plans.iter().collect::<Vec<_>>(), &context);
        assert_eq!(answers.len(), plans.len(), "answers: {}, {name}", engine.name());
        for (i, (plan, answer)) in plans.iter().zip(&answers).enumerate() {
            case.compare("all at once", i, plan, answer, &expected[i]);
        }
        // A device has separate threads: the host's threads matter to batches only, and an
        // emulator is slow.
        if threads > 1 && engine.device() != "CPU" {
            continue;
        }
        for (i, plan) in plans.iter_mut().enumerate() {
            plan.count = !plan.count;
            let answers = engine.search(&[&*plan], &context);
            assert_eq!(answers.len(), 1, "answers: {}, {name}", engine.name());
            case.compare("alone", i, plan, &answers[0], &expected[i]);
        }
        assert!(engine.search(&[], &context).is_empty(), "answers to an empty batch");
        case.check_stopped(snapshot, &plans);
        check_other_snapshot(&*engine, snapshot, &plans, &context);
    }
}

/// Number of searches of a case that are stopped.
const STOPPED: usize = 12;
/// Numbers of checks for cancellation after which a search is stopped.
const MOMENTS: [u32; 6] = [0, 1, 2, 5, 17, 60];
/// Number of searches that are stopped on a device, which stops between rounds only and may be a
/// slow emulator. The tests of deadlines in `exec-gpu` and `exec-gpu-papers` stop more often.
const STOPPED_ON_DEVICE: usize = 3;
/// Numbers of checks for cancellation after which a search is stopped on a device.
const MOMENTS_ON_DEVICE: [u32; 2] = [0, 2];

/// The context of a check, for failure messages.
struct Case<'a> {
    engine: &'a dyn Engine,
    name: &'a str,
    threads: usize,
    searches: &'a [Search],
}

impl Case<'_> {
    fn describe(&self, how: &str, i: usize) -> String {
        format!(
            "{}, {}, {how}, {} threads, {:?}",
            self.engine.name(),
            self.name,
            self.threads,
            brief(&self.searches[i])
        )
    }

    fn compare(
        &self,
        how: &str,
        i: usize,
        plan: &Plan,
        answer: &Result<Answer, ExecError>,
        expected: &Answer,
    ) {
        let answer = match (answer, self.engine.can_answer(plan)) {
            (Ok(answer), Ok(())) => answer,
            (Err(ExecError::Unsupported { why, .. }), Err(_)) => {
                return refused(self.engine.name(), self.name, why);
            }
            (answer, supports) => {
                panic!("{answer:?}, but it {supports:?}: {}", self.describe(how, i))
            }
        };
        assert_eq!(answer.hits, expected.hits, "hits: {}", self.describe(how, i));
        let uncounted = !plan.count && answer.matches.is_none();
        let counted = uncounted || answer.matches == expected.matches;
        assert!(counted, "{:?} matches: {}", answer.matches, self.describe(how, i));
        let all = expected.matches.filter(|_| expected.coverage.is_complete());
        let least = all.is_none_or(|matches| plan.least_matches() <= matches);
        assert!(least, "at least {}: {}", plan.least_matches(), self.describe(how, i));
    }

    /// Stops some of the searches, in a batch and alone.
    fn check_stopped(&self, snapshot: &Arc<Snapshot>, plans: &[Plan]) {
        let (stopped, moments) = match self.engine.device() == "CPU" {
            true => (STOPPED, &MOMENTS[..]),
            false => (STOPPED_ON_DEVICE, &MOMENTS_ON_DEVICE[..]),
        };
        let step = (plans.len() / stopped).max(1);
        let some: Vec<usize> = (0..plans.len()).step_by(step).collect();
        for &moment in moments {
            let context = || Context::new(self.threads).cancelled_by(Cancel::after(moment));
            let batch: Vec<&Plan> = some.iter().map(|&i| &plans[i]).collect();
            for (&i, answer) in some.iter().zip(self.engine.search(&batch, &context())) {
                self.judge(&format!("stopped in a batch at {moment}"), i, snapshot, plans, answer);
            }
            for &i in &some {
                let answer = self.engine.search(&[&plans[i]], &context()).remove(0);
                self.judge(&format!("stopped alone at {moment}"), i, snapshot, plans, answer);
            }
        }
    }

    /// Checks that an answer is exact over what it covers.
    fn judge(
        &self,
        how: &str,
        i: usize,
        snapshot: &Arc<Snapshot>,
        plans: &[Plan],
        answer: Result<Answer, ExecError>,
    ) {
        let over = match &answer {
            Ok(answer) => answer.coverage.clone(),
            Err(_) => Coverage::Complete,
        };
        let reference = Reference::over(snapshot.clone(), over.clone());
        let expected = answers(&reference, std::slice::from_ref(&plans[i]), 1).unwrap().remove(0);
        self.compare(&format!("{how}, {over:?}"), i, &plans[i], &answer, &expected);
    }
}

/// The engines and cases that were already reported.
static REFUSED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Reports once that an engine refuses plans of a case. All random cases count as one, since the
/// name of each contains all its parameters.
fn refused(engine: &str, name: &str, why: &str) {
    let case = match name.rfind('}') {
        Some(end) => format!("random cases{}", &name[end + 1..]),
        None => name.to_owned(),
    };
    let what = format!("{engine}, {case}");
    if REFUSED.lock().unwrap().insert(what.clone()) {
        elsewhere(what, why);
    }
}

/// Checks that an engine refuses a plan of another snapshot, even of the same index, and that the
/// refusal does not affect other plans of the batch.
fn check_other_snapshot(
    engine: &dyn Engine,
    snapshot: &Arc<Snapshot>,
    plans: &[Plan],
    context: &Context,
) {
    let Some(plan) = plans.iter().find(|plan| engine.can_answer(plan).is_ok()) else { return };
    let other = Snapshot::open(snapshot.dir()).unwrap();
    let foreign = Plan { snapshot: other.id(), ..plan.clone() };
    let mut answers = engine.search(&[plan, &foreign, plan], context).into_iter();
    let mut next = || answers.next().unwrap();
    let (first, refused, last) = (next(), next(), next());
    assert!(matches!(refused, Err(ExecError::OtherSnapshot)), "{}", engine.name());
    assert_eq!(first.unwrap().hits, last.unwrap().hits, "{}", engine.name());
}

/// Returns the search with only its first few terms.
fn brief(search: &Search) -> Search {
    let mut search = search.clone();
    search.query.terms.truncate(12);
    search
}

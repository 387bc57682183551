//! What batches cost, roughly: enough to tell which place and which algorithm is the better one.

use std::iter::Sum;
use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use warpseek_exec::{Mode, Plan};

/// Postings for which one more thread is worth starting, where a query is alone.
const A_THREAD: u64 = 1 << 16;

/// What queries ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// How many they are.
    pub queries: u64,
    /// Postings of their lists.
    pub postings: u64,
    /// Those that the processor does not skip at once: in an AND, as many of each list as the shortest has.
    pub effort: u64,
    /// Of the query that has the most of them.
    pub longest: u64,
    /// Hits, at most.
    pub hits: u64,
}

impl Load {
    /// What a query asks for.
    pub fn of(plan: &Plan) -> Self {
        let postings = plan.terms.iter().map(|term| term.df).sum();
        let shortest = || plan.terms.iter().map(|term| term.df).min().unwrap_or(0);
        let effort = match plan.mode {
            Mode::Or => postings,
            Mode::And if plan.lacks_terms() => 0,
            Mode::And | Mode::AndOr => shortest() * plan.terms.len() as u64,
        };
        Load { queries: 1, postings, effort, longest: effort, hits: postings.min(plan.k as u64) }
    }

    /// What many ask for.
    pub fn sum<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Self {
        plans.into_iter().map(Load::of).sum()
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.queries += other.queries;
        self.postings += other.postings;
        self.effort += other.effort;
        self.longest = self.longest.max(other.longest);
        self.hits += other.hits;
    }
}

impl Sum for Load {
    fn sum<I: Iterator<Item = Load>>(loads: I) -> Load {
        loads.fold(Load::default(), |mut sum, load| {
            sum += load;
            sum
        })
    }
}

/// Takes a query out that is not the longest.
impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        self.queries -= other.queries;
        self.postings -= other.postings;
        self.effort -= other.effort;
        self.hits -= other.hits;
    }
}

/// Nanoseconds of things.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// A batch.
    pub batch: f64,
    /// Each of its queries.
    pub query: f64,
    /// Each of their postings; on the processor, of those that it does not skip at once.
    pub posting: f64,
    /// And each hit asked for.
    pub hit: f64,
}

impl Cost {
    /// Nanoseconds of a batch on a GPU.
    pub fn on_gpu(&self, load: &Load) -> f64 {
        match load.queries {
            0 => 0.0,
            _ => self.batch + self.all(load, load.postings),
        }
    }

    /// Nanoseconds of a batch on so many threads of the processor: a query alone is cut up, and each of several is one thread's.
    pub fn on_threads(&self, load: &Load, threads: usize) -> f64 {
        let whole = self.all(load, load.effort);
        let parts = if load.queries == 1 { load.effort / A_THREAD } else { load.queries };
        let shared = whole / parts.clamp(1, threads.max(1) as u64) as f64;
        match load.queries {
            0 => 0.0,
            1 => self.batch + shared,
            _ => self.batch + shared.max(self.query + load.longest as f64 * self.posting),
        }
    }

    fn all(&self, load: &Load, postings: u64) -> f64 {
        load.queries as f64 * self.query
            + postings as f64 * self.posting
            + load.hits as f64 * self.hit
    }
}

/// A way to answer queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// On the processor, whatever it chooses.
    Processor,
    /// On a GPU, passing over what cannot be a hit.
    PrunedTiles,
    /// Every posting.
    Tiles,
    /// Every posting, of lists that several queries share once.
    Cohort,
    /// AND on compressed lists.
    Intersect,
    /// On compressed lists.
    Wand,
    /// On compressed lists.
    MaxScore,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 7] = [
        Method::Processor,
        Method::PrunedTiles,
        Method::Tiles,
        Method::Cohort,
        Method::Intersect,
        Method::Wand,
        Method::MaxScore,
    ];

    /// As engines name them.
    pub fn name(self) -> &'static str {
        match self {
            Method::Processor => "the processor",
            Method::PrunedTiles => "pruned tiles",
            Method::Tiles => "tiles",
            Method::Cohort => "cohort",
            Method::Intersect => "intersect",
            Method::Wand => "wand",
            Method::MaxScore => "maxscore",
        }
    }
}

/// What each method costs, and what decides which ones can answer a query.
///
/// The figures are of an H200 and 16 threads of the machine it is in, on `gov2` (3.74 million postings a query, docs/gpu.md): per query in batches of thousands, less 2 us
/// that are a guess for what does not grow with postings; and alone, which gives the cost of a batch. What hits cost was measured for pruned tiles alone. A query alone by `cohort` was
/// not measured: its line goes through cohorts of 64 and of 1,024. `wand` and `maxscore` were with 128 hits, in batches of 100 queries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// One thread of the processor.
    pub processor: Cost,
    /// OR, and AND-then-OR, which seldom comes to its second part.
    pub pruned_or: Cost,
    /// AND.
    pub pruned_and: Cost,
    /// Every posting.
    pub tiles: Cost,
    /// A cohort.
    pub cohort: Cost,
    /// AND on compressed lists.
    pub intersect: Cost,
    /// On compressed lists.
    pub wand: Cost,
    /// On compressed lists.
    pub maxscore: Cost,
    /// Terms of a query that pruned tiles take, at most; as the engine has it.
    pub pruned_terms: usize,
}

const fn cost(batch: f64, query: f64, posting: f64, hit: f64) -> Cost {
    Cost { batch, query, posting, hit }
}

impl Costs {
    /// With the limit of the engine on the GPU.
    pub const fn new(pruned_terms: usize) -> Self {
        Costs {
            processor: cost(0.0, 5_000.0, 3.0, 0.0),
            pruned_or: cost(57_000.0, 2_000.0, 0.0007, 7.0),
            pruned_and: cost(46_000.0, 2_000.0, 0.0004, 2.4),
            tiles: cost(83_000.0, 2_000.0, 0.0028, 7.0),
            cohort: cost(614_000.0, 2_000.0, 0.0049, 7.0),
            intersect: cost(115_000.0, 2_000.0, 0.0050, 7.0),
            wand: cost(160_000.0, 2_000.0, 0.117, 7.0),
            maxscore: cost(160_000.0, 2_000.0, 0.07, 7.0),
            pruned_terms,
        }
    }

    /// What a method costs in a mode.
    pub fn of(&self, method: Method, mode: Mode) -> Cost {
        match method {
            Method::Processor => self.processor,
            Method::PrunedTiles if mode == Mode::And => self.pruned_and,
            Method::PrunedTiles => self.pruned_or,
            Method::Tiles => self.tiles,
            Method::Cohort => self.cohort,
            Method::Intersect => self.intersect,
            Method::Wand => self.wand,
            Method::MaxScore => self.maxscore,
        }
    }

    /// Why a method cannot answer a query at all.
    fn unfit(&self, method: Method, plan: &Plan) -> Option<&'static str> {
        match method {
            Method::PrunedTiles if plan.count => Some("matches are counted"),
            Method::PrunedTiles if plan.terms.len() > self.pruned_terms => Some("too many terms"),
            Method::Intersect if plan.mode != Mode::And => Some("answers AND alone"),
            _ => None,
        }
    }

    /// The method on the GPU's own image that answers the query soonest in a batch.
    pub fn best(&self, plan: &Plan) -> Method {
        self.best_of(plan, &Load::of(plan))
    }

    fn best_of(&self, plan: &Plan, load: &Load) -> Method {
        let time = |&method: &Method| match self.unfit(method, plan) {
            Some(_) => f64::INFINITY,
            None => {
                let cost = self.of(method, plan.mode);
                cost.on_gpu(load) - cost.batch
            }
        };
        let methods = [Method::PrunedTiles, Method::Tiles, Method::Cohort];
        methods.into_iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(Method::Tiles)
    }

    /// What a batch costs, with so many threads.
    pub fn estimate(&self, plans: &[Plan], threads: usize) -> Estimate {
        // What a method does for itself in one batch: queries of AND, and others.
        let mut loads = [[Load::default(); 2]; Method::ALL.len()];
        let mut chosen = loads;
        let (mut all, mut why_not) = (Load::default(), [None; Method::ALL.len()]);
        for plan in plans {
            let (load, of) = (Load::of(plan), usize::from(plan.mode == Mode::And));
            for (i, &method) in Method::ALL.iter().enumerate() {
                match self.unfit(method, plan) {
                    None => loads[i][of] += load,
                    Some(why) => why_not[i] = Some(why),
                }
            }
            chosen[self.best_of(plan, &load) as usize][of] += load;
            all += load;
        }
        let time = |method: Method, loads: &[Load; 2]| {
            let mut sum = 0.0;
            for (load, mode) in loads.iter().zip([Mode::Or, Mode::And]) {
                let cost = self.of(method, mode);
                sum += match method {
                    Method::Processor => cost.on_threads(load, threads),
                    _ => cost.on_gpu(load),
                };
            }
            Duration::from_nanos(sum as u64)
        };
        let candidate = |(i, &method): (usize, &Method)| {
            let some = loads[i].iter().any(|load| load.queries > 0);
            let time = some.then(|| time(method, &loads[i]));
            let elsewhere = matches!(method, Method::Intersect | Method::Wand | Method::MaxScore);
            let image = elsewhere.then_some("would need the compressed image as well");
            let why_not = why_not[i].or(image);
            Candidate { method, time, why_not }
        };
        let gpu = Method::ALL.iter().map(|&method| time(method, &chosen[method as usize]));
        let candidates: Vec<_> = Method::ALL.iter().enumerate().map(candidate).collect();
        let processor = candidates[Method::Processor as usize].time.unwrap_or_default();
        Estimate { load: all, processor, gpu: gpu.sum(), candidates }
    }
}

/// A method, and how long a batch should take by it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Which.
    pub method: Method,
    /// Of the queries that it can answer; none if there is none.
    pub time: Option<Duration>,
    /// Why it does not answer all of them.
    pub why_not: Option<&'static str>,
}

/// How long a batch should take, and what that follows from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Estimate {
    /// What it asks for.
    pub load: Load,
    /// On the processor.
    pub processor: Duration,
    /// On the GPU, each query by the method that is best for it.
    pub gpu: Duration,
    /// By each method alone.
    pub candidates: Vec<Candidate>,
}

impl AddAssign<&Estimate> for Estimate {
    fn add_assign(&mut self, other: &Estimate) {
        self.load += other.load;
        self.processor += other.processor;
        self.gpu += other.gpu;
        if self.candidates.is_empty() {
            self.candidates.clone_from(&other.candidates);
            return;
        }
        for (sum, more) in self.candidates.iter_mut().zip(&other.candidates) {
            sum.time =
                sum.time.map_or(more.time, |time| Some(time + more.time.unwrap_or_default()));
            sum.why_not = sum.why_not.or(more.why_not);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use warpseek_exec::{Mode, Plan};
    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::*;

    const COSTS: Costs = Costs::new(32);

    fn plan(mode: Mode, dfs: &[u64]) -> Plan {
        let words: Vec<String> = (1..=dfs.len()).map(|i| format!("a{i}")).collect();
        let fixture = Fixture::of(&[Doc::text(0, words.join(" "))]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let search = Search { mode, ..Search::of(&words) };
        let mut plan = plans(&fixture.snapshot(), &[search]).remove(0);
        plan.terms.iter_mut().zip(dfs).for_each(|(term, &df)| term.df = df);
        plan
    }

    fn candidate(plans: &[Plan], method: Method) -> Candidate {
        COSTS.estimate(plans, 16).candidates[method as usize]
    }

    #[test]
    fn short_queries_are_the_processors_and_long_ones_or_many_the_gpus() {
        let sooner = |plans: &[Plan], threads| {
            let estimate = COSTS.estimate(plans, threads);
            if estimate.processor <= estimate.gpu { "processor" } else { "gpu" }
        };
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 10_000])], 1), "processor");
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 100_000])], 1), "gpu");
        assert_eq!(sooner(&[plan(Mode::Or, &[3, 100_000])], 16), "gpu", "threads it cannot use");
        assert_eq!(sooner(&[plan(Mode::And, &[3, 100_000])], 1), "processor");
        let many = vec![plan(Mode::Or, &[5_000, 10_000]); 100];
        assert_eq!(sooner(&many, 1), "gpu");
        let load = COSTS.estimate(&many, 4).load;
        assert_eq!((load.queries, load.postings, load.effort), (100, 1_500_000, 1_500_000));
        assert_eq!((load.longest, load.hits), (15_000, 100 * many[0].k as u64));
        let lacking = Plan { missing: vec!["x".to_owned()], ..plan(Mode::And, &[5, 9]) };
        assert_eq!(Load::of(&lacking).effort, 0);
        let nothing = COSTS.estimate(&[], 1);
        assert_eq!((nothing.gpu, nothing.processor), Default::default());
    }

    /// A thread cannot help another with its query, unless that is alone.
    #[test]
    fn threads_share_queries() {
        let time = |plans: &[Plan], threads| COSTS.estimate(plans, threads).processor.as_nanos();
        let (short, long) = (plan(Mode::Or, &[1000]), plan(Mode::Or, &[1_000_000]));
        assert_eq!(time(&vec![short.clone(); 8], 4), 2 * 8_000);
        assert_eq!(time(&[short.clone(), long.clone()], 4), 3_005_000);
        assert_eq!(time(std::slice::from_ref(&long), 4), 3_005_000 / 4);
        assert_eq!(time(std::slice::from_ref(&short), 4), 8_000);
    }

    /// The figures that the table was made from, in microseconds, come out of it.
    #[test]
    fn the_table_is_what_was_measured() {
        let gov2 = |mode, k| Plan { k, ..plan(mode, &[240_000, 1_000_000, 2_500_000]) };
        let near = |plan: Plan, method: Method, queries: u64, measured: f64| {
            let mut load = Load::default();
            (0..queries).for_each(|_| load += Load::of(&plan));
            let time = COSTS.of(method, plan.mode).on_gpu(&load) / queries as f64 / 1e3;
            assert!((time / measured - 1.0).abs() < 0.05, "{method:?}: {time} for {measured}");
        };
        near(gov2(Mode::Or, 10), Method::PrunedTiles, 10_000, 4.5);
        near(gov2(Mode::Or, 10), Method::PrunedTiles, 1, 62.0);
        near(gov2(Mode::Or, 1000), Method::PrunedTiles, 10_000, 11.7);
        near(gov2(Mode::And, 10), Method::PrunedTiles, 10_000, 3.4);
        near(gov2(Mode::And, 10), Method::PrunedTiles, 1, 50.0);
        near(gov2(Mode::And, 1000), Method::PrunedTiles, 10_000, 5.9);
        near(gov2(Mode::Or, 10), Method::Tiles, 10_000, 12.4);
        near(gov2(Mode::Or, 10), Method::Tiles, 1, 95.0);
        near(gov2(Mode::Or, 10), Method::Cohort, 64, 30.0);
        near(gov2(Mode::Or, 10), Method::Cohort, 1024, 21.0);
        near(gov2(Mode::And, 10), Method::Intersect, 10_000, 20.6);
        near(gov2(Mode::And, 10), Method::Intersect, 1, 135.0);
        near(gov2(Mode::Or, 128), Method::Wand, 100, 444.0);
        near(gov2(Mode::Or, 128), Method::MaxScore, 100, 260.0);
    }

    #[test]
    fn what_can_answer_a_query_decides() {
        let or = plan(Mode::Or, &[5, 900_000]);
        assert_eq!(COSTS.best(&or), Method::PrunedTiles);
        let counted = Plan { count: true, ..or.clone() };
        assert_eq!(COSTS.best(&counted), Method::Tiles);
        let why = |plan: &Plan, method| candidate(std::slice::from_ref(plan), method).why_not;
        assert_eq!(why(&counted, Method::PrunedTiles), Some("matches are counted"));
        for (terms, best) in [(32, Method::PrunedTiles), (33, Method::Tiles)] {
            let long = plan(Mode::Or, &vec![7; terms]);
            assert_eq!(COSTS.best(&long), best);
            let unfit = (best == Method::Tiles).then_some("too many terms");
            assert_eq!(why(&long, Method::PrunedTiles), unfit);
        }
        assert_eq!(why(&or, Method::Intersect), Some("answers AND alone"));
        assert!(candidate(std::slice::from_ref(&or), Method::Intersect).time.is_none());
        let and = plan(Mode::And, &[5, 900_000]);
        let image = Some("would need the compressed image as well");
        assert_eq!(why(&and, Method::Intersect), image);
        assert!(candidate(std::slice::from_ref(&and), Method::Intersect).time.is_some());
        assert_eq!(why(&or, Method::Wand), image);
        // Of a batch, each query has its own; what cannot answer all of it says so.
        let mixed = [or.clone(), counted.clone()];
        let estimate = COSTS.estimate(&mixed, 16);
        let alone = |plan: &Plan| COSTS.estimate(std::slice::from_ref(plan), 16).gpu;
        assert_eq!(estimate.gpu, alone(&or) + alone(&counted));
        assert!(candidate(&mixed, Method::PrunedTiles).why_not.is_some());
        assert_eq!(candidate(&mixed, Method::PrunedTiles).time, Some(alone(&or)));
        // Other figures, other choices.
        let cheap = Costs { cohort: cost(0.0, 0.0, 0.0, 0.0), ..COSTS };
        assert_eq!((cheap.best(&or), cheap.best(&counted)), (Method::Cohort, Method::Cohort));
        let dear = Costs { pruned_or: cost(0.0, 1e9, 0.0, 0.0), ..COSTS };
        assert_eq!((dear.best(&or), dear.best(&and)), (Method::Tiles, Method::PrunedTiles));
    }

    #[test]
    fn estimates_add_up() {
        let (or, and) = (plan(Mode::Or, &[5, 900_000]), plan(Mode::And, &[5, 900_000]));
        let of = |plan: &Plan| COSTS.estimate(std::slice::from_ref(plan), 1);
        let mut sum = Estimate::default();
        [&or, &and, &or].iter().for_each(|plan| sum += &of(plan));
        assert_eq!(sum.gpu, 2 * of(&or).gpu + of(&and).gpu);
        assert_eq!((sum.load.queries, sum.load.longest), (3, 900_005));
        let intersect = sum.candidates[Method::Intersect as usize];
        assert_eq!(intersect.time, of(&and).candidates[Method::Intersect as usize].time);
        assert_eq!(intersect.why_not, Some("answers AND alone"));
        let tiles = |e: &Estimate| e.candidates[Method::Tiles as usize].time.unwrap();
        assert_eq!(tiles(&sum), 2 * tiles(&of(&or)) + tiles(&of(&and)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        /// With these figures `auto` needs no more on the GPU than the engine in tiles, which therefore is all that it opens.
        #[test]
        fn tiles_are_never_the_worse_choice(
            dfs in prop::collection::vec(1u64..50_000_000, 1..4),
            queries in 1usize..2000, k in 1usize..100_000, count in any::<bool>(), and in any::<bool>(),
        ) {
            let mode = if and { Mode::And } else { Mode::Or };
            let plan = Plan { k, count, ..plan(mode, &dfs) };
            let estimate = COSTS.estimate(&vec![plan.clone(); queries], 16);
            prop_assert_eq!(COSTS.best(&plan), if count { Method::Tiles } else { Method::PrunedTiles });
            for candidate in estimate.candidates.iter().filter(|c| c.method != Method::Processor) {
                prop_assert!(candidate.time.is_none_or(|time| time >= estimate.gpu), "{:?}", candidate);
            }
        }
    }
}

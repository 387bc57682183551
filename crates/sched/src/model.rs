//! Cost models: they predict how long an engine takes for a query before it runs, so that a
//! scheduler can choose (Ding 2009, section 5).
//!
//! A [`CostModel`] is fitted to queries whose times were measured on one engine, and is kept up
//! to date by [`learn`](CostModel::learn). Its quality measure is that of the paper, the mean
//! relative error: |predicted - took| / took. This measure counts an overestimate by a factor of
//! 3 as 200% and an underestimate by the same factor as 67%, so the best guess for several times
//! is not their mean but a median in which short times weigh more ([`closest`]).
//!
//! The cost of a query depends on its lists in different ways for OR and AND, so each mode has a
//! separate estimate.

mod closest;
mod rules;
mod tree;

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use warpseek_exec::{Engine, Foresight, Mode, Plan, PlanTerm};

use closest::closest;
use rules::{Case, Rules};
use tree::{Forest, Inputs, Samples};

/// Number of modes.
const MODES: usize = Mode::NAMES.len();

/// Predicted nanoseconds per query and per posting before anything is known.
const UNKNOWN: (f64, f64) = (1e3, 1.0);

/// Maximum predicted nanoseconds, about 12 days.
const LONGEST: f64 = 1e15;

/// Properties of a query that are known before it runs. Lengths of lists are numbers of live
/// documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Length of the shortest list.
    pub shortest: u64,
    /// Length of the second-shortest list, or 0.
    pub second: u64,
    /// Length of the third-shortest list, or 0.
    pub third: u64,
    /// Length of the longest list.
    pub longest: u64,
    /// Sum of all lengths.
    pub sum: u64,
    /// Number of lists; 0 if the query is known to match nothing.
    pub terms: usize,
    /// Number of hits wanted.
    pub k: usize,
    /// Mode of the query: which documents match.
    pub mode: Mode,
    /// True if matching documents are counted, too.
    pub count: bool,
    /// Number of postings that the engine would first have to transfer to where it works. The
    /// plan does not know it; [`warpseek_exec::Engine::absent`] returns it.
    pub absent: u64,
    /// Number of postings in the lists that a document must be in to be a hit, if hits need 0.6,
    /// 0.9 or 1.3 times the maximum contribution of one posting. OR skips most of the others.
    pub needed: [u64; 3],
    /// Work that the engine foresees ([`warpseek_exec::Engine::foresee`]), which the plan does not
    /// know. If the engine foresees nothing, it may be all of it.
    pub foresight: Foresight,
}

/// Scores that hits may need, as multiples of the largest contribution among terms that alone
/// have enough documents.
const SHARES: [f64; 3] = [0.6, 0.9, 1.3];

impl Features {
    /// Returns the features of a planned query.
    pub fn of(plan: &Plan) -> Self {
        let Plan { mode, k, count, .. } = *plan;
        let lists = match mode {
            Mode::And if plan.lacks_terms() => &[],
            _ => plan.terms.as_slice(),
        };
        let [mut shortest, mut second, mut third] = [u64::MAX; 3];
        let (mut longest, mut sum) = (0, 0);
        for df in lists.iter().map(|term| term.df) {
            // The three shortest lengths so far stay in order.
            let longer = shortest.max(df);
            shortest = shortest.min(df);
            third = third.min(second.max(longer));
            second = second.min(longer);
            longest = longest.max(df);
            sum += df;
        }
        let terms = lists.len();
        let length = |n: usize, length: u64| if terms < n { 0 } else { length };
        let [shortest, second, third] = [length(1, shortest), length(2, second), length(3, third)];
        let needed = needed(lists, k, sum);
        let (absent, foresight) = (0, Foresight { essential: sum });
        Features {
            shortest,
            second,
            third,
            longest,
            sum,
            terms,
            k,
            mode,
            count,
            absent,
            needed,
            foresight,
        }
    }

    /// Adds what only the engine knows that is going to answer the plan.
    #[must_use]
    pub fn on(self, engine: &dyn Engine, plan: &Plan) -> Self {
        let (absent, foreseen) = (engine.absent(plan), engine.foresee(plan));
        Features { absent, foresight: foreseen.unwrap_or(self.foresight), ..self }
    }

    /// Returns true if the engine has nothing to read for the query.
    fn is_empty(&self) -> bool {
        self.terms == 0
    }

    /// Returns the inputs of trees. Lengths are logarithms, since the cost depends on orders of
    /// magnitude.
    fn inputs(&self) -> Inputs {
        let ln = |n: u64| (n as f32 + 1.0).ln();
        [
            ln(self.shortest),
            ln(self.second),
            ln(self.third),
            ln(self.longest),
            ln(self.sum),
            self.terms as f32,
            ln(self.k as u64),
            f32::from(u8::from(self.count)),
            ln(self.absent),
            ln(self.needed[0]),
            ln(self.needed[1]),
            ln(self.needed[2]),
            ln(self.foresight.essential),
        ]
    }

    /// Returns the input of rules. AND reads little more than the blocks that its shortest list
    /// points to; the other modes read all lists.
    fn case(&self) -> Case {
        let key = if self.mode == Mode::And { self.shortest } else { self.sum };
        Case { key, sum: self.sum }
    }
}

/// Computes [`Features::needed`].
fn needed(lists: &[PlanTerm], k: usize, sum: u64) -> [u64; 3] {
    let mut by_most: Vec<(f64, u64)> =
        lists.iter().map(|term| (f64::from(term.most), term.df)).collect();
    by_most.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let alone = by_most.iter().filter(|(_, df)| *df >= k as u64).map(|(most, _)| *most);
    let best = alone.fold(0.0, f64::max);
    SHARES.map(|share| {
        let mut left = share * best;
        let skipped = by_most.iter().take_while(|(most, _)| {
            left -= most;
            left >= 0.0
        });
        sum - skipped.map(|(_, df)| df).sum::<u64>()
    })
}

/// The form of a model, from the simplest to the most precise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A line in the sum of lengths for each range of lengths.
    Rules,
    /// A single regression tree.
    Tree,
    /// Many small regression trees, each of which predicts the error of the trees before it.
    Boosted,
}

/// A model that predicts the time of a query on one engine.
///
/// It can be saved as JSON and read again; reading fails if the model is malformed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Parameters")]
pub struct CostModel {
    parameters: Parameters,
}

/// The parameters of a model, which are saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Nanoseconds for a query that is known to match nothing.
    empty: f32,
    /// Estimate for each mode that had samples.
    modes: [Option<Costs>; MODES],
    /// Changes learned since the model was fitted: for each mode, and last for queries that are
    /// known to match nothing.
    drifts: [Drift; MODES + 1],
}

/// The estimate for one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs {
    /// The largest sum of lengths among the samples. Beyond it, the time grows in proportion.
    largest: u64,
    estimate: Estimate,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Estimate {
    Rules(Rules),
    /// Trees whose sum is the natural logarithm of the nanoseconds.
    Trees {
        base: f32,
        forest: Forest,
    },
}

impl CostModel {
    /// Fits a model to queries and the times they took. The same samples always give the same
    /// model.
    pub fn fit(form: Form, samples: &[(Features, Duration)]) -> Self {
        let of_mode = |mode: usize| {
            let is_of_mode =
                |features: &Features| features.mode as usize == mode && !features.is_empty();
            let samples: Vec<(Features, f64)> = samples
                .iter()
                .filter(|(features, _)| is_of_mode(features))
                .map(|&(features, took)| (features, nanoseconds(took)))
                .collect();
            let largest = samples.iter().map(|(features, _)| features.sum).max()?;
            Some(Costs { largest, estimate: Estimate::fit(form, &samples) })
        };
        let empty = samples.iter().filter(|(features, _)| features.is_empty());
        let empty: Vec<f64> = empty.map(|&(_, took)| nanoseconds(took)).collect();
        let shortest = samples.iter().map(|&(_, took)| nanoseconds(took)).fold(UNKNOWN.0, f64::min);
        let empty = if empty.is_empty() { shortest } else { closest(empty) } as f32;
        let parameters =
            Parameters { empty, modes: std::array::from_fn(of_mode), drifts: Default::default() };
        CostModel { parameters }
    }

    /// Predicts how long a query takes. The result is never zero.
    pub fn predict(&self, features: &Features) -> Duration {
        let fitted = self.fitted(features);
        let drift = self.parameters.drifts[drift(features)].at(fitted);
        Duration::from_nanos((fitted * drift).clamp(1.0, LONGEST) as u64)
    }

    /// Adjusts the model slightly to a query that took this long. After some hundred queries it
    /// follows a machine that has become slower or faster, but a single query that was held up
    /// hardly changes it.
    pub fn learn(&mut self, features: &Features, took: Duration) {
        let fitted = self.fitted(features);
        self.parameters.drifts[drift(features)].learn(fitted, nanoseconds(took));
    }

    /// Returns the mean of |predicted - took| / took; 0 if there are no samples.
    pub fn relative_error(&self, samples: &[(Features, Duration)]) -> f64 {
        let error = |(features, took): &(Features, Duration)| {
            (nanoseconds(self.predict(features)) / nanoseconds(*took) - 1.0).abs()
        };
        samples.iter().map(error).sum::<f64>() / samples.len().max(1) as f64
    }

    /// Returns the relative error if the model learns from each sample after predicting it, as it
    /// does in a service.
    pub fn learning_error(mut self, samples: &[(Features, Duration)]) -> f64 {
        let mut sum = 0.0;
        for sample in samples {
            sum += self.relative_error(&[*sample]);
            self.learn(&sample.0, sample.1);
        }
        sum / samples.len().max(1) as f64
    }

    /// Returns the model as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Reads a model that [`to_json`](Self::to_json) wrote. It makes the same predictions.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the predicted nanoseconds, without later changes.
    fn fitted(&self, features: &Features) -> f64 {
        let Parameters { empty, modes, .. } = &self.parameters;
        if features.is_empty() {
            return f64::from(*empty);
        }
        // A mode without samples is assumed to cost as much as another.
        let costs = modes[features.mode as usize].as_ref().or(modes.iter().flatten().next());
        let time = match costs {
            Some(costs) => costs.time(features),
            None => UNKNOWN.0 + UNKNOWN.1 * features.sum as f64,
        };
        time.clamp(1.0, LONGEST)
    }
}

impl Costs {
    fn time(&self, features: &Features) -> f64 {
        let known = Features { sum: features.sum.min(self.largest), ..*features };
        let beyond = features.sum as f64 / known.sum.max(1) as f64;
        self.estimate.time(&known) * beyond.max(1.0)
    }
}

impl Estimate {
    fn fit(form: Form, samples: &[(Features, f64)]) -> Self {
        match form {
            Form::Rules => {
                let case = |(features, time): &(Features, f64)| (features.case(), *time);
                Estimate::Rules(Rules::fit(&samples.iter().map(case).collect::<Vec<_>>()))
            }
            Form::Tree => Self::tree(samples),
            Form::Boosted => Self::boosted(samples),
        }
    }

    /// Fits one deep tree. Its leaves minimise the relative error of their samples.
    fn tree(samples: &[(Features, f64)]) -> Self {
        const DEPTH: u32 = 8;
        const FEWEST: usize = 10;
        let (rows, logs) = rows_and_logs(samples);
        let mut forest = Forest::new(DEPTH);
        forest.grow(&Samples::new(rows), &logs, FEWEST, |leaf| {
            closest(leaf.iter().map(|&sample| samples[sample as usize].1).collect()).ln() as f32
        });
        Estimate::Trees { base: 0.0, forest }
    }

    /// Fits trees by gradient boosting on the logarithm of the time. The error of the logarithm
    /// is nearly the relative error as long as errors are small.
    fn boosted(samples: &[(Features, f64)]) -> Self {
        const TREES: usize = 40;
        const DEPTH: u32 = 5;
        const FEWEST: usize = 10;
        /// Learning rate: each tree corrects only this part of the error that it explains. Later
        /// trees correct the rest.
        const TRUST: f32 = 0.2;
        /// Number of samples at which a leaf counts half as much as a leaf with very many.
        const DOUBT: f32 = 5.0;
        /// Larger errors are clamped to this, since some queries were merely held up.
        const LARGEST_ERROR: f32 = 1.0;

        let (rows, logs) = rows_and_logs(samples);
        let rows = Samples::new(rows);
        let mean = logs.iter().sum::<f32>() / logs.len().max(1) as f32;
        let mut predicted = vec![mean; logs.len()];
        let mut forest = Forest::new(DEPTH);
        for _ in 0..TREES {
            let error = |(log, predicted): (&f32, &f32)| {
                (log - predicted).clamp(-LARGEST_ERROR, LARGEST_ERROR)
            };
            let errors: Vec<f32> = logs.iter().zip(&predicted).map(error).collect();
            forest.grow(&rows, &errors, FEWEST, |leaf| {
                let sum: f32 = leaf.iter().map(|&sample| errors[sample as usize]).sum();
                TRUST * sum / (leaf.len() as f32 + DOUBT)
            });
            for (predicted, row) in predicted.iter_mut().zip(rows.rows()) {
                *predicted += forest.last(row);
            }
        }
        // The mean of logarithms does not minimise the relative error, so add a correction.
        let ratio = |(log, predicted): (&f32, &f32)| f64::from(log - predicted).exp();
        let ratios = logs.iter().zip(&predicted).map(ratio).collect();
        Estimate::Trees { base: mean + closest(ratios).ln() as f32, forest }
    }

    fn time(&self, features: &Features) -> f64 {
        match self {
            Estimate::Rules(rules) => rules.time(features.case()),
            // Trees treat values beyond those of the samples like the nearest sample.
            Estimate::Trees { base, forest } => {
                f64::from(base + forest.value(&features.inputs())).exp()
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Estimate::Rules(rules) => rules.check(),
            Estimate::Trees { base, .. } if !(-1e3..=1e3).contains(base) => {
                Err("the base of the trees is out of range".to_owned())
            }
            Estimate::Trees { forest, .. } => forest.check(),
        }
    }
}

fn rows_and_logs(samples: &[(Features, f64)]) -> (Vec<Inputs>, Vec<f32>) {
    samples.iter().map(|(features, time)| (features.inputs(), time.ln() as f32)).unzip()
}

/// Returns the nanoseconds, at least one, since clocks may be coarse and errors are relative.
fn nanoseconds(time: Duration) -> f64 {
    (time.as_nanos() as f64).clamp(1.0, LONGEST)
}

/// Changes of times since the samples were taken, as natural logarithms of factors: one for all
/// queries, and one for each order of magnitude of the predicted time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drift {
    all: f32,
    ranges: [f32; Drift::RANGES],
}

impl Drift {
    /// Number of ranges of predicted times: below 8 us, below 64 us and so on.
    const RANGES: usize = 6;

    /// Change of each factor by a query that took about as long as predicted.
    const STEP: f64 = 0.01;

    /// Maximum of each logarithm; it corresponds to a factor of some thousands.
    const LIMIT: f32 = 8.0;

    fn range(fitted: f64) -> usize {
        let octaves = (fitted / 1e3).max(1.0).log2();
        (octaves as usize / 3).min(Self::RANGES - 1)
    }

    /// Returns the factor for a query.
    fn at(&self, fitted: f64) -> f64 {
        f64::from(self.all + self.ranges[Self::range(fitted)]).exp()
    }

    /// Takes a step of stochastic gradient descent on the relative error. The gradient is
    /// predicted / took, so a query that took far longer than predicted changes little. The
    /// bounds let the model follow a machine that did become far slower, and limit the effect of
    /// a time that is far too short.
    fn learn(&mut self, fitted: f64, took: f64) {
        let ratio = fitted * self.at(fitted) / took;
        let direction = if ratio < 1.0 { 1.0 } else { -1.0 };
        let step = (direction * Self::STEP * ratio.clamp(0.4, 2.0)) as f32;
        for part in [&mut self.all, &mut self.ranges[Self::range(fitted)]] {
            *part = (*part + step).clamp(-Self::LIMIT, Self::LIMIT);
        }
    }

    fn check(&self) -> Result<(), &'static str> {
        let is_valid = |part: &f32| (-Self::LIMIT..=Self::LIMIT).contains(part);
        let valid = is_valid(&self.all) && self.ranges.iter().all(is_valid);
        if valid { Ok(()) } else { Err("a drift is out of range") }
    }
}

/// Returns the index of the drift that applies to a query.
fn drift(features: &Features) -> usize {
    if features.is_empty() { MODES } else { features.mode as usize }
}

impl Serialize for CostModel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parameters.serialize(serializer)
    }
}

impl TryFrom<Parameters> for CostModel {
    type Error = String;

    fn try_from(parameters: Parameters) -> Result<Self, String> {
        if !(1.0..=LONGEST as f32).contains(&parameters.empty) {
            return Err("the time of empty queries is out of range".to_owned());
        }
        for costs in parameters.modes.iter().flatten() {
            costs.estimate.check()?;
        }
        parameters.drifts.iter().try_for_each(Drift::check)?;
        Ok(CostModel { parameters })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use warpseek_testkit::{Doc, Fixture, Search};

    use super::*;

    const FORMS: [Form; 3] = [Form::Rules, Form::Tree, Form::Boosted];

    /// A generator of pseudo-random numbers between 0 and 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (self.0 >> 40) as f64 / f64::from(1 << 24)
        }
    }

    /// Returns the features of a query with these lists, in ascending order of length.
    fn features(mode: Mode, lists: &[u64]) -> Features {
        let length = |n: usize| lists.get(n).copied().unwrap_or(0);
        Features {
            shortest: length(0),
            second: length(1),
            third: length(2),
            longest: lists.last().copied().unwrap_or(0),
            sum: lists.iter().sum(),
            terms: lists.len(),
            k: 10,
            mode,
            count: false,
            absent: 0,
            needed: [lists.iter().sum(); 3],
            foresight: Foresight { essential: lists.iter().sum() },
        }
    }

    /// Returns the cost on an engine that skips more postings the shorter the shortest list is,
    /// and more for AND.
    fn cost(features: &Features) -> f64 {
        let part = features.shortest as f64 / features.sum as f64;
        match features.mode {
            Mode::Or => 5e3 + 3.0 * features.sum as f64 * (0.2 + part.sqrt()),
            _ => 2e3 + 8.0 * features.shortest as f64 * features.terms as f64,
        }
    }

    /// Generates samples of OR and AND with up to six lists, measured with this relative noise.
    fn samples(n: usize, seed: u64, noise: f64) -> Vec<(Features, Duration)> {
        let mut random = Random(seed);
        let mut sample = || {
            let terms = 1 + (6.0 * random.next()) as usize;
            let mut lists: Vec<u64> =
                (0..terms).map(|_| 10f64.powf(1.0 + 5.0 * random.next()) as u64).collect();
            lists.sort_unstable();
            let mode = if random.next() < 0.5 { Mode::Or } else { Mode::And };
            let features = features(mode, &lists);
            let time = cost(&features) * (1.0 + noise * (2.0 * random.next() - 1.0));
            (features, Duration::from_nanos(time as u64))
        };
        (0..n).map(|_| sample()).collect()
    }

    #[test]
    fn features_are_those_of_the_lists() {
        let text = |i: u32| {
            let terms = (1..6).filter(|n| i.is_multiple_of(*n)).map(|n| format!("w{n}"));
            terms.collect::<Vec<_>>().join(" ")
        };
        let docs: Vec<Doc> = (0..60).map(|i| Doc::text(i, text(i))).collect();
        let snapshot = Fixture::of(&docs).snapshot();
        let features_of = |mode: Mode, terms: &[&str]| {
            let mut plan = warpseek_testkit::plans(&snapshot, &[Search::of(terms)]).remove(0);
            (plan.mode, plan.k, plan.count) = (mode, 7, true);
            let features = Features::of(&plan);
            assert_eq!((features.mode, features.k, features.count), (mode, 7, true));
            // The more a hit needs, the fewer lists have documents that could be hits by
            // themselves.
            let [few, some, most] = features.needed;
            assert!(features.sum >= few && few >= some && some >= most, "{features:?}");
            Features { k: 10, count: false, needed: [features.sum; 3], ..features }
        };
        use Mode::{And, AndOr, Or};
        assert_eq!(features_of(Or, &["w3"]), features(Or, &[20]));
        assert_eq!(features_of(And, &["w1", "w4"]), features(And, &[15, 60]));
        assert_eq!(features_of(And, &["w4", "w1"]), features(And, &[15, 60]));
        for terms in [["w1", "w2", "w3", "w4", "w5"], ["w3", "w5", "w1", "w4", "w2"]] {
            assert_eq!(features_of(AndOr, &terms), features(AndOr, &[12, 15, 20, 30, 60]));
        }
        // Only AND matches nothing if a term is missing.
        for mode in [Or, AndOr] {
            assert_eq!(features_of(mode, &["w3", "x1"]), features(mode, &[20]));
        }
        assert_eq!(features_of(And, &["w3", "x1"]), features(And, &[]));
        assert_eq!(features_of(Or, &["x1"]), features(Or, &[]));
    }

    #[test]
    fn lists_that_cannot_have_hits_alone_are_not_needed() {
        let term = |most: u32, df: u64| PlanTerm {
            field: 0,
            term: String::new(),
            query_weight: 1.0,
            df,
            idf: 1.0,
            weight: 1.0,
            most,
            lists: Vec::new(),
        };
        // A hit has at least the score of each of 50 documents, 100; `needed` assumes 0.6, 0.9 or
        // 1.3 times as much.
        let lists = [term(30, 5000), term(100, 50), term(50, 700)];
        assert_eq!(needed(&lists, 10, 5750), [750, 50, 50]);
        // If k exceeds the number of documents, all lists are needed.
        assert_eq!(needed(&lists[1..2], 60, 50), [50; 3]);
    }

    #[test]
    fn models_predict_queries_they_never_saw() {
        let (known, unseen) = (samples(3000, 1, 0.1), samples(2000, 2, 0.1));
        let errors = FORMS.map(|form| CostModel::fit(form, &known).relative_error(&unseen));
        let [rules, tree, boosted] = errors;
        assert!(rules < 0.5 && tree < 0.35 && boosted < 0.15, "{errors:?}");
        assert!(boosted < tree && tree < rules, "{errors:?}");
        let model = CostModel::fit(Form::Boosted, &known);
        for mode in [Mode::Or, Mode::And] {
            let of_mode: Vec<_> = unseen.iter().copied().filter(|s| s.0.mode == mode).collect();
            let error = model.relative_error(&of_mode);
            assert!(error < 0.15, "{mode}: {error}");
        }
    }

    #[test]
    fn the_same_samples_give_the_same_model() {
        let samples = samples(500, 3, 0.3);
        for form in FORMS {
            assert_eq!(CostModel::fit(form, &samples), CostModel::fit(form, &samples));
        }
    }

    #[test]
    fn stalled_samples_hardly_matter() {
        let (mut known, unseen) = (samples(3000, 1, 0.1), samples(1000, 2, 0.1));
        known.iter_mut().step_by(100).for_each(|(_, took)| *took *= 1000);
        let error = CostModel::fit(Form::Boosted, &known).relative_error(&unseen);
        assert!(error < 0.2, "{error}");
    }

    #[test]
    fn any_samples_give_a_model() {
        let query = features(Mode::And, &[5, 100]);
        let empty = features(Mode::Or, &[]);
        let huge =
            Features { k: usize::MAX, count: true, ..features(Mode::AndOr, &[1, u64::MAX / 2]) };
        let odd = Features { sum: 0, ..query };
        let second = Duration::from_secs(1);
        let cases: &[&[(Features, Duration)]] = &[
            &[],
            &[(query, second)],
            &[(empty, second)],
            &[(query, Duration::ZERO); 50],
            &[(query, Duration::MAX), (huge, Duration::MAX), (odd, Duration::ZERO)],
            &[(query, Duration::ZERO), (empty, Duration::ZERO), (huge, second), (odd, second)],
        ];
        for (number, samples) in cases.iter().enumerate() {
            for form in FORMS {
                let mut model = CostModel::fit(form, samples);
                assert!(model.relative_error(samples).is_finite());
                for query in [query, empty, huge, odd] {
                    assert!(!model.predict(&query).is_zero(), "{form:?} of {number}");
                    model.learn(&query, Duration::ZERO);
                    model.learn(&query, Duration::MAX);
                    assert!(!model.predict(&query).is_zero(), "{form:?} of {number}");
                }
                let json = model.to_json().unwrap();
                assert_eq!(CostModel::from_json(&json).unwrap(), model);
            }
        }
        // A single sample predicts all queries.
        let predicted = CostModel::fit(Form::Boosted, &[(query, second)]).predict(&query);
        assert!((predicted.as_secs_f64() - 1.0).abs() < 1e-4, "{predicted:?}");
    }

    #[test]
    fn queries_that_match_nothing_have_a_time_of_their_own() {
        let mut samples = samples(200, 5, 0.0);
        let [or, and] = [Mode::Or, Mode::And].map(|mode| features(mode, &[]));
        let model = CostModel::fit(Form::Boosted, &samples);
        assert!(samples.iter().all(|&(_, took)| model.predict(&and) <= took));
        samples.extend([(or, Duration::from_nanos(300)), (and, Duration::from_nanos(300))]);
        let mut model = CostModel::fit(Form::Boosted, &samples);
        assert_eq!(model.predict(&or), Duration::from_nanos(300));
        let before = model.predict(&samples[0].0);
        (0..50).for_each(|_| model.learn(&or, Duration::from_nanos(600)));
        assert!(model.predict(&and) > Duration::from_nanos(400));
        assert_eq!(model.predict(&samples[0].0), before);
    }

    #[test]
    fn beyond_the_samples_the_time_grows_with_the_sum() {
        let samples = samples(2000, 6, 0.0);
        let largest = samples.iter().map(|(features, _)| features.sum).max().unwrap();
        for form in FORMS {
            let model = CostModel::fit(form, &samples);
            let time = |length: u64| {
                model.predict(&features(Mode::Or, &[length / 2, length / 2])).as_secs_f64()
            };
            let (near, far) = (time(100 * largest), time(400 * largest));
            assert!((far / near - 4.0).abs() < 1e-3, "{form:?}: {near} and {far}");
            assert!(near > 20.0 * time(largest), "{form:?}");
        }
    }

    #[test]
    fn a_model_follows_a_machine_that_becomes_slower_or_faster() {
        let known = samples(3000, 1, 0.1);
        for factor in [2.0, 0.4, 6.0] {
            let changed =
                |(features, took): &(Features, Duration)| (*features, took.mul_f64(factor));
            let later: Vec<_> = samples(1500, 7, 0.1).iter().map(changed).collect();
            let (later, last) = later.split_at(1000);
            let mut model = CostModel::fit(Form::Boosted, &known);
            let before = model.relative_error(last);
            later.iter().for_each(|(features, took)| model.learn(features, *took));
            let after = model.relative_error(last);
            assert!(before > 0.4 && after < 0.17, "{factor}: {before}, then {after}");
        }
    }

    #[test]
    fn a_model_that_is_right_stays_right() {
        let mut model = CostModel::fit(Form::Boosted, &samples(3000, 1, 0.1));
        let later = samples(3000, 8, 0.1);
        let before = model.relative_error(&later);
        later.iter().for_each(|(features, took)| model.learn(features, *took));
        let after = model.relative_error(&later);
        assert!(after < before + 0.01, "{before}, then {after}");
    }

    #[test]
    fn one_stalled_query_hardly_changes_a_model() {
        let mut model = CostModel::fit(Form::Boosted, &samples(3000, 1, 0.1));
        let query = features(Mode::Or, &[1000, 5000]);
        let before = model.predict(&query);
        model.learn(&query, before * 1000);
        let after = model.predict(&query);
        assert!(after >= before && after < before.mul_f64(1.01), "{before:?}, then {after:?}");
    }

    #[test]
    fn ranges_of_drift_are_factors_of_8() {
        let range = |microseconds: f64| Drift::range(microseconds * 1e3);
        assert_eq!(
            [0.0, 0.1, 7.9, 8.1, 63.0, 65.0, 1e3, 1e12].map(range),
            [0, 0, 0, 1, 1, 2, 3, 5]
        );
    }

    #[test]
    fn the_closest_number_has_the_smallest_relative_error() {
        let mut random = Random(9);
        for n in 1..30 {
            let truths: Vec<f64> = (0..n).map(|_| 10f64.powf(4.0 * random.next())).collect();
            let error = |guess: f64| truths.iter().map(|t| (guess - t).abs() / t).sum::<f64>();
            let best = truths.iter().map(|&t| error(t)).fold(f64::INFINITY, f64::min);
            assert!(error(closest(truths.clone())) <= best * (1.0 + 1e-12), "{truths:?}");
        }
        assert_eq!(closest(Vec::new()), 1.0);
    }

    #[test]
    fn a_saved_model_makes_the_same_predictions() {
        let later = samples(1000, 4, 0.1);
        for form in FORMS {
            let mut model = CostModel::fit(form, &samples(1000, 3, 0.1));
            later[..100].iter().for_each(|(features, took)| model.learn(features, 2 * *took));
            let read = CostModel::from_json(&model.to_json().unwrap()).unwrap();
            assert_eq!(read, model);
            assert!(later.iter().all(|(query, _)| read.predict(query) == model.predict(query)));
        }
    }

    #[test]
    fn malformed_models_are_refused() {
        let good = CostModel::fit(Form::Rules, &samples(100, 3, 0.1));
        let refuses = |change: &dyn Fn(&mut Parameters)| {
            let mut bad = good.clone();
            change(&mut bad.parameters);
            CostModel::from_json(&bad.to_json().unwrap()).is_err()
        };
        assert!(!refuses(&|_| ()));
        assert!(refuses(&|p| p.empty = 0.0));
        assert!(refuses(&|p| p.empty = f32::NAN));
        assert!(refuses(&|p| p.drifts[1].all = 9.0));
        assert!(refuses(&|p| p.drifts[3].ranges[5] = -1e9));
        for (base, depth) in [(f32::MAX, 2), (f32::INFINITY, 2)] {
            let estimate = Estimate::Trees { base, forest: Forest::new(depth) };
            assert!(refuses(
                &|p| p.modes[0] = Some(Costs { largest: 1, estimate: estimate.clone() })
            ));
        }
        for text in ["", "{}", "[]", "null", r#"{"empty":1}"#] {
            assert!(CostModel::from_json(text).is_err(), "{text}");
        }
    }

    proptest! {
        /// Reading a damaged file returns an error, or a model that still works.
        #[test]
        fn damaged_models_never_panic(
            form in prop::sample::select(&FORMS), damage in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9eE.,\\[\\]{}\":a-z]{0,3}"), 1..4),
        ) {
            let mut text = CostModel::fit(form, &samples(40, 3, 0.1)).to_json().unwrap();
            for (at, with) in damage {
                let at = at.index(text.len());
                text.replace_range(at..(at + with.len()).min(text.len()), &with);
            }
            if let Ok(mut model) = CostModel::from_json(&text) {
                for (query, took) in samples(20, 4, 0.1) {
                    prop_assert!(!model.predict(&query).is_zero());
                    model.learn(&query, took);
                }
                prop_assert_eq!(CostModel::from_json(&model.to_json().unwrap()).unwrap(), model);
            }
        }
    }
}

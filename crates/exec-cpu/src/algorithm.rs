//! The algorithms of the CPU, their estimated costs, and the reasons for choosing one.

use std::fmt;
use std::str::FromStr;

use warpseek_exec::{Candidate, Load, Plan, Rates};

/// Number of terms from which the bounds of windows add up to more than any threshold.
const MANY_TERMS: usize = 64;
/// Maximum number of documents of an index whose lists stay decoded although the query does not
/// name the algorithm. [`SMALL_POSTINGS`] limits the postings, which take eight bytes each.
const SMALL: u64 = 1 << 17;
const SMALL_POSTINGS: u64 = 1 << 22;
/// Minimum number of terms for which adding up decoded lists is faster than skipping, by the
/// maximum number of documents (docs/measurements/cpu-profile.md).
const DECODED_TERMS: [(u64, usize); 2] = [(1 << 14, 3), (SMALL, 5)];
/// Maximum number of postings per term for decoded lists. Most of a longer list is skipped; words
/// that are in nearly all documents have such lists.
const DECODED_POSTINGS: u64 = 1 << 11;
/// Number of postings that justifies waking threads for a single query: a guess, not measured.
const MUCH: u64 = 1 << 16;

/// Nanoseconds of one thread on `gov2`, on a core of the machine with the H200
/// (docs/measurements/gpu.md). Runs with 1 to 100 terms and k of 10 and 1000 showed which
/// algorithm wins for few postings, for many terms and otherwise, but not where exactly the lines
/// cross. Up to 128 postings are read faster than their bounds are set up (512 before bounds were
/// kept).
const WINDOWED: Rates = Rates::thread(5_000.0, 3.0);
const DAAT: Rates = Rates::thread(1_000.0, 3.0 + 4_000.0 / 128.0);
const TAAT: Rates = Rates::thread(6_000.0, 2.5);
/// Rates relative to the other algorithms, from runs on small collections on another machine.
const DECODED: Rates = Rates::thread(2_000.0, 1.0);
/// Rates of algorithms that run only on request: their approximate cost compared with windowed
/// MaxScore.
const PIVOTS: Rates = Rates::thread(5_000.0, 9.0);

/// Rates of query trees, in which every posting goes through the scores of a window for each part
/// of the tree: a guess, not measured.
const TREE: Rates = Rates::thread(8_000.0, 4.0);
/// Nanoseconds for looking up a document of a mask in a list. The figure is higher than the
/// measured time, since windowed MaxScore skips windows and takes documents from the mask itself
/// where that is less work. It is a guess after runs on `rfc` and `debian-descriptions` with
/// masks of 0.1 % to 10 %; other values were not tried.
const LOOK_UP: u64 = 24;
/// Reason why an algorithm does not answer a tree.
const SUMS: &str = "it only adds up words, and the query is not such a sum";

/// Reason why an algorithm neither sorts nor counts by attributes.
const BEST: &str = "it only finds the best by score, and all matches are needed";

/// An algorithm for OR queries. All algorithms return the same hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Scores every posting, document at a time.
    Daat,
    /// Scores every posting, term at a time, with one accumulator per document.
    Taat,
    /// WAND, which finds pivots by list maxima.
    Wand,
    /// MaxScore: essential lists supply the documents, which are looked up in the others.
    MaxScore,
    /// WAND with block maxima.
    BlockMaxWand,
    /// MaxScore with block maxima.
    BlockMaxMaxScore,
    /// MaxScore over windows of documents, whole blocks at a time.
    WindowedMaxScore,
    /// Windowed MaxScore for a batch of queries, one tile of documents after another, or for a
    /// single query whose tiles are spread over the threads.
    Cohort,
    /// Looks up the documents of the mask in the lists. For AND, the mask is treated as one more
    /// list, and the shortest list leads.
    Filtered,
    /// Evaluates the query tree window by window. If the tree requires all of its terms and
    /// phrases, it intersects all lists at once. This is the only algorithm that answers phrases,
    /// and trees whose scores are not sums.
    Tree,
    /// Scores every posting, term at a time, from lists that stay decoded in memory with the
    /// value of each posting. They take eight bytes for each posting of every word that was
    /// searched for. Unless the caller requests this algorithm, it answers for small indexes
    /// only; on request it answers for any index, and nothing limits what it keeps while the
    /// index is open.
    Decoded,
}

/// The size of an index, deleted documents included.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) documents: u64,
    pub(crate) postings: u64,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 11] = [
        Algorithm::Daat,
        Algorithm::Taat,
        Algorithm::Wand,
        Algorithm::MaxScore,
        Algorithm::BlockMaxWand,
        Algorithm::BlockMaxMaxScore,
        Algorithm::WindowedMaxScore,
        Algorithm::Cohort,
        Algorithm::Filtered,
        Algorithm::Tree,
        Algorithm::Decoded,
    ];

    /// Names that `FromStr` accepts, in the order of [`Algorithm::ALL`].
    pub const NAMES: [&'static str; 11] = [
        "daat",
        "taat",
        "wand",
        "maxscore",
        "block-max-wand",
        "block-max-maxscore",
        "windowed-maxscore",
        "cohort",
        "filtered",
        "tree",
        "decoded",
    ];

    /// Returns the name of the algorithm.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Names from earlier versions that `FromStr` also accepts, with the current names.
    pub const ALIASES: [(&'static str, &'static str); 2] =
        [("ranges", "windowed-maxscore"), ("kept", "decoded")];

    /// Returns the algorithms to choose from if the caller requests none, always in the same
    /// order, each with its cost for a query on an index of this size. `threads` is the number of
    /// threads for this query alone, which is 1 in a batch.
    pub(crate) fn candidates(
        plan: &Plan,
        load: &Load,
        size: Size,
        threads: usize,
    ) -> [(Algorithm, Candidate); 7] {
        let entry = |algorithm: Algorithm, rates, why| {
            (algorithm, Candidate { algorithm: algorithm.name(), rates, why })
        };
        let tree = plan.needed_tree();
        if tree.is_some() || plan.gather.is_some() {
            let (refusal, why) = match tree {
                _ if plan.gather.is_some() => (BEST, "all matches are sorted or counted"),
                Some(tree) if !tree.phrases.is_empty() => (SUMS, "it looks for phrases"),
                _ => (SUMS, "the score is not a sum of words"),
            };
            let no = |algorithm| entry(algorithm, Err(refusal), "");
            return [
                no(Algorithm::Cohort),
                no(Algorithm::Daat),
                no(Algorithm::Taat),
                no(Algorithm::WindowedMaxScore),
                no(Algorithm::Filtered),
                entry(Algorithm::Tree, Ok(TREE), why),
                no(Algorithm::Decoded),
            ];
        }
        let or = plan.matches_any();
        let cohort = match threads {
            0 | 1 => Err("it has one thread"),
            _ if load.effort < MUCH => Err("it is too short to wake threads for"),
            _ => Ok(WINDOWED),
        };
        let daat = if or { Ok(DAAT) } else { Err("it is for OR") };
        let taat = match () {
            () if !or => Err("it is for OR"),
            () if plan.terms.len() < MANY_TERMS => Err("it is for many terms"),
            () if load.postings < size.documents => Err("it is for lists as long as the index"),
            () => Ok(TAAT),
        };
        let windowed = match or {
            true => "it scores whole blocks and skips windows that cannot have a hit",
            false => "it skips blocks that cannot have a hit",
        };
        [
            entry(
                Algorithm::Cohort,
                cohort,
                "one long query: tiles of documents are spread over threads",
            ),
            entry(Algorithm::Daat, daat, "for few postings, reading is faster than skipping"),
            entry(Algorithm::Taat, taat, "with this many terms there is nothing to skip"),
            entry(Algorithm::WindowedMaxScore, Ok(WINDOWED), windowed),
            entry(
                Algorithm::Filtered,
                filtered_rates(plan),
                "the filter admits few documents: they are looked up in the lists",
            ),
            entry(Algorithm::Tree, Err("it is for query trees"), ""),
            entry(
                Algorithm::Decoded,
                decoded_rates(plan, load, size, threads),
                "small index: decoded lists are kept in memory",
            ),
        ]
    }

    /// Returns the rates of this algorithm for a query that requests it.
    pub(crate) fn rates(self) -> Rates {
        match self {
            Algorithm::Daat => DAAT,
            Algorithm::Taat => TAAT,
            Algorithm::Tree => TREE,
            Algorithm::Decoded => DECODED,
            Algorithm::WindowedMaxScore | Algorithm::Cohort | Algorithm::Filtered => WINDOWED,
            Algorithm::Wand
            | Algorithm::MaxScore
            | Algorithm::BlockMaxWand
            | Algorithm::BlockMaxMaxScore => PIVOTS,
        }
    }

    /// Returns the bounds that the algorithm uses for skipping.
    pub(crate) fn pruning(self) -> Pruning {
        match self {
            Algorithm::Daat | Algorithm::Taat => Pruning::None,
            Algorithm::Wand | Algorithm::MaxScore => Pruning::Lists,
            Algorithm::BlockMaxWand
            | Algorithm::BlockMaxMaxScore
            | Algorithm::WindowedMaxScore
            | Algorithm::Cohort
            | Algorithm::Filtered
            | Algorithm::Tree
            | Algorithm::Decoded => Pruning::Blocks,
        }
    }
}

/// Returns the rates of adding up decoded lists, or the reason why that is not worthwhile.
fn decoded_rates(
    plan: &Plan,
    load: &Load,
    size: Size,
    threads: usize,
) -> Result<Rates, &'static str> {
    let least = DECODED_TERMS.iter().find(|&&(most, _)| size.documents <= most);
    let Some(&(_, least)) = least.filter(|_| size.postings <= SMALL_POSTINGS) else {
        return Err("it is for small indexes");
    };
    if load.postings > DECODED_POSTINGS * plan.terms.len() as u64 {
        return Err("it is for lists that are not long");
    }
    if threads > 2 && load.effort >= MUCH {
        return Err("it is for one thread");
    }
    if plan.terms.len() < least {
        return Err("it is for several terms");
    }
    if plan.mask.is_some() {
        return Err("it is for all documents");
    }
    if !plan.matches_any() {
        return Err("it is for OR");
    }
    Ok(DECODED)
}

/// Returns the rates of looking up the documents of a mask. The cost is rounded up to a power of
/// two, so that there are few different rates: the costs of queries with equal rates are summed
/// together.
fn filtered_rates(plan: &Plan) -> Result<Rates, &'static str> {
    let Some(mask) = &plan.mask else { return Err("it is for filtered queries") };
    let look_ups = mask.documents().saturating_mul(plan.terms.len() as u64);
    let time = look_ups.saturating_mul(LOOK_UP).min(1 << 60).next_power_of_two();
    Ok(Rates::thread(WINDOWED.query + time as f64, 0.0))
}

/// The bounds that may be used for skipping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pruning {
    /// No bounds: all matches are scored and counted.
    None,
    /// The bounds of lists.
    Lists,
    /// The bounds of lists and blocks.
    Blocks,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let name = Self::ALIASES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new);
        let at = Self::NAMES.iter().position(|&known| known == name);
        at.map(|i| Self::ALL[i]).ok_or_else(|| {
            format!("no algorithm `{name}`; the algorithms are: {}", Self::NAMES.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use warpseek_exec::gather::Gather;
    use warpseek_exec::{Load, Mask, Mode, Plan, cheapest};
    use warpseek_index::DocSet;
    use warpseek_testkit::{Doc, Fixture, Search, plans};

    use super::{Algorithm, SMALL, SMALL_POSTINGS, Size};

    const LARGE: Size = Size { documents: 100_000, postings: SMALL_POSTINGS + 1 };

    #[test]
    fn names_round_trip() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        assert_eq!("ranges".parse(), Ok(Algorithm::WindowedMaxScore));
        assert_eq!("kept".parse(), Ok(Algorithm::Decoded));
        assert_eq!(Algorithm::Decoded.name(), "decoded");
        assert!("nosuch".parse::<Algorithm>().is_err());
    }

    fn plan(mode: Mode, dfs: &[u64]) -> Plan {
        let words: Vec<String> = (1..=dfs.len()).map(|i| format!("a{i}")).collect();
        let fixture = Fixture::of(&[Doc::text(0, words.join(" "))]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let search = Search { mode, ..Search::of(&words) };
        let mut plan = plans(&fixture.snapshot(), &[search]).remove(0);
        plan.terms.iter_mut().zip(dfs).for_each(|(term, &df)| term.df = df);
        plan
    }

    #[test]
    fn the_choice_depends_on_the_lists_and_states_its_reason() {
        let choose = |mode, dfs: &[u64], threads| {
            let plan = plan(mode, dfs);
            let load = Load::of(&plan);
            let all = Algorithm::candidates(&plan, &load, LARGE, threads).map(|(_, c)| c);
            let chosen = cheapest(&all, &load).unwrap();
            (chosen.algorithm.parse().unwrap(), chosen.why.split(' ').next_back().unwrap())
        };
        use Algorithm::{Cohort, Daat, Taat, WindowedMaxScore};
        assert_eq!(choose(Mode::Or, &[80, 48], 8), (Daat, "skipping"));
        assert_eq!(choose(Mode::Or, &[80, 49], 8), (WindowedMaxScore, "hit"));
        assert_eq!(choose(Mode::Or, &[3, 90_000], 1), (WindowedMaxScore, "hit"));
        assert_eq!(choose(Mode::Or, &[3, 90_000], 2), (Cohort, "threads"));
        assert_eq!(choose(Mode::Or, &[2000; 63], 1), (WindowedMaxScore, "hit"));
        assert_eq!(choose(Mode::Or, &[2000; 64], 1), (Taat, "skip"));
        assert_eq!(choose(Mode::Or, &[20; 64], 1), (WindowedMaxScore, "hit"));
        // The choice for AND depends on its shortest list.
        assert_eq!(choose(Mode::And, &[3, 90_000], 2), (WindowedMaxScore, "hit"));
        assert_eq!(choose(Mode::AndOr, &[40_000, 90_000], 2), (Cohort, "threads"));
        assert_eq!(choose(Mode::And, &[], 2), (WindowedMaxScore, "hit"));
        // With one word, AND is OR.
        assert_eq!(choose(Mode::And, &[128], 2), (Daat, "skipping"));
    }

    #[test]
    fn lists_of_small_collections_stay_decoded() {
        let over = |mode, dfs: &[u64], documents, postings, threads| {
            let (plan, size) = (plan(mode, dfs), Size { documents, postings });
            let load = Load::of(&plan);
            let all = Algorithm::candidates(&plan, &load, size, threads).map(|(_, c)| c);
            cheapest(&all, &load).unwrap().algorithm
        };
        let choose =
            |mode, dfs: &[u64], documents, postings| over(mode, dfs, documents, postings, 1);
        let (decoded, windowed) = ("decoded", "windowed-maxscore");
        assert_eq!(choose(Mode::Or, &[2000; 5], SMALL, SMALL_POSTINGS), decoded);
        assert_eq!(choose(Mode::Or, &[2000; 5], SMALL + 1, SMALL_POSTINGS), windowed);
        assert_eq!(choose(Mode::Or, &[2000; 5], SMALL, SMALL_POSTINGS + 1), windowed);
        assert_eq!(choose(Mode::Or, &[2000; 4], SMALL, SMALL_POSTINGS), windowed);
        assert_eq!(choose(Mode::And, &[2000; 5], SMALL, SMALL_POSTINGS), windowed);
        assert_eq!(choose(Mode::Or, &[2000; 3], 1 << 14, SMALL_POSTINGS), decoded);
        assert_eq!(choose(Mode::Or, &[2000; 3], (1 << 14) + 1, SMALL_POSTINGS), windowed);
        assert_eq!(choose(Mode::Or, &[3; 5], SMALL, SMALL_POSTINGS), "daat");
        // Most of a long list is skipped.
        assert_eq!(choose(Mode::Or, &[2048, 2048, 2048, 1, 4095], SMALL, SMALL_POSTINGS), decoded);
        assert_eq!(choose(Mode::Or, &[2048, 2048, 2048, 2, 4095], SMALL, SMALL_POSTINGS), windowed);
        // Several threads share a long query.
        assert_eq!(over(Mode::Or, &[2048; 32], SMALL, SMALL_POSTINGS, 2), decoded);
        assert_eq!(over(Mode::Or, &[2048; 32], SMALL, SMALL_POSTINGS, 3), "cohort");
        assert_eq!(over(Mode::Or, &[2048; 31], SMALL, SMALL_POSTINGS, 3), decoded);
    }

    /// Tests that the order of candidates does not depend on the plan, since batch estimates add
    /// them up by position.
    #[test]
    fn candidates_have_one_order() {
        let words = plan(Mode::Or, &[3000, 2000]);
        let gather = Gather { order: Vec::new(), after: None, facets: Vec::new() };
        let gathered = Plan { gather: Some(Arc::new(gather)), ..words.clone() };
        let names = |plan: &Plan| {
            Algorithm::candidates(plan, &Load::of(plan), LARGE, 1).map(|(_, c)| c.algorithm)
        };
        assert_eq!(names(&words), names(&gathered));
    }

    #[test]
    fn a_filter_of_few_documents_drives() {
        let fixture = Fixture::of(&(0..2000).map(|i| Doc::text(i, "a1 a2")).collect::<Vec<_>>());
        let snapshot = fixture.snapshot();
        let choose = |mode, dfs: [u64; 2], admitted: u32| {
            let search = Search { mode, ..Search::of(&["a1", "a2"]) };
            let mut plan = plans(&snapshot, &[search]).remove(0);
            plan.terms.iter_mut().zip(dfs).for_each(|(term, df)| term.df = df);
            let mut set = DocSet::new(2000);
            (0..admitted).for_each(|doc| assert!(set.insert(doc)));
            plan.mask = Some(Arc::new(Mask::new(&snapshot, vec![set])));
            let load = Load::of(&plan);
            let all = Algorithm::candidates(&plan, &load, LARGE, 1).map(|(_, c)| c);
            cheapest(&all, &load).unwrap().algorithm
        };
        assert_eq!(choose(Mode::Or, [20_000, 90_000], 2000), "filtered");
        assert_eq!(choose(Mode::Or, [2000, 3000], 2000), "windowed-maxscore");
        assert_eq!(choose(Mode::Or, [2000, 3000], 100), "filtered");
        assert_eq!(choose(Mode::Or, [70, 30], 100), "daat");
        assert_eq!(choose(Mode::And, [20_000, 90_000], 200), "filtered");
        assert_eq!(choose(Mode::And, [1000, 90_000], 200), "windowed-maxscore");
        assert_eq!(choose(Mode::AndOr, [20_000, 90_000], 0), "filtered");
    }
}

//! Deterministic cases of the conformance suite. Each case is an index with the searches that
//! matter for it.

use warpseek_core::limits::{BLOCK, MAX_QUERY_TERMS};
use warpseek_exec::{Mode, Query, Ranking, RankingFunction};
use warpseek_index::{BuildConfig, Impacts};

use crate::document::Doc;
use crate::fixture::Fixture;
use crate::rankings::text_rankings;
use crate::search::Search;

/// An index and its searches.
pub(crate) struct FixedCase {
    pub(crate) name: &'static str,
    pub(crate) fixture: Fixture,
    pub(crate) searches: Vec<Search>,
}

/// Builds all cases with the given configuration.
pub(crate) fn fixed_cases(config: &BuildConfig) -> Vec<FixedCase> {
    let case = |name, (fixture, searches)| FixedCase { name, fixture, searches };
    vec![
        case("list lengths around the block size", list_lengths(config)),
        case("score ties", ties(config)),
        case("4096 terms", many_terms(config)),
        case("empty index", empty(config)),
        case("everything deleted", all_deleted(config)),
        case("several segments with deletions", segments(config)),
        case("long lists with deletions", long_lists(config)),
        case("static scores", statics(config)),
        case("vectors", vectors(config)),
        case("ties of a short list with a long one", ties_across_lists(config)),
        case("quantized impacts", quantized(config)),
    ]
}

const MODES: [Mode; 3] = [Mode::Or, Mode::And, Mode::AndOr];
const KS: [usize; 6] = [0, 1, 10, 100, 1000, usize::MAX];

/// Returns every query in every mode with every k; rankings alternate.
fn cross(queries: &[Vec<(&str, f64)>], rankings: &[Ranking]) -> Vec<Search> {
    let (mut searches, mut turn) = (Vec::new(), rankings.iter().cycle());
    for terms in queries {
        let terms = terms.iter().map(|&(term, weight)| (term.to_owned(), weight));
        let query = Query::of(terms);
        for mode in MODES {
            for k in KS {
                let ranking = *turn.next().unwrap();
                searches.push(Search { query: query.clone(), mode, k, ranking });
            }
        }
    }
    searches
}

fn plain<'a>(terms: &[&'a str]) -> Vec<(&'a str, f64)> {
    terms.iter().map(|&term| (term, 1.0)).collect()
}

/// Builds words whose lists have 1, 2, B - 1, B, B + 1, 2 B - 1 and so on postings, spread over
/// 700 documents.
fn list_lengths(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    const DOCS: usize = 700;
    let lengths =
        [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1, 5 * BLOCK];
    let word = |n: usize| format!("x{n}");
    let mut texts = vec![String::from("filler"); DOCS];
    for (i, &n) in lengths.iter().enumerate() {
        for j in 0..n {
            // 3 and 700 are coprime, so the documents are distinct.
            let text = &mut texts[(j * 3 + i * 11) % DOCS];
            (0..=j % 4).for_each(|_| *text += &format!(" {}", word(n)));
        }
    }
    let docs: Vec<_> = texts.into_iter().enumerate().map(|(i, t)| Doc::text(i, t)).collect();
    let words: Vec<String> = lengths.iter().map(|&n| word(n)).collect();
    let mut queries: Vec<_> = words.iter().map(|w| plain(&[w])).collect();
    queries.extend(words.windows(2).map(|w| plain(&[&w[0], &w[1]])));
    queries.push(words.iter().map(|w| (w.as_str(), 1.0)).collect());
    queries.push(plain(&["filler", &words[2], &words[4]]));
    (Fixture::with(&docs, config.clone()), cross(&queries, &text_rankings()))
}

/// Builds three hundred copies of two documents, so that only the order of documents decides.
fn ties(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let text = |i: usize| if i.is_multiple_of(2) { "apple pie" } else { "apple apple pie crust" };
    let docs: Vec<_> = (0..300).map(|i| Doc::text(i, text(i))).collect();
    let queries = [plain(&["appl"]), plain(&["appl", "pie"]), plain(&["pie", "crust"])];
    let mut searches = cross(&queries, &text_rankings());
    for k in [149, 150, 151, 299, 300, 301] {
        searches.push(Search { k, ..Search::of(&["appl", "crust"]) });
    }
    (Fixture::with(&docs, config.clone()), searches)
}

/// Builds queries with as many terms as a long document pasted as a query; one document contains
/// all of them.
fn many_terms(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let word = |i: usize| format!("v{i}");
    let line = |from: usize| (from..from + 128).map(word).collect::<Vec<_>>().join(" ");
    let mut docs: Vec<_> = (0..64).map(|d| Doc::text(d, line(d * 64))).collect();
    docs.push(Doc::text("all", (0..4096).map(word).collect::<Vec<_>>().join(" ")));
    let words: Vec<String> = (0..4096).map(word).collect();
    let all: Vec<_> = words.iter().enumerate().map(|(i, w)| (&**w, 0.5 + (i % 7) as f64)).collect();
    let mut with_missing = all.clone();
    with_missing.push(("absent", 1.0));
    (Fixture::with(&docs, config.clone()), cross(&[all, with_missing], &text_rankings()))
}

/// Builds queries with the maximum number of terms. Two documents contain all terms, the others
/// some hundreds each; half of the lists are short.
pub(crate) fn most_terms() -> (Fixture, Vec<Search>) {
    let word = |i: usize| format!("v{i}");
    let line =
        |words: &mut dyn Iterator<Item = usize>| words.map(word).collect::<Vec<_>>().join(" ");
    let some = |d: usize| (d * 256..d * 256 + 512).chain((d % 3..MAX_QUERY_TERMS / 2).step_by(97));
    let mut docs: Vec<_> = (0..64).map(|d| Doc::text(d, line(&mut some(d)))).collect();
    docs.push(Doc::text("all", line(&mut (0..MAX_QUERY_TERMS))));
    docs.push(Doc::text("all and more", line(&mut (0..MAX_QUERY_TERMS + 9))));
    let terms = (0..MAX_QUERY_TERMS).map(|i| (word(i), 0.5 + (i % 7) as f64));
    let query = Query::of(terms);
    let search = |mode| Search { query: query.clone(), mode, k: 10, ranking: Ranking::default() };
    (Fixture::of(&docs), vec![search(Mode::Or), search(Mode::And)])
}

fn empty(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    (Fixture::with(&[], config.clone()), cross(&[plain(&[]), plain(&["appl"])], &text_rankings()))
}

fn all_deleted(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let docs: Vec<_> = (0..200).map(|i| Doc::text(i, "apple pie")).collect();
    let fixture = Fixture::with(&docs, config.clone());
    fixture.delete(&docs.iter().map(|doc| doc.id.clone()).collect::<Vec<_>>()).unwrap();
    (fixture, cross(&[plain(&["appl"]), plain(&["appl", "pie"])], &text_rankings()))
}

/// Builds five segments, two of which lack one of the words, with updates and deletions. The
/// queries have missing terms, repeated terms and weights.
fn segments(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let fixture = Fixture::with(&[], config.clone());
    for batch in 0..5 {
        let text = |i: usize| match (batch, i % 3) {
            (1 | 3, _) => "pie crust",
            (_, 0) => "apple apple pie",
            _ => "apple tart",
        };
        let docs: Vec<_> =
            (0..140).map(|i| Doc::text(batch * 100 + i, format!("{} n{i}", text(i)))).collect();
        fixture.add(&docs).unwrap();
    }
    let gone: Vec<String> = (0..540).step_by(7).map(|id| id.to_string()).collect();
    fixture.delete(&gone).unwrap();
    let queries = [
        plain(&["appl"]),
        plain(&["appl", "pie", "crust"]),
        plain(&["appl", "tart"]),
        plain(&["appl", "absent"]),
        plain(&["absent", "missing"]),
        plain(&["appl", "appl", "pie"]),
        vec![("appl", 0.001), ("pie", 1e6), ("appl", 3.5)],
        plain(&["n0", "n7"]),
    ];
    (fixture, cross(&queries, &text_rankings()))
}

/// Builds words in half, a third, a fifth and a two-hundredth of the documents, some of which are
/// deleted.
fn long_lists(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let word = |i: usize| {
        let words = [(2, "half"), (3, "third"), (5, "fifth"), (200, "rare")];
        let has = words.iter().filter(|&&(n, _)| i.is_multiple_of(n));
        has.map(|&(_, word)| word).collect::<Vec<_>>().join(" ")
    };
    let docs: Vec<_> = (0..4000).map(|i| Doc::text(i, word(i))).collect();
    let fixture = Fixture::with(&docs, config.clone());
    fixture.delete(&(0..4000).step_by(9).map(|id| id.to_string()).collect::<Vec<_>>()).unwrap();
    let queries = [
        plain(&["half", "third", "fifth"]),
        plain(&["half", "third", "fifth", "rare"]),
        plain(&["half", "rare"]),
    ];
    (fixture, cross(&queries, &text_rankings()))
}

fn statics(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let doc = |i: usize| {
        let doc = Doc::text(i, if i.is_multiple_of(3) { "apple pie" } else { "apple" });
        if i.is_multiple_of(4) { doc } else { doc.with_static((i * 37 % 100) as f32 / 8.0) }
    };
    let fixture = Fixture::with(&(0..150).map(doc).collect::<Vec<_>>(), config.clone());
    // A second segment has no static scores. The static score of a deleted document would
    // determine the scale if the document were live.
    fixture.add(&[Doc::text("none", "apple pie")]).unwrap();
    fixture.add(&[Doc::text("huge", "apple pie").with_static(1e9)]).unwrap();
    fixture.delete(&["huge".to_owned()]).unwrap();
    let weigh = |weight: f64| {
        text_rankings().into_iter().map(move |r| Ranking { static_weight: weight, ..r })
    };
    let rankings: Vec<_> = [0.0, 0.01, 1.0, 1e6].into_iter().flat_map(weigh).collect();
    let queries = [plain(&["appl"]), plain(&["appl", "pie"]), plain(&["pie", "absent"])];
    (fixture, cross(&queries, &rankings))
}

fn vectors(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let doc = |i: usize| {
        let weights = [("##a", 0.5 + (i % 9) as f64), ("B", (i % 5) as f64 * 0.3), ("rare", 255.5)];
        Doc::vector(i, &weights[..if i % 60 == 59 { 3 } else { 2 }])
    };
    let fixture = Fixture::with(&(0..300).map(doc).collect::<Vec<_>>(), config.clone());
    let ranking = Ranking { function: RankingFunction::Impact, static_weight: 0.0 };
    let queries = [
        plain(&["##a"]),
        vec![("##a", 0.25), ("B", 3.0)],
        vec![("B", 1e-6), ("rare", 1e9)],
        plain(&["rare", "##A"]),
    ];
    (fixture, cross(&queries, &[ranking]))
}

/// Builds hits of a short list that tie with hits of a long one, before and after them, so that
/// the order of ids decides which of them are among the best k. Some documents are in both lists,
/// and most are in a list that hardly counts. Some are deleted.
fn ties_across_lists(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let doc = |i: usize| {
        let weights: &[_] = match i {
            317 => &[("short", 3.0), ("faint", 0.25)],
            _ if i % 150 == 57 => &[("short", 1.0), ("long", 1.0), ("faint", 0.25)],
            _ if i % 50 == 7 => &[("short", 2.0), ("faint", 0.25)],
            _ if i % 40 == 11 => &[("long", 2.0), ("faint", 0.25)],
            _ if i.is_multiple_of(3) => &[("long", 1.0)],
            _ => &[("long", 1.0), ("faint", 0.25)],
        };
        Doc::vector(i, weights)
    };
    let fixture = Fixture::with(&(0..1400).map(doc).collect::<Vec<_>>(), config.clone());
    fixture.delete(&["7", "51", "207", "900"].map(str::to_owned)).unwrap();
    let ranking = Ranking { function: RankingFunction::Impact, static_weight: 0.0 };
    let queries = [plain(&["long", "short"]), plain(&["long", "short", "faint"])];
    (fixture, cross(&queries, &[ranking]))
}

/// Builds impacts of all sizes in three segments with deletions. The lengths in the last two
/// segments differ from those that the mean was computed from. There are also many ties.
fn quantized(config: &BuildConfig) -> (Fixture, Vec<Search>) {
    let (k1, b) = (1.2, 0.75);
    let config = BuildConfig { impacts: Some(Impacts::new(k1, b)), ..config.clone() };
    let fixture = Fixture::with(&[], config);
    for (batch, length) in [(0, 3), (1, 40), (2, 1)] {
        let doc = |i: usize| {
            let words = [("apple", 1 + i % 7), ("pie", i % 3), ("tart", i % 11 / 10 * 30)];
            let spell = |&(word, n): &(&str, usize)| format!("{word} ").repeat(n);
            let text: String = words.iter().map(spell).collect();
            let rare = if i % 60 == 59 { "rare" } else { "" };
            Doc::text(batch * 400 + i, format!("{text} {rare} {}", "filler ".repeat(i % length)))
        };
        fixture.add(&(0..400).map(doc).collect::<Vec<_>>()).unwrap();
    }
    fixture.delete(&(0..1200).step_by(13).map(|id| id.to_string()).collect::<Vec<_>>()).unwrap();
    let ranking =
        |static_weight| Ranking { function: RankingFunction::Bm25 { k1, b }, static_weight };
    let queries = [
        plain(&["appl"]),
        plain(&["appl", "pie", "tart"]),
        plain(&["filler", "rare"]),
        vec![("appl", 0.001), ("pie", 1e6), ("rare", 3.5)],
        plain(&["tart", "absent"]),
    ];
    (fixture, cross(&queries, &[ranking(0.0), ranking(1.0)]))
}

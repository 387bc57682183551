//! Tests of norms that are stored or computed from lists: both have the same bits, and so have
//! scores.
#![allow(clippy::unwrap_used)]

use warpseek_exec::{Mode, Query, Ranking};
use warpseek_index::{BuildConfig, Content, Impacts, IndexError, Progress, Snapshot, verify};
use warpseek_testkit::{
    Doc, Fixture, History, Operation, Search, build_config, expected, external_hits, orders, plans,
};
use warpseek_text::GramConfig;

/// Builds two segments with lists of one, few and many postings, frequencies beyond the table of
/// squares, an empty document, and deletions.
fn text() -> History {
    let doc = |i: usize| {
        let often = if i == 70 { 1500 } else { i % 7 };
        Doc::text(i, format!("all {} w{i} few{}", "pie ".repeat(often), i / 9))
    };
    let empty = Doc::text("empty", "");
    let first = [vec![empty], (0..300).map(doc).collect()].concat();
    let gone = ["4", "310"].map(str::to_owned).to_vec();
    let second = Operation::Add((290..320).map(doc).collect());
    History { operations: vec![Operation::Add(first), second, Operation::Delete(gone)] }
}

fn vectors() -> History {
    let doc = |i: usize| Doc::vector(i, &[("a", 0.25 * i as f64), ("b", 200.0), ("c", 0.004)]);
    History::of((0..150).map(doc).collect())
}

fn norms(snapshot: &Snapshot) -> Vec<Vec<u8>> {
    snapshot.segments().iter().map(|s| s.norms().unwrap().bytes().to_vec()).collect()
}

fn searches() -> Vec<Search> {
    let ranking = Ranking { function: "cosine".parse().unwrap(), static_weight: 0.0 };
    let search = |terms: &[(&str, f64)], mode| {
        let query = Query::of(terms.iter().map(|&(term, weight)| (term.to_owned(), weight)));
        Search { query, mode, k: 20, ranking }
    };
    vec![
        search(&[("all", 1.0), ("pie", 0.5), ("w70", 2.0)], Mode::Or),
        search(&[("few3", 1.0), ("pie", 1.0)], Mode::And),
    ]
}

#[test]
fn computed_norms_are_those_that_are_kept() {
    for history in [text(), vectors()] {
        for config in orders() {
            let without = Fixture::after(&history, config.clone());
            let with = Fixture::after(&history, BuildConfig { norms: true, ..config });
            for merged in [false, true] {
                if merged {
                    with.merge().unwrap();
                    without.merge().unwrap();
                }
                let snapshots = [&with, &without].map(Fixture::snapshot);
                let [kept, computed] = &snapshots;
                assert!(kept.manifest().norms && !computed.manifest().norms);
                assert!(kept.segments().iter().all(|s| s.documents().has_norms()));
                assert!(!computed.segments().iter().any(|s| s.documents().has_norms()));
                assert!(norms(kept) == norms(computed));
                // Segments that share files share the computed norms.
                let again = computed.segments()[0].with(7, None);
                let [one, other] = [&computed.segments()[0], &again].map(|s| s.norms().unwrap());
                assert!(std::ptr::eq(one.bytes(), other.bytes()));
                // Vectors have norms, but are not ranked by cosine.
                if kept.manifest().content == Content::Vector {
                    continue;
                }
                let hits = snapshots.each_ref().map(|snapshot| {
                    let plans = plans(snapshot, &searches());
                    let answers = expected(snapshot, &plans);
                    let hits = plans.iter().zip(&answers);
                    hits.map(|(plan, answer)| external_hits(snapshot, plan, answer))
                        .collect::<Vec<_>>()
                });
                assert!(hits[0] == hits[1] && hits[0].iter().any(|hits| hits.len() > 10));
            }
            for fixture in [with, without] {
                let found = verify(&fixture.dir(), &Progress::default()).unwrap();
                assert!(found.problems.is_empty(), "{:?}", found.problems);
            }
        }
    }
}

#[test]
fn many_threads_that_need_norms_get_the_same() {
    let fixture = Fixture::after(&text(), build_config());
    let snapshot = fixture.snapshot();
    let segment = &snapshot.segments()[0];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| segment.norms().unwrap().bytes().as_ptr() as usize))
            .collect();
        let mut found: Vec<usize> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        found.dedup();
        assert_eq!(found.len(), 1);
    });
}

/// An index of impacts always stores norms, since impacts do not determine them. An index of
/// n-grams has none. In both, `norms` cannot be requested.
#[test]
fn indexes_that_are_not_ranked_by_cosine() {
    let impacts = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..build_config() };
    let grams = BuildConfig { grams: Some(GramConfig::default()), ..BuildConfig::default() };
    let plain = Fixture::after(&text(), build_config());
    let quantized = Fixture::after(&text(), impacts.clone());
    assert!(norms(&plain.snapshot()) == norms(&quantized.snapshot()));
    let fixture = Fixture::after(&text(), grams.clone());
    assert!(fixture.snapshot().segments()[0].norms().is_err());
    for config in [impacts, grams] {
        let fixture = Fixture::empty(BuildConfig { norms: true, ..config });
        let error = fixture.create(&[Doc::text(1, "a")]).err().unwrap();
        assert!(
            matches!(&error, IndexError::Norms { what } if what.contains("--norms")),
            "{error}"
        );
    }
}

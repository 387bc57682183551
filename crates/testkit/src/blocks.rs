//! Checks that an AND query without pruning decodes exactly the blocks that textbook DAAT decodes,
//! where the shortest list is traversed posting by posting and the others seek forward (Ding 2009,
//! section 8.1). This is a suite for engines that claim to do so.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Mode, Plan, Planner, Query, Ranking};
use warpseek_index::{Progress, Snapshot, create};

use crate::conformance::MakeEngine;
use crate::document::Doc;
use crate::fixture::{Fixture, build_config};
use crate::{Random, answers, collections};

/// Number of random cases per run.
const CASES: u32 = 24;

/// Returns the number of blocks that the textbook algorithm decodes for plain lists. It stops at
/// the last document of the list that ends first, as far as skip arrays reveal the ends: a list
/// of a single block has no skip array, so its end is unknown unless it is a single posting.
fn textbook(mut lists: Vec<Vec<u32>>) -> u64 {
    lists.sort_by_key(Vec::len);
    let one_block = |list: &[u32]| (2..=BLOCK).contains(&list.len());
    let ends = lists.iter().filter(|list| !one_block(list)).filter_map(|list| list.last());
    let end = ends.min().copied().unwrap_or(u32::MAX);
    let Some((shortest, others)) = lists.split_first() else { return 0 };
    let mut decoded = 0;
    // The last decoded block and the current posting of each of the other lists.
    let mut cursors = vec![(usize::MAX, 0); others.len()];
    for (i, &doc) in shortest.iter().enumerate() {
        decoded += u64::from(i.is_multiple_of(BLOCK));
        if doc > end {
            break;
        }
        for (list, (block, at)) in others.iter().zip(&mut cursors) {
            *at += list[*at..].partition_point(|&d| d < doc);
            // The block of a single-block list is decoded immediately.
            let wanted = if one_block(list) { 0 } else { *at / BLOCK };
            if wanted != *block {
                *block = wanted;
                decoded += 1;
            }
            if list.get(*at) != Some(&doc) {
                break;
            }
        }
    }
    decoded
}

fn postings(snapshot: &Snapshot, term: &str) -> Vec<u32> {
    let segment = &snapshot.segments()[0];
    let info = segment.dictionary().find(term.as_bytes()).unwrap().unwrap();
    let list = segment.list(&info).unwrap();
    let (mut docs, mut out) = (Vec::new(), [0; BLOCK]);
    for block in 0..list.blocks() {
        let n = list.decode_docs(block, &mut out).unwrap();
        docs.extend(&out[..n]);
    }
    docs
}

/// Checks all queries in one batch, and some of them alone.
fn check(make: &impl MakeEngine, snapshot: &Arc<Snapshot>, queries: &[Query]) {
    let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
    let plans = queries.iter().map(|query| planner.plan(query, Mode::And, 10).unwrap());
    let plans: Vec<Plan> = plans.filter(|plan| !plan.lacks_terms()).collect();
    let engine = make(snapshot.clone(), 1);
    let found = answers(&*engine, &plans, 1).unwrap();
    for (i, (plan, answer)) in plans.iter().zip(&found).enumerate() {
        let terms: Vec<&str> = plan.terms.iter().map(|t| t.term.as_str()).collect();
        let expected = textbook(terms.iter().map(|term| postings(snapshot, term)).collect());
        let decoded = answer.work.unwrap().blocks_decoded;
        assert_eq!(decoded, expected, "{}: {terms:?}", engine.name());
        if i.is_multiple_of(5) {
            let alone = answers(&*engine, std::slice::from_ref(plan), 1).unwrap();
            assert_eq!(alone[0].work, answer.work, "{}, alone: {terms:?}", engine.name());
        }
    }
}

/// Checks lists of all densities, some of which end early or begin late.
pub fn check_random_lists(make: impl MakeEngine) {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&(any::<u64>(), 1usize..3000), |(seed, docs)| {
        let mut random = Random::new(seed);
        let rare = [2, 3, 5, 20, 100, 700];
        let parts: Vec<_> = rare
            .iter()
            .map(|_| (random.below(docs / 3 + 1), docs - random.below(docs / 3 + 1)))
            .collect();
        let corpus: Vec<Doc> = (0..docs)
            .map(|i| {
                let words = rare.iter().zip(&parts).enumerate().filter(|&(w, (&rare, part))| {
                    let inside = w % 2 == 0 || (part.0..part.1).contains(&i);
                    random.below(rare) == 0 && inside
                });
                let text: Vec<String> = words.map(|(w, _)| format!("w{w}")).collect();
                Doc::text(i, text.join(" "))
            })
            .collect();
        let queries = (1u32..64).map(|mask| {
            let terms = (0..6).filter(|w| mask >> w & 1 == 1).map(|w| (format!("w{w}"), 1.0));
            Query::of(terms)
        });
        check(&make, &Fixture::of(&corpus).snapshot(), &queries.collect::<Vec<_>>());
        Ok(())
    });
    run.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Checks the lists of the shared collections with the collections' own queries.
#[track_caller]
pub fn check_real_lists(make: impl MakeEngine) {
    for collection in collections::present() {
        let dir = tempfile::tempdir().unwrap();
        let config = build_config();
        create(dir.path(), &[collection.corpus()], &config, false, &Progress::default()).unwrap();
        let snapshot = Arc::new(Snapshot::open(dir.path()).unwrap());
        let manifest = snapshot.manifest();
        let parse = |text: &str| Query::parse(text, manifest.analyzer, manifest.content).unwrap();
        let queries: Vec<Query> = collection.queries().iter().map(|(_, q)| parse(q)).collect();
        check(&make, &snapshot, &queries);
    }
}

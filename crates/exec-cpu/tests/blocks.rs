//! Requirement D6: an AND without pruning decodes exactly the blocks that textbook DAAT decodes, in which the shortest list goes posting by
//! posting and the others seek forward (Ding et al. §8.1).

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Engine, Mode, Planner, Query, Ranking};
use warpseek_exec_cpu::{Algorithm, CpuEngine};
use warpseek_index::{Progress, Snapshot, create};
use warpseek_testkit::{Doc, Fixture, build_config, collections};

/// Blocks that the textbook decodes for plain lists.
fn textbook(mut lists: Vec<Vec<u32>>) -> u64 {
    lists.sort_by_key(Vec::len);
    let Some((shortest, others)) = lists.split_first() else { return 0 };
    let mut decoded = 0;
    // The block each of the other lists has decoded last, and the posting it stands on.
    let mut places = vec![(usize::MAX, 0); others.len()];
    for (i, &doc) in shortest.iter().enumerate() {
        decoded += u64::from(i.is_multiple_of(BLOCK));
        for (list, (block, at)) in others.iter().zip(&mut places) {
            *at += list[*at..].partition_point(|&d| d < doc);
            // The skip array tells the end without decoding, and so does a single posting; a list of one block is decoded at once.
            let one_block = (2..=BLOCK).contains(&list.len());
            let wanted = if one_block { 0 } else { *at / BLOCK };
            if wanted != *block && (*at < list.len() || one_block) {
                *block = wanted;
                decoded += 1;
            }
            if *at == list.len() {
                return decoded;
            }
            if list[*at] != doc {
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

fn check(snapshot: &Arc<Snapshot>, query: &Query) {
    let planner = Planner::new(snapshot.clone(), Ranking::default()).unwrap();
    let plan = planner.plan(query, Mode::And, 10).unwrap();
    if plan.lacks_terms() {
        return;
    }
    let lists = plan.terms.iter().map(|t| postings(snapshot, &t.term)).collect();
    let engine = CpuEngine::new(snapshot.clone(), Some(Algorithm::Daat), 1);
    let answer = &engine.search(std::slice::from_ref(&plan)).unwrap()[0];
    assert_eq!(answer.work.blocks_decoded, textbook(lists), "{query:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn on_random_lists(seed: u64, docs in 1usize..3000) {
        let mut state = seed | 1;
        let mut next = move |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let rare = [2, 3, 5, 20, 100, 700];
        let corpus: Vec<Doc> = (0..docs)
            .map(|i| {
                let words = rare.iter().enumerate().filter(|&(_, &r)| next(r) == 0);
                let text: Vec<String> = words.map(|(w, _)| format!("w{w}")).collect();
                Doc::text(i, text.join(" "))
            })
            .collect();
        let fixture = Fixture::of(&corpus);
        let snapshot = fixture.snapshot();
        for mask in 1u32..64 {
            let terms = (0..6).filter(|w| mask >> w & 1 == 1).map(|w| (format!("w{w}"), 1.0));
            check(&snapshot, &Query { terms: terms.collect() });
        }
    }
}

#[test]
fn on_real_lists() {
    for collection in collections::present() {
        let dir = tempfile::tempdir().unwrap();
        let config = build_config();
        create(dir.path(), &[collection.corpus()], &config, false, &Progress::default()).unwrap();
        let snapshot = Arc::new(Snapshot::open(dir.path()).unwrap());
        let manifest = snapshot.manifest();
        for (_, query) in collection.queries() {
            check(&snapshot, &Query::parse(&query, manifest.analyzer, manifest.content).unwrap());
        }
    }
}

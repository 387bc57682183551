//! Tests of quantized impacts: lists hold the levels that follow from frequencies and lengths,
//! through additions, deletions and merges.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use warpseek_core::limits::BLOCK;
use warpseek_core::saturation::Saturation;
use warpseek_index::{BuildConfig, Content, Impacts, IndexError, Progress, Snapshot, verify};
use warpseek_testkit::{Doc, Fixture, build_config, orders};

const K1: f64 = 1.2;
const B: f64 = 0.75;

fn quantized(config: BuildConfig) -> BuildConfig {
    BuildConfig { impacts: Some(Impacts::new(K1, B)), ..config }
}

/// Builds a document with `appl`, in varying frequencies and lengths.
fn doc(i: usize) -> Doc {
    Doc::text(i, format!("{}{}", "apple ".repeat(1 + i % 9), "filler ".repeat(i % 50)))
}

/// Returns the impact of `appl` by external id, for live documents.
fn impacts(snapshot: &Snapshot) -> BTreeMap<usize, u32> {
    let mut found = BTreeMap::new();
    for segment in snapshot.segments() {
        let Some(info) = segment.dictionary().find(b"appl").unwrap() else { continue };
        let list = segment.list(&info).unwrap();
        let (mut docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list.decode_docs(block, &mut docs).unwrap();
            list.decode_freqs(block, &mut freqs).unwrap();
            for (&position, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                if !segment.is_deleted(position) {
                    let ordinals = segment.documents().ordinals().unwrap();
                    let ordinal = ordinals.map_or(position, |ordinals| ordinals.get(position));
                    let id = segment.ids().get(ordinal).unwrap();
                    found.insert(id.parse().unwrap(), freq);
                }
            }
        }
    }
    found
}

fn level(mean_length: f64, i: usize) -> u32 {
    let (freq, filler) = (1 + i % 9, i % 50);
    Saturation::new(K1, B, mean_length).level(freq as u32, (freq + filler) as u32)
}

fn assert_sound(fixture: &Fixture) {
    let found = verify(&fixture.dir(), &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
}

#[test]
fn impacts_stay_what_they_were() {
    for config in orders() {
        // The first documents are added later: their mean length counts.
        let fixture = Fixture::with(&[], quantized(config));
        assert_eq!(fixture.snapshot().manifest().impacts, Some(Impacts::new(K1, B)));
        fixture.add(&(0..300).map(doc).collect::<Vec<_>>()).unwrap();
        let mean = fixture.snapshot().statistics().mean_length();
        let expected = |ids: &mut dyn Iterator<Item = usize>| -> BTreeMap<usize, u32> {
            ids.map(|i| (i, level(mean, i))).collect()
        };
        assert_eq!(impacts(&fixture.snapshot()), expected(&mut (0..300)));
        assert_sound(&fixture);

        // Short documents change the mean length of the collection, but not that of the impacts.
        fixture.add(&[doc(300)]).unwrap();
        fixture.add(&[doc(351), doc(400), doc(7)]).unwrap();
        assert_ne!(fixture.snapshot().statistics().mean_length(), mean);
        fixture.delete(&["5".to_owned(), "200".to_owned()]).unwrap();
        let live = || (0..301).chain([351, 400]).filter(|i| ![5, 200].contains(i));
        assert_eq!(impacts(&fixture.snapshot()), expected(&mut live()));
        assert_sound(&fixture);

        fixture.merge().unwrap();
        assert_eq!(impacts(&fixture.snapshot()), expected(&mut live()));
        let kept = fixture.snapshot().manifest().impacts.unwrap();
        assert_eq!((kept.documents, kept.tokens as f64 / 300.0), (300, mean));
        assert_sound(&fixture);
    }
}

#[test]
fn what_cannot_be_quantized_is_refused() {
    let bad = BuildConfig { impacts: Some(Impacts::new(-1.0, B)), ..build_config() };
    let fixture = Fixture::empty(bad);
    assert!(matches!(fixture.create(&[doc(0)]), Err(IndexError::Impacts { .. })));
    assert!(!fixture.dir().exists());

    let vector = Doc::vector(1, &[("a", 1.0)]);
    let fixture = Fixture::empty(quantized(build_config()));
    let refused = fixture.create(std::slice::from_ref(&vector));
    assert!(matches!(refused, Err(IndexError::QuantizedVector { .. })));
    // An empty index of impacts does not become one of vectors either.
    fixture.create(&[]).unwrap();
    assert!(matches!(fixture.add(&[vector]), Err(IndexError::QuantizedVector { .. })));
    assert_eq!(fixture.snapshot().manifest().content, Content::Text);
}

//! Tests of damaged and forged files: reading returns an error and `verify` names the problem,
//! without panics or wrong hits.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use warpseek_core::limits::BLOCK;
use warpseek_exec::{ExecError, Mode, Planner, Query, Ranking, Reference};
use warpseek_index::container::{Kind, SealedFile, seal_bytes};
use warpseek_index::{
    BuildConfig, Lists, ListsConfig, Manifest, MergeConfig, PositionReader, Progress, Scrub,
    Segment, Snapshot, TermInfo, create_from_lists, delete, inspect, merge, verify,
};
use warpseek_testkit::{Doc, Fixture, Random, build_config, file_bytes};

/// Number of forgeries per file.
const ROUNDS: usize = 40;

/// Builds two reordered segments with lists of one, some and many postings, positions, deletions,
/// static scores and a store.
fn sample() -> Fixture {
    let doc = |i: usize| {
        let text = format!("apple {} w{i} {}", "pie ".repeat(i % 4), ["tart", "crust"][i % 2]);
        Doc::text(i, text).with_static(i as f32 / 4.0)
    };
    let mut config = BuildConfig { positions: true, ..build_config() };
    config.reader.order_field = Some("text".into());
    let fixture = Fixture::with(&(0..300).map(doc).collect::<Vec<_>>(), config);
    fixture.add(&(290..340).map(doc).collect::<Vec<_>>()).unwrap();
    fixture.delete(&["4".into(), "17".into(), "333".into()]).unwrap();
    fixture
}

/// Reads the files by name, without the lock.
fn files_of(fixture: &Fixture) -> BTreeMap<String, Vec<u8>> {
    let mut files = file_bytes(&fixture.dir());
    files.remove("lock");
    files
}

/// Reads everything: terms, lists, positions, scores, ids, documents.
fn read_all(dir: &Path) -> Result<Vec<String>, ExecError> {
    let snapshot = Arc::new(Snapshot::open(dir)?);
    let mut words = Vec::new();
    for segment in snapshot.segments() {
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            read_positions(segment, &info)?;
            words.push((String::from_utf8_lossy(terms.term()).into_owned(), 1.0));
        }
    }
    let ranking = Ranking { static_weight: 1.0, ..Ranking::default() };
    let planner = Planner::new(snapshot.clone(), ranking)?;
    let plan = planner.plan(&Query::of(words), Mode::Or, usize::MAX)?;
    // Norms are computed from all lists.
    for segment in snapshot.segments() {
        segment.norms()?;
    }
    let answers = warpseek_testkit::answers(&Reference::new(snapshot.clone()), &[plan], 1)?;
    let mut out = Vec::new();
    for hit in &answers[0].hits {
        let id = snapshot.external_id(hit.doc)?;
        let found = snapshot.find_id(&id)?;
        let text = snapshot.document(hit.doc)?;
        out.push(format!("{id} {} {found:?} {text:?}", hit.score));
    }
    Ok(out)
}

/// Reads the positions of every posting.
fn read_positions(segment: &Segment, info: &TermInfo) -> Result<(), ExecError> {
    let list = segment.list(info)?;
    let mut reader = PositionReader::new(segment.positions(info)?.unwrap());
    let (mut freqs, mut out) = ([0; BLOCK], Vec::new());
    for block in 0..list.blocks() {
        let Ok(n) = list.decode_freqs(block, &mut freqs) else { continue };
        for i in 0..n {
            reader.read(block, &freqs[..n], i, &mut out)?;
        }
    }
    Ok(())
}

/// Asserts that the damaged index cannot be read without an error, and that `verify` names the
/// file.
fn assert_noticed(dir: &Path, name: &str, what: &str) {
    let check = || {
        let read = read_all(dir);
        assert!(read.is_err(), "it was read without an error");
        if let Ok(found) = verify(dir, &Progress::default()) {
            let named = |p: &warpseek_index::Problem| p.file.ends_with(name);
            assert!(found.problems.iter().any(named), "verify: {:?}", found.problems);
        }
    };
    assert!(catch_unwind(AssertUnwindSafe(check)).is_ok(), "{name}, {what}");
}

#[test]
fn a_sound_index_has_no_problems() {
    let fixture = sample();
    assert_eq!(read_all(&fixture.dir()).unwrap().len(), 337);
    let found = verify(&fixture.dir(), &Progress::default()).unwrap();
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    assert_eq!((found.documents, found.files), (337, 12));
}

#[test]
fn every_cut_is_noticed() {
    let fixture = sample();
    for (name, bytes) in files_of(&fixture) {
        let (path, len) = (fixture.dir().join(&name), bytes.len());
        let mut cuts = vec![0, 1, 15, 16, 39, 40, 41, len / 2, len - 25, len - 8, len - 1];
        cuts.extend((0..len).step_by(len / 20 + 1));
        for cut in cuts.into_iter().filter(|&cut| cut < len) {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert_noticed(&fixture.dir(), &name, &format!("cut to {cut} of {len} bytes"));
        }
        fs::write(&path, [&bytes[..], &[0; 8]].concat()).unwrap();
        assert_noticed(&fixture.dir(), &name, "eight bytes more");
        if name != "manifest" {
            fs::remove_file(&path).unwrap();
            assert_noticed(&fixture.dir(), &name, "removed");
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(read_all(&fixture.dir()).is_ok());
}

#[test]
fn every_flipped_bit_is_noticed() {
    let fixture = sample();
    for (name, bytes) in files_of(&fixture) {
        let path = fixture.dir().join(&name);
        let bits = 8 * bytes.len();
        // Header and footer are tested densely, the body sparsely.
        let ends = (0..128).step_by(5).chain(bits - 32 * 8..bits).step_by(3);
        for bit in ends.chain((0..bits).step_by((bits / 60) | 1)) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, bad).unwrap();
            assert_noticed(&fixture.dir(), &name, &format!("bit {bit}"));
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(read_all(&fixture.dir()).is_ok());
}

#[test]
fn a_sound_file_of_another_segment_is_noticed() {
    let fixture = sample();
    let files = files_of(&fixture);
    for (name, bytes) in files.iter().filter(|(name, _)| name.starts_with("000001.")) {
        let other = name.replace("000001.", "000002.");
        fs::write(fixture.dir().join(name), &files[&other]).unwrap();
        assert_noticed(&fixture.dir(), name, "it is that of another segment");
        fs::write(fixture.dir().join(name), bytes).unwrap();
    }
}

fn kind_of(name: &str) -> Kind {
    let kinds = Kind::SEGMENT.into_iter().find(|kind| name.ends_with(kind.name()));
    kinds.unwrap_or(if name == "manifest" { Kind::Manifest } else { Kind::Deletes })
}

/// Writes a body under a valid checksum, and enters its seal in the manifest.
fn forge(dir: &Path, name: &str, body: &[u8], manifest: &Manifest) {
    let kind = kind_of(name);
    let file = seal_bytes(kind, body);
    fs::write(dir.join(name), &file).unwrap();
    let Ok(sealed) = SealedFile::from_bytes(name, kind, file) else { return };
    let (seal, mut manifest) = (format!("{:016x}", sealed.seal()), manifest.clone());
    for segment in &mut manifest.segments {
        if !name.starts_with(&format!("{:06}.", segment.number)) {
            continue;
        }
        match (kind, &mut segment.deletes) {
            (Kind::Deletes, Some(deletes)) => deletes.seal = seal.clone(),
            _ => drop(segment.files.insert(kind.name().into(), seal.clone())),
        }
    }
    fs::write(dir.join("manifest"), seal_bytes(Kind::Manifest, &manifest.to_bytes())).unwrap();
}

/// Forged files with valid checksums may cause errors or other hits, but no panic.
#[test]
fn forged_files_never_panic() {
    let fixture = sample();
    let (files, dir) = (files_of(&fixture), fixture.dir());
    let manifest = fixture.snapshot().manifest().clone();
    let mut random = Random::new(5);
    let segment_files = files.iter().filter(|(name, _)| *name != "manifest");
    for (name, bytes) in segment_files {
        let file = SealedFile::from_bytes(name, kind_of(name), bytes.clone()).unwrap();
        let body = file.all().unwrap();
        for round in 0..ROUNDS {
            let mut forged = body.to_vec();
            // Counts are located at both ends, so every other change is made there.
            let end = forged.len().min(40);
            let at = match round % 4 {
                0 => random.below(end),
                1 => forged.len() - 1 - random.below(end),
                _ => random.below(forged.len()),
            };
            forged[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, forged[at] ^ 1, forged[at] ^ 0x10]);
            if round % 10 == 9 {
                forged.truncate(at);
            }
            forge(&dir, name, &forged, &manifest);
            let read = || {
                let _ = read_all(&dir);
                let _ = inspect(&dir);
                let _ = verify(&dir, &Progress::default());
                // Writers are slow, because they wait for the disk.
                if round % 5 != 0 {
                    return;
                }
                let _ = delete(&dir, &["5".into(), "301".into()], 1, &Progress::default());
                let config = MergeConfig { threads: 1, reorder: round % 2 == 0, memory: 1 << 20 };
                let _ = merge(&dir, &config, &Progress::default());
            };
            let sound = catch_unwind(AssertUnwindSafe(read)).is_ok();
            assert!(
                sound,
                "{name}, round {round}: byte {at} of {} is {:?}",
                body.len(),
                forged.get(at)
            );
            restore(&dir, &files);
        }
    }
    assert_eq!(read_all(&dir).unwrap().len(), 337);
}

fn restore(dir: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for name in file_bytes(dir).into_keys().filter(|name| name != "lock") {
        fs::remove_file(dir.join(name)).unwrap();
    }
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
}

/// Overwrites a byte of a file in place, as a faulty disk or another program could.
fn overwrite(path: &Path, at: u64, byte: u8) {
    use std::io::{Seek, SeekFrom, Write};
    let mut file = fs::File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte]).unwrap();
}

/// Damage after all pages were verified is found only by a scrub, or by a read after it.
#[test]
fn damage_of_any_open_file_is_found_within_a_pass() {
    let fixture = sample();
    let dir = fixture.dir();
    for (name, bytes) in files_of(&fixture) {
        // The contents of these files are in memory once an index is open.
        if name == "manifest" || name.ends_with(".del") {
            continue;
        }
        let path = dir.join(&name);
        for at in [16, bytes.len() - 60, bytes.len() - 3] {
            for rate in [u64::MAX, 0] {
                let snapshot = Arc::new(Snapshot::open(&dir).unwrap());
                snapshot.verify_again(&Progress::default()).unwrap();
                overwrite(&path, at as u64, bytes[at] ^ 0x55);
                assert!(snapshot.check_damage().is_ok(), "not known yet");
                let mut scrub = Scrub::new(Duration::from_secs(1), rate);
                let shared = [snapshot.clone(), snapshot.clone()];
                scrub.step(&shared, Duration::from_millis(500), || false);
                scrub.step(&shared, Duration::from_millis(1000), || false);
                assert_eq!(scrub.counts().passes, 1);
                let case = format!("{name}, byte {at}, rate {rate}");
                if rate == 0 && at == 16 {
                    // The scrub reads no page, but every read verifies its page.
                    assert!(snapshot.damage().is_none() && scrub.counts().bytes == 0, "{case}");
                    assert!(
                        snapshot
                            .segments()
                            .iter()
                            .any(|s| s.files().any(|(_, f)| f.all().is_err()))
                    );
                }
                let error = match (rate, snapshot.check_damage()) {
                    (_, Err(error)) => error,
                    (0, Ok(())) => snapshot.verify_again(&Progress::default()).unwrap_err(),
                    (_, Ok(())) => panic!("{case}: not found"),
                };
                let error = error.to_string();
                assert!(error.contains(&name), "{case}: {error}");
                assert_eq!(snapshot.damage().unwrap().file, path, "{case}");
                fs::write(&path, &bytes).unwrap();
            }
        }
    }
    assert!(read_all(&dir).is_ok());
}

#[test]
fn verify_names_every_damaged_page_up_to_a_hundred_and_counts_the_rest() {
    const PAGE: usize = 1 << 16;
    let dir = tempfile::tempdir().unwrap();
    let lists = Wide;
    let config = ListsConfig { threads: 1, ..ListsConfig::default() };
    create_from_lists(dir.path(), &lists, &config, false, &Progress::default()).unwrap();
    let path = dir.path().join("000001.post");
    let good = fs::read(&path).unwrap();
    let pages = (good.len() - 16) / PAGE;
    assert!(pages > 110, "{pages} pages");
    let damage = |pages: &[usize]| {
        let mut bad = good.clone();
        pages.iter().for_each(|page| bad[16 + page * PAGE + 7] ^= 1);
        fs::write(&path, bad).unwrap();
        verify(dir.path(), &Progress::default()).unwrap()
    };
    let found = damage(&[1, 5, 6]);
    let named: Vec<&str> = found.problems.iter().map(|p| p.what.as_str()).collect();
    assert_eq!((named.len(), found.problems_found), (3, 3), "{named:?}");
    for (what, page) in named.iter().zip([1, 5, 6]) {
        let wanted = format!("byte {} (page {page})", page * PAGE);
        assert!(what.contains(&wanted), "{what}");
    }
    let found = damage(&(0..105).collect::<Vec<_>>());
    assert_eq!((found.problems.len(), found.problems_found), (100, 105));
    fs::write(&path, &good).unwrap();
    assert_eq!(verify(dir.path(), &Progress::default()).unwrap().problems_found, 0);
}

/// Lists of several megabytes.
struct Wide;

impl Lists for Wide {
    fn documents(&self) -> u32 {
        400_000
    }

    fn count(&self) -> u32 {
        12
    }

    fn term(&self, term: u32) -> &[u8] {
        &b"abcdefghijkl"[term as usize..][..1]
    }

    fn weight(&self, _: u32) -> usize {
        400_000
    }

    fn load(&self, term: u32, out: &mut Vec<(u32, u32)>) {
        let freq = |doc: u32| 1 + (doc ^ term).wrapping_mul(2_654_435_761) % 60_000;
        out.extend((0..400_000).map(|doc| (doc, freq(doc))));
    }
}

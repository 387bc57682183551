//! Counting the terms of documents by reading the documents from the store.
//!
//! A stored document is inverted again, as it was when the segment was built. Each of its terms
//! is looked up in the dictionary, and the document is looked up in the list of the term. The
//! cost depends on the number of documents and hardly on the size of the segment.
//!
//! The index itself proves that no list was missed, even if the analysis has changed since. The
//! length of a document is the sum of its frequencies over all lists, and every frequency is at
//! least 1. So if each list contains the document with the frequency that the analysis found, and
//! these frequencies add up to the length, no other list can contain it.
//!
//! Lists of impacts do not contain frequencies. There, the impact must be the one that follows
//! from the frequency, and in addition to the length, the norm, which is also a sum over all
//! terms, must be equal bit for bit.
//!
//! With a schema, all this holds for each text field.

use warpseek_codec::varint::Cursor;
use warpseek_core::limits::BLOCK;
use warpseek_core::saturation::Saturation;
use warpseek_text::{Document, ReaderConfig};

use crate::build::{Inverter, Progress, next_posting, ordered_map};
use crate::error::{IndexError, Result};
use crate::files::deletes::DocSet;
use crate::files::dictionary::TermInfo;
use crate::files::length_table::Lengths;
use crate::files::manifest::{Content, Manifest};
use crate::files::store::{Store, StoreBlock};
use crate::segment::Segment;

/// Number of documents that a worker counts at a time: their terms are looked up together.
const JOB_DOCS: usize = 64;

/// Counts, for each term that occurs in `docs`, the documents of `docs` that contain it, by
/// ascending ordinal. Returns `None` if the store keeps no documents, or if a stored document is
/// not the one that was indexed.
pub(super) fn count_terms(
    manifest: &Manifest,
    segment: &Segment,
    docs: &DocSet,
    threads: usize,
    progress: &Progress,
) -> Result<Option<Vec<(u32, u32)>>> {
    let Some(store) = segment.store() else { return Ok(None) };
    let mut numbers = Vec::with_capacity(docs.len() as usize);
    match segment.documents().ordinals()? {
        None => numbers.extend(docs.iter().map(|doc| (doc, doc))),
        Some(ordinals) => {
            numbers.extend(docs.iter().map(|doc| (ordinals.get(doc), doc)));
            // The store is ordered by ordinal, and consecutive documents share a block.
            numbers.sort_unstable();
        }
    }
    let counter = Counter {
        manifest,
        reader: manifest.reader_config(),
        segment,
        store,
        saturation: manifest.impacts.map(|impacts| impacts.saturation()),
    };
    let (mut jobs, mut counted, mut complete) = (numbers.chunks(JOB_DOCS), Vec::new(), true);
    let result = ordered_map(
        threads.min(numbers.len().div_ceil(JOB_DOCS)),
        || {
            progress.check()?;
            Ok(jobs.next())
        },
        || (),
        |(), job| counter.count(job),
        |counts| {
            match counts {
                Some(counts) => counted.extend(counts),
                None => complete = false,
            }
            // A single failure makes the walk necessary, so the other documents need not be
            // counted.
            if complete { Ok(()) } else { Err(IndexError::Cancelled) }
        },
    );
    match result {
        Ok(()) => {}
        Err(_) if !complete => return Ok(None),
        Err(error) => return Err(error),
    }
    counted.sort_unstable();
    counted.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 += later.1;
        }
        same
    });
    Ok(Some(counted))
}

struct Counter<'a> {
    manifest: &'a Manifest,
    reader: ReaderConfig,
    segment: &'a Segment,
    store: &'a Store,
    /// The function from frequencies to impacts, in an index of impacts.
    saturation: Option<Saturation>,
}

impl Counter<'_> {
    /// Counts the terms of documents given by ordinal and position, with ascending ordinals.
    fn count(&self, job: &[(u32, u32)]) -> Result<Option<Vec<(u32, u32)>>> {
        let Some(mut inverter) = self.invert(job)? else { return Ok(None) };
        let (mut counts, mut postings, mut complete) = (Vec::new(), Vec::new(), true);
        inverter.drain(|term, count, bytes, _| {
            let (mut cursor, mut number) = (Cursor::new(bytes), 0);
            postings.clear();
            for _ in 0..count {
                if let Some((number, freq)) = next_posting(&mut cursor, &mut number) {
                    postings.push((job[number as usize].1, freq));
                }
            }
            postings.sort_unstable();
            let info = if complete { self.segment.dictionary().find(term)? } else { None };
            match info {
                Some(info) if self.has(&info, &postings)? => counts.push((info.ordinal, count)),
                _ => complete = false,
            }
            Ok::<(), IndexError>(())
        })?;
        Ok(complete.then_some(counts))
    }

    /// Inverts the stored documents, numbered from 0. Returns `None` if one of them is not the
    /// document that was indexed.
    fn invert(&self, job: &[(u32, u32)]) -> Result<Option<Inverter>> {
        let fields = self.segment.text_fields();
        let mut inverter = Inverter::of_fields(self.manifest, fields);
        let documents = self.segment.documents();
        let lengths: Vec<Lengths<'_>> =
            (0..fields).map(|field| self.segment.lengths(field as u8)).collect::<Result<_>>()?;
        let norms = documents.has_norms().then(|| documents.norms()).transpose()?;
        let mut block = None;
        for (number, &(ordinal, position)) in (0..).zip(job) {
            let held = block.take().filter(|block: &StoreBlock| block.get(ordinal).is_some());
            let here = match held {
                Some(block) => block,
                None => self.store.block_of(ordinal)?,
            };
            let Some(document) = here.get(ordinal).and_then(|json| self.parse(json)) else {
                return Ok(None);
            };
            let facts = inverter.add(number, &document);
            // The largest length also represents all larger ones.
            let found = std::iter::once(facts.length).chain(facts.more);
            let same_lengths = found
                .eq(lengths.iter().map(|lengths| lengths.get(position)).filter(|&l| l < u32::MAX));
            let norm = norms.map(|norms| norms.get(position).to_bits());
            let same_norm = facts.norm.map(f32::to_bits) == norm;
            if !same_lengths || (self.saturation.is_some() && !same_norm) {
                return Ok(None);
            }
            drop(document);
            block = Some(here);
        }
        Ok(Some(inverter))
    }

    fn parse<'a>(&self, json: &'a [u8]) -> Option<Document<'a>> {
        let line = std::str::from_utf8(json).ok()?;
        let document = Document::parse(line, &self.reader).ok()?;
        let is_vector = self.manifest.content == Content::Vector;
        (document.vector.is_some() == is_vector).then_some(document)
    }

    /// Returns true if a list contains these postings, given by position and frequency with
    /// ascending positions.
    fn has(&self, info: &TermInfo, postings: &[(u32, u32)]) -> Result<bool> {
        let list = self.segment.list_by_blocks(info)?;
        let bad = |what| self.segment.bad_list(info, what);
        let lengths = self.segment.documents().lengths()?;
        let (mut docs, mut decoded) = ([0; BLOCK], None);
        for &(position, freq) in postings {
            let block = list.block_for(position);
            if block == list.blocks() {
                return Ok(false);
            }
            if decoded.is_none_or(|(known, _)| known != block) {
                self.segment.check_block(info, &list, block)?;
                decoded = Some((block, list.decode_docs(block, &mut docs).map_err(bad)?));
            }
            let n = decoded.map_or(0, |(_, n)| n);
            let Ok(i) = docs[..n].binary_search(&position) else { return Ok(false) };
            let expected = match &self.saturation {
                Some(saturation) => saturation.level(freq, lengths.get(position)),
                None => freq,
            };
            if list.freq_at(block, i).map_err(bad)? != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use warpseek_codec::CodecId;
    use warpseek_text::Analyzer;

    use super::super::walk;
    use super::*;
    use crate::build::BuildConfig;
    use crate::change::create::create;
    use crate::directory::WriteLock;
    use crate::files::container::{Kind, SealedFile};
    use crate::files::impacts::Impacts;
    use crate::files::manifest::{StoreMode, seal_text, segment_file_name};
    use crate::snapshot::Snapshot;

    const WORDS: [&str; 12] = [
        "the", "running", "runner", "run", "a", "überall", "3.14", "x", "city", "cities", "of",
        "don't",
    ];

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % limit
        }

        fn text(&mut self) -> String {
            let mut text = String::new();
            for _ in 0..self.below(30) {
                match self.below(4) {
                    0 => text.push_str(&format!("w{} ", self.below(400))),
                    _ => text.push_str(&format!("{} ", WORDS[self.below(WORDS.len())])),
                }
            }
            text
        }

        fn document(&mut self, id: usize, vector: bool) -> String {
            if vector {
                let weights: Vec<_> = (0..self.below(20))
                    .map(|token| {
                        format!(
                            "\"t{}\":{}",
                            token * 7 + self.below(7),
                            self.below(900) as f64 / 64.0
                        )
                    })
                    .collect();
                return format!("{{\"id\":{id},\"vector\":{{{}}}}}\n", weights.join(","));
            }
            let (title, text) = (self.text(), self.text());
            format!("{{\"id\":{id},\"title\":\"{title}\",\"extra\":[1],\"text\":\"{text}\"}}\n")
        }
    }

    fn build(dir: &Path, lines: &str, config: &BuildConfig) -> Snapshot {
        let input = dir.join("input.jsonl");
        std::fs::write(&input, lines).unwrap();
        create(&dir.join("index"), &[input], config, true, &Progress::default()).unwrap();
        Snapshot::open(&dir.join("index")).unwrap()
    }

    fn config() -> BuildConfig {
        BuildConfig { threads: 2, memory: 16 << 20, ..BuildConfig::default() }
    }

    type Counts = Vec<(u32, u32)>;

    /// Returns the counts from the store and from a walk.
    fn both(snapshot: &Snapshot, docs: &[u32]) -> (Option<Counts>, Counts) {
        let (segment, progress) = (&snapshot.segments()[0], Progress::default());
        let mut set = DocSet::new(segment.documents().count());
        docs.iter().for_each(|&doc| assert!(set.insert(doc)));
        (
            count_terms(snapshot.manifest(), segment, &set, 2, &progress).unwrap(),
            walk::count_terms(segment, &set, 2, &progress).unwrap(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn both_ways_count_the_same(
            docs in prop_oneof![1usize..5, 100usize..700],
            seed: u64,
            codec in 0..CodecId::ALL.len(),
            kind in 0..4,
            reorder: bool,
            analyzer in prop_oneof![Just(Analyzer::English), Just(Analyzer::Plain)],
            share in 1usize..40,
        ) {
            let mut random = Random(seed);
            let vector = kind == 3;
            let lines: String = (0..docs).map(|id| random.document(id, vector)).collect();
            let config = BuildConfig {
                analyzer,
                codec: Some(CodecId::ALL[codec]),
                impacts: (kind == 1).then(|| Impacts::new(0.9, 0.4)),
                reorder,
                ..config()
            };
            let dir = tempfile::tempdir().unwrap();
            let snapshot = build(dir.path(), &lines, &config);
            let picks: Vec<u32> = (0..docs as u32).filter(|_| random.below(share) == 0).collect();
            let (stored, walked) = both(&snapshot, &picks);
            prop_assert_eq!(stored, Some(walked));
        }
    }

    /// Builds an index of `lines` whose store is that of an index of `stored`.
    fn forged(dir: &Path, lines: &str, stored: &str, config: &BuildConfig) -> Snapshot {
        let other = dir.join("other");
        std::fs::create_dir(&other).unwrap();
        build(&other, stored, config);
        let snapshot = build(dir, lines, config);
        let mut manifest = snapshot.manifest().clone();
        let entry = &mut manifest.segments[0];
        let path = dir.join("index").join(segment_file_name(entry.number, Kind::Store));
        drop(snapshot);
        std::fs::copy(other.join("index/000001.store"), &path).unwrap();
        let seal = SealedFile::open(&path, Kind::Store).unwrap().seal();
        entry.files.insert("store".into(), seal_text(seal));
        WriteLock::take(&dir.join("index")).unwrap().commit(&manifest).unwrap();
        Snapshot::open(&dir.join("index")).unwrap()
    }

    #[test]
    fn a_store_that_is_not_what_was_indexed_is_found_out() {
        let line =
            |text: &str| format!("{{\"id\":1,\"text\":\"{text}\"}}\n{{\"id\":2,\"text\":\"d e\"}}");
        let plain = || BuildConfig { analyzer: Analyzer::Plain, ..config() };
        // With k1 = 0, all impacts are equal, whatever the frequency.
        let flat = BuildConfig { impacts: Some(Impacts::new(0.0, 0.0)), ..plain() };
        let quantized = BuildConfig { impacts: Some(Impacts::new(0.9, 0.4)), ..plain() };
        for (indexed, stored) in [
            ("b c", "b"),
            ("b c", "b c c"),
            ("b c", "b f"),
            ("b c", "b d"),
            ("b b c", "b c c"),
            ("b b c d", "b b b d"),
            ("b c", "b b"),
            ("b c", ""),
        ] {
            for (i, config) in [plain(), quantized.clone(), flat.clone()].iter().enumerate() {
                // Both texts have the same terms here, and thus the same count.
                if i == 2 && indexed == "b b c" {
                    continue;
                }
                let dir = tempfile::tempdir().unwrap();
                let snapshot = forged(dir.path(), &line(indexed), &line(stored), config);
                let (by_store, walked) = both(&snapshot, &[0]);
                assert_eq!(by_store, None, "{indexed}, {stored}, {i}");
                assert!(!walked.is_empty());
                assert!(both(&snapshot, &[1]).0.is_some());
                assert_eq!(both(&snapshot, &[0, 1]).0, None);
            }
        }
    }

    #[test]
    fn without_documents_nothing_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let config = BuildConfig { store: StoreMode::Ids, ..config() };
        let snapshot = build(dir.path(), "{\"id\":1,\"text\":\"b c\"}", &config);
        let (by_store, walked) = both(&snapshot, &[0]);
        assert_eq!((by_store, walked.len()), (None, 2));
    }
}

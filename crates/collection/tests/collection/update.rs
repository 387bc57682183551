//! A collection after additions and deletions answers as one index does after the same changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpseek::index::IndexError;
use warpseek::options::OnError;
use warpseek::plan::CollectionStatistics;
use warpseek::query::Query;
use warpseek::{Error, Index, IndexOptions, Progress, QueryInput, Request, Schema, Searcher};
use warpseek_collection::{Collection, CollectionError, Update, UpdateOptions, VersionState};

use crate::{Space, lines};

/// Terms of the documents, as the analyzer produces them, and one that no document has.
const TERMS: [&str; 8] = ["appl", "pear", "plum", "fig", "quinc", "cherri", "peach", "kiwi"];

fn options() -> IndexOptions {
    IndexOptions::new().threads(2)
}

/// Creates a document whose text depends on its number and on the time of writing.
fn line(number: usize, when: usize) -> String {
    let words = ["apple", "pear", "plum", "fig", "quince", "cherry", "peach"];
    let word = |i: usize| words[(number * 3 + when + i * i * (1 + when % 3)) % words.len()];
    let text: Vec<&str> = (0..2 + (number + when) % 9).map(word).collect();
    format!("{{\"id\": \"d{number}\", \"text\": \"{}\"}}\n", text.join(" "))
}

impl Space {
    fn one(&self) -> Index {
        Index::at_with(self.path("one"), options())
    }

    fn add(&self, lines: &[String]) -> Update {
        let inputs = [self.write("new.jsonl", lines)];
        let how = UpdateOptions::new(self.cache());
        self.collection().add(&inputs, &options(), &how, &Progress::default()).unwrap()
    }

    fn delete(&self, ids: &[String]) -> Update {
        let how = UpdateOptions::new(self.cache());
        let collection = self.collection();
        collection.delete(ids, false, &options(), &how, &Progress::default()).unwrap()
    }

    /// Fetches and checks the shards of the current version, and returns them with their bases.
    fn shards(&self) -> Vec<(u64, PathBuf)> {
        let (collection, cache) = (self.collection(), self.path("elsewhere"));
        let version = collection.current().unwrap();
        let manifest = collection.manifest(version).unwrap();
        let mut shards = Vec::new();
        for entry in &manifest.shards {
            let folder = collection.fetch_shard(version, entry.shard, &cache).unwrap();
            let index = Index::open(&folder).unwrap();
            assert!(index.verify(&Progress::default()).unwrap().problems.is_empty());
            let snapshot = index.snapshot().unwrap();
            assert_eq!(entry.documents, u64::from(snapshot.doc_limit()));
            assert_eq!(entry.live(), snapshot.statistics().documents);
            shards.push((entry.base, folder));
        }
        shards
    }
}

/// Returns the ids and score bits of all hits in their order.
type Hits = Vec<(String, u64)>;

fn ask(searchers: &[(u64, Searcher)], terms: &[&str]) -> Hits {
    let query = Query::of(terms.iter().map(|term| (*term, 1.0)).collect::<Vec<_>>());
    let mut all: Option<CollectionStatistics> = None;
    for (_, searcher) in searchers {
        let own = CollectionStatistics::of(&searcher.snapshot());
        match &mut all {
            Some(all) => all.add_fields(&own.fields).unwrap(),
            None => all = Some(own),
        }
    }
    let mut all = all.unwrap();
    for (_, searcher) in searchers {
        for term in terms {
            let documents = searcher.snapshot().document_frequency(term.as_bytes()).unwrap();
            all.add_term(0, term, documents).unwrap();
        }
    }
    let request = Request::new(QueryInput::Terms(query)).k(10_000).of_collection(Arc::new(all));
    let mut hits = Vec::new();
    for (base, searcher) in searchers {
        let response = searcher.search(&request).unwrap();
        for (rank, hit) in response.hits().iter().enumerate() {
            let id = response.id(rank).unwrap();
            let document = base + u64::from(hit.doc);
            hits.push((hit.score, document, id, response.score(rank).to_bits()));
        }
    }
    hits.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    hits.into_iter().map(|(_, _, id, score)| (id, score)).collect()
}

/// Compares the collection with the one index, and with an index of its documents in the order of
/// the shards.
fn compare(space: &Space) {
    let shards = space.shards();
    let mut documents = Vec::new();
    for (_, folder) in &shards {
        let snapshot = Index::open(folder).unwrap().snapshot().unwrap();
        for doc in 0..snapshot.doc_limit() {
            let id = snapshot.external_id(doc).unwrap();
            if snapshot.find_id(&id).unwrap() == Some(doc) {
                let json = snapshot.document(doc).unwrap().unwrap();
                documents.push(String::from_utf8(json).unwrap() + "\n");
            }
        }
    }
    let inputs = [space.write("same.jsonl", &documents)];
    let same = options().overwrite(true);
    let (same, _) = Index::build(space.path("same"), &inputs, &same, &Progress::default()).unwrap();
    let searcher = |index: &Index| vec![(0, index.searcher().unwrap())];
    let (same, one) = (searcher(&same), searcher(&space.one()));
    let open =
        |(base, folder): &(u64, PathBuf)| (*base, Index::open(folder).unwrap().searcher().unwrap());
    let shards: Vec<(u64, Searcher)> = shards.iter().map(open).collect();
    let mut found = 0;
    for (i, a) in TERMS.iter().enumerate() {
        for b in &TERMS[i..] {
            let terms = if a == b { vec![*a] } else { vec![*a, *b] };
            let hits = ask(&shards, &terms);
            found += hits.len();
            assert_eq!(hits, ask(&same, &terms), "{terms:?}");
            // Documents with equal scores are in another order where one was replaced.
            let sorted = |hits: Hits| hits.into_iter().collect::<BTreeSet<_>>();
            assert_eq!(sorted(hits), sorted(ask(&one, &terms)), "{terms:?}");
        }
    }
    assert!(found > 0 || documents.is_empty());
}

#[test]
fn changes_are_those_of_one_index() {
    let space = Space::new();
    let first: Vec<String> = (0..60).map(|i| line(i, 0)).collect();
    for shards in [1, 3, 4] {
        space.build(&first, shards);
        let inputs = [space.path("docs.jsonl")];
        let fresh = options().overwrite(true);
        Index::build(space.path("one"), &inputs, &fresh, &Progress::default()).unwrap();
        compare(&space);
        for step in 1..14 {
            if step % 3 == 0 {
                let ids: Vec<String> =
                    (0..9).map(|i| format!("d{}", (i * 17 + step * 13) % 150)).collect();
                let done = space.delete(&ids);
                let one = space.one().delete(&ids, &Progress::default()).unwrap();
                assert_eq!(done.deleted, one, "step {step}");
            } else {
                let new: Vec<String> =
                    (0..step * 2).map(|i| line((i * 7 + step * 31) % 150, step)).collect();
                let done = space.add(&new);
                let inputs = [space.path("new.jsonl")];
                let one = space.one().add_files(&inputs, &Progress::default()).unwrap();
                assert_eq!(
                    (done.added.documents, done.added.replaced),
                    (one.documents, one.replaced)
                );
                assert_eq!(done.made.unwrap().version, space.collection().current().unwrap());
            }
            compare(&space);
        }
        let manifest = space.collection().manifest(space.collection().current().unwrap()).unwrap();
        let live = space.one().snapshot().unwrap().statistics().documents;
        assert_eq!(manifest.live(), live);
        for (_, folder) in space.shards() {
            let segments = Index::open(folder).unwrap().manifest().unwrap().segments;
            assert!(segments.len() <= 8, "shards are merged");
        }
    }
}

#[test]
fn only_shards_that_change_are_made_anew() {
    let space = Space::new();
    let first = space.build(&lines(120), 4);
    let collection = space.collection();
    let before = collection.manifest(first).unwrap();
    // d119 is in the last shard.
    let done = space.delete(&["d119".to_owned(), "nobody".to_owned()]);
    assert_eq!((done.of, &done.changed[..]), (first, &[3][..]));
    assert_eq!((done.deleted.deleted, &done.deleted.missing[..]), (1, &["nobody".to_owned()][..]));
    let after = done.made.unwrap();
    assert_eq!((after.documents, after.live()), (120, 119));
    assert_eq!(after.shards[..3], before.shards[..3]);
    // Of the shard that changed, only deletions and the manifest are new.
    let files = |shard: usize| {
        let others = |name: &str| before.shards[shard].files.iter().all(|file| file.name != name);
        let new = after.shards[shard].files.iter().filter(|file| others(&file.name));
        new.map(|file| file.name.clone()).collect::<Vec<_>>()
    };
    let new = files(3);
    assert!(new.len() == 1 && new[0].ends_with(".2.del"), "{new:?}");
    // A version does not need any other.
    collection.remove(first).unwrap();
    let elsewhere = space.path("third");
    for shard in 0..4 {
        collection.fetch_shard(after.version, shard, &elsewhere).unwrap();
    }
    // New documents go to the smallest shard, and the bases of the shards after it change.
    let smallest = (0..4).min_by_key(|&i| (after.shards[i].live(), i)).unwrap();
    let done = space.add(&[line(500, 1), line(501, 1)]);
    assert_eq!(done.changed, [smallest as u32]);
    let made = done.made.unwrap();
    let mut next = 0;
    for (old, new) in after.shards.iter().zip(&made.shards) {
        assert_eq!(new.base, next);
        next += new.documents;
        let more = if new.shard == smallest as u32 { 2 } else { 0 };
        assert_eq!(new.documents, old.documents + more);
    }
}

#[test]
fn nothing_to_change_makes_no_version() {
    let space = Space::new();
    space.build(&lines(10), 2);
    let done = space.delete(&["nobody".to_owned()]);
    assert!(done.made.is_none() && done.changed.is_empty());
    assert_eq!(done.deleted.missing, ["nobody"]);
    assert!(space.add(&[]).made.is_none());
    let collection = space.collection();
    assert_eq!(collection.versions().unwrap().len(), 1);
    let (how, progress) = (UpdateOptions::new(space.cache()), Progress::default());
    let ids = ["d1".to_owned(), "nobody".to_owned()];
    let error = collection.delete(&ids, true, &options(), &how, &progress).unwrap_err();
    assert!(matches!(&error, CollectionError::NoDocument { id } if id == "nobody"), "{error}");
    assert_eq!(collection.versions().unwrap().len(), 1);
    let other = Collection::open(space.path("store").to_str().unwrap(), "other").unwrap();
    let error = other.delete(&ids, false, &options(), &how, &progress).unwrap_err();
    assert!(matches!(error, CollectionError::NoCollection { .. }), "{error}");
}

#[test]
fn all_documents_can_be_deleted_and_others_added() {
    let space = Space::new();
    space.build(&lines(12), 3);
    let done = space.delete(&(0..12).map(|i| format!("d{i}")).collect::<Vec<_>>());
    assert_eq!((done.deleted.deleted, done.made.unwrap().live()), (12, 0));
    assert_eq!(space.collection().versions().unwrap()[1].documents, 0);
    let new: Vec<String> = (20..29).map(|i| line(i, 1)).collect();
    assert_eq!(space.add(&new).made.unwrap().live(), 9);
    let all = options().overwrite(true);
    let inputs = [space.write("all.jsonl", &new)];
    Index::build(space.path("one"), &inputs, &all, &Progress::default()).unwrap();
    compare(&space);
}

#[test]
fn inputs_are_refused_as_one_index_refuses_them() {
    let space = Space::new();
    space.build(&lines(20), 2);
    let inputs = [space.path("docs.jsonl")];
    Index::build(space.path("one"), &inputs, &options(), &Progress::default()).unwrap();
    let bad = [
        "{broken\n".to_owned(),
        line(30, 1),
        line(30, 2),
        "{\"id\": \"v\", \"vector\": {\"fig\": 1.5}}\n".to_owned(),
        line(3, 9),
        "{\"text\": \"no id\"}\n".to_owned(),
    ];
    let (how, progress) = (UpdateOptions::new(space.cache()), Progress::default());
    let add = |name: &str, lines: &[String], options: &IndexOptions| {
        let inputs = [space.write(name, lines)];
        let one = Index::at_with(space.path("one"), options.clone());
        let one = one.add_files(&inputs, &progress);
        (space.collection().add(&inputs, options, &how, &progress), one)
    };
    for lines in [&bad[..1], &bad[1..3], &bad[3..4], &bad[4..]] {
        let (found, one) = add("bad.jsonl", lines, &options());
        assert_eq!(found.unwrap_err().to_string(), one.unwrap_err().to_string());
    }
    assert_eq!(space.collection().versions().unwrap().len(), 1, "nothing was begun");
    let (found, one) = add("bad.jsonl", &bad, &options().on_error(OnError::Skip));
    let (found, one) = (found.unwrap(), one.unwrap());
    assert_eq!((found.added.documents, found.added.replaced), (one.documents, one.replaced));
    assert_eq!((found.added.skipped, found.added.reasons), (4, one.reasons));
    compare(&space);
    let error = space.collection().add(&["-".into()], &options(), &how, &progress).unwrap_err();
    assert!(matches!(error, CollectionError::ReadOnce { .. }), "{error}");
}

#[test]
fn fields_can_be_added_to_all_shards() {
    let space = Space::new();
    let schema = |fields: &str| Schema::parse(&format!("{{\"text\": [{fields}]}}")).unwrap();
    let (small, large) = (r#"{"name": "text"}"#, r#"{"name": "text"}, {"name": "title"}"#);
    let inputs = [space.write("docs.jsonl", &lines(30))];
    let (collection, progress) = (space.collection(), Progress::default());
    let with_schema = options().schema(schema(small));
    let (version, cut, _) = collection.cut(&inputs, 3, &with_schema, &progress).unwrap();
    for shard in (0..).take(cut.shards.len()) {
        let scratch = space.path(&format!("shard{shard}"));
        collection.build_shard(version, shard, &inputs, &with_schema, &scratch, &progress).unwrap();
    }
    collection.publish(version).unwrap();
    collection.activate(version).unwrap();
    let how = UpdateOptions::new(space.cache());
    let new = [space.write("new.jsonl", &[line(90, 1)])];
    // The schema of the collection changes only one shard, a larger one changes all.
    let done = collection.add(&new, &with_schema, &how, &progress).unwrap();
    assert_eq!(done.changed.len(), 1);
    let larger = options().schema(schema(large));
    let done = collection.add(&new, &larger, &how, &progress).unwrap();
    assert_eq!((done.changed.len(), done.added.replaced), (3, 1));
    for (_, folder) in space.shards() {
        assert_eq!(Index::open(folder).unwrap().snapshot().unwrap().text_fields(), 2);
    }
    let error = collection.add(&new, &with_schema, &how, &progress).unwrap_err();
    assert!(matches!(error, CollectionError::Index(_)), "{error}");
}

#[test]
fn a_version_can_be_made_without_being_activated() {
    let space = Space::new();
    space.build(&lines(10), 2);
    let how = UpdateOptions { activate: false, ..UpdateOptions::new(space.cache()) };
    let (collection, progress) = (space.collection(), Progress::default());
    let ids = ["d3".to_owned()];
    let done = collection.delete(&ids, false, &options(), &how, &progress).unwrap();
    assert_eq!((collection.current().unwrap(), done.made.unwrap().version), (1, 2));
    assert_eq!(collection.versions().unwrap()[1].state, VersionState::Ready);
    collection.activate(2).unwrap();
    assert_eq!(collection.versions().unwrap()[1].documents, 9);
}

#[test]
fn whoever_is_second_is_told_and_changes_nothing() {
    let space = Space::new();
    space.build(&lines(20), 2);
    let pointer = space.path("store/fruit/current.json");
    // Switching the version of a store that is a folder requires this lock, so the change waits
    // here.
    let lock = fs::File::create(space.path("store/fruit/current.lock")).unwrap();
    lock.lock().unwrap();
    let error = std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let inputs = [space.write("new.jsonl", &[line(70, 1)])];
            let how = UpdateOptions::new(space.cache());
            space.collection().add(&inputs, &options(), &how, &Progress::default())
        });
        while !space.path("store/fruit/versions/00000002/manifest.json").exists() {
            assert!(!adding.is_finished(), "it did not wait");
            std::thread::yield_now();
        }
        fs::write(&pointer, "{\"format\": 1, \"version\": 1, \"previous\": 1}").unwrap();
        lock.unlock().unwrap();
        adding.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, CollectionError::Overtaken { version: 1, .. }), "{error}");
    let versions = space.collection().versions().unwrap();
    assert_eq!(versions.len(), 1, "what lacks the other change is not left to be activated");
    assert_eq!(space.add(&[line(70, 1)]).made.unwrap().live(), 21);
}

#[test]
fn changes_at_the_same_time_are_made_or_refused() {
    let space = Space::new();
    space.build(&lines(20), 2);
    let (made, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (space, made, refused) = (&space, &made, &refused);
            scope.spawn(move || {
                // Changes with the same cache wait for each other; this test is about different
                // caches.
                let how = UpdateOptions::new(space.path(&format!("cache{writer}")));
                for step in 0..4 {
                    let name = format!("new{writer}.jsonl");
                    let inputs = [space.write(&name, &[line(100 + writer * 10 + step, 1)])];
                    let progress = Progress::default();
                    match space.collection().add(&inputs, &options(), &how, &progress) {
                        Ok(_) => made.fetch_add(1, Ordering::Relaxed),
                        Err(CollectionError::Overtaken { .. }) => {
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
    });
    let (made, refused) = (made.into_inner(), refused.into_inner());
    println!("{made} were made, {refused} were refused");
    assert!(made >= 4, "one of those at the same time is always made");
    let collection = space.collection();
    let manifest = collection.manifest(collection.current().unwrap()).unwrap();
    assert_eq!(manifest.live(), 20 + made as u64);
    assert_eq!(collection.versions().unwrap().len(), 1 + made);
}

#[test]
fn a_change_that_is_cancelled_or_was_killed_leaves_nothing() {
    let space = Space::new();
    space.build(&lines(20), 2);
    let (collection, progress) = (space.collection(), Progress::default());
    let how = UpdateOptions::new(space.cache());
    // Files of a change that was killed.
    let work = space.cache().join("fruit/update");
    fs::create_dir_all(work.join("00000")).unwrap();
    fs::write(work.join("00000/manifest"), "left over").unwrap();
    let ids = ["d3".to_owned()];
    collection.delete(&ids, false, &options(), &how, &progress).unwrap();
    assert!(!work.exists());
    progress.cancel();
    let error = collection.delete(&["d4".to_owned()], false, &options(), &how, &progress);
    let error = error.unwrap_err();
    assert!(
        matches!(error, CollectionError::Index(Error::Index(IndexError::Cancelled))),
        "{error}"
    );
    assert_eq!(collection.versions().unwrap().len(), 2);
    assert!(!work.exists());
}

#[test]
fn files_that_two_versions_share_are_fetched_once() {
    let space = Space::new();
    let first = space.build(&lines(60), 2);
    let collection = space.collection();
    let cache = space.path("node");
    for shard in 0..2 {
        collection.fetch_shard(first, shard, &cache).unwrap();
    }
    let made = space.delete(&["d59".to_owned()]).made.unwrap();
    // The store may have lost what only the first version has.
    let ids = |shard: usize| {
        let mut files = made.shards[shard].files.iter().map(|file| file.name.as_str());
        files.find(|name| name.ends_with(".ids")).unwrap()
    };
    for (shard, name) in [(0, "manifest"), (0, ids(0)), (1, ids(1))] {
        fs::remove_file(space.object(made.version, shard, name)).unwrap();
    }
    for shard in 0..2 {
        let folder = collection.fetch_shard(made.version, shard, &cache).unwrap();
        let report = Index::open(&folder).unwrap().verify(&Progress::default()).unwrap();
        assert!(report.problems.is_empty());
    }
    let other = collection.fetch_shard(made.version, 0, &space.path("other"));
    assert!(matches!(other, Err(CollectionError::Missing { .. })));
    // A damaged file is not reused.
    let kept = cache.join("fruit/00000001/00000").join(ids(0));
    let mut bytes = fs::read(&kept).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::remove_file(&kept).unwrap();
    fs::write(&kept, bytes).unwrap();
    fs::remove_dir_all(cache.join("fruit/00000002")).unwrap();
    let damaged = collection.fetch_shard(made.version, 0, &cache);
    assert!(matches!(damaged, Err(CollectionError::Missing { .. })));
}

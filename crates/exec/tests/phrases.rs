//! The meaning of phrases, on documents that can be checked by hand and on random documents,
//! whose text alone determines the matches.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use warpseek_exec::query::{Bool, Node, Operator, Phrase, Words, parse};
use warpseek_exec::{
    Cancel, Context, Engine, ExecError, Limit, Plan, Planner, Ranking, Reference, explain,
};
use warpseek_index::{BuildConfig, FilterCache, Snapshot, add, create, verify};
use warpseek_testkit::phrases::{PhraseCase, phrase_cases};
use warpseek_testkit::{Doc, Fixture, Random, build_config};
use warpseek_text::Schema;

fn plan(snapshot: &Arc<Snapshot>, tree: &Node) -> Result<Plan, ExecError> {
    let planner = Planner::new(snapshot.clone(), Ranking::suited(snapshot.manifest()))?;
    planner.plan_tree(tree, None, None, usize::MAX, &FilterCache::new(0))
}

/// Returns ids and scores in units, by id. Explanations must agree with them.
fn hits(snapshot: &Arc<Snapshot>, plan: &Plan) -> Vec<(String, u32)> {
    let answer = Reference::new(snapshot.clone()).search(&[plan], &Context::new(1)).remove(0);
    let mut hits: Vec<(String, u32)> = Vec::new();
    for hit in answer.unwrap().hits {
        assert_eq!(explain(snapshot, plan, hit.doc).unwrap().score, hit.score);
        hits.push((snapshot.external_id(hit.doc).unwrap(), hit.score));
    }
    hits.sort_unstable();
    hits
}

fn ids(snapshot: &Arc<Snapshot>, tree: &Node) -> String {
    let hits = hits(snapshot, &plan(snapshot, tree).unwrap());
    hits.into_iter().map(|(id, _)| id).collect::<Vec<_>>().concat()
}

fn with_positions() -> BuildConfig {
    BuildConfig { positions: true, ..build_config() }
}

fn fixture() -> Fixture {
    let texts = [
        "new york is large",
        "york new",
        "new and old york",
        "the city of new york city",
        "new york new york",
        "new",
        "old city",
    ];
    let docs: Vec<Doc> = texts.iter().enumerate().map(|(i, text)| Doc::text(i, *text)).collect();
    let fixture = Fixture::with(&docs[..3], with_positions());
    fixture.add(&docs[3..]).unwrap();
    fixture.add(&[Doc::text("gone", "new york")]).unwrap();
    fixture.delete(&["gone".to_owned()]).unwrap();
    // The title ends where the text begins, with a gap between them.
    let title = Doc { title: "big new".into(), ..Doc::text(7, "york") };
    fixture.add(&[title]).unwrap();
    fixture
}

#[test]
fn planning_a_phrase_stops_or_finds_all() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let planner = Planner::new(snapshot.clone(), Ranking::suited(snapshot.manifest())).unwrap();
    let tree = parse(r#""new york new"~3 OR -"old city""#, None, Operator::Or).unwrap();
    let want = planner.matching(&tree, &FilterCache::new(0)).unwrap();
    let mut finished = false;
    for looks in 0..200 {
        let limit = Limit::none().cancelled_by(Cancel::after(looks));
        match planner.limited(&limit).matching(&tree, &FilterCache::new(0)) {
            Ok(found) => {
                assert_eq!(found, want);
                finished = true;
            }
            Err(error) => assert!(matches!(error, ExecError::Stopped) && !finished, "{error}"),
        }
    }
    assert!(finished);
}

#[test]
fn what_matches() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    for (query, want) in [
        (r#""new york""#, "034"),
        (r#""york new""#, "14"),
        (r#""new york"~1"#, "034"),
        // Two words are in between, one of them a stop word.
        (r#""new york"~2"#, "01234"),
        // The words change places.
        (r#""york new"~2"#, "0134"),
        (r#""new york new""#, "4"),
        (r#""new york new york""#, "4"),
        // One occurrence does not count for two words.
        (r#""new york new york"~3"#, "4"),
        (r#""new new"~9"#, "4"),
        // A stop word keeps its place, also at the ends.
        (r#""city of new""#, "3"),
        (r#""city new""#, ""),
        (r#""city the new""#, "3"),
        (r#""the city""#, "36"),
        (r#""large the""#, "0"),
        (r#""the of""#, ""),
        // A phrase of one word is a word.
        (r#""city""#, "36"),
        (r#""big new""#, "7"),
        (r#""new york"~99"#, "01234"),
        (r#""new york"~100"#, "012347"),
        (r#""new absent""#, ""),
        (r#"+"new york" -city"#, "04"),
        (r#"new -"new york""#, "1257"),
        (r#""new york" "old city""#, "0346"),
        (r#"+"new york" +"york new""#, "4"),
        (r#"+new +"york city""#, "3"),
        (r#"("new york")^2"#, "034"),
    ] {
        let tree = parse(query, None, Operator::Or).unwrap();
        assert_eq!(ids(&snapshot, &tree), want, "{query}");
    }
    assert!(verify(&fixture.dir(), &Default::default()).unwrap().problems.is_empty());
}

#[test]
fn scores_are_those_of_the_words() {
    let fixture = fixture();
    let snapshot = fixture.snapshot();
    let scores = |query: &str| {
        let plan = plan(&snapshot, &parse(query, None, Operator::Or).unwrap()).unwrap();
        hits(&snapshot, &plan)
            .into_iter()
            .map(|(id, score)| (id, plan.real(score)))
            .collect::<Vec<_>>()
    };
    let near = |phrase: &str, words: &str| {
        let words = scores(words);
        for (id, score) in scores(phrase) {
            let own = words.iter().find(|word| word.0 == id).unwrap();
            assert!((score - own.1).abs() < 1e-5 * score, "{phrase}, {id}");
        }
    };
    near(r#""new york""#, "new york");
    near(r#""new york"~2^3"#, "new^3 york^3");
    near(r#""new york new""#, "new^2 york");
    near(r#"city "new york""#, "city new york");
}

/// Tests phrases without terms, which match nothing unless they are in a query string, which
/// ignores them.
#[test]
fn phrases_without_terms() {
    let schema = r#"{"text": [{"name": "text", "positions": true}]}"#;
    let mut config = build_config();
    config.reader.schema = Some(Arc::new(Schema::parse(schema).unwrap()));
    let fixture = Fixture::with(&[Doc::text(0, "new york"), Doc::text(1, "york")], config);
    let snapshot = fixture.snapshot();
    for text in ["", "?? !"] {
        let empty = || vec![Node::Phrase(Phrase::exact([], text))];
        let york = || vec![Node::Words(Words::any([], "york"))];
        let found = |query: Bool| ids(&snapshot, &Node::Bool(query));
        assert_eq!(found(Bool { must: york(), filter: empty(), ..Bool::default() }), "");
        assert_eq!(found(Bool { must: york(), must_not: empty(), ..Bool::default() }), "01");
        let skips = Bool { must: york(), filter: empty(), skip_empty: true, ..Bool::default() };
        assert_eq!(found(skips), "01");
    }
}

#[test]
fn indexes_without_positions_say_what_to_do() {
    let snapshot = Fixture::of(&[Doc::text(0, "new york")]).snapshot();
    let tree = |text: &str| Node::Phrase(Phrase::exact([], text));
    let error = plan(&snapshot, &tree("new york")).unwrap_err();
    assert!(matches!(&error, ExecError::NoPositions), "{error}");
    assert!(error.to_string().contains("--positions"), "{error}");
    // A phrase of one word fails as well, because the number of words depends on the analyzer.
    assert!(plan(&snapshot, &tree("new")).is_err());
    let schema =
        r#"{"text": [{"name": "title"}, {"name": "body", "source": "text", "positions": true}]}"#;
    let schema = Arc::new(Schema::parse(schema).unwrap());
    let mut config = build_config();
    config.reader.schema = Some(schema.clone());
    let doc =
        |id: usize, title: &str, text: &str| Doc { title: title.into(), ..Doc::text(id, text) };
    let fixture =
        Fixture::with(&[doc(0, "new york", "york new"), doc(1, "x", "a new york")], config);
    let snapshot = fixture.snapshot();
    assert_eq!(ids(&snapshot, &tree("new york")), "1");
    let phrase = |field: &str| Node::Phrase(Phrase::exact([field.to_owned()], "new york"));
    assert_eq!(ids(&snapshot, &phrase("body")), "1");
    let error = plan(&snapshot, &phrase("title")).unwrap_err();
    assert!(matches!(&error, ExecError::NoPositionsOf { name } if name == "title"), "{error}");
    let error = parse(r#"x title:"new york""#, Some(&schema), Operator::Or).unwrap_err();
    assert_eq!(error.column, 9);
    assert!(error.to_string().contains("`title` has no positions"), "{error}");
    assert!(parse(r#"x body:"new york""#, Some(&schema), Operator::Or).is_ok());
    assert!(parse(r#"title:x "new york""#, Some(&schema), Operator::Or).is_ok());
}

#[test]
fn several_values_are_apart() {
    let schema = r#"{"text": [{"name": "text", "positions": true}]}"#;
    let mut config = build_config();
    config.reader.schema = Some(Arc::new(Schema::parse(schema).unwrap()));
    let fixture = Fixture::empty(config.clone());
    let index = fixture.dir();
    let input = index.with_file_name("input.jsonl");
    let lines = [
        r#"{"id": "0", "text": ["a new", "york"]}"#,
        r#"{"id": "1", "text": ["", "new york", ""]}"#,
    ];
    std::fs::write(&input, lines[0]).unwrap();
    create(&index, std::slice::from_ref(&input), &config, false, &Default::default()).unwrap();
    std::fs::write(&input, lines[1]).unwrap();
    add(&index, &[input], &build_config(), &Default::default()).unwrap();
    let snapshot = Arc::new(Snapshot::open(&index).unwrap());
    let phrase = |slop| Node::Phrase(Phrase { slop, ..Phrase::exact([], "new york") });
    assert_eq!(ids(&snapshot, &phrase(0)), "1");
    assert_eq!(ids(&snapshot, &phrase(99)), "1");
    assert_eq!(ids(&snapshot, &phrase(100)), "01");
}

/// Returns the positions of the words of a document; title and text are a hundred positions
/// apart.
fn places(doc: &Doc) -> Vec<(&str, i64)> {
    let mut places = Vec::new();
    let mut next = 0;
    for text in [&doc.title, &doc.text] {
        next += if next > 0 { 100 } else { 0 };
        for word in text.split_whitespace() {
            places.push((word, next));
            next += 1;
        }
    }
    places
}

/// Returns true if some occurrences of the words form the phrase, by trying all of them.
fn matches(
    words: &[(&str, i64)],
    slop: i64,
    places: &[(&str, i64)],
    chosen: &mut Vec<i64>,
) -> bool {
    let Some(&(word, _)) = words.get(chosen.len()) else {
        let moved = || words.iter().zip(&*chosen).map(|(word, place)| place - word.1);
        return moved().max().unwrap() - moved().min().unwrap() <= slop;
    };
    places.iter().any(|&(other, place)| {
        if other != word || chosen.contains(&place) {
            return false;
        }
        chosen.push(place);
        let found = matches(words, slop, places, chosen);
        chosen.pop();
        found
    })
}

fn check(case: PhraseCase) {
    let history = case.history();
    let fixture = Fixture::after_each(&history, |number| case.config(number));
    let (snapshot, live) = (fixture.snapshot(), history.live());
    let mut random = Random::new(case.case.case.seed);
    let names = case.names(1);
    for _ in 0..20 {
        let words: Vec<&String> =
            (0..2 + random.below(3)).map(|_| random.pick(&names.words)).collect();
        let (text, slop) =
            (words.iter().map(|w| w.as_str()).collect::<Vec<_>>().join(" "), random.below(4));
        let stop = |word: &&str| *word == "the";
        let places_of_words: Vec<(&str, i64)> =
            text.split_whitespace().zip(0..).filter(|(word, _)| !stop(word)).collect();
        let has = |doc: &&Doc| {
            let places = places(doc);
            !places_of_words.is_empty()
                && matches(&places_of_words, slop as i64, &places, &mut Vec::new())
        };
        let mut expected: Vec<String> = live.iter().filter(has).map(|doc| doc.id.clone()).collect();
        expected.sort_unstable();
        let phrase = Phrase { slop: slop as u32, ..Phrase::exact([], text.clone()) };
        let plan = plan(&snapshot, &Node::Phrase(phrase)).unwrap();
        let found: Vec<String> = hits(&snapshot, &plan).into_iter().map(|(id, _)| id).collect();
        assert_eq!(found, expected, "\"{text}\"~{slop}");
    }
    assert!(verify(&fixture.dir(), &Default::default()).unwrap().problems.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_text_says_what_matches(case in phrase_cases()) {
        check(PhraseCase { has_schema: false, ..case });
    }
}

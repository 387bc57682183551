//! The effects of a schema's text fields on scores, and the properties that they do not change.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use warpseek_exec::query::{Across, Node, Words, best_score};
use warpseek_exec::{
    ExecError, Mode, Planner, Query, QueryTerm, Ranking, RankingFunction, explain,
};
use warpseek_index::{BuildConfig, FilterCache};
use warpseek_testkit::fields::{field_cases, schema};
use warpseek_testkit::{
    Doc, Fixture, Oracle, Search, build_config, expected, external_hits, generator, plans,
};
use warpseek_text::Schema;

fn with_schema(schema: Arc<Schema>) -> BuildConfig {
    let mut config = build_config();
    config.reader.schema = Some(schema);
    config
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reference_equals_the_oracle_on_random_fields(case in field_cases()) {
        let case = warpseek_testkit::fields::FieldCase { growing: false, ..case };
        let history = case.history();
        let fixture = Fixture::after_each(&history, |number| case.config(number));
        let (snapshot, searches) = (fixture.snapshot(), case.searches(40));
        let oracle = Oracle::with_schema(&history.live(), &schema(case.fields));
        let plans = plans(&snapshot, &searches);
        let answers = expected(&snapshot, &plans);
        for ((search, plan), answer) in searches.iter().zip(&plans).zip(&answers) {
            oracle.check(&snapshot, search, plan, answer);
            for hit in answer.hits.iter().step_by(1 + answer.hits.len() / 3) {
                let explanation = explain(&snapshot, plan, hit.doc).unwrap();
                let parts: u32 = explanation.terms.iter().map(|term| term.score).sum();
                prop_assert_eq!(explanation.score, hit.score);
                prop_assert_eq!(explanation.static_score + parts, hit.score);
                prop_assert_eq!(explanation.fields.len(), case.fields);
            }
        }
    }

    /// Tests a field that every document has, so that its statistics are those of the index.
    #[test]
    fn one_field_scores_as_no_schema_does(case in generator::cases()) {
        let case = generator::Case { vectors: false, ..case };
        let text = |doc: &Doc| format!("{} {} always", doc.title, doc.text);
        let docs: Vec<Doc> =
            case.corpus().iter().map(|doc| Doc { title: String::new(), text: text(doc), ..doc.clone() }).collect();
        let only = Arc::new(Schema::parse(r#"{"text": [{"name": "body", "source": "text"}]}"#).unwrap());
        let (plain, fields) = (Fixture::of(&docs), Fixture::with(&docs, with_schema(only)));
        let (plain, fields) = (plain.snapshot(), fields.snapshot());
        let mut searches = case.searches(40);
        searches.retain(|search| search.ranking.function != RankingFunction::Cosine);
        let hits = |snapshot, searches: &[Search]| -> Vec<_> {
            let plans = plans(snapshot, searches);
            let answers = expected(snapshot, &plans);
            let pairs = plans.iter().zip(&answers);
            pairs.map(|(plan, answer)| external_hits(snapshot, plan, answer)).collect()
        };
        prop_assert_eq!(hits(&fields, &searches), hits(&plain, &searches));
        // The field has the default parameters.
        for search in &mut searches {
            search.ranking.function = Ranking::default().function;
        }
        let by_default = hits(&plain, &searches);
        for search in &mut searches {
            search.ranking.function = RankingFunction::Bm25ByField;
        }
        prop_assert_eq!(hits(&fields, &searches), by_default);
    }
}

#[test]
fn fields_have_statistics_and_parameters_of_their_own() {
    let doc = |i: usize| Doc {
        title: if i < 4 { "apple".to_owned() } else { String::new() },
        ..Doc::text(i, if i < 8 { "apple pie apple" } else { "tart" })
    };
    let docs: Vec<Doc> = (0..20).map(doc).collect();
    let snapshot = Fixture::with(&docs, with_schema(schema(2))).snapshot();
    let planner = Planner::suited(snapshot.clone()).unwrap();
    let query = Query::parse_fields("apples", snapshot.manifest().schema.as_ref().unwrap());
    // The title is not stemmed.
    let spelt: Vec<(u8, &str)> = query.terms.iter().map(|t| (t.field, &*t.term)).collect();
    assert_eq!(spelt, [(0, "apples"), (1, "appl")]);
    let query = Query::of_fields([(0, "apple", 1.0), (1, "appl", 1.0), (0, "nosuch", 1.0)]);
    let plan = planner.plan(&query, Mode::Or, 20).unwrap();
    let bm25 = |k1, b| RankingFunction::Bm25 { k1, b };
    // N is the number of documents that have the field.
    assert_eq!(plan.terms[0].idf, bm25(1.2, 0.75).idf(4, 4));
    assert_eq!(plan.terms[1].idf, bm25(0.9, 0.4).idf(20, 8));
    assert_eq!((plan.terms[0].df, plan.terms[1].df), (4, 8));
    assert_eq!(plan.missing, [(0, "nosuch".to_owned())]);
    assert_eq!(plan.unknown_words(), ["nosuch"]);
    let answer = expected(&snapshot, std::slice::from_ref(&plan)).remove(0);
    assert_eq!((answer.hits.len(), answer.matches), (8, Some(8)));
    let explanation = explain(&snapshot, &plan, answer.hits[0].doc).unwrap();
    let names: Vec<_> = explanation.fields.iter().map(|f| f.name.as_deref().unwrap()).collect();
    assert_eq!((names, explanation.norm), (vec!["title", "body"], None));
    let (title, body) = (&explanation.fields[0], &explanation.fields[1]);
    assert_eq!((title.length, title.mean_length), (1, 1.0));
    assert_eq!((body.length, body.mean_length), (3, (8.0 * 3.0 + 12.0) / 20.0));
    assert_eq!(explanation.terms.iter().map(|t| t.field).collect::<Vec<_>>(), [0, 1]);
    // The same term in two fields is two terms.
    let both = Query::of_fields([(0, "apple", 1.0), (1, "apple", 1.0), (0, "apple", 2.0)]);
    let plan = planner.plan(&both, Mode::And, 20).unwrap();
    assert_eq!((plan.terms.len(), plan.terms[0].query_weight), (1, 3.0));
    assert!(plan.lacks_terms() && plan.unknown_words().is_empty());
}

#[test]
fn what_does_not_suit_a_schema_is_refused() {
    let docs = [Doc::text(1, "apple")];
    let plain = Fixture::of(&docs).snapshot();
    let fields = Fixture::with(&docs, with_schema(schema(2))).snapshot();
    let ranking = |function| Ranking { function, static_weight: 0.0 };
    let by_field = ranking(RankingFunction::Bm25ByField);
    assert_eq!(Ranking::suited(fields.manifest()), by_field);
    assert!(matches!(Planner::new(plain, by_field), Err(ExecError::NoSchema)));
    let cosine = Planner::new(fields.clone(), ranking(RankingFunction::Cosine));
    assert!(matches!(cosine, Err(ExecError::NoNorms)));
    let planner = Planner::suited(fields).unwrap();
    let last = Query { terms: vec![QueryTerm { field: 1, term: "appl".into(), weight: 1.0 }] };
    assert_eq!(planner.plan(&last, Mode::Or, 1).unwrap().terms.len(), 1);
    let beyond = Query { terms: vec![QueryTerm { field: 2, term: "appl".into(), weight: 1.0 }] };
    let error = planner.plan(&beyond, Mode::Or, 1).unwrap_err();
    assert!(matches!(error, ExecError::Field { field: 2, last: 1, .. }), "{error}");
}

#[test]
fn a_word_in_several_fields_scores_as_the_tie_breaker_says() {
    let docs = [
        Doc { title: "apple".into(), ..Doc::text(0, "apple pie and apple tart") },
        Doc { title: "tart".into(), ..Doc::text(1, "apple") },
        Doc { title: "plum".into(), ..Doc::text(2, "plum") },
    ];
    let mut config = build_config();
    config.reader.schema = Some(schema(2));
    let fixture = Fixture::with(&docs, config);
    let snapshot = fixture.snapshot();
    let planner = Planner::suited(snapshot.clone()).unwrap();
    let plan_of = |across, text: &str| {
        let tree = Node::Words(Words { across, ..Words::any([], text) });
        planner.plan_tree(&tree, None, None, 10, &FilterCache::new(0))
    };
    for tie_breaker in [0.0, 0.25, 1.0] {
        let plan = plan_of(Across::Cross { tie_breaker }, "apple tart").unwrap();
        let doc = snapshot.find_id("0").unwrap().unwrap();
        let explanation = explain(&snapshot, &plan, doc).unwrap();
        let score = |name: &str| {
            let named = explanation.terms.iter().find(|term| explanation.name_of(term) == name);
            named.unwrap_or_else(|| panic!("{name}: {explanation:?}")).score
        };
        let (title, body) = (score("title:apple"), score("body:appl"));
        assert!(title > 0 && body > 0 && score("title:tart") == 0);
        let apple = best_score(title.max(body), title + body, (tie_breaker * 65_536.0) as u32);
        assert_eq!(explanation.score, apple + score("body:tart"));
        let answer = expected(&snapshot, std::slice::from_ref(&plan)).remove(0);
        let hit = answer.hits.iter().find(|hit| hit.doc == doc).unwrap();
        assert_eq!(hit.score, explanation.score);
        // A sum needs no tree, so every engine can answer it.
        assert_eq!(plan.needed_tree().is_none(), tie_breaker == 1.0);
    }
    for tie_breaker in [-0.1, 1.1, f64::NAN] {
        for across in [Across::Cross { tie_breaker }, Across::Best { tie_breaker }] {
            let refused = plan_of(across, "apple").unwrap_err();
            assert!(refused.to_string().contains("tie_breaker"), "{refused}");
        }
    }
}

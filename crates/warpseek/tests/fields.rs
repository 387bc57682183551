//! Searches in an index with a schema.
#![allow(clippy::unwrap_used)]

use warpseek::plan::ExecError;
use warpseek::query::Query;
use warpseek::{
    DeviceChoice, Document, Error, Index, IndexOptions, Mode, Request, Schema, SearcherOptions,
};

fn schema() -> Schema {
    let json = r#"{"text": [{"name": "title", "analyzer": "plain", "k1": 1.2, "b": 0.75}, {"name": "body", "source": "text"}]}"#;
    Schema::parse(json).unwrap()
}

fn index(folder: &tempfile::TempDir) -> Index {
    let index =
        Index::create_with(folder.path().join("index"), IndexOptions::new().schema(schema()))
            .unwrap();
    let mut writer = index.writer().unwrap();
    writer.add(Document::new("a", "Apples", "An apple a day keeps the doctor away.")).unwrap();
    writer.add(Document::new("b", "", "apples and pears")).unwrap();
    writer.add(Document::new("c", "Pears", "")).unwrap();
    writer.commit().unwrap();
    index
}

#[test]
fn words_are_searched_for_in_all_fields() {
    let folder = tempfile::tempdir().unwrap();
    // No query needs a GPU, and with `auto` the CPU answers.
    let options = SearcherOptions::new().threads(1).device(DeviceChoice::Cpu);
    let searcher = index(&folder).searcher_with(options).unwrap();
    let found = searcher.search(&Request::new("apples pears").count(true)).unwrap();
    assert_eq!(found.matches(), Some(3));
    let terms: Vec<(u8, &str)> = found.plan().terms.iter().map(|t| (t.field, &*t.term)).collect();
    assert_eq!(terms, [(0, "apples"), (1, "appl"), (0, "pears"), (1, "pear")]);
    let rank = (0..3).find(|&rank| found.id(rank).unwrap() == "a").unwrap();
    let explanation = found.explain(rank).unwrap();
    assert_eq!(explanation.score, found.hits()[rank].score);
    let lengths: Vec<_> =
        explanation.fields.iter().map(|f| (f.name.as_deref().unwrap(), f.length)).collect();
    assert_eq!(lengths, [("title", 1), ("body", 5)]);
    // Each snippet marks the words for its field: `day` is not in the query of the title.
    let snippets = found.snippets(rank, 80).unwrap();
    let shown: Vec<_> = snippets
        .iter()
        .map(|s| {
            (
                &*s.field,
                s.snippet.highlights.iter().map(|r| &s.snippet.text[r.clone()]).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(shown, [("title", vec!["Apples"]), ("body", vec!["apple"])]);
    // A field that the document lacks is not shown.
    let rank = (0..3).find(|&rank| found.id(rank).unwrap() == "b").unwrap();
    let names: Vec<String> =
        found.snippets(rank, 80).unwrap().into_iter().map(|s| s.field).collect();
    assert_eq!(names, ["body"]);
}

#[test]
fn all_words_in_all_fields_are_refused_but_terms_with_fields_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let searcher = index(&folder).searcher_with(SearcherOptions::new().threads(1)).unwrap();
    let error = searcher.search(&Request::new("apples pears").mode(Mode::And)).err().unwrap();
    assert!(matches!(error, Error::Query(ExecError::WordsOfFields(Mode::And))), "{error}");
    let query = Query::of_fields([(0, "apples", 1.0), (1, "appl", 1.0)]);
    let found = searcher.search(&Request::new(query).mode(Mode::And)).unwrap();
    assert_eq!((found.hits().len(), found.id(0).unwrap()), (1, "a".to_owned()));
}

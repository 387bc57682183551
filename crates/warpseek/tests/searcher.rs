//! Guarantees of a searcher beyond its hits: errors that affect one query only, time limits,
//! rankings of requests, and conflicting options.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tempfile::TempDir;
use warpseek::options::{Algorithm, CpuAlgorithm, OptionsError};
use warpseek::plan::ExecError;
use warpseek::query::{Cancel, Query};
use warpseek::research::Tuning;
use warpseek::response::Coverage;
use warpseek::{
    DeviceChoice, Document, Error, Index, IndexOptions, Mode, Progress, Ranking, RankingFunction,
    Request, SearcherOptions,
};

fn index() -> (TempDir, Index) {
    let folder = tempfile::tempdir().unwrap();
    let text = |i: usize| format!("all {} n{}", ["even", "odd"][i % 2], i % 97);
    let documents = (0..3000).map(move |i| Document::new(format!("d{i}"), "", text(i)));
    let (index, _) = Index::build_from_documents(
        folder.path().join("index"),
        documents,
        &IndexOptions::new(),
        &Progress::default(),
    )
    .unwrap();
    (folder, index)
}

#[test]
fn one_bad_query_fails_alone() {
    let (_folder, index) = index();
    let searcher = index.searcher().unwrap();
    let requests = [
        Request::new("odd n5"),
        Request::new("odd^-1"),
        Request::new(Query::of((0..70_000).map(|i| (format!("t{i}"), 1.0)))),
        Request::new(""),
    ];
    let responses = searcher.search_batch(&requests);
    let hits = |i: usize| responses[i].as_ref().unwrap().hits().len();
    assert_eq!((hits(0), hits(3)), (10, 0));
    let error = |i: usize| responses[i].as_ref().err().unwrap();
    assert!(matches!(error(1), Error::Query(ExecError::Weight { .. })), "{}", error(1));
    assert!(matches!(error(2), Error::Query(ExecError::TooManyTerms(70_000))), "{}", error(2));
    let arrays = searcher.search_arrays(&requests);
    assert_eq!((arrays.errors.len(), arrays.offsets), (2, vec![0, 10, 10, 10, 10]));
}

#[test]
fn requests_have_their_own_limits_and_rankings() {
    let (_folder, index) = index();
    let searcher = index.searcher().unwrap();
    let cancelled = Cancel::new();
    cancelled.set();
    let cosine = Ranking { function: RankingFunction::Cosine, static_weight: 0.0 };
    let requests = [
        Request::new("all even").k(5),
        Request::new("all even").k(5).deadline(Duration::ZERO).count(true),
        Request::new("all even").k(5).cancelled_by(cancelled),
        Request::new("all even").k(5).ranking(cosine),
        Request::new("all even").k(5).deadline(Duration::from_secs(3600)),
    ];
    let responses: Vec<_> =
        searcher.search_batch(&requests).into_iter().map(Result::unwrap).collect();
    let complete: Vec<bool> = responses.iter().map(|r| r.coverage().is_complete()).collect();
    assert_eq!(complete, [true, false, false, true, true]);
    assert_eq!(responses[1].coverage(), &Coverage::NOTHING);
    assert_eq!((responses[1].matches(), responses[1].documents_searched()), (Some(0), (0, 3000)));
    assert_eq!(responses[0].hits(), responses[4].hits());
    assert_ne!(responses[0].score(0), responses[3].score(0));
    assert_eq!(searcher.search_arrays(&requests).partial, [1, 2]);
    let other = index.searcher_with(SearcherOptions::new().ranking(cosine)).unwrap();
    assert_eq!(other.search(&requests[0]).unwrap().hits(), responses[3].hits());
}

#[test]
fn repeats_in_a_batch_are_answered_as_if_each_were_alone() {
    let (_folder, index) = index();
    let searcher = index.searcher().unwrap();
    let words = || Request::new("even n5").k(4);
    let cosine = Ranking { function: RankingFunction::Cosine, static_weight: 0.0 };
    let requests = [
        words(),
        words().count(true),
        words().k(3),
        words(),
        Request::new("even^-1"),
        words().mode(Mode::And),
        Request::new("n5 even").k(4),
        words().ranking(cosine),
        words().count(true),
        words().deadline(Duration::ZERO),
        Request::new("odd n7"),
        words().deadline(Duration::from_secs(3600)),
        words().mode(Mode::And),
        words().k(3),
    ];
    let together = searcher.search_batch(&requests);
    for (i, (request, response)) in requests.iter().zip(&together).enumerate() {
        match (response, searcher.search(request)) {
            (Ok(of_batch), Ok(alone)) => {
                assert_eq!(of_batch.hits(), alone.hits(), "{i}");
                assert_eq!(of_batch.matches(), alone.matches(), "{i}");
                assert_eq!(of_batch.coverage(), alone.coverage(), "{i}");
            }
            (of_batch, alone) => assert!(of_batch.is_err() && alone.is_err(), "{i}"),
        }
    }
    let plans = [0, 10, 0, 5, 10].map(|i| searcher.plan(&requests[i]).unwrap());
    let plans: Vec<_> = plans.iter().collect();
    let choices = searcher.decide(&plans).choices;
    let alone = plans.iter().map(|plan| searcher.decide(&[plan]).choices.remove(0).why);
    assert_eq!(
        choices.iter().map(|c| c.why.clone()).collect::<Vec<_>>(),
        alone.collect::<Vec<_>>()
    );
    let hits: Vec<_> =
        searcher.answer(&plans).into_iter().map(|answer| answer.unwrap().hits).collect();
    assert!(hits[0] == hits[2] && hits[1] == hits[4] && hits[0] != hits[1]);
}

#[test]
fn plans_are_of_one_snapshot() {
    let (_folder, index) = index();
    let searcher = index.searcher().unwrap();
    let plan = searcher.plan(&Request::new("odd")).unwrap();
    assert!(searcher.answer(&[&plan])[0].is_ok());
    assert!(!searcher.refresh().unwrap(), "nothing is new");
    assert!(searcher.answer(&[&plan])[0].is_ok());
    let mut writer = index.writer().unwrap();
    writer.delete("d1");
    writer.commit().unwrap();
    assert!(searcher.refresh().unwrap());
    assert!(matches!(searcher.answer(&[&plan])[0], Err(ExecError::OtherSnapshot)));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let (_folder, index) = index();
    let refused = |options: SearcherOptions| match index.searcher_with(options) {
        Err(Error::Options(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    };
    let new = SearcherOptions::new;
    let error = refused(new().algorithm(Algorithm::Exhaustive));
    assert!(matches!(error, OptionsError::NeedsGpu { why: None, .. }), "{error}");
    let error = refused(new().host_share(0.5));
    assert!(matches!(error, OptionsError::NoEffect { .. }), "{error}");
    let error = refused(new().host_threads(3));
    assert!(matches!(error, OptionsError::NoEffect { .. }), "{error}");
    let tuning = Tuning { partitions: Some(Default::default()), ..Tuning::default() };
    let wand = Algorithm::Named(CpuAlgorithm::Wand);
    let error = refused(new().algorithm(wand).tuning(tuning));
    assert!(matches!(error, OptionsError::NoPartitions { .. }), "{error}");
    // All algorithms that do not require a GPU give the same answers.
    let request = Request::new("odd n5 n7").mode(Mode::Or);
    let expected = index.searcher().unwrap().search(&request).unwrap();
    for name in Algorithm::cpu_names() {
        let options = new().algorithm(name.parse().unwrap()).device(DeviceChoice::Cpu);
        let response = index.searcher_with(options).unwrap().search(&request).unwrap();
        assert_eq!(response.hits(), expected.hits(), "{name}");
    }
}

#[test]
fn a_writer_takes_changes_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let index = Index::create(folder.path().join("index")).unwrap();
    let mut writer = index.writer().unwrap();
    writer.add(Document::new("a", "", "first")).unwrap();
    writer.add(Document::new("a", "", "second")).unwrap();
    writer.add(Document::new("b", "", "third")).unwrap();
    writer.delete("b");
    assert_eq!(writer.pending(), (1, 1));
    let commit = writer.commit().unwrap();
    assert_eq!((commit.added.documents, commit.deleted.missing), (1, vec!["b".to_owned()]));
    let found = |query: &str| index.searcher().unwrap().search(&Request::new(query)).unwrap();
    assert_eq!((found("second").hits().len(), found("first third").hits().len()), (1, 0));
    // A change that fails does not affect the index, and still waits.
    writer.add(Document::new("", "", "no id")).unwrap();
    assert!(writer.commit().is_err());
    assert_eq!((writer.pending(), found("second").hits().len()), ((1, 0), 1));
    writer.rollback();
    assert_eq!(writer.commit().unwrap().generation, commit.generation);
}

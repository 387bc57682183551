//! Sorted requests and facets through the library: single requests, batches, and a service with a
//! cache.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use warpseek::plan::ExecError;
use warpseek::query::{Facet, FacetCounts, SortKey};
use warpseek::schema::AttributeValue;
use warpseek::{
    Document, Error, Index, IndexOptions, Mode, Request, Response, Schema, Searcher,
    SearcherOptions, ServiceOptions,
};

fn searcher(folder: &tempfile::TempDir) -> Searcher {
    let json = r#"{"text": [{"name": "text"}], "attributes": [{"name": "year", "type": "integer"}, {"name": "tag", "type": "keyword"}]}"#;
    let options = IndexOptions::new().schema(Schema::parse(json).unwrap());
    let index = Index::create_with(folder.path().join("index"), options).unwrap();
    for part in 0..2 {
        let mut writer = index.writer().unwrap();
        for i in (0..40).filter(|i| i % 2 == part) {
            let text = format!("apple {}", ["pie", "tart", "pie pie"][i % 3]);
            let mut document = Document::new(format!("{i}"), "", text);
            document.fields.insert("year".to_owned(), (2000 + (i * 7) % 10).into());
            document.fields.insert("tag".to_owned(), format!("t{}", i % 4).into());
            writer.add(document).unwrap();
        }
        writer.commit().unwrap();
    }
    index.searcher_with(SearcherOptions::new().threads(2)).unwrap()
}

/// Returns requests for the same words that differ only in what they gather.
fn requests(searcher: &Searcher) -> Vec<Request> {
    let plain = Request::new("apple pie").k(5);
    let by_year = plain.clone().sort([SortKey::descending("year")]);
    let by_tag = plain.clone().sort([SortKey::ascending("tag"), SortKey::score()]);
    let place = |request: &Request| searcher.search(request).unwrap().sort_values(4);
    let tags = [Facet::Values { field: "tag".to_owned(), top: 2 }];
    let years = [Facet::Values { field: "year".to_owned(), top: 2 }];
    vec![
        plain.clone(),
        plain.clone().after(place(&plain)),
        by_year.clone(),
        by_year.clone().after(place(&by_year)),
        by_year.facets(tags.clone()),
        by_tag.clone(),
        by_tag.clone().after(place(&by_tag)),
        plain.clone().facets(tags.clone()),
        plain.clone().facets(years.clone()),
        plain.facets([tags, years].concat()).k(0),
    ]
}

fn shown(response: &Response) -> String {
    let values = (0..response.hits().len()).map(|rank| response.sort_values(rank));
    let values: Vec<_> = values.collect();
    let (hits, facets) = (response.hits(), response.facets());
    format!(
        "{hits:?} {values:?} {facets:?} {:?}",
        response.matches().filter(|_| !facets.is_empty())
    )
}

#[test]
fn batches_and_services_give_what_single_searches_give() {
    let folder = tempfile::tempdir().unwrap();
    let searcher = searcher(&folder);
    let requests = requests(&searcher);
    let single: Vec<String> =
        requests.iter().map(|request| shown(&searcher.search(request).unwrap())).collect();
    for (i, one) in single.iter().enumerate() {
        assert!(single[..i].iter().all(|other| other != one), "{i}: {one}");
    }
    let batch = searcher.search_batch(&requests);
    let batch: Vec<String> = batch.into_iter().map(|found| shown(&found.unwrap())).collect();
    assert_eq!(batch, single);
    let options = ServiceOptions::new().cache(16 << 20).calibration(Duration::ZERO);
    let service = searcher.service(options).unwrap();
    // The second time, the answers come from the cache.
    for _ in 0..2 {
        for (request, want) in requests.iter().zip(&single) {
            let served = service.submit(request).unwrap().wait();
            assert_eq!(shown(&served.answer.unwrap()), *want);
        }
    }
    assert_eq!(service.status().cache.unwrap().hits, requests.len() as u64);
}

#[test]
fn facets_cover_all_matches_and_what_was_searched() {
    let folder = tempfile::tempdir().unwrap();
    let searcher = searcher(&folder);
    let facet = Facet::Values { field: "tag".to_owned(), top: 10 };
    let request = Request::new("apple").k(1).facets([facet]);
    let response = searcher.search(&request).unwrap();
    assert_eq!((response.hits().len(), response.matches()), (1, Some(40)));
    let tags = (0..4).map(|i| (AttributeValue::Keyword(format!("t{i}").into()), 10));
    let (values, other, distinct, missing) = (tags.collect(), 0, 4, 0);
    assert_eq!(response.facets(), [FacetCounts::Values { values, other, distinct, missing }]);
    let late = searcher.search(&request.clone().deadline(Duration::ZERO)).unwrap();
    assert!(!late.coverage().is_complete());
    let empty = FacetCounts::Values { values: Vec::new(), other: 0, distinct: 0, missing: 0 };
    assert_eq!((late.facets(), late.matches()), (&[empty][..], Some(0)));
    let query = warpseek::query::Query::of([("appl", 1.0)]);
    let request = Request::new(query).mode(Mode::AndOr).sort([SortKey::document()]);
    let error = searcher.search(&request).err().unwrap();
    assert!(matches!(error, Error::Query(ExecError::GatherMode)), "{error}");
}

//! Static scores in the requests of an aggregator's clients.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Collection, cluster, documents};
use serde_json::{Value, json};
use warpseek::text::STATIC_FIELD;
use warpseek::{Document, IndexOptions, Ranking, Request};
use warpseek_front::{Remote, RemoteLimits};

#[test]
fn a_client_says_what_they_count_for() {
    let scored = |(i, document): (usize, Document)| Document {
        static_score: Some(f64::from(i as u32 % 7) / 4.0),
        ..document
    };
    let documents: Vec<Document> = documents(40).into_iter().enumerate().map(scored).collect();
    let options = IndexOptions::new().static_field(STATIC_FIELD);
    let collection = Collection::new(&documents, &[11, 29], &[], &options);
    let nodes = collection.node_each();
    let cluster = cluster(&nodes, 3);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ask = |body: &Value| {
        let body = body.to_string().into_bytes();
        runtime.block_on(cluster.front().search(body, RemoteLimits::default()))
    };
    let mut orders = Vec::new();
    for weight in [0.0, 0.5, 3.0] {
        let ranking = Ranking { static_weight: weight, ..collection.whole.ranking() };
        let wanted = collection.whole.search(&Request::new("fig plum").ranking(ranking)).unwrap();
        let wanted: Vec<(String, f64)> = (0..wanted.hits().len())
            .map(|rank| (wanted.id(rank).unwrap(), wanted.score(rank)))
            .collect();
        let found = ask(&json!({"query": "fig plum", "static_weight": weight})).unwrap().json;
        let found: Vec<(String, f64)> = found["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap()))
            .collect();
        assert_eq!(found, wanted, "{weight}");
        orders.push(found);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    let usual = ask(&json!({"query": "fig plum"})).unwrap().json;
    assert_eq!(usual["hits"][0]["id"], orders[0][0].0);
    let refused = ask(&json!({"query": "fig", "static_weight": -1})).unwrap_err();
    assert!(refused.status == 400 && refused.reason.contains("static weight"), "{refused:?}");
}

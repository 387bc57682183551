//! A cluster answers as one index of all documents does: with the same hits, order, score
//! integers, ids and numbers of matches, however the collection is divided.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Collection, Running, cluster};
use proptest::prelude::*;
use proptest::sample::select;
use warpseek::query::Query;
use warpseek::{Document, IndexOptions, Mode, QueryInput, Ranking, RankingFunction, Request};
use warpseek_cluster::{ClusterError, ClusterRequest};

const WORDS: [&str; 12] = [
    "fig", "plum", "pear", "tart", "cake", "bun", "kiwi", "lime", "corn", "rice", "nowhere",
    "neither",
];

/// A query with its options.
#[derive(Clone, Debug)]
struct Ask {
    query: QueryInput,
    mode: Mode,
    k: usize,
    count: bool,
    ranking: Option<Ranking>,
    filter: Option<String>,
    among: Option<Vec<usize>>,
}

fn words() -> impl Strategy<Value = QueryInput> {
    let word = (select(&WORDS[..]), prop_oneof![3 => Just(1.0), 1 => 0.1f64..5.0]);
    prop::collection::vec(word, 1..5).prop_flat_map(|words| {
        let text: Vec<String> =
            words.iter().map(|(word, weight)| format!("{word}^{weight}")).collect();
        let text = QueryInput::Text(text.join(" "));
        prop_oneof![Just(text), Just(QueryInput::Terms(Query::of(words)))]
    })
}

fn expressions() -> impl Strategy<Value = QueryInput> {
    let word = || select(&WORDS[..]);
    (word(), word(), word(), 0..6).prop_map(|(a, b, c, form)| {
        QueryInput::Expression(match form {
            0 => format!("+{a} {b} -{c}"),
            1 => format!("\"{a} {b}\" {c}"),
            2 => format!("+({a} {b}) {c}^2.5"),
            3 => format!("+\"{a} {b}\"~2"),
            4 => format!("({a} +{b}) +{c}"),
            _ => format!("{a} -({b} {c})"),
        })
    })
}

fn rankings() -> impl Strategy<Value = Option<Ranking>> {
    let of_text = RankingFunction::ALL.into_iter().filter_map(|function| match function {
        RankingFunction::Bm25 { .. } => Some(RankingFunction::Bm25 { k1: 1.2, b: 0.75 }),
        RankingFunction::Okapi { .. } => Some(RankingFunction::Okapi { k1: 0.9, b: 0.4 }),
        RankingFunction::Wakatsuki { .. } => Some(RankingFunction::Wakatsuki { k1: 2.0, b: 1.0 }),
        RankingFunction::Cosine => Some(RankingFunction::Cosine),
        RankingFunction::Impact | RankingFunction::Bm25ByField => None,
    });
    let functions: Vec<_> = std::iter::once(None).chain(of_text.map(Some)).collect();
    (select(functions), prop_oneof![Just(0.0), Just(0.75)]).prop_map(|(function, static_weight)| {
        function.map(|function| Ranking { function, static_weight })
    })
}

fn asks() -> impl Strategy<Value = Ask> {
    let modes = vec![Mode::Or, Mode::And, Mode::AndOr];
    let input = prop_oneof![
        3 => (words(), select(modes)),
        1 => (expressions(), select(vec![Mode::Or, Mode::And])),
    ];
    let k = select(vec![0usize, 1, 2, 5, 10, 60, 1000]);
    let filter = prop_oneof![4 => Just(None), 1 => select(&WORDS[..]).prop_map(|word| Some(word.to_owned()))];
    let among =
        prop_oneof![6 => Just(None), 1 => prop::collection::vec(0usize..60, 1..20).prop_map(Some)];
    (input, k, any::<bool>(), rankings(), filter, among).prop_map(
        |((query, mode), k, count, ranking, filter, among)| Ask {
            query,
            mode,
            k,
            count,
            ranking,
            filter,
            among,
        },
    )
}

fn collections() -> impl Strategy<Value = (Vec<Document>, Vec<usize>, Vec<String>)> {
    let text = prop::collection::vec(select(&WORDS[..10]), 0..12);
    let document = (text, prop::option::of(0f64..4.0));
    (prop::collection::vec(document, 1..50), prop::collection::vec(0usize..50, 0..6), any::<u64>())
        .prop_map(|(texts, cuts, deleted)| {
            let document = |(i, (words, static_score)): (usize, (Vec<&str>, Option<f64>))| {
                Document { static_score, ..Document::new(format!("d{i}"), "", words.join(" ")) }
            };
            let documents: Vec<Document> = texts.into_iter().enumerate().map(document).collect();
            let mut cuts: Vec<usize> =
                cuts.into_iter().map(|cut| cut.min(documents.len())).collect();
            cuts.sort_unstable();
            // Deletes about one in four documents, but not all.
            let is_deleted = |i: usize| i > 0 && (deleted >> (i % 32)) & 3 == 0;
            let deleted = (0..documents.len()).filter(|&i| is_deleted(i)).map(|i| format!("d{i}"));
            let deleted = deleted.collect();
            (documents, cuts, deleted)
        })
}

/// Returns what one index answers: hits with their numbers, score integers, scores and ids, and
/// matches if they were requested, or else the error.
type Answer = Result<(Vec<(u64, u32, u64, String)>, Option<u64>), String>;

fn of_one(collection: &Collection, ask: &Ask) -> Answer {
    let filter = ask.filter.as_ref().map(|filter| collection.whole.parse(filter).unwrap());
    let among = ask.among.as_ref().map(|ids| ids.iter().map(|id| format!("d{id}")).collect());
    let request = Request {
        k: ask.k,
        mode: ask.mode,
        count: ask.count,
        ranking: ask.ranking,
        filter: filter.map(Into::into),
        among,
        ..Request::new(ask.query.clone())
    };
    let response = collection.whole.search(&request).map_err(|error| error.to_string())?;
    let hit = |rank: usize| {
        let hit = response.hits()[rank];
        let score = response.score(rank).to_bits();
        (hit.doc.into(), hit.score, score, response.id(rank).unwrap())
    };
    let hits = (0..response.hits().len()).map(hit).collect();
    Ok((hits, response.matches().filter(|_| ask.count)))
}

fn request(ask: &Ask) -> ClusterRequest {
    let among = ask.among.as_ref().map(|ids| ids.iter().map(|id| format!("d{id}")).collect());
    ClusterRequest {
        k: ask.k,
        mode: ask.mode,
        count: ask.count,
        ranking: ask.ranking,
        filter: ask.filter.clone(),
        among,
        allow_partial: false,
        ..ClusterRequest::new(ask.query.clone())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn a_cluster_answers_as_one_index_does(
        (documents, cuts, deleted) in collections(),
        asks in prop::collection::vec(asks(), 1..24),
        homes in prop::collection::vec(1u8..8, 7),
    ) {
        let options = IndexOptions::new().positions(true).threads(1);
        let collection = Collection::new(&documents, &cuts, &deleted, &options);
        // Each shard is on one to three of three nodes.
        let shards = collection.shards.len();
        let nodes: Vec<Running> = (0..3).filter_map(|node| {
            let own = (0..shards).filter(|&shard| homes[shard] >> node & 1 == 1);
            let own: Vec<_> = own.map(|shard| (shard as u32, collection.shards[shard].as_path())).collect();
            (!own.is_empty()).then(|| Running::start(&own))
        }).collect();
        let cluster = cluster(&nodes, shards as u32);
        // The second time, statistics and answers are cached.
        for _ in 0..2 {
            let answers = cluster.search_batch(asks.iter().map(request).collect());
            for (ask, answer) in asks.iter().zip(answers) {
                let found = answer.map_err(|error| error.to_string()).map(|response| {
                    assert!(response.coverage.is_complete());
                    let hits = response.hits.iter().map(|hit| {
                        (hit.document.unwrap(), hit.units, hit.score.to_bits(), hit.id.clone())
                    });
                    (hits.collect(), response.matches.filter(|_| ask.count))
                });
                prop_assert_eq!(found, of_one(&collection, ask), "{:?}", ask);
            }
        }
    }
}

#[test]
fn fields_have_statistics_of_the_whole_collection_too() {
    let schema = r#"{"text": [{"name": "title", "k1": 1.5, "b": 0.2}, {"name": "text"}],
        "attributes": [{"name": "year", "type": "integer"}]}"#;
    let schema = warpseek::Schema::parse(schema).unwrap();
    let options = IndexOptions::new().schema(schema).threads(1);
    let documents: Vec<Document> = common::documents(60)
        .into_iter()
        .enumerate()
        .map(|(i, document)| {
            let title = if i % 3 == 0 { "" } else { WORDS[i % 10] };
            let mut document = Document { title: title.to_owned(), ..document };
            document.fields.insert("year".to_owned(), (1990 + i % 30).into());
            document
        })
        .collect();
    let collection =
        Collection::new(&documents, &[5, 5, 33], &["d7".into(), "d40".into()], &options);
    let nodes = collection.node_each();
    let cluster = cluster(&nodes, 4);
    for text in [
        "title:fig plum",
        "+title:pear year:>=2000",
        "fig tart cake",
        "year:1999",
        "-fig",
        "nowhere",
    ] {
        let ask = Ask {
            query: QueryInput::Expression(text.to_owned()),
            mode: Mode::Or,
            k: 20,
            count: true,
            ranking: None,
            filter: None,
            among: None,
        };
        let response = cluster.search(request(&ask)).unwrap();
        let hits = response
            .hits
            .iter()
            .map(|hit| (hit.document.unwrap(), hit.units, hit.score.to_bits(), hit.id.clone()));
        let found: Answer = Ok((hits.collect(), response.matches));
        assert_eq!(found, of_one(&collection, &ask), "{text}");
    }
    // Errors are those of one index.
    for (text, mode) in [("nofield:a", Mode::Or), ("(fig", Mode::Or), ("fig", Mode::AndOr)] {
        let query = QueryInput::Expression(text.to_owned());
        let whole = collection.whole.search(&Request::new(query.clone()).mode(mode)).err().unwrap();
        let found = cluster.search(ClusterRequest { mode, ..ClusterRequest::new(query) });
        let error = found.err().unwrap();
        assert!(matches!(error, ClusterError::Query(_)));
        assert_eq!(error.to_string(), whole.to_string());
    }
}

#[test]
fn what_cannot_be_exact_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let quantized = folder.path().join("quantized");
    let options = IndexOptions::new().quantize(0.9, 0.4).threads(1);
    common::index(&quantized, &options, &[&common::documents(10)], &[]);
    let node = warpseek_cluster::ClusterNode::new(warpseek_cluster::NodeOptions::default());
    let error = node.replace(0, 1, &quantized).unwrap_err();
    assert!(error.to_string().contains("--quantize"), "{error}");
    assert!(node.replace(0, 1, &folder.path().join("nowhere")).is_err());
    assert_eq!(node.shards(), []);

    let collection = Collection::new(&common::documents(9), &[4], &[], &IndexOptions::new());
    let nodes = collection.nodes(1);
    let cluster = cluster(&nodes, 2);
    let tree = QueryInput::Tree(warpseek::query::Node::All);
    let refused = cluster.search(ClusterRequest::new(tree)).err().unwrap();
    assert!(matches!(refused, ClusterError::Unsupported(_)), "{refused}");
}

#[test]
fn shards_with_other_settings_are_no_collection() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    common::index(&a, &IndexOptions::new(), &[&common::documents(10)], &[]);
    let plain = IndexOptions::new().analyzer(warpseek::Analyzer::Plain);
    common::index(&b, &plain, &[&common::documents(10)], &[]);
    let node = Running::start(&[(0, &a), (1, &b)]);
    let options =
        |shards| warpseek_cluster::AggregatorOptions::new(vec![node.address.clone()], shards);
    let connect = |shards| warpseek_cluster::Cluster::connect(options(shards)).err().unwrap();
    assert!(matches!(connect(2), ClusterError::Settings { shard: 1, other: 0, version: 1 }));
    assert!(matches!(connect(1), ClusterError::ShardNumber { shard: 1, shards: 1, .. }));
    assert!(matches!(connect(0), ClusterError::Setup(_)));
}

//! Cohorts of the queries of many clients: each client gets the answer of one index, whatever else
//! is in its cohort, and whatever happens to it.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Between, Collection, Running, cluster, documents};
use warpseek::{IndexOptions, Mode, QueryInput, Request};
use warpseek_cluster::{
    AggregatorOptions, Cluster, ClusterError, ClusterRequest, ClusterResponse, CohortOptions,
};
use warpseek_front::{Remote, RemoteLimits};

const HOUR: Duration = Duration::from_secs(3600);

const WORDS: [&str; 11] =
    ["fig", "plum", "pear", "tart", "cake", "bun", "kiwi", "lime", "corn", "rice", "nowhere"];

/// Hits as ids and score integers, and matches.
type Found = (Vec<(String, u32)>, Option<u64>);

/// Returns a request that depends only on its number.
fn request(number: usize) -> ClusterRequest {
    let word = |step: usize| WORDS[(number * (2 * step + 3) + step) % WORDS.len()];
    let words: Vec<&str> = (0..1 + number % 4).map(word).collect();
    let hour_or_more = HOUR * (1 + number as u32 % 5);
    ClusterRequest {
        k: [1, 3, 10, 100, 0][number % 5],
        mode: [Mode::Or, Mode::And, Mode::AndOr][number % 3],
        count: number.is_multiple_of(2),
        filter: number.is_multiple_of(7).then(|| "fig".to_owned()),
        deadline: (number % 3 == 1).then_some(hour_or_more),
        allow_partial: !number.is_multiple_of(4),
        ..ClusterRequest::new(words.join(" "))
    }
}

fn of_one(collection: &Collection, request: &ClusterRequest) -> Found {
    let filter = request.filter.as_ref().map(|text| collection.whole.parse(text).unwrap());
    let asked = Request {
        k: request.k,
        mode: request.mode,
        count: request.count,
        filter: filter.map(Into::into),
        ..Request::new(request.query.clone())
    };
    let response = collection.whole.search(&asked).unwrap();
    let hit = |rank: usize| (response.id(rank).unwrap(), response.hits()[rank].score);
    let hits = (0..response.hits().len()).map(hit).collect();
    (hits, response.matches().filter(|_| request.count))
}

/// Asserts that an answer is complete and that of one index.
fn check(
    collection: &Collection,
    request: &ClusterRequest,
    answer: Result<Arc<ClusterResponse>, ClusterError>,
) {
    let response = answer.unwrap();
    assert!(response.coverage.is_complete(), "{request:?}: {}", response.coverage);
    let hits = response.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect();
    let found = (hits, response.matches.filter(|_| request.count));
    assert_eq!(found, of_one(collection, request), "{request:?}");
}

fn collection() -> Collection {
    Collection::new(&documents(80), &[20, 45], &["d7".into(), "d50".into()], &IndexOptions::new())
}

fn options(addresses: Vec<String>, cohorts: CohortOptions) -> AggregatorOptions {
    AggregatorOptions { cohorts, cache: 0, ..AggregatorOptions::new(addresses, 3) }
}

fn connect(nodes: &[Running], cohorts: CohortOptions) -> Cluster {
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    Cluster::connect(options(addresses, cohorts)).unwrap()
}

/// Cohorts of exactly this many queries.
fn exactly(size: usize) -> CohortOptions {
    CohortOptions { size, wait: HOUR, longest_wait: HOUR, ..CohortOptions::default() }
}

fn number(cluster: &Cluster, name: &str) -> u64 {
    cluster.status().unwrap()[name].as_u64().unwrap()
}

/// Waits for something that other threads bring about.
fn until(is_done: impl Fn() -> bool) {
    while !is_done() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a metric without labels.
fn metric(cluster: &Cluster, name: &str) -> u64 {
    let page = cluster.front().metrics();
    let mut values = page.lines().filter_map(|line| line.strip_prefix(name));
    values.find_map(|rest| rest.trim().parse().ok()).unwrap()
}

fn waiting(cluster: &Cluster) -> u64 {
    metric(cluster, "warpseek_cluster_cohort_waiting")
}

#[test]
fn many_clients_get_the_answers_of_one_index() {
    let collection = collection();
    let mut nodes = collection.nodes(1);
    nodes.extend(collection.node_each());
    for (cohorts, cache) in [
        (CohortOptions::default(), 0),
        (CohortOptions { at_once: 1, ..CohortOptions::default() }, 64 << 20),
        (CohortOptions { size: 7, wait: Duration::from_millis(3), ..CohortOptions::default() }, 0),
        (CohortOptions { size: 1, ..CohortOptions::default() }, 0),
    ] {
        let addresses = nodes.iter().map(|node| node.address.clone()).collect();
        let cluster =
            Cluster::connect(AggregatorOptions { cache, ..options(addresses, cohorts) }).unwrap();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for client in 0..24 {
                let (cluster, collection, next) = (&cluster, &collection, &next);
                scope.spawn(move || {
                    loop {
                        let first = next.fetch_add(3, Ordering::Relaxed);
                        if first >= 600 {
                            return;
                        }
                        let requests: Vec<_> = (first..first + 3).map(request).collect();
                        // Some clients send small batches.
                        let answers = match client % 4 {
                            0 => cluster.search_batch(requests.clone()),
                            _ => requests.iter().map(|one| cluster.search(one.clone())).collect(),
                        };
                        for (request, answer) in requests.iter().zip(answers) {
                            check(collection, request, answer);
                        }
                    }
                });
            }
        });
        assert_eq!(number(&cluster, "cohort_queries"), 600, "{cohorts:?}");
        assert_eq!(waiting(&cluster), 0);
        if cohorts.size == 1 {
            assert_eq!(number(&cluster, "cohorts"), 600);
        }
    }
}

/// A query that waits for others for half of its time has the other half for its new words and the
/// search.
#[test]
fn waiting_takes_no_time_from_the_search() {
    let collection = collection();
    let nodes = collection.node_each();
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    let cluster = Cluster::connect(options(addresses, exactly(64))).unwrap();
    let request = ClusterRequest { deadline: Some(Duration::from_secs(4)), ..request(0) };
    let answer = cluster.search(request.clone());
    assert!(answer.as_ref().unwrap().coverage.is_complete(), "{answer:?}");
    check(&collection, &request, answer);
    assert_eq!(number(&cluster, "cohorts"), 1);
}

#[test]
fn a_cohort_of_one_query_waits_for_no_other() {
    let wait = Duration::from_millis(1);
    let cohorts = CohortOptions { size: 1, wait, ..CohortOptions::default() };
    let error = Cluster::connect(options(vec!["localhost:1".into()], cohorts)).err().unwrap();
    let said = error.to_string();
    assert!(said.contains("a cohort of size 1 waits for no other query"), "{said}");
}

/// Queries of all modes, filters and numbers of hits leave as one cohort.
#[test]
fn a_cohort_has_queries_of_many_clients() {
    let collection = collection();
    let nodes = collection.node_each();
    let cluster = connect(&nodes, exactly(30));
    std::thread::scope(|scope| {
        for client in 0..60 {
            let (cluster, collection) = (&cluster, &collection);
            scope.spawn(move || {
                let request = ClusterRequest { deadline: None, ..request(client) };
                check(collection, &request, cluster.search(request.clone()));
            });
        }
    });
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (2, 60));
    assert_eq!(metric(&cluster, "warpseek_cluster_cohort_wait_seconds_count"), 60);
    let status = cluster.status().unwrap();
    for node in status["nodes"].as_array().unwrap() {
        let bytes = |name: &str| node[name].as_u64().unwrap();
        assert!(bytes("sent_bytes") > 0 && bytes("received_bytes") > 0, "{node}");
    }
}

/// While a node holds a cohort back, what arrives waits and leaves as the next cohort.
#[test]
fn what_arrives_while_nodes_are_slow_leaves_together() {
    let collection = collection();
    let nodes = collection.nodes(1);
    let between = Between::new(&nodes[0].address);
    let cohorts = CohortOptions { at_once: 1, longest_wait: HOUR, ..CohortOptions::default() };
    let options = AggregatorOptions {
        // A node that is only slow is not to be given up.
        call: HOUR,
        look_every: HOUR,
        ..options(vec![between.address.clone()], cohorts)
    };
    let cluster = Cluster::connect(options).unwrap();
    between.holds.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (collection, cluster) = (&collection, &cluster);
        let client = |number: usize| {
            scope.spawn(move || {
                // With a deadline, it is sent again should the connection break while it is held.
                // A wait of half of the time limit never ends here.
                let deadline = Some(HOUR);
                let request = ClusterRequest { deadline, allow_partial: false, ..request(number) };
                check(collection, &request, cluster.search(request.clone()));
            })
        };
        client(0);
        until(|| number(cluster, "cohorts") == 1);
        (1..21).for_each(|number| drop(client(number)));
        until(|| waiting(cluster) == 20);
        assert_eq!(number(cluster, "cohorts"), 1);
        between.holds.store(false, Ordering::Relaxed);
    });
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (2, 21));
}

/// Queries of a batch leave the line each at its own time, and an answer in the cache needs none.
#[test]
fn what_is_urgent_or_known_does_not_wait_for_the_rest_of_its_batch() {
    let collection = collection();
    let nodes = collection.nodes(1);
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    let cohorts = exactly(64);
    let cluster =
        Cluster::connect(AggregatorOptions { cache: 64 << 20, ..options(addresses, cohorts) })
            .unwrap();
    let urgent = |text: &str| ClusterRequest {
        deadline: Some(Duration::from_millis(1)),
        ..ClusterRequest::new(text)
    };
    // The patient query comes first, and leaves with the urgent one.
    let patient = ClusterRequest { allow_partial: false, ..ClusterRequest::new("fig plum") };
    let answers = cluster.search_batch(vec![patient.clone(), urgent("pear")]);
    check(&collection, &patient, answers.into_iter().next().unwrap());
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (1, 2));
    // The answer is in the cache now, so nothing is sent for it although the line waits an hour.
    check(&collection, &patient, cluster.search(patient.clone()));
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cache_hits")), (1, 1));
    assert_eq!(waiting(&cluster), 0);
}

/// Queries that cannot be planned get their own errors; the others of the cohort get their answers.
#[test]
fn one_bad_query_does_not_fail_the_others() {
    let collection = collection();
    let nodes = collection.node_each();
    let cluster = connect(&nodes, exactly(12));
    let bad: [ClusterRequest; 3] = [
        ClusterRequest::new(QueryInput::Expression("(fig".into())),
        ClusterRequest::new(QueryInput::Tree(warpseek::query::Node::All)),
        ClusterRequest { filter: Some("+(".into()), ..ClusterRequest::new("fig") },
    ];
    std::thread::scope(|scope| {
        for bad in bad {
            let cluster = &cluster;
            scope.spawn(move || {
                let error = cluster.search(bad.clone()).err().unwrap();
                let is_own = matches!(error, ClusterError::Query(_) | ClusterError::Unsupported(_));
                assert!(is_own, "{bad:?}: {error}");
            });
        }
        for client in 0..9 {
            let (cluster, collection) = (&cluster, &collection);
            scope.spawn(move || {
                let request = request(client);
                check(collection, &request, cluster.search(request.clone()));
            });
        }
    });
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (1, 12));
}

/// A query whose time is up leaves the line at once, with what waits there, and takes no time from
/// the others.
#[test]
fn a_deadline_is_that_of_its_own_query() {
    let collection = collection();
    let nodes = collection.node_each();
    let cluster = connect(&nodes, exactly(64));
    std::thread::scope(|scope| {
        let (cluster, collection) = (&cluster, &collection);
        for client in 0..9 {
            scope.spawn(move || {
                let request = request(client);
                check(collection, &request, cluster.search(request.clone()));
            });
        }
        until(|| waiting(cluster) == 9);
        assert_eq!(number(cluster, "cohorts"), 0);
        let deadline = Some(Duration::ZERO);
        let late = ClusterRequest { deadline, ..ClusterRequest::new("fig") };
        assert!(!cluster.search(late).unwrap().coverage.is_complete());
    });
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (1, 10));
}

/// While a node hangs, a query with a short deadline is answered by the other nodes, and one with
/// more time gets the whole answer in the end.
#[test]
fn a_deadline_holds_although_the_cohort_hangs() {
    let collection = collection();
    let nodes = collection.node_each();
    let between = Between::new(&nodes[2].address);
    let mut addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    addresses[2].clone_from(&between.address);
    let cluster = Cluster::connect(AggregatorOptions {
        call: HOUR,
        look_every: HOUR,
        ..options(addresses, exactly(2))
    })
    .unwrap();
    // The frequencies of the words are known from now on.
    let patient = ClusterRequest {
        deadline: Some(HOUR),
        allow_partial: false,
        ..ClusterRequest::new("fig plum pear")
    };
    cluster.search_batch(vec![patient.clone(), patient.clone()]);
    between.holds.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (cluster, collection, patient) = (&cluster, &collection, &patient);
        let whole =
            scope.spawn(move || check(collection, patient, cluster.search(patient.clone())));
        until(|| waiting(cluster) == 1);
        // Long enough for the other nodes even on a busy machine.
        let deadline = Some(Duration::from_secs(6));
        let short = ClusterRequest { deadline, allow_partial: true, ..patient.clone() };
        let response = cluster.search(short).unwrap();
        let missing: Vec<u32> = response.coverage.missing.iter().map(|gone| gone.shard).collect();
        assert_eq!((missing, response.coverage.searched), (vec![2], 44));
        assert!(!whole.is_finished());
        between.holds.store(false, Ordering::Relaxed);
    });
}

/// A client that goes away leaves the line, and its cohort goes on for the others.
#[test]
fn a_client_that_goes_away_is_forgotten() {
    let collection = collection();
    let nodes = collection.node_each();
    let cluster = connect(&nodes, exactly(3));
    let front = cluster.front();
    let ask = |text: &str| {
        let body = format!(r#"{{"query": "{text}"}}"#).into_bytes();
        front.search(body, RemoteLimits::default())
    };
    let (gone, stays) = (ask("fig"), ask("plum"));
    until(|| waiting(&cluster) == 2);
    drop(gone);
    until(|| waiting(&cluster) == 1);
    std::thread::scope(|scope| {
        let (cluster, collection) = (&cluster, &collection);
        for client in 0..2 {
            scope.spawn(move || {
                let request = request(client);
                check(collection, &request, cluster.search(request.clone()));
            });
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(stays).unwrap().json;
    let hits: Vec<(String, u32)> = answer["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| (hit["id"].as_str().unwrap().into(), hit["units"].as_u64().unwrap() as u32))
        .collect();
    assert_eq!(hits, of_one(&collection, &ClusterRequest::new("plum")).0);
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (1, 3));
}

/// A node that ends while it has a cohort is replaced, and without another one its shard is
/// missing in all answers.
#[test]
fn a_node_that_fails_during_a_cohort_is_replaced() {
    let collection = collection();
    let mut nodes = collection.nodes(2);
    let between = Between::new(&nodes[0].address);
    let addresses = vec![between.address.clone(), nodes[1].address.clone()];
    let cluster = Cluster::connect(AggregatorOptions {
        look_every: HOUR,
        hedging: false,
        ..options(addresses, exactly(8))
    })
    .unwrap();
    let ask_all = |is_right: &(dyn Fn(&ClusterRequest) + Sync)| {
        std::thread::scope(|scope| {
            for client in 0..8 {
                scope.spawn(move || {
                    is_right(&ClusterRequest { deadline: None, ..request(client) });
                });
            }
        });
    };
    // The connection of the cohort breaks while its calls are in progress.
    between.holds.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (cluster, collection) = (&cluster, &collection);
        let clients = scope.spawn(move || {
            ask_all(&|request| check(collection, request, cluster.search(request.clone())));
        });
        until(|| number(cluster, "cohorts") == 1);
        nodes[0].stop();
        between.holds.store(false, Ordering::Relaxed);
        clients.join().unwrap();
    });
    nodes[1].stop();
    ask_all(&|request| match cluster.search(request.clone()) {
        Ok(response) => {
            let missing = response.coverage.missing.len();
            assert!(missing == 3 && request.allow_partial && response.hits.is_empty());
        }
        Err(error) => {
            let is_right = matches!(error, ClusterError::Incomplete(_)) && !request.allow_partial;
            assert!(is_right, "{error}");
        }
    });
    assert_eq!((number(&cluster, "cohorts"), number(&cluster, "cohort_queries")), (2, 16));
}

#[test]
fn options_that_cannot_be_are_refused() {
    let collection = collection();
    let nodes = collection.nodes(1);
    for cohorts in [
        CohortOptions { size: 0, ..CohortOptions::default() },
        CohortOptions { size: 4097, ..CohortOptions::default() },
        CohortOptions { at_once: 0, ..CohortOptions::default() },
    ] {
        let addresses = vec![nodes[0].address.clone()];
        let error = Cluster::connect(options(addresses, cohorts)).err().unwrap();
        assert!(matches!(error, ClusterError::Setup(_)), "{error}");
    }
    assert!(cluster(&nodes, 3).search(ClusterRequest::new("fig")).is_ok());
}

//! Failing nodes, shards that are replaced during searches, and access without a token or
//! certificate.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Between, Collection, Running, cluster, documents};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use warpseek::{Document, IndexOptions, Request};
use warpseek_cluster::{AggregatorOptions, Cluster, ClusterError, ClusterRequest, Security, Token};

/// Returns the ids and score integers of k hits in one index.
fn of_one(collection: &Collection, text: &str, k: usize) -> Vec<(String, u32)> {
    let response = collection.whole.search(&Request::new(text).k(k)).unwrap();
    (0..response.hits().len())
        .map(|rank| (response.id(rank).unwrap(), response.hits()[rank].score))
        .collect()
}

fn of_cluster(cluster: &Cluster, request: ClusterRequest) -> Vec<(String, u32)> {
    let response = cluster.search(request).unwrap();
    response.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect()
}

fn strict(text: &str) -> ClusterRequest {
    ClusterRequest { k: 20, allow_partial: false, ..ClusterRequest::new(text) }
}

#[test]
fn a_node_that_ends_is_replaced_and_missing_shards_are_named() {
    let collection = Collection::new(&documents(60), &[10, 30, 45], &[], &IndexOptions::new());
    // Shard 1 is on two nodes.
    let mut nodes = collection.node_each();
    nodes.push(Running::start(&[(1, &collection.shards[1])]));
    let cluster = cluster(&nodes, 4);
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&collection, "fig plum", 20));
    nodes[1].stop();
    // Neither the statistics of these words nor the answer are cached yet.
    assert_eq!(of_cluster(&cluster, strict("pear tart")), of_one(&collection, "pear tart", 20));
    nodes[4].stop();
    // The statistics of these words are cached, so scores are those of the whole collection.
    let loose = |text: &str| ClusterRequest { k: 100, ..ClusterRequest::new(text) };
    let response = cluster.search(loose("fig pear")).unwrap();
    let missing: Vec<u32> = response.coverage.missing.iter().map(|gone| gone.shard).collect();
    assert_eq!((missing, response.coverage.shards), (vec![1], 4));
    assert_eq!((response.coverage.searched, response.coverage.documents), (40, 60));
    assert!(response.coverage.uncounted.is_empty());
    assert!(response.coverage.whole_statistics && !response.coverage.is_complete());
    let number = |id: &str| id[1..].parse::<usize>().unwrap();
    let want = of_one(&collection, "fig pear", 100);
    let want: Vec<_> = want.into_iter().filter(|hit| !(10..30).contains(&number(&hit.0))).collect();
    let found: Vec<_> = response.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect();
    assert_eq!(found, want);
    assert!(response.hits.iter().all(|hit| hit.document == Some(number(&hit.id) as u64)));
    // The statistics of this word are not cached: the answer is that of a collection without the
    // shard.
    let rest: Vec<Document> = documents(60)
        .into_iter()
        .filter(|document| !(10..30).contains(&number(&document.id)))
        .collect();
    let smaller = Collection::new(&rest, &[], &[], &IndexOptions::new());
    let response = cluster.search(loose("kiwi lime")).unwrap();
    assert!(!response.coverage.whole_statistics && response.coverage.missing.len() == 1);
    let found: Vec<_> = response.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect();
    assert_eq!(found, of_one(&smaller, "kiwi lime", 100));
    // A request that does not allow partial answers gets an error that names the shard.
    for text in ["fig pear", "kiwi lime"] {
        let error = cluster.search(strict(text)).err().unwrap();
        assert!(
            matches!(&error, ClusterError::Incomplete(coverage) if coverage.missing[0].shard == 1),
            "{error}"
        );
        assert!(error.to_string().contains("shard 1 is missing"), "{error}");
    }
    // Earlier answers are still cached.
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&collection, "fig plum", 20));
}

/// Frequencies of words that are not cached have to be requested. A node that hangs must not use
/// up the time of the other nodes.
#[test]
fn a_node_that_hangs_leaves_time_for_an_answer_of_the_others() {
    let collection = Collection::new(&documents(60), &[20], &[], &IndexOptions::new());
    let nodes = collection.node_each();
    let between = Between::new(&nodes[1].address);
    let look_every = Duration::from_secs(3600);
    let nodes = vec![nodes[0].address.clone(), between.address.clone()];
    let options = AggregatorOptions { look_every, ..AggregatorOptions::new(nodes, 2) };
    let cluster = Cluster::connect(options).unwrap();
    assert!(cluster.search(ClusterRequest::new("fig")).unwrap().coverage.is_complete());
    between.holds.store(true, Ordering::Relaxed);
    // Half of the deadline is enough for the other node even on a busy machine.
    let deadline = Some(Duration::from_secs(12));
    let request = ClusterRequest { deadline, k: 100, ..ClusterRequest::new("pear tart") };
    let response = cluster.search(request).unwrap();
    let missing: Vec<u32> = response.coverage.missing.iter().map(|gone| gone.shard).collect();
    assert_eq!((missing, response.coverage.searched), (vec![1], 20));
    assert!(!response.hits.is_empty() && !response.coverage.whole_statistics);
    between.holds.store(false, Ordering::Relaxed);
}

/// Tests that a number of shards that is too small does not look like a smaller collection.
#[test]
fn shards_beyond_their_number_are_told() {
    let collection = Collection::new(&documents(60), &[20, 40], &[], &IndexOptions::new());
    let nodes = collection.node_each();
    let error = cluster(&nodes, 2).check_shards().err().unwrap();
    assert!(matches!(error, ClusterError::ShardNumber { shard: 2, shards: 2, .. }), "{error}");
    cluster(&nodes, 3).check_shards().unwrap();
}

#[test]
fn without_any_node_an_answer_covers_nothing() {
    let collection = Collection::new(&documents(20), &[10], &[], &IndexOptions::new());
    let mut nodes = collection.nodes(2);
    let cluster = cluster(&nodes, 2);
    nodes.iter_mut().for_each(Running::stop);
    let response = cluster.search(ClusterRequest::new("fig")).unwrap();
    assert!(response.hits.is_empty() && response.coverage.searched == 0);
    assert_eq!(response.coverage.missing.len(), 2);
    let nodes = vec![nodes[0].address.clone()];
    let error = Cluster::connect(AggregatorOptions::new(nodes, 2)).err().unwrap();
    assert!(matches!(error, ClusterError::NoNodes(_)), "{error}");
}

#[test]
fn a_shard_that_no_node_ever_had_is_missing() {
    let collection = Collection::new(&documents(30), &[10, 20], &[], &IndexOptions::new());
    let node = Running::start(&[(0, &collection.shards[0]), (2, &collection.shards[2])]);
    let cluster = cluster(std::slice::from_ref(&node), 3);
    let response = cluster.search(ClusterRequest::new("fig")).unwrap();
    assert_eq!(response.coverage.missing[0].shard, 1);
    assert!(!response.hits.is_empty());
    // The number of its documents is not known.
    assert_eq!((response.coverage.documents, &response.coverage.uncounted[..]), (20, &[1][..]));
    let said = response.coverage.to_string();
    assert!(said.starts_with("20 of at least 20 documents were searched; shard 1 is"), "{said}");
    // The number of documents before them is not known.
    assert!(response.hits.iter().all(|hit| hit.document.is_some() == (hit.shard == 0)));
    assert!(cluster.search(strict("fig")).is_err());
    node.node.replace(1, 1, &collection.shards[1]).unwrap();
    let mut answers = (0..1200).map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        cluster.search(strict("fig"))
    });
    let whole = answers.find_map(Result::ok).unwrap();
    let found: Vec<_> = whole.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect();
    assert_eq!(found, of_one(&collection, "fig", 20));
}

#[test]
fn a_wrong_node_is_named_and_the_others_go_on() {
    let (one, two) = (documents(40), documents(55));
    let one = Collection::new(&one, &[20], &[], &IndexOptions::new());
    let two = Collection::new(&two, &[20], &[], &IndexOptions::new());
    let plain = IndexOptions::new().analyzer(warpseek::Analyzer::Plain);
    let other = Collection::new(&documents(40), &[20], &[], &plain);
    let good = one.nodes(2);
    // One node has a shard beyond the number of shards, one reads queries in another way, and one
    // has other documents.
    let beyond = Running::start(&[(0, &one.shards[0]), (2, &one.shards[1])]);
    let wrong = [
        (beyond, vec![0, 2], "has shard 2, and the collection has 2"),
        (Running::start(&[(0, &other.shards[0])]), vec![0], "other settings"),
        (Running::start(&[(1, &two.shards[1])]), vec![1], "other documents"),
    ];
    let list = one.folder.path().join("nodes.txt");
    let write = |nodes: &[&Running]| {
        let lines: String = nodes.iter().map(|node| format!("{}\n", node.address)).collect();
        let new = list.with_extension("new");
        std::fs::write(&new, lines).unwrap();
        std::fs::rename(&new, &list).unwrap();
    };
    let bad: Vec<&Running> = wrong.iter().map(|(node, ..)| node).collect();
    let good: Vec<&Running> = good.iter().collect();
    write(&[bad.as_slice(), &good].concat());
    let cluster = Cluster::connect(AggregatorOptions {
        nodes_file: Some(list.clone()),
        look_every: Duration::from_millis(20),
        ..AggregatorOptions::new(Vec::new(), 2)
    })
    .unwrap();
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&one, "fig plum", 20));
    let ignored = || {
        let status = cluster.status().unwrap();
        let entry = |value: &serde_json::Value| {
            let text = |name: &str| value[name].as_str().unwrap().to_owned();
            (text("node"), value["shard"].as_u64().unwrap(), text("reason"))
        };
        status["ignored"].as_array().unwrap().iter().map(entry).collect::<Vec<_>>()
    };
    let found = ignored();
    assert_eq!(found.len(), 4, "{found:?}");
    for (node, shards, reason) in &wrong {
        let own: Vec<_> = found.iter().filter(|(address, ..)| *address == node.address).collect();
        assert_eq!(own.iter().map(|(_, shard, _)| *shard).collect::<Vec<_>>(), *shards);
        assert!(own.iter().all(|(.., why)| why.contains(reason)), "{own:?}");
    }
    // The other nodes switch to another version.
    for node in &good {
        (0..).zip(&two.shards).for_each(|(shard, dir)| node.node.replace(shard, 2, dir).unwrap());
    }
    let until = |done: &dyn Fn() -> bool| {
        let start = std::time::Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", cluster.status());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until(&|| cluster.status().unwrap()["version"] == 2);
    assert_eq!(of_cluster(&cluster, strict("pear tart")), of_one(&two, "pear tart", 20));
    // Nodes that are no longer listed have no effect any more.
    write(&good);
    until(&|| ignored().is_empty());
}

#[test]
fn a_shard_that_is_only_on_a_wrong_node_is_missing_and_that_is_the_reason() {
    let one = Collection::new(&documents(40), &[10, 25], &[], &IndexOptions::new());
    let plain = IndexOptions::new().analyzer(warpseek::Analyzer::Plain);
    let other = Collection::new(&documents(40), &[10, 25], &[], &plain);
    let nodes = [
        Running::start(&[(0, &one.shards[0]), (1, &one.shards[1])]),
        Running::start(&[(2, &other.shards[2])]),
    ];
    let cluster = cluster(&nodes, 3);
    let response = cluster.search(ClusterRequest::new("fig")).unwrap();
    let missing = &response.coverage.missing[..];
    assert_eq!(missing.iter().map(|gone| gone.shard).collect::<Vec<_>>(), [2]);
    let reason = &missing[0].reason;
    assert!(reason.contains(&nodes[1].address) && reason.contains("other settings"), "{reason}");
}

#[test]
fn statistics_of_a_shard_that_was_replaced_are_gathered_again() {
    let (before, after) = (documents(40), documents(47));
    let before = Collection::new(&before, &[20], &[], &IndexOptions::new());
    let after = Collection::new(&after, &[20], &["d3".into()], &IndexOptions::new());
    let nodes = before.node_each();
    // The aggregator never calls the nodes by itself, so that a node has to refuse.
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    let options = AggregatorOptions {
        look_every: Duration::from_secs(3600),
        ..AggregatorOptions::new(addresses, 2)
    };
    let cluster = Cluster::connect(options).unwrap();
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&before, "fig plum", 20));
    for (shard, node) in nodes.iter().enumerate() {
        node.node.replace(shard as u32, 1, &after.shards[shard]).unwrap();
    }
    // An answer from the cache would be the old one, so other words come first: they make the
    // aggregator call the nodes again.
    assert_eq!(of_cluster(&cluster, strict("pear tart")), of_one(&after, "pear tart", 20));
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&after, "fig plum", 20));
}

#[test]
fn a_new_version_rolls_through_nodes_without_a_failed_query() {
    let (one, two) = (documents(40), documents(55));
    let one = Collection::new(&one, &[13, 26], &[], &IndexOptions::new());
    let two = Collection::new(&two, &[13, 26], &["d9".into()], &IndexOptions::new());
    let nodes = one.nodes(2);
    let addresses = nodes.iter().map(|node| node.address.clone()).collect();
    let options = AggregatorOptions {
        look_every: Duration::from_millis(20),
        cache: 0,
        ..AggregatorOptions::new(addresses, 3)
    };
    let cluster = Cluster::connect(options).unwrap();
    let texts = ["fig plum", "pear", "tart cake kiwi"];
    let answers = |collection: &Collection| texts.map(|text| of_one(collection, text, 20));
    let (old, new) = (answers(&one), answers(&two));
    let rolled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for node in &nodes {
                for (shard, dir) in (0..).zip(&two.shards) {
                    node.node.replace(shard, 2, dir).unwrap();
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            for node in &nodes {
                (0..3).for_each(|shard| assert!(node.node.close(shard, 1)));
            }
            rolled.store(true, Ordering::Relaxed);
        });
        let (mut versions, mut after) = (Vec::new(), 0);
        while after < 30 {
            after += usize::from(rolled.load(Ordering::Relaxed));
            for (at, text) in texts.iter().enumerate() {
                let response = cluster.search(strict(text)).unwrap();
                let found: Vec<_> =
                    response.hits.iter().map(|hit| (hit.id.clone(), hit.units)).collect();
                let want = if response.version == 1 { &old[at] } else { &new[at] };
                assert_eq!(&found, want, "version {}", response.version);
                versions.push(response.version);
            }
        }
        assert!(versions.is_sorted() && versions.last() == Some(&2), "{versions:?}");
    });
    assert!(nodes.iter().all(|node| node.node.shards() == [(0, 2), (1, 2), (2, 2)]));
}

#[test]
fn a_node_keeps_the_last_two_versions() {
    let collection = Collection::new(&documents(9), &[], &[], &IndexOptions::new());
    let node = warpseek_cluster::ClusterNode::new(warpseek_cluster::NodeOptions::default());
    for version in [1, 2, 4, 3, 4] {
        node.replace(5, version, &collection.shards[0]).unwrap();
    }
    assert_eq!(node.shards(), [(5, 3), (5, 4)]);
    assert!(!node.close(5, 1) && node.close(5, 3) && node.close(5, 4) && !node.close(5, 4));
    assert_eq!(node.shards(), []);
}

#[test]
fn a_wrong_token_is_refused() {
    let collection = Collection::new(&documents(20), &[10], &[], &IndexOptions::new());
    let security = |token: Option<&str>| Security {
        token: token.map(|token| Token::new(token).unwrap()),
        ..Security::default()
    };
    let all: Vec<(u32, &Path)> =
        (0..).zip(collection.shards.iter().map(PathBuf::as_path)).collect();
    let right = "a token of tests".replace(' ', "-");
    let node = Running::start_with(&all, security(Some(&right)));
    let connect = |token| {
        let options = AggregatorOptions::new(vec![node.address.clone()], 2);
        Cluster::connect(AggregatorOptions { security: security(token), ..options })
    };
    let cluster = connect(Some(&right)).unwrap();
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&collection, "fig plum", 20));
    for wrong in [None, Some("another-token-of-tests")] {
        let error = connect(wrong).err().unwrap().to_string();
        assert!(error.contains("token") && !error.contains("of-tests"), "{error}");
    }
}

/// An authority with a certificate for this machine, as files in a folder.
fn certificates(folder: &Path, name: &str) -> Security {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let own = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
    let write = |what: &str, pem: String| {
        let path = folder.join(format!("{name}-{what}.pem"));
        std::fs::write(&path, pem).unwrap();
        Some(path)
    };
    Security {
        token: None,
        certificate: write("certificate", own.pem()),
        key: write("key", key.serialize_pem()),
        authority: write("authority", authority.pem()),
    }
}

#[test]
fn both_sides_prove_who_they_are() {
    let collection = Collection::new(&documents(20), &[10], &[], &IndexOptions::new());
    let all: Vec<(u32, &Path)> =
        (0..).zip(collection.shards.iter().map(PathBuf::as_path)).collect();
    let ours = certificates(collection.folder.path(), "ours");
    let others = certificates(collection.folder.path(), "others");
    let node = Running::start_with(&all, ours.clone());
    let connect = |security: Security| {
        let options = AggregatorOptions::new(vec![node.address.clone()], 2);
        Cluster::connect(AggregatorOptions { security, ..options })
    };
    let cluster = connect(ours.clone()).unwrap();
    assert_eq!(of_cluster(&cluster, strict("fig plum")), of_one(&collection, "fig plum", 20));
    // A client without a certificate, one with a certificate of another authority, and one that
    // trusts another authority.
    let no_node = |security| matches!(connect(security), Err(ClusterError::NoNodes(_)));
    assert!(no_node(Security::default()));
    assert!(no_node(Security { authority: ours.authority.clone(), ..others.clone() }));
    assert!(no_node(Security { authority: others.authority, ..ours }));
}

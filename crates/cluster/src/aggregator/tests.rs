//! Tests of the aggregator with nodes in this process, some of which misbehave.

use std::path::Path;

use tonic::{Code, Status};
use warpseek::{Document, Index, IndexOptions};

use super::*;
use crate::node::{ClusterNode, NodeOptions, NodeService};
use crate::protocol::{
    self, Answer, DescribeRequest, DescribeResponse, FrequenciesRequest, FrequenciesResponse,
    Input, SearchRequest, SearchResponse, Shards, ShardsServer,
};
use crate::serve::{NodeServer, runtime};

fn requests(n: usize) -> Vec<ClusterRequest> {
    let deadline = Some(Duration::from_secs(1));
    vec![ClusterRequest { deadline, ..ClusterRequest::new("fig") }; n]
}

/// Builds an index of these texts.
fn index(folder: &Path, name: &str, texts: &[&str]) -> PathBuf {
    let dir = folder.join(name);
    let index = Index::create_with(&dir, IndexOptions::new()).unwrap();
    let mut writer = index.writer().unwrap();
    for (number, text) in texts.iter().enumerate() {
        writer.add(Document::new(number.to_string(), "", *text)).unwrap();
    }
    writer.commit().unwrap();
    dir
}

#[test]
fn the_time_of_a_cohort_begins_when_it_is_sent() {
    let runtime = runtime().unwrap();
    const COHORT: usize = 64;
    let all = requests(3 * COHORTS * COHORT);
    let answer = |cohort: &[ClusterRequest], start: Instant| {
        let requests = cohort.len();
        async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            vec![(start, Instant::now()); requests]
        }
    };
    let times = runtime.block_on(by_cohort(&all, None, COHORT, answer));
    assert_eq!(times.len(), all.len());
    let cohorts: Vec<_> = times.iter().step_by(COHORT).collect();
    // A cohort that had to wait for another one to finish started no earlier than that.
    let mut pairs = cohorts.iter().zip(&cohorts[COHORTS..]);
    assert!(pairs.all(|((_, ended), (begun, _))| begun >= ended));
    let start = Instant::now();
    let times = runtime.block_on(by_cohort(&all, Some(start), COHORT, answer));
    assert!(times.iter().all(|(begun, _)| *begun == start));
}

#[test]
fn a_look_at_the_nodes_does_not_outlast_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let node = Arc::new(ClusterNode::new(NodeOptions::default()));
    node.replace(0, 1, &index(folder.path(), "before", &["fig"])).unwrap();
    let server =
        NodeServer::start(node.clone(), "127.0.0.1:0", Security::default(), false).unwrap();
    let address = server.address().to_string();
    let (end, ended) = oneshot::channel::<()>();
    let serving = std::thread::spawn(move || {
        server.run_until(async {
            let _ = ended.await;
        })
    });
    runtime().unwrap().block_on(async {
        let hour = Duration::from_secs(3600);
        let options =
            AggregatorOptions { look_every: hour, ..AggregatorOptions::new(vec![address], 1) };
        let aggregator = Aggregator::connect(options).await.unwrap();
        // Statistics have to be collected again, and a task that holds the lock keeps this
        // one waiting.
        node.replace(0, 1, &index(folder.path(), "after", &["fig", "plum"])).unwrap();
        let look = aggregator.0.looking.lock().await;
        let deadline = Some(Duration::from_secs(3));
        let request = ClusterRequest { deadline, ..ClusterRequest::new("fig") };
        let answer = aggregator.search(request.clone()).await;
        assert!(matches!(answer, Err(ClusterError::Unsettled)), "{answer:?}");
        drop(look);
        let request = ClusterRequest { deadline: Some(hour), ..request };
        assert_eq!(aggregator.search(request).await.unwrap().coverage.documents, 2);
    });
    drop(end);
    serving.join().unwrap().unwrap();
}

#[test]
fn requests_of_a_cohort_are_alike() {
    let mut all = requests(3);
    all[1].allow_partial = false;
    all[2].deadline = None;
    let answer = |cohort: &[ClusterRequest], _: Instant| {
        std::future::ready(vec![cohort.len(); cohort.len()])
    };
    let sizes = runtime().unwrap().block_on(by_cohort(&all, None, 64, answer));
    assert_eq!(sizes, [1, 1, 1]);
}

/// A node whose calls are counted, and whose searches may be changed.
struct Stub {
    node: NodeService,
    seen: Arc<Seen>,
    behaviour: Behaviour,
}

/// The behaviour of a stub that receives a message of several queries. It answers messages of one
/// query.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Answers,
    /// It refuses the queries with this text and answers the others.
    RefusesQuery(&'static str),
    /// It refuses messages that contain this text.
    RefusesMessage(&'static str),
    /// It searches nothing until the deadline of the message.
    SearchesNothing,
}

#[derive(Default)]
struct Seen {
    frequencies: Mutex<Vec<usize>>,
    searches: Mutex<Vec<usize>>,
}

impl Shards for Stub {
    async fn describe(&self, request: DescribeRequest) -> Result<DescribeResponse, Status> {
        self.node.describe(request).await
    }

    async fn frequencies(
        &self,
        request: FrequenciesRequest,
    ) -> Result<FrequenciesResponse, Status> {
        locked(&self.seen.frequencies).push(request.terms.len());
        self.node.frequencies(request).await
    }

    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, Status> {
        locked(&self.seen.searches).push(request.queries.len());
        let has = |query: &protocol::Query, text: &str| matches!(&query.input, Some(Input::Text(own)) if own == text);
        let (queries, limit) = (request.queries.clone(), request.deadline);
        let mut found = self.node.search(request).await?;
        match self.behaviour {
            _ if queries.len() == 1 => {}
            Behaviour::Answers => {}
            Behaviour::RefusesQuery(text) => {
                for (answer, query) in found.answers.iter_mut().zip(&queries) {
                    if has(query, text) {
                        let (failure, reason) = (Code::ResourceExhausted as u32, "late".into());
                        *answer = Answer { failure, reason, ..Answer::default() };
                    }
                }
            }
            Behaviour::RefusesMessage(text) => {
                if queries.iter().any(|query| has(query, text)) {
                    return Err(Status::invalid_argument("a query is wrong"));
                }
            }
            Behaviour::SearchesNothing => {
                tokio::time::sleep(Duration::from_micros(limit)).await;
                found.answers.fill_with(Answer::default);
            }
        }
        Ok(found)
    }
}

/// Calls a function with an aggregator of one stub with two shards, and with what the stub saw.
fn with_stub<F: Future<Output = ()>>(
    behaviour: Behaviour,
    test: impl FnOnce(Aggregator, Arc<Seen>) -> F,
) {
    let folder = tempfile::tempdir().unwrap();
    let node = Arc::new(ClusterNode::new(NodeOptions::default()));
    for (shard, texts) in [(0, ["fig plum", "fig"]), (1, ["plum pear", "pear fig fig"])] {
        node.replace(shard, 1, &index(folder.path(), &shard.to_string(), &texts)).unwrap();
    }
    let seen = Arc::<Seen>::default();
    let stub = Stub { node: NodeService(node), seen: seen.clone(), behaviour };
    runtime().unwrap().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tonic::transport::Server::builder().add_service(ShardsServer::new(stub));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let serving = tokio::spawn(server.serve_with_incoming(incoming));
        let hour = Duration::from_secs(3600);
        let options = AggregatorOptions {
            look_every: hour,
            cache: 0,
            ..AggregatorOptions::new(vec![address], 2)
        };
        test(Aggregator::connect(options).await.unwrap(), seen).await;
        serving.abort();
    });
}

/// Sends requests one after the other and returns the answers.
async fn one_by_one(
    aggregator: &Aggregator,
    requests: &[ClusterRequest],
) -> Vec<Arc<ClusterResponse>> {
    let mut answers = Vec::new();
    for request in requests {
        answers.push(aggregator.search(request.clone()).await.unwrap());
    }
    answers
}

fn texts(texts: &[&str]) -> Vec<ClusterRequest> {
    texts.iter().map(|text| ClusterRequest::new(*text)).collect()
}

#[test]
fn statistics_are_fetched_once_for_a_cohort() {
    with_stub(Behaviour::Answers, |aggregator, seen| async move {
        let mut requests = texts(&["fig plum", "plum pear", "fig pear", "pear"]);
        let hour = Duration::from_secs(3600);
        for (request, hours) in requests.iter_mut().zip([10, 19, 200, 1000]) {
            request.deadline = Some(hours * hour);
        }
        let together = aggregator.search_at_once(requests.clone()).await;
        // Each shard gets one call for all three words. The deadlines need three messages.
        assert_eq!(*locked(&seen.frequencies), [3, 3]);
        let mut searches = std::mem::take(&mut *locked(&seen.searches));
        searches.sort_unstable();
        assert_eq!(searches, [1, 1, 1, 1, 2, 2]);
        for (together, alone) in together.iter().zip(one_by_one(&aggregator, &requests).await) {
            assert_eq!(**together.as_ref().unwrap(), *alone);
            assert!(alone.coverage.is_complete());
        }
    });
}

#[test]
fn a_query_that_a_node_refuses_is_asked_again_alone() {
    let requests = texts(&["fig plum", "pear", "fig", "plum pear"]);
    for behaviour in [Behaviour::RefusesQuery("pear"), Behaviour::RefusesMessage("pear")] {
        with_stub(behaviour, |aggregator, seen| {
            let requests = requests.clone();
            async move {
                let together = aggregator.search_at_once(requests.clone()).await;
                let mut searches = std::mem::take(&mut *locked(&seen.searches));
                let alone = one_by_one(&aggregator, &requests).await;
                for (together, alone) in together.iter().zip(alone) {
                    assert_eq!(**together.as_ref().unwrap(), *alone, "{behaviour:?}");
                    assert!(alone.coverage.is_complete());
                }
                // The others are not asked one at a time, unless the message was refused.
                let wanted: &[usize] = match behaviour {
                    Behaviour::RefusesQuery(_) => &[4, 4, 1, 1],
                    _ => &[4, 4, 2, 2, 2, 2, 1, 1, 1, 1],
                };
                // Both halves of a message are sent at the same time.
                searches.sort_unstable_by_key(|&queries| std::cmp::Reverse(queries));
                assert_eq!(searches, wanted, "{behaviour:?}");
            }
        });
    }
}

#[test]
fn an_answer_that_another_deadline_cuts_short_is_asked_for_again() {
    with_stub(Behaviour::SearchesNothing, |aggregator, seen| async move {
        let mut requests = texts(&["fig", "fig plum"]);
        // The first message ends after two seconds, and the second query has nearly two more.
        requests[0].deadline = Some(Duration::from_secs(2));
        requests[1].deadline = Some(Duration::from_millis(3900));
        requests[1].allow_partial = true;
        let answers = aggregator.search_at_once(requests.clone()).await;
        assert_eq!(answers[0].as_ref().unwrap().coverage.searched, 0);
        let second = answers[1].as_ref().unwrap();
        assert!(second.coverage.is_complete());
        assert_eq!(*locked(&seen.searches), [2, 2, 1, 1]);
        assert_eq!(**second, *one_by_one(&aggregator, &requests[1..]).await[0]);
    });
}

//! Collections, whole and divided into shards, and nodes that serve them in this process.

// Each test target uses some of these functions.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use warpseek::{Document, Index, IndexOptions, Searcher};
use warpseek_cluster::{
    AggregatorOptions, Cluster, ClusterError, ClusterNode, NodeOptions, NodeServer, Security,
};

/// A node that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) node: Arc<ClusterNode>,
    pub(crate) address: String,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ClusterError>>>,
}

impl Running {
    /// Starts a node with these shards, all of version 1.
    pub(crate) fn start(shards: &[(u32, &Path)]) -> Self {
        Self::start_with(shards, Security::default())
    }

    pub(crate) fn start_with(shards: &[(u32, &Path)], security: Security) -> Self {
        let options = NodeOptions { threads: Some(1), ..NodeOptions::default() };
        let node = Arc::new(ClusterNode::new(options));
        for (number, dir) in shards {
            node.replace(*number, 1, dir).unwrap();
        }
        let server = NodeServer::start(node.clone(), "127.0.0.1:0", security, false).unwrap();
        let address = server.address().to_string();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            server.run_until(async {
                let _ = ended.await;
            })
        });
        Running { node, address, end: Some(end), thread: Some(thread) }
    }

    /// Stops the node and waits for its end.
    pub(crate) fn stop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A proxy between an aggregator and a node that can hold back all data.
pub(crate) struct Between {
    pub(crate) address: String,
    pub(crate) holds: Arc<AtomicBool>,
}

impl Between {
    pub(crate) fn new(node: &str) -> Self {
        let (listener, node) = (TcpListener::bind("127.0.0.1:0").unwrap(), node.to_owned());
        let address = listener.local_addr().unwrap().to_string();
        let holds = Arc::new(AtomicBool::new(false));
        let held = holds.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&node).unwrap());
                let ends = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
                for (from, to) in ends {
                    let (mut from, mut to, held) = (from.unwrap(), to.unwrap(), held.clone());
                    std::thread::spawn(move || {
                        let mut bytes = [0; 1 << 14];
                        while let Ok(n @ 1..) = from.read(&mut bytes) {
                            while held.load(Ordering::Relaxed) {
                                std::thread::sleep(Duration::from_millis(5));
                            }
                            if to.write_all(&bytes[..n]).is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        });
        Between { address, holds }
    }
}

/// Connects an aggregator to nodes.
pub(crate) fn cluster(nodes: &[Running], shards: u32) -> Cluster {
    let nodes = nodes.iter().map(|node| node.address.clone()).collect();
    Cluster::connect(AggregatorOptions::new(nodes, shards)).unwrap()
}

/// Builds an index of documents with one commit for each part, and deletes ids afterwards.
pub(crate) fn index(dir: &Path, options: &IndexOptions, parts: &[&[Document]], deleted: &[String]) {
    let index = Index::create_with(dir, options.clone()).unwrap();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let mut writer = index.writer().unwrap();
        for document in *part {
            writer.add(document.clone()).unwrap();
        }
        writer.commit().unwrap();
    }
    let mut writer = index.writer().unwrap();
    deleted.iter().for_each(|id| writer.delete(id.clone()));
    if !deleted.is_empty() {
        writer.commit().unwrap();
    }
}

/// A collection as one index and as shards.
pub(crate) struct Collection {
    pub(crate) whole: Searcher,
    pub(crate) shards: Vec<PathBuf>,
    pub(crate) folder: TempDir,
}

impl Collection {
    /// Builds a collection of these documents, divided at `cuts`.
    pub(crate) fn new(
        documents: &[Document],
        cuts: &[usize],
        deleted: &[String],
        options: &IndexOptions,
    ) -> Self {
        let folder = TempDir::new().unwrap();
        let (whole, middle) = (folder.path().join("whole"), documents.len() / 3);
        let (first, second) = documents.split_at(middle);
        index(&whole, options, &[first, second], deleted);
        let mut edges = vec![0];
        edges.extend(cuts);
        edges.push(documents.len());
        let mut shards = Vec::new();
        for (number, edge) in edges.windows(2).enumerate() {
            let dir = folder.path().join(format!("shard{number}"));
            let part = &documents[edge[0]..edge[1]];
            let own: Vec<String> = part
                .iter()
                .map(|document| document.id.clone())
                .filter(|id| deleted.contains(id))
                .collect();
            let (first, second) = part.split_at(part.len() / 2);
            index(&dir, options, &[first, second], &own);
            shards.push(dir);
        }
        Collection { whole: Index::open(&whole).unwrap().searcher().unwrap(), shards, folder }
    }

    /// Starts nodes that each have all shards.
    pub(crate) fn nodes(&self, replicas: usize) -> Vec<Running> {
        let all: Vec<(u32, &Path)> = (0..).zip(self.shards.iter().map(PathBuf::as_path)).collect();
        (0..replicas).map(|_| Running::start(&all)).collect()
    }

    /// Starts a node for each shard.
    pub(crate) fn node_each(&self) -> Vec<Running> {
        let start = |(number, dir): (u32, &PathBuf)| Running::start(&[(number, dir)]);
        (0..).zip(&self.shards).map(start).collect()
    }
}

/// Creates documents of a few words each, which depend only on their numbers.
pub(crate) fn documents(n: usize) -> Vec<Document> {
    const WORDS: [&str; 10] =
        ["fig", "plum", "pear", "tart", "cake", "bun", "kiwi", "lime", "corn", "rice"];
    let word = |i: usize, j: usize| WORDS[(i * 7 + j * j * 3 + i * j) % (3 + i % 8)];
    let text = |i: usize| (0..1 + i % 6).map(|j| word(i, j)).collect::<Vec<_>>().join(" ");
    (0..n).map(|i| Document::new(format!("d{i}"), "", text(i))).collect()
}

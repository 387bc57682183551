//! What an aggregator knows of a collection: its version, shards, who has them, and the statistics that were gathered.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpseek::{Searcher, Statistics, read_settings};

use crate::error::ClusterError;
use crate::peer::Peer;
use crate::{proto, wire};

/// Terms whose frequencies are kept. When there are more, all are forgotten, and the frequent ones soon come back.
const MAX_TERMS: usize = 1 << 20;

/// One version of the collection, and who answers for each of its shards now.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) epoch: Arc<Epoch>,
    /// By shard.
    pub(crate) replicas: Arc<Vec<Vec<Arc<Peer>>>>,
}

/// The documents of a collection: as long as they are the same, so are statistics and answers.
pub(crate) struct Epoch {
    pub(crate) version: u64,
    /// By number; none is known of shards that no node ever had.
    pub(crate) shards: Vec<Option<ShardInfo>>,
    /// Reads and plans queries as the shards do.
    pub(crate) searcher: Searcher,
    terms: Mutex<HashMap<(u8, String), u64>>,
}

/// What is known of a shard.
#[derive(Clone)]
pub(crate) struct ShardInfo {
    pub(crate) id: proto::Shard,
    /// Documents, deleted ones included.
    pub(crate) documents: u64,
    /// Those that are not deleted.
    pub(crate) live: u64,
    pub(crate) fields: Vec<Statistics>,
    settings: Vec<u8>,
}

impl ShardInfo {
    fn of(description: &proto::ShardDescription) -> Option<Self> {
        let fields = wire::fields(&description.fields);
        Some(ShardInfo {
            id: description.shard?,
            documents: description.documents,
            live: description.live,
            fields,
            settings: description.settings.clone(),
        })
    }
}

impl View {
    /// Puts together what nodes say of themselves. The newest version of which all shards are there is taken; until there is one, the version so far, or else the one with the most shards.
    pub(crate) fn of(
        peers: &[Arc<Peer>],
        shards: u32,
        before: Option<&View>,
    ) -> Result<Self, ClusterError> {
        let mut known: Vec<(Arc<Peer>, bool, ShardInfo)> = Vec::new();
        for peer in peers {
            let (described, reachable) = peer.described();
            for info in described.iter().filter_map(ShardInfo::of) {
                if info.id.number >= shards {
                    let (node, shard) = (peer.address.clone(), info.id.number);
                    return Err(ClusterError::ShardNumber { node, shard, shards });
                }
                known.push((peer.clone(), reachable, info));
            }
        }
        let Some(version) = version(&known, shards, before) else {
            let reasons = peers.iter().map(|peer| match peer.reason() {
                Some(reason) => format!("{}: {reason}", peer.address),
                None => format!("{}: it has no shards", peer.address),
            });
            return Err(ClusterError::NoNodes(reasons.collect::<Vec<_>>().join("; ")));
        };
        known.retain(|(_, _, info)| info.id.version == version);
        let before = before.filter(|before| before.epoch.version == version);
        let of_shard = |number: u32| {
            let last = before.and_then(|before| before.epoch.shards[number as usize].as_ref());
            shard(&known, number, last)
        };
        let infos: Vec<Option<ShardInfo>> = (0..shards).map(of_shard).collect();
        let replicas = infos.iter().map(|info| {
            let Some(info) = info else { return Vec::new() };
            let of = known.iter().filter(|(_, _, other)| other.id == info.id);
            of.map(|(peer, _, _)| peer.clone()).collect()
        });
        let replicas = Arc::new(replicas.collect());
        let ids = |infos: &[Option<ShardInfo>]| -> Vec<Option<proto::Shard>> {
            infos.iter().map(|info| info.as_ref().map(|info| info.id)).collect()
        };
        let epoch = match before {
            Some(before) if ids(&before.epoch.shards) == ids(&infos) => before.epoch.clone(),
            _ => Arc::new(Epoch::new(version, infos)?),
        };
        Ok(View { epoch, replicas })
    }
}

/// The version to take.
fn version(
    known: &[(Arc<Peer>, bool, ShardInfo)],
    shards: u32,
    before: Option<&View>,
) -> Option<u64> {
    let mut there: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for (_, reachable, info) in known {
        let of = there.entry(info.id.version).or_default();
        if *reachable {
            of.insert(info.id.number);
        }
    }
    let whole = there.iter().rev().find(|(_, numbers)| numbers.len() == shards as usize);
    let so_far = before.map(|before| before.epoch.version);
    let most = there.iter().max_by_key(|(version, numbers)| (numbers.len(), **version));
    whole.map(|(version, _)| *version).or(so_far).or(most.map(|(version, _)| *version))
}

/// What a shard is: as so far, if a node that is there still has it, or else what most nodes have.
fn shard(
    known: &[(Arc<Peer>, bool, ShardInfo)],
    number: u32,
    last: Option<&ShardInfo>,
) -> Option<ShardInfo> {
    let of: Vec<_> = known.iter().filter(|(_, _, info)| info.id.number == number).collect();
    let there = |id: proto::Shard| {
        of.iter().filter(|(_, reachable, info)| *reachable && info.id == id).count()
    };
    if let Some(last) = last
        && (there(last.id) > 0 || of.iter().all(|(_, reachable, _)| !reachable))
    {
        return Some(last.clone());
    }
    of.iter()
        .map(|(_, _, info)| info)
        .max_by_key(|info| (there(info.id), info.id.snapshot))
        .cloned()
}

impl Epoch {
    fn new(version: u64, shards: Vec<Option<ShardInfo>>) -> Result<Self, ClusterError> {
        let mut infos = shards.iter().flatten();
        let Some(first) = infos.next() else {
            return Err(ClusterError::NoNodes("no shard is known".to_owned()));
        };
        if let Some(other) = infos.find(|info| info.settings != first.settings) {
            let (shard, other) = (other.id.number, first.id.number);
            return Err(ClusterError::Settings { shard, other, version });
        }
        let settings = read_settings(&first.settings).map_err(|what| {
            ClusterError::Setup(format!("the settings of shard {}: {what}", first.id.number))
        })?;
        let searcher = Searcher::without_documents(&settings)?;
        Ok(Epoch { version, shards, searcher, terms: Mutex::default() })
    }

    fn terms(&self) -> MutexGuard<'_, HashMap<(u8, String), u64>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of live documents of the whole collection with each term, as far as it is known.
    pub(crate) fn frequencies(&self, of: &[(u8, String)]) -> Vec<Option<u64>> {
        let terms = self.terms();
        of.iter().map(|term| terms.get(term).copied()).collect()
    }

    /// Keeps frequencies over all shards.
    pub(crate) fn keep(&self, of: impl IntoIterator<Item = ((u8, String), u64)>) {
        let mut terms = self.terms();
        if terms.len() > MAX_TERMS {
            terms.clear();
        }
        terms.extend(of);
    }

    /// The number that the first document of a shard has in the collection; none if a shard before it is not known.
    pub(crate) fn base(&self, shard: u32) -> Option<u64> {
        self.shards.get(..shard as usize)?.iter().map(|of| of.as_ref().map(|of| of.documents)).sum()
    }
}
